//! What can go wrong with a device, by kind.

use littoral_base::error::{Category, Class};

/// Kinds of device error. Exhaustive, so that a crate that translates them lists every kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A field of a profile or machine file is missing, unknown or out of range.
    Profile,
    /// A request breaks the device's rules (alignment, length, range, write pointer, zone state).
    IllegalRequest,
    /// The medium is full, or a zone or resource limit is reached.
    Exhausted,
    /// The operating system refused or failed an operation.
    Io,
    /// Data on the medium do not verify.
    Corrupt,
    /// The medium belongs to something else, or to another format version.
    Foreign,
    /// The medium is in use by another owner.
    Busy,
    /// The name of what is to be made is taken; nothing is overwritten.
    Exists,
    /// This platform or device cannot do what was asked.
    Unsupported,
    /// Power was cut by a fault plan; the handle is of no further use.
    PowerCut,
    /// An earlier durable write failed; the handle refuses further work.
    Poisoned,
}

impl Category for Kind {
    fn class(self) -> Class {
        match self {
            Kind::Profile | Kind::IllegalRequest | Kind::Exists => Class::Usage,
            Kind::Exhausted | Kind::Io | Kind::Busy | Kind::PowerCut | Kind::Poisoned => {
                Class::Environment
            }
            Kind::Corrupt | Kind::Foreign => Class::Corrupt,
            Kind::Unsupported => Class::Unsupported,
        }
    }
}

/// A device error.
pub type Error = littoral_base::error::Error<Kind>;

/// A device result.
pub type Result<T> = std::result::Result<T, Error>;
