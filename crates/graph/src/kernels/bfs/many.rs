//! Many searches at once on one thread: their steps side by side in one ring.
//!
//! Each round does one step of every search that has not ended: first the lists of all that go
//! down, then the fronts of lists of all that go up, then the rest of those lists. While one
//! search waits for a read another one's is used, so that what is latency for a search alone
//! becomes throughput.
//!
//! Invariants
//! - Each search has a state of its own and the answer it would have alone. Checked by
//!   `many_searches_at_once_verify_on_every_medium`.
//! - One thread: nothing here is shared. Checked by `run_together`.

use std::cell::{Cell, RefCell};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use super::{Bfs, Down, Step, UpHeads, UpLists, lock};
use crate::edges::{Edges, HeadWork, Item, ListWork, Span, Verdict};
use crate::error::Result;
use crate::format::Direction;
use crate::kernels::hubs::VertexShare;
use crate::kernels::team::{Member, Stepped};

/// Searches from `sources`, one in each of as many states; for a team of one.
pub(super) fn run_together<E: Edges>(
    searches: &[Bfs<'_>],
    me: Member<'_>,
    edges: &E,
    sources: &[u32],
) -> Stepped {
    assert!(me.is_alone() && sources.len() <= searches.len(), "one thread, a state a search");
    let searches = &searches[..sources.len()];
    let span = edges.span_vertices();
    for (search, &source) in searches.iter().zip(sources) {
        search.clear(0);
        search.start(source, span);
    }
    loop {
        let those = |step| searches.iter().filter(move |s| s.step() == step).collect::<Vec<_>>();
        let (down, up) = (those(Step::Down), those(Step::Up));
        if down.is_empty() && up.is_empty() {
            return Ok(());
        }
        me.all(|| go_down(&down, edges))?;
        me.all(|| go_up(&up, span, edges))?;
        down.iter().chain(&up).for_each(|search| search.decide(span));
    }
}

fn go_down<E: Edges>(searches: &[&Bfs<'_>], edges: &E) -> Result<()> {
    if searches.is_empty() {
        return Ok(());
    }
    let queues = searches.iter().map(|s| s.queue.read().unwrap_or_else(PoisonError::into_inner));
    let queues: Vec<_> = queues.collect();
    let mut found: Vec<_> = searches.iter().map(|s| lock(&s.found[0])).collect();
    let works = searches.iter().zip(&queues).zip(&mut found).map(|((&bfs, queue), found)| {
        found.clear();
        let queue = VertexShare::new(queue, &bfs.cursor, (&bfs.hubs, 0));
        let degree_min = bfs.degree_min.load(Relaxed);
        let (found, arcs) = (RefCell::new(&mut **found), Cell::new(0));
        Down::<false> { bfs, queue, found, arcs, degree_min }
    });
    let many = Many::new(works.collect());
    edges.lists(Direction::Out, &many)?;
    many.works.iter().for_each(Down::count_arcs);
    drop(many);
    for (search, found) in searches.iter().zip(&found) {
        search.awake.fetch_add(found.len() as u64, Relaxed);
    }
    Ok(())
}

fn go_up<E: Edges>(searches: &[&Bfs<'_>], span: u32, edges: &E) -> Result<()> {
    if searches.is_empty() {
        return Ok(());
    }
    let heads = Many::new(searches.iter().map(|s| s.up_heads::<false>(span)).collect());
    edges.heads(Direction::In, &heads)?;
    let rests: Vec<_> = heads.works.into_iter().map(UpHeads::into_rest).collect();
    let lists = Many::new(rests.iter().map(|rest| rest.lists()).collect());
    edges.lists(Direction::In, &lists)?;
    lists.works.iter().for_each(UpLists::count);
    Ok(())
}

/// Several pieces of work as one; the tag of an item is its work's place.
struct Many<W> {
    works: Vec<W>,
    at: Cell<usize>,
}

impl<W> Many<W> {
    fn new(works: Vec<W>) -> Self {
        Many { works, at: Cell::new(0) }
    }

    /// The work of a tag, which [`Many::pull`] gave.
    #[inline(always)]
    fn of(&self, tag: u32) -> &W {
        &self.works[tag as usize]
    }

    /// The next item of the first work that has one.
    #[inline(always)]
    fn pull<T>(&self, next: impl Fn(&W) -> Option<T>) -> Option<(u32, T)> {
        loop {
            let at = self.at.get();
            if let Some(item) = next(self.works.get(at)?) {
                return Some((at as u32, item));
            }
            self.at.set(at + 1);
        }
    }
}

impl<W: HeadWork<Tag = ()>> HeadWork for Many<W> {
    type Tag = u32;

    #[inline(always)]
    fn next(&self) -> Option<(u32, Span)> {
        self.pull(|work| work.next().map(|((), span)| span))
    }

    #[inline(always)]
    fn want(&self, tag: u32, span: Span, k: u32) -> Option<Span> {
        self.of(tag).want((), span, k)
    }

    #[inline(always)]
    fn unit(&self, tag: u32, part: Span, k: u32, words: &[u32]) -> Verdict {
        self.of(tag).unit((), part, k, words)
    }

    #[inline(always)]
    fn done(&self, tag: u32, span: Span, units: u32) {
        self.of(tag).done((), span, units);
    }
}

impl<W: ListWork<Tag = ()>> ListWork for Many<W> {
    type Tag = u32;
    const FROM_THE_FRONT: bool = W::FROM_THE_FRONT;

    #[inline(always)]
    fn next(&self) -> Option<(u32, Item)> {
        self.pull(|work| work.next().map(|((), item)| item))
    }

    fn reads_max(&self, most: u64, reads: &dyn Fn(u32) -> u64) -> Option<u64> {
        let each = |work: &W| work.reads_max(most, reads);
        self.works.iter().map(each).sum::<Option<u64>>().map(|sum| sum.min(most))
    }

    #[inline(always)]
    fn is_idle(&self, tag: u32, vertex: u32, degree: u32) -> bool {
        self.of(tag).is_idle((), vertex, degree)
    }

    #[inline(always)]
    fn peek(&self, ahead: u64) -> Option<u32> {
        self.works.get(self.at.get())?.peek(ahead)
    }

    #[inline(always)]
    fn warm(&self, words: &[u32]) {
        if let Some(work) = self.works.get(self.at.get()) {
            work.warm(words);
        }
    }

    #[inline(always)]
    fn words(&self, tag: u32, vertex: u32, words: &[u32]) -> Verdict {
        self.of(tag).words((), vertex, words)
    }
}
