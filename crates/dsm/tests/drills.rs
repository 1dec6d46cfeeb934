//! Jobs under fault plans: a job answers right or says what went wrong; it never answers wrong.
//!
//! Ranks are threads, so who meets which fault depends on their order; the plan's text is in every
//! message. `LITTORAL_DRILL="seed=5 send:delay=1/3"` runs one plan over every fabric.
//!
//! A lost message leaves ranks waiting, as on a transport that loses silently. A watch then cuts a
//! rank off, which the others notice.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use littoral_base::units::NodeId;
use littoral_dsm::Kind;
use littoral_dsm::core::message::LockId;
use littoral_dsm::job::Job;
use littoral_fabric::faulty::Faults;
use support::{Over, run_under};

const RANKS: u16 = 3;
const ROUNDS: u64 = 40;
const RIGHT: u64 = RANKS as u64 * ROUNDS;
/// How long a job may take once a message is lost before a rank is given up. It decides when a
/// drill ends, never how.
const PATIENCE: Duration = Duration::from_millis(500);

type Ends = Vec<littoral_dsm::Result<u64>>;

fn count(job: littoral_dsm::Result<Job>) -> littoral_dsm::Result<u64> {
    let mut job = job?;
    let counter = job.alloc::<u64>()?;
    for _ in 0..ROUNDS {
        let section = job.enter(LockId(3))?;
        section.write(counter.whole())?[0] += 1;
        section.leave()?;
    }
    job.barrier()?;
    let phase = job.phase()?;
    let value = phase.read(counter.whole())?[0];
    phase.end()?;
    job.finish()?;
    Ok(value)
}

/// Runs the counter under `plan`; what each rank ends with, and how many faults struck.
fn drill(over: Over, plan: &str) -> (Ends, u64) {
    let faults = Faults::new(RANKS, plan.parse().unwrap()).unwrap();
    let ends = run_under(over, RANKS, Some(Arc::clone(&faults)), |_| {}, count);
    (ends, faults.struck())
}

/// As [`drill`], where a fault may leave ranks waiting.
fn watched_drill(over: Over, plan: &str) -> (Ends, u64) {
    let faults = Faults::new(RANKS, plan.parse().unwrap()).unwrap();
    let done = AtomicBool::new(false);
    let ends = std::thread::scope(|s| {
        s.spawn(|| watch(&faults, &done));
        let ends = run_under(over, RANKS, Some(Arc::clone(&faults)), |_| {}, count);
        done.store(true, Ordering::SeqCst);
        ends
    });
    (ends, faults.struck())
}

/// Cuts a rank off when a job in which a fault struck does not end.
fn watch(faults: &Faults, done: &AtomicBool) {
    let step = Duration::from_millis(10);
    let mut waited = Duration::ZERO;
    while !done.load(Ordering::SeqCst) {
        std::thread::sleep(step);
        waited = if faults.struck() > 0 { waited + step } else { Duration::ZERO };
        if waited == PATIENCE {
            faults.cut(NodeId(RANKS - 1));
        }
    }
}

/// Right or an error that says so; whether all ranks were right.
fn never_wrong(over: Over, plan: &str, ends: &Ends) -> bool {
    for end in ends {
        match end {
            Ok(value) => assert_eq!(*value, RIGHT, "{over:?} under `{plan}`"),
            Err(e) => {
                let expected = [Kind::PeerLost, Kind::Protocol, Kind::Environment];
                assert!(expected.contains(&e.kind()), "{over:?} under `{plan}`: {e}");
                assert!(!e.context().is_empty());
            }
        }
    }
    ends.iter().all(Result::is_ok)
}

const OVER: [Over; 3] = [Over::Tcp, Over::ShmPages, Over::Hostile];

#[test]
fn delays_cost_time_and_nothing_else() {
    for over in OVER {
        for seed in 0..3 {
            let plan = format!("seed={seed} send:delay=1/3");
            let (ends, struck) = drill(over, &plan);
            assert!(never_wrong(over, &plan, &ends), "{over:?} under `{plan}`: {ends:?}");
            assert!(struck > 20, "{over:?}: the plan struck {struck} times");
        }
    }
}

#[test]
fn a_doubled_message_is_noticed() {
    for over in OVER {
        let plan = "seed=1 send:duplicate=1/40";
        let (ends, struck) = watched_drill(over, plan);
        assert!(struck > 0);
        assert!(!never_wrong(over, plan, &ends), "{over:?}: a doubled frame passed");
        let is_named = |e: &littoral_dsm::Error| e.kind() == Kind::Protocol;
        assert!(ends.iter().any(|e| e.as_ref().is_err_and(is_named)), "{over:?}: {ends:?}");
    }
}

#[test]
fn a_lost_or_refused_message_never_makes_an_answer_wrong() {
    for over in OVER {
        for plan in ["seed=3 @60=drop", "seed=4 @60=fail"] {
            let (ends, struck) = watched_drill(over, plan);
            assert_eq!(struck, 1, "{over:?} under `{plan}`");
            never_wrong(over, plan, &ends);
        }
    }
}

#[test]
fn a_rank_that_is_cut_off_ends_the_job_and_is_named() {
    for over in OVER {
        for cut in [3, 50, 150] {
            let plan = format!("seed={cut} cut={cut}");
            let (ends, struck) = watched_drill(over, &plan);
            assert_eq!(struck, 1, "{over:?} under `{plan}`");
            assert!(!never_wrong(over, &plan, &ends), "{over:?} under `{plan}`: {ends:?}");
            let is_lost = |e: &littoral_dsm::Error| e.kind() == Kind::PeerLost;
            assert!(ends.iter().any(|e| e.as_ref().is_err_and(is_lost)), "{over:?}: {ends:?}");
        }
    }
}

#[test]
fn the_plan_that_is_asked_for() {
    let default = || "seed=7 send:delay=1/9 send:duplicate=1/90 @80=cut".to_owned();
    let plan = std::env::var("LITTORAL_DRILL").unwrap_or_else(|_| default());
    for over in OVER {
        let (ends, _) = watched_drill(over, &plan);
        never_wrong(over, &plan, &ends);
    }
}
