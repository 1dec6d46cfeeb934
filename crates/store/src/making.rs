//! A store that is being made: marked until it is whole, refused and replaced where it never is.
//!
//! A restore fills a store for minutes, and a drive has no file that could get its name afterwards.
//! So [`Store::begin`] marks the store by the last byte of the engine's tag in its superblocks, and
//! [`Store::made`] takes the mark away: one checkpoint names the store without it, a second one
//! replaces the last superblock that has it.
//!
//! The next creation empties the zones of a marked store, and its superblocks go on where those of
//! the marked one ended: they are replaced, never missing. So wherever it is cut short, the medium
//! holds the marked store's superblock or the new one's.
//!
//! Invariants
//! - A marked store is not opened, a whole one is not replaced. Checked by
//!   `a_store_that_is_not_whole_is_refused_and_replaced_wherever_power_is_cut`.

use littoral_base::mutant;
use littoral_base::units::ZoneId;
use littoral_device::zoned::{ZoneKind, ZoneReport, ZoneState, ZonedDevice};

use crate::error::{Error, Kind, Result, device};
use crate::plan;
use crate::store::Store;
use crate::superblock::{self, Superblock};

/// The last byte of a marked tag; an engine's own ends with another one.
const MARK: u8 = b'+';

impl Superblock {
    /// Whether the store is being made, or its making was cut short.
    pub(crate) fn is_marked(&self) -> bool {
        self.engine[7] == MARK
    }
}

impl<D: ZonedDevice> Store<D> {
    /// As [`Store::create`], of a store that cannot be opened before [`Store::made`].
    ///
    /// # Errors
    /// As [`Store::create`].
    pub fn begin(dev: D, mut engine: [u8; 8], label: &[u8], id: u64) -> Result<Store<D>> {
        debug_assert_eq!(engine[7], 0, "the tag has room for the mark");
        engine[7] = MARK;
        Store::create(dev, engine, label, id)
    }

    /// Makes a store that was begun one that can be opened, with all that it holds.
    ///
    /// # Errors
    /// As [`Store::checkpoint`].
    pub fn made(&mut self) -> Result<()> {
        debug_assert!(self.superblock.is_marked(), "a store is made once");
        self.superblock.engine[7] = 0;
        self.checkpoint()?;
        self.checkpoint()
    }

    /// Refuses a store whose making was cut short.
    ///
    /// # Errors
    /// `Kind::Foreign`.
    pub(crate) fn refuse_marked(&self) -> Result<()> {
        if !self.superblock.is_marked() || mutant!("store_part_taken_for_whole") {
            return Ok(());
        }
        let text = "the making of this store was cut short, and it holds a part of its records; \
                    make it again, which replaces it";
        Err(Error::new(Kind::Foreign, text))
    }

    /// Empties a device on which the making of a store was cut short, and leaves any other as it
    /// is. The superblock of what was being made, which the new store's must follow.
    ///
    /// # Errors
    /// `Kind::Corrupt` when a newer superblock is lost; `Kind::Io`, `Kind::PowerCut`.
    pub(crate) fn ready(dev: &mut D) -> Result<Option<Superblock>> {
        // Another owner's drive is not searched zone by zone.
        if !superblock::is_any(&*dev)? && written(&*dev)?.len() != 1 {
            return Ok(None);
        }
        match superblock::find(&*dev, false) {
            Ok((found, _)) if found.is_marked() => {
                let plan = plan::divide(&*dev, Some(&found))?;
                Store::over(&mut *dev, plan, found.clone()).refuse_lost_superblock()?;
                // First the redo zone that may be ahead of the superblock: alone it would show that
                // a newer one was lost.
                let ahead = found.redo[1 - (found.epoch % 2) as usize];
                empty(dev, |zone| zone == ahead)?;
                empty(dev, |zone| !found.homes.contains(&zone))?;
                Ok(Some(found))
            }
            Err(e) if matches!(e.kind(), Kind::Foreign | Kind::Corrupt) => {
                // A creation that ended before its first superblock has its redo log's zone here.
                // Where superblocks may have been, the log may be all that is left of a store.
                let cut = e.place().zone.filter(|_| e.kind() == Kind::Foreign);
                let is_alone = |zone| written(&*dev).is_ok_and(|all| all == [ZoneId(zone)]);
                if cut.is_some_and(is_alone) && superblock::is_blank(&*dev)? {
                    empty(dev, |_| true)?;
                }
                Ok(None)
            }
            other => other.map(|_| None),
        }
    }
}

/// Sequential zones that hold something and can be reset.
fn written(dev: &impl ZonedDevice) -> Result<Vec<ZoneId>> {
    let zones = dev.report(ZoneId(0), dev.limits().zones).map_err(device("zone report"))?;
    let is_written = |z: &&ZoneReport| {
        let is_worn = matches!(z.state, ZoneState::ReadOnly | ZoneState::Offline);
        z.kind == ZoneKind::Sequential && z.write_pointer > z.start && !is_worn
    };
    Ok(zones.iter().filter(is_written).map(|z| z.zone).collect())
}

/// Resets the written zones that `is_meant` names, durably.
fn empty(dev: &mut impl ZonedDevice, is_meant: impl Fn(ZoneId) -> bool) -> Result<()> {
    for zone in written(dev)?.into_iter().filter(|&zone| is_meant(zone)) {
        dev.reset(zone).map_err(device("resetting a zone"))?;
    }
    dev.flush().map_err(device("resetting zones"))
}
