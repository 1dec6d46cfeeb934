//! Marks of threads that are inside the library, where a signal's handler must not come in again.
//!
//! Invariants
//! - A call or a fault of a marked thread is a handler's; it would wait for what its own thread
//!   holds, so it ends the process in words. Checked by `bad_input_ends_in_words`.

use std::cell::Cell;

use littoral_base::mutant;

use crate::memory::end_by;

thread_local! {
    /// Operations of the library that this thread is in.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// Marks this thread as inside the library: a fault or a call there comes from a signal's handler,
/// which would wait for what its own thread holds.
#[derive(Debug)]
pub struct Inside;

impl Inside {
    /// Marks this thread until the mark is dropped; marks nest.
    #[inline]
    #[must_use]
    pub fn enter() -> Inside {
        INSIDE.with(|n| n.set(n.get() + 1));
        Inside
    }

    /// As `enter`, for a call of the program: in words the end of this process where the thread is
    /// marked already.
    #[inline]
    #[must_use]
    pub fn call() -> Inside {
        if Inside::is_marked() && !mutant!("dsm_handlers_call_inside") {
            end_of_handler();
        }
        Inside::enter()
    }

    /// Whether this thread is marked.
    #[inline]
    #[must_use]
    pub fn is_marked() -> bool {
        INSIDE.with(Cell::get) > 0
    }
}

#[cold]
fn end_of_handler() -> ! {
    end_by(
        b"littoral dsm: a signal's handler called the library while this thread was in an operation \
        of it; let it set a variable of the process instead\n",
    )
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.with(|n| n.set(n.get() - 1));
    }
}

/// Ends the process where a marked thread has faulted.
#[cold]
pub(super) fn end_of_fault() -> ! {
    end_by(
        b"littoral dsm: a signal's handler touched shared memory while this thread was in an \
        operation of the library; let it set a variable of the process instead\n",
    )
}
