//! What happens to a body: insert, update, delete, Sync, split, opportunistic merge (paper 000,
//! algorithms 1, 2, 3, 6 and 7, for leaves and interior pages alike).
//!
//! Each function leaves the head slot, the body and the log consistent; none ends the operation.

use littoral_base::mutant;
use littoral_base::units::Lba;
use littoral_store::pages::{NO_PAGE, Pages, Patch};

use super::state::{BodyView, HeadView, Ptr, State, insert_patches, remove_patches};
use super::{Path, Zb};
use crate::Result;
use crate::layout::{self, Body, Tag};

impl<P: Pages> Zb<P> {
    /// Inserts a record that the body does not hold, at `slot` where it belongs (algorithm 6).
    pub(super) fn insert_record(
        &mut self,
        path: &mut Path,
        level: usize,
        slot: usize,
        record: &[u8],
    ) -> Result<()> {
        let body = self.core.body(level);
        let ptr = path[level].ptr;
        let view = self.again(level, ptr)?;
        match ptr.state {
            State::Change if view.slots() + 1 < body.slots => {
                let count = view.slots();
                drop(view);
                let new_count = layout::count_bytes(count + 1);
                self.core.pages.patch(ptr.body, &insert_patches(slot, count, record, &new_count))
            }
            State::Change => {
                let records = with_record(view.live_records(), slot, record);
                drop(view);
                self.seal(path, level, &records)
            }
            // Every deletion may have been taken back (repair 11): then it is full and splits.
            State::Steady | State::After if view.live_count() == body.slots => {
                // With a log the paper syncs first and so writes a sequential block that the split
                // turns into garbage at once; here log and body are merged in memory (repair 7).
                let records = view.live_records();
                drop(view);
                self.split(path, level, &records, record)
            }
            State::Steady | State::After => {
                let records = insert_sorted(&view, record);
                drop(view);
                self.rewrite(path, level, &records)
            }
        }
    }

    /// Replaces the record of `slot`, live or deleted (repair 11: a deleted one comes back, the
    /// state stays).
    pub(super) fn replace_record(
        &mut self,
        path: &mut Path,
        level: usize,
        slot: usize,
        record: &[u8],
    ) -> Result<()> {
        let ptr = path[level].ptr;
        match ptr.state {
            State::Change => {
                let at = self.core.body(level).at(slot);
                self.core.pages.patch(ptr.body, &[Patch::Put { at, bytes: record }])
            }
            State::Steady | State::After => self.log(path, level, slot, Some(record)),
        }
    }

    /// Takes the record of a live slot out of the body (algorithm 7; repair 9: by slot, and no
    /// state is tested after the body is gone).
    pub(super) fn remove_record(
        &mut self,
        path: &mut Path,
        level: usize,
        slot: usize,
    ) -> Result<()> {
        let body = self.core.body(level);
        let ptr = path[level].ptr;
        if ptr.state != State::Change {
            return self.log(path, level, slot, None);
        }
        let count = layout::count(&self.core.pages.peek(ptr.body)?);
        if count == 1 && !self.is_last_leaf(path, level) {
            return self.drop_body(path, level);
        }
        let new_count = layout::count_bytes(count - 1);
        self.core.pages.patch(ptr.body, &remove_patches(slot, count, body.record, &new_count))?;
        self.merge_if_possible(path, level, count - 1)
    }

    /// An empty tree keeps its last leaf.
    fn is_last_leaf(&self, path: &Path, level: usize) -> bool {
        level == 0 && path.len() == 1 && path[0].head_count == 1
    }

    /// Frees an empty body and takes its slot out of the head.
    fn drop_body(&mut self, path: &mut Path, level: usize) -> Result<()> {
        let Ptr { body, log, .. } = path[level].ptr;
        self.core.pages.free(body);
        if log != NO_PAGE {
            self.core.pages.free(log);
        }
        let slot = path[level].slot;
        self.remove_slot(path, level, slot)
    }

