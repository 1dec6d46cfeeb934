//! A set of pages: 64 neighbours take one word, so a program that writes a gibibyte from its
//! beginning to its end is noted in kibibytes.

use std::collections::BTreeMap;

use super::message::PageId;

const BITS: u32 = u64::BITS;

/// See the module's page. No word is zero, so equal sets are equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct PageSet {
    words: BTreeMap<u32, u64>,
}

fn place(page: PageId) -> (u32, u64) {
    (page.0 / BITS, 1 << (page.0 % BITS))
}

fn pages_of(word: u32, mut bits: u64) -> impl Iterator<Item = PageId> {
    std::iter::from_fn(move || {
        let bit = (bits != 0).then(|| bits.trailing_zeros())?;
        bits &= bits - 1;
        Some(PageId(word * BITS + bit))
    })
}

impl PageSet {
    pub(super) fn insert(&mut self, page: PageId) {
        let (word, bit) = place(page);
        *self.words.entry(word).or_default() |= bit;
    }

    /// Takes a page out; whether it was there.
    pub(super) fn remove(&mut self, page: PageId) -> bool {
        let (word, bit) = place(page);
        let Some(bits) = self.words.get_mut(&word) else { return false };
        let was = *bits & bit != 0;
        *bits &= !bit;
        if *bits == 0 {
            self.words.remove(&word);
        }
        was
    }

    pub(super) fn contains(&self, page: PageId) -> bool {
        let (word, bit) = place(page);
        self.words.get(&word).is_some_and(|bits| bits & bit != 0)
    }

    pub(super) fn len(&self) -> usize {
        self.words.values().map(|bits| bits.count_ones() as usize).sum()
    }

    /// The pages, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = PageId> + '_ {
        self.words.iter().flat_map(|(word, bits)| pages_of(*word, *bits))
    }

    /// The pages that `other` has not.
    pub(super) fn without(&self, other: &PageSet) -> PageSet {
        let left = |(word, bits): (&u32, &u64)| {
            let rest = bits & !other.words.get(word).copied().unwrap_or(0);
            (rest != 0).then_some((*word, rest))
        };
        PageSet { words: self.words.iter().filter_map(left).collect() }
    }

    /// The pages in a list of exactly their number.
    pub(super) fn to_vec(&self) -> Vec<PageId> {
        let mut pages = Vec::with_capacity(self.len());
        pages.extend(self.iter());
        pages
    }
}

impl FromIterator<PageId> for PageSet {
    fn from_iter<I: IntoIterator<Item = PageId>>(pages: I) -> PageSet {
        let mut set = PageSet::default();
        pages.into_iter().for_each(|page| set.insert(page));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn a_set_of_pages_is_a_set(
            steps in vec((prop_oneof![0u32..200, (u32::MAX - 70)..=u32::MAX], 0u8..3), 0..200),
            others in vec(0u32..200, 0..60),
        ) {
            let (mut set, mut oracle) = (PageSet::default(), BTreeSet::new());
            for (page, what) in steps {
                let page = PageId(page);
                if what == 0 {
                    prop_assert_eq!(set.remove(page), oracle.remove(&page));
                } else {
                    set.insert(page);
                    oracle.insert(page);
                }
                prop_assert_eq!(set.contains(page), oracle.contains(&page));
            }
            prop_assert_eq!(set.to_vec(), oracle.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.len(), oracle.len());
            prop_assert_eq!(&set, &oracle.iter().copied().collect());
            let others: BTreeSet<PageId> = others.into_iter().map(PageId).collect();
            let left = set.without(&others.iter().copied().collect());
            prop_assert_eq!(left.to_vec(), oracle.difference(&others).copied().collect::<Vec<_>>());
        }
    }
}
