# Sourced: `standard` becomes what cargo needs for LoongArch's standard library, nothing where rustup has it.
# Fails where rustup has neither it nor its sources.
standard=()
if ! rustup target list --installed | grep -qx loongarch64-unknown-linux-gnu &&
    ! rustup target add loongarch64-unknown-linux-gnu >/dev/null 2>&1; then
    rustup component add rust-src >/dev/null 2>&1 || return 1
    # Stable Rust takes the option only so.
    export RUSTC_BOOTSTRAP=1
    standard=(-Z build-std=std)
fi
