//! The copy-on-write B+-tree that paper 000 measures against (its section 1.3 and reference 25).
//!
//! Every change writes the leaf and all its ancestors anew at write pointers; nothing is written in
//! place, so any zone serves. Leaves hold `leaf_slots` records, inner pages `interior_slots`
//! children; both are kept at least half full by borrowing or merging.
//!
//! Two costs of a split (the paper states neither; both explain its tables within 2 %):
//! - [`SplitCost::OneWrite`]: the new sibling is one write more than the path;
//! - [`SplitCost::WholePath`]: the split is a step of its own that rewrites the path, then the
//!   insert rewrites it again.
//!
//! Invariants
//! - Keys ascend and stay within their parents' separators. Checked by `check_all`.
//! - Every page but the root is at least half full. Checked by `check_page`.
//! - Every page is used once. Checked by `a_page_used_twice_is_refused`.
//! - A change is visible only once the root that [`Pages::set_root`] names is committed. Checked by
//!   `index_power_cuts`.

mod bulk;
mod relocate;
mod salvage;

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use littoral_base::units::Lba;
use littoral_store::pages::{Heat, PageRef, Pages};

use crate::Result;
use crate::layout::{self, ADDRESS_BYTES, Body, Shape};
use crate::tree::{Bounds, Direction, Range, TreeCore, check_kind, claim, ensure};

/// What a split costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SplitCost {
    /// One write beyond the path.
    #[default]
    OneWrite,
    /// A rewrite of the path for the split, then another for the insert.
    WholePath,
}

/// A page on the way down: where it is, and the child slot taken (the record's slot in a leaf).
#[derive(Clone, Copy, Debug)]
struct Step {
    page: Lba,
    slot: usize,
}

/// What an inner page must know of its child's change: the child's new pages with their lowest
/// keys.
type Pieces = Vec<(Vec<u8>, Lba)>;

/// A copy-on-write B+-tree on pages `P`.
#[derive(Debug)]
pub struct Cow<P> {
    core: TreeCore<P>,
    split: SplitCost,
}

impl<P> Deref for Cow<P> {
    type Target = TreeCore<P>;

    fn deref(&self) -> &TreeCore<P> {
        &self.core
    }
}

impl<P> DerefMut for Cow<P> {
    fn deref_mut(&mut self) -> &mut TreeCore<P> {
        &mut self.core
    }
}

impl<P: Pages> Cow<P> {
    /// Creates an empty tree: one empty leaf.
    ///
    /// # Errors
    /// `Kind::Usage` when the shape does not fit the page, and those of the store.
    pub fn create(pages: P, shape: Shape, split: SplitCost) -> Result<Cow<P>> {
        let mut core = TreeCore::new(pages, shape)?;
        let top = core.pages.append(Heat::Hot, &shape.leaf().image(&[]))?;
        Ok(Cow { core: core.begin(top)?, split })
    }

    /// Opens the tree that the store's root names.
    ///
    /// # Errors
    /// `Kind::Corrupt` when there is none.
    pub fn open(pages: P, shape: Shape, split: SplitCost) -> Result<Cow<P>> {
        TreeCore::open(pages, shape).map(|core| Cow { core, split })
    }

    /// Gives the pages back.
    pub fn into_pages(self) -> P {
        self.core.pages
    }

    /// Layers of pages from the root to a leaf.
    pub fn layers(&self) -> u32 {
        self.core.pages.root().height + 1
    }

    /// The way to the leaf that covers `key`, leaf first; the leaf's slot is where the key is or
    /// belongs, and whether it is there.
    fn descend(&self, key: &[u8]) -> Result<(Vec<Step>, bool)> {
        let root = self.core.pages.root();
        let mut path = Vec::with_capacity(root.height as usize + 1);
        let found = self.leaf_of(key, &mut |step| path.push(step), |_, found| found)?;
        path.push(Step { page: found.0, slot: found.1.unwrap_or_else(|i| i) });
        path.reverse();
        Ok((path, found.1.is_ok()))
    }

    /// Says each inner step of the way to the leaf that covers `key`; the leaf's address, and what
    /// `at_leaf` makes of the leaf and the slot where it has the key or would have it.
    fn leaf_of<R>(
        &self,
        key: &[u8],
        each: &mut impl FnMut(Step),
        at_leaf: impl FnOnce(&[u8], std::result::Result<usize, usize>) -> R,
    ) -> Result<(Lba, R)> {
        let root = self.core.pages.root();
        self.below((root.height as usize, root.top), key, Bounds::default(), each, at_leaf)
    }

