//! Functions on column pages: rows by number, columns loaded when a test first needs them.

use super::{END, Emitter, MORE, OUT, PAGE, ROW};
use crate::error::Result;
use crate::function::ir::{Output, normalise};
use crate::function::plan::{Plan, Walk};
use crate::page::{ColumnKind, Format};

/// Registers left for values of a row when addresses of columns take theirs.
const FOR_VALUES: usize = 5;
/// The same when constants take theirs.
const FOR_LOADS: usize = 2;

impl Emitter<'_> {
    pub(super) fn columns_function(&mut self) -> Result<Plan> {
        let prologue = self.block();
        self.known.pool.extend(MORE);
        if let Output::Aggregate { .. } = self.function.output {
            self.known.pool.push(OUT);
        }
        self.imm("ld.wu", END, PAGE, 8);
        self.bases();
        let wanted = self.wanted();
        self.hoist(&wanted, FOR_LOADS);
        let of_keys = self.key_constants()?;
        self.hoist(&of_keys, self.uses.registers().max(FOR_LOADS));
        self.li(ROW, 0);
        let (end, next) = (self.asm.label(), self.asm.label());
        self.emit_start();
        self.branch("beqz", &[END], end);
        let top = self.asm.here();
        let at_row = self.known.clone();
        let row = self.block();
        let conjuncts = self.function.filter.conjuncts();
        let mut filter = Vec::new();
        for node in conjuncts.iter().map(|test| normalise(test, false)) {
            if !node.is_true() {
                filter.push(self.conjunct(&node, next)?);
            }
        }
        let spill = self.asm.label();
        let emit = self.emit(spill)?;
        self.known = at_row;
        self.asm.bind(next);
        let next = self.block();
        self.imm("addi.d", ROW, ROW, 1);
        self.branch("bltu", &[ROW, END], top);
        self.asm.bind(end);
        let mut plan = Plan::empty(self.function, Walk::Columns { filter }, emit);
        (plan.prologue, plan.row, plan.next) = (prologue, row, next);
        self.finish(&mut plan, spill);
        Ok(plan)
    }

    /// Addresses of the columns in use, while registers last.
    fn bases(&mut self) {
        let mut used = Vec::new();
        let mut see = |c: usize| {
            if !used.contains(&c) {
                used.push(c);
            }
        };
        self.function.filter.columns(&mut see);
        self.function.output.columns(&mut see);
        for c in used {
            let is_list = self.function.schema.columns[c].kind == ColumnKind::List;
            if is_list || self.known.pool.len() <= FOR_VALUES {
                continue;
            }
            let register = self.known.pool.pop().expect("invariant: more than FOR_VALUES");
            self.array(register, c);
            self.bases.insert(c, register);
        }
    }

    /// The elements of a row's list into `start`, their number into `len`.
    pub(super) fn list_of_row(&mut self, c: usize, start: u8, len: u8) {
        if self.format == Format::Text {
            let (list, count) = self.list.expect("invariant: a list is read before it is used");
            self.reg("or", [start, list, 0]);
            return self.reg("or", [len, count, 0]);
        }
        let t = super::TEMPS[2];
        self.array(start, c);
        self.op("alsl.d", &[t.into(), ROW.into(), start.into(), 2]);
        self.imm("ld.wu", len, t, 4);
        self.imm("ld.wu", t, t, 0);
        self.reg("sub.d", [len, len, t]);
        // Elements follow rows + 1 indices, at the next multiple of eight: 4 x ((rows + 2) & !1).
        let u = super::TEMPS[3];
        self.imm("addi.d", u, END, 2);
        self.op("bstrins.d", &[u.into(), 0, 0, 0]);
        self.reg("add.d", [u, u, t]);
        self.op("alsl.d", &[start.into(), u.into(), start.into(), 2]);
    }
}
