#!/bin/sh
# Writes the package graph of the Debian (or derived) release this machine is configured for, as a
# tab-separated edge list that `littoral graph import` reads:
#
#     scripts/packages.sh [OUT]        (OUT: packages.tsv.zst; gzip when zstd is missing)
#     littoral graph import packages.tsv.zst packages.lg
#
# Needs: apt-cache (run `apt-get update` once before), awk, sort, zstd or gzip. Reads nothing else and
# changes nothing. The output depends on the package index alone: the same index gives the same bytes.
#
# One line an edge: package, depends_on, kind.
#   kind   is `depends`, `pre-depends` or `recommends`, the strongest where a pair has several
#          (pre-depends, then depends, then recommends). Suggests and the negative relations are left out.
#   a line stands for "package names depends_on": version restrictions "(>= 1.2)", architecture
#          qualifiers ":any" and restriction lists are stripped; of alternatives "a | b" each is an edge,
#          since either may be what is installed; packages that are only named, virtual ones among
#          them, are vertices too. A package depending on itself is kept (the importer removes loops).
#   of several versions of a package in the index all relations are taken together.
#
# Source: the control fields Package, Depends, Pre-Depends and Recommends of the Debian archive's
# package index (https://www.debian.org/), which are facts about the packages; descriptions are not
# taken. Debian is a registered trademark of Software in the Public Interest, Inc.
set -eu
LC_ALL=C
export LC_ALL

out=${1:-packages.tsv.zst}
command -v apt-cache >/dev/null 2>&1 || {
    echo "packages.sh: no apt-cache here; the graph in examples/ was made on a Debian machine" >&2
    exit 3
}
if command -v zstd >/dev/null 2>&1; then
    pack="zstd -q -19 -c"
else
    pack="gzip -9 -n -c"
    case $out in *.zst) out=${out%.zst}.gz ;; esac
fi

release=unknown
if [ -r /etc/os-release ]; then
    release=$(. /etc/os-release && echo "${PRETTY_NAME:-unknown}")
fi

part=$out.partial
trap 'rm -f "$part" "$part.edges"' EXIT
trap 'exit 130' INT TERM

apt-cache dumpavail | awk '
function relations(text, rank,    i, j, n, m, group, choice, name) {
    n = split(text, group, ",")
    for (i = 1; i <= n; i++) {
        m = split(group[i], choice, "|")
        for (j = 1; j <= m; j++) {
            name = choice[j]
            sub(/^[ \t]+/, "", name)
            sub(/([ \t(:<]|\[).*$/, "", name)
            if (name != "") print package "\t" name "\t" rank
        }
    }
}
function field(    value) {
    value = $0
    sub(/^[^:]*:[ \t]*/, "", value)
    return value
}
/^Package:/     { package = $2; next }
/^Pre-Depends:/ { relations(field(), 1); next }
/^Depends:/     { relations(field(), 2); next }
/^Recommends:/  { relations(field(), 3); next }
' | sort -t "$(printf '\t')" -k1,1 -k2,2 -k3,3n >"$part.edges"

[ -s "$part.edges" ] || {
    echo "packages.sh: the package index is empty; run apt-get update first" >&2
    exit 3
}

{
    printf '# Package relations of %s\n# ids: text\npackage\tdepends_on\tkind\n' "$release"
    awk -F '\t' '
    BEGIN { kind[1] = "pre-depends"; kind[2] = "depends"; kind[3] = "recommends" }
    $1 "\t" $2 != last { print $1 "\t" $2 "\t" kind[$3]; last = $1 "\t" $2 }' "$part.edges"
} | $pack >"$part"
mv "$part" "$out"
echo "wrote $out" >&2
