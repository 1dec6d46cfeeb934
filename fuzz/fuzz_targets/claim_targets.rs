//! Targets files of claims, raw and as edits of a shipped one: any answer but a panic.
//!
//! Canary: before the first input every shipped file must be taken and a misspelt field refused.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_bench::claims::Targets;

/// The shortest shipped file first.
static SHIPPED: LazyLock<Vec<String>> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/papers/targets");
    let entries = std::fs::read_dir(folder).expect("the shipped targets");
    let paths = entries.map(|e| e.expect("an entry").path());
    let mut texts: Vec<String> =
        paths.map(|p| std::fs::read_to_string(p).expect("a text")).collect();
    texts.sort_by_key(String::len);
    assert!(texts.len() >= 5 && texts.iter().all(|t| read(t)), "canary: shipped targets");
    assert!(!read(&texts[0].replacen("unit", "unti", 1)), "canary: an unknown field");
    texts
});

fn read(text: &str) -> bool {
    let Ok(targets) = Targets::parse(text) else { return false };
    for claim in &targets.claims {
        assert!(std::ptr::eq(targets.get(&claim.id), claim), "{} is found", claim.id);
    }
    true
}

fuzz_target!(|data: &[u8]| {
    littoral_fuzz::text(&SHIPPED[0], data).map(|text| read(&text));
});
