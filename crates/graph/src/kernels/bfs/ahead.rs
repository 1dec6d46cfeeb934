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

use std::cell::RefCell;
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

/// Top-down steps, level by level.
pub(super) struct Ahead<'b> {
    bfs: &'b Bfs<'b>,
    /// Lists shorter than this lead nowhere new: of the first level, of later ones.
    degrees_min: (u32, u32),
    /// Arcs of the graph that were not searched before the first level.
    arcs_left: u64,
    state: RefCell<State>,
}

/// How far the steps are.
#[derive(Debug, Default)]
struct State {
    /// Levels that have ended.
    levels: u32,
    /// Vertices found by levels that have ended.
    reached: u64,
    /// Arcs of lists that were read or tell nothing new, up to this level and of the next one.
    arcs: u64,
    arcs_ahead: u64,
    /// The level's vertices.
    queue: Vec<u32>,
    /// How many of them were handed out.
    handed: usize,
    /// Arcs of those lists that have not come yet.
    under_way: u64,
    /// What the level found so far: the next level.
    found: Vec<u32>,
    /// How many of those were handed out ahead.
    handed_ahead: usize,
    /// Arcs of those lists that have not come yet.
    under_way_ahead: u64,
    /// What has come of those lists: vertex and number of words of each part, and the words.
    parts: Vec<(u32, u32)>,
    words: Vec<u32>,
    /// No further level is begun.
    has_ended: bool,
    /// A vertex whose list came ahead and has what is no vertex.
    forged: Option<u32>,
}

impl State {
    /// The tag of the level's lists; those of the next one have the other.
    #[inline(always)]
    fn tag(&self) -> bool {
        self.levels % 2 != 0
    }
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
        found.clear();
        let first = self.degree_min.load(Relaxed);
        let state = State {
            queue: std::mem::take(&mut *queue),
            found: std::mem::take(&mut *found),
            ..State::default()
        };
        let work = Ahead {
            bfs: self,
            degrees_min: (first, 1 + u32::from(!self.graph.is_directed())),
            arcs_left: lock(&self.plan).arcs_left,
            state: RefCell::new(state),
        };
        let outcome = edges.lists(Direction::Out, &work);
        let state = work.state.into_inner();
        // Both have room for all vertices.
        (*queue, *found) = (state.queue, state.found);
        outcome?;
        if let Some(vertex) = state.forged {
            let place = Place::new(self.graph, Direction::Out);
            return Err(place.forged("the list of vertex", vertex.into()));
        }
        assert!(state.has_ended, "invariant: a run of levels ends with a level");
        self.awake.fetch_add(found.len() as u64, Relaxed);
        self.arcs_read.fetch_add(state.arcs, Relaxed);
        let mut plan = lock(&self.plan);
        plan.summary.reached_count += state.reached;
        plan.summary.levels_count += state.levels - 1;
        // It would be of before the first of these levels.
        plan.has_snapshot = false;
        Ok(())
    }
}

impl Ahead<'_> {
    /// Whether a level of `vertices` goes top-down without a look at their degrees, after `arcs`
    /// arcs of these steps.
    fn is_small(&self, vertices: u64, arcs: u64) -> bool {
        vertices * self.bfs.degree_max <= self.arcs_left.saturating_sub(arcs) / ALPHA
    }

    /// How many vertices of the next level may be handed out now.
    fn room_ahead(&self, state: &State) -> usize {
        // Each arc under way finds a vertex at most.
        let most = state.found.len() as u64 + state.under_way;
        if state.has_ended || !self.is_small(most, state.arcs + state.under_way) {
            return 0;
        }
        let room = AHEAD_MAX.saturating_sub(state.handed_ahead);
        (state.found.len() - state.handed_ahead).min(room)
    }

    /// Looks at neighbours of `vertex`; answers whether all are vertices.
    #[inline(always)]
    fn look(&self, found: &mut Vec<u32>, vertex: u32, words: &[u32]) -> bool {
        let bfs = self.bfs;
        for &v in words {
            match bfs.visited.get(v) {
                Some(true) => {}
                Some(false) => {
                    bfs.visited.insert::<false>(v);
                    bfs.parent[v as usize].store(vertex, Relaxed);
                    found.push(v);
                }
                None => return false,
            }
        }
        true
    }

    /// Ends the level if all of its lists have been looked at, and those behind it that have come
    /// by then.
    fn advance(&self, state: &mut State) {
        while state.handed == state.queue.len() && state.under_way == 0 && !state.has_ended {
            state.levels += 1;
            let count = state.found.len() as u64;
            if count == 0 || !self.is_small(count, state.arcs) {
                state.has_ended = true;
                return;
            }
            state.reached += count;
            std::mem::swap(&mut state.queue, &mut state.found);
            state.found.clear();
            state.handed = std::mem::take(&mut state.handed_ahead);
            state.under_way = std::mem::take(&mut state.under_way_ahead);
            state.arcs += std::mem::take(&mut state.arcs_ahead);
            self.look_at_kept(state);
        }
    }

    /// Looks at the lists of the level that came before it began.
    fn look_at_kept(&self, state: &mut State) {
        let mut left = &state.words[..];
        for &(vertex, len) in &state.parts {
            let (words, rest) = left.split_at(len as usize);
            left = rest;
            if !self.look(&mut state.found, vertex, words) {
                state.forged = Some(vertex);
                state.has_ended = true;
                return;
            }
        }
        state.parts.clear();
        state.words.clear();
    }
}

