#!/usr/bin/env bash
# Packages every crate that is to be published, in one workspace-wide run: package.sh [--verify].
#
# Without an argument the packages are made and their contents checked (both licences, a readme,
# nothing above 1 MiB); this takes seconds. With --verify cargo also builds each crate from its
# package against the packages of the others, as a registry's user would; this takes minutes.
# The packages lie in target/package.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
verify=(--no-verify)
case ${1:-} in
--verify) verify=() ;;
'') ;;
*) echo "usage: package.sh [--verify]" >&2; exit 2 ;;
esac
# Which crates are published is what their manifests say.
mapfile -t published < <(grep -L '^publish = false' crates/*/Cargo.toml)
[ "${#published[@]}" -gt 0 ] || { echo "no manifest of crates/ is of a published crate"; exit 1; }
# Packages of an earlier run would hide one that is not made any more.
rm -f "$target"/package/littoral*.crate
# Outside a clean checkout (a change under test) the packages describe what is in the folder.
cargo package --workspace --exclude littoral-tidy --exclude littoral-testing --locked --allow-dirty --quiet "${verify[@]}"

failed=0 made=0
for manifest in "${published[@]}"; do
    name=$(sed -n 's/^name = "\(.*\)"/\1/p' "$manifest" | head -n 1)
    package=$(find "$target/package" -maxdepth 1 -name "$name-[0-9]*.crate")
    [ -f "$package" ] || { echo "$name: its package is missing"; failed=1; continue; }
    listed=$(tar -tzf "$package")
    for file in README.md LICENSE-MIT LICENSE-APACHE Cargo.toml; do
        grep -q "/$file\$" <<<"$listed" || { echo "$name: its package lacks $file"; failed=1; }
    done
    bytes=$(stat -c %s "$package")
    [ "$bytes" -le 1048576 ] || { echo "$name: its package has $bytes bytes, more than 1 MiB"; failed=1; }
    made=$((made + 1))
done
echo "$made of ${#published[@]} packages in $target/package"
exit "$failed"
