//! Jobs of real processes in virtual time: answers, equal runs, ranks that die, are stopped, fail
//! or wait for each other.
//!
//! The test's own binary is the launcher and the ranks, as in `launch.rs`.

#![allow(clippy::unwrap_used)]

mod processes;
#[path = "../examples/programs/main.rs"]
#[allow(dead_code)]
mod programs;

use std::process::{ExitCode, Output};
use std::time::{Duration, Instant};

use littoral_base::units::NodeId;
use littoral_dsm::core::message::LockId;
use littoral_dsm::job::member::Member;
use littoral_dsm::job::{Homes, Job};
use littoral_dsm::launch::{Fabric, run};
use littoral_dsm::virtual_time::Compute;
use littoral_dsm::{Error, Kind};
use littoral_fabric::timing::Timing;

use processes::{HANG, be_a_rank, launched, launcher, pause, plan, say, stop_and_go_on, text};

#[test]
fn process() {
    be_a_rank(rank_program);
    if let Some(line) = launched() {
        let words: Vec<&str> = line.split(' ').collect();
        let compute = if words[2] == "cpu" { Compute::Processor } else { Compute::Declared };
        let fabric = Fabric::Sim { timing: Timing::open(words[1]).unwrap(), compute };
        let plan = plan(words[0].parse().unwrap(), fabric, 1 << 28);
        let end = run::run(&plan, &|| false).unwrap();
        let report = end.report.unwrap();
        let (total, traffic) = (report.total.0, report.traffic);
        say(&format!("virtual {total} {traffic:?} {:?}", report.parts));
        std::process::exit(i32::from(end.code));
    }
}

fn rank_program(words: &[String]) -> ExitCode {
    match words[0].as_str() {
        "end" => go_wrong(|_| std::process::exit(9)),
        "pause" => pause(),
        "twice" => go_wrong(|job| {
            job.lock(LockId(5))?;
            job.lock(LockId(5))
        }),
        "crossed" => crossed(),
        "clock" => clock(),
        "letter" => letter(),
        "none" => ExitCode::SUCCESS,
        _ => programs::run(words),
    }
}

/// Rank 1 does something wrong, the others wait at a barrier.
fn go_wrong(wrong: impl Fn(&mut Job) -> littoral_dsm::Result<()>) -> ExitCode {
    let mut job = Job::join().unwrap();
    let _s = job.alloc_slice::<u64>(1, Homes::Cyclic).unwrap();
    let done = if job.rank() == 1 { wrong(&mut job) } else { job.barrier() };
    match done.and_then(|()| job.finish().map(drop)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            say(&format!("rank program: {e}"));
            ExitCode::from(1)
        }
    }
}

/// Two ranks take two locks in opposite orders.
fn crossed() -> ExitCode {
    let mut job = Job::join().unwrap();
    let (first, second) = (u32::from(job.rank()), u32::from(1 - job.rank()));
    job.lock(LockId(first)).unwrap();
    job.work(1_000_000);
    job.lock(LockId(second)).unwrap();
    job.barrier().unwrap();
    ExitCode::SUCCESS
}

