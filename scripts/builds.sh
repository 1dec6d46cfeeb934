#!/usr/bin/env bash
# Checks the builds that the ordinary suite does not make:
# - the facade with no feature and with each one alone;
# - the workspace with the oldest Rust that the manifest promises (rust-version);
# - the workspace for aarch64 Linux, where no x86-64 code exists (`cargo check`: nothing is linked or run);
# - the translators and user mode for LoongArch Linux, where programs run too (scripts/loongarch-host.sh runs them).
# Ends with 3 where rustup can install neither a toolchain nor a target.
set -euo pipefail
cd "$(dirname "$0")/.."
other=aarch64-unknown-linux-gnu

features=$(sed -n '/^\[features\]/,/^\[/s/^\([a-z0-9-]*\) = .*/\1/p' crates/littoral/Cargo.toml | grep -v '^default$')
# Clippy, since it refuses what the compiler warns of.
echo "the facade without features"
cargo clippy --locked -q -p littoral --no-default-features -- -D warnings
echo "the LoongArch engine without its translator"
cargo clippy --locked -q -p littoral-la64 --no-default-features -- -D warnings
for feature in $features; do
    echo "the facade with $feature alone"
    cargo clippy --locked -q -p littoral --no-default-features --features "$feature" -- -D warnings
done

oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if rustc --version | grep -qE "^rustc ${oldest//./\\.}(\.|-| )"; then
    echo "Rust $oldest, the oldest that is promised, builds everything here"
elif rustup toolchain install "$oldest" --profile minimal >/dev/null 2>&1; then
    echo "the workspace with Rust $oldest"
    cargo "+$oldest" check --locked -q --workspace --all-targets
else
    echo "!! NOT RUN: Rust $oldest could not be installed"
    exit 3
fi

if ! rustup target list --installed | grep -qx "$other" && ! rustup target add "$other" >/dev/null 2>&1; then
    echo "!! NOT RUN: the standard library for $other could not be installed"
    exit 3
fi
echo "the workspace for $other"
# Nothing is linked, so the C code of dependencies may be compiled for this machine where no cross compiler is.
command -v aarch64-linux-gnu-gcc >/dev/null || export "CC_${other//-/_}=cc" CRATE_CC_NO_DEFAULTS=1
RUSTFLAGS="-D warnings" cargo check --locked -q --workspace --target "$other"

loongarch=loongarch64-unknown-linux-gnu
. scripts/loongarch-std.sh ||
    { echo "!! NOT RUN: neither the standard library for $loongarch nor its sources could be installed"; exit 3; }
echo "the translators and user mode for $loongarch"
RUSTFLAGS="-D warnings" cargo check --locked -q "${standard[@]}" --target "$loongarch" \
    --target-dir "${CARGO_TARGET_DIR:-target}/loongarch64" -p littoral-xlate -p littoral-la64-linux
