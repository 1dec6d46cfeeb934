//! The catalogue of a medium: who lives where on it, with one owner at a time.
//!
//! An entry is a name, its engine and format version, a place (a file, an extent, zones), and the
//! shares of open and active zones the engine may use. Two checksummed blocks are written in turn
//! (ping-pong); `docs/design/catalogue.md` has the bytes and the crash argument.
//!
//! ```
//! use littoral_device::catalogue::{Catalogue, Entry, MemoryStore, Place};
//! let mut catalogue = Catalogue::create(MemoryStore::new())?;
//! catalogue.insert(Entry::new("users", "index", 1, Place::Extent { start: 0, bytes: 4096 }))?;
//! assert_eq!(catalogue.find("users").map(|e| e.engine.as_str()), Some("index"));
//! # Ok::<(), littoral_device::Error>(())
//! ```
//!
//! Invariants
//! - Names are unique; places of one medium do not overlap; what is in memory is what the newer
//!   valid block holds.
//! - A change is on the medium (synced) before it is visible here; a torn write leaves the older
//!   block, and with it the state before the change.
//! - After a failed write the handle is poisoned: it reads, and refuses every change.
//! - A file-backed catalogue is locked for as long as it is open; a second owner gets `Kind::Busy`.

use crate::error::{Error, Kind, Result};

mod format;
mod store;

pub use format::{BLOCK_BYTES, FORMAT_VERSION, MAGIC};
pub use store::{FileStore, MemoryStore, Store};

/// Where an entry lives on its medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file of the medium's directory.
    File(String),
    /// A range of bytes.
    Extent {
        /// First byte.
        start: u64,
        /// Bytes.
        bytes: u64,
    },
    /// A range of zones.
    Zones {
        /// First zone.
        first: u32,
        /// Zones.
        count: u32,
    },
}

impl Place {
    fn overlaps(&self, other: &Place) -> bool {
        let meet = |a: u64, a_len: u64, b: u64, b_len: u64| {
            a < b.saturating_add(b_len) && b < a.saturating_add(a_len)
        };
        match (self, other) {
            (Place::File(a), Place::File(b)) => a == b,
            (
                Place::Extent { start: a, bytes: a_len },
                Place::Extent { start: b, bytes: b_len },
            ) => meet(*a, *a_len, *b, *b_len),
            (Place::Zones { first: a, count: a_len }, Place::Zones { first: b, count: b_len }) => {
                meet((*a).into(), (*a_len).into(), (*b).into(), (*b_len).into())
            }
            _ => false,
        }
    }
}

/// One inhabitant of a medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name a user opens it by.
    pub name: String,
    /// The engine whose data it is.
    pub engine: String,
    /// The engine's format version.
    pub format_version: u32,
    /// Where it lives.
    pub place: Place,
    /// Most zones it may hold open; zero where zones are not limited.
    pub open_zones_max: u32,
    /// Most zones it may hold active; zero where zones are not limited.
    pub active_zones_max: u32,
}

impl Entry {
    /// An entry without shares of zones.
    pub fn new(name: &str, engine: &str, format_version: u32, place: Place) -> Entry {
        let (name, engine) = (name.to_owned(), engine.to_owned());
        Entry { name, engine, format_version, place, open_zones_max: 0, active_zones_max: 0 }
    }
}

/// The catalogue of one medium; see the module's page.
#[derive(Debug)]
pub struct Catalogue<S> {
    store: S,
    sequence: u64,
    entries: Vec<Entry>,
    poisoned: bool,
}

impl<S: Store> Catalogue<S> {
    /// Writes an empty catalogue onto a medium that has none.
    ///
    /// # Errors
    /// `Kind::Foreign` when the medium's first blocks hold anything, `Kind::Io` when it fails.
    pub fn create(mut store: S) -> Result<Catalogue<S>> {
        for which in 0..2 {
            if store.read(which)?.iter().any(|&b| b != 0) {
                let message = format!(
                    "{}: not empty; open it, or erase it yourself first",
                    store.describe(which)
                );
                return Err(Error::new(Kind::Foreign, message));
            }
        }
        store.write(1, &format::encode(1, 1, &[])?)?;
        Ok(Catalogue { store, sequence: 1, entries: Vec::new(), poisoned: false })
    }

    /// Opens the catalogue of a medium.
    ///
    /// # Errors
    /// `Kind::Foreign` when there is none or another format version, `Kind::Corrupt` when neither
    /// block verifies, `Kind::Io` when the medium fails.
    pub fn open(store: S) -> Result<Catalogue<S>> {
        let mut newest: Option<format::Decoded> = None;
        let mut reasons = Vec::new();
        for which in 0..2 {
            match format::decode(which, &store.read(which)?) {
                Ok(found) if newest.as_ref().is_none_or(|n| n.sequence < found.sequence) => {
                    newest = Some(found);
                }
                Ok(_) => {}
                Err(e) => reasons.push(e.in_context(store.describe(which))),
            }
        }
        match newest {
            Some(format::Decoded { sequence, entries }) => {
                Ok(Catalogue { store, sequence, entries, poisoned: false })
            }
            None => Err(worst(reasons)),
        }
    }

