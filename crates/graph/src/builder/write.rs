//! Sections onto a medium: placement is known first, then pages are filled in parallel and written
//! in order.
//!
//! Invariants
//! - The header is written last: an image cut short has no header and is refused. Checked by
//!   `any_truncation_or_extension_is_found`.
//! - Bytes depend on lists, placement and options alone, not on threads. Checked by
//!   `threads_do_not_change_a_byte`, `the_builder_writes_the_golden_bytes`.

use std::fs::{File, Permissions};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use littoral_base::codec::{crc, crc_append};
use littoral_base::mutant;
use littoral_base::names::{folder_of, name_durably};

use super::csr::{Arc, Csr, Weighted};
use super::locality::{by_locality, is_skewed};
use super::order::by_degree;
use super::{BuildOptions, BuildReport, EdgeList, Existing, Hooks, Order, Stage, sides};
use crate::error::{Error, Kind, Result, io};
use crate::format::header::{Header, Section, SectionKind, VERSION_1, VERSION_2, flag};
use crate::format::page::{CONTINUED, CONTINUES, PageId, PageWriter};
use crate::format::vertices::VertexTable;
use crate::format::{
    BLOCK_BYTES, Direction, Extent, HEAD_BLOCK_VERTICES, Layout, RESERVED_WORD, TRAILER_WORDS,
};
use crate::names::{Labels, Names};
use crate::pack::{Plan, plan};

/// Bytes of pages one thread fills before they are written.
const CHUNK_BYTES: usize = 4 << 20;

/// Writes a file beside `path` under another name and renames it once `write` has succeeded.
///
/// The temporary file is created before `write` begins, so a folder that cannot be written to is
/// found out at once.
///
/// # Errors
/// What `write` says; `Kind::Argument` when `path` exists and `existing` says to refuse it, or when
/// it is no regular file.
pub fn to_file<T>(
    path: &Path,
    existing: Existing,
    write: impl FnOnce(&mut File, &Path) -> Result<T>,
) -> Result<T> {
    match path.symlink_metadata() {
        Ok(_) if existing == Existing::Refuse && !mutant!("graph_existing_replaced") => {
            return Err(exists(path));
        }
        Ok(meta) if !meta.is_file() => {
            return Err(refused(path, "is no regular file; choose another name"));
        }
        _ => {}
    }
    let replace = existing == Existing::Replace || mutant!("graph_existing_replaced");
    rename_into_place(path, replace, write)
}

fn refused(path: &Path, what: &str) -> Error {
    Error::new(Kind::Argument, format!("{} {what}", path.display())).at_path(path)
}

fn exists(path: &Path) -> Error {
    refused(path, "exists; choose another name, or overwrite it with --force")
}

fn rename_into_place<T>(
    path: &Path,
    replace: bool,
    write: impl FnOnce(&mut File, &Path) -> Result<T>,
) -> Result<T> {
    let directory = folder_of(path);
    let mut temporary = tempfile::Builder::new()
        .prefix(".littoral-")
        .suffix(".partial")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)
        .map_err(|e| io("cannot create a file in", directory, e))?;
    let done = write(temporary.as_file_mut(), path)?;
    temporary.as_file().sync_all().map_err(|e| io("cannot sync", path, e))?;
    let renamed = if replace { temporary.persist(path) } else { temporary.persist_noclobber(path) };
    renamed.map_err(|e| match e.error.kind() {
        // It was made meanwhile.
        ErrorKind::AlreadyExists => exists(path),
        _ => io("cannot rename to", path, e.error),
    })?;
    name_durably(path).map_err(|e| io("cannot sync directory", directory, e))?;
    Ok(done)
}

