//! One page of lists: lists from the front, a directory from the back, a sealed trailer.
//!
//! Invariants
//! - [`PageView`] never panics on any bytes: a directory entry that points outside the page yields
//!   an empty list, and [`PageView::check`] says what is wrong with it. Checked by
//!   `any_words_at_all_are_iterated_without_panic`.
//! - In a page with the flag [`PAIRED`] the weights of a piece lie behind its neighbours; they are
//!   finite and not negative. Checked by `weights_lie_behind_the_neighbours_of_each_piece`.
//! - [`PageWriter`] leaves no holes between lists and never lets lists and directory meet. Checked
//!   by `PageWriter::list`, `placement_never_splits_a_list_that_fits`.
//!
//! The trailer {page, generation, CRC32C} is the error channel that the paper lacks: a
//! torn, stale or misdirected page does not verify.

use littoral_base::codec::{seal, unseal};
use littoral_base::mutant;

use super::header::SectionKind;
use super::{Direction, ENTRY_WORDS, Layout, TRAILER_WORDS};

/// Page flag: the first list continues one of the page before.
pub const CONTINUES: u16 = 1;
/// Page flag: the first list continues in the next page.
pub const CONTINUED: u16 = 2;
/// Page flag: each piece is its neighbours, then as many weights (format 2).
pub const PAIRED: u16 = 4;

/// Where a page belongs: what its checksum is salted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageId {
    /// PAGES or WEIGHTS.
    pub kind: SectionKind,
    /// Which arcs.
    pub direction: Direction,
    /// The page's number in its section.
    pub number: u32,
}

impl PageId {
    /// A page of lists.
    pub fn lists(direction: Direction, number: u32) -> Self {
        PageId { kind: SectionKind::Pages, direction, number }
    }

    /// The salt of the page's checksum: pages that change places are found.
    pub fn salt(self) -> u64 {
        if mutant!("graph_page_unsalted") {
            return 0;
        }
        (self.kind as u64) << 40 | (self.direction as u64) << 32 | u64::from(self.number)
    }
}

/// A page's trailer, its checksum apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// The page's number in its section.
    pub page_no: u32,
    /// The file's generation.
    pub generation: u32,
    /// How many directory entries.
    pub lists: u16,
    /// [`CONTINUES`], [`CONTINUED`] and [`PAIRED`].
    pub flags: u16,
}

/// What is wrong with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFault {
    /// The checksum does not verify: torn, flipped or another page's bytes.
    Checksum,
    /// The trailer names another page or generation.
    Misdirected,
    /// The directory is longer than the page or its lists leave holes, overlap or leave the page.
    Directory,
    /// A neighbour is no vertex of this graph.
    Neighbour,
    /// A weight is negative or no finite number.
    Weight,
}

impl std::fmt::Display for PageFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PageFault::Checksum => "checksum mismatch",
            PageFault::Misdirected => "trailer of another page or generation",
            PageFault::Directory => "directory entries overlap, leave holes or leave the page",
            PageFault::Neighbour => "a neighbour id is not below the number of vertices",
            PageFault::Weight => "a weight is negative or no finite number",
        })
    }
}

/// A page as its words.
#[derive(Clone, Copy, Debug)]
pub struct PageView<'a> {
    words: &'a [u32],
}

impl<'a> PageView<'a> {
    /// The page whose words these are, trailer included.
    ///
    /// # Panics
    /// When there are fewer words than a trailer has.
    #[inline(always)]
    pub fn from_words(words: &'a [u32]) -> Self {
        assert!(words.len() >= TRAILER_WORDS, "a page holds its trailer");
        PageView { words }
    }

