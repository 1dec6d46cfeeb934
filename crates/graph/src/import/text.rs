//! Text edge lists to edges: blocks parsed by several threads, joined in the order of the file.
//!
//! Lifecycle: front of the file -> plan ([`super::sniff`]) -> blocks of whole records
//! ([`super::input`]) -> edges of each block ([`super::parse`]), by any thread -> one numbering of
//! all names, in order.
//!
//! Invariants
//! - The result, and the error when there is one, do not depend on the number of threads. Checked
//!   by `threads_and_blocks_change_neither_graph_nor_fault`.
//! - Ids are text, all of them, as soon as one is; they are numbers only if every one is. Checked
//!   by `text_ids_may_be_digits_once_declared`, `every_text_format_yields_the_same_graph`.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use littoral_base::mutant;

use super::dialect::{Format, Ids};
use super::fault::{Fault, place};
use super::foreign;
use super::input::{Block, Blocks, Consumed, Input};
use super::numbering::Numbering;
use super::parse::{Parsed, Trouble, parse};
use super::pool::{AHEAD, parse_in_order, threads_of};
use super::sniff::{Plan, plan};
use super::{ImportOptions, Source};
use crate::builder::{EdgeList, EdgeSink, Hooks, Shape, Stage};
use crate::error::{Error, Result, text};

/// Reads a text edge list.
pub(super) fn read(
    path: &Path,
    format: Format,
    options: &ImportOptions,
    sink: &mut dyn EdgeSink,
    hooks: &mut Hooks<'_>,
) -> Result<(EdgeList, Source)> {
    let mut input = Input::open(path)?;
    input.foreign().map_or(Ok(()), Err)?;
    let plan = found_out(&input, path, format, options)?;
    let metis = std::str::from_utf8(input.front()).ok().and_then(foreign::perhaps_metis);
    let directed = options.directed.unwrap_or(!plan.undirected);
    let (weighted, edges_count) = (plan.columns.weight.is_some(), input.lines_estimate());
    sink.begin(Shape { directed, weighted, edges_count }, hooks)?;
    let threads = threads_of(options);
    let block_bytes = sink.block_bytes(threads * AHEAD + 1);
    let lines = input.skip(plan.body);
    let mut join = Join {
        path,
        plan: &plan,
        metis,
        numbering: Numbering::new(sink, weighted),
        lines,
        last_line: true,
        odd: None,
        has_text: plan.ids == Some(Ids::Text),
    };
    let (compression, consumed) = (input.compression(), input.consumed());
    let blocks = input.into_blocks(plan.delimiter, plan.comments.begin).of_bytes(block_bytes);
    join.all(blocks, threads, &consumed, hooks)?;
    let source = Source {
        format,
        compression,
        delimiter: Some(plan.delimiter),
        columns: plan.columns.named(plan.header.as_deref()),
        header: plan.header.clone(),
        ids: Ids::Numbers,
        lines: 0,
    };
    join.finish(source, directed)
}

fn found_out(input: &Input, path: &Path, format: Format, options: &ImportOptions) -> Result<Plan> {
    let front = input.front();
    let refused = |at: usize, what: &str| {
        let (line, column) = place(front, at);
        text(path, line, column, what)
    };
    // A character may be cut at the end of the front.
    let valid = match std::str::from_utf8(front) {
        Ok(text) => text,
        Err(e) if e.error_len().is_none() && !input.is_whole() => {
            std::str::from_utf8(&front[..e.valid_up_to()]).unwrap_or("")
        }
        Err(e) => {
            let what = Fault::NotUtf8.describe(&super::columns::Columns::pair());
            return Err(refused(e.valid_up_to(), &what));
        }
    };
    plan(valid, input.is_whole(), format, options).map_err(|r| {
        let metis = foreign::perhaps_metis(valid).unwrap_or_default();
        refused(r.at, &(r.what + &metis))
    })
}

/// What has been joined so far.
struct Join<'a> {
    path: &'a Path,
    plan: &'a Plan,
    /// What refusals of records add when the file may be a METIS graph.
    metis: Option<String>,
    numbering: Numbering<'a>,
    /// Lines before the next block.
    lines: u64,
    /// Whether the last line was ended.
    last_line: bool,
    /// The first id that is a number of another kind than ids are, and its place in the file.
    odd: Option<Trouble>,
    has_text: bool,
}

