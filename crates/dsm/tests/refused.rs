//! A system that refuses to protect pages: the operation fails in words, and nothing is lost.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;

use littoral_base::units::NodeId;
use littoral_dsm::core::diff::Diff;
use littoral_dsm::core::frames::{Frames, Permission, PlainFrames};
use littoral_dsm::core::message::{LockId, Message, PageId};
use littoral_dsm::core::rank::{Outcome, Rank, Shape};
use littoral_dsm::{Error, Kind};

const PAGE_BYTES: usize = 8;
const COPIES: NodeId = NodeId(1);

/// Frames whose system refuses to lower permissions while it is told to.
struct Stubborn {
    plain: PlainFrames,
    allowed: Vec<Permission>,
    refuses: bool,
}

impl Frames for Stubborn {
    fn extend(&mut self, pages: u32) {
        self.plain.extend(pages);
        self.allowed.resize(self.allowed.len() + pages as usize, Permission::Nothing);
    }
    fn bytes(&self, page: PageId) -> Vec<u8> {
        self.plain.bytes(page)
    }
    fn fill(&mut self, page: PageId, bytes: &[u8]) {
        self.plain.fill(page, bytes);
    }
    fn apply(&mut self, page: PageId, diff: &Diff) {
        self.plain.apply(page, diff);
    }
    fn keep_twin(&mut self, page: PageId) {
        self.plain.keep_twin(page);
    }
    fn take_diff(&mut self, page: PageId) -> Diff {
        self.plain.take_diff(page)
    }
    fn is_twin(&mut self, page: PageId, bytes: &[u8]) -> bool {
        self.plain.is_twin(page, bytes)
    }
    fn twins(&self) -> usize {
        self.plain.twins()
    }
    fn drop_pages(&mut self, pages: &[PageId]) {
        pages.iter().for_each(|page| self.plain.fill(*page, &[0; PAGE_BYTES]));
    }
    fn allow(&mut self, page: PageId, permission: Permission) {
        self.allowed[page.0 as usize] = permission;
    }
    fn lower(&mut self) -> Result<(), Error> {
        let refused = || Error::new(Kind::Environment, "protecting pages 0..1: no memory");
        if self.refuses { Err(refused()) } else { Ok(()) }
    }
}

/// Two ranks; every page is at home at rank 0, and rank 1 keeps four copies and twins.
struct Pair([Rank<Stubborn>; 2]);

impl Pair {
    fn new() -> Pair {
        let shape = Shape {
            ranks: 2,
            pages: 0,
            page_bytes: PAGE_BYTES,
            locks: 1,
            log_capacity: 8,
            predict: true,
        };
        Pair([NodeId(0), COPIES].map(|me| {
            let plain = PlainFrames::new(PAGE_BYTES);
            let frames = Stubborn { plain, allowed: Vec::new(), refuses: false };
            let mut rank = Rank::over(me, shape.clone(), frames);
            rank.limit_copies(4);
            rank.extend(8, 8, NodeId(0));
            rank
        }))
    }

    fn copies(&mut self) -> &mut Rank<Stubborn> {
        &mut self.0[1]
    }

    /// Carries out an operation of rank 1.
    fn act(&mut self, op: impl FnOnce(&mut Rank<Stubborn>) -> Result<Outcome, Error>) {
        let out = op(self.copies()).unwrap();
        let mut done = out.done;
        let post = |me, send: Vec<(NodeId, Message)>| send.into_iter().map(move |m| (me, m));
        let mut queue: VecDeque<_> = post(COPIES, out.send).collect();
        while let Some((from, (to, message))) = queue.pop_front() {
            let out = self.0[to.index()].receive(from, message).unwrap();
            done |= out.done;
            queue.extend(post(to, out.send));
        }
        assert!(done);
    }

    /// The program of rank 1 adds one to byte `at` of a page.
    fn add(&mut self, page: PageId, at: usize) {
        self.act(|r| r.write(page));
        let frames = self.copies().frames_mut();
        assert_eq!(frames.allowed[page.0 as usize], Permission::Write);
        let mut bytes = frames.bytes(page);
        bytes[at] += 1;
        frames.fill(page, &bytes);
    }

    /// An operation of rank 1 that fails because the system refuses.
    fn is_refused(&mut self, op: impl FnOnce(&mut Rank<Stubborn>) -> Result<Outcome, Error>) {
        self.copies().frames_mut().refuses = true;
        let e = op(self.copies()).unwrap_err();
        self.copies().frames_mut().refuses = false;
        assert_eq!(e.kind(), Kind::Environment);
        assert!(!self.copies().is_waiting());
    }
}

#[test]
fn a_refused_protection_loses_nothing() {
    let mut pair = Pair::new();
    for page in [0, 1].map(PageId) {
        pair.add(page, 0);
    }
    // A flush and an eviction, each once refused; the program goes on between.
    pair.is_refused(|r| r.lock(LockId(0)));
    pair.add(PageId(0), 1);
    pair.is_refused(|r| r.write(PageId(2)));
    pair.add(PageId(0), 2);
    pair.add(PageId(1), 1);
    pair.add(PageId(2), 0);
    pair.is_refused(|r| r.barrier());
    pair.add(PageId(1), 2);
    pair.act(|r| r.lock(LockId(0)));
    let home = |page| pair.0[0].frames().bytes(PageId(page));
    assert_eq!([0, 1, 2].map(|page| home(page)[..3].to_vec()), [[1; 3], [1; 3], [1, 0, 0]]);
}
