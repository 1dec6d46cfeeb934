//! What can go wrong while measuring or reporting, by kind.

use littoral_base::error::{Category, Class};

/// Kinds of error of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A result file is not JSON, or of another shape than its schema says.
    BadResult,
    /// A result file has a schema this build does not know.
    UnknownSchema,
    /// An option is out of range.
    Argument,
    /// A file could not be read or written.
    Io,
    /// A measurement could not be made on this host.
    Environment,
}

impl Category for Kind {
    fn class(self) -> Class {
        match self {
            Kind::BadResult | Kind::Argument => Class::Usage,
            Kind::UnknownSchema => Class::Unsupported,
            Kind::Io | Kind::Environment => Class::Environment,
        }
    }
}

/// An error of this crate.
pub type Error = littoral_base::error::Error<Kind>;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