/// Builds a graph file onto `out`; `path` is for messages.
///
/// # Errors
/// As [`super::build_file`].
pub fn build<W: Write + Seek>(
    edges: EdgeList,
    options: &BuildOptions,
    out: &mut W,
    path: &Path,
    hooks: &mut Hooks<'_>,
) -> Result<BuildReport> {
    edges.check()?;
    let layout = options.layout()?.paired(edges.weights.is_some());
    if edges.weights.is_some() {
        let lists = ListSet::<Weighted>::new(edges, options, hooks)?;
        write_lists(lists, options, layout, SectionWriter::new(out, path)?, hooks)
    } else {
        let lists = ListSet::<u32>::new(edges, options, hooks)?;
        write_lists(lists, options, layout, SectionWriter::new(out, path)?, hooks)
    }
}

/// Sorted, renumbered lists of every direction.
struct ListSet<A> {
    directions: Vec<(Direction, Csr<A>)>,
    /// `old[v]` is the number list `v` has in the [`Csr`].
    old: Vec<u32>,
    labels: Labels,
    flags: u32,
    vertices: u32,
    loops: u64,
    duplicates: u64,
}

impl<A: Arc> ListSet<A> {
    fn new(edges: EdgeList, options: &BuildOptions, hooks: &mut Hooks<'_>) -> Result<Self> {
        const STEPS: u64 = 4;
        let EdgeList { vertices, directed, edges, weights, labels } = edges;
        let weights = weights.unwrap_or_default();
        let loops = edges.iter().filter(|e| e[0] == e[1]).count() as u64;
        hooks.step(Stage::Sorting, 0, STEPS)?;
        let mut directions = Vec::new();
        for (i, &(direction, side)) in (1..).zip(sides(directed)) {
            directions.push((
                direction,
                Csr::<A>::new(vertices, &edges, &weights, side, options.threads),
            ));
            hooks.step(Stage::Sorting, i, STEPS)?;
        }
        let arcs = directions[0].1.arcs();
        let kept = if directed { arcs } else { arcs / 2 };
        let duplicates = edges.len() as u64 - loops - kept;
        drop((edges, weights));
        let degrees = total_degrees(&directions);
        let ranking = by_degree(&degrees);
        hooks.step(Stage::Sorting, 3, STEPS)?;
        let order = match options.order {
            Order::Auto if is_skewed(&degrees) => Order::Degree,
            Order::Auto => Order::Bfs,
            given => given,
        };
        let by_rank = order == Order::Degree;
        let near = (order == Order::Bfs)
            .then(|| by_locality(vertices, page_words(options), near_lists(&directions)));
        // From the rank by degree, by which lists are sorted, to the id.
        let back: Option<Vec<u32>> = match &near {
            Some(near) => Some(ranking.old.iter().map(|&v| near.rank[v as usize]).collect()),
            None => (!by_rank).then(|| ranking.old.clone()),
        };
        for (_, csr) in &mut directions {
            csr.relabel(&ranking.rank, back.as_deref(), options.threads);
        }
        hooks.step(Stage::Sorting, STEPS, STEPS)?;
        let old = match near {
            Some(near) => near.old,
            None if by_rank => ranking.old,
            None => (0..vertices).collect(),
        };
        let labels = labels.permuted(&old);
        let flags = flags_of(directed, weighted::<A>(), by_rank, &labels);
        Ok(ListSet { directions, old, labels, flags, vertices, loops, duplicates })
    }
}

fn weighted<A: Arc>() -> bool {
    size_of::<A>() == size_of::<Weighted>()
}

pub(super) fn flags_of(directed: bool, weighted: bool, by_degree: bool, labels: &Labels) -> u32 {
    let names = match labels {
        Labels::Identity => 0,
        Labels::Numbers(_) => flag::NAMES_U64,
        Labels::Text(_) => flag::NAMES_TEXT,
    };
    let bit = |on: bool, bit: u32| if on { bit } else { 0 };
    bit(directed, flag::DIRECTED)
        | bit(weighted, flag::WEIGHTED)
        | bit(by_degree, flag::DEGREE_ORDER)
        | names
}

/// Words of a page that lists and their directory can take.
fn page_words(options: &BuildOptions) -> usize {
    options.page_bytes as usize / 4 - TRAILER_WORDS
}

