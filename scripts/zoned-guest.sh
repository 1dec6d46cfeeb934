#!/usr/bin/env bash
# Zoned block devices of a real kernel beside the model, in a virtual machine (plain emulation).
#
# Debian's cloud kernel is taken from the mirror that this machine's apt is configured with and
# unpacked, never installed. The guest's only program is guest/, built statically: it runs the same
# seeded requests on null_blk, scsi_debug and an NVMe namespace of zones, and on the model.
# Needs apt-get, dpkg-deb and qemu-system-x86_64. Ends with 0 when everything was equal, with 3 when
# something that it needs is missing, which is said.
# usage: scripts/zoned-guest.sh [FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
work=${1:-$target/zoned-guest}
lack() { echo "zoned guest: $*" >&2; exit 3; }
for tool in qemu-system-x86_64 apt-get apt-cache dpkg-deb; do
    command -v "$tool" >/dev/null || lack "$tool is missing"
done

mkdir -p "$work"
if ! ls "$work"/kernel/boot/vmlinuz-* >/dev/null 2>&1; then
    package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null |
        sed -n 's/^ *Depends: \(linux-image-[0-9].*-cloud-amd64\)$/\1/p' | head -n 1)
    [ -n "$package" ] || lack "apt knows no cloud kernel; apt-get update?"
    rm -rf "$work/deb" "$work/kernel.new"
    mkdir -p "$work/deb"
    (cd "$work/deb" && apt-get download -q -o APT::Sandbox::User=root "$package" >/dev/null) ||
        lack "$package could not be downloaded"
    dpkg-deb -x "$work"/deb/*.deb "$work/kernel.new"
    find "$work/kernel.new" -name '*.ko.xz' -exec xz -d {} +
    rm -rf "$work/deb" "$work/kernel"
    mv "$work/kernel.new" "$work/kernel"
fi
kernel=$(ls "$work"/kernel/boot/vmlinuz-* | head -n 1)
modules=$(find "$work/kernel" -type d -path '*/modules/*/kernel' | head -n 1)

host=x86_64-unknown-linux-gnu
RUSTFLAGS="-C target-feature=+crt-static" CARGO_TARGET_DIR="$target-guest" \
    cargo build --release --quiet --locked --manifest-path guest/Cargo.toml --target "$host"
"$target-guest/$host/release/littoral-guest" pack "$work/initramfs" "$modules"

rm -f "$work/ordinary.img" "$work/zones.img"
truncate -s 64M "$work/ordinary.img" "$work/zones.img"
begin=$SECONDS
timeout 600 qemu-system-x86_64 -machine q35 -accel tcg -cpu max -m 512 -nographic -no-reboot \
    -kernel "$kernel" -initrd "$work/initramfs" -append "console=ttyS0 panic=-1 quiet" \
    -device nvme,serial=littoral,id=nvme0 \
    -drive "file=$work/ordinary.img,if=none,id=ordinary,format=raw" \
    -device nvme-ns,drive=ordinary,bus=nvme0,nsid=1,logical_block_size=4096,physical_block_size=4096 \
    -drive "file=$work/zones.img,if=none,id=zones,format=raw" \
    -device "nvme-ns,drive=zones,bus=nvme0,nsid=2,logical_block_size=4096,physical_block_size=4096,zoned=true,zoned.zone_size=4M,zoned.zone_capacity=3M,zoned.max_open=6,zoned.max_active=8" \
    </dev/null >"$work/console" 2>&1 || true
rm -f "$work/ordinary.img" "$work/zones.img" "$work/initramfs"
grep -a '^GUEST' "$work/console" || true
echo "zoned guest: $((SECONDS - begin)) s in the machine"
if ! grep -aq '^GUEST PASSED' "$work/console"; then
    tail -n 30 "$work/console" >&2
    exit 1
fi
