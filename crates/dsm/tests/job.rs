//! Jobs of a few ranks over every fabric, through the safe interface: what one rank publishes the
//! others see, and what the rules forbid is refused.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};

use littoral_dsm::Kind;
use littoral_dsm::core::message::LockId;
use littoral_dsm::job::{Homes, Job};
use littoral_dsm::runtime::Config;
use support::{COPIES, EVERY, Over, run, run_with};

const L: LockId = LockId(3);

fn count_to(mut job: Job, rounds: u64) -> u64 {
    let counter = job.alloc::<u64>().unwrap();
    for _ in 0..rounds {
        let section = job.enter(L).unwrap();
        section.write(counter.whole()).unwrap()[0] += 1;
        section.leave().unwrap();
    }
    job.barrier().unwrap();
    let phase = job.phase().unwrap();
    let value = phase.read(counter.whole()).unwrap()[0];
    phase.end().unwrap();
    job.finish().unwrap();
    value
}

#[test]
fn a_counter_under_a_lock_loses_no_increment() {
    for over in EVERY {
        let values = run(over, 3, |job| count_to(job, 100));
        assert_eq!(values, [300; 3], "{over:?}");
    }
}

#[test]
fn a_job_of_one_needs_no_other_rank() {
    let job = Job::start(Box::new(littoral_dsm::runtime::carrier::Solo), Default::default());
    assert_eq!(count_to(job.unwrap(), 10), 10);
}

#[test]
fn neighbouring_bytes_of_two_ranks_survive_one_phase() {
    for over in EVERY {
        run(over, 3, |mut job| {
            let bytes = job.alloc_slice::<u8>(9000, Homes::Cyclic).unwrap();
            let (me, all) = (job.rank() as usize, job.ranks() as usize);
            for round in 1..4u8 {
                let phase = job.phase().unwrap();
                for i in (me..9000).step_by(all) {
                    phase.write(bytes.part(i..i + 1)).unwrap()[0] = round * 16 + me as u8;
                }
                phase.end().unwrap();
                let phase = job.phase().unwrap();
                let seen = phase.read(bytes).unwrap();
                assert!(seen.iter().enumerate().all(|(i, b)| *b == round * 16 + (i % all) as u8));
                drop(seen);
                phase.end().unwrap();
            }
            job.finish().unwrap();
        });
    }
}

#[test]
fn the_safe_interface_never_faults() {
    for over in COPIES {
        let counts = run(over, 2, |mut job| {
            let table = job.alloc_slice::<u64>(20_000, Homes::Blocks).unwrap();
            for round in 0..3 {
                let phase = job.phase().unwrap();
                phase.split_mut(table).unwrap().fill(round);
                phase.end().unwrap();
                let phase = job.phase().unwrap();
                assert!(phase.read(table).unwrap().iter().all(|v| *v == round));
                phase.end().unwrap();
            }
            job.finish().unwrap()
        });
        for c in counts {
            assert_eq!((c.memory.faults, c.memory.protection_calls), (0, 0), "{over:?}");
            assert!(c.protocol.misses > 0, "{over:?}: nothing was fetched");
        }
    }
}

#[test]
fn nested_sections_publish_to_both_locks() {
    for over in EVERY {
        let sums = run(over, 2, |mut job| {
            let a = job.alloc::<u64>().unwrap();
            let b = job.alloc::<u64>().unwrap();
            for _ in 0..50 {
                let mut outer = job.enter(LockId(0)).unwrap();
                outer.write(a.whole()).unwrap()[0] += 1;
                let inner = outer.enter(LockId(1)).unwrap();
                inner.write(b.whole()).unwrap()[0] += 1;
                inner.leave().unwrap();
                outer.leave().unwrap();
            }
            job.barrier().unwrap();
            let phase = job.phase().unwrap();
            let sum = phase.read(a.whole()).unwrap()[0] * 1000 + phase.read(b.whole()).unwrap()[0];
            phase.end().unwrap();
            job.finish().unwrap();
            sum
        });
        assert_eq!(sums, [100_100; 2], "{over:?}");
    }
}

