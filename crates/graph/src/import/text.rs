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
//! - At most [`AHEAD`] blocks per thread are in memory and not joined, however unevenly threads
//!   run. Checked by `no_block_is_handed_out_far_ahead_of_the_join`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use littoral_base::mutant;

use super::dialect::{Format, Ids};
use super::fault::{Fault, place};
use super::foreign;
use super::input::{Blocks, Consumed, Input};
use super::numbering::Numbering;
use super::parse::{Parsed, Trouble, parse};
use super::sniff::{Plan, plan};
use super::{ImportOptions, Source};
use crate::builder::{EdgeList, EdgeSink, Hooks, Shape, Stage};
use crate::error::{Error, Kind, Result};

/// Blocks per thread that may be taken and not joined.
const AHEAD: usize = 3;

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
    let threads = options.threads.unwrap_or_else(available).max(1);
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
        as_text: AtomicBool::new(plan.ids == Some(Ids::Text)),
    };
    let (compression, consumed) = (input.compression(), input.consumed());
    let blocks = input.into_blocks(plan.delimiter, plan.comments.begin).of_bytes(block_bytes);
    if threads == 1 {
        join.alone(blocks, &consumed, hooks)?;
    } else {
        join.together(blocks, threads, &consumed, hooks)?;
    }
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

fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn found_out(input: &Input, path: &Path, format: Format, options: &ImportOptions) -> Result<Plan> {
    let front = input.front();
    let refused = |at: usize, what: &str| {
        let (line, column) = place(front, at);
        Error::new(Kind::Input, format!("{}:{line}:{column}: {what}", path.display()))
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
    /// Tells threads that ids are text, so that they need not find out again.
    as_text: AtomicBool,
}

impl Join<'_> {
    fn alone(
        &mut self,
        mut blocks: Blocks,
        consumed: &Consumed,
        hooks: &mut Hooks<'_>,
    ) -> Result<()> {
        while let Some(block) = blocks.next()? {
            let parsed = parse(&block, self.plan, self.as_text.load(Ordering::Relaxed));
            self.last_line = block.bytes.ends_with(b"\n");
            self.add(parsed)?;
            self.numbering.hand_over(0, hooks)?;
            step(consumed, hooks)?;
        }
        Ok(())
    }

    fn together(
        &mut self,
        blocks: Blocks,
        threads: usize,
        consumed: &Consumed,
        hooks: &mut Hooks<'_>,
    ) -> Result<()> {
        let plan = self.plan;
        let as_text = AtomicBool::new(self.as_text.load(Ordering::Relaxed));
        let feed = SharedFeed::new(blocks, (threads * AHEAD) as u64);
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(threads * AHEAD);
            for _ in 0..threads {
                let (sender, feed, as_text) = (sender.clone(), &feed, &as_text);
                scope.spawn(move || work(feed, plan, as_text, &sender));
            }
            drop(sender);
            // After an error or a panic threads may wait for room.
            let _closing = Closing(&feed);
            self.in_order(&receiver, &feed, &as_text, consumed, hooks)
        })
    }

    fn in_order(
        &mut self,
        receiver: &Receiver<Numbered>,
        feed: &SharedFeed,
        as_text: &AtomicBool,
        consumed: &Consumed,
        hooks: &mut Hooks<'_>,
    ) -> Result<()> {
        let (mut waiting, mut next) = (BTreeMap::new(), 0u64);
        for (number, parsed) in receiver {
            waiting.insert(number, parsed);
            while let Some(parsed) = waiting.remove(&next) {
                let (parsed, ended) = parsed?;
                self.last_line = ended;
                self.add(parsed)?;
                self.numbering.hand_over(0, hooks)?;
                as_text.store(self.as_text.load(Ordering::Relaxed), Ordering::Relaxed);
                next += 1;
                feed.joined(next);
            }
            step(consumed, hooks)?;
        }
        Ok(())
    }

    fn error(&self, trouble: &Trouble, lines: u64) -> Error {
        let line = lines + trouble.line;
        let what = trouble.fault.describe(&self.plan.columns);
        let metis = self.metis.as_deref().filter(|_| matches!(trouble.fault, Fault::Fields(_)));
        let what = what + metis.unwrap_or_default();
        let at = format!("{}:{line}:{}", self.path.display(), trouble.column);
        Error::new(Kind::Input, format!("{at}: {what}"))
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
        self.as_text.store(self.numbering.is_text(), Ordering::Relaxed);
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
            let at = format!("{}:{}:{column}", self.path.display(), source.lines + 1);
            let what = "the graph is empty: no edge before the end of the file";
            return Err(Error::new(Kind::Input, format!("{at}: {what}")));
        };
        if let Some(odd) = self.odd.filter(|_| !self.has_text && !mutant!("graph_odd_ids_as_text"))
        {
            let what = odd.fault.describe(&self.plan.columns);
            let at = format!("{}:{}:{}", self.path.display(), odd.line, odd.column);
            return Err(Error::new(Kind::Input, format!("{at}: {what}")));
        }
        source.ids = ids;
        Ok((edges, source))
    }
}

