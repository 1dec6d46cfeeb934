//! Page functions: what is refused, hostile code and pages, the soundness of the prefix filter.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use littoral_push::error::Kind;
use littoral_push::function::{
    Compare, Compiled, Expr, Function, Machine, Output, PageResult, Params, Query, Test,
};
use littoral_push::page::{self, Column, Format, Schema, Value};

fn numbers() -> Schema {
    let wide = Column::int("wide", -(1 << 62), 1 << 62);
    Schema::new(vec![Column::int("a", 0, 100), wide, Column::list("tokens")]).unwrap()
}

fn sum(expr: Expr) -> Function {
    let output = Output::Aggregate { keys: vec![], sums: vec![expr] };
    Function::new(&numbers(), vec![], Test::And(vec![]), output)
}

fn times(a: Expr, b: Expr) -> Expr {
    Expr::Mul(Box::new(a), Box::new(b))
}

#[test]
fn expressions_that_may_overflow_are_refused() {
    let wide = || Expr::Column(1);
    for bad in [times(wide(), Expr::Constant(3)), times(wide(), wide())] {
        let error = Compiled::new(&sum(bad), Format::Columns).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.to_string().contains("beyond 64 bits"), "{error}");
    }
    assert!(Compiled::new(&sum(times(wide(), Expr::Constant(1))), Format::Text).is_ok());
}

#[test]
fn more_sums_than_a_group_has_room_for_are_refused_in_words() {
    let nullable = Schema::new(vec![Column::int("a", 0, 9).or_null()]).unwrap();
    for (schema, most) in [(numbers(), 127), (nullable, 85)] {
        let with = |count| {
            let output = Output::Aggregate { keys: vec![], sums: vec![Expr::Column(0); count] };
            let function = Function::new(&schema, vec![], Test::And(vec![]), output);
            [Format::Columns, Format::Text].map(|format| Compiled::new(&function, format))
        };
        for compiled in with(most) {
            assert!(compiled.is_ok(), "{most} sums: {:?}", compiled.err());
        }
        for compiled in with(most + 1) {
            let error = compiled.unwrap_err();
            assert_eq!(error.kind(), Kind::Unsupported);
            let words = format!("{} sums in one scan", most + 1);
            assert!(error.to_string().contains(&words), "{error}");
        }
    }
}

#[test]
fn functions_that_name_what_is_not_there_are_refused() {
    let refused = |f: Function| {
        let error = Compiled::new(&f, Format::Columns).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage, "{error}");
        error.to_string()
    };
    assert!(refused(sum(Expr::Column(9))).contains("column 9"));
    assert!(refused(sum(Expr::Column(2))).contains("column 2"));
    assert!(refused(sum(Expr::Param(0))).contains("parameter 0"));
    assert!(
        refused(Function { filter: Test::Similar(0), ..sum(Expr::Column(0)) }).contains("list")
    );
    let none = Function { output: Output::Rows(vec![]), ..sum(Expr::Column(0)) };
    assert!(refused(none).contains("needs a column"));
    let many = |n| Function { output: Output::Rows(vec![0; n]), ..sum(Expr::Column(0)) };
    assert!(refused(many(257)).contains("256 columns at most"));
    assert!(Compiled::new(&many(256), Format::Columns).is_ok());
    let deep = (0..9).fold(Expr::Column(0), |e, _| {
        let rest = Expr::Sub(Box::new(Expr::Column(0)), Box::new(e));
        Expr::Add(Box::new(Expr::Constant(5000)), Box::new(rest))
    });
    // Too deep for the registers, or compiled: never a wrong answer.
    if let Err(error) = Compiled::new(&sum(deep), Format::Columns) {
        assert_eq!(error.kind(), Kind::Unsupported);
    }
}

