//! The language of page functions: a filter over a record, and what is made of the records that
//! pass.
//!
//! Invariants
//! - A test is true, or it is not: NULL makes a comparison and its negation not true. Checked by
//!   `prop_functions`.
//! - Arithmetic wraps at 64 bits; a function whose columns keep their ranges never gets there.
//!   Checked by `expressions_that_may_overflow_are_refused`.
//! - A test that decides nothing is none of a filter's parts, so that a filter's code is as long as
//!   its tests are many. Checked by `lists_that_decide_nothing_are_no_parts`.

use littoral_base::mutant;

use crate::error::{Error, Kind, Result};
use crate::page::{ColumnKind, ROWS_MAX, Schema};

/// Slots of a group table unless a function says otherwise.
pub const SLOTS_MAX: usize = 4096;
/// Most parameters of a function.
pub(super) const PARAMS_MAX: usize = 128;
/// Most columns that a function returns: as many as a schema has.
const RETURNED_MAX: usize = 256;
/// Bitmaps of a task.
pub(super) const BITMAPS: usize = 8;
/// Rows of a page are fewer than two to this power.
const ROWS_LOG2: u32 = 16;
const _: () = assert!(ROWS_MAX < 1 << ROWS_LOG2);

/// An integer of a record. NULL if one of its columns is NULL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A column.
    Column(usize),
    /// A number.
    Constant(i64),
    /// A parameter of the task.
    Param(usize),
    /// A sum.
    Add(Box<Expr>, Box<Expr>),
    /// A difference.
    Sub(Box<Expr>, Box<Expr>),
    /// A product.
    Mul(Box<Expr>, Box<Expr>),
    /// 1 if the expression is in the bitmap with this number, else 0.
    Member(usize, Box<Expr>),
}

/// How two integers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// Less.
    Less,
    /// Less or equal.
    LessEqual,
    /// Equal.
    Equal,
    /// Not equal.
    NotEqual,
    /// Greater or equal.
    GreaterEqual,
    /// Greater.
    Greater,
}

impl Compare {
    /// All, in the order of their codes in a program's bytes.
    pub const ALL: [Compare; 6] = [
        Compare::Less,
        Compare::LessEqual,
        Compare::Equal,
        Compare::NotEqual,
        Compare::GreaterEqual,
        Compare::Greater,
    ];

    /// The comparison that holds exactly when this one does not.
    pub fn inverse(self) -> Compare {
        match self {
            Compare::Less => Compare::GreaterEqual,
            Compare::LessEqual => Compare::Greater,
            Compare::Equal => Compare::NotEqual,
            Compare::NotEqual => Compare::Equal,
            Compare::GreaterEqual => Compare::Less,
            Compare::Greater => Compare::LessEqual,
        }
    }

    /// Whether it holds.
    #[inline]
    pub fn holds(self, a: i64, b: i64) -> bool {
        match self {
            Compare::Less => a < b,
            Compare::LessEqual => a <= b,
            Compare::Equal => a == b,
            Compare::NotEqual => a != b,
            Compare::GreaterEqual => a >= b,
            Compare::Greater => a > b,
        }
    }
}

/// A condition on a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// Two expressions compare so.
    Compare(Compare, Expr, Expr),
    /// The column is NULL.
    IsNull(usize),
    /// The bit that the expression numbers is set in the bitmap with this number; bits outside the
    /// bitmap are clear.
    Probe(usize, Expr),
    /// The prefixes of the column's list and of the query share a token: the record may be similar
    /// (paper 001, algorithm 4; the prefixes are those of [`super::Query`]).
    Candidate(usize),
    /// The column's list and the query share as many tokens as similarity needs (algorithm 5).
    Similar(usize),
    /// All of them hold.
    And(Vec<Test>),
    /// One of them holds.
    Or(Vec<Test>),
    /// The test is false; not true of NULL either.
    Not(Box<Test>),
}

/// What is made of the records that pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Their number and sums, per group.
    Aggregate {
        /// Columns whose values make the group; none for one group.
        keys: Vec<usize>,
        /// What is summed.
        sums: Vec<Expr>,
    },
    /// These columns of them, packed.
    Rows(Vec<usize>),
}

/// A page function: pure, (parameters, page) to a partial result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The columns.
    pub schema: Schema,
    /// Least and greatest value of each parameter.
    pub params: Vec<(i64, i64)>,
    /// Which records pass.
    pub filter: Test,
    /// What is made of them.
    pub output: Output,
    /// Slots of the group table; a page with a group beyond them is spilled.
    pub slots_max: usize,
}

/// A node of a filter without negations but at its leaves.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Leaf { test: Test, negated: bool },
    All(Vec<Node>),
    Any(Vec<Node>),
}

