//! Functions on text pages: a pass over the row notes where the fields in use begin; then tests in
//! the query's order, each behind the numbers it needs. A list is read in the first pass.

use super::{END, Emitter, Home, PAGE, ROW, SP, TEMPS};
use crate::error::{Error, Kind, Result};
use crate::function::ir::normalise;
use crate::function::plan::{Field, Plan, Read, Stage, Walk};
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
        let last = used.last().map_or(0, |last| last + 1);
        let fields = (0..last).map(|c| self.field(c, used.contains(&c), ten, bar)).collect();
        let mut unread: Vec<usize> =
            used.iter().copied().filter(|c| self.homes.contains_key(c)).collect();
        let mut stages = Vec::new();
        for test in self.function.filter.conjuncts() {
            let node = normalise(&test, false);
            if node.is_true() {
                continue;
            }
            let mut needs = Vec::new();
            test.columns(&mut |c| needs.push(c));
            let reads = self.reads(&mut unread, &needs, ten);
            let test = Some(self.conjunct(&node, next)?);
            stages.push(Stage { reads, test });
        }
        let all = unread.clone();
        stages.push(Stage { reads: self.reads(&mut unread, &all, ten), test: None });
        let spill = self.asm.label();
        let emit = self.emit(spill)?;
        self.asm.bind(next);
        let tail = self.skip_to(ten);
        let next = self.block();
        self.branch("bltu", &[ROW, END], top);
        self.asm.bind(end);
        let walk = Walk::Text { fields, stages, tail };
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

    /// Passes one field: notes its place, or reads it if it is a list.
    fn field(&mut self, column: usize, is_used: bool, ten: u8, bar: u8) -> Field {
        if self.function.schema.columns[column].kind == ColumnKind::List && is_used {
            return Field { column, note: None, read: self.list_field(ten) };
        }
        let note = is_used.then(|| {
            let block = self.block();
            self.note_null(column);
            match self.homes[&column] {
                Home::Register(register) => self.reg("or", [register, ROW, 0]),
                Home::Stack(offset) => self.imm("st.d", ROW, SP, offset),
            }
            block
        });
        Field { column, note, read: Read::Skip { byte: self.skip_to(bar) } }
    }

    /// Reads the columns among `needs` that are still `unread`.
    fn reads(&mut self, unread: &mut Vec<usize>, needs: &[usize], ten: u8) -> Vec<(usize, Read)> {
        let (now, later) = unread.iter().partition(|c| needs.contains(c));
        *unread = later;
        let now: Vec<usize> = now;
        now.into_iter().map(|c| (c, self.number(c, ten))).collect()
    }

    /// Reads a number from where its column's home says, into that home.
    fn number(&mut self, c: usize, ten: u8) -> Read {
        let column = &self.function.schema.columns[c];
        let (kind, signed) = (column.kind, column.is_signed());
        let [byte_at, next, sign, value_at, from, ..] = TEMPS;
        let home = self.homes[&c];
        let start = self.block();
        let value = match home {
            Home::Register(register) => register,
            Home::Stack(_) => value_at,
        };
        match home {
            Home::Register(register) => self.reg("or", [from, register, 0]),
            Home::Stack(offset) => self.imm("ld.d", from, SP, offset),
        }
        if kind == ColumnKind::Char {
            self.imm("ld.bu", value, from, 0);
            self.imm("addi.d", byte_at, value, -i64::from(b'|'));
            self.reg("maskeqz", [value, value, byte_at]);
            self.keep(home, value);
            return Read::Char { start };
        }
        if signed {
            self.imm("ld.bu", sign, from, 0);
            self.imm("addi.d", sign, sign, -i64::from(b'-'));
            self.imm("sltui", sign, sign, 1);
        }
        self.reg("or", [value, 0, 0]);
        let (again, other_at) = (self.asm.here(), self.asm.label());
        let (byte, digit) = self.digit(from, value, ten, again, other_at);
        self.asm.bind(other_at);
        let other = self.block();
        self.imm("addi.d", next, byte_at, i64::from(b'0') - i64::from(b'|'));
        self.branch("bnez", &[next], again);
        let end = self.block();
        if signed {
            self.reg("sub.d", [byte_at, 0, sign]);
            self.reg("xor", [value, value, byte_at]);
            self.reg("add.d", [value, value, sign]);
        }
        self.keep(home, value);
        Read::Number { start, byte, digit, other, end }
    }

    /// The blocks of a byte at `from` and of a digit: the byte less `0` in the first temporary, to
    /// `other` if it is no digit, else into `value` and `again`.
    fn digit(
        &mut self,
        from: u8,
        value: u8,
        ten: u8,
        again: Label,
        other: Label,
    ) -> (usize, usize) {
        let [c, t, ..] = TEMPS;
        let byte = self.block();
        self.imm("ld.bu", c, from, 0);
        self.imm("addi.d", from, from, 1);
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
        let (byte, digit) = self.digit(ROW, value, ten, again, other_at);
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
