//! Free objects that no thread holds, kept by slab, so that a slab without any other is found.
//!
//! - A slab is listed under its tag while it has free objects here, once.
//! - Objects of one slab are handed out together, the last given first.

use rustc_hash::FxHashMap;

#[derive(Debug)]
pub(super) struct Spare {
    /// Slabs with free objects, by tag.
    slabs: FxHashMap<u64, Vec<usize>>,
    /// A slab's free objects, by slab.
    objects: Vec<Vec<u64>>,
}

impl Spare {
    pub(super) fn new(slabs: usize) -> Spare {
        Spare { slabs: FxHashMap::default(), objects: vec![Vec::new(); slabs] }
    }

    /// Adds an object of `slab`.
    pub(super) fn give(&mut self, tag: u64, slab: usize, object: u64) {
        let objects = &mut self.objects[slab];
        debug_assert!(!objects.contains(&object), "object {object:#x} is free twice");
        if objects.is_empty() {
            self.slabs.entry(tag).or_default().push(slab);
        }
        objects.push(object);
    }

    /// Moves up to `most` objects of a type to `into`; whether there were any.
    pub(super) fn take(&mut self, tag: u64, most: usize, into: &mut Vec<u64>) -> bool {
        let Some(slabs) = self.slabs.get_mut(&tag) else { return false };
        let before = into.len();
        while into.len() < before + most
            && let Some(&slab) = slabs.last()
        {
            let objects = &mut self.objects[slab];
            let wanted = before + most - into.len();
            into.extend(objects.drain(objects.len().saturating_sub(wanted)..));
            if objects.is_empty() {
                slabs.pop();
            }
        }
        into.len() > before
    }

    /// How many objects of a slab are here.
    pub(super) fn count(&self, slab: usize) -> usize {
        self.objects[slab].len()
    }

    /// Takes every object of a slab out.
    pub(super) fn withdraw(&mut self, tag: u64, slab: usize) {
        self.objects[slab] = Vec::new();
        if let Some(slabs) = self.slabs.get_mut(&tag) {
            slabs.retain(|&s| s != slab);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_come_back_slab_by_slab_and_a_withdrawn_slab_has_none() {
        let mut spare = Spare::new(3);
        for (slab, object) in [(1, 10), (2, 20), (1, 11), (2, 21), (2, 22)] {
            spare.give(7, slab, object);
        }
        assert_eq!((spare.count(1), spare.count(2)), (2, 3));
        let mut got = Vec::new();
        assert!(spare.take(7, 2, &mut got) && !spare.take(8, 2, &mut got));
        assert_eq!(got, [21, 22]);
        spare.withdraw(7, 1);
        assert!(spare.take(7, 64, &mut got));
        assert_eq!(got, [21, 22, 20]);
        assert!(!spare.take(7, 64, &mut got));
        spare.give(9, 1, 12);
        assert_eq!(spare.count(1), 1, "under its next tag");
    }
}
