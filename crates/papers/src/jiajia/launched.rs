//! Sections and barriers of `Job` in launched processes.
//!
//! A measurement is a job of two or more ranks. Each rank is a process of the program that
//! measures: the variable [`WORK`] makes it a rank of the job ([`be_a_rank`]) and nothing else. A
//! rank writes what it measured to a file; the launching process reads the files.
//!
//! Where there is a processor for each rank, the thread of a rank's program is bound to one. The
//! other threads of a rank are not bound.
//!
//! Invariants
//! - A contended section counts only while every rank runs: all ranks count the sections that begin
//!   and end in one window of time, and run before and after it. Checked by
//!   `contended_sections_count_while_every_rank_runs`.
//! - A job whose counter differs from the sections made gives no figure. Checked by
//!   `contended_sections_count_while_every_rank_runs`.

use std::ffi::OsString;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use littoral_dsm::core::message::LockId;
use littoral_dsm::job::{Homes, Job, SharedSlice};
use littoral_dsm::launch::{BASE, Fabric, Plan, run};
use littoral_fabric::SILENCE_DEFAULT;
use rustix::time::{ClockId, clock_gettime};

use super::by_guards::{self, PROGRAMS, Program};
use super::timed::{Spread, bind, in_batches};
use super::words;

/// The variable that makes a process a rank: `OPERATION BATCHES BATCH FILE`.
pub const WORK: &str = "LITTORAL_REPRO_RANK";
const MIB: usize = 1 << 20;
/// Two grids of the stencil take a quarter of it.
const BYTES_MAX: usize = 1 << 26;
/// Its home, and that of the counter, is rank 0.
const LOCK: LockId = LockId(0);
/// How long contended sections are counted.
const WINDOW: Duration = Duration::from_millis(300);
/// How long every rank contends before the window begins and after it has ended.
const MARGIN: Duration = Duration::from_millis(30);
/// Sections between two looks at the clock, where one takes less than [`SLOW_NS`].
const GROUP: u64 = 16;
const SLOW_NS: u64 = 100_000;

/// An operation of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The last rank alone adds one to a word in a section; lock and word are at rank 0.
    Section,
    /// Every rank waits for every other.
    Barrier,
    /// Every rank adds to the word in sections, for a time.
    Contended,
    /// The paper's Code 2: rank 0 writes a word, a barrier, every rank reads it, a barrier.
    Code2,
    /// A program of JIAJIA's by guards: with the numbers that it is measured with where `batches`
    /// is zero, else with fewer. It is timed once.
    Guards(Program),
    /// A sweep of the stencil.
    Stencil,
    /// The last rank writes so many (`batches`) mebibytes that are at home at rank 0, with a cache
    /// of so many (`batch`); the answer is the most memory that the rank had.
    Written,
}

const NAMES: [(&str, Operation); 12] = [
    ("sor", Operation::Guards(Program::Sor)),
    ("mm", Operation::Guards(Program::Mm)),
    ("lu", Operation::Guards(Program::Lu)),
    ("is", Operation::Guards(Program::Is)),
    ("tsp", Operation::Guards(Program::Tsp)),
    ("water", Operation::Guards(Program::Water)),
    ("code2", Operation::Code2),
    ("written", Operation::Written),
    ("stencil", Operation::Stencil),
    ("section", Operation::Section),
    ("barrier", Operation::Barrier),
    ("contended", Operation::Contended),
];

/// What a job does and how often.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// The operation.
    pub operation: Operation,
    /// Timed batches.
    pub batches: usize,
    /// Operations of a batch.
    pub batch: usize,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, o)| *o == self.operation).map_or("", |(name, _)| name);
        write!(f, "{name} {} {}", self.batches, self.batch)
    }
}

/// What one rank measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// Tenth percentile over batches, nanoseconds per operation; zero where the rank timed none.
    pub p10_ns: f64,
    /// Median over batches.
    pub median_ns: f64,
    /// Operations that the rank counted.
    pub operations: u64,
    /// Changes of thread of the whole process while they ran.
    pub switches: u64,
    /// What the operations came to, such as the sum of a stencil's points; else zero.
    pub answer: f64,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { p10_ns, median_ns, operations, switches, answer } = self;
        write!(f, "{p10_ns} {median_ns} {operations} {switches} {answer}")
    }
}

