//! The ZB+-tree: a B+-tree over conventional and sequential zones (paper 000, sections 2 and 3).
//!
//! Levels come in pairs: a *head* layer in conventional zones over a *body* layer in conventional
//! or sequential zones. The lowest pair is the paper's LH over Leaf, the next its IH over Interior;
//! here pairs repeat, so any height works (the paper stops at four layers). A head's address never
//! changes while its bodies move, which is what stops the cascade of updates.
//!
//! Body states: `Change -> Steady` when full, `Steady -> After` at the first deletion, `After ->
//! Change` by a Sync, `Steady -> 2 x Change` by a split.
//!
//! Invariants
//! - Change: conventional, without log, 1 to slots-1 records (an empty tree keeps one empty leaf).
//!   Checked by `check_state`.
//! - Steady: sequential; a log, if there is one, holds updates only and is not full. Full, unless
//!   it is a leaf that was sealed for want of conventional pages (repair 18). Checked by
//!   `check_state`.
//! - After: as Steady, with a log that has held a deletion and is not full. Checked by
//!   `check_state`.
//! - Heads are conventional and hold a slot at least. One that falls below half borrows or merges
//!   at once if it has a sibling under its interior page; one that has none stays as it is until it
//!   next loses a slot, also when a merge above has given it siblings meanwhile (the census counts
//!   such heads). Checked by `check_head`.
//!
//! Repairs of the paper's pseudo-code are marked where they are made as *repair n*, the number of
//! the row in `docs/design/zb-tree.md`.
//!
//! An operation ends with one [`Pages::commit`]; batching durability is the store's business.

mod body;
mod bulk;
mod check;
mod dense;
mod head;
mod pressure;
mod relocate;
mod salvage;
mod scan;
pub mod state;

pub use check::Census;
pub use dense::Made;
pub use pressure::{Allowance, Rule};

use std::ops::{Deref, DerefMut};

use littoral_base::units::Lba;
use littoral_store::pages::{Heat, PageRef, Pages};

use crate::guess::Guess;
use crate::layout::{self, Shape};
pub use crate::tree::Direction;
use crate::tree::{Bounds, TreeCore, wrong};
use crate::{Error, Kind, Result};
use state::{BodyView, HeadView, Ptr};

/// One pair of levels on the way from the top to a leaf.
#[derive(Clone, Copy, Debug)]
struct Step {
    head: Lba,
    head_count: usize,
    slot: usize,
    ptr: Ptr,
    /// Slot of the child in this level's interior body; unused at level 0.
    child_slot: usize,
}

/// The way to a leaf, lowest level first.
type Path = Vec<Step>;

/// The slot of a leaf that has a key, and whether it is live; or the slot where the key belongs.
type Found = std::result::Result<(usize, bool), usize>;

/// A ZB+-tree on pages `P`.
#[derive(Debug)]
pub struct Zb<P> {
    core: TreeCore<P>,
}

impl<P> Deref for Zb<P> {
    type Target = TreeCore<P>;

    fn deref(&self) -> &TreeCore<P> {
        &self.core
    }
}

impl<P> DerefMut for Zb<P> {
    fn deref_mut(&mut self) -> &mut TreeCore<P> {
        &mut self.core
    }
}

impl<P: Pages> Zb<P> {
    /// Creates an empty tree: one empty leaf under one head.
    ///
    /// # Errors
    /// `Kind::Unsupported` where the medium has no conventional class, `Kind::Usage` when the shape
    /// does not fit the page, and those of the store.
    pub fn create(pages: P, shape: Shape) -> Result<Zb<P>> {
        let mut core = TreeCore::new(pages, shape)?;
        if !core.pages.has_conventional() {
            return Err(no_conventional());
        }
        let leaf = core.pages.allocate()?;
        core.pages.put(leaf, &shape.leaf().image(&[]))?;
        let top = core.pages.allocate()?;
        let mut head = shape.new_head(0);
        let at = layout::HEADER_BYTES + shape.key_bytes;
        head[at..at + layout::PTR_BYTES].copy_from_slice(&Ptr::change(leaf).encode());
        layout::set_count(&mut head, 1);
        core.pages.put(top, &head)?;
        core.begin(top).map(|core| Zb { core })
    }

