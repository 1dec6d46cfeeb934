//! Members: allocation that waits for none, threads, mail, condition variables, one address.

#![allow(clippy::unwrap_used)]

#[path = "member/raw.rs"]
mod raw;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use littoral_base::units::NodeId;
use littoral_dsm::Kind;
use littoral_dsm::job::member::{Member, Piece};
use littoral_dsm::memory::{Mechanism, page_bytes};
use littoral_dsm::runtime::Config;
use littoral_dsm::runtime::carrier::{Carrier, Solo};
use littoral_fabric::Liveness;
use raw::word;
use support::{COPIES, Over, WITH_POINTERS, run_members};

fn alloc(member: &Member, words: usize, first: u16) -> usize {
    let piece = Piece { bytes: words * 8, block_bytes: words * 8, first };
    member.base() + member.allocate(&[piece]).unwrap()
}

fn load(address: usize) -> u64 {
    word(address).load(Ordering::Relaxed)
}

fn store(address: usize, value: u64) {
    word(address).store(value, Ordering::Relaxed);
}

/// Rank 0 allocates only when rank 1 has been waiting for its page for a while: a letter tells it.
#[test]
fn a_request_for_a_page_that_its_home_has_not_allocated_waits() {
    for over in COPIES {
        let seen = run_members(
            over,
            2,
            |_| {},
            |member| {
                if member.rank() == 0 {
                    member.receive(1, 0).unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(30));
                } else {
                    member.send(0, 0, &[]).unwrap();
                }
                let at = alloc(&member, 8, 0);
                if member.rank() == 1 {
                    member.lock(1).unwrap();
                    store(at, load(at) + 5);
                    member.unlock(1).unwrap();
                }
                member.barrier().unwrap();
                let value = load(at);
                member.finish().unwrap();
                value
            },
        );
        assert_eq!(seen, [5, 5], "{over:?}");
    }
}

/// Four threads of each rank write words of the same pages while one of them takes locks: nothing
/// written is lost, under either mechanism.
#[test]
fn threads_of_a_rank_share_its_pages() {
    const THREADS: usize = 4;
    const ROUNDS: u64 = 300;
    for over in WITH_POINTERS {
        for mechanism in [None, Some(Mechanism::Mprotect)] {
            run_members(
                over,
                2,
                |c| c.mechanism = mechanism,
                |member| {
                    let at = alloc(&member, 1024, 0);
                    let counter = alloc(&member, 1, 1);
                    let mine = at + usize::from(member.rank()) * THREADS * 8;
                    std::thread::scope(|s| {
                        for thread in 0..THREADS {
                            s.spawn(move || {
                                for round in 1..=ROUNDS {
                                    let place = mine + thread * 8 + (round as usize % 2) * 4096;
                                    store(place, load(place) + 1);
                                }
                            });
                        }
                        for _ in 0..20 {
                            member.lock(2).unwrap();
                            store(counter, load(counter) + 1);
                            member.unlock(2).unwrap();
                        }
                    });
                    member.barrier().unwrap();
                    for place in 0..2 * THREADS {
                        let sum = load(at + place * 8) + load(at + place * 8 + 4096);
                        assert_eq!(sum, ROUNDS, "{over:?} {mechanism:?}: word {place}");
                    }
                    assert_eq!(load(counter), 40);
                    member.finish().unwrap();
                },
            );
        }
    }
}

#[test]
fn letters_and_condition_variables_reach_the_other_rank() {
    for over in WITH_POINTERS {
        run_members(
            over,
            3,
            |_| {},
            |member| {
                let (me, next, before) =
                    (member.rank(), (member.rank() + 1) % 3, (member.rank() + 2) % 3);
                let big = vec![me as u8; 3 << 20];
                member.send(next, 7, &big).unwrap();
                member.send(next, 8, &[me as u8]).unwrap();
                member.send(me, 9, b"own").unwrap();
                assert_eq!(member.receive(before, 8).unwrap(), [before as u8]);
                assert_eq!(member.receive(before, 7).unwrap(), vec![before as u8; 3 << 20]);
                assert_eq!(member.receive(me, 9).unwrap(), b"own");
                assert_eq!(member.broadcast(1, &[me as u8]).unwrap(), [1]);
                let all = member.gather(2, &[me as u8]).unwrap();
                assert_eq!(all.len(), if me == 2 { 3 } else { 0 });
                for cv in 0..6 {
                    if u32::from(me) == cv % 3 {
                        member.set_flag(cv, true).unwrap();
                    }
                    member.wait_flag(cv).unwrap();
                    member.meet().unwrap();
                }
                assert_eq!(member.send(3, 0, &[]).unwrap_err().kind(), Kind::OutOfRange);
                member.finish().unwrap();
            },
        );
    }
}

/// The way to rank 1 of two, which manages a condition variable and answers a while after it is
/// asked.
#[derive(Default)]
struct Manager {
    is_asked: AtomicBool,
    answers: AtomicU32,
    has_answered: Arc<AtomicBool>,
}