impl FromStr for Seen {
    type Err = String;

    fn from_str(text: &str) -> Result<Seen, String> {
        let mut rest = text.split_whitespace();
        let mut next = || rest.next().ok_or_else(|| format!("a rank wrote only: {text}"));
        let seen = Seen {
            p10_ns: next()?.parse().map_err(words)?,
            median_ns: next()?.parse().map_err(words)?,
            operations: next()?.parse().map_err(words)?,
            switches: next()?.parse().map_err(words)?,
            answer: next()?.parse().map_err(words)?,
        };
        Ok(seen)
    }
}

/// How ranks are started: the program, and arguments that lead it to [`be_a_rank`].
#[derive(Clone, Debug)]
pub struct Start {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// A folder for what ranks write.
    pub scratch: PathBuf,
}

impl Start {
    /// Runs a job; what each rank measured.
    ///
    /// # Errors
    /// When a rank cannot be started, fails or writes nothing.
    pub fn run(&self, fabric: Fabric, ranks: u16, work: Work) -> Result<Vec<Seen>, String> {
        let file = |rank: u16| self.scratch.join(format!("rank-{rank}"));
        (0..ranks).for_each(|rank| _ = std::fs::remove_file(file(rank)));
        let line = format!("{work} {}", self.scratch.display());
        let mut variables = vec![(WORK.to_owned(), line)];
        let mut bytes_max = BYTES_MAX;
        if work.operation == Operation::Written {
            bytes_max += work.batches * MIB;
            variables.push(("LITTORAL_DSM_CACHE".to_owned(), (work.batch * MIB).to_string()));
        }
        let plan = Plan {
            ranks,
            fabric,
            hosts: None,
            pool: None,
            program: self.program.clone().into(),
            arguments: self.arguments.clone(),
            bytes_max,
            address: BASE,
            label: false,
            silence: SILENCE_DEFAULT,
            variables,
        };
        let job = run::run(&plan, &|| false).map_err(words)?;
        if job.code != 0 {
            return Err(format!("a job of {ranks} ranks ended with code {}", job.code));
        }
        let read = |rank| std::fs::read_to_string(file(rank)).map_err(words)?.parse();
        (0..ranks).map(read).collect()
    }
}

/// In a process that is started as a rank: takes part in the job and ends with its code.
pub fn be_a_rank() -> Option<ExitCode> {
    let line = std::env::var(WORK).ok()?;
    Some(match take_part(&line) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            use std::io::Write as _;
            // A closed standard error leaves the exit code.
            let _ = writeln!(std::io::stderr(), "littoral: a rank that is measured: {e}");
            ExitCode::from(3)
        }
    })
}

fn take_part(line: &str) -> Result<(), String> {
    let mut rest = line.splitn(4, ' ');
    let mut next = || rest.next().ok_or_else(|| format!("{WORK}={line} has fewer than four words"));
    let name = next()?;
    let operation = NAMES.iter().find(|(n, _)| *n == name).map(|(_, operation)| *operation);
    let operation = operation.ok_or_else(|| format!("{WORK}: {name} is no operation"))?;
    let batches = next()?.parse().map_err(words)?;
    let batch = next()?.parse().map_err(words)?;
    let folder = PathBuf::from(next()?);
    let mut job = Job::join().map_err(words)?;
    let rank = job.rank();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if usize::from(job.ranks()) <= cores {
        bind(usize::from(rank));
    }
    let seen = measure(&mut job, Work { operation, batches, batch })?;
    job.finish().map_err(words)?;
    write_whole(&folder.join(format!("rank-{rank}")), &seen.to_string())
}