impl ListWork for Ahead<'_> {
    /// The lowest bit of the level's number.
    type Tag = bool;
    const FROM_THE_FRONT: bool = false;
    /// One level after the other.
    const GROWS: bool = true;

    #[inline(always)]
    fn next(&self) -> Option<(bool, Item)> {
        let mut state = self.state.borrow_mut();
        let tag = state.tag();
        if let Some(&vertex) = state.queue.get(state.handed) {
            state.handed += 1;
            return Some((tag, Item { vertex, skip: 0 }));
        }
        if self.room_ahead(&state) == 0 {
            return None;
        }
        let vertex = state.found[state.handed_ahead];
        state.handed_ahead += 1;
        Some((!tag, Item { vertex, skip: 0 }))
    }

    fn reads_max(&self, most: u64, reads: &dyn Fn(u32) -> u64) -> Option<u64> {
        let state = self.state.borrow();
        Some(reads_of(state.queue.iter().copied(), most, reads))
    }

    fn waiting(&self) -> u64 {
        let state = self.state.borrow();
        (state.queue.len() - state.handed + self.room_ahead(&state)) as u64
    }

    fn first(&self, most: usize, each: impl FnMut(u32)) {
        self.state.borrow().queue.iter().copied().take(most).for_each(each);
    }

    #[inline(always)]
    fn is_idle(&self, tag: bool, _vertex: u32, degree: u32) -> bool {
        let mut state = self.state.borrow_mut();
        let is_first = state.levels == 0 && !tag;
        let least = if is_first { self.degrees_min.0 } else { self.degrees_min.1 };
        let is_idle = degree < least;
        let is_ahead = tag != state.tag();
        match (is_idle, is_ahead) {
            (false, false) => state.under_way += u64::from(degree),
            (false, true) => state.under_way_ahead += u64::from(degree),
            (true, true) => state.arcs_ahead += u64::from(degree),
            (true, false) => {
                state.arcs += u64::from(degree);
                self.advance(&mut state);
            }
        }
        is_idle
    }

    #[inline(always)]
    fn peek(&self, ahead: u64) -> Option<u32> {
        let state = self.state.borrow();
        let at = state.handed + ahead as usize;
        match state.queue.get(at) {
            Some(&vertex) => Some(vertex),
            None => state.found.get(state.handed_ahead + at - state.queue.len()).copied(),
        }
    }

    fn warm(&self, words: &[u32]) {
        for &v in words {
            if self.bfs.visited.get(v) == Some(false) {
                prefetch(&self.bfs.parent, v as usize);
            }
        }
    }

    #[inline(always)]
    fn words(&self, tag: bool, vertex: u32, words: &[u32]) -> Verdict {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let len = words.len() as u64;
        if tag != state.tag() {
            state.under_way_ahead -= len;
            state.arcs_ahead += len;
            if !mutant!("graph_lists_ahead_looked_at") {
                state.parts.push((vertex, words.len() as u32));
                state.words.extend_from_slice(words);
                return Verdict::More;
            }
            let is_sound = self.look(&mut state.found, vertex, words);
            return if is_sound { Verdict::More } else { Verdict::Forged };
        }
        state.under_way -= len;
        state.arcs += len;
        if !self.look(&mut state.found, vertex, words) {
            return Verdict::Forged;
        }
        self.advance(state);
        Verdict::More
    }
}
