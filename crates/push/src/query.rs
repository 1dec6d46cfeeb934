//! The paper's queries as page functions: TPC-H Q1, Q6, Q14 and the similarity join, whole and as
//! hand-coded splits, and the table of what their pages cost.
//!
//! Invariants
//! - A query's hand-coded split gives the query's answer. Checked by
//!   `every_road_gives_the_answer_of_the_reference`.
//!
//! Hand-coded splits are the paper's: the device tests WHERE and returns the columns that grouping
//! and sums need; of the join it returns the candidates.

use crate::cost::{self, PageCost, TaskCosts};
use crate::data::{join_schema, lineitem_schema};
use crate::error::Result;
use crate::function::{
    Bitmap, Compare, Compiled, Expr, Function, Machine, Output, PageResult, Params,
    Query as JoinQuery, Test,
};
use crate::page::Format;

/// A query: its page function, the device's part of the hand-coded split, and the host's.
#[derive(Clone, Debug)]
pub struct Query {
    /// Its name, such as `q6`.
    pub name: &'static str,
    /// The whole query.
    pub whole: Function,
    /// The device's part of the hand-coded split: it returns records.
    pub split: Function,
    /// What the host does with those records.
    pub rest: Function,
    /// Its parameters.
    pub params: Params,
}

/// Pages in a row without a result after which a file's function is not run any more.
const TRIES: u32 = 3;

const PARTKEY: usize = 1;
const QUANTITY: usize = 4;
const PRICE: usize = 5;
const DISCOUNT: usize = 6;
const TAX: usize = 7;
const FLAG: usize = 8;
const STATUS: usize = 9;
const SHIPPED: usize = 10;

/// Least and greatest day as a number.
const DAYS: (i64, i64) = (0, 99_991_231);

fn compare(op: Compare, column: usize, param: usize) -> Test {
    Test::Compare(op, Expr::Column(column), Expr::Param(param))
}

fn times(a: Expr, b: Expr) -> Expr {
    Expr::Mul(Box::new(a), Box::new(b))
}

/// price x (100 - discount), scaled by ten to the fourth.
fn discounted() -> Expr {
    let left = Expr::Sub(Box::new(Expr::Constant(100)), Box::new(Expr::Column(DISCOUNT)));
    times(Expr::Column(PRICE), left)
}

impl Query {
    fn new(name: &'static str, whole: Function, columns: &[usize], params: Params) -> Query {
        let split = Function { output: Output::Rows(columns.to_vec()), ..whole.clone() };
        let rest = Function { filter: Test::And(vec![]), ..whole.clone() };
        Query { name, whole, split, rest, params }
    }

    /// Q1: sums per return flag and line status of what was shipped up to a day; by default
    /// 90 days before 1998-12-01. Sums: quantity, price, discounted price (scale 4), charge
    /// (scale 6), discount.
    ///
    /// # Errors
    /// None: the schema is constant.
    pub fn q1() -> Result<Query> {
        let plus_tax = Expr::Add(Box::new(Expr::Constant(100)), Box::new(Expr::Column(TAX)));
        let sums = vec![
            Expr::Column(QUANTITY),
            Expr::Column(PRICE),
            discounted(),
            times(discounted(), plus_tax),
            Expr::Column(DISCOUNT),
        ];
        let output = Output::Aggregate { keys: vec![FLAG, STATUS], sums };
        let filter = compare(Compare::LessEqual, SHIPPED, 0);
        let whole = Function::new(&lineitem_schema()?, vec![DAYS], filter, output);
        let columns = [QUANTITY, PRICE, DISCOUNT, TAX, FLAG, STATUS];
        Ok(Query::new("q1", whole, &columns, Params::of(&[19_980_902])))
    }

    /// Q6: the sum of price x discount (scale 4) of a year's small orders with a discount of 5 to
    /// 7 %.
    ///
    /// # Errors
    /// None: the schema is constant.
    pub fn q6() -> Result<Query> {
        let filter = Test::And(vec![
            compare(Compare::GreaterEqual, SHIPPED, 0),
            compare(Compare::Less, SHIPPED, 1),
            compare(Compare::GreaterEqual, DISCOUNT, 2),
            compare(Compare::LessEqual, DISCOUNT, 3),
            compare(Compare::Less, QUANTITY, 4),
        ]);
        let revenue = times(Expr::Column(PRICE), Expr::Column(DISCOUNT));
        let output = Output::Aggregate { keys: vec![], sums: vec![revenue] };
        let ranges = vec![DAYS, DAYS, (0, 100), (0, 100), (0, 1000)];
        let whole = Function::new(&lineitem_schema()?, ranges, filter, output);
        let params = Params::of(&[19_940_101, 19_950_101, 5, 7, 24]);
        Ok(Query::new("q6", whole, &[PRICE, DISCOUNT], params))
    }

    /// Q14: discounted prices (scale 4) of a month, of parts in `promo` and of all.
    ///
    /// # Errors
    /// None: the schema is constant.
    pub fn q14(promo: Bitmap) -> Result<Query> {
        let filter = Test::And(vec![
            compare(Compare::GreaterEqual, SHIPPED, 0),
            compare(Compare::Less, SHIPPED, 1),
        ]);
        let of_promo = times(discounted(), Expr::Member(0, Box::new(Expr::Column(PARTKEY))));
        let output = Output::Aggregate { keys: vec![], sums: vec![discounted(), of_promo] };
        let whole = Function::new(&lineitem_schema()?, vec![DAYS, DAYS], filter, output);
        let params = Params { bitmaps: vec![promo], ..Params::of(&[19_950_901, 19_951_001]) };
        Ok(Query::new("q14", whole, &[PARTKEY, PRICE, DISCOUNT], params))
    }

