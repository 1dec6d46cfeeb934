//! Replay: the redo log of the epoch that the superblock names, told apart from what a power cut
//! left behind it.
//!
//! - A group is written only after the flush of the one before it, so of all groups only the last
//!   can have been cut short. A group that does not verify, with a part of a later one behind it,
//!   is damage, and so is the first group of an epoch: its superblock was written after it.
//! - Damage is refused by name with zone and block. One damaged block of a group, or one that
//!   cannot be read, is made good from the others and noted.
//! - Where the first group is lost but a later one verifies, its images are not needed: a later
//!   group is written only after the checkpoint has written all of them in place.
//! - What cannot be told from a torn write is the loss of the very last group with both of its
//!   copies: `docs/design/store.md` says how small that is.

use littoral_base::codec::Reader;
use littoral_base::mutant;
use littoral_base::units::Lba;
use littoral_device::zoned::{ZoneReport, ZoneState, ZonedDevice};

use crate::error::{Error, Kind, Result, device};
use crate::redo::{self, Cut, Entry, GroupId, Part};
use crate::store::Store;

/// Blocks read at once while looking for later groups.
pub(crate) const SEARCH_BLOCKS: u64 = 64;

/// A group as it was read.
struct Group {
    body: Vec<u8>,
    blocks: u64,
    is_damaged: bool,
}

/// A part of a group behind one that does not verify.
#[derive(Clone, Copy, Debug)]
struct Later {
    block: u64,
    sequence: u64,
}

fn wrong_redo(at: Lba) -> Error {
    Error::new(Kind::Corrupt, format!("redo log: an entry for page {at} does not fit"))
        .at_page(at.0)
}

/// Blocks of a zone that may hold groups. A drive need not know the pointer of a READ_ONLY zone.
pub(crate) fn readable_blocks(zone: &ZoneReport) -> u64 {
    match zone.state {
        ZoneState::ReadOnly => zone.capacity_blocks,
        _ => (zone.write_pointer.0 - zone.start.0).min(zone.capacity_blocks),
    }
}

impl<D: ZonedDevice> Store<D> {
    pub(crate) fn group(&self) -> GroupId {
        GroupId { store: self.superblock.id, epoch: self.superblock.epoch, sequence: self.sequence }
    }

    /// Applies the redo log in memory, as far as it was acknowledged.
    ///
    /// # Errors
    /// `Kind::Corrupt` with zone and block when part of it is damaged.
    pub(crate) fn replay(&mut self) -> Result<()> {
        let zone = self.device.report(self.redo_zone().zone, 1).map_err(device("redo zone"))?[0];
        let written = readable_blocks(&zone);
        loop {
            let (at, left) = (zone.start.0 + self.redo_at, written.saturating_sub(self.redo_at));
            let (group, unread) = self.read_group(at, left)?;
            if let Some(group) = group {
                if group.is_damaged {
                    self.notes.push(self.damage(&zone, at, "has a damaged block"));
                }
                self.apply(&group.body)?;
                self.redo_at += group.blocks;
                self.sequence += 1;
                continue;
            }
            match self.later_group(at + 1, zone.start.0 + written)? {
                Some(next) if self.sequence == 0 && next.sequence == 1 => {
                    self.notes.push(self.damage(&zone, at, "is lost; its pages are in place"));
                    self.redo_at = next.block - zone.start.0;
                    self.sequence = 1;
                }
                Some(next) => return Err(self.refusal(&zone, at, Some(next))),
                // A torn write can be read: what cannot is never taken for one.
                None if unread.is_some() && !mutant!("store_unread_group_taken_for_torn") => {
                    return unread.map_or(Ok(()), Err);
                }
                None if self.sequence == 0 => return Err(self.refusal(&zone, at, None)),
                None => break,
            }
        }
        self.synced_root = self.root;
        Ok(())
    }

    fn damage(&self, zone: &ZoneReport, at: u64, what: &str) -> String {
        let (sequence, epoch) = (self.sequence, self.superblock.epoch);
        format!("redo zone {}, block {at}: group {sequence} of epoch {epoch} {what}", zone.zone)
    }

    fn refusal(&self, zone: &ZoneReport, at: u64, later: Option<Later>) -> Error {
        let evidence = match later {
            Some(l) => {
                format!("but group {} behind it was written (block {})", l.sequence, l.block)
            }
            None => "and the superblock was written after it".to_owned(),
        };
        let what = self.damage(zone, at, "does not verify");
        let text = format!(
            "{what}, {evidence}: the log is damaged; `littoral kv repair SRC DST` saves what \
             verifies"
        );
        Error::new(Kind::Corrupt, text).at_zone(zone.zone.0).at_page(at)
    }

