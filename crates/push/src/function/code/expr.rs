//! Expressions, columns and tests for NULL.

use super::{Emitter, Home, PAGE, PARAMS, ROW, SP};
use crate::error::Result;
use crate::function::ir::{Expr, Output, Test};
use crate::function::params::Params;
use crate::function::plan::Block;
use crate::page::{ColumnKind, Format, HEADER_LEN};
use littoral_la64::asm::Label;

/// Bytes behind an address that a load or store of it reaches.
pub(super) const REACH: usize = 2048;

/// Whether `addi.d` takes the number.
pub(super) fn is_small(value: i64) -> bool {
    (-2048..2048).contains(&value)
}

impl Emitter<'_> {
    /// The register with the value of `e`; columns that may be NULL are tested before.
    pub(super) fn eval(&mut self, e: &Expr) -> Result<u8> {
        if let Some(&register) = self.known.memo.get(e).or_else(|| self.constants.get(e)) {
            return Ok(register);
        }
        match e {
            Expr::Column(c) => self.column(*c),
            Expr::Constant(0) => Ok(0),
            Expr::Constant(value) => {
                let temp = self.temp()?;
                self.li(temp, *value);
                Ok(temp)
            }
            Expr::Param(p) => {
                let temp = self.temp()?;
                self.imm("ld.d", temp, PARAMS, 8 * *p as i64);
                Ok(temp)
            }
            Expr::Add(a, b) => match (&**a, &**b) {
                (x, Expr::Constant(v)) | (Expr::Constant(v), x) if is_small(*v) => {
                    self.add_small(e, x, *v)
                }
                (a, b) => self.binary(e, "add.d", a, b),
            },
            Expr::Sub(a, b) => match **b {
                Expr::Constant(v) if is_small(v.wrapping_neg()) => self.add_small(e, a, -v),
                _ => self.binary(e, "sub.d", a, b),
            },
            Expr::Mul(a, b) => self.binary(e, "mul.d", a, b),
            Expr::Member(bitmap, a) => self.member(e, *bitmap, a),
        }
    }

    /// The register that the value of `e` is computed into: one of the pool if the value is needed
    /// again, else the temporary at `mark`.
    fn result(&mut self, e: &Expr, mark: usize) -> Result<u8> {
        self.temps = mark;
        let spare = if self.uses.is_shared(e) { self.known.pool.pop() } else { None };
        match spare {
            Some(register) => {
                self.known.memo.insert(e.clone(), register);
                Ok(register)
            }
            None => self.temp(),
        }
    }

    /// A bit of a bitmap, without a branch: a key outside reads bit 0 and is masked.
    fn member(&mut self, e: &Expr, bitmap: usize, key: &Expr) -> Result<u8> {
        let entry = Params::bitmap_entry(self.function.params.len(), bitmap);
        let mark = self.temps;
        let key = self.eval(key)?;
        // The result may not take the key's register before the last use of the key.
        self.temps = mark + 1;
        let (inside, at, word) = (self.temp()?, self.temp()?, self.temp()?);
        self.imm("ld.d", inside, PARAMS, entry + 8);
        self.reg("sltu", [inside, key, inside]);
        self.reg("maskeqz", [at, key, inside]);
        self.imm("ld.d", word, PARAMS, entry);
        self.reg("add.d", [word, word, PARAMS]);
        self.imm("srli.d", at, at, 6);
        self.op("alsl.d", &[word.into(), at.into(), word.into(), 3]);
        self.imm("ld.d", word, word, 0);
        self.reg("srl.d", [word, word, key]);
        let rd = self.result(e, mark)?;
        self.reg("and", [rd, word, inside]);
        Ok(rd)
    }

    fn add_small(&mut self, e: &Expr, a: &Expr, value: i64) -> Result<u8> {
        let mark = self.temps;
        let a = self.eval(a)?;
        let rd = self.result(e, mark)?;
        self.imm("addi.d", rd, a, value);
        Ok(rd)
    }

    fn binary(&mut self, e: &Expr, mnemonic: &str, a: &Expr, b: &Expr) -> Result<u8> {
        let mark = self.temps;
        let a = self.eval(a)?;
        let b = self.eval(b)?;
        let rd = self.result(e, mark)?;
        self.reg(mnemonic, [rd, a, b]);
        Ok(rd)
    }

    /// The register with a column's value of this row.
    pub(super) fn column(&mut self, c: usize) -> Result<u8> {
        if self.format == Format::Text {
            return match self.homes[&c] {
                Home::Register(register) => Ok(register),
                Home::Stack(offset) => {
                    let temp = self.temp()?;
                    self.imm("ld.d", temp, SP, offset);
                    Ok(temp)
                }
            };
        }
        if let Some(&register) = self.known.loaded.get(&c) {
            return Ok(register);
        }
        let column = &self.function.schema.columns[c];
        let (shift, is_char) = (column.width().ilog2(), column.kind == ColumnKind::Char);
        let index = self.index(shift);
        let spare = if self.uses.is_column_shared(c) { self.known.pool.pop() } else { None };
        let register = match spare {
            Some(register) => {
                self.known.loaded.insert(c, register);
                register
            }
            None => self.temp()?,
        };
        let base = self.base(c, register);
        match index {
            Some(index) => {
                let indexed = ["ldx.b", "ldx.h", "ldx.w", "ldx.d"][shift as usize];
                let load = if is_char { "ldx.bu" } else { indexed };
                self.reg(load, [register, base, index]);
            }
            None => {
                self.op("alsl.d", &[register.into(), ROW.into(), base.into(), shift.into()]);
                let load = ["ld.b", "ld.h", "ld.w", "ld.d"][shift as usize];
                self.imm(load, register, register, 0);
            }
        }
        Ok(register)
    }

    /// The register with the row's number times `1 << shift`, if there is one.
    fn index(&mut self, shift: u32) -> Option<u8> {
        if shift == 0 {
            return Some(ROW);
        }
        if let Some(&register) = self.known.index.get(&shift) {
            return Some(register);
        }
        let is_shared = self.uses.is_width_shared(shift);
        let register = if is_shared { self.known.pool.pop() } else { None }?;
        self.imm("slli.d", register, ROW, shift.into());
        self.known.index.insert(shift, register);
        Some(register)
    }

    /// The address of a column's values, or of its list's indices.
    pub(super) fn array(&mut self, register: u8, c: usize) {
        self.entry(register, HEADER_LEN + 8 * c);
    }

    /// The address that the directory's word at `at` has as an offset in the page.
    fn entry(&mut self, register: u8, at: usize) {
        // The entries of the last columns lie beyond the reach of a load.
        let (from, at) = if at < REACH { (PAGE, at) } else { (register, at - REACH / 2) };
        if from == register {
            self.imm("addi.d", register, PAGE, (REACH / 2) as i64);
        }
        self.imm("ld.wu", register, from, at as i64);
        self.reg("add.d", [register, register, PAGE]);
    }

    /// The register with the address of a column's values: its own, or `temp`.
    pub(super) fn base(&mut self, c: usize, temp: u8) -> u8 {
        match self.bases.get(&c) {
            Some(&base) => base,
            None => {
                self.array(temp, c);
                temp
            }
        }
    }

    /// A block that jumps to `null` if the column is NULL.
    pub(super) fn null_test(&mut self, c: usize, null: Label) -> Result<Block> {
        let block = self.block();
        self.null_bit(c)?;
        let bit = super::TEMPS[self.temps];
        self.branch("bnez", &[bit], null);
        Ok(block)
    }

    /// Whether the column is NULL, as 0 or 1 in the next temporary.
    pub(super) fn null_bit(&mut self, c: usize) -> Result<u8> {
        let mark = self.temps;
        let (t, u) = (self.temp()?, self.temp()?);
        self.temps = mark;
        if self.format == Format::Text {
            let nulls = self.nulls.expect("invariant: a nullable column is read");
            let bit = self.null_columns.iter().position(|&n| n == c);
            let bit = bit.expect("invariant: listed when planned") as i64;
            self.op("bstrpick.d", &[t.into(), nulls.into(), bit, bit]);
            return Ok(t);
        }
        self.entry(t, HEADER_LEN + 8 * c + 4);
        self.imm("srli.d", u, ROW, 6);
        self.op("alsl.d", &[t.into(), u.into(), t.into(), 3]);
        self.imm("ld.d", t, t, 0);
        self.reg("srl.d", [t, t, ROW]);
        self.imm("andi", t, t, 1);
        Ok(t)
    }

    /// Blocks that jump to `null` if one of the columns is NULL; known columns are left out.
    pub(super) fn null_tests(
        &mut self,
        columns: &[usize],
        null: Label,
    ) -> Result<Vec<(usize, Block)>> {
        let mut tests = Vec::new();
        for &c in columns {
            if !self.known.present.contains(&c) {
                tests.push((c, self.null_test(c, null)?));
                self.known.present.insert(c);
            }
        }
        Ok(tests)
    }

    /// Numbers and parameters that need a register: all parameters, and numbers beyond `addi.d` or
    /// compared.
    pub(super) fn wanted(&self) -> Vec<Expr> {
        let mut wanted = Vec::new();
        test_constants(&self.function.filter, &mut wanted);
        if let Output::Aggregate { sums, .. } = &self.function.output {
            sums.iter().for_each(|e| constants(e, &mut wanted));
        }
        wanted
    }
}

