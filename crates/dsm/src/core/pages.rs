//! Sets of pages and lists of runs: what costs work per run and per bitmap word, not per page.
//!
//! - [`PageSet`]: [`CHUNK_PAGES`] neighbours take one cache line of bits, so a program that writes
//!   a gibibyte from its beginning to its end is noted in kibibytes, and 4 MiB of lines of a pool
//!   in 128 nodes of a tree. A set of one word lies in place, since a section mostly writes few
//!   pages: it is made and dropped without an allocation.
//! - Lists of [`PageRun`] that ascend with gaps between them ([`united`]), which name each page
//!   once.
//!
//! Invariants
//! - No chunk of a set is zero, and a tree has two words or more, so equal sets are equal values.
//!   Checked by `a_set_of_pages_is_a_set`.
//! - Runs are as long as they can be: neighbours are one. Checked by `a_set_of_pages_is_a_set`,
//!   `runs_are_lists_of_pages`.

use std::collections::BTreeMap;

use super::message::{PageId, PageRun};

const BITS: u64 = 64;
const WORDS: usize = 8;
/// Pages of one node.
const CHUNK_PAGES: u64 = BITS * WORDS as u64;

type Chunk = [u64; WORDS];

/// See the module's page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct PageSet {
    /// The number of the only word and its bits, or zeros.
    word: u32,
    bits: u64,
    /// Two words or more.
    #[expect(clippy::box_collection, reason = "a set without a tree is small and quick to drop")]
    more: Option<Box<BTreeMap<u32, Chunk>>>,
}

fn place(page: PageId) -> (u32, usize, u64) {
    let (chunk, within) = (u64::from(page.0) / CHUNK_PAGES, u64::from(page.0) % CHUNK_PAGES);
    (chunk as u32, (within / BITS) as usize, 1 << (within % BITS))
}

/// The bits of a run in the word whose first page is `low`.
fn bits_of(run: PageRun, low: u64) -> u64 {
    let start = u64::from(run.first().0).clamp(low, low + BITS) - low;
    let end = run.end().clamp(low, low + BITS) - low;
    if start < end { (u64::MAX >> (BITS - (end - start))) << start } else { 0 }
}

/// The chunks that a run touches, and its bits in each.
fn chunks_of(run: PageRun) -> impl Iterator<Item = (u32, Chunk)> {
    let chunks = u64::from(run.first().0) / CHUNK_PAGES..=(run.end() - 1) / CHUNK_PAGES;
    chunks.map(move |chunk| {
        let bits = |word| bits_of(run, chunk * CHUNK_PAGES + BITS * word as u64);
        (chunk as u32, std::array::from_fn(bits))
    })
}

fn pages_of(low: u64, mut bits: u64) -> impl Iterator<Item = PageId> {
    std::iter::from_fn(move || {
        let bit = (bits != 0).then(|| bits.trailing_zeros())?;
        bits &= bits - 1;
        Some(PageId((low + u64::from(bit)) as u32))
    })
}

/// The words of a tree, ascending: the first page of each, and its bits.
fn words_in(tree: &BTreeMap<u32, Chunk>) -> impl Iterator<Item = (u64, u64)> + '_ {
    tree.iter().flat_map(|(chunk, words)| {
        let low = u64::from(*chunk) * CHUNK_PAGES;
        (0..).zip(words).map(move |(n, bits)| (low + BITS * n, *bits))
    })
}

fn pages_in(tree: &BTreeMap<u32, Chunk>) -> impl Iterator<Item = PageId> + '_ {
    words_in(tree).flat_map(|(low, bits)| pages_of(low, bits))
}

/// The only word of a run: its number, and the run's bits in it.
fn word_of(run: PageRun) -> Option<(u32, u64)> {
    let word = u64::from(run.first().0) / BITS;
    let is_one = (run.end() - 1) / BITS == word;
    is_one.then(|| (word as u32, bits_of(run, word * BITS)))
}

/// The ranges of bits that are set, ascending.
fn ranges_of(mut bits: u64) -> impl Iterator<Item = std::ops::Range<u32>> {
    std::iter::from_fn(move || {
        let start = (bits != 0).then(|| bits.trailing_zeros())?;
        let end = start + (bits >> start).trailing_ones();
        bits &= u64::MAX.checked_shl(end).unwrap_or(0);
        Some(start..end)
    })
}

