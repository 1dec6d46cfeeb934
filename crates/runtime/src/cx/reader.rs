//! Reads of one fixed length by one context: the form whose state lies in the context's frame.
//!
//! A [`Reader`] is taken by `&mut` for each read, so a second read cannot begin while the bytes of
//! the first are borrowed, and `N` is part of its type. On a device with fixed reads
//! ([`ReadDevice::has_fixed`]) the future itself keeps where its bytes are and when they are due;
//! no slot entry is written. On other devices a reader goes through [`Cx::read`].
//!
//! A read's life: `Late -> Issued`. [`Reader::read`] issues, unless the reader has no slot yet or
//! waits for the answer to a dropped read. No answer is due before the device's next `reap`, which
//! a ring calls between two polls of a context: so a read suspends at its first poll, and nothing
//! need be kept to tell that poll from later ones.
//!
//! Invariants
//! - A reader holds one slot while it lives and has at most one read under way, so a device's
//!   slots bound its outstanding reads here as well. Checked by
//!   `a_dropped_fixed_read_keeps_the_reader_from_reading_until_its_answer_is_due`.
//! - Every `Pending` returned here has bumped `Core::fixed_pendings`; the device alone counts the
//!   reads. Checked by `a_foreign_future_among_fixed_reads_is_refused`.
//! - A length that the device does not take is refused when it is read. Checked by
//!   `a_length_or_a_place_that_the_device_does_not_take_is_refused`.
//!
//! [`ReadDevice::has_fixed`]: littoral_device::read::ReadDevice::has_fixed

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use littoral_base::counters::bump;
use littoral_base::mutant;
use littoral_device::read::{Limits, ReadDevice, Slot};

use super::{Cx, Read, ReadGuard};
use crate::error::{Error, Result};

/// In [`Reader::late`]: the next read may be issued.
const READY: u64 = 0;
/// ... no slot is held yet.
const NO_SLOT: u64 = u64::MAX;
/// ... the device does not take reads of this length.
const ILLEGAL: u64 = u64::MAX - 1;

/// Reads `N` bytes at a time; see [`Cx::reader`].
pub struct Reader<'r, D: ReadDevice, const N: usize> {
    cx: Cx<'r, D>,
    /// The slot that is held, where one is.
    slot: u64,
    /// What keeps the next read from being issued; else when an abandoned read is due.
    late: u64,
    /// On devices without fixed reads: the read under way or the bytes of the latest.
    general: Option<Box<General<'r, D>>>,
}

/// A read through a slot, of a reader on a device without fixed reads.
enum General<'r, D: ReadDevice> {
    UnderWay(Read<'r, D>),
    #[allow(dead_code)] // Reason: kept for its drop, which releases the slot.
    Done(ReadGuard<'r, D>),
}

/// Whether the device takes reads of `len` bytes.
fn is_legal(limits: &Limits, len: usize) -> bool {
    let granule = limits.granule_bytes as usize;
    let fits = len <= limits.read_bytes_max as usize && len as u64 <= limits.capacity_bytes;
    (len > 0 && fits && len.is_multiple_of(granule)) || mutant!("runtime_length_unchecked")
}

impl<'r, D: ReadDevice, const N: usize> Reader<'r, D, N> {
    #[inline(always)]
    pub(crate) fn new(cx: Cx<'r, D>) -> Self {
        let mut reader = Reader { cx, slot: 0, late: READY, general: None };
        if cx.core.device.has_fixed() {
            reader.prepare();
        }
        reader
    }

    #[inline(never)]
    fn prepare(&mut self) {
        let device = &self.cx.core.device;
        self.late = if is_legal(&device.limits(), N) { NO_SLOT } else { ILLEGAL };
        if self.late == NO_SLOT {
            self.take_slot();
        }
    }

    fn take_slot(&mut self) {
        match self.cx.core.hold(Slot(self.cx.context())) {
            Some(slot) => (self.slot, self.late) = (u64::from(slot.0), READY),
            None => bump(&self.cx.core.counters.starved_count, 1),
        }
    }

    /// Starts reading `N` bytes at byte address `addr` and waits for them when awaited.
    ///
    /// A read that breaks the device's limits ends with
    /// [`Kind::Read`](crate::Kind::Read)`(Status::Refused)`. Dropping a read under way is allowed:
    /// the reader's next read then waits until the device has answered the dropped one.
    #[inline(always)]
    pub fn read(&mut self, addr: u64) -> FixedRead<'_, 'r, D, N> {
        let device = &self.cx.core.device;
        if !device.has_fixed() {
            // The bytes of the read before are borrowed no longer.
            self.general = None;
        } else if self.late == READY
            && let Some((bytes, due)) = device.issue_fixed::<N>(addr)
        {
            return FixedRead { reader: self, bytes: Some(bytes), word: due };
        }
        FixedRead { reader: self, bytes: None, word: addr }
    }

    #[cold]
    fn refusal(&self, addr: u64) -> Error {
        self.cx.core.refusal(&format!("read of {N} bytes at {addr}"))
    }
}

impl<D: ReadDevice, const N: usize> Drop for Reader<'_, D, N> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.cx.core.device.has_fixed() && self.late < ILLEGAL {
            self.cx.core.release_held(Slot(self.slot as u32), self.late);
        }
    }
}

