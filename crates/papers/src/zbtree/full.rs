//! `kv.full`: a store whose host file system is full takes deletions, and room comes back.

use littoral_assure::index::host_full::{Case, host_full, words};
use littoral_index::index::Engine;

use super::figures::Measured;
use littoral_bench::claims::Figure;
use littoral_bench::error::{Error, Kind, Result};

/// The claim: one when both trees were served.
///
/// # Errors
/// `Kind::Environment` when a store cannot be made.
pub fn claim(seed: u64) -> Result<Vec<Measured>> {
    let failed = |e| Error::with_source(Kind::Environment, "a store on a full host", e);
    let folder = tempfile::tempdir();
    let folder =
        folder.map_err(|e| Error::with_source(Kind::Environment, "a temporary folder", e))?;
    let (mut is_served, mut notes) = (true, Vec::new());
    for engine in [Engine::Zb, Engine::Cow] {
        let told = host_full(&folder.path().join(engine.name()), engine, Case::SMALL, seed)
            .map_err(failed)?;
        is_served &= told.is_served();
        notes.push(words(engine, &told));
    }
    let value = f64::from(u8::from(is_served));
    Ok(vec![("kv.full".to_owned(), Figure::new(value, notes.join("; ")))])
}
