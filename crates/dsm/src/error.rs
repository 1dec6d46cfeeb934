//! What can go wrong with shared memory, by kind.

use littoral_base::error::{Category, Class};

/// Kinds of shared-memory error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The program broke a rule: a lock taken twice, a barrier inside a section, an unlock of a
    /// lock that is not the innermost.
    Misuse,
    /// A page, lock or length outside what the job was given.
    OutOfRange,
    /// A message that no correct peer sends.
    Protocol,
}

impl Category for Kind {
    fn class(self) -> Class {
        match self {
            Kind::Misuse | Kind::OutOfRange => Class::Usage,
            Kind::Protocol => Class::Corrupt,
        }
    }
}

/// A shared-memory error.
pub type Error = littoral_base::error::Error<Kind>;

/// A shared-memory result.
pub type Result<T> = std::result::Result<T, Error>;
