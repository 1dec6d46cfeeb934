//! Memory, limits, kernel and the file system of the working folder.

use std::path::Path;

use littoral_base::units::Bytes;

use super::{Fact, Host, kib_field, mount_of};

/// Locked memory that a ring of registered buffers may need before Linux 5.12.
const LOCKED: Bytes = Bytes(64 << 20);

/// Open files that the largest job of ranks over TCP needs with room to spare.
const OPEN_FILES: u64 = 1024;

impl Host {
    pub(super) fn system(&self) -> Vec<Fact> {
        vec![
            self.kernel(),
            self.load(),
            self.memory(),
            self.memory_limit(),
            self.huge_pages(),
            self.locked_memory(),
            self.open_files(),
            self.file_system(std::env::current_dir().ok().as_deref()),
        ]
    }

    fn kernel(&self) -> Fact {
        let release = self.word("proc/sys/kernel/osrelease");
        Fact::plain("kernel", "kernel", release.unwrap_or("unknown".to_owned()))
    }

    fn load(&self) -> Fact {
        let text = self.word("proc/loadavg").unwrap_or_default();
        let mut fields = text.split(' ');
        let Some(load) = fields.next().and_then(|f| f.parse::<f64>().ok()) else {
            return Fact::plain("load", "load", "unknown");
        };
        let mut fact = Fact::plain("load", "load", format!("{load:.2} in the last minute"));
        if load > 0.5 {
            let what = "wait for an idle machine before taking wall-clock or paced figures";
            fact.advice = Some(what.to_owned());
        }
        fact
    }

    fn memory(&self) -> Fact {
        let text = self.read("proc/meminfo").unwrap_or_default();
        let words = match (kib_field(&text, "MemTotal"), kib_field(&text, "MemAvailable")) {
            (Some(total), Some(free)) => format!("{total}, {free} available"),
            (Some(total), None) => total.to_string(),
            _ => "unknown".to_owned(),
        };
        Fact::plain("memory", "memory", words)
    }

    fn memory_limit(&self) -> Fact {
        let words = match self.word("sys/fs/cgroup/memory.max").as_deref() {
            None => "unknown: no cgroup of version 2 at this root".to_owned(),
            Some("max") => "none".to_owned(),
            Some(bytes) => bytes.parse().map_or("unknown".to_owned(), |b| Bytes(b).to_string()),
        };
        Fact::plain("memory_limit", "memory limit", words)
    }

    fn huge_pages(&self) -> Fact {
        let (id, name) = ("huge_pages", "huge pages");
        let mode = self.read("sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        let chosen = mode.split_whitespace().find_map(|w| w.strip_prefix('[')?.strip_suffix(']'));
        let words = format!("transparent huge pages: {}", chosen.unwrap_or("unknown"));
        match chosen {
            None => Fact::plain(id, name, words),
            Some(mode) => Fact::judged(id, name, mode != "never", words)
                .or("`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`"),
        }
    }

    /// One row of `/proc/self/limits`: the soft limit; `None` within is no limit.
    fn limit(&self, row: &str) -> Option<Option<u64>> {
        let text = self.read("proc/self/limits")?;
        let rest = text.lines().find_map(|l| l.strip_prefix(row))?;
        match rest.split_whitespace().next()? {
            "unlimited" => Some(None),
            number => number.parse().ok().map(Some),
        }
    }

    fn locked_memory(&self) -> Fact {
        let (id, name) = ("memlock", "locked memory limit");
        match self.limit("Max locked memory") {
            None => Fact::plain(id, name, "unknown"),
            Some(None) => Fact::judged(id, name, true, "none"),
            Some(Some(bytes)) => {
                let words = format!("{} (RLIMIT_MEMLOCK)", Bytes(bytes));
                Fact::judged(id, name, bytes >= LOCKED.0, words).or(format!(
                    "raise it to {LOCKED} (`ulimit -l`, or memlock in limits.conf): kernels before \
                     5.12 count registered io_uring buffers against it"
                ))
            }
        }
    }

    fn open_files(&self) -> Fact {
        let (id, name) = ("open_files", "open files limit");
        match self.limit("Max open files") {
            None => Fact::plain(id, name, "unknown"),
            Some(None) => Fact::judged(id, name, true, "none"),
            Some(Some(n)) => {
                let words = format!("{n} (RLIMIT_NOFILE)");
                Fact::judged(id, name, n >= OPEN_FILES, words)
                    .or(format!("`ulimit -n {OPEN_FILES}`"))
            }
        }
    }

    pub(super) fn file_system(&self, folder: Option<&Path>) -> Fact {
        let (id, name) = ("file_system", "file system of this folder");
        let text = self.read("proc/self/mountinfo").unwrap_or_default();
        let Some((kind, source)) = folder.and_then(|f| mount_of(&text, f)) else {
            return Fact::plain(id, name, "unknown");
        };
        let mut fact = Fact::plain(id, name, format!("{kind} on {source}"));
        fact.advice = advice_on(&kind).map(str::to_owned);
        fact
    }
}

/// What a file system means for a store or a measurement in it.
fn advice_on(kind: &str) -> Option<&'static str> {
    match kind {
        "tmpfs" | "ramfs" => Some("files here are DRAM: nothing survives a restart of the host"),
        "overlay" => Some("a container's layer: keep data in a volume, which is a file system"),
        "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "virtiofs" | "fuse.sshfs" => {
            Some("a remote file system: syncs may cost a round trip, and locks may not hold")
        }
        _ => None,
    }
}
