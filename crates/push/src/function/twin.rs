//! The native twin of the code: the same answer, and the exact number of LA64 instructions, by
//! counting the blocks that each record passes.
//!
//! Invariants
//! - Answer and count equal the code's on every page that verifies. Checked by `prop_functions`.

use super::ir::{Expr, Function, Output, Test};
use super::params::{Params, Query};
use super::plan::{Emit, Field, Key, Leaf, Plan, Read, Stage, Step, Sum, Walk};
use super::{PageResult, Scratch};
use crate::page::{self, Directory, HEADER_LEN, Header, Schema, columns, text};

/// A record while it is tested.
pub(super) trait Row {
    fn value(&self, column: usize) -> i64;
    fn is_null(&self, column: usize) -> bool;
    fn list(&self, column: usize) -> &[u32];
}

struct Twin<'a> {
    function: &'a Function,
    plan: &'a Plan,
    params: &'a Params,
    instructions: u64,
    scratch: Scratch,
    rows: Vec<u8>,
}

/// A page spills.
struct Spilled;

/// Runs a function on a page that verifies.
pub(super) fn run(
    function: &Function,
    plan: &Plan,
    params: &Params,
    page: &[u8],
    header: &Header,
) -> (PageResult, u64) {
    let mut twin = Twin {
        function,
        plan,
        params,
        instructions: 0,
        scratch: Scratch::new(&plan.layout),
        rows: Vec::new(),
    };
    twin.pass(plan.prologue);
    let done = match &plan.walk {
        Walk::Columns { filter } => twin.columns(filter, page, header.rows),
        Walk::Text { fields, stages, tail } => {
            twin.text(fields, stages, *tail, &page[..header.valid_bytes])
        }
    };
    twin.pass(if done.is_ok() { plan.epilogue } else { plan.spill.expect("invariant: keys") });
    let result = match (done, &plan.emit) {
        (Err(Spilled), _) => PageResult::Spilled,
        (Ok(()), Emit::Aggregate { .. }) => PageResult::Partial(twin.scratch),
        (Ok(()), Emit::Rows { .. }) => PageResult::Rows(twin.rows),
    };
    (result, twin.instructions)
}

/// The instructions of the merge of a page's scratch.
pub(super) fn merge_cost(plan: &Plan, scratch: &Scratch) -> u64 {
    let Some([once, slot, used]) = plan.merge else { return 0 };
    let slots = plan.layout.slots as u64;
    let in_use = scratch.words.chunks(plan.layout.scratch_words).filter(|s| s[0] != 0).count();
    plan.costs[once] + slots * plan.costs[slot] + in_use as u64 * plan.costs[used]
}

