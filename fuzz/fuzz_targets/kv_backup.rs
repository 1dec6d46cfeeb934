//! Backups of ordered stores, a whole one with edits: any answer but a panic, and what was
//! verified is read again in full.
//!
//! Each edit is written into header or chunk as it is; where the input's first byte is odd, both
//! are sealed again, so that the checks behind the checksums are reached.
//!
//! Canary: before the first input the whole file must be read in full and one flipped bit refused.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_base::codec::seal;
use littoral_index::backup::Backup;

const HEADER_BYTES: usize = 64;

static WHOLE: LazyLock<(tempfile::TempDir, Vec<u8>)> = LazyLock::new(|| {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/index/tests/fixtures/v1/zb.kvbak");
    let whole = std::fs::read(path).expect("a committed backup");
    let dir = tempfile::tempdir().expect("a folder");
    assert!(records(&dir, &whole).is_some_and(|n| n > 40), "canary: the whole file is read");
    let mut damaged = whole.clone();
    damaged[HEADER_BYTES + 9] ^= 1;
    assert!(records(&dir, &damaged).is_none(), "canary: a flipped bit is refused");
    (dir, whole)
});

/// How many records a file gives out, if it is taken.
fn records(dir: &tempfile::TempDir, bytes: &[u8]) -> Option<u64> {
    let path = dir.path().join("backup");
    std::fs::write(&path, bytes).expect("a folder that can be written");
    let backup = Backup::open(&path).ok()?;
    let mut count = 0;
    let note = |key: &[u8], value: &[u8]| {
        assert_eq!((key.len(), value.len()), (backup.key_bytes, backup.value_bytes));
        count += 1;
        Ok(())
    };
    backup.for_each(note).expect("what was verified is read again");
    assert_eq!(count, backup.records);
    Some(count)
}

fuzz_target!(|data: &[u8]| {
    let (dir, whole) = &*WHOLE;
    let Some((first, edits)) = data.split_first() else { return };
    let mut bytes = littoral_fuzz::edited(whole, edits);
    if first % 2 == 1 {
        let (header, chunk) = bytes.split_at_mut(HEADER_BYTES);
        seal(header, 0);
        seal(chunk, 1);
    }
    records(dir, &bytes);
});
