//! `store.flip.*` and `store.hostile.panics`: what damaged and forged stores answer.
//!
//! - Four stores: each tree, closed and as a kill leaves it. One bit in every 64 bytes that the
//!   device shows is flipped, the file's header and zone records among them.
//! - *Repaired* is the share of flipped images that either answer right or of which repair saves
//!   every record and invents none.
//! - Forged images carry valid checksums: fields of headers, records, superblocks, redo parts and
//!   pages are changed and sealed again. Every sixteenth is written to as well.
//! - A panic is caught and counted; its message is on standard error.

use std::path::{Path, PathBuf};

use littoral_assure::index::damage::{Flips, Sample};
use littoral_index::index::Engine;

use super::figures::Measured;
use littoral_bench::claims::Figure;
use littoral_bench::error::{Error, Kind, Result};

/// One bit in so many bytes.
const STRIDE: u64 = 64;
/// Records of the stores that images are forged from.
const FORGED_RECORDS: u32 = 160;

fn failed(e: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::with_source(Kind::BadResult, "a sample store", e)
}

/// The four stores.
fn samples(folder: &Path, records: u32, seed: u64) -> Result<Vec<Sample>> {
    let kinds = [Engine::Zb, Engine::Cow].into_iter().flat_map(|e| [(e, true), (e, false)]);
    let create = |(engine, is_closed): (Engine, bool)| {
        let path = folder.join(format!("{}-{is_closed}", engine.name()));
        Sample::create(&path, engine, records, is_closed, seed).map_err(failed)
    };
    kinds.map(create).collect()
}

/// A folder of this run, removed at its end.
struct Folder(PathBuf);

impl Folder {
    /// In memory where the system has such a place: the stores are flushed at every change.
    fn create(name: &str) -> Result<Folder> {
        let shared = Path::new("/dev/shm");
        let base = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let path = base.join(format!("littoral-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(failed)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left for the system's own cleaning.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The three claims of flipped bits.
///
/// # Errors
/// `Kind::BadResult` when a store cannot be made or its file not be changed.
pub fn flips(seed: u64, records: u32) -> Result<Vec<Measured>> {
    let folder = Folder::create("flips")?;
    let (mut all, mut bytes) = (Flips::default(), 0);
    for sample in samples(&folder.0, records, seed)? {
        bytes += sample.shown_bytes();
        all.add(&sample.flip_every(STRIDE, 1).map_err(failed)?);
    }
    let first = all.first.clone().unwrap_or_else(|| "none".to_owned());
    let note = format!(
        "{} bits flipped in {bytes} bytes of four stores: {} answered right, {} refused; first that \
         was wrong or not repaired: {first}",
        all.flips, all.right, all.refused
    );
    let share = all.repaired as f64 / all.flips.max(1) as f64;
    let figures = [("wrong", all.wrong as f64), ("panics", all.panics as f64), ("repaired", share)];
    let figure = |(name, value)| (format!("store.flip.{name}"), Figure::new(value, note.clone()));
    Ok(figures.into_iter().map(figure).collect())
}

/// Forged images, a quarter of them from each store, that made a command panic.
///
/// # Errors
/// As [`flips`].
pub fn crafted(seed: u64, images: u64) -> Result<Vec<Measured>> {
    let folder = Folder::create("forged")?;
    let samples = samples(&folder.0, FORGED_RECORDS, seed)?;
    let mut panics = 0;
    for n in 0..images {
        let sample = &samples[(n / 7 % samples.len() as u64) as usize];
        panics += u64::from(!sample.craft(seed ^ n).map_err(failed)?);
    }
    let note = format!("{images} images with valid checksums, {} of them written to", images / 16);
    Ok(vec![("store.hostile.panics".to_owned(), Figure::new(panics as f64, note))])
}
