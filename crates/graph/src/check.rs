//! Walks every invariant of a graph file: `littoral graph check`.
//!
//! Checked, beyond what opening checks: every section's CRC and the zeros between sections; every
//! page's seal, trailer and directory; that each directory entry is where the vertex table says
//! and each list is there once; that lists are hub-first without loops or duplicates; that HEADS
//! repeats their fronts; that weights lie beside their arcs and are finite and >= 0; that both
//! directions hold the same arcs (an undirected graph: both arcs of every edge); that names are
//! unique and sorted; that ids descend by degree where the header says so.
//!
//! Equality of directions is compared by a 64-bit sum over arcs: exact up to a chance of 2^-64.
//!
//! Invariants
//! - The first fault ends the walk with an error that names section, page or vertex; the file is
//!   only read. Checked by
//!   `a_page_with_one_flipped_bit_is_refused_by_name_wherever_it_is_read_whole`.
//! - Any single changed bit of a file is found. Checked by `any_flipped_bit_is_found`.

use littoral_base::codec::{crc, crc_append};
use littoral_base::rng::mix;

use crate::builder::{Hooks, Stage};
use crate::error::{Error, Kind, Result};
use crate::format::file::{GraphFile, Lists};
use crate::format::header::{Section, SectionKind, flag};
use crate::format::page::{CONTINUED, CONTINUES, Entry, PageId, PageView};
use crate::format::{
    BLOCK_BYTES, Direction, ENTRY_WORDS, HEAD_BLOCK_VERTICES, Layout, RESERVED_WORD, TRAILER_WORDS,
};

const CHUNK_BYTES: usize = 4 << 20;

/// What a check went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Pages read, weights included.
    pub pages: u64,
    /// Arcs seen.
    pub arcs: u64,
    /// Names compared.
    pub names: u64,
}

/// Checks a whole file.
///
/// # Errors
/// `Kind::Corrupt` with the place of the first fault, `Kind::Io`, `Kind::Interrupted`.
pub fn check(graph: &GraphFile, hooks: &mut Hooks<'_>) -> Result<CheckReport> {
    Checker { graph, report: CheckReport::default() }
        .run(hooks)
        .map_err(|e| e.in_context(graph.path().display()).at_path(graph.path()))
}

fn corrupt(what: impl Into<String>) -> Error {
    Error::new(Kind::Corrupt, what)
}

struct Checker<'a> {
    graph: &'a GraphFile,
    report: CheckReport,
}

impl Checker<'_> {
    fn run(mut self, hooks: &mut Hooks<'_>) -> Result<CheckReport> {
        self.check_gaps()?;
        self.check_tables()?;
        let mut sums = Vec::new();
        for &direction in self.graph.header().directions() {
            sums.push(self.check_direction(direction, hooks)?);
        }
        let agree = match sums[..] {
            [both] => both.forward == both.backward,
            [out, into] => out.forward == into.backward,
            _ => false,
        };
        if !agree {
            let what = "directions disagree: an arc of one has no counterpart in the other";
            return Err(corrupt(what));
        }
        self.graph.names()?;
        self.report.names = u64::from(self.graph.vertices());
        Ok(self.report)
    }

    /// Bytes between sections are zero, so that no changed bit goes unseen.
    fn check_gaps(&self) -> Result<()> {
        let sections = &self.graph.header().sections;
        let ends = sections.iter().map(|s| s.extent.offset + s.extent.bytes);
        let starts = sections.iter().skip(1).map(|s| s.extent.offset);
        for (end, start) in ends.zip(starts.chain([self.graph.header().file_bytes])) {
            if start - end >= BLOCK_BYTES as u64 {
                return Err(corrupt(format!("a gap of {} bytes at byte {end}", start - end)));
            }
            let mut gap = [0; BLOCK_BYTES];
            let gap = &mut gap[..(start - end) as usize];
            self.graph.read_at(end, gap)?;
            if gap.iter().any(|&b| b != 0) {
                return Err(corrupt(format!("bytes behind byte {end} are not zero")));
            }
        }
        Ok(())
    }

    fn check_tables(&self) -> Result<()> {
        let header = self.graph.header();
        let table = self.graph.outgoing().table();
        if crc(bytemuck::cast_slice(table.entries())) != header.generation {
            return Err(corrupt("the generation is not that of the vertex table"));
        }
        let degree = |v| self.total_degree(v);
        let ascends = (1..header.vertices).find(|&v| degree(v - 1) < degree(v));
        match ascends.filter(|_| header.has(flag::DEGREE_ORDER)) {
            Some(v) => Err(corrupt(format!("vertex {v}: ids do not descend by degree"))),
            None => Ok(()),
        }
    }

    fn total_degree(&self, v: u32) -> u64 {
        let out = u64::from(self.graph.outgoing().degree(v));
        let directed = self.graph.is_directed();
        out + if directed { u64::from(self.graph.incoming().degree(v)) } else { 0 }
    }

    fn check_direction(&mut self, direction: Direction, hooks: &mut Hooks<'_>) -> Result<Sums> {
        let mut walk = Walk::new(self, direction)?;
        let sums = walk.run(hooks)?;
        let (pages, arcs) = (walk.pages_read, walk.arcs);
        self.report.pages += pages;
        self.report.arcs += arcs;
        Ok(sums)
    }
}

