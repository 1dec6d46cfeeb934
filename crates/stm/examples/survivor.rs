//! A map that outlives kill -9: run it, kill it, run it again; it goes on where it was.
//!
//! `cargo run -p littoral-stm --example survivor -- counts.pool`

use littoral_device::pmem::Msync;
use littoral_stm::structures::{HashMap, Map};
use littoral_stm::{Options, Pool, Restart};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "counts.pool".to_owned());
    let path = std::path::Path::new(&path);
    let pool = match path.exists() {
        true => Pool::open(Msync::open(path)?, Restart::Lazy)?,
        false => Pool::create(Msync::create(path, 8 << 20)?, &Options::default())?,
    };
    let mut thread = pool.thread()?;
    let map = thread.atomically(|tx| match tx.root("counts")? {
        Some(at) => HashMap::open(tx, at),
        None => {
            let map = HashMap::create(tx, 1000)?;
            tx.set_root("counts", map.at())?;
            Ok(map)
        }
    })?;
    let rounds = std::env::args().nth(2).map_or(Ok(u64::MAX), |n| n.parse())?;
    for _ in 0..rounds {
        let n = thread.atomically(|tx| {
            let n = map.get(tx, 0)?.unwrap_or(0) + 1;
            map.insert(tx, n, n * n)?;
            map.insert(tx, 0, n)?;
            Ok(n)
        })?;
        std::io::Write::write_all(&mut std::io::stdout(), format!("{n}\n").as_bytes())?;
    }
    Ok(())
}