    /// As [`Cow::leaf_of`] from the page at (level, address). A leaf is refused if its keys do not
    /// lie in the range that the separators give; inner pages were checked so when the tree was
    /// opened. Recursive, so that the pages that the bounds borrow from stay where they are.
    fn below<R>(
        &self,
        (level, at): (usize, Lba),
        key: &[u8],
        bounds: Bounds<'_>,
        each: &mut impl FnMut(Step),
        at_leaf: impl FnOnce(&[u8], std::result::Result<usize, usize>) -> R,
    ) -> Result<(Lba, R)> {
        let body = self.core.body(level);
        if level == 0 {
            let guess = bounds.guess(key);
            let page = self.core.read_for(at, guess, body.record)?;
            check_kind(at, &page, body.kind(), level)?;
            let n = layout::count(&page);
            let ends = n.checked_sub(1).map(|last| (body.key(&page, 0), body.key(&page, last)));
            bounds.check(at, ends)?;
            let near = guess.map(|guess| guess.slots(body.record, n));
            let found = layout::search_near(near, n, key, |i| body.key(&page, i));
            return Ok((at, at_leaf(&page, found)));
        }
        let page = self.page_of(at, level)?;
        let n = layout::count(&page);
        let slot = layout::route(None, n, key, |i| body.key(&page, i));
        each(Step { page: at, slot });
        let bounds = bounds.child(n, slot, |i| body.key(&page, i));
        self.below((level - 1, child(&body, &page, slot)), key, bounds, each, at_leaf)
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// `Kind::Usage` for a key of another size; those of the store.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.core.check_key(key)?;
        let value = |page: &[u8], slot| self.core.body(0).record(page, slot)[key.len()..].to_vec();
        let (_, found) =
            self.leaf_of(key, &mut |_| (), |page, found| found.ok().map(|slot| value(page, slot)))?;
        Ok(found)
    }