    /// Opens the catalogue, or creates it on an empty medium.
    ///
    /// # Errors
    /// As [`Catalogue::open`] and [`Catalogue::create`].
    pub fn open_or_create(store: S) -> Result<Catalogue<S>> {
        let mut is_empty = true;
        for which in 0..2 {
            is_empty &= store.read(which)?.iter().all(|&b| b == 0);
        }
        if is_empty { Self::create(store) } else { Self::open(store) }
    }

    /// Every entry, in order of insertion.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry called `name`.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.name == name)
    }

    /// How often the catalogue has changed since it was created, plus one.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether a failed write has made the handle refuse changes.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` for a name taken or not a name, or a place that overlaps another's;
    /// `Kind::Exhausted` when the block is full; `Kind::Poisoned` after a failed write; `Kind::Io`
    /// when the write fails, which poisons the handle.
    pub fn insert(&mut self, entry: Entry) -> Result<()> {
        check_name(&entry.name)?;
        let bad = |m: String| Err(Error::new(Kind::IllegalRequest, m));
        if self.find(&entry.name).is_some() {
            return bad(format!("`{}` is in the catalogue already", entry.name));
        }
        if let Some(other) = self.entries.iter().find(|e| e.place.overlaps(&entry.place)) {
            let (name, place) = (&entry.name, &entry.place);
            return bad(format!(
                "{place:?} of `{name}` overlaps {:?} of `{}`",
                other.place, other.name
            ));
        }
        let mut next = self.entries.clone();
        next.push(entry);
        self.commit(next)
    }

    /// Removes an entry and returns it; its place is free, its data are the engine's business.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` when there is none; else as [`Catalogue::insert`].
    pub fn remove(&mut self, name: &str) -> Result<Entry> {
        let Some(at) = self.entries.iter().position(|e| e.name == name) else {
            let message = format!("there is no `{name}` in the catalogue");
            return Err(Error::new(Kind::IllegalRequest, message));
        };
        let mut next = self.entries.clone();
        let removed = next.remove(at);
        self.commit(next)?;
        Ok(removed)
    }

    /// The lowest free extent of `bytes` below `capacity`, aligned to `align`.
    ///
    /// # Errors
    /// `Kind::Exhausted` when there is none.
    pub fn free_extent(&self, bytes: u64, align: u64, capacity: u64) -> Result<Place> {
        let taken = self.entries.iter().filter_map(|e| match e.place {
            Place::Extent { start, bytes } => Some((start, start.saturating_add(bytes))),
            Place::File(_) | Place::Zones { .. } => None,
        });
        let full = || Error::new(Kind::Exhausted, format!("no free extent of {bytes} B"));
        let start = first_gap(taken.collect(), bytes, align.max(1), capacity).ok_or_else(full)?;
        Ok(Place::Extent { start, bytes })
    }

    /// The lowest free run of `count` zones below `zones`.
    ///
    /// # Errors
    /// `Kind::Exhausted` when there is none.
    pub fn free_zones(&self, count: u32, zones: u32) -> Result<Place> {
        let taken = self.entries.iter().filter_map(|e| match e.place {
            Place::Zones { first, count } => {
                Some((first.into(), u64::from(first) + u64::from(count)))
            }
            Place::File(_) | Place::Extent { .. } => None,
        });
        let full = || Error::new(Kind::Exhausted, format!("no free run of {count} zones"));
        let first = first_gap(taken.collect(), count.into(), 1, zones.into()).ok_or_else(full)?;
        Ok(Place::Zones { first: first as u32, count })
    }

    fn commit(&mut self, next: Vec<Entry>) -> Result<()> {
        if self.poisoned {
            let message = "an earlier write of the catalogue failed; open it again";
            return Err(Error::new(Kind::Poisoned, message));
        }
        let sequence = self.sequence + 1;
        let which = (sequence % 2) as usize;
        let block = format::encode(which, sequence, &next)?;
        if let Err(e) = self.store.write(which, &block) {
            self.poisoned = true;
            return Err(e);
        }
        (self.sequence, self.entries) = (sequence, next);
        Ok(())
    }

    /// The store, for inspection after a crash test.
    pub fn into_store(self) -> S {
        self.store
    }
}

/// A medium that is foreign in both blocks is foreign; anything else that does not verify is
/// corrupt.
fn worst(reasons: Vec<Error>) -> Error {
    let words: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    let foreign = reasons.iter().all(|e| e.kind() == Kind::Foreign);
    let kind = if foreign { Kind::Foreign } else { Kind::Corrupt };
    Error::new(kind, format!("no catalogue can be read: {}", words.join("; ")))
}

fn check_name(name: &str) -> Result<()> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 100 || name.starts_with('.') || !name.chars().all(legal) {
        let message = format!(
            "`{name}` is no name: letters, digits, `-`, `_` and `.`, at most 100, not a leading dot"
        );
        return Err(Error::new(Kind::IllegalRequest, message));
    }
    Ok(())
}

fn first_gap(mut taken: Vec<(u64, u64)>, len: u64, align: u64, end: u64) -> Option<u64> {
    taken.sort_unstable();
    let mut at = 0u64;
    for (start, stop) in taken {
        if at.checked_add(len)? <= start {
            return Some(at);
        }
        at = at.max(stop).checked_next_multiple_of(align)?;
    }
    (at.checked_add(len)? <= end).then_some(at)
}
