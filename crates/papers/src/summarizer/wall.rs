//! Scans through a served device, in paced time: Q1, Q6 and Q14 near storage beside fetching every
//! page through the same socket.
//!
//! - The server is a process of its own (`littoral push serve`) with a link of 300 MB/s and four
//!   cores of 400 MHz; the host is this process.
//! - Both sides of a ratio run in turn on the same connection; the figure is the ratio of medians.
//! - The model is the simulated device with the served one's figures (`device::served`): the same
//!   link and cores, pages in memory, page costs by count. What a raw page takes of the host is
//!   measured in the scans that fetch every page.
//! - A second server has a link and cores that take no time. What a scan takes on it is what the
//!   processes need on this machine's processors; where that exceeds the model's time, the served
//!   device cannot keep to its model.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use littoral_base::units::Picos;
use littoral_bench::claims::Figure;
use littoral_bench::repro::Options;
use littoral_push::api::{
    About, DataSet, Host, Outcome, Plan, Program, Remote, records_of, split_of,
};
use littoral_push::data::{lineitem, lineitem_schema, promo_parts};
use littoral_push::device::sim::run;
use littoral_push::device::{Workload, served as served_device};
use littoral_push::page::Format;
use littoral_push::policy::Policy;
use littoral_push::query::{Query, costs_of};

use super::Figures;

/// Runs of each side per query, those of `--quick` and of the whole run.
const TRIALS: [usize; 2] = [3, 7];
/// Scale factor, of `--quick` too: the claims are about this size.
const SCALE: f64 = 1.0;
const PAGE_BYTES: usize = 65536;
const LINK_BYTES_PER_S: u64 = 300_000_000;
const CORES: u32 = 4;
const CORE_MHZ: u64 = 400;
/// The server of the claims.
const LIMITS: [&str; 6] = ["--link", "300M", "--cores", "4", "--mhz", "400"];
/// A server whose link and cores take no time.
const NO_LIMITS: [&str; 8] =
    ["--link", "1000G", "--cores", "4", "--mhz", "100000000", "--policy", "device"];
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

/// Starts `push serve` of the program `littoral`.
fn serve(
    program: &Path,
    set: &Path,
    socket: &Path,
    rates: &[&str],
) -> Result<(Served, Remote), String> {
    let child = Command::new(program)
        .args(["push", "serve"])
        .arg(set)
        .arg("--socket")
        .arg(socket)
        .args(rates)
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

struct Timed {
    push: f64,
    fetch: f64,
    /// Near storage on the server without limits.
    free: f64,
    outcome: Outcome,
    fetched_bytes: u64,
    host_page: Picos,
}

/// A scan and its seconds.
fn seconds(
    host: &mut Host<Remote>,
    program: &Program,
    plan: Plan,
) -> Result<(f64, Outcome), String> {
    let began = Instant::now();
    let outcome = host.scan(program, plan).map_err(words)?;
    Ok((began.elapsed().as_secs_f64(), outcome))
}

fn time(
    host: &mut Host<Remote>,
    free_host: &mut Host<Remote>,
    program: &Program,
    trials: usize,
) -> Result<Timed, String> {
    let (mut push, mut fetch, mut free) = (Vec::new(), Vec::new(), Vec::new());
    let mut last = None;
    for _ in 0..trials {
        let (time, fetched) = seconds(host, program, Plan::Fetch)?;
        fetch.push(time);
        let (time, pushed) = seconds(host, program, Plan::Push)?;
        push.push(time);
        let (time, unlimited) = seconds(free_host, program, Plan::Push)?;
        free.push(time);
        if pushed.answer != fetched.answer || unlimited.answer != fetched.answer {
            return Err("near storage and fetched answers differ".to_owned());
        }
        last = Some((pushed, fetched));
    }
    let (outcome, fetched) = last.ok_or("no trial was run")?;
    let (fetched_bytes, host_page) = (fetched.link_bytes, fetched.host_page);
    let (push, fetch, free) = (median(&mut push), median(&mut fetch), median(&mut free));
    Ok(Timed { push, fetch, free, outcome, fetched_bytes, host_page })
}

/// The model's time of a query, in seconds.
fn modelled(query: &Query, pages: &[Vec<u8>], host_page: Picos) -> Result<f64, String> {
    let machine = served_device(LINK_BYTES_PER_S, CORES, CORE_MHZ, PAGE_BYTES as u32);
    let machine = machine.map_err(words)?;
    let split = split_of(&query.whole);
    let costs = costs_of(query.name, &query.whole, &split, &query.params, pages, Format::Columns);
    let mut costs = costs.map_err(words)?;
    // What a raw page takes of this host is measured where every page is raw.
    costs.pages.iter_mut().for_each(|page| page.host_raw = host_page);
    let workload = Workload::interleaved(vec![costs], DEPTH as u32);
    Ok(run(&machine, &workload, &Policy::Late).total.as_secs_f64())
}

/// The claims.
///
/// # Errors
/// When the server does not start or a scan fails.
pub fn served(options: &Options) -> Figures {
    let trials = TRIALS[usize::from(!options.quick)];
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    // The path of a socket is short, which that of a scratch folder need not be.
    let sockets = tempfile::tempdir_in(std::env::temp_dir()).map_err(|e| e.to_string())?;
    let (path, socket) = (folder.path().join("lineitem.set"), sockets.path().join("device"));
    let set = lineitem_set(&path, SCALE)?;
    let pages = set.pages().map_err(words)?;
    let (_served, device) = serve(&options.program, &path, &socket, &LIMITS)?;
    let mut host = Host::new(device, std::process::id(), DEPTH);
    let free_socket = sockets.path().join("free");
    let (_free, device) = serve(&options.program, &path, &free_socket, &NO_LIMITS)?;
    let mut free_host = Host::new(device, std::process::id(), DEPTH);
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let (mut off, mut free) = (0.0f64, 0.0f64);
    for query in [Query::q1(), Query::q6(), Query::q14(promo_parts(SCALE))] {
        let query = query.map_err(words)?;
        let (function, params) = (query.whole.clone(), query.params.clone());
        let program = Program { function, params, format: Format::Columns, elf: None };
        let timed = time(&mut host, &mut free_host, &program, trials)?;
        let model = modelled(&query, &pages, timed.host_page)?;
        off = off.max((timed.push / model - 1.0).abs());
        free = free.max(timed.free / model);
        notes.push(format!(
            "{}: {:.3} s, model {model:.3} s; without limits the server takes {:.3} s, and a raw \
             page takes {} of the host's processor",
            query.name, timed.push, timed.free, timed.host_page
        ));
        let name = query.name;
        let note = format!(
            "{:.3} s over {:.3} s, medians of {trials}, scale factor {SCALE}, {} of {} pages on \
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
    let note = "above 1 this machine's processors, not the modelled ones, bound the served device";
    out.push(("push.wall.free".to_owned(), Figure::new(free, note)));
    Ok(out)
}