impl Twin<'_> {
    #[inline]
    fn pass(&mut self, block: usize) {
        self.instructions += self.plan.costs[block];
    }

    #[inline]
    fn times(&mut self, block: usize, n: usize) {
        self.instructions += self.plan.costs[block] * n as u64;
    }

    fn columns(&mut self, filter: &[Step], page: &[u8], rows: usize) -> Result<(), Spilled> {
        let mut row = ColumnRow::new(self.function, page, rows);
        for n in 0..rows {
            row.go(n);
            self.pass(self.plan.row);
            if self.all(filter, &row) {
                self.emit(&row)?;
            }
            self.pass(self.plan.next);
        }
        Ok(())
    }

    fn text(
        &mut self,
        fields: &[Field],
        stages: &[Stage],
        tail: usize,
        page: &[u8],
    ) -> Result<(), Spilled> {
        let mut row = TextRow::new(&self.function.schema);
        let mut at = HEADER_LEN;
        while at < page.len() {
            self.pass(self.plan.row);
            for field in fields {
                at += self.field(field, page, at, &mut row);
            }
            if stages.iter().all(|stage| self.stage(stage, page, &mut row)) {
                self.emit(&row)?;
            }
            let rest = page[at..].iter().position(|&b| b == b'\n');
            let rest = rest.expect("invariant: the last row has an end") + 1;
            self.times(tail, rest);
            at += rest;
            self.pass(self.plan.next);
        }
        Ok(())
    }

    /// Passes a field at `at`; its bytes with the separator.
    fn field(&mut self, field: &Field, page: &[u8], at: usize, row: &mut TextRow) -> usize {
        let bytes = field_at(page, at);
        if let Some(note) = field.note {
            self.pass(note);
            let column = &self.function.schema.columns[field.column];
            row.nulls[field.column] = column.nullable && bytes.is_empty();
            row.values[field.column] = at as i64;
        }
        self.read(&field.read, bytes);
        if matches!(field.read, Read::List { .. }) {
            row.list = text::list(bytes);
        }
        bytes.len() + 1
    }

    /// Reads what a stage needs and makes its test.
    fn stage(&mut self, stage: &Stage, page: &[u8], row: &mut TextRow) -> bool {
        for (column, read) in &stage.reads {
            let bytes = field_at(page, row.values[*column] as usize);
            self.read(read, bytes);
            row.values[*column] = text::number(&self.function.schema.columns[*column], bytes);
        }
        stage.test.as_ref().is_none_or(|test| self.step(test, row))
    }

    /// Counts the blocks of a reader on a field.
    fn read(&mut self, read: &Read, bytes: &[u8]) {
        let count = |what: fn(&u8) -> bool| bytes.iter().filter(|b| what(b)).count();
        // The separator is read too.
        let len = bytes.len() + 1;
        match *read {
            Read::Skip { byte } => self.times(byte, len),
            Read::Char { start } => self.pass(start),
            Read::Number { start, byte, digit, other, end } => {
                let digits = count(u8::is_ascii_digit);
                self.pass(start);
                self.times(byte, len);
                self.times(digit, digits);
                self.times(other, len - digits);
                self.pass(end);
            }
            Read::List { start, byte, digit, other, token, behind, end } => {
                let (digits, spaces) = (count(u8::is_ascii_digit), count(|&b| b == b' '));
                self.pass(start);
                self.times(byte, len);
                self.times(digit, digits);
                self.times(other, len - digits);
                self.times(token, spaces);
                self.times(behind, len - digits - spaces);
                self.pass(end);
            }
        }
    }

    #[inline]
    fn all(&mut self, steps: &[Step], row: &impl Row) -> bool {
        steps.iter().all(|step| self.step(step, row))
    }

    fn step(&mut self, step: &Step, row: &impl Row) -> bool {
        match step {
            Step::Leaf(leaf) => self.leaf(leaf, row),
            Step::All(steps) => steps.iter().all(|s| self.step(s, row)),
            Step::Any(steps) => steps.iter().any(|s| self.step(s, row)),
        }
    }

    fn leaf(&mut self, leaf: &Leaf, row: &impl Row) -> bool {
        for &(column, block) in &leaf.nulls {
            self.pass(block);
            if row.is_null(column) {
                return false;
            }
        }
        let blocks = leaf.blocks.as_slice();
        self.pass(blocks[0]);
        let holds = match &leaf.test {
            Test::Compare(op, a, b) => op.holds(self.eval(a, row), self.eval(b, row)),
            Test::IsNull(c) => row.is_null(*c),
            Test::Probe(bitmap, e) => {
                let key = self.eval(e, row);
                let bitmap = self.params.bitmaps.get(*bitmap);
                let inside = bitmap.is_some_and(|b| (key as u64) < b.bits());
                if inside {
                    self.pass(blocks[1]);
                }
                inside && bitmap.is_some_and(|b| b.holds(key))
            }
            Test::Candidate(c) => self.similarity(blocks, row.list(*c), Self::candidate),
            Test::Similar(c) => self.similarity(blocks, row.list(*c), Self::similar),
            Test::And(_) | Test::Or(_) | Test::Not(_) => unreachable!("invariant: normalised"),
        };
        holds != leaf.negated
    }

    fn similarity(
        &mut self,
        blocks: &[usize],
        list: &[u32],
        walk: fn(&mut Self, &[usize], &[u32], &Query) -> bool,
    ) -> bool {
        let query = self.params.query.as_ref().expect("invariant: parameters fit");
        if list.is_empty() {
            return false;
        }
        self.pass(blocks[1]);
        walk(self, &blocks[2..], list, query)
    }

    fn candidate(&mut self, blocks: &[usize], list: &[u32], query: &Query) -> bool {
        let &[equal, less, record, record_out, in_query, end] = blocks else {
            unreachable!("invariant: the generator's blocks of a candidate")
        };
        let (record_len, query_len) = query.prefixes(list.len());
        let (mut x, mut q) = (0, 0);
        loop {
            self.pass(equal);
            let (a, b) = (list[x], query.tokens()[q]);
            if a == b {
                return true;
            }
            self.pass(less);
            if a < b {
                self.pass(record);
                x += 1;
                if x == record_len {
                    self.pass(record_out);
                    break;
                }
            } else {
                self.pass(in_query);
                q += 1;
                if q == query_len {
                    break;
                }
            }
        }
        self.pass(end);
        false
    }

    fn similar(&mut self, blocks: &[usize], list: &[u32], query: &Query) -> bool {
        let &[equal, less, record, record_out, in_query, query_out, both, found, end] = blocks
        else {
            unreachable!("invariant: the generator's blocks of a similar record")
        };
        let mut need = query.overlap(list.len());
        let (mut spare, mut query_spare) = (list.len() - need, query.tokens().len() - need);
        let (mut x, mut q) = (0, 0);
        loop {
            self.pass(equal);
            let (a, b) = (list[x], query.tokens()[q]);
            if a == b {
                self.pass(both);
                (x, q, need) = (x + 1, q + 1, need - 1);
                if need == 0 {
                    self.pass(found);
                    return true;
                }
                continue;
            }
            self.pass(less);
            let (left, step, out) = if a < b {
                x += 1;
                (&mut spare, record, record_out)
            } else {
                q += 1;
                (&mut query_spare, in_query, query_out)
            };
            let ends = *left == 0;
            *left = left.saturating_sub(1);
            self.pass(step);
            if ends {
                self.pass(out);
                break;
            }
        }
        self.pass(end);
        false
    }

    fn eval(&self, e: &Expr, row: &impl Row) -> i64 {
        eval(e, row, self.params)
    }

    fn emit(&mut self, row: &impl Row) -> Result<(), Spilled> {
        match &self.plan.emit {
            Emit::Aggregate { keys, bound, count, sums } => {
                let mut slot = 0;
                for key in keys {
                    slot += self.key(key, row)?;
                }
                if let Some(bound) = bound {
                    self.pass(*bound);
                }
                let slot = usize::try_from(slot).ok().filter(|&s| s < self.plan.layout.slots);
                let slot = slot.ok_or(Spilled)? * self.plan.layout.scratch_words;
                self.pass(*count);
                self.scratch.words[slot] += 1;
                for (n, sum) in sums.iter().enumerate() {
                    self.sum(sum, n, slot, row);
                }
            }
            Emit::Rows { columns, blocks } => {
                blocks.iter().for_each(|&b| self.pass(b));
                for &(column, element) in columns {
                    if let Some(element) = element {
                        self.times(element, row.list(column).len());
                    }
                }
                pack(self.function, row, &mut self.rows);
            }
        }
        Ok(())
    }

    fn key(&mut self, key: &Key, row: &impl Row) -> Result<i64, Spilled> {
        let is_null = key.null.is_some() && row.is_null(key.column);
        if let Some([test, ..]) = key.null {
            self.pass(test);
        }
        let part = if is_null {
            key.values
        } else {
            self.pass(key.value);
            let part = row.value(key.column).wrapping_sub(key.low);
            if part as u64 >= key.values as u64 {
                return Err(Spilled);
            }
            part
        };
        if let Some([_, hop, null]) = key.null {
            self.pass(if is_null { null } else { hop });
        }
        self.pass(key.join);
        Ok(part * key.stride)
    }

    fn sum(&mut self, sum: &Sum, n: usize, slot: usize, row: &impl Row) {
        for &(column, block) in &sum.nulls {
            self.pass(block);
            if row.is_null(column) {
                return;
            }
        }
        self.pass(sum.add);
        let value = self.eval(&sum.expr, row);
        self.scratch.add(&self.plan.layout, n, slot, value);
    }
}

