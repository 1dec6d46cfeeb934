//! A slab's volatile half: one ownership record an object, built from the stamps at first touch.
//!
//! - A slot is valid iff its clock is covered by its thread's frontier and is not a dead one; of
//!   two valid slots the later count is the newest (`docs/design/stm.md`; the paper's `new` bit is
//!   gone).
//! - Invalid stamps are zeroed, written back and fenced before anyone can use the object; doing so
//!   twice changes nothing, so a crash inside recovery is harmless.
//! - Objects without a live newest version are free; they are found here, so nothing leaks.

use std::sync::atomic::Ordering::{Relaxed, Release};

use littoral_device::memory::Domain;

use crate::error::{Error, Kind, Result, device};
use crate::format::{Layout, SlabEntry, object_bytes, slot_bytes};
use crate::recover::Boot;
use crate::table::Table;
use crate::word::{Orec, Stamp};

/// Builds a slab's ownership records from the medium; answers its free objects, last first.
pub(crate) fn resolve<D: Domain>(
    domain: &D,
    layout: &Layout,
    boot: &Boot,
    table: &Table,
    slab: usize,
    entry: SlabEntry,
) -> Result<Vec<u64>> {
    let (base, step, slot) =
        (layout.slab_offset(slab), object_bytes(entry.words), slot_bytes(entry.words));
    let mut scrubbed = false;
    let mut free = Vec::new();
    for object in 0..layout.slab_bytes() / step {
        let at = base + object * step;
        let mut slots = [at, at + slot].map(|o| Stamp(domain.word(o, Relaxed)));
        for (i, stamp) in slots.iter_mut().enumerate() {
            if !boot.covers(*stamp, at + i * slot)? {
                domain.store(at + i * slot, 0, Relaxed);
                domain.write_back(at + i * slot, 8);
                (*stamp, scrubbed) = (Stamp::NONE, true);
            }
        }
        let orec = newest(slots, at)?;
        if !orec.live() {
            free.push(at as u64);
        }
        // Release: a thread that still takes the slab for one of another type and locks this record
        // must find the slab's tag changed.
        table.orec(slab, object).store(orec.0, Release);
    }
    if scrubbed {
        domain.fence().map_err(device("scrub unfinished versions"))?;
    }
    table.show(slab, entry.tag);
    free.reverse();
    Ok(free)
}

fn newest(slots: [Stamp; 2], at: usize) -> Result<Orec> {
    let [a, b] = slots;
    match (a.is_none(), b.is_none()) {
        // Nothing yet: the first commit flips to slot 0.
        (true, true) => Ok(Orec::free(Stamp::NONE, 1)),
        (false, true) => Ok(Orec::free(a, 0)),
        (true, false) => Ok(Orec::free(b, 1)),
        (false, false) if a.count() == (b.count() + 1) & 3 => Ok(Orec::free(a, 0)),
        (false, false) if b.count() == (a.count() + 1) & 3 => Ok(Orec::free(b, 1)),
        _ => {
            let text = format!("offset {at}: counts {} and {} do not follow", a.count(), b.count());
            Err(Error::new(Kind::Corrupt, text).at_offset(at as u64))
        }
    }
}
