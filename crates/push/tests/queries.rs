//! The paper's queries on real pages: every road gives the reference's answer, the twin knows the
//! exact count of every page, and the join equals brute force.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use littoral_push::data::{
    Import, Separator, dblp_like, join_data, join_schema, lineitem, lineitem_schema, promo_parts,
    tbl_line,
};
use littoral_push::error::Kind;
use littoral_push::function::{
    Answer, Compiled, Machine, PageResult, Query as JoinQuery, reference,
};
use littoral_push::page::{self, Format, Value};
use littoral_push::query::Query;
use std::collections::HashSet;

const SCALE: f64 = 0.002;

/// Queries with pages of 8 KiB in both formats.
fn workloads() -> Vec<(Query, Format, Vec<Vec<u8>>)> {
    let mut all = Vec::new();
    let join = dblp_like(3000, 1);
    let token_query = JoinQuery::new(join.records[1500].clone(), 4, 5).unwrap();
    for format in [Format::Text, Format::Columns] {
        let schema = lineitem_schema().unwrap();
        let pages = page::write_all(&schema, format, 8192, lineitem(SCALE)).unwrap();
        let promo = promo_parts(SCALE);
        for query in [Query::q1(), Query::q6(), Query::q14(promo)] {
            all.push((query.unwrap(), format, pages.clone()));
        }
        let pages = page::write_all(&join_schema().unwrap(), format, 8192, join.records()).unwrap();
        all.push((Query::join(token_query.clone()).unwrap(), format, pages));
    }
    all
}

#[test]
fn every_road_gives_the_answer_of_the_reference() {
    for (query, format, pages) in workloads() {
        let whole = Compiled::new(&query.whole, format).unwrap();
        let split = Compiled::new(&query.split, format).unwrap();
        let mut device = Machine::new(&whole, &query.params).unwrap();
        let mut filter = Machine::new(&split, &query.params).unwrap();
        let (mut on_device, mut on_host, mut by_split) =
            (Answer::default(), Answer::default(), Answer::default());
        let mut oracle = Answer::default();
        let (mut bytes, mut instructions, mut off) = (0, 0, 0);
        for page in &pages {
            let twin = whole.twin(&query.params, page).unwrap();
            let (result, count) = device.run(page, u64::MAX).unwrap();
            let filtered_twin = split.twin(&query.params, page).unwrap();
            let (filtered, filter_count) = filter.run(page, u64::MAX).unwrap();
            off += u64::from(twin.instructions != count);
            off += u64::from(filtered_twin.instructions != filter_count);
            (bytes, instructions) = (bytes + page.len() as u64, instructions + count);
            on_device.add(&whole, &result).unwrap();
            on_host.add(&whole, &twin.result).unwrap();
            let PageResult::Rows(rows) = filtered else { panic!("a split returns records") };
            let rest = reference::answer_packed(&query.rest, &query.split, &query.params, &rows);
            by_split.merge(&rest.unwrap());
            oracle.merge(&reference::answer(&query.whole, &query.params, page).unwrap());
        }
        let per_byte = instructions as f64 / bytes as f64;
        println!("{} {format:?}: {per_byte:.2} instructions per byte", query.name);
        assert_eq!(off, 0, "{} {format:?}: pages off the interpreter's count", query.name);
        assert!(
            !oracle.groups.is_empty() || !oracle.rows.is_empty(),
            "{} finds something",
            query.name
        );
        assert_eq!(on_device, oracle, "{} on the device", query.name);
        assert_eq!(on_host, oracle, "{} on the host", query.name);
        assert_eq!(by_split, oracle, "{} by the hand-coded split", query.name);
    }
}

#[test]
fn a_record_of_q1_takes_at_most_42_instructions() {
    let schema = lineitem_schema().unwrap();
    let pages = page::write_all(&schema, Format::Columns, 65536, lineitem(SCALE)).unwrap();
    let query = Query::q1().unwrap();
    let compiled = Compiled::new(&query.whole, Format::Columns).unwrap();
    let mut device = Machine::new(&compiled, &query.params).unwrap();
    for page in &pages {
        let rows = page::check(page, &schema).unwrap().rows as u64;
        let (_, count) = device.run(page, u64::MAX).unwrap();
        // What is done once per page is less than 100 instructions.
        assert!(count <= 42 * rows + 100, "{:.2} a record", count as f64 / rows as f64);
    }
}

#[test]
fn the_join_equals_brute_force() {
    let data = dblp_like(2500, 9);
    let pages =
        page::write_all(&join_schema().unwrap(), Format::Columns, 4096, data.records()).unwrap();
    let (mut found, mut short) = (0, 0);
    for n in (0..2500).step_by(83) {
        let tokens: HashSet<u32> = data.records[n].iter().copied().collect();
        let query = Query::join(JoinQuery::new(data.records[n].clone(), 4, 5).unwrap()).unwrap();
        let compiled = Compiled::new(&query.whole, Format::Columns).unwrap();
        let mut answer = Answer::default();
        for page in &pages {
            let run = compiled.twin(&query.params, page).unwrap();
            answer.add(&compiled, &run.result).unwrap();
        }
        let mut brute: Vec<Vec<u8>> = Vec::new();
        for (tokens_x, line) in data.records.iter().zip(&data.lines) {
            let shared = tokens_x.iter().filter(|t| tokens.contains(t)).count();
            if shared * 5 >= 4 * tokens_x.len().min(tokens.len()) {
                // A line is stored in 64 bits: its range exceeds 31.
                brute.push(i64::from(*line).to_le_bytes().to_vec());
                short += usize::from(tokens_x.len() != tokens.len());
            }
        }
        brute.sort_unstable();
        found += brute.len();
        assert_eq!(answer.rows, brute, "query {n}");
    }
    assert!(found > 31 && short > 0, "{found} similar pairs, {short} of different lengths");
}