impl Carrier for Manager {
    fn me(&self) -> NodeId {
        NodeId(0)
    }
    fn ranks(&self) -> u16 {
        2
    }
    fn post_bytes_max(&self) -> usize {
        1 << 20
    }
    /// The tag of a body is behind the frame's number and a byte.
    fn try_post(&self, _to: NodeId, frame: &[u8]) -> littoral_dsm::Result<bool> {
        self.is_asked.fetch_or(frame.get(5) == Some(&7), Ordering::SeqCst);
        Ok(true)
    }
    /// Variable 1 was changed as asked.
    fn receive(&self, timeout: Duration) -> littoral_dsm::Result<Option<(NodeId, Vec<u8>)>> {
        if !self.is_asked.swap(false, Ordering::SeqCst) {
            std::thread::sleep(timeout);
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
        self.has_answered.store(true, Ordering::SeqCst);
        let number = self.answers.fetch_add(1, Ordering::SeqCst).to_le_bytes();
        Ok(Some((NodeId(1), [&number[..], &[0], &[7, 4, 1, 0, 0, 0]].concat())))
    }
    fn show_life(&self) -> littoral_dsm::Result<()> {
        Ok(())
    }
    fn liveness(&self, _rank: NodeId) -> Liveness {
        Liveness::Alive
    }
}

#[test]
fn a_condition_variable_is_changed_when_its_manager_has_said_so() {
    let has_answered = Arc::new(AtomicBool::new(false));
    let carrier = Manager { has_answered: Arc::clone(&has_answered), ..Manager::default() };
    let config = Config { bytes_max: 1 << 20, ..Config::default() };
    let member = Member::start(Box::new(carrier), config).unwrap();
    for on in [true, false] {
        member.set_flag(1, on).unwrap();
        assert!(has_answered.swap(false, Ordering::SeqCst), "the manager may not know of it");
    }
}

/// Rank 1 computes until rank 0 can send no more, and takes the letters then.
#[test]
fn letters_wait_at_the_sender_while_their_receiver_computes() {
    const LETTERS: usize = 64;
    const BYTES: usize = 256 << 10;
    for over in WITH_POINTERS {
        let sent = AtomicUsize::new(0);
        let letter = |n: usize| vec![n as u8; BYTES];
        run_members(
            over,
            2,
            |_| {},
            |member| {
                if member.rank() == 0 {
                    for n in 0..LETTERS {
                        member.send(1, 0, &letter(n)).unwrap();
                        sent.fetch_add(1, Ordering::SeqCst);
                    }
                } else {
                    while sent.load(Ordering::SeqCst) < 4 {
                        std::thread::yield_now();
                    }
                    for _ in 0..40 {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                        let sent = sent.load(Ordering::SeqCst);
                        assert!(
                            sent <= 5,
                            "{over:?}: {sent} letters left for a rank that computes"
                        );
                    }
                    let all = (0..LETTERS).map(|n| member.receive(0, 0).unwrap() == letter(n));
                    assert!(all.into_iter().all(|is_right| is_right), "{over:?}");
                }
                member.finish().unwrap();
            },
        );
    }
}

/// Each wait is for the rank that sends: to wait for the other's taking would be for ever.
#[test]
fn letters_to_a_rank_that_waits_never_wait() {
    for over in WITH_POINTERS {
        run_members(
            over,
            2,
            |_| {},
            |member| {
                let (me, other) = (member.rank(), 1 - member.rank());
                let big = vec![me as u8; 1 << 20];
                let send = |tag| (0..3).for_each(|_| member.send(other, tag, &big).unwrap());
                let theirs = vec![other as u8; 1 << 20];
                let take = |tag| {
                    (0..3).for_each(|_| assert!(member.receive(other, tag).unwrap() == theirs));
                };
                [1, 2, 3].into_iter().for_each(send);
                [3, 1, 2].into_iter().for_each(take);
                if me == 0 {
                    member.lock(3).unwrap();
                    member.send(1, 9, &[]).unwrap();
                    send(4);
                    member.unlock(3).unwrap();
                    send(5);
                } else {
                    assert!(member.receive(0, 9).unwrap().is_empty());
                    member.lock(3).unwrap();
                    member.unlock(3).unwrap();
                }
                member.barrier().unwrap();
                if me == 1 {
                    [5, 4].into_iter().for_each(take);
                }
                member.finish().unwrap();
            },
        );
    }
}

/// Rank 1 holds the lock for as long as the job lasts; a thread of rank 0 waits for it.
#[test]
fn a_thread_that_waits_learns_that_another_has_ended_the_job() {
    for over in [Over::Tcp, Over::Hostile] {
        let taken = AtomicUsize::new(0);
        run_members(
            over,
            2,
            |_| {},
            |member| {
                if member.rank() == 1 {
                    member.lock(1).unwrap();
                    taken.store(1, Ordering::SeqCst);
                    let told = member.receive(0, 0).unwrap_err().to_string();
                    return assert!(told.contains("enough"), "{over:?}: {told}");
                }
                while taken.load(Ordering::SeqCst) == 0 {
                    std::thread::yield_now();
                }
                let before = member.counts().messages;
                std::thread::scope(|s| {
                    let waits = s.spawn(|| member.lock(1).unwrap_err().to_string());
                    // Its request is on its way to rank 1, which manages the lock.
                    while member.counts().messages == before {
                        std::thread::yield_now();
                    }
                    member.abandon("enough");
                    let told = waits.join().unwrap();
                    assert!(told.contains("enough"), "{over:?}: {told}");
                });
            },
        );
    }
}

/// Rank 1 leaves. Rank 0 meets it at one barrier at most, and would wait at the next one for ever.
#[test]
fn a_rank_that_goes_on_when_another_leaves_says_so() {
    for over in WITH_POINTERS {
        run_members(
            over,
            2,
            |_| {},
            |member| {
                let e = match member.rank() {
                    0 => loop {
                        if let Err(e) = member.barrier() {
                            break e;
                        }
                    },
                    _ => member.finish().unwrap_err(),
                };
                assert!(e.to_string().contains("rank 1 leaves the job"), "{over:?}: {e}");
                let kind = if member.rank() == 0 { Kind::Misuse } else { Kind::PeerLost };
                assert_eq!(e.kind(), kind, "{over:?}");
            },
        );
    }
}

/// Variables are kept by both ranks; rank 1 sets one of each before it leaves, and two it does not.
#[test]
fn a_wait_for_a_variable_that_no_rank_sets_any_more_fails() {
    for over in WITH_POINTERS {
        run_members(
            over,
            2,
            |_| {},
            |member| {
                if member.rank() == 1 {
                    member.set_flag(2, true).unwrap();
                    member.set_flag(3, true).unwrap();
                    let told = member.finish().unwrap_err().to_string();
                    return assert!(told.contains("enough"), "{over:?}: {told}");
                }
                assert!(member.receive(1, 0).is_err(), "rank 1 leaves");
                for _ in 0..2 {
                    (2..4).for_each(|cv| member.wait_flag(cv).unwrap());
                    for cv in [4, 5] {
                        let e = member.wait_flag(cv).unwrap_err().to_string();
                        let why = format!("condition variable {cv}, and all other ranks leave");
                        assert!(e.contains(&why), "{over:?}: {e}");
                    }
                }
                member.abandon("enough");
            },
        );
    }
}

/// What a rank has sent before it leaves is taken; what it has not sent will not come.
#[test]
fn a_wait_for_a_letter_of_a_rank_that_leaves_fails() {
    for over in WITH_POINTERS {
        run_members(
            over,
            2,
            |_| {},
            |member| {
                if member.rank() == 1 {
                    member.send(0, 7, &[5]).unwrap();
                    let told = member.finish().unwrap_err().to_string();
                    return assert!(told.contains("enough"), "{over:?}: {told}");
                }
                let e = member.receive(1, 8).unwrap_err();
                assert!(e.to_string().contains("sends nothing more"), "{over:?}: {e}");
                assert_eq!(member.receive_matching(Some(1), None).unwrap(), [5], "{over:?}");
                let e = member.receive_matching(None, None).unwrap_err();
                assert!(e.to_string().contains("sends nothing more"), "{over:?}: {e}");
                member.abandon("enough");
            },
        );
    }
}

#[test]
fn allocations_of_nothing_and_of_too_much_are_refused() {
    run_members(
        Over::ShmPages,
        2,
        |_| {},
        |member| {
            let piece = |bytes, block_bytes, first| Piece { bytes, block_bytes, first };
            for (bad, kind) in [
                (piece(0, 1, 0), Kind::Misuse),
                (piece(1, 0, 0), Kind::Misuse),
                (piece(1, 1, 2), Kind::OutOfRange),
                (piece(1 << 40, 1, 0), Kind::OutOfRange),
            ] {
                assert_eq!(member.allocate(&[bad]).unwrap_err().kind(), kind, "{bad:?}");
            }
            let at = member.allocate(&[piece(page_bytes() + 1, 1, 0), piece(1, 1, 1)]).unwrap();
            assert_eq!((at, member.bytes()), (0, 3 * page_bytes()));
            member.finish().unwrap();
        },
    );
}

#[test]
fn memory_lies_where_the_job_says_and_a_conflict_is_named() {
    const BASE: usize = 0x3100_0000_0000;
    let config = || Config { bytes_max: 1 << 20, base: Some(BASE), ..Config::default() };
    let first = Member::start(Box::new(Solo), config()).unwrap();
    assert_eq!(first.base(), BASE);
    let e = Member::start(Box::new(Solo), config()).unwrap_err().to_string();
    assert!(e.contains("at 0x310000000000 meets") && e.contains("--address"), "{e}");
    assert!(e.contains("littoral-dsm"), "what lies there is named: {e}");
    first.finish().unwrap();
}