/// The neighbours of a vertex in any direction.
fn near_lists<A: Arc>(
    directions: &[(Direction, Csr<A>)],
) -> impl Fn(u32, &mut dyn FnMut(u32)) + use<'_, A> {
    |v, each| {
        let lists = directions.iter().flat_map(|(_, csr)| csr.list(v));
        lists.for_each(|arc| each(arc.target()));
    }
}

fn total_degrees<A: Arc>(directions: &[(Direction, Csr<A>)]) -> Vec<u32> {
    let mut sum = directions[0].1.lens.clone();
    for (_, csr) in &directions[1..] {
        sum.iter_mut().zip(&csr.lens).for_each(|(s, &l)| *s += l);
    }
    sum
}

/// The lists of one direction and their places.
struct Placed<'a, A> {
    direction: Direction,
    csr: &'a Csr<A>,
    old: &'a [u32],
    plan: Plan,
    table: VertexTable,
    layout: Layout,
}

impl<'a, A: Arc> Placed<'a, A> {
    fn new(lists: &'a ListSet<A>, i: usize, layout: Layout, window: usize) -> Result<Self> {
        let (direction, csr) = &lists.directions[i];
        let degrees: Vec<u32> = lists.old.iter().map(|&o| csr.lens[o as usize]).collect();
        let arc_words = layout.arc_words() as u32;
        let words: Vec<u32> = degrees.iter().map(|d| d * arc_words).collect();
        let plan = plan(&words, layout, window)?;
        let table = VertexTable::encode(&plan.addr, &degrees);
        Ok(Placed { direction: *direction, csr, old: &lists.old, plan, table, layout })
    }

    /// The part of list `v` that page `p` holds, whether it continues one before, and goes on
    /// after.
    fn piece(&self, v: u32, p: u32) -> (&'a [A], u16) {
        let list = self.csr.list(self.old[v as usize]);
        let len = self.layout.piece_arcs();
        if list.len() <= len {
            return (list, 0);
        }
        let first_page = self.plan.addr[v as usize] / self.layout.page_words() as u64;
        let from = (u64::from(p) - first_page) as usize * len;
        let to = list.len().min(from + len);
        let begins = if from > 0 { CONTINUES } else { 0 };
        let ends = if to < list.len() { CONTINUED } else { 0 };
        (&list[from..to], begins | ends)
    }

    fn fill_page(&self, id: PageId, generation: u32, words: &mut [u32]) {
        words.fill(0);
        let mut writer = PageWriter::new(words, self.layout);
        let mut flags = 0;
        for &v in self.plan.in_page(id.number) {
            let (piece, piece_flags) = self.piece(v, id.number);
            let start = put_list(&mut writer, v, piece, A::target, A::weight);
            let place = u64::from(id.number) * self.layout.page_words() as u64 + start as u64;
            assert!(piece_flags & CONTINUES != 0 || place == self.plan.addr[v as usize]);
            flags |= piece_flags;
        }
        writer.finish(id, generation, flags);
    }

    fn fill_pages(&self, generation: u32, pages: Range<u32>, words: &mut Vec<u32>) {
        let page_words = self.layout.page_words();
        words.resize(pages.len() * page_words, 0);
        for (number, page) in pages.zip(words.chunks_exact_mut(page_words)) {
            self.fill_page(PageId::lists(self.direction, number), generation, page);
        }
    }

    /// Unit `k` of a block of HEADS: the `k`-th neighbour of each of its vertices.
    fn head_unit(&self, block: &[u32], k: usize, words: &mut [u32]) {
        words.fill(RESERVED_WORD);
        for (word, &old) in words.iter_mut().zip(block) {
            if let Some(arc) = self.csr.list(old).get(k) {
                *word = arc.target();
            }
        }
    }
}

/// Adds a piece of vertex `v`'s list to a page; answers its first word there.
pub(super) fn put_list<T>(
    writer: &mut PageWriter<'_>,
    v: u32,
    piece: &[T],
    target: impl Fn(&T) -> u32,
    weight: impl Fn(&T) -> f32,
) -> usize {
    let (start, room) = writer.list(v, piece.len());
    let (neighbours, weights) = room.split_at_mut(piece.len());
    neighbours.iter_mut().zip(piece).for_each(|(w, a)| *w = target(a));
    weights.iter_mut().zip(piece).for_each(|(w, a)| *w = weight(a).to_bits());
    start
}

