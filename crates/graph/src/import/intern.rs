//! Names to ids in order of first appearance.
//!
//! Invariants
//! - Ids are dense and given in order of first appearance. Checked by
//!   `ids_follow_first_appearance_for_small_and_huge_numbers`.
//! - The array of numbers has fewer than [`SLOTS_PER_NAME`] slots per name, or [`SLOTS_MIN`] slots.
//!   Checked by `one_large_number_takes_no_array`.
//! - More than [`VERTICES_MAX`] distinct names are refused, never wrapped around. Checked by
//!   `Numbers::id`, `Text::id`.

use littoral_base::mutant;
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;

use crate::edges::raw::prefetch;
use crate::format::VERTICES_MAX;
use crate::names::{Labels, TextNames};

/// Numbers below this may find their id in an array rather than a map.
const DENSE_MAX: u64 = 1 << 26;
/// Slots of the array per name, at most. An entry of the map takes as much room as 5 slots and
/// several times as long, so that numbers with gaps are worth an array.
const SLOTS_PER_NAME: usize = 16;
/// Slots of the array that it has for any name.
const SLOTS_MIN: usize = 1024;
const NONE: u32 = 0;
/// Bytes of an entry of a map from 8 B to 4 B, with its tag and the room that is kept free.
const MAP_ENTRY_BYTES: usize = 20;

/// Gives ids to names, all numbers or all text.
pub(crate) enum Interner {
    Numbers(Numbers),
    Text(Text),
}

/// Ids of numbers. Slots hold the id plus one; zero is "not seen".
#[derive(Default)]
pub(crate) struct Numbers {
    dense: Vec<u32>,
    sparse: FxHashMap<u64, u32>,
    names: Vec<u64>,
}

/// Ids of text: a map from hash to the newest name with it, older ones chained.
pub(crate) struct Text {
    newest: FxHashMap<u64, u32>,
    older: Vec<u32>,
    names: TextNames,
}

impl Numbers {
    /// The id of `name`; `None` when there are too many vertices.
    #[inline]
    pub(crate) fn id(&mut self, name: u64) -> Option<u32> {
        let fresh = self.names.len() as u32 + 1;
        let slot = match self.dense.get_mut(name as usize) {
            Some(slot) => slot,
            None => self.sparse.entry(name).or_insert(NONE),
        };
        if *slot == NONE {
            if fresh > VERTICES_MAX {
                return None;
            }
            *slot = fresh;
            self.names.push(name);
            if name >= self.dense.len() as u64 {
                self.grow(name);
            }
            return Some(fresh - 1);
        }
        debug_assert!(*slot <= VERTICES_MAX && self.names[*slot as usize - 1] == name);
        Some(*slot - 1)
    }

    /// Appends the ids of both ends of each pair to `out`; false when there are too many vertices.
    pub(crate) fn ids_of(&mut self, pairs: &[[u64; 2]], out: &mut Vec<[u32; 2]>) -> bool {
        // Slots lie all over the array: without this every id waits for the second-level cache.
        const AHEAD: usize = 16;
        out.reserve(pairs.len());
        (0..pairs.len()).all(|i| {
            if let Some(ahead) = pairs.get(i + AHEAD) {
                ahead.iter().for_each(|&name| prefetch(&self.dense, name as usize));
            }
            let [source, target] = pairs[i];
            match (self.id(source), self.id(target)) {
                (Some(source), Some(target)) => {
                    out.push([source, target]);
                    true
                }
                _ => false,
            }
        })
    }

    /// Makes the array reach `name`, where there are names enough for so long a one, and moves the
    /// map's entries that it reaches over. The array doubles at least, so the map is seldom read.
    fn grow(&mut self, name: u64) {
        if name >= DENSE_MAX {
            return;
        }
        let slots = (name as usize + 1).next_power_of_two().max(SLOTS_MIN);
        if slots > SLOTS_MIN && slots >= SLOTS_PER_NAME * self.names.len() {
            return;
        }
        let mut larger = vec![NONE; slots];
        larger[..self.dense.len()].copy_from_slice(&self.dense);
        self.dense = larger;
        if !mutant!("graph_number_left_in_map") {
            let reached = |name: u64| usize::try_from(name).is_ok_and(|at| at < slots);
            let moved = self.sparse.extract_if(|&name, _| reached(name));
            moved.for_each(|(name, slot)| self.dense[name as usize] = slot);
            self.sparse.shrink_to_fit();
        }
    }
}

impl Text {
    pub(crate) fn new() -> Self {
        Text { newest: FxHashMap::default(), older: Vec::new(), names: TextNames::new() }
    }

    /// The id of `name`; `None` when there are too many vertices.
    pub(crate) fn id(&mut self, name: &str) -> Option<u32> {
        self.id_of(name.as_bytes())
    }

