#!/usr/bin/env bash
# The book with the design pages in it, as HTML: book.sh [OUT], by default target/book.
#
# In the repository a page links to files beside the book (design pages, ARCHITECTURE.md), so that its
# links work where people browse the source. mdBook builds one folder only, so the sources are put
# together in one first, with those links made to match. Needs mdbook (`cargo install mdbook`).
set -euo pipefail
cd "$(dirname "$0")/.."
command -v mdbook >/dev/null || { echo "mdbook is needed: cargo install mdbook"; exit 3; }
out=$(mkdir -p "${1:-target/book}" && cd "${1:-target/book}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cp -r docs/book/. "$work"
src=$work/src
cp docs/design/*.md "$src/design/"
cp docs/glossary.md docs/dependencies.md docs/decisions.md docs/style.md "$src/"
cp ARCHITECTURE.md "$src/architecture.md"
cp -r crates/papers/targets "$src/"

# From a page of a folder of the book: ../../../design/X.md is now a neighbour's page.
find "$src" -mindepth 2 -name '*.md' -exec sed -i -E \
    -e 's#\]\(\.\./\.\./\.\./design/#](../design/#g' \
    -e 's#\]\(\.\./\.\./\.\./(glossary|dependencies|decisions|style)\.md#](../\1.md#g' \
    -e 's#\]\(\.\./\.\./\.\./\.\./ARCHITECTURE\.md#](../architecture.md#g' \
    -e 's#\]\(\.\./\.\./\.\./\.\./crates/papers/targets#](../targets#g' {} +
# From the map: what is in the book is linked, the rest of the tree is named only.
sed -i -E \
    -e 's#\]\(docs/book/src/#](#g' -e 's#\]\(docs/design\)#](design/index.md)#g' \
    -e 's#\]\(docs/(glossary|dependencies|decisions|style)\.md#](\1.md#g' \
    -e 's#\[([^]]*)\]\((crates/[^)]*)\)#\1#g' "$src/architecture.md"

{
    printf -- '- [The map](architecture.md)\n- [Glossary](glossary.md)\n'
    printf -- '- [Decisions](decisions.md)\n- [Style](style.md)\n'
    printf -- '- [Dependencies](dependencies.md)\n\n# Design pages\n\n'
    for page in "$src"/design/*.md; do
        [ "$(basename "$page")" = index.md ] && continue
        printf -- '- [%s](design/%s)\n' "$(sed -n 's/^# //p;T;q' "$page")" "$(basename "$page")"
    done
} >>"$src/SUMMARY.md"

mdbook build -d "$out" "$work"

# A link that leads nowhere ends the build: mdBook itself does not look.
dead=0
while IFS=: read -r page link; do
    case $link in http | https | mailto) continue ;; esac
    [ -e "$(dirname "$page")/$link" ] || { echo "dead link: ${page#"$out"/} -> $link"; dead=1; }
done < <(grep -oE 'href="[^"#:?]+' -r "$out" --include='*.html' --exclude=print.html \
    --exclude=404.html --exclude=toc.html | sed 's/href="//')
exit $dead
