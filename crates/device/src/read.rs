//! Asynchronous small reads: the seam between the coroutine ring and every medium it can read.
//!
//! A [`ReadDevice`] owns a fixed set of *slots*. A slot owns a buffer; a request is issued on a
//! free slot, completes in any order, and its data stay valid until the slot is released. The ring
//! (crate `runtime`) is the usual caller; `docs/design/ring.md` has the whole life of a request.
//!
//! Slot states: `Free -> Issued -> Done -> Free`, and `Issued -> Abandoned -> Free` when the asker
//! has gone away: the buffer of an abandoned slot is not given to anyone until the device has
//! answered, so late data reach no other request (paper 003 leaves this open).
//!
//! Invariants
//! - At most `limits().slots` requests are outstanding; `issue` on a slot that is not free is a
//!   programming error and panics in debug builds. Checked by
//!   `an_issue_on_a_slot_in_use_panics_in_debug_builds`.
//! - `poll` answers `Some` only after every byte asked for has arrived; a device whose completion
//!   rule cannot promise that says so in its documentation and in `limits().completion`. Checked by
//!   `every_device_answers_with_the_bytes_asked_for`.
//! - A request that can never complete (past its deadline) completes with [`Status::TimedOut`].
//!   Checked by `a_device_that_always_fails_says_so`.
//! - Devices use interior mutability and are not `Sync`: one device handle per core, shared by that
//!   core's coroutines. Checked by `no_read_device_is_shared_by_threads`.
//!
//! Frozen: the trait's methods and meanings change only together with every engine.

use std::fmt;
use std::time::Duration;

use littoral_base::clock::ClockKind;

mod raw;
pub use raw::Lease;
use raw::{copy_of, word_of};

/// A slot of a read device: an index below `limits().slots`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    /// The slot as an index.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// How a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Every byte arrived.
    Ok = 0,
    /// The medium reported an uncorrectable error.
    MediaError = 1,
    /// The device answered for another address than was asked (trailer or tag mismatch).
    Misdirected = 2,
    /// The data arrived but their checksum does not verify.
    ChecksumMismatch = 3,
    /// No answer before the deadline, reissues included.
    TimedOut = 4,
    /// The device refused the request (range, alignment, length).
    Refused = 5,
    /// The operating system failed the request; `ReadDevice::last_error` has its words.
    Os = 6,
}

impl Status {
    /// Whether the data may be used.
    #[inline(always)]
    pub const fn is_ok(self) -> bool {
        matches!(self, Status::Ok)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Ok => "ok",
            Status::MediaError => "medium error",
            Status::Misdirected => "answer for another address",
            Status::ChecksumMismatch => "checksum mismatch",
            Status::TimedOut => "no answer before the deadline",
            Status::Refused => "request refused",
            Status::Os => "operating-system error",
        })
    }
}

/// How the arrival of a whole read is recognised (`docs/design/completion.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Completion {
    /// Data are there when `issue` returns (DRAM).
    AtIssue,
    /// A modelled deadline on the time-stamp counter.
    Deadline,
    /// A separate word {tag, status} written after the data.
    Word,
    /// A trailer {address, generation, CRC32C} at the end of each page.
    PageTrailer,
    /// A word of each line that the file format keeps free of the sentinel.
    ReservedWord,
    /// Two different sentinels in turn: exact for arbitrary data after one reissue.
    TwoSentinels,
    /// A completion queue (NVMe, io_uring) or a thread's answer.
    Queue,
}

/// What a device can take and how it must be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Slots, and so the most requests outstanding at once.
    pub slots: u32,
    /// Addresses and lengths are multiples of this many bytes (a power of two).
    pub granule_bytes: u32,
    /// The longest single read in bytes; every slot's buffer is at least this long.
    pub read_bytes_max: u32,
    /// Readable bytes; a read may not pass the end.
    pub capacity_bytes: u64,
    /// How arrival is recognised.
    pub completion: Completion,
    /// Which clock stands behind this device's answers.
    pub clock: ClockKind,
    /// Whether answers can be awaited by sleeping (`park`) rather than spinning.
    pub can_park: bool,
}

/// A medium that answers small reads asynchronously; see the module's page for the rules.
pub trait ReadDevice {
    /// Whether a read costs so little (tens of nanoseconds) that code is worth compiling for this
    /// device alone and for one thread alone.
    const FAST: bool = true;

    /// What the device can take.
    fn limits(&self) -> Limits;

    /// Starts reading `len` bytes at byte address `addr` into the buffer of `slot`.
    ///
    /// Address and length are multiples of the granule, the length is at most `read_bytes_max`, the
    /// slot is free. A request outside the medium completes with [`Status::Refused`].
    fn issue(&self, slot: Slot, addr: u64, len: u32);

