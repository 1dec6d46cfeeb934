//! Blocks that indirect branches of generated code find: one table for all threads, direct-mapped
//! by the guest's address.
//!
//! - An entry is one word, the address of a [`Known`], whose fields never change: so threads set
//!   and read entries at any time. An entry without a block leads to one that no address has, and
//!   that leads to the dispatch loop.
//! - Blocks live as long as the engine that has the table.

use super::known::Known;
use super::layout::TARGET_BITS;
use std::sync::atomic::{AtomicU64, Ordering};

/// The table.
#[derive(Debug)]
pub(super) struct Targets {
    table: Box<[AtomicU64]>,
    /// What an entry without a block leads to.
    nothing: Box<Known>,
}

impl Targets {
    /// A table in which nothing is found: code goes on at `missed`, a host address.
    pub(super) fn new(missed: u64) -> Targets {
        // The address of no block: code is aligned, but a register may hold this.
        let nothing = Box::new(Known { key: 1, host: missed, start: 0, body: 0, words: None });
        let address = (&raw const *nothing).expose_provenance() as u64;
        let table = (0..1 << TARGET_BITS).map(|_| AtomicU64::new(address)).collect();
        Targets { table, nothing }
    }

    /// Lets indirect branches to a block's address find it.
    pub(super) fn set(&self, known: &Known) {
        debug_assert!(known.key.is_multiple_of(4), "indirect branches do not lead to plain code");
        let place = (known.key >> 2) as usize & ((1 << TARGET_BITS) - 1);
        let address = std::ptr::from_ref(known).expose_provenance() as u64;
        self.table[place].store(address, Ordering::Release);
    }

    /// Lets indirect branches that find a block find another one of its address instead.
    pub(super) fn replace(&self, old: &Known, new: &Known) {
        let place = (old.key >> 2) as usize & ((1 << TARGET_BITS) - 1);
        let address = std::ptr::from_ref(old).expose_provenance() as u64;
        if self.table[place].load(Ordering::Acquire) == address {
            self.set(new);
        }
    }

    /// Where it is.
    pub(super) fn address(&self) -> u64 {
        debug_assert_eq!(self.nothing.key, 1);
        self.table.as_ptr().expose_provenance() as u64
    }
}