/// Declared operations take their time and nothing else does.
fn clock() -> ExitCode {
    let mut job = Job::join().unwrap();
    let timing = Timing::open("tcp").unwrap();
    std::thread::sleep(Duration::from_millis(20));
    job.barrier().unwrap();
    let before = job.elapsed();
    job.work(1_000_000);
    job.barrier().unwrap();
    let took = job.elapsed() - before;
    let declared = Duration::from_nanos(timing.operation.as_nanos() * 1_000_000);
    let right = took >= declared && took < declared * 2;
    job.finish().unwrap();
    if right { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Messages and condition variables have no model: the error has its kind and the rank.
fn letter() -> ExitCode {
    let member = Member::join().unwrap();
    let me = NodeId(member.rank());
    let refused = [
        member.send(0, 1, b"letter").err(),
        member.receive(0, 1).err(),
        member.set_flag(3, true).err(),
        member.wait_flag(3).err(),
    ];
    let of = |e: &Error| (e.kind(), e.place().rank, e.place().peer);
    let are_right = refused.iter().flatten().all(|e| of(e) == (Kind::Unsupported, Some(me), None));
    let is_all = refused.iter().all(Option::is_some);
    member.finish().unwrap();
    if are_right && is_all {
        say(&format!("rank {me} was refused four times"));
        return ExitCode::SUCCESS;
    }
    ExitCode::from(1)
}

fn launch(ranks: u16, how: &str, program: &str) -> Output {
    let began = Instant::now();
    let output = launcher(&format!("{ranks} {how}"), program).output().unwrap();
    assert!(began.elapsed() < HANG, "{program} hung");
    output
}

fn virtual_line(output: &Output) -> String {
    let text = text(output);
    let line = text.lines().find(|l| l.starts_with("virtual "));
    line.unwrap_or_else(|| panic!("no report in {text}")).to_owned()
}

fn agrees(ranks: u16, how: &str, program: &str) -> String {
    let output = launch(ranks, how, program);
    let text = text(&output);
    assert!(output.status.success(), "{program} on {ranks}, {how}: {output:?}");
    assert!(text.contains("agrees with one process"), "{text}");
    virtual_line(&output)
}

const PROGRAMS: [&str; 10] = [
    "code1 1 20",
    "code1-raw 1 20",
    "code2 1 20",
    "sor 32 3",
    "sor-raw 32 3",
    "lu 48 16",
    "is 4096 256",
    "tsp 7 0",
    "water 24 2",
    "ocean 16 1",
];

#[test]
fn every_program_agrees_with_one_process() {
    for program in PROGRAMS {
        agrees(2, "loongson-2e:cluster declared", program);
        agrees(5, "loongson-2e:manager declared", program);
    }
}

#[test]
fn equal_jobs_are_equal_to_the_last_picosecond() {
    for program in ["tsp 7 0", "water 24 2", "sor-raw 32 3"] {
        let runs = [(); 2].map(|()| agrees(4, "rdma declared", program));
        assert_eq!(runs[0], runs[1], "{program}");
        assert!(!runs[0].starts_with("virtual 0 "), "{}", runs[0]);
    }
}

#[test]
fn sixty_four_ranks_run() {
    agrees(64, "cxl-pool declared", "code1 1 2");
    agrees(64, "tcp declared", "code2 1 2");
}

#[test]
fn processor_time_counts_where_it_is_asked_for() {
    let line = agrees(2, "cxl-pool cpu", "sor 64 4");
    assert!(!line.contains("busy: Picos(0)"), "{line}");
}

#[test]
fn the_clock_of_a_rank_is_virtual() {
    assert!(launch(3, "tcp declared", "clock").status.success());
}

#[test]
fn what_has_no_model_is_refused_with_the_rank_as_a_field() {
    let output = launch(2, "tcp declared", "letter");
    let text = text(&output);
    let is_refused = |rank: u16| text.contains(&format!("rank {rank} was refused four times"));
    assert!(output.status.success() && is_refused(0) && is_refused(1), "{text}");
}

fn fails(program: &str) -> String {
    let output = launch(3, "tcp declared", program);
    assert!(!output.status.success(), "{program}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_rank_that_ends_is_named_by_the_others() {
    let text = fails("end");
    for rank in [0, 2] {
        let line = text.lines().find(|l| l.starts_with(&format!("littoral dsm: rank {rank}: ")));
        let line = line.unwrap_or_else(|| panic!("rank {rank} said nothing: {text}"));
        assert!(
            line.contains("rank 1 (process ") && line.contains("died holding no lock"),
            "{line}"
        );
    }
}

#[test]
fn a_rank_that_is_stopped_holds_the_job_until_it_goes_on() {
    let marks = tempfile::tempdir().unwrap();
    let mut command = launcher("3 tcp declared", "pause");
    let (code, said) = stop_and_go_on(&mut command, marks.path());
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_mistake_of_one_rank_reaches_every_other() {
    let text = fails("twice");
    assert!(text.contains("lock 5"), "{text}");
    assert!(text.contains("littoral dsm: rank 0: "), "{text}");
}

#[test]
fn ranks_that_wait_for_each_other_are_told_so() {
    let output = launch(2, "tcp declared", "crossed");
    let text = text(&output);
    assert!(!output.status.success());
    assert!(text.contains("ranks 0, 1 wait for each other for ever"), "{text}");
}

#[test]
fn a_program_that_never_joins_ends_as_it_ends() {
    assert!(launch(2, "tcp declared", "none").status.success());
}
