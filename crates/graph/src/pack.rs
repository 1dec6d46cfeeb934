//! Placement: which page and word each list gets, from degrees alone (`docs/design/graph-file.md`).
//!
//! Paper 003 pads in id order so that no short list crosses a page; that wastes 2 to 38 % of the
//! file. Here lists go by best fit into a bounded window of open pages.
//!
//! Invariants
//! - A list that fits a page lies in one page; a longer one has consecutive pages of its own, whose
//!   last may take small lists behind it. Checked by `placement_never_splits_a_list_that_fits`.
//! - Lists in a page lie one after another in order of placement, so their start words follow from
//!   the order alone. Checked by `every_list_comes_back_through_table_and_scan`.
//! - A vertex's page is at most a window behind the newest page when it is placed. Checked by
//!   `placement_never_splits_a_list_that_fits`.

use littoral_base::mutant;

use crate::error::{Error, Kind, Result};
use crate::format::vertices::ADDR_BITS;
use crate::format::{ENTRY_WORDS, Layout};

/// Open pages when ids descend by degree: neighbouring lists are equally long then, so what a hole
/// left by long lists waits for is far away. 14 % padding at 256 pages, 0.003 % at this many (kron
/// 20).
pub const WINDOW_PAGES: usize = 1 << 16;
/// Open pages when ids come as they are: lists of all lengths follow each other (0.06 %, kron 20),
/// and a small window keeps the input's locality.
pub const WINDOW_PAGES_INPUT: usize = 256;

/// Where every list goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Word address of each vertex's list; 0 for an empty one.
    pub addr: Vec<u64>,
    /// Pages in all.
    pub pages: u32,
    /// Vertices in order of page, then of placement; a long list appears once a piece.
    pub placed: Vec<u32>,
    /// Page `p` holds `placed[first[p]..first[p + 1]]`.
    pub first: Vec<u32>,
    /// Words that hold neither list, directory nor trailer.
    pub padding_words: u64,
}

impl Plan {
    /// The vertices with a list (or piece) in page `p`, in order of place.
    pub fn in_page(&self, p: u32) -> &[u32] {
        let p = p as usize;
        &self.placed[self.first[p] as usize..self.first[p + 1] as usize]
    }

    /// Padding as a share of all page words.
    pub fn padding_share(&self, layout: Layout) -> f64 {
        let words = f64::from(self.pages) * layout.page_words() as f64;
        if self.pages == 0 { 0.0 } else { self.padding_words as f64 / words }
    }
}

/// Plans where lists of `degrees` go, in vertex order, with `window` pages open.
///
/// # Errors
/// `Kind::Argument` when the graph needs 2^32 pages or more, or more than 4 TiB, as far as the
/// addresses of the vertex table reach.
///
/// # Panics
/// When `window` is zero.
pub fn plan(degrees: &[u32], layout: Layout, window: usize) -> Result<Plan> {
    let mut packer = Packer::new(layout, window);
    let mut addr = Vec::with_capacity(degrees.len());
    for (v, &degree) in (0u32..).zip(degrees) {
        addr.push(packer.place(v, degree as usize)?);
    }
    Ok(packer.finish(addr))
}

/// Where every list goes, without which lists each page holds.
pub(crate) struct Addresses {
    /// As [`Plan::addr`].
    pub(crate) addr: Vec<u64>,
    /// As [`Plan::pages`].
    pub(crate) pages: u32,
    /// As [`Plan::padding_words`].
    pub(crate) padding_words: u64,
}

/// As [`plan`], for lists of `words` words: 8 B a vertex instead of 24, and none a page.
pub(crate) fn addresses(
    words: impl ExactSizeIterator<Item = u32>,
    layout: Layout,
    window: usize,
) -> Result<Addresses> {
    let mut packer = Packer { placed: None, ..Packer::new(layout, window) };
    let mut addr = Vec::with_capacity(words.len());
    for (v, degree) in (0u32..).zip(words) {
        addr.push(packer.place(v, degree as usize)?);
    }
    let padding_words = packer.padding_words + packer.open.drain_words() as u64;
    Ok(Addresses { addr, pages: packer.pages, padding_words })
}

