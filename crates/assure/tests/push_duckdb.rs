//! Q1, Q6 and Q14 at scale factor 0.1: DuckDB's answers and those of pages computed in turn on the
//! device, on the host and by the hand-coded split. Without DuckDB's Python package the test says
//! that nothing was compared.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use littoral_assure::push::duckdb::{Peer, rows_of};
use littoral_push::data::{lineitem, lineitem_schema, promo_parts};
use littoral_push::function::{Answer, Compiled, Machine, PageResult, reference};
use littoral_push::page::{self, Format};
use littoral_push::query::Query;
use std::io::Write as _;

const SCALE: f64 = 0.1;

/// The answer of all pages, computed in turn on the device, on the host and by the split.
fn answer(query: &Query, format: Format, pages: &[Vec<u8>]) -> Answer {
    let whole = Compiled::new(&query.whole, format).unwrap();
    let split = Compiled::new(&query.split, format).unwrap();
    let mut device = Machine::new(&whole, &query.params).unwrap();
    let mut answer = Answer::default();
    for (n, page) in pages.iter().enumerate() {
        let result = match n % 3 {
            0 => device.run(page, u64::MAX).unwrap().0,
            1 => whole.host(&query.params, page).unwrap().result,
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

#[test]
fn answers_equal_duckdbs() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut peer) = Peer::start(SCALE, folder.path()).unwrap() else {
        let why = "NOT COMPARED: no DuckDB in LITTORAL_PYTHON or python3";
        // Past the test runner's capture, so that a skip cannot read as a pass.
        return writeln!(std::io::stderr(), "{why}").unwrap();
    };
    let schema = lineitem_schema().unwrap();
    for format in [Format::Columns, Format::Text] {
        let pages = page::write_all(&schema, format, 16384, lineitem(SCALE)).unwrap();
        for (query, groups) in
            [(Query::q1(), 4), (Query::q6(), 1), (Query::q14(promo_parts(SCALE)), 1)]
        {
            let query = query.unwrap();
            let ours = rows_of(query.name, &answer(&query, format, &pages));
            assert_eq!(ours.lines().count(), groups);
            assert_eq!(ours, peer.ask(query.name).unwrap().rows, "{} {format:?}", query.name);
        }
        println!("{format:?}: six groups equal DuckDB's");
    }
}
