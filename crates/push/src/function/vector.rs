//! The host's form of a page function on column pages: a column at a time instead of a record at a
//! time. It counts the code's instructions as the twin does, by how many rows reach each block.
//!
//! - Tests that compare a column with a number make a mask of all rows while many pass; the others
//!   walk a selection of rows.
//! - Expressions are evaluated into one array per part; a sum's array is shared with equal parts of
//!   later sums, while [`SHARED_MAX`] of them take the memory that they may.
//! - What it has no form for (NULLs, lists, alternatives, a group outside the table) the twin
//!   computes.
//!
//! Invariants
//! - Answer and count equal the twin's on every page that verifies. Checked by `prop_functions`.
//! - The arrays of a page take no more memory than a few sums need, however many there are. Checked
//!   by `arrays_are_kept_for_few_sums`.

use littoral_base::mutant;

use super::ir::{Compare, Expr, Function, Test};
use super::params::Params;
use super::plan::{Emit, Key, Leaf, Plan, Step, Sum, Walk};
use super::twin::{ColumnRow, pack};
use super::{PageResult, Scratch};
use crate::page::{self, ColumnKind, Header};

/// A mask is made while more than one row in this many, over the bytes of a value, passes: it reads
/// the whole column, many rows at a time.
const DENSE: usize = 32;

/// Most sums whose arrays are kept for later ones: a page of 64 KiB has 512 KiB of values per sum.
const SHARED_MAX: usize = 16;

/// Which of eight bytes are ones, by the number that their lowest bits make.
static LANES: [[u8; 8]; 256] = lanes();

/// The rows that passed so far.
enum Rows {
    All(usize),
    Some(Vec<u32>),
}

impl Rows {
    fn len(&self) -> usize {
        match self {
            Rows::All(n) => *n,
            Rows::Some(rows) => rows.len(),
        }
    }
}

struct Vector<'a> {
    function: &'a Function,
    params: &'a Params,
    page: &'a [u8],
    rows: usize,
    /// Values of expressions for the rows that pass, once those are known.
    values: Vec<(&'a Expr, Vec<i64>)>,
}

/// Runs a function; `None` for one that has no such form.
pub(super) fn run(
    function: &Function,
    plan: &Plan,
    params: &Params,
    page: &[u8],
    header: &Header,
) -> Option<(PageResult, u64)> {
    let Walk::Columns { filter } = &plan.walk else { return None };
    let leaves = filter.iter().map(plain).collect::<Option<Vec<_>>>()?;
    let n = header.rows;
    let mut vector = Vector { function, params, page, rows: n, values: Vec::new() };
    let per_row = plan.costs[plan.row] + plan.costs[plan.next];
    let mut instructions = plan.costs[plan.prologue] + plan.costs[plan.epilogue];
    instructions += n as u64 * per_row;
    let (rows, tests) = vector.select(plan, &leaves);
    instructions += tests;
    let result = match &plan.emit {
        Emit::Aggregate { keys, bound, count, sums } => {
            let slots = vector.slots(keys, plan.layout.slots, &rows)?;
            let blocks = keys.iter().flat_map(|k| [k.value, k.join]).chain(*bound);
            let blocks = blocks.chain([*count]).chain(sums.iter().map(|s| s.add));
            instructions += blocks.map(|b| plan.costs[b]).sum::<u64>() * rows.len() as u64;
            if sums.iter().any(|s| !s.nulls.is_empty()) {
                return None;
            }
            PageResult::Partial(vector.aggregate(plan, sums, slots.as_deref(), &rows))
        }
        Emit::Rows { columns, blocks } => {
            if columns.iter().any(|c| c.1.is_some()) {
                return None;
            }
            let each: u64 = blocks.iter().map(|&b| plan.costs[b]).sum();
            instructions += each * rows.len() as u64;
            PageResult::Rows(vector.pack(&rows))
        }
    };
    Some((result, instructions))
}

