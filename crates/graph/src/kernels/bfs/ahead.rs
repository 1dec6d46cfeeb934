//! Top-down steps in one run of the ring, each of which begins to read while the one before waits
//! for its last lists.
//!
//! It exists because a step by itself ends with a latency in which less and less is under way, and
//! a graph of high diameter has thousands of steps. It costs a copy of each list that arrives
//! early.
//!
//! ```text
//! queue  [ handed out ............ ]            lists under way, words come
//! found  [ handed out ahead . | ....... ]       read too; kept when they come, looked at later
//! ```
//!
//! Invariants
//! - Vertices are found level by level: a list of the next level is looked at when all of this
//!   level's have been. Checked by `levels_that_are_read_ahead_are_those_of_single_steps`.
//! - A list that was handed out is under way until its last word has come or it tells nothing new,
//!   so a level ends exactly once. Checked by the same, on devices that need several reads a list.
//! - The direction of each step is the one that single steps choose: lists are read ahead only where
//!   the next level goes top-down whatever the lists under way bring. Checked by
//!   `media_agree_on_what_is_deterministic`.

use std::cell::{Cell, RefCell};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use littoral_base::mutant;

use super::{ALPHA, Bfs, lock};
use crate::edges::raw::prefetch;
use crate::edges::{Edges, Item, ListWork, Place, Verdict, reads_of};
use crate::error::Result;
use crate::format::Direction;

/// Graphs with longer lists than this go bottom-up before they have many steps.
const DEGREE_MAX: u64 = 16;
/// Lists of the next level that are read ahead or kept, at most: more than a latency of a
/// millionth of seconds times any rate of reads keeps under way.
const AHEAD_MAX: usize = 1024;

/// A level's vertices, and what was asked of their lists. In cells: a borrow that is checked at
/// each list costs as much as reading ahead brings.
#[derive(Debug, Default)]
struct Level {
    /// How many vertices there are.
    len: Cell<usize>,
    /// How many of them were handed out.
    handed: Cell<usize>,
    /// Arcs of those.
    arcs_due: Cell<u64>,
    /// Arcs of those that have come, or tell nothing new.
    arcs: Cell<u64>,
}

/// Top-down steps, level by level.
pub(super) struct Ahead<'b> {
    bfs: &'b Bfs<'b>,
    /// The fewest arcs of a list of the level and of the next one that may lead to what is new.
    degrees_min: [Cell<u32>; 2],
    /// Vertices of the level and of the next one.
    rooms: [&'b [Cell<u32>]; 2],
    /// By room.
    levels: [Level; 2],
    /// Which of the rooms holds the level, the tag of its lists; the other one holds what it finds.
    side: Cell<usize>,
    /// Arcs of the graph that were not searched before the level.
    arcs_left: Cell<u64>,
    /// Levels that have ended.
    levels_ended: Cell<u32>,
    /// Vertices found by them but the last.
    reached: Cell<u64>,
    /// No further level is begun.
    has_ended: Cell<bool>,
    kept: RefCell<Kept>,
}

/// Lists of the next level that have come.
#[derive(Debug, Default)]
struct Kept {
    /// Vertex and number of words of each part.
    parts: Vec<(u32, u32)>,
    words: Vec<u32>,
    /// A vertex whose list had what is no vertex.
    forged: Option<u32>,
}