impl PageSet {
    /// Adds to the only word; whether it is one then.
    fn insert_near(&mut self, word: u32, bits: u64) -> bool {
        let is_near = self.more.is_none() && (self.bits == 0 || self.word == word);
        if is_near {
            self.word = word;
            self.bits |= bits;
        }
        is_near
    }

    /// The tree, with the only word in it: another one is added to it.
    fn tree(&mut self) -> &mut BTreeMap<u32, Chunk> {
        let (word, bits) = (u64::from(self.word), std::mem::take(&mut self.bits));
        self.word = 0;
        let tree = self.more.get_or_insert_default();
        if bits != 0 {
            let (chunk, at, _) = place(PageId((word * BITS) as u32));
            tree.entry(chunk).or_default()[at] = bits;
        }
        tree
    }

    /// Takes bits out of words of a chunk; whether one of them was there.
    fn remove_from(&mut self, chunk: u32, taken: &Chunk) -> bool {
        let Some(tree) = &mut self.more else {
            let (own, at, _) = place(PageId((u64::from(self.word) * BITS) as u32));
            let was = if own == chunk { self.bits & taken[at] } else { 0 };
            self.bits &= !was;
            if self.bits == 0 {
                self.word = 0;
            }
            return was != 0;
        };
        let Some(words) = tree.get_mut(&chunk) else { return false };
        let was = words.iter().zip(taken).any(|(word, taken)| word & taken != 0);
        words.iter_mut().zip(taken).for_each(|(word, taken)| *word &= !taken);
        if *words == Chunk::default() {
            tree.remove(&chunk);
        }
        self.fold();
        was
    }

    /// Puts the only word of a tree in place.
    fn fold(&mut self) {
        if self.more.as_ref().is_some_and(|tree| tree.len() > 1) {
            return;
        }
        let mut words = self.words().filter(|(_, bits)| *bits != 0);
        let (first, second) = (words.next(), words.next());
        drop(words);
        if second.is_none() {
            let (low, bits) = first.unwrap_or_default();
            *self = PageSet { word: (low / BITS) as u32, bits, more: None };
        }
    }

    pub(super) fn insert(&mut self, page: PageId) {
        let (chunk, word, bit) = place(page);
        if !self.insert_near((u64::from(page.0) / BITS) as u32, bit) {
            self.tree().entry(chunk).or_default()[word] |= bit;
        }
    }

    pub(super) fn insert_run(&mut self, run: PageRun) {
        if word_of(run).is_some_and(|(word, bits)| self.insert_near(word, bits)) {
            return;
        }
        let tree = self.tree();
        for (chunk, bits) in chunks_of(run) {
            let words = tree.entry(chunk).or_default();
            words.iter_mut().zip(bits).for_each(|(word, bits)| *word |= bits);
        }
    }

    /// Takes a page out; whether it was there.
    pub(super) fn remove(&mut self, page: PageId) -> bool {
        let (chunk, word, bit) = place(page);
        if !self.contains(page) {
            return false;
        }
        let mut taken = Chunk::default();
        taken[word] = bit;
        self.remove_from(chunk, &taken)
    }

    pub(super) fn remove_run(&mut self, run: PageRun) {
        if self.is_empty() {
            return;
        }
        for (chunk, bits) in chunks_of(run) {
            self.remove_from(chunk, &bits);
        }
    }

    pub(super) fn contains(&self, page: PageId) -> bool {
        let (chunk, word, bit) = place(page);
        match &self.more {
            Some(tree) => tree.get(&chunk).is_some_and(|words| words[word] & bit != 0),
            None => u64::from(self.word) == u64::from(page.0) / BITS && self.bits & bit != 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bits == 0 && self.more.is_none()
    }

    /// How many pages.
    pub(super) fn len(&self) -> usize {
        if self.more.is_none() {
            return self.bits.count_ones() as usize;
        }
        self.words().map(|(_, bits)| bits.count_ones() as usize).sum()
    }

    /// The words that hold pages, ascending: the first page of each, and its bits.
    fn words(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let one = (self.bits != 0).then(|| (u64::from(self.word) * BITS, self.bits));
        one.into_iter().chain(self.more.iter().flat_map(|tree| words_in(tree)))
    }

    /// The pages, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = PageId> + '_ {
        let near = pages_of(u64::from(self.word) * BITS, self.bits);
        near.chain(self.more.iter().flat_map(|tree| pages_in(tree)))
    }

