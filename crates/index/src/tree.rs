//! What both trees have in common: pages, sizes, the root, how an operation begins and ends, ranges
//! of keys, and the rules that a walk checks.
//!
//! - [`TreeCore`] is the part of a tree that does not depend on how its pages lead to each other.
//!   [`Zb`](crate::zb::Zb) and [`Cow`](crate::cow::Cow) hold one and show its methods as theirs.
//! - An operation changes `root` in memory and ends with [`TreeCore::finish`]: the store then has
//!   the new root and all pages, or neither.
//! - Keys are compared as bytes. A page's keys lie in the range that the separators above give.

use std::collections::BTreeSet;

use littoral_base::mutant;
use littoral_base::units::Lba;
use littoral_store::pages::{NO_PAGE, PageRef, Pages, Root};

use crate::guess::Guess;
use crate::layout::{self, Body, PageKind, Shape};
use crate::{Error, Kind, Result};

/// Most levels that a tree can have: a page has four children at least.
pub const HEIGHT_MAX: u32 = 31;

// A page's level is one byte.
const _: () = assert!(HEIGHT_MAX <= u8::MAX as u32);

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Keys ascending.
    Forward,
    /// Keys descending.
    Backward,
}

/// Damage of the page at `at`.
pub(crate) fn wrong(at: Lba, what: impl std::fmt::Display) -> Error {
    Error::new(Kind::Corrupt, format!("page {at}: {what}")).at_page(at.0)
}

/// Whether a page cannot be read, where the error is one of reading.
pub(crate) fn is_damage(e: &Error) -> bool {
    matches!(e.kind(), Kind::Io | Kind::Corrupt)
}

pub(crate) fn ensure(holds: bool, at: Lba, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(wrong(at, what())) }
}

/// Refuses a page that is not what the page above says.
pub(crate) fn check_kind(at: Lba, page: &[u8], kind: PageKind, level: usize) -> Result<()> {
    let is_it = layout::kind(page) == Some(kind) && layout::level(page) as usize == level;
    ensure(is_it, at, || format!("not a {} of level {level}", kind.name()))
}

/// Takes note that a page is in use; refuses one that is already.
pub(crate) fn claim(used: &mut BTreeSet<Lba>, at: Lba) -> Result<()> {
    ensure(used.insert(at), at, || "used twice".to_owned())
}

/// The part of a tree on pages `P` that both trees share; see the module's page.
#[derive(Debug)]
pub struct TreeCore<P> {
    pub(crate) pages: P,
    pub(crate) shape: Shape,
    /// The root as the running operation leaves it; the store's own between operations.
    pub(crate) root: Root,
}

impl<P: Pages> TreeCore<P> {
    /// A core without a root, to create a tree in.
    pub(crate) fn new(pages: P, shape: Shape) -> Result<TreeCore<P>> {
        shape.check(pages.page_bytes())?;
        Ok(TreeCore { pages, shape, root: Root::default() })
    }

    /// Reads a page that is searched with a guess; its slots have `stride` bytes.
    #[inline]
    pub(crate) fn read_for(
        &self,
        at: Lba,
        guess: Option<Guess>,
        stride: usize,
    ) -> Result<PageRef<'_>> {
        match guess {
            Some(guess) => self.pages.read_for(at, &|opening| guess.look(stride, opening)),
            None => self.pages.read(at),
        }
    }

    /// Makes the empty tree whose top page is `top` durable.
    pub(crate) fn begin(mut self, top: Lba) -> Result<TreeCore<P>> {
        debug_assert_eq!(self.root, Root::default(), "a tree is created once");
        self.root = Root { top, height: 0, records: 0 };
        self.pages.set_root(self.root);
        self.pages.commit()?;
        Ok(self)
    }

    /// Opens the tree that the store's root names.
    pub(crate) fn open(pages: P, shape: Shape) -> Result<TreeCore<P>> {
        let mut core = TreeCore::new(pages, shape)?;
        core.root = core.pages.root();
        if core.root.top == NO_PAGE {
            return Err(Error::new(Kind::Corrupt, "the store has no tree"));
        }
        let height = core.root.height;
        if height > HEIGHT_MAX {
            let text = format!("root: {height} levels, where a tree has {HEIGHT_MAX} at most");
            return Err(Error::new(Kind::Corrupt, text));
        }
        Ok(core)
    }

    /// The pages below.
    pub fn pages(&self) -> &P {
        &self.pages
    }

    /// The pages below, for their owner.
    pub fn pages_mut(&mut self) -> &mut P {
        &mut self.pages
    }

    /// Sizes of records and pages.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Records held.
    pub fn len(&self) -> u64 {
        self.pages.root().records
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the root from the store: a failed operation is forgotten, and the root has another
    /// address when drafts were written.
    pub fn reload_root(&mut self) {
        self.root = self.pages.root();
    }

    /// The layout of leaves, or of interior pages at `level`.
    pub(crate) fn body(&self, level: usize) -> Body {
        self.shape.body(level as u8)
    }

    pub(crate) fn check_key(&self, key: &[u8]) -> Result<()> {
        check_size("key", key, self.shape.key_bytes)
    }

    pub(crate) fn check_value(&self, value: &[u8]) -> Result<()> {
        check_size("value", value, self.shape.value_bytes)
    }

    /// Checks the records of a bulk load, which the tree must be empty for.
    pub(crate) fn check_load(&self) -> Result<Ascending> {
        if self.is_empty() {
            return Ok(Ascending { last: None, count: 0 });
        }
        Err(Error::new(Kind::Usage, "bulk load needs an empty tree; use upsert"))
    }

    /// Refuses a tree in which a walk found another number of records than the root counts.
    pub(crate) fn check_count(&self, found: u64) -> Result<()> {
        let (counted, top) = (self.len(), self.root.top);
        ensure(found == counted, top, || {
            format!("{found} records found where the root counts {counted}")
        })
    }

    /// Ends the operation: the root as it is now, and every page, durable by the store's policy.
    pub(crate) fn finish(&mut self) -> Result<()> {
        debug_assert!(self.root.top != NO_PAGE && self.root.height <= HEIGHT_MAX, "no tree");
        if self.pages.root() != self.root {
            self.pages.set_root(self.root);
        }
        self.pages.commit()
    }
}

