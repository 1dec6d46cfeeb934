//! The committed header is what cbindgen makes of the sources.

#![allow(clippy::unwrap_used)]

use std::path::Path;

#[test]
fn the_header_is_what_the_sources_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let sources = ["src/raw/pmem.rs", "src/raw/pool.rs"];
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = sources.iter().fold(builder, |b, source| b.with_src(root.join(source)));
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let committed = root.join("include/littoral.h");
    if std::env::var_os("LITTORAL_BLESS").is_some() {
        std::fs::write(&committed, &made).unwrap();
    }
    let found = std::fs::read(&committed).unwrap_or_default();
    let advice = "run `LITTORAL_BLESS=1 cargo test -p littoral-capi --test header` and commit it";
    assert!(found == made, "{} is old; {advice}", committed.display());
}
