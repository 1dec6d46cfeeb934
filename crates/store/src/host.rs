//! Room on the host: what a store keeps so that deletions and collection go on when the file system
//! under its device is full.
//!
//! - Kept at creation: both redo zones, superblock zones of their own, and [`SPARE_ZONES`] zones'
//!   worth of blocks for what deletions and the collector write, and for pages that are written in
//!   place for the first time.
//! - While the spare blocks are not whole, puts are refused ([`Store::has_host_room`] is asked) and
//!   a checkpoint gives the room of free conventional pages back.
//! - On a device that shares its room with nothing all of this is nothing.

use littoral_base::mutant;
use littoral_base::units::{Lba, ZoneId};
use littoral_device::zoned::ZonedDevice;

use crate::error::{Result, device};
use crate::store::Store;
use crate::superblock::NO_ZONE;

/// A zone for the collector; half of one for pages in place, since no more are changed between two
/// checkpoints; the rest for what deletions append before a zone is emptied.
const SPARE_ZONES: u64 = 2;

impl<D: ZonedDevice> Store<D> {
    /// Keeps the room that deletions and collection need.
    ///
    /// # Errors
    /// `Kind::Full` when the host has not that much.
    pub(crate) fn keep_host_room(&mut self) -> Result<()> {
        let homes = self.superblock.homes.into_iter().filter(|&z| z != NO_ZONE);
        let zones: Vec<ZoneId> = self.superblock.redo.into_iter().chain(homes).collect();
        let spare = SPARE_ZONES * self.redo_zone().capacity_blocks;
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