/// A header whose counts of edges and sections are still to come.
pub(super) fn header_of(vertices: u32, options: &BuildOptions, weighted: bool) -> Header {
    Header {
        version: if weighted { VERSION_2 } else { VERSION_1 },
        flags: 0,
        vertices,
        page_bytes: options.page_bytes,
        arcs: 0,
        heads: options.heads,
        generation: 0,
        loops_removed: 0,
        duplicates_removed: 0,
        file_bytes: 0,
        sections: Vec::new(),
    }
}

fn write_lists<A: Arc, W: Write + Seek>(
    lists: ListSet<A>,
    options: &BuildOptions,
    layout: Layout,
    mut out: SectionWriter<'_, W>,
    hooks: &mut Hooks<'_>,
) -> Result<BuildReport> {
    let mut header = Header {
        flags: lists.flags,
        arcs: lists.directions[0].1.arcs(),
        loops_removed: lists.loops,
        duplicates_removed: lists.duplicates,
        ..header_of(lists.vertices, options, weighted::<A>())
    };
    let (mut pages, mut padding) = (0u64, 0u64);
    for i in 0..lists.directions.len() {
        let placed = Placed::new(&lists, i, layout, options.window())?;
        if i == 0 {
            header.generation = crc(bytemuck::cast_slice(placed.table.entries()));
        }
        write_direction(&placed, options, &header, &mut out, hooks)?;
        pages += u64::from(placed.plan.pages);
        padding += placed.plan.padding_words;
    }
    let ListSet { directions, labels, .. } = lists;
    drop(directions);
    write_names(&Names::new(labels, header.vertices), &mut out)?;
    out.finish(&mut header)?;
    Ok(BuildReport::of(&header, pages, padding, layout))
}

fn write_direction<A: Arc, W: Write + Seek>(
    placed: &Placed<'_, A>,
    options: &BuildOptions,
    header: &Header,
    out: &mut SectionWriter<'_, W>,
    hooks: &mut Hooks<'_>,
) -> Result<()> {
    let d = placed.direction;
    write_pages(placed, options.threads, header.generation, out, hooks)?;
    out.section(SectionKind::Vertices, d, bytemuck::cast_slice(placed.table.entries()))?;
    out.section(SectionKind::Overflow, d, bytemuck::cast_slice(placed.table.overflow()))?;
    write_heads(placed, options.heads, out)
}

fn write_heads<A: Arc, W: Write + Seek>(
    placed: &Placed<'_, A>,
    heads: u32,
    out: &mut SectionWriter<'_, W>,
) -> Result<()> {
    let units = placed.table.head_units(heads);
    let mut words = vec![0; HEAD_BLOCK_VERTICES];
    out.begin(SectionKind::Heads, placed.direction);
    for (block, units) in placed.old.chunks(HEAD_BLOCK_VERTICES).zip(units) {
        for k in 0..units as usize {
            placed.head_unit(block, k, &mut words);
            out.write(bytemuck::cast_slice(&words))?;
        }
    }
    out.end()
}

/// Fills chunks of pages on every thread, then writes them in order; a round at a time.
fn write_pages<A: Arc, W: Write + Seek>(
    placed: &Placed<'_, A>,
    threads: usize,
    generation: u32,
    out: &mut SectionWriter<'_, W>,
    hooks: &mut Hooks<'_>,
) -> Result<()> {
    let chunk = (CHUNK_BYTES / placed.layout.page_bytes()) as u32;
    let pages = placed.plan.pages;
    let mut buffers = vec![Vec::new(); threads];
    let mut next = 0u32;
    out.begin(SectionKind::Pages, placed.direction);
    while next < pages {
        std::thread::scope(|scope| {
            for buffer in &mut buffers {
                let range = next..pages.min(next.saturating_add(chunk));
                next = range.end;
                scope.spawn(move || placed.fill_pages(generation, range, buffer));
            }
        });
        for buffer in &buffers {
            out.write(bytemuck::cast_slice(buffer))?;
        }
        hooks.step(Stage::Writing, u64::from(next), u64::from(pages))?;
    }
    out.end()
}