#[test]
fn parameters_that_do_not_fit_are_refused() {
    let f = Function { params: vec![(0, 9)], ..sum(Expr::Param(0)) };
    let compiled = Compiled::new(&f, Format::Columns).unwrap();
    for bad in [Params::default(), Params::of(&[10]), Params::of(&[1, 2])] {
        assert_eq!(Machine::new(&compiled, &bad).unwrap_err().kind(), Kind::Usage);
    }
    let join = Function { filter: Test::Similar(2), ..sum(Expr::Column(0)) };
    let join = Compiled::new(&join, Format::Columns).unwrap();
    assert!(join.check_params(&Params::default()).unwrap_err().to_string().contains("query"));
    assert!(Query::new(vec![], 1, 2).is_err());
    assert!(Query::new(vec![2, 1], 1, 2).is_err());
    assert!(Query::new(vec![1], 3, 2).is_err());
}

#[test]
fn the_last_of_many_columns_are_reached() {
    let number = |n: i64| {
        let column = Column::int(&format!("c{n}"), 0, 1 << 40);
        if n >= 215 { column.or_null() } else { column }
    };
    let columns = (0..255).map(number).chain([Column::list("tokens")]);
    let schema = Schema::new(columns.collect()).unwrap();
    let record = |row: i64| {
        let is_null = |n: i64| n == 254 && row % 2 == 1;
        let value = |n: i64| if is_null(n) { Value::Null } else { Value::Int(row + n) };
        (0..255).map(value).chain([Value::List(vec![row as u32])]).collect::<Vec<_>>()
    };
    let records = (0..5).map(record);
    let page = page::write_all(&schema, Format::Columns, 65536, records).unwrap().remove(0);
    let sums = vec![Expr::Column(253), Expr::Column(254)];
    let outputs =
        [Output::Aggregate { keys: vec![], sums }, Output::Rows((0..256).collect::<Vec<_>>())];
    for output in outputs {
        let function = Function::new(&schema, vec![], Test::And(vec![]), output);
        let compiled = Compiled::new(&function, Format::Columns).unwrap();
        let twin = compiled.twin(&Params::default(), &page).unwrap();
        let mut machine = Machine::new(&compiled, &Params::default()).unwrap();
        let found = machine.run(&page, u64::MAX).unwrap();
        assert_eq!(found, (twin.result, twin.instructions));
    }
}

fn page_of(rows: i64) -> Vec<u8> {
    let record = |n| vec![Value::Int(n % 100), Value::Int(n), Value::List(vec![n as u32])];
    page::write_all(&numbers(), Format::Columns, 8192, (0..rows).map(record)).unwrap().remove(0)
}

#[test]
fn a_page_function_past_its_budget_leaves_nothing_behind() {
    let compiled = Compiled::new(&sum(Expr::Column(0)), Format::Columns).unwrap();
    let mut machine = Machine::new(&compiled, &Params::default()).unwrap();
    let page = page_of(200);
    let (whole, instructions) = machine.run(&page, u64::MAX).unwrap();
    for budget in [1, 100, instructions - 1] {
        let error = machine.run(&page, budget).unwrap_err();
        assert!(error.to_string().contains("the page is raw"), "{error}");
        // A retry starts from a zero scratch and gives the same.
        assert_eq!(machine.run(&page, instructions + 1).unwrap(), (whole.clone(), instructions));
    }
}

#[test]
fn a_page_with_groups_outside_the_table_spills() {
    let output = Output::Aggregate { keys: vec![0], sums: vec![] };
    let f = Function { slots_max: 50, output, ..sum(Expr::Column(0)) };
    let compiled = Compiled::new(&f, Format::Columns).unwrap();
    let mut machine = Machine::new(&compiled, &Params::default()).unwrap();
    assert!(matches!(machine.run(&page_of(50), u64::MAX).unwrap().0, PageResult::Partial(_)));
    assert_eq!(machine.run(&page_of(51), u64::MAX).unwrap().0, PageResult::Spilled);
    assert_eq!(
        compiled.twin(&Params::default(), &page_of(51)).unwrap().result,
        PageResult::Spilled
    );
}

