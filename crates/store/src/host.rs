//! Room on the host: what a store keeps so that deletions and collection go on when the file system
//! under its device is full.
//!
//! - Kept at creation: both redo zones, superblock zones of their own, and *spare* blocks: the
//!   zones that one collection may fill ([`Store::keep_zones`]) and one zone more.
//! - While the spare blocks are not whole, puts are refused ([`Store::has_host_room`] is asked), a
//!   checkpoint gives the room of free conventional pages back, and
//!   [`Store::give_dead_pages_back`] that of garbage, wherever it lies. So what deletions append
//!   takes the room of what they free, and no run of them uses up the spare blocks.
//! - Where blocks are smaller than the host's, room comes back as zones are emptied.
//! - On a device that shares its room with nothing all of this is nothing.
//!
//! Invariants
//! - What is given back no durable state names. Checked by
//!   `deletions_spread_over_many_zones_go_on_when_the_host_is_full`.
//! - A page in the cache is on the medium: one that is given back is dropped, since the collector
//!   uses dead pages again that equal live ones ([`crate::regain`]). Checked by
//!   `a_dead_page_whose_room_was_given_back_is_not_read_from_memory`.

use littoral_base::mutant;
use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::ZonedDevice;

use crate::error::{Result, device};
use crate::store::Store;
use crate::superblock::NO_ZONE;

/// Beside the collector's zones: half a zone for pages in place, since no more are changed between
/// two checkpoints; the rest for what one operation appends.
const SPARE_ZONES: u64 = 1;
/// Pages noted as freed; when there are more, all zones are looked through again.
const FREED_MAX: usize = 1 << 18;

impl<D: ZonedDevice> Store<D> {
    /// Keeps the room that deletions and collection need.
    ///
    /// # Errors
    /// `Kind::Full` when the host has not that much.
    pub fn keep_host_room(&mut self) -> Result<()> {
        let homes = self.superblock.homes.into_iter().filter(|&z| z != NO_ZONE);
        let zones: Vec<ZoneId> = self.superblock.redo.into_iter().chain(homes).collect();
        let spare = (self.space.kept + SPARE_ZONES) * self.redo_zone().capacity_blocks;
        self.device.keep_room(&zones, spare).map_err(device("room on the host"))
    }

    /// As [`Store::keep_host_room`] where a store exists already: what the host lacks is missed by
    /// puts, which are refused until it is there.
    pub(crate) fn keep_room_if_any(&mut self) {
        if let Err(e) = self.keep_host_room() {
            log::warn!("{e}; records can be deleted and not added");
        }
    }

    /// Whether the host has room for more records: the spare blocks are whole.
    ///
    /// # Errors
    /// `Kind::Io`.
    pub fn has_host_room(&mut self) -> Result<bool> {
        self.device.has_spare_room().map_err(device("room on the host"))
    }

    /// Gives the room of dead sequential pages back to a full host, once what freed them is
    /// durable; whether the host has room then.
    ///
    /// Nothing is given back while no zone is empty: the collector may then need the copies that an
    /// interrupted collection made, which nothing names ([`crate::regain`]).
    ///
    /// # Errors
    /// `Kind::Io`; those of [`Store::sync`].
    pub fn give_dead_pages_back(&mut self) -> Result<bool> {
        if self.has_host_room()? {
            return Ok(true);
        }
        if self.has_no_empty_zone() || mutant!("store_dead_pages_keep_host_room") {
            return Ok(false);
        }
        if !mutant!("store_dead_pages_given_unsynced") {
            self.sync()?;
        }
        let dead = match self.freed.replace(Vec::new()) {
            Some(freed) => self.space.dead_runs_among(freed),
            None => self.space.dead_runs(),
        };
        for (from, to) in dead {
            if !mutant!("store_given_pages_stay_in_memory") {
                (from..to).for_each(|at| self.cache.remove(at));
            }
            if let Err(e) = self.device.discard(Lba(from), to - from) {
                // What is left of these is found again where all zones are looked through.
                if !mutant!("store_dead_pages_noted_once") {
                    self.freed = None;
                }
                return Err(device("dead pages")(e));
            }
        }
        self.has_host_room()
    }

    /// Blocks that may be appended before a full host's room is asked for again: an eighth of a
    /// zone.
    pub fn host_step_blocks(&self) -> u64 {
        self.space.zone_capacity() / 8
    }

    /// Drafts that may wait in memory: on a shared host no more than the spare blocks have room
    /// for.
    pub(crate) fn drafts_max(&self) -> u64 {
        let all = self.dirty_in_memory();
        if self.device.shares_room() { all.min(self.space.zone_capacity() / 2) } else { all }
    }

    /// Takes note of a page that is no longer in use, if the host has been full.
    pub(crate) fn note_freed(&mut self, at: Lba) {
        if let Some(freed) = &mut self.freed {
            freed.push(at.0);
        }
        if self.freed.as_ref().is_some_and(|freed| freed.len() > FREED_MAX) {
            self.freed = None;
        }
    }

    /// After a checkpoint, when nothing durable names a free page: gives free pages' room back if
    /// the host is short of it.
    pub(crate) fn give_free_pages_back(&mut self) -> Result<()> {
        if self.has_host_room()? || mutant!("store_free_pages_keep_host_room") {
            return Ok(());
        }
        for (from, to) in self.space.conventional_free.runs() {
            self.device.discard(Lba(from), to - from).map_err(device("free pages"))?;
        }
        self.has_host_room().map(|_| ())
    }
}
