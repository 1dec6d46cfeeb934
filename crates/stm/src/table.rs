//! The volatile half of a pool: where an object's ownership record is, and whether it is there.
//!
//! - Ownership records of a slab lie dense at the slab's place in one table, so that a reference
//!   leads to its record by arithmetic alone, without a load in between.
//! - A slab's tag is zero until its records have been built; storing the tag (Release) is what
//!   shows them. It is zero again once the slab has been given back.
//! - A record is loaded before its slab's tag: a record of another type's slab is stored after that
//!   slab's tag was cleared, so a thread that loads it finds the tag changed.
//! - The epochs of an object's versions lie apart: only snapshots and commits beside them touch
//!   them. Zero says: one version, as old as the session. They stay when a slab changes its type:
//!   what is found there is never earlier than the end of the object that was there before.
//!
//! A slab of b bytes has room for b / 64 records, one a line, whether its objects are larger or
//! not; what is not used of that is never touched and so costs no memory.

use std::sync::atomic::{AtomicU64 as Plain, Ordering::*};

use littoral_base::sync::atomic::AtomicU64;
use littoral_device::memory::LINE_BYTES;
use littoral_device::pmem::Shadow;

use crate::error::{Error, Kind, Result, device};
use crate::format::{Layout, object_bytes};
use crate::record::{Record, Ref};

/// Words of a line.
const LINE_WORDS: usize = LINE_BYTES / 8;

/// Where an object is.
#[derive(Clone, Copy)]
pub(crate) struct Place<'p> {
    pub(crate) orec: &'p AtomicU64,
    pub(crate) base: usize,
    /// The first of its lines, counted from the first slab on.
    pub(crate) line: usize,
}

/// Tags, ownership records and epochs.
#[derive(Debug)]
pub(crate) struct Table {
    /// Not modelled by loom: they change under the pool's lock and once.
    tags: Box<[Plain]>,
    orecs: Shadow,
    epochs: Shadow,
    data: usize,
    slab_shift: u32,
}

/// What it takes to find an object and look at it, by a thread's side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'p> {
    tags: &'p [Plain],
    orecs: &'p [AtomicU64],
    /// The lines of every slab; none where the medium cannot be looked at in place.
    pub(crate) lines: &'p [[Plain; LINE_WORDS]],
    data: usize,
    slab_shift: u32,
}

/// Why a reference leads nowhere.
#[derive(Debug)]
pub(crate) enum Miss {
    /// The slab's records are not built yet.
    Unbuilt(usize),
    Nowhere(&'static str),
}

impl Table {
    pub(crate) fn new(layout: &Layout) -> Result<Table> {
        let words = layout.slabs * (layout.slab_bytes() / LINE_BYTES);
        let shadow = || Shadow::new(words).map_err(device("memory for ownership records"));
        Ok(Table {
            tags: (0..layout.slabs).map(|_| Plain::new(0)).collect(),
            orecs: shadow()?,
            epochs: shadow()?,
            data: layout.data,
            slab_shift: layout.slab_shift,
        })
    }

    /// The tag of a slab whose records are built, zero before.
    pub(crate) fn tag(&self, slab: usize) -> u64 {
        self.tags[slab].load(Acquire)
    }

    /// The slab's tag as it is now, for the object at `base`, whose record has been loaded.
    #[inline(always)]
    pub(crate) fn tag_at(&self, base: usize) -> u64 {
        self.tags[(base - self.data) >> self.slab_shift].load(Acquire)
    }

    /// Shows a slab's records, which have been built, or hides them (tag zero).
    pub(crate) fn show(&self, slab: usize, tag: u64) {
        self.tags[slab].store(tag, Release);
    }

    /// The record of a slab's object number `object`.
    pub(crate) fn orec(&self, slab: usize, object: usize) -> &AtomicU64 {
        &self.orecs[(slab << (self.slab_shift - LINE_BYTES.trailing_zeros())) + object]
    }

    /// The table as a thread keeps it by its side; `lines` are the slabs' lines in place.
    pub(crate) fn view<'p>(&'p self, lines: &'p [[Plain; LINE_WORDS]]) -> View<'p> {
        let Table { tags, orecs, data, slab_shift, .. } = self;
        View { tags, orecs, lines, data: *data, slab_shift: *slab_shift }
    }

    /// Finds an object of type `T`; [`Table::miss`] says why there is none.
    pub(crate) fn locate<T: Record>(&self, at: Ref<T>) -> Option<Place<'_>> {
        self.view(&[]).locate(at)
    }

    /// Why [`Table::locate`] found nothing.
    #[cold]
    pub(crate) fn miss<T: Record>(&self, at: Ref<T>) -> Miss {
        let within = (at.offset() as usize).wrapping_sub(self.data);
        let slab = within >> self.slab_shift;
        match self.tags.get(slab).map(|tag| tag.load(Acquire)) {
            None => Miss::Nowhere("no slab"),
            Some(0) => Miss::Unbuilt(slab),
            Some(tag) if tag != T::TAG => Miss::Nowhere("an object of another type"),
            Some(_) => Miss::Nowhere("the middle of an object or the end of a slab"),
        }
    }