    /// The page in `bytes`; `None` when they are not aligned to a word or too short.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let words: &[u32] = bytemuck::try_cast_slice(bytes).ok()?;
        (words.len() >= TRAILER_WORDS).then_some(PageView { words })
    }

    /// All words, trailer included.
    #[inline(always)]
    pub fn words(self) -> &'a [u32] {
        self.words
    }

    /// The trailer.
    #[inline(always)]
    pub fn trailer(self) -> Trailer {
        let t = &self.words[self.words.len() - TRAILER_WORDS..];
        Trailer { page_no: t[0], generation: t[1], lists: t[2] as u16, flags: (t[2] >> 16) as u16 }
    }

    /// The directory's entries with their lists, in the order they lie in the page.
    #[inline(always)]
    pub fn lists(self) -> Lists<'a> {
        let end = self.words.len() - TRAILER_WORDS;
        let from = end.saturating_sub(ENTRY_WORDS * usize::from(self.trailer().lists));
        Lists { words: self.words, directory: &self.words[from..end] }
    }

    /// Says whether the page is the one expected, whole, and names only vertices of the graph.
    ///
    /// # Errors
    /// The first fault found.
    pub fn check(self, id: PageId, generation: u32, vertices: u32) -> Result<(), PageFault> {
        unseal(bytemuck::cast_slice(self.words), id.salt()).ok_or(PageFault::Checksum)?;
        let trailer = self.trailer();
        if (trailer.page_no, trailer.generation) != (id.number, generation) {
            return Err(PageFault::Misdirected);
        }
        self.check_directory(trailer)?;
        if id.kind != SectionKind::Pages {
            return Ok(());
        }
        if self.lists().any(|(_, list)| list.iter().any(|&n| n >= vertices)) {
            return Err(PageFault::Neighbour);
        }
        let is_weight = |&w: &u32| f32::from_bits(w) >= 0.0 && f32::from_bits(w).is_finite();
        let all_weights = self.lists().all(|(entry, _)| self.weights(entry).iter().all(is_weight));
        if all_weights { Ok(()) } else { Err(PageFault::Weight) }
    }

    /// Words of an arc in this page.
    #[inline]
    pub fn arc_words(self) -> usize {
        if self.trailer().flags & PAIRED != 0 { 2 } else { 1 }
    }

    /// The weights behind the neighbours of `entry`; none in a page without them, or where the
    /// entry points outside.
    #[inline]
    pub fn weights(self, entry: Entry) -> &'a [u32] {
        let len = usize::from(entry.len);
        let from = usize::from(entry.start) + len;
        if self.arc_words() == 1 { &[] } else { self.words.get(from..from + len).unwrap_or(&[]) }
    }

    /// Lists lie one after another from word 0 and stop before the directory.
    fn check_directory(self, trailer: Trailer) -> Result<(), PageFault> {
        let room = self.words.len() - TRAILER_WORDS;
        let directory_words = ENTRY_WORDS * usize::from(trailer.lists);
        let mut end = 0;
        if directory_words <= room {
            for (entry, _) in self.lists() {
                if usize::from(entry.start) != end || entry.len == 0 {
                    return Err(PageFault::Directory);
                }
                end += usize::from(entry.len) * self.arc_words();
            }
        }
        if end + directory_words > room { Err(PageFault::Directory) } else { Ok(()) }
    }
}

/// A directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whose list (or piece of a list).
    pub vertex: u32,
    /// The first word in the page.
    pub start: u16,
    /// How many neighbours.
    pub len: u16,
}

impl Entry {
    #[inline(always)]
    fn from_words(vertex: u32, place: u32) -> Self {
        Entry { vertex, start: place as u16, len: (place >> 16) as u16 }
    }

    fn place(self) -> u32 {
        u32::from(self.start) | u32::from(self.len) << 16
    }
}

/// Iterates over a page's lists.
#[derive(Clone, Debug)]
pub struct Lists<'a> {
    words: &'a [u32],
    directory: &'a [u32],
}

impl<'a> Iterator for Lists<'a> {
    type Item = (Entry, &'a [u32]);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let [rest @ .., vertex, place] = self.directory else { return None };
        self.directory = rest;
        let entry = Entry::from_words(*vertex, *place);
        let start = usize::from(entry.start);
        let list = self.words.get(start..start + usize::from(entry.len)).unwrap_or(&[]);
        Some((entry, list))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = self.directory.len() / ENTRY_WORDS;
        (n, Some(n))
    }
}

impl ExactSizeIterator for Lists<'_> {}

/// Fills one page.
#[derive(Debug)]
pub struct PageWriter<'a> {
    words: &'a mut [u32],
    used: usize,
    lists: u16,
    layout: Layout,
}

impl<'a> PageWriter<'a> {
    /// A writer on an all-zero page.
    ///
    /// # Panics
    /// When the page is not of the layout's size.
    pub fn new(words: &'a mut [u32], layout: Layout) -> Self {
        assert_eq!(words.len(), layout.page_words(), "a whole page");
        PageWriter { words, used: 0, lists: 0, layout }
    }

