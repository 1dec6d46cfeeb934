//! Persistent and pooled memory: the only road by which such memory is written.
//!
//! A [`Domain`] is a range of bytes that is reached by load and store but whose stores are not
//! durable (persistent memory) or not visible to other nodes (a non-coherent pool) until they are
//! written back and fenced. Flush and fence instructions exist behind this trait and nowhere else
//! in littoral, so one simulated domain can enumerate every legal crash image of every engine.
//!
//! Rules
//! - [`Domain::store`] makes bytes visible to this node's own loads at once.
//! - [`Domain::write_back`] starts moving the lines of a range to the medium; a following
//!   [`Domain::fence`] returns only when they are there (or promised, [`Promise`]).
//! - Stores to one 64-byte line reach the medium in program order; stores to different lines in any
//!   order; a line may reach the medium at any time before it is written back. Torn unit: 8 aligned
//!   bytes.
//! - [`Domain::invalidate`] drops this node's cached copy of a range so that the next load sees the
//!   medium; a range with unwritten stores must be written back first.
//! - [`Domain::commit_point`] marks, for counting and for the crash enumerator, that what is fenced
//!   so far is acknowledged to a user.
//!
//! Loads go through [`Domain::word`] and [`Domain::load_words`] with the ordering the caller names:
//! memory shared with other threads or nodes is never read through `&T`.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Result;
use crate::raw::cpu;
pub use crate::raw::cpu::{full_fence, store_fence};

/// Bytes of a cache line: the unit of write-back.
pub const LINE_BYTES: usize = 64;
/// Bytes of an Optane-like media line: the unit in which media writes are counted.
pub const MEDIA_LINE_BYTES: usize = 256;

/// Asks the processor to bring the line at `address` near. Only a hint: it reads nothing that a
/// program could see, and any address will do, mapped or not.
#[inline(always)]
pub fn prefetch(address: usize) {
    cpu::prefetch(std::ptr::without_provenance(address));
}

/// Whether a range lies in a domain of `all` bytes.
#[inline(always)]
pub(crate) fn is_within(offset: usize, len: usize, all: usize) -> bool {
    len <= all && offset <= all - len
}

/// What a fence promises on a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Promise {
    /// Survives loss of power (CLWB/CLFLUSHOPT + SFENCE on DAX memory, or caches in the power
    /// domain).
    PowerLoss,
    /// Survives loss of power once the file system has flushed its device (msync).
    DeviceFlush,
    /// Survives death of this process only (shared memory, tmpfs).
    ProcessDeath,
    /// Visible to the other nodes of a pool; promises nothing about power.
    OtherNodes,
    /// Nothing: a volatile domain for comparison.
    Nothing,
}

/// A range of persistent or pooled memory; see the module's page for the rules. Offsets are bytes
/// from the start of the domain; word offsets are multiples of eight.
///
/// # Panics
/// Every method panics on a range outside the domain or a misaligned word: engines check what they
/// read from a medium before they use it as an offset.
pub trait Domain: Send + Sync {
    /// Bytes in the domain.
    fn len(&self) -> usize;

    /// Whether the domain has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What `fence` promises.
    fn promise(&self) -> Promise;

    /// Loads the word at `offset`.
    fn word(&self, offset: usize, order: Ordering) -> u64;

    /// Stores the word at `offset`.
    fn store(&self, offset: usize, value: u64, order: Ordering);

    /// Stores words from `offset` on, each a relaxed store, front to back.
    fn store_words(&self, offset: usize, words: &[u64]) {
        for (i, &w) in words.iter().enumerate() {
            self.store(offset + 8 * i, w, Ordering::Relaxed);
        }
    }

    /// Loads words from `offset` on, each a relaxed load, front to back.
    fn load_words(&self, offset: usize, into: &mut [u64]) {
        for (i, w) in into.iter_mut().enumerate() {
            *w = self.word(offset + 8 * i, Ordering::Relaxed);
        }
    }

    /// The words of a range to read in place, where the domain is ordinary mapped memory: what
    /// [`Domain::word`] of each would load. `None` where loads are watched or modelled.
    #[inline(always)]
    fn words(&self, _offset: usize, _words: usize) -> Option<&[AtomicU64]> {
        None
    }

    /// Stores the words of a whole line that differ from what it holds and starts moving it to the
    /// medium, past the caches where the processor can: for lines that are written often and read
    /// seldom. The next fence orders it, as it orders `write_back`; nothing does before.
    ///
    /// Only this thread may be writing the line.
    fn store_line(&self, offset: usize, line: &[u64; LINE_BYTES / 8]) {
        for (i, &w) in line.iter().enumerate() {
            if self.word(offset + 8 * i, Ordering::Relaxed) != w {
                self.store(offset + 8 * i, w, Ordering::Relaxed);
            }
        }
        self.write_back(offset, LINE_BYTES);
    }

