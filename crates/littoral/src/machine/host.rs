//! What this host offers, and what to do about what is missing.
//!
//! - Every fact is read from `/proc` and `/sys` or found by one probe (io_uring, userfaultfd,
//!   `O_DIRECT`); what cannot be read says `unknown` and is never guessed.
//! - A fact that is missing says what takes its place and, where something can be done, what.
//! - [`Host::at`] reads another root, so that tests can describe hosts they do not have.
//!
//! `littoral machine` shows [`Host::summary`], `littoral doctor` all of [`Host::facts`].

use std::fs;
use std::path::{Path, PathBuf};

use littoral_base::units::Bytes;
use littoral_device::flash::file::{Direct, Source};
use littoral_device::flash::uring;

mod cpu;
mod system;

/// One thing about this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// A short name for programs, such as `io_uring`.
    pub id: &'static str,
    /// What, in words.
    pub name: &'static str,
    /// Whether the host has it; `None` for plain facts such as the number of cores.
    pub available: Option<bool>,
    /// In words: what was found, or why it is missing and what stands in.
    pub words: String,
    /// What a person can do about it.
    pub advice: Option<String>,
}

impl Fact {
    fn plain(id: &'static str, name: &'static str, words: impl Into<String>) -> Fact {
        Fact { id, name, available: None, words: words.into(), advice: None }
    }

    fn judged(id: &'static str, name: &'static str, has: bool, words: impl Into<String>) -> Fact {
        Fact { id, name, available: Some(has), words: words.into(), advice: None }
    }

    /// With `advice` unless the host has it.
    fn or(mut self, advice: impl Into<String>) -> Fact {
        if self.available != Some(true) {
            self.advice = Some(advice.into());
        }
        self
    }
}

/// Facts that `littoral machine` shows.
const SUMMARY: [&str; 9] =
    ["cores", "memory", "io_uring", "tsc", "huge_pages", "direct", "zoned", "dax", "cxl"];

/// Where a host is described: its `/proc` and `/sys`.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
}

impl Default for Host {
    fn default() -> Self {
        Host::at("/")
    }
}

impl Host {
    /// The host whose `proc` and `sys` folders are under `root`.
    pub fn at(root: impl Into<PathBuf>) -> Host {
        Host { root: root.into() }
    }

    /// The facts that decide what a machine's devices can be.
    pub fn summary(&self) -> Vec<Fact> {
        self.facts().into_iter().filter(|f| SUMMARY.contains(&f.id)).collect()
    }

    /// Everything, in the order in which a person asks.
    pub fn facts(&self) -> Vec<Fact> {
        let mut facts = self.cpu();
        facts.extend(self.system());
        facts.extend([self.io_uring(), self.userfaultfd(), direct_access()]);
        facts.extend([self.zoned(), self.dax(), self.cxl()]);
        facts
    }

    fn io_uring(&self) -> Fact {
        const NAME: &str = "io_uring";
        match uring::available() {
            Ok(()) => Fact::judged("io_uring", NAME, true, "available"),
            Err(why) => {
                let words = format!("{why}; a pread pool stands in");
                Fact::judged("io_uring", NAME, false, words).or(self.io_uring_advice())
            }
        }
    }

    fn io_uring_advice(&self) -> String {
        match self.word("proc/sys/kernel/io_uring_disabled").as_deref() {
            Some("2") => "`sysctl kernel.io_uring_disabled=0` allows it for every process".into(),
            Some("1") => "`sysctl kernel.io_uring_disabled=0`, or add your group's id to \
                          kernel.io_uring_group"
                .into(),
            Some(_) => {
                "the kernel allows it, so a seccomp filter forbids it: run a container with \
                        `--security-opt seccomp=unconfined` or a profile that has io_uring_setup"
                    .into()
            }
            None => "use a kernel of 5.11 or later with CONFIG_IO_URING, outside a sandbox that \
                     filters system calls"
                .into(),
        }
    }

    fn userfaultfd(&self) -> Fact {
        const NAME: &str = "userfaultfd";
        match userfaultfd_works() {
            Some(Ok(())) => Fact::judged("userfaultfd", NAME, true, "available"),
            Some(Err(why)) => {
                let words = format!("{why}; mprotect and signals stand in");
                Fact::judged("userfaultfd", NAME, false, words).or(self.userfaultfd_advice())
            }
            None => Fact::plain("userfaultfd", NAME, "unknown: built without shared memory"),
        }
    }

