//! Names to ids in order of first appearance.
//!
//! Invariants
//! - Ids are dense and given in order of first appearance.
//! - More than [`VERTICES_MAX`] distinct names are refused, never wrapped around.

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;

use crate::format::VERTICES_MAX;
use crate::names::{Labels, TextNames};

/// Numbers below this find their id in an array rather than a map.
const DENSE_MAX: u64 = 1 << 26;
const NONE: u32 = 0;

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
        let slot = if name < DENSE_MAX {
            if name as usize >= self.dense.len() {
                self.grow(name);
            }
            &mut self.dense[name as usize]
        } else {
            self.sparse.entry(name).or_insert(NONE)
        };
        if *slot == NONE {
            if fresh > VERTICES_MAX {
                return None;
            }
            *slot = fresh;
            self.names.push(name);
        }
        Some(*slot - 1)
    }

    /// A new zeroed array is not touched by the system until used, so one large number costs
    /// little.
    #[cold]
    fn grow(&mut self, name: u64) {
        let mut larger = vec![NONE; (name as usize + 1).next_power_of_two().max(1024)];
        larger[..self.dense.len()].copy_from_slice(&self.dense);
        self.dense = larger;
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
