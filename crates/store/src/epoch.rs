//! Writing: redo groups, and the checkpoints that begin a new epoch.
//!
//! - A redo zone that can no longer be written is left for an empty zone; the superblock of the
//!   next epoch names it. One that fails in the middle of an epoch ends the epoch: the checkpoint
//!   makes everything durable that the group would have.
//! - The steps of a checkpoint, each flushed before the next: redo zone emptied, first group,
//!   superblock, pages in place. `docs/design/store.md` has the argument.

use littoral_base::codec::{SEAL_BYTES, Writer, seal};
use littoral_base::mutant;
use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::{ZoneReport, ZoneState, ZonedDevice};

use crate::error::{Error, Kind, Result, device};
use crate::plan::OPERATION_PAGES;
use crate::redo;
use crate::store::{IN_PLACE, Store, Work};
use crate::superblock;

impl<D: ZonedDevice> Store<D> {
    pub(crate) fn redo_zone(&self) -> ZoneReport {
        self.redo_zones[self.redo_slot()]
    }

    /// The redo zone of this epoch and the other one.
    pub fn redo_zone_ids(&self) -> [ZoneId; 2] {
        let slot = self.redo_slot();
        [self.redo_zones[slot].zone, self.redo_zones[1 - slot].zone]
    }

    fn redo_slot(&self) -> usize {
        (self.superblock.epoch % 2) as usize
    }

    fn write_blocks(&mut self, at: Lba, bytes: &[u8], doing: &str) -> Result<()> {
        let ticket = self.device.write(at, bytes).map_err(device(doing))?;
        self.device.wait(ticket).map(|_| ()).map_err(device(doing))
    }

    fn write_group(&mut self, body: &[u8]) -> Result<()> {
        let zone = self.redo_zone();
        let bytes = self.group().encode(body, self.block_bytes());
        let blocks = (bytes.len() / self.block_bytes()) as u64;
        debug_assert!(self.redo_at + blocks <= zone.capacity_blocks, "the redo zone has room");
        debug_assert!(
            self.group().cut(&bytes, self.block_bytes()).is_some_and(|c| c.blocks() == blocks),
            "a group is found again as it was cut"
        );
        self.write_blocks(Lba(zone.start.0 + self.redo_at), &bytes, "redo log")?;
        self.device.flush().map_err(device("redo log"))?;
        self.redo_at += blocks;
        self.sequence += 1;
        debug_assert!(
            self.is_log_at_pointer(),
            "the log ends at block {} of its zone",
            self.redo_at
        );
        self.counts.redo_blocks += blocks;
        Ok(())
    }

    /// Whether the redo zone's write pointer is where the log ends.
    fn is_log_at_pointer(&self) -> bool {
        let zone = self.device.report(self.redo_zone().zone, 1).map(|found| found[0]);
        // A drive need not know the pointer of a zone that is full or worn out.
        let knows_none = [ZoneState::Full, ZoneState::ReadOnly, ZoneState::Offline];
        let is_there = |z: ZoneReport| {
            knows_none.contains(&z.state) || z.write_pointer.0 == z.start.0 + self.redo_at
        };
        // A device that fails now is heard of by the next request.
        zone.map_or(true, is_there)
    }

    /// Blocks that a group with the images of so many pages takes at most.
    pub(crate) fn image_blocks(&self, pages: u64) -> u64 {
        let bytes = pages as usize * (self.block_bytes() + 11) + 64;
        redo::group_blocks(bytes, self.block_bytes())
    }

    /// Whether the redo zone would not have room for one more operation and then all images.
    pub(crate) fn needs_checkpoint(&self) -> bool {
        let capacity = self.redo_zone().capacity_blocks;
        let dirty = self.dirty.len() as u64 + OPERATION_PAGES;
        let log = redo::group_blocks(self.pending.len(), self.block_bytes())
            + self.image_blocks(OPERATION_PAGES);
        // Neither the next group nor that of the images may be longer than a part can say.
        let most = redo::group_blocks_max(self.block_bytes());
        self.redo_at + log > capacity
            || log > most
            || self.image_blocks(dirty) > redo::image_blocks_max(capacity, self.block_bytes())
            || dirty > self.dirty_in_memory()
    }

