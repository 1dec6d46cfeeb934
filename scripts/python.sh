#!/usr/bin/env bash
# Builds the wheel of crates/python, installs it in a virtual environment and runs all of its tests:
# unit tests, docstring examples, stubs against the extension, and networkx's own tests of the covered
# functions on the backend. Ends with 3 when Python 3.10 or pip is missing.
#
# With `claims` it then installs igraph and duckdb too and runs scripts/python-claims.py.
#
# PROFILE=dev builds without optimisation; VENV is the virtual environment (target/python-venv).
# usage: scripts/python.sh [claims]
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    echo "Python 3.10 or newer is needed; install python3 or name one by PYTHON"
    exit 3
fi
venv=${VENV:-$PWD/target/python-venv}
if [ ! -x "$venv/bin/pip" ] && ! "$python" -m venv "$venv" >/dev/null; then
    echo "a virtual environment with pip is needed; install python3-venv"
    exit 3
fi
if ! "$venv/bin/pip" install --quiet 'maturin>=1.7,<2' numpy scipy pandas polars pyarrow networkx pytest mypy; then
    echo "pip cannot install maturin, numpy and what the tests compare with"
    exit 3
fi

cd crates/python
wheels=${CARGO_TARGET_DIR:-target}/wheels
rm -f "$wheels"/littoral-*.whl
PATH="$venv/bin:$PATH" maturin build --locked --quiet --profile "${PROFILE:-release}" --out "$wheels"
"$venv/bin/pip" install --quiet --force-reinstall --no-deps "$wheels"/littoral-*.whl

echo "== tests and docstring examples"
installed=$("$venv/bin/python" -c 'import pathlib, littoral; print(pathlib.Path(littoral.__file__).parent)')
"$venv/bin/python" -m pytest -q tests
"$venv/bin/python" -m pytest -q --doctest-modules --import-mode=importlib -o addopts= "$installed"

echo "== stubs against the extension module"
"$venv/bin/python" -m mypy.stubtest littoral._littoral

echo "== networkx's own tests of the covered functions on the backend"
# Its hook lives in its top conftest.py; what the backend declines is then expected to fail.
cd "$("$venv/bin/python" -c 'import pathlib, networkx; print(pathlib.Path(networkx.__file__).parent)')"
log=$(mktemp)
NETWORKX_TEST_BACKEND=littoral "$venv/bin/python" -m pytest -q -p no:cacheprovider --rootdir . --confcutdir . \
    algorithms/link_analysis/tests/test_pagerank.py algorithms/tests/test_cluster.py \
    algorithms/tests/test_core.py algorithms/components/tests/test_connected.py \
    algorithms/components/tests/test_weakly_connected.py \
    algorithms/centrality/tests/test_betweenness_centrality.py \
    algorithms/shortest_paths/tests/test_unweighted.py | tee "$log"
grep -q '[0-9] passed, [0-9]* xfailed' "$log" || { echo "networkx's hook did not choose the backend"; exit 1; }

if [ "${1:-}" = claims ]; then
    echo "== claims"
    "$venv/bin/pip" install --quiet igraph duckdb || echo "igraph or duckdb is missing: their claims are skipped"
    cd "$root"
    "$venv/bin/python" scripts/python-claims.py
fi