fn eval(e: &Expr, row: &impl Row, params: &Params) -> i64 {
    match e {
        Expr::Column(c) => row.value(*c),
        Expr::Constant(v) => *v,
        Expr::Param(p) => params.values[*p],
        Expr::Add(a, b) => eval(a, row, params).wrapping_add(eval(b, row, params)),
        Expr::Sub(a, b) => eval(a, row, params).wrapping_sub(eval(b, row, params)),
        Expr::Mul(a, b) => eval(a, row, params).wrapping_mul(eval(b, row, params)),
        Expr::Member(bitmap, a) => {
            let key = eval(a, row, params);
            params.bitmaps.get(*bitmap).is_some_and(|b| b.holds(key)).into()
        }
    }
}

/// Appends a record as READ_FILT returns it.
pub(super) fn pack(function: &Function, row: &impl Row, out: &mut Vec<u8>) {
    let Output::Rows(chosen) = &function.output else { return };
    let schema = &function.schema;
    let nullable: Vec<_> = chosen.iter().filter(|&&c| schema.columns[c].nullable).collect();
    for chunk in nullable.chunks(8) {
        let bit = |(n, &&c): (usize, &&usize)| u8::from(row.is_null(c)) << n;
        out.push(chunk.iter().enumerate().map(bit).sum());
    }
    for &c in chosen {
        let column = &schema.columns[c];
        if column.kind == page::ColumnKind::List {
            let list = row.list(c);
            out.extend((list.len() as u32).to_le_bytes());
            out.extend(list.iter().flat_map(|t| t.to_le_bytes()));
        } else {
            out.extend(&row.value(c).to_le_bytes()[..column.width()]);
        }
    }
}

