//! A map kept across `kill -9`: run it, kill it, run it again, and it goes on counting.
//!
//! `keep [FILE]`. What was printed as acknowledged is in the file, whatever happens next.

use std::io::Write;
use std::path::Path;

use littoral_device::pmem::Msync;
use littoral_stm::structures::{HashMap, Map};
use littoral_stm::{Options, Pool, Restart};

pub(crate) fn count_for_ever(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let pool = match path.exists() {
        true => Pool::open(Msync::open(path)?, Restart::Lazy)?,
        false => Pool::create(Msync::create(path, 4 << 20)?, &Options::default())?,
    };
    let mut thread = pool.thread()?;
    let map = thread.atomically(|tx| match tx.root("counts")? {
        Some(at) => HashMap::open(tx, at),
        None => {
            let map = HashMap::create(tx, 64)?;
            tx.set_root("counts", map.at()).map(|()| map)
        }
    })?;
    loop {
        let n = thread.atomically(|tx| {
            let n = map.get(tx, 0)?.unwrap_or(0) + 1;
            map.insert(tx, n, n * n)?;
            map.insert(tx, 0, n).map(|_| n)
        })?;
        writeln!(std::io::stdout(), "ack {n}")?;
    }
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    count_for_ever(Path::new(&std::env::args().nth(1).unwrap_or("keep.pool".to_owned())))
}
