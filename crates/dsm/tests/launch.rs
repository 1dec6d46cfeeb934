//! Jobs of real processes: the programs on every fabric, ranks killed and stopped at any point, two
//! jobs at once, several hosts.
//!
//! The test's own binary is the launcher and the ranks: `process` is an ordinary test that passes
//! at once unless the environment says what to be.

#![allow(clippy::unwrap_used)]

mod processes;
#[path = "../examples/programs/main.rs"]
#[allow(dead_code)]
mod programs;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use littoral_base::rng::{self, Rng as _};
use littoral_base::units::NodeId;
use littoral_dsm::core::message::LockId;
use littoral_dsm::job::{Homes, Job};
use littoral_dsm::launch::{Fabric, Plan, hosts, run};
use littoral_fabric::SILENCE_MIN;
use rustix::process::{Pid, Signal, kill_process};

use processes::{
    IMPATIENT, MARKS, be_a_rank, gone, launched, launcher, mark, marks_folder, pause, say,
    stop_and_go_on, text, until, wait_for_marks,
};

const HOSTS: &str = "DSM_TEST_HOSTS";
const FABRICS: [&str; 5] = ["shm", "pages", "pool", "pool-pages", "tcp"];

#[test]
fn process() {
    be_a_rank(rank_program);
    if let Some(line) = launched() {
        let (ranks, fabric) = line.split_once(' ').unwrap();
        let end = run::run(&plan(ranks.parse().unwrap(), fabric), &|| false).unwrap();
        for e in end.ends.iter().filter(|e| e.killed_by_launcher) {
            say(&format!("launcher: killed rank {}", e.rank));
        }
        std::process::exit(i32::from(end.code));
    }
}

fn plan(ranks: u16, fabric: &str) -> Plan {
    let fabric = match fabric {
        "shm" => Fabric::Shm,
        "pages" => Fabric::ShmPages,
        "pool" => Fabric::Pool,
        "pool-pages" => Fabric::PoolPages,
        _ => Fabric::Tcp,
    };
    let hosts = std::env::var(HOSTS).ok().map(|text| hosts::parse(&text).unwrap());
    Plan { hosts, ..processes::plan(ranks, fabric, 1 << 30) }
}

fn rank_program(words: &[String]) -> ExitCode {
    match words[0].as_str() {
        "hold" => hold(),
        "meet" => meet(),
        "pause" => pause(),
        "settings" => settings(),
        "after" => after(),
        "twice" => misuse(|job| {
            job.lock(LockId(5))?;
            job.lock(LockId(5))
        }),
        "barrier-inside" => misuse(|job| {
            job.lock(LockId(5))?;
            job.wait_for_all()
        }),
        "leave" => misuse(|_| Err(littoral_dsm::Error::new(littoral_dsm::Kind::Misuse, "enough"))),
        "panic" => misuse(|_| panic!("as the test wants")),
        _ => programs::run(words),
    }
}

