//! What can be saved of a damaged store: every record whose pages verify, and what is missing.
//!
//! - Nothing is written to the store. Single flipped bits are corrected in memory
//!   (`Store::open_damaged`); a page that is damaged otherwise is missed with the range of keys
//!   that the pages above it gave it.
//! - A leaf whose log is lost is missed as a whole: its records may have been changed since.
//! - Records come in ascending order of their keys, each within its page's range, so nothing that
//!   a damaged page says can put a record where it does not belong.

use std::collections::BTreeSet;

use littoral_base::units::Lba;
use littoral_device::zoned::ZonedDevice;
use littoral_store::store::Store;

use crate::index::{Engine, Index};
use crate::layout::Shape;
use crate::{Error, Kind, Result};

/// A range of keys that could not be read; open where `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The first key that may be missing.
    pub from: Option<Vec<u8>>,
    /// The first key that is not in the range any more.
    pub to: Option<Vec<u8>>,
    /// What failed.
    pub why: String,
}

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

/// Bounds of a page's keys: `[from, to)`.
pub(crate) type Range = (Option<Vec<u8>>, Option<Vec<u8>>);

/// What is called with each record.
type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'a;

/// Where records go while a tree is walked.
pub(crate) struct Gathered<'a> {
    each: &'a mut Visit<'a>,
    used: BTreeSet<Lba>,
    last: Option<Vec<u8>>,
    records: u64,
    missing: Vec<Missing>,
    failure: Option<Error>,
}

impl Gathered<'_> {
    /// Takes note that a page is used; one that leads back to itself or is shared is not followed.
    pub(crate) fn claim(&mut self, at: Lba) -> Result<()> {
        let text = || format!("page {at}: used twice");
        let used = || Error::new(Kind::Corrupt, text()).at_page(at.0);
        if self.used.insert(at) { Ok(()) } else { Err(used()) }
    }

    pub(crate) fn miss(&mut self, (from, to): &Range, why: &Error) {
        let why = why.to_string();
        self.missing.push(Missing { from: from.clone(), to: to.clone(), why });
    }

    /// Takes a record of a page with these bounds.
    pub(crate) fn take(&mut self, (from, to): &Range, key: &[u8], value: &[u8]) {
        let inside = from.as_deref().is_none_or(|f| key >= f)
            && to.as_deref().is_none_or(|t| key < t)
            && self.last.as_deref().is_none_or(|last| key > last);
        if !inside || self.failure.is_some() {
            return;
        }
        self.last = Some(key.to_vec());
        self.records += 1;
        self.failure = (self.each)(key, value).err();
    }
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
    let mut out = Gathered {
        each: &mut each,
        used: BTreeSet::new(),
        last: None,
        records: 0,
        missing: Vec::new(),
        failure: None,
    };
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
