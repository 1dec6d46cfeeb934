//! Scans through a served device, in paced time: Q1, Q6 and Q14 near storage beside fetching every
//! page through the same socket.
//!
//! - The server is a process of its own (`littoral push serve`) with a link of 300 MB/s and four
//!   cores of 400 MHz; the host is this process.
//! - Both sides of a ratio run in turn on the same connection; the figure is the ratio of medians.
//! - The model's time is the simulated device's with the same link, cores and page costs.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use littoral_bench::claims::Figure;
use littoral_push::api::{
    About, DataSet, Host, Outcome, Plan, Program, Remote, records_of, split_of,
};
use littoral_push::data::{lineitem, lineitem_schema, promo_parts};
use littoral_push::device::sim::run;
use littoral_push::device::{Machine, Workload, profiled};
use littoral_push::page::Format;
use littoral_push::policy::Policy;
use littoral_push::query::{Query, costs_of};

use super::Figures;

const TRIALS: [usize; 2] = [3, 7];
const SCALES: [f64; 2] = [0.1, 1.0];
const PAGE_BYTES: usize = 65536;
const LINK_BYTES_PER_S: u64 = 300_000_000;
const CORES: u32 = 4;
const CORE_MHZ: u64 = 400;
const DEPTH: usize = 64;

fn words(e: littoral_push::error::Error) -> String {
    e.to_string()
}

/// Lineitem in a file; its header and pages.
fn lineitem_set(path: &Path, scale: f64) -> Result<DataSet, String> {
    let schema = lineitem_schema().map_err(words)?;
    let empty = About { scale, ..About::new(&schema, Format::Columns, PAGE_BYTES) };
    let mut set = DataSet::absent(path, &empty);
    set.begin(&empty).map_err(words)?;
    let put = |n: u64, page: &[u8]| set.put(n, page);
    let (pages, rows) = records_of(&empty, lineitem(scale).map(Ok), put).map_err(words)?;
    set.commit(&About { pages, rows, ..empty }).map_err(words)?;
    Ok(set)
}

/// A server process, ended with this value.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts this program's `push serve`.
fn serve(set: &Path, socket: &Path) -> Result<(Served, Remote), String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let child = Command::new(program)
        .args(["push", "serve"])
        .arg(set)
        .arg("--socket")
        .arg(socket)
        .args(["--link", "300M", "--cores", "4", "--mhz", "400"])
        .stdout(Stdio::null())
        .spawn()
        .map_err(|e| format!("the server: {e}"))?;
    let mut served = Served(child);
    loop {
        if let Ok(device) = Remote::open(socket) {
            return Ok((served, device));
        }
        if let Ok(Some(status)) = served.0.try_wait() {
            return Err(format!("the server ended: {status}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The machine that the server paces.
fn machine() -> Result<Machine, String> {
    let (mut machine, _) = profiled("summarizer-board").map_err(words)?;
    machine.link_bytes_per_s = LINK_BYTES_PER_S;
    (machine.cores, machine.core_mhz, machine.cpi_milli) = (CORES, CORE_MHZ, 1000);
    machine.nand.page_bytes = PAGE_BYTES as u32;
    // Pages are in the server's memory: neither flash nor bus takes time.
    machine.bus_bytes_per_s = 1 << 40;
    machine.nand.channel_bytes_per_s = 1 << 40;
    machine.nand.read = littoral_base::units::Picos(1);
    machine.budget = 1 << 24;
    Ok(machine)
}

struct Timed {
    push: f64,
    fetch: f64,
    outcome: Outcome,
    fetched_bytes: u64,
}

fn time(host: &mut Host<Remote>, program: &Program, trials: usize) -> Result<Timed, String> {
    let (mut push, mut fetch) = (Vec::new(), Vec::new());
    let mut last = None;
    for _ in 0..trials {
        let began = Instant::now();
        let fetched = host.scan(program, Plan::Fetch).map_err(words)?;
        fetch.push(began.elapsed().as_secs_f64());
        let began = Instant::now();
        let pushed = host.scan(program, Plan::Push).map_err(words)?;
        push.push(began.elapsed().as_secs_f64());
        if pushed.answer != fetched.answer {
            return Err("near storage and fetched answers differ".to_owned());
        }
        last = Some((pushed, fetched.link_bytes));
    }
    let (outcome, fetched_bytes) = last.ok_or("no trial was run")?;
    Ok(Timed { push: median(&mut push), fetch: median(&mut fetch), outcome, fetched_bytes })
}

/// The claims.
///
/// # Errors
/// When the server does not start or a scan fails.
pub fn served(quick: bool) -> Figures {
    let (trials, scale) = if quick { (TRIALS[0], SCALES[0]) } else { (TRIALS[1], SCALES[1]) };
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let (path, socket) = (folder.path().join("lineitem.set"), folder.path().join("device"));
    let set = lineitem_set(&path, scale)?;
    let pages = set.pages().map_err(words)?;
    let (_served, device) = serve(&path, &socket)?;
    let mut host = Host::new(device, std::process::id(), DEPTH);
    let machine = machine()?;
    let (mut out, mut off, mut notes) = (Vec::new(), 0.0f64, Vec::new());
    for query in [Query::q1(), Query::q6(), Query::q14(promo_parts(scale))] {
        let query = query.map_err(words)?;
        let (function, params) = (query.whole.clone(), query.params.clone());
        let program = Program { function, params, format: Format::Columns, elf: None };
        let timed = time(&mut host, &program, trials)?;
        let split = split_of(&query.whole);
        let costs =
            costs_of(query.name, &query.whole, &split, &query.params, &pages, Format::Columns)
                .map_err(words)?;
        let workload = Workload::interleaved(vec![costs], DEPTH as u32);
        let model = run(&machine, &workload, &Policy::Late).total.as_secs_f64();
        off = off.max((timed.push / model - 1.0).abs());
        notes.push(format!("{}: {:.3} s, model {model:.3} s", query.name, timed.push));
        let name = query.name;
        let note = format!(
            "{:.3} s over {:.3} s, medians of {trials}, scale factor {scale}, {} of {} pages on \
             the device; 300 MB/s, 4 cores x 400 MHz",
            timed.fetch,
            timed.push,
            timed.outcome.on_device,
            set.about().pages
        );
        out.push((format!("push.wall.{name}"), Figure::new(timed.fetch / timed.push, note)));
        if name != "q14" {
            let share = 100.0 * timed.outcome.link_bytes as f64 / timed.fetched_bytes as f64;
            let note = format!("{} of {} bytes", timed.outcome.link_bytes, timed.fetched_bytes);
            out.push((format!("push.wall.link_bytes.{name}"), Figure::new(share, note)));
        }
    }
    let mut figure = Figure::new(100.0 * off, "the farthest of three queries");
    figure.notes.append(&mut notes);
    out.push(("push.wall.vs_model".to_owned(), figure));
    Ok(out)
}
