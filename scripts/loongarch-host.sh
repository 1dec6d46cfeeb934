#!/usr/bin/env bash
# [PROFILE=NAME] loongarch-host.sh [DIR]
#
# Builds the command `xlate` for LoongArch Linux, without shared libraries and without a cross compiler, and has
# it translate and run the x86-64 and MIPS64 programs of crates/xlate/tests: under the engine of this workspace
# (`la64 run`) and under QEMU's user mode (qemu-loongarch64). The tests compare output and status with what the host
# or the program's text says. Then prints for some programs how many LoongArch instructions `la64 run` counts for the
# whole of it, translating included, beside those of LoongArch's own qemu-x86_64 for the same program.
#
# DIR (target/loongarch-host) keeps what is unpacked and built. Linking is rust-lld's, the C library Debian's for
# loong64, unpacked and not installed. The standard library is rustup's for the target, or made from its sources.
# PROFILE is Cargo's (dev unless given). Ends with 3 where one of these cannot be had, with 1 at a difference.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-${CARGO_TARGET_DIR:-target}/loongarch-host}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
target=loongarch64-unknown-linux-gnu
profile=${PROFILE:-dev}
built=$profile
[ "$profile" != dev ] || built=debug
scripts=crates/la64-linux/scripts

lack() { # WHAT
    echo "!! NOT RUN: $*"
    exit 3
}

tools=$("$scripts/qemu-user.sh" "$folder/tools" 2>"$folder/tools.log") ||
    lack "QEMU's user mode could not be unpacked, see $folder/tools.log"
for version in 16 15 17; do
    if "$scripts/sid-unpack.sh" "$folder/libc" loong64 libc6-dev "libgcc-$version-dev" >"$folder/libc.log" 2>&1; then
        break
    fi
done
library=$folder/libc/loong64/usr/lib/loongarch64-linux-gnu
begin=$(find "$folder/libc/loong64/usr/lib/gcc" -name crtbeginT.o 2>/dev/null | sort | tail -n 1)
[ -f "$library/libc.a" ] && [ -n "$begin" ] || lack "the C library for loong64 could not be unpacked, see $folder/libc.log"
runtime=$(dirname "$begin")

lld=$(find "$(rustc --print sysroot)/lib/rustlib" -name rust-lld -path '*/bin/*' | head -n 1)
[ -n "$lld" ] || lack "this Rust has no rust-lld"
# The parts of a C program without a compiler to name them; the archive of the C library comes after the first.
cat >"$folder/link" <<END
#!/bin/sh
exec "$lld" -flavor gnu "$library/crt1.o" "$library/crti.o" "$begin" "-L$library" "-L$runtime" "\$@" \
    "$runtime/crtend.o" "$library/crtn.o"
END
chmod +x "$folder/link"

. scripts/loongarch-std.sh || lack "neither the standard library for $target nor its sources"
echo "xlate for $target${standard[*]:+, with the standard library from its sources}"
env CARGO_TARGET_LOONGARCH64_UNKNOWN_LINUX_GNU_LINKER="$folder/link" \
    CARGO_TARGET_LOONGARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C target-feature=+crt-static -C relocation-model=static -C linker-flavor=ld" \
    cargo build --locked -q --profile "$profile" "${standard[@]}" --target "$target" --target-dir "$folder/build" \
    -p littoral-xlate --bin xlate
unset RUSTC_BOOTSTRAP
xlate=$folder/build/$target/$built/xlate
cargo build --locked -q -p littoral-la64-linux --bin la64
la64=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/debug/la64

programs() { # COMMAND OPTIONS...
    local command=$1
    shift
    LITTORAL_XLATE=$command cargo test --locked -q -p littoral-xlate --test x86_programs --test mips64_programs -- "$@"
}
echo "the programs of crates/xlate/tests under la64 run"
# They repeat most of the programs; the interpreter would take minutes for them.
slow=(--skip programs_do_the_same)
programs "$la64 run $xlate" "${slow[@]}"
echo "the same under qemu-loongarch64"
# A timer every 100 us leaves an interpreter under QEMU no time.
slow+=(--skip a_program_that_is_stopped_anywhere_computes_the_same)
# It starts programs by the host's kernel, which does not know those of LoongArch.
children=(--skip a_childs_calls_are_named --skip children_are_translated)
programs "$tools/qemu-loongarch64 $xlate" "${slow[@]}" "${children[@]}"

counted() { # COMMAND...: LoongArch instructions under la64 run, 0 if the command does not end as it should
    local said
    said=$(timeout 300 "$la64" run --stats "$@" 2>&1 >/dev/null) || true
    sed -n 's/^la64: \([0-9]*\) instructions retired.*/\1/p' <<<"$said" | tail -n 1 | grep . || echo 0
}
emulator=$folder/emulator/loong64/usr/bin/qemu-x86_64
[ -x "$emulator" ] || "$scripts/sid-unpack.sh" "$folder/emulator" loong64 qemu-user >"$folder/emulator.log" 2>&1 ||
    lack "LoongArch's own qemu-x86_64 could not be unpacked, see $folder/emulator.log"
mkdir -p "$folder/programs"
for program in write counted writes; do
    file=$folder/programs/$program
    cc -O2 -nostdlib -ffreestanding -mno-sse -fno-stack-protector -fcf-protection=none -fno-asynchronous-unwind-tables \
        -static -fno-pie -no-pie -o "$file" "crates/xlate/tests/x86_programs/$program.c"
    ours=$(counted "$xlate" run "$file")
    theirs=$(counted "$emulator" "$file")
    [ "$ours" -gt 0 ] && [ "$theirs" -gt 0 ] || { echo "$program was not counted: $ours, $theirs"; exit 1; }
    printf 'latx.selfhosted %s: %s instructions, qemu-x86_64 %s, ratio %s\n' "$program" "$ours" "$theirs" \
        "$(awk "BEGIN {printf \"%.2f\", $ours / $theirs}")"
done
