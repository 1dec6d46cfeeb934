//! io_uring over a file or block device: one system call for a batch of reads, sleep instead of
//! spin.
//!
//! Direct access (`O_DIRECT`) where the file system states its alignment, a registered file,
//! registered buffers. `kick` submits everything issued in one call, `reap` drains the completion
//! queue, `park` sleeps until several answers have come or the timeout passes.
//!
//! Invariants
//! - Answers are taken in any order; a slot has at most one request in the kernel. Checked by
//!   `RawRing::push`.
//! - The buffer of a slot with a request in flight is never lent, and never unmapped before its
//!   answer (`raw`). Checked by `RawRing::bytes`, `RawRing::drop`.
//! - A short read is continued only as long as it comes further. Checked by
//!   `a_direct_read_ends_where_the_file_does`.
//!
//! Faults: short reads are continued, `EINTR` and `EAGAIN` repeated; an end of file inside a
//! request (the file shrank) is [`Status::Os`]; `EIO` is [`Status::MediaError`];
//! [`ReadDevice::last_error`] has the system's words. Where the kernel or a container forbids
//! io_uring, [`available`] says why and [`super::opened::FlashDevice::file`] takes a pread pool.

use std::cell::{Cell, RefCell};
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use littoral_base::clock::ClockKind;
use littoral_base::mutant;

use super::file::{Direct, Source, check_options};
use super::pread::{is_legal, status_of};
use super::slots::Slots;
use crate::error::{Error, Kind, Result};
use crate::read::{Completion, Lease, Limits, ReadDevice, Slot, Status};

mod raw;

/// How to open an io_uring device.
#[derive(Clone, Copy, Debug)]
pub struct UringOptions {
    /// Slots: the most requests outstanding.
    pub slots: u32,
    /// Longest single read in bytes.
    pub read_bytes_max: u32,
    /// Whether reads bypass the page cache.
    pub direct: Direct,
    /// `park` sleeps until this many answers have come (at most what is outstanding): more means
    /// fewer system calls and wake-ups a read, at the price of latency.
    pub park_batch: u32,
}

impl Default for UringOptions {
    fn default() -> Self {
        UringOptions { slots: 64, read_bytes_max: 64 << 10, direct: Direct::Auto, park_batch: 1 }
    }
}

const SLOTS_MAX: u32 = 1 << 12;
const BUFFER_ALIGN: usize = 4096;

/// Where a slot's request stands.
#[derive(Clone, Copy, Debug, Default)]
struct Request {
    addr: u64,
    /// Bytes asked for by the caller.
    wanted: u32,
    /// Bytes asked of the kernel: `wanted` rounded up to the alignment.
    len: u32,
    /// Bytes that have arrived.
    done: u32,
}

/// What an answer has brought of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// All that was wanted.
    Whole,
    /// A part; the request goes on behind `done`.
    Short,
    /// The file ends at `done`.
    End,
}

impl Request {
    /// Takes note of `arrived` bytes; reads begin at multiples of `align`.
    fn take(&mut self, arrived: u32, align: u32) -> Taken {
        let before = self.done;
        debug_assert!(before.is_multiple_of(align), "a read from {before} on, not by {align}");
        self.done += arrived;
        if self.done >= self.wanted {
            return Taken::Whole;
        }
        // A direct read goes on at an aligned place; bytes read twice are the same bytes.
        let aligned = self.done - self.done % align;
        // One that comes no further would be repeated for ever.
        let is_end = aligned == before && !mutant!("device_short_read_repeated");
        if is_end || arrived == 0 {
            return Taken::End;
        }
        self.done = aligned;
        Taken::Short
    }
}

/// A file or block device read through io_uring.
pub struct Uring {
    ring: raw::RawRing,
    slots: Slots,
    requests: Box<[Cell<Request>]>,
    unsubmitted: Cell<u32>,
    park_batch: u32,
    align: u32,
    direct: bool,
    broken: Cell<bool>,
    last_error: RefCell<Option<String>>,
    limits: Limits,
}

