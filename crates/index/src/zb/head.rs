//! What happens to heads: slots set, split, removed; strict borrow and merge; growth and collapse.
//!
//! Heads lie in conventional zones, so they are kept between half full and full (paper 000, section
//! 3.4): a head that falls below borrows from or merges with a sibling under the same interior
//! page. A head without such a sibling stays as it is (the interior layer is opportunistic and may
//! hold a single child, which the paper does not consider); an empty one is freed.

use littoral_base::units::Lba;
use littoral_store::pages::{Pages, Patch};

use super::state::{HeadView, Ptr, State, insert_patches, remove_patches};
use super::{Path, Step, Zb};
use crate::Result;
use crate::layout::{self, HEADER_BYTES};

impl<P: Pages> Zb<P> {
    /// A slot's pointer on a head that the operation has read.
    pub(super) fn head_ptr(&self, head: Lba, slot: usize) -> Result<Ptr> {
        let page = self.core.pages.peek(head)?;
        let ptr = HeadView::new(&self.core.shape, &page).ptr(slot);
        ptr.ok_or_else(|| Self::damaged(head, slot))
    }

    /// Points the head at the body's new state and place.
    pub(super) fn set_ptr(&mut self, path: &mut Path, level: usize, ptr: Ptr) -> Result<()> {
        debug_assert!(self.may_name(&ptr), "a head that names {ptr:?}");
        let step = &mut path[level];
        debug_assert!(step.slot < step.head_count, "a head of {} slots: {step:?}", step.head_count);
        step.ptr = ptr;
        let at = HEADER_BYTES
            + step.slot * self.core.shape.head_slot_bytes()
            + self.core.shape.key_bytes;
        self.core.pages.patch(step.head, &[Patch::Put { at, bytes: &ptr.encode() }])
    }

    /// Whether a head may name this body and log: the rule that is asked of every head that comes
    /// from the medium (`inspect.rs`), here before the head is written.
    fn may_name(&self, ptr: &Ptr) -> bool {
        let is_conventional = |at| self.core.pages.is_conventional(at);
        let is_log_placed = !ptr.has_log() || is_conventional(ptr.log);
        let is_state_kept = match ptr.state {
            State::Change => is_conventional(ptr.body) && !ptr.has_log(),
            State::Steady => !is_conventional(ptr.body),
            State::After => !is_conventional(ptr.body) && ptr.has_log(),
        };
        is_log_placed && is_state_kept
    }

    /// Whether the step knows how many slots its head has.
    fn is_counted(&self, step: &Step) -> bool {
        // A page that cannot be read is an error of the operation's next read.
        let page = self.core.pages.peek(step.head).ok();
        page.is_none_or(|page| layout::count(&page) == step.head_count)
    }

    /// Gives the step's slot another separator; its body begins there.
    pub(super) fn set_key(&mut self, path: &Path, level: usize, key: &[u8]) -> Result<()> {
        let step = &path[level];
        debug_assert!(step.slot > 0, "First has no separator: no search compares it");
        debug_assert_eq!(key.len(), self.core.shape.key_bytes, "a separator is a whole key");
        let at = HEADER_BYTES + step.slot * self.core.shape.head_slot_bytes();
        self.core.pages.patch(step.head, &[Patch::Put { at, bytes: key }])
    }

    /// The body has split: `left` stays in its slot, `right` gets the next one.
    pub(super) fn split_slot(
        &mut self,
        path: &mut Path,
        level: usize,
        left: Ptr,
        separator: &[u8],
        right: Ptr,
    ) -> Result<()> {
        debug_assert!(self.may_name(&left) && self.may_name(&right), "{left:?} and {right:?}");
        let step = path[level];
        let stride = self.core.shape.head_slot_bytes();
        let new_slot = [separator, &right.encode()].concat();
        let left_bytes = left.encode();
        let at = HEADER_BYTES + step.slot * stride + self.core.shape.key_bytes;
        let set_left = Patch::Put { at, bytes: &left_bytes };
        if step.head_count < self.core.shape.head_slots {
            let count = layout::count_bytes(step.head_count + 1);
            let [a, b, c] = insert_patches(step.slot + 1, step.head_count, &new_slot, &count);
            debug_assert!(self.is_counted(&step), "another number of slots: {step:?}");
            return self.core.pages.patch(step.head, &[set_left, a, b, c]);
        }
        let page = self.core.pages.peek(step.head)?;
        let mut slots = HeadView::new(&self.core.shape, &page).slots(0, step.head_count).to_vec();
        drop(page);
        let at = step.slot * stride;
        slots[at + self.core.shape.key_bytes..at + stride].copy_from_slice(&left_bytes);
        slots.splice(at + stride..at + stride, new_slot);
        self.split_head(path, level, &slots)
    }

