//! Random programs without data races, run by real ranks over every fabric, hostile pool included,
//! by the safe interface and by raw pointers: every read is what one memory would give.
//!
//! The oracle is a shadow memory that all ranks' threads share. A byte of the first pages belongs
//! to one lock and is touched in that lock's sections only, so the shadow is touched in the same
//! order; a byte of the others belongs to one rank, which writes it before a barrier that lets
//! all ranks compare.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::atomic::{AtomicU8, Ordering};

use littoral_dsm::core::message::LockId;
use littoral_dsm::job::{Homes, Job, Section, SharedSlice};
use littoral_dsm::memory::{Mechanism, page_bytes};
use proptest::prelude::*;
use support::{EVERY, Over, run_with};

const LOCKS: usize = 3;
const PAGES: usize = 4;
/// Bytes of a page that programs touch: the first of them, so that locks share lines and words.
const USED: usize = 60;
const OWN: usize = 40;

/// Which byte of a lock, and whether it is written.
type Access = (usize, bool);
type SectionOf = (usize, Vec<Access>, Option<(usize, Vec<Access>)>);
/// What a rank does between two barriers.
type Phase = Vec<SectionOf>;

fn accesses() -> impl Strategy<Value = Vec<Access>> {
    proptest::collection::vec((0..PAGES * USED / LOCKS, any::<bool>()), 0..6)
}

fn phase() -> impl Strategy<Value = Phase> {
    let section = (0..LOCKS, accesses(), proptest::option::of((0..LOCKS, accesses())));
    proptest::collection::vec(section, 0..6)
}

fn programs() -> impl Strategy<Value = Vec<Vec<Phase>>> {
    (2usize..4, 1usize..4).prop_flat_map(|(ranks, phases)| {
        let program = proptest::collection::vec(phase(), phases);
        proptest::collection::vec(program, ranks)
    })
}

/// The byte that is number `pick` of `lock`: neighbours belong to different locks.
fn place(lock: usize, pick: usize) -> usize {
    let index = pick * LOCKS + lock;
    index / USED * page_bytes() + index % USED
}

/// Two roads to a byte.
trait Road {
    fn get(&self, at: usize) -> u8;
    fn set(&self, at: usize, value: u8);
}

struct Guards<'s, 'j> {
    scope: &'s Section<'j>,
    bytes: SharedSlice<u8>,
}

impl Road for Guards<'_, '_> {
    fn get(&self, at: usize) -> u8 {
        self.scope.read(self.bytes.part(at..at + 1)).unwrap()[0]
    }
    fn set(&self, at: usize, value: u8) {
        self.scope.write(self.bytes.part(at..at + 1)).unwrap()[0] = value;
    }
}

/// The raw road, with the little that is unsafe.
mod raw {
    #![allow(unsafe_code)] // Reason: raw pointers are one of the two roads that are compared.

    use super::{Job, Road, SharedSlice};

    pub(super) struct Raw(*mut u8, usize);

    impl Raw {
        pub(super) fn new(job: &Job, bytes: SharedSlice<u8>) -> Raw {
            // SAFETY: the programs are race-free and stay on the thread of their job, which lives
            // as long as they run; places are checked below.
            Raw(unsafe { job.raw(bytes) }, bytes.len())
        }
    }

    impl Road for Raw {
        fn get(&self, at: usize) -> u8 {
            assert!(at < self.1);
            // SAFETY: inside the slice (checked above).
            unsafe { self.0.add(at).read_volatile() }
        }
        fn set(&self, at: usize, value: u8) {
            assert!(at < self.1);
            // SAFETY: inside the slice (checked above).
            unsafe { self.0.add(at).write_volatile(value) }
        }
    }
}

fn touch(road: &dyn Road, lock: usize, list: &[Access], shadow: &[AtomicU8]) {
    for &(pick, write) in list {
        let at = place(lock, pick);
        let (found, wanted) = (road.get(at), shadow[at].load(Ordering::SeqCst));
        assert_eq!(found, wanted, "byte {at} of lock {lock}");
        if write {
            road.set(at, found.wrapping_add(1));
            shadow[at].store(found.wrapping_add(1), Ordering::SeqCst);
        }
    }
}

fn by_guards(job: &mut Job, bytes: SharedSlice<u8>, s: &SectionOf, shadow: &[AtomicU8]) {
    let (lock, list, inner) = s;
    let mut section = job.enter(LockId(*lock as u32)).unwrap();
    touch(&Guards { scope: &section, bytes }, *lock, list, shadow);
    if let Some((l, a)) = inner.as_ref().filter(|(l, _)| l > lock) {
        let within = section.enter(LockId(*l as u32)).unwrap();
        touch(&Guards { scope: &within, bytes }, *l, a, shadow);
        within.leave().unwrap();
        touch(&Guards { scope: &section, bytes }, *lock, list, shadow);
    }
    section.leave().unwrap();
}

