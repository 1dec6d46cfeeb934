//! Running a program under a memory limit, and BFS by io_uring beside BFS by mmap under it.
//!
//! The limit is a memory control group of version 2 (`memory.max`) or 1 (`memory.limit_in_bytes`),
//! made for the run and removed after it; the page cache a program fills counts towards it, which
//! is the point. A search whose vertex state does not fit a part of the file gets its state beside
//! that part: the largest resident set of such a search without a limit. Where no group can be made
//! the comparison is skipped with the system's words.
//! A run that takes too long is stopped and counts as having taken until then: the ratio is then an
//! upper bound, and says so.
//! Clock: wall.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::Outcome;
use littoral_bench::error::{Error, Kind, Result};

/// A memory control group of our own, removed when dropped.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
}

impl MemoryGroup {
    /// Makes a group limited to `limit_bytes`, or says why none can be made.
    pub fn create(limit_bytes: u64) -> std::result::Result<MemoryGroup, String> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut reasons = Vec::new();
        for (root, limit) in candidates(&own) {
            match Self::create_in(&root, limit, limit_bytes) {
                Ok(group) => return Ok(group),
                Err(why) => reasons.push(format!("{}: {why}", root.display())),
            }
        }
        Err(format!("a memory control group of our own: {}", reasons.join("; ")))
    }

    fn create_in(root: &Path, limit: &str, limit_bytes: u64) -> std::io::Result<MemoryGroup> {
        let folder = root.join(format!("littoral-{}-{limit_bytes}", std::process::id()));
        fs::create_dir(&folder)?;
        let group = MemoryGroup { folder };
        fs::write(group.folder.join(limit), limit_bytes.to_string())?;
        Ok(group)
    }

    /// Runs a program inside the group; `None` when it had not ended after `time_max` and was
    /// stopped.
    ///
    /// # Errors
    /// `Kind::Io` when it cannot be started.
    pub fn run(
        &self,
        program: &Path,
        arguments: &[String],
        time_max: Duration,
    ) -> Result<Option<Output>> {
        let failed = |e| {
            let message = format!("running {} under a memory limit", program.display());
            Error::with_source(Kind::Io, message, e)
        };
        // The shell joins the group before it becomes the program, so not one page escapes the
        // limit.
        let mut child = Command::new("/bin/sh")
            .args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""])
            .arg(&self.folder)
            .arg(program)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        if ends_within(&mut child, time_max).map_err(failed)? {
            child.wait_with_output().map(Some).map_err(failed)
        } else {
            child.kill().and_then(|()| child.wait()).map_err(failed)?;
            Ok(None)
        }
    }
}

/// Whether a program ends within `time_max`. What it prints must fit a pipe.
fn ends_within(child: &mut Child, time_max: Duration) -> std::io::Result<bool> {
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        if start.elapsed() > time_max {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(true)
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // An empty group that cannot be removed costs nothing and is gone at the next boot.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Where a group may be made, with the name of its limit: the unified hierarchy, then version 1.
fn candidates(own: &str) -> Vec<(PathBuf, &'static str)> {
    let mut found = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next(), parts.next(), parts.next());
        let (Some(controllers), Some(path)) = (controllers, path) else { continue };
        let path = path.trim_start_matches('/');
        if controllers.is_empty() {
            let root = Path::new("/sys/fs/cgroup");
            if fs::read_to_string(root.join("cgroup.controllers"))
                .is_ok_and(|c| c.contains("memory"))
            {
                // A group with processes of its own has no children with limits, hence also the
                // root.
                found.push((root.join(path), "memory.max"));
                found.push((root.to_owned(), "memory.max"));
            }
        } else if controllers.split(',').any(|c| c == "memory") {
            let root = Path::new("/sys/fs/cgroup/memory");
            found.push((root.join(path), "memory.limit_in_bytes"));
            found.push((root.to_owned(), "memory.limit_in_bytes"));
        }
    }
    found
}

