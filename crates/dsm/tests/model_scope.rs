//! Every interleaving of small race-free programs, explored exhaustively: 2 to 3 ranks, 2 pages, 2
//! locks. Two properties: no read ever differs from what scope consistency promises, and no job
//! gets stuck.

mod common;

use common::Step::{self, Barrier, Increment, Lock, Read, Unlock, Write};
use common::{Job, Move, Way};
use littoral_dsm::core::rank::Shape;
use stateright::{Checker, Model, Property};

struct Explored(Job);

impl Model for Explored {
    type State = Job;
    type Action = Move;

    fn init_states(&self) -> Vec<Job> {
        vec![self.0.clone()]
    }

    fn actions(&self, state: &Job, actions: &mut Vec<Move>) {
        actions.extend(state.moves());
    }

    fn next_state(&self, state: &Job, action: Move) -> Option<Job> {
        let mut next = state.clone();
        next.apply(action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("reads see what scope consistency promises", |_, s: &Job| {
                s.verdict.is_none()
            }),
            Property::always("no rank is stuck", |_, s: &Job| {
                !s.moves().is_empty() || s.finished() || s.verdict.is_some()
            }),
        ]
    }
}

fn shape(ranks: u16, predict: bool, log_capacity: usize) -> Shape {
    Shape { ranks, pages: 2, page_bytes: 2, locks: 2, log_capacity, predict }
}

fn explore(job: Job, road: &str) -> usize {
    let checker = Explored(job).checker().threads(2).spawn_bfs().join();
    if let Some((name, path)) = checker.discoveries().into_iter().next() {
        let verdict = path.last_state().verdict.clone();
        panic!("{name}, {road}: {verdict:?}\n{:#?}", path.into_actions());
    }
    checker.unique_state_count()
}

/// With the barrier's manager, without it, and without any message.
fn explore_roads(job: Job, log_capacity: usize) {
    let (without, road) = match job.ranks.len() {
        2 => (job.clone().exchange_arrivals(), "by exchange"),
        _ => (job.clone().gather_arrivals(), "by dissemination"),
    };
    let alone = |way| job.clone().without_server(log_capacity, way);
    let short = (alone(Way::Short), "without a server");
    let mixed = (alone(Way::Mixed), "without a server, two ways");
    for (job, road) in [(without, road), short, mixed, (job, "by the manager")] {
        let states = explore(job, road);
        assert!(states > 20, "only {states} states: the model explored nothing");
    }
}

fn explore_all(ranks: u16, programs: &[&[Step]]) {
    for predict in [false, true] {
        for capacity in [1, 8] {
            let job = Job::new(&shape(ranks, predict, capacity), programs);
            let unshared = job.clone().keep_unshared_homes();
            for job in [job.clone().send_along(), unshared.clone().send_along(), job, unshared] {
                explore_roads(job, capacity);
            }
        }
    }
}

const X: common::Place = (0, 0);
const X2: common::Place = (0, 1);
const Y: common::Place = (1, 0);

#[test]
fn repeated_contended_sections() {
    let p: &[Step] = &[
        Lock(0),
        Increment(X),
        Unlock(0),
        Lock(0),
        Increment(X),
        Unlock(0),
        Lock(0),
        Read(X),
        Unlock(0),
    ];
    explore_all(2, &[p, p]);
}

#[test]
fn three_ranks_share_a_lock() {
    let p: &[Step] = &[Lock(1), Increment(Y), Unlock(1), Lock(1), Increment(Y), Unlock(1)];
    let q: &[Step] = &[Lock(1), Increment(Y), Unlock(1)];
    explore_all(3, &[p, p, q]);
}

#[test]
fn two_locks_on_one_page() {
    let a: &[Step] = &[
        Lock(0),
        Increment(X),
        Unlock(0),
        Lock(1),
        Read(X2),
        Unlock(1),
        Lock(0),
        Increment(X),
        Unlock(0),
    ];
    let b: &[Step] = &[
        Lock(1),
        Increment(X2),
        Unlock(1),
        Lock(0),
        Read(X),
        Unlock(0),
        Lock(1),
        Increment(X2),
        Unlock(1),
    ];
    explore_all(2, &[a, b]);
}

#[test]
fn an_inner_section_is_published_by_the_outer_lock_too() {
    let a: &[Step] =
        &[Lock(0), Increment(Y), Lock(1), Increment(X), Unlock(1), Increment(Y), Unlock(0)];
    let b: &[Step] = &[Lock(0), Read(X), Increment(Y), Lock(1), Increment(X), Unlock(1), Unlock(0)];
    explore_all(2, &[a, b]);
}

/// Rank 1 learns a value under lock 0 and stores it again under lock 1, where the page was
/// predicted: no byte of its copy changes, yet rank 2, whose copy is older, must see it under lock
/// 1.
#[test]
fn a_predicted_store_of_the_same_value_is_published() {
    let set = |lock, value| [Lock(lock), Write(X, value), Unlock(lock)];
    let get = |lock| [Lock(lock), Read(X), Unlock(lock)];
    let one = [&set(1, 1)[..], &get(0), &set(1, 5)].concat();
    let two = [get(1), get(1)].concat();
    let mut job = Job::new(&Shape { ranks: 3, ..shape(3, true, 8) }, &[&set(0, 5), &one, &two]);
    job.run_alone(1, 3);
    job.run_alone(2, 3);
    job.run_alone(0, 3);
    job.run_alone(1, 6);
    job.run_alone(2, 3);
    assert_eq!(job.verdict, None);
    assert!(job.finished());
}