    fn userfaultfd_advice(&self) -> &'static str {
        match self.word("proc/sys/vm/unprivileged_userfaultfd").as_deref() {
            Some("0") => {
                "`sysctl vm.unprivileged_userfaultfd=1`, or run `littoral dsm` with CAP_SYS_PTRACE"
            }
            Some(_) => "the kernel allows it, so a seccomp filter forbids it",
            None => "use a kernel with CONFIG_USERFAULTFD and write protection (5.7 or later)",
        }
    }

    /// Why io_uring is unavailable to this process, where it is.
    pub fn io_uring_refusal(&self) -> Option<String> {
        uring::available().err()
    }

    /// The names of zoned block devices.
    pub fn zoned_drives(&self) -> Vec<String> {
        let is_zoned = |name: &String| {
            let model = self.word(&format!("sys/block/{name}/queue/zoned"));
            model.is_some_and(|m| m != "none")
        };
        self.entries("sys/block", "").into_iter().filter(is_zoned).collect()
    }

    /// The names of devices of DAX memory.
    pub fn dax_devices(&self) -> Vec<String> {
        let mut list = self.entries("sys/bus/dax/devices", "dax");
        list.extend(self.entries("sys/block", "pmem"));
        list
    }

    fn zoned(&self) -> Fact {
        let list = self.zoned_drives();
        found("zoned", "zoned block devices", list, "the zone model stands in")
            .or("none is needed: `littoral kv` runs on files; a drive is named by `zbd:PATH`")
    }

    fn dax(&self) -> Fact {
        let list = self.dax_devices();
        found("dax", "DAX memory", list, "msync on files and the crash model stand in")
            .or("none is needed: heaps live in files; DAX memory is named by `dax:PATH`")
    }

    fn cxl(&self) -> Fact {
        let list = self.entries("sys/bus/cxl/devices", "mem");
        found("cxl", "CXL memory", list, "profiles stand in")
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }

    /// A file of one line, without its end.
    fn word(&self, path: &str) -> Option<String> {
        self.read(path).map(|t| t.trim().to_owned()).filter(|t| !t.is_empty())
    }

    fn entries(&self, folder: &str, prefix: &str) -> Vec<String> {
        let listing = fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
        let names = listing.filter_map(|e| e.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|n| n.starts_with(prefix)).collect();
        names.sort();
        names
    }
}

fn found(id: &'static str, name: &'static str, list: Vec<String>, otherwise: &str) -> Fact {
    if list.is_empty() {
        Fact::judged(id, name, false, format!("none; {otherwise}"))
    } else {
        Fact::judged(id, name, true, list.join(", "))
    }
}

#[cfg(feature = "dsm")]
fn userfaultfd_works() -> Option<Result<(), String>> {
    use littoral_dsm::memory::{Mechanism, Segment, page_bytes};
    let tried = Segment::private(page_bytes(), Some(Mechanism::Userfaultfd));
    Some(tried.map(drop).map_err(|e| e.to_string()))
}

#[cfg(not(feature = "dsm"))]
fn userfaultfd_works() -> Option<Result<(), String>> {
    None
}

fn direct_access() -> Fact {
    const NAME: &str = "direct access";
    let own = std::env::current_exe().ok();
    match own.and_then(|path| Source::open(&path, Direct::Auto).ok()) {
        Some(source) if source.direct => {
            let align = source.align_bytes;
            let words = format!("this program's file system takes it, {align} B aligned");
            Fact::judged("direct", NAME, true, words)
        }
        Some(_) => {
            let words = "this program's file system refuses O_DIRECT";
            let fact = Fact::judged("direct", NAME, false, words);
            fact.or("keep data on ext4 or XFS: reads through the page cache measure DRAM")
        }
        None => Fact::plain("direct", NAME, "unknown: this program's file cannot be read"),
    }
}

/// `kB` figures of `/proc` files such as `MemTotal:  1024 kB`.
fn kib_field(text: &str, key: &str) -> Option<Bytes> {
    let rest = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':'))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes(kib << 10))
}

/// The mount that holds `folder`, as `/proc/self/mountinfo` tells: type and source.
fn mount_of(mountinfo: &str, folder: &Path) -> Option<(String, String)> {
    let parsed = mountinfo.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let point = left.split(' ').nth(4)?;
        let mut right = right.split(' ');
        Some((point.replace("\\040", " "), right.next()?.to_owned(), right.next()?.to_owned()))
    });
    // Of two mounts on one point the later one is seen.
    let best = parsed.filter(|(point, _, _)| folder.starts_with(point)).max_by_key(|m| m.0.len());
    best.map(|(_, kind, source)| (kind, source))
}

#[cfg(test)]
#[path = "host/tests.rs"]
mod tests;
