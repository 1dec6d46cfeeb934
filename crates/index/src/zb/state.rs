//! States of a body, the head's view of it, and a body read together with its log.
//!
//! Paper 000, section 2.2 (states), figs. 7 and 8 (log matched by slot, `ptr` structure).

use littoral_base::units::Lba;
use littoral_store::pages::{NO_PAGE, PageRef, Patch};

use crate::guess::Guess;
use crate::layout::{self, Body, HEADER_BYTES, PTR_BYTES, PageKind, Shape, Tag};
use crate::tree::Bounds;

/// Where a body stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// In a conventional zone, not full, changed in place.
    Change = 1,
    /// In a sequential zone, full, never changed; a log may hold updates.
    Steady = 2,
    /// In a sequential zone with a log that has held a deletion.
    After = 3,
}

/// What a head knows of a body: its state, its place and its log's place (paper 000, fig. 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ptr {
    /// The body's state.
    pub state: State,
    /// The body's page.
    pub body: Lba,
    /// The log's page, or [`NO_PAGE`].
    pub log: Lba,
}

impl Ptr {
    /// A body in a conventional zone.
    pub fn change(body: Lba) -> Ptr {
        Ptr { state: State::Change, body, log: NO_PAGE }
    }

    /// A full body in a sequential zone without a log.
    pub fn steady(body: Lba) -> Ptr {
        Ptr { state: State::Steady, body, log: NO_PAGE }
    }

    /// Whether the body has a log.
    pub fn has_log(&self) -> bool {
        self.log != NO_PAGE
    }

    /// The pointer as it lies in a head slot, after the key.
    pub fn encode(&self) -> [u8; PTR_BYTES] {
        let mut bytes = [0; PTR_BYTES];
        bytes[0] = self.state as u8;
        bytes[1..9].copy_from_slice(&self.body.0.to_le_bytes());
        bytes[9..].copy_from_slice(&self.log.0.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Ptr> {
        let state = match bytes[0] {
            1 => State::Change,
            2 => State::Steady,
            3 => State::After,
            _ => return None,
        };
        let (body, log) = (layout::address(&bytes[1..9]), layout::address(&bytes[9..]));
        Some(Ptr { state, body, log })
    }
}

/// Reads a head page's slots.
#[derive(Clone, Copy, Debug)]
pub struct HeadView<'a> {
    page: &'a [u8],
    key: usize,
    stride: usize,
}

impl<'a> HeadView<'a> {
    /// A view of a head page.
    pub fn new(shape: &Shape, page: &'a [u8]) -> HeadView<'a> {
        HeadView { page, key: shape.key_bytes, stride: shape.head_slot_bytes() }
    }

    /// Slots in use.
    pub fn count(&self) -> usize {
        layout::count(self.page)
    }

    /// Offset of slot `i`.
    pub fn at(&self, i: usize) -> usize {
        HEADER_BYTES + i * self.stride
    }

    /// Key of slot `i`; slot 0's is *First* by position.
    #[inline]
    pub fn key(&self, i: usize) -> &'a [u8] {
        debug_assert!(i < self.count(), "separator {i} of {} slots", self.count());
        &self.page[self.at(i)..][..self.key]
    }

    /// Pointer of slot `i`, if its bytes are one.
    #[inline]
    pub fn ptr(&self, i: usize) -> Option<Ptr> {
        debug_assert!(i < self.count(), "body {i} of {} slots", self.count());
        Ptr::decode(&self.page[self.at(i) + self.key..][..PTR_BYTES])
    }

    /// Slot `i` as bytes.
    pub fn slot(&self, i: usize) -> &'a [u8] {
        &self.page[self.at(i)..][..self.stride]
    }

