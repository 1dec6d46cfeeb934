//! A pool of threads that `pread` a file: the read device that works everywhere.
//!
//! It stands in where io_uring is forbidden, and is what a program without asynchronous I/O would
//! do. Reads go through the page cache.
//!
//! Invariants
//! - A request's bytes travel in a buffer owned by exactly one side: the slot, the queue, a worker
//!   or the answer list. Late answers reach no other request. Checked by
//!   `a_pread_pool_gives_the_bytes_of_the_file`.
//! - Dropping the device ends and joins its threads; requests under way are finished first. Checked
//!   by `dropping_finishes_what_is_under_way_and_ends_every_thread`.
//!
//! Faults: short reads and `EINTR` are continued; an end of file inside the request (the file
//! shrank) is [`Status::Os`]; `EIO` is [`Status::MediaError`].

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use littoral_base::clock::ClockKind;

use super::file::{Direct, Source, check_options};
use super::slots::Slots;
use super::slots::raw::LentCells;
use crate::error::{Error, Kind, Result};
use crate::read::{Completion, Lease, Limits, ReadDevice, Slot, Status};

/// How to open a pread pool.
#[derive(Clone, Copy, Debug)]
pub struct PreadOptions {
    /// Slots: the most requests outstanding.
    pub slots: u32,
    /// Longest single read in bytes.
    pub read_bytes_max: u32,
    /// Worker threads.
    pub threads: u32,
}

impl Default for PreadOptions {
    fn default() -> Self {
        PreadOptions { slots: 64, read_bytes_max: 64 << 10, threads: 16 }
    }
}

const SLOTS_MAX: u32 = 1 << 14;

struct Job {
    slot: Slot,
    addr: u64,
    bytes: Vec<u8>,
}

struct Answer {
    slot: Slot,
    bytes: Vec<u8>,
    /// Of a read that failed, its address and why: boxed, so that the others carry neither.
    outcome: std::result::Result<(), Box<(u64, io::Error)>>,
}

#[derive(Default)]
struct Shared {
    jobs: Mutex<Jobs>,
    work: Condvar,
    answers: Mutex<Vec<Answer>>,
    ready: Condvar,
    answered: AtomicUsize,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    closed: bool,
}

/// A file read by a pool of threads.
pub struct Pread {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    slots: Slots,
    buffers: LentCells<Vec<u8>>,
    issued: RefCell<VecDeque<Job>>,
    taken: Cell<usize>,
    /// Address and length of the latest read that failed on a slot, for messages.
    failed: RefCell<BTreeMap<Slot, (u64, u32)>>,
    last_error: RefCell<Option<String>>,
    limits: Limits,
}

impl Pread {
    /// Opens `path` with a pool of threads.
    ///
    /// # Errors
    /// As [`Source::open`]; `Kind::IllegalRequest` for options out of range; `Kind::Io` when
    /// threads cannot be started.
    pub fn open(path: &Path, options: PreadOptions) -> Result<Pread> {
        check_options(options.slots, options.read_bytes_max, SLOTS_MAX)?;
        Self::on(Source::open(path, Direct::No)?, options)
    }

    /// A pool of threads over an open file, which is read through the page cache.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` for options out of range; `Kind::Io` when threads cannot be started.
    pub(crate) fn on(source: Source, options: PreadOptions) -> Result<Pread> {
        check_options(options.slots, options.read_bytes_max, SLOTS_MAX)?;
        assert!(!source.direct, "a pool's buffers are not aligned for direct access");
        let limits = Limits {
            slots: options.slots,
            granule_bytes: 1,
            read_bytes_max: options.read_bytes_max,
            capacity_bytes: source.len,
            completion: Completion::Queue,
            clock: ClockKind::Wall,
            can_park: true,
        };
        let mut pool = Pread {
            shared: Arc::default(),
            workers: Vec::new(),
            slots: Slots::new(options.slots),
            buffers: LentCells::new(options.slots as usize, Vec::new),
            issued: RefCell::default(),
            taken: Cell::new(0),
            failed: RefCell::default(),
            last_error: RefCell::new(None),
            limits,
        };
        let file = Arc::new(source.file);
        for _ in 0..options.threads.clamp(1, options.slots) {
            pool.workers.push(start_worker(&pool.shared, &file)?);
        }
        Ok(pool)
    }

    fn accept(&self, answer: Answer) {
        let status = match &answer.outcome {
            Ok(()) => Status::Ok,
            Err(failure) => {
                let (addr, e) = &**failure;
                self.note_failed(answer.slot, *addr, answer.bytes.len() as u32);
                *self.last_error.borrow_mut() = Some(e.to_string());
                status_of(e)
            }
        };
        self.buffers.change(answer.slot.index(), |buffer| *buffer = answer.bytes);
        self.slots.complete(answer.slot, status);
    }

    #[cold]
    fn note_failed(&self, slot: Slot, addr: u64, len: u32) {
        self.failed.borrow_mut().insert(slot, (addr, len));
    }
}

/// The status of a failed read.
pub(crate) fn status_of(e: &io::Error) -> Status {
    match e.raw_os_error() {
        Some(libc::EIO | libc::EREMOTEIO | libc::ENODATA | libc::EILSEQ) => Status::MediaError,
        _ => Status::Os,
    }
}