impl Node {
    /// Whether every record passes.
    pub(crate) fn is_true(&self) -> bool {
        matches!(self, Node::All(nodes) if nodes.is_empty())
    }

    /// Whether no record passes.
    fn is_false(&self) -> bool {
        matches!(self, Node::Any(nodes) if nodes.is_empty())
    }

    fn all(nodes: Vec<Node>) -> Node {
        if nodes.iter().any(Node::is_false) {
            return Node::Any(Vec::new());
        }
        Node::joined(nodes, Node::is_true, Node::All)
    }

    fn any(nodes: Vec<Node>) -> Node {
        if nodes.iter().any(Node::is_true) {
            return Node::All(Vec::new());
        }
        Node::joined(nodes, Node::is_false, Node::Any)
    }

    /// `nodes` but for those that change nothing; one that is left alone stands for itself.
    fn joined(
        mut nodes: Vec<Node>,
        changes_nothing: fn(&Node) -> bool,
        join: fn(Vec<Node>) -> Node,
    ) -> Node {
        if mutant!("push_empty_lists_are_walked") {
            return join(nodes);
        }
        nodes.retain(|node| !changes_nothing(node));
        if nodes.len() == 1 { nodes.remove(0) } else { join(nodes) }
    }
}

/// Moves negations to the leaves. Exact, because a leaf is true, false or unknown, and neither it
/// nor its negation is true when it is unknown.
pub(crate) fn normalise(test: &Test, negated: bool) -> Node {
    let list = |tests: &[Test]| tests.iter().map(|t| normalise(t, negated)).collect();
    match test {
        Test::Not(inner) => normalise(inner, !negated),
        Test::And(tests) if negated => Node::any(list(tests)),
        Test::Or(tests) if !negated => Node::any(list(tests)),
        Test::And(tests) | Test::Or(tests) => Node::all(list(tests)),
        Test::Compare(op, a, b) => {
            let op = if negated { op.inverse() } else { *op };
            Node::Leaf { test: Test::Compare(op, a.clone(), b.clone()), negated: false }
        }
        other => Node::Leaf { test: other.clone(), negated },
    }
}

impl Expr {
    /// Its parts: itself and those of its operands.
    fn parts(&self) -> usize {
        1 + match self {
            Expr::Column(_) | Expr::Constant(_) | Expr::Param(_) => 0,
            Expr::Add(a, b) | Expr::Sub(a, b) | Expr::Mul(a, b) => a.parts() + b.parts(),
            Expr::Member(_, a) => a.parts(),
        }
    }

    /// Calls `see` for every column.
    pub(crate) fn columns(&self, see: &mut impl FnMut(usize)) {
        match self {
            Expr::Column(c) => see(*c),
            Expr::Constant(_) | Expr::Param(_) => {}
            Expr::Add(a, b) | Expr::Sub(a, b) | Expr::Mul(a, b) => {
                a.columns(see);
                b.columns(see);
            }
            Expr::Member(_, a) => a.columns(see),
        }
    }

    /// Its columns that may be NULL, each once, in order of appearance.
    pub(crate) fn nullable(&self, schema: &Schema) -> Vec<usize> {
        let mut found = Vec::new();
        self.columns(&mut |c| {
            if schema.columns[c].nullable && !found.contains(&c) {
                found.push(c);
            }
        });
        found
    }

    /// Least and greatest value; an error if a step may leave 64 bits.
    fn range(&self, f: &Function) -> Result<(i128, i128)> {
        let wide = |(low, high): (i64, i64)| (i128::from(low), i128::from(high));
        let pair = |a: &Expr, b: &Expr| Ok::<_, Error>((a.range(f)?, b.range(f)?));
        let (low, high) = match self {
            Expr::Column(c) => {
                let column = &f.schema.columns[*c];
                wide((column.low, column.high))
            }
            Expr::Constant(v) => wide((*v, *v)),
            Expr::Param(p) => wide(f.params[*p]),
            Expr::Member(_, a) => {
                a.range(f)?;
                (0, 1)
            }
            Expr::Add(a, b) => {
                let (a, b) = pair(a, b)?;
                (a.0 + b.0, a.1 + b.1)
            }
            Expr::Sub(a, b) => {
                let (a, b) = pair(a, b)?;
                (a.0 - b.1, a.1 - b.0)
            }
            Expr::Mul(a, b) => {
                let (a, b) = pair(a, b)?;
                let ends = [a.0 * b.0, a.0 * b.1, a.1 * b.0, a.1 * b.1];
                let least = ends.into_iter().min().expect("invariant: four ends");
                (least, ends.into_iter().max().expect("invariant: four ends"))
            }
        };
        if low < i64::MIN.into() || high > i64::MAX.into() {
            let what = format!(
                "an expression may reach {low} to {high}, beyond 64 bits: \
                 declare narrower columns or a smaller scale"
            );
            return Err(Error::new(Kind::Unsupported, what));
        }
        Ok((low, high))
    }
}

