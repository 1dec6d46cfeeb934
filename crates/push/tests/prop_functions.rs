//! Random functions on random pages: the interpreter of the language, the native twin and the LA64
//! code agree on answers, and twin and code on the number of instructions, merge included.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use littoral_push::function::{
    Answer, Bitmap, Compare, Compiled, Expr, Function, Machine, Output, PageResult, Params, Query,
    Test, reference,
};
use littoral_push::page::{self, Column, Format, Record, Schema, Value};
use proptest::prelude::*;

const NUMBERS: usize = 6;
const LIST: usize = 6;
const BUDGET: u64 = 1 << 32;

fn schema() -> Schema {
    Schema::new(vec![
        Column::int("tiny", -9, 9).or_null(),
        Column::char("flag", b'A', b'D').or_null(),
        Column::int("word", -30_000, 30_000),
        Column::decimal("price", 2, 0, 10_000_000),
        Column::date("day"),
        Column::int("wide", -(1 << 55), 1 << 55).or_null(),
        Column::list("tokens"),
        Column::text("note"),
    ])
    .unwrap()
}

fn record() -> impl Strategy<Value = Record> {
    let day = (1992i64..1999, 1i64..13, 1i64..32).prop_map(|(y, m, d)| y * 10_000 + m * 100 + d);
    (
        proptest::option::weighted(0.8, -9i64..=9),
        proptest::option::weighted(0.8, i64::from(b'A')..=i64::from(b'D')),
        -30_000i64..=30_000,
        0i64..=10_000_000,
        day,
        proptest::option::weighted(0.8, -(1i64 << 55)..=1 << 55),
        proptest::collection::btree_set(0u32..40, 0..9),
        "[ -{}~]{0,12}",
    )
        .prop_map(|(a, b, c, d, e, f, g, h)| {
            let or_null = |v: Option<i64>| v.map_or(Value::Null, Value::Int);
            vec![
                or_null(a),
                or_null(b),
                Value::Int(c),
                Value::Int(d),
                Value::Int(e),
                or_null(f),
                Value::List(g.into_iter().collect()),
                Value::Text(h.into_bytes()),
            ]
        })
}

fn expr() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        4 => (0..NUMBERS).prop_map(Expr::Column),
        2 => prop_oneof![-12i64..12, -5000i64..5000, 19_920_101i64..19_990_101]
            .prop_map(Expr::Constant),
        1 => (0usize..2).prop_map(Expr::Param),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        (inner.clone(), inner, 0..4).prop_map(|(a, b, op)| {
            let (a, b) = (Box::new(a), Box::new(b));
            match op {
                0 => Expr::Add(a, b),
                1 => Expr::Sub(a, b),
                2 => Expr::Member(0, a),
                _ => Expr::Mul(a, b),
            }
        })
    })
}

fn compare() -> impl Strategy<Value = Compare> {
    prop_oneof![
        Just(Compare::Less),
        Just(Compare::LessEqual),
        Just(Compare::Equal),
        Just(Compare::NotEqual),
        Just(Compare::GreaterEqual),
        Just(Compare::Greater),
    ]
}

fn test() -> impl Strategy<Value = Test> {
    let leaf = prop_oneof![
        6 => (compare(), expr(), expr()).prop_map(|(op, a, b)| Test::Compare(op, a, b)),
        2 => (0..NUMBERS).prop_map(Test::IsNull),
        2 => (0usize..3, expr()).prop_map(|(b, e)| Test::Probe(b, e)),
        1 => Just(Test::Candidate(LIST)),
        1 => Just(Test::Similar(LIST)),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Test::And),
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Test::Or),
            inner.prop_map(|t| Test::Not(Box::new(t))),
        ]
    })
}

fn output() -> impl Strategy<Value = Output> {
    let keys = prop_oneof![
        4 => Just(vec![]),
        1 => Just(vec![0]),
        1 => Just(vec![1, 0]),
        1 => Just(vec![2]),
        1 => Just(vec![0, 2, 1]),
    ];
    prop_oneof![
        3 => (keys, proptest::collection::vec(expr(), 0..4))
            .prop_map(|(keys, sums)| Output::Aggregate { keys, sums }),
        1 => proptest::collection::vec(0..=LIST, 0..6).prop_map(Output::Rows),
    ]
}

fn params() -> impl Strategy<Value = Params> {
    let bits = proptest::collection::vec(0u64..200, 0..50);
    let tokens = proptest::collection::btree_set(0u32..40, 1..9);
    (-4000i64..4000, -4000i64..4000, bits, tokens, 1u32..=5).prop_map(|(a, b, bits, tokens, t)| {
        Params {
            values: vec![a, b],
            bitmaps: vec![Bitmap::of(bits), Bitmap::of([0, 63, 64])],
            query: Some(Query::new(tokens.into_iter().collect(), t, 5).unwrap()),
        }
    })
}

fn function() -> impl Strategy<Value = Function> {
    (test(), output(), prop_oneof![Just(4096usize), Just(30)]).prop_map(
        |(filter, output, slots)| {
            let ranges = vec![(-4000, 4000); 2];
            Function { slots_max: slots, ..Function::new(&schema(), ranges, filter, output) }
        },
    )
}

fn check(
    function: &Function,
    params: &Params,
    format: Format,
    records: &[Record],
) -> Result<(), TestCaseError> {
    // Expressions that may overflow, or exceed the registers, are refused: nothing to compare.
    let Ok(compiled) = Compiled::new(function, format) else { return Ok(()) };
    let mut machine = Machine::new(&compiled, params).unwrap();
    let mut whole = Answer::default();
    let mut expected = Answer::default();
    let mut totals = vec![0; compiled.totals_bytes() as usize / 8];
    for page in page::write_all(&schema(), format, 4096, records.iter().cloned()).unwrap() {
        let twin = compiled.twin(params, &page).unwrap();
        assert_eq!(compiled.host(params, &page).unwrap(), twin, "a column at a time");
        let (result, instructions) = machine.run(&page, BUDGET).unwrap();
        prop_assert_eq!(&twin.result, &result);
        prop_assert_eq!(twin.instructions, instructions, "instructions of a page");
        let answer = reference::answer(function, params, &page).unwrap();
        expected.merge(&answer);
        match &result {
            PageResult::Spilled => {
                prop_assert_eq!(twin.merge_instructions, 0);
                whole.merge(&answer);
            }
            PageResult::Partial(scratch) => {
                let (next, instructions) = machine.merge(scratch, &totals).unwrap();
                prop_assert_eq!(twin.merge_instructions, instructions, "instructions of a merge");
                totals = next;
                let mut one = Answer::default();
                one.add(&compiled, &result).unwrap();
                prop_assert_eq!(one, answer);
            }
            PageResult::Rows(_) => whole.add(&compiled, &result).unwrap(),
        }
    }
    whole.add_totals(&compiled, &totals);
    prop_assert_eq!(whole, expected);
    Ok(())
}

proptest! {
    #![proptest_config(littoral_testing::cases(60))]

    #[test]
    fn code_twin_and_interpreter_agree(
        function in function(),
        params in params(),
        records in proptest::collection::vec(record(), 0..120),
    ) {
        for format in [Format::Text, Format::Columns] {
            check(&function, &params, format, &records)?;
        }
    }
}
