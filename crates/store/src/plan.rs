//! How a store divides a device: superblocks, redo log, pages; and what it asks of one.
//!
//! - A new store takes the first zones for itself; an old one's superblock says which it has.
//! - What a superblock names is checked here: its zones are sequential, exist and are different.

use littoral_base::units::ZoneId;
use littoral_device::zoned::{ZoneKind, ZoneReport, ZonedDevice, ZonedLimits};

use crate::error::{Error, Kind, Result, device};
use crate::space::Space;
use crate::superblock::{HOME_BLOCKS, NO_ZONE, Superblock};

/// Pages that one operation may dirty at most, and that the redo zone keeps room for.
pub(crate) const OPERATION_PAGES: u64 = 24;

/// Zones and limits of a device as a store divides them.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) homes: [ZoneId; 2],
    pub(crate) redo: [ZoneReport; 2],
    pub(crate) space: Space,
}

/// Divides a device for the store that its superblock describes, or for a new one.
///
/// # Errors
/// `Kind::Unsupported` when the device cannot serve, `Kind::Corrupt` for a superblock whose zones
/// cannot be.
pub(crate) fn divide(dev: &impl ZonedDevice, known: Option<&Superblock>) -> Result<Plan> {
    let limits = dev.limits();
    let report = dev.report(ZoneId(0), limits.zones).map_err(device("zone report"))?;
    let own = if report.iter().any(|z| z.kind == ZoneKind::Conventional) { 0 } else { 2 };
    let sequential: Vec<ZoneReport> =
        report.iter().filter(|z| z.kind == ZoneKind::Sequential).copied().collect();
    if sequential.len() < own + 2 + 3 {
        let text = format!(
            "a store needs {} sequential zones here, the device has {}",
            own + 5,
            sequential.len()
        );
        return Err(Error::new(Kind::Unsupported, text));
    }
    let first = |n: usize| [sequential[n], sequential[n + 1]];
    let (homes, redo) = match known {
        None if own == 0 => ([NO_ZONE; 2], first(0)),
        None => (first(0).map(|z| z.zone), first(own)),
        Some(s) => named(s, &sequential)?,
    };
    if redo[0].capacity_blocks < 4 * OPERATION_PAGES {
        let text = format!(
            "zones of {} blocks are too small; a store needs {}",
            redo[0].capacity_blocks,
            4 * OPERATION_PAGES
        );
        return Err(Error::new(Kind::Unsupported, text));
    }
    let mut taken: Vec<ZoneId> = redo.iter().map(|z| z.zone).collect();
    taken.extend(homes.iter().filter(|&&z| z != NO_ZONE));
    let heads = heads(&limits, homes != [NO_ZONE; 2])?;
    Ok(Plan { homes, redo, space: Space::new(&report, &taken, HOME_BLOCKS, heads) })
}

/// Zones that can be filled at once.
fn heads(limits: &ZonedLimits, has_homes: bool) -> Result<usize> {
    // Two redo zones are active while one epoch hands over to the next.
    let busy = 2 + usize::from(has_homes);
    let most =
        if limits.active_zones_max == 0 { 3 + busy } else { limits.active_zones_max as usize };
    let heads = most.saturating_sub(busy).min(3);
    if heads > 0 {
        return Ok(heads);
    }
    let text = format!("{most} active zones are too few for a store here: it needs {}", busy + 1);
    Err(Error::new(Kind::Unsupported, text))
}

/// The zones that a superblock names, if they can be.
fn named(s: &Superblock, sequential: &[ZoneReport]) -> Result<([ZoneId; 2], [ZoneReport; 2])> {
    let find = |zone: ZoneId| {
        let found = sequential.iter().find(|z| z.zone == zone).copied();
        let text = || format!("superblock: zone {zone} is no sequential zone of this device");
        found.ok_or_else(|| Error::new(Kind::Corrupt, text()))
    };
    let redo = [find(s.redo[0])?, find(s.redo[1])?];
    let mut own: Vec<ZoneId> = s.redo.to_vec();
    if s.homes != [NO_ZONE; 2] {
        own.extend([find(s.homes[0])?.zone, find(s.homes[1])?.zone]);
    }
    own.sort();
    if own.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::new(Kind::Corrupt, "superblock: it names a zone twice"));
    }
    Ok((s.homes, redo))
}