fn constants(e: &Expr, wanted: &mut Vec<Expr>) {
    match e {
        Expr::Param(_) => wanted.push(e.clone()),
        Expr::Constant(v) if *v != 0 => wanted.push(e.clone()),
        Expr::Add(a, b) => {
            let folded = |x: &Expr| matches!(x, Expr::Constant(v) if is_small(*v));
            [a, b].into_iter().filter(|x| !folded(x)).for_each(|x| constants(x, wanted));
        }
        Expr::Sub(a, b) => {
            constants(a, wanted);
            let folded = matches!(**b, Expr::Constant(v) if is_small(v.wrapping_neg()));
            if !folded {
                constants(b, wanted);
            }
        }
        Expr::Mul(a, b) => {
            constants(a, wanted);
            constants(b, wanted);
        }
        Expr::Member(_, a) => constants(a, wanted),
        _ => {}
    }
}

fn test_constants(test: &Test, wanted: &mut Vec<Expr>) {
    match test {
        Test::Compare(_, a, b) => {
            constants(a, wanted);
            constants(b, wanted);
        }
        Test::Probe(_, e) => constants(e, wanted),
        Test::And(tests) | Test::Or(tests) => tests.iter().for_each(|t| test_constants(t, wanted)),
        Test::Not(test) => test_constants(test, wanted),
        Test::IsNull(_) | Test::Candidate(_) | Test::Similar(_) => {}
    }
}
