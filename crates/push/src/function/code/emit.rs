//! What is made of a record that passes: counts and sums in a slot of the scratch, or its columns
//! packed.

use super::expr::{REACH, is_small};
use super::{Emitter, OUT, SCRATCH, TEMPS};
use crate::error::Result;
use crate::function::ir::{Expr, Output};
use crate::function::layout::{Layout, SumPlace};
use crate::function::plan::{Emit, Key, Plan, Sum};
use crate::page::ColumnKind;
use littoral_la64::asm::Label;

/// Whether neither a shift nor a shift with an addition gives a product with this factor.
fn needs_product(factor: i64) -> bool {
    let is_shifted = |n: i64| n > 0 && n & (n - 1) == 0;
    let is_sum = (3..=17).contains(&factor) && is_shifted(factor - 1);
    !(is_shifted(factor) || is_sum)
}

/// The bytes of a slot as a factor and the shift of the addition that follows.
fn slot_factor(layout: &Layout) -> (i64, u32) {
    let bytes = 8 * layout.scratch_words as i64;
    let shift = bytes.trailing_zeros().min(4);
    (bytes >> shift, shift)
}

impl Emitter<'_> {
    /// What the output needs before the first row: where rows begin, kept in the scratch pointer.
    pub(super) fn emit_start(&mut self) {
        if matches!(self.function.output, Output::Rows(_)) {
            self.reg("or", [SCRATCH, OUT, 0]);
        }
    }

    /// Ends the function: the result, and the exit of a page that spills.
    pub(super) fn finish(&mut self, plan: &mut Plan, spill: Label) {
        plan.epilogue = self.block();
        match self.function.output {
            Output::Aggregate { .. } => self.reg("or", [4, 0, 0]),
            Output::Rows(_) => self.reg("sub.d", [4, OUT, SCRATCH]),
        }
        self.ret();
        self.asm.bind(spill);
        if matches!(&plan.emit, Emit::Aggregate { keys, .. } if !keys.is_empty()) {
            plan.spill = Some(self.block());
            self.li(4, 1);
            self.ret();
        }
    }

    pub(super) fn emit(&mut self, spill: Label) -> Result<Emit> {
        match &self.function.output {
            Output::Aggregate { sums, .. } => {
                let keys = self.keys(spill)?;
                self.aggregate(keys, sums, spill)
            }
            Output::Rows(columns) => self.rows(columns),
        }
    }

    /// Numbers that the keys of a group need in registers, the most useful first.
    pub(super) fn key_constants(&self) -> Result<Vec<Expr>> {
        let (strides, product) = self.function.group_strides()?;
        let layout = Layout::of(self.function);
        let bounds = strides.iter().map(|&(_, values, _)| values);
        let strides = strides.iter().map(|&(_, _, stride)| stride).filter(|&s| needs_product(s));
        let (words, _) = slot_factor(&layout);
        let table = (product > layout.slots as i64).then_some(layout.slots as i64);
        let words = needs_product(words).then_some(words);
        let all = bounds.chain(table).chain(strides).chain(words);
        let has_keys = product > 1;
        Ok(all.filter(|_| has_keys).map(Expr::Constant).collect())
    }

    /// The register with a number: its own, or `temp`.
    fn immediate(&mut self, value: i64, temp: u8) -> u8 {
        if let Some(&register) = self.constants.get(&Expr::Constant(value)) {
            return register;
        }
        self.li(temp, value);
        temp
    }

    /// `to = from x factor`; `temp` may be overwritten.
    fn scale(&mut self, to: u8, from: u8, factor: i64, temp: u8) {
        if needs_product(factor) {
            let factor = self.immediate(factor, temp);
            return self.reg("mul.d", [to, from, factor]);
        }
        let low = factor.trailing_zeros();
        if factor == 1 << low {
            return self.imm("slli.d", to, from, low.into());
        }
        let shift = (factor - 1).trailing_zeros();
        self.op("alsl.d", &[to.into(), from.into(), from.into(), shift.into()]);
    }

    /// The number of the record's group, in the first temporary.
    fn keys(&mut self, spill: Label) -> Result<Vec<Key>> {
        let (strides, _) = self.function.group_strides()?;
        let Output::Aggregate { keys, .. } = &self.function.output else { return Ok(Vec::new()) };
        let mut made = Vec::new();
        for (n, (&column, (low, values, stride))) in keys.iter().zip(strides).enumerate() {
            let slot = TEMPS[0];
            self.temps = 1;
            let part = if n == 0 { slot } else { self.temp()? };
            let (is_null, join) = (self.asm.label(), self.asm.label());
            let may_be_null = self.function.schema.columns[column].nullable
                && !self.known.present.contains(&column);
            let test = if may_be_null { Some(self.null_test(column, is_null)?) } else { None };
            let loaded = self.known.clone();
            let value = self.block();
            let v = self.column(column)?;
            let bound = self.temp()?;
            if is_small(low.wrapping_neg()) {
                self.imm("addi.d", part, v, -low);
            } else {
                self.li(bound, low.wrapping_neg());
                self.reg("add.d", [part, v, bound]);
            }
            let limit = self.immediate(values, bound);
            self.branch("bgeu", &[part, limit], spill);
            let null = match test {
                Some(test) => {
                    let hop = self.block();
                    self.jump(join);
                    self.asm.bind(is_null);
                    let block = self.block();
                    self.li(part, values);
                    self.known = loaded;
                    Some([test, hop, block])
                }
                None => {
                    self.asm.bind(is_null);
                    None
                }
            };
            self.asm.bind(join);
            let join = self.block();
            if stride != 1 {
                self.scale(part, part, stride, bound);
            }
            if n > 0 {
                self.reg("add.d", [slot, slot, part]);
            }
            made.push(Key { column, low, values, stride, null, value, join });
        }
        self.temps = 0;
        Ok(made)
    }

    fn aggregate(&mut self, keys: Vec<Key>, sums: &[Expr], spill: Label) -> Result<Emit> {
        let layout = Layout::of(self.function);
        let (_, product) = self.function.group_strides()?;
        let mut bound = None;
        if !keys.is_empty() && product > layout.slots as i64 {
            bound = Some(self.block());
            let slots = self.immediate(layout.slots as i64, TEMPS[1]);
            self.branch("bgeu", &[TEMPS[0], slots], spill);
        }
        let count = self.block();
        let slot = if keys.is_empty() { SCRATCH } else { TEMPS[0] };
        self.temps = usize::from(!keys.is_empty());
        let t = TEMPS[self.temps];
        if !keys.is_empty() {
            let (factor, shift) = slot_factor(&layout);
            if factor != 1 {
                self.scale(slot, slot, factor, t);
            }
            self.op("alsl.d", &[slot.into(), slot.into(), SCRATCH.into(), shift.into()]);
        }
        self.bump(slot, 0, t);
        let mut made = Vec::new();
        for (expr, place) in sums.iter().zip(&layout.sums) {
            made.push(self.sum(expr, place, slot)?);
        }
        self.temps = 0;
        Ok(Emit::Aggregate { keys, bound, count, sums: made })
    }

    /// Adds one to a word of the slot.
    fn bump(&mut self, slot: u8, word: usize, t: u8) {
        self.imm("ld.d", t, slot, 8 * word as i64);
        self.imm("addi.d", t, t, 1);
        self.imm("st.d", t, slot, 8 * word as i64);
    }

    fn sum(&mut self, expr: &Expr, place: &SumPlace, slot: u8) -> Result<Sum> {
        let mark = self.temps;
        let skip = self.asm.label();
        let present = self.known.present.clone();
        let nulls = self.null_tests(&expr.nullable(&self.function.schema), skip)?;
        let known = self.known.clone();
        let add = self.block();
        let value = self.eval(expr)?;
        // The value may be in the next temporary: the others are free.
        self.temps = mark + 1;
        let (t, low) = (self.temp()?, self.temp()?);
        let at = 8 * place.scratch as i64;
        self.imm("ld.d", t, slot, at);
        self.reg("add.d", [t, t, value]);
        self.imm("st.d", t, slot, at);
        if place.is_wide {
            self.reg("sltu", [t, t, value]);
            self.imm("ld.d", low, slot, at + 8);
            self.reg("add.d", [t, t, low]);
            self.imm("srai.d", low, value, 63);
            self.reg("add.d", [t, t, low]);
            self.imm("st.d", t, slot, at + 8);
        }
        if place.is_nullable {
            self.bump(slot, Layout::present(place).0, t);
        }
        if !nulls.is_empty() {
            self.known = known;
            self.known.present = present;
        }
        self.asm.bind(skip);
        self.temps = mark;
        Ok(Sum { expr: expr.clone(), nulls, add })
    }

    fn rows(&mut self, columns: &[usize]) -> Result<Emit> {
        let mut blocks = vec![self.block()];
        let mut made = Vec::new();
        let mut at = self.null_bits(columns)?;
        for &c in columns {
            let column = &self.function.schema.columns[c];
            if column.kind == ColumnKind::List {
                if at + 8 >= REACH as i64 {
                    self.imm("addi.d", OUT, OUT, at);
                    at = 0;
                }
                made.push((c, Some(self.list_out(c, at))));
                at = 0;
                blocks.push(self.block());
                continue;
            }
            let width = column.width();
            let value = self.column(c)?;
            let store = ["st.b", "st.h", "st.w", "st.d"][width.ilog2() as usize];
            if at + 8 >= REACH as i64 {
                self.imm("addi.d", OUT, OUT, at);
                at = 0;
            }
            self.imm(store, value, OUT, at);
            at += width as i64;
            self.temps = 0;
            made.push((c, None));
        }
        if at > 0 {
            self.imm("addi.d", OUT, OUT, at);
        }
        Ok(Emit::Rows { columns: made, blocks })
    }

    /// Writes the bytes with the NULLs of a record; their number.
    fn null_bits(&mut self, columns: &[usize]) -> Result<i64> {
        let nullable: Vec<usize> =
            columns.iter().copied().filter(|&c| self.function.schema.columns[c].nullable).collect();
        for (byte, chunk) in nullable.chunks(8).enumerate() {
            self.temps = 0;
            let bits = self.temp()?;
            self.reg("or", [bits, 0, 0]);
            for (bit, &c) in chunk.iter().enumerate() {
                let one = self.null_bit(c)?;
                self.imm("slli.d", one, one, bit as i64);
                self.reg("or", [bits, bits, one]);
            }
            self.imm("st.b", bits, OUT, byte as i64);
        }
        self.temps = 0;
        Ok(nullable.len().div_ceil(8) as i64)
    }

    /// Writes a list's number of elements at `at`, then them; moves the output behind them. The
    /// block of one element; what stands before the loop belongs to the block that is open.
    fn list_out(&mut self, c: usize, at: i64) -> usize {
        let [start, len, t, _, ..] = TEMPS;
        self.list_of_row(c, start, len);
        self.imm("st.w", len, OUT, at);
        self.imm("addi.d", OUT, OUT, at + 4);
        let (again, done) = (self.asm.label(), self.asm.label());
        self.branch("beqz", &[len], done);
        self.asm.bind(again);
        let element = self.block();
        self.imm("ld.wu", t, start, 0);
        self.imm("st.w", t, OUT, 0);
        self.imm("addi.d", start, start, 4);
        self.imm("addi.d", OUT, OUT, 4);
        self.imm("addi.d", len, len, -1);
        self.branch("bnez", &[len], again);
        self.asm.bind(done);
        element
    }
}
