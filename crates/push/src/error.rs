//! Errors of computing near storage.

use littoral_base::error::{Category, Class};

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An argument, a function or a query that cannot be served as written.
    Usage,
    /// A page or a message does not verify.
    Corrupt,
    /// The device, its link or the operating system failed or refused.
    Io,
    /// A quota, the device's memory or its task table is used up.
    Exhausted,
    /// The session is unknown to the device: forgotten, aborted or past its lease.
    SessionGone,
    /// The device cannot do what was asked.
    Unsupported,
}

impl Category for Kind {
    fn class(self) -> Class {
        match self {
            Kind::Usage => Class::Usage,
            Kind::Corrupt => Class::Corrupt,
            Kind::Io | Kind::Exhausted | Kind::SessionGone => Class::Environment,
            Kind::Unsupported => Class::Unsupported,
        }
    }
}

/// An error of this crate.
pub type Error = littoral_base::error::Error<Kind>;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
