//! The launcher: starts a job's ranks, watches them, ends them together.
//!
//! Invariants
//! - The job's exit code is that of a rank that the board's verdict blames; else 128 and the
//!   signal's number when a signal that is not the launcher's own ended a rank; else that of the
//!   first rank that failed; 0 when none failed. Checked by
//!   `a_rank_that_was_killed_gives_the_code_in_any_order_of_ends`,
//!   `a_rank_that_the_board_blames_gives_the_code`.
//! - Once a rank has failed, the others say so and end by themselves, on a busy machine as late as
//!   [`GRACE_MAX`]. Ranks that cannot, being stopped or still on their way into the job, are killed
//!   after [`GRACE`]. Checked by `a_rank_killed_at_any_point_ends_the_job`.
//! - Ranks of a hosts file are killed [`GRACE_HOSTS`] and the job's silence after the first
//!   failure, or [`GRACE_HOSTS`] after a host was not reached, which is named. Checked by
//!   `a_host_that_is_not_reached_is_named_and_ends_the_job`.
//! - A rank that has left the job in good order ends no other, whatever its code: the others may
//!   still be at work on what they have computed. Checked by `a_rank_that_has_left_ends_no_other`,
//!   `a_rank_of_a_hosts_file_that_has_left_ends_no_other`.
//! - Nor is it killed when another fails, which may be between its farewell and the others'.
//!   Checked by `a_rank_that_has_left_is_never_late`.
//! - A stopped rank of a job in which none has failed holds the job; the launcher names it on
//!   standard error once per stop. Checked by
//!   `a_rank_stopped_at_any_point_holds_the_job_and_no_more`,
//!   `a_stopped_process_is_not_missing_and_is_said_once_per_stop`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::TcpListener;
use std::os::fd::{AsFd as _, AsRawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use littoral_base::mutant;
use littoral_base::units::NodeId;
use littoral_device::error::Kind as DeviceKind;
use littoral_fabric::SILENCE_MIN;
use littoral_fabric::opened::new_pool;
use littoral_fabric::process::halt_of;
use littoral_fabric::timing::Timing;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};

use super::hosts::Host;
use super::{POOL_PAGE_BYTES, PREFIX, command, label, lines_at, raw, settings, shm_layout};
use crate::error::{Error, Kind, Result};
use crate::runtime::{
    Config, board_bytes, has_joined, has_left, pages_bytes, say, suspects, waiting_for,
};
use crate::virtual_time::Compute;
use crate::virtual_time::conductor::{Conductor, Report};

/// How long a rank that is stopped, or has not joined, may go on after the first has failed.
pub const GRACE: Duration = Duration::from_millis(1500);
/// How long ranks of a hosts file may, beyond the silence that a lost host takes to be noticed.
pub const GRACE_HOSTS: Duration = Duration::from_secs(3);
/// The code of `ssh` itself, when it does not reach the host.
const UNREACHED: i32 = 255;
/// How long any rank of this machine may.
pub const GRACE_MAX: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);
/// How often the launcher looks for stopped ranks.
const HALTS: Duration = Duration::from_millis(100);

/// What carries a job's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// Shared memory of one machine: ranks share the pages themselves.
    Shm,
    /// Shared memory of one machine: each rank keeps its own copies of pages, in memory that the
    /// others reach.
    ShmPages,
    /// Memory that all ranks map without hardware coherence: they share its lines in place.
    Pool,
    /// Such memory carries messages; each rank keeps its own copies of pages.
    PoolPages,
    /// TCP, on one machine or between several.
    Tcp,
    /// An interconnect in virtual time: ranks of this machine, one at a time.
    Sim {
        /// What its operations take.
        timing: Timing,
        /// What computing is charged by.
        compute: Compute,
    },
}

