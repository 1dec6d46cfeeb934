//! Inner pages made dense under pressure (repair 19): heads and interior pages give conventional
//! pages back.
//!
//! A deletion merges heads that fall below half, so heads stay half full after deletions, and each
//! of them is a conventional page for ever. Before an insert is refused, slots move to the left
//! until all heads under an interior page but the last are full, and neighbouring interior pages
//! that fit one page become one.
//!
//! - One call is one operation on two neighbours: its dirty pages are these two, what is above
//!   them, and what a deletion would rebalance there.
//! - A call changes something only if conventional pages come back in the end. Checked by
//!   `deletions_bring_back_room_whatever_order_filled_the_device`.

use littoral_base::units::Lba;
use littoral_store::pages::Pages;

use super::state::{HeadView, Ptr, State};
use super::{Path, Zb};
use crate::Result;
use crate::layout;

/// What one call did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Whether pages were changed: the same call may find more.
    pub is_changed: bool,
    /// Where the next interior page of the level begins, if there is one.
    pub next: Option<Vec<u8>>,
}

/// A head and its slot in the interior page above.
#[derive(Clone, Copy, Debug)]
struct Child {
    slot: usize,
    head: Lba,
    count: usize,
}

impl<P: Pages> Zb<P> {
    /// Makes the heads under the interior page of `level` that covers `from` denser, or puts that
    /// page and its right neighbour together.
    ///
    /// # Errors
    /// `Kind::Full` when there is no room for it; those of the store.
    pub fn make_dense(&mut self, from: &[u8], level: usize) -> Result<Made> {
        if level > self.core.root.height as usize {
            return Ok(Made { is_changed: false, next: None });
        }
        let next = self.beyond(from, level)?;
        let mut path = self.descend(from)?;
        let is_changed =
            self.fill_heads(&mut path, level)? || self.join_bodies(&mut path, level)?;
        if is_changed {
            self.collapse()?;
            self.core.finish()?;
        }
        Ok(Made { is_changed, next })
    }

    /// Moves slots from a head to its left neighbour, if this saves heads in the end.
    fn fill_heads(&mut self, path: &mut Path, level: usize) -> Result<bool> {
        let ptr = path[level].ptr;
        let view = self.again(level, ptr)?;
        let mut children = Vec::new();
        for slot in (0..view.slots()).filter(|&slot| view.is_live(slot)) {
            let head = view.child(slot);
            let count = layout::count(&self.core.pages.read(head)?);
            children.push(Child { slot, head, count });
        }
        let full = self.core.shape.head_slots;
        let slots: usize = children.iter().map(|child| child.count).sum();
        let saved = children.len() - slots.div_ceil(full);
        // The interior page is written in place once it has one child fewer.
        let taken = usize::from(ptr.state != State::Change && !ptr.has_log());
        let pair = children.windows(2).find(|pair| pair[0].count < full);
        let Some(&[left, right]) = pair.filter(|_| saved > taken) else { return Ok(false) };
        let separator = view.key(right.slot).to_vec();
        drop(view);
        let slots = self.slots_of_both((left.head, right.head), &separator)?;
        let stays = slots.len().min(full * self.core.shape.head_slot_bytes());
        let heads = (left.head, right.head);
        self.spread(path, level - 1, heads, right.slot, slots.split_at(stays))?;
        Ok(true)
    }

    /// Puts the interior page and its right neighbour under the same head together, if they fit one
    /// page and this gives conventional pages back.
    fn join_bodies(&mut self, path: &mut Path, level: usize) -> Result<bool> {
        let (head, slot) = (path[level].head, path[level].slot);
        if slot + 1 >= path[level].head_count {
            return Ok(false);
        }
        let old = [path[level].ptr, self.head_ptr(head, slot + 1)?];
        let (left, right) = (self.load(level, old[0])?, self.load(level, old[1])?);
        let body = self.core.body(level);
        let count = left.live_count() + right.live_count();
        let before: usize = old.iter().map(conventional_pages).sum();
        if count > body.slots || before <= usize::from(count < body.slots) {
            return Ok(false);
        }
        let mut records = left.live_records();
        let moved = records.len();
        records.extend(right.live_records());
        drop((left, right));
        // The right page's First becomes an ordinary separator: the one its head knew it by.
        let page = self.core.pages.peek(head)?;
        let key = HeadView::new(&self.core.shape, &page).key(slot + 1).to_vec();
        drop(page);
        records[moved..moved + body.key].copy_from_slice(&key);
        let image = body.image(&records);
        let joined = if count == body.slots {
            Ptr::steady(self.core.pages.append(Self::heat(level), &image)?)
        } else {
            let place = self.core.pages.allocate()?;
            self.core.pages.put(place, &image)?;
            Ptr::change(place)
        };
        for ptr in old {
            self.core.pages.free(ptr.body);
            if ptr.has_log() {
                self.core.pages.free(ptr.log);
            }
        }
        self.set_ptr(path, level, joined)?;
        self.remove_slot(path, level, slot + 1)?;
        Ok(true)
    }
}

/// Conventional pages of a body and its log.
fn conventional_pages(ptr: &Ptr) -> usize {
    usize::from(ptr.state == State::Change || ptr.has_log())
}