/// Whether this process may use io_uring; the words say why not. Probed once.
///
/// # Errors
/// The system's words.
pub fn available() -> std::result::Result<(), String> {
    static PROBE: OnceLock<std::result::Result<(), String>> = OnceLock::new();
    let refused = |why: &str| Err(format!("io_uring is not available here: {why}"));
    let probe = || match io_uring::IoUring::new(2) {
        // `park` waits with a time limit.
        Ok(ring) if ring.params().is_feature_ext_arg() => Ok(()),
        Ok(_) => refused("the kernel cannot wait with a time limit, as Linux 5.11 can"),
        Err(e) => refused(&e.to_string()),
    };
    PROBE.get_or_init(probe).clone()
}

impl Uring {
    /// Opens `path`.
    ///
    /// # Errors
    /// `Kind::Unsupported` where io_uring is forbidden; `Kind::IllegalRequest` for options out of
    /// range; else as [`Source::open`].
    pub fn open(path: &Path, options: UringOptions) -> Result<Uring> {
        check_options(options.slots, options.read_bytes_max, SLOTS_MAX)?;
        available().map_err(|why| Error::new(Kind::Unsupported, why))?;
        Self::on(Source::open(path, options.direct)?, options)
    }

    /// A ring over an open file; `options.direct` is what the file was opened with.
    ///
    /// # Errors
    /// As [`Uring::open`] on an opened file.
    pub(crate) fn on(source: Source, options: UringOptions) -> Result<Uring> {
        check_options(options.slots, options.read_bytes_max, SLOTS_MAX)?;
        available().map_err(|why| Error::new(Kind::Unsupported, why))?;
        let stride = (options.read_bytes_max as usize).next_multiple_of(BUFFER_ALIGN);
        let limits = Limits {
            slots: options.slots,
            granule_bytes: source.align_bytes,
            read_bytes_max: options.read_bytes_max,
            capacity_bytes: source.len,
            completion: Completion::Queue,
            clock: ClockKind::Wall,
            can_park: true,
        };
        let ring = raw::RawRing::new(source.file, options.slots, stride).map_err(|e| {
            let what = format!("setting up io_uring on {}", source.path.display());
            Error::with_source(Kind::Io, what, e)
        })?;
        Ok(Uring {
            ring,
            slots: Slots::new(options.slots),
            requests: (0..options.slots).map(|_| Cell::default()).collect(),
            unsubmitted: Cell::new(0),
            park_batch: options.park_batch.max(1),
            align: source.align_bytes,
            direct: source.direct,
            broken: Cell::new(false),
            last_error: RefCell::new(None),
            limits,
        })
    }

    /// Whether reads bypass the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// What is real here, in words.
    pub fn describe(&self) -> String {
        let cache = if self.direct { "O_DIRECT" } else { "page cache" };
        let buffers = if self.ring.has_fixed_buffers() { "registered" } else { "unregistered" };
        format!("io_uring, {cache}, registered file, {buffers} buffers")
    }

    /// The open file.
    pub fn file(&self) -> &std::fs::File {
        self.ring.file()
    }

    fn push(&self, slot: Slot, request: Request) {
        let skip = request.done as usize;
        let (addr, len) = (request.addr + u64::from(request.done), request.len - request.done);
        self.ring.push(slot.0, skip, addr, len);
        self.requests[slot.index()].set(request);
        self.unsubmitted.set(self.unsubmitted.get() + 1);
    }

    fn accept(&self, slot: Slot, result: i32) {
        let mut request = self.requests[slot.index()].get();
        let Ok(arrived) = u32::try_from(result) else {
            return self.accept_error(slot, request, io::Error::from_raw_os_error(-result));
        };
        match request.take(arrived, self.align) {
            Taken::Whole => {
                self.requests[slot.index()].set(request);
                self.slots.complete(slot, Status::Ok);
            }
            Taken::Short => self.push(slot, request),
            Taken::End => {
                let end = request.addr + u64::from(request.done);
                self.note(format!("the file ended at byte {end} inside a read; it has shrunk"));
                self.slots.complete(slot, Status::Os);
            }
        }
    }

