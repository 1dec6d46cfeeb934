//! What can go wrong before or around a guest's run, by kind. What goes wrong inside a run becomes
//! a signal of the guest.

use littoral_base::error::{Category, Class};

/// Kinds of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The program itself was refused, for this reason.
    Program(littoral_la64::error::Kind),
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
            Kind::Program(kind) => kind.class(),
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

/// What `littoral-la64` says about the program called `name`; its kind and class stay the same.
pub(crate) fn of_program(name: impl ToString, error: littoral_la64::error::Error) -> Error {
    Error::with_source(Kind::Program(error.kind()), name.to_string(), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_program_keeps_its_kind_its_class_and_its_words() {
        let inner = littoral_la64::elf::parse(b"no program").unwrap_err();
        let (kind, class, words) = (inner.kind(), inner.class(), inner.to_string());
        let outer = of_program("a.out", inner);
        assert_eq!((outer.kind(), outer.class()), (Kind::Program(kind), class));
        assert_eq!(outer.to_string(), format!("a.out: {words}"));
        assert_eq!(class, Class::Corrupt);
    }
}