fn usage(what: String) -> Error {
    Error::new(Kind::Usage, what)
}

impl Function {
    /// A function with the usual group table.
    pub fn new(schema: &Schema, params: Vec<(i64, i64)>, filter: Test, output: Output) -> Function {
        Function { schema: schema.clone(), params, filter, output, slots_max: SLOTS_MAX }
    }

    /// Its parts: tests, expressions and columns, each as often as it stands there.
    pub(crate) fn parts(&self) -> usize {
        let output = match &self.output {
            Output::Aggregate { keys, sums } => {
                keys.len() + sums.iter().map(Expr::parts).sum::<usize>()
            }
            Output::Rows(columns) => columns.len(),
        };
        self.filter.parts() + output
    }

    /// Whether a page's sum of this expression may exceed 64 bits.
    pub(crate) fn is_wide(&self, sum: &Expr) -> bool {
        let (low, high) = sum.range(self).expect("invariant: validated");
        low.abs().max(high.abs()) >= 1 << (63 - ROWS_LOG2)
    }

    /// Refuses what cannot be compiled.
    ///
    /// # Errors
    /// [`Kind::Usage`] for columns and parameters that do not exist or have the wrong kind,
    /// [`Kind::Unsupported`] for expressions that may overflow and tables that are too large.
    pub fn validate(&self) -> Result<()> {
        if self.params.len() > PARAMS_MAX {
            return Err(usage(format!("more than {PARAMS_MAX} parameters")));
        }
        if self.slots_max == 0 || self.slots_max > 1 << 16 {
            return Err(usage(format!(
                "a group table has 1 to 65536 slots, not {}",
                self.slots_max
            )));
        }
        self.validate_test(&self.filter)?;
        match &self.output {
            Output::Aggregate { keys, sums } => {
                sums.iter().try_for_each(|e| self.validate_expr(e))?;
                keys.iter().try_for_each(|&k| self.validate_number(k))?;
                self.group_strides().map(drop)
            }
            Output::Rows(columns) if columns.is_empty() => {
                Err(usage("a function that returns records needs a column".to_owned()))
            }
            // The bytes of a page's records are bounded by the page's size and this number.
            Output::Rows(columns) if columns.len() > RETURNED_MAX => Err(usage(format!(
                "a function returns {RETURNED_MAX} columns at most, not {}",
                columns.len()
            ))),
            Output::Rows(columns) => {
                columns.iter().try_for_each(|&c| match self.schema.columns.get(c) {
                    Some(column) if column.kind != ColumnKind::Text => Ok(()),
                    _ => Err(usage(format!("column {c} cannot be returned: none, or text"))),
                })
            }
        }
    }

    /// For each key: its least value, how many values it has without NULL, and the number of slots
    /// from one value to the next; and the product of all.
    #[expect(clippy::type_complexity, reason = "three numbers per key, and the product")]
    pub(crate) fn group_strides(&self) -> Result<(Vec<(i64, i64, i64)>, i64)> {
        let keys = match &self.output {
            Output::Aggregate { keys, .. } => keys.as_slice(),
            Output::Rows(_) => &[],
        };
        let mut product = 1i128;
        let mut strides = Vec::new();
        for &key in keys.iter().rev() {
            let column = &self.schema.columns[key];
            let values = i128::from(column.high) - i128::from(column.low) + 1;
            strides.push((column.low, values, product));
            product *= values + i128::from(column.nullable);
            if product > 1 << 40 {
                let what = "the groups' keys have too many values: declare narrower ranges";
                return Err(Error::new(Kind::Unsupported, what));
            }
        }
        strides.reverse();
        let narrow = |(low, values, stride): (i64, i128, i128)| (low, values as i64, stride as i64);
        Ok((strides.into_iter().map(narrow).collect(), product as i64))
    }

    /// Slots of the group table.
    pub(crate) fn slots(&self) -> usize {
        let (_, product) = self.group_strides().expect("invariant: validated");
        usize::try_from(product).map_or(self.slots_max, |p| p.min(self.slots_max))
    }

    fn validate_number(&self, c: usize) -> Result<()> {
        match self.schema.columns.get(c) {
            Some(column) if column.is_number() => Ok(()),
            _ => Err(usage(format!("column {c} is no number of the schema"))),
        }
    }

