//! A domain over any file on any file system: a fence is msync, and really durable.
//!
//! - `write_back` marks pages; `fence` writes every marked page and waits for the device.
//! - Fences are serialised by one lock held across msync: a thread whose pages another thread's
//!   fence took returns only after they are down. That is also group commit.
//! - A failed msync poisons the domain: the kernel may have dropped the dirty pages, so no later
//!   success would say anything about them.
//!
//! The torn unit is a word of a page as the device writes it; the promise is
//! [`Promise::DeviceFlush`], or [`Promise::ProcessDeath`] on a file system held in memory (tmpfs,
//! ramfs), where there is no device to flush.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::flush::mapped_words;
use super::raw::map::Mapping;
use crate::error::{Error, Kind, Result};
use crate::memory::{Domain, Promise};

const PAGE_BYTES: usize = 4096;
const TMPFS_MAGIC: u64 = 0x0102_1994;
const RAMFS_MAGIC: u64 = 0x8584_58f6;

/// A mapped file made durable by msync.
#[derive(Debug)]
pub struct Msync {
    map: Mapping,
    promise: Promise,
    marked: Mutex<BTreeSet<usize>>,
    writing: Mutex<()>,
    poisoned: AtomicBool,
}

fn promise_of(map: &Mapping) -> Promise {
    let Some(kind) = map.file().and_then(|f| rustix::fs::fstatfs(f).ok()) else {
        return Promise::ProcessDeath;
    };
    match kind.f_type as u64 & 0xffff_ffff {
        TMPFS_MAGIC | RAMFS_MAGIC => Promise::ProcessDeath,
        _ => Promise::DeviceFlush,
    }
}

impl Msync {
    fn over(map: Mapping) -> Self {
        let promise = promise_of(&map);
        let (marked, writing) = (Mutex::default(), Mutex::default());
        Msync { map, promise, marked, writing, poisoned: AtomicBool::new(false) }
    }

    /// Creates a file of `len` zero bytes.
    ///
    /// # Errors
    /// `Kind::Busy` when it exists, `Kind::IllegalRequest` for a bad length, `Kind::Io`.
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

    fn write_marked(&self) -> Result<()> {
        let marked = std::mem::take(&mut *self.marked.lock().expect("invariant: no panic inside"));
        let mut run: Option<(usize, usize)> = None;
        for page in marked {
            run = match run {
                Some((from, to)) if to == page => Some((from, page + 1)),
                Some((from, to)) => {
                    self.write_pages(from, to)?;
                    Some((page, page + 1))
                }
                None => Some((page, page + 1)),
            };
        }
        run.map_or(Ok(()), |(from, to)| self.write_pages(from, to))
    }

    fn write_pages(&self, from: usize, to: usize) -> Result<()> {
        let end = (to * PAGE_BYTES).min(self.map.len());
        self.map.sync(from * PAGE_BYTES, end - from * PAGE_BYTES)
    }
}

impl Domain for Msync {
    mapped_words!();

    fn promise(&self) -> Promise {
        self.promise
    }

    fn write_back(&self, offset: usize, len: usize) {
        assert!(offset + len <= self.map.len(), "range in the domain");
        let mut marked = self.marked.lock().expect("invariant: no panic inside");
        marked.extend(offset / PAGE_BYTES..(offset + len).div_ceil(PAGE_BYTES));
    }

    fn fence(&self) -> Result<()> {
        let _one = self.writing.lock().expect("invariant: no panic inside");
        if self.poisoned.load(Ordering::Acquire) {
            let text = "an earlier msync failed; reopen the file to see what reached it";
            return Err(Error::new(Kind::Poisoned, text));
        }
        self.write_marked().inspect_err(|_| self.poisoned.store(true, Ordering::Release))
    }
}
