//! A domain over any file on any file system: a fence is msync, and really durable.
//!
//! - `write_back` adds pages to the open batch; `fence` returns once a batch that holds every page
//!   of the calling thread has reached the device.
//! - A batch is written by one msync from its first to its last page. Each call flushes the device,
//!   which costs far more than looking for dirty pages in between, and a dirty page of another
//!   thread may reach the medium at any time.
//! - Group commit: one thread at a time writes a batch. Threads that fence meanwhile wait for it
//!   and for the next one, which a single one of them writes for all.
//! - A failed msync poisons the domain: the kernel may have dropped the dirty pages, so no later
//!   success would say anything about them.
//!
//! The torn unit is a word of a page as the device writes it; the promise is
//! [`Promise::DeviceFlush`], or [`Promise::ProcessDeath`] on a file system held in memory (tmpfs,
//! ramfs), where there is no device to flush.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread::ThreadId;

use littoral_base::mutant;

use super::flush::mapped_words;
use super::raw::map::Mapping;
use crate::error::{Error, Kind, Result};
use crate::memory::{Domain, Promise, is_within};

const PAGE_BYTES: usize = 4096;
const TMPFS_MAGIC: u64 = 0x0102_1994;
const RAMFS_MAGIC: u64 = 0x8584_58f6;

/// A mapped file made durable by msync.
#[derive(Debug)]
pub struct Msync {
    map: Mapping,
    promise: Promise,
    group: Mutex<Group>,
    written: Condvar,
}

/// Batches of pages; each has a number, and numbers below `done` have reached the device.
#[derive(Debug, Default)]
struct Group {
    /// The open batch.
    open: u64,
    /// Its pages, from the first to the last.
    pages: Option<Range<usize>>,
    /// Batches before this one are durable.
    done: u64,
    /// The last batch to which a thread added a page that it has not fenced yet.
    marked: HashMap<ThreadId, u64>,
    is_writing: bool,
    is_poisoned: bool,
}

impl Group {
    fn mark(&mut self, pages: Range<usize>) {
        if pages.is_empty() {
            return;
        }
        self.pages = match self.pages.take() {
            Some(all) if !mutant!("msync_last_run_only") => {
                Some(all.start.min(pages.start)..all.end.max(pages.end))
            }
            _ => Some(pages),
        };
        self.marked.insert(std::thread::current().id(), self.open);
    }
}

/// Where the bytes of `pages` begin and how many they are, of a file of `len` bytes: msync begins
/// at a page of the system, which has `system` bytes and may be larger than those counted here.
fn bytes_of(pages: &Range<usize>, system: usize, len: usize) -> (usize, usize) {
    debug_assert!(system.is_power_of_two(), "a page of {system} bytes");
    let start = (pages.start * PAGE_BYTES) & !(system - 1);
    let end = (pages.end * PAGE_BYTES).min(len);
    (start, end.saturating_sub(start))
}

fn promise_of(map: &Mapping) -> Promise {
    map.file().map_or(Promise::ProcessDeath, promise_of_file)
}

fn promise_of_file(file: &File) -> Promise {
    let Ok(kind) = rustix::fs::fstatfs(file) else { return Promise::ProcessDeath };
    match kind.f_type as u64 & 0xffff_ffff {
        TMPFS_MAGIC | RAMFS_MAGIC => Promise::ProcessDeath,
        _ => Promise::DeviceFlush,
    }
}

/// What the strongest domain over the file at `path` would promise: [`Promise::PowerLoss`] on DAX
/// memory, otherwise what [`Msync`] does. Takes no lock, so an owner is no hindrance and not
/// hindered.
///
/// # Errors
/// `Kind::Io` when the file cannot be opened for writing, `Kind::Foreign` for a length that no
/// domain has.
pub fn best_promise(path: &Path) -> Result<Promise> {
    let (is_dax, file) = Mapping::probe(path)?;
    Ok(if is_dax { Promise::PowerLoss } else { promise_of_file(&file) })
}

impl Msync {
    fn over(map: Mapping) -> Self {
        let promise = promise_of(&map);
        Msync { map, promise, group: Mutex::default(), written: Condvar::new() }
    }

    /// Creates a file of `len` zero bytes.
    ///
    /// # Errors
    /// `Kind::Exists`, `Kind::IllegalRequest` for a bad length, `Kind::Io`.
    pub fn create(path: &Path, len: usize) -> Result<Self> {
        Ok(Self::over(Mapping::create(path, len)?))
    }

