#!/usr/bin/env bash
# Builds the page functions in C with clang 19 and lld 19 of Debian 12 and compares the ELF files and
# their hashes with the committed ones. `--write` replaces the committed files.
#
# The linker is called by itself: the compiler's driver would link with the host's gcc.
set -euo pipefail
cd "$(dirname "$0")/../crates/push/functions"
clang=${CLANG:-clang-19} lld=${LLD:-ld.lld-19}
for tool in "$clang" "$lld"; do
    if ! command -v "$tool" >/dev/null; then
        echo "skipped: $tool is missing; apt-get install clang-19 lld-19" >&2
        exit 3
    fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for source in *.c; do
    name=${source%.c}
    "$clang" --target=loongarch64-unknown-none -O2 -std=c11 -Wall -Wextra -Werror -ffreestanding \
        -fno-builtin -mno-lsx -mno-lasx -c "$source" -o "$work/$name.o"
    "$lld" -static --no-pie --build-id=none -e page -o "$work/$name.elf" "$work/$name.o"
done
(cd "$work" && sha256sum -- *.elf) >"$work/SHA256SUMS"
if [ "${1:-}" = --write ]; then
    cp "$work"/*.elf "$work/SHA256SUMS" .
    exit 0
fi
for built in "$work"/*.elf "$work/SHA256SUMS"; do
    if ! cmp "$built" "$(basename "$built")"; then
        echo "$(basename "$built") differs from the committed file: run $0 --write" >&2
        exit 1
    fi
done
sha256sum --check --quiet SHA256SUMS
echo "page functions in C: $(ls -- *.elf | wc -l) files equal, byte for byte"
