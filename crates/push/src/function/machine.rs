//! A device core with a compiled function: runs the LA64 code on pages and counts.

use super::{Compiled, PageResult, Params, Scratch};
use crate::error::{Error, Kind, Result};
use crate::page::Format;
use littoral_la64::device::{Core, End};
use littoral_la64::elf;
use littoral_la64::interp::Features;

/// Memory of a core: code, parameters, a page, its scratch and answer, totals, stack.
const MEMORY: u64 = 32 << 20;
const CODE: u64 = 0x1_0000;
const PAGE_MAX: u64 = 1 << 16;
/// An answer is at most ten times its page, as two bytes of text become a value of eight, unless
/// the function returns a column more than once. A page with more records goes to the host raw.
const OUT_MAX: u64 = 10 * PAGE_MAX;

/// A core, a function on it, and the parameters of a task.
#[derive(Debug)]
pub struct Machine {
    core: Core,
    compiled: Compiled,
    entry: u64,
    params_at: u64,
    page_at: u64,
    out_at: u64,
    scratch_at: u64,
    merge_at: u64,
    totals_at: u64,
}

impl Machine {
    /// Bytes that a core takes of the process that runs it at most: its memory, and as many for
    /// the copies that undo what a run stores.
    pub const HELD_BYTES: u64 = 2 * MEMORY;
    /// Most bytes of a page's records that a core has room for.
    pub const ROWS_BYTES: u64 = OUT_MAX;

    /// Loads `compiled` with the parameters that INIT brings.
    ///
    /// # Errors
    /// [`Kind::Usage`] for parameters that do not fit, [`Kind::Exhausted`] if they or the group
    /// table exceed the core's memory.
    pub fn new(compiled: &Compiled, params: &Params) -> Result<Machine> {
        Machine::with_file(compiled, params, &elf::executable(CODE, &compiled.code.words))
    }

    /// Loads an ELF file in place of the code of `compiled`; its page function is the symbol
    /// `page`, else the entry point.
    ///
    /// # Errors
    /// As [`Machine::new`]; [`Kind::Unsupported`] for a file that the core does not load.
    pub fn with_file(compiled: &Compiled, params: &Params, file: &[u8]) -> Result<Machine> {
        compiled.check_params(params)?;
        let plain = Features { lsx: false, lasx: false, lbt: false, v1_1: false };
        let core = Core::load_for(file, MEMORY, plain)
            .map_err(|e| Error::over(Kind::Unsupported, "a page function", e))?;
        let layout = &compiled.code.plan.layout;
        let block = params.to_bytes();
        let mut at = core.heap();
        let mut room = |bytes: u64| {
            let start = at;
            at = (at + bytes).next_multiple_of(4096);
            start
        };
        let params_at = room(block.len() as u64);
        let (page_at, out_at) = (room(PAGE_MAX), room(OUT_MAX));
        let scratch_bytes = 8 * (layout.slots * layout.scratch_words) as u64;
        let (scratch_at, merge_at) = (room(scratch_bytes), room(scratch_bytes));
        let totals_at = room(8 * (layout.slots * layout.total_words) as u64);
        if at + (1 << 20) > MEMORY {
            let what = format!("parameters and groups need {at} bytes: the core has {MEMORY}");
            return Err(Error::new(Kind::Exhausted, what));
        }
        let entry = core.symbol("page").unwrap_or(core.entry());
        let mut machine = Machine {
            core,
            compiled: compiled.clone(),
            entry,
            params_at,
            page_at,
            out_at,
            scratch_at,
            merge_at,
            totals_at,
        };
        machine.write(params_at, &block);
        Ok(machine)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        self.core.write(at, bytes).expect("invariant: regions lie inside the core's memory");
    }

    fn words(&self, at: u64, n: usize) -> Vec<u64> {
        let mut bytes = vec![0; 8 * n];
        self.core.read(at, &mut bytes).expect("invariant: regions lie inside the core's memory");
        let word = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("invariant: eight bytes"));
        bytes.chunks(8).map(word).collect()
    }

    /// Runs the page function; the result and the instructions it took. The page must verify.
    ///
    /// # Errors
    /// [`Kind::Io`] if the code traps or exceeds `budget` instructions: the scratch is dropped, and
    /// the page goes back raw.
    pub fn run(&mut self, page: &[u8], budget: u64) -> Result<(PageResult, u64)> {
        assert!(page.len() as u64 <= PAGE_MAX, "pages have at most 64 KiB");
        self.write(self.page_at, page);
        let arguments = [self.params_at, self.page_at, self.scratch_at, self.out_at];
        let outcome = self.core.run(self.entry, &arguments, budget);
        let End::Done(value) = outcome.end else {
            let what = format!("a page function ended with {:?}; the page is raw", outcome.end);
            return Err(Error::new(Kind::Io, what));
        };
        if self.compiled.returns_rows() && value > OUT_MAX {
            let what = format!("a page function returned {value} bytes of records");
            return Err(Error::new(Kind::Io, format!("{what}, more than its memory holds")));
        }
        let layout = &self.compiled.code.plan.layout;
        let result = if self.compiled.returns_rows() {
            let mut rows = vec![0; value as usize];
            let read = self.core.read(self.out_at, &mut rows);
            read.expect("invariant: the answer lies inside the core's memory");
            PageResult::Rows(rows)
        } else if value == 1 {
            PageResult::Spilled
        } else {
            let words = self.words(self.scratch_at, layout.slots * layout.scratch_words);
            PageResult::Partial(Scratch { words })
        };
        Ok((result, outcome.instructions))
    }

    /// Runs the merge of a scratch into totals; the new totals and the instructions.
    ///
    /// # Errors
    /// [`Kind::Io`] if the code does not end, which a compiled merge never does.
    pub fn merge(&mut self, scratch: &Scratch, totals: &[u64]) -> Result<(Vec<u64>, u64)> {
        let layout = &self.compiled.code.plan.layout;
        assert_eq!(totals.len(), layout.slots * layout.total_words, "a table of this function");
        let bytes = |words: &[u64]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
        self.write(self.merge_at, &bytes(&scratch.words));
        self.write(self.totals_at, &bytes(totals));
        let entry = self.core.entry() + 4 * self.compiled.code.merge as u64;
        let outcome = self.core.run(entry, &[self.merge_at, self.totals_at], u64::MAX);
        if !matches!(outcome.end, End::Done(_)) {
            let what = format!("a merge ended with {:?}", outcome.end);
            return Err(Error::new(Kind::Io, what));
        }
        let left = self.words(self.merge_at, scratch.words.len());
        assert!(left.iter().all(|&w| w == 0), "a merge leaves its scratch zero");
        Ok((self.words(self.totals_at, totals.len()), outcome.instructions))
    }

    /// The format of the pages it takes.
    pub fn format(&self) -> Format {
        self.compiled.format()
    }
}