    /// [`ReadDevice::issue`] where the slot is free; `false`, and nothing done, where it is not.
    ///
    /// One look at the slot instead of two, for devices that can.
    #[inline(always)]
    fn try_issue(&self, slot: Slot, addr: u64, len: u32) -> bool {
        let free = self.is_free(slot);
        if free {
            self.issue(slot, addr, len);
        }
        free
    }

    /// Hands all issued requests to the device; a device that sees them at once does nothing.
    #[inline(always)]
    fn kick(&self) {}

    /// Collects answers, if the device needs collecting; called once a sweep.
    #[inline(always)]
    fn reap(&self) {}

    /// The status of an issued request once it is complete, `None` while it is under way.
    fn poll(&self, slot: Slot) -> Option<Status>;

    /// The bytes of a completed request, exactly as many as were asked for.
    ///
    /// The slice is valid until the slot is released or issued on: who asks has promised to keep to
    /// that ([`Lease::new`]). The ring's guard keeps it by a lifetime; [`ReadDevice::copy`] and
    /// [`ReadDevice::word`] need no promise.
    fn data(&self, slot: Slot, lease: Lease) -> &[u8];

    /// A copy of the bytes of a completed request.
    fn copy(&self, slot: Slot) -> Vec<u8> {
        copy_of(self, slot)
    }

    /// Word `index` (8 bytes, little-endian) of a completed request; `None` beyond its end.
    #[inline(always)]
    fn word(&self, slot: Slot, index: usize) -> Option<u64> {
        word_of(self, slot, index)
    }

    /// [`ReadDevice::poll`] and, of a read that ended well, [`ReadDevice::data`], in one look.
    #[inline(always)]
    fn answer(&self, slot: Slot, lease: Lease) -> Option<Result<&[u8], Status>> {
        match self.poll(slot)? {
            Status::Ok => Some(Ok(self.data(slot, lease))),
            status => Some(Err(status)),
        }
    }

    /// Whether the device takes reads of a fixed length ([`ReadDevice::issue_fixed`]). A constant
    /// of the device's type, so that a caller's test of it is compiled away.
    #[inline(always)]
    fn has_fixed(&self) -> bool {
        false
    }

    /// Starts a read of `N` bytes at `addr` for which the device keeps no slot entry: the caller
    /// keeps what is answered, which is where the bytes are and when they have arrived
    /// ([`ReadDevice::is_due`]), at the next [`ReadDevice::reap`] at the earliest. `None` where the
    /// read breaks a limit, and from devices without fixed reads.
    ///
    /// The caller has called `reap` since the device was last idle and calls it again before 2^31
    /// bytes are asked for, holds a slot for the read ([`ReadDevice::hold`]), and `N` is a legal
    /// length.
    #[inline(always)]
    fn issue_fixed<const N: usize>(&self, _addr: u64) -> Option<(&[u8; N], u64)>
    where
        Self: Sized,
    {
        None
    }

    /// Whether a fixed read with this due time has arrived.
    #[inline(always)]
    fn is_due(&self, _due: u64) -> bool {
        true
    }

    /// Fixed reads issued so far.
    #[inline(always)]
    fn fixed_count(&self) -> u64 {
        0
    }

    /// Holds a free slot for a caller's fixed reads, one at a time; `false`, and nothing done,
    /// where the slot is not free. Devices without fixed reads hold none.
    fn hold(&self, _slot: Slot) -> bool {
        false
    }

    /// Frees a held slot once the fixed read that is due at `due` has been answered: until then the
    /// slot is abandoned.
    fn release_due(&self, _slot: Slot, _due: u64) {}

    /// Frees a slot. A slot whose request is still under way becomes abandoned: it must not be
    /// issued on until [`ReadDevice::is_free`] says so.
    fn release(&self, slot: Slot);

    /// [`ReadDevice::release`] of a slot that `poll` has reported complete: nothing is to be
    /// abandoned, so a device may save itself the look.
    #[inline(always)]
    fn release_done(&self, slot: Slot) {
        self.release(slot);
    }

    /// Whether the slot may be issued on.
    fn is_free(&self, slot: Slot) -> bool;

    /// Waits until an answer may have arrived, at most `timeout`; spinning devices return at once.
    #[inline(always)]
    fn park(&self, _timeout: Duration) {}

    /// Address and length of the request on a slot that is not free, for error messages; `None`
    /// where the device does not remember them.
    fn request(&self, _slot: Slot) -> Option<(u64, u32)> {
        None
    }

    /// The words of the last operating-system error behind [`Status::Os`].
    fn last_error(&self) -> Option<String> {
        None
    }
}
