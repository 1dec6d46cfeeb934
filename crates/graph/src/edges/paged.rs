//! Lists read by whole pages, of which some are kept: for media whose reads are dear.
//!
//! - A list in a page that is kept costs no read. One in a page that another context is reading
//!   waits for that read, so the lists of a page that are asked for together cost one read.
//! - Pages are replaced by second chance. A page that serves a list of a hub, a vertex of
//!   [`HUB`] times the mean degree or more, is pinned until half of the cache is.
//! - Fronts of lists and streams of pages are read as without a cache.
//!
//! Lifecycle of a page: absent, asked for, kept, absent. A run that fails leaves none asked for.
//!
//! Invariants
//! - A kept page was verified against its trailer. Checked by
//!   `kernels_over_a_cache_of_any_size_give_right_answers`.
//! - No more pages are kept than the cache has room for, two at least. Checked by
//!   `pages_are_replaced_by_second_chance_and_hubs_stay`.
//! - A context holds no borrow of the cache across an await point. Checked by
//!   `kernels_over_a_cache_of_any_size_give_right_answers`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use littoral_base::mutant;
use littoral_device::flash::any::AnyDevice;
use littoral_device::flash::cached::Cached;

use super::phase::Phase;
use super::ringed::{Halt, Ringed, Run};
use super::{Edges, HeadWork, ListWork, PageWork, Place, Traffic, Verdict};
use crate::error::Result;
use crate::format::Direction;
use crate::format::file::GraphFile;
use crate::format::page::{PageId, PageView};

/// A vertex with this many times the mean degree is a hub.
const HUB: u64 = 16;

/// A page that is not kept.
const ABSENT: u32 = u32::MAX;
/// A page that is being read.
const ASKED: u32 = u32::MAX - 1;

/// A kept page.
#[derive(Clone, Copy, Debug)]
struct Frame {
    stored: usize,
    page: u32,
    /// Used since the hand last passed.
    is_recent: bool,
    is_pinned: bool,
}

/// Kept pages; see the module's page.
#[derive(Debug)]
struct Cache {
    page_words: usize,
    room: usize,
    words: Vec<u32>,
    frames: Vec<Frame>,
    pinned: usize,
    hand: usize,
    /// By direction: each page's frame, [`ABSENT`] or [`ASKED`].
    places: [Vec<u32>; 2],
}

impl Cache {
    fn new(bytes: u64, page_words: usize) -> Cache {
        let room = (bytes as usize / (page_words * 4)).max(2);
        let (words, frames, places) = (Vec::new(), Vec::new(), Default::default());
        Cache { page_words, room, words, frames, pinned: 0, hand: 0, places }
    }

    /// Makes the table of a direction's pages, once.
    fn prepare(&mut self, stored: usize, pages: u32) {
        if self.places[stored].is_empty() {
            self.places[stored] = vec![ABSENT; pages as usize];
        }
    }

    fn page(&self, frame: u32) -> &[u32] {
        let from = frame as usize * self.page_words;
        &self.words[from..from + self.page_words]
    }

    /// Notes that a kept page serves a list, a hub's or not.
    fn touch(&mut self, frame: u32, is_hub: bool) {
        let room = self.room;
        let frame = &mut self.frames[frame as usize];
        frame.is_recent = true;
        if is_hub && !frame.is_pinned && 2 * (self.pinned + 1) <= room {
            frame.is_pinned = true;
            self.pinned += 1;
        }
    }

    /// Keeps a page; answers its frame.
    fn keep(&mut self, stored: usize, page: u32, words: &[u32]) -> u32 {
        debug_assert_eq!(words.len(), self.page_words, "page {page} is kept whole");
        debug_assert!(self.places[stored][page as usize] >= ASKED, "page {page} is kept twice");
        let frame = Frame { stored, page, is_recent: true, is_pinned: false };
        let at = if self.frames.len() < self.room {
            self.frames.push(frame);
            self.words.extend_from_slice(words);
            self.frames.len() - 1
        } else {
            let at = self.victim();
            let old = std::mem::replace(&mut self.frames[at], frame);
            debug_assert_eq!(self.places[old.stored][old.page as usize], at as u32, "page lost");
            self.places[old.stored][old.page as usize] = ABSENT;
            let from = at * self.page_words;
            self.words[from..from + self.page_words].copy_from_slice(words);
            at
        };
        self.places[stored][page as usize] = at as u32;
        at as u32
    }