/// A leaf that compares and meets no NULL.
fn plain(step: &Step) -> Option<&Leaf> {
    match step {
        Step::Leaf(leaf) => {
            let is_plain = matches!(leaf.test, Test::Compare(..));
            (is_plain && !leaf.negated && leaf.nulls.is_empty()).then_some(leaf)
        }
        Step::All(_) | Step::Any(_) => None,
    }
}

/// Marks the rows of a column that a comparison with `bound` holds for, among those marked.
fn mark<const WIDTH: usize, T: Copy + PartialOrd>(
    bytes: &[u8],
    value: impl Fn([u8; WIDTH]) -> T,
    op: Compare,
    bound: T,
    mask: &mut [u8],
) {
    let (all, _) = bytes.as_chunks::<WIDTH>();
    macro_rules! each {
        ($holds:expr) => {
            for (m, b) in mask.iter_mut().zip(all) {
                let v = value(*b);
                *m &= u8::from($holds(v));
            }
        };
    }
    match op {
        Compare::Less => each!(|v| v < bound),
        Compare::LessEqual => each!(|v| v <= bound),
        Compare::Equal => each!(|v| v == bound),
        Compare::NotEqual => each!(|v| v != bound),
        Compare::GreaterEqual => each!(|v| v >= bound),
        Compare::Greater => each!(|v| v > bound),
    }
}

fn marked(mask: &[u8]) -> usize {
    // Sums of at most 128 ones fit a byte, so that the inner loop adds bytes.
    mask.chunks(128).map(|c| usize::from(c.iter().sum::<u8>())).sum()
}

const fn lanes() -> [[u8; 8]; 256] {
    let mut all = [[0; 8]; 256];
    let mut bits = 0;
    while bits < 256 {
        let (mut bit, mut at) = (0, 0);
        while bit < 8 {
            if bits & (1 << bit) != 0 {
                all[bits][at] = bit as u8;
                at += 1;
            }
            bit += 1;
        }
        bits += 1;
    }
    all
}

/// The rows of the mask's ones, `len` in all.
fn selected(mask: &[u8], len: usize) -> Vec<u32> {
    // The product's highest byte has the lowest bit of each byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let mut rows = vec![0; len + 8];
    let mut at = 0;
    let (eights, tail) = mask.as_chunks::<8>();
    for (n, eight) in eights.iter().enumerate() {
        let word = u64::from_le_bytes(*eight);
        if word == 0 {
            continue;
        }
        let bits = (word.wrapping_mul(GATHER) >> 56) as u8;
        let room = rows[at..].first_chunk_mut::<8>().expect("invariant: `len` ones and eight");
        for (row, lane) in room.iter_mut().zip(LANES[usize::from(bits)]) {
            *row = (8 * n) as u32 + u32::from(lane);
        }
        at += bits.count_ones() as usize;
    }
    for (n, &m) in tail.iter().enumerate() {
        rows[at] = (8 * eights.len() + n) as u32;
        at += usize::from(m);
    }
    assert_eq!(at, len, "a mask has as many rows as it counts");
    rows.truncate(len);
    rows
}

/// The rows whose values a comparison with `other` holds for.
fn kept(op: Compare, values: &[i64], other: impl Fn(usize) -> i64, rows: &Rows) -> Vec<u32> {
    let row = |n: usize| match rows {
        Rows::All(_) => n as u32,
        Rows::Some(rows) => rows[n],
    };
    let (mut kept, mut at) = (vec![0; values.len()], 0);
    macro_rules! each {
        ($holds:expr) => {
            for (n, v) in values.iter().enumerate() {
                kept[at] = row(n);
                at += usize::from($holds(v, &other(n)));
            }
        };
    }
    match op {
        Compare::Less => each!(i64::lt),
        Compare::LessEqual => each!(i64::le),
        Compare::Equal => each!(i64::eq),
        Compare::NotEqual => each!(i64::ne),
        Compare::GreaterEqual => each!(i64::ge),
        Compare::Greater => each!(i64::gt),
    }
    kept.truncate(at);
    kept
}

