//! Lists of vertices shared out among the threads of a team; a long list is shared itself.
//!
//! A list of more than [`LONG_PIECES`] pieces is handed out in parts of whole pieces, and each
//! member takes parts until none is left. Shorter lists are one item of one member.
//!
//! Steps: the leader hands out -> a barrier -> each member takes the part of its own number, then
//! others.
//!
//! Invariants
//! - A list that is handed out in parts is in no member's share of whole lists, and each of its
//!   pieces is in one part. Checked by `parts_cover_a_long_list_once`,
//!   `a_hub_is_read_by_every_thread_and_answers_verify`.
//! - Each member gets a part where there are as many parts as members. Checked by
//!   `a_hub_is_read_by_every_thread_and_answers_verify`.
//! - A team of one hands out nothing here. Checked by `parts_cover_a_long_list_once`.

use std::cell::Cell;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use littoral_base::mutant;

use super::bits::Bitmap;
use super::team::{Cursor, Share};
use crate::edges::{Item, Part, reads_of};
use crate::format::Direction;
use crate::format::file::GraphFile;

/// Lists of more pieces are shared.
const LONG_PIECES: usize = 4;
/// About how many parts each member takes of one list.
const PARTS_PER_MEMBER: u32 = 8;

/// The long lists of one direction, and their parts in the step under way. A part carries a `T`.
pub(crate) struct Hubs<'g, T> {
    graph: &'g GraphFile,
    direction: Direction,
    members: usize,
    /// Whose lists are long; absent where there are none, and for a team of one.
    long: Option<Bitmap>,
    parts: RwLock<Vec<(T, Part)>>,
    cursor: Cursor,
}

impl<'g, T: Copy> Hubs<'g, T> {
    /// The long lists of `direction` for a team of `members`.
    pub(crate) fn new(graph: &'g GraphFile, direction: Direction, members: usize) -> Self {
        let (lists, limit) = (graph.lists(direction), LONG_PIECES * graph.layout().piece_arcs());
        let is_long = |v: &u32| lists.degree(*v) as usize > limit;
        let mut long = None;
        if members > 1 {
            for v in (0..graph.vertices()).filter(is_long) {
                let set = long.get_or_insert_with(|| Bitmap::new(graph.vertices() as usize));
                set.insert::<false>(v);
            }
        }
        let (parts, cursor) = (RwLock::default(), Cursor::default());
        Hubs { graph, direction, members, long, parts, cursor }
    }

    /// Whether the list of `v` is handed out here.
    #[inline(always)]
    pub(crate) fn holds(&self, v: u32) -> bool {
        self.long.as_ref().is_some_and(|long| long.get(v) == Some(true))
            && !mutant!("graph_hub_read_twice")
    }

    /// Hands out the long lists among those of `vertices`; only while no member takes.
    pub(crate) fn hand_out(&self, vertices: impl Iterator<Item = (T, u32)>) {
        let Some(long) = &self.long else { return };
        let mut parts = self.parts.write().unwrap_or_else(PoisonError::into_inner);
        parts.clear();
        for (tag, vertex) in vertices.filter(|&(_, v)| long.get(v) == Some(true)) {
            let degree = self.graph.lists(self.direction).degree(vertex);
            let piece = self.graph.layout().piece_arcs() as u32;
            let parts_max = PARTS_PER_MEMBER * self.members as u32;
            let len = degree.div_ceil(piece).div_ceil(parts_max) * piece;
            let firsts = (0..degree).step_by(len as usize);
            parts.extend(firsts.map(|skip| (tag, Part { vertex, skip, len })));
        }
        // The first parts are the members' own, so that none is without where there are enough.
        self.cursor.reset_from(self.members as u64, parts.len() as u64, 1);
    }

    /// Member `id`'s way to the parts.
    pub(crate) fn share(&self, id: usize) -> HubShare<'_, T> {
        let own = self.long.is_some().then_some(id);
        let parts = self.parts.read().unwrap_or_else(PoisonError::into_inner);
        HubShare { parts, cursor: &self.cursor, own: Cell::new(own) }
    }

    /// Bytes of state.
    pub(crate) fn bytes(&self) -> u64 {
        self.long.as_ref().map_or(0, |long| 8 * long.words().len() as u64)
    }
}

