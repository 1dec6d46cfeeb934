#!/usr/bin/env bash
# Jobs that mpirun starts: builds crates/dsm-mpi against the installed MPI, runs its tests and an example with 1, 2 and 4
# ranks in both ways and at every level of threads, kills a rank, and measures beside MPI's own operations (printed, no
# limit).
#
# Ends with code 3 where MPI is missing and cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v mpicc >/dev/null || ! command -v mpirun >/dev/null; then
    as=()
    [ "$(id -u)" = 0 ] || as=(sudo -n)
    "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        libopenmpi-dev openmpi-bin >/dev/null 2>&1 || true
    command -v mpicc >/dev/null && command -v mpirun >/dev/null ||
        { echo "MPI is missing: install libopenmpi-dev and openmpi-bin"; exit 3; }
fi

target=${CARGO_TARGET_DIR:-$PWD/target}/dsm-mpi
cargo=(--locked --manifest-path crates/dsm-mpi/Cargo.toml --target-dir "$target" --release)
cargo fmt --manifest-path crates/dsm-mpi/Cargo.toml --check
cargo clippy "${cargo[@]}" --all-targets -- -D warnings
cargo test "${cargo[@]}"
cargo build "${cargo[@]}" --examples
rows=$target/release/examples/rows
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
out=$folder/out

options=()
if mpirun --version | grep -q 'Open MPI'; then
    # More ranks than processors, as root or not.
    options=(--oversubscribe --bind-to none)
    [ "$(id -u)" != 0 ] || options+=(--allow-run-as-root)
fi
ranks() { # NUMBER PROGRAM ARGUMENTS...
    local n=$1
    shift
    timeout 300 mpirun -n "$n" "${options[@]}" "$@"
}

"$rows" >"$out" 2>&1 && grep -q 'rows on 1 ranks: rank 0 agrees' "$out" || { cat "$out"; exit 1; }
for way in auto messages; do
    for n in 1 2 4; do
        LITTORAL_MPI_CARRIER=$way ranks "$n" "$rows" >"$out" 2>&1 || { cat "$out"; exit 1; }
        grep -q "rows on $n ranks: rank 0 agrees" "$out" || { cat "$out"; exit 1; }
    done
done
for level in serialized funneled; do
    export LITTORAL_MPI_THREADS=$level LITTORAL_MPI_CARRIER=messages
    ranks 2 "$rows" 20000 5 >"$out" 2>&1 || { cat "$out"; exit 1; }
    grep -q 'rows on 2 ranks: rank 0 agrees' "$out" || { cat "$out"; exit 1; }
done
export LITTORAL_MPI_THREADS=single
if ranks 2 "$rows" >"$out" 2>&1 || ! grep -q 'MPI gives MPI_THREAD_SINGLE' "$out"; then
    # An MPI may give more than was asked for.
    grep -q 'rows on 2 ranks: rank 0 agrees' "$out" || { cat "$out"; exit 1; }
fi
unset LITTORAL_MPI_THREADS LITTORAL_MPI_CARRIER

# Kills rank 1 of two. --enable-recovery leaves it to the job to notice, and mpirun then ends with code 0; without it
# mpirun ends the others itself.
killed() { # WORDS OPTION...
    local words=$1 victim='' code=0 job
    shift
    timeout 300 mpirun -n 2 "${options[@]}" "$@" "$rows" 20000 100000000 >"$out" 2>&1 &
    job=$!
    until [ -n "$victim" ]; do
        kill -0 "$job" || { cat "$out"; exit 1; }
        sleep 0.2
        for environment in /proc/[0-9]*/environ; do
            pid=${environment#/proc/} pid=${pid%/environ}
            # Of this call alone, and once it has had a second of processor time.
            [ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$rows" ] || continue
            tr '\0' '\n' 2>/dev/null <"$environment" | grep -qx 'OMPI_COMM_WORLD_RANK=1' || continue
            [ "$(awk '{print $14 + $15}' "/proc/$pid/stat")" -lt 100 ] || victim=$pid
        done
    done
    kill -KILL "$victim"
    wait "$job" || code=$?
    [ "$code" != 0 ] || [ $# -gt 0 ] || { echo "mpirun ends with code 0"; cat "$out"; exit 1; }
    grep -qE "$words" "$out" || { echo "no word on the killed rank $victim:"; cat "$out"; exit 1; }
    grep -E "$words" "$out" | head -n 1
}
if [ ${#options[@]} -gt 0 ]; then
    for way in auto messages; do
        export LITTORAL_MPI_CARRIER=$way
        killed 'rank 1 \(process [0-9]+\) died' --enable-recovery
        killed 'rank 1 \(process [0-9]+\) died|process rank 1 .* exited on signal 9'
    done
    unset LITTORAL_MPI_CARRIER
fi

for operation in section barrier; do
    echo "$operation, nanoseconds: tenth percentile, median"
    ranks 2 "$target/release/examples/littoral-mpi-beside" "$operation" 40 500
done
echo "jobs by mpirun agree with one process, and say who died"