    /// Makes every committed operation durable.
    ///
    /// # Errors
    /// `Kind::Io`, `Kind::PowerCut`; the handle is poisoned then.
    pub fn sync(&mut self) -> Result<()> {
        self.usable()?;
        let written = self.write_drafts();
        self.guard(written)?;
        if self.pending.is_empty() && self.root == self.synced_root {
            return Ok(());
        }
        let result = self.sync_group();
        self.guard(result)
    }

    fn sync_group(&mut self) -> Result<()> {
        if std::mem::take(&mut self.unflushed) && !mutant!("store_group_before_pages") {
            self.device.flush().map_err(device("appended pages"))?;
        }
        debug_assert!(self.drafts.get(self.root.top).is_none(), "a group names no draft");
        let mut w = Writer::new();
        w.raw(&self.pending);
        redo::put_root(&mut w, self.root);
        match self.write_group(&w.finish()) {
            Err(_) if self.worn_state(self.redo_zone().zone)?.is_some() => self.begin_epoch(),
            other => {
                other?;
                self.pending.clear();
                self.synced_root = self.root;
                Ok(())
            }
        }
    }

    /// Ends with a checkpoint, so that nothing rests on the last group of the redo log; nothing is
    /// written when there is nothing to end.
    ///
    /// # Errors
    /// As [`Store::checkpoint`].
    pub fn close(&mut self) -> Result<()> {
        self.sync()?;
        let is_fresh = self.sequence <= 1 && self.dirty.is_empty();
        if is_fresh { Ok(()) } else { self.checkpoint() }
    }

    /// Writes every dirty page in place and begins a new epoch.
    ///
    /// # Errors
    /// `Kind::Io`, `Kind::PowerCut`; the handle is poisoned then.
    pub fn checkpoint(&mut self) -> Result<()> {
        self.usable()?;
        let before = self.work();
        self.begin_work(Work::Checkpoint);
        let result = self.write_drafts().and_then(|()| self.begin_epoch());
        self.guard(result)?;
        self.begin_work(before);
        Ok(())
    }

    fn begin_epoch(&mut self) -> Result<()> {
        if mutant!("store_in_place_before_images") {
            self.write_in_place()?;
        }
        for &at in self.dirty.keys() {
            self.space.check_writable(Lba(at))?;
        }
        let next = |n: u64| {
            let text = "superblock: its counters are at their end";
            n.checked_add(1).ok_or_else(|| Error::new(Kind::Corrupt, text))
        };
        self.superblock.epoch = next(self.superblock.epoch)?;
        self.superblock.generation = next(self.superblock.generation)?;
        let mut w = Writer::new();
        // The end of a page in place is its seal, never the engine's.
        let most = self.block_bytes() - SEAL_BYTES;
        for (&at, page) in &self.dirty {
            let fits = redo::put_image(&mut w, Lba(at), &page[..page.len().min(most)]);
            fits.ok_or_else(|| Error::new(Kind::Usage, "pages of this size are not supported"))?;
        }
        redo::put_root(&mut w, self.root);
        if mutant!("store_superblock_before_group") {
            self.write_superblock()?;
        }
        self.write_first_group(&w.finish())?;
        self.pending.clear();
        self.unflushed = false;
        self.synced_root = self.root;
        self.write_superblock()?;
        self.write_in_place()?;
        self.counts.checkpoints += 1;
        debug_assert!(
            self.pending.is_empty() && self.synced_root == self.root,
            "after a checkpoint nothing waits for a group"
        );
        // The epoch before is history: its zone stops being active.
        let before = self.redo_zones[1 - self.redo_slot()].zone;
        match self.device.reset(before) {
            Err(_) if self.worn_state(before)?.is_some() => {}
            other => other.map_err(device("redo zone"))?,
        }
        self.give_free_pages_back()
    }