fn check_size(what: &str, bytes: &[u8], wanted: usize) -> Result<()> {
    if bytes.len() == wanted {
        return Ok(());
    }
    let text = format!("a {what} has {wanted} bytes in this tree, this one has {}", bytes.len());
    Err(Error::new(Kind::Usage, text))
}

/// The order of a bulk load's keys.
pub(crate) struct Ascending {
    last: Option<Vec<u8>>,
    /// Records so far.
    pub(crate) count: u64,
}

impl Ascending {
    /// Takes the next key; refuses one that does not follow the last, naming its number.
    pub(crate) fn next(&mut self, key: &[u8]) -> Result<()> {
        self.count += 1;
        if self.last.as_deref().is_some_and(|last| last >= key) {
            let text = format!("record {}: its key does not ascend; sort the input", self.count);
            return Err(Error::new(Kind::Usage, text).at_record(self.count));
        }
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        Ok(())
    }
}

/// The bounds of a scan.
#[derive(Clone, Copy)]
pub(crate) struct Range<'a> {
    pub(crate) from: Option<&'a [u8]>,
    pub(crate) to: Option<&'a [u8]>,
    pub(crate) direction: Direction,
}

impl Range<'_> {
    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        self.from.is_none_or(|f| key >= f) && self.to.is_none_or(|t| key < t)
    }

    /// Whether a page between two separators can hold a key of the range.
    pub(crate) fn meets(&self, low: Option<&[u8]>, high: Option<&[u8]>) -> bool {
        let below = self.to.zip(low).is_none_or(|(t, l)| l < t);
        below && self.from.zip(high).is_none_or(|(f, h)| h > f)
    }
}

/// The keys that a page may hold, `[low, high)`: what its ancestors' separators say. The bounds
/// borrow from the pages on the way down, so a descent keeps those pages and copies no key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds<'a> {
    pub(crate) low: Option<&'a [u8]>,
    pub(crate) high: Option<&'a [u8]>,
}

impl<'a> Bounds<'a> {
    /// The bounds of one child: the separators in front of it and behind it, where there are any.
    #[inline]
    pub(crate) fn narrowed(self, low: Option<&'a [u8]>, high: Option<&'a [u8]>) -> Bounds<'a> {
        Bounds { low: low.or(self.low), high: high.or(self.high) }
    }

    /// The bounds of the child in slot `i` of `n` slots; slot 0 is First and has no separator.
    #[inline]
    pub(crate) fn child(self, n: usize, i: usize, key: impl Fn(usize) -> &'a [u8]) -> Bounds<'a> {
        self.narrowed((i > 0).then(|| key(i)), (i + 1 < n).then(|| key(i + 1)))
    }

    /// Where in the page of this range a key likely is.
    #[inline]
    pub(crate) fn guess(self, key: &[u8]) -> Option<Guess> {
        Guess::new(key, self.low, self.high)
    }

    #[inline]
    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        self.low.is_none_or(|low| key >= low) && self.high.is_none_or(|high| key < high)
    }

    /// Refuses a leaf whose first or last key lies outside: its keys are in order, so all others
    /// lie between these two.
    ///
    /// # Errors
    /// `Kind::Corrupt` naming the page.
    #[inline]
    pub(crate) fn check(self, at: Lba, ends: Option<(&[u8], &[u8])>) -> Result<()> {
        let Some((first, last)) = ends else { return Ok(()) };
        if self.holds(first) && self.holds(last) || mutant!("index_leaf_range_unchecked") {
            return Ok(());
        }
        Err(wrong(at, "keys outside the page's range"))
    }

    /// Refuses keys that are out of order or outside the range; of `keys` those before `first` are
    /// not compared.
    ///
    /// # Errors
    /// `Kind::Corrupt` naming the page.
    pub(crate) fn check_all(self, at: Lba, keys: &[&[u8]], first: usize) -> Result<()> {
        let compared = &keys[first.min(keys.len())..];
        ensure(compared.is_sorted_by(|a, b| a < b), at, || "keys out of order".to_owned())?;
        let outside = compared.iter().find(|k| !self.holds(k));
        ensure(outside.is_none(), at, || format!("key {outside:02x?} outside the page's range"))
    }
}