fn write_whole(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

fn measure(job: &mut Job, work: Work) -> Result<Seen, String> {
    let word = job.alloc_slice::<u64>(2, Homes::At(0)).map_err(words)?;
    job.barrier().map_err(words)?;
    let before = switches()?;
    let mut seen = match work.operation {
        Operation::Section => sections(job, word, work)?,
        Operation::Barrier => {
            let took = batches(work, || job.barrier().map_err(words))?;
            seen_of(took, (work.batches + 1) * work.batch)
        }
        Operation::Code2 => {
            let mut i = 0;
            let took = batches(work, || code2(job, word, &mut i))?;
            seen_of(took, (work.batches + 1) * work.batch)
        }
        Operation::Guards(program) => {
            let row = PROGRAMS.iter().find(|row| row.1 == program).ok_or("no such program")?;
            let numbers = if work.batches == 0 { row.2 } else { row.3 };
            let took = by_guards::take_part(job, program, numbers)?.as_nanos() as f64;
            seen_of(Spread { p10_ns: took, median_ns: took }, 1)
        }
        Operation::Contended => contended(job, word)?,
        Operation::Stencil => {
            let done = super::stencil::take_part(job, work.batches, work.batch);
            let (took, answer) = done.map_err(words)?;
            Seen { answer, ..seen_of(took, work.batches * work.batch) }
        }
        Operation::Written => written(job, work.batches)?,
    };
    seen.switches = switches()?.saturating_sub(before);
    job.barrier().map_err(words)?;
    Ok(seen)
}

fn seen_of(took: Spread, operations: usize) -> Seen {
    let Spread { p10_ns, median_ns } = took;
    Seen { p10_ns, median_ns, operations: operations as u64, ..Seen::default() }
}

/// One batch that is not timed, then those that are.
fn batches(work: Work, mut act: impl FnMut() -> Result<(), String>) -> Result<Spread, String> {
    (0..work.batch).try_for_each(|_| act())?;
    in_batches(work.batches, work.batch, act)
}

/// A section that adds one to the first word.
fn section(job: &mut Job, word: SharedSlice<u64>) -> Result<(), String> {
    let section = job.enter(LOCK).map_err(words)?;
    section.write(word.part(0..1)).map_err(words)?[0] += 1;
    section.leave().map_err(words)
}

/// An iteration of Code 2.
fn code2(job: &mut Job, word: SharedSlice<u64>, i: &mut u64) -> Result<(), String> {
    *i += 1;
    let phase = job.phase().map_err(words)?;
    if phase.rank() == 0 {
        phase.write(word.part(0..1)).map_err(words)?[0] = *i;
    }
    phase.end().map_err(words)?;
    let phase = job.phase().map_err(words)?;
    let found = phase.read(word.part(0..1)).map_err(words)?[0];
    let rank = phase.rank();
    phase.end().map_err(words)?;
    if found == *i { Ok(()) } else { Err(format!("rank {rank} read {found} in iteration {i}")) }
}

/// Sections of the last rank, while the others wait at a barrier.
fn sections(job: &mut Job, word: SharedSlice<u64>, work: Work) -> Result<Seen, String> {
    let made = (work.batches + 1) * work.batch;
    let seen = if job.rank() + 1 == job.ranks() {
        seen_of(batches(work, || section(job, word))?, made)
    } else {
        Seen::default()
    };
    job.barrier().map_err(words)?;
    must_be(job, word, made as u64)?;
    Ok(seen)
}

fn must_be(job: &mut Job, word: SharedSlice<u64>, made: u64) -> Result<(), String> {
    let phase = job.phase().map_err(words)?;
    let found = phase.read(word).map_err(words)?[0];
    if found == made {
        Ok(())
    } else {
        Err(format!("the counter is {found} after {made} sections"))
    }
}

/// Nanoseconds of the machine's clock, equal for all its processes.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Sections of every rank, counted in one window of time that rank 0 chooses.
fn contended(job: &mut Job, word: SharedSlice<u64>) -> Result<Seen, String> {
    let margin = MARGIN.as_nanos() as u64;
    let phase = job.phase().map_err(words)?;
    if phase.rank() == 0 {
        phase.write(word.part(1..2)).map_err(words)?[0] = now_ns() + margin;
    }
    phase.end().map_err(words)?;
    let phase = job.phase().map_err(words)?;
    let start = phase.read(word).map_err(words)?[1];
    phase.end().map_err(words)?;
    let window = start..start + WINDOW.as_nanos() as u64;
    let (mut counted, mut made, mut before, mut group) = (0, 0, now_ns(), 1);
    while before < window.end + margin {
        for _ in 0..group {
            section(job, word)?;
        }
        made += group;
        let after = now_ns();
        counted += if is_inside(&window, before, after) { group } else { 0 };
        group = if (after - before) / group < SLOW_NS { GROUP } else { 1 };
        before = after;
    }
    let sums = job.alloc_slice::<u64>(usize::from(job.ranks()), Homes::At(0)).map_err(words)?;
    let phase = job.phase().map_err(words)?;
    let rank = usize::from(phase.rank());
    phase.write(sums.part(rank..rank + 1)).map_err(words)?[0] = made;
    phase.end().map_err(words)?;
    let phase = job.phase().map_err(words)?;
    let all = phase.read(sums).map_err(words)?.iter().sum();
    must_be(job, word, all)?;
    Ok(Seen { operations: counted, ..Seen::default() })
}

/// Writes mebibytes one after the other, and reads of each; the most memory of this process.
fn written(job: &mut Job, mebibytes: usize) -> Result<Seen, String> {
    let each = MIB / size_of::<u64>();
    let words_of = job.alloc_slice::<u64>(mebibytes * each, Homes::At(0)).map_err(words)?;
    let phase = job.phase().map_err(words)?;
    let writes = phase.rank() + 1 == phase.ranks();
    for n in (0..mebibytes).filter(|_| writes) {
        phase.write(words_of.part(n * each..(n + 1) * each)).map_err(words)?.fill(n as u64 + 1);
    }
    phase.end().map_err(words)?;
    let phase = job.phase().map_err(words)?;
    for n in 0..mebibytes {
        let at = n * each + n % each;
        let found = phase.read(words_of.part(at..at + 1)).map_err(words)?[0];
        if found != n as u64 + 1 {
            return Err(format!("mebibyte {n} holds {found}"));
        }
    }
    phase.end().map_err(words)?;
    Ok(Seen { answer: peak()? as f64, operations: mebibytes as u64, ..Seen::default() })
}

/// The most memory that this process has had, in bytes: its peak resident set. Guards reach pages
/// through the frames alone, so no page counts twice.
fn peak() -> Result<usize, String> {
    let text = std::fs::read_to_string("/proc/self/status").map_err(words)?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok());
    kibibytes.map(|k| k * 1024).ok_or_else(|| "the system tells no VmHWM".to_owned())
}

