//! Edges in DRAM: the whole graph file in one region, read as slices.
//!
//! This is the denominator of every comparison with a medium, so it is not a straw man: scans run
//! over slices, point reads are prefetched two steps ahead (table entry, then list, then what the
//! list points to), and pages are prefetched past the caches, since nobody reads one twice soon.

use std::cell::Cell;

use super::edges::{Edges, HeadWork, Item, ListWork, PageWork, Place, Traffic, Verdict};
use super::raw::{prefetch, prefetch_once};
use crate::error::{Error, Kind, Result};
use crate::format::file::GraphFile;
use crate::format::page::PageView;
use crate::format::{Direction, HEAD_BLOCK_VERTICES};

/// How many items ahead a list's table entry, its first line, and its words' targets are fetched.
const AHEAD_ENTRY: u64 = 24;
const AHEAD_LIST: u64 = 12;
const AHEAD_WARM: u64 = 5;
/// How many words ahead of the page being read the page stream is fetched.
const AHEAD_PAGE_WORDS: usize = 1024;
const LINE_WORDS: usize = 16;

/// One thread's view of a graph in DRAM.
pub(crate) struct Resident<'g> {
    graph: &'g GraphFile,
    words: &'g [u32],
    reads: Cell<u64>,
    read_words: Cell<u64>,
}

impl<'g> Resident<'g> {
    /// The graph whose file is `bytes`.
    ///
    /// # Errors
    /// `Kind::Device` when that is not the whole file, or not aligned to words.
    pub(crate) fn new(graph: &'g GraphFile, bytes: &'g [u8]) -> Result<Self> {
        let words: &[u32] = bytemuck::try_cast_slice(bytes)
            .map_err(|e| Error::new(Kind::Device, format!("graph in memory: {e}")))?;
        if words.len() as u64 * 4 != graph.header().file_bytes {
            return Err(Error::new(Kind::Device, "the bytes in memory are not the graph's file"));
        }
        Ok(Resident { graph, words, reads: Cell::new(0), read_words: Cell::new(0) })
    }

    #[inline(always)]
    fn count(&self, words: usize) {
        self.reads.set(self.reads.get() + 1);
        self.read_words.set(self.read_words.get() + words as u64);
    }

    #[inline(always)]
    fn at(&self, addr: u64, words: usize) -> &'g [u32] {
        let from = (addr / 4) as usize;
        &self.words[from..from + words]
    }

    /// Hands one list over, piece by piece.
    #[inline(always)]
    fn list<W: ListWork>(&self, place: Place<'_>, work: &W, item: Item) -> Result<()> {
        let list = place.lists.locate(item.vertex);
        for piece in place.layout.pieces(list.addr, list.degree) {
            let skip = item.skip.saturating_sub(piece.first).min(piece.len);
            let words = self.at(place.word_addr(piece.addr), piece.len as usize);
            let words = &words[skip as usize..];
            self.count(words.len());
            match work.words(item.vertex, words) {
                Verdict::More => {}
                Verdict::Enough => break,
                Verdict::Forged => {
                    return Err(place.forged("the list of vertex", item.vertex.into()));
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn look_ahead<W: ListWork>(&self, place: Place<'_>, work: &W) {
        if let Some(v) = work.peek(AHEAD_ENTRY) {
            prefetch(place.lists.table().entries(), v as usize);
        }
        if let Some(v) = work.peek(AHEAD_LIST) {
            let at = (place.word_addr(place.lists.locate(v).addr) / 4) as usize;
            prefetch(self.words, at);
            prefetch(self.words, at + LINE_WORDS);
        }
        if !W::FROM_THE_FRONT
            && let Some(v) = work.peek(AHEAD_WARM)
        {
            let list = place.lists.locate(v);
            let piece = place.layout.piece_words().min(list.degree as usize);
            work.warm(self.at(place.word_addr(list.addr), piece));
        }
    }
}

impl Edges for Resident<'_> {
    fn heads<W: HeadWork>(&self, direction: Direction, work: &W) -> Result<()> {
        let place = Place::new(self.graph, direction);
        while let Some(span) = work.next() {
            let units = place.units(span);
            for k in 0..units {
                let Some(part) = work.want(span, k) else { break };
                if part.len == 0 {
                    continue;
                }
                let words = self.at(place.unit_addr(part, k), part.len as usize);
                self.count(words.len());
                match work.unit(part, k, words) {
                    Verdict::More => {}
                    Verdict::Enough => break,
                    Verdict::Forged => {
                        return Err(place.forged("the block of vertex", span.first.into()));
                    }
                }
            }
            work.done(span, units);
        }
        Ok(())
    }

    fn lists<W: ListWork>(&self, direction: Direction, work: &W) -> Result<()> {
        let place = Place::new(self.graph, direction);
        while let Some(item) = work.next() {
            self.look_ahead(place, work);
            self.list(place, work, item)?;
        }
        Ok(())
    }

    fn pages<W: PageWork>(&self, direction: Direction, work: &W) -> Result<()> {
        let place = Place::new(self.graph, direction);
        let page_words = place.layout.page_words();
        while let Some(number) = work.next() {
            let addr = place.word_addr(u64::from(number) * page_words as u64);
            let page = self.at(addr, page_words);
            for line in (0..page_words).step_by(LINE_WORDS) {
                prefetch_once(page, AHEAD_PAGE_WORDS + line);
            }
            self.count(page_words);
            if work.page(PageView::from_words(page)) == Verdict::Forged {
                return Err(place.forged("page", number.into()));
            }
        }
        Ok(())
    }

    fn span_vertices(&self) -> u32 {
        HEAD_BLOCK_VERTICES as u32
    }

    fn traffic(&self) -> Traffic {
        Traffic {
            reads_count: self.reads.get(),
            read_bytes: 4 * self.read_words.get(),
            ..Traffic::default()
        }
    }
}
