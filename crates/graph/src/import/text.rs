//! Text edge lists to edges: blocks parsed by several threads, joined in the order of the file.
//!
//! Lifecycle: front of the file -> plan ([`super::sniff`]) -> blocks of whole records
//! ([`super::input`]) -> edges of each block ([`super::parse`]), by any thread -> one numbering of
//! all names, in order.
//!
//! Invariants
//! - The result, and the error when there is one, do not depend on the number of threads.
//! - Ids are text, all of them, as soon as one is; they are numbers only if every one is.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use littoral_base::mutant;

use super::dialect::{Format, Ids};
use super::fault::{Fault, place};
use super::foreign;
use super::input::{Blocks, Consumed, Input};
use super::intern::{Interner, Numbers, Text};
use super::parse::{Edges, Parsed, Trouble, parse};
use super::sniff::{Plan, plan};
use super::{ImportOptions, Source};
use crate::builder::{EdgeList, Hooks, Stage};
use crate::error::{Error, Kind, Result};

/// Blocks that each thread may be ahead.
const AHEAD: usize = 2;

/// Reads a text edge list.
pub(super) fn read(
    path: &Path,
    format: Format,
    options: &ImportOptions,
    hooks: &mut Hooks<'_>,
) -> Result<(EdgeList, Source)> {
    let mut input = Input::open(path)?;
    input.foreign().map_or(Ok(()), Err)?;
    let plan = found_out(&input, path, format, options)?;
    let metis = std::str::from_utf8(input.front()).ok().and_then(foreign::perhaps_metis);
    let lines = input.skip(plan.body);
    let mut join = Join {
        path,
        plan: &plan,
        metis,
        names: None,
        edges: Vec::new(),
        weights: plan.columns.weight.map(|_| Vec::new()),
        lines,
        last_line: true,
        odd: None,
        has_text: plan.ids == Some(Ids::Text),
        as_text: AtomicBool::new(plan.ids == Some(Ids::Text)),
    };
    let (compression, consumed) = (input.compression(), input.consumed());
    let blocks = input.into_blocks(plan.delimiter, plan.comments.begin);
    let threads = options.threads.unwrap_or_else(available).max(1);
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
    join.finish(source, options)
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
    names: Option<Interner>,
    edges: Vec<[u32; 2]>,
    weights: Option<Vec<f32>>,
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
        let shared = Mutex::new(Feed { blocks, next: 0, ended: false });
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(threads * AHEAD);
            for _ in 0..threads {
                let (sender, shared, as_text) = (sender.clone(), &shared, &as_text);
                scope.spawn(move || work(shared, plan, as_text, &sender));
            }
            drop(sender);
            self.in_order(&receiver, &as_text, consumed, hooks)
            // Dropping the receiver ends the threads.
        })
    }

    fn in_order(
        &mut self,
        receiver: &Receiver<Numbered>,
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
                as_text.store(self.as_text.load(Ordering::Relaxed), Ordering::Relaxed);
                next += 1;
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
        if !self.add_edges(parsed.edges) {
            let trouble = Trouble { line: 1, column: 1, fault: Fault::TooManyVertices };
            return Err(self.error(&trouble, self.lines));
        }
        if let Some(weights) = &mut self.weights {
            weights.extend(parsed.weights);
        }
        self.lines += parsed.lines;
        Ok(())
    }

    /// Whether there were ids for all.
    fn add_edges(&mut self, edges: Edges) -> bool {
        let names = self.names.take().unwrap_or_else(|| match &edges {
            Edges::Numbers(_) => Interner::Numbers(Numbers::default()),
            Edges::Text(..) => Interner::Text(Text::new()),
        });
        let (names, edges) = match (names, edges) {
            (names @ Interner::Numbers(_), edges @ Edges::Numbers(_)) => (names, edges),
            (names, mut edges) => {
                edges.as_text();
                (names.into_text(), edges)
            }
        };
        self.as_text.store(matches!(names, Interner::Text(_)), Ordering::Relaxed);
        let names = self.names.insert(names);
        let out = &mut self.edges;
        match (names, edges) {
            (Interner::Numbers(names), Edges::Numbers(pairs)) => {
                out.reserve(pairs.len());
                pairs.into_iter().all(|[s, t]| match (names.id(s), names.id(t)) {
                    (Some(s), Some(t)) => {
                        out.push([s, t]);
                        true
                    }
                    _ => false,
                })
            }
            (Interner::Text(names), Edges::Text(local, pairs)) => {
                let Some(ids) = names.ids_of(local) else { return false };
                out.extend(pairs.iter().map(|e| e.map(|v| ids[v as usize])));
                true
            }
            _ => unreachable!("names and edges are of one kind"),
        }
    }

    fn finish(self, mut source: Source, options: &ImportOptions) -> Result<(EdgeList, Source)> {
        source.lines = self.lines + u64::from(!self.last_line);
        let column = 1;
        let Some(names) = self.names.filter(|_| !self.edges.is_empty()) else {
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
        source.ids = match names {
            Interner::Numbers(_) => Ids::Numbers,
            Interner::Text(_) => Ids::Text,
        };
        let edges = EdgeList {
            vertices: names.len(),
            directed: options.directed.unwrap_or(!self.plan.undirected),
            edges: self.edges,
            weights: self.weights,
            labels: names.into_labels(),
        };
        Ok((edges, source))
    }
}

fn step(consumed: &Consumed, hooks: &mut Hooks<'_>) -> Result<()> {
    let (done, total) = consumed.progress();
    hooks.step(Stage::Reading, done, total)
}

/// A parsed block, whether its last line is ended, and its number; or why there is none.
type Numbered = (u64, Result<(Parsed, bool)>);

/// Blocks and the number of the next one.
struct Feed {
    blocks: Blocks,
    next: u64,
    ended: bool,
}

impl Feed {
    fn next(&mut self) -> Option<(u64, Result<super::input::Block>)> {
        if self.ended {
            return None;
        }
        let number = self.next;
        self.next += 1;
        let block = self.blocks.next().transpose();
        self.ended = !matches!(block, Some(Ok(_)));
        block.map(|b| (number, b))
    }
}

/// Parses blocks until there are none or the receiver is gone.
fn work(shared: &Mutex<Feed>, plan: &Plan, as_text: &AtomicBool, sender: &SyncSender<Numbered>) {
    loop {
        let taken = shared.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some((number, block)) = taken else { return };
        let parsed = block.map(|block| {
            let parsed = parse(&block, plan, as_text.load(Ordering::Relaxed));
            (parsed, block.bytes.ends_with(b"\n"))
        });
        if sender.send((number, parsed)).is_err() {
            return;
        }
    }
}
