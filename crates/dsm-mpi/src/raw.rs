//! Calls of the shim. The caller makes them one at a time, on threads that MPI allows
//! ([`super::calls::Calls`]).
//!
//! Invariants
//! - A post's bytes stay where they are until MPI has sent them: [`Post`] owns them, and a dropped
//!   one that is not sent leaves them in memory. Checked by
//!   `ranks_that_mpirun_starts_agree_with_one_process`.

#![allow(unsafe_code)] // Reason: calls of C.

use std::ffi::{c_int, c_long, c_void};

unsafe extern "C" {
    fn littoral_mpi_start(wanted: c_int, by_program: *mut c_int) -> c_int;
    fn littoral_mpi_join(rank: *mut c_int, ranks: *mut c_int) -> c_int;
    fn littoral_mpi_machines(firsts: *mut c_int) -> c_int;
    fn littoral_mpi_broadcast(bytes: *mut c_void, length: c_int) -> c_int;
    fn littoral_mpi_least(own: c_int) -> c_int;
    fn littoral_mpi_post(to: c_int, bytes: *const c_void, length: c_int) -> *mut c_void;
    fn littoral_mpi_sent(post: *mut c_void) -> c_int;
    fn littoral_mpi_next(from: *mut c_int) -> c_int;
    fn littoral_mpi_take(from: c_int, bytes: *mut c_void, length: c_int) -> c_int;
    fn littoral_mpi_finish() -> c_int;
    fn littoral_mpi_barrier() -> c_int;
    fn littoral_mpi_open_window() -> c_int;
    fn littoral_mpi_section() -> c_int;
    fn littoral_mpi_word() -> c_long;
}

/// MPI answered that a call failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed;

type Outcome<T> = Result<T, Failed>;

fn done(answer: c_int) -> Outcome<()> {
    if answer < 0 { Err(Failed) } else { Ok(()) }
}

/// Initialises MPI with a level of threads, unless the program has; the level there is, and whether
/// it was the program.
pub(crate) fn start(wanted: c_int) -> Outcome<(c_int, bool)> {
    assert!((0..=3).contains(&wanted), "a level of threads");
    let mut by_program = 0;
    // SAFETY: the pointer is to a local variable; the level is one of the shim's table.
    let level = unsafe { littoral_mpi_start(wanted, &raw mut by_program) };
    done(level).map(|()| (level, by_program != 0))
}

/// This rank and the number of ranks.
pub(crate) fn join() -> Outcome<(c_int, c_int)> {
    let (mut rank, mut ranks) = (0, 0);
    // SAFETY: the pointers are to local variables.
    done(unsafe { littoral_mpi_join(&raw mut rank, &raw mut ranks) }).map(|()| (rank, ranks))
}

/// For each of `ranks` ranks the first one of its machine.
pub(crate) fn machines(ranks: usize) -> Outcome<Vec<c_int>> {
    let mut firsts = vec![0; ranks];
    // SAFETY: there is room for a number of each rank.
    done(unsafe { littoral_mpi_machines(firsts.as_mut_ptr()) }).map(|()| firsts)
}

/// Rank 0's bytes at every rank.
pub(crate) fn broadcast(bytes: &mut [u8]) -> Outcome<()> {
    let length = c_int::try_from(bytes.len()).map_err(|_| Failed)?;
    // SAFETY: pointer and length are those of a slice.
    done(unsafe { littoral_mpi_broadcast(bytes.as_mut_ptr().cast(), length) })
}

/// The least of the ranks' numbers, none of which is negative.
pub(crate) fn least(own: c_int) -> Outcome<c_int> {
    // SAFETY: numbers only.
    let least = unsafe { littoral_mpi_least(own) };
    done(least).map(|()| least)
}

/// A message on its way.
pub(crate) struct Post {
    bytes: Vec<u8>,
    request: *mut c_void,
}

// SAFETY: the request is a heap object that MPI finds from any thread; calls are made one at a
// time.
unsafe impl Send for Post {}

impl Post {
    /// Begins to send.
    pub(crate) fn new(to: c_int, bytes: Vec<u8>) -> Outcome<Post> {
        let length = c_int::try_from(bytes.len()).map_err(|_| Failed)?;
        // SAFETY: the bytes are a vector's, which `Post` keeps until they are sent.
        let request = unsafe { littoral_mpi_post(to, bytes.as_ptr().cast(), length) };
        if request.is_null() { Err(Failed) } else { Ok(Post { bytes, request }) }
    }

    /// Bytes of the message.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it is sent.
    pub(crate) fn is_sent(&mut self) -> Outcome<bool> {
        if self.request.is_null() {
            return Ok(true);
        }
        // SAFETY: the shim made the request and has not freed it: it is forgotten below when it
        // has.
        let sent = unsafe { littoral_mpi_sent(self.request) };
        if sent != 0 {
            self.request = std::ptr::null_mut();
        }
        done(sent).map(|()| sent == 1)
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        if !self.request.is_null() {
            // MPI may still read them.
            std::mem::forget(std::mem::take(&mut self.bytes));
        }
    }
}

/// The next message, if there is one.
pub(crate) fn receive() -> Outcome<Option<(c_int, Vec<u8>)>> {
    let mut from = 0;
    // SAFETY: the pointer is to a local variable.
    let length = unsafe { littoral_mpi_next(&raw mut from) };
    if length == -1 {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| Failed)?];
    // SAFETY: the buffer has the length of the message that the shim has just found, and no other
    // thread takes it: calls are made one at a time.
    done(unsafe { littoral_mpi_take(from, bytes.as_mut_ptr().cast(), length) })?;
    Ok(Some((from, bytes)))
}

/// Ends MPI, if the shim has begun it.
pub(crate) fn finish() -> Outcome<()> {
    // SAFETY: made once, as the last call.
    done(unsafe { littoral_mpi_finish() })
}

/// MPI's barrier.
pub(crate) fn barrier() -> Outcome<()> {
    // SAFETY: no arguments.
    done(unsafe { littoral_mpi_barrier() })
}

/// Opens the window of [`section`] and [`word`].
pub(crate) fn open_window() -> Outcome<()> {
    // SAFETY: no arguments.
    done(unsafe { littoral_mpi_open_window() })
}

/// An exclusive section of the window of rank 0.
pub(crate) fn section() -> Outcome<()> {
    // SAFETY: no arguments; without a window MPI answers that the call failed.
    done(unsafe { littoral_mpi_section() })
}

/// What the window's word holds at this rank.
pub(crate) fn word() -> c_long {
    // SAFETY: no arguments.
    unsafe { littoral_mpi_word() }
}