/// Rank 2 holds locks 5 and 6 and does nothing, rank 0 waits for lock 5, rank 1 computes.
fn hold() -> ExitCode {
    let mut job = Job::join().unwrap();
    let _s = job.alloc_slice::<u64>(4096, Homes::Cyclic).unwrap();
    if job.rank() == 2 {
        job.lock(LockId(5)).unwrap();
        job.lock(LockId(6)).unwrap();
    }
    job_barrier_by_marks(&job);
    if job.rank() == 0 {
        let e = job.lock(LockId(5)).unwrap_err();
        say(&e.to_string());
        return ExitCode::from(3);
    }
    loop {
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Says what reached this rank of the launcher's environment.
fn settings() -> ExitCode {
    let job = Job::join().unwrap();
    let word = |name| std::env::var(name).unwrap_or("none".to_owned());
    let names = ["JIA_TEST_WORD", "LITTORAL_DSM_LOCKS", "OTHER_WORD"];
    say(&format!("rank {} has {}", job.rank(), names.map(word).join(", ")));
    job.finish().unwrap();
    ExitCode::SUCCESS
}

/// Rank 1 fails when it has left the job; rank 0 works on until it is told to end.
fn after() -> ExitCode {
    let job = Job::join().unwrap();
    let rank = job.rank();
    mark(&job);
    job.finish().unwrap();
    if rank == 1 {
        return ExitCode::from(1);
    }
    until("the word to end", || marks_folder().join("go").exists());
    say("rank 0 has done its work");
    ExitCode::SUCCESS
}

/// Ranks meet again and again.
fn meet() -> ExitCode {
    let mut job = Job::join().unwrap();
    mark(&job);
    loop {
        job.barrier().unwrap();
    }
}

/// Ranks hold locks, so they meet by files.
fn job_barrier_by_marks(job: &Job) {
    mark(job);
    wait_for_marks(&marks_folder(), job.ranks());
}

/// Rank 1 does something wrong, the others wait at a barrier.
fn misuse(wrong: impl Fn(&mut Job) -> littoral_dsm::Result<()>) -> ExitCode {
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

fn launch(ranks: u16, fabric: &str, program: &str, marks: &Path) -> Command {
    let mut command = launcher(&format!("{ranks} {fabric}"), program);
    command.env(MARKS, marks);
    command
}

fn finish(ranks: u16, fabric: &str, program: &str) -> (Option<i32>, String) {
    let marks = tempfile::tempdir().unwrap();
    let out = launch(ranks, fabric, program, marks.path()).output().unwrap();
    (out.status.code(), text(&out))
}

/// Most of a test is waiting for processes, so the fabrics go at the same time.
fn on_every_fabric(check: impl Fn(&'static str) + Sync) {
    std::thread::scope(|s| FABRICS.iter().for_each(|f| _ = s.spawn(|| check(f))));
}

/// Lines shared in place have no raw pointers.
fn has_pointers(fabric: &str) -> bool {
    fabric != "pool"
}

#[test]
fn every_program_agrees_with_one_process_on_every_fabric() {
    let list = [
        "code1 1 150",
        "code1-raw 1 150",
        "code2 1 60",
        "sor 64 6",
        "sor-raw 64 6",
        "lu 48 12",
        "is 4096 64",
        "tsp 8",
        "water 40 2",
        "ocean 16 2",
    ];
    on_every_fabric(|fabric| {
        let has = |p: &&&str| has_pointers(fabric) || !p.contains("-raw");
        let ranks: &[u16] = if fabric == "pages" { &[1, 2, 3, 4, 8] } else { &[3] };
        for (program, ranks) in
            list.iter().filter(has).flat_map(|p| ranks.iter().map(move |n| (p, n)))
        {
            let (code, said) = finish(*ranks, fabric, program);
            assert_eq!(code, Some(0), "{program} on {fabric}: {said}");
            let agrees = said.contains(&format!("on {ranks} ranks")) && said.contains("agrees");
            assert!(agrees, "{said}");
        }
    });
}

#[test]
fn when_a_rank_is_killed_the_others_say_who_held_what() {
    on_every_fabric(|fabric| {
        let marks = tempfile::tempdir().unwrap();
        let job = launch(3, fabric, "hold", marks.path()).spawn().unwrap();
        let pids = wait_for_marks(marks.path(), 3);
        kill_process(pids[2], Signal::KILL).unwrap();
        let out = job.wait_with_output().unwrap();
        let said = text(&out);
        assert_eq!(out.status.code(), Some(137), "{fabric}: the killed rank's code; {said}");
        let who = format!("rank 2 (process {}) died holding locks 5, 6", pids[2].as_raw_nonzero());
        assert_eq!(said.matches(&who).count(), 2, "{fabric}: both survivors say it; {said}");
        assert!(!said.contains("launcher: killed"), "{fabric}: they end by themselves; {said}");
        assert!(pids.iter().all(|p| gone(*p)), "{fabric}");
    });
}

#[test]
fn when_a_rank_is_stopped_the_others_wait_and_the_job_goes_on_with_it() {
    on_every_fabric(|fabric| {
        let marks = tempfile::tempdir().unwrap();
        let mut command = launch(3, fabric, "pause", marks.path());
        let (code, said) = stop_and_go_on(&mut command, marks.path());
        assert_eq!(code, Some(0), "{fabric}: {said}");
        assert_eq!(said.matches("waiting for rank").count(), 1, "{fabric}: once; {said}");
    });
}

/// Kills a rank some milliseconds after its start: while it joins, computes, waits.
fn strike(fabric: &str, seed: u64, rounds: u32) {
    let mut rng = rng::stream(seed, fabric);
    for round in 0..rounds {
        let marks = tempfile::tempdir().unwrap();
        let program = if has_pointers(fabric) { "sor-raw 64 100000" } else { "sor 64 100000" };
        let mut job = launch(3, fabric, program, marks.path()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(rng.random_range(5..250)));
        let ranks = ranks_of(&job);
        let Some(victim) = ranks.get(rng.random_range(0..3)) else {
            kill(&mut job);
            continue;
        };
        if kill_process(*victim, Signal::KILL).is_err() {
            kill(&mut job);
            continue;
        }
        let out = job.wait_with_output().unwrap();
        assert_ne!(out.status.code(), Some(0), "{fabric} round {round}: {}", text(&out));
        assert!(ranks.iter().all(|p| gone(*p)), "{fabric} round {round}");
    }
}

fn kill(job: &mut Child) {
    job.kill().unwrap();
    job.wait().unwrap();
}

/// The processes that a launcher has started so far.
fn ranks_of(job: &Child) -> Vec<Pid> {
    let path = format!("/proc/{0}/task/{0}/children", job.id());
    // The launcher starts ranks on the thread of its test.
    let tasks = std::fs::read_dir(format!("/proc/{}/task", job.id())).unwrap();
    let mut list = std::fs::read_to_string(path).unwrap_or_default();
    for task in tasks.flatten() {
        list += &std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        list.push(' ');
    }
    let pids = list.split_whitespace().filter_map(|w| w.parse().ok());
    pids.filter_map(Pid::from_raw).filter(|&p| is_rank(p)).collect()
}

/// Whether a process runs its program by now: one stopped between fork and exec would stop its
/// launcher too, which waits for the exec.
fn is_rank(pid: Pid) -> bool {
    let environment = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()));
    let name = b"LITTORAL_DSM_RANK=";
    environment.is_ok_and(|e| e.split(|&b| b == 0).any(|word| word.starts_with(name)))
}

#[test]
fn a_rank_killed_at_any_point_ends_the_job() {
    on_every_fabric(|f| strike(f, 11, 3));
}

/// Stopped for longer than any silence that counts, while it joins, computes, waits or ends.
#[test]
fn a_rank_stopped_at_any_point_holds_the_job_and_no_more() {
    on_every_fabric(|fabric| {
        let mut rng = rng::stream(12, fabric);
        let marks = tempfile::tempdir().unwrap();
        let mut command = launch(3, fabric, "sor 64 200", marks.path());
        let job = command.env(IMPATIENT, "yes").spawn().unwrap();
        std::thread::sleep(Duration::from_millis(rng.random_range(5..250)));
        let victim = ranks_of(&job).get(rng.random_range(0..3)).copied();
        let stopped = victim.filter(|v| kill_process(*v, Signal::STOP).is_ok());
        if let Some(rank) = stopped {
            std::thread::sleep(2 * SILENCE_MIN);
            // It may have ended before the signal came.
            let _ = kill_process(rank, Signal::CONT);
        }
        let out = job.wait_with_output().unwrap();
        assert!(out.status.success(), "{fabric}: {}", text(&out));
    });
}

#[test]
fn ranks_die_with_their_launcher() {
    let marks = tempfile::tempdir().unwrap();
    let mut job = launch(3, "shm", "hold", marks.path()).spawn().unwrap();
    let pids = wait_for_marks(marks.path(), 3);
    kill(&mut job);
    until("the end of ranks without a launcher", || pids.iter().all(|p| gone(*p)));
}

/// Three ways to start a rank by a hosts file: commands that become the program, and one that stays
/// as its parent, as the server of `ssh` does.
#[test]
fn ranks_of_a_hosts_file_die_with_their_launcher() {
    for command in ["env", "nice -n 0", "sh STAY"] {
        let marks = tempfile::tempdir().unwrap();
        let stay = marks.path().join("stay.sh");
        std::fs::write(&stay, "\"$@\"\nexit $?\n").unwrap();
        let command = command.replace("STAY", stay.to_str().unwrap());
        let ports = [(); 3].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let line = |l: &std::net::TcpListener| format!("{} {command}\n", l.local_addr().unwrap());
        let hosts: String = ports.iter().map(line).collect();
        drop(ports);
        let mut job = launch(3, "tcp", "hold", marks.path()).env(HOSTS, hosts).spawn().unwrap();
        let pids = wait_for_marks(marks.path(), 3);
        kill(&mut job);
        until("the end of ranks without a launcher", || pids.iter().all(|p| gone(*p)));
    }
}

/// A folder with an `ssh` of its own: a shell without the launcher's variables, which the host
/// `gone` does not reach.
fn shells() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let ssh = folder.path().join("ssh");
    let text = "#!/bin/sh\n[ \"$1\" = gone ] && echo 'no route to gone' >&2 && exit 255\n\
                exec env -i PATH=\"$OLD\" DSM_TEST_PROGRAM=\"$DSM_TEST_PROGRAM\" sh -c \"$2\"\n";
    std::fs::write(&ssh, text).unwrap();
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// A job of two ranks that such an `ssh` starts on these hosts.
fn by_ssh(names: [&str; 2], program: &str, shells: &Path) -> Command {
    let ports = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let line = |(l, name): (&std::net::TcpListener, &str)| {
        format!("{} ssh {name}\n", l.local_addr().unwrap())
    };
    let hosts: String = ports.iter().zip(names).map(line).collect();
    let path = std::env::var("PATH").unwrap();
    let mut command = launch(2, "tcp", program, shells);
    command.env(HOSTS, hosts).env("PATH", format!("{}:{path}", shells.display()));
    command.env("OLD", path);
    command
}

#[test]
fn settings_reach_ranks_that_another_command_starts() {
    let shells = shells();
    let mut command = by_ssh(["one", "two"], "settings", shells.path());
    command.env("JIA_TEST_WORD", "it's a b").env("LITTORAL_DSM_LOCKS", "77");
    let out = command.env("OTHER_WORD", "x").output().unwrap();
    let said = text(&out);
    assert!(out.status.success(), "{said}");
    assert_eq!(said.matches("has it's a b, 77, none").count(), 2, "{said}");
}

/// A rank may start a job: its own pages, board and lines are none of that job's.
#[test]
fn what_a_rank_was_given_reaches_no_rank_of_a_job_that_it_starts() {
    let marks = tempfile::tempdir().unwrap();
    let mut command = launch(2, "tcp", "settings", marks.path());
    command.env("LITTORAL_DSM_DIRECT", "/no/such/file").env("LITTORAL_DSM_LOCKS", "77");
    let out = command.output().unwrap();
    let said = text(&out);
    assert!(out.status.success(), "{said}");
    assert_eq!(said.matches("has none, 77, none").count(), 2, "{said}");
}

#[test]
fn a_host_that_is_not_reached_is_named_and_ends_the_job() {
    let shells = shells();
    let out = by_ssh(["one", "gone"], "settings", shells.path()).output().unwrap();
    let said = text(&out);
    assert_eq!(out.status.code(), Some(255), "{said}");
    let named = "rank 1: its host was not reached, or lost: `ssh gone` ended with code 255";
    assert!(said.contains(named) && said.contains("launcher: killed rank 0"), "{said}");
}

/// The launcher knows of such a rank what it says and how it ends, and of its leaving by what it
/// says; nothing of that is passed on.
#[test]
fn a_rank_of_a_hosts_file_that_has_left_ends_no_other() {
    let marks = tempfile::tempdir().unwrap();
    let ports = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let line = |l: &std::net::TcpListener| format!("{} env\n", l.local_addr().unwrap());
    let hosts: String = ports.iter().map(line).collect();
    drop(ports);
    let mut command = launch(2, "tcp", "after", marks.path());
    let job = command.env(HOSTS, hosts).env(IMPATIENT, "yes").spawn().unwrap();
    let failed = wait_for_marks(marks.path(), 2)[1];
    until("the end of rank 1", || gone(failed));
    // Another rank is killed so long after a failure.
    std::thread::sleep(SILENCE_MIN + run::GRACE_HOSTS + Duration::from_millis(500));
    std::fs::write(marks.path().join("go"), "").unwrap();
    let out = job.wait_with_output().unwrap();
    let said = text(&out);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("rank 0 has done its work"), "{said}");
    assert!(!said.contains("launcher: killed") && !said.contains('\u{1b}'), "{said}");
}

#[test]
fn misuse_ends_every_rank_with_a_message() {
    let cases = [
        ("twice", "takes lock 5 twice"),
        ("barrier-inside", "barrier holding lock 5"),
        ("leave", "left the job before its end"),
        ("panic", "panicked"),
    ];
    for (program, why) in cases {
        let (code, said) = finish(2, "tcp", program);
        assert!(code.is_some_and(|c| c != 0), "{program}: {said}");
        assert!(said.contains(why), "{program}: {said}");
        assert!(!said.contains("launcher: killed"), "{program}: {said}");
    }
}

#[test]
fn two_jobs_at_once_do_not_meet() {
    on_every_fabric(|fabric| {
        let marks = tempfile::tempdir().unwrap();
        let jobs = [(), ()].map(|()| launch(2, fabric, "sor 64 20", marks.path()).spawn().unwrap());
        for job in jobs {
            let out = job.wait_with_output().unwrap();
            assert!(out.status.success(), "{fabric}: {}", text(&out));
        }
    });
}

/// Ranks that get no processor for long are slow and not dead: every job ends well, however late.
#[test]
fn jobs_on_a_pool_end_well_beside_busy_loops() {
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let marks = tempfile::tempdir().unwrap();
        let jobs = [(); 6].map(|()| launch(3, "pool", "sor 32 4", marks.path()).spawn().unwrap());
        let ended = jobs.map(|job| job.wait_with_output().unwrap());
        over.store(true, Ordering::Relaxed);
        for out in ended {
            assert_eq!(out.status.code(), Some(0), "{}", text(&out));
        }
    });
}

