//! The host's vectorised form beside DuckDB: Q1, Q6 and Q14 on data in memory, one thread each.
//!
//! - Ours: column pages of 64 KiB in memory, verified once when they were made. The peer: its own
//!   table in memory, `threads=1`. Neither reads a file while it is timed.
//! - Both are timed by the processor time of their process, in turn; the figure is the ratio of the
//!   medians. Answers are compared before anything is timed.
//! - The peer is DuckDB's Python wheel in the interpreter that `LITTORAL_PYTHON` names, or
//!   `python3`. Where it is missing the claims read `missing`.

use std::io::{BufRead as _, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use littoral_bench::claims::Figure;
use littoral_push::data::{lineitem, lineitem_schema, part_line, promo_parts, tbl_line};
use littoral_push::function::{Answer, Compiled};
use littoral_push::page::{self, Format, Header};
use littoral_push::query::Query;

use super::Figures;

/// Runs of each side per query, those of `--quick` and of the whole run.
const TRIALS: [usize; 2] = [7, 15];
/// TPC-H scale factors of both.
const SCALES: [f64; 2] = [0.1, 1.0];
const PAGE_BYTES: usize = 65536;

const SCRIPT: &str = r#"
import duckdb, sys, time
c = duckdb.connect()
c.execute("set threads=1")
c.execute("set enable_progress_bar=false")
names = "orderkey partkey suppkey linenumber quantity extendedprice discount tax returnflag " \
    "linestatus shipdate commitdate receiptdate shipinstruct shipmode comment rest".split()
money = {"quantity", "extendedprice", "discount", "tax"}
days = {"shipdate", "commitdate", "receiptdate"}
kind = lambda n: "DECIMAL(15,2)" if n in money else "DATE" if n in days else \
    "BIGINT" if n.endswith("key") else "INTEGER" if n == "linenumber" else "VARCHAR"
def load(table, letter, file, names, kind):
    columns = {letter + "_" + n: kind(n) for n in names}
    keep = ", ".join(letter + "_" + n for n in names if n != "rest")
    c.execute(f"create table {table} as select {keep} from read_csv('{sys.argv[1]}/{file}', "
        f"delim='|', header=false, quote='', columns={columns})")
load("lineitem", "l", "lineitem.tbl", names, kind)
parts = "partkey name mfgr brand type size container retailprice comment rest".split()
load("part", "p", "part.tbl", parts, lambda n: "BIGINT" if n == "partkey" else "VARCHAR")
price = "l_extendedprice * (1 - l_discount)"
queries = {
    "q1": f"select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), "
        f"sum({price}), sum({price} * (1 + l_tax)), avg(l_quantity), avg(l_extendedprice), "
        "avg(l_discount), count(*) from lineitem "
        "where l_shipdate <= date '1998-09-02' group by 1, 2 order by 1, 2",
    "q6": "select sum(l_extendedprice * l_discount) from lineitem "
        "where l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01' "
        "and l_discount between 0.05 and 0.07 and l_quantity < 24",
    "q14": f"select sum({price}), sum(case when p_type like 'PROMO%' then {price} "
        "else 0 end) from lineitem, part where l_partkey = p_partkey "
        "and l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-10-01'",
}
check = {"q1": (5, 1), "q6": (0, 0), "q14": (1, 0)}
print(duckdb.__version__, flush=True)
for line in sys.stdin:
    name = line.strip()
    began = time.process_time_ns()
    rows = c.execute(queries[name]).fetchall()
    took = time.process_time_ns() - began
    column, _ = check[name]
    digits = str(sum(row[column] for row in rows)).replace(".", "").lstrip("0")
    print(took, digits, flush=True)
"#;

/// The peer at work: it answers a query's name with its nanoseconds and a sum.
struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    version: String,
}

fn write(path: &Path, lines: impl Iterator<Item = String>) -> std::io::Result<()> {
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    for line in lines {
        file.write_all(line.as_bytes())?;
    }
    file.flush()
}