    /// Reserves room for a list (or piece) of `len` arcs and returns it with its first word's
    /// place: for its neighbours, and behind them its weights where they are paired.
    ///
    /// # Panics
    /// When it does not fit: the planner placed it wrongly.
    pub fn list(&mut self, vertex: u32, len: usize) -> (usize, &mut [u32]) {
        let top = self.words.len() - TRAILER_WORDS - ENTRY_WORDS * usize::from(self.lists);
        let words = len * self.layout.arc_words();
        assert!(len > 0 && self.used + words + ENTRY_WORDS <= top, "a planned list fits its page");
        let start = self.used;
        let entry = Entry { vertex, start: start as u16, len: len as u16 };
        self.words[top - 2] = entry.vertex;
        self.words[top - 1] = entry.place();
        self.used += words;
        self.lists += 1;
        (start, &mut self.words[start..start + words])
    }

    /// Writes trailer and checksum.
    pub fn finish(self, id: PageId, generation: u32, flags: u16) {
        let at = self.words.len() - TRAILER_WORDS;
        self.words[at] = id.number;
        self.words[at + 1] = generation;
        let paired = if self.layout.is_paired() { PAIRED } else { 0 };
        self.words[at + 2] = u32::from(self.lists) | u32::from(flags | paired) << 16;
        let view = PageView::from_words(self.words);
        debug_assert_eq!(view.check_directory(view.trailer()), Ok(()), "page {}", id.number);
        seal(bytemuck::cast_slice_mut(self.words), id.salt());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page(lists: &[Vec<u32>], id: PageId) -> Vec<u32> {
        let layout = Layout::new(512).unwrap();
        let mut words = vec![0; layout.page_words()];
        let mut w = PageWriter::new(&mut words, layout);
        for (v, list) in lists.iter().enumerate() {
            w.list(v as u32, list.len()).1.copy_from_slice(list);
        }
        w.finish(id, 9, 0);
        words
    }

    #[test]
    fn lists_come_back_and_another_place_does_not_verify() {
        let lists = vec![vec![1, 2, 3], vec![4], vec![5; 100]];
        let id = PageId::lists(Direction::In, 7);
        let words = page(&lists, id);
        let view = PageView::from_words(&words);
        assert_eq!(view.check(id, 9, 6), Ok(()));
        assert_eq!(view.check(id, 9, 5), Err(PageFault::Neighbour));
        assert_eq!(view.check(id, 8, 6), Err(PageFault::Misdirected));
        let elsewhere = PageId { direction: Direction::Out, ..id };
        assert_eq!(view.check(elsewhere, 9, 6), Err(PageFault::Checksum));
        let got: Vec<_> = view.lists().map(|(e, l)| (e.vertex, l.to_vec())).collect();
        assert_eq!(
            got,
            lists.into_iter().enumerate().map(|(v, l)| (v as u32, l)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn weights_lie_behind_the_neighbours_of_each_piece() {
        let layout = Layout::new(512).unwrap().paired(true);
        let mut words = vec![0; layout.page_words()];
        let mut w = PageWriter::new(&mut words, layout);
        let weights = [2.5f32, 0.0].map(f32::to_bits);
        let (start, room) = w.list(3, 2);
        assert_eq!((start, room.len()), (0, 4));
        room.copy_from_slice(&[5, 1, weights[0], weights[1]]);
        assert_eq!(w.list(4, 58).0, 4, "behind the weights");
        let id = PageId::lists(Direction::Out, 0);
        w.finish(id, 9, CONTINUES);
        let view = PageView::from_words(&words);
        assert_eq!((view.trailer().flags, view.check(id, 9, 6)), (CONTINUES | PAIRED, Ok(())));
        let (entry, list) = view.lists().next().unwrap();
        assert_eq!((list, view.weights(entry)), (&[5, 1][..], &weights[..]));
        for wrong in [-1.0f32, f32::NAN, f32::INFINITY] {
            words[3] = wrong.to_bits();
            seal(bytemuck::cast_slice_mut(&mut words), id.salt());
            assert_eq!(PageView::from_words(&words).check(id, 9, 6), Err(PageFault::Weight));
        }
    }

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn any_words_at_all_are_iterated_without_panic(
            mut words in proptest::collection::vec(any::<u32>(), 128),
        ) {
            let seen = PageView::from_words(&words).lists().map(|(_, l)| l.len()).sum::<usize>();
            prop_assert!(seen <= 65536 * 64);
            let id = PageId::lists(Direction::Out, words[124]);
            seal(bytemuck::cast_slice_mut(&mut words), id.salt());
            let _ = PageView::from_words(&words).check(id, words[125], u32::MAX);
        }
    }
}