/// A rank that has left a barrier may use a lock before the lock's manager has left it: what it
/// wrote belongs to the new generation and must not be forgotten with the old one.
#[test]
fn a_section_may_overtake_the_managers_departure() {
    let manager: &[Step] = &[Read(X), Barrier, Lock(1), Read(X), Unlock(1)];
    let writer: &[Step] = &[Barrier, Lock(1), Increment(X), Unlock(1)];
    explore_all(3, &[&[Barrier], manager, writer]);
}

#[test]
fn barriers_publish_everything() {
    let a: &[Step] = &[Write(X, 7), Barrier, Read(Y), Barrier, Write(Y, 4), Barrier, Read(X)];
    let b: &[Step] = &[Write(Y, 9), Barrier, Read(X), Barrier, Write(X, 3), Barrier, Read(Y)];
    explore_all(2, &[a, b]);
}

/// Each rank writes a page, its own or another's home, and reads what the others have written.
#[test]
fn barriers_of_many_ranks_publish_everything() {
    let (z, pages) = ((2, 0), 3);
    let one = [Write(Y, 7), Barrier, Read(z), Barrier, Read(X)];
    let two = [Write(z, 5), Barrier, Read(X), Barrier, Read(Y)];
    // It has a copy of page 1 when the barrier names it.
    let three = [Read((1, 1)), Write(X, 9), Barrier, Read(Y), Barrier];
    for along in [false, true] {
        let job = Job::new(&Shape { pages, ..shape(3, true, 8) }, &[&one, &two, &three]);
        let job = job.keep_unshared_homes();
        explore_roads(if along { job.send_along() } else { job }, 8);
    }
    let pages = 4;
    let programs: [&[Step]; 4] = [
        &[Write((1, 0), 1), Barrier, Read((3, 0))],
        &[Barrier],
        &[Barrier],
        &[Write((3, 0), 2), Barrier],
    ];
    explore_roads(Job::new(&Shape { pages, ..shape(4, false, 8) }, &programs).send_along(), 8);
}

/// Three ranks write and read in turn; what is read comes with the departures.
#[test]
fn pages_come_with_departures_of_many_ranks() {
    let turns = |step: &dyn Fn(u32) -> Option<Step>, phases: u32| -> Vec<Step> {
        (0..phases).flat_map(|n| step(n).into_iter().chain([Barrier])).collect()
    };
    let writer = turns(&|n| Some(Increment(if n % 2 == 0 { X } else { Y })), 4);
    let reader = turns(&|n| Some(Read(if n % 2 == 0 { Y } else { X })), 4);
    let other = turns(&|n| (n == 3).then_some(Read(X)), 4);
    for programs in [[&writer, &reader, &other], [&reader, &other, &writer]] {
        let programs = programs.map(|p| &p[..]);
        let job = Job::new(&shape(3, true, 8), &programs);
        explore_roads(job.keep_unshared_homes().send_along(), 8);
    }
}

#[test]
fn sections_and_barriers_mix() {
    let a: &[Step] =
        &[Lock(0), Increment(X), Unlock(0), Write(Y, 1), Barrier, Lock(0), Increment(X), Unlock(0)];
    let b: &[Step] =
        &[Lock(0), Increment(X), Unlock(0), Barrier, Read(Y), Lock(0), Increment(X), Unlock(0)];
    explore_all(2, &[a, b]);
}

/// The home of Y and the manager of lock 1 is rank 1: what rank 2 has written there under the lock
/// must be in the page before a barrier, or an outer section, tells others of it.
#[test]
fn what_travels_with_a_release_is_home_before_others_are_told() {
    let inner: &[Step] = &[Lock(1), Increment(Y), Unlock(1)];
    let then = |more: &[Step]| [inner, more].concat();
    explore_all(3, &[&[Barrier, Read(Y)], &[Barrier, Read(Y)], &then(&[Barrier])]);
    let nested = [&[Lock(0)], inner, &[Unlock(0)]].concat();
    let reader: &[Step] = &[Lock(0), Read(Y), Unlock(0)];
    explore_all(3, &[reader, reader, &nested]);
}

/// Pages 0 and 1 are at home at two other ranks: what one section wrote goes to both of them before
/// the lock is left.
#[test]
fn a_section_writes_pages_of_two_homes() {
    let reader: &[Step] = &[Lock(0), Read(X), Read(Y), Unlock(0)];
    let writer: &[Step] = &[Lock(0), Increment(X), Increment(Y), Unlock(0)];
    explore_all(3, &[reader, reader, &[writer, reader].concat()]);
    explore_all(3, &[reader, &[Lock(0), Increment(X), Unlock(0)], writer]);
}

