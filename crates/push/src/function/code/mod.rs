//! The back end to LA64: one function per page, one that merges its scratch into the totals.
//!
//! Calls: `page(params, page, scratch, out)` gives 0, or 1 for a page that spills; of a function
//! that returns rows, the bytes written to `out`. `merge(scratch, totals)`. Both may change every
//! register but `sp` and `ra`. A text function keeps the list of a row in 256 KiB below `sp`.
//!
//! Registers: a0 to a3 as called, a4 the row (its number, or its place in the text), a5 the rows'
//! end, r10 to r16 temporaries, r17 to r20 and r22 to r31 the pool: bases of columns, constants,
//! values of the row. Column pages add r2, r21 and, where no records are written, a3 to the pool.

mod emit;
mod expr;
mod filter;
mod merge;
mod pax;
mod text;
mod uses;

use super::ir::{Expr, Function};
use super::layout::Layout;
use super::plan::{Block, Plan, Walk};
use crate::error::{Error, Kind, Result};
use crate::page::Format;
use littoral_la64::asm::{Asm, Label};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use uses::Uses;

/// Addresses of a compiled function.
#[derive(Clone, Debug)]
pub(super) struct Code {
    pub words: Vec<u32>,
    /// Place of the merge in `words`; 0 if there is none.
    pub merge: usize,
    pub plan: Plan,
}

const PARAMS: u8 = 4;
const PAGE: u8 = 5;
const SCRATCH: u8 = 6;
const OUT: u8 = 7;
const ROW: u8 = 8;
const END: u8 = 9;
const TEMPS: [u8; 7] = [10, 11, 12, 13, 14, 15, 16];
const POOL: [u8; 14] = [17, 18, 19, 20, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31];
/// Further registers of the pool of functions on column pages.
const MORE: [u8; 2] = [2, 21];
const SP: u8 = 3;

/// What the generator knows of the row it is in; forgotten where a test may not have run.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Columns in registers.
    loaded: BTreeMap<usize, u8>,
    /// Columns that are not NULL.
    present: BTreeSet<usize>,
    /// Values of expressions in registers.
    memo: HashMap<Expr, u8>,
    /// The row's number times a width, by the width's logarithm, in registers.
    index: BTreeMap<u32, u8>,
    pool: Vec<u8>,
}

/// Where a text row's value is kept.
#[derive(Clone, Copy, Debug)]
enum Home {
    Register(u8),
    /// Words below the stack pointer.
    Stack(i64),
}

/// The generator's state.
struct Emitter<'a> {
    asm: Asm,
    costs: Vec<u64>,
    function: &'a Function,
    format: Format,
    known: Known,
    uses: Uses,
    /// Numbers and parameters in registers.
    constants: HashMap<Expr, u8>,
    /// Addresses of columns in registers.
    bases: BTreeMap<usize, u8>,
    homes: BTreeMap<usize, Home>,
    /// The registers with a text row's list and its length.
    list: Option<(u8, u8)>,
    /// The register with the NULLs of a text row, and the columns of its bits.
    nulls: Option<u8>,
    null_columns: Vec<usize>,
    temps: usize,
}

/// Which way falls through behind a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    True,
    False,
}

/// Refuses sums of which a group's last ones lie beyond the reach of a load.
fn check_reach(function: &Function) -> Result<()> {
    let layout = Layout::of(function);
    if 8 * layout.scratch_words.max(layout.total_words) <= expr::REACH {
        return Ok(());
    }
    let what = format!(
        "{} sums in one scan: there are 127 at most, and 85 of values that may be NULL; ask for \
         them in several scans",
        layout.sums.len()
    );
    Err(Error::new(Kind::Unsupported, what))
}

