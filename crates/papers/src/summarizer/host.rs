//! The host's vectorised form beside DuckDB: Q1, Q6 and Q14 on data in memory, one thread each.
//!
//! - Ours: column pages of 64 KiB in memory, verified once when they were made. The peer: its own
//!   table in memory, `threads=1`. Neither reads a file while it is timed.
//! - Both are timed by the processor time of their process, in turn; the figure is the ratio of the
//!   medians. The answers of each run are compared.
//! - Which parts are promoted comes to Q14 as a bitmap, as INIT ships it: it is made before the
//!   runs. The peer has no such parameter: its query reads the table part and joins.
//! - The peer is [`littoral_assure::push::duckdb`]. Where it is missing the claims read `missing`.

use littoral_assure::push::duckdb::{Peer, python, rows_of};
use littoral_bench::claims::Figure;
use littoral_bench::repro::{Options, missing};
use littoral_push::data::{lineitem, lineitem_schema, promo_parts};
use littoral_push::function::{Answer, Compiled};
use littoral_push::page::{self, Format, Header};
use littoral_push::query::Query;

use super::Figures;

/// Runs of each side per query, those of `--quick` and of the whole run.
const TRIALS: [usize; 2] = [7, 15];
/// TPC-H scale factor of both, of `--quick` too: the claims are about this size.
const SCALE: f64 = 1.0;
const PAGE_BYTES: usize = 65536;

/// Processor time of this process in nanoseconds.
fn processor_ns() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// One run over all pages: processor time and answer.
fn ours(
    compiled: &Compiled,
    query: &Query,
    pages: &[(Vec<u8>, Header)],
) -> Result<(f64, Answer), String> {
    let began = processor_ns();
    let mut answer = Answer::default();
    for (page, header) in pages {
        let run = compiled.host_on(&query.params, page, header).map_err(|e| e.to_string())?;
        answer.add(compiled, &run.result).map_err(|e| e.to_string())?;
    }
    Ok((processor_ns() - began, answer))
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The claims.
///
/// # Errors
/// When the peer is missing or fails, or an answer differs.
pub fn beside_duckdb(options: &Options) -> Figures {
    let trials = TRIALS[usize::from(!options.quick)];
    let failed = |e: std::io::Error| format!("the peer: {e}");
    let folder = tempfile::tempdir().map_err(failed)?;
    let Some(mut peer) = Peer::start(SCALE, folder.path()).map_err(failed)? else {
        let python = python();
        let how = format!("{python} -m pip install duckdb, or name another by LITTORAL_PYTHON");
        return Err(missing(format!("DuckDB's Python package; {how}")));
    };
    let words = |e: littoral_push::error::Error| e.to_string();
    let schema = lineitem_schema().map_err(words)?;
    let pages = page::write_all(&schema, Format::Columns, PAGE_BYTES, lineitem(SCALE));
    let checked = |page: Vec<u8>| page::check(&page, &schema).map(|header| (page, header));
    let pages = pages.map_err(words)?.into_iter().map(checked).collect::<Result<Vec<_>, _>>();
    let pages = pages.map_err(words)?;
    let mut out = Vec::new();
    for query in [Query::q1(), Query::q6(), Query::q14(promo_parts(SCALE))] {
        let query = query.map_err(words)?;
        let compiled = Compiled::new(&query.whole, Format::Columns).map_err(words)?;
        let (mut own, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..trials {
            let (nanos, answer) = ours(&compiled, &query, &pages)?;
            let reply = peer.ask(query.name).map_err(failed)?;
            let expected = rows_of(query.name, &answer);
            if reply.rows != expected {
                let rows = reply.rows;
                let why = format!("{}: the peer answers {rows}, we {expected}", query.name);
                return Err(why.into());
            }
            own.push(nanos);
            theirs.push(reply.nanos as f64);
        }
        let (own, theirs) = (median(&mut own), median(&mut theirs));
        let before = match query.name {
            "q14" => "; the bitmap of promoted parts was made before, DuckDB joins its table part",
            _ => "",
        };
        let note = format!(
            "{:.1} ms over {:.1} ms of processor time, medians of {trials}; DuckDB {}, scale \
             factor {SCALE}, one thread, both in memory{before}",
            own / 1e6,
            theirs / 1e6,
            peer.version()
        );
        let id = format!("push.host.vs_duckdb.{}", query.name);
        out.push((id, Figure::new(own / theirs, note)));
    }
    Ok(out)
}