/// Whether what lasted from `before` to `after` lies in the window.
fn is_inside(window: &Range<u64>, before: u64, after: u64) -> bool {
    window.start <= before && after <= window.end
}

/// Changes of thread of every thread of this process so far, asked for or not; an error where the
/// system does not count them.
fn switches() -> Result<u64, String> {
    let folder = "/proc/self/task";
    let threads = std::fs::read_dir(folder).map_err(|e| format!("{folder}: {e}"))?;
    // A thread that ends meanwhile is left out.
    let status = |thread: std::fs::DirEntry| {
        std::fs::read_to_string(thread.path().join("status")).unwrap_or_default()
    };
    threads
        .flatten()
        .filter_map(|thread| changes_in(&status(thread)))
        .reduce(|a, b| a + b)
        .ok_or_else(|| format!("{folder} tells no changes of thread"))
}

/// Changes of thread by a thread's `status`, if it tells them.
fn changes_in(status: &str) -> Option<u64> {
    let lines = status.lines().filter(|line| line.contains("voluntary_ctxt_switches:"));
    let count = |line: &str| line.split_whitespace().next_back()?.parse::<u64>().ok();
    lines.filter_map(count).reduce(|a, b| a + b)
}

/// What contended sections came to, all ranks together.
#[derive(Clone, Copy, Debug)]
pub struct Contended {
    /// Time a section, all ranks together.
    pub section_ns: f64,
    /// Fewest sections of a rank over the most of another.
    pub fairness: f64,
}

