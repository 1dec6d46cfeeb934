//! Edges in DRAM: the whole graph file in one region, read as slices.
//!
//! This is the denominator of every comparison with a medium, so it is not a straw man: scans run
//! over slices, point reads are prefetched two steps ahead (table entry, then list, then what the
//! list points to), and pages are prefetched ahead of the one being read.
//!
//! Which prefetch instruction is best depends on the processor: the non-temporal hint saves a
//! quarter of PageRank on one and doubles it on another. So unless a hint is given, the first
//! pages, and the first lists, are read with each hint in turn. The hint with the least median time
//! per line is kept for all threads ([`Hints`]). How far ahead is prefetched is the same on every
//! processor; no trial covers it.

use std::cell::{Cell, RefCell};
use std::sync::OnceLock;

use littoral_device::ticks;

use super::hint::Hint;
use super::raw::{prefetch, prefetch_by};
use super::verified::Verified;
use super::{Edges, HeadWork, ListWork, PageWork, Part, Place, Traffic, Verdict};
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

/// What trials on one graph have chosen: one choice per process and graph, whichever thread's trial
/// ends first.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    pages: OnceLock<Hint>,
    lists: OnceLock<Hint>,
}

/// Finds the best hint for pages or lists by reading the first of them with each hint in turn.
#[derive(Debug)]
struct Trial {
    chosen: Cell<Option<Hint>>,
    /// Items read with one hint before the next one's turn.
    block: u32,
    at: Cell<u32>,
    began: Cell<Option<u64>>,
    /// Lines read in the block under way.
    lines: Cell<u64>,
    /// Cost of each block: ticks of 1024 lines.
    costs: RefCell<[Vec<u64>; 3]>,
}

/// Blocks read with each hint; the median of their costs counts.
const TRIAL_ROUNDS: usize = 7;
/// Pages of a block: enough to fill the second-level cache, where there are as many.
const TRIAL_BLOCK_MAX: u32 = 256;
/// Lists of a block: a trial takes 21 of them, some 100 us.
const TRIAL_LISTS: u32 = 64;

impl Trial {
    /// A trial by blocks of `block` items, unless a hint is given.
    fn new(given: Option<Hint>, block: u32) -> Trial {
        Trial {
            chosen: Cell::new(given),
            block,
            at: Cell::new(0),
            began: Cell::new(None),
            lines: Cell::new(0),
            costs: RefCell::default(),
        }
    }

    /// A trial over `pages` pages.
    fn of_pages(given: Option<Hint>, pages: u32) -> Trial {
        Trial::new(given, (pages / 32).clamp(4, TRIAL_BLOCK_MAX))
    }

    /// The hint for the next item; `keep` hears what a trial that ends here has chosen.
    #[inline(always)]
    fn hint(&self, keep: impl Fn(Hint)) -> Hint {
        match self.chosen.get() {
            Some(hint) => hint,
            None => self.try_next(&keep),
        }
    }

    /// Notes that the item has `words` words.
    #[inline(always)]
    fn read(&self, words: usize) {
        if self.chosen.get().is_none() {
            self.lines.set(self.lines.get() + 1 + (words / LINE_WORDS) as u64);
        }
    }

    /// Which hint has turn number `turn`: the order changes from round to round.
    fn of_turn(turn: usize) -> usize {
        (turn + turn / 3) % 3
    }

    #[inline(never)]
    fn try_next(&self, keep: &dyn Fn(Hint)) -> Hint {
        let (turn, item) = ((self.at.get() / self.block) as usize, self.at.get() % self.block);
        if item == 0 {
            self.end_block(turn);
            if let Some(hint) = self.chosen.get() {
                keep(hint);
            }
        }
        self.at.set(self.at.get() + 1);
        self.chosen.get().unwrap_or(Hint::ALL[Self::of_turn(turn)])
    }

    /// Notes the cost of the block before `turn`, and chooses after the last.
    fn end_block(&self, turn: usize) {
        let now = ticks::now();
        let lines = self.lines.replace(0).max(1);
        let mut costs = self.costs.borrow_mut();
        if let Some(began) = self.began.replace(Some(now)) {
            costs[Self::of_turn(turn - 1)].push((now - began).saturating_mul(1024) / lines);
        }
        if turn >= 3 * TRIAL_ROUNDS {
            let median = |costs: &mut Vec<u64>| {
                costs.sort_unstable();
                costs.get(costs.len() / 2).copied().unwrap_or(u64::MAX)
            };
            let medians: Vec<u64> = costs.iter_mut().map(median).collect();
            let best = (0..3).min_by_key(|&i| medians[i]).unwrap_or(1);
            self.chosen.set(Some(Hint::ALL[best]));
        }
    }