/// A job to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Ranks.
    pub ranks: u16,
    /// What carries messages.
    pub fabric: Fabric,
    /// Where ranks run; all here when `None`. Only for `Fabric::Tcp`.
    pub hosts: Option<Vec<Host>>,
    /// The pool's file or device; memory without a name when `None`. A file must not exist yet.
    pub pool: Option<PathBuf>,
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Most bytes the job can share.
    pub bytes_max: usize,
    /// Where shared memory lies on every rank; [`super::BASE`] is a good value.
    pub address: usize,
    /// Whether each line that a rank prints begins with its number.
    pub label: bool,
    /// How long a rank of another machine may be silent before it is declared dead, and a rank of
    /// this machine stopped before it is named on standard error;
    /// [`littoral_fabric::SILENCE_DEFAULT`] is a good value.
    pub silence: Duration,
    /// More variables for the ranks, such as `LITTORAL_DSM_LOCKS`.
    pub variables: Vec<(String, String)>,
}

/// How a rank ended.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The rank.
    pub rank: u16,
    /// Its process.
    pub process: u32,
    /// Its exit status.
    pub status: ExitStatus,
    /// The launcher killed it, since another had failed.
    pub killed_by_launcher: bool,
}

/// How a job ended.
#[derive(Clone, Debug)]
pub struct JobEnd {
    /// The job's exit code.
    pub code: u8,
    /// Every rank's end, first to last.
    pub ends: Vec<End>,
    /// What a job in virtual time took.
    pub report: Option<Report>,
}

struct Running {
    rank: u16,
    child: Child,
    ended: bool,
    /// Since when it is seen to be stopped, and whether that was said.
    halted: Option<(Instant, bool)>,
    /// The command that reaches its host, such as `ssh node2`.
    reached_by: Option<String>,
    /// It has said on standard error that it has left the job in good order.
    said_left: Arc<AtomicBool>,
}

/// The thread that conducts a job in virtual time.
struct Conducting {
    thread: JoinHandle<Report>,
    over: Arc<AtomicBool>,
}

/// A started job.
pub struct Started {
    ranks: Vec<Running>,
    conductor: Option<Conducting>,
    silence: Duration,
    /// The ranks' board, where they share one.
    board: Option<File>,
    /// Threads that copy what ranks print, where it is marked or their launcher reads it.
    copies: Vec<JoinHandle<()>>,
    /// Other commands start the ranks.
    is_by_hosts: bool,
    /// Files that the ranks reach through this process.
    _files: Vec<File>,
}

fn misuse(what: impl Into<String>) -> Error {
    Error::new(Kind::Misuse, what)
}

fn environment(what: impl Into<String>, e: impl Into<io::Error>) -> Error {
    Error::with_source(Kind::Environment, what, e.into())
}

/// Starts a job, waits for its end.
///
/// # Errors
/// `Kind::Misuse` for a plan that cannot be, `Kind::Exists` for the pool's file,
/// `Kind::Environment` when a rank cannot be started.
pub fn run(plan: &Plan, interrupted: &dyn Fn() -> bool) -> Result<JobEnd> {
    Ok(start(plan)?.wait(interrupted))
}