impl Bfs<'_> {
    /// Whether the top-down step that was chosen may be the first of several in one run.
    pub(super) fn may_read_ahead<E: Edges>(&self, edges: &E) -> bool {
        self.members == 1 && self.degree_max <= DEGREE_MAX && edges.reads_ahead()
    }

    /// Top-down steps, the one that was chosen and those behind it.
    pub(super) fn down_ahead<E: Edges>(&self, edges: &E) -> Result<()> {
        let mut queue = self.queue.write().unwrap_or_else(PoisonError::into_inner);
        let mut found = lock(&self.found[0]);
        let arcs_left = lock(&self.plan).arcs_left;
        let len = queue.len();
        // A level that goes down has no more arcs, and each finds a vertex at most.
        let most = (arcs_left / ALPHA).min(self.graph.vertices().into()) as usize;
        queue.resize(len.max(most), 0);
        found.resize(most, 0);
        let work = Ahead {
            bfs: self,
            degrees_min: [Cell::new(self.degree_min.load(Relaxed)), Cell::new(self.least())],
            rooms: [&mut queue[..], &mut found[..]]
                .map(|room| Cell::from_mut(room).as_slice_of_cells()),
            levels: [Level { len: Cell::new(len), ..Level::default() }, Level::default()],
            side: Cell::new(0),
            arcs_left: Cell::new(arcs_left),
            levels_ended: Cell::new(0),
            reached: Cell::new(0),
            has_ended: Cell::new(false),
            kept: RefCell::default(),
        };
        edges.lists(Direction::Out, &work)?;
        let last = 1 - work.side.get();
        let count = work.levels[last].len.get();
        if let Some(vertex) = work.kept.borrow().forged {
            let place = Place::new(self.graph, Direction::Out);
            return Err(place.forged("the list of vertex", vertex.into()));
        }
        assert!(work.has_ended.get(), "invariant: a run of levels ends with a level");
        self.awake.fetch_add(count as u64, Relaxed);
        let mut plan = lock(&self.plan);
        plan.arcs_left = work.arcs_left.get();
        plan.summary.reached_count += work.reached.get();
        plan.summary.levels_count += work.levels_ended.get() - 1;
        // It would be of before the first of these levels.
        plan.has_snapshot = false;
        if last == 0 {
            std::mem::swap(&mut *queue, &mut *found);
        }
        found.truncate(count);
        Ok(())
    }

    /// The fewest arcs of a list, the source's aside, that may lead to what is new.
    fn least(&self) -> u32 {
        1 + u32::from(!self.graph.is_directed())
    }
}

impl Ahead<'_> {
    /// Whether a level of `vertices` goes top-down without a look at their degrees, if `arcs` arcs
    /// were searched since the level began.
    fn is_small(&self, vertices: usize, arcs: u64) -> bool {
        let arcs_left = self.arcs_left.get().saturating_sub(arcs);
        vertices as u64 * self.bfs.degree_max <= arcs_left / ALPHA
    }

    /// How many vertices of the next level may be handed out now.
    fn room_ahead(&self) -> usize {
        let (level, next) = (&self.levels[self.side.get()], &self.levels[1 - self.side.get()]);
        let (arcs_due, found) = (level.arcs_due.get(), next.len.get());
        // Each arc under way finds a vertex at most.
        let under_way = (arcs_due - level.arcs.get()) as usize;
        if self.has_ended.get() || !self.is_small(found + under_way, arcs_due) {
            return 0;
        }
        (found - next.handed.get()).min(AHEAD_MAX.saturating_sub(next.handed.get()))
    }

    /// Looks at neighbours of `vertex`; answers whether all are vertices.
    #[inline(always)]
    fn look(&self, vertex: u32, words: &[u32]) -> bool {
        let bfs = self.bfs;
        let to = 1 - self.side.get();
        let (room, mut len) = (self.rooms[to], self.levels[to].len.get());
        let mut is_sound = true;
        for &v in words {
            match bfs.visited.get(v) {
                Some(true) => {}
                Some(false) => {
                    bfs.visited.insert::<false>(v);
                    bfs.parent[v as usize].store(vertex, Relaxed);
                    room[len].set(v);
                    len += 1;
                }
                None => is_sound = false,
            }
        }
        self.levels[to].len.set(len);
        is_sound
    }

    /// Whether all lists of the level have been looked at.
    #[inline(always)]
    fn is_complete(&self) -> bool {
        let level = &self.levels[self.side.get()];
        level.arcs.get() == level.arcs_due.get() && level.handed.get() == level.len.get()
    }

    /// Ends the level, whose lists have all been looked at, and those behind it that are complete
    /// by then.
    #[inline(never)]
    fn advance(&self) {
        while self.is_complete() && !self.has_ended.get() {
            let (side, next) = (self.side.get(), 1 - self.side.get());
            let (ended, found) = (&self.levels[side], self.levels[next].len.get());
            self.levels_ended.set(self.levels_ended.get() + 1);
            let goes_on = found > 0 && self.is_small(found, ended.arcs.get());
            self.arcs_left.set(self.arcs_left.get().saturating_sub(ended.arcs.get()));
            if !goes_on {
                self.has_ended.set(true);
                return;
            }
            self.reached.set(self.reached.get() + found as u64);
            self.degrees_min[side].set(self.bfs.least());
            ended.len.set(0);
            ended.handed.set(0);
            ended.arcs_due.set(0);
            ended.arcs.set(0);
            self.side.set(next);
            self.look_at_kept();
        }
    }

    /// Looks at the lists of the level that came before it began.
    fn look_at_kept(&self) {
        let Kept { parts, words, forged } = &mut *self.kept.borrow_mut();
        let mut left = &words[..];
        for &(vertex, len) in parts.iter() {
            let (words, rest) = left.split_at(len as usize);
            left = rest;
            if !self.look(vertex, words) {
                *forged = Some(vertex);
                self.has_ended.set(true);
                return;
            }
        }
        parts.clear();
        words.clear();
    }

    /// Keeps a part of a list of the next level.
    #[inline(never)]
    fn keep(&self, vertex: u32, words: &[u32]) {
        let mut kept = self.kept.borrow_mut();
        kept.parts.push((vertex, words.len() as u32));
        kept.words.extend_from_slice(words);
    }

    /// A vertex of the next level, while lists of this one are under way.
    #[inline(never)]
    fn next_ahead(&self) -> Option<(usize, Item)> {
        if self.room_ahead() == 0 {
            return None;
        }
        let side = 1 - self.side.get();
        let next = &self.levels[side];
        let vertex = self.rooms[side][next.handed.get()].get();
        next.handed.set(next.handed.get() + 1);
        Some((side, Item { vertex, skip: 0 }))
    }
}