    pub(super) fn head_image(&self, level: usize, slots: &[u8]) -> Vec<u8> {
        let (key, stride) = (self.core.shape.key_bytes, self.core.shape.head_slot_bytes());
        // The first separator is compared with none.
        debug_assert!(!slots.is_empty(), "a head of level {level} without a slot");
        let is_ordered = slots.chunks(stride).skip(1).is_sorted_by(|a, b| a[..key] < b[..key]);
        debug_assert!(is_ordered, "separators of a level {level} head ascend");
        let mut page = self.core.shape.new_head(level as u8);
        layout::set_count(&mut page, slots.len() / stride);
        page[HEADER_BYTES..HEADER_BYTES + slots.len()].copy_from_slice(slots);
        page
    }

    /// Halves an overfull head: the left half keeps the page, so no address above changes.
    fn split_head(&mut self, path: &mut Path, level: usize, slots: &[u8]) -> Result<()> {
        let stride = self.core.shape.head_slot_bytes();
        let (count, full) = (slots.len() / stride, self.core.shape.head_slots);
        debug_assert_eq!(count, full + 1, "a head is halved when one slot does not fit");
        let half = count / 2 * stride;
        let (left, right) = slots.split_at(half);
        let separator = right[..self.core.shape.key_bytes].to_vec();
        let right_at = self.core.pages.allocate()?;
        self.core.pages.put(path[level].head, &self.head_image(level, left))?;
        self.core.pages.put(right_at, &self.head_image(level, right))?;
        if level + 1 == path.len() {
            let first = left[..self.core.shape.key_bytes].to_vec();
            return self.grow(path[level].head, &first, right_at, &separator);
        }
        let record = [&separator[..], &right_at.0.to_le_bytes()].concat();
        let parent = self.again(level + 1, path[level + 1].ptr)?;
        let found = parent.find(&separator);
        drop(parent);
        match found {
            Ok(slot) => self.replace_record(path, level + 1, slot, &record),
            Err(slot) => self.insert_record(path, level + 1, slot, &record),
        }
    }

    /// A new pair on top: an interior page over the two halves of the old top, a head over it.
    fn grow(&mut self, left: Lba, first: &[u8], right: Lba, separator: &[u8]) -> Result<()> {
        let level = self.core.root.height as usize + 1;
        let records = [first, &left.0.to_le_bytes(), separator, &right.0.to_le_bytes()].concat();
        let body = self.core.pages.allocate()?;
        self.core.pages.put(body, &self.core.body(level).image(&records))?;
        let head = self.core.pages.allocate()?;
        let slot = [first, &Ptr::change(body).encode()].concat();
        self.core.pages.put(head, &self.head_image(level, &slot))?;
        self.core.root.top = head;
        self.core.root.height += 1;
        Ok(())
    }

    /// Takes a slot out of a head; slot 1 becomes First when slot 0 goes (repair 13).
    pub(super) fn remove_slot(&mut self, path: &mut Path, level: usize, slot: usize) -> Result<()> {
        let step = path[level];
        debug_assert!(slot < step.head_count && self.is_counted(&step), "slot {slot}: {step:?}");
        let count = step.head_count - 1;
        path[level].head_count = count;
        let is_top = level + 1 == path.len();
        if count == 0 && !is_top {
            self.core.pages.free(step.head);
            let child = path[level + 1].child_slot;
            return self.remove_record(path, level + 1, child);
        }
        let new_count = layout::count_bytes(count);
        let stride = self.core.shape.head_slot_bytes();
        self.core.pages.patch(step.head, &remove_patches(slot, count + 1, stride, &new_count))?;
        let lower_bound = self.core.shape.head_slots / 2;
        if is_top || count >= lower_bound { Ok(()) } else { self.rebalance(path, level) }
    }