impl<D: ReadDevice, const N: usize> fmt::Debug for Reader<'_, D, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("cx", &self.cx).field("bytes", &N).finish()
    }
}

/// A read of a [`Reader`].
///
/// Its word is the address until the read is issued, then when the bytes are due. What is written
/// here at every read is its cost, so the end of a read writes nothing: a read whose time has come
/// has ended.
#[must_use = "a read is waited for by awaiting it"]
pub struct FixedRead<'a, 'r, D: ReadDevice, const N: usize> {
    reader: &'a mut Reader<'r, D, N>,
    /// Where the bytes are, once the read is issued.
    bytes: Option<&'r [u8; N]>,
    word: u64,
}

impl<'a, 'r, D: ReadDevice, const N: usize> FixedRead<'a, 'r, D, N> {
    /// A poll of a read that could not be issued when it was made.
    #[cold]
    fn begin(&mut self) -> Poll<Result<&'a [u8; N]>> {
        let reader = &mut *self.reader;
        let device = &reader.cx.core.device;
        match reader.late {
            READY => match device.issue_fixed::<N>(self.word) {
                Some((bytes, due)) => (self.bytes, self.word) = (Some(bytes), due),
                None => return Poll::Ready(Err(reader.refusal(self.word))),
            },
            ILLEGAL => return Poll::Ready(Err(reader.refusal(self.word))),
            NO_SLOT => reader.take_slot(),
            due if device.is_due(due) => reader.late = READY,
            _ => {}
        }
        bump(&reader.cx.core.fixed_pendings, 1);
        Poll::Pending
    }

    /// A poll on a device without fixed reads.
    fn poll_general(&mut self, task: &mut Context<'_>) -> Poll<Result<&'a [u8; N]>> {
        let reader = &mut *self.reader;
        let begin = || Box::new(General::UnderWay(reader.cx.read(self.word, N as u32)));
        let general = reader.general.get_or_insert_with(begin);
        let General::UnderWay(read) = &mut **general else {
            panic!("a read was polled after it had completed");
        };
        let guard = match Pin::new(read).poll(task) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(answer) => answer?,
        };
        let bytes = guard.lent().first_chunk().expect("invariant: a read brings its length");
        **general = General::Done(guard);
        Poll::Ready(Ok(bytes))
    }
}

impl<'a, D: ReadDevice, const N: usize> Future for FixedRead<'a, '_, D, N> {
    type Output = Result<&'a [u8; N]>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let core = this.reader.cx.core;
        if !core.device.has_fixed() {
            return this.poll_general(task);
        }
        let Some(bytes) = this.bytes else { return this.begin() };
        if core.device.is_due(this.word) {
            return Poll::Ready(Ok(bytes));
        }
        bump(&core.fixed_pendings, 1);
        Poll::Pending
    }
}

impl<D: ReadDevice, const N: usize> Drop for FixedRead<'_, '_, D, N> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.bytes.is_some() && !self.reader.cx.core.device.is_due(self.word) {
            self.abandon();
        }
    }
}

impl<D: ReadDevice, const N: usize> FixedRead<'_, '_, D, N> {
    #[cold]
    fn abandon(&mut self) {
        bump(&self.reader.cx.core.counters.abandoned_count, 1);
        if !mutant!("runtime_fixed_not_abandoned") {
            self.reader.late = self.word;
        }
    }
}

impl<D: ReadDevice, const N: usize> fmt::Debug for FixedRead<'_, '_, D, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FixedRead").field("reader", &self.reader).finish_non_exhaustive()
    }
}
