//! Filters: tests and their blocks.
//!
//! Blocks of a leaf, behind its tests for NULL: of a comparison, one; of `IsNull`, one; of a probe,
//! the test against the bitmap's length and that of the bit; of a candidate, the test for an empty
//! list, the set-up, then per step the load and test for equality, the comparison, a step in the
//! record, a step in the query; of a similar record, the same with a block for a shared token.

use super::{Emitter, Next, PARAMS, TEMPS};
use crate::error::Result;
use crate::function::ir::{Compare, Expr, Node, Test};
use crate::function::params::Params;
use crate::function::plan::{Leaf, Step};
use littoral_la64::asm::Label;

/// Where a test leads.
#[derive(Clone, Copy)]
pub(super) struct Ways {
    pub yes: Label,
    pub no: Label,
    /// Which of the two labels is bound behind the test.
    pub next: Next,
}

impl Ways {
    fn turned(self) -> Ways {
        let next = if self.next == Next::True { Next::False } else { Next::True };
        Ways { yes: self.no, no: self.yes, next }
    }
}

impl Emitter<'_> {
    /// A test that every row makes: what it loads stays known if it falls through.
    pub(super) fn conjunct(&mut self, node: &Node, fail: Label) -> Result<Step> {
        let yes = self.asm.label();
        let ways = Ways { yes, no: fail, next: Next::True };
        let step = match node {
            Node::Leaf { test, negated } => self.leaf(test, *negated, ways),
            other => self.node(other, ways),
        };
        self.asm.bind(yes);
        step
    }

    fn node(&mut self, node: &Node, ways: Ways) -> Result<Step> {
        let known = self.known.clone();
        let step = match node {
            Node::Leaf { test, negated } => self.leaf(test, *negated, ways)?,
            Node::All(nodes) => Step::All(self.nodes(nodes, ways, Next::True)?),
            Node::Any(nodes) => Step::Any(self.nodes(nodes, ways, Next::False)?),
        };
        self.known = known;
        Ok(step)
    }

    /// All of `nodes` but the last continue with the next one if they end as `go_on` says.
    fn nodes(&mut self, nodes: &[Node], ways: Ways, go_on: Next) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        for (n, node) in nodes.iter().enumerate() {
            if n + 1 == nodes.len() {
                steps.push(self.node(node, ways)?);
                break;
            }
            let on = self.asm.label();
            let inner = match go_on {
                Next::True => Ways { yes: on, next: go_on, ..ways },
                Next::False => Ways { no: on, next: go_on, ..ways },
            };
            steps.push(self.node(node, inner)?);
            self.asm.bind(on);
        }
        if nodes.is_empty() {
            // Nothing to test: all of none holds, one of none does not.
            self.block();
            let (to, falls) =
                if go_on == Next::True { (ways.yes, Next::True) } else { (ways.no, Next::False) };
            if ways.next != falls {
                self.jump(to);
            }
            let block = self.costs.len() - 1;
            let nothing = Leaf {
                test: Test::Compare(Compare::Equal, Expr::Constant(0), Expr::Constant(0)),
                negated: go_on == Next::False,
                nulls: Vec::new(),
                blocks: vec![block],
            };
            steps.push(Step::Leaf(nothing));
        }
        Ok(steps)
    }

    fn leaf(&mut self, test: &Test, negated: bool, ways: Ways) -> Result<Step> {
        let mark = self.temps;
        let schema = &self.function.schema;
        let columns = match test {
            Test::Compare(_, a, b) => {
                let mut columns = a.nullable(schema);
                let more = b.nullable(schema);
                columns.extend(more.into_iter().filter(|c| !a.nullable(schema).contains(c)));
                columns
            }
            Test::Probe(_, e) => e.nullable(schema),
            _ => Vec::new(),
        };
        let nulls = self.null_tests(&columns, ways.no)?;
        let ways = if negated { ways.turned() } else { ways };
        let blocks = match test {
            Test::Compare(op, a, b) => self.compare(*op, a, b, ways)?,
            Test::IsNull(c) => self.is_null(*c, ways)?,
            Test::Probe(bitmap, e) => self.probe(*bitmap, e, ways)?,
            Test::Candidate(c) => self.similarity(*c, ways, Self::candidate)?,
            Test::Similar(c) => self.similarity(*c, ways, Self::similar)?,
            Test::And(_) | Test::Or(_) | Test::Not(_) => {
                unreachable!("invariant: normalised before")
            }
        };
        self.temps = mark;
        Ok(Step::Leaf(Leaf { test: test.clone(), negated, nulls, blocks }))
    }

    /// Ends a test by one branch on `a op b`.
    fn decide(&mut self, op: Compare, a: u8, b: u8, ways: Ways) {
        let (op, label) =
            if ways.next == Next::True { (op.inverse(), ways.no) } else { (op, ways.yes) };
        match op {
            Compare::Less => self.branch("blt", &[a, b], label),
            Compare::Greater => self.branch("blt", &[b, a], label),
            Compare::GreaterEqual => self.branch("bge", &[a, b], label),
            Compare::LessEqual => self.branch("bge", &[b, a], label),
            Compare::Equal => self.branch("beq", &[a, b], label),
            Compare::NotEqual => self.branch("bne", &[a, b], label),
        }
    }

    fn compare(&mut self, op: Compare, a: &Expr, b: &Expr, ways: Ways) -> Result<Vec<usize>> {
        let block = self.block();
        let a = self.eval(a)?;
        let b = self.eval(b)?;
        self.decide(op, a, b, ways);
        Ok(vec![block])
    }

    fn is_null(&mut self, c: usize, ways: Ways) -> Result<Vec<usize>> {
        let block = self.block();
        if self.function.schema.columns[c].nullable {
            let bit = self.null_bit(c)?;
            self.decide(Compare::NotEqual, bit, 0, ways);
        } else {
            self.decide(Compare::NotEqual, 0, 0, ways);
        }
        Ok(vec![block])
    }

    fn probe(&mut self, bitmap: usize, key: &Expr, ways: Ways) -> Result<Vec<usize>> {
        let entry = Params::bitmap_entry(self.function.params.len(), bitmap);
        let bound = self.block();
        let key = self.eval(key)?;
        let (t, u) = (self.temp()?, self.temp()?);
        self.imm("ld.d", t, PARAMS, entry + 8);
        self.branch("bgeu", &[key, t], ways.no);
        let bit = self.block();
        self.imm("ld.d", t, PARAMS, entry);
        self.reg("add.d", [t, t, PARAMS]);
        self.imm("srli.d", u, key, 6);
        self.op("alsl.d", &[t.into(), u.into(), t.into(), 3]);
        self.imm("ld.d", t, t, 0);
        self.reg("srl.d", [t, t, key]);
        self.imm("andi", t, t, 1);
        self.decide(Compare::NotEqual, t, 0, ways);
        Ok(vec![bound, bit])
    }

    /// Puts the record's tokens into the first temporary and their number into the second, the
    /// overlap into the third, the query's tokens into the fourth and their number into the last.
    fn similarity(
        &mut self,
        c: usize,
        ways: Ways,
        walk: fn(&mut Self, Ways) -> Vec<usize>,
    ) -> Result<Vec<usize>> {
        assert_eq!(self.temps, 0, "a list needs every temporary");
        let entry = Params::query_entry(self.function.params.len());
        let empty = self.block();
        self.list_of_row(c, TEMPS[0], TEMPS[1]);
        self.branch("beqz", &[TEMPS[1]], ways.no);
        let setup = self.block();
        let [_, m, overlap, query, a, b, n] = TEMPS;
        self.imm("ld.d", n, PARAMS, entry + 8);
        self.reg("sltu", [b, m, n]);
        self.reg("maskeqz", [a, m, b]);
        self.reg("masknez", [b, n, b]);
        self.reg("or", [a, a, b]);
        self.imm("ld.d", query, PARAMS, entry + 16);
        self.reg("add.d", [query, query, PARAMS]);
        self.op("alsl.d", &[query.into(), a.into(), query.into(), 2]);
        self.imm("ld.wu", overlap, query, 0);
        self.imm("ld.d", query, PARAMS, entry);
        self.reg("add.d", [query, query, PARAMS]);
        let mut blocks = vec![empty, setup];
        blocks.extend(walk(self, ways));
        Ok(blocks)
    }

    /// Walks both prefixes until they share a token.
    fn candidate(&mut self, ways: Ways) -> Vec<usize> {
        let [x, m, overlap, q, a, b, n] = TEMPS;
        // Both ends: the lists' starts plus the prefixes' lengths.
        for (end, len, start) in [(m, m, x), (overlap, n, q)] {
            self.reg("sub.d", [end, len, overlap]);
            self.imm("addi.d", end, end, 1);
            self.op("alsl.d", &[end.into(), end.into(), start.into(), 2]);
        }
        let (next, in_query, out) = (self.asm.here(), self.asm.label(), self.asm.label());
        let equal = self.block();
        self.imm("ld.wu", a, x, 0);
        self.imm("ld.wu", b, q, 0);
        self.branch("beq", &[a, b], ways.yes);
        let less = self.block();
        self.branch("bltu", &[b, a], in_query);
        let record = self.block();
        self.imm("addi.d", x, x, 4);
        self.branch("bltu", &[x, m], next);
        // A step behind the last token of the record's prefix.
        let record_out = self.block();
        self.branch("b", &[], out);
        self.asm.bind(in_query);
        let query = self.block();
        self.imm("addi.d", q, q, 4);
        self.branch("bltu", &[q, overlap], next);
        self.asm.bind(out);
        let end = self.block();
        self.leave(ways);
        vec![equal, less, record, record_out, query, end]
    }

    /// Counts shared tokens until they suffice, or more tokens are left out than may be.
    fn similar(&mut self, ways: Ways) -> Vec<usize> {
        let [x, spare, overlap, q, a, b, n] = TEMPS;
        self.reg("sub.d", [spare, spare, overlap]);
        self.reg("sub.d", [n, n, overlap]);
        let (next, shared, in_query) = (self.asm.here(), self.asm.label(), self.asm.label());
        let out = self.asm.label();
        let equal = self.block();
        self.imm("ld.wu", a, x, 0);
        self.imm("ld.wu", b, q, 0);
        self.branch("beq", &[a, b], shared);
        let less = self.block();
        self.branch("bltu", &[b, a], in_query);
        let record = self.block();
        self.imm("addi.d", x, x, 4);
        self.imm("addi.d", spare, spare, -1);
        self.branch("bge", &[spare, 0], next);
        let record_out = self.block();
        self.branch("b", &[], out);
        self.asm.bind(in_query);
        let query = self.block();
        self.imm("addi.d", q, q, 4);
        self.imm("addi.d", n, n, -1);
        self.branch("bge", &[n, 0], next);
        let query_out = self.block();
        self.branch("b", &[], out);
        self.asm.bind(shared);
        let both = self.block();
        self.imm("addi.d", x, x, 4);
        self.imm("addi.d", q, q, 4);
        self.imm("addi.d", overlap, overlap, -1);
        self.branch("bnez", &[overlap], next);
        let found = self.block();
        self.branch("b", &[], ways.yes);
        self.asm.bind(out);
        let end = self.block();
        self.leave(ways);
        vec![equal, less, record, record_out, query, query_out, both, found, end]
    }

    /// To the test's negative end, which may be the next instruction.
    fn leave(&mut self, ways: Ways) {
        if ways.next == Next::True {
            self.branch("b", &[], ways.no);
        }
    }
}
