//! A file's bytes as a private domain: its changes never reach the file or another process.
//!
//! - The file is opened for reading only, so looking at a pool needs no right to write it and
//!   changes nothing; what a restart would write goes to pages of this process.
//! - An owner of the file (a domain that can write it) keeps this from opening, and this keeps an
//!   owner from opening: what is looked at holds still. Several may look at once.

use std::path::Path;
use std::sync::atomic::Ordering;

use super::flush::mapped_words;
use super::raw::map::Mapping;
use crate::error::Result;
use crate::memory::{Domain, Promise, is_within};

/// A private copy of a file, made page by page as it is changed.
#[derive(Debug)]
pub struct FileCopy {
    map: Mapping,
}

impl FileCopy {
    /// Copies the file at `path`.
    ///
    /// # Errors
    /// `Kind::Busy` when an owner holds it, `Kind::Io`, `Kind::Foreign` when its length is not
    /// whole lines.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(FileCopy { map: Mapping::open_copy(path)? })
    }

    /// The file at `path` while an owner may be changing it: pages not changed here show what the
    /// owner stores. For what is sound by itself at any moment, such as words with a checksum.
    ///
    /// # Errors
    /// As `open`, but that an owner is no hindrance.
    pub fn beside_owner(path: &Path) -> Result<Self> {
        Ok(FileCopy { map: Mapping::open_beside(path)? })
    }
}

impl Domain for FileCopy {
    mapped_words!();

    fn promise(&self) -> Promise {
        Promise::Nothing
    }

    fn write_back(&self, offset: usize, len: usize) {
        assert!(is_within(offset, len, self.map.len()), "range in the domain");
    }

    fn fence(&self) -> Result<()> {
        Ok(())
    }
}