    /// Writes an update (`Some`) or a deletion (`None`) into the body's log, making the log if need
    /// be, and syncs when the log is full, whichever operation filled it (repair 8).
    fn log(
        &mut self,
        path: &mut Path,
        level: usize,
        slot: usize,
        record: Option<&[u8]>,
    ) -> Result<()> {
        let mut ptr = path[level].ptr;
        let view = self.again(level, ptr)?;
        let slots = view.slots();
        let tagged = view.tagged() + usize::from(view.is_untagged(slot));
        if tagged == slots {
            drop(view);
            return self.switch_apply(path, level, slot, record);
        }
        let slot = if mutant!("zb_log_in_order_of_arrival") { view.tagged() } else { slot };
        drop(view);
        let is_new = !ptr.has_log();
        if is_new {
            ptr.log = self.core.pages.allocate()?;
            self.put_new_log(ptr.log, level, slots, slot, record)?;
        } else {
            self.patch_log(ptr.log, level, slot, tagged, record)?;
        }
        if record.is_none() {
            ptr.state = State::After;
        }
        if ptr != path[level].ptr { self.set_ptr(path, level, ptr) } else { Ok(()) }
    }

    fn put_new_log(
        &mut self,
        at: Lba,
        level: usize,
        slots: usize,
        slot: usize,
        record: Option<&[u8]>,
    ) -> Result<()> {
        let body = self.core.body(level);
        let mut log = body.new_log(slots);
        layout::set_count(&mut log, 1);
        log[body.tag_at(slot)] = tag_of(record) as u8;
        if let Some(r) = record {
            log[body.log_at(slot)..][..body.record].copy_from_slice(r);
        }
        self.core.pages.put(at, &log)
    }

    fn patch_log(
        &mut self,
        at: Lba,
        level: usize,
        slot: usize,
        tagged: usize,
        record: Option<&[u8]>,
    ) -> Result<()> {
        let body = self.core.body(level);
        let (tag, count) = ([tag_of(record) as u8], layout::count_bytes(tagged));
        let patches = [
            Patch::Put { at: body.tag_at(slot), bytes: &tag },
            Patch::Put { at: layout::COUNT_AT, bytes: &count },
            Patch::Put { at: body.log_at(slot), bytes: record.unwrap_or_default() },
        ];
        let used = if record.is_some() { 3 } else { 2 };
        self.core.pages.patch(at, &patches[..used])
    }

    /// Sync of a full log (algorithm 2): the log alone is the new body. `slot` and `record` are the
    /// entry that fills it; they are merged here and not written to the log first.
    fn switch_apply(
        &mut self,
        path: &mut Path,
        level: usize,
        slot: usize,
        record: Option<&[u8]>,
    ) -> Result<()> {
        let view = self.again(level, path[level].ptr)?;
        debug_assert!(view.is_untagged(slot), "slot {slot} is the last without a tag");
        let mut records = Vec::new();
        for i in 0..view.slots() {
            match record {
                Some(r) if i == slot => records.extend_from_slice(r),
                None if i == slot => {}
                _ if view.is_live(i) => records.extend_from_slice(view.record(i)),
                _ => {}
            }
        }
        drop(view);
        self.rewrite(path, level, &records)
    }

    /// Gives the body new contents: full ones are sealed, fewer become a change body in the log's
    /// block, none drop the body (repairs 5, 7 and 8: one decision, on the records that are left).
    fn rewrite(&mut self, path: &mut Path, level: usize, records: &[u8]) -> Result<()> {
        let body = self.core.body(level);
        let count = records.len() / body.record;
        if count == body.slots {
            return self.seal(path, level, records);
        }
        if count == 0 && !self.is_last_leaf(path, level) {
            return self.drop_body(path, level);
        }
        let old = path[level].ptr;
        debug_assert!(old.state != State::Change, "what is changed in place is not rewritten");
        let place = if old.has_log() { old.log } else { self.core.pages.allocate()? };
        self.core.pages.put(place, &body.image(records))?;
        self.core.pages.free(old.body);
        self.set_ptr(path, level, Ptr::change(place))?;
        self.merge_if_possible(path, level, count)
    }

    /// Writes a full body at a sequential write pointer and frees what it replaces (repair 17:
    /// sealed as soon as it is full, as the paper does).
    fn seal(&mut self, path: &mut Path, level: usize, records: &[u8]) -> Result<()> {
        let layout = self.core.body(level);
        debug_assert_eq!(records.len(), layout.slots * layout.record, "a sealed body is full");
        let image = layout.image(records);
        let body = self.core.pages.append(Self::heat(level), &image)?;
        let old = path[level].ptr;
        self.core.pages.free(old.body);
        if old.has_log() {
            self.core.pages.free(old.log);
        }
        self.set_ptr(path, level, Ptr::steady(body))
    }

