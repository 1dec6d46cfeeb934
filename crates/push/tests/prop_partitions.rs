//! Any partition of pages among device, host, filter, error and retry gives the same answer.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use littoral_push::function::{
    Answer, Compare, Compiled, Expr, Function, Machine, Output, Params, Test, reference,
};
use littoral_push::page::{self, Column, Format, Record, Schema, Value};
use proptest::prelude::*;

/// Where a page is computed.
#[derive(Clone, Copy, Debug)]
enum Road {
    Device,
    Host,
    Filtered,
    /// The first run exceeds its budget; the host computes the raw page.
    Error,
    /// The first run exceeds its budget; the second succeeds.
    Retry,
}

fn schema() -> Schema {
    Schema::new(vec![
        Column::char("group", b'A', b'Z').or_null(),
        Column::decimal("price", 2, -1_000_000, 1_000_000).or_null(),
        Column::int("count", 0, 50),
    ])
    .unwrap()
}

fn record() -> impl Strategy<Value = Record> {
    let price = proptest::option::of(-1_000_000i64..=1_000_000);
    (proptest::option::of(65i64..=90), price, 0i64..=50).prop_map(|(g, p, c)| {
        let or_null = |v: Option<i64>| v.map_or(Value::Null, Value::Int);
        vec![or_null(g), or_null(p), Value::Int(c)]
    })
}

fn road() -> impl Strategy<Value = Road> {
    prop_oneof![
        Just(Road::Device),
        Just(Road::Host),
        Just(Road::Filtered),
        Just(Road::Error),
        Just(Road::Retry)
    ]
}

/// The answer of all pages, each on its road.
fn answer(f: &Function, format: Format, pages: &[Vec<u8>], roads: &[Road]) -> Answer {
    let params = Params::of(&[20]);
    let compiled = Compiled::new(f, format).unwrap();
    let filter = Function { output: Output::Rows(vec![0, 1, 2]), ..f.clone() };
    let filter = Compiled::new(&filter, format).unwrap();
    let mut device = Machine::new(&compiled, &params).unwrap();
    let mut filtering = Machine::new(&filter, &params).unwrap();
    let mut answer = Answer::default();
    for (page, road) in pages.iter().zip(roads.iter().cycle()) {
        if matches!(road, Road::Error | Road::Retry) {
            assert!(device.run(page, 10).is_err(), "ten instructions do not suffice");
        }
        let result = match road {
            Road::Device | Road::Retry => device.run(page, u64::MAX).unwrap().0,
            Road::Host | Road::Error => compiled.twin(&params, page).unwrap().result,
            Road::Filtered => {
                let rows = match filtering.run(page, u64::MAX).unwrap().0 {
                    littoral_push::function::PageResult::Rows(rows) => rows,
                    other => panic!("{other:?}"),
                };
                let function = Function { filter: Test::And(vec![]), ..f.clone() };
                let part =
                    reference::answer_packed(&function, filter.function(), &params, &rows).unwrap();
                answer.merge(&part);
                continue;
            }
        };
        match answer.add(&compiled, &result) {
            Ok(()) => {}
            // A page that spills is raw: the host computes it.
            Err(_) => answer.merge(&reference::answer(f, &params, page).unwrap()),
        }
    }
    answer
}

proptest! {
    #![proptest_config(littoral_testing::cases(16))]

    #[test]
    fn every_partition_of_pages_gives_one_answer(
        records in proptest::collection::vec(record(), 1..600),
        roads in proptest::collection::vec(road(), 1..12),
        slots in prop_oneof![Just(4096usize), Just(20)],
    ) {
        let product = Expr::Mul(Box::new(Expr::Column(1)), Box::new(Expr::Column(2)));
        let output = Output::Aggregate { keys: vec![0], sums: vec![Expr::Column(1), product] };
        let filter = Test::Compare(Compare::Less, Expr::Column(2), Expr::Param(0));
        let function = Function::new(&schema(), vec![(0, 50)], filter, output);
        let function = Function { slots_max: slots, ..function };
        for format in [Format::Text, Format::Columns] {
            let pages = page::write_all(&schema(), format, 4096, records.clone()).unwrap();
            let host = answer(&function, format, &pages, &[Road::Host]);
            let mut oracle = Answer::default();
            for page in &pages {
                oracle.merge(&reference::answer(&function, &Params::of(&[20]), page).unwrap());
            }
            prop_assert_eq!(&host, &oracle);
            prop_assert_eq!(&answer(&function, format, &pages, &roads), &oracle);
        }
    }
}
