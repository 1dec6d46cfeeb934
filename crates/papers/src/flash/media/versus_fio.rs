//! io_uring beside fio: the same file, block size, depth and kind of access, in turn.
//!
//! fio runs its io_uring engine with registered file and buffers, which are its cheapest settings
//! here. Processor time is user plus system time of the reading process, over reads finished; both
//! programs sleep while nothing has arrived. Clock: wall.
//!
//! Each run warms up first, uncounted: a drive whose rate is capped by a bucket of tokens serves
//! more after a pause, and a program that takes longer to start has had the longer pause.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use littoral_base::rng::{self, Rng};
use littoral_device::flash::file::Direct;
use littoral_device::flash::uring::{self, Uring, UringOptions};
use littoral_device::read::{ReadDevice, Slot};
use rustix::time::{ClockId, clock_gettime};

use super::Outcome;
use littoral_bench::error::{Error, Kind, Result};
use littoral_bench::peers::Peers;

const READ_BYTES: u32 = 4096;
/// io_uring sleeps until one in this many of the outstanding reads has been answered: fewer
/// wake-ups a read, while the drive keeps most of its queue.
const PARK_SHARE: u32 = 8;

/// Uncounted reads before each run.
const WARM_UP: Duration = Duration::from_millis(700);

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// A folder on the file system to be read.
    pub scratch: PathBuf,
    /// Bytes of the file; larger than what the drive caches, if that is to be seen.
    pub file_bytes: u64,
    /// Depths.
    pub depths: Vec<u32>,
    /// Runs of each program a depth, in turn.
    pub repetitions: u32,
    /// Length of a run.
    pub run: Duration,
}

impl Options {
    /// The sizes the claim is measured at, in `scratch`.
    pub fn standard(scratch: PathBuf) -> Options {
        Options {
            scratch,
            file_bytes: 1 << 30,
            depths: vec![32, 256],
            repetitions: 5,
            run: Duration::from_secs(2),
        }
    }
}

/// One program at one depth.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Processor time a read.
    pub cpu_ns_per_read: f64,
    /// Reads a second.
    pub reads_per_s: f64,
}

/// Both programs at one depth.
#[derive(Clone, Debug)]
pub struct DepthFigures {
    /// Reads outstanding.
    pub depth: u32,
    /// Ours, run by run.
    pub ours: Vec<Sample>,
    /// fio's, run by run.
    pub fio: Vec<Sample>,
}

impl DepthFigures {
    /// Least processor time a read of ours over fio's.
    pub fn cpu_ratio(&self) -> f64 {
        least_cpu(&self.ours) / least_cpu(&self.fio)
    }

    /// Most reads a second of ours over fio's.
    pub fn rate_ratio(&self) -> f64 {
        most_reads(&self.ours) / most_reads(&self.fio)
    }

    /// The ratio of reads a second of each pair of neighbouring runs, in ascending order: where the
    /// drive is the limit its spread says how much of [`DepthFigures::rate_ratio`] is noise.
    pub fn rate_ratios(&self) -> Vec<f64> {
        let pairs = self.ours.iter().zip(&self.fio);
        let mut ratios: Vec<f64> = pairs.map(|(a, b)| a.reads_per_s / b.reads_per_s).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }
}

fn least_cpu(samples: &[Sample]) -> f64 {
    samples.iter().map(|s| s.cpu_ns_per_read).fold(f64::INFINITY, f64::min)
}

fn most_reads(samples: &[Sample]) -> f64 {
    samples.iter().map(|s| s.reads_per_s).fold(0.0, f64::max)
}

/// The comparison at every depth, and how the file was read.
#[derive(Clone, Debug)]
pub struct FioFigures {
    /// One entry a depth.
    pub depths: Vec<DepthFigures>,
    /// What was real, in words.
    pub description: String,
}

/// Measures both programs in turn.
///
/// # Errors
/// `Kind::Io` when the scratch file cannot be made or read.
pub fn measure(peers: &Peers, options: &Options) -> Result<Outcome<FioFigures>> {
    let Some(fio) = peers.find("fio", "fio") else {
        return Ok(Outcome::Skipped("`fio` is neither in --peers nor in PATH".to_owned()));
    };
    if let Err(why) = uring::available() {
        return Ok(Outcome::Skipped(why));
    }
    let file = Scratch::create(&options.scratch, options.file_bytes)?;
    let mut depths = Vec::new();
    let mut description = String::new();
    for &depth in &options.depths {
        let mut figures = DepthFigures { depth, ours: Vec::new(), fio: Vec::new() };
        for repetition in 0..options.repetitions {
            let (device, words) = open(&file.path, depth)?;
            let direct = device.is_direct();
            description = words;
            figures.ours.push(run_ours(&device, depth, options.run, u64::from(repetition))?);
            drop(device);
            figures.fio.push(run_fio(&fio, &file.path, depth, options.run, direct)?);
        }
        depths.push(figures);
    }
    Ok(Outcome::Measured(FioFigures { depths, description }))
}

/// A file with real data in it, removed at the end: reads of a file without data cost nothing.
pub(crate) struct Scratch {
    pub(crate) path: PathBuf,
}