/// Sums over arcs that do not depend on their order.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Over (source, target, weight).
    forward: u64,
    /// Over (target, source, weight).
    backward: u64,
}

impl Sums {
    fn add(&mut self, v: u32, to: u32, weight: u32) {
        let term = |a: u32, b: u32| mix(mix(u64::from(a) << 32 | u64::from(b)) ^ u64::from(weight));
        self.forward = self.forward.wrapping_add(term(v, to));
        self.backward = self.backward.wrapping_add(term(to, v));
    }
}

/// One pass over the pages of a direction, weights beside them.
struct Walk<'a> {
    checker: &'a Checker<'a>,
    direction: Direction,
    lists: &'a Lists,
    layout: Layout,
    heads: Vec<u32>,
    head_words: u64,
    /// The list that continues in the next page: vertex, neighbours seen, the last of them.
    open: Option<(u32, u32, u32)>,
    pages_read: u64,
    arcs: u64,
    sums: Sums,
}

impl<'a> Walk<'a> {
    fn new(checker: &'a Checker<'a>, direction: Direction) -> Result<Self> {
        let graph = checker.graph;
        let lists = graph.lists(direction);
        let heads = graph.load_words(lists.heads())?;
        let section = section(graph, SectionKind::Heads, direction);
        if crc(bytemuck::cast_slice(&heads)) != section.crc {
            return Err(corrupt(format!("section Heads {direction:?}: checksum mismatch")));
        }
        Ok(Walk {
            checker,
            direction,
            lists,
            layout: graph.layout(),
            heads,
            head_words: 0,
            open: None,
            pages_read: 0,
            arcs: 0,
            sums: Sums::default(),
        })
    }

    fn run(&mut self, hooks: &mut Hooks<'_>) -> Result<Sums> {
        let graph = self.checker.graph;
        let pages = section(graph, SectionKind::Pages, self.direction);
        let weights =
            self.lists.weight_pages().map(|_| section(graph, SectionKind::Weights, self.direction));
        let (mut page_words, mut weight_words) = (Vec::new(), Vec::new());
        let (mut page_crc, mut weight_crc) = (0, 0);
        let mut at = 0;
        while at < pages.extent.bytes {
            hooks.step(Stage::Checking, at, pages.extent.bytes)?;
            let bytes = (pages.extent.bytes - at).min(CHUNK_BYTES as u64);
            page_crc = read_chunk(graph, pages, at, bytes, page_crc, &mut page_words)?;
            if let Some(weights) = weights {
                weight_crc = read_chunk(graph, weights, at, bytes, weight_crc, &mut weight_words)?;
            }
            self.chunk(at, &page_words, &weight_words)?;
            at += bytes;
        }
        hooks.step(Stage::Checking, at, pages.extent.bytes)?;
        if page_crc != pages.crc || weights.is_some_and(|w| w.crc != weight_crc) {
            return Err(corrupt(format!(
                "{:?}: checksum over all pages mismatches",
                self.direction
            )));
        }
        self.finish()
    }