#[test]
fn a_plan_that_cannot_be_is_refused() {
    let kind = |p: &Plan| run::run(p, &|| false).unwrap_err().kind();
    let ok = plan(2, "tcp");
    assert_eq!(kind(&Plan { ranks: 0, ..ok.clone() }), littoral_dsm::Kind::Misuse);
    let hosts = Some(hosts::parse("127.0.0.1:1").unwrap());
    assert_eq!(kind(&Plan { hosts: hosts.clone(), ..ok.clone() }), littoral_dsm::Kind::Misuse);
    let shm = Plan { hosts, fabric: Fabric::Shm, ..ok.clone() };
    assert_eq!(kind(&shm), littoral_dsm::Kind::Misuse);
    let none = Plan { program: "/no/such/program".into(), ..ok.clone() };
    assert_eq!(kind(&none), littoral_dsm::Kind::Environment);
    let e = run::run(&none, &|| false).unwrap_err();
    let at = (e.place().peer, e.place().path.as_deref());
    assert_eq!(at, (Some(NodeId(0)), Some(Path::new("/no/such/program"))), "{e}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pool");
    std::fs::write(&file, "mine").unwrap();
    let pool = Plan { fabric: Fabric::Pool, pool: Some(file.clone()), ..ok };
    assert_eq!(kind(&pool), littoral_dsm::Kind::Exists);
    assert_eq!(run::run(&pool, &|| false).unwrap_err().place().path.as_deref(), Some(&*file));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "mine", "nothing is overwritten");
}