impl Scratch {
    pub(crate) fn create(folder: &Path, bytes: u64) -> Result<Scratch> {
        let path = folder.join(format!("littoral-scratch-{}", std::process::id()));
        let scratch = Scratch { path };
        let failed = |e| {
            let message = format!("writing the scratch file {}", scratch.path.display());
            Error::with_source(Kind::Io, message, e)
        };
        let mut file = File::create_new(&scratch.path).map_err(failed)?;
        let mut rng = rng::stream(1, "scratch");
        let mut block = vec![0u8; 1 << 20];
        for word in block.chunks_exact_mut(8) {
            word.copy_from_slice(&rng.random::<u64>().to_le_bytes());
        }
        for at in (0..bytes).step_by(block.len()) {
            block[..8].copy_from_slice(&at.to_le_bytes());
            file.write_all(&block).map_err(failed)?;
        }
        file.sync_all().map_err(failed)?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing more can be done about a scratch file that cannot be removed.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn open(path: &Path, depth: u32) -> Result<(Uring, String)> {
    let options = UringOptions {
        slots: depth,
        read_bytes_max: READ_BYTES,
        direct: Direct::Auto,
        park_batch: (depth / PARK_SHARE).max(1),
    };
    let device = Uring::open(path, options)
        .map_err(|e| Error::with_source(Kind::Io, "opening the scratch file".to_owned(), e))?;
    let words = device.describe();
    Ok((device, words))
}

fn process_cpu_ns() -> f64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}

fn run_ours(device: &Uring, depth: u32, length: Duration, seed: u64) -> Result<Sample> {
    let blocks = device.limits().capacity_bytes / u64::from(READ_BYTES);
    let mut rng = rng::stream(seed, "addresses");
    let mut issue = |slot| {
        let block = rng.random_range(0..blocks);
        device.issue(slot, block * u64::from(READ_BYTES), READ_BYTES);
    };
    (0..depth).for_each(|s| issue(Slot(s)));
    keep_reading(device, depth, WARM_UP, &mut issue)?;
    let (start, cpu) = (Instant::now(), process_cpu_ns());
    let reads = keep_reading(device, depth, length, &mut issue)?;
    let (elapsed, cpu) = (start.elapsed().as_secs_f64(), process_cpu_ns() - cpu);
    Ok(Sample { cpu_ns_per_read: cpu / reads as f64, reads_per_s: reads as f64 / elapsed })
}

/// Replaces every read that has been answered by the next one; answers how many were.
fn keep_reading(
    device: &Uring,
    depth: u32,
    length: Duration,
    issue: &mut impl FnMut(Slot),
) -> Result<u64> {
    let (start, mut reads) = (Instant::now(), 0u64);
    while start.elapsed() < length {
        device.park(Duration::from_millis(100));
        for slot in (0..depth).map(Slot) {
            let Some(status) = device.poll(slot) else { continue };
            if !status.is_ok() {
                let words = device.last_error().unwrap_or_default();
                return Err(Error::new(
                    Kind::Io,
                    format!("reading the scratch file: {status}: {words}"),
                ));
            }
            reads += 1;
            device.release(slot);
            issue(slot);
        }
    }
    Ok(reads)
}

fn run_fio(fio: &Path, file: &Path, depth: u32, length: Duration, direct: bool) -> Result<Sample> {
    let output = Command::new(fio)
        .args(["--name=littoral", "--rw=randread", "--bs=4k", "--ioengine=io_uring"])
        .args(["--registerfiles=1", "--fixedbufs=1", "--norandommap=1", "--time_based=1"])
        .args(["--output-format=json", "--readonly", "--thread=1", "--gtod_reduce=1"])
        .arg(format!("--filename={}", file.display()))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--ramp_time={}ms", WARM_UP.as_millis()))
        .arg(format!("--runtime={}ms", length.as_millis()))
        .arg(format!("--direct={}", u8::from(direct)))
        .output()
        .map_err(|e| Error::with_source(Kind::Io, "running fio".to_owned(), e))?;
    let words = String::from_utf8_lossy(&output.stderr);
    let json: serde_json::Value = match serde_json::from_slice(&output.stdout) {
        Ok(json) if output.status.success() => json,
        _ => {
            let what = format!("fio ended with {}: {}", output.status, words.trim());
            return Err(Error::new(Kind::Environment, what));
        }
    };
    let what = "fio's output has another shape than expected";
    read_fio(&json).ok_or_else(|| Error::new(Kind::Environment, what))
}

fn read_fio(json: &serde_json::Value) -> Option<Sample> {
    let job = json.get("jobs")?.get(0)?;
    let read = job.get("read")?;
    let reads = read.get("total_ios")?.as_f64().filter(|reads| *reads > 0.0)?;
    let runtime_ns = read.get("runtime")?.as_f64()? * 1e6;
    let cpu_percent = job.get("usr_cpu")?.as_f64()? + job.get("sys_cpu")?.as_f64()?;
    let cpu_ns_per_read = cpu_percent / 100.0 * runtime_ns / reads;
    Some(Sample { cpu_ns_per_read, reads_per_s: read.get("iops")?.as_f64()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fio_s_json_is_read_or_refused() {
        let text = r#"{"jobs":[{"usr_cpu":10.0,"sys_cpu":15.0,
            "read":{"iops":1000.0,"total_ios":2000,"runtime":2000}}]}"#;
        let sample = read_fio(&serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!((sample.cpu_ns_per_read, sample.reads_per_s), (250_000.0, 1000.0));
        assert!(read_fio(&serde_json::json!({"jobs": []})).is_none());
        let without_reads = text.replace("2000,", "0,");
        assert!(read_fio(&serde_json::from_str(&without_reads).unwrap()).is_none());
    }

    #[test]
    fn without_fio_the_claim_is_skipped_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let ours = open(Scratch::create(dir.path(), 1 << 20).unwrap().path.as_path(), 8);
        if let Ok((device, _)) = ours {
            let sample = run_ours(&device, 8, Duration::from_millis(20), 1).unwrap();
            assert!(sample.reads_per_s > 0.0 && sample.cpu_ns_per_read > 0.0);
        }
    }
}