    fn accept_error(&self, slot: Slot, request: Request, e: io::Error) {
        if matches!(e.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) {
            return self.push(slot, request);
        }
        let status = status_of(&e);
        self.note(e.to_string());
        self.slots.complete(slot, status);
    }

    fn note(&self, words: String) {
        *self.last_error.borrow_mut() = Some(words);
    }

    fn drain(&self) {
        while !self.broken.get()
            && let Some((slot, result)) = self.ring.next_answer()
        {
            self.accept(Slot(slot), result);
        }
    }

    /// A ring that cannot be entered is of no further use: every request owed and every later one
    /// ends with [`Status::Os`], so no context waits for ever. Buffers the kernel may still write
    /// stay unlent.
    fn entered(&self, what: &str, outcome: io::Result<()>) {
        if let Err(e) = outcome {
            self.note(format!("{what}: {e}"));
            self.broken.set(true);
            self.slots.fail_all(Status::Os);
        }
    }
}

impl ReadDevice for Uring {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn issue(&self, slot: Slot, addr: u64, len: u32) {
        // What ends here is remembered for messages; no byte of it has arrived.
        let unasked = Request { addr, wanted: len, len: 0, done: 0 };
        if !is_legal(&self.limits, addr, len) {
            self.requests[slot.index()].set(unasked);
            self.slots.finish_at_issue(slot, Status::Refused);
            return;
        }
        if len == 0 || self.broken.get() {
            self.requests[slot.index()].set(unasked);
            let status = if self.broken.get() { Status::Os } else { Status::Ok };
            self.slots.finish_at_issue(slot, status);
            return;
        }
        self.slots.issue(slot);
        let padded = len.next_multiple_of(self.align);
        self.push(slot, Request { addr, wanted: len, len: padded, done: 0 });
    }

    fn kick(&self) {
        if self.unsubmitted.get() > 0 {
            self.unsubmitted.set(0);
            self.entered("submitting reads", self.ring.submit());
        }
    }

    fn reap(&self) {
        if self.slots.outstanding() > 0 {
            self.entered("collecting answers", self.ring.run_deferred());
            self.drain();
        }
    }

    fn poll(&self, slot: Slot) -> Option<Status> {
        self.slots.poll(slot)
    }

    fn data(&self, slot: Slot, _: Lease) -> &[u8] {
        assert!(self.slots.poll(slot).is_some(), "{slot:?} is not finished");
        let request = self.requests[slot.index()].get();
        self.ring.bytes(slot.0, request.done.min(request.wanted) as usize)
    }

    fn release(&self, slot: Slot) {
        self.slots.release(slot);
    }

    fn is_free(&self, slot: Slot) -> bool {
        self.slots.is_free(slot)
    }

    fn park(&self, timeout: Duration) {
        let owed = self.slots.outstanding();
        if owed > 0 {
            self.unsubmitted.set(0);
            let want = self.park_batch.min(owed) as usize;
            self.entered("waiting for answers", self.ring.wait(want, timeout));
            self.drain();
        }
    }

    fn request(&self, slot: Slot) -> Option<(u64, u32)> {
        let request = self.requests[slot.index()].get();
        (!self.slots.is_free(slot)).then_some((request.addr, request.wanted))
    }

    fn last_error(&self) -> Option<String> {
        self.last_error.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direct_read_ends_where_the_file_does() {
        let new = || Request { addr: 8192, wanted: 4096, len: 4096, done: 0 };
        // The file has 1000 bytes more: the second answer brings the end of the first again.
        let mut request = new();
        assert_eq!((request.take(1000, 512), request.done), (Taken::Short, 512));
        assert_eq!((request.take(488, 512), request.done), (Taken::End, 1000));
        let mut request = new();
        assert_eq!((request.take(1024, 512), request.done), (Taken::Short, 1024));
        assert_eq!((request.take(3072, 512), request.done), (Taken::Whole, 4096));
        // Through the page cache a read goes on anywhere.
        let mut request = new();
        assert_eq!((request.take(1000, 1), request.done), (Taken::Short, 1000));
        assert_eq!((request.take(1, 1), request.done), (Taken::Short, 1001));
        assert_eq!((request.take(0, 1), request.done), (Taken::End, 1001));
    }
}
