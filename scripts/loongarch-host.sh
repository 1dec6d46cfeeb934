#!/usr/bin/env bash
# [PROFILE=NAME] [PEERS=DIR [LITTORAL=COMMAND]] loongarch-host.sh [DIR]
#
# Builds the command `xlate` for LoongArch Linux, without shared libraries and without a cross compiler, and has
# it translate and execute the x86-64 and MIPS64 programs of crates/xlate/tests: under the engine of this workspace
# (`la64 run`), which has the binary translation assists, and under QEMU's user mode (qemu-loongarch64), which has
# none. The tests compare output and status with what the host or the program's text says. Then prints for some
# programs how many LoongArch instructions `la64 run` counts for the whole of it, translating included, beside
# those of LoongArch's own qemu-x86_64 for the same program.
#
# With PEERS, a folder that crates/la64-linux/scripts/oracles.sh has filled, the fifteen jobs of Debian's amd64
# programs too: how many are right, and the instructions of both (the claim latx.selfhosted). They run on the
# engine of COMMAND, a `littoral` that is there, else on that of a release build.
#
# DIR (target/loongarch-host) keeps what is unpacked and built. The linker is Debian's for loong64, and so is the C
# library; both are unpacked and not installed. The standard library is rustup's for the target, or made from its
# sources, or Debian's with its compiler. PROFILE is Cargo's (release unless given). Ends with 3 where one of these
# cannot be had, with 1 at a difference.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-${CARGO_TARGET_DIR:-target}/loongarch-host}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
target=loongarch64-unknown-linux-gnu
profile=${PROFILE:-release}
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

# GNU's linker: lld leaves calls of weak symbols that are nowhere out of reach in a program that lies so high.
linker=$tools/../amd64/usr/bin/loongarch64-linux-gnu-ld
libraries=$tools/../amd64/usr/lib/x86_64-linux-gnu
[ -x "$linker" ] || lack "the linker for loong64 could not be unpacked, see $folder/tools.log"
# The parts of a C program without a compiler to name them; the archive of the C library comes after the first.
cat >"$folder/link" <<END
#!/bin/sh
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$linker" "$library/crt1.o" "$library/crti.o" \
    "$begin" "-L$library" "-L$runtime" "\$@" "$runtime/crtend.o" "$library/crtn.o"
END
chmod +x "$folder/link"

built_by=
. scripts/loongarch-std.sh || {
    built_by=$(scripts/loongarch-rustc.sh "$folder/rust" 2>"$folder/rust.log") ||
        lack "no standard library for $target, and Debian's compiler could not be unpacked, see $folder/rust.log"
}
echo "xlate for $target${standard[*]:+, with the standard library from its sources}${built_by:+, by the compiler of Debian}"
# A guest has the first 5 TiB of addresses, so the program lies above them.
env ${built_by:+RUSTC="$built_by"} CARGO_TARGET_LOONGARCH64_UNKNOWN_LINUX_GNU_LINKER="$folder/link" \
    CARGO_TARGET_LOONGARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C target-feature=+crt-static -C relocation-model=static -C linker-flavor=ld -C link-arg=-Ttext-segment=0x100000000000" \
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
# In weak order tier 0 interprets, and would take minutes.
slow=(--skip programs_do_the_same_in_weak_order)
programs "$la64 run $xlate" "${slow[@]}"
echo "the same under qemu-loongarch64"
# It starts programs by the host's kernel, which does not know those of LoongArch.
children=(--skip a_childs_calls_are_named --skip children_are_translated --skip programs_do_the_same_without_lbt)
# A child by vfork has memory of its own there.
children+=(--skip children_and_programs_of_a_program_that_steps)
# It reads the name of a message queue from the byte before it on.
queues=(--skip timers_and_queues_send_the_guests_signals)
programs "$tools/qemu-loongarch64 $xlate" "${slow[@]}" "${children[@]}" "${queues[@]}"

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

[ -n "${PEERS:-}" ] || exit 0
echo "fifteen jobs of Debian's amd64 programs on this xlate, beside LoongArch's own qemu-x86_64"
cp "$xlate" "$PEERS/guestjit/loong64/usr/bin/xlate"
littoral=(${LITTORAL:-cargo run --locked -q --release -p littoral-cli --bin littoral --})
"${littoral[@]}" repro latx --only latx.selfhosted --peers "$PEERS"