fn by_pointers(job: &Job, bytes: SharedSlice<u8>, s: &SectionOf, shadow: &[AtomicU8]) {
    let road = raw::Raw::new(job, bytes);
    let (lock, list, inner) = s;
    job.lock(LockId(*lock as u32)).unwrap();
    touch(&road, *lock, list, shadow);
    if let Some((l, a)) = inner.as_ref().filter(|(l, _)| l > lock) {
        job.lock(LockId(*l as u32)).unwrap();
        touch(&road, *l, a, shadow);
        job.unlock(LockId(*l as u32)).unwrap();
        touch(&road, *lock, list, shadow);
    }
    job.unlock(LockId(*lock as u32)).unwrap();
}

fn own_byte(i: usize) -> usize {
    PAGES / 2 * page_bytes() + USED + i
}

fn own_value(round: usize, i: usize) -> u8 {
    (round * 7 + i * 3 + 1) as u8
}

/// Runs one rank's program; locks' bytes and own bytes share pages.
fn rank_program(mut job: Job, phases: &[Phase], raw: bool, shadow: &[AtomicU8]) {
    let bytes = job.alloc_slice::<u8>(PAGES * page_bytes(), Homes::Cyclic).unwrap();
    let (me, ranks) = (usize::from(job.rank()), usize::from(job.ranks()));
    for (round, phase) in phases.iter().enumerate() {
        for (n, section) in phase.iter().enumerate() {
            let mine = (me..OWN).step_by(ranks).filter(|i| i % 4 == n % 4);
            let own = job.phase().unwrap();
            for i in mine {
                own.write(bytes.part(own_byte(i)..own_byte(i) + 1)).unwrap()[0] = 0;
            }
            if raw {
                by_pointers(&job, bytes, section, shadow);
            } else {
                by_guards(&mut job, bytes, section, shadow);
            }
        }
        let own = job.phase().unwrap();
        for i in (me..OWN).step_by(ranks) {
            own.write(bytes.part(own_byte(i)..own_byte(i) + 1)).unwrap()[0] = own_value(round, i);
        }
        own.end().unwrap();
        let all = job.phase().unwrap();
        for i in 0..OWN {
            let found = all.read(bytes.part(own_byte(i)..own_byte(i) + 1)).unwrap()[0];
            assert_eq!(found, own_value(round, i), "own byte {i} after round {round}");
        }
        all.end().unwrap();
    }
    job.finish().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 30, ..littoral_testing::cases(40) })]
    #[test]
    fn race_free_programs_agree_with_one_memory(
        programs in programs(), log_capacity in 1usize..20, predict: bool, mprotect: bool,
    ) {
        for over in EVERY {
            for raw in [false, true] {
                if raw && over == Over::Lines {
                    // Lines shared in place have no pointers.
                    continue;
                }
                let shadow: Vec<AtomicU8> =
                    (0..PAGES * page_bytes()).map(|_| AtomicU8::new(0)).collect();
                let configure = |c: &mut littoral_dsm::runtime::Config| {
                    c.log_capacity = log_capacity;
                    c.predict = predict;
                    c.mechanism = mprotect.then_some(Mechanism::Mprotect);
                };
                run_with(over, programs.len() as u16, configure, |job| {
                    let phases = &programs[usize::from(job.rank())];
                    rank_program(job, phases, raw, &shadow);
                });
            }
        }
    }
}

/// The canary: what no lock and no barrier of the job orders is not seen, so a comparison can fail.
/// A barrier of this process orders the two ranks in time, which the job knows nothing of.
#[test]
fn an_unordered_write_is_not_seen() {
    let turns = std::sync::Barrier::new(2);
    let values = run_with(
        Over::ShmPages,
        2,
        |_| {},
        |mut job| {
            let byte = job.alloc_slice::<u8>(1, Homes::At(0)).unwrap();
            let road = raw::Raw::new(&job, byte);
            let me = u32::from(job.rank());
            let in_section = |act: &dyn Fn() -> u8| {
                // Each rank has a lock of its own, which orders nothing.
                job.lock(LockId(me)).unwrap();
                let value = act();
                job.unlock(LockId(me)).unwrap();
                value
            };
            assert_eq!(in_section(&|| road.get(0)), 0);
            turns.wait();
            if me == 0 {
                in_section(&|| {
                    road.set(0, 9);
                    9
                });
            }
            turns.wait();
            let unordered = in_section(&|| road.get(0));
            job.wait_for_all().unwrap();
            let ordered = road.get(0);
            job.wait_for_all().unwrap();
            job.finish().unwrap();
            (unordered, ordered)
        },
    );
    assert_eq!(values, [(9, 9), (0, 9)], "rank 1 has an old copy until the barrier");
}
