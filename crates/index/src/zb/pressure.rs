//! Sealing under pressure (repair 18): leaves leave the conventional class before they are full.
//!
//! The paper does not say what happens when its conventional zone is full, and its own tables have
//! nearly every leaf there. Here the leaves under one head are written to sequential zones as they
//! stand and their logs applied, so that the conventional class bounds what is changing and not
//! what is held. A sealed leaf is Steady with fewer records than slots; its next insert takes it
//! back to a conventional page.
//!
//! - One call is one operation on one head: its dirty pages are the head alone.
//! - Leaves are written one a block: packing several into one would need a second kind of address.

use littoral_base::mutant;
use littoral_base::units::Lba;
use littoral_store::pages::{Pages, Patch};

use super::Zb;
use super::state::{HeadView, Ptr, State};
use crate::Result;
use crate::layout;

/// A slot's new pointer and the pages that it replaces.
struct Sealed {
    slot: usize,
    ptr: Ptr,
    old: Ptr,
}

impl<P: Pages> Zb<P> {
    /// Seals up to `most` leaves under the head that covers `from`: those that are at least half
    /// full or have a log, or with `any` every one. Answers where the next head's keys begin;
    /// `None` after the last head.
    ///
    /// # Errors
    /// `Kind::Full` when there is no room to seal them in; those of the store.
    pub fn seal_under_pressure(
        &mut self,
        from: &[u8],
        most: usize,
        any: bool,
    ) -> Result<Option<Vec<u8>>> {
        let (head, beyond) = self.head_of(from)?;
        let page = self.pages.read(head)?;
        let view = HeadView::new(&self.shape, &page);
        let pointers: Vec<Option<Ptr>> = (0..view.count()).map(|i| view.ptr(i)).collect();
        drop(page);
        let mut sealed = Vec::new();
        for (slot, ptr) in pointers.into_iter().enumerate() {
            let old = ptr.ok_or_else(|| Self::damaged(head, slot))?;
            if sealed.len() < most
                && let Some(ptr) = self.seal_leaf(old, any)?
            {
                sealed.push(Sealed { slot, ptr, old });
            }
        }
        let is_done = sealed.len() < most;
        self.point_at_sealed(head, &sealed)?;
        // A head with more to seal is come back to.
        Ok(if is_done { beyond } else { Some(from.to_vec()) })
    }

    /// The head over the leaf that covers `key`, and the separator behind that head.
    fn head_of(&self, key: &[u8]) -> Result<(Lba, Option<Vec<u8>>)> {
        let (mut head, mut beyond) = (self.root.top, None);
        for level in (1..=self.root.height as usize).rev() {
            let page = self.pages.read(head)?;
            let view = HeadView::new(&self.shape, &page);
            let slot = view.route(key);
            if slot + 1 < view.count() {
                beyond = Some(view.key(slot + 1).to_vec());
            }
            let ptr = view.ptr(slot).ok_or_else(|| Self::damaged(head, slot))?;
            let body = self.load(level, ptr)?;
            let child = body.route(key);
            if let Some(next) = body.live_after(child) {
                beyond = Some(body.key(next).to_vec());
            }
            head = body.child(child);
        }
        Ok((head, beyond))
    }

    /// Writes a leaf anew at a sequential write pointer, its log applied, if that frees a
    /// conventional page.
    fn seal_leaf(&mut self, old: Ptr, any: bool) -> Result<Option<Ptr>> {
        if old.state == State::Steady && !old.has_log() {
            return Ok(None);
        }
        let view = self.load(0, old)?;
        let (live, slots) = (view.live_count(), view.body.slots);
        let is_worth = old.has_log() || live * 2 >= slots || any;
        // An empty leaf is the last one of an empty tree.
        if live == 0 || !is_worth {
            return Ok(None);
        }
        let records = match mutant!("zb_seal_without_log") {
            true => view.body.records(&self.pages.peek(old.body)?).to_vec(),
            false => view.live_records(),
        };
        let image = view.body.image(&records);
        drop(view);
        Ok(Some(Ptr::steady(self.pages.append(Self::heat(0), &image)?)))
    }

    fn point_at_sealed(&mut self, head: Lba, sealed: &[Sealed]) -> Result<()> {
        if sealed.is_empty() {
            return Ok(());
        }
        let encoded: Vec<[u8; 17]> = sealed.iter().map(|s| s.ptr.encode()).collect();
        let stride = self.shape.head_slot_bytes();
        let at = |slot: usize| layout::HEADER_BYTES + slot * stride + self.shape.key_bytes;
        let patches = sealed.iter().zip(&encoded);
        let patches: Vec<Patch<'_>> =
            patches.map(|(s, bytes)| Patch::Put { at: at(s.slot), bytes }).collect();
        self.pages.patch(head, &patches)?;
        for Sealed { old, .. } in sealed {
            self.pages.free(old.body);
            if old.has_log() {
                self.pages.free(old.log);
            }
        }
        self.finish()
    }
}
