//! The functions that C calls, with their unsafe code.
//!
//! - [`calls`]: life, allocation, locks, barriers, condition variables, statistics;
//! - [`extra`]: messages, self-scheduling, `CREATE`, the names of the paper's library;
//! - [`error`]: `jia_error`, whose arguments vary;
//! - [`life`]: how calls that break a rule, and programs that leave early, end;
//! - [`signals`]: a program's handlers for the two signals that faults use.
//!
//! A pointer of the caller is read or written only where the call's words say so, and never while
//! the library holds a lock: it may point into shared memory, which faults.
#![allow(unsafe_code)] // Reason: callers in C hand raw pointers; names of C are exported.

pub mod calls;
pub mod error;
pub mod extra;
pub mod life;
pub mod signals;

/// Gives an `extern "C"` function of this crate its name in C.
macro_rules! export {
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $back:ty)? $body:block) => {
        $(#[$meta])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $type),*) $(-> $back)? $body
    };
}
pub(crate) use export;
