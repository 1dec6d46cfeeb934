#!/usr/bin/env bash
# Looks at a report page as a reader would: report-look.sh [PAGE.html [OUT]], by default the page that
# the tests of littoral-bench make, and target/look.
#
# Headless Chromium draws the page at the width of a phone (390) and of a desk (1280), light and dark,
# into OUT/*.png, and this script checks in the drawn page that
# - the body is never wider than the window (what is wider scrolls inside itself);
# - no SVG holds text, which would shrink with the drawing;
# - a verdict stands before the first table;
# - dark and light differ, and each has at least 4.5 to 1 between ink and paper.
# Ends with 3 where there is no Chromium (Debian's package is `chromium`).
set -euo pipefail
page=${1:+$(readlink -f "$1")}
cd "$(dirname "$0")/.."
out=$(mkdir -p "${2:-target/look}" && cd "${2:-target/look}" && pwd)
if [ -z "$page" ]; then
    page=$out/page.html
    # Of the whole workspace, as the other tests are: one package alone would be built with other features.
    LITTORAL_REPORT_PAGE=$page cargo test --locked -q --lib report::tests >/dev/null
fi
[ -r "$page" ] || { echo "no such page: $page" >&2; exit 2; }
browser=
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && { browser=$name; break; }
done
[ -n "$browser" ] || { echo "!! NOT RUN: no Chromium here (Debian: apt-get install chromium)"; exit 3; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The page as it is, framed at a width: a window has a smallest width that is wider than a phone. The
# frame's script measures the page and leaves the figures in the outer document.
frame() { # WIDTH
    cat <<HTML
<!DOCTYPE html><meta charset="utf-8"><style>body{margin:0}iframe{border:0;width:$1px;height:3000px}</style>
<iframe id="f" src="file://$work/page.html"></iframe><pre id="r"></pre><script>
f.onload = () => {
  const d = f.contentDocument, root = d.documentElement, style = f.contentWindow.getComputedStyle(d.body);
  const light = (rgb) => { const c = rgb.match(/[0-9.]+/g).slice(0, 3).map(v => v / 255)
    .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * c[0] + .7152 * c[1] + .0722 * c[2]; };
  const [a, b] = [light(style.color), light(style.backgroundColor)].sort((x, y) => y - x);
  const first = d.querySelector('.answer'), table = d.querySelector('table');
  r.textContent = 'window=' + root.clientWidth + ' content=' + Math.max(root.scrollWidth, d.body.scrollWidth) +
    ' svgtext=' + d.querySelectorAll('svg text').length + ' paper=' + style.backgroundColor.replace(/ /g, '') +
    ' contrast=' + ((a + .05) / (b + .05)).toFixed(2) + ' verdict=' +
    (first && (!table || first.compareDocumentPosition(table) & 4) ? 'first' : 'late');
};
</script>
HTML
}

draw() { # SCHEME WIDTH: a picture, and the figures on standard output
    frame "$2" >"$work/frame.html"
    local flags=(--headless --no-sandbox --disable-gpu --disable-background-networking --disable-sync
        --no-first-run --hide-scrollbars --allow-file-access-from-files "--user-data-dir=$work/profile"
        --virtual-time-budget=4000 "--window-size=$2,3000")
    # The frame takes the outer window's colour scheme.
    [ "$1" = light ] || flags+=(--enable-features=WebContentsForceDark:none --blink-settings=preferredColorScheme=0)
    [ "$1" = dark ] || flags+=(--blink-settings=preferredColorScheme=1)
    timeout 120 "$browser" "${flags[@]}" "--screenshot=$out/$1-$2.png" "file://$work/frame.html" >"$work/log" 2>&1 ||
        { cat "$work/log" >&2; return 1; }
    timeout 120 "$browser" "${flags[@]}" --dump-dom "file://$work/frame.html" 2>/dev/null |
        grep -o 'window=[0-9][^<]*' | head -n 1
}

cp "$page" "$work/page.html"
failed=0
fail() { echo "  $*"; failed=1; }
declare -A paper
for scheme in light dark; do
    for width in 390 1280; do
        said=$(draw "$scheme" "$width") || { echo "$scheme $width: the page was not drawn"; exit 1; }
        echo "$scheme $width: $said"
        get() { sed -E "s/.*$1=([^ ]*).*/\1/" <<<"$said"; }
        [ "$(get content)" -le "$(get window)" ] || fail "the body is wider than the window"
        [ "$(get svgtext)" -eq 0 ] || fail "an SVG holds text"
        [ "$(get verdict)" = first ] || fail "no verdict before the first table"
        awk -v c="$(get contrast)" 'BEGIN{exit !(c >= 4.5)}' || fail "too little contrast"
        paper[$scheme]=$(get paper)
    done
done
[ "${paper[light]}" != "${paper[dark]}" ] || fail "dark looks like light"
echo "pictures in $out"
exit "$failed"
