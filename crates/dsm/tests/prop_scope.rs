//! Random race-free programs on random schedules, larger than the exhaustive model can hold,
//! against the same oracle; and misuse of the interface.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Job, Step, Way};
use littoral_base::units::NodeId;
use littoral_dsm::Kind;
use littoral_dsm::core::diff::Diff;
use littoral_dsm::core::message::{LockId, Message, PageId};
use littoral_dsm::core::rank::{Rank, Shape};
use proptest::prelude::*;

const LOCKS: u32 = 3;
const PAGES: u32 = 4;
const PAGE_BYTES: usize = 130;

/// Every byte of the shared pages belongs to one lock, so neighbouring bytes often to different
/// ones.
fn place(lock: u32, pick: usize) -> common::Place {
    let all = PAGES as usize * PAGE_BYTES;
    let index = (pick % (all / LOCKS as usize)) * LOCKS as usize + lock as usize;
    ((index / PAGE_BYTES) as u32, index % PAGE_BYTES)
}

type Access = (usize, bool);
type Section = (u32, Vec<Access>, Option<(u32, Vec<Access>)>);

fn section(lock: u32, accesses: &[Access], inner: Option<(u32, Vec<Access>)>) -> Vec<Step> {
    let touch = |&(pick, write): &Access| {
        let p = place(lock, pick);
        if write { Step::Increment(p) } else { Step::Read(p) }
    };
    let mut steps = vec![Step::Lock(lock)];
    steps.extend(accesses.iter().map(touch));
    if let Some((l, a)) = inner.filter(|(l, _)| *l > lock) {
        steps.extend(section(l, &a, None));
        steps.extend(accesses.iter().map(touch));
    }
    steps.push(Step::Unlock(lock));
    steps
}

fn accesses() -> impl Strategy<Value = Vec<Access>> {
    proptest::collection::vec((0usize..40, any::<bool>()), 0..5)
}

fn phase() -> impl Strategy<Value = Vec<Step>> {
    let one = (0..LOCKS, accesses(), proptest::option::of((0..LOCKS, accesses())));
    let to_steps = |all: Vec<Section>| {
        all.into_iter().flat_map(|(l, a, inner)| section(l, &a, inner)).collect()
    };
    proptest::collection::vec(one, 0..5).prop_map(to_steps)
}

fn programs() -> impl Strategy<Value = Vec<Vec<Step>>> {
    (2usize..5, 1usize..4).prop_flat_map(|(ranks, phases)| {
        let program =
            proptest::collection::vec(phase(), phases).prop_map(|p| p.join(&Step::Barrier));
        proptest::collection::vec(program, ranks)
    })
}

proptest! {
    #![proptest_config(littoral_testing::cases(400))]
    #[test]
    fn race_free_programs_read_what_they_should(
        programs in programs(), schedule in proptest::collection::vec(any::<prop::sample::Index>(), 4000),
        predict: bool, unshared: bool, along: bool, road in 0u8..4, log_capacity in 1usize..12, copies in 1usize..12,
    ) {
        let ranks = programs.len() as u16;
        let shape = Shape { ranks, pages: PAGES, page_bytes: PAGE_BYTES, locks: LOCKS, log_capacity, predict };
        let slices: Vec<&[Step]> = programs.iter().map(Vec::as_slice).collect();
        let job = Job::new(&shape, &slices);
        let job = if unshared { job.keep_unshared_homes() } else { job };
        let job = if along { job.send_along() } else { job };
        let job = match ranks {
            _ if road == 0 => job.without_server(log_capacity, Way::Short),
            _ if road == 3 => job.without_server(log_capacity, Way::Mixed),
            2 if road == 1 => job.exchange_arrivals(),
            3.. if road == 1 => job.gather_arrivals(),
            _ => job,
        };
        let mut job = if copies < 6 { job.limit_copies(copies) } else { job };
        for pick in schedule.iter().cycle().take(200_000) {
            let moves = job.moves();
            if moves.is_empty() { break; }
            job.apply(*pick.get(&moves));
        }
        prop_assert_eq!(&job.verdict, &None);
        prop_assert!(job.finished(), "stuck");
    }
}

fn lone_rank() -> Rank {
    let shape =
        Shape { ranks: 2, pages: 2, page_bytes: 64, locks: 2, log_capacity: 4, predict: true };
    Rank::new(NodeId(0), shape)
}

fn hold_lock_zero(rank: &mut Rank) {
    let out = rank.lock(LockId(0)).unwrap();
    let (to, request) = out.send.into_iter().next().unwrap();
    assert_eq!(to, NodeId(0));
    let granted = rank.receive(NodeId(0), request).unwrap();
    let (_, grant) = granted.send.into_iter().next().unwrap();
    assert!(rank.receive(NodeId(0), grant).unwrap().done);
}

#[test]
fn misuse_is_named_and_changes_nothing() {
    let mut rank = lone_rank();
    hold_lock_zero(&mut rank);
    let before = rank.clone();
    let kind = |r: littoral_dsm::Result<_>| {
        r.map(|_: littoral_dsm::core::rank::Outcome| ()).unwrap_err().kind()
    };
    assert_eq!(kind(rank.lock(LockId(0))), Kind::Misuse);
    assert_eq!(kind(rank.barrier()), Kind::Misuse);
    assert_eq!(kind(rank.unlock(LockId(1))), Kind::Misuse);
    assert_eq!(kind(rank.lock(LockId(9))), Kind::OutOfRange);
    assert_eq!(kind(rank.read(PageId(2))), Kind::OutOfRange);
    assert_eq!(rank, before);
}

#[test]
fn messages_no_peer_sends_are_refused_and_change_nothing() {
    let mut rank = lone_rank();
    let before = rank.clone();
    let strange = [
        Message::DiffsApplied,
        Message::GetPage { page: PageId(1), phase: 0 },
        Message::Page { page: PageId(1), bytes: vec![0; 64] },
        Message::Page { page: PageId(1), bytes: vec![0; 3] },
        Message::Acquire { lock: LockId(1), seen: 0 },
        Message::Depart { generation: 0, notices: vec![] },
        Message::Wanted { absent: vec![], held: vec![PageId(0)] },
        Message::Push { pages: vec![(PageId(0), NodeId(1))] },
        Message::DiffsAlong { diffs: vec![(PageId(1), Diff::default())] },
    ];
    for message in strange {
        let e = rank.receive(NodeId(1), message).unwrap_err();
        assert_eq!(e.kind(), Kind::Protocol);
    }
    assert_eq!(rank, before);
}