fn step(consumed: &Consumed, hooks: &mut Hooks<'_>) -> Result<()> {
    let (done, total) = consumed.progress();
    hooks.step(Stage::Reading, done, total)
}

/// A parsed block, whether its last line is ended, and its number; or why there is none.
type Numbered = (u64, Result<(Parsed, bool)>);

/// A block to parse, why there is none, or that an earlier one has to be joined first.
enum Taken {
    Block(u64, Result<super::input::Block>),
    Full,
    End,
}

/// Blocks, the number of the next one, and how many have been joined.
struct Feed {
    blocks: Blocks,
    next: u64,
    joined: u64,
    /// Blocks that may be taken and not joined.
    ahead: u64,
    ended: bool,
}

impl Feed {
    fn take(&mut self) -> Taken {
        if self.ended {
            return Taken::End;
        }
        if self.next >= self.joined + self.ahead && !mutant!("graph_blocks_unbounded") {
            return Taken::Full;
        }
        let number = self.next;
        self.next += 1;
        let block = self.blocks.next().transpose();
        self.ended = !matches!(block, Some(Ok(_)));
        block.map_or(Taken::End, |block| Taken::Block(number, block))
    }
}

/// A feed of several threads.
struct SharedFeed {
    feed: Mutex<Feed>,
    changed: Condvar,
}

impl SharedFeed {
    fn new(blocks: Blocks, ahead: u64) -> Self {
        let feed = Feed { blocks, next: 0, joined: 0, ahead, ended: false };
        SharedFeed { feed: Mutex::new(feed), changed: Condvar::new() }
    }

    /// The next block and its number; waits while too many are not joined.
    fn take(&self) -> Option<(u64, Result<super::input::Block>)> {
        let mut feed = self.lock();
        loop {
            match feed.take() {
                Taken::Block(number, block) => return Some((number, block)),
                Taken::End => return None,
                Taken::Full => {
                    feed = self.changed.wait(feed).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Says how many blocks have been joined.
    fn joined(&self, count: u64) {
        self.lock().joined = count;
        self.changed.notify_all();
    }

    /// Hands out nothing more.
    fn close(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Feed> {
        self.feed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes a feed when its holder ends, however it does.
struct Closing<'f>(&'f SharedFeed);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Parses blocks until there are none or the receiver is gone.
fn work(feed: &SharedFeed, plan: &Plan, as_text: &AtomicBool, sender: &SyncSender<Numbered>) {
    let _closing = Closing(feed);
    while let Some((number, block)) = feed.take() {
        let parsed = block.map(|block| {
            let parsed = parse(&block, plan, as_text.load(Ordering::Relaxed));
            (parsed, block.bytes.ends_with(b"\n"))
        });
        if sender.send((number, parsed)).is_err() {
            return;
        }
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

    #[test]
    fn a_thread_that_panics_ends_the_others() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "1 2\n".repeat(100)).unwrap();
        let input = Input::open(file.path()).unwrap();
        let blocks = input.into_blocks(super::super::Delimiter::Space, [None, None]);
        let feed = SharedFeed::new(blocks.of_bytes(Some(4)), 1);
        assert!(feed.take().is_some());
        let panicking = std::panic::AssertUnwindSafe(|| {
            let _closing = Closing(&feed);
            panic!("while a block is parsed");
        });
        assert!(std::panic::catch_unwind(panicking).is_err());
        assert!(feed.take().is_none(), "and not waiting for the block to be joined");
    }

    #[test]
    fn no_block_is_handed_out_far_ahead_of_the_join() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "1 2\n".repeat(100)).unwrap();
        let input = Input::open(file.path()).unwrap();
        let blocks = input.into_blocks(super::super::Delimiter::Space, [None, None]);
        let feed = SharedFeed::new(blocks.of_bytes(Some(4)), 6);
        let taken =
            || (0..100).take_while(|_| matches!(feed.lock().take(), Taken::Block(..))).count();
        assert_eq!(taken(), 6, "none is joined");
        feed.joined(2);
        assert_eq!(taken(), 2, "two are joined");
        assert!(matches!(feed.lock().take(), Taken::Full));
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
