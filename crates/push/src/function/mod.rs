//! Page functions: a small language, its back end to LA64, the native twin that knows the code's
//! exact cost, and the answers that partial results add up to. `docs/design/push-functions.md`.
//!
//! Invariants
//! - Interpreter of the language, twin and code agree on answers, and twin and code on the number
//!   of instructions. Checked by `prop_functions`.
//! - The same answer comes from every partition of pages among device, host, filter and retries.
//!   Checked by `prop_partitions`.
//!
//! Lifecycle of a task: [`Compiled::new`] once per function and format; then per page
//! [`Compiled::twin`] on a host or [`Machine::run`] on a device core, each from a zero scratch;
//! then [`Answer::add`].

mod answer;
mod code;
mod ir;
mod layout;
mod machine;
mod packed;
mod params;
mod plan;
pub mod reference;
mod scratch;
mod twin;
mod vector;

pub use answer::{Answer, Group, Total};
pub use ir::{Compare, Expr, Function, Output, SLOTS_MAX, Test};
pub use machine::Machine;
pub use params::{Bitmap, Params, Query};
pub use scratch::{PageResult, Scratch};

use crate::error::{Error, Kind, Result};
use crate::page::{self, Format};

/// A function in both back ends for pages of one format.
#[derive(Clone, Debug)]
pub struct Compiled {
    function: Function,
    format: Format,
    code: code::Code,
    /// Parts of the function.
    parts: usize,
}

/// What a page gave, and what it costs a device core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The partial result.
    pub result: PageResult,
    /// LA64 instructions of the page function.
    pub instructions: u64,
    /// LA64 instructions of the merge; 0 if the page is spilled or returns rows.
    pub merge_instructions: u64,
}

impl Compiled {
    /// Compiles a function.
    ///
    /// # Errors
    /// As [`Function::validate`]; [`Kind::Unsupported`] for one that exceeds the registers or the
    /// reach of branches.
    pub fn new(function: &Function, format: Format) -> Result<Compiled> {
        function.validate()?;
        let code = code::compile(function, format)?;
        Ok(Compiled { function: function.clone(), format, code, parts: function.parts() })
    }

    /// The function.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// The format of its pages.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The instructions of its code.
    pub fn words(&self) -> &[u32] {
        &self.code.words
    }

    /// The function's tests, expressions and columns: what a record takes the twin at most, but for
    /// lists. The code may be shorter, as it computes equal expressions once.
    pub(crate) fn parts(&self) -> usize {
        self.parts
    }

    /// Bytes of a task's totals on a device.
    pub fn totals_bytes(&self) -> u64 {
        let layout = &self.code.plan.layout;
        8 * (layout.slots * layout.total_words) as u64
    }

    /// Words of a task's totals, all zero.
    pub fn totals(&self) -> Vec<u64> {
        vec![0; self.totals_bytes() as usize / 8]
    }

    /// Adds a page's scratch to a task's totals, as the merge in code does.
    pub fn merge(&self, scratch: &Scratch, totals: &mut [u64]) {
        self.code.plan.layout.merge(&scratch.words, totals);
    }

    /// The records that `bytes` hold, packed.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] for bytes that end inside a record.
    pub fn unpack(&self, bytes: &[u8]) -> Result<Vec<page::Record>> {
        let (mut records, mut rest) = (Vec::new(), bytes);
        while !rest.is_empty() {
            let (record, len) = packed::unpack(&self.function, rest)?;
            records.push(record);
            rest = &rest[len..];
        }
        Ok(records)
    }

    /// Whether a page gives records rather than sums.
    pub fn returns_rows(&self) -> bool {
        matches!(self.function.output, Output::Rows(_))
    }

    /// Refuses parameters that do not fit.
    ///
    /// # Errors
    /// [`Kind::Usage`].
    pub fn check_params(&self, params: &Params) -> Result<()> {
        params.validate(&self.function)?;
        let mut needs_query = false;
        let mut see = |c: usize| {
            needs_query |= self.function.schema.columns[c].kind == page::ColumnKind::List;
        };
        self.function.filter.columns(&mut see);
        if needs_query && params.query.is_none() {
            return Err(Error::new(Kind::Usage, "a similarity join needs a query record"));
        }
        Ok(())
    }

    /// Runs the native twin on a page.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] for a page that does not verify, [`Kind::Usage`] for parameters or a page
    /// that do not fit the function.
    pub fn twin(&self, params: &Params, page: &[u8]) -> Result<Run> {
        self.check_params(params)?;
        let header = page::check(page, &self.function.schema)?;
        if header.format != self.format {
            let what = format!("a {:?} page for a function on {:?}", header.format, self.format);
            return Err(Error::new(Kind::Usage, what));
        }
        let plan = &self.code.plan;
        let run = twin::run(&self.function, plan, params, page, &header);
        Ok(self.finished(run))
    }

    /// Runs the function a column at a time where the page and the function allow it, else as
    /// [`Compiled::twin`]. Result and counts are the twin's.
    ///
    /// # Errors
    /// As [`Compiled::twin`].
    pub fn host(&self, params: &Params, page: &[u8]) -> Result<Run> {
        self.check_params(params)?;
        let header = page::check(page, &self.function.schema)?;
        self.host_on(params, page, &header)
    }

    /// As [`Compiled::host`], on a page that has been checked and gave this header.
    ///
    /// # Errors
    /// [`Kind::Usage`] for a page of another format.
    pub fn host_on(&self, params: &Params, page: &[u8], header: &page::Header) -> Result<Run> {
        if header.format != self.format {
            let what = format!("a {:?} page for a function on {:?}", header.format, self.format);
            return Err(Error::new(Kind::Usage, what));
        }
        let plan = &self.code.plan;
        let run = vector::run(&self.function, plan, params, page, header)
            .unwrap_or_else(|| twin::run(&self.function, plan, params, page, header));
        Ok(self.finished(run))
    }

    /// A run with the instructions of its merge.
    fn finished(&self, (result, instructions): (PageResult, u64)) -> Run {
        let merge_instructions = self.merge_instructions(&result);
        Run { result, instructions, merge_instructions }
    }

    /// LA64 instructions of the merge of a page's result.
    pub fn merge_instructions(&self, result: &PageResult) -> u64 {
        match result {
            PageResult::Partial(scratch) => twin::merge_cost(&self.code.plan, scratch),
            PageResult::Rows(_) | PageResult::Spilled => 0,
        }
    }
}