    /// Epochs of the newest version and of the one before of the object at `base`.
    pub(crate) fn epochs(&self, base: usize, step: usize) -> (u64, u64) {
        let word = self.epochs[index(base - self.data, step, self.slab_shift)].load(Relaxed);
        (word & LOW, !word >> 32 & LOW)
    }

    /// Notes that a version of `epoch` follows the newest.
    pub(crate) fn push_epoch(&self, base: usize, step: usize, epoch: u64) -> &AtomicU64 {
        let word = &self.epochs[index(base - self.data, step, self.slab_shift)];
        let before = word.load(Relaxed) & LOW;
        word.store(epoch & LOW | (!before & LOW) << 32, Relaxed);
        word
    }
}

const LOW: u64 = u32::MAX as u64;

/// Where the records of the object at `within` are, `step` bytes being its size.
#[inline(always)]
fn index(within: usize, step: usize, slab_shift: u32) -> usize {
    let line = LINE_BYTES.trailing_zeros();
    if step == LINE_BYTES {
        return within >> line;
    }
    let (slab, rest) = (within >> slab_shift, within & ((1 << slab_shift) - 1));
    (slab << (slab_shift - line)) + rest / step
}

impl<'p> View<'p> {
    /// Finds an object of type `T`; [`Table::miss`] says why there is none.
    #[inline(always)]
    pub(crate) fn locate<T: Record>(&self, at: Ref<T>) -> Option<Place<'p>> {
        let (place, tag) = self.place(at)?;
        (tag.load(Acquire) == T::TAG).then_some(place)
    }

    /// Where an object of type `T` would be, and its slab's tag, to be loaded after the record: the
    /// object is there if the tag is that of `T`.
    #[inline(always)]
    pub(crate) fn place<T: Record>(&self, at: Ref<T>) -> Option<(Place<'p>, &'p Plain)> {
        let within = (at.offset() as usize).wrapping_sub(self.data);
        let tag = self.tags.get(within >> self.slab_shift)?;
        let step = const { object_bytes(T::WORDS) };
        if self.is_astray(within, step) {
            return None;
        }
        let orec = self.orecs.get(index(within, step, self.slab_shift))?;
        let line = within >> LINE_BYTES.trailing_zeros();
        Some((Place { orec, base: at.offset() as usize, line }, tag))
    }

    /// Finds nothing from now on; the lines stay.
    pub(crate) fn shut(&mut self) {
        self.tags = &[];
    }

    /// Loads from the first two lines of either slot, `apart` lines apart, so that they arrive
    /// while the record is still on its way that says which one is to be read.
    #[inline(always)]
    pub(crate) fn touch(&self, place: Place<'_>, apart: usize) {
        let Some(object) = self.lines.get(place.line..place.line + 2 * apart) else { return };
        for slot in [0, apart] {
            for line in &object[slot..][..apart.min(2)] {
                let _ = line[0].load(Relaxed);
            }
        }
    }

    /// Whether no object of `step` bytes begins at `within`.
    #[inline(always)]
    fn is_astray(&self, within: usize, step: usize) -> bool {
        // A slab is a power of two and at least one object, so it is whole steps of these sizes.
        if step.is_power_of_two() {
            return !within.is_multiple_of(step);
        }
        let rest = within & ((1 << self.slab_shift) - 1);
        !rest.is_multiple_of(step) || rest + step > 1 << self.slab_shift
    }
}

/// The error of a reference that leads nowhere.
#[cold]
pub(crate) fn bad_reference<T>(at: Ref<T>, leads_to: &str) -> Error {
    Error::new(Kind::BadReference, format!("reference {at:?} leads to {leads_to}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Options;

    crate::record! {
        struct Odd = "test.odd/1" { words: [u64; 20] }
    }

    #[test]
    fn references_lead_to_one_record_each_and_strays_nowhere() {
        let options = Options { threads_max: 1, slab_bytes: Some(1024) };
        let layout = Layout::of(16 << 10, &options).unwrap();
        let table = Table::new(&layout).unwrap();
        let step = object_bytes(Odd::WORDS);
        assert!(!step.is_power_of_two());
        let at = |i: usize| Ref::<Odd>::from_offset((layout.slab_offset(1) + i) as u64);
        assert!(table.locate(at(0)).is_none() && matches!(table.miss(at(0)), Miss::Unbuilt(1)));
        table.show(1, Odd::TAG);
        for i in 0..1024 / step {
            let place = table.locate(at(i * step)).unwrap();
            assert!(std::ptr::eq(place.orec, table.orec(1, i)));
        }
        for stray in [8, 64, 1024 / step * step] {
            assert!(table.locate(at(stray)).is_none(), "{stray}");
            assert!(matches!(table.miss(at(stray)), Miss::Nowhere(_)), "{stray}");
        }
        assert!(matches!(table.miss(Ref::<Odd>::NULL), Miss::Nowhere(_)));
    }

    #[test]
    fn an_untouched_object_has_one_version_as_old_as_the_session() {
        let options = Options { threads_max: 1, slab_bytes: Some(1024) };
        let layout = Layout::of(16 << 10, &options).unwrap();
        let table = Table::new(&layout).unwrap();
        let base = layout.slab_offset(2);
        assert_eq!(table.epochs(base, 64), (0, LOW));
        table.push_epoch(base, 64, 5);
        table.push_epoch(base, 64, 9);
        assert_eq!(table.epochs(base, 64), (9, 5));
    }
}