#[test]
fn overlapping_guards_and_taken_locks_are_refused() {
    run(Over::Tcp, 1, |mut job| {
        let s = job.alloc_slice::<u32>(100, Homes::Cyclic).unwrap();
        let mut section = job.enter(L).unwrap();
        {
            let writer = section.write(s.part(10..20)).unwrap();
            assert_eq!(section.read(s.part(19..30)).err().unwrap().kind(), Kind::Misuse);
            assert!(section.write(s.part(0..11)).is_err());
            let beside = section.write(s.part(20..30)).unwrap();
            assert_eq!(writer.len() + beside.len(), 20);
        }
        let (one, two) = (section.read(s).unwrap(), section.read(s).unwrap());
        assert_eq!(one[..], two[..]);
        drop((one, two));
        assert_eq!(section.enter(L).err().unwrap().kind(), Kind::Misuse);
        assert_eq!(section.enter(LockId(u32::MAX)).err().unwrap().kind(), Kind::OutOfRange);
        section.leave().unwrap();
        assert_eq!(job.unlock(L).err().unwrap().kind(), Kind::Misuse);
        job.lock(L).unwrap();
        assert_eq!(job.lock(L).err().unwrap().kind(), Kind::Misuse);
        let barrier = job.wait_for_all().err().unwrap();
        assert_eq!(barrier.kind(), Kind::Misuse);
        assert!(barrier.to_string().contains("holding lock 3"), "{barrier}");
        job.unlock(L).unwrap();
        job.finish().unwrap();
    });
}

#[test]
fn no_bytes_are_a_slice_and_too_many_are_refused() {
    for over in [Over::Tcp, Over::Shm] {
        run(over, 2, |mut job| {
            let none = job.alloc_slice::<u64>(0, Homes::Blocks).unwrap();
            assert!(none.is_empty());
            let phase = job.phase().unwrap();
            assert!(phase.read(none).unwrap().is_empty() && phase.write(none).unwrap().is_empty());
            phase.end().unwrap();
            let e = job.alloc_slice::<u64>(1 << 40, Homes::Cyclic).err().unwrap();
            assert_eq!(e.kind(), Kind::OutOfRange);
            assert!(e.to_string().contains("bytes_max"), "{e}");
            assert!(job.alloc_slice::<u64>(usize::MAX, Homes::Cyclic).is_err());
            assert!(job.alloc_slice::<u64>(1, Homes::At(2)).is_err());
            let one = job.alloc::<u64>().unwrap();
            let section = job.enter(L).unwrap();
            section.write(one.whole()).unwrap()[0] = 1;
            section.leave().unwrap();
            job.finish().unwrap();
        });
    }
}

#[test]
fn more_than_4_gib_in_one_allocation() {
    const LEN: usize = (9 << 30) / 8 / 2;
    run_with(
        Over::ShmPages,
        2,
        |c| c.bytes_max = 6 << 30,
        |mut job| {
            let s = job.alloc_slice::<u64>(LEN, Homes::Blocks).unwrap();
            let places = [0, (4 << 30) / 8 - 1, (4 << 30) / 8, LEN - 1];
            let phase = job.phase().unwrap();
            for (i, p) in places.iter().enumerate().filter(|(i, _)| i % 2 == phase.rank() as usize)
            {
                phase.write(s.part(*p..*p + 1)).unwrap()[0] = 7 + i as u64;
            }
            phase.end().unwrap();
            let phase = job.phase().unwrap();
            for (i, p) in places.iter().enumerate() {
                assert_eq!(phase.read(s.part(*p..*p + 1)).unwrap()[0], 7 + i as u64);
            }
            phase.end().unwrap();
            job.finish().unwrap();
        },
    );
}

#[test]
fn a_hundred_thousand_locks_each_keep_their_own() {
    run(Over::ShmPages, 2, |mut job| {
        let s = job.alloc_slice::<u64>(64, Homes::Cyclic).unwrap();
        let me = u32::from(job.rank());
        for lock in (me..100_000).step_by(2).chain(99_990..100_000) {
            let section = job.enter(LockId(lock)).unwrap();
            if lock >= 99_990 {
                let at = (lock - 99_990) as usize;
                section.write(s.part(at..at + 1)).unwrap()[0] += 1;
            }
            section.leave().unwrap();
        }
        job.barrier().unwrap();
        let phase = job.phase().unwrap();
        assert_eq!(phase.read(s.part(0..10)).unwrap()[..], [3; 10]);
        phase.end().unwrap();
        job.finish().unwrap();
    });
}