    /// The similarity join of one record: the lines of the records similar to it.
    ///
    /// # Errors
    /// None: the schema is constant.
    pub fn join(query: JoinQuery) -> Result<Query> {
        let schema = join_schema()?;
        let output = Output::Rows(vec![0]);
        let filter = Test::And(vec![Test::Candidate(1), Test::Similar(1)]);
        let whole = Function::new(&schema, vec![], filter, output.clone());
        let candidates = Output::Rows(vec![0, 1]);
        let split = Function::new(&schema, vec![], Test::Candidate(1), candidates);
        let rest = Function::new(&schema, vec![], Test::Similar(1), output);
        let params = Params { query: Some(query), ..Params::default() };
        Ok(Query { name: "join", whole, split, rest, params })
    }

    /// What each page costs: as [`costs_of`].
    ///
    /// # Errors
    /// As [`Compiled::twin`].
    pub fn costs(&self, pages: &[Vec<u8>], format: Format) -> Result<TaskCosts> {
        costs_of(self.name, &self.whole, &self.split, &self.params, pages, format)
    }
}

/// What each page of a function costs: the device's counts from the twin, the host's times from
/// counts too.
///
/// A host core runs the instructions of the page function on a raw page. On filtered records it
/// runs what the page function does behind the split's filter, and two instructions more per value
/// to read the packed records. Where the split cannot be compiled, as on a table of texts alone,
/// which has no column to return, its pages go to the host as they are.
///
/// # Errors
/// As [`Compiled::twin`].
pub fn costs_of(
    name: &str,
    whole: &Function,
    split: &Function,
    params: &Params,
    pages: &[Vec<u8>],
    format: Format,
) -> Result<TaskCosts> {
    let (whole, split) = (Compiled::new(whole, format)?, Split::new(split, format)?);
    let mut result_bytes = whole.totals_bytes();
    let mut costs = Vec::with_capacity(pages.len());
    for page in pages {
        let run = whole.twin(params, page)?;
        if let PageResult::Rows(rows) = &run.result {
            result_bytes += rows.len() as u64;
        }
        let instructions = run.instructions + run.merge_instructions;
        let host_raw = cost::host_time(instructions);
        let raw = PageCost {
            instructions,
            filter_instructions: 0,
            filtered_bytes: page.len() as u32,
            host_raw,
            host_filtered: host_raw,
        };
        costs.push(match &split {
            Some(split) => split.cost(raw, run.instructions, params, page)?,
            None => raw,
        });
    }
    Ok(TaskCosts {
        name: name.to_owned(),
        page_bytes: pages.first().map_or(0, |p| p.len() as u32),
        result_bytes: u32::try_from(result_bytes).unwrap_or(u32::MAX),
        pages: costs,
    })
}

/// The device's part of a hand-coded split.
struct Split {
    records: Compiled,
    /// The filter alone: the part of the page function that the host has not to do again.
    tests: Compiled,
}

impl Split {
    /// None where the split cannot be compiled.
    fn new(split: &Function, format: Format) -> Result<Option<Split>> {
        let Ok(records) = Compiled::new(split, format) else { return Ok(None) };
        debug_assert!(records.returns_rows(), "a split returns records");
        let count = Output::Aggregate { keys: vec![], sums: vec![] };
        let tests = Compiled::new(&Function { output: count, ..split.clone() }, format)?;
        Ok(Some(Split { records, tests }))
    }

    /// The costs of a page whose page function takes `instructions`, and `raw` where it is not
    /// split.
    fn cost(
        &self,
        raw: PageCost,
        instructions: u64,
        params: &Params,
        page: &[u8],
    ) -> Result<PageCost> {
        let filtered = self.records.twin(params, page)?;
        let PageResult::Rows(kept) = &filtered.result else {
            unreachable!("invariant: a split returns records")
        };
        let behind = instructions.saturating_sub(self.tests.twin(params, page)?.instructions);
        let values = values(self.records.function(), kept);
        Ok(PageCost {
            filter_instructions: filtered.instructions,
            filtered_bytes: kept.len() as u32,
            host_filtered: cost::host_time(behind + 2 * values),
            ..raw
        })
    }
}

/// Puts the instructions that an ELF file's function takes on each page, at most `budget`, in place
/// of the compiled function's. After [`TRIES`] pages in a row without a result the others are not
/// run.
///
/// # Errors
/// As [`Machine::with_file`].
pub(crate) fn count_file(
    costs: &mut TaskCosts,
    (whole, params): (&Compiled, &Params),
    file: &[u8],
    pages: &[Vec<u8>],
    budget: u64,
) -> Result<()> {
    let mut core = Machine::with_file(whole, params, file)?;
    let mut failed = 0;
    for (cost, page) in costs.pages.iter_mut().zip(pages) {
        let ran = if failed < TRIES { core.run(page, budget).ok() } else { None };
        failed = if ran.is_some() { 0 } else { failed + 1 };
        cost.instructions = ran.map_or(u64::MAX, |(result, instructions)| {
            instructions + whole.merge_instructions(&result)
        });
    }
    Ok(())
}

/// Values in packed records of a split: fields, and elements of lists.
fn values(split: &Function, packed: &[u8]) -> u64 {
    let Output::Rows(columns) = &split.output else { return 0 };
    let width = |&c: &usize| split.schema.columns[c].width();
    let record: usize = columns.iter().map(width).sum();
    (packed.len() * columns.len() / record) as u64
}
