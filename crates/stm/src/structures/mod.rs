//! Structures from word to word, written once against [`Access`] and usable alone.
//!
//! - [`HashMap`], [`SearchTree`], [`SortedList`], [`BTree`] map `u64` keys to `u64` values (store a
//!   [`Ref`](crate::Ref)'s offset for more); [`Queue`] is first in, first out.
//! - A structure is a record in the pool; its handle here is a reference and can be copied freely.
//!   Name it with [`Tx::set_root`](crate::Tx::set_root) to find it again; its `destroy` gives back
//!   all of it.
//! - Every operation is part of the caller's transaction, so several on several structures are
//!   atomic together; all of them answer a conflict through `?`.
//! - Damaged links that lead back into themselves end an operation with `Kind::Corrupt`
//!   (`Kind::BadReference` where it frees what it passes); no operation goes on for ever. Checked
//!   by `no_operation_goes_round_in_links_that_lead_back`.
//!
//! ```
//! use littoral_device::pmem::Dram;
//! use littoral_stm::structures::{Map, SortedList};
//! use littoral_stm::{Options, Pool};
//! let pool = Pool::create(Dram::new(1 << 20), &Options::default())?;
//! let mut thread = pool.thread()?;
//! let list = thread.atomically(|tx| {
//!     let list = SortedList::create(tx)?;
//!     tx.set_root("list", list.at())?;
//!     list.insert(tx, 3, 30)?;
//!     Ok(list)
//! })?;
//! assert_eq!(thread.read_only(|tx| list.get(tx, 3))?, Some(30));
//! # Ok::<(), littoral_stm::Error>(())
//! ```

pub(crate) mod audit;
mod bst;
mod btree;
mod hash;
mod list;
mod queue;
mod trail;
mod whole;

pub use bst::{SearchTree, TreeHead};
pub use btree::{BTree, BTreeHead};
pub use hash::{HashHead, HashMap};
pub use list::{ListHead, SortedList};
pub use queue::{Queue, QueueHead};
pub use whole::Structures;

use littoral_base::mutant;

use crate::error::Abort;
use crate::record::Record;
use crate::root::Root;
use crate::tx::Access;

/// Tags and names of the types that structures put into a pool.
pub(crate) fn known_types() -> [(u64, &'static str); 15] {
    fn of<T: Record>() -> (u64, &'static str) {
        (T::TAG, T::NAME)
    }
    [
        of::<HashHead>(),
        of::<hash::Directory>(),
        of::<hash::Bucket>(),
        of::<hash::Node>(),
        of::<hash::Posts>(),
        of::<TreeHead>(),
        of::<bst::Node>(),
        of::<ListHead>(),
        of::<list::Node>(),
        of::<BTreeHead>(),
        of::<btree::Leaf>(),
        of::<btree::Inner>(),
        of::<QueueHead>(),
        of::<queue::End>(),
        of::<queue::Node>(),
    ]
}

/// The name behind a tag, of this crate's own types.
pub fn type_name(of: u64) -> Option<&'static str> {
    let mut known = known_types().into_iter().chain([(Root::TAG, Root::NAME)]);
    known.find(|k| k.0 == of).map(|k| k.1)
}

/// Runs an operation that changes a structure. One that fails may be half done, whatever failed in
/// it: its error ends the transaction, also where the closure drops it.
#[inline(always)]
fn changing<A: Access, R>(
    tx: &mut A,
    operation: impl FnOnce(&mut A) -> Result<R, Abort>,
) -> Result<R, Abort> {
    operation(tx).map_err(|abort| match mutant!("stm_half_operation_commits") {
        true => abort,
        false => tx.fail(abort),
    })
}

/// A map from words to words inside a transaction.
pub trait Map {
    /// The value of `key`.
    ///
    /// # Errors
    /// A conflict, `Kind::Corrupt`.
    fn get<A: Access>(&self, tx: &mut A, key: u64) -> Result<Option<u64>, Abort>;
    /// Sets the value of `key` and answers the one before.
    ///
    /// # Errors
    /// A conflict, `Kind::Full`, `Kind::Corrupt`.
    fn insert<A: Access>(&self, tx: &mut A, key: u64, value: u64) -> Result<Option<u64>, Abort>;
    /// Removes `key` and answers its value.
    ///
    /// # Errors
    /// A conflict, `Kind::Corrupt`.
    fn remove<A: Access>(&self, tx: &mut A, key: u64) -> Result<Option<u64>, Abort>;
}
