//! Blocks that indirect branches of generated code find: one table for all threads, direct-mapped
//! by the guest's address.
//!
//! - Two addresses that a loop branches to may share an entry; each would then take it from the
//!   other in each round. So a block is in a spare part as well, by other bits of its address,
//!   where code looks for what is not in its entry. Checked by
//!   `branches_to_addresses_that_share_an_entry_stay_in_code`.
//! - An entry is one word, the address of a [`Known`], whose fields never change: so threads set
//!   and read entries at any time. An entry without a block leads to one that no address has, and
//!   that leads to the dispatch loop.
//! - Blocks live as long as the engine that has the table.

use super::known::Known;
use super::layout::{SPARE_BITS, TARGET_BITS};
use littoral_base::mutant;
use std::sync::atomic::{AtomicU64, Ordering};

/// The table.
#[derive(Debug)]
pub(super) struct Targets {
    /// The spare part behind the others.
    table: Box<[AtomicU64]>,
    /// What an entry without a block leads to.
    nothing: Box<Known>,
}

/// The entries of a guest address.
fn places(key: u64) -> [usize; 2] {
    let word = key >> 2;
    let spare = (word ^ word >> TARGET_BITS) as usize & ((1 << SPARE_BITS) - 1);
    [word as usize & ((1 << TARGET_BITS) - 1), (1 << TARGET_BITS) + spare]
}

impl Targets {
    /// A table in which nothing is found: code goes on at `missed`, a host address.
    pub(super) fn new(missed: u64) -> Targets {
        // The address of no block: code is aligned, but a register may hold this.
        let nothing = Box::new(Known { key: 1, host: missed, start: 0, body: 0, words: None });
        let address = (&raw const *nothing).expose_provenance() as u64;
        let len = (1 << TARGET_BITS) + (1 << SPARE_BITS);
        let table = (0..len).map(|_| AtomicU64::new(address)).collect();
        Targets { table, nothing }
    }

    /// Lets indirect branches to a block's address find it.
    pub(super) fn set(&self, known: &Known) {
        debug_assert!(known.key.is_multiple_of(4), "indirect branches do not lead to plain code");
        let address = std::ptr::from_ref(known).expose_provenance() as u64;
        let places = places(known.key);
        let all = if mutant!("la64_no_spare_targets") { &places[..1] } else { &places[..] };
        all.iter().for_each(|&place| self.table[place].store(address, Ordering::Release));
    }

    /// Lets indirect branches that find a block find another one of its address instead.
    pub(super) fn replace(&self, old: &Known, new: &Known) {
        let address = |known: &Known| std::ptr::from_ref(known).expose_provenance() as u64;
        let (old, places) = (address(old), places(old.key));
        for place in places {
            if self.table[place].load(Ordering::Acquire) == old {
                self.table[place].store(address(new), Ordering::Release);
            }
        }
    }

    /// Where it is.
    pub(super) fn address(&self) -> u64 {
        debug_assert_eq!(self.nothing.key, 1);
        self.table.as_ptr().expose_provenance() as u64
    }
}
