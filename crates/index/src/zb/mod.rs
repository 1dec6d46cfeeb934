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
//! Invariants ([`Zb::check`] walks them all)
//! - Change: conventional, without log, 1 to slots-1 records (an empty tree keeps one empty leaf).
//! - Steady: sequential; a log, if there is one, holds updates only and is not full. Full, unless
//!   it is a leaf that was sealed for want of conventional pages (repair 18).
//! - After: as Steady, with a log that has held a deletion and is not full.
//! - Heads are conventional and hold a slot at least. One that falls below half borrows or merges
//!   at once if it has a sibling under its interior page; one that has none stays as it is until it
//!   next loses a slot, also when a merge above has given it siblings meanwhile (the census counts
//!   such heads).
//!
//! Repairs of the paper's pseudo-code are marked where they are made as *repair n*, the number of
//! the row in `docs/design/zb-tree.md`.
//!
//! An operation ends with one [`Pages::commit`]; batching durability is the store's business.

mod body;
mod bulk;
mod check;
mod head;
mod pressure;
mod relocate;
mod salvage;
mod scan;
pub mod state;

pub use check::Census;
pub use pressure::{Allowance, Rule};
pub use scan::Direction;

use littoral_base::units::Lba;
use littoral_store::pages::{Heat, NO_PAGE, PageRef, Pages, Root};

use crate::inspect::check_height;
use crate::layout::{self, Body, Bounds, Shape};
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
    pages: P,
    shape: Shape,
    root: Root,
}

impl<P: Pages> Zb<P> {
    /// Creates an empty tree: one empty leaf under one head.
    ///
    /// # Errors
    /// `Kind::Unsupported` where the medium has no conventional class, `Kind::Usage` when the shape
    /// does not fit the page, and those of the store.
    pub fn create(mut pages: P, shape: Shape) -> Result<Zb<P>> {
        shape.check(pages.page_bytes())?;
        if !pages.has_conventional() {
            return Err(no_conventional());
        }
        let leaf = pages.allocate()?;
        pages.put(leaf, &shape.leaf().image(&[]))?;
        let top = pages.allocate()?;
        let mut head = shape.new_head(0);
        let at = layout::HEADER_BYTES + shape.key_bytes;
        head[at..at + 17].copy_from_slice(&Ptr::change(leaf).encode());
        layout::set_count(&mut head, 1);
        pages.put(top, &head)?;
        let root = Root { top, height: 0, records: 0 };
        pages.set_root(root);
        pages.commit()?;
        Ok(Zb { pages, shape, root })
    }

    /// Opens the tree that the store's root names.
    ///
    /// # Errors
    /// `Kind::Corrupt` when there is none.
    pub fn open(pages: P, shape: Shape) -> Result<Zb<P>> {
        shape.check(pages.page_bytes())?;
        let root = pages.root();
        if root.top == NO_PAGE {
            return Err(Error::new(Kind::Corrupt, "the store has no tree"));
        }
        check_height(root.height)?;
        Ok(Zb { pages, shape, root })
    }

    /// The pages below.
    pub fn pages(&self) -> &P {
        &self.pages
    }

    /// The pages below, for their owner.
    pub fn pages_mut(&mut self) -> &mut P {
        &mut self.pages
    }

    /// Gives the pages back.
    pub fn into_pages(self) -> P {
        self.pages
    }

    /// Sizes of records and pages.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Records held.
    pub fn len(&self) -> u64 {
        self.root.records
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.root.records == 0
    }

    /// Layers of pages from the top to a leaf: 2 with one pair, 4 with two.
    pub fn layers(&self) -> u32 {
        2 * (self.root.height + 1)
    }

    /// Forgets a failed operation: the root is the store's again.
    pub fn reload_root(&mut self) {
        self.root = self.pages.root();
    }

    fn body(&self, level: usize) -> Body {
        self.shape.body(level as u8)
    }

    fn heat(level: usize) -> Heat {
        if level == 0 { Heat::Hot } else { Heat::Cold }
    }

    fn check_key(&self, key: &[u8]) -> Result<()> {
        let wanted = self.shape.key_bytes;
        if key.len() == wanted {
            return Ok(());
        }
        let text = format!("a key has {wanted} bytes in this tree, this one has {}", key.len());
        Err(Error::new(Kind::Usage, text))
    }

    fn check_value(&self, value: &[u8]) -> Result<()> {
        let wanted = self.shape.value_bytes;
        if value.len() == wanted {
            return Ok(());
        }
        let text = format!("a value has {wanted} bytes in this tree, this one has {}", value.len());
        Err(Error::new(Kind::Usage, text))
    }