/// A page that lists are put into.
#[derive(Clone, Copy, Debug)]
struct Open {
    page: u32,
    /// Words used by lists.
    used: u16,
}

struct Packer {
    layout: Layout,
    open: FreeSpace,
    /// Pages so far.
    pages: u32,
    /// Words used by lists, all pages together.
    listed_words: u64,
    /// (page, vertex) in order of placement; none when pages are not asked for their lists.
    placed: Option<Vec<(u32, u32)>>,
    padding_words: u64,
    /// Pages that addresses and numbers of pages reach.
    pages_max: u32,
}

impl Packer {
    fn new(layout: Layout, window: usize) -> Self {
        Packer {
            layout,
            open: FreeSpace::new(layout.capacity_words(), window),
            pages: 0,
            listed_words: 0,
            placed: Some(Vec::new()),
            padding_words: 0,
            pages_max: u32::try_from((1u64 << ADDR_BITS) / layout.page_words() as u64)
                .unwrap_or(u32::MAX),
        }
    }

    fn place(&mut self, v: u32, degree: usize) -> Result<u64> {
        if degree == 0 {
            Ok(0)
        } else if degree <= self.layout.piece_words() {
            self.place_short(v, degree)
        } else {
            self.place_long(v, degree)
        }
    }

    fn place_short(&mut self, v: u32, degree: usize) -> Result<u64> {
        let need = degree + ENTRY_WORDS;
        let (open, free) = match self.open.take_best(need) {
            Some(found) => found,
            None => (self.new_page()?, self.layout.capacity_words()),
        };
        let filled = self.put(open, v, degree);
        self.reopen(filled, free - need);
        Ok(u64::from(open.page) * self.layout.page_words() as u64 + u64::from(open.used))
    }

    fn place_long(&mut self, v: u32, degree: usize) -> Result<u64> {
        let piece_words = self.layout.piece_words();
        let first = self.new_page()?;
        self.put(first, v, piece_words);
        let mut rest = degree - piece_words;
        while rest > 0 {
            let (open, len) = (self.new_page()?, rest.min(piece_words));
            let filled = self.put(open, v, len);
            rest -= len;
            if rest == 0 {
                let slack = if mutant!("graph_pack_overfull") { 3 } else { 0 };
                self.reopen(filled, piece_words - len + slack);
            }
        }
        Ok(u64::from(first.page) * self.layout.page_words() as u64)
    }

    fn new_page(&mut self) -> Result<Open> {
        if self.pages >= self.pages_max {
            let advice = match self.pages_max {
                u32::MAX => "choose a larger page size",
                _ => "a graph file addresses 4 TiB of them; split the graph",
            };
            let context = format!("lists take more than {} pages: {advice}", self.pages_max);
            return Err(Error::new(Kind::Argument, context));
        }
        self.pages += 1;
        Ok(Open { page: self.pages - 1, used: 0 })
    }

    /// Puts `len` words of a list behind those of `open`; answers the page with them.
    fn put(&mut self, open: Open, v: u32, len: usize) -> Open {
        let Open { page, used } = open;
        if let Some(placed) = &mut self.placed {
            placed.push((page, v));
        }
        let piece_words = self.layout.piece_words();
        debug_assert!(usize::from(used) + len <= piece_words, "page {page}: {len} from {used}");
        self.listed_words += len as u64;
        Open { page, used: used + len as u16 }
    }

    /// Keeps a page open for later lists if one could still fit; closes the fullest of too many.
    fn reopen(&mut self, open: Open, free: usize) {
        if free <= ENTRY_WORDS {
            self.padding_words += free as u64;
        } else {
            self.padding_words += self.open.insert(open, free) as u64;
        }
    }

    fn finish(mut self, addr: Vec<u64>) -> Plan {
        self.padding_words += self.open.drain_words() as u64;
        let pages = self.pages as usize;
        let in_order = self.placed.unwrap_or_default();
        let entries = (ENTRY_WORDS * in_order.len()) as u64;
        let taken = self.listed_words + entries + self.padding_words;
        debug_assert_eq!(taken, pages as u64 * self.layout.capacity_words() as u64, "words");
        let mut first = vec![0u32; pages + 1];
        for &(p, _) in &in_order {
            first[p as usize + 1] += 1;
        }
        for p in 0..pages {
            first[p + 1] += first[p];
        }
        let mut cursor = first.clone();
        let mut placed = vec![0u32; in_order.len()];
        for &(p, v) in &in_order {
            placed[cursor[p as usize] as usize] = v;
            cursor[p as usize] += 1;
        }
        Plan { addr, pages: self.pages, placed, first, padding_words: self.padding_words }
    }
}

