//! What can go wrong before or around a guest's run, by kind. What goes wrong inside a run is a
//! [`Trap`](crate::interp::Trap), which the guest's own kernel interface turns into a signal.

use littoral_base::error::{Category, Class};

/// Kinds of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The file is no LoongArch ELF, or its headers contradict themselves.
    BadElf,
    /// A file, the program's interpreter or a library cannot be read.
    Io,
    /// The program does not fit the memory it is given.
    Memory,
    /// The argument is outside what the call allows.
    Usage,
    /// The host lacks what is needed.
    Unsupported,
}

impl Category for Kind {
    fn class(self) -> Class {
        match self {
            Kind::BadElf => Class::Corrupt,
            Kind::Io | Kind::Memory => Class::Environment,
            Kind::Usage => Class::Usage,
            Kind::Unsupported => Class::Unsupported,
        }
    }
}

/// An error of this crate.
pub type Error = littoral_base::error::Error<Kind>;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
