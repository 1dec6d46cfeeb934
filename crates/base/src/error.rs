//! The one shape of error in littoral: a kind to match on, a context to read, a source to follow.
//!
//! Each crate defines its own `#[non_exhaustive] enum Kind` implementing [`Category`] and an alias
//! `pub type Error = littoral_base::error::Error<Kind>`. The context says what failed, where (path,
//! page, zone, offset, line, rank, lock) and what to do next. A [`Place`] has the same as fields.
//!
//! Invariants
//! - An error is one pointer wide, so a `Result<(), Error<K>>` costs nothing on the good path.
//!   Checked by `shows_context_then_source_and_is_one_pointer`.
//! - Each [`Class`] has a process exit code of its own. Checked by
//!   `every_class_has_an_exit_code_of_its_own`.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::units::NodeId;

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

/// Where something failed, as fields to match on; the context says the same in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The file.
    pub path: Option<PathBuf>,
    /// The zone of a zoned device.
    pub zone: Option<u32>,
    /// The page or block, in the unit of its medium.
    pub page: Option<u64>,
    /// The byte offset on the medium or in the file.
    pub offset: Option<u64>,
    /// The record of the input, from 1 as messages count.
    pub record: Option<u64>,
    /// The line of a text, from 1.
    pub line: Option<u64>,
    /// The column of that line, from 1.
    pub column: Option<u64>,
    /// The rank of a job, or node of a fabric, that reports the failure.
    pub rank: Option<NodeId>,
    /// The other rank or node that the failure is about, such as the one that is gone.
    pub peer: Option<NodeId>,
    /// The lock of a job.
    pub lock: Option<u32>,
    /// The barrier of a job, counted from zero.
    pub generation: Option<u64>,
    /// The network address.
    pub address: Option<SocketAddr>,
}

struct Inner<K> {
    kind: K,
    context: String,
    place: Place,
    source: Option<Source>,
}

/// An error of one crate: what kind, what was being done and where, and what caused it.
pub struct Error<K>(Box<Inner<K>>);

impl<K: Category> Error<K> {
    /// An error without a source.
    #[cold]
    pub fn new(kind: K, context: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            kind,
            context: context.into(),
            place: Place::default(),
            source: None,
        }))
    }

    /// An error caused by another.
    #[cold]
    pub fn with_source(kind: K, context: impl Into<String>, source: impl Into<Source>) -> Self {
        let (context, source) = (context.into(), Some(source.into()));
        Error(Box::new(Inner { kind, context, place: Place::default(), source }))
    }

    /// An error caused by one of a crate below, at the same place.
    #[cold]
    pub fn over<L: Category>(kind: K, context: impl Into<String>, lower: Error<L>) -> Self {
        let place = lower.place().clone();
        let mut error = Self::with_source(kind, context, lower);
        error.0.place = place;
        error
    }

    /// Where it failed.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// The same error at another place.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.0.place = place;
        self
    }

    /// The same error in the file `path`.
    #[must_use]
    pub fn at_path(mut self, path: &Path) -> Self {
        self.0.place.path = Some(path.to_path_buf());
        self
    }

    /// The same error in a zone.
    #[must_use]
    pub fn at_zone(mut self, zone: impl Into<u32>) -> Self {
        self.0.place.zone = Some(zone.into());
        self
    }

    /// The same error in a page or block.
    #[must_use]
    pub fn at_page(mut self, page: impl Into<u64>) -> Self {
        self.0.place.page = Some(page.into());
        self
    }

    /// The same error at a byte offset.
    #[must_use]
    pub fn at_offset(mut self, offset: u64) -> Self {
        self.0.place.offset = Some(offset);
        self
    }

    /// The same error in a record of the input.
    #[must_use]
    pub fn at_record(mut self, record: u64) -> Self {
        self.0.place.record = Some(record);
        self
    }

    /// The same error in a line of a text, from 1.
    #[must_use]
    pub fn at_line(mut self, line: u64) -> Self {
        self.0.place.line = Some(line);
        self
    }

    /// The same error in a column of its line, from 1.
    #[must_use]
    pub fn at_column(mut self, column: u64) -> Self {
        self.0.place.column = Some(column);
        self
    }

    /// The same error, reported by this rank or node.
    #[must_use]
    pub fn at_rank(mut self, rank: NodeId) -> Self {
        self.0.place.rank = Some(rank);
        self
    }

    /// The same error, about another rank or node.
    #[must_use]
    pub fn at_peer(mut self, peer: NodeId) -> Self {
        self.0.place.peer = Some(peer);
        self
    }

    /// The same error at a lock.
    #[must_use]
    pub fn at_lock(mut self, lock: u32) -> Self {
        self.0.place.lock = Some(lock);
        self
    }

    /// The same error at a barrier, counted from zero.
    #[must_use]
    pub fn at_generation(mut self, generation: u64) -> Self {
        self.0.place.generation = Some(generation);
        self
    }

    /// The same error at a network address.
    #[must_use]
    pub fn at_address(mut self, address: SocketAddr) -> Self {
        self.0.place.address = Some(address);
        self
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

    #[test]
    fn every_class_has_an_exit_code_of_its_own() {
        use Class::{Corrupt, Environment, Interrupted, Negative, Unsupported, Usage};
        let all = [Negative, Usage, Environment, Corrupt, Unsupported, Interrupted];
        assert_eq!(all.map(Class::exit_code), [1, 2, 3, 4, 5, 130]);
    }

    #[test]
    fn a_place_stays_with_an_error_of_a_crate_above() {
        let lower = Error::new(Kind::Bad, "zone 3, page 7").at_zone(3u32).at_page(7u64);
        let upper = Error::over(Kind::Bad, "reading", lower).at_path(Path::new("s.zones"));
        let place = upper.place();
        assert_eq!((place.zone, place.page, place.offset), (Some(3), Some(7), None));
        assert_eq!(place.path.as_deref(), Some(Path::new("s.zones")));
        assert_eq!(upper.to_string(), "reading: zone 3, page 7");
    }

    #[test]
    fn a_place_names_ranks_locks_barriers_and_addresses() {
        let address = "127.0.0.1:7000".parse().unwrap();
        let e = Error::new(Kind::Bad, "rank 2").at_rank(NodeId(1)).at_peer(NodeId(2));
        let e = e.at_lock(3).at_generation(4).at_address(address);
        let want = Place {
            rank: Some(NodeId(1)),
            peer: Some(NodeId(2)),
            lock: Some(3),
            generation: Some(4),
            address: Some(address),
            ..Place::default()
        };
        assert_eq!(e.place(), &want);
        assert_eq!(Error::new(Kind::Bad, "again").at(want.clone()).place(), &want);
    }
}