/// Starts a job. Ranks of this machine die with the thread that started them, so it is one that
/// stays until the job's end.
///
/// # Errors
/// As [`run`]; ranks already started are killed.
pub fn start(plan: &Plan) -> Result<Started> {
    check(plan)?;
    let mut started = Started {
        ranks: Vec::new(),
        conductor: None,
        silence: plan.silence,
        board: None,
        copies: Vec::new(),
        is_by_hosts: plan.hosts.is_some(),
        _files: Vec::new(),
    };
    let shared = started.share(plan)?;
    let listeners = listen(plan)?;
    let (streams, seats) = seats(plan)?;
    for rank in 0..plan.ranks {
        let listener = listeners.as_ref().map(|l| &l[usize::from(rank)]);
        let addresses = addresses(plan, listeners.as_deref())?;
        let seat = seats.get(usize::from(rank));
        let handed = listener.map(|l| ("LISTENER", l.as_fd()));
        let handed = handed.or(seat.map(|s| ("CONDUCTOR", s.as_fd())));
        let fds = handed.map(|(name, fd)| (name, fd.as_raw_fd().to_string()));
        let own = [("RANK", rank.to_string()), ("RANKS", plan.ranks.to_string())];
        let own = own.into_iter().chain(fds);
        let all = own.chain(addresses.map(|a| ("ADDRESSES", a))).chain(shared.iter().cloned());
        let own = all.map(|(k, v)| (format!("{PREFIX}{k}"), v)).chain(plan.variables.clone());
        let host = plan.hosts.as_ref().map(|h| &h[usize::from(rank)]);
        let mut names = host.map_or(Vec::new(), |_| settings::handed_on());
        names.extend(own.map(|(name, value)| (name.into(), value.into())));
        let mut command = command::of(&plan.program, &plan.arguments, host, &names);
        if !mutant!("dsm_ranks_outlive_launcher") {
            raw::end_with_this_thread(&mut command);
        }
        if plan.label || plan.hosts.is_some() {
            label::capture(&mut command, plan.label);
        }
        let inherit = |flags| handed.map_or(Ok(()), |(_, fd)| fcntl_setfd(fd, flags));
        inherit(FdFlags::empty()).map_err(|e| environment("handing a socket on", e))?;
        let child = command.spawn().map_err(|e| {
            let what = format!("starting rank {rank}: {}", plan.program.to_string_lossy());
            environment(what, e).at_peer(NodeId(rank)).at_path(Path::new(&plan.program))
        });
        inherit(FdFlags::CLOEXEC).map_err(|e| environment("keeping a socket", e))?;
        let mut child = child?;
        let said_left = Arc::new(AtomicBool::new(false));
        let label = plan.label.then_some(rank);
        started.copies.extend(label::forward(label, &mut child, &said_left));
        let reached_by = command::reaching(host);
        let running = Running { rank, child, ended: false, halted: None, reached_by, said_left };
        started.ranks.push(running);
    }
    started.conduct(plan, streams)?;
    Ok(started)
}

/// The ends of the ways between conductor and ranks, where the job is in virtual time.
fn seats(plan: &Plan) -> Result<(Vec<UnixStream>, Vec<UnixStream>)> {
    let count = if matches!(plan.fabric, Fabric::Sim { .. }) { plan.ranks } else { 0 };
    let pair = |_| UnixStream::pair().map_err(|e| environment("making a pair of sockets", e));
    Ok((0..count).map(pair).collect::<Result<Vec<_>>>()?.into_iter().unzip())
}

fn check(plan: &Plan) -> Result<()> {
    if plan.ranks == 0 {
        return Err(misuse("a job has at least one rank"));
    }
    if plan.hosts.is_some() && plan.fabric != Fabric::Tcp {
        return Err(misuse(
            "hosts are reached over tcp only; leave --hosts out or use --fabric tcp",
        ));
    }
    if plan.silence < SILENCE_MIN {
        let least = SILENCE_MIN.as_millis();
        return Err(misuse(format!(
            "a silence limit of less than {least} ms; choose a longer one"
        )));
    }
    let lines = plan.hosts.as_ref().map_or(usize::MAX, Vec::len);
    if lines < usize::from(plan.ranks) {
        return Err(misuse(format!("{lines} hosts for {} ranks", plan.ranks)));
    }
    if plan.pool.is_some() && !matches!(plan.fabric, Fabric::Pool | Fabric::PoolPages) {
        return Err(misuse("a pool's file needs --fabric pool"));
    }
    Ok(())
}

/// On one machine the launcher listens for the ranks, so that no other program can take a port
/// between its choice and its use.
fn listen(plan: &Plan) -> Result<Option<Vec<TcpListener>>> {
    if plan.fabric != Fabric::Tcp || plan.hosts.is_some() {
        return Ok(None);
    }
    let one = |_| TcpListener::bind("127.0.0.1:0").map_err(|e| environment("listening", e));
    (0..plan.ranks).map(one).collect::<Result<Vec<_>>>().map(Some)
}

