//! What can go wrong with a graph, by kind.

use std::fmt;
use std::path::Path;

use littoral_base::error::{Category, Class};

/// Kinds of graph error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// An input file does not say what its format promises; the context has path and line.
    Input,
    /// An option or argument is out of range; the context says what would be legal.
    Argument,
    /// No vertex has the name asked for.
    NoSuchVertex,
    /// The operating system refused or failed an operation.
    Io,
    /// A device failed a read.
    Device,
    /// The work asked for needs more memory than it may use.
    Memory,
    /// A graph file's checksums or invariants refute it.
    Corrupt,
    /// A file is no graph file at all.
    Foreign,
    /// A graph file of another version, or with features this build does not know.
    Unsupported,
    /// A verifier refuted a result.
    Refuted,
    /// The user interrupted the work.
    Interrupted,
}

impl Category for Kind {
    fn class(self) -> Class {
        match self {
            Kind::Input | Kind::Argument | Kind::NoSuchVertex => Class::Usage,
            Kind::Io | Kind::Device | Kind::Memory => Class::Environment,
            Kind::Corrupt | Kind::Foreign => Class::Corrupt,
            Kind::Unsupported => Class::Unsupported,
            Kind::Refuted => Class::Negative,
            Kind::Interrupted => Class::Interrupted,
        }
    }
}

/// A graph error.
pub type Error = littoral_base::error::Error<Kind>;

/// A graph result.
pub type Result<T> = std::result::Result<T, Error>;

/// The end of work that the user interrupted before it had an answer.
#[cold]
pub(crate) fn interrupted() -> Error {
    Error::new(Kind::Interrupted, "interrupted; there is no answer")
}

/// A failed operating-system call on a path.
#[cold]
pub(crate) fn io(doing: &str, path: &Path, source: std::io::Error) -> Error {
    Error::with_source(Kind::Io, format!("{doing} {}", path.display()), source).at_path(path)
}

/// A text that does not say what its format promises.
#[cold]
pub(crate) fn text(path: &Path, line: u64, column: u64, what: impl fmt::Display) -> Error {
    let context = format!("{}:{line}:{column}: {what}", path.display());
    Error::new(Kind::Input, context).at_path(path).at_line(line).at_column(column)
}