    /// Opens an existing file as its one owner.
    ///
    /// # Errors
    /// `Kind::Busy` when another owner holds it, `Kind::Io`, `Kind::Foreign`.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self::over(Mapping::open(path)?))
    }

    fn group(&self) -> MutexGuard<'_, Group> {
        self.group.lock().expect("invariant: no panic inside")
    }

    /// Writes the open batch while other threads fill the next one.
    fn write_batch<'g>(
        &'g self,
        mut group: MutexGuard<'g, Group>,
    ) -> Result<MutexGuard<'g, Group>> {
        debug_assert!(!group.is_writing, "one batch is written at a time");
        let (batch, pages) = (group.open, group.pages.take().unwrap_or_default());
        (group.open, group.is_writing) = (batch + 1, true);
        drop(group);
        let (start, len) = bytes_of(&pages, rustix::param::page_size(), self.map.len());
        let written = self.map.sync(start, len);
        let mut group = self.group();
        group.is_writing = false;
        debug_assert!(group.done <= batch, "batches become durable in order");
        match &written {
            Ok(()) => group.done = batch + 1,
            Err(_) => group.is_poisoned = true,
        }
        self.written.notify_all();
        written.map(|()| group)
    }
}

impl Domain for Msync {
    mapped_words!();

    fn promise(&self) -> Promise {
        self.promise
    }

    fn write_back(&self, offset: usize, len: usize) {
        assert!(is_within(offset, len, self.map.len()), "range in the domain");
        let first = match mutant!("msync_inner_page_unmarked") {
            true => offset.div_ceil(PAGE_BYTES),
            false => offset / PAGE_BYTES,
        };
        let last = match mutant!("msync_inner_page_unmarked") {
            true => (offset + len) / PAGE_BYTES,
            false => (offset + len).div_ceil(PAGE_BYTES),
        };
        self.group().mark(first..last);
    }

    fn fence(&self) -> Result<()> {
        let mut group = self.group();
        let mine = group.marked.remove(&std::thread::current().id());
        loop {
            if group.is_poisoned {
                let text = "an msync failed; reopen the file to see what reached it";
                return Err(Error::new(Kind::Poisoned, text));
            }
            if mine.is_none_or(|batch| batch < group.done) {
                return Ok(());
            }
            group = match group.is_writing {
                true => self.written.wait(group).expect("invariant: no panic inside"),
                false => self.write_batch(group)?,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sink::{Event, taken};
    use super::*;

    fn file() -> (tempfile::TempDir, Msync) {
        let dir = tempfile::tempdir().unwrap();
        let domain = Msync::create(&dir.path().join("file"), 1 << 16).unwrap();
        taken();
        (dir, domain)
    }

    #[test]
    fn a_fence_is_one_msync_from_the_first_to_the_last_page_written_back() {
        let (_dir, domain) = file();
        for (ranges, wanted) in [
            (&[(8192 + 128, 64)][..], (8192, 4096)),
            (&[(4096, 4096)], (4096, 4096)),
            (&[(4000, 200)], (0, 8192)),
            (&[(12_288, 8), (40_960, 8), (20_480, 1)], (12_288, 32_768)),
            (&[(65_528, 8), (0, 8)], (0, 65_536)),
        ] {
            for &(offset, len) in ranges {
                domain.store(offset / 8 * 8, 1, Ordering::Relaxed);
                domain.write_back(offset, len);
            }
            domain.fence().unwrap();
            assert_eq!(taken(), [Event::Sync(wanted.0, wanted.1)], "{ranges:?}");
        }
        domain.fence().unwrap();
        assert_eq!(taken(), [], "nothing was written back since");
    }

    #[test]
    fn a_batch_begins_at_a_page_of_the_system() {
        assert_eq!(bytes_of(&(17..18), 4096, 1 << 20), (69_632, 4096));
        assert_eq!(bytes_of(&(17..18), 64 << 10, 1 << 20), (65_536, 8192));
        assert_eq!(bytes_of(&(15..18), 16 << 10, 70_000), (49_152, 20_848));
        assert_eq!(bytes_of(&(0..0), 4096, 1 << 20), (0, 0));
    }

    #[test]
    fn threads_that_fence_together_are_written_together_and_none_returns_early() {
        let (_dir, domain) = file();
        std::thread::scope(|s| {
            for t in 0..8usize {
                let domain = &domain;
                s.spawn(move || {
                    for _ in 0..50 {
                        domain.store(8192 * t, 1, Ordering::Relaxed);
                        domain.write_back(8192 * t, 8);
                        // Not the open batch: another thread may have closed this one by now.
                        let batch = domain.group().marked[&std::thread::current().id()];
                        domain.fence().unwrap();
                        assert!(domain.group().done > batch);
                    }
                });
            }
        });
        let group = domain.group();
        assert!(group.open <= 400 && group.marked.is_empty(), "{group:?}");
    }
}
