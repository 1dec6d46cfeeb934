//! Q1, Q6 and Q14 at scale factor 0.1 against DuckDB, bit for bit.
//!
//! The peer is DuckDB's Python wheel, in the interpreter that `LITTORAL_PYTHON` names or `python3`.
//! Without it the test says `skipped` and compares nothing; CI installs it.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use littoral_push::data::{lineitem, lineitem_schema, part_line, promo_parts, tbl_line};
use littoral_push::function::{Answer, Compiled, Machine, PageResult, reference};
use littoral_push::page::{self, Format};
use littoral_push::query::Query;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

const SCALE: f64 = 0.1;

const SCRIPT: &str = r#"
import duckdb, sys
c = duckdb.connect()
c.execute("set threads=1")
c.execute("set enable_progress_bar=false")
names = "orderkey partkey suppkey linenumber quantity extendedprice discount tax returnflag " \
    "linestatus shipdate commitdate receiptdate shipinstruct shipmode comment rest".split()
money = {"extendedprice", "discount", "tax"}
days = {"shipdate", "commitdate", "receiptdate"}
kind = lambda n: "DECIMAL(15,2)" if n in money else "DATE" if n in days else \
    "BIGINT" if n.endswith("key") or n in ("linenumber", "quantity") else "VARCHAR"
columns = {"l_" + n: kind(n) for n in names}
c.execute(f"create table lineitem as select * from read_csv('{sys.argv[1]}/lineitem.tbl', "
    f"delim='|', header=false, quote='', columns={columns})")
parts = "partkey name mfgr brand type size container retailprice comment rest".split()
columns = {"p_" + n: "BIGINT" if n == "partkey" else "VARCHAR" for n in parts}
c.execute(f"create table part as select * from read_csv('{sys.argv[1]}/part.tbl', "
    f"delim='|', header=false, quote='', columns={columns})")
def show(name, sql):
    for row in c.execute(sql).fetchall():
        print(name, *(str(v).replace(".", "") for v in row))
price = "l_extendedprice * (1 - l_discount)"
show("q1", f"select l_returnflag, l_linestatus, count(*), sum(l_quantity), sum(l_extendedprice), "
    f"sum({price}), sum({price} * (1 + l_tax)), sum(l_discount) from lineitem "
    "where l_shipdate <= date '1998-09-02' group by 1, 2 order by 1, 2")
show("q6", "select count(*), sum(l_extendedprice * l_discount) from lineitem "
    "where l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01' "
    "and l_discount between 0.05 and 0.07 and l_quantity < 24")
show("q14", f"select count(*), sum({price}), sum(case when p_type like 'PROMO%' then {price} "
    "else 0 end) from lineitem, part where l_partkey = p_partkey "
    "and l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-10-01'")
"#;

fn write(path: &Path, lines: impl Iterator<Item = String>) {
    let mut file = BufWriter::new(std::fs::File::create(path).unwrap());
    lines.for_each(|line| file.write_all(line.as_bytes()).unwrap());
    file.flush().unwrap();
}

/// The peer's answers, one line per group; `None` without the peer.
fn peer() -> Option<String> {
    let python = std::env::var("LITTORAL_PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(&python).args(["-c", "import duckdb"]).output();
    if !found.is_ok_and(|o| o.status.success()) {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("lineitem.tbl"), tbl_line(SCALE));
    write(&folder.path().join("part.tbl"), part_line(SCALE));
    let output = Command::new(&python).args(["-c", SCRIPT]).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The answer of all pages, computed in turn on the device, on the host and by the split.
fn answer(query: &Query, format: Format, pages: &[Vec<u8>]) -> Answer {
    let whole = Compiled::new(&query.whole, format).unwrap();
    let split = Compiled::new(&query.split, format).unwrap();
    let mut device = Machine::new(&whole, &query.params).unwrap();
    let mut answer = Answer::default();
    for (n, page) in pages.iter().enumerate() {
        let result = match n % 3 {
            0 => device.run(page, u64::MAX).unwrap().0,
            1 => whole.twin(&query.params, page).unwrap().result,
            _ => {
                let PageResult::Rows(rows) = split.twin(&query.params, page).unwrap().result else {
                    panic!("a split returns records")
                };
                let rest =
                    reference::answer_packed(&query.rest, &query.split, &query.params, &rows);
                answer.merge(&rest.unwrap());
                continue;
            }
        };
        answer.add(&whole, &result).unwrap();
    }
    answer
}

/// An answer in the peer's form.
fn show(name: &str, answer: &Answer) -> String {
    let mut text = String::new();
    for (key, group) in &answer.groups {
        text += name;
        key.iter().for_each(|k| text += &format!(" {}", k.unwrap() as u8 as char));
        text += &format!(" {}", group.count);
        for total in &group.totals {
            // The peer prints digits behind a point that is taken out: 0.05 is 005.
            text += &format!(" {}", total.sum);
        }
        text.push('\n');
    }
    text
}

#[test]
fn answers_equal_duckdbs() {
    let Some(expected) = peer() else {
        return println!("skipped: no DuckDB in LITTORAL_PYTHON or python3");
    };
    let schema = lineitem_schema().unwrap();
    for format in [Format::Columns, Format::Text] {
        let pages = page::write_all(&schema, format, 16384, lineitem(SCALE)).unwrap();
        let mut ours = String::new();
        for query in [Query::q1(), Query::q6(), Query::q14(promo_parts(SCALE))] {
            let query = query.unwrap();
            ours += &show(query.name, &answer(&query, format, &pages));
        }
        assert_eq!(ours.lines().count(), 6);
        assert_eq!(ours, expected, "{format:?}");
        println!("{format:?}: six groups equal DuckDB's");
    }
}
