//! Random race-free programs that write ranges, of whole lines and of parts, over lines of the
//! hostile pool shared in place, and over copies of pages for comparison: every read is what one
//! memory would give.
//!
//! The bytes are cut into pieces of random lengths, so that some pieces hold whole lines and most
//! lines hold several. A piece belongs to one lock, and is read and written whole in that lock's
//! sections only; a shadow memory that all ranks' threads share is touched in the same order.

#![allow(clippy::unwrap_used)]

mod support;

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

use littoral_dsm::core::message::LockId;
use littoral_dsm::job::{Homes, Job};
use proptest::prelude::*;
use support::{Over, run_with};

const LOCKS: usize = 3;
const BYTES: usize = 1024;

/// A section: which lock, and which of its pieces, read or written with a value.
type Section = (usize, Vec<(usize, Option<u8>)>);
/// What a rank does between two barriers.
type Phase = Vec<Section>;

fn pieces() -> impl Strategy<Value = Vec<Range<usize>>> {
    proptest::collection::vec(1usize..200, 40).prop_map(|lengths| {
        let mut start = 0;
        let cut = |length: usize| {
            let piece = start..(start + length).min(BYTES);
            start = piece.end;
            piece
        };
        lengths.into_iter().map(cut).filter(|p| !p.is_empty()).collect()
    })
}

fn programs() -> impl Strategy<Value = Vec<Vec<Phase>>> {
    let access = (any::<usize>(), proptest::option::weighted(0.7, any::<u8>()));
    let section = (0..LOCKS, proptest::collection::vec(access, 1..4));
    let phase = proptest::collection::vec(section, 0..5);
    (2usize..4, 1usize..4).prop_flat_map(move |(ranks, phases)| {
        let program = proptest::collection::vec(phase.clone(), phases);
        proptest::collection::vec(program, ranks)
    })
}

fn rank_program(
    mut job: Job,
    phases: &[Phase],
    pieces: &[Range<usize>],
    homes: Homes,
    shadow: &[AtomicU8],
) {
    let bytes = job.alloc_slice::<u8>(BYTES, homes).unwrap();
    let check = |found: &[u8], at: usize| {
        for (i, byte) in found.iter().enumerate() {
            assert_eq!(*byte, shadow[at + i].load(Ordering::SeqCst), "byte {}", at + i);
        }
    };
    for phase in phases {
        for (lock, accesses) in phase {
            let section = job.enter(LockId(*lock as u32)).unwrap();
            for (pick, write) in accesses {
                let index = pick % pieces.len().div_ceil(LOCKS) * LOCKS + lock;
                let Some(piece) = pieces.get(index) else { continue };
                check(&section.read(bytes.part(piece.clone())).unwrap(), piece.start);
                let Some(value) = write else { continue };
                section.write(bytes.part(piece.clone())).unwrap().fill(*value);
                shadow[piece.clone()].iter().for_each(|b| b.store(*value, Ordering::SeqCst));
            }
            section.leave().unwrap();
        }
        job.barrier().unwrap();
        let all = job.phase().unwrap();
        check(&all.read(bytes).unwrap(), 0);
        all.end().unwrap();
    }
    job.finish().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 30, ..littoral_testing::cases(60) })]
    #[test]
    fn ranges_agree_with_one_memory(
        programs in programs(), pieces in pieces(), log_capacity in 1usize..40,
        homes in prop_oneof![Just(Homes::Cyclic), Just(Homes::At(0)), Just(Homes::At(1))],
    ) {
        for over in [Over::Lines, Over::ShmPages] {
            let shadow: Vec<AtomicU8> = (0..BYTES).map(|_| AtomicU8::new(0)).collect();
            run_with(over, programs.len() as u16, |c| c.log_capacity = log_capacity, |job| {
                let phases = &programs[usize::from(job.rank())];
                rank_program(job, phases, &pieces, homes, &shadow);
            });
        }
    }
}

/// Rank 1 writes whole lines whose home is rank 0, then rank 0's memory merges a part that rank 2
/// wrote: rank 0 has an old copy of the line from before.
#[test]
fn a_home_merges_into_the_line_as_it_is() {
    for round in 0..20 {
        run_with(
            Over::Lines,
            3,
            |_| {},
            |mut job| {
                let s = job.alloc_slice::<u64>(64, Homes::At(0)).unwrap();
                let me = job.rank();
                let phase = job.phase().unwrap();
                assert!(phase.read(s).unwrap().iter().all(|v| *v == 0), "all ranks have a copy");
                phase.end().unwrap();
                let phase = job.phase().unwrap();
                if me == 1 {
                    phase.write(s).unwrap().fill(5 + round);
                }
                phase.end().unwrap();
                let phase = job.phase().unwrap();
                if me == 2 {
                    (0..64).step_by(8).for_each(|at| {
                        phase.write(s.part(at..at + 1)).unwrap()[0] = 9;
                    });
                }
                phase.end().unwrap();
                let phase = job.phase().unwrap();
                let wanted = |at: usize| if at.is_multiple_of(8) { 9 } else { 5 + round };
                let found = phase.read(s).unwrap();
                found.iter().enumerate().for_each(|(at, v)| assert_eq!(*v, wanted(at), "{at}"));
                drop(found);
                phase.end().unwrap();
                job.finish().unwrap();
            },
        );
    }
}