#[test]
fn costs_are_those_of_the_pages() {
    for (query, format, pages) in workloads() {
        let costs = query.costs(&pages, format).unwrap();
        assert_eq!(costs, query.costs(&pages, format).unwrap());
        assert_eq!((costs.pages.len(), costs.page_bytes), (pages.len(), 8192));
        let sum = |f: fn(&littoral_push::cost::PageCost) -> u64| -> u64 {
            costs.pages.iter().map(f).sum()
        };
        let filtered = sum(|p| p.filtered_bytes.into()) as f64 / (8192 * pages.len()) as f64;
        let (whole, filter) = (sum(|p| p.instructions), sum(|p| p.filter_instructions));
        let host = sum(|p| p.host_filtered.0) as f64 / sum(|p| p.host_raw.0) as f64;
        let share = filter as f64 / whole as f64;
        println!(
            "{} {format:?}: filter {share:.2} of the instructions, {filtered:.3} of the bytes, \
             host time {host:.3}",
            query.name
        );
        assert!(filter > 0 && host < 1.1, "{}", query.name);
    }
}

#[test]
fn generated_data_repeat() {
    assert!(lineitem(0.0005).eq(lineitem(0.0005)));
    assert_eq!(dblp_like(200, 3), dblp_like(200, 3));
    assert_ne!(dblp_like(200, 3), dblp_like(200, 4));
    let text = "Near data, near storage\nstorage of DATA\n\nnear near near";
    let data = join_data(text);
    assert_eq!(data.records.iter().map(Vec::len).collect::<Vec<_>>(), [0, 1, 3, 3]);
    assert_eq!(data.lines, [2, 3, 0, 1]);
}

#[test]
fn a_tbl_file_imports_as_it_was_generated() {
    let text: String = tbl_line(0.0005).collect();
    let import = Import::new(text.as_bytes(), &lineitem_schema().unwrap(), Separator::Bar).unwrap();
    let records: Vec<_> = import.map(Result::unwrap).collect();
    assert!(records.into_iter().eq(lineitem(0.0005)));
}

#[test]
fn lines_of_other_lengths_are_named() {
    let text: String = tbl_line(0.0005).collect();
    let read = |text: &str| {
        let import = Import::new(text.as_bytes(), &lineitem_schema().unwrap(), Separator::Bar)?;
        import.collect::<Result<Vec<_>, _>>()
    };
    let whole = read(&text).unwrap();
    // Without the separator at the end of each line.
    assert_eq!(read(&text.replace("|\n", "\n")).unwrap(), whole);
    // A file that ends within a line, two lines that became one.
    let last = text.trim_end_matches("|\n");
    let cut = &last[..last.rfind('|').unwrap()];
    for bad in [cut.to_owned(), text.replacen("|\n", "|", 1)] {
        let error = read(&bad).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        assert!(error.to_string().contains("for 16 columns"), "{error}");
    }
}

#[test]
fn fields_that_do_not_fit_are_named() {
    use littoral_push::page::{Column, Schema};
    let schema = Schema::new(vec![
        Column::decimal("price", 2, -1000, 1000),
        Column::date("day").or_null(),
        Column::char("flag", b'A', b'Z'),
    ])
    .unwrap();
    let read = |text: &str| {
        let import = Import::new(text.as_bytes(), &schema, Separator::Comma)?;
        import.collect::<Result<Vec<_>, _>>()
    };
    let good = read("day,flag,price,more\n1998-09-02,A,-1.5,x\n,B,.25,y\n").unwrap();
    assert_eq!(good[0], [Value::Int(-150), Value::Int(19_980_902), Value::Int(65)]);
    assert_eq!(good[1], [Value::Int(25), Value::Null, Value::Int(66)]);
    let bad = |text: &str| read(text).unwrap_err().to_string();
    assert!(bad("day,flag\n").contains("`price`"));
    for (row, column) in [
        ("1998-09-02,A,1.234", "price"),
        ("1998-09-02,A,1e3", "price"),
        ("1998-09-02,A,", "price"),
        ("1998-09-02,A,1.5\u{e9}", "price"),
        ("02.09.1998,A,1", "day"),
        ("1998-13-02,A,1", "day"),
        ("+998-09-02,A,1", "day"),
        ("1998-09-02,AB,1", "flag"),
    ] {
        let error = bad(&format!("day,flag,price\n{row}\n"));
        assert!(error.contains("line 2") && error.contains(column), "{error}");
    }
    let uneven = read("day,flag,price\n1998-09-02,A\n").unwrap_err();
    assert_eq!(uneven.kind(), Kind::Usage, "{uneven}");
}