    /// Blocks of the log, and why some cannot be read: these are zeros, which are part of no group.
    pub(crate) fn read_blocks(&self, at: u64, blocks: u64) -> Result<(Vec<u8>, Option<Error>)> {
        let block = self.block_bytes();
        let (mut bytes, mut unread) = (vec![0; blocks as usize * block], None);
        if blocks > 0
            && let Err(e) = self.device.read(Lba(at), &mut bytes).map_err(device("redo log"))
        {
            if e.kind() != Kind::Io {
                return Err(e);
            }
            unread = Some(e);
            for (i, one) in bytes.chunks_exact_mut(block).enumerate() {
                if self.device.read(Lba(at + i as u64), one).is_err() {
                    one.fill(0);
                }
            }
        }
        if self.corrects {
            bytes.chunks_exact_mut(block).for_each(redo::mend_block);
        }
        Ok((bytes, unread))
    }

    /// The group that is next, if it is whole or one damaged block can be made good; or why some of
    /// its blocks cannot be read.
    fn read_group(&self, at: u64, left: u64) -> Result<(Option<Group>, Option<Error>)> {
        let (id, block) = (self.group(), self.block_bytes());
        let (front, unread) = self.read_blocks(at, left.min(2))?;
        let Some(cut) = id.cut(&front, block) else { return Ok((None, unread)) };
        // A torn write may lack the parity alone.
        if left < u64::from(cut.data.max(1)) {
            return Ok((None, unread));
        }
        let (blocks, unread) = self.read_blocks(at, left.min(cut.blocks()))?;
        let found = id.body(cut, &blocks, block);
        let group = |(body, is_damaged)| Group { body, blocks: Cut::blocks(&cut), is_damaged };
        Ok((found.map(group), unread))
    }

    /// A part of a later group of this epoch, from block `from` on.
    fn later_group(&self, from: u64, end: u64) -> Result<Option<Later>> {
        if mutant!("store_damage_taken_for_torn_tail") {
            return Ok(None);
        }
        let (id, block) = (self.group(), self.block_bytes());
        let mut at = from;
        while at < end {
            let count = (end - at).min(SEARCH_BLOCKS);
            let (bytes, unread) = self.read_blocks(at, count)?;
            for (i, bytes) in bytes.chunks_exact(block).enumerate() {
                let is_later = |p: &Part<'_>| {
                    let epoch = GroupId { sequence: id.sequence, ..p.id };
                    epoch == id && p.id.sequence > id.sequence
                };
                if let Some(part) = Part::all_in(bytes).find(is_later) {
                    let block = at + i as u64;
                    // A group whose first block is lost begins before the part that was found.
                    // Its index may be any number: a part verifies by itself.
                    let index = if part.cut.data == 0 { 0 } else { part.index };
                    let begin = block.saturating_sub(u64::from(index));
                    return Ok(Some(Later { block: begin.max(from), sequence: part.id.sequence }));
                }
            }
            if let Some(e) = unread {
                return Err(e);
            }
            at += count;
        }
        Ok(None)
    }

    /// Whether redo entries may name this page: only pages that are written in place.
    fn check_entry(&self, at: Lba, is_sized: bool) -> Result<()> {
        if is_sized && self.space.is_conventional(at) { Ok(()) } else { Err(wrong_redo(at)) }
    }

    fn apply(&mut self, body: &[u8]) -> Result<()> {
        let mut r = Reader::new(body);
        let block = self.block_bytes();
        while r.remaining() > 0 {
            let Some(entry) = redo::next_entry(&mut r) else {
                // An entry cut behind one of its fields leaves no bytes, as the end does.
                let is_end = r.remaining() == 0 && mutant!("store_cut_entry_taken_for_end");
                return if is_end { Ok(()) } else { Err(wrong_redo(Lba(0))) };
            };
            match entry {
                Entry::Root(root) => self.root = root,
                Entry::Image(at, image) => {
                    self.check_entry(at, image.len() <= block)?;
                    let mut page = image.to_vec();
                    page.resize(block, 0);
                    self.unchanged.remove(&at.0);
                    self.dirty.insert(at.0, page);
                }
                Entry::Patches(at, patches) => {
                    self.check_entry(at, true)?;
                    // Repair misses the page where the tree leads to it, readable by then or not.
                    if self.corrects && self.page_to_repair(at).is_err() {
                        if !mutant!("store_unchanged_page_saved") {
                            self.unchanged.insert(at.0);
                        }
                        continue;
                    }
                    let page = self.page_to_repair(at)?;
                    let fits = patches.iter().try_for_each(|p| p.apply(page));
                    fits.ok_or_else(|| wrong_redo(at))?;
                }
            }
        }
        Ok(())
    }

    /// A page that replay patches. Its bytes on the medium verify: a page that a checkpoint may
    /// have torn has its image in the epoch's first group.
    pub(crate) fn page_to_repair(&mut self, at: Lba) -> Result<&mut Vec<u8>> {
        if !self.dirty.contains_key(&at.0) {
            let page = self.read_page(at)?.to_vec();
            self.dirty.insert(at.0, page);
        }
        Ok(self.dirty.get_mut(&at.0).expect("invariant: just inserted"))
    }
}
