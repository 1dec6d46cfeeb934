//! What is real on this host, and what a machine's devices are, in plain words.
//!
//! Read from `/proc`, `/sys` and one probe of io_uring; what cannot be read says `unknown` and is
//! never guessed. `littoral machine` prints a [`Description`].

use std::fs;
use std::path::Path;

use littoral_device::flash::uring;
use littoral_device::profile::Profile;
use littoral_device::profile::machine::DeviceSpec;

use super::Machine;

/// One thing about this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// What, such as `io_uring`.
    pub name: &'static str,
    /// Whether the host has it; `None` for plain facts such as the number of cores.
    pub available: Option<bool>,
    /// In words: what was found, or why it is missing and what stands in.
    pub words: String,
}

/// One device of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFact {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// Whether its timing or its medium is modelled rather than real.
    pub modelled: bool,
    /// In words: medium, geometry, profile with its hash.
    pub words: String,
}

/// Everything `littoral machine` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Where the machine's description comes from.
    pub origin: String,
    /// The host.
    pub host: Vec<Fact>,
    /// The devices.
    pub devices: Vec<DeviceFact>,
}

pub(super) fn describe(machine: &Machine) -> Description {
    let devices = machine.spec().devices.iter().map(device_fact).collect();
    Description { origin: machine.origin().to_owned(), host: host(), devices }
}

/// A profile in one line, with its hash.
pub fn profile_words(profile: &Profile) -> String {
    let (name, hash) = (profile.name(), profile.hash());
    let key = |wanted: &str| {
        let found = profile.figures().find(|(row, _)| row.key == wanted);
        found.map_or("unknown".to_owned(), |(row, figure)| row.unit.show(figure.value))
    };
    let (latency, rate) = (key("read.latency"), key("read.per_core_max"));
    format!("profile {name} (hash {hash}): {latency}, {rate} reads a core")
}

fn device_fact(device: &DeviceSpec) -> DeviceFact {
    let medium = match device.medium.path() {
        Some(path) => format!("{}{}", device.medium.scheme(), path.display()),
        None => device.medium.scheme().to_owned(),
    };
    let mut words = vec![medium];
    words.extend(device.figures().map(|(row, v)| format!("{} {}", row.key, row.unit.show(v))));
    words.extend(device.profile.as_ref().map(profile_words));
    // A file stands in for zones and persistent memory, but holds flash data as any file does.
    let is_real = matches!(device.medium.scheme(), "uring:" | "zbd:" | "dax:" | "tcp:");
    let (name, kind) = (device.name.clone(), device.kind.name());
    DeviceFact { name, kind, modelled: !is_real, words: words.join(", ") }
}

/// What this host has.
pub fn host() -> Vec<Fact> {
    vec![
        cores(),
        memory(),
        io_uring(),
        tsc(),
        huge_pages(),
        direct_access(),
        found("zoned block devices", zoned_devices(), "the zone model stands in"),
        found("DAX memory", dax_devices(), "msync on files and the crash model stand in"),
        found("CXL memory", entries("/sys/bus/cxl/devices", "mem"), "profiles stand in"),
    ]
}

fn fact(name: &'static str, available: Option<bool>, words: impl Into<String>) -> Fact {
    Fact { name, available, words: words.into() }
}

fn cores() -> Fact {
    let cores =
        std::thread::available_parallelism().map_or("unknown".to_owned(), |n| n.to_string());
    fact("cores", None, format!("{cores} this process may use"))
}

fn memory() -> Fact {
    let text = read("/proc/meminfo");
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"));
    fact("memory", None, line.map_or("unknown", str::trim))
}

fn io_uring() -> Fact {
    match uring::available() {
        Ok(()) => fact("io_uring", Some(true), "available"),
        Err(why) => fact("io_uring", Some(false), format!("{why}; a pread pool stands in")),
    }
}

fn tsc() -> Fact {
    let text = read("/proc/cpuinfo");
    let flags = text.lines().find(|l| l.starts_with("flags")).unwrap_or_default();
    let has = |flag: &str| flags.split_whitespace().any(|f| f == flag);
    let invariant = has("constant_tsc") && has("nonstop_tsc");
    let words = if invariant {
        "constant and never stopping: paced devices keep time by it"
    } else {
        "not known to be invariant: paced figures may drift"
    };
    fact("time-stamp counter", Some(invariant), words)
}

fn huge_pages() -> Fact {
    let mode = read("/sys/kernel/mm/transparent_hugepage/enabled");
    let chosen = mode.split_whitespace().find_map(|w| w.strip_prefix('[')?.strip_suffix(']'));
    let words = format!("transparent huge pages: {}", chosen.unwrap_or("unknown"));
    fact("huge pages", chosen.map(|c| c != "never"), words)
}

fn direct_access() -> Fact {
    use littoral_device::flash::file::{Direct, Source};
    let own = std::env::current_exe().ok();
    let source = own.and_then(|path| Source::open(&path, Direct::Auto).ok());
    match source {
        Some(source) if source.direct => {
            let words =
                format!("this program's file system takes it, {} B aligned", source.align_bytes);
            fact("direct access", Some(true), words)
        }
        Some(_) => {
            fact("direct access", Some(false), "this program's file system refuses O_DIRECT")
        }
        None => fact("direct access", None, "unknown: this program's file cannot be read"),
    }
}

fn found(name: &'static str, list: Vec<String>, otherwise: &str) -> Fact {
    if list.is_empty() {
        fact(name, Some(false), format!("none; {otherwise}"))
    } else {
        fact(name, Some(true), list.join(", "))
    }
}

fn zoned_devices() -> Vec<String> {
    let is_zoned = |name: &String| {
        let model = read(&format!("/sys/block/{name}/queue/zoned"));
        !matches!(model.trim(), "" | "none")
    };
    entries("/sys/block", "").into_iter().filter(is_zoned).collect()
}

fn dax_devices() -> Vec<String> {
    let mut list = entries("/sys/bus/dax/devices", "dax");
    list.extend(entries("/sys/block", "pmem"));
    list
}

fn entries(folder: &str, prefix: &str) -> Vec<String> {
    let listing = fs::read_dir(Path::new(folder)).into_iter().flatten().flatten();
    let names = listing.filter_map(|e| e.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|n| n.starts_with(prefix)).collect();
    names.sort();
    names
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