    /// Finishes a zone that pages are appended to: a superblock that has moved to sequential zones
    /// needs one more active zone than was counted on.
    fn give_up_an_open_zone(&mut self, full: Error) -> Result<()> {
        let zone = self.space.an_open_zone().ok_or(full)?;
        self.device.finish(zone).map_err(device("finishing a zone"))?;
        self.space.retire(zone, true);
        Ok(())
    }

    fn write_superblock(&mut self) -> Result<()> {
        debug_assert_eq!(self.sequence, 1, "a superblock follows the first group of its epoch");
        loop {
            let space = &mut self.space;
            let take_zone = || space.take_empty();
            let newest = self.durable_generation;
            match superblock::write(&mut self.device, &mut self.superblock, newest, take_zone) {
                Err(e) if e.kind() == Kind::Full => self.give_up_an_open_zone(e)?,
                Ok(()) => {
                    self.durable_generation = self.superblock.generation;
                    return Ok(());
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Writes the epoch's first group at the start of its zone, or of an empty zone if that one has
    /// worn out.
    fn write_first_group(&mut self, body: &[u8]) -> Result<()> {
        loop {
            (self.redo_at, self.sequence) = (0, 0);
            let zone = self.redo_zone().zone;
            let written = self.empty_redo_zone(zone).and_then(|()| self.write_group(body));
            let Err(error) = written else { return Ok(()) };
            if error.kind() == Kind::Full {
                self.give_up_an_open_zone(error)?;
                continue;
            }
            let Some(state) = self.worn_state(zone)? else { return Err(error) };
            let Some(spare) = self.space.take_empty() else {
                let text = format!("redo zone {zone} is {state} and no empty zone is left for it");
                return Err(Error::over(Kind::Io, text, error).at_zone(zone.0));
            };
            let report = self.device.report(spare, 1).map_err(device("zone report"))?[0];
            let slot = self.redo_slot();
            self.redo_zones[slot] = report;
            self.superblock.redo[slot] = spare;
            self.keep_room_if_any();
        }
    }

    fn empty_redo_zone(&mut self, zone: ZoneId) -> Result<()> {
        let found = self.device.report(zone, 1).map_err(device("redo zone"))?[0];
        if found.write_pointer != found.start {
            self.device.reset(zone).map_err(device("redo zone"))?;
        }
        self.device.flush().map_err(device("redo zone"))
    }

    /// The name of the state in which a zone can no longer be written.
    fn worn_state(&self, zone: ZoneId) -> Result<Option<&'static str>> {
        let found = self.device.report(zone, 1).map_err(device("zone report"))?[0];
        Ok(match found.state {
            ZoneState::ReadOnly => Some("READ_ONLY"),
            ZoneState::Offline => Some("OFFLINE"),
            _ => None,
        })
    }

    fn write_in_place(&mut self) -> Result<()> {
        let block = self.block_bytes();
        debug_assert_eq!(
            self.durable_generation, self.superblock.generation,
            "pages in place follow the superblock whose epoch has their images"
        );
        while let Some((at, mut page)) = self.dirty.pop_first() {
            debug_assert!(self.space.is_conventional(Lba(at)), "page {at} is written in place");
            page.resize(block, 0);
            seal(&mut page, at ^ IN_PLACE);
            if let Err(e) = self.write_blocks(Lba(at), &page, "page in place") {
                // The medium has an older page: readers go on with the one in memory.
                page.truncate(block - SEAL_BYTES);
                if !mutant!("store_failed_page_forgotten") {
                    self.dirty.insert(at, page);
                }
                return Err(e);
            }
            self.counts.map_blocks += 1;
            self.remember(Lba(at), page.into());
        }
        self.counts.map_blocks += 2;
        self.device.flush().map_err(device("pages in place"))
    }
}