    /// Compares and exchanges the word at `offset`; coherent domains only.
    ///
    /// # Errors
    /// The word found when it was not `current`.
    fn compare_exchange(
        &self,
        offset: usize,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> std::result::Result<u64, u64>;

    /// Starts writing back the lines of a range.
    fn write_back(&self, offset: usize, len: usize);

    /// Drops cached copies of the lines of a range.
    fn invalidate(&self, offset: usize, len: usize);

    /// Returns when every line written back by this thread has reached what `promise` names.
    ///
    /// # Errors
    /// `Kind::Io` where the medium is reached through the operating system (msync); the caller then
    /// poisons its handle. `Kind::PowerCut` under a fault plan.
    fn fence(&self) -> Result<()>;

    /// Marks that everything fenced so far is acknowledged.
    fn commit_point(&self) {}

    /// The process that mapped this memory, where the calling one is a child it forked since: the
    /// child does not have the mapping and must not touch the domain.
    #[inline(always)]
    fn owner_before_fork(&self) -> Option<u32> {
        None
    }

    /// Tells a tracing domain that the engine wrote its own volatile memory (a lock, a table) at
    /// this address; other domains do nothing, at no cost.
    #[inline(always)]
    fn shadow_stored(&self, _address: usize) {}
}

/// Writes methods of [`Domain`](crate::memory::Domain) that hand on to another domain:
/// `forward_domain!(through: len promise word)`, where `through!(self, word(offset, order))` is the
/// caller's macro that says on what to call it. A wrapper names what it leaves as it is and writes
/// the rest; `all` is every method: one that the trait gains belongs in that list.
#[macro_export]
macro_rules! forward_domain {
    ($through:ident: all) => {
        $crate::forward_domain!($through: len promise word store store_words load_words words
            store_line compare_exchange write_back invalidate fence commit_point owner_before_fork
            shadow_stored);
    };
    ($through:ident: $($method:ident)+) => {
        $($crate::forward_domain!(@$method $through);)+
    };
    (@len $through:ident) => {
        fn len(&self) -> usize {
            $through!(self, len())
        }
    };
    (@promise $through:ident) => {
        fn promise(&self) -> $crate::memory::Promise {
            $through!(self, promise())
        }
    };
    (@word $through:ident) => {
        #[inline]
        fn word(&self, offset: usize, order: ::std::sync::atomic::Ordering) -> u64 {
            $through!(self, word(offset, order))
        }
    };
    (@store $through:ident) => {
        #[inline]
        fn store(&self, offset: usize, value: u64, order: ::std::sync::atomic::Ordering) {
            $through!(self, store(offset, value, order));
        }
    };
    (@store_words $through:ident) => {
        fn store_words(&self, offset: usize, words: &[u64]) {
            $through!(self, store_words(offset, words));
        }
    };
    (@load_words $through:ident) => {
        fn load_words(&self, offset: usize, into: &mut [u64]) {
            $through!(self, load_words(offset, into));
        }
    };
    (@words $through:ident) => {
        #[inline]
        fn words(
            &self,
            offset: usize,
            words: usize,
        ) -> Option<&[::std::sync::atomic::AtomicU64]> {
            $through!(self, words(offset, words))
        }
    };
    (@store_line $through:ident) => {
        fn store_line(&self, offset: usize, line: &[u64; $crate::memory::LINE_BYTES / 8]) {
            $through!(self, store_line(offset, line));
        }
    };
    (@compare_exchange $through:ident) => {
        fn compare_exchange(
            &self,
            offset: usize,
            current: u64,
            new: u64,
            success: ::std::sync::atomic::Ordering,
            failure: ::std::sync::atomic::Ordering,
        ) -> ::std::result::Result<u64, u64> {
            $through!(self, compare_exchange(offset, current, new, success, failure))
        }
    };
    (@write_back $through:ident) => {
        #[inline]
        fn write_back(&self, offset: usize, len: usize) {
            $through!(self, write_back(offset, len));
        }
    };
    (@invalidate $through:ident) => {
        fn invalidate(&self, offset: usize, len: usize) {
            $through!(self, invalidate(offset, len));
        }
    };
    (@fence $through:ident) => {
        #[inline]
        fn fence(&self) -> $crate::Result<()> {
            $through!(self, fence())
        }
    };
    (@commit_point $through:ident) => {
        fn commit_point(&self) {
            $through!(self, commit_point());
        }
    };
    (@owner_before_fork $through:ident) => {
        #[inline]
        fn owner_before_fork(&self) -> Option<u32> {
            $through!(self, owner_before_fork())
        }
    };
    (@shadow_stored $through:ident) => {
        #[inline]
        fn shadow_stored(&self, address: usize) {
            $through!(self, shadow_stored(address));
        }
    };
}

macro_rules! through_pointer {
    ($self:ident, $($call:tt)+) => {
        (**$self).$($call)+
    };
}

/// A shared domain is a domain: a test keeps one handle, the engine has the other.
impl<D: Domain + ?Sized> Domain for std::sync::Arc<D> {
    forward_domain!(through_pointer: all);
}
