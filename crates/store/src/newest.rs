//! Whether the newest superblock is lost with both of its copies: the redo log proves it.
//!
//! The first group of epoch e + 1 is durable before the superblock that names the epoch, so a power
//! cut between the two leaves both epochs' logs and the older superblock, which is right. Behind
//! that superblock the log of epoch e is reset, and later groups of epoch e + 1 are written. Where
//! either has happened, and the superblock that is found names epoch e, a newer one was durable.
//!
//! Opening refuses then; repair goes on with the newer epoch, which holds everything that was
//! acknowledged.

use littoral_base::mutant;
use littoral_base::units::ZoneId;
use littoral_device::zoned::{ZoneReport, ZoneState, ZonedDevice};

use crate::error::{Error, Kind, Result, device};
use crate::redo::{GroupId, Part};
use crate::replay::{SEARCH_BLOCKS, readable_blocks};
use crate::store::Store;

impl<D: ZonedDevice> Store<D> {
    /// Refuses a store whose newest superblock is lost.
    ///
    /// # Errors
    /// `Kind::Corrupt` naming both epochs and the newer one's zone; `Kind::Io`.
    pub(crate) fn refuse_lost_superblock(&self) -> Result<()> {
        let Some((newer, zone)) = self.lost_superblock()? else { return Ok(()) };
        let text = format!(
            "superblock: both copies of the newest one are lost; the one that is left names epoch \
             {}, and zone {} holds the redo log of epoch {}: `littoral kv repair SRC DST` saves \
             what that log names",
            self.superblock.epoch, zone.zone, newer.epoch
        );
        Err(Error::new(Kind::Corrupt, text).at_zone(zone.zone.0))
    }

    /// For repair: goes on with the epoch whose superblock is lost.
    ///
    /// # Errors
    /// `Kind::Io`.
    pub(crate) fn pass_over_lost_superblock(&mut self) -> Result<()> {
        let Some((newer, zone)) = self.lost_superblock()? else { return Ok(()) };
        self.notes.push(format!(
            "superblock: both copies of the newest one are lost; epoch {} was found by its redo \
             log in zone {}",
            newer.epoch, zone.zone
        ));
        self.superblock.epoch = newer.epoch;
        Ok(())
    }

    /// A group of the epoch behind the superblock's, and its zone, if a superblock named it.
    fn lost_superblock(&self) -> Result<Option<(GroupId, ZoneReport)>> {
        let [own, other] = self.redo_zone_ids();
        let newer = self.newest_group(&self.zone(other)?)?;
        let epoch = self.superblock.epoch;
        let Some(newer) = newer.filter(|g| Some(g.epoch) == epoch.checked_add(1)) else {
            return Ok(None);
        };
        let was_reset = self.newest_group(&self.zone(own)?)?.is_none_or(|g| g.epoch != epoch);
        let is_proven = was_reset || newer.sequence > 0;
        let is_lost = is_proven && !mutant!("store_lost_superblock_unseen");
        Ok(if is_lost { Some((newer, self.zone(other)?)) } else { None })
    }

    fn zone(&self, zone: ZoneId) -> Result<ZoneReport> {
        Ok(self.device.report(zone, 1).map_err(device("redo zone"))?[0])
    }

    /// The newest group of this store with a part in a redo zone that verifies; a zone holds groups
    /// of one epoch, so the search ends with the first that is not the first of its epoch.
    ///
    /// A block that cannot be read is passed over where another part names the epoch: the log of an
    /// older one is needed no more. Of the epoch behind the superblock's it may hide a later group.
    /// Repair takes what there is.
    fn newest_group(&self, zone: &ZoneReport) -> Result<Option<GroupId>> {
        if zone.state == ZoneState::Offline {
            return Ok(None);
        }
        let (block, end) = (self.block_bytes(), zone.start.0 + readable_blocks(zone));
        let (mut at, mut newest, mut unread) = (zone.start.0, None, None);
        while at < end {
            let count = (end - at).min(SEARCH_BLOCKS);
            let (bytes, failed) = self.read_blocks(at, count)?;
            unread = unread.or(failed);
            let parts = bytes.chunks_exact(block).flat_map(Part::all_in).map(|part| part.id);
            let ours = parts.filter(|id| id.store == self.superblock.id);
            newest = ours.chain(newest).max_by_key(|id| (id.epoch, id.sequence));
            if newest.is_some_and(|id| id.sequence > 0) {
                break;
            }
            at += count;
        }
        let is_told = |id: GroupId| id.epoch <= self.superblock.epoch || id.sequence > 0;
        let is_needed = mutant!("store_old_log_must_be_read") || !newest.is_some_and(is_told);
        match unread {
            Some(e) if is_needed && !self.corrects => Err(e),
            _ => Ok(newest),
        }
    }
}