    /// Reads a body and its log, merged in memory only (paper 000, algorithms 4 and 5).
    fn load(&self, level: usize, ptr: Ptr) -> Result<BodyView<'_>> {
        let base = self.pages.read(ptr.body)?;
        let log = if ptr.has_log() { Some(self.pages.read(ptr.log)?) } else { None };
        self.view(level, ptr, base, log)
    }

    /// A body with its log, if they can belong together and to a head that says so.
    fn view<'a>(
        &'a self,
        level: usize,
        ptr: Ptr,
        base: PageRef<'a>,
        log: Option<PageRef<'a>>,
    ) -> Result<BodyView<'a>> {
        let view = BodyView::new(self.body(level), base, log);
        match view.fits(ptr.state) {
            true => Ok(view),
            false => {
                let text = format!("page {}: no body of level {level} with its log", ptr.body);
                Err(Error::new(Kind::Corrupt, text).at_page(ptr.body.0))
            }
        }
    }

    /// A body that the running operation has read already.
    fn again(&self, level: usize, ptr: Ptr) -> Result<BodyView<'_>> {
        let base = self.pages.peek(ptr.body)?;
        let log = if ptr.has_log() { Some(self.pages.peek(ptr.log)?) } else { None };
        self.view(level, ptr, base, log)
    }

    fn damaged(head: Lba, slot: usize) -> Error {
        Error::new(Kind::Corrupt, format!("head page {head}, slot {slot}: no such body state"))
            .at_page(head.0)
    }

    /// The way to the leaf that covers `key`; the leaf itself is not read.
    fn descend(&self, key: &[u8]) -> Result<Path> {
        let mut path = Path::with_capacity(self.root.height as usize + 1);
        let mut head = self.root.top;
        for level in (0..=self.root.height as usize).rev() {
            let mut step = self.step(head, &self.pages.read(head)?, key)?;
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

    fn step(&self, head: Lba, page: &[u8], key: &[u8]) -> Result<Step> {
        let view = HeadView::new(&self.shape, page);
        let (head_count, slot) = (view.count(), view.route(key));
        let ptr = view.ptr(slot).ok_or_else(|| Self::damaged(head, slot))?;
        Ok(Step { head, head_count, slot, ptr, child_slot: 0 })
    }

    /// The way to the leaf that covers `key`, and the slot where the leaf has the key or would
    /// have it. The leaf is read.
    fn descend_to_leaf(&self, key: &[u8]) -> Result<(Path, Found)> {
        let mut path = Path::with_capacity(self.root.height as usize + 1);
        let top = (self.root.height as usize, self.root.top);
        let found =
            self.below(top, key, Bounds::default(), &mut |step| path.push(step), |leaf| {
                leaf.find(key).map(|slot| (slot, leaf.is_live(slot)))
            })?;
        path.reverse();
        Ok((path, found))
    }

    /// Descends from the head at (level, page), says each step, and gives the leaf that covers
    /// `key` to `at_leaf`, if its keys lie in the range that the separators give. Inner pages were
    /// checked so when the tree was opened. Recursive, so that the pages that the bounds borrow
    /// from stay where they are.
    fn below<R>(
        &self,
        (level, head): (usize, Lba),
        key: &[u8],
        bounds: Bounds<'_>,
        each: &mut impl FnMut(Step),
        at_leaf: impl FnOnce(&BodyView<'_>) -> R,
    ) -> Result<R> {
        let page = self.pages.read(head)?;
        let mut step = self.step(head, &page, key)?;
        let view = HeadView::new(&self.shape, &page);
        let bounds = bounds.child(step.head_count, step.slot, |i| view.key(i));
        let body = self.load(level, step.ptr)?;
        if level == 0 {
            each(step);
            bounds.check(step.ptr.body, body.ends())?;
            return Ok(at_leaf(&body));
        }
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
        self.check_key(key)?;
        let top = (self.root.height as usize, self.root.top);
        self.below(top, key, Bounds::default(), &mut |_| (), |leaf| {
            let found = leaf.find(key).ok().filter(|&i| leaf.is_live(i));
            found.map(|i| leaf.payload(i).to_vec())
        })
    }

    /// Inserts a record or replaces its value; whether the key is new. (Algorithm 6; the paper has
    /// no update and leaves the insert of an existing key open: repair 11.)
    ///
    /// # Errors
    /// `Kind::Usage` for sizes that are not the tree's, `Kind::Full`; those of the store.
    pub fn upsert(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.check_key(key)?;
        self.check_value(value)?;
        let (mut path, found) = self.descend_to_leaf(key)?;
        let record = [key, value].concat();
        let is_new = !matches!(found, Ok((_, true)));
        match found {
            Ok((slot, _)) => self.replace_record(&mut path, 0, slot, &record)?,
            Err(slot) => self.insert_record(&mut path, 0, slot, &record)?,
        }
        self.root.records += u64::from(is_new);
        self.finish()?;
        Ok(is_new)
    }

    /// Deletes a key; whether it was there. (Algorithm 7; repair 10: the lookup sees pending
    /// deletions.)
    ///
    /// # Errors
    /// `Kind::Usage` for a key of another size; those of the store.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool> {
        self.check_key(key)?;
        let (mut path, found) = self.descend_to_leaf(key)?;
        let Ok((slot, true)) = found else { return Ok(false) };
        self.remove_record(&mut path, 0, slot)?;
        self.collapse()?;
        self.root.records -= 1;
        self.finish()?;
        Ok(true)
    }

    fn finish(&mut self) -> Result<()> {
        if self.pages.root() != self.root {
            self.pages.set_root(self.root);
        }
        self.pages.commit()
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
