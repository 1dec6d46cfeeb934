#!/usr/bin/env bash
# Compares answers of near storage with those of DuckDB's Python package, which is installed in a
# virtual environment of its own. Ends with 3 when Python, pip or the package is missing.
#
# VENV is the virtual environment (target/duckdb-venv).
# usage: scripts/duckdb.sh
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
venv=${VENV:-$PWD/target/duckdb-venv}
if [ ! -x "$venv/bin/pip" ] && ! "$python" -m venv "$venv" >/dev/null; then
    echo "a virtual environment with pip is needed; install python3-venv"
    exit 3
fi
if ! "$venv/bin/python" -c 'import duckdb' 2>/dev/null && ! "$venv/bin/pip" install --quiet duckdb; then
    echo "pip cannot install duckdb"
    exit 3
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Of the whole workspace: one package alone would be built with other features.
LITTORAL_PYTHON="$venv/bin/python" cargo test --locked --test push_duckdb 2>&1 | tee "$log"
# The test passes without a peer, and says so.
! grep -q 'NOT COMPARED' "$log"
