//! Where a number was measured: processor, cores, kernel, clock source, huge pages, load, revision.
//!
//! Read from `/proc` and `/sys`; what cannot be read says `unknown` and is never guessed.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::sync::{LazyLock, OnceLock};

use littoral_base::codec;
use serde::{Deserialize, Serialize};

/// The place of a measurement, as results carry it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The processor's name.
    pub cpu: String,
    /// Logical cores this process may use.
    pub cores_count: usize,
    /// DRAM in bytes.
    pub memory_bytes: u64,
    /// Kernel name and release.
    pub kernel: String,
    /// The kernel's clock source.
    pub clocksource: String,
    /// The setting of transparent huge pages.
    pub transparent_huge_pages: String,
    /// Runnable tasks in the last minute when the run began: above one, another program ran.
    pub load_average_count: f64,
    /// Hashes of the profiles used, by name.
    #[serde(default)]
    pub profiles: BTreeMap<String, String>,
}

/// Revision and date of the program, once it has said them.
static BUILT_FROM: OnceLock<(&str, &str)> = OnceLock::new();

/// Says which revision of the source this program was built from, and the revision's date; either
/// may be empty. The first call counts. The program says it, not this crate's own build, so that a
/// new revision does not build this crate and those above it again.
pub fn built_from(revision: &'static str, date: &'static str) {
    BUILT_FROM.get_or_init(|| (revision, date));
}

/// The revision this program was built from, `unknown` outside version control.
pub fn revision() -> &'static str {
    BUILT_FROM.get().map(|built| built.0).filter(|r| !r.is_empty()).unwrap_or("unknown")
}

/// What tells this program from another build of the same revision, as of changed sources: the
/// CRC32C and the length of its file; `unknown` where the system does not show that file.
pub fn build() -> &'static str {
    // The file that runs, also when another build has taken its name since.
    static BUILD: LazyLock<String> =
        LazyLock::new(|| known(&digest("/proc/self/exe").unwrap_or_default()));
    &BUILD
}

/// CRC32C and length of a file, which is not held in memory whole.
fn digest(path: &str) -> Option<String> {
    let mut file = fs::File::open(path).ok()?;
    let (mut crc, mut len, mut part) = (0, 0, vec![0; 1 << 20]);
    loop {
        let count = file.read(&mut part).ok()?;
        if count == 0 {
            return Some(format!("{crc:08x}, {len} bytes"));
        }
        crc = codec::crc_append(crc, &part[..count]);
        len += count;
    }
}

/// The version for `-V`: the package's, the revision and its date, as far as they are known.
pub fn version() -> &'static str {
    const NUMBER: &str = env!("CARGO_PKG_VERSION");
    static WHOLE: LazyLock<String> = LazyLock::new(|| {
        let revision = revision();
        match BUILT_FROM.get().map_or("", |built| built.1) {
            "" => format!("{NUMBER} ({revision})"),
            date => format!("{NUMBER} ({revision}, {date})"),
        }
    });
    &WHOLE
}

/// What this host is, now.
pub fn environment() -> Environment {
    let cpuinfo = read("/proc/cpuinfo");
    Environment {
        cpu: field(&cpuinfo, &["model name", "Model Name", "cpu model"]),
        cores_count: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: memory_bytes(&read("/proc/meminfo")),
        kernel: format!("Linux {}", known(read("/proc/sys/kernel/osrelease").trim())),
        clocksource: known(
            read("/sys/devices/system/clocksource/clocksource0/current_clocksource").trim(),
        ),
        transparent_huge_pages: chosen(&read("/sys/kernel/mm/transparent_hugepage/enabled")),
        load_average_count: first_number(&read("/proc/loadavg")),
        profiles: BTreeMap::new(),
    }
}

/// Bytes of this process's resident set; `None` where the system does not tell.
pub fn resident_bytes() -> Option<u64> {
    status_bytes("VmRSS:")
}

/// The most bytes that the resident set ever had; `None` where the system does not tell.
pub fn resident_peak_bytes() -> Option<u64> {
    status_bytes("VmHWM:")
}

fn status_bytes(key: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok().map(|kib: u64| kib << 10)
}

/// Bytes of the first processor's last-level cache; `None` where the system does not say.
pub fn last_cache_bytes() -> Option<u64> {
    let size = |index: usize| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        cache_bytes(read(&path).trim())
    };
    (0..8).filter_map(size).max()
}

/// A size as the kernel writes it, such as `32768K`.
fn cache_bytes(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..split].parse().ok()?;
    let unit = match &text[split..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// Today in UTC, as year-month-day.
pub fn today() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let (year, month, day) = civil(since.map_or(0, |t| (t.as_secs() / 86_400) as i64));
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of a count of days since 1970 (the Gregorian calendar, years from March).
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + carry, month, day)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn known(text: &str) -> String {
    if text.is_empty() { "unknown".to_owned() } else { text.to_owned() }
}

fn field(text: &str, names: &[&str]) -> String {
    let pairs = text.lines().filter_map(|l| l.split_once(':'));
    let found = pairs.into_iter().find(|(name, _)| names.contains(&name.trim()));
    known(found.map_or("", |(_, value)| value.trim()))
}

fn memory_bytes(meminfo: &str) -> u64 {
    let kib = field(meminfo, &["MemTotal"]);
    kib.split(' ').next().and_then(|n| n.parse::<u64>().ok()).map_or(0, |n| n * 1024)
}

/// The choice the kernel marks with brackets, as in `always [madvise] never`.
fn chosen(text: &str) -> String {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    known(inside.map_or("", |(choice, _)| choice))
}

fn first_number(text: &str) -> f64 {
    text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_understood_and_never_guessed() {
        assert_eq!(field("processor\t: 0\nmodel name\t: Nice CPU\n", &["model name"]), "Nice CPU");
        assert_eq!(field("", &["model name"]), "unknown");
        assert_eq!(chosen("always [madvise] never\n"), "madvise");
        assert_eq!(chosen("broken"), "unknown");
        assert_eq!(memory_bytes("MemTotal:       2048 kB\n"), 2 << 20);
        assert_eq!(first_number("0.52 0.58 0.59 1/467 2841\n"), 0.52);
    }

    #[test]
    fn days_and_cache_sizes_are_understood() {
        assert_eq!(
            [0, 59, 11_016, 20_089].map(civil),
            [(1970, 1, 1), (1970, 3, 1), (2000, 2, 29), (2025, 1, 1),]
        );
        assert_eq!(cache_bytes("32768K"), Some(32 << 20));
        assert_eq!([cache_bytes(""), cache_bytes("3 apples")], [None, None]);
    }

    #[test]
    fn this_host_has_a_core_and_memory() {
        let here = environment();
        assert!(here.cores_count >= 1 && here.memory_bytes > 1 << 20, "{here:?}");
        assert!(!revision().is_empty());
    }

    #[test]
    fn a_build_is_told_by_the_bytes_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let digest_of = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            digest(path.to_str().unwrap())
        };
        let long = vec![7; (1 << 20) + 3];
        let expected = format!("{:08x}, 1048579 bytes", codec::crc(&long));
        assert_eq!(digest_of("one", &long), Some(expected));
        assert_eq!(digest_of("two", &long), digest_of("one", &long));
        assert_ne!(digest_of("two", &long[1..]), digest_of("one", &long));
        assert_eq!(digest("/nowhere"), None);
        assert_ne!(build(), "");
    }
}