impl ListWork for Ahead<'_> {
    /// Which room the vertex is in.
    type Tag = usize;
    const FROM_THE_FRONT: bool = false;
    /// One level after the other.
    const GROWS: bool = true;

    #[inline(always)]
    fn next(&self) -> Option<(usize, Item)> {
        let side = self.side.get();
        let (level, at) = (&self.levels[side], self.levels[side].handed.get());
        if at >= level.len.get() {
            return self.next_ahead();
        }
        level.handed.set(at + 1);
        Some((side, Item { vertex: self.rooms[side][at].get(), skip: 0 }))
    }

    fn reads_max(&self, most: u64, reads: &dyn Fn(u32) -> u64) -> Option<u64> {
        let side = self.side.get();
        let queue = &self.rooms[side][..self.levels[side].len.get()];
        Some(reads_of(queue.iter().map(Cell::get), most, reads))
    }

    fn waiting(&self) -> u64 {
        let level = &self.levels[self.side.get()];
        let left = level.len.get() - level.handed.get();
        if left > 0 { left as u64 } else { self.room_ahead() as u64 }
    }

    fn first(&self, most: usize, each: impl FnMut(u32)) {
        let side = self.side.get();
        let queue = &self.rooms[side][..self.levels[side].len.get()];
        queue.iter().map(Cell::get).take(most).for_each(each);
    }

    #[inline(always)]
    fn is_idle(&self, tag: usize, _vertex: u32, degree: u32) -> bool {
        let level = &self.levels[tag];
        level.arcs_due.set(level.arcs_due.get() + u64::from(degree));
        if degree >= self.degrees_min[tag].get() {
            return false;
        }
        level.arcs.set(level.arcs.get() + u64::from(degree));
        if self.is_complete() {
            self.advance();
        }
        true
    }

    #[inline(always)]
    fn peek(&self, ahead: u64) -> Option<u32> {
        let side = self.side.get();
        let (level, next) = (&self.levels[side], &self.levels[1 - side]);
        let at = level.handed.get() + ahead as usize;
        if at < level.len.get() {
            return Some(self.rooms[side][at].get());
        }
        let at = next.handed.get() + (at - level.len.get());
        (at < next.len.get()).then(|| self.rooms[1 - side][at].get())
    }

    fn warm(&self, words: &[u32]) {
        for &v in words {
            if self.bfs.visited.get(v) == Some(false) {
                prefetch(&self.bfs.parent, v as usize);
            }
        }
    }

    #[inline(always)]
    fn words(&self, tag: usize, vertex: u32, words: &[u32]) -> Verdict {
        let level = &self.levels[tag];
        level.arcs.set(level.arcs.get() + words.len() as u64);
        if tag != self.side.get() && !mutant!("graph_lists_ahead_looked_at") {
            self.keep(vertex, words);
            return Verdict::More;
        }
        if !self.look(vertex, words) {
            return Verdict::Forged;
        }
        if self.is_complete() {
            self.advance();
        }
        Verdict::More
    }
}