/// One rank writes two pages in turn, the other reads what was written a phase before: the pages
/// come with the departure, and are writable before their next write, until the last phase.
#[test]
fn pages_come_with_departures_in_a_program_of_two_colours() {
    let colour = |n: u32| if n.is_multiple_of(2) { X } else { Y };
    let turns = |step: &dyn Fn(u32) -> Step| -> Vec<Step> {
        (0..9).flat_map(|n| [step(n), Barrier]).collect()
    };
    let writer = turns(&|n| if n == 7 { Read(Y) } else { Increment(colour(n)) });
    let reader = turns(&|n| Read(colour(n + 1)));
    explore_all(2, &[&writer, &reader]);
    explore_all(2, &[&reader, &writer]);
}

/// Both ranks write their bytes of one page in every phase but one, and one also under a lock.
#[test]
fn a_page_that_two_ranks_write_comes_writable_with_departures() {
    let one: Vec<Step> = [Increment(X), Barrier].repeat(5);
    let mut other: Vec<Step> = [Increment(X2), Barrier].repeat(5);
    other[6] = Read(X2);
    other.extend([Read(X), Lock(0), Increment(Y), Unlock(0)]);
    let one = [&one[..], &[Lock(0), Increment(Y), Unlock(0), Read(X2)]].concat();
    explore_all(2, &[&one, &other]);
    explore_all(2, &[&other, &one]);
}

/// Rank 0's page is unshared when it enters; rank 1 fetches it, for another byte, before, while and
/// after rank 0 writes in the section.
#[test]
fn a_page_handed_out_at_any_point_is_noticed_from_then_on() {
    let a: &[Step] = &[Lock(1), Increment(X), Increment(X), Unlock(1), Barrier, Write(X, 9)];
    let b: &[Step] = &[Read(X2), Lock(1), Read(X), Unlock(1), Barrier];
    explore_all(2, &[a, b]);
    let a: &[Step] =
        &[Write(X, 7), Lock(1), Increment(X), Unlock(1), Barrier, Increment(X), Barrier];
    let b: &[Step] = &[Read(X2), Lock(1), Unlock(1), Barrier, Read(X2), Barrier, Read(X)];
    explore_all(2, &[a, b]);
}

/// Rank 0 has evicted a written copy and reaches the barrier before that difference is
/// acknowledged: its scope is closed, and its arrival is not sent. Rank 1 fetches rank 0's page
/// then, which rank 0 writes in the next phase without a fault.
#[test]
fn a_page_handed_out_while_a_barrier_awaits_evicted_differences_is_noticed() {
    let (kept, evicted) = ((3, 0), (1, 0));
    let home: &[Step] = &[
        Write(X, 7),
        Read(kept),
        Write(evicted, 1),
        Write(kept, 1),
        Barrier,
        Write(X, 9),
        Barrier,
    ];
    let other: &[Step] = &[Read(X2), Barrier, Barrier, Read(X)];
    let job = Job::new(&Shape { pages: 4, ..shape(2, true, 8) }, &[home, other]);
    let job = job.keep_unshared_homes().limit_copies(3);
    for job in [job.clone().send_along(), job] {
        explore_roads(job, 8);
    }
}

/// Rank 0 stores a value and the old one again in one phase; a rank that fetched the page between,
/// for another byte, must not keep it.
#[test]
fn a_value_that_was_served_and_taken_back_is_invalidated() {
    let home: &[Step] = &[Write(X, 7), Write(X, 1), Write(X, 7), Barrier];
    let other: &[Step] = &[Read(X2), Barrier, Read(X)];
    explore_all(3, &[home, other, other]);
}

/// Rank 0 writes its page in every second phase and rank 1 reads it in between, so that it comes
/// writable with a twin when its next write is due. Then rank 0 writes a value and the old one
/// again; rank 2 fetches the page between, for another byte, and must not keep it.
#[test]
fn a_value_between_two_writes_of_a_page_with_a_twin_is_invalidated() {
    let phases = |step: &dyn Fn(u32) -> Vec<Step>| -> Vec<Step> {
        (0..8).flat_map(|n| [step(n), vec![Barrier]].concat()).collect()
    };
    let home = phases(&|n| match n {
        7 => vec![Write(X, 9), Write(X, 3)],
        n if n.is_multiple_of(2) => vec![],
        _ => vec![Increment(X)],
    });
    let reader = phases(&|n| if n.is_multiple_of(2) { vec![Read(X2)] } else { vec![] });
    let late = [phases(&|n| if n == 7 { vec![Read(X2)] } else { vec![] }), vec![Read(X)]].concat();
    let job = Job::new(&shape(3, true, 8), &[&home, &reader, &late]);
    explore_roads(job.keep_unshared_homes().send_along(), 8);
}

/// The canary: a program with a race must be caught, or the oracle sees nothing.
#[test]
fn a_race_is_caught() {
    let job = Job::new(&shape(2, false, 8), &[&[Increment(X), Increment(X)], &[Increment(X)]]);
    let checker = Explored(job).checker().spawn_bfs().join();
    assert!(checker.discovery("reads see what scope consistency promises").is_some());
}