impl Peer {
    fn start(scale: f64) -> Result<Peer, String> {
        let python = std::env::var("LITTORAL_PYTHON").unwrap_or_else(|_| "python3".into());
        let found = Command::new(&python).args(["-c", "import duckdb"]).output();
        if !found.is_ok_and(|o| o.status.success()) {
            let how = format!("{python} -m pip install duckdb, or name another by LITTORAL_PYTHON");
            return Err(format!("missing: DuckDB's Python package; {how}"));
        }
        let failed = |e: std::io::Error| format!("the peer: {e}");
        let folder = tempfile::tempdir().map_err(failed)?;
        write(&folder.path().join("lineitem.tbl"), tbl_line(scale)).map_err(failed)?;
        write(&folder.path().join("part.tbl"), part_line(scale)).map_err(failed)?;
        let mut child = Command::new(&python)
            .args(["-c", SCRIPT])
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let pipes = child.stdin.take().zip(child.stdout.take()).ok_or("the peer has no pipes")?;
        let mut output = BufReader::new(pipes.1);
        let mut version = String::new();
        output.read_line(&mut version).map_err(failed)?;
        let version = version.trim().to_owned();
        Ok(Peer { child, input: pipes.0, output, version })
    }

    /// Nanoseconds of processor time, and the sum of one column of the answer, without its point.
    fn ask(&mut self, query: &str) -> Result<(f64, String), String> {
        let mut line = String::new();
        let asked = writeln!(self.input, "{query}").and_then(|()| self.output.read_line(&mut line));
        asked.map_err(|e| format!("the peer: {e}"))?;
        let (nanos, sum) = line.trim().split_once(' ').ok_or("the peer ended; see its words")?;
        let nanos = nanos.parse().map_err(|_| format!("the peer said `{line}`"))?;
        Ok((nanos, sum.to_owned()))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It ends by itself when its input closes; this only hastens that.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

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

/// The sum that the peer prints for a query.
fn control_sum(name: &str, answer: &Answer) -> String {
    let sum = if name == "q1" { 3 } else { usize::from(name == "q14") };
    let total: i128 = answer.groups.values().map(|g| g.totals[sum].sum).sum();
    total.to_string()
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The claims.
///
/// # Errors
/// When the peer is missing or fails, or an answer differs.
pub fn beside_duckdb(quick: bool) -> Figures {
    let (trials, scale) = if quick { (TRIALS[0], SCALES[0]) } else { (TRIALS[1], SCALES[1]) };
    let mut peer = Peer::start(scale)?;
    let words = |e: littoral_push::error::Error| e.to_string();
    let schema = lineitem_schema().map_err(words)?;
    let pages = page::write_all(&schema, Format::Columns, PAGE_BYTES, lineitem(scale));
    let checked = |page: Vec<u8>| page::check(&page, &schema).map(|header| (page, header));
    let pages = pages.map_err(words)?.into_iter().map(checked).collect::<Result<Vec<_>, _>>();
    let pages = pages.map_err(words)?;
    let mut out = Vec::new();
    for query in [Query::q1(), Query::q6(), Query::q14(promo_parts(scale))] {
        let query = query.map_err(words)?;
        let compiled = Compiled::new(&query.whole, Format::Columns).map_err(words)?;
        let (mut own, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..trials {
            let (nanos, answer) = ours(&compiled, &query, &pages)?;
            let (peer_nanos, sum) = peer.ask(query.name)?;
            let expected = control_sum(query.name, &answer);
            if sum != expected {
                return Err(format!("{}: the peer's sum is {sum}, ours {expected}", query.name));
            }
            own.push(nanos);
            theirs.push(peer_nanos);
        }
        let (own, theirs) = (median(&mut own), median(&mut theirs));
        let note = format!(
            "{:.1} ms over {:.1} ms of processor time, medians of {trials}; DuckDB {}, scale \
             factor {scale}, one thread, both in memory",
            own / 1e6,
            theirs / 1e6,
            peer.version
        );
        let id = format!("push.host.vs_duckdb.{}", query.name);
        out.push((id, Figure::new(own / theirs, note)));
    }
    Ok(out)
}