impl<'a> Vector<'a> {
    /// A number that does not depend on the record.
    fn number(&self, e: &Expr) -> Option<i64> {
        match e {
            Expr::Constant(v) => Some(*v),
            Expr::Param(p) => Some(self.params.values[*p]),
            Expr::Column(_) | Expr::Add(..) | Expr::Sub(..) | Expr::Mul(..) | Expr::Member(..) => {
                None
            }
        }
    }

    /// Bytes of a column's values, bytes of one value, and whether they have no sign.
    fn column(&self, c: usize) -> (&'a [u8], usize, bool) {
        let column = &self.function.schema.columns[c];
        let place = page::directory(self.page, &self.function.schema, self.rows, c);
        let width = column.width();
        let bytes = &self.page[place.values..place.values + self.rows * width];
        (bytes, width, column.kind == ColumnKind::Char)
    }

    /// The rows that pass, and the instructions of the tests.
    fn select(&self, plan: &Plan, leaves: &[&Leaf]) -> (Rows, u64) {
        let (mut instructions, mut count) = (0, self.rows);
        let mut mask = Vec::new();
        let mut rest = leaves;
        while let Some((leaf, behind)) = rest.split_first() {
            let Test::Compare(op, Expr::Column(c), bound) = &leaf.test else { break };
            let Some(bound) = self.number(bound) else { break };
            if !mask.is_empty() && count * DENSE < self.rows * self.column(*c).1 {
                break;
            }
            mask.resize(self.rows, 1);
            if !self.mask(*c, *op, bound, &mut mask) {
                break;
            }
            instructions += plan.costs[leaf.blocks[0]] * count as u64;
            count = marked(&mask);
            rest = behind;
        }
        let mut rows = if count == self.rows {
            Rows::All(self.rows)
        } else {
            Rows::Some(selected(&mask, count))
        };
        for leaf in rest {
            instructions += plan.costs[leaf.blocks[0]] * rows.len() as u64;
            rows = self.refine(leaf, &rows);
        }
        (rows, instructions)
    }

    /// Whether a mask could be made: the bound is a value of the column's width.
    fn mask(&self, c: usize, op: Compare, bound: i64, mask: &mut [u8]) -> bool {
        let (bytes, width, unsigned) = self.column(c);
        match (width, unsigned) {
            (1, true) => {
                u8::try_from(bound).map(|b| mark(bytes, u8::from_le_bytes, op, b, mask)).is_ok()
            }
            (1, false) => {
                i8::try_from(bound).map(|b| mark(bytes, i8::from_le_bytes, op, b, mask)).is_ok()
            }
            (2, false) => {
                i16::try_from(bound).map(|b| mark(bytes, i16::from_le_bytes, op, b, mask)).is_ok()
            }
            (4, false) => {
                i32::try_from(bound).map(|b| mark(bytes, i32::from_le_bytes, op, b, mask)).is_ok()
            }
            (8, false) => {
                mark(bytes, i64::from_le_bytes, op, bound, mask);
                true
            }
            (_, _) => false,
        }
    }

    fn refine(&self, leaf: &Leaf, rows: &Rows) -> Rows {
        let Test::Compare(op, a, b) = &leaf.test else {
            unreachable!("invariant: only comparisons are taken")
        };
        let values = self.eval(a, rows);
        Rows::Some(match self.number(b) {
            Some(bound) => kept(*op, &values, |_| bound, rows),
            None => {
                let others = self.eval(b, rows);
                kept(*op, &values, |n| others[n], rows)
            }
        })
    }