/// Runs ranks that contend for one lock for a time.
///
/// # Errors
/// As [`Start::run`]; when no section ended in the window.
pub fn contend(start: &Start, fabric: Fabric, ranks: u16) -> Result<Contended, String> {
    let work = Work { operation: Operation::Contended, batches: 0, batch: 0 };
    let seen = start.run(fabric, ranks, work)?;
    let counts = || seen.iter().map(|s| s.operations as f64);
    let (fewest, most) = (counts().fold(f64::MAX, f64::min), counts().fold(0.0, f64::max));
    if most == 0.0 {
        return Err("no section ended while every rank ran".to_owned());
    }
    let section_ns = WINDOW.as_nanos() as f64 / counts().sum::<f64>();
    Ok(Contended { section_ns, fairness: fewest / most })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranks of the tests below: this very binary, led here by its arguments.
    #[test]
    fn process() {
        if let Some(code) = be_a_rank() {
            std::process::exit(if code == ExitCode::SUCCESS { 0 } else { 3 });
        }
    }

    fn start(scratch: &Path) -> Start {
        let own = ["--exact", "jiajia::launched::tests::process", "--nocapture"];
        let program = std::env::current_exe().unwrap();
        Start { program, arguments: own.map(Into::into).to_vec(), scratch: scratch.to_owned() }
    }

    #[test]
    fn changes_that_are_not_counted_are_no_figure() {
        let counted = "Name:\ta\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n";
        assert_eq!(changes_in(counted), Some(7));
        assert_eq!(changes_in("Name:\ta\nThreads:\t1\n"), None);
    }

    #[test]
    fn contended_sections_count_while_every_rank_runs() {
        let scratch = tempfile::tempdir().unwrap();
        let start = start(scratch.path());
        let parts = [(9, 12), (10, 20), (12, 21), (20, 21)];
        assert_eq!(parts.map(|(a, b)| is_inside(&(10..20), a, b)), [false, true, false, false]);
        let work = Work { operation: Operation::Contended, batches: 0, batch: 0 };
        for fabric in [Fabric::Shm, Fabric::Tcp] {
            assert_eq!(start.run(fabric, 3, work).unwrap().len(), 3, "the counter is right");
        }
        let work = Work { operation: Operation::Section, batches: 2, batch: 5 };
        let seen = start.run(Fabric::ShmPages, 2, work).unwrap();
        assert_eq!(seen.iter().map(|s| s.operations).collect::<Vec<_>>(), [0, 15]);
        assert!(seen[1].median_ns > 0.0 && seen[0].median_ns == 0.0, "{seen:?}");
        let work = Work { operation: Operation::Written, batches: 12, batch: 4 };
        assert!(start.run(Fabric::Tcp, 2, work).unwrap().iter().all(|s| s.answer > 0.0));
        for operation in [Operation::Barrier, Operation::Code2] {
            let work = Work { operation, batches: 2, batch: 5 };
            let seen = start.run(Fabric::Tcp, 2, work).unwrap();
            assert!(seen.iter().all(|s| s.operations == 15), "{operation:?}");
        }
    }

    #[test]
    fn programs_by_guards_agree_with_one_process() {
        let scratch = tempfile::tempdir().unwrap();
        let start = start(scratch.path());
        for (name, program, ..) in PROGRAMS {
            let work = Work { operation: Operation::Guards(program), batches: 1, batch: 0 };
            for fabric in [Fabric::Tcp, Fabric::Shm] {
                let seen = start.run(fabric, 2, work).unwrap();
                assert!(seen.iter().all(|s| s.median_ns > 0.0), "{name}");
            }
        }
    }

    #[test]
    fn a_rank_that_fails_gives_no_figure() {
        let scratch = tempfile::tempdir().unwrap();
        let start = Start { arguments: vec!["--no-such-option".into()], ..start(scratch.path()) };
        let work = Work { operation: Operation::Barrier, batches: 1, batch: 1 };
        assert!(start.run(Fabric::Shm, 2, work).unwrap_err().contains("code"));
        assert!("1 2 3 4".parse::<Seen>().unwrap_err().contains("wrote only"));
    }
}
