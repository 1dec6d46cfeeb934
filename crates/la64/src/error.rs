//! What can go wrong before or around a guest's run, by kind. What goes wrong inside a run is a
//! [`Trap`](crate::interp::Trap), which the owner of the run answers.

use littoral_base::error::{Category, Class};

/// Kinds of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The file is no LoongArch ELF, or its headers contradict themselves.
    BadElf,
    /// The program does not fit the memory it is given.
    Memory,
    /// Instructions that do not encode, or labels without a place.
    Assembly,
}

impl Category for Kind {
    fn class(self) -> Class {
        match self {
            Kind::BadElf => Class::Corrupt,
            Kind::Memory => Class::Environment,
            Kind::Assembly => Class::Usage,
        }
    }
}

/// An error of this crate.
pub type Error = littoral_base::error::Error<Kind>;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