    fn validate_expr(&self, e: &Expr) -> Result<()> {
        let mut columns = Ok(());
        e.columns(&mut |c| {
            if columns.is_ok() {
                columns = self.validate_number(c);
            }
        });
        columns?;
        self.validate_params(e)?;
        e.range(self).map(drop)
    }

    fn validate_params(&self, e: &Expr) -> Result<()> {
        match e {
            Expr::Param(p) if *p >= self.params.len() => {
                Err(usage(format!("parameter {p} of {} does not exist", self.params.len())))
            }
            Expr::Add(a, b) | Expr::Sub(a, b) | Expr::Mul(a, b) => {
                self.validate_params(a)?;
                self.validate_params(b)
            }
            Expr::Member(bitmap, _) if *bitmap >= BITMAPS => {
                Err(usage(format!("bitmap {bitmap}: there are 0 to 7")))
            }
            Expr::Member(_, a) => self.validate_params(a),
            _ => Ok(()),
        }
    }

    fn validate_test(&self, test: &Test) -> Result<()> {
        match test {
            Test::Compare(_, a, b) => {
                self.validate_expr(a)?;
                self.validate_expr(b)
            }
            Test::IsNull(c) => self.validate_number(*c),
            Test::Probe(bitmap, e) if *bitmap < BITMAPS => self.validate_expr(e),
            Test::Probe(bitmap, _) => Err(usage(format!("bitmap {bitmap}: there are 0 to 7"))),
            Test::Candidate(c) | Test::Similar(c) => match self.schema.columns.get(*c) {
                Some(column) if column.kind == ColumnKind::List => Ok(()),
                _ => Err(usage(format!("column {c} is no list of the schema"))),
            },
            Test::And(tests) | Test::Or(tests) => {
                tests.iter().try_for_each(|t| self.validate_test(t))
            }
            Test::Not(test) => self.validate_test(test),
        }
    }
}

impl Test {
    fn parts(&self) -> usize {
        1 + match self {
            Test::Compare(_, a, b) => a.parts() + b.parts(),
            Test::Probe(_, e) => e.parts(),
            Test::IsNull(_) | Test::Candidate(_) | Test::Similar(_) => 0,
            Test::And(tests) | Test::Or(tests) => tests.iter().map(Test::parts).sum::<usize>(),
            Test::Not(test) => test.parts(),
        }
    }

    /// Calls `see` for every column.
    pub(crate) fn columns(&self, see: &mut impl FnMut(usize)) {
        match self {
            Test::Compare(_, a, b) => {
                a.columns(see);
                b.columns(see);
            }
            Test::Probe(_, e) => e.columns(see),
            Test::IsNull(c) | Test::Candidate(c) | Test::Similar(c) => see(*c),
            Test::And(tests) | Test::Or(tests) => tests.iter().for_each(|t| t.columns(see)),
            Test::Not(test) => test.columns(see),
        }
    }

    /// The tests that must all hold.
    pub(crate) fn conjuncts(&self) -> Vec<Test> {
        match self {
            Test::And(tests) => tests.iter().flat_map(Test::conjuncts).collect(),
            other => vec![other.clone()],
        }
    }
}

impl Output {
    /// Calls `see` for every column.
    pub(crate) fn columns(&self, see: &mut impl FnMut(usize)) {
        match self {
            Output::Aggregate { keys, sums } => {
                keys.iter().for_each(|&k| see(k));
                sums.iter().for_each(|e| e.columns(see));
            }
            Output::Rows(columns) => columns.iter().for_each(|&c| see(c)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_decide_nothing_are_no_parts() {
        let (none, all) = (|| Test::Or(vec![]), || Test::And(vec![]));
        let not = |test| Test::Not(Box::new(test));
        let many = Test::Or((0..1000).map(|_| none()).collect());
        assert!(normalise(&many, false).is_false() && normalise(&many, true).is_true());
        assert!(normalise(&Test::And(vec![all(), not(none()), not(many)]), false).is_true());
        assert!(normalise(&Test::And(vec![Test::IsNull(0), none()]), false).is_false());
        assert!(normalise(&Test::Or(vec![Test::IsNull(0), all()]), false).is_true());
        let one = Test::And(vec![all(), Test::Or(vec![none(), Test::IsNull(7)]), all()]);
        for negated in [false, true] {
            let found = normalise(&one, negated);
            let is_leaf = matches!(&found, Node::Leaf { test: Test::IsNull(7), .. });
            assert!(is_leaf, "{found:?}");
        }
        let both = normalise(&Test::And(vec![one, all(), Test::IsNull(8)]), false);
        assert!(matches!(&both, Node::All(nodes) if nodes.len() == 2), "{both:?}");
    }
}