    /// Splits a full body into two change bodies and inserts `record` into the proper half (repairs
    /// 12 and 13: halve first; the left half keeps First, the right half's lowest key goes up).
    fn split(
        &mut self,
        path: &mut Path,
        level: usize,
        records: &[u8],
        record: &[u8],
    ) -> Result<()> {
        let body = self.core.body(level);
        let count = records.len() / body.record;
        debug_assert_eq!(count, body.slots, "only a full body is split");
        let half = count / 2 * body.record;
        let (left, right) = records.split_at(half);
        let separator = right[..body.key].to_vec();
        let goes_left = record[..body.key] < separator[..];
        let grown = |side: &[u8], takes: bool| match takes {
            true => insert_into(&body, side, record),
            false => side.to_vec(),
        };
        let (left, right) = (grown(left, goes_left), grown(right, !goes_left));
        let old = path[level].ptr;
        let left_at = if old.has_log() { old.log } else { self.core.pages.allocate()? };
        let right_at = self.core.pages.allocate()?;
        self.core.pages.put(left_at, &body.image(&left))?;
        self.core.pages.put(right_at, &body.image(&right))?;
        self.core.pages.free(old.body);
        self.split_slot(path, level, Ptr::change(left_at), &separator, Ptr::change(right_at))
    }

    /// Opportunistic merge (section 3.4): with a neighbour under the same head, both in a
    /// conventional zone, if together they are less than full. Looked for only when this body is at
    /// most half full: of two bodies that fit together one is, and it was looked at when it last
    /// shrank.
    fn merge_if_possible(&mut self, path: &mut Path, level: usize, count: usize) -> Result<()> {
        let body = self.core.body(level);
        if count * 2 > body.slots {
            return Ok(());
        }
        let (slot, head_count) = (path[level].slot, path[level].head_count);
        let right = (slot + 1 < head_count).then_some(slot + 1);
        for other in [slot.checked_sub(1), right].into_iter().flatten() {
            let ptr = self.head_ptr(path[level].head, other)?;
            if ptr.state != State::Change {
                continue;
            }
            let more = layout::count(&self.core.pages.read(ptr.body)?);
            if count + more < body.slots {
                return self.merge(path, level, other);
            }
        }
        Ok(())
    }

    /// Merges the body with its neighbour at `other`: the left page keeps both.
    fn merge(&mut self, path: &mut Path, level: usize, other: usize) -> Result<()> {
        let body = self.core.body(level);
        let (head, slot) = (path[level].head, path[level].slot);
        let (left, right) = (slot.min(other), slot.max(other));
        let (l, r) = (self.head_ptr(head, left)?.body, self.head_ptr(head, right)?.body);
        let mut records = body.records(&self.core.pages.peek(l)?).to_vec();
        let tail = records.len();
        records.extend_from_slice(body.records(&self.core.pages.peek(r)?));
        if level > 0 && records.len() > tail {
            // The right page's First becomes an ordinary separator: the one its head knew it by.
            let key =
                HeadView::new(&self.core.shape, &self.core.pages.peek(head)?).key(right).to_vec();
            records[tail..tail + body.key].copy_from_slice(&key);
        }
        let count = records.len() / body.record;
        debug_assert!(count < body.slots, "a merged body of {count} records is full");
        self.core.pages.put(l, &body.image(&records))?;
        self.core.pages.free(r);
        self.remove_slot(path, level, right)
    }
}

fn tag_of(record: Option<&[u8]>) -> Tag {
    if record.is_some() { Tag::Update } else { Tag::Delete }
}

fn with_record(mut records: Vec<u8>, slot: usize, record: &[u8]) -> Vec<u8> {
    let at = slot * record.len();
    records.splice(at..at, record.iter().copied());
    records
}

fn insert_into(body: &Body, records: &[u8], record: &[u8]) -> Vec<u8> {
    let (n, first) = (records.len() / body.record, body.first_compared());
    let key_at = |i: usize| &records[(i + first) * body.record..][..body.key];
    let found = layout::search(n - first, &record[..body.key], key_at);
    with_record(records.to_vec(), found.unwrap_or_else(|slot| slot) + first, record)
}

fn insert_sorted(view: &BodyView<'_>, record: &[u8]) -> Vec<u8> {
    insert_into(&view.body, &view.live_records(), record)
}