    /// Values of an expression for `rows`.
    fn eval(&self, e: &Expr, rows: &Rows) -> Vec<i64> {
        let known = self.values.iter().find(|(known, _)| *known == e);
        if let Some((_, values)) = known {
            return values.clone();
        }
        let number = |e: &Expr| self.number(e);
        let both = |a: &Expr, b: &Expr, f: fn(i64, i64) -> i64| match (number(a), number(b)) {
            (Some(a), _) => self.eval(b, rows).iter().map(|&b| f(a, b)).collect(),
            (_, Some(b)) => self.eval(a, rows).iter().map(|&a| f(a, b)).collect(),
            (None, None) => {
                let (mut a, b) = (self.eval(a, rows), self.eval(b, rows));
                a.iter_mut().zip(&b).for_each(|(a, &b)| *a = f(*a, b));
                a
            }
        };
        match e {
            Expr::Constant(_) | Expr::Param(_) => {
                vec![number(e).expect("invariant: a number"); rows.len()]
            }
            Expr::Column(c) => self.load(*c, rows),
            Expr::Add(a, b) => both(a, b, i64::wrapping_add),
            Expr::Sub(a, b) => both(a, b, i64::wrapping_sub),
            Expr::Mul(a, b) => both(a, b, i64::wrapping_mul),
            Expr::Member(bitmap, a) => {
                let bitmap = self.params.bitmaps.get(*bitmap);
                let holds = |&key: &i64| bitmap.is_some_and(|b| b.holds(key)).into();
                self.eval(a, rows).iter().map(holds).collect()
            }
        }
    }

    /// Values of a column for `rows`.
    fn load(&self, c: usize, rows: &Rows) -> Vec<i64> {
        let (bytes, width, unsigned) = self.column(c);
        match (width, unsigned) {
            (1, true) => load(bytes, |b: [u8; 1]| u8::from_le_bytes(b).into(), rows),
            (1, false) => load(bytes, |b: [u8; 1]| i8::from_le_bytes(b).into(), rows),
            (2, _) => load(bytes, |b: [u8; 2]| i16::from_le_bytes(b).into(), rows),
            (4, _) => load(bytes, |b: [u8; 4]| i32::from_le_bytes(b).into(), rows),
            (_, _) => load(bytes, i64::from_le_bytes, rows),
        }
    }

    /// First word of each row's slot; `None` outer for a group outside the table, inner for one
    /// group.
    #[expect(clippy::option_option, reason = "no form, and no groups")]
    fn slots(&self, keys: &[Key], slots: usize, rows: &Rows) -> Option<Option<Vec<u32>>> {
        if keys.is_empty() {
            return Some(None);
        }
        let mut sum = vec![0u64; rows.len()];
        let mut is_inside = true;
        for key in keys {
            if key.null.is_some() {
                return None;
            }
            let values = self.load(key.column, rows);
            for (slot, v) in sum.iter_mut().zip(&values) {
                let part = v.wrapping_sub(key.low) as u64;
                is_inside &= part < key.values as u64;
                *slot = slot.wrapping_add(part.wrapping_mul(key.stride as u64));
            }
        }
        is_inside &= sum.iter().all(|&s| s < slots as u64);
        is_inside.then(|| Some(sum.into_iter().map(|s| s as u32).collect()))
    }

    fn aggregate(
        &mut self,
        plan: &'a Plan,
        sums: &'a [Sum],
        slots: Option<&[u32]>,
        rows: &Rows,
    ) -> Scratch {
        let layout = &plan.layout;
        let mut scratch = Scratch::new(layout);
        match slots {
            None => scratch.words[0] = rows.len() as u64,
            Some(slots) => {
                let words = layout.scratch_words;
                slots.iter().for_each(|&s| scratch.words[s as usize * words] += 1);
            }
        }
        for (n, sum) in sums.iter().enumerate() {
            let values = self.eval(&sum.expr, rows);
            match slots {
                None => {
                    let total: i128 = if layout.sums[n].is_wide {
                        values.iter().map(|&v| i128::from(v)).sum()
                    } else {
                        values.iter().sum::<i64>().into()
                    };
                    scratch.add_total(layout, n, 0, total);
                }
                Some(slots) if layout.sums[n].is_wide => {
                    let mut totals = vec![0i128; layout.slots];
                    slots
                        .iter()
                        .zip(&values)
                        .for_each(|(&s, &v)| totals[s as usize] += i128::from(v));
                    for (slot, &total) in totals.iter().enumerate().filter(|(_, t)| **t != 0) {
                        scratch.add_total(layout, n, slot * layout.scratch_words, total);
                    }
                }
                Some(slots) => {
                    let (words, place) = (layout.scratch_words, layout.sums[n].scratch);
                    for (&s, &v) in slots.iter().zip(&values) {
                        let word = &mut scratch.words[s as usize * words + place];
                        *word = word.wrapping_add(v as u64);
                    }
                }
            }
            let has_room = self.values.len() < SHARED_MAX || mutant!("push_every_array_is_kept");
            if sums.len() > n + 1 && has_room {
                self.values.push((&sum.expr, values));
            }
        }
        scratch
    }

