//! Who is named when a job is lost: the rank that died first, by all ranks, in whatever order the
//! others end and however late one of them looks.
//!
//! The order is forced: a rank is stopped while another is killed and a third dies of that;
//! only when both have ended does it go on. The test's own binary is the launcher and the ranks, as
//! in `launch.rs`; the launcher strikes before it begins to wait, so that no limit of its own
//! counts.

#![allow(clippy::unwrap_used)]

mod processes;

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::time::Duration;

use littoral_dsm::core::message::LockId;
use littoral_dsm::job::{Homes, Job};
use littoral_dsm::launch::{Fabric, run};
use littoral_dsm::virtual_time::Compute;
use littoral_fabric::timing::Timing;
use rustix::process::{Pid, Signal, kill_process};

use processes::{
    MARKS, be_a_rank, gone, launched, launcher, mark, marks_folder, plan, say, text, until,
    wait_for_marks,
};

const BOARD: &str = "LITTORAL_DSM_BOARD";
/// Leaves a rank of this job without the board that its launcher made.
const ALONE: &str = "DSM_TEST_ALONE";
/// The last is as between machines: no memory is shared.
const FABRICS: [&str; 7] = ["shm", "pages", "pool", "pool-pages", "tcp", "sim", "tcp-alone"];

#[test]
fn process() {
    be_a_rank(rank_program);
    if let Some(line) = launched() {
        let (case, fabric) = line.split_once(' ').unwrap();
        let mut plan = plan(3, fabric_of(fabric), 1 << 26);
        if fabric == "tcp-alone" {
            plan.variables.push((ALONE.into(), "yes".into()));
        }
        let started = run::start(&plan).unwrap();
        let ranks = wait_for_marks(&marks_folder(), 3);
        strike(case, &ranks);
        let end = started.wait(&|| false);
        for e in end.ends.iter().filter(|e| e.killed_by_launcher) {
            say(&format!("launcher: killed rank {}", e.rank));
        }
        std::process::exit(i32::from(end.code));
    }
}

fn fabric_of(name: &str) -> Fabric {
    match name {
        "shm" => Fabric::Shm,
        "pages" => Fabric::ShmPages,
        "pool" => Fabric::Pool,
        "pool-pages" => Fabric::PoolPages,
        "sim" => {
            let timing = Timing::open("tcp").unwrap();
            Fabric::Sim { timing, compute: Compute::Declared }
        }
        _ => Fabric::Tcp,
    }
}

/// Stops a process and waits until none of its threads runs any more.
fn stop(process: Pid) {
    kill_process(process, Signal::STOP).unwrap();
    let tasks = format!("/proc/{}/task", process.as_raw_nonzero());
    let is_stopped = |task: std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("stat")).is_ok_and(|s| s.contains(") T "))
    };
    until("a process to stop", || std::fs::read_dir(&tasks).unwrap().flatten().all(is_stopped));
}

/// Ends ranks 0 and 1 in the order of the case while rank 2 is stopped, and lets that one go on.
fn strike(case: &str, ranks: &[Pid]) {
    let send = |rank: usize, signal| kill_process(ranks[rank], signal).unwrap();
    stop(ranks[2]);
    match case {
        "killed" => send(1, Signal::KILL),
        "leaves" => std::fs::write(marks_folder().join("go"), "").unwrap(),
        "both" => {
            [0, 1].into_iter().for_each(|rank| stop(ranks[rank]));
            [0, 1].into_iter().for_each(|rank| send(rank, Signal::KILL));
        }
        other => panic!("no case {other}"),
    }
    until("ranks 0 and 1 to end", || gone(ranks[0]) && gone(ranks[1]));
    send(2, Signal::CONT);
}