/// BFS by io_uring and by mmap under one memory limit.
#[derive(Clone, Debug, Default)]
pub struct MmapFigures {
    /// Bytes of the graph file.
    pub file_bytes: u64,
    /// Memory beside a quarter of the file: the largest resident set of a search by io_uring that
    /// has no limit and no cache.
    pub state_bytes: u64,
    /// The memory limit.
    pub limit_bytes: u64,
    /// Seconds of each BFS by io_uring.
    pub uring_s: Vec<f64>,
    /// Seconds of each BFS by mmap, or until it was stopped.
    pub mmap_s: Vec<f64>,
    /// How many of them were stopped.
    pub stopped_count: usize,
}

impl MmapFigures {
    /// The best of io_uring over the best of mmap; an upper bound where mmap was stopped.
    pub fn ratio(&self) -> f64 {
        let best = |v: &[f64]| v.iter().copied().fold(f64::INFINITY, f64::min);
        best(&self.uring_s) / best(&self.mmap_s)
    }
}

/// The memory of both searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// A quarter of the file, vertex state included.
    Quarter,
    /// Vertex state, and a quarter of the file; the search by io_uring gets half of the latter as a
    /// cache of pages.
    StateAndQuarter,
}

/// Runs `littoral graph bfs` on `graph` by io_uring and by mmap in turn, each in a fresh memory
/// group of the size that `allowance` says, the file's pages dropped from the cache before each
/// run.
///
/// `seconds` reads the time of the search from the command's JSON. A search by mmap is stopped when
/// it has taken three times as long as the slowest by io_uring (and some seconds for opening the
/// file, which do not count); one by io_uring after ten minutes, and there is no figure then.
///
/// # Errors
/// `Kind::Io` when the file or the program cannot be used, `Kind::BadResult` when its output has no
/// time.
pub fn uring_vs_mmap(
    littoral: &Path,
    graph: &Path,
    repetitions: u32,
    allowance: Allowance,
    seconds: impl Fn(&serde_json::Value) -> Option<f64>,
) -> Result<Outcome<MmapFigures>> {
    let io = |e| Error::with_source(Kind::Io, format!("reading {}", graph.display()), e);
    let file_bytes = fs::metadata(graph).map_err(io)?.len();
    let state_bytes = match allowance {
        Allowance::Quarter => 0,
        Allowance::StateAndQuarter => state_bytes(littoral, graph)?,
    };
    let limit_bytes = state_bytes + file_bytes / 4;
    let figures = MmapFigures { file_bytes, state_bytes, limit_bytes, ..MmapFigures::default() };
    let mut figures = figures;
    for _ in 0..repetitions {
        for medium in ["uring", "mmap"] {
            let group = match MemoryGroup::create(limit_bytes) {
                Ok(group) => group,
                Err(why) => return Ok(Outcome::Skipped(why)),
            };
            drop_cached(graph).map_err(io)?;
            let is_mmap = medium == "mmap";
            let time_max = if is_mmap { patience(&figures) } else { TIME_MAX };
            let mut asked = arguments(graph, medium);
            if allowance == Allowance::StateAndQuarter && !is_mmap {
                asked.extend(["--cache".to_owned(), (file_bytes / 8).to_string()]);
            }
            let found = group.run(littoral, &asked, time_max)?;
            let time = match found.map(|output| bfs_seconds(&output, &seconds)) {
                Some(Ok(time)) => time,
                None if is_mmap => {
                    figures.stopped_count += 1;
                    (time_max - OPENING).as_secs_f64()
                }
                None => return Err(unfinished(medium, "it took too long")),
                Some(Err(why)) => return Err(unfinished(medium, &why)),
            };
            let list = if is_mmap { &mut figures.mmap_s } else { &mut figures.uring_s };
            list.push(time);
        }
    }
    Ok(Outcome::Measured(figures))
}

fn unfinished(medium: &str, why: &str) -> Error {
    Error::new(Kind::Environment, format!("BFS by {medium}: {why}"))
}

/// How often the resident set of a running search is looked at.
const WATCH: Duration = Duration::from_millis(5);

