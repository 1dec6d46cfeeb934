//! What can be saved of a damaged store: every record whose pages verify, and what is missing.
//!
//! - Nothing is written to the store. Single flipped bits are corrected in memory
//!   (`Store::open_damaged`); a page that is damaged otherwise is missed with the range of keys
//!   that the pages above it gave it.
//! - A leaf whose log is lost is missed as a whole: its records may have been changed since.
//! - Records come in ascending order of their keys, each within its page's range, so nothing that
//!   a damaged page says can put a record where it does not belong.

use littoral_device::zoned::ZonedDevice;
use littoral_store::store::Store;

use crate::Result;
use crate::gathered::Gathered;
pub use crate::gathered::Missing;
use crate::index::{Engine, Index};
use crate::layout::Shape;

/// What was saved.
#[derive(Clone, Debug)]
pub struct Salvage {
    /// The tree.
    pub engine: Engine,
    /// Sizes of its records and pages.
    pub shape: Shape,
    /// Records saved.
    pub records: u64,
    /// Records that the root counts.
    pub counted: u64,
    /// Ranges that could not be read.
    pub missing: Vec<Missing>,
    /// Part of the redo log is damaged: later changes are missing.
    pub is_log_cut: bool,
    /// Damage found on the way, made good or not.
    pub notes: Vec<String>,
}

/// Calls `each` with every record of a damaged store that can be read, in the order of keys.
///
/// # Errors
/// `Kind::Foreign` for another medium, engine or format; `Kind::Corrupt` when no superblock or no
/// root can be read; those of `each`.
pub fn salvage<D: ZonedDevice>(
    dev: D,
    mut each: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<Salvage> {
    let store = Store::open_damaged(dev)?;
    let notes = store.notes().to_vec();
    let index = Index::unchecked(store)?;
    let mut out = Gathered::new(&mut each);
    index.salvage(&mut out);
    let Gathered { records, missing, failure, .. } = out;
    match failure {
        Some(e) => Err(e),
        None => Ok(Salvage {
            engine: index.engine(),
            shape: *index.shape(),
            records,
            counted: index.len(),
            missing,
            is_log_cut: index.store_ref().is_log_cut(),
            notes,
        }),
    }
}
