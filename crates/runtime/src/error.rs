//! What can go wrong on a ring, by kind.

use littoral_base::error::{Category, Class};
use littoral_device::read::Status;

/// Kinds of ring error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A read ended with this status, which is not `Ok`.
    Read(Status),
    /// A context waits for something that is not a future of this ring.
    ForeignFuture,
    /// Every context waits for a slot and none can become free.
    Exhausted,
    /// The options do not fit each other or the device.
    Options,
    /// A ring was run from inside one of its own contexts.
    Reentrant,
    /// A context's future is larger than the options allow.
    FutureTooLarge,
    /// A thread could not be started or pinned.
    Thread,
    /// The run's interrupt was set.
    Interrupted,
}

impl Category for Kind {
    fn class(self) -> Class {
        match self {
            Kind::Read(Status::MediaError | Status::Misdirected | Status::ChecksumMismatch) => {
                Class::Corrupt
            }
            Kind::Read(Status::TimedOut | Status::Os) | Kind::Exhausted | Kind::Thread => {
                Class::Environment
            }
            Kind::Read(_)
            | Kind::ForeignFuture
            | Kind::Options
            | Kind::Reentrant
            | Kind::FutureTooLarge => Class::Usage,
            Kind::Interrupted => Class::Interrupted,
        }
    }
}

/// A ring error.
pub type Error = littoral_base::error::Error<Kind>;

/// A ring result.
pub type Result<T> = std::result::Result<T, Error>;