impl Join<'_> {
    /// Parses and joins all blocks.
    fn all(
        &mut self,
        blocks: Blocks,
        threads: usize,
        consumed: &Consumed,
        hooks: &mut Hooks<'_>,
    ) -> Result<()> {
        let plan = self.plan;
        // Tells threads that ids are text, so that they need not find out again.
        let as_text = AtomicBool::new(self.has_text);
        let parse = |block: Block| {
            let parsed = parse(&block, plan, as_text.load(Ordering::Relaxed));
            (parsed, block.bytes.ends_with(b"\n"))
        };
        parse_in_order(blocks, threads, parse, |(parsed, ended)| {
            self.last_line = ended;
            self.add(parsed)?;
            as_text.store(self.numbering.is_text(), Ordering::Relaxed);
            self.numbering.hand_over(0, hooks)?;
            let (done, total) = consumed.progress();
            hooks.step(Stage::Reading, done, total)
        })
    }

    fn error(&self, trouble: &Trouble, lines: u64) -> Error {
        let line = lines + trouble.line;
        let what = trouble.fault.describe(&self.plan.columns);
        let metis = self.metis.as_deref().filter(|_| matches!(trouble.fault, Fault::Fields(_)));
        let what = what + metis.unwrap_or_default();
        text(self.path, line, trouble.column, what)
    }

    /// Adds the next block's edges.
    fn add(&mut self, parsed: Parsed) -> Result<()> {
        if let Some(trouble) = &parsed.trouble {
            return Err(self.error(trouble, self.lines));
        }
        self.has_text |= parsed.has_text;
        if let Some(odd) = parsed.odd.filter(|_| self.odd.is_none()) {
            self.odd = Some(Trouble { line: self.lines + odd.line, ..odd });
        }
        let is_all = self.numbering.add(parsed.edges, parsed.weights);
        if !is_all {
            let trouble = Trouble { line: 1, column: 1, fault: Fault::TooManyVertices };
            return Err(self.error(&trouble, self.lines));
        }
        self.lines += parsed.lines;
        Ok(())
    }

    fn finish(self, mut source: Source, directed: bool) -> Result<(EdgeList, Source)> {
        source.lines = self.lines + u64::from(!self.last_line);
        let column = 1;
        let Some((edges, ids)) = self.numbering.finish(directed) else {
            let what = "the graph is empty: no edge before the end of the file";
            return Err(text(self.path, source.lines + 1, column, what));
        };
        if let Some(odd) = self.odd.filter(|_| !self.has_text && !mutant!("graph_odd_ids_as_text"))
        {
            let what = odd.fault.describe(&self.plan.columns);
            return Err(text(self.path, odd.line, odd.column, what));
        }
        source.ids = ids;
        Ok((edges, source))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Keeps edges where they are, and has text cut into blocks of a few records.
    struct ShortBlocks(usize);

    impl EdgeSink for ShortBlocks {
        fn block_bytes(&self, _: usize) -> Option<usize> {
            Some(self.0)
        }
    }

    #[test]
    fn a_comment_that_is_cut_is_refused_and_its_rest_is_no_edge() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // Without a line feed a block ends behind 3 MiB.
        let comment = format!("#{}", " ".repeat((3 << 20) - 1));
        std::fs::write(file.path(), format!("1 2\n{comment}5 6\n3 4\n")).unwrap();
        for threads in [1, 3] {
            let options = ImportOptions { threads: Some(threads), ..ImportOptions::default() };
            let mut sink = ShortBlocks(1 << 20);
            let found = read(file.path(), Format::Snap, &options, &mut sink, &mut Hooks::none());
            let refused = found.map(|(list, _)| list.edges).unwrap_err().to_string();
            assert!(refused.contains(":2:1: a record longer than"), "{refused}");
        }
    }

    /// Records of numbers, names, quoted fields with line breaks, and now and then a fault.
    fn records() -> impl Strategy<Value = String> {
        let id = prop_oneof![
            60 => (0u64..40).prop_map(|n| n.to_string()),
            6 => "[a-c]{1,3}",
            4 => "\"[a-c, \n]{1,5}\"",
            1 => Just("-4".to_owned()),
            1 => Just("\"open".to_owned()),
            1 => Just(String::new()),
        ];
        let record = (id.clone(), id, any::<bool>()).prop_map(|(source, target, crlf)| {
            format!("{source},{target}{}", if crlf { "\r\n" } else { "\n" })
        });
        let list = proptest::collection::vec(record, 1..60);
        list.prop_map(|records| format!("source,target\n{}", records.concat()))
    }

    proptest! {
        #![proptest_config(littoral_testing::cases(60))]

        #[test]
        fn threads_and_blocks_change_neither_graph_nor_fault(
            text in records(), block in 8usize..200,
        ) {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), &text).unwrap();
            let read_by = |threads: usize, block: usize| {
                let options = ImportOptions { threads: Some(threads), ..ImportOptions::default() };
                let mut sink = ShortBlocks(block);
                read(file.path(), Format::Csv, &options, &mut sink, &mut Hooks::none())
                    .map(|(list, source)| (list.edges, list.vertices, list.labels, source))
                    .map_err(|e| e.to_string())
            };
            let wanted = read_by(1, 1 << 20);
            for threads in 1..=8 {
                prop_assert_eq!(&read_by(threads, block), &wanted, "{} threads", threads);
            }
        }
    }
}
