#!/bin/sh
# The compiler with repaired defects in it, each off until LITTORAL_MUTANT names it: what cargo calls as
# RUSTC_WORKSPACE_WRAPPER, so that dependencies are shared with the ordinary build.
compiler=$1
shift
exec "$compiler" "$@" --cfg mutants
