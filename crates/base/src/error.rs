//! The one shape of error in littoral: a kind to match on, a context to read, a source to follow.
//!
//! Each crate defines its own `#[non_exhaustive] enum Kind` implementing [`Category`] and an alias
//! `pub type Error = littoral_base::error::Error<Kind>`. The context says what failed, where (path,
//! page, zone, offset, line) and what to do next.
//!
//! Invariants
//! - An error is one pointer wide, so a `Result<(), Error<K>>` costs nothing on the good path.
//! - [`Class`] decides the process's exit code and nothing else does.

use std::fmt;

/// What a kind of error means to a person at a terminal: one class an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The question was asked properly and the answer is no (exit code 1).
    Negative,
    /// The request itself is wrong: bad option, bad input file, id out of range (exit code 2).
    Usage,
    /// The environment or an I/O operation failed (exit code 3).
    Environment,
    /// A medium holds data that its checksums or invariants refute (exit code 4).
    Corrupt,
    /// A format, device or platform that this build does not support (exit code 5).
    Unsupported,
    /// The user interrupted the run (exit code 130).
    Interrupted,
}

impl Class {
    /// The process exit code of this class.
    pub const fn exit_code(self) -> u8 {
        match self {
            Class::Negative => 1,
            Class::Usage => 2,
            Class::Environment => 3,
            Class::Corrupt => 4,
            Class::Unsupported => 5,
            Class::Interrupted => 130,
        }
    }
}

/// A crate's kinds of error.
pub trait Category: fmt::Debug + Copy + Send + Sync + 'static {
    /// The class that decides the exit code.
    fn class(self) -> Class;
}

/// A boxed source error.
pub type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

struct Inner<K> {
    kind: K,
    context: String,
    source: Option<Source>,
}

/// An error of one crate: what kind, what was being done and where, and what caused it.
pub struct Error<K>(Box<Inner<K>>);

impl<K: Category> Error<K> {
    /// An error without a source.
    #[cold]
    pub fn new(kind: K, context: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, context: context.into(), source: None }))
    }

    /// An error caused by another.
    #[cold]
    pub fn with_source(kind: K, context: impl Into<String>, source: impl Into<Source>) -> Self {
        Error(Box::new(Inner { kind, context: context.into(), source: Some(source.into()) }))
    }

    /// The kind to match on.
    pub fn kind(&self) -> K {
        self.0.kind
    }

    /// What failed, where, and what to do.
    pub fn context(&self) -> &str {
        &self.0.context
    }

    /// The class of the kind, which decides the exit code.
    pub fn class(&self) -> Class {
        self.0.kind.class()
    }

    /// The same error with `outer: ` in front of its context.
    #[must_use]
    pub fn in_context(mut self, outer: impl fmt::Display) -> Self {
        self.0.context = format!("{outer}: {}", self.0.context);
        self
    }
}

impl<K: Category> fmt::Debug for Error<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut d = f.debug_struct("Error");
        d.field("kind", &self.0.kind).field("context", &self.0.context);
        if let Some(source) = &self.0.source {
            d.field("source", source);
        }
        d.finish()
    }
}

impl<K: Category> fmt::Display for Error<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.context)?;
        match &self.0.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl<K: Category> std::error::Error for Error<K> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|s| s as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Kind {
        Bad,
    }
    impl Category for Kind {
        fn class(self) -> Class {
            Class::Corrupt
        }
    }

    #[test]
    fn shows_context_then_source_and_is_one_pointer() {
        let io = std::io::Error::other("disk on fire");
        let e = Error::with_source(Kind::Bad, "page 7", io).in_context("graph.lg");
        assert_eq!(e.to_string(), "graph.lg: page 7: disk on fire");
        assert_eq!((e.kind(), e.class().exit_code()), (Kind::Bad, 4));
        assert_eq!(size_of::<Result<(), Error<Kind>>>(), size_of::<usize>());
    }
}
