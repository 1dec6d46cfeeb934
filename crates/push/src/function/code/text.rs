//! Functions on text pages: fields in order, each read or skipped, tests as soon as their columns
//! are read.

use super::{END, Emitter, Home, PAGE, ROW, SP, TEMPS};
use crate::error::{Error, Kind, Result};
use crate::function::ir::{Test, normalise};
use crate::function::plan::{Field, Plan, Read, Step, Walk};
use crate::page::{ColumnKind, HEADER_LEN};
use littoral_la64::asm::Label;

/// Bytes below the stack pointer that hold a row's list, over the words of columns without
/// register.
const LIST_BYTES: i64 = 1 << 18;

impl Emitter<'_> {
    pub(super) fn text_function(&mut self) -> Result<Plan> {
        let used = self.used_columns()?;
        let prologue = self.block();
        self.imm("addi.d", ROW, PAGE, HEADER_LEN as i64);
        self.imm("ld.wu", END, PAGE, 12);
        self.reg("add.d", [END, END, PAGE]);
        // Ten is the end of the digits and, as a byte, the line feed.
        let (ten, bar) = (self.constant(b'\n'.into()), self.constant(b'|'.into()));
        self.homes(&used);
        let wanted = self.wanted();
        self.hoist(&wanted, 0);
        let (end, next) = (self.asm.label(), self.asm.label());
        self.emit_start();
        self.branch("bgeu", &[ROW, END], end);
        let top = self.asm.here();
        let row = self.block();
        if let Some(nulls) = self.nulls {
            self.reg("or", [nulls, 0, 0]);
        }
        let mut conjuncts = self.function.filter.conjuncts();
        let first = self.ready(&mut conjuncts, None, next)?;
        let mut fields = Vec::new();
        for column in 0..used.last().map_or(0, |last| last + 1) {
            let read = self.field(column, used.contains(&column), ten, bar);
            let tests = self.ready(&mut conjuncts, Some(column), next)?;
            fields.push(Field { column, read, tests });
        }
        let spill = self.asm.label();
        let emit = self.emit(spill)?;
        self.asm.bind(next);
        let tail = self.skip_to(ten);
        let next = self.block();
        self.branch("bltu", &[ROW, END], top);
        self.asm.bind(end);
        let walk = Walk::Text { fields, first, tail };
        let mut plan = Plan::empty(self.function, walk, emit);
        (plan.prologue, plan.row, plan.next) = (prologue, row, next);
        self.finish(&mut plan, spill);
        Ok(plan)
    }

    /// Columns in use, ascending.
    fn used_columns(&self) -> Result<Vec<usize>> {
        let mut used = Vec::new();
        self.function.filter.columns(&mut |c| used.push(c));
        self.function.output.columns(&mut |c| used.push(c));
        used.sort_unstable();
        used.dedup();
        let columns = &self.function.schema.columns;
        let lists = used.iter().filter(|&&c| columns[c].kind == ColumnKind::List).count();
        let nullable = used.iter().filter(|&&c| columns[c].nullable).count();
        if lists > 1 || nullable > 64 || used.len() > 200 {
            let what = "a function on text uses one list, 64 columns with NULL and 200 at most";
            return Err(Error::new(Kind::Unsupported, what));
        }
        Ok(used)
    }

    /// Gives every column in use a register, or a word below the stack pointer.
    fn homes(&mut self, used: &[usize]) {
        let columns = &self.function.schema.columns;
        self.null_columns = used.iter().copied().filter(|&c| columns[c].nullable).collect();
        let take = |e: &mut Self| e.known.pool.pop().expect("invariant: the pool is larger");
        if !self.null_columns.is_empty() {
            self.nulls = Some(take(self));
        }
        if used.iter().any(|&c| columns[c].kind == ColumnKind::List) {
            let (list, count) = (take(self), take(self));
            self.li(TEMPS[0], -(LIST_BYTES + 2048));
            self.reg("add.d", [list, SP, TEMPS[0]]);
            self.list = Some((list, count));
        }
        let mut below = 0;
        for &c in used.iter().filter(|&&c| columns[c].is_number()) {
            let home = match self.known.pool.pop() {
                Some(register) => Home::Register(register),
                None => {
                    below -= 8;
                    Home::Stack(below)
                }
            };
            self.homes.insert(c, home);
        }
    }

    /// Emits the tests that need no column behind `column` and takes them out of `conjuncts`.
    fn ready(
        &mut self,
        conjuncts: &mut Vec<Test>,
        column: Option<usize>,
        fail: Label,
    ) -> Result<Vec<Step>> {
        let last = |test: &Test| {
            let mut last = None;
            test.columns(&mut |c| last = last.max(Some(c)));
            last
        };
        let (now, later) = conjuncts.drain(..).partition(|t| last(t) <= column);
        *conjuncts = later;
        let now: Vec<Test> = now;
        now.iter().map(|t| self.conjunct(&normalise(t, false), fail)).collect()
    }

    /// Reads one field, or skips it.
    fn field(&mut self, c: usize, is_used: bool, ten: u8, bar: u8) -> Read {
        if !is_used {
            return Read::Skip { byte: self.skip_to(bar) };
        }
        let column = &self.function.schema.columns[c];
        let (kind, signed) = (column.kind, column.is_signed());
        if kind == ColumnKind::List {
            return self.list_field(ten);
        }
        let home = self.homes[&c];
        let value = match home {
            Home::Register(register) => register,
            Home::Stack(_) => TEMPS[3],
        };
        let start = self.block();
        self.note_null(c);
        if kind == ColumnKind::Char {
            self.imm("ld.bu", value, ROW, 0);
            self.imm("addi.d", TEMPS[0], value, -i64::from(b'|'));
            self.reg("maskeqz", [value, value, TEMPS[0]]);
            self.keep(home, value);
            return Read::Char { start, byte: self.skip_to(bar) };
        }
        let sign = TEMPS[2];
        if signed {
            self.imm("ld.bu", sign, ROW, 0);
            self.imm("addi.d", sign, sign, -i64::from(b'-'));
            self.imm("sltui", sign, sign, 1);
        }
        self.reg("or", [value, 0, 0]);
        let (again, other_at) = (self.asm.here(), self.asm.label());
        let (byte, digit) = self.digit(value, ten, again, other_at);
        self.asm.bind(other_at);
        let other = self.block();
        self.imm("addi.d", TEMPS[1], TEMPS[0], i64::from(b'0') - i64::from(b'|'));
        self.branch("bnez", &[TEMPS[1]], again);
        let end = self.block();
        if signed {
            self.reg("sub.d", [TEMPS[0], 0, sign]);
            self.reg("xor", [value, value, TEMPS[0]]);
            self.reg("add.d", [value, value, sign]);
        }
        self.keep(home, value);
        Read::Number { start, byte, digit, other, end }
    }

    /// The blocks of a byte and of a digit: the byte less `0` in the first temporary, to `other` if
    /// it is no digit, else into `value` and `again`.
    fn digit(&mut self, value: u8, ten: u8, again: Label, other: Label) -> (usize, usize) {
        let [c, t, ..] = TEMPS;
        let byte = self.block();
        self.imm("ld.bu", c, ROW, 0);
        self.imm("addi.d", ROW, ROW, 1);
        self.imm("addi.d", c, c, -i64::from(b'0'));
        self.branch("bgeu", &[c, ten], other);
        let digit = self.block();
        self.op("alsl.d", &[t.into(), value.into(), value.into(), 2]);
        self.op("alsl.d", &[value.into(), t.into(), c.into(), 1]);
        self.jump(again);
        (byte, digit)
    }

    fn list_field(&mut self, ten: u8) -> Read {
        let (list, count) = self.list.expect("invariant: planned with the homes");
        let [c, t, value, place, ..] = TEMPS;
        let start = self.block();
        self.reg("or", [place, list, 0]);
        self.reg("or", [value, 0, 0]);
        let (again, other_at, no_space) = (self.asm.here(), self.asm.label(), self.asm.label());
        let (byte, digit) = self.digit(value, ten, again, other_at);
        self.asm.bind(other_at);
        let other = self.block();
        self.imm("addi.d", t, c, i64::from(b'0') - i64::from(b' '));
        self.branch("bnez", &[t], no_space);
        let token = self.block();
        self.imm("st.w", value, place, 0);
        self.imm("addi.d", place, place, 4);
        self.reg("or", [value, 0, 0]);
        self.jump(again);
        self.asm.bind(no_space);
        let behind = self.block();
        self.imm("addi.d", t, c, i64::from(b'0') - i64::from(b'|'));
        self.branch("bnez", &[t], again);
        let end = self.block();
        self.reg("sub.d", [count, place, list]);
        self.imm("srli.d", count, count, 2);
        Read::List { start, byte, digit, other, token, behind, end }
    }

    /// Notes in the row's bits that a field is empty.
    fn note_null(&mut self, c: usize) {
        let (Some(nulls), Some(bit)) = (self.nulls, self.null_columns.iter().position(|&n| n == c))
        else {
            return;
        };
        let t = TEMPS[0];
        self.imm("ld.bu", t, ROW, 0);
        self.imm("addi.d", t, t, -i64::from(b'|'));
        self.imm("sltui", t, t, 1);
        self.imm("slli.d", t, t, bit as i64);
        self.reg("or", [nulls, nulls, t]);
    }

    fn keep(&mut self, home: Home, value: u8) {
        if let Home::Stack(offset) = home {
            self.imm("st.d", value, SP, offset);
        }
    }

    /// A loop to behind the next byte `stop`; the block of one byte.
    fn skip_to(&mut self, stop: u8) -> usize {
        let again = self.asm.here();
        let byte = self.block();
        self.imm("ld.bu", TEMPS[0], ROW, 0);
        self.imm("addi.d", ROW, ROW, 1);
        self.branch("bne", &[TEMPS[0], stop], again);
        byte
    }
}