    /// A stream begins: the block that the last one left unfinished is read anew.
    fn restart(&self) {
        self.at.set(self.at.get() / self.block * self.block);
        self.began.set(None);
        self.lines.set(0);
    }
}

/// One thread's view of a graph in DRAM.
pub(crate) struct Resident<'g> {
    graph: &'g GraphFile,
    words: &'g [u32],
    reads: Cell<u64>,
    read_words: Cell<u64>,
    hints: &'g Hints,
    verified: &'g Verified,
    pages_verified: Cell<u64>,
    list_trial: Trial,
    page_trial: Trial,
}

impl<'g> Resident<'g> {
    /// The graph whose file is `bytes`, prefetched by `hint`; without one, by what trials find best
    /// and `hints` keeps.
    ///
    /// # Errors
    /// `Kind::Device` when that is not the whole file, or not aligned to words.
    pub(crate) fn new(
        graph: &'g GraphFile,
        bytes: &'g [u8],
        hint: Option<Hint>,
        hints: &'g Hints,
        verified: &'g Verified,
    ) -> Result<Self> {
        let words: &[u32] = bytemuck::try_cast_slice(bytes)
            .map_err(|e| Error::new(Kind::Device, format!("graph in memory: {e}")))?;
        if words.len() as u64 * 4 != graph.header().file_bytes {
            return Err(Error::new(Kind::Device, "the bytes in memory are not the graph's file"));
        }
        let pages = Place::new(graph, Direction::In).page_count();
        Ok(Resident {
            graph,
            words,
            reads: Cell::new(0),
            read_words: Cell::new(0),
            hints,
            verified,
            pages_verified: Cell::new(0),
            list_trial: Trial::new(hint.or(hints.lists.get().copied()), TRIAL_LISTS),
            page_trial: Trial::of_pages(hint.or(hints.pages.get().copied()), pages),
        })
    }