fn addresses(plan: &Plan, listeners: Option<&[TcpListener]>) -> Result<Option<String>> {
    let list: Vec<String> = match (listeners, &plan.hosts) {
        (Some(listeners), _) => listeners
            .iter()
            .map(|l| l.local_addr().map(|a| a.to_string()))
            .collect::<io::Result<_>>()
            .map_err(|e| environment("asking for a listener's port", e))?,
        (None, Some(hosts)) => hosts.iter().map(|h| h.address.to_string()).collect(),
        (None, None) => return Ok(None),
    };
    Ok(Some(list[..usize::from(plan.ranks)].join(",")))
}

/// Ranks of the host that has most of them. Hosts are told apart by their addresses, and are taken
/// to have as many processors as this one.
fn ranks_a_host(plan: &Plan) -> usize {
    let ranks = usize::from(plan.ranks);
    let Some(hosts) = &plan.hosts else { return ranks };
    let mut all: Vec<_> = hosts.iter().take(ranks).map(|host| host.address.ip()).collect();
    all.sort_unstable();
    all.chunk_by(|a, b| a == b).map(<[_]>::len).max().unwrap_or(0)
}

impl Started {
    /// Makes what the ranks share; the variables that lead there.
    fn share(&mut self, plan: &Plan) -> Result<Vec<(&'static str, String)>> {
        let mut names = vec![
            ("BYTES", plan.bytes_max.to_string()),
            ("ADDRESS", format!("{:#x}", plan.address)),
            ("SILENCE", format!("{}ms", plan.silence.as_millis())),
        ];
        let fabric = match plan.fabric {
            Fabric::Tcp => "tcp",
            Fabric::Pool | Fabric::PoolPages => "pool",
            Fabric::Shm | Fabric::ShmPages => "shm",
            Fabric::Sim { compute, .. } => {
                let name = compute.name();
                names.push(("COMPUTE", name.to_owned()));
                "sim"
            }
        };
        names.push(("FABRIC", fabric.to_owned()));
        if plan.hosts.is_none() {
            names.push(("LAUNCHER", std::process::id().to_string()));
            let board = memory(board_bytes(plan.ranks))?;
            let ours = board.try_clone().map_err(|e| environment("keeping the board", e))?;
            self.board = Some(ours);
            names.push(("BOARD", self.keep(board)));
        } else {
            names.extend([("TETHER", "parent".to_owned()), ("TELLS", "stderr".to_owned())]);
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        if ranks_a_host(plan) > processors {
            names.push(("CROWDED", "yes".to_owned()));
        }
        if plan.fabric == Fabric::Tcp {
            names.push(("KEY", job_key()?.to_string()));
        }
        match plan.fabric {
            Fabric::Tcp | Fabric::Sim { .. } => {}
            Fabric::Pool | Fabric::PoolPages => {
                let own = lines_at(plan.ranks);
                let shared = if plan.fabric == Fabric::Pool { plan.bytes_max } else { 0 };
                let bytes = own.saturating_add(shared).next_multiple_of(POOL_PAGE_BYTES);
                let (file, used) = match &plan.pool {
                    None => (memory(bytes)?, false),
                    Some(path) => new_pool(path, own, bytes).map_err(|e| {
                        let is_taken = e.kind() == DeviceKind::Exists;
                        let kind = if is_taken { Kind::Exists } else { Kind::Environment };
                        Error::over(kind, "making the pool", e)
                    })?,
                };
                if plan.fabric == Fabric::Pool {
                    names.push(("LINES", if used { "used" } else { "new" }.to_owned()));
                }
                names.push(("MEMORY", self.keep(file)));
            }
            Fabric::Shm | Fabric::ShmPages => {
                let layout = shm_layout(plan.ranks);
                let file = memory(0)?;
                layout
                    .create(&file)
                    .map_err(|e| environment("making shared memory", io::Error::other(e)))?;
                names.push(("MEMORY", self.keep(file)));
            }
        }
        if plan.fabric == Fabric::Shm {
            names.push(("DIRECT", self.keep(memory(plan.bytes_max)?)));
        }
        if plan.fabric == Fabric::ShmPages {
            let bytes = pages_bytes(plan.ranks, plan.bytes_max, Config::default().locks);
            names.push(("FRAMES", self.keep(memory(bytes)?)));
        }
        Ok(names)
    }

    /// Begins to conduct a job in virtual time, on a thread of its own: ranks die with the thread
    /// that started them.
    fn conduct(&mut self, plan: &Plan, streams: Vec<UnixStream>) -> Result<()> {
        let Fabric::Sim { timing, .. } = plan.fabric else { return Ok(()) };
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let thread = std::thread::Builder::new()
            .name("littoral-dsm-conductor".to_owned())
            .spawn(move || {
                let abandoned = || ended.load(Ordering::Acquire);
                Conductor::new(streams, timing, &abandoned).conduct()
            })
            .map_err(|e| environment("starting the conductor", e))?;
        self.conductor = Some(Conducting { thread, over });
        Ok(())
    }

    fn keep(&mut self, file: File) -> String {
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        self._files.push(file);
        path
    }

    /// Says that a rank's host was not reached, when its command ended so.
    fn name_unreached(&self, end: &End) -> bool {
        let command = self.ranks.get(usize::from(end.rank)).and_then(|r| r.reached_by.as_ref());
        let command = command.filter(|_| end.status.code() == Some(UNREACHED));
        if let Some(command) = command {
            say(&format!(
                "littoral dsm: rank {}: its host was not reached, or lost: `{command}` ended with \
                 code {UNREACHED}; try `{command} true`",
                end.rank
            ));
        }
        command.is_some()
    }

    /// The processes of the ranks, in order.
    pub fn processes(&self) -> Vec<u32> {
        self.ranks.iter().map(|r| r.child.id()).collect()
    }

    /// Whether a rank has left the job in good order, as far as this process can know.
    fn has_left(&self, rank: u16) -> bool {
        let said = |running: &Running| running.said_left.load(Ordering::Acquire);
        self.board.as_ref().is_some_and(|board| has_left(board, rank))
            || self.ranks.get(usize::from(rank)).is_some_and(said)
    }

    /// Waits until all that the ranks have printed is copied. A command of a hosts file may leave a
    /// process behind that holds its output, which is waited for no longer than [`GRACE_HOSTS`].
    fn end_copies(&mut self) {
        let until = Instant::now() + GRACE_HOSTS;
        for copy in self.copies.drain(..) {
            let may_stay = || self.is_by_hosts && !copy.is_finished();
            while may_stay() && Instant::now() < until {
                std::thread::sleep(LOOK);
            }
            if !may_stay() {
                // It has copied what there was, panicked or not.
                let _ = copy.join();
            }
        }
    }

    /// Ranks that the board's verdict blames.
    fn blamed(&self) -> Vec<NodeId> {
        let ranks = u16::try_from(self.ranks.len()).expect("invariant: ranks are a u16");
        self.board.as_ref().map_or(Vec::new(), |board| suspects(board, ranks))
    }

    /// Waits for the end of every rank; the first failure ends all.
    pub fn wait(mut self, interrupted: &dyn Fn() -> bool) -> JobEnd {
        let mut job = JobEnd { code: 0, ends: Vec::new(), report: None };
        let mut failed: Option<Instant> = None;
        let (mut halts, mut has_reached_all) = (Instant::now(), true);
        while job.ends.len() < self.ranks.len() {
            let left = failed.map(|at: Instant| at.elapsed());
            let board = self.board.as_ref();
            let before = job.ends.len();
            for running in self.ranks.iter_mut().filter(|r| !r.ended) {
                let limit = if has_reached_all { GRACE_HOSTS + self.silence } else { GRACE_HOSTS };
                let is_late = |left| running.is_late(left, board, limit);
                let kill = interrupted() || left.is_some_and(is_late);
                job.ends.extend(running.look(kill));
            }
            let unreached = job.ends[before..].iter().filter(|end| self.name_unreached(end));
            has_reached_all &= unreached.count() == 0;
            if halts.elapsed() > HALTS {
                halts = Instant::now();
                let running = self.ranks.iter_mut().filter(|r| !r.ended);
                running.for_each(|r| r.name_when_stopped(self.silence));
            }
            job.code = verdict(&job.ends, &self.blamed());
            // What a rank said last may be read after its end is seen.
            let has_failed = has_failed(&job.ends, |rank| self.has_left(rank));
            failed = has_failed.then(|| failed.unwrap_or_else(Instant::now));
            if job.ends.len() == before {
                std::thread::sleep(LOOK);
            }
        }
        self.end_copies();
        if let Some(conducting) = self.conductor.take() {
            conducting.over.store(true, Ordering::Release);
            job.report = conducting.thread.join().ok();
        }
        job
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        for running in self.ranks.iter_mut().filter(|r| !r.ended) {
            // It may have ended just now.
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

impl Running {
    /// Whether the rank has had its time to end by itself, so long after the first failure.
    ///
    /// A rank that has left in good order has what time it likes. A rank of a hosts file shows
    /// nothing else to the launcher: it has `limit`, and may still be waiting for the others to
    /// join.
    fn is_late(&self, after: Duration, board: Option<&File>, limit: Duration) -> bool {
        let is_shown = board.is_some_and(|board| has_left(board, self.rank));
        let has_left = is_shown || self.said_left.load(Ordering::Acquire);
        if has_left && !mutant!("dsm_late_when_it_has_left") {
            return false;
        }
        let is_stopped = || halt_of(self.child.id()).is_some();
        let Some(board) = board else {
            return after >= limit || after >= GRACE && is_stopped();
        };
        after >= GRACE_MAX || after >= GRACE && (!has_joined(board, self.rank) || is_stopped())
    }

    /// Says that the others wait for this rank when it has been stopped for `after`.
    fn name_when_stopped(&mut self, after: Duration) {
        match (halt_of(self.child.id()), &mut self.halted) {
            (None, halted) => *halted = None,
            (Some(_), halted @ None) => *halted = Some((Instant::now(), false)),
            (Some(halt), Some((since, said))) if !*said && since.elapsed() >= after => {
                *said = true;
                say(&waiting_for(usize::from(self.rank), u64::from(self.child.id()), halt));
            }
            (Some(_), Some(_)) => {}
        }
    }

    fn look(&mut self, kill: bool) -> Option<End> {
        let mut status = self.child.try_wait().ok().flatten();
        let killed_by_launcher = status.is_none() && kill;
        if killed_by_launcher {
            let _ = self.child.kill();
            status = self.child.wait().ok();
        }
        let status = status?;
        self.ended = true;
        Some(End { rank: self.rank, process: self.child.id(), status, killed_by_launcher })
    }
}

/// The job's exit code after these ends, where the board blames some ranks.
///
/// Survivors may end, and be seen to, before the rank that they died of: the board tells, and where
/// there is none a signal that the launcher did not send is the cause whatever the order.
fn verdict(ends: &[End], blamed: &[NodeId]) -> u8 {
    let failed = |e: &&End| !e.status.success();
    let guilty = |e: &&End| failed(e) && !e.killed_by_launcher && blamed.contains(&NodeId(e.rank));
    let struck = |e: &&End| !e.killed_by_launcher && e.status.signal().is_some();
    let found = ends.iter().find(guilty).or_else(|| ends.iter().find(struck));
    found.or_else(|| ends.iter().find(failed)).map_or(0, |e| code(e.status))
}

/// Whether a rank has failed that had not left the job in good order.
fn has_failed(ends: &[End], has_left: impl Fn(u16) -> bool) -> bool {
    let is_over = |rank| has_left(rank) && !mutant!("dsm_ranks_end_with_who_has_left");
    ends.iter().any(|end| !end.status.success() && !is_over(end.rank))
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|s| 128 + s)).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

/// A number that no other job has: it keeps jobs and strangers apart and is no secret.
fn job_key() -> Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")
        .and_then(|mut f| f.read_exact(&mut bytes))
        .map_err(|e| environment("drawing the job's key from /dev/urandom", e))?;
    Ok(u64::from_le_bytes(bytes))
}

pub(super) fn memory(bytes: usize) -> Result<File> {
    let made = memfd_create("littoral-dsm-job", MemfdFlags::CLOEXEC);
    let file = File::from(made.map_err(|e| environment("making shared memory", e))?);
    ftruncate(&file, bytes as u64)
        .map_err(|e| environment(format!("making shared memory of {bytes} bytes"), e))?;
    Ok(file)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn end(rank: u16, raw: i32, killed_by_launcher: bool) -> End {
        let status = ExitStatus::from_raw(raw);
        End { rank, process: u32::from(rank) + 1, status, killed_by_launcher }
    }

    #[test]
    fn a_rank_that_was_killed_gives_the_code_in_any_order_of_ends() {
        let (fine, lost, struck) = (end(0, 0, false), end(1, 3 << 8, false), end(2, 9, false));
        let verdict = |ends: &[End]| super::verdict(ends, &[]);
        assert_eq!(verdict(&[]), 0);
        assert_eq!(verdict(&[fine]), 0);
        assert_eq!(verdict(&[fine, lost]), 3);
        assert_eq!(verdict(&[fine, lost, struck]), 137);
        assert_eq!(verdict(&[lost, end(0, 9, true)]), 3, "the launcher's own signal is no cause");
        assert_eq!(verdict(&[end(0, 9, true)]), 137);
    }

    #[test]
    fn a_rank_that_has_left_ends_no_other() {
        let ends = [end(0, 0, false), end(1, 7 << 8, false)];
        assert!(!has_failed(&ends[..1], |_| false));
        assert!(has_failed(&ends, |_| false));
        assert!(has_failed(&ends, |rank| rank == 0));
        assert!(!has_failed(&ends, |rank| rank == 1));
        assert_eq!(verdict(&ends, &[]), 7, "its code is the job's all the same");
    }

    #[test]
    fn a_rank_that_has_left_is_never_late() {
        let child = std::process::Command::new("true").spawn().unwrap();
        let (reached_by, said_left) = (None, Arc::default());
        let mut running =
            Running { rank: 1, child, ended: false, halted: None, reached_by, said_left };
        let board = memory(board_bytes(2)).unwrap();
        let late = |running: &Running| {
            [Some(&board), None].map(|board| running.is_late(GRACE_MAX, board, GRACE_HOSTS))
        };
        assert_eq!(late(&running), [true; 2]);
        running.said_left.store(true, Ordering::Release);
        assert_eq!(late(&running), [false; 2]);
        running.child.wait().unwrap();
    }

    #[test]
    fn ranks_of_one_address_share_its_processors() {
        let host = |address: &str| Host { address: address.parse().unwrap(), command: vec![] };
        let hosts = ["10.0.0.1:7", "10.0.0.2:7", "10.0.0.1:8", "10.0.0.2:8", "10.0.0.1:9"];
        let mut plan = Plan {
            ranks: 4,
            fabric: Fabric::Tcp,
            hosts: None,
            pool: None,
            program: OsString::new(),
            arguments: Vec::new(),
            bytes_max: 0,
            address: super::super::BASE,
            label: false,
            silence: SILENCE_MIN,
            variables: Vec::new(),
        };
        assert_eq!(ranks_a_host(&plan), 4);
        plan.hosts = Some(hosts.map(host).to_vec());
        assert_eq!(ranks_a_host(&plan), 2);
        plan.ranks = 5;
        assert_eq!(ranks_a_host(&plan), 3);
    }

    #[test]
    fn a_rank_that_the_board_blames_gives_the_code() {
        let (lost, first) = (end(0, 3 << 8, false), end(1, 9 << 8, false));
        assert_eq!(verdict(&[lost, first], &[NodeId(1)]), 9);
        assert_eq!(verdict(&[lost, first], &[]), 3);
        assert_eq!(verdict(&[lost, end(1, 0, false)], &[NodeId(1)]), 3, "it left without a word");
        assert_eq!(verdict(&[lost, end(1, 9, true)], &[NodeId(1)]), 3, "it was stopped");
    }
}