    /// Opens the tree that the store's root names.
    ///
    /// # Errors
    /// `Kind::Corrupt` when there is none.
    pub fn open(pages: P, shape: Shape) -> Result<Zb<P>> {
        TreeCore::open(pages, shape).map(|core| Zb { core })
    }

    /// Gives the pages back.
    pub fn into_pages(self) -> P {
        self.core.pages
    }

    /// Layers of pages from the top to a leaf: 2 with one pair, 4 with two.
    pub fn layers(&self) -> u32 {
        2 * (self.core.root.height + 1)
    }

    fn heat(level: usize) -> Heat {
        if level == 0 { Heat::Hot } else { Heat::Cold }
    }

    /// Reads a body and its log, merged in memory only (paper 000, algorithms 4 and 5).
    fn load(&self, level: usize, ptr: Ptr) -> Result<BodyView<'_>> {
        let base = self.core.pages.read(ptr.body)?;
        let log = if ptr.has_log() { Some(self.core.pages.read(ptr.log)?) } else { None };
        self.view(level, ptr, base, log)
    }

    /// [`Zb::load`] of a leaf that is searched with a guess.
    fn load_leaf(&self, ptr: Ptr, guess: Option<Guess>) -> Result<BodyView<'_>> {
        let base = self.core.read_for(ptr.body, guess, self.core.body(0).record)?;
        let log = if ptr.has_log() { Some(self.core.pages.read(ptr.log)?) } else { None };
        self.view(0, ptr, base, log)
    }

    /// A body with its log, if they can belong together and to a head that says so.
    fn view<'a>(
        &'a self,
        level: usize,
        ptr: Ptr,
        base: PageRef<'a>,
        log: Option<PageRef<'a>>,
    ) -> Result<BodyView<'a>> {
        let view = BodyView::new(self.core.body(level), base, log);
        match view.fits(ptr.state) {
            true => Ok(view),
            false => Err(wrong(ptr.body, format!("no body of level {level} with its log"))),
        }
    }

    /// A body that the running operation has read already.
    fn again(&self, level: usize, ptr: Ptr) -> Result<BodyView<'_>> {
        let base = self.core.pages.peek(ptr.body)?;
        let log = if ptr.has_log() { Some(self.core.pages.peek(ptr.log)?) } else { None };
        self.view(level, ptr, base, log)
    }

    fn damaged(head: Lba, slot: usize) -> Error {
        Error::new(Kind::Corrupt, format!("head page {head}, slot {slot}: no such body state"))
            .at_page(head.0)
    }

    /// The way to the leaf that covers `key`; the leaf itself is not read.
    fn descend(&self, key: &[u8]) -> Result<Path> {
        let mut path = Path::with_capacity(self.core.root.height as usize + 1);
        let mut head = self.core.root.top;
        for level in (0..=self.core.root.height as usize).rev() {
            let mut step = self.step(head, &self.core.pages.read(head)?, None, key)?;
            if level > 0 {
                let body = self.load(level, step.ptr)?;
                step.child_slot = body.route(key);
                head = body.child(step.child_slot);
            }
            path.push(step);
        }
        path.reverse();
        Ok(path)
    }

    fn step(&self, head: Lba, page: &[u8], guess: Option<Guess>, key: &[u8]) -> Result<Step> {
        let view = HeadView::new(&self.core.shape, page);
        let (head_count, slot) = (view.count(), view.route(guess, key));
        let ptr = view.ptr(slot).ok_or_else(|| Self::damaged(head, slot))?;
        Ok(Step { head, head_count, slot, ptr, child_slot: 0 })
    }

    /// The way to the leaf that covers `key`, and the slot where the leaf has the key or would
    /// have it. The leaf is read.
    fn descend_to_leaf(&self, key: &[u8]) -> Result<(Path, Found)> {
        let mut path = Path::with_capacity(self.core.root.height as usize + 1);
        let top = (self.core.root.height as usize, self.core.root.top);
        let found =
            self.below(top, key, Bounds::default(), &mut |step| path.push(step), |leaf, found| {
                found.map(|slot| (slot, leaf.is_live(slot)))
            })?;
        path.reverse();
        Ok((path, found))
    }

    /// Descends from the head at (level, page), says each step, and gives the leaf that covers
    /// `key` to `at_leaf`, with the slot where it has the key or would have it, if its keys lie in
    /// the range that the separators give. Inner pages were checked so when the tree was opened.
    /// Recursive, so that the pages that the bounds borrow from stay where they are.
    fn below<R>(
        &self,
        (level, head): (usize, Lba),
        key: &[u8],
        bounds: Bounds<'_>,
        each: &mut impl FnMut(Step),
        at_leaf: impl FnOnce(&BodyView<'_>, std::result::Result<usize, usize>) -> R,
    ) -> Result<R> {
        let guess = bounds.guess(key);
        let page = self.core.read_for(head, guess, self.core.shape.head_slot_bytes())?;
        let mut step = self.step(head, &page, guess, key)?;
        let view = HeadView::new(&self.core.shape, &page);
        let bounds = bounds.child(step.head_count, step.slot, |i| view.key(i));
        if level == 0 {
            let guess = bounds.guess(key);
            let leaf = self.load_leaf(step.ptr, guess)?;
            each(step);
            bounds.check(step.ptr.body, leaf.ends())?;
            return Ok(at_leaf(&leaf, leaf.find_near(guess, key)));
        }
        let body = self.load(level, step.ptr)?;
        step.child_slot = body.route(key);
        each(step);
        let bounds = body.child_bounds(bounds, step.child_slot);
        self.below((level - 1, body.child(step.child_slot)), key, bounds, each, at_leaf)
    }

    /// The value of `key`: four to six block reads in a tree of four layers.
    ///
    /// # Errors
    /// `Kind::Usage` for a key of another size; those of the store.
    ///
    /// ```
    /// # use littoral_index::{layout::Shape, zb::Zb};
    /// # use littoral_store::counted::{CountedConfig, CountedPages, Placement};
    /// # let pages = CountedPages::new(CountedConfig { page_bytes: 4096, conventional_blocks: 64,
    /// #     sequential_zones: 2, zone_blocks: 64, placement: Placement::Dynamic, timing: None,
    /// #     worn_resets: vec![] });
    /// let mut tree = Zb::create(pages, Shape::paper(100, 8, 8))?;
    /// tree.upsert(&7u64.to_be_bytes(), &49u64.to_be_bytes())?;
    /// assert_eq!(tree.get(&7u64.to_be_bytes())?, Some(49u64.to_be_bytes().to_vec()));
    /// # Ok::<(), littoral_index::Error>(())
    /// ```
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.core.check_key(key)?;
        let top = (self.core.root.height as usize, self.core.root.top);
        self.below(top, key, Bounds::default(), &mut |_| (), |leaf, found| {
            let found = found.ok().filter(|&i| leaf.is_live(i));
            found.map(|i| leaf.payload(i).to_vec())
        })
    }

    /// Inserts a record or replaces its value; whether the key is new. (Algorithm 6; the paper has
    /// no update and leaves the insert of an existing key open: repair 11.)
    ///
    /// # Errors
    /// `Kind::Usage` for sizes that are not the tree's, `Kind::Full`; those of the store.
    pub fn upsert(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.core.check_key(key)?;
        self.core.check_value(value)?;
        let (mut path, found) = self.descend_to_leaf(key)?;
        let record = [key, value].concat();
        let is_new = !matches!(found, Ok((_, true)));
        match found {
            Ok((slot, _)) => self.replace_record(&mut path, 0, slot, &record)?,
            Err(slot) => self.insert_record(&mut path, 0, slot, &record)?,
        }
        self.core.root.records += u64::from(is_new);
        self.core.finish()?;
        Ok(is_new)
    }

    /// Deletes a key; whether it was there. (Algorithm 7; repair 10: the lookup sees pending
    /// deletions.)
    ///
    /// # Errors
    /// `Kind::Usage` for a key of another size; those of the store.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool> {
        self.core.check_key(key)?;
        let (mut path, found) = self.descend_to_leaf(key)?;
        let Ok((slot, true)) = found else { return Ok(false) };
        self.remove_record(&mut path, 0, slot)?;
        self.collapse()?;
        self.core.root.records -= 1;
        self.core.finish()?;
        Ok(true)
    }
}

/// The refusal of a medium without a conventional class.
pub(crate) fn no_conventional() -> Error {
    Error::new(
        Kind::Unsupported,
        "zb needs conventional zones (or a separate ordinary namespace or file) and this medium has \
         none; use the engine cow",
    )
}