    fn chunk(&mut self, at: u64, pages: &[u32], weights: &[u32]) -> Result<()> {
        let page_words = self.layout.page_words();
        let first = (at / self.layout.page_bytes() as u64) as u32;
        let mut beside = weights.chunks_exact(page_words);
        for (number, page) in (first..).zip(pages.chunks_exact(page_words)) {
            let id = PageId::lists(self.direction, number);
            self.checker.graph.verify_page(id, page)?;
            let weight = beside.next();
            if let Some(weight) = weight {
                let id = PageId { kind: SectionKind::Weights, ..id };
                self.checker.graph.verify_page(id, weight)?;
            }
            let walked = self.page(number, page, weight);
            walked.map_err(|e| e.in_context(format!("{:?} page {number}", self.direction)))?;
            self.pages_read += 1 + u64::from(weight.is_some());
        }
        Ok(())
    }

    fn page(&mut self, number: u32, words: &[u32], weights: Option<&[u32]>) -> Result<()> {
        let view = PageView::from_words(words);
        self.check_free(view, words)?;
        if let Some(weights) = weights {
            check_weights(view, words, weights)?;
        }
        let trailer = view.trailer();
        let continues = self.open.is_some();
        if continues != (trailer.flags & CONTINUES != 0) {
            return Err(corrupt("its flags contradict the page before"));
        }
        for (i, (entry, list)) in view.lists().enumerate() {
            let from = usize::from(entry.start);
            self.list(number, entry, list, i == 0 && continues)?;
            let own = view.weights(entry);
            let weight = |k: usize| match weights {
                Some(beside) => beside[from + k],
                None => own.get(k).copied().unwrap_or(0),
            };
            let last_page = self.open.is_none();
            if i == 0 && last_page == (trailer.flags & CONTINUED != 0) || i > 0 && !last_page {
                return Err(corrupt("its flags contradict its first list's length"));
            }
            for (k, &to) in list.iter().enumerate() {
                self.sums.add(entry.vertex, to, weight(k));
            }
            self.arcs += list.len() as u64;
        }
        Ok(())
    }

    /// Words between lists and directory are zero.
    fn check_free(&self, view: PageView<'_>, words: &[u32]) -> Result<()> {
        let arcs: usize = view.lists().map(|(e, _)| usize::from(e.len)).sum();
        let used = arcs * view.arc_words();
        let directory = words.len() - TRAILER_WORDS - ENTRY_WORDS * view.lists().len();
        match words[used..directory].iter().any(|&w| w != 0) {
            true => Err(corrupt("free words are not zero")),
            false => Ok(()),
        }
    }

    /// A list (or piece) is the one the vertex table names, and in order.
    fn list(&mut self, page: u32, entry: Entry, list: &[u32], continues: bool) -> Result<()> {
        let v = entry.vertex;
        if v >= self.checker.graph.vertices() {
            return Err(corrupt(format!("an entry for vertex {v}, which there is not")));
        }
        let place = self.lists.locate(v);
        let (seen, last) = match self.open.take() {
            Some((w, seen, last)) if continues && w == v => (seen, Some(last)),
            None if !continues => (0, None),
            _ => return Err(corrupt(format!("vertex {v}: the list before is not continued"))),
        };
        let step = self.layout.page_words() as u64;
        let piece = u64::from(seen) / self.layout.piece_arcs() as u64;
        let here = u64::from(page) * step + u64::from(entry.start);
        let len = (place.degree - seen).min(self.layout.piece_arcs() as u32);
        if here != place.addr + piece * step || u32::from(entry.len) != len {
            return Err(corrupt(format!(
                "vertex {v}: not where, or not as long as, its table says"
            )));
        }
        self.check_order(v, last, list)?;
        if seen == 0 {
            self.check_head(v, list)?;
        }
        if seen + len < place.degree {
            self.open = Some((v, seen + len, list[list.len() - 1]));
        }
        Ok(())
    }

