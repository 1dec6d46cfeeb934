//! DuckDB beside computing near storage: the same tables, the same queries, its answers in the form
//! of ours.
//!
//! - The peer is DuckDB's Python package in the interpreter that `LITTORAL_PYTHON` names, or
//!   `python3`: a process that answers a query's name with the processor time that it took, the
//!   number of rows, and the rows.
//! - Its tables are its own, in memory, filled before the first query; it uses one thread.
//! - Numbers are integers at the scale of our sums, so that equal answers are equal text.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, BufWriter, Error, Result, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use littoral_push::data::{part_line, tbl_line};
use littoral_push::function::Answer;

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
def load(table, letter, names, kind):
    columns = {letter + "_" + n: kind(n) for n in names}
    keep = ", ".join(letter + "_" + n for n in names if n != "rest")
    c.execute(f"create table {table} as select {keep} from "
        f"read_csv('{sys.argv[1]}/{table}.tbl', delim='|', header=false, quote='', "
        f"columns={columns})")
load("lineitem", "l", names, kind)
parts = "partkey name mfgr brand type size container retailprice comment rest".split()
load("part", "p", parts, lambda n: "BIGINT" if n == "partkey" else "VARCHAR")
price = "l_extendedprice * (1 - l_discount)"
queries = {
    "q1": f"select l_returnflag, l_linestatus, count(*), sum(l_quantity), sum(l_extendedprice), "
        f"sum({price}), sum({price} * (1 + l_tax)), sum(l_discount) from lineitem "
        "where l_shipdate <= date '1998-09-02' group by 1, 2 order by 1, 2",
    "q6": "select sum(l_extendedprice * l_discount) from lineitem "
        "where l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01' "
        "and l_discount between 0.05 and 0.07 and l_quantity < 24",
    "q14": f"select sum({price}), sum(case when p_type like 'PROMO%' then {price} "
        "else 0 end) from lineitem, part where l_partkey = p_partkey "
        "and l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-10-01'",
}
word = str
scaled = lambda digits: lambda v: int(v * 10 ** digits)
shown = {
    "q1": [word, word] + [scaled(d) for d in (0, 0, 2, 4, 6, 2)],
    "q6": [scaled(4)],
    "q14": [scaled(4), scaled(4)],
}
print(duckdb.__version__, flush=True)
for line in sys.stdin:
    name = line.strip()
    began = time.process_time_ns()
    rows = c.execute(queries[name]).fetchall()
    took = time.process_time_ns() - began
    print(took, len(rows))
    for row in rows:
        print(*(show(v) for show, v in zip(shown[name], row)))
    sys.stdout.flush()
"#;

/// What the peer answers to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Processor time in nanoseconds.
    pub nanos: u64,
    /// A line per group: its keys, for Q1 its count, its sums.
    pub rows: String,
}

/// A DuckDB process with the tables lineitem and part.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    version: String,
}

fn write(path: &Path, lines: impl Iterator<Item = String>) -> Result<()> {
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    for line in lines {
        file.write_all(line.as_bytes())?;
    }
    file.flush()
}

/// The Python interpreter that is asked for DuckDB.
pub fn python() -> String {
    std::env::var("LITTORAL_PYTHON").unwrap_or_else(|_| "python3".into())
}

impl Peer {
    /// The peer with TPC-H tables of a scale factor, which are written to `folder` first; none
    /// where the package is missing.
    ///
    /// # Errors
    /// When the tables cannot be written or the peer does not start.
    pub fn start(scale: f64, folder: &Path) -> Result<Option<Peer>> {
        let python = python();
        let found = Command::new(&python).args(["-c", "import duckdb"]).output();
        if !found.is_ok_and(|o| o.status.success()) {
            return Ok(None);
        }
        write(&folder.join("lineitem.tbl"), tbl_line(scale))?;
        write(&folder.join("part.tbl"), part_line(scale))?;
        let mut child = Command::new(&python)
            .args(["-c", SCRIPT])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.ok_or_else(|| Error::other("DuckDB has no pipes"))?;
        let mut peer =
            Peer { child, input, output: BufReader::new(output), version: String::new() };
        peer.version = peer.line()?;
        Ok(Some(peer))
    }

    /// DuckDB's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.output.read_line(&mut line)? {
            0 => Err(Error::other("DuckDB ended; its standard error says why")),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    /// Runs `q1`, `q6` or `q14`.
    ///
    /// # Errors
    /// When the peer ends.
    pub fn ask(&mut self, query: &str) -> Result<Reply> {
        writeln!(self.input, "{query}")?;
        let line = self.line()?;
        let words = line.split_once(' ').and_then(|(a, b)| a.parse().ok().zip(b.parse().ok()));
        let no_answer = || Error::other(format!("DuckDB answered `{line}` to {query}"));
        let (nanos, count): (u64, usize) = words.ok_or_else(no_answer)?;
        let mut rows = String::new();
        for _ in 0..count {
            rows += &self.line()?;
            rows.push('\n');
        }
        Ok(Reply { nanos, rows })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer of ours in the form of the peer's rows.
pub fn rows_of(query: &str, answer: &Answer) -> String {
    let mut text = String::new();
    for (key, group) in &answer.groups {
        let mut words: Vec<String> = Vec::new();
        for part in key {
            let byte = part.and_then(|k| u8::try_from(k).ok());
            words.push(byte.map_or_else(|| "NULL".to_owned(), |b| char::from(b).to_string()));
        }
        if query == "q1" {
            words.push(group.count.to_string());
        }
        words.extend(group.totals.iter().map(|total| total.sum.to_string()));
        let _ = writeln!(text, "{}", words.join(" "));
    }
    text
}
