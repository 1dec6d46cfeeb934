//! Any partition of pages among device, host, filter, error and retry gives the same answer.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use littoral_push::function::{Answer, Compare, Expr, Function, Output, Params, Test, reference};
use littoral_push::page::{self, Column, Format, Record, Schema, Value};
use littoral_push::query::Query;
use littoral_push::roads::{ROADS, Road, answer};
use proptest::prelude::*;

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
    proptest::sample::select(&ROADS[..])
}

/// A query of `function`, whose split returns every column.
fn query(function: &Function) -> Query {
    let split = Function { output: Output::Rows(vec![0, 1, 2]), ..function.clone() };
    let rest = Function { filter: Test::And(vec![]), ..function.clone() };
    Query { name: "sums", whole: function.clone(), split, rest, params: Params::of(&[20]) }
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
        let query = query(&function);
        for format in [Format::Text, Format::Columns] {
            let pages = page::write_all(&schema(), format, 4096, records.clone()).unwrap();
            let host = answer(&query, format, &pages, &[Road::Host]).unwrap();
            let mut oracle = Answer::default();
            for page in &pages {
                oracle.merge(&reference::answer(&function, &Params::of(&[20]), page).unwrap());
            }
            prop_assert_eq!(&host, &oracle);
            prop_assert_eq!(&answer(&query, format, &pages, &roads).unwrap(), &oracle);
        }
    }
}
