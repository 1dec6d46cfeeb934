//! What the code generator tells the native twin: the blocks of the code, their instructions, and
//! the order in which a record passes them.
//!
//! Invariants
//! - A block is entered at its first instruction and left at its last, so each pass costs its
//!   number of instructions. Checked by `prop_functions`.

use super::ir::{Expr, Test};
use super::layout::Layout;

/// A block of the code: its place in [`Plan::costs`].
pub(super) type Block = usize;

/// A filter as the code tests it.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Leaf(Leaf),
    All(Vec<Step>),
    Any(Vec<Step>),
}

/// A test as the code makes it.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub test: Test,
    pub negated: bool,
    /// Columns that are tested for NULL first; NULL makes the leaf not true.
    pub nulls: Vec<(usize, Block)>,
    /// What follows, by kind of test: see `filter` in the generator.
    pub blocks: Vec<Block>,
}

/// A field of a text row on the way to the last one in use.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub column: usize,
    /// Notes where a field in use begins.
    pub note: Option<Block>,
    /// How it is passed.
    pub read: Read,
}

/// A test of a text row, or the output, and the columns that are read for it first.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub reads: Vec<(usize, Read)>,
    pub test: Option<Step>,
}

/// The blocks of a reader.
#[derive(Clone, Copy, Debug)]
pub(super) enum Read {
    /// Per byte.
    Skip { byte: Block },
    /// The first byte.
    Char { start: Block },
    /// Once at each end, per byte, per digit, per other byte.
    Number { start: Block, byte: Block, digit: Block, other: Block, end: Block },
    /// As a number; per space, per token, per byte that is neither.
    List {
        start: Block,
        byte: Block,
        digit: Block,
        other: Block,
        token: Block,
        behind: Block,
        end: Block,
    },
}

/// A key of a group: blocks of the test for NULL, of the jump behind a value and of NULL; of a
/// value; of the slot's number.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub column: usize,
    pub low: i64,
    pub values: i64,
    pub stride: i64,
    pub null: Option<[Block; 3]>,
    pub value: Block,
    pub join: Block,
}

/// A sum: blocks of tests for NULL, and of the addition.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    pub expr: Expr,
    pub nulls: Vec<(usize, Block)>,
    pub add: Block,
}

/// What happens to a record that passes.
#[derive(Clone, Debug)]
pub(super) enum Emit {
    Aggregate {
        keys: Vec<Key>,
        /// The test against the table's slots; `None` if every group has one.
        bound: Option<Block>,
        count: Block,
        sums: Vec<Sum>,
    },
    Rows {
        /// In order; with the list's block per element for lists.
        columns: Vec<(usize, Option<Block>)>,
        /// Once per record.
        blocks: Vec<Block>,
    },
}

/// How the rows of a page are walked.
#[derive(Clone, Debug)]
pub(super) enum Walk {
    Columns {
        filter: Vec<Step>,
    },
    Text {
        fields: Vec<Field>,
        /// Tests in the query's order; the last stage has none.
        stages: Vec<Stage>,
        /// Per byte behind the last field that was read.
        tail: Block,
    },
}

/// Everything the twin needs.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub layout: Layout,
    pub costs: Vec<u64>,
    pub walk: Walk,
    /// Before the first row, at a row's start and end, behind the last one, on a spill.
    pub prologue: Block,
    pub row: Block,
    pub next: Block,
    pub epilogue: Block,
    pub spill: Option<Block>,
    pub emit: Emit,
    /// The merge: once, per slot, per slot in use.
    pub merge: Option<[Block; 3]>,
}