/// One member's share of the parts of long lists.
pub(crate) struct HubShare<'h, T> {
    parts: RwLockReadGuard<'h, Vec<(T, Part)>>,
    cursor: &'h Cursor,
    /// The part that is this member's own, until it is taken.
    own: Cell<Option<usize>>,
}

impl<T: Copy> HubShare<'_, T> {
    /// The next part.
    #[inline(always)]
    pub(crate) fn next(&self) -> Option<(T, Part)> {
        if self.parts.is_empty() {
            return None;
        }
        let own = self.own.take().and_then(|own| self.parts.get(own));
        own.or_else(|| self.parts.get(self.cursor.take_one()? as usize)).copied()
    }
}

/// One member's share of a list of vertices whose neighbours it reads; long lists are shared by all
/// members.
pub(crate) struct VertexShare<'c, const SHARED: bool> {
    vertices: &'c [u32],
    share: Share<'c, SHARED>,
    hubs: &'c Hubs<'c, ()>,
    parts: HubShare<'c, ()>,
}

impl<'c, const SHARED: bool> VertexShare<'c, SHARED> {
    /// Member `id`'s share of `vertices`, whose places `cursor` hands out and `hubs` the parts of
    /// their long lists.
    pub(crate) fn new(
        vertices: &'c [u32],
        cursor: &'c Cursor,
        (hubs, id): (&'c Hubs<'c, ()>, usize),
    ) -> Self {
        VertexShare { vertices, share: Share::new(cursor), hubs, parts: hubs.share(id) }
    }

    /// The next vertex, from the front of its list.
    #[inline(always)]
    pub(crate) fn next(&self) -> Option<((), Item)> {
        loop {
            let vertex = self.vertices[self.share.next()? as usize];
            if !SHARED || !self.hubs.holds(vertex) {
                return Some(((), Item { vertex, skip: 0 }));
            }
        }
    }

    /// The next part of a long list.
    #[inline(always)]
    pub(crate) fn next_part(&self) -> Option<((), Part)> {
        if SHARED { self.parts.next() } else { None }
    }

    /// The first of all vertices, at most `most`.
    pub(crate) fn first(&self, most: usize, each: impl FnMut(u32)) {
        self.vertices.iter().copied().take(most).for_each(each);
    }

    /// The vertex `ahead` of the next one, while it is in the chunk at hand.
    #[inline(always)]
    pub(crate) fn peek(&self, ahead: u64) -> Option<u32> {
        self.share.peek(ahead).map(|i| self.vertices[i as usize])
    }