    /// The pages that `other` has not.
    pub(super) fn without(&self, other: &PageSet) -> PageSet {
        let mut left = PageSet::default();
        if self.more.is_none() {
            let rest = self.bits & !other.bits_at(u64::from(self.word) * BITS);
            if rest != 0 {
                left.insert_near(self.word, rest);
            }
            return left;
        }
        for (low, bits) in self.words() {
            let rest = bits & !other.bits_at(low);
            if rest != 0 && !left.insert_near((low / BITS) as u32, rest) {
                let (chunk, word, _) = place(PageId(low as u32));
                left.tree().entry(chunk).or_default()[word] = rest;
            }
        }
        left
    }

    /// The bits of the word whose first page is `low`.
    fn bits_at(&self, low: u64) -> u64 {
        let (chunk, word, _) = place(PageId(low as u32));
        match &self.more {
            Some(tree) => tree.get(&chunk).map_or(0, |words| words[word]),
            None if u64::from(self.word) * BITS == low => self.bits,
            None => 0,
        }
    }

    /// The pages as runs that ascend with gaps between them.
    pub(super) fn runs(&self) -> Vec<PageRun> {
        let mut runs = Vec::new();
        self.runs_into(&mut runs);
        runs
    }

    /// As `runs`, in place of what is in `done`.
    pub(super) fn runs_into(&self, done: &mut Vec<PageRun>) {
        done.clear();
        if self.more.is_none() {
            let low = u64::from(self.word) * BITS;
            return done.extend(ranges_of(self.bits).filter_map(|bits| {
                PageRun::new(PageId((low + u64::from(bits.start)) as u32), bits.end - bits.start)
            }));
        }
        let mut runs = Runs { done: std::mem::take(done), ..Runs::default() };
        for (low, bits) in self.words() {
            let ranges = ranges_of(bits);
            ranges.for_each(|r| runs.add(low + u64::from(r.start), low + u64::from(r.end)));
        }
        *done = runs.finish();
    }
}

impl FromIterator<PageId> for PageSet {
    fn from_iter<I: IntoIterator<Item = PageId>>(pages: I) -> PageSet {
        let mut set = PageSet::default();
        pages.into_iter().for_each(|page| set.insert(page));
        set
    }
}

/// Joins ascending ranges of pages into runs.
#[derive(Default)]
pub(super) struct Runs {
    done: Vec<PageRun>,
    /// The range that may still grow; empty at first.
    last: std::ops::Range<u64>,
}

impl Runs {
    /// A range that begins no earlier than those before it.
    pub(super) fn add(&mut self, start: u64, end: u64) {
        if !self.last.is_empty() && start <= self.last.end {
            self.last.end = self.last.end.max(end);
            return;
        }
        self.close();
        self.last = start..end;
    }

    fn close(&mut self) {
        let std::ops::Range { start, end } = std::mem::take(&mut self.last);
        // All 2^32 pages are more than one run can name.
        let middle = end.min(start + u64::from(u32::MAX));
        let run = |start: u64, end: u64| PageRun::new(PageId(start as u32), (end - start) as u32);
        self.done.extend(run(start, middle));
        self.done.extend(run(middle, end));
    }

    pub(super) fn finish(mut self) -> Vec<PageRun> {
        self.close();
        self.done
    }
}

/// The pages of `runs`, in any order and named any number of times, as runs that ascend with gaps
/// between them.
pub(crate) fn united(mut runs: Vec<PageRun>) -> Vec<PageRun> {
    runs.sort_unstable();
    let mut all = Runs::default();
    runs.iter().for_each(|run| all.add(u64::from(run.first().0), run.end()));
    all.finish()
}

/// As [`united`], of single pages.
pub(crate) fn runs_of(pages: &[PageId]) -> Vec<PageRun> {
    united(pages.iter().copied().map(PageRun::from).collect())
}

/// Those of `others`, which ascend with gaps between them, that name a page of `run`.
fn meeting(run: PageRun, others: &[PageRun]) -> &[PageRun] {
    let first = others.partition_point(|other| other.end() <= u64::from(run.first().0));
    let behind = others[first..].partition_point(|other| u64::from(other.first().0) < run.end());
    &others[first..first + behind]
}

/// Whether one of `others`, which ascend with gaps between them, names a page of `run`.
pub(super) fn meets(run: PageRun, others: &[PageRun]) -> bool {
    !meeting(run, others).is_empty()
}