    fn pack(&self, rows: &Rows) -> Vec<u8> {
        let mut row = ColumnRow::new(self.function, self.page, self.rows);
        let mut out = Vec::new();
        let mut one = |n: usize| {
            row.go(n);
            pack(self.function, &row, &mut out);
        };
        match rows {
            Rows::All(n) => (0..*n).for_each(&mut one),
            Rows::Some(rows) => rows.iter().for_each(|&n| one(n as usize)),
        }
        out
    }
}

fn load<const WIDTH: usize>(
    bytes: &[u8],
    value: impl Fn([u8; WIDTH]) -> i64,
    rows: &Rows,
) -> Vec<i64> {
    let (all, _) = bytes.as_chunks::<WIDTH>();
    match rows {
        Rows::All(_) => all.iter().map(|b| value(*b)).collect(),
        Rows::Some(rows) => rows.iter().map(|&n| value(all[n as usize])).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::{Compiled, Output};
    use crate::page::{Column, Format, Schema, Value};
    use proptest::prelude::*;

    #[test]
    fn arrays_are_kept_for_few_sums() {
        let schema = Schema::new(vec![Column::int("n", 0, 9)]).unwrap();
        let sum = |c| Expr::Add(Box::new(Expr::Column(0)), Box::new(Expr::Constant(c)));
        let output = Output::Aggregate { keys: vec![], sums: (1..100).map(sum).collect() };
        let function = Function::new(&schema, vec![], Test::And(vec![]), output);
        let compiled = Compiled::new(&function, Format::Columns).unwrap();
        let records = (0..500).map(|n| vec![Value::Int(n % 10)]);
        let page = page::write_all(&schema, Format::Columns, 4096, records).unwrap().remove(0);
        let (plan, params) = (&compiled.code.plan, Params::default());
        let Emit::Aggregate { sums, .. } = &plan.emit else { panic!("{:?}", plan.emit) };
        let (rows, values) = (500, Vec::new());
        let mut vector = Vector { function: &function, params: &params, page: &page, rows, values };
        let scratch = vector.aggregate(plan, sums, None, &Rows::All(rows));
        assert!(vector.values.len() <= SHARED_MAX, "{} arrays", vector.values.len());
        let twin = compiled.twin(&params, &page).unwrap();
        assert_eq!(twin.result, PageResult::Partial(scratch));
    }

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn a_mask_gives_the_rows_of_its_ones(
            mask in proptest::collection::vec(0u8..2, 0..200), zeros in 0usize..100,
        ) {
            let mask = [vec![0; zeros], mask].concat();
            let ones = (0..mask.len()).filter(|&n| mask[n] == 1).map(|n| n as u32);
            prop_assert_eq!(selected(&mask, marked(&mask)), ones.collect::<Vec<_>>());
        }

        #[test]
        fn the_rows_that_are_kept_are_those_that_the_comparison_holds_for(
            values in proptest::collection::vec(-3i64..3, 0..50), bound in -3i64..3,
        ) {
            let some: Vec<u32> = (0..values.len()).map(|n| 7 * n as u32).collect();
            for rows in [Rows::All(values.len()), Rows::Some(some)] {
                let row = |n: usize| match &rows {
                    Rows::All(_) => n as u32,
                    Rows::Some(rows) => rows[n],
                };
                for op in Compare::ALL {
                    let holds = (0..values.len()).filter(|&n| op.holds(values[n], bound));
                    let expected: Vec<u32> = holds.map(row).collect();
                    prop_assert_eq!(kept(op, &values, |_| bound, &rows), expected);
                }
            }
        }
    }
}