pub(super) fn write_names<W: Write + Seek>(
    names: &Names,
    out: &mut SectionWriter<'_, W>,
) -> Result<()> {
    let d = Direction::Out;
    match names.labels() {
        Labels::Identity => return Ok(()),
        Labels::Numbers(n) => out.section(SectionKind::Names, d, bytemuck::cast_slice(n))?,
        Labels::Text(t) => {
            let (offsets, bytes) = t.parts();
            out.section(SectionKind::NameOffsets, d, bytemuck::cast_slice(offsets))?;
            out.section(SectionKind::NameBytes, d, bytes)?;
        }
    }
    out.section(SectionKind::NameOrder, d, bytemuck::cast_slice(names.order()))
}

/// Writes sections one after another on block boundaries and remembers where they are.
pub(super) struct SectionWriter<'a, W> {
    out: &'a mut W,
    path: &'a Path,
    at: u64,
    crc: u32,
    sections: Vec<Section>,
}

impl<'a, W: Write + Seek> SectionWriter<'a, W> {
    /// Leaves room for the header.
    pub(super) fn new(out: &'a mut W, path: &'a Path) -> Result<Self> {
        let mut writer = SectionWriter { out, path, at: 0, crc: 0, sections: Vec::new() };
        writer.write(&[0; BLOCK_BYTES])?;
        Ok(writer)
    }

    /// What is written to.
    pub(super) fn medium(&self) -> &W {
        self.out
    }

    /// The path that messages name.
    pub(super) fn path(&self) -> &'a Path {
        self.path
    }

    /// Begins a section, and answers where: its length is not known yet.
    pub(super) fn begin(&mut self, kind: SectionKind, direction: Direction) -> Extent {
        debug_assert!(self.at.is_multiple_of(BLOCK_BYTES as u64), "{kind:?} begins at a block");
        self.crc = 0;
        let extent = Extent { offset: self.at, bytes: 0 };
        self.sections.push(Section { kind, direction, extent, crc: 0 });
        extent
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|e| io("cannot write", self.path, e))?;
        self.crc = crc_append(self.crc, bytes);
        self.at += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn end(&mut self) -> Result<()> {
        let (at, crc) = (self.at, self.crc);
        let section = self.sections.last_mut().expect("invariant: a section was begun");
        section.extent.bytes = at - section.extent.offset;
        section.crc = crc;
        let rest = at.next_multiple_of(BLOCK_BYTES as u64) - at;
        self.write(&[0; BLOCK_BYTES][..rest as usize])
    }

    pub(super) fn section(
        &mut self,
        kind: SectionKind,
        direction: Direction,
        bytes: &[u8],
    ) -> Result<()> {
        self.begin(kind, direction);
        self.write(bytes)?;
        self.end()
    }

    pub(super) fn finish(self, header: &mut Header) -> Result<()> {
        header.file_bytes = self.at;
        header.sections = self.sections;
        let fail = |e| io("cannot write", self.path, e);
        let block = header.encode();
        debug_assert_eq!(Header::decode(&block, self.at).ok().as_ref(), Some(&*header));
        self.out.seek(SeekFrom::Start(0)).map_err(fail)?;
        self.out.write_all(&block).map_err(fail)?;
        self.out.flush().map_err(fail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_meanwhile_is_refused_as_one_that_was_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lg");
        let taken = to_file(&path, Existing::Refuse, |_, path| {
            std::fs::write(path, "of another program").unwrap();
            Ok(())
        });
        let before = to_file(&path, Existing::Refuse, |_, _| Ok(())).unwrap_err();
        let taken = taken.unwrap_err();
        assert_eq!((taken.kind(), taken.to_string()), (Kind::Argument, before.to_string()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "of another program");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }
}
