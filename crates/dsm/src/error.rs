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
    /// Another rank is gone, or gave up.
    PeerLost,
    /// The system refused memory, a mapping, a process or a connection.
    Environment,
    /// The name of what is to be made is taken; nothing is overwritten.
    Exists,
    /// This build or machine does not do what was asked.
    Unsupported,
}

impl Category for Kind {
    fn class(self) -> Class {
        match self {
            Kind::Misuse | Kind::OutOfRange | Kind::Exists => Class::Usage,
            Kind::Protocol => Class::Corrupt,
            Kind::PeerLost | Kind::Environment => Class::Environment,
            Kind::Unsupported => Class::Unsupported,
        }
    }
}

/// A shared-memory error.
pub type Error = littoral_base::error::Error<Kind>;

/// A shared-memory result.
pub type Result<T> = std::result::Result<T, Error>;