    /// Reads of all vertices together, at most `most`.
    pub(crate) fn reads_max(&self, most: u64, reads: &dyn Fn(u32) -> u64) -> Option<u64> {
        Some(reads_of(self.vertices.iter().copied(), most, reads))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{BuildOptions, EdgeList, Hooks, build_in_memory};
    use crate::edges::Edges as _;
    use crate::edges::hint::Hint;
    use crate::edges::resident::{Hints, Resident};
    use crate::edges::verified::Verified;
    use crate::kernels::registry::{Kernel, State, check};
    use crate::kernels::team::{Member, Team};
    use crate::kernels::{Sources, Weights};

    #[test]
    fn parts_cover_a_long_list_once() {
        let edges = EdgeList::new(20_000, false, (1..20_000).map(|v| [0, v]).collect());
        let options = BuildOptions { page_bytes: 512, ..BuildOptions::default() };
        let (image, _) = build_in_memory(edges, &options, &mut Hooks::none()).unwrap();
        let graph = GraphFile::from_image(image).unwrap();
        let hub = (0..20_000).find(|&v| graph.outgoing().degree(v) == 19_999).unwrap();
        let alone = Hubs::<()>::new(&graph, Direction::Out, 1);
        alone.hand_out(std::iter::once(((), hub)));
        assert!(!alone.holds(hub) && alone.share(0).next().is_none() && alone.bytes() == 0);
        let hubs = Hubs::<u8>::new(&graph, Direction::Out, 3);
        assert!(hubs.holds(hub) && !hubs.holds(hub ^ 1) && hubs.bytes() > 0);
        hubs.hand_out([(7, hub), (9, hub ^ 1)].into_iter());
        let shares = [hubs.share(0), hubs.share(1), hubs.share(2)];
        let firsts = shares.iter().map(|share| share.next().unwrap());
        let mut parts: Vec<_> = firsts.collect();
        parts.extend(std::iter::from_fn(|| shares[1].next()));
        assert!(shares.iter().all(|share| share.next().is_none()));
        parts.sort_by_key(|(_, part)| part.skip);
        let piece = graph.layout().piece_arcs() as u32;
        let mut end = 0;
        for (tag, part) in &parts {
            assert_eq!((*tag, part.vertex, part.skip, part.len % piece), (7, hub, end, 0));
            end += part.len;
        }
        assert!(end >= 19_999 && end - parts[0].1.len < 19_999 && parts.len() > 12, "{parts:?}");
        drop(shares);
        hubs.hand_out([(1, hub ^ 1)].into_iter());
        assert!(hubs.share(0).next().is_none(), "no long list in this step");
    }

    /// A hub of 5000 arcs, whose lists take some 40 pieces, beside enough other arcs that a search
    /// from it goes top-down.
    fn hub_beside_many(is_weighted: bool) -> GraphFile {
        let star = (1..5001).map(|v| [0, v]);
        let others =
            (5001..60_000u32).flat_map(|v| (1..4).map(move |d| [v, 5001 + (v * d) % 54_999]));
        let edges: Vec<[u32; 2]> = star.chain(others).chain([[1, 2], [2, 3]]).collect();
        let weights = edges.iter().map(|e| (e[1] % 9) as f32).collect();
        let mut list = EdgeList::new(60_000, false, edges);
        list.weights = is_weighted.then_some(weights);
        let options = BuildOptions { page_bytes: 512, ..BuildOptions::default() };
        let (image, _) = build_in_memory(list, &options, &mut Hooks::none()).unwrap();
        GraphFile::from_image(image).unwrap()
    }

    /// Runs a kernel; answers what each member read.
    fn reads_of_members(graph: &GraphFile, kernel: Kernel, members: usize, hub: u32) -> Vec<u64> {
        let state = State::new(graph, kernel, members, 1);
        let words = graph.as_image().unwrap().chunks_exact(4);
        let words: Vec<u32> = words.map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
        let (hints, verified, team) = (Hints::default(), Verified::default(), Team::new(members));
        let member = |id| {
            let bytes = bytemuck::cast_slice(&words);
            let hint = Some(Hint::None);
            let edges = Resident::new(graph, bytes, hint, &hints, &verified).unwrap();
            state.run(Member::new(&team, id), &edges, hub).unwrap();
            edges.traffic().reads_count
        };
        let reads = std::thread::scope(|s| {
            let threads: Vec<_> = (0..members).map(|id| s.spawn(move || member(id))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        team.into_result().unwrap();
        check(graph, kernel, hub, &state.answer(0)).unwrap();
        reads
    }

    #[test]
    fn a_hub_is_read_by_every_thread_and_answers_verify() {
        let (plain, weighted) = (hub_beside_many(false), hub_beside_many(true));
        for (graph, kernel) in [
            (&plain, Kernel::Bfs),
            (&plain, Kernel::Sssp(Weights::Seeded)),
            (&weighted, Kernel::Sssp(Weights::Stored)),
            (&plain, Kernel::Bc(Sources::One)),
            (&plain, Kernel::Kcore),
            (&plain, Kernel::Tc),
        ] {
            let degree = |v: &u32| graph.outgoing().degree(*v);
            let hub = (0..graph.vertices()).max_by_key(degree).unwrap();
            for members in [2, 3] {
                let reads = reads_of_members(graph, kernel, members, hub);
                assert!(reads.iter().all(|&r| r > 0), "{kernel:?} {reads:?}");
            }
        }
    }
}