/// A row of a column page, read where it is needed.
pub(super) struct ColumnRow<'a> {
    page: &'a [u8],
    row: usize,
    places: Vec<(Directory, usize, bool)>,
    /// Lists in use, by column.
    lists: Vec<(usize, Vec<u32>)>,
}

impl<'a> ColumnRow<'a> {
    pub(super) fn new(function: &Function, page: &'a [u8], rows: usize) -> ColumnRow<'a> {
        let schema = &function.schema;
        let place = |(n, c): (usize, &page::Column)| {
            let unsigned = c.kind == page::ColumnKind::Char;
            (page::directory(page, schema, rows, n), c.width(), unsigned)
        };
        let places = schema.columns.iter().enumerate().map(place).collect();
        let mut lists = Vec::new();
        let mut see = |c: usize| {
            let is_new = !lists.iter().any(|(n, _)| *n == c);
            if schema.columns[c].kind == page::ColumnKind::List && is_new {
                lists.push((c, Vec::new()));
            }
        };
        function.filter.columns(&mut see);
        function.output.columns(&mut see);
        ColumnRow { page, row: 0, places, lists }
    }

    pub(super) fn go(&mut self, row: usize) {
        self.row = row;
        for (c, list) in &mut self.lists {
            *list = columns::elements(self.page, &self.places[*c].0, row);
        }
    }
}

impl Row for ColumnRow<'_> {
    #[inline]
    fn value(&self, column: usize) -> i64 {
        let (place, width, unsigned) = &self.places[column];
        columns::integer(self.page, place.values + self.row * width, *width, *unsigned)
    }

    #[inline]
    fn is_null(&self, column: usize) -> bool {
        let nulls = self.places[column].0.nulls;
        nulls != 0 && columns::is_null(self.page, nulls, self.row)
    }

    fn list(&self, column: usize) -> &[u32] {
        self.lists.iter().find(|(c, _)| *c == column).map_or(&[], |(_, list)| list)
    }
}

/// The bytes of the field that begins at `at`.
fn field_at(page: &[u8], at: usize) -> &[u8] {
    let len = page[at..].iter().position(|&b| b == b'|');
    &page[at..at + len.expect("invariant: rows have their fields")]
}

/// A row of text as far as it is read; a value that is not read yet is its field's place.
struct TextRow {
    values: Vec<i64>,
    nulls: Vec<bool>,
    list: Vec<u32>,
}

impl TextRow {
    fn new(schema: &Schema) -> TextRow {
        let n = schema.columns.len();
        TextRow { values: vec![0; n], nulls: vec![false; n], list: Vec::new() }
    }
}

impl Row for TextRow {
    fn value(&self, column: usize) -> i64 {
        self.values[column]
    }

    fn is_null(&self, column: usize) -> bool {
        self.nulls[column]
    }

    fn list(&self, _: usize) -> &[u32] {
        &self.list
    }
}