/// Rank 1 holds lock 5 and stays until it is told to go, the others wait at a barrier.
fn rank_program(_words: &[String]) -> ExitCode {
    if std::env::var_os(ALONE).is_some() && std::env::var_os(BOARD).is_some() {
        let mut again = Command::new(std::env::current_exe().unwrap());
        let failed = again.args(std::env::args_os().skip(1)).env_remove(BOARD).exec();
        panic!("{failed}");
    }
    let mut job = Job::join().unwrap();
    let _s = job.alloc_slice::<u64>(1, Homes::Cyclic).unwrap();
    // After another barrier each rank knows each other's process.
    job.barrier().unwrap();
    if job.rank() != 1 {
        mark(&job);
        let e = job.barrier().unwrap_err();
        panic!("a rank of a lost job goes on: {e}");
    }
    // In virtual time the others have begun to wait when this is over.
    job.work(1_000_000);
    job.lock(LockId(5)).unwrap();
    mark(&job);
    while !marks_folder().join("go").exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    ExitCode::FAILURE
}

/// What a job on `fabric` says when `case` befalls it, its exit code, and its processes.
fn befall(case: &str, fabric: &str) -> (String, Option<i32>, Vec<Pid>) {
    let marks = tempfile::tempdir().unwrap();
    let mut command = launcher(&format!("{case} {fabric}"), "stay");
    let out = command.env(MARKS, marks.path()).output().unwrap();
    (text(&out), out.status.code(), wait_for_marks(marks.path(), 3))
}

fn line_of(said: &str, rank: usize) -> &str {
    let line = said.lines().find(|l| l.starts_with(&format!("littoral dsm: rank {rank}: ")));
    line.unwrap_or_else(|| panic!("rank {rank} said nothing: {said}"))
}

/// What is said of a rank that died, on a fabric.
fn death(ranks: &[Pid], rank: usize, fabric: &str) -> String {
    let process = ranks[rank].as_raw_nonzero();
    let held = match (fabric, rank) {
        // The lock's manager may be among the dead, or stopped.
        ("tcp-alone", _) => "",
        (_, 1) => " lock 5: ",
        _ => " no lock: ",
    };
    format!("rank {rank} (process {process}) died holding{held}")
}

#[test]
fn a_rank_that_died_of_a_death_is_never_named() {
    for fabric in FABRICS {
        let (said, code, ranks) = befall("killed", fabric);
        for rank in [0, 2] {
            let line = line_of(&said, rank);
            assert!(line.contains(&death(&ranks, 1, fabric)), "{fabric}: {line}");
        }
        assert!(!said.contains("rank 0 (process"), "{fabric}: {said}");
        assert_eq!(code, Some(137), "{fabric}: the code of the rank that was killed; {said}");
        assert!(!said.contains("launcher: killed"), "{fabric}: {said}");
    }
}

#[test]
fn a_rank_that_leaves_is_named_by_a_rank_that_looks_after_all_have_ended() {
    for fabric in FABRICS {
        let (said, code, ranks) = befall("leaves", fabric);
        let process = ranks[1].as_raw_nonzero();
        let why = format!("rank 1 (process {process}) left the job before its end");
        for rank in [0, 2] {
            let line = line_of(&said, rank);
            assert!(line.contains(&why), "{fabric}: {line}");
        }
        assert!(!said.contains("died holding"), "{fabric}: {said}");
        // Only a board tells the launcher, too.
        let codes: &[i32] = if fabric == "tcp-alone" { &[1, 3] } else { &[1] };
        assert!(code.is_some_and(|c| codes.contains(&c)), "{fabric}: {code:?}; {said}");
    }
}

/// In virtual time the conductor notices one first.
#[test]
fn two_ranks_that_are_missing_at_once_are_both_named() {
    for fabric in FABRICS.iter().filter(|f| **f != "sim") {
        let (said, code, ranks) = befall("both", fabric);
        let line = line_of(&said, 2);
        for rank in [0, 1] {
            assert!(line.contains(&death(&ranks, rank, fabric)), "{fabric}: {line}");
        }
        assert_eq!(code, Some(137), "{fabric}: {said}");
    }
}