#[test]
fn wide_sums_of_a_page_do_not_wrap() {
    let compiled = Compiled::new(&sum(Expr::Column(1)), Format::Columns).unwrap();
    let mut machine = Machine::new(&compiled, &Params::default()).unwrap();
    let record = |_| vec![Value::Int(0), Value::Int(-(1 << 62)), Value::List(vec![])];
    let page = page::write_all(&numbers(), Format::Columns, 8192, (0..100).map(record)).unwrap();
    let (result, _) = machine.run(&page[0], u64::MAX).unwrap();
    let mut answer = littoral_push::function::Answer::default();
    answer.add(&compiled, &result).unwrap();
    assert_eq!(answer.groups[&vec![]].totals[0].sum, -(1i128 << 62) * 100);
}

#[test]
fn a_damaged_page_is_no_input() {
    let compiled = Compiled::new(&sum(Expr::Column(0)), Format::Columns).unwrap();
    let mut page = page_of(20);
    page[100] ^= 1;
    let error = compiled.twin(&Params::default(), &page).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    // The code itself ends on any bytes: a result, a trap, or a spent budget.
    let mut machine = Machine::new(&compiled, &Params::default()).unwrap();
    for at in 0..48 {
        let mut page = page_of(20);
        page[at] ^= 0xff;
        let _ = machine.run(&page, 100_000);
    }
    let (result, _) = machine.run(&page_of(20), u64::MAX).unwrap();
    assert_eq!(result, compiled.twin(&Params::default(), &page_of(20)).unwrap().result);
}

/// A set of tokens from the bits of a number.
fn set(bits: u64) -> Vec<u32> {
    (0..64).filter(|b| bits >> b & 1 == 1).collect()
}

#[test]
fn the_prefixes_of_similar_records_share_a_token() {
    let mut x = 7u64;
    let mut random = || {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        x >> 40
    };
    let mut similar = 0;
    for _ in 0..60_000 {
        let shared = random() & random() & 0xffff;
        let (a, b) = (set(shared | random() & random() & 0x3ff), set(shared | random() & 0xfff));
        if a.is_empty() || b.is_empty() {
            continue;
        }
        for (n, d) in [(4, 5), (1, 2), (1, 1)] {
            let common = a.iter().filter(|t| b.contains(t)).count();
            if common * d < n * a.len().min(b.len()) {
                continue;
            }
            similar += 1;
            let query = Query::new(b.clone(), n as u32, d as u32).unwrap();
            let (p, q) = query.prefixes(a.len());
            let found = a[..p].iter().any(|t| b[..q].contains(t));
            assert!(found, "{a:?} and {b:?} at {n}/{d}: prefixes of {p} and {q}");
        }
    }
    assert!(similar > 10_000, "{similar} similar pairs");
}

#[test]
fn a_comparison_and_its_negation_are_not_true_of_null() {
    let schema = Schema::new(vec![Column::int("a", 0, 9).or_null()]).unwrap();
    let records = || [Value::Null, Value::Int(3), Value::Int(7)].into_iter().map(|v| vec![v]);
    let less = Test::Compare(Compare::Less, Expr::Column(0), Expr::Constant(5));
    for (test, expected) in [
        (less.clone(), 1),
        (Test::Not(Box::new(less)), 1),
        (Test::IsNull(0), 1),
        (Test::Not(Box::new(Test::IsNull(0))), 2),
    ] {
        let output = Output::Aggregate { keys: vec![], sums: vec![Expr::Column(0)] };
        let function = Function::new(&schema, vec![], test, output);
        for format in [Format::Text, Format::Columns] {
            let compiled = Compiled::new(&function, format).unwrap();
            let page = page::write_all(&schema, format, 4096, records()).unwrap().remove(0);
            let run = compiled.twin(&Params::default(), &page).unwrap();
            let mut answer = littoral_push::function::Answer::default();
            answer.add(&compiled, &run.result).unwrap();
            assert_eq!(answer.groups[&vec![]].count, expected);
        }
    }
}