    /// The next frame that is neither pinned nor used since the hand last passed.
    fn victim(&mut self) -> usize {
        loop {
            let at = self.hand;
            self.hand = (at + 1) % self.frames.len();
            let frame = &mut self.frames[at];
            if !frame.is_pinned && !std::mem::replace(&mut frame.is_recent, false) {
                return at;
            }
        }
    }
}

/// A ring over a device, and a cache of pages for lists.
pub(crate) struct Paged<'g> {
    graph: &'g GraphFile,
    ringed: Ringed<'g, Cached<AnyDevice>>,
    cache: RefCell<Cache>,
    /// Parts of lists that needed no read of their own.
    hits: Cell<u64>,
    hub_degree: u32,
}

impl<'g> Paged<'g> {
    /// `ringed` with a cache of `bytes` bytes of the pages of `graph`.
    pub(crate) fn new(
        graph: &'g GraphFile,
        ringed: Ringed<'g, Cached<AnyDevice>>,
        bytes: u64,
    ) -> Self {
        let mean = graph.header().arcs / u64::from(graph.vertices());
        let hub_degree = (HUB * mean.max(1)).min(u64::from(u32::MAX)) as u32;
        let cache = RefCell::new(Cache::new(bytes, graph.layout().page_words()));
        Paged { graph, ringed, cache, hits: Cell::new(0), hub_degree }
    }

    /// Reads every list of `work` by pages.
    fn by_pages<W: ListWork>(&self, place: Place<'_>, work: &W) -> Result<()> {
        let stored = place.stored(self.graph) as usize;
        self.cache.borrow_mut().prepare(stored, place.page_count());
        let lists = Lists {
            paged: self,
            place,
            stored,
            work,
            again: RefCell::default(),
            asked: RefCell::default(),
        };
        let contexts = self.ringed.busy(place, work, place.layout.page_words() as u32);
        let parts = self.ringed.parts_at_once(place);
        let left = || lists.again.borrow().len() as u64;
        let outcome = self.ringed.run_lists(contexts, parts, work, left, async |cx| {
            let mut words = Vec::new();
            while let Some((tag, part)) = lists.next() {
                let Some(page) = lists.serve_or_ask(tag, part)? else { continue };
                words.clear();
                self.ringed.page_words(&cx, place, page, &mut words).await?;
                lists.arrived(page, &words)?;
            }
            Ok(())
        });
        // Where the run failed, pages that were asked for are absent again.
        for page in lists.asked.borrow().keys() {
            self.cache.borrow_mut().places[stored][*page as usize] = ABSENT;
        }
        outcome
    }
}

/// Lists, each from the part on that is to be served next.
type Waiting<T> = Vec<(T, Run)>;

/// The lists of one call, their parts page by page.
struct Lists<'p, 'g, W: ListWork> {
    paged: &'p Paged<'g>,
    place: Place<'p>,
    stored: usize,
    work: &'p W,
    /// Lists of which a part is left.
    again: RefCell<Waiting<W::Tag>>,
    /// Lists that wait for each page that is being read.
    asked: RefCell<BTreeMap<u32, Waiting<W::Tag>>>,
}

impl<W: ListWork> Lists<'_, '_, W> {
    /// A list, or the rest of one.
    fn next(&self) -> Option<(W::Tag, Run)> {
        let again = self.again.borrow_mut().pop();
        again.or_else(|| self.paged.ringed.next_run(self.place, self.work))
    }

    fn page_of(&self, run: Run) -> u32 {
        (run.addr / self.place.layout.page_words() as u64) as u32
    }

    /// Serves the part of a list that lies in one page, or lets it wait for the page; answers the
    /// page where the caller is to read it.
    fn serve_or_ask(&self, tag: W::Tag, run: Run) -> std::result::Result<Option<u32>, Halt> {
        let page = self.page_of(run);
        let frame = self.paged.cache.borrow().places[self.stored][page as usize];
        match frame {
            ABSENT => {
                self.paged.cache.borrow_mut().places[self.stored][page as usize] = ASKED;
                self.asked.borrow_mut().insert(page, vec![(tag, run)]);
                return Ok(Some(page));
            }
            ASKED => {
                self.paged.count_hit();
                self.asked.borrow_mut().entry(page).or_default().push((tag, run));
            }
            frame => {
                self.paged.count_hit();
                self.serve(frame, tag, run)?;
            }
        }
        Ok(None)
    }