    /// A page that its parent says is of this level.
    fn page_of(&self, at: Lba, level: usize) -> Result<PageRef<'_>> {
        let page = self.core.pages.read(at)?;
        check_kind(at, &page, self.core.body(level).kind(), level)?;
        Ok(page)
    }

    fn records(&self, level: usize, at: Lba) -> Result<Vec<u8>> {
        let page = self.core.pages.peek(at)?;
        Ok(self.core.body(level).records(&page).to_vec())
    }

    /// Inserts a record or replaces its value; whether the key is new.
    ///
    /// # Errors
    /// `Kind::Usage` for sizes that are not the tree's, `Kind::Full`; those of the store.
    pub fn upsert(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.core.check_key(key)?;
        self.core.check_value(value)?;
        self.reload_root();
        let (mut path, found) = self.descend(key)?;
        let mut records = self.records(0, path[0].page)?;
        let full = records.len() == self.core.shape.leaf_slots * self.core.shape.leaf().record;
        if !found && full && self.split == SplitCost::WholePath {
            self.rebuild(&path, 0, &records, true)?;
            (path, _) = self.descend_again(key)?;
            records = self.records(0, path[0].page)?;
        }
        let record = [key, value].concat();
        let at = path[0].slot * record.len();
        let replaced = if found { record.len() } else { 0 };
        records.splice(at..at + replaced, record);
        self.rebuild(&path, 0, &records, false)?;
        self.core.root.records += u64::from(!found);
        self.core.finish()?;
        Ok(!found)
    }

    /// The path after a split, whose pages the operation has just written: not read again.
    fn descend_again(&self, key: &[u8]) -> Result<(Vec<Step>, bool)> {
        let mut path = Vec::new();
        let mut at = self.core.root.top;
        for level in (0..=self.core.root.height as usize).rev() {
            let page = self.core.pages.peek(at)?;
            let (body, n) = (self.core.body(level), layout::count(&page));
            let slot = match level {
                0 => layout::search(n, key, |i| body.key(&page, i)).unwrap_or_else(|i| i),
                _ => layout::route(None, n, key, |i| body.key(&page, i)),
            };
            path.push(Step { page: at, slot });
            at = if level > 0 { child(&body, &page, slot) } else { at };
        }
        path.reverse();
        Ok((path, false))
    }

    /// Writes new contents of the page at `level`, split if they are too many (or if `halve` says
    /// so), and every ancestor anew.
    fn rebuild(&mut self, path: &[Step], level: usize, records: &[u8], halve: bool) -> Result<()> {
        let body = self.core.body(level);
        let n = records.len() / body.record;
        let parts: Vec<&[u8]> = if n > body.slots || halve {
            let (l, r) = records.split_at(n / 2 * body.record);
            vec![l, r]
        } else {
            vec![records]
        };
        let mut pieces = Pieces::new();
        for part in parts {
            let at = self.append(level, part)?;
            pieces.push((part.get(..body.key).unwrap_or_default().to_vec(), at));
        }
        self.core.pages.free(path[level].page);
        self.point_at(path, level + 1, pieces)
    }

    fn append(&mut self, level: usize, records: &[u8]) -> Result<Lba> {
        let (body, heat) = (self.core.body(level), if level == 0 { Heat::Hot } else { Heat::Cold });
        let is_fork = level == 0 || records.len() >= 2 * body.record;
        debug_assert!(is_fork, "an inner page of level {level} with less than two children");
        self.core.pages.append(heat, &body.image(records))
    }

    /// Makes the page at `level` (or a new root) point at the pieces in place of the child taken.
    fn point_at(&mut self, path: &[Step], level: usize, pieces: Pieces) -> Result<()> {
        let entry = |(key, at): &(Vec<u8>, Lba)| [&key[..], &at.0.to_le_bytes()].concat();
        if level == path.len() {
            if let [(_, at)] = pieces[..] {
                self.core.root.top = at;
                return Ok(());
            }
            let records: Vec<u8> = pieces.iter().flat_map(entry).collect();
            self.core.root.top = self.append(level, &records)?;
            self.core.root.height = level as u32;
            return Ok(());
        }
        let step = path[level];
        let body = self.core.body(level);
        let mut records = self.records(level, step.page)?;
        let from = step.slot * body.record;
        let replaced = layout::address(&records[from + body.key..][..ADDRESS_BYTES]);
        debug_assert_eq!(
            replaced,
            path[level - 1].page,
            "slot {} of page {}",
            step.slot,
            step.page
        );
        // The separator of the child stays: it bounds the range, not the keys that are in it now.
        let kept = records[from..from + body.key].to_vec();
        let mut entries: Vec<u8> = pieces.iter().flat_map(entry).collect();
        entries[..body.key].copy_from_slice(&kept);
        records.splice(from..from + body.record, entries);
        self.rebuild(path, level, &records, false)
    }

    /// Deletes a key; whether it was there. An absent key writes nothing.
    ///
    /// # Errors
    /// `Kind::Usage` for a key of another size; those of the store.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool> {
        self.core.check_key(key)?;
        self.reload_root();
        let (path, found) = self.descend(key)?;
        if !found {
            return Ok(false);
        }
        let record = self.core.body(0).record;
        let mut records = self.records(0, path[0].page)?;
        let at = path[0].slot * record;
        records.drain(at..at + record);
        self.shrink(&path, 0, records)?;
        self.core.root.records -= 1;
        self.core.finish()?;
        Ok(true)
    }

    /// Writes contents from which something went, borrowing or merging below half.
    fn shrink(&mut self, path: &[Step], level: usize, records: Vec<u8>) -> Result<()> {
        let body = self.core.body(level);
        let n = records.len() / body.record;
        if level + 1 == path.len() {
            return self.shrink_root(path, level, &records);
        }
        if n >= body.slots / 2 {
            return self.rebuild(path, level, &records, false);
        }
        let (above, up) = (self.core.body(level + 1), path[level + 1]);
        let mut parent = self.records(level + 1, up.page)?;
        debug_assert!(parent.len() >= 2 * above.record, "page {} has one child", up.page);
        let other = if up.slot > 0 { up.slot - 1 } else { up.slot + 1 };
        let (left, right) = (up.slot.min(other), up.slot.max(other));
        let separator = parent[right * above.record..][..above.key].to_vec();
        let sibling_at =
            layout::address(&parent[other * above.record + above.key..][..ADDRESS_BYTES]);
        let sibling = {
            let page = self.page_of(sibling_at, level)?;
            body.records(&page).to_vec()
        };
        let spare = sibling.len() / body.record > body.slots / 2;
        let (mut joined, tail) =
            if other < up.slot { (sibling, records) } else { (records, sibling) };
        let middle = joined.len();
        joined.extend_from_slice(&tail);
        if level > 0 && middle < joined.len() {
            joined[middle..middle + body.key].copy_from_slice(&separator);
        }
        self.core.pages.free(path[level].page);
        self.core.pages.free(sibling_at);
        let at = |slot: usize| slot * above.record + above.key;
        if spare {
            let half = joined.len() / body.record / 2 * body.record;
            let (l, r) = joined.split_at(half);
            let (l_at, r_at) = (self.append(level, l)?, self.append(level, r)?);
            parent[at(left)..at(left) + ADDRESS_BYTES].copy_from_slice(&l_at.0.to_le_bytes());
            parent[at(right)..at(right) + ADDRESS_BYTES].copy_from_slice(&r_at.0.to_le_bytes());
            parent[right * above.record..][..above.key].copy_from_slice(&r[..above.key]);
            return self.rebuild(path, level + 1, &parent, false);
        }
        let merged = self.append(level, &joined)?;
        parent[at(left)..at(left) + ADDRESS_BYTES].copy_from_slice(&merged.0.to_le_bytes());
        parent.drain(right * above.record..(right + 1) * above.record);
        self.shrink(path, level + 1, parent)
    }

    /// A root has no lower bound; an inner one with a single child gives way to it.
    fn shrink_root(&mut self, path: &[Step], level: usize, records: &[u8]) -> Result<()> {
        let body = self.core.body(level);
        if level == 0 || records.len() > body.record {
            return self.rebuild(path, level, records, false);
        }
        self.core.pages.free(path[level].page);
        self.core.root.top = layout::address(&records[body.key..][..ADDRESS_BYTES]);
        self.core.root.height -= 1;
        Ok(())
    }

    /// Calls `each` with key and value of every record in `[from, to)` until it answers false.
    ///
    /// # Errors
    /// `Kind::Usage` for a bound of another size; those of the store.
    pub fn scan(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
        mut each: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        from.into_iter().chain(to).try_for_each(|k| self.core.check_key(k))?;
        let range = Range { from, to, direction };
        let root = self.core.pages.root();
        self.scan_page(root.top, root.height as usize, &range, &mut each).map(|_| ())
    }

    fn scan_page(
        &self,
        at: Lba,
        level: usize,
        range: &Range<'_>,
        each: &mut impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<bool> {
        let (page, body) = (self.page_of(at, level)?, self.core.body(level));
        let n = layout::count(&page);
        for step in 0..n {
            let i = if range.direction == Direction::Forward { step } else { n - 1 - step };
            if level > 0 {
                let high = (i + 1 < n).then(|| body.key(&page, i + 1));
                let low = (i > 0).then(|| body.key(&page, i));
                if range.meets(low, high)
                    && !self.scan_page(child(&body, &page, i), level - 1, range, each)?
                {
                    return Ok(false);
                }
            } else {
                let (k, v) = body.record(&page, i).split_at(body.key);
                if range.holds(k) && !each(k, v) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Walks the tree and checks every invariant: the pages in use.
    ///
    /// # Errors
    /// `Kind::Corrupt` naming the first page that breaks a rule and the rule.
    pub fn check(&self) -> Result<BTreeSet<Lba>> {
        let (records, used) = self.walk(false)?;
        self.core.check_count(records)?;
        Ok(used)
    }

    /// Every page in use, read from the inner pages alone, which are checked as by
    /// [`Cow::check`].
    ///
    /// # Errors
    /// `Kind::Corrupt` naming the first page that breaks a rule and the rule.
    pub fn reachable(&self) -> Result<BTreeSet<Lba>> {
        self.walk(true).map(|(_, used)| used)
    }

    /// Records found and pages used; leaves may be skipped.
    fn walk(&self, skips_leaves: bool) -> Result<(u64, BTreeSet<Lba>)> {
        let mut walk = Walk { used: BTreeSet::new(), skips_leaves };
        let root = self.core.pages.root();
        let top = (root.height as usize, root.top);
        let records = self.check_page(top, true, Bounds::default(), &mut walk)?;
        Ok((records, walk.used))
    }

    fn check_page(
        &self,
        (level, at): (usize, Lba),
        is_top: bool,
        bounds: Bounds<'_>,
        walk: &mut Walk,
    ) -> Result<u64> {
        claim(&mut walk.used, at)?;
        if level == 0 && walk.skips_leaves {
            return Ok(0);
        }
        let (page, body) = (self.core.pages.peek(at)?, self.core.body(level));
        let n = layout::count(&page);
        check_kind(at, &page, body.kind(), level)?;
        let least = if is_top { 2 * usize::from(level > 0) } else { body.slots / 2 };
        let is_sized = (least..=body.slots).contains(&n);
        ensure(is_sized, at, || "holds too few or too many records".to_owned())?;
        let keys: Vec<&[u8]> = (0..n).map(|i| body.key(&page, i)).collect();
        bounds.check_all(at, &keys, body.first_compared())?;
        if level == 0 {
            return Ok(n as u64);
        }
        let mut records = 0;
        for i in 0..n {
            let below = (level - 1, child(&body, &page, i));
            records += self.check_page(below, false, bounds.child(n, i, |i| keys[i]), walk)?;
        }
        Ok(records)
    }
}

/// A walk over a tree: pages used, and whether it stops above the leaves.
struct Walk {
    used: BTreeSet<Lba>,
    skips_leaves: bool,
}

/// Offsets of the addresses of its children in a page's image; none in a leaf.
pub(crate) fn children(shape: &Shape, page: &[u8]) -> Vec<usize> {
    match layout::level(page) {
        0 => Vec::new(),
        level => {
            let body = shape.body(level);
            (0..layout::count(page)).map(|i| body.at(i) + body.key).collect()
        }
    }
}

fn child(body: &Body, page: &[u8], slot: usize) -> Lba {
    layout::address(&body.record(page, slot)[body.key..])
}
