//! What can go wrong with a pool or a transaction, by kind, and the abort that `?` carries.
//!
//! Invariant: an [`Abort`] leaves a transaction's effects nowhere; only [`Abort::is_conflict`] is
//! retried by the engine, every other reason becomes the caller's [`Error`].
//! Checked by `a_panic_or_an_error_in_a_closure_undoes_it_and_releases_its_locks`.

use littoral_base::error::{Category, Class};

/// Kinds of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The medium is no pool.
    Foreign,
    /// The medium is a pool of a format version that this build does not read, or this host lacks
    /// what the medium needs.
    Unsupported,
    /// The medium's bytes break the format.
    Corrupt,
    /// An option or argument is out of range.
    Usage,
    /// A reference leads to an object of another type, to none, or to a freed one.
    BadReference,
    /// No room for another object; the transaction failed whole, freeing still works.
    Full,
    /// Every thread slot is taken.
    Threads,
    /// A thread slot has used up its clock.
    ClockExhausted,
    /// The calling process is a child that its pool's owner forked; the pool is the parent's.
    Forked,
    /// Another handle of the same thread of the operating system is in the way, and waits for this
    /// transaction to end.
    Nested,
    /// A write inside a read-only transaction.
    ReadOnly,
    /// The closure gave up.
    Cancelled,
    /// The medium failed; see the source.
    Device,
    /// An earlier durable write failed; the pool refuses further updates.
    Poisoned,
}

impl Category for Kind {
    fn class(self) -> Class {
        match self {
            Kind::Foreign | Kind::Corrupt => Class::Corrupt,
            Kind::Usage | Kind::BadReference | Kind::ReadOnly | Kind::Forked | Kind::Nested => {
                Class::Usage
            }
            Kind::Unsupported => Class::Unsupported,
            Kind::Cancelled => Class::Negative,
            Kind::Full | Kind::Threads | Kind::ClockExhausted | Kind::Device | Kind::Poisoned => {
                Class::Environment
            }
        }
    }
}

/// An error of this crate.
pub type Error = littoral_base::error::Error<Kind>;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a closure stopped; made by failing operations and passed on with `?`.
#[derive(Debug)]
pub struct Abort(pub(crate) Reason);

#[derive(Debug)]
pub(crate) enum Reason {
    /// Another transaction was in the way: run again.
    Conflict,
    Failed(Error),
}

impl Abort {
    /// Another transaction is in the way: undo everything and run the closure again.
    pub const fn conflict() -> Abort {
        Abort(Reason::Conflict)
    }

    /// Undo everything and return `Kind::Cancelled` to the caller.
    #[cold]
    pub fn cancel(why: impl Into<String>) -> Abort {
        Abort(Reason::Failed(Error::new(Kind::Cancelled, why)))
    }

    /// Whether the engine runs the closure again.
    pub fn is_conflict(&self) -> bool {
        matches!(self.0, Reason::Conflict)
    }

    /// The error the caller gets; a conflict that no engine retried reads as cancelled.
    pub fn into_error(self) -> Error {
        match self.0 {
            Reason::Failed(e) => e,
            Reason::Conflict => Error::new(Kind::Cancelled, "conflict with another transaction"),
        }
    }
}

impl From<Error> for Abort {
    #[cold]
    fn from(e: Error) -> Abort {
        Abort(Reason::Failed(e))
    }
}

pub(crate) fn device(what: &'static str) -> impl Fn(littoral_device::Error) -> Error {
    move |e| Error::over(Kind::Device, what, e)
}