    /// Keeps what a trial chose, unless another thread's has.
    fn keep(&self, kept: &OnceLock<Hint>, what: &str, hint: Hint) {
        if kept.set(hint).is_ok() {
            log::info!("{what} in DRAM are read with {}, chosen by trial", hint.name());
        }
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

    /// Hands a list or a part of one over, piece by piece.
    #[inline(always)]
    fn list<W: ListWork>(
        &self,
        place: Place<'_>,
        work: &W,
        (tag, item): (W::Tag, Part),
    ) -> Result<()> {
        let list = place.lists.locate(item.vertex);
        if work.is_idle(tag, item.vertex, list.degree) {
            return Ok(());
        }
        let end = item.skip.saturating_add(item.len);
        // What begins amid a list begins with a piece, or with a word of the first one.
        let before = match item.skip {
            0 => 0,
            skip => skip / place.layout.piece_arcs() as u32,
        };
        for piece in place.layout.pieces(list.addr, list.degree).skip(before as usize) {
            if piece.first >= end {
                break;
            }
            let skip = item.skip.saturating_sub(piece.first).min(piece.len);
            let words = self.at(place.word_addr(piece.addr), piece.len as usize);
            let words = &words[skip as usize..];
            self.count(words.len() * (1 + usize::from(W::WEIGHTS)));
            self.list_trial.read(words.len() * (1 + usize::from(W::WEIGHTS)));
            let verdict = if W::WEIGHTS {
                let weights = place.weight_addr(piece.addr, piece.len);
                let weights = &self.at(weights, piece.len as usize)[skip as usize..];
                work.arcs(tag, item.vertex, words, weights)
            } else {
                work.words(tag, item.vertex, words)
            };
            match verdict {
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
        let hint = self.list_trial.hint(|hint| self.keep(&self.hints.lists, "lists", hint));
        if let Some(v) = work.peek(AHEAD_LIST) {
            let at = (place.word_addr(place.lists.locate(v).addr) / 4) as usize;
            prefetch_by(hint, self.words, at);
            prefetch_by(hint, self.words, at + LINE_WORDS);
        }
        if !W::FROM_THE_FRONT
            && let Some(v) = work.peek(AHEAD_WARM)
        {
            let list = place.lists.locate(v);
            let piece = place.layout.piece_arcs().min(list.degree as usize);
            work.warm(self.at(place.word_addr(list.addr), piece));
        }
    }
}

impl Edges for Resident<'_> {
    fn heads<W: HeadWork>(&self, direction: Direction, work: &W) -> Result<()> {
        let place = Place::new(self.graph, direction);
        while let Some((tag, span)) = work.next() {
            let units = place.units(span);
            for k in 0..units {
                let Some(part) = work.want(tag, span, k) else { break };
                if part.len == 0 {
                    continue;
                }
                let words = self.at(place.unit_addr(part, k), part.len as usize);
                self.count(words.len());
                match work.unit(tag, part, k, words) {
                    Verdict::More => {}
                    Verdict::Enough => break,
                    Verdict::Forged => {
                        return Err(place.forged("the block of vertex", span.first.into()));
                    }
                }
            }
            work.done(tag, span, units);
        }
        Ok(())
    }

    fn lists<W: ListWork>(&self, direction: Direction, work: &W) -> Result<()> {
        let place = Place::new(self.graph, direction);
        self.list_trial.restart();
        while let Some(part) = work.next_part() {
            self.list(place, work, part)?;
        }
        while let Some((tag, item)) = work.next() {
            self.look_ahead(place, work);
            self.list(place, work, (tag, item.into()))?;
        }
        Ok(())
    }

    fn pages<W: PageWork>(&self, direction: Direction, work: &W) -> Result<()> {
        let place = Place::new(self.graph, direction);
        let page_words = place.layout.page_words();
        let verified = self.verified.of(self.graph, place);
        self.page_trial.restart();
        while let Some(number) = work.next() {
            let hint = self.page_trial.hint(|hint| self.keep(&self.hints.pages, "pages", hint));
            let addr = place.word_addr(u64::from(number) * page_words as u64);
            let page = self.at(addr, page_words);
            if hint != Hint::None {
                for line in (0..page_words).step_by(LINE_WORDS) {
                    prefetch_by(hint, page, AHEAD_PAGE_WORDS + line);
                }
            }
            self.count(page_words);
            self.page_trial.read(page_words);
            let page = PageView::from_words(page);
            let is_new = verified.check(number, page)?;
            self.pages_verified.set(self.pages_verified.get() + u64::from(is_new));
            if work.page(page) == Verdict::Forged {
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
            pages_verified_count: self.pages_verified.get(),
            page_hint: self.page_trial.chosen.get(),
            list_hint: self.list_trial.chosen.get(),
            ..Traffic::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hint_is_tried_in_every_place_of_a_round_before_one_is_chosen() {
        let trial = Trial::of_pages(None, 320);
        assert_eq!(trial.block, 10);
        let kept = Cell::new(None);
        let hint = || trial.hint(|hint| kept.set(Some(hint)));
        let mut turns = Vec::new();
        while trial.chosen.get().is_none() {
            turns.push(hint());
        }
        assert_eq!(kept.get(), trial.chosen.get());
        let blocks: Vec<Hint> = turns.chunks(10).map(|c| c[0]).collect();
        assert!(turns.chunks(10).all(|c| c.iter().all(|h| *h == c[0])), "one hint a block");
        assert_eq!(
            &blocks[..6],
            &[Hint::None, Hint::T0, Hint::Nta, Hint::T0, Hint::Nta, Hint::None,]
        );
        for hint in Hint::ALL {
            assert_eq!(blocks[..21].iter().filter(|b| **b == hint).count(), TRIAL_ROUNDS);
        }
        assert_eq!(hint(), trial.chosen.get().unwrap());
    }

    #[test]
    fn the_quickest_hint_is_chosen_and_a_given_one_is_not_tried() {
        let trial = Trial::of_pages(None, 3200);
        for (i, ticks) in [500, 300, 400].into_iter().enumerate() {
            trial.costs.borrow_mut()[i] = vec![ticks; TRIAL_ROUNDS];
        }
        trial.end_block(3 * TRIAL_ROUNDS);
        assert_eq!(trial.chosen.get(), Some(Hint::T0));
        assert_eq!(Trial::new(Some(Hint::Nta), 9).hint(|_| ()), Hint::Nta);
    }

    #[test]
    fn a_block_that_a_stream_left_unfinished_is_not_timed() {
        let trial = Trial::of_pages(None, 320);
        (0..15).for_each(|_| assert!(Hint::ALL.contains(&trial.hint(|_| ()))));
        trial.restart();
        (0..6).for_each(|_| assert!(Hint::ALL.contains(&trial.hint(|_| ()))));
        let times: usize = trial.costs.borrow().iter().map(Vec::len).sum();
        assert_eq!(times, 1, "the first block and no other");
        assert_eq!(trial.hint(|_| ()), Hint::T0, "the second block is read anew");
    }

    #[test]
    fn a_block_of_long_lists_does_not_count_against_its_hint() {
        let trial = Trial::new(None, 1);
        // Two blocks take about as long; the one that read more lines is the cheaper one.
        trial.end_block(0);
        for (turn, lines) in [(1, 1_000_000), (2, 10)] {
            trial.lines.set(lines);
            trial.end_block(turn);
        }
        let costs = trial.costs.borrow();
        let (none, t0) = (costs[Trial::of_turn(0)][0], costs[Trial::of_turn(1)][0]);
        assert!(none < t0, "{none} {t0}");
    }
}