/// A log of four notices and sections that write thirty pages: acquirers are told to suspect
/// everything, and still see everything.
#[test]
fn a_full_notice_log_loses_nothing() {
    for over in COPIES {
        run_with(
            over,
            2,
            |c| c.log_capacity = 4,
            |mut job| {
                let s = job.alloc_slice::<u64>(30 * 512, Homes::Cyclic).unwrap();
                for _ in 0..10 {
                    let section = job.enter(L).unwrap();
                    for page in 0..30 {
                        section.write(s.part(page * 512..page * 512 + 1)).unwrap()[0] += 1;
                    }
                    section.leave().unwrap();
                }
                job.barrier().unwrap();
                let phase = job.phase().unwrap();
                let all = phase.read(s).unwrap();
                assert!((0..30).all(|page| all[page * 512] == 20), "{over:?}");
                drop(all);
                phase.end().unwrap();
                job.finish().unwrap();
            },
        );
    }
}

/// A log with room for four of the twenty notices of a section forgets those of the only rank that
/// enters it, which has seen them.
#[test]
fn a_rank_alone_in_a_lock_keeps_its_copies_when_the_notice_log_is_full() {
    for over in COPIES {
        let counts = run_with(
            over,
            2,
            |c| c.log_capacity = 4,
            |mut job| {
                let s = job.alloc_slice::<u64>(40 * 512, Homes::At(0)).unwrap();
                for _ in 0..5 * job.rank() {
                    let section = job.enter(L).unwrap();
                    for page in (0..40).step_by(2) {
                        section.write(s.part(page * 512..page * 512 + 1)).unwrap()[0] += 1;
                    }
                    section.leave().unwrap();
                }
                let counts = job.counts().protocol;
                job.finish().unwrap();
                counts
            },
        );
        assert_eq!(counts[1].invalidations, 0, "{over:?}");
    }
}

#[test]
fn ranks_that_allocate_differently_are_told() {
    for (over, ranks) in [(Over::Tcp, 2), (Over::Tcp, 3), (Over::Shm, 2), (Over::Shm, 3)] {
        let errors = run(over, ranks, |mut job| {
            let len = 10 + usize::from(job.rank() == 1);
            let first = job.alloc_slice::<u64>(len, Homes::Cyclic).map(drop);
            first.and_then(|()| job.barrier()).and_then(|()| job.barrier()).err()
        });
        let told = errors.iter().flatten().any(|e| e.to_string().contains("allocation 1"));
        assert!(told && errors.iter().all(Option::is_some), "{over:?}: {errors:?}");
    }
}