    /// The id of a name given as UTF-8.
    fn id_of(&mut self, name: &[u8]) -> Option<u32> {
        let newest = self.newest.entry(xxh3_64(name)).or_insert(NONE);
        let mut slot = *newest;
        while slot != NONE {
            if self.names.get(slot - 1) == name {
                return Some(slot - 1);
            }
            slot = self.older[slot as usize - 1];
        }
        let fresh = u32::try_from(self.names.len()).ok().filter(|&n| n < VERTICES_MAX)?;
        self.names.push_bytes(name);
        self.older.push(*newest);
        *newest = fresh + 1;
        debug_assert_eq!(self.older.len(), *newest as usize, "one entry per name, none wrapped");
        Some(fresh)
    }
}

impl Text {
    /// The ids here of all names in `other`, in its order; `None` when there are too many vertices.
    pub(crate) fn ids_of(&mut self, other: Text) -> Option<Vec<u32>> {
        (0..other.names.len() as u32).map(|i| self.id_of(other.names.get(i))).collect()
    }
}

impl Interner {
    /// The same names as text, with the same ids: different numbers print differently.
    pub(crate) fn into_text(self) -> Interner {
        match self {
            text @ Interner::Text(_) => text,
            Interner::Numbers(numbers) => {
                let mut text = Text::new();
                for name in numbers.names {
                    let id = text.id(&name.to_string());
                    assert!(id.is_some(), "as many names as before");
                }
                Interner::Text(text)
            }
        }
    }

    /// How many names.
    pub(crate) fn len(&self) -> u32 {
        match self {
            Interner::Numbers(n) => n.names.len() as u32,
            Interner::Text(t) => t.names.len() as u32,
        }
    }

    /// Bytes of memory that the names take, at least.
    pub(crate) fn bytes_held(&self) -> u64 {
        let held = match self {
            Interner::Numbers(n) => {
                4 * n.dense.len() + 8 * n.names.capacity() + MAP_ENTRY_BYTES * n.sparse.capacity()
            }
            Interner::Text(t) => {
                let map = MAP_ENTRY_BYTES * t.newest.capacity() + 4 * t.older.len();
                map + t.names.bytes_held() as usize
            }
        };
        held as u64
    }

    /// The names as labels; numbers that are their own ids need none.
    pub(crate) fn into_labels(self) -> Labels {
        match self {
            Interner::Numbers(n) => {
                let own = n.names.iter().zip(0u64..).all(|(&name, id)| name == id);
                if own { Labels::Identity } else { Labels::Numbers(n.names) }
            }
            Interner::Text(t) => Labels::Text(t.names),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_first_appearance_for_small_and_huge_numbers() {
        let mut n = Numbers::default();
        let names = [7, u64::MAX, 7, DENSE_MAX, 1 << 31, DENSE_MAX - 1, u64::MAX];
        let ids: Vec<_> = names.iter().map(|&x| n.id(x).unwrap()).collect();
        assert_eq!(ids, [0, 1, 0, 2, 3, 4, 1]);
        assert_eq!(n.names, [7, u64::MAX, DENSE_MAX, 1 << 31, DENSE_MAX - 1]);
    }

    #[test]
    fn one_large_number_takes_no_array() {
        let mut numbers = Numbers::default();
        assert_eq!((numbers.id(1), numbers.id(60_000_000)), (Some(0), Some(1)));
        let held = Interner::Numbers(numbers).bytes_held();
        assert!(held < 1 << 14, "{held} bytes for two names");
    }

    #[test]
    fn numbers_keep_their_ids_when_they_become_dense() {
        let mut numbers = Numbers::default();
        let mut wanted = FxHashMap::default();
        for round in 0..2u64 {
            // Every 7th number, far ones first, and again; two that are never dense.
            let some = (0..40_000u64).map(|i| 7 * (i * 17_389 % 40_000));
            for name in some.chain([DENSE_MAX - 1, u64::MAX]) {
                let fresh = wanted.len() as u32;
                let id = *wanted.entry(name).or_insert(fresh);
                assert_eq!(numbers.id(name), Some(id), "{name} in round {round}");
                let most = SLOTS_MIN.max(SLOTS_PER_NAME * numbers.names.len());
                assert!(numbers.dense.len() <= most);
            }
        }
        assert_eq!((numbers.dense.len(), numbers.sparse.len()), (1 << 19, 2));
    }

    #[test]
    fn text_with_equal_hashes_is_told_apart() {
        let mut t = Text::new();
        let (a, b) = (t.id("a").unwrap(), t.id("b").unwrap());
        let forged = xxh3_64(b"c");
        t.newest.insert(forged, b + 1);
        let c = t.id("c").unwrap();
        assert_eq!((a, b, c, t.id("c").unwrap()), (0, 1, 2, 2));
        assert_eq!(t.older[2], b + 1);
    }
}
