//! Identity of a node's process, and what the kernel of its machine says about it.
//!
//! Design: `docs/design/dsm.md`, *Liveness*. A node publishes its [`Identity`]; another node opens
//! a [`Watch`] from it and asks for the [`Standing`] of the process.
//!
//! Invariants
//! - A process of this machine is never [`Standing::Ended`] while the kernel still runs it, however
//!   long it is starved, stopped or held by a debugger. Checked by
//!   `a_process_lives_until_the_kernel_ends_it_also_when_stopped`.
//! - A process id that has been given to another process is `Ended`: the start time tells. Checked
//!   by `an_id_given_to_another_process_is_an_ended_process`.
//! - Where the kernel cannot tell (another machine, another pid or time namespace, no `/proc`) the
//!   answer is [`Standing::Unknown`], and the caller goes by messages alone. Checked by
//!   `the_kernel_is_not_asked_about_other_machines`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use littoral_base::codec::{crc, crc_append};
use littoral_base::mutant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Bytes of an encoded [`Identity`].
pub const IDENTITY_BYTES: usize = 32;

/// Who a node is; see *Identity of a node* in the design page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Process id in the node's own pid namespace.
    pub process: u64,
    /// Start time of the process in clock ticks since boot.
    pub start: u64,
    /// Fingerprint of boot, pid namespace and time namespace; 0 when unknown.
    pub machine: u64,
    /// Fingerprint of the network namespace; 0 when unknown.
    pub network: u64,
}

impl Identity {
    /// The identity of this process.
    pub fn own() -> Self {
        let process = u64::from(std::process::id());
        // A `/proc` of another pid namespace would answer about other processes.
        let link = std::fs::read_link("/proc/self").ok();
        let is_ours = link.as_deref() == Some(Path::new(&process.to_string()));
        let start = stat_of(process).map(|stat| stat.start);
        let network = namespace("net").map_or(0, |inode| inode | 1 << 63);
        match start.filter(|_| is_ours) {
            Some(start) => Identity { process, start, machine: machine(), network },
            None => Identity { process, start: 0, machine: 0, network },
        }
    }

    /// The four words in the order of the fields.
    pub fn words(&self) -> [u64; 4] {
        [self.process, self.start, self.machine, self.network]
    }

    /// The identity whose [`Identity::words`] these are.
    pub fn from_words(words: [u64; 4]) -> Self {
        let [process, start, machine, network] = words;
        Identity { process, start, machine, network }
    }

    /// The words, little-endian.
    pub fn encode(&self) -> [u8; IDENTITY_BYTES] {
        let mut bytes = [0; IDENTITY_BYTES];
        for (into, word) in bytes.chunks_exact_mut(8).zip(self.words()) {
            into.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The identity in `bytes`; `None` when there are too few or too many.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; IDENTITY_BYTES] = bytes.try_into().ok()?;
        let (words, _) = bytes.as_chunks::<8>();
        let word = |i: usize| u64::from_le_bytes(words[i]);
        Some(Self::from_words([word(0), word(1), word(2), word(3)]))
    }

    /// Whether the other process is one that this process's kernel can be asked about.
    pub fn shares_machine(&self, other: &Identity) -> bool {
        self.machine != 0 && self.machine == other.machine
    }

    /// Whether messages between the two stay inside one network namespace of one machine.
    pub fn shares_network(&self, other: &Identity) -> bool {
        self.shares_machine(other) && self.network != 0 && self.network == other.network
    }
}

fn namespace(name: &str) -> Option<u64> {
    std::fs::metadata(format!("/proc/self/ns/{name}")).ok().map(|m| m.ino())
}

/// Boot and namespaces; 0 when one of them cannot be read. A kernel without time namespaces has one
/// time for all.
fn machine() -> u64 {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok();
    let (Some(boot), Some(pids)) = (boot, namespace("pid")) else { return 0 };
    let spaces = [pids, namespace("time").unwrap_or(0)].map(u64::to_le_bytes).concat();
    let (low, high) = (crc(&boot), crc_append(crc(&spaces), &boot));
    (u64::from(low) | u64::from(high) << 32).max(1)
}