/// Open pages by how many words they have free, with a bitmap of the sizes present.
struct FreeSpace {
    by_free: Vec<Vec<Open>>,
    present: Vec<u64>,
    count: usize,
    window: usize,
}

impl FreeSpace {
    fn new(capacity: usize, window: usize) -> Self {
        assert!(window > 0, "a planner keeps at least one page open");
        FreeSpace {
            by_free: vec![Vec::new(); capacity + 1],
            present: vec![0; capacity / 64 + 1],
            count: 0,
            window,
        }
    }

    /// The smallest size of at least `need` words that some page has free.
    fn smallest(&self, need: usize) -> Option<usize> {
        let (mut word, mut mask) = (need / 64, !0u64 << (need % 64));
        while let Some(&bits) = self.present.get(word) {
            if bits & mask != 0 {
                return Some(word * 64 + (bits & mask).trailing_zeros() as usize);
            }
            (word, mask) = (word + 1, !0);
        }
        None
    }

    fn pop(&mut self, free: usize) -> Open {
        let pages = &mut self.by_free[free];
        let page = pages.pop().expect("invariant: the bitmap tells which sizes are present");
        if pages.is_empty() {
            self.present[free / 64] &= !(1 << (free % 64));
        }
        self.count -= 1;
        page
    }

    fn take_best(&mut self, need: usize) -> Option<(Open, usize)> {
        let free = self.smallest(need)?;
        Some((self.pop(free), free))
    }

    /// Adds a page; returns the words lost by closing the fullest one, if the window was full.
    fn insert(&mut self, open: Open, free: usize) -> usize {
        self.by_free[free].push(open);
        self.present[free / 64] |= 1 << (free % 64);
        self.count += 1;
        if self.count <= self.window {
            return 0;
        }
        let fullest = self.smallest(0).expect("invariant: a page was just added");
        self.pop(fullest);
        fullest
    }

    fn drain_words(&mut self) -> usize {
        let words = self.by_free.iter().enumerate().map(|(free, pages)| free * pages.len()).sum();
        self.by_free.iter_mut().for_each(Vec::clear);
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_pages_than_addresses_reach_are_refused() {
        for (page_bytes, most) in [(512, u32::MAX), (4096, 1 << 30), (65536, 1 << 26)] {
            let layout = Layout::new(page_bytes).unwrap();
            let mut packer = Packer::new(layout, 4);
            assert_eq!(packer.pages_max, most);
            packer.pages_max = 2;
            assert!(packer.place(0, layout.piece_words()).is_ok());
            assert!(packer.place(1, layout.piece_words()).is_ok());
            let e = packer.place(2, layout.piece_words()).unwrap_err();
            assert!(e.kind() == Kind::Argument && e.to_string().contains("2 pages"), "{e}");
        }
    }

    #[test]
    fn best_fit_fills_the_hole_that_fits_best() {
        let layout = Layout::new(512).unwrap();
        let plan = plan(&[100, 60, 60, 20, 58, 0, 300], layout, 4).unwrap();
        let page = |v: usize| plan.addr[v] / 128;
        assert_eq!((page(0), page(1), page(2)), (0, 1, 1));
        assert_eq!((page(3), plan.addr[3] % 128), (0, 100), "the hole of 22 words");
        assert_eq!((page(4), plan.addr[5]), (2, 0));
        assert_eq!((plan.addr[6], plan.pages), (3 * 128, 6));
        assert_eq!(plan.in_page(0), [0, 3]);
        assert_eq!(plan.in_page(5), [6]);
        let lists: u32 = [100, 60, 60, 20, 58, 300].iter().sum();
        let entries = 5 + 3;
        let rest = u64::from(plan.pages) * 124 - u64::from(lists) - 2 * entries;
        assert_eq!(plan.padding_words, rest);
    }
}