    /// Strictly hub-first: no loops, no duplicates, highest degree in front.
    fn check_order(&self, v: u32, last: Option<u32>, list: &[u32]) -> Result<()> {
        let by_degree = self.checker.graph.header().has(flag::DEGREE_ORDER);
        let key = |u: u32| {
            let hubs_first = if by_degree { 0 } else { self.checker.total_degree(u) };
            (std::cmp::Reverse(hubs_first), u)
        };
        let mut before = last.map(key);
        for &to in list {
            let now = key(to);
            if to == v || before.is_some_and(|b| b >= now) {
                return Err(corrupt(format!(
                    "vertex {v}: list not hub-first, or a loop or duplicate"
                )));
            }
            before = Some(now);
        }
        Ok(())
    }

    fn head_units(&self, v: u32) -> (usize, usize) {
        let index = self.lists.head_index();
        let block = v as usize / HEAD_BLOCK_VERTICES;
        (index[block] as usize, (index[block + 1] - index[block]) as usize)
    }

    fn check_head(&mut self, v: u32, list: &[u32]) -> Result<()> {
        let (first, units) = self.head_units(v);
        for (k, &to) in list.iter().take(units).enumerate() {
            let at = (first + k) * HEAD_BLOCK_VERTICES + v as usize % HEAD_BLOCK_VERTICES;
            if self.heads[at] != to {
                return Err(corrupt(format!("vertex {v}: HEADS differs from its list")));
            }
            self.head_words += 1;
        }
        Ok(())
    }

    fn finish(&self) -> Result<Sums> {
        let d = self.direction;
        if self.open.is_some() || self.arcs != self.checker.graph.header().arcs {
            return Err(corrupt(format!("{d:?}: pages hold {} arcs, not all", self.arcs)));
        }
        let filled = self.heads.iter().filter(|&&w| w != RESERVED_WORD).count() as u64;
        if filled != self.head_words {
            return Err(corrupt(format!("{d:?}: HEADS names neighbours that no list has")));
        }
        let empty = (0..self.lists.table().len()).map(|v| (v, self.lists.locate(v)));
        match empty.filter(|(_, l)| l.degree == 0).find(|(_, l)| l.addr != 0) {
            Some((v, _)) => {
                Err(corrupt(format!("{d:?} vertex {v}: an empty list with an address")))
            }
            None => Ok(self.sums),
        }
    }
}

fn section(graph: &GraphFile, kind: SectionKind, direction: Direction) -> &Section {
    let found = graph.header().section(kind, direction);
    found.expect("invariant: a header's sections were checked")
}

/// Reads part of a section and continues its checksum.
fn read_chunk(
    graph: &GraphFile,
    section: &Section,
    at: u64,
    bytes: u64,
    sum: u32,
    words: &mut Vec<u32>,
) -> Result<u32> {
    words.resize((bytes / 4) as usize, 0);
    let buffer = bytemuck::cast_slice_mut(words);
    graph.read_at(section.extent.offset + at, buffer)?;
    Ok(crc_append(sum, buffer))
}

/// Weights have the directory of their lists, are finite and not negative, and leave free words
/// zero.
fn check_weights(view: PageView<'_>, words: &[u32], weights: &[u32]) -> Result<()> {
    let beside = PageView::from_words(weights);
    let directory = |w: &[u32]| {
        let end = w.len() - TRAILER_WORDS;
        w[end - ENTRY_WORDS * view.lists().len()..end].to_vec()
    };
    let same = view.trailer() == beside.trailer() && directory(words) == directory(weights);
    if !same {
        return Err(corrupt("the page of weights has another directory"));
    }
    let used: usize = view.lists().map(|(e, _)| usize::from(e.len)).sum();
    let free_end = words.len() - TRAILER_WORDS - ENTRY_WORDS * view.lists().len();
    let bad = weights[..used].iter().any(|&w| {
        let weight = f32::from_bits(w);
        !weight.is_finite() || weight.is_sign_negative() && weight != 0.0
    });
    match bad || weights[used..free_end].iter().any(|&w| w != 0) {
        true => Err(corrupt("a weight is negative or no number, or free words are not zero")),
        false => Ok(()),
    }
}