    /// Keeps a page that has been read and serves the lists that wait for it.
    fn arrived(&self, page: u32, words: &[u32]) -> std::result::Result<(), Halt> {
        if !mutant!("graph_cached_pages_unverified") {
            let view = PageView::from_words(words);
            // A page that was verified before and is read again may have changed on the way.
            if !self.paged.ringed.verify(self.place, page, view)? {
                let id = PageId::lists(self.place.stored(self.paged.graph), page);
                self.paged.graph.verify_page(id, words).map_err(Halt)?;
            }
        }
        let frame = self.paged.cache.borrow_mut().keep(self.stored, page, words);
        let waiting = self.asked.borrow_mut().remove(&page).unwrap_or_default();
        debug_assert!(!waiting.is_empty(), "page {page} was read for no list");
        waiting.into_iter().try_for_each(|(tag, run)| self.serve(frame, tag, run))
    }

    /// Hands the part of a list over that lies in a kept page.
    fn serve(&self, frame: u32, tag: W::Tag, run: Run) -> std::result::Result<(), Halt> {
        let is_hub = self.paged.graph.lists(self.place.direction).degree(run.vertex)
            >= self.paged.hub_degree;
        self.paged.cache.borrow_mut().touch(frame, is_hub);
        let mut rest = run;
        rest.take(run.in_page, self.place.layout);
        if !W::FROM_THE_FRONT && rest.left > 0 {
            self.again.borrow_mut().push((tag, rest));
        }
        let cache = self.paged.cache.borrow();
        let at = run.addr as usize % self.place.layout.page_words();
        let part = |from: usize| cache.page(frame).get(from..from + run.in_page as usize);
        let forged = || Halt(self.place.forged("the list of vertex", run.vertex.into()));
        let words = part(at).ok_or_else(forged)?;
        let verdict = if W::WEIGHTS {
            let weights = part(at + run.piece as usize).ok_or_else(forged)?;
            self.work.arcs(tag, run.vertex, words, weights)
        } else {
            self.work.words(tag, run.vertex, words)
        };
        match verdict {
            Verdict::More if W::FROM_THE_FRONT && rest.left > 0 => {
                self.again.borrow_mut().push((tag, rest));
                Ok(())
            }
            Verdict::More | Verdict::Enough => Ok(()),
            Verdict::Forged => Err(forged()),
        }
    }
}

impl Paged<'_> {
    fn count_hit(&self) {
        self.hits.set(self.hits.get() + 1);
    }
}

impl Edges for Paged<'_> {
    const FAST: bool = false;

    fn heads<W: HeadWork>(&self, direction: Direction, work: &W) -> Result<()> {
        self.ringed.heads(direction, work)
    }

    fn lists<W: ListWork>(&self, direction: Direction, work: &W) -> Result<()> {
        let place = Place::new(self.graph, direction);
        if W::WEIGHTS && !place.layout.is_paired() {
            // Weights lie in pages of their own, in files of version 1 alone.
            return self.ringed.lists(direction, work);
        }
        self.by_pages(place, work)
    }

    fn pages<W: PageWork>(&self, direction: Direction, work: &W) -> Result<()> {
        self.ringed.pages(direction, work)
    }

    fn span_vertices(&self) -> u32 {
        self.ringed.span_vertices()
    }

    fn traffic(&self) -> Traffic {
        Traffic { cache_hits_count: self.hits.get(), ..self.ringed.traffic() }
    }

    fn record(&self, on: bool) {
        self.ringed.record(on);
    }

    fn phases(&self) -> Vec<Phase> {
        self.ringed.phases()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_replaced_by_second_chance_and_hubs_stay() {
        let mut cache = Cache::new(3 * 16, 4);
        cache.prepare(0, 10);
        let frames: Vec<u32> = (0..3).map(|page| cache.keep(0, page, &[page; 4])).collect();
        assert_eq!(frames, [0, 1, 2]);
        cache.touch(0, true);
        // All are recent: the hand clears them and takes the first that is not pinned.
        assert_eq!(cache.keep(0, 7, &[7; 4]), 1);
        assert_eq!(cache.places[0][..3], [0, ABSENT, 2]);
        cache.touch(2, true);
        assert_eq!(cache.pinned, 1, "half of the room at most");
        cache.touch(2, false);
        cache.keep(0, 8, &[8; 4]);
        assert_eq!((cache.page(0), cache.frames.len()), (&[0; 4][..], 3));
        assert_eq!(cache.places[0].iter().filter(|&&f| f != ABSENT).count(), 3);
        assert_eq!(Cache::new(1, 1024).room, 2, "two pages at least");
    }
}