pub(super) fn compile(function: &Function, format: Format) -> Result<Code> {
    check_reach(function)?;
    let mut e = Emitter::new(function, format);
    let mut plan = match format {
        Format::Columns => e.columns_function()?,
        Format::Text => e.text_function()?,
    };
    let merge = e.asm.len();
    plan.merge = e.merge_function(&plan.layout);
    plan.costs = std::mem::take(&mut e.costs);
    let words = e.asm.finish();
    let words = words.map_err(|x| Error::over(Kind::Unsupported, "a function's code", x))?;
    assert_eq!(plan.costs.iter().sum::<u64>() as usize, words.len(), "each word is in one block");
    Ok(Code { words, merge, plan })
}

impl<'a> Emitter<'a> {
    fn new(function: &'a Function, format: Format) -> Emitter<'a> {
        Emitter {
            asm: Asm::default(),
            costs: Vec::new(),
            function,
            format,
            known: Known { pool: POOL.iter().rev().copied().collect(), ..Known::default() },
            uses: Uses::of(function),
            constants: HashMap::new(),
            bases: BTreeMap::new(),
            homes: BTreeMap::new(),
            list: None,
            nulls: None,
            null_columns: Vec::new(),
            temps: 0,
        }
    }

    /// Begins a block.
    fn block(&mut self) -> Block {
        self.costs.push(0);
        self.costs.len() - 1
    }

    fn charge(&mut self, instructions: usize) {
        *self.costs.last_mut().expect("invariant: a block is open") += instructions as u64;
    }

    fn op(&mut self, mnemonic: &str, operands: &[i64]) {
        self.asm.op(mnemonic, operands);
        self.charge(1);
    }

    /// `op` on registers.
    fn reg(&mut self, mnemonic: &str, registers: [u8; 3]) {
        self.op(mnemonic, &registers.map(i64::from));
    }

    /// `op` on two registers and a number.
    fn imm(&mut self, mnemonic: &str, rd: u8, rj: u8, value: i64) {
        self.op(mnemonic, &[rd.into(), rj.into(), value]);
    }

    fn li(&mut self, rd: u8, value: i64) {
        let before = self.asm.len();
        self.asm.li(rd, value);
        let added = self.asm.len() - before;
        self.charge(added);
    }

    fn branch(&mut self, mnemonic: &str, registers: &[u8], label: Label) {
        let operands: Vec<i64> = registers.iter().map(|&r| r.into()).collect();
        self.asm.branch(mnemonic, &operands, label);
        self.charge(1);
    }

    fn jump(&mut self, label: Label) {
        self.branch("b", &[], label);
    }

    fn ret(&mut self) {
        self.asm.ret();
        self.charge(1);
    }

    fn temp(&mut self) -> Result<u8> {
        let temp = TEMPS.get(self.temps).copied();
        self.temps += 1;
        temp.ok_or_else(|| {
            let what = "an expression nests too deeply for the registers: split it";
            Error::new(Kind::Unsupported, what)
        })
    }

    /// Numbers and parameters of the function into registers of the pool, while at least `spare`
    /// remain.
    fn hoist(&mut self, wanted: &[Expr], spare: usize) {
        for expr in wanted {
            if self.constants.contains_key(expr) || self.known.pool.len() <= spare {
                continue;
            }
            let register = self.known.pool.pop().expect("invariant: more than spare");
            match expr {
                Expr::Constant(value) => self.li(register, *value),
                Expr::Param(p) => self.imm("ld.d", register, PARAMS, 8 * *p as i64),
                _ => unreachable!("only numbers and parameters are hoisted"),
            }
            self.constants.insert(expr.clone(), register);
        }
    }

    /// A number of the code itself, in a register of the pool.
    fn constant(&mut self, value: i64) -> u8 {
        self.hoist(&[Expr::Constant(value)], 0);
        self.constants[&Expr::Constant(value)]
    }
}

impl Plan {
    /// A plan whose parts are filled in by the walk.
    fn empty(function: &Function, walk: Walk, emit: super::plan::Emit) -> Plan {
        Plan {
            layout: super::layout::Layout::of(function),
            costs: Vec::new(),
            walk,
            prologue: 0,
            row: 0,
            next: 0,
            epilogue: 0,
            spill: None,
            emit,
            merge: None,
        }
    }
}