/// Two network namespaces with a cable between them: two hosts on one machine.
struct Hosts {
    names: [String; 2],
}

fn ip(arguments: &str) -> bool {
    let done = Command::new("ip").args(arguments.split(' ')).stderr(Stdio::null()).status();
    done.is_ok_and(|s| s.success())
}

impl Hosts {
    fn new(tag: &str) -> Option<Hosts> {
        let id = std::process::id() % 100_000;
        let names = ["a", "b"].map(|side| format!("lt{tag}{id}{side}"));
        let hosts = Hosts { names };
        let [a, b] = &hosts.names;
        let steps = [
            format!("netns add {a}"),
            format!("netns add {b}"),
            format!("link add {a} type veth peer name {b}"),
            format!("link set {a} netns {a}"),
            format!("link set {b} netns {b}"),
            format!("-n {a} addr add 10.83.0.1/24 dev {a}"),
            format!("-n {b} addr add 10.83.0.2/24 dev {b}"),
            format!("-n {a} link set {a} up"),
            format!("-n {b} link set {b} up"),
        ];
        let made = steps.iter().all(|s| ip(s));
        if !made {
            say("SKIPPED: no network namespaces here (they need root and `ip`)");
        }
        made.then_some(hosts)
    }

    fn file(&self) -> String {
        let [a, b] = &self.names;
        format!("10.83.0.1:7001 ip netns exec {a}\n10.83.0.2:7002 ip netns exec {b}\n")
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.names.iter().for_each(|n| _ = ip(&format!("netns del {n}")));
    }
}

#[test]
fn two_hosts_run_a_job_and_a_cut_cable_ends_it() {
    let Some(hosts) = Hosts::new("n") else { return };
    let marks = tempfile::tempdir().unwrap();
    let on_hosts = |program: &str| {
        let mut command = launch(2, "tcp", program, marks.path());
        command.env(HOSTS, hosts.file());
        command
    };
    let out = on_hosts("sor 64 10").output().unwrap();
    assert!(out.status.success() && text(&out).contains("agrees"), "{}", text(&out));

    let job = on_hosts("meet").spawn().unwrap();
    wait_for_marks(marks.path(), 2);
    assert!(ip(&format!("-n {0} link set {0} down", hosts.names[0])));
    let out = job.wait_with_output().unwrap();
    let said = text(&out);
    assert_eq!(out.status.code(), Some(3), "{said}");
    for (rank, other) in [(0, 1), (1, 0)] {
        let who = format!("rank {rank}: rank {other} (process ");
        assert!(said.contains(&who) && said.contains("silent"), "{said}");
    }
    assert!(!said.contains("launcher: killed"), "{said}");
}