    /// Borrows from or merges with a sibling under the same interior page (repairs 14 and 15: what
    /// changes above is an update of a key or a removal, by slot, logged when that page is steady).
    fn rebalance(&mut self, path: &mut Path, level: usize) -> Result<()> {
        let mine = path[level + 1].child_slot;
        let parent = self.again(level + 1, path[level + 1].ptr)?;
        let (before, after) = (parent.live_before(mine), parent.live_after(mine));
        let Some(other) = before.or(after) else { return Ok(()) };
        let (left, right) = (mine.min(other), mine.max(other));
        let (l, r) = (parent.child(left), parent.child(right));
        let separator = parent.key(right).to_vec();
        drop(parent);
        let sibling = if other == left { l } else { r };
        let sibling_page = self.core.pages.read(sibling)?;
        let spare = layout::count(&sibling_page) > self.core.shape.head_slots / 2;
        drop(sibling_page);
        let slots = self.slots_of_both((l, r), &separator)?;
        let stride = self.core.shape.head_slot_bytes();
        let left = if spare { slots.len() / stride / 2 * stride } else { slots.len() };
        self.spread(path, level, (l, r), right, slots.split_at(left))
    }

    /// The slots of two neighbouring heads; the right one's First becomes an ordinary separator
    /// again.
    pub(super) fn slots_of_both(&self, (l, r): (Lba, Lba), separator: &[u8]) -> Result<Vec<u8>> {
        let mut slots = self.all_slots(l)?;
        let moved = slots.len();
        slots.extend_from_slice(&self.all_slots(r)?);
        slots[moved..moved + separator.len()].copy_from_slice(separator);
        Ok(slots)
    }

    fn all_slots(&self, head: Lba) -> Result<Vec<u8>> {
        let page = self.core.pages.peek(head)?;
        let view = HeadView::new(&self.core.shape, &page);
        Ok(view.slots(0, view.count()).to_vec())
    }

    /// Gives two neighbouring heads these slots and tells the interior page the new separator; a
    /// right head without slots is freed.
    pub(super) fn spread(
        &mut self,
        path: &mut Path,
        level: usize,
        (l, r): (Lba, Lba),
        right_slot: usize,
        (left, right): (&[u8], &[u8]),
    ) -> Result<()> {
        self.core.pages.put(l, &self.head_image(level, left))?;
        if right.is_empty() {
            self.core.pages.free(r);
            return self.remove_record(path, level + 1, right_slot);
        }
        self.core.pages.put(r, &self.head_image(level, right))?;
        let record = [&right[..self.core.shape.key_bytes], &r.0.to_le_bytes()].concat();
        self.replace_record(path, level + 1, right_slot, &record)
    }

    /// Drops pairs at the top that have become a chain: one body with one child.
    pub(super) fn collapse(&mut self) -> Result<()> {
        while self.core.root.height > 0 {
            let level = self.core.root.height as usize;
            let page = self.core.pages.peek(self.core.root.top)?;
            if layout::count(&page) != 1 {
                return Ok(());
            }
            drop(page);
            let ptr = self.head_ptr(self.core.root.top, 0)?;
            let view = self.again(level, ptr)?;
            let live = view.live_before(view.slots());
            let Some(slot) = live.filter(|_| view.live_count() == 1) else { return Ok(()) };
            let child = view.child(slot);
            drop(view);
            self.core.pages.free(self.core.root.top);
            self.core.pages.free(ptr.body);
            if ptr.has_log() {
                self.core.pages.free(ptr.log);
            }
            self.core.root.top = child;
            self.core.root.height -= 1;
        }
        Ok(())
    }
}