/// Rank 1 comes long after the others and has allocated something else; no rank departs.
#[test]
fn each_rank_compares_allocations_before_it_departs() {
    for (over, ranks) in COPIES.into_iter().flat_map(|over| [(over, 2), (over, 4)]) {
        let differs = run(over, ranks, |mut job| {
            if job.rank() == 1 {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            let len = 10 + usize::from(job.rank() == 1);
            job.alloc_slice::<u64>(len, Homes::Cyclic).is_err()
        });
        assert_eq!(differs, vec![true; usize::from(ranks)], "{over:?}");
    }
}

/// Messages that this rank sends in 50 barriers.
fn messages_of_50_barriers(mut job: Job) -> u64 {
    job.barrier().unwrap();
    let before = job.counts().messages;
    (0..50).for_each(|_| job.barrier().unwrap());
    let sent = job.counts().messages - before;
    job.finish().unwrap();
    sent
}

#[test]
fn a_barrier_of_many_ranks_is_a_message_a_round() {
    for (over, ranks, rounds) in [(Over::Tcp, 3, 2), (Over::Tcp, 4, 2), (Over::Hostile, 5, 3)] {
        let sent = run(over, ranks, messages_of_50_barriers);
        assert_eq!(sent, vec![50 * rounds; usize::from(ranks)], "{over:?}");
    }
}

#[test]
fn ranks_that_share_processors_go_through_one_of_them() {
    for ranks in [3, 4, 8] {
        let configure = |config: &mut Config| config.crowded = true;
        let sent = run_with(Over::Tcp, ranks, configure, messages_of_50_barriers);
        let others = u64::from(ranks) - 1;
        assert_eq!(sent[0], 50 * others, "departures");
        assert_eq!(sent[1..], vec![50; others as usize], "arrivals");
    }
}

#[test]
fn a_barrier_of_two_ranks_is_a_message_each_way() {
    for over in [Over::Tcp, Over::Hostile] {
        let sent = run(over, 2, messages_of_50_barriers);
        assert_eq!(sent, [50; 2], "{over:?}");
    }
}

/// In coherent memory, with as many ranks as there are processors and more: no message.
#[test]
fn sections_and_barriers_agree() {
    const ROUNDS: u64 = 200;
    for (over, ranks) in
        [Over::Shm, Over::ShmPages].into_iter().flat_map(|over| [1, 2, 4, 8].map(|n| (over, n)))
    {
        let messages = run(over, ranks, |mut job| {
            let shared = job.alloc_slice::<u64>(2, Homes::At(0)).unwrap();
            let before = job.counts().messages;
            for round in 1..=ROUNDS {
                for (place, lock) in [0, 7].into_iter().enumerate() {
                    let section = job.enter(LockId(lock)).unwrap();
                    section.write(shared.part(place..place + 1)).unwrap()[0] += 1;
                    section.leave().unwrap();
                }
                job.barrier().unwrap();
                let phase = job.phase().unwrap();
                assert_eq!(*phase.read(shared).unwrap(), [round * u64::from(ranks); 2]);
                phase.end().unwrap();
            }
            let sent = job.counts().messages - before;
            job.finish().unwrap();
            sent
        });
        assert!(messages.iter().all(|n| *n == 0), "{over:?}, {ranks} ranks: {messages:?}");
    }
}

#[test]
fn rules_of_sections_hold_without_a_server() {
    let told = [
        "takes lock 3 twice",
        "reaches a barrier holding lock 3",
        "leaves lock 4, not its innermost",
        "lock 4294967295 of a job with 1048576",
    ];
    for over in [Over::Shm, Over::ShmPages] {
        let errors = run(over, 1, |mut job| {
            job.lock(LockId(3)).unwrap();
            let twice = job.lock(LockId(3)).unwrap_err();
            let inside = job.barrier().unwrap_err();
            let stranger = job.unlock(LockId(4)).unwrap_err();
            job.unlock(LockId(3)).unwrap();
            let beyond = job.lock(LockId(u32::MAX)).unwrap_err();
            job.finish().unwrap();
            [twice, inside, stranger, beyond].map(|e| e.to_string())
        });
        for (error, told) in errors[0].iter().zip(told) {
            assert!(error.contains(told), "{over:?}: {error}");
        }
    }
}

#[test]
fn a_rank_that_is_gone_ends_who_waits_for_its_lock() {
    for over in [Over::Shm, Over::ShmPages] {
        let taken = AtomicBool::new(false);
        let errors = run(over, 3, |mut job| {
            if job.rank() == 1 {
                job.lock(LockId(0)).unwrap();
                taken.store(true, Ordering::Release);
                return None;
            }
            wait_for(&taken);
            if job.rank() == 0 { job.lock(LockId(0)).err() } else { job.barrier().err() }
        });
        for error in [&errors[0], &errors[2]] {
            let text = error.as_ref().unwrap().to_string();
            let gone = "left the job before its end";
            assert!(text.contains("rank 1") && text.contains(gone), "{over:?}: {text}");
        }
    }
}

/// Rank 0 writes its pages, rank 1 copies them one by one, and rank 0 writes them again in the same
/// scope, where it takes no fault.
#[test]
fn more_copies_than_a_ring_names_are_all_noticed() {
    const PAGES: usize = 1500;
    let (written, copied) = (AtomicBool::new(false), AtomicBool::new(false));
    run(Over::ShmPages, 2, |mut job| {
        let s = job.alloc_slice::<u64>(PAGES * 512, Homes::At(0)).unwrap();
        let phase = job.phase().unwrap();
        let set = |value| {
            let first = |page: usize| s.part(page * 512..page * 512 + 1);
            (0..PAGES).for_each(|page| phase.write(first(page)).unwrap()[0] = value);
        };
        if phase.rank() == 0 {
            set(1);
            written.store(true, Ordering::Release);
            wait_for(&copied);
            set(2);
        } else {
            wait_for(&written);
            // From the last one on they are no run.
            for page in (0..PAGES).rev() {
                let other = s.part(page * 512 + 9..page * 512 + 10);
                assert_eq!(phase.read(other).unwrap()[0], 0);
            }
            copied.store(true, Ordering::Release);
        }
        phase.end().unwrap();
        let phase = job.phase().unwrap();
        let all = phase.read(s).unwrap();
        assert!((0..PAGES).all(|page| all[page * 512] == 2), "rank {}", phase.rank());
        drop(all);
        phase.end().unwrap();
        job.finish().unwrap();
    });
}

fn wait_for(event: &AtomicBool) {
    while !event.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

#[test]
fn a_data_race_with_a_guard_is_reported() {
    for over in [Over::Tcp, Over::ShmPages] {
        let (lent, left) = (AtomicBool::new(false), AtomicBool::new(false));
        let errors = run(over, 2, |mut job| {
            let s = job.alloc_slice::<u64>(1, Homes::At(0)).unwrap();
            let flag = job.alloc::<u64>().unwrap();
            if job.rank() == 0 {
                let phase = job.phase().unwrap();
                let guard = phase.read(s).unwrap();
                lent.store(true, Ordering::Release);
                wait_for(&left);
                assert_eq!(guard[0], 0, "what is lent does not change");
                drop(guard);
                phase.end().err()
            } else {
                let section = job.enter(L).unwrap();
                section.write(s).unwrap()[0] = 1;
                section.write(flag.whole()).unwrap()[0] = 1;
                wait_for(&lent);
                let e = section.leave().err();
                left.store(true, Ordering::Release);
                e
            }
        });
        for e in &errors {
            let e = e.as_ref().expect("both ranks fail").to_string();
            assert!(e.contains("data race: rank 1 wrote bytes 0.."), "{over:?}: {e}");
        }
    }
}

/// Of so many guards not all are shown: nothing is written under any of them.
#[test]
fn more_guards_than_are_shown_hold_differences_back() {
    const GUARDS: usize = 5000;
    let (lent, left) = (AtomicBool::new(false), AtomicBool::new(false));
    run(Over::ShmPages, 2, |mut job| {
        let s = job.alloc_slice::<u64>(GUARDS, Homes::At(0)).unwrap();
        if job.rank() == 0 {
            let phase = job.phase().unwrap();
            let guards: Vec<_> =
                (0..GUARDS).map(|i| phase.read(s.part(i..i + 1)).unwrap()).collect();
            lent.store(true, Ordering::Release);
            for _ in 0..2000 {
                std::thread::yield_now();
                assert!(!left.load(Ordering::Acquire) && guards[GUARDS - 1][0] == 0);
            }
            drop(guards);
            phase.end().unwrap();
        } else {
            let section = job.enter(L).unwrap();
            section.write(s).unwrap()[GUARDS - 1] = 1;
            wait_for(&lent);
            section.leave().unwrap();
            left.store(true, Ordering::Release);
            job.barrier().unwrap();
        }
        let phase = job.phase().unwrap();
        assert_eq!(phase.read(s).unwrap()[GUARDS - 1], 1);
        phase.end().unwrap();
        job.finish().unwrap();
    });
}

/// What lines shared in place cannot do is refused in words.
#[test]
fn lines_shared_in_place_have_no_pointers() {
    run(Over::Lines, 1, |mut job| {
        let s = job.alloc_slice::<u64>(1, Homes::Cyclic).unwrap();
        let e = job.touch(s, true).unwrap_err();
        assert!(e.kind() == Kind::Misuse && e.to_string().contains("pool-pages"), "{e}");
        assert_eq!(job.mechanism(), None);
        job.finish().unwrap();
    });
}

/// Writes by cells what is read by guards, and the other way round.
fn cells_and_guards(mut job: Job) {
    let (me, all) = (usize::from(job.rank()), usize::from(job.ranks()));
    let points = job.alloc_slice::<f64>(3000, Homes::Blocks).unwrap();
    let bytes = job.alloc_slice::<i8>(3000, Homes::Cyclic).unwrap();
    for round in 1..4 {
        let at = |i: usize| (i * round) as f64 + 0.5;
        let mine = littoral_dsm::job::block_of(3000, me as u16, all as u16);
        let phase = job.phase().unwrap();
        let cells = phase.cells_mut(points.part(mine.clone())).unwrap();
        cells.iter().zip(mine).for_each(|(cell, i)| cell.set(at(i)));
        for i in (me..3000).step_by(all) {
            phase.write(bytes.part(i..i + 1)).unwrap()[0] = (i + round) as i8;
        }
        drop(cells);
        phase.end().unwrap();
        let phase = job.phase().unwrap();
        let read = phase.read(points).unwrap();
        assert!(read.iter().enumerate().all(|(i, v)| *v == at(i)));
        let cells = phase.cells(bytes).unwrap();
        assert!(cells.iter().enumerate().all(|(i, c)| c.get() == (i + round) as i8));
        drop((read, cells));
        phase.end().unwrap();
    }
    let section = job.enter(L).unwrap();
    let cells = section.cells_mut(points.part(0..1)).unwrap();
    cells[0].set(cells[0].get() + 1.0);
    drop(cells);
    section.leave().unwrap();
    job.barrier().unwrap();
    let phase = job.phase().unwrap();
    assert_eq!(phase.cells(points.part(0..1)).unwrap()[0].get(), 0.5 + all as f64);
    phase.end().unwrap();
    job.finish().unwrap();
}

#[test]
fn cells_and_guards_see_the_same_memory_on_every_fabric() {
    let all = EVERY.into_iter().chain([Over::MappedLines]);
    all.for_each(|over| _ = run(over, 3, cells_and_guards));
}

/// Rank 1 writes a part of a line at home at rank 0, which makes a private copy, and reaches the
/// lines around it by cells meanwhile.
#[test]
fn cells_of_a_mapped_pool_agree_with_guards() {
    for over in [Over::MappedLines, Over::Lines] {
        run(over, 2, |mut job| {
            let words = job.alloc_slice::<u64>(64, Homes::At(0)).unwrap();
            for round in 1..4 {
                let phase = job.phase().unwrap();
                if phase.rank() == 1 {
                    phase.write(words.part(9..10)).unwrap()[0] = 100 + round;
                    let seen = phase.cells(words.part(0..32)).unwrap();
                    assert_eq!(seen[9].get(), 100 + round, "{over:?}: a private copy");
                    drop(seen);
                    let cells = phase.cells_mut(words.part(8..32)).unwrap();
                    assert_eq!(cells[1].get(), 100 + round, "{over:?}: a private copy");
                    cells.iter().skip(2).for_each(|cell| cell.set(round));
                }
                phase.end().unwrap();
                let phase = job.phase().unwrap();
                let (one, two) = (phase.cells(words).unwrap(), phase.cells(words).unwrap());
                let in_place = over == Over::MappedLines;
                assert_eq!(std::ptr::eq(&raw const one[0], &raw const two[0]), in_place);
                let wanted = |i| match i {
                    9 => 100 + round,
                    10..32 => round,
                    32..48 => 7 * (round - 1),
                    _ => 0,
                };
                assert!(one.iter().enumerate().all(|(i, cell)| cell.get() == wanted(i)));
                drop((one, two));
                let part = phase.cells(words.part(1..9)).unwrap();
                assert!(part.iter().all(|cell| cell.get() == 0), "not whole lines");
                drop(part);
                phase.end().unwrap();
                let phase = job.phase().unwrap();
                if phase.rank() == 0 {
                    let cells = phase.cells_mut(words.part(32..48)).unwrap();
                    cells.iter().for_each(|cell| cell.set(7 * round));
                }
                phase.end().unwrap();
            }
            job.finish().unwrap();
        });
    }
}

#[test]
fn cells_and_guards_that_overlap_are_refused() {
    for over in [Over::Tcp, Over::Shm] {
        run(over, 1, |mut job| {
            let s = job.alloc_slice::<u32>(100, Homes::Cyclic).unwrap();
            let phase = job.phase().unwrap();
            let cells = phase.cells_mut(s.part(10..20)).unwrap();
            assert_eq!(phase.read(s.part(19..30)).err().unwrap().kind(), Kind::Misuse);
            assert_eq!(phase.cells(s.part(0..11)).err().unwrap().kind(), Kind::Misuse);
            drop(cells);
            let (one, two) = (phase.cells(s).unwrap(), phase.read(s).unwrap());
            assert_eq!((one.len(), one[99].get()), (two.len(), two[99]));
            drop((one, two));
            phase.end().unwrap();
            job.finish().unwrap();
        });
    }
}

/// A leaked guard never gives its bytes back: to end its scope all the same would send zeros, or
/// nothing, in place of what it wrote.
#[test]
fn a_leaked_guard_is_named_at_the_end_of_its_scope() {
    for (over, write) in EVERY.into_iter().flat_map(|over| [(over, true), (over, false)]) {
        let errors = run(over, 2, |mut job| {
            let s = job.alloc_slice::<u64>(100, Homes::At(0));
            if job.rank() == 1 {
                // Rank 0 may be gone before this rank has left the barrier of the allocation.
                return s.and_then(|_| job.barrier()).unwrap_err();
            }
            let s = s.unwrap();
            let section = job.enter(L).unwrap();
            let whole = section.write(s.part(0..9)).unwrap();
            drop(whole);
            if write {
                let mut guard = section.write(s.part(10..12)).unwrap();
                guard.fill(7);
                std::mem::forget(guard);
            } else {
                std::mem::forget(section.read(s.part(10..12)).unwrap());
            }
            let e = section.leave().unwrap_err();
            assert_eq!(e.kind(), Kind::Misuse, "{over:?}: {e}");
            let words = if write { "a writing guard on bytes" } else { "a reading guard on bytes" };
            assert!(e.to_string().contains(words) && e.to_string().contains("80..96"), "{e}");
            for again in [job.lock(LockId(9)), job.unlock(L), job.wait_for_all()] {
                assert_eq!(again.unwrap_err().to_string(), e.to_string(), "{over:?}");
            }
            e
        });
        assert!(errors[1].to_string().contains("rank 0"), "{over:?}: {}", errors[1]);
    }
}

/// Guards of few bytes are kept apart from longer ones.
#[test]
fn guards_of_every_length_read_and_write_their_bytes() {
    fn check<T: bytemuck::Pod + PartialEq + std::fmt::Debug>(
        job: &mut Job,
        value: impl Fn(u8) -> T,
    ) {
        let s = job.alloc_slice::<T>(120, Homes::At(0)).unwrap();
        for len in 0..40 {
            let section = job.enter(L).unwrap();
            section.write(s).unwrap().fill(value(255));
            let part = s.part(len..2 * len);
            let mut guard = section.write(part).unwrap();
            assert_eq!(guard.len(), len);
            guard.iter_mut().enumerate().for_each(|(i, v)| *v = value(i as u8));
            drop(guard);
            let all = section.read(s).unwrap();
            let expected = |i: usize| if (len..2 * len).contains(&i) { i - len } else { 255 };
            assert!((0..120).all(|i| all[i] == value(expected(i) as u8)), "{len}");
            assert_eq!(section.read(part).unwrap()[..], all[len..2 * len]);
            drop(all);
            section.leave().unwrap();
        }
    }
    for over in EVERY {
        run(over, 1, |mut job| {
            check(&mut job, |i| i);
            check(&mut job, |i| u16::from(i) * 257);
            check(&mut job, |i| [i, 1, i]);
            check(&mut job, f64::from);
            check(&mut job, |i| u128::from(i) << 70);
            job.finish().unwrap();
        });
    }
}
