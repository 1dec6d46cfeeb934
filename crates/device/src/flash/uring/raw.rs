//! The unsafe half of the io_uring device: the ring, the buffers the kernel writes, and who may see
//! them when.
//!
//! Invariants
//! - A buffer with a request in flight is never lent: [`RawRing::bytes`] checks the count. Checked
//!   by `RawRing::bytes`.
//! - The buffers outlive every request: dropping the ring waits for all answers before unmapping.
//!   Checked by `RawRing::drop`.
//! - One thread only: the type is `!Send` and `!Sync`. Checked by
//!   `no_read_device_is_shared_by_threads`.

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::{IoUring, opcode, types};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// The index of the only registered file and of the only registered buffer.
const FIRST: u16 = 0;
const IORING_ENTER_GETEVENTS: u32 = 1;

/// One anonymous mapping, cut into a stride a slot.
struct Mapping {
    at: *mut u8,
    len: usize,
}

impl Mapping {
    fn new(len: usize) -> io::Result<Mapping> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), len, prot, flags) }?;
        Ok(Mapping { at: at.cast(), len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        // SAFETY: the mapping was made by `new` with this length and nothing refers to it any more:
        // loans borrow the ring that owns it, and the ring has waited for the kernel.
        let unmapped = unsafe { munmap(self.at.cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "unmapping the buffers failed");
    }
}

/// An io_uring with one registered file and one registered range of buffers.
pub(super) struct RawRing {
    /// Declared, and so dropped, before the buffers.
    ring: RefCell<IoUring>,
    buffers: Mapping,
    stride: usize,
    in_flight: Box<[Cell<u8>]>,
    owed: Cell<u32>,
    file: File,
    fixed_buffers: bool,
    not_send: PhantomData<*mut ()>,
}

impl RawRing {
    /// A ring of `slots` buffers of `stride` bytes each over `file`.
    pub(super) fn new(file: File, slots: u32, stride: usize) -> io::Result<RawRing> {
        let ring = build(slots)?;
        let buffers = Mapping::new(stride * slots as usize)?;
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        let whole = libc::iovec { iov_base: buffers.at.cast(), iov_len: buffers.len };
        // SAFETY: the range is mapped, stays mapped until the ring is gone, and is written by the
        // kernel only for requests counted in `in_flight`. A refusal (locked-memory limit) is no
        // error: reads then name plain addresses.
        let fixed_buffers = unsafe { ring.submitter().register_buffers(&[whole]) }.is_ok();
        Ok(RawRing {
            ring: RefCell::new(ring),
            buffers,
            stride,
            in_flight: (0..slots).map(|_| Cell::new(0)).collect(),
            owed: Cell::new(0),
            file,
            fixed_buffers,
            not_send: PhantomData,
        })
    }

    /// Whether the buffers are registered with the kernel.
    pub(super) fn has_fixed_buffers(&self) -> bool {
        self.fixed_buffers
    }

    /// Queues a read of `len` bytes at `offset` of the file into the slot's buffer from `skip` on;
    /// it reaches the kernel at the next [`RawRing::submit`] or wait.
    ///
    /// # Panics
    /// When the range leaves the slot's buffer.
    pub(super) fn push(&self, slot: u32, skip: usize, offset: u64, len: u32) {
        assert!(skip + len as usize <= self.stride, "a read must stay inside its buffer");
        let start = slot as usize * self.stride + skip;
        assert!(start + len as usize <= self.buffers.len, "a slot must exist");
        // SAFETY: `start` is inside the mapping, as just checked.
        let at = unsafe { self.buffers.at.add(start) };
        let file = types::Fixed(u32::from(FIRST));
        let entry = if self.fixed_buffers {
            opcode::ReadFixed::new(file, at, len, FIRST).offset(offset).build()
        } else {
            opcode::Read::new(file, at, len).offset(offset).build()
        };
        let entry = entry.user_data(u64::from(slot));
        let mut ring = self.ring.borrow_mut();
        loop {
            // SAFETY: the buffer range is valid and belongs to this request until its answer is
            // drained; `in_flight` keeps it from being lent, `Drop` keeps it mapped.
            let pushed = unsafe { ring.submission().push(&entry) };
            if pushed.is_ok() {
                break;
            }
            // The queue has a place a slot, so it is full only with continuations of short reads.
            let submitted = ring.submit();
            assert!(submitted.is_ok(), "a full submission queue could not be submitted");
        }
        let count = &self.in_flight[slot as usize];
        debug_assert_eq!(count.get(), 0, "a slot has one request in the kernel");
        count.set(count.get() + 1);
        self.owed.set(self.owed.get() + 1);
    }

    /// Hands queued reads to the kernel: one system call for all of them.
    pub(super) fn submit(&self) -> io::Result<()> {
        let ring = self.ring.borrow();
        loop {
            match ring.submit() {
                Err(e) if is_transient(&e) => {}
                Err(e) => return Err(e),
                Ok(_) => return Ok(()),
            }
        }
    }

    /// Lets the kernel post answers it has deferred to this thread, if it says there are some.
    pub(super) fn run_deferred(&self) -> io::Result<()> {
        let mut ring = self.ring.borrow_mut();
        if !ring.submission().taskrun() {
            return Ok(());
        }
        // SAFETY: `enter` with no argument passes no pointer to the kernel.
        match unsafe {
            ring.submitter().enter::<libc::sigset_t>(0, 0, IORING_ENTER_GETEVENTS, None)
        } {
            Err(e) if !is_transient(&e) => Err(e),
            _ => Ok(()),
        }
    }

    /// Hands queued reads to the kernel and waits for `want` answers, at most `timeout`.
    pub(super) fn wait(&self, want: usize, timeout: Duration) -> io::Result<()> {
        let limit = types::Timespec::from(timeout);
        let arguments = types::SubmitArgs::new().timespec(&limit);
        match self.ring.borrow().submitter().submit_with_args(want, &arguments) {
            Err(e) if e.raw_os_error() == Some(libc::ETIME) || is_transient(&e) => Ok(()),
            Err(e) => Err(e),
            Ok(_) => Ok(()),
        }
    }

    /// Takes the next answer: slot and result (bytes read, or a negative error number).
    pub(super) fn next_answer(&self) -> Option<(u32, i32)> {
        let answer = self.ring.borrow_mut().completion().next()?;
        let slot = u32::try_from(answer.user_data()).expect("invariant: user data are a slot");
        let count = &self.in_flight[slot as usize];
        count.set(count.get().checked_sub(1).expect("invariant: an answer was owed"));
        self.owed.set(self.owed.get() - 1);
        Some((slot, answer.result()))
    }

    /// The first `len` bytes of a slot's buffer.
    ///
    /// # Panics
    /// When a request is in flight on the slot, or `len` is longer than its buffer.
    pub(super) fn bytes(&self, slot: u32, len: usize) -> &[u8] {
        assert_eq!(self.in_flight[slot as usize].get(), 0, "the kernel still writes this buffer");
        assert!(len <= self.stride, "longer than the buffer");
        // SAFETY: the range is mapped and initialised (anonymous memory is zero), the kernel writes
        // it only for requests in flight and there are none; the trait's contract ends the loan
        // before the next issue on the slot.
        unsafe { std::slice::from_raw_parts(self.buffers.at.add(slot as usize * self.stride), len) }
    }

    /// The open file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for RawRing {
    fn drop(&mut self) {
        while self.owed.get() > 0 {
            if self.wait(1, Duration::from_secs(1)).is_err() {
                // The ring is broken; leak the buffers rather than let the kernel write freed
                // memory.
                let leaked = Mapping { at: std::ptr::dangling_mut(), len: 0 };
                std::mem::forget(std::mem::replace(&mut self.buffers, leaked));
                return;
            }
            while self.next_answer().is_some() {}
        }
        let is_idle = self.in_flight.iter().all(|count| count.get() == 0);
        debug_assert!(is_idle, "a buffer is unmapped before its answer");
    }
}

fn is_transient(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY))
}

/// The ring with the cheapest set-up the kernel takes: answers are posted only when this thread
/// asks (no interrupts of its work), else the plain form.
fn build(slots: u32) -> io::Result<IoUring> {
    let cheapest = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_cqsize(2 * slots.next_power_of_two())
        .build(slots);
    match cheapest {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => IoUring::new(slots),
        other => other,
    }
}
