//! Jobs whose launcher and ranks are processes of a test's own binary.
//!
//! Such a binary has an ordinary test called `process`, which passes at once unless the environment
//! says what it is to be: [`be_a_rank`] first, then the launcher of what [`launched`] names.

//! Ranks that come to a point *mark* it by a file in a folder that the test names; the test sees
//! all marks before it strikes.

#![allow(dead_code, clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use littoral_dsm::job::{Homes, Job};
use littoral_dsm::launch::{BASE, Fabric, Plan};
use littoral_fabric::{SILENCE_DEFAULT, SILENCE_MIN};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Nothing takes so long unless it hangs.
pub(crate) const HANG: Duration = Duration::from_secs(300);
/// The variable that names the folder of marks.
pub(crate) const MARKS: &str = "DSM_TEST_MARKS";
const LAUNCH: &str = "DSM_TEST_LAUNCH";
const PROGRAM: &str = "DSM_TEST_PROGRAM";
/// Gives a job the least patience with silence that can be chosen.
pub(crate) const IMPATIENT: &str = "DSM_TEST_IMPATIENT";
const OWN: [&str; 3] = ["--exact", "process", "--nocapture"];

/// In a rank's process: runs the program it was started for and ends.
pub(crate) fn be_a_rank(run: impl FnOnce(&[String]) -> ExitCode) {
    if std::env::var_os("LITTORAL_DSM_RANK").is_some() {
        let line = std::env::var(PROGRAM).unwrap();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let code = run(&words);
        std::process::exit(if code == ExitCode::SUCCESS { 0 } else { 1 });
    }
}

/// In a launcher's process: what it is to launch.
pub(crate) fn launched() -> Option<String> {
    std::env::var(LAUNCH).ok()
}

/// A launcher's process that finds `what` in [`launched`], its ranks running `program`; what they
/// say is captured.
pub(crate) fn launcher(what: &str, program: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(OWN).env(LAUNCH, what).env(PROGRAM, program);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A job of this binary's own processes.
pub(crate) fn plan(ranks: u16, fabric: Fabric, bytes_max: usize) -> Plan {
    Plan {
        ranks,
        fabric,
        hosts: None,
        pool: None,
        program: std::env::current_exe().unwrap().into(),
        arguments: OWN.map(Into::into).to_vec(),
        bytes_max,
        address: BASE,
        label: false,
        silence: std::env::var(IMPATIENT).map_or(SILENCE_DEFAULT, |_| SILENCE_MIN),
        variables: vec![],
    }
}

pub(crate) fn say(line: &str) {
    let said = writeln!(std::io::stderr(), "{line}");
    said.unwrap();
}

/// Both outputs; the first need not end with a line.
pub(crate) fn text(out: &Output) -> String {
    let [first, second] = [&out.stdout, &out.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{first}\n{second}")
}

/// Looks again and again until `done`.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < HANG, "{what}: not after {} s", HANG.as_secs());
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn marks_folder() -> PathBuf {
    PathBuf::from(std::env::var(MARKS).unwrap())
}

/// Says that this rank has come to the point the test waits for.
pub(crate) fn mark(job: &Job) {
    let folder = marks_folder();
    let pid = std::process::id().to_string();
    let (new, name) = (format!("new.{}", job.rank()), job.rank().to_string());
    std::fs::write(folder.join(&new), pid).unwrap();
    std::fs::rename(folder.join(new), folder.join(name)).unwrap();
}

/// The processes of ranks that have all come to the point.
pub(crate) fn wait_for_marks(marks: &Path, ranks: u16) -> Vec<Pid> {
    let name = |rank: u16| marks.join(rank.to_string());
    until("marks of the ranks", || (0..ranks).all(|rank| name(rank).exists()));
    let read = |rank: u16| std::fs::read_to_string(name(rank)).unwrap().parse().unwrap();
    (0..ranks).map(|rank| Pid::from_raw(read(rank)).unwrap()).collect()
}

/// The program of a rank: rank 2 waits for a file, the others wait for rank 2 at a barrier.
pub(crate) fn pause() -> ExitCode {
    let mut job = Job::join().unwrap();
    let _s = job.alloc_slice::<u64>(1, Homes::Cyclic).unwrap();
    mark(&job);
    while job.rank() == 2 && !marks_folder().join("go").exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    job.barrier().unwrap();
    job.finish().unwrap();
    ExitCode::SUCCESS
}

/// Runs a job of [`pause`] whose rank 2 is stopped until the launcher says that it is waited for;
/// the job's exit code and what it said.
pub(crate) fn stop_and_go_on(command: &mut Command, marks: &Path) -> (Option<i32>, String) {
    let mut job = command.env(MARKS, marks).env(IMPATIENT, "yes").spawn().unwrap();
    let rank = wait_for_marks(marks, 3)[2];
    let mut errors = BufReader::new(job.stderr.take().unwrap());
    let awaited = format!(
        "waiting for rank 2 (process {0}), which is stopped; kill -CONT {0} lets it go on",
        rank.as_raw_nonzero()
    );
    kill_process(rank, Signal::STOP).unwrap();
    let mut said = String::new();
    while !said.contains(&awaited) {
        assert!(errors.read_line(&mut said).unwrap() > 0, "the job ended: {said}");
    }
    std::fs::write(marks.join("go"), "").unwrap();
    kill_process(rank, Signal::CONT).unwrap();
    errors.read_to_string(&mut said).unwrap();
    (job.wait().unwrap().code(), said)
}

/// Whether a process has ended with all its threads, also when its parent has not asked how.
pub(crate) fn gone(pid: Pid) -> bool {
    let folder = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
    let state = std::fs::read_to_string(folder.join("stat"));
    let threads = || std::fs::read_dir(folder.join("task")).map_or(0, Iterator::count);
    test_kill_process(pid).is_err() || state.is_ok_and(|s| s.contains(") Z ")) && threads() <= 1
}
