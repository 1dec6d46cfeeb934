//! How often a record's computation needs a column or an expression: what is needed once stays in a
//! temporary, what is needed again gets a register of the pool.
//!
//! Invariants
//! - Counts steer the choice of registers alone: any count gives correct code. Checked by
//!   `prop_functions`.

use crate::function::ir::{Expr, Function, Output, Test};
use crate::page::ColumnKind;
use std::collections::{BTreeMap, HashMap};

/// Places at which the code needs values.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    columns: BTreeMap<usize, u32>,
    /// Expressions with operands; parts of an expression that came before are not counted again.
    composites: HashMap<Expr, u32>,
    /// Columns in use by the logarithm of their width.
    widths: BTreeMap<u32, u32>,
}

impl Uses {
    pub(super) fn of(function: &Function) -> Uses {
        let mut uses = Uses::default();
        uses.test(&function.filter);
        match &function.output {
            Output::Aggregate { keys, sums } => {
                keys.iter().for_each(|&key| uses.column(key));
                sums.iter().for_each(|sum| uses.expr(sum));
            }
            Output::Rows(columns) => columns.iter().for_each(|&c| uses.column(c)),
        }
        for &c in uses.columns.keys() {
            let column = &function.schema.columns[c];
            if column.kind != ColumnKind::List {
                *uses.widths.entry(column.width().ilog2()).or_insert(0) += 1;
            }
        }
        uses
    }

    fn column(&mut self, c: usize) {
        *self.columns.entry(c).or_insert(0) += 1;
    }

    fn expr(&mut self, e: &Expr) {
        let parts: &[&Expr] = match e {
            Expr::Column(c) => return self.column(*c),
            Expr::Constant(_) | Expr::Param(_) => return,
            Expr::Add(a, b) | Expr::Sub(a, b) | Expr::Mul(a, b) => &[a, b],
            Expr::Member(_, a) => &[a],
        };
        let count = self.composites.entry(e.clone()).or_insert(0);
        *count += 1;
        if *count == 1 {
            parts.iter().for_each(|part| self.expr(part));
        }
    }

    fn test(&mut self, test: &Test) {
        match test {
            Test::Compare(_, a, b) => {
                self.expr(a);
                self.expr(b);
            }
            Test::Probe(_, e) => self.expr(e),
            Test::And(tests) | Test::Or(tests) => tests.iter().for_each(|t| self.test(t)),
            Test::Not(test) => self.test(test),
            Test::IsNull(_) | Test::Candidate(_) | Test::Similar(_) => {}
        }
    }

    /// Whether a column is needed again behind its first use.
    pub(super) fn is_column_shared(&self, c: usize) -> bool {
        self.columns.get(&c).is_some_and(|&n| n > 1)
    }

    /// Whether an expression is needed again behind its first use.
    pub(super) fn is_shared(&self, e: &Expr) -> bool {
        self.composites.get(e).is_some_and(|&n| n > 1)
    }

    /// Whether columns of this width share the row's offset; bytes need none.
    pub(super) fn is_width_shared(&self, shift: u32) -> bool {
        shift > 0 && self.widths.get(&shift).is_some_and(|&n| n > 1)
    }

    /// Registers that hold a row's values, if there are as many.
    pub(super) fn registers(&self) -> usize {
        let columns = self.columns.keys().filter(|&&c| self.is_column_shared(c)).count();
        let composites = self.composites.keys().filter(|e| self.is_shared(e)).count();
        let widths = self.widths.keys().filter(|&&w| self.is_width_shared(w)).count();
        columns + composites + widths
    }
}