/// What `/proc/PID/stat` says.
struct Stat {
    state: char,
    start: u64,
}

/// `None` when the process is gone or may not be seen.
fn stat_of(process: u64) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, in parentheses, may hold anything; the state follows it.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // Field 22 of the line, of which the state is field 3.
    let start = fields.nth(18)?.parse().ok()?;
    Some(Stat { state, start })
}

/// What the kernel says about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has not ended.
    Alive,
    /// It has ended.
    Ended,
    /// The kernel of this machine cannot be asked.
    Unknown,
}

/// Why a process that has not ended does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// A signal stopped it.
    Stopped,
    /// A debugger, the process with this id, holds it.
    Traced(u32),
}

/// Whether a process of this machine is stopped, and by what.
pub fn halt_of(process: u32) -> Option<Halt> {
    match stat_of(u64::from(process))?.state {
        'T' => Some(Halt::Stopped),
        't' => Some(Halt::Traced(tracer_of(process).unwrap_or(0))),
        _ => None,
    }
}

fn tracer_of(process: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    line.trim().parse().ok()
}

#[derive(Debug)]
enum Way {
    /// The node is in this process.
    Own,
    /// A process of this machine, and a handle on it where the kernel has such.
    Here(Option<OwnedFd>),
    Ended,
    Elsewhere,
}

/// A watch on the process of another node; see the module's page.
#[derive(Debug)]
pub struct Watch {
    of: Identity,
    way: Way,
}

impl Watch {
    /// Begins to watch the process with identity `of` from the process with identity `own`, which
    /// is the caller's.
    pub fn open(own: &Identity, of: Identity) -> Self {
        Watch { of, way: Self::way(own, &of) }
    }

    fn way(own: &Identity, of: &Identity) -> Way {
        if !own.shares_machine(of) {
            return Way::Elsewhere;
        }
        if of.process == own.process {
            let is_own = of.start == own.start || mutant!("liveness_reused_pid_is_life");
            return if is_own { Way::Own } else { Way::Ended };
        }
        let Some(pid) = i32::try_from(of.process).ok().and_then(Pid::from_raw) else {
            return Way::Elsewhere;
        };
        // The handle first: see the design page for why this order excludes a reused id.
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => Some(handle),
            Err(Errno::SRCH) => return Way::Ended,
            Err(_) => None,
        };
        match (stat_of(of.process), &handle) {
            (Some(stat), _) if stat.start == of.start => Way::Here(handle),
            (Some(_), _) if mutant!("liveness_reused_pid_is_life") => Way::Here(handle),
            (Some(_), _) => Way::Ended,
            (None, Some(ended)) if has_ended(ended) => Way::Ended,
            (None, _) => Way::Elsewhere,
        }
    }

    /// Whose process is watched.
    pub fn identity(&self) -> &Identity {
        &self.of
    }

    /// What the kernel says now.
    pub fn standing(&self) -> Standing {
        let alive = match mutant!("liveness_silence_counts_here") {
            true => Standing::Unknown,
            false => Standing::Alive,
        };
        match &self.way {
            Way::Own => alive,
            Way::Elsewhere => Standing::Unknown,
            Way::Ended => Standing::Ended,
            Way::Here(Some(handle)) if has_ended(handle) => Standing::Ended,
            Way::Here(Some(_)) => alive,
            Way::Here(None) if self.still_listed() => alive,
            Way::Here(None) => Standing::Ended,
        }
    }

    /// Whether `/proc` still lists the process, for kernels without process handles.
    fn still_listed(&self) -> bool {
        let same = |stat: &Stat| stat.start == self.of.start;
        stat_of(self.of.process).filter(same).is_some_and(|stat| {
            let tasks = || std::fs::read_dir(format!("/proc/{}/task", self.of.process));
            !matches!(stat.state, 'Z' | 'X') || tasks().is_ok_and(|list| list.count() > 1)
        })
    }

    /// Why the process does nothing, when it is another one of this machine and does nothing.
    pub fn halt(&self) -> Option<Halt> {
        let process = u32::try_from(self.of.process).ok();
        process.filter(|_| matches!(self.way, Way::Here(_))).and_then(halt_of)
    }

    /// A descriptor that polls readable once the process has ended.
    pub fn handle(&self) -> Option<BorrowedFd<'_>> {
        match &self.way {
            Way::Here(handle) => handle.as_ref().map(AsFd::as_fd),
            _ => None,
        }
    }
}

