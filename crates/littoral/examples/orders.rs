//! An ordered store on zoned flash: orders by time, a range of them, a change, an end.
//!
//! The store lives in a directory, on the sparse file `zones` there. A put is durable when
//! `sync` has returned; the next opening finds every record that was.
//!
//! Run: `cargo run -p littoral --example orders`
#![allow(clippy::print_stdout)] // an example prints

use littoral::kv::{self, Access, New};

/// Keys order as numbers do when they are big-endian.
fn key(second: u64) -> [u8; 8] {
    second.to_be_bytes()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let at = folder.path().join("orders");
    let new = New { value_bytes: 16, id: 7, ..New::default() };
    let mut store = kv::create(&at, &new)?;
    for second in 0..1000u64 {
        let value = format!("{:>12} EUR", second * 7 % 100);
        store.put(&key(second), value.as_bytes())?;
    }
    store.delete(&key(500))?;
    store.sync()?;
    drop(store);

    let store = kv::open(&at, Access::Read)?;
    assert_eq!(store.get(&key(500))?, None);
    println!("orders from second 498 on:");
    store.scan(Some(&key(498)), Some(&key(502)), |time, value| {
        let time = time.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        println!("  {time} {}", String::from_utf8_lossy(value));
        true
    })?;
    Ok(())
}
