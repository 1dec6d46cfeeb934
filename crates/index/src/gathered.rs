//! Records of a damaged tree as a walk finds them, and the ranges that it misses.

use std::collections::BTreeSet;

use littoral_base::units::Lba;

use crate::tree::{Bounds, claim};
use crate::{Error, Result};

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

/// What is called with each record.
type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'a;

/// Where records go while a tree is walked.
pub(crate) struct Gathered<'a> {
    each: &'a mut Visit<'a>,
    used: BTreeSet<Lba>,
    last: Option<Vec<u8>>,
    pub(crate) records: u64,
    pub(crate) missing: Vec<Missing>,
    pub(crate) failure: Option<Error>,
}

impl<'a> Gathered<'a> {
    pub(crate) fn new(each: &'a mut Visit<'a>) -> Gathered<'a> {
        let (used, missing) = (BTreeSet::new(), Vec::new());
        Gathered { each, used, last: None, records: 0, missing, failure: None }
    }

    /// Takes note that a page is used; one that leads back to itself or is shared is not followed.
    pub(crate) fn claim(&mut self, at: Lba) -> Result<()> {
        claim(&mut self.used, at)
    }

    pub(crate) fn miss(&mut self, bounds: Bounds<'_>, why: &Error) {
        let (from, to) = (bounds.low.map(<[u8]>::to_vec), bounds.high.map(<[u8]>::to_vec));
        self.missing.push(Missing { from, to, why: why.to_string() });
    }

    /// Takes a record of a page with these bounds.
    pub(crate) fn take(&mut self, bounds: Bounds<'_>, key: &[u8], value: &[u8]) {
        let follows = self.last.as_deref().is_none_or(|last| key > last);
        if !bounds.holds(key) || !follows || self.failure.is_some() {
            return;
        }
        self.last = Some(key.to_vec());
        self.records += 1;
        self.failure = (self.each)(key, value).err();
    }
}