/// The largest resident set of one search by io_uring without a limit.
fn state_bytes(littoral: &Path, graph: &Path) -> Result<u64> {
    let failed = |e| Error::with_source(Kind::Io, format!("running {}", littoral.display()), e);
    let mut child = Command::new(littoral)
        .args(arguments(graph, "uring"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak_bytes = 0;
    let ended = loop {
        // What a process that has ended leaves behind has no such line.
        let now = fs::read_to_string(&status).ok().and_then(|s| resident_peak_bytes(&s));
        peak_bytes = peak_bytes.max(now.unwrap_or(0));
        match child.try_wait().map_err(failed)? {
            Some(ended) => break ended,
            None => std::thread::sleep(WATCH),
        }
    };
    if ended.success() && peak_bytes > 0 {
        return Ok(peak_bytes);
    }
    let what = format!("a search by io_uring without a limit ended with {ended}");
    Err(Error::new(Kind::Environment, what))
}

/// The largest resident set so far, of a process's `status`.
fn resident_peak_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok().map(|kib: u64| kib << 10)
}

/// Longest search by io_uring.
const TIME_MAX: Duration = Duration::from_secs(600);

/// More than enough for a program to start and open its file, which is not part of the search.
const OPENING: Duration = Duration::from_secs(10);

/// Longest run of a search by mmap beside the ones by io_uring so far.
fn patience(figures: &MmapFigures) -> Duration {
    let slowest = figures.uring_s.iter().copied().fold(0.0, f64::max);
    Duration::from_secs_f64(3.0 * slowest) + OPENING
}

fn arguments(graph: &Path, medium: &str) -> Vec<String> {
    let graph = graph.display().to_string();
    ["graph", "bfs", &graph, "--medium", medium, "--trials", "1", "--format", "json"]
        .map(str::to_owned)
        .to_vec()
}

fn bfs_seconds(
    output: &Output,
    seconds: &impl Fn(&serde_json::Value) -> Option<f64>,
) -> std::result::Result<f64, String> {
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let what = words.trim();
        return Err(format!("{} {}", output.status, what));
    }
    let json = serde_json::from_slice(&output.stdout).map_err(|e| format!("no JSON: {e}"))?;
    seconds(&json).ok_or_else(|| "its JSON holds no time".to_owned())
}

fn drop_cached(path: &Path) -> std::io::Result<()> {
    let file = fs::File::open(path)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_looked_for_where_the_process_is() {
        let own = "9:name=systemd:/\n4:memory:/a/b\n0::/\n";
        let found = candidates(own);
        assert!(found.contains(&("/sys/fs/cgroup/memory/a/b".into(), "memory.limit_in_bytes")));
        assert!(candidates("nonsense\n").is_empty());
    }

    #[test]
    fn vertex_state_is_the_largest_resident_set() {
        let status = "Name:\tsh\nVmPeak:\t 99 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(resident_peak_bytes(status), Some(2 << 20));
        assert_eq!(resident_peak_bytes("Name:\tsh\nState:\tZ (zombie)\n"), None);
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("littoral");
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        assert!(state_bytes(&program, Path::new("graph")).is_err(), "`sleep graph` fails");
    }

    #[test]
    fn a_program_over_its_limit_is_killed_and_one_under_it_is_not() {
        let Ok(group) = MemoryGroup::create(64 << 20) else { return };
        let shell = Path::new("/bin/sh");
        let run = |script: &str, time_max| {
            group.run(shell, &["-c".into(), script.into()], time_max).unwrap()
        };
        assert!(run("exit 0", TIME_MAX).unwrap().status.success());
        assert!(run("exec sleep 60", Duration::from_millis(50)).is_none(), "a minute in 50 ms");
        let dd = "dd if=/dev/zero of=/dev/null bs=512M count=1 2>/dev/null";
        let greedy = run(dd, TIME_MAX).unwrap();
        assert!(!greedy.status.success(), "512 MiB fit into 64 MiB");
    }
}
