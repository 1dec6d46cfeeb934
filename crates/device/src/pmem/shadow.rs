//! Zeroed volatile words beside a pool: what an engine keeps about a medium and may lose.
//!
//! - The system gives the memory page by page as it is touched, so a table for a large pool costs
//!   what is used of it and making one takes microseconds.
//! - The words are the sync shim's: under loom and shuttle they are modelled (and all there from
//!   the start).
//! - The first word is aligned to a page, so neighbours in a table share lines as their indices
//!   say.

use std::ops::Deref;

use littoral_base::sync::atomic::AtomicU64;

use crate::error::Result;
#[cfg(not(any(loom, shuttle)))]
use crate::error::{Error, Kind};

/// Zeroed volatile words; see the module's page.
#[derive(Debug)]
pub struct Shadow {
    #[cfg(not(any(loom, shuttle)))]
    map: super::raw::map::Mapping,
    #[cfg(any(loom, shuttle))]
    words: Box<[AtomicU64]>,
}

impl Shadow {
    /// `len` words, rounded up to whole lines.
    ///
    /// # Errors
    /// `Kind::Io` when the system has no such memory.
    #[cfg(not(any(loom, shuttle)))]
    pub fn new(len: usize) -> Result<Shadow> {
        let bytes = len.max(1).checked_mul(8).and_then(|n| n.checked_next_multiple_of(64));
        let bytes = bytes.ok_or_else(|| {
            Error::new(Kind::Io, format!("{len} words of 8 bytes are no memory of this system"))
        })?;
        Ok(Shadow { map: super::raw::map::Mapping::anonymous(bytes)? })
    }

    /// `len` words, rounded up to whole lines.
    ///
    /// # Errors
    /// None under a model.
    #[cfg(any(loom, shuttle))]
    pub fn new(len: usize) -> Result<Shadow> {
        Ok(Shadow { words: (0..len.next_multiple_of(8)).map(|_| AtomicU64::new(0)).collect() })
    }
}

impl Deref for Shadow {
    type Target = [AtomicU64];

    #[cfg(not(any(loom, shuttle)))]
    #[inline(always)]
    fn deref(&self) -> &[AtomicU64] {
        self.map.words()
    }

    #[cfg(any(loom, shuttle))]
    fn deref(&self) -> &[AtomicU64] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn words_are_zero_and_at_least_as_many_as_asked_for() {
        let shadow = Shadow::new(513).unwrap();
        assert_eq!(shadow.len(), 520);
        assert!(shadow.iter().all(|w| w.load(Relaxed) == 0));
        shadow[512].store(7, Relaxed);
        assert_eq!(shadow[512].load(Relaxed), 7);
        assert_eq!(Shadow::new(0).unwrap().len(), 8);
    }
}