/// The pages of `run` that `others`, which ascend with gaps between them, do not name.
pub(super) fn without(run: PageRun, others: &[PageRun]) -> Vec<PageRun> {
    let mut left = Vec::new();
    let mut start = u64::from(run.first().0);
    let mut keep = |start: u64, end: u64| {
        let count = end.saturating_sub(start) as u32;
        left.extend(PageRun::new(PageId(start as u32), count));
    };
    for other in meeting(run, others) {
        keep(start, u64::from(other.first().0));
        start = other.end();
    }
    keep(start, run.end());
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Pages near zero, at the borders of words and chunks, and the last ones.
    fn page() -> impl Strategy<Value = u32> {
        prop_oneof![0u32..200, 500u32..530, (u32::MAX - 600)..=u32::MAX]
    }

    fn run() -> impl Strategy<Value = PageRun> {
        let fit = |(first, count): (u32, u32)| {
            PageRun::new(PageId(first), count.min(u32::MAX - first).max(1)).unwrap()
        };
        (page(), prop_oneof![1u32..4, 1u32..1200]).prop_map(fit)
    }

    fn listed(runs: &[PageRun]) -> Vec<PageId> {
        runs.iter().flat_map(|run| run.pages()).collect()
    }

    /// Runs as long as they can be, by the textbook.
    fn textbook(pages: &BTreeSet<PageId>) -> Vec<PageRun> {
        let mut runs: Vec<PageRun> = Vec::new();
        for page in pages {
            match runs.last_mut().filter(|run| run.end() == u64::from(page.0)) {
                Some(run) => *run = PageRun::new(run.first(), run.count() + 1).unwrap(),
                None => runs.push(PageRun::from(*page)),
            }
        }
        runs
    }

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn a_set_of_pages_is_a_set(
            steps in vec((run(), 0u8..5), 0..60),
            others in vec(run(), 0..6),
        ) {
            let (mut set, mut oracle) = (PageSet::default(), BTreeSet::new());
            for (run, what) in steps {
                let page = run.first();
                match what {
                    0 => prop_assert_eq!(set.remove(page), oracle.remove(&page)),
                    1 => {
                        set.remove_run(run);
                        run.pages().for_each(|page| _ = oracle.remove(&page));
                    }
                    2 => {
                        set.insert(page);
                        oracle.insert(page);
                    }
                    _ => {
                        set.insert_run(run);
                        oracle.extend(run.pages());
                    }
                }
                prop_assert_eq!(set.contains(page), oracle.contains(&page));
                prop_assert_eq!(set.is_empty(), oracle.is_empty());
            }
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), oracle.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.runs(), textbook(&oracle));
            prop_assert_eq!(&set, &oracle.iter().copied().collect());
            let others: BTreeSet<PageId> = listed(&others).into_iter().collect();
            let other: PageSet = others.iter().copied().collect();
            let left: BTreeSet<PageId> = oracle.difference(&others).copied().collect();
            prop_assert_eq!(set.without(&other), left.into_iter().collect());
        }

        #[test]
        fn runs_are_lists_of_pages(a in vec(run(), 0..12), b in vec(run(), 0..12), one in run()) {
            let all = |runs: &[PageRun]| listed(runs).into_iter().collect::<BTreeSet<_>>();
            prop_assert_eq!(united(a.clone()), textbook(&all(&a)));
            prop_assert_eq!(runs_of(&listed(&a)), textbook(&all(&a)));
            let b = united(b);
            let left: BTreeSet<PageId> = all(&[one]).difference(&all(&b)).copied().collect();
            prop_assert_eq!(meets(one, &b), left.len() < one.count() as usize);
            prop_assert_eq!(without(one, &b), textbook(&left));
        }
    }

    #[test]
    fn every_page_there_can_be_is_two_runs() {
        let all = [PageRun::new(PageId(0), u32::MAX), PageRun::new(PageId(7), u32::MAX - 6)];
        let all = united(all.map(Option::unwrap).to_vec());
        assert_eq!(all.iter().map(|run| u64::from(run.count())).sum::<u64>(), 1 << 32);
        assert_eq!((all.len(), all[1]), (2, PageId(u32::MAX).into()));
        assert_eq!(without(PageId(5).into(), &all), []);
    }

    #[test]
    fn a_run_has_pages_and_they_exist() {
        assert_eq!(PageRun::new(PageId(4), 0), None);
        assert_eq!(PageRun::new(PageId(u32::MAX), 2), None);
        let last = PageRun::new(PageId(u32::MAX), 1).unwrap();
        assert!(last.contains(PageId(u32::MAX)) && last.end() == 1 << 32);
        assert!(!PageRun::from(PageId(4)).contains(PageId(5)));
    }
}