/// Whether a request lies inside the medium, is aligned, and fits the buffer.
pub(crate) fn is_legal(limits: &Limits, addr: u64, len: u32) -> bool {
    let end = addr.checked_add(u64::from(len));
    len <= limits.read_bytes_max
        && addr.is_multiple_of(u64::from(limits.granule_bytes))
        && end.is_some_and(|end| end <= limits.capacity_bytes)
}

impl ReadDevice for Pread {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn issue(&self, slot: Slot, addr: u64, len: u32) {
        if !is_legal(&self.limits, addr, len) {
            self.note_failed(slot, addr, len);
            self.buffers.change(slot.index(), Vec::clear);
            self.slots.finish_at_issue(slot, Status::Refused);
            return;
        }
        self.slots.issue(slot);
        let mut bytes = self.buffers.change(slot.index(), std::mem::take);
        bytes.resize(len as usize, 0);
        self.issued.borrow_mut().push_back(Job { slot, addr, bytes });
    }

    fn kick(&self) {
        let mut issued = self.issued.borrow_mut();
        let count = issued.len();
        if count == 0 {
            return;
        }
        lock(&self.shared.jobs).waiting.append(&mut issued);
        if count == 1 { self.shared.work.notify_one() } else { self.shared.work.notify_all() }
    }

    fn reap(&self) {
        if self.shared.answered.load(Ordering::Acquire) == self.taken.get() {
            return;
        }
        let answers = std::mem::take(&mut *lock(&self.shared.answers));
        self.taken.set(self.taken.get().wrapping_add(answers.len()));
        answers.into_iter().for_each(|a| self.accept(a));
    }

    fn poll(&self, slot: Slot) -> Option<Status> {
        self.slots.poll(slot)
    }

    fn data(&self, slot: Slot, _: Lease) -> &[u8] {
        assert!(self.slots.poll(slot).is_some(), "{slot:?} is not finished");
        self.buffers.lend(slot.index())
    }

    fn release(&self, slot: Slot) {
        self.slots.release(slot);
    }

    fn is_free(&self, slot: Slot) -> bool {
        self.slots.is_free(slot)
    }

    fn park(&self, timeout: Duration) {
        self.kick();
        if self.slots.outstanding() > 0 {
            let answers = lock(&self.shared.answers);
            let wait = self.shared.ready.wait_timeout_while(answers, timeout, |a| a.is_empty());
            drop(wait);
        }
        self.reap();
    }

    fn request(&self, slot: Slot) -> Option<(u64, u32)> {
        // A read under way is with a worker, which brings its address back where it fails.
        let has_failed = self.slots.poll(slot).is_some_and(|status| !status.is_ok());
        if has_failed { self.failed.borrow().get(&slot).copied() } else { None }
    }

    fn last_error(&self) -> Option<String> {
        self.last_error.borrow().clone()
    }
}

impl Drop for Pread {
    fn drop(&mut self) {
        lock(&self.shared.jobs).closed = true;
        self.shared.work.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has already reported it; the device is going away either way.
            let _ = worker.join();
        }
    }
}

/// A worker that panicked while holding a lock left nothing half done: every critical section here
/// is one push, pop or take.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start_worker(shared: &Arc<Shared>, file: &Arc<File>) -> Result<JoinHandle<()>> {
    let (shared, file) = (Arc::clone(shared), Arc::clone(file));
    let builder = std::thread::Builder::new().name("littoral-pread".to_owned());
    builder.spawn(move || work(&shared, &file)).map_err(|e| {
        Error::with_source(Kind::Io, "starting a thread of the pread pool".to_owned(), e)
    })
}

fn work(shared: &Shared, file: &File) {
    while let Some(mut job) = next_job(shared) {
        let outcome = file.read_exact_at(&mut job.bytes, job.addr);
        let outcome = outcome.map_err(|e| Box::new((job.addr, e)));
        let answer = Answer { slot: job.slot, bytes: job.bytes, outcome };
        let mut answers = lock(&shared.answers);
        answers.push(answer);
        shared.answered.fetch_add(1, Ordering::Release);
        drop(answers);
        shared.ready.notify_one();
    }
}

fn next_job(shared: &Shared) -> Option<Job> {
    let mut jobs = lock(&shared.jobs);
    loop {
        if let Some(job) = jobs.waiting.pop_front() {
            return Some(job);
        }
        if jobs.closed {
            return None;
        }
        jobs = shared.work.wait(jobs).unwrap_or_else(PoisonError::into_inner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_finishes_what_is_under_way_and_ends_every_thread() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [7; 1 << 16]).unwrap();
        let options = PreadOptions { slots: 32, threads: 3, ..PreadOptions::default() };
        let pool = Pread::open(file.path(), options).unwrap();
        (0..32).for_each(|slot| pool.issue(Slot(slot), u64::from(slot) * 1024, 1024));
        pool.kick();
        let shared = Arc::clone(&pool.shared);
        drop(pool);
        assert_eq!(Arc::strong_count(&shared), 1, "a thread outlives its device");
        assert!(lock(&shared.jobs).waiting.is_empty());
        assert_eq!(shared.answered.load(Ordering::Acquire), 32);
    }
}
