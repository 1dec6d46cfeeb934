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
# Outside a clean checkout (a change under test) the packages describe what is in the folder.
cargo package --workspace --exclude littoral-tidy --exclude littoral-testing --locked --allow-dirty --quiet "${verify[@]}"

failed=0 made=0
for crate in $(cargo metadata --no-deps --locked --format-version 1 |
    grep -oE '"id":"[^"]*","license' | sed -E 's|.*/([a-z0-9-]+)#.*|\1|'); do
    case $crate in tidy | testing) continue ;; esac
    name=littoral-$crate
    [ "$crate" = littoral ] && name=littoral
    package=$(ls -t "$target/package/$name"-[0-9]*.crate | head -n 1)
    listed=$(tar -tzf "$package")
    for file in README.md LICENSE-MIT LICENSE-APACHE Cargo.toml; do
        grep -q "/$file\$" <<<"$listed" || { echo "$name: its package lacks $file"; failed=1; }
    done
    bytes=$(stat -c %s "$package")
    [ "$bytes" -le 1048576 ] || { echo "$name: its package has $bytes bytes, more than 1 MiB"; failed=1; }
    made=$((made + 1))
done
echo "$made packages in $target/package"
[ "$made" -ge 13 ] || { echo "packages are missing: 13 crates are to be published"; failed=1; }
exit "$failed"