    /// The slots `from..to` as bytes.
    pub fn slots(&self, from: usize, to: usize) -> &'a [u8] {
        &self.page[self.at(from)..self.at(to)]
    }

    /// The slot that covers `key`; looked for where the guess says first.
    pub(crate) fn route(&self, guess: Option<Guess>, key: &[u8]) -> usize {
        let near = guess.map(|guess| guess.slots(self.stride, self.count() - 1));
        layout::route(near, self.count(), key, |i| self.key(i))
    }
}

/// A body as a reader sees it: the base page with its log on top, merged in memory only.
#[derive(Debug)]
pub struct BodyView<'a> {
    /// The layout.
    pub body: Body,
    base: PageRef<'a>,
    log: Option<PageRef<'a>>,
}

impl<'a> BodyView<'a> {
    /// A view of a body and its log.
    pub fn new(body: Body, base: PageRef<'a>, log: Option<PageRef<'a>>) -> BodyView<'a> {
        BodyView { body, base, log }
    }

    /// Whether body and log can belong to a head's slot in this state: what cannot be seen in
    /// either page alone.
    pub(crate) fn fits(&self, state: State) -> bool {
        let (slots, full, level) = (self.slots(), self.body.slots, self.body.level);
        let wanted = if level == 0 { PageKind::Leaf } else { PageKind::Interior };
        let is_body =
            layout::kind(&self.base) == Some(wanted) && layout::level(&self.base) == level;
        let is_sized = match state {
            State::Change => slots < full,
            // Leaves may be sealed before they are full (repair 18), interior pages never are.
            _ => slots == full || level == 0 && (1..full).contains(&slots),
        };
        let is_own = |log: &PageRef<'_>| {
            let is_log = layout::kind(log) == Some(PageKind::Log) && layout::level(log) == level;
            is_log && layout::base_count(log) == slots
        };
        is_body && is_sized && self.log.as_ref().is_none_or(is_own)
    }

    /// Slots of the base page, deleted ones included.
    pub fn slots(&self) -> usize {
        layout::count(&self.base)
    }

    fn tag(&self, i: usize) -> Tag {
        self.log.as_ref().map_or(Tag::Absent, |l| self.body.tag(l, i))
    }

    /// Whether slot `i` is not deleted.
    pub fn is_live(&self, i: usize) -> bool {
        self.tag(i) != Tag::Delete
    }

    /// Whether the log says nothing of slot `i` yet.
    pub fn is_untagged(&self, i: usize) -> bool {
        self.tag(i) == Tag::Absent
    }

    /// Tagged slots of the log.
    pub fn tagged(&self) -> usize {
        self.log.as_ref().map_or(0, |l| layout::count(l))
    }

    /// Records that are not deleted.
    pub fn live_count(&self) -> usize {
        if self.log.is_none() {
            return self.slots();
        }
        (0..self.slots()).filter(|&i| self.is_live(i)).count()
    }

    /// Record `i` as it stands; a deleted slot shows its last record.
    pub fn record(&self, i: usize) -> &[u8] {
        match &self.log {
            Some(log) if self.tag(i) == Tag::Update => self.body.log_record(log, i),
            _ => self.body.record(&self.base, i),
        }
    }

    /// Key `i` as it stands.
    pub fn key(&self, i: usize) -> &[u8] {
        &self.record(i)[..self.body.key]
    }

    /// Value or child address of slot `i`.
    pub fn payload(&self, i: usize) -> &[u8] {
        &self.record(i)[self.body.key..]
    }

    /// Child of slot `i` of an interior body.
    pub fn child(&self, i: usize) -> Lba {
        debug_assert!(self.body.level > 0 && self.is_live(i), "slot {i} has no child");
        layout::address(self.payload(i))
    }

    /// The slot of `key`, or where it belongs. A leaf's deleted slot is found too: its keys never
    /// move. An interior body's slot 0 is First and never compared, and its deleted slots are
    /// passed over: a logged change of a separator may have moved it across them.
    pub fn find(&self, key: &[u8]) -> std::result::Result<usize, usize> {
        self.find_near(None, key)
    }

    /// [`BodyView::find`] that looks where the guess says first.
    pub(crate) fn find_near(
        &self,
        guess: Option<Guess>,
        key: &[u8],
    ) -> std::result::Result<usize, usize> {
        if self.body.level > 0 && self.log.is_some() {
            let slot = self.route(key);
            let is_first = self.live_before(slot).is_none();
            return if !is_first && self.key(slot) == key { Ok(slot) } else { Err(slot + 1) };
        }
        let first = self.body.first_compared();
        // With a log this is a leaf, whose keys are in its base, whatever the log says of values.
        let key_at = |i: usize| self.body.key(&self.base, i + first);
        let near = guess.map(|guess| guess.slots(self.body.record, self.slots() - first));
        let found = layout::search_near(near, self.slots() - first, key, key_at);
        found.map(|i| i + first).map_err(|i| i + first)
    }

    /// The live slot of an interior body that covers `key`.
    pub fn route(&self, key: &[u8]) -> usize {
        if self.log.is_none() {
            return layout::route(None, self.slots(), key, |i| self.key(i));
        }
        let mut live = (0..self.slots()).filter(|&i| self.is_live(i));
        let first = live.next().unwrap_or(0);
        live.take_while(|&i| self.key(i) <= key).last().unwrap_or(first)
    }

    /// The bounds of the child in the live slot `slot` of an interior body. Deleted slots have no
    /// say: a logged change of a separator may have moved it across them.
    pub(crate) fn child_bounds<'b>(&'b self, bounds: Bounds<'b>, slot: usize) -> Bounds<'b> {
        if self.log.is_none() {
            return bounds.child(self.slots(), slot, |i| self.key(i));
        }
        let low = self.live_before(slot).map(|_| self.key(slot));
        bounds.narrowed(low, self.live_after(slot).map(|i| self.key(i)))
    }

    /// The first and the last key of a leaf, deleted slots included: their keys never move.
    pub(crate) fn ends(&self) -> Option<(&[u8], &[u8])> {
        let last = self.slots().checked_sub(1)?;
        Some((self.key(0), self.key(last)))
    }

    /// The last live slot before `slot`.
    pub fn live_before(&self, slot: usize) -> Option<usize> {
        (0..slot).rev().find(|&i| self.is_live(i))
    }

    /// The first live slot after `slot`.
    pub fn live_after(&self, slot: usize) -> Option<usize> {
        (slot + 1..self.slots()).find(|&i| self.is_live(i))
    }

    /// The live records, one after the other.
    pub fn live_records(&self) -> Vec<u8> {
        if self.log.is_none() {
            return self.body.records(&self.base).to_vec();
        }
        let live = (0..self.slots()).filter(|&i| self.is_live(i));
        live.flat_map(|i| self.record(i).iter().copied()).collect()
    }
}

/// Patches that insert `bytes` as slot `slot` of `count` slots of `stride` bytes.
pub(crate) fn insert_patches<'a>(
    slot: usize,
    count: usize,
    bytes: &'a [u8],
    new_count: &'a [u8; 2],
) -> [Patch<'a>; 3] {
    let stride = bytes.len();
    let at = HEADER_BYTES + slot * stride;
    [
        Patch::Move { from: at, to: at + stride, len: (count - slot) * stride },
        Patch::Put { at, bytes },
        Patch::Put { at: layout::COUNT_AT, bytes: new_count },
    ]
}

/// Patches that take slot `slot` out of `count` slots of `stride` bytes.
pub(crate) fn remove_patches(
    slot: usize,
    count: usize,
    stride: usize,
    new_count: &[u8; 2],
) -> [Patch<'_>; 2] {
    let at = HEADER_BYTES + slot * stride;
    [
        Patch::Move { from: at + stride, to: at, len: (count - slot - 1) * stride },
        Patch::Put { at: layout::COUNT_AT, bytes: new_count },
    ]
}