fn has_ended(process: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|n| n > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal, kill_process};
    use std::process::{Child, Command, Stdio};

    /// A process that does nothing, ended when this is dropped.
    struct Sleeper(Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    fn sleeper() -> (Sleeper, Identity) {
        let mut command = Command::new("sleep");
        command.arg("1000").stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let process = u64::from(child.id());
        let start = stat_of(process).unwrap().start;
        (Sleeper(child), Identity { process, start, ..Identity::own() })
    }

    #[test]
    fn a_process_lives_until_the_kernel_ends_it_also_when_stopped() {
        let own = Identity::own();
        let (child, identity) = sleeper();
        let with_handle = Watch::open(&own, identity);
        let listed = Watch { of: identity, way: Way::Here(None) };
        for watch in [&with_handle, &listed] {
            assert_eq!((watch.standing(), watch.halt()), (Standing::Alive, None));
        }
        kill_process(Pid::from_child(&child.0), Signal::STOP).unwrap();
        while with_handle.halt().is_none() {
            std::thread::yield_now();
        }
        for watch in [&with_handle, &listed] {
            assert_eq!((watch.standing(), watch.halt()), (Standing::Alive, Some(Halt::Stopped)));
        }
        drop(child);
        for watch in [with_handle, listed, Watch::open(&own, identity)] {
            assert_eq!((watch.standing(), watch.halt()), (Standing::Ended, None));
        }
    }

    #[test]
    fn an_id_given_to_another_process_is_an_ended_process() {
        let own = Identity::own();
        let (child, identity) = sleeper();
        let earlier = Identity { start: identity.start - 1, ..identity };
        assert_eq!(Watch::open(&own, earlier).standing(), Standing::Ended);
        drop(child);
        // The reader itself may have been given the id.
        let before = Identity { start: own.start - 1, ..own };
        assert_eq!(Watch::open(&own, before).standing(), Standing::Ended);
        assert_eq!(Watch::open(&own, own).standing(), Standing::Alive);
    }

    #[test]
    fn the_kernel_is_not_asked_about_other_machines() {
        let own = Identity::own();
        assert_ne!((own.machine, own.network, own.start), (0, 0, 0));
        let (child, identity) = sleeper();
        for machine in [0, own.machine ^ 1] {
            let other = Identity { machine, ..identity };
            assert_eq!(Watch::open(&own, other).standing(), Standing::Unknown);
        }
        let nowhere = Identity { machine: 0, ..own };
        assert!(!nowhere.shares_machine(&nowhere), "unknown is not equal to unknown");
        let cut_off = Identity { network: own.network ^ 1, ..identity };
        assert!(own.shares_machine(&cut_off) && !own.shares_network(&cut_off));
        drop(child);
    }

    #[test]
    fn identities_come_back_from_their_bytes() {
        let identity = Identity { process: 1, start: u64::MAX, machine: 3, network: 1 << 63 };
        assert_eq!(Identity::decode(&identity.encode()), Some(identity));
        assert_eq!(Identity::decode(&[0; IDENTITY_BYTES - 1]), None);
        assert_eq!(Identity::decode(&[0; IDENTITY_BYTES + 1]), None);
    }
}
