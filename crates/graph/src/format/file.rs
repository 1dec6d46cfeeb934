//! Opening a graph file: tables into DRAM, edges left on the medium.
//!
//! Lifecycle: open -> header checked -> vertex tables loaded and checked -> sections read on demand
//! (names once, pages by what runs a kernel).
//!
//! Invariants
//! - After opening, every list address lies inside PAGES (see [`super::vertices`]), so a kernel
//!   needs no check before it reads; what it reads may still be forged and is checked by it or by
//!   `check`. Checked by `misplaced_lists_and_wrong_sums_are_named`,
//!   `forged_neighbours_are_an_error_on_every_road`.
//! - No allocation is larger than the file. Checked by
//!   `hostile_counts_are_refused_before_anything_is_allocated`.
//! - Every error names the file. Checked by `an_error_in_a_file_names_the_file`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bytemuck::Pod;
use littoral_base::codec::crc;
use littoral_device::region::Region;

use super::header::{Header, MAGIC, SectionKind, flag};
use super::page::{PageFault, PageId, PageView};
use super::vertices::{List, VertexTable};
use super::{BLOCK_BYTES, Direction, Extent, HEAD_UNIT_BYTES, Layout, Piece};
use crate::error::{Error, Kind, Result, io};
use crate::names::{Labels, Names, TextNames};

#[derive(Debug)]
enum Backing {
    File(File),
    Memory(Vec<u8>),
    Region(Region),
}

/// One direction of an open graph: its vertex table in DRAM, its lists on the medium.
#[derive(Debug)]
pub struct Lists {
    table: VertexTable,
    pages: Extent,
    heads: Extent,
    head_index: Vec<u32>,
    weights: Option<Extent>,
}

impl Lists {
    /// The vertex table.
    #[inline(always)]
    pub fn table(&self) -> &VertexTable {
        &self.table
    }

    /// Where the list of `v` lies in PAGES, and its degree.
    #[inline(always)]
    pub fn locate(&self, v: u32) -> List {
        self.table.list(v)
    }

    /// The degree of `v`.
    #[inline(always)]
    pub fn degree(&self, v: u32) -> u32 {
        self.table.degree(v)
    }

    /// Where the pages lie in the file.
    pub fn pages(&self) -> Extent {
        self.pages
    }

    /// Where the fronts of all lists lie in the file.
    pub fn heads(&self) -> Extent {
        self.heads
    }

    /// The unit of HEADS at which each block of vertices begins, and one more for the end; unit `k`
    /// of block `b` lies `(head_index()[b] + k) * HEAD_UNIT_BYTES` bytes into the section.
    #[inline(always)]
    pub fn head_index(&self) -> &[u32] {
        &self.head_index
    }

    /// Where pages of weights lie in a file of version 1; weights of version 2 lie in PAGES.
    pub fn weight_pages(&self) -> Option<Extent> {
        self.weights
    }
}

/// All lists of a direction in DRAM, with their weights.
#[derive(Debug)]
pub struct Arcs {
    words: Vec<u32>,
    /// Pages of weights, in files of version 1.
    beside: Option<Vec<u32>>,
    layout: Layout,
}

impl Arcs {
    /// The neighbours of a piece.
    ///
    /// # Panics
    /// When there is no such piece.
    pub fn neighbours(&self, piece: Piece) -> &[u32] {
        let from = piece.addr as usize;
        &self.words[from..from + piece.len as usize]
    }

    /// The weights of a piece, as bits of f32; none in a graph without weights.
    ///
    /// # Panics
    /// When there is no such piece.
    pub fn weights(&self, piece: Piece) -> &[u32] {
        let (from, len) = (piece.addr as usize, piece.len as usize);
        match (&self.beside, self.layout.is_paired()) {
            (Some(weights), _) => &weights[from..from + len],
            (None, true) => &self.words[from + len..from + 2 * len],
            (None, false) => &[],
        }
    }
}

/// An open graph file.
#[derive(Debug)]
pub struct GraphFile {
    path: PathBuf,
    backing: Backing,
    header: Header,
    outgoing: Lists,
    incoming: Option<Lists>,
    names: OnceLock<Names>,
}

impl GraphFile {
    /// Whether the file at `path` begins as a graph file does.
    pub fn is_at(path: &Path) -> bool {
        // A pipe that is opened and closed again is broken for its writer.
        if !path.metadata().is_ok_and(|meta| meta.is_file()) {
            return false;
        }
        let mut magic = [0; MAGIC.len()];
        let read = File::open(path).and_then(|file| file.read_exact_at(&mut magic, 0));
        read.is_ok() && &magic == MAGIC
    }

    /// Opens a graph file and loads its vertex tables.
    ///
    /// # Errors
    /// `Kind::Io`, or what is wrong with the file: `Foreign`, `Unsupported`, `Corrupt`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|e| io("cannot open", path, e))?;
        let meta = file.metadata().map_err(|e| io("cannot look at", path, e))?;
        if !meta.is_file() {
            let refused = Error::new(Kind::Foreign, format!("{} is no file", path.display()));
            return Err(refused.at_path(path));
        }
        Self::load(Backing::File(file), meta.len(), path)
    }

    /// Opens a graph file held in memory.
    ///
    /// # Errors
    /// As [`GraphFile::open`].
    pub fn from_image(image: Vec<u8>) -> Result<Self> {
        let bytes = image.len() as u64;
        Self::load(Backing::Memory(image), bytes, Path::new("(memory)"))
    }

    /// Opens a graph file held in memory that devices in DRAM share.
    ///
    /// # Errors
    /// As [`GraphFile::open`].
    pub fn from_region(region: Region) -> Result<Self> {
        let bytes = region.len() as u64;
        Self::load(Backing::Region(region), bytes, Path::new("(memory)"))
    }

    fn load(backing: Backing, file_bytes: u64, path: &Path) -> Result<Self> {
        Self::load_unnamed(&backing, file_bytes, path)
            .map_err(|e| e.in_context(path.display()).at_path(path))
            .map(|(header, outgoing, incoming)| GraphFile {
                path: path.to_path_buf(),
                backing,
                header,
                outgoing,
                incoming,
                names: OnceLock::new(),
            })
    }

    fn load_unnamed(
        backing: &Backing,
        file_bytes: u64,
        path: &Path,
    ) -> Result<(Header, Lists, Option<Lists>)> {
        let mut block = vec![0; file_bytes.min(BLOCK_BYTES as u64) as usize];
        backing.read(0, &mut block, path)?;
        let header = Header::decode(&block, file_bytes)?;
        let outgoing = load_lists(backing, &header, Direction::Out, path)?;
        let directed = header.has(flag::DIRECTED);
        let incoming =
            directed.then(|| load_lists(backing, &header, Direction::In, path)).transpose()?;
        Ok((header, outgoing, incoming))
    }

    /// The file's name; `(memory)` without one.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file, unless the graph is in memory.
    pub fn as_file(&self) -> Option<&File> {
        match &self.backing {
            Backing::File(f) => Some(f),
            Backing::Memory(_) | Backing::Region(_) => None,
        }
    }

    /// The memory that devices in DRAM may share, where the graph is in such.
    pub fn as_region(&self) -> Option<&Region> {
        match &self.backing {
            Backing::Region(region) => Some(region),
            Backing::File(_) | Backing::Memory(_) => None,
        }
    }

    /// The whole image, when the graph is in memory.
    pub fn as_image(&self) -> Option<&[u8]> {
        match &self.backing {
            Backing::File(_) => None,
            Backing::Memory(m) => Some(m),
            Backing::Region(region) => Some(region),
        }
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The geometry of pages.
    pub fn layout(&self) -> Layout {
        self.header.layout()
    }

    /// How many vertices.
    pub fn vertices(&self) -> u32 {
        self.header.vertices
    }

    /// Whether arcs have a direction.
    pub fn is_directed(&self) -> bool {
        self.incoming.is_some()
    }

    /// Whether arcs have weights.
    pub fn is_weighted(&self) -> bool {
        self.header.has(flag::WEIGHTED)
    }

    /// Lists by source; of an undirected graph, the only ones.
    pub fn outgoing(&self) -> &Lists {
        &self.outgoing
    }

    /// Lists by target; of an undirected graph, the same as by source.
    pub fn incoming(&self) -> &Lists {
        self.incoming.as_ref().unwrap_or(&self.outgoing)
    }

    /// The lists of a direction.
    pub fn lists(&self, direction: Direction) -> &Lists {
        match direction {
            Direction::Out => self.outgoing(),
            Direction::In => self.incoming(),
        }
    }

    /// Bytes of DRAM the loaded tables take.
    pub fn resident_bytes(&self) -> u64 {
        let directions = 1 + u64::from(self.is_directed());
        8 * u64::from(self.vertices()) * directions
    }

    /// What vertices are called; read and checked on the first call.
    ///
    /// # Errors
    /// `Kind::Io`, `Kind::Corrupt`.
    pub fn names(&self) -> Result<&Names> {
        if let Some(names) = self.names.get() {
            return Ok(names);
        }
        let names = self.load_names().map_err(|e| e.in_context(self.path.display()))?;
        Ok(self.names.get_or_init(|| names))
    }

    fn load_names(&self) -> Result<Names> {
        let labels = if self.header.has(flag::NAMES_U64) {
            Labels::Numbers(self.table(SectionKind::Names, Direction::Out)?)
        } else if self.header.has(flag::NAMES_TEXT) {
            let offsets = self.table(SectionKind::NameOffsets, Direction::Out)?;
            Labels::Text(TextNames::from_parts(
                offsets,
                self.table(SectionKind::NameBytes, Direction::Out)?,
            )?)
        } else {
            return Names::checked(Labels::Identity, Vec::new(), self.vertices());
        };
        Names::checked(labels, self.table(SectionKind::NameOrder, Direction::Out)?, self.vertices())
    }

    fn table<T: Pod>(&self, kind: SectionKind, direction: Direction) -> Result<Vec<T>> {
        load_table(&self.backing, &self.header, kind, direction, &self.path)
    }

    /// Reads bytes of the file, from any thread.
    ///
    /// # Errors
    /// `Kind::Io`, also past the end.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.backing.read(offset, into, &self.path)
    }

    /// Reads a whole section into `into`, which is as long as `extent`, without verifying it.
    ///
    /// # Errors
    /// `Kind::Io`.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn read_extent(&self, extent: Extent, into: &mut [u8]) -> Result<()> {
        assert_eq!(extent.bytes, into.len() as u64, "a buffer of the section's length");
        self.read_at(extent.offset, into)
    }

    /// Loads a section of words without verifying it.
    ///
    /// # Errors
    /// `Kind::Io`.
    pub fn load_words(&self, extent: Extent) -> Result<Vec<u32>> {
        let mut words = vec![0; (extent.bytes / 4) as usize];
        self.read_extent(extent, bytemuck::cast_slice_mut(&mut words))?;
        Ok(words)
    }

    /// Loads all pages of a direction and verifies them.
    ///
    /// # Errors
    /// `Kind::Io`, `Kind::Corrupt`.
    pub fn load_pages(&self, direction: Direction) -> Result<Vec<u32>> {
        let words = self.load_words(self.lists(direction).pages())?;
        self.verify_pages(direction, &words)?;
        Ok(words)
    }

    /// Checks that the pages of `direction` in `words` are whole, in place and name only vertices.
    ///
    /// A kernel that holds all pages in DRAM calls this once and indexes without checks of its own.
    ///
    /// # Errors
    /// `Kind::Corrupt`, naming the page.
    pub fn verify_pages(&self, direction: Direction, words: &[u32]) -> Result<()> {
        let page_words = self.layout().page_words();
        for (number, page) in (0u32..).zip(words.chunks_exact(page_words)) {
            self.verify_page(PageId::lists(direction, number), page)?;
        }
        Ok(())
    }

    /// Loads all lists of a direction with their weights, if any, and verifies them.
    ///
    /// # Errors
    /// `Kind::Io`, `Kind::Corrupt`.
    pub fn load_arcs(&self, direction: Direction) -> Result<Arcs> {
        let stored = if self.is_directed() { direction } else { Direction::Out };
        let lists = self.lists(direction);
        let beside = lists.weight_pages().map(|extent| self.load_words(extent)).transpose()?;
        if let Some(weights) = &beside {
            for (number, page) in (0u32..).zip(weights.chunks_exact(self.layout().page_words())) {
                let kind = SectionKind::Weights;
                self.verify_page(PageId { kind, direction: stored, number }, page)?;
            }
        }
        Ok(Arcs { words: self.load_pages(stored)?, beside, layout: self.layout() })
    }

    pub(crate) fn verify_page(&self, id: PageId, page: &[u32]) -> Result<()> {
        let (generation, vertices) = (self.header.generation, self.header.vertices);
        let view = PageView::from_words(page);
        let mut checked = view.check(id, generation, vertices);
        let is_paired = self.layout().is_paired() && id.kind == SectionKind::Pages;
        if (view.arc_words() == 2) != is_paired {
            checked = checked.and(Err(PageFault::Directory));
        }
        checked.map_err(|fault| self.page_error(id, fault))
    }

    fn page_error(&self, id: PageId, fault: PageFault) -> Error {
        let context = format!(
            "{}: {:?} {:?} page {}: {fault}; import the graph again",
            self.path.display(),
            id.direction,
            id.kind,
            id.number
        );
        Error::new(Kind::Corrupt, context).at_path(&self.path).at_page(id.number)
    }
}

impl Backing {
    fn read(&self, offset: u64, into: &mut [u8], path: &Path) -> Result<()> {
        let image: &[u8] = match self {
            Backing::File(file) => {
                let read = file.read_exact_at(into, offset);
                return read.map_err(|e| io("cannot read", path, e));
            }
            Backing::Memory(image) => image,
            Backing::Region(region) => region,
        };
        let from = usize::try_from(offset).ok();
        let range = from.and_then(|f| Some(f..f.checked_add(into.len())?));
        let bytes = range
            .and_then(|r| image.get(r))
            .ok_or_else(|| io("cannot read", path, std::io::ErrorKind::UnexpectedEof.into()))?;
        into.copy_from_slice(bytes);
        Ok(())
    }
}

fn load_lists(
    backing: &Backing,
    header: &Header,
    direction: Direction,
    path: &Path,
) -> Result<Lists> {
    let extent = |kind| header.section(kind, direction).map(|s| s.extent);
    let present = "invariant: a header's sections were checked";
    let pages = extent(SectionKind::Pages).expect(present);
    let entries = load_table(backing, header, SectionKind::Vertices, direction, path)?;
    let overflow = load_table(backing, header, SectionKind::Overflow, direction, path)?;
    let count = pages.bytes / u64::from(header.page_bytes);
    let table = VertexTable::new(entries, overflow, header.layout(), count, header.arcs)
        .map_err(|e| e.in_context(format!("{direction:?}")))?;
    let heads = extent(SectionKind::Heads).expect(present);
    let head_index = head_index(&table, header.heads, heads, direction)?;
    Ok(Lists { table, pages, heads, head_index, weights: extent(SectionKind::Weights) })
}

/// Where each block of HEADS begins, in units, checked against the section's length.
fn head_index(
    table: &VertexTable,
    heads: u32,
    extent: Extent,
    direction: Direction,
) -> Result<Vec<u32>> {
    let mut at = 0;
    let mut index = vec![0];
    index.extend(table.head_units(heads).map(|units| {
        at += units;
        at
    }));
    if u64::from(at) * HEAD_UNIT_BYTES as u64 == extent.bytes {
        return Ok(index);
    }
    let context = format!("section Heads {direction:?}: {} bytes for {at} units", extent.bytes);
    Err(Error::new(Kind::Corrupt, context))
}

/// Loads a section as a table and verifies its checksum.
fn load_table<T: Pod>(
    backing: &Backing,
    header: &Header,
    kind: SectionKind,
    direction: Direction,
    path: &Path,
) -> Result<Vec<T>> {
    let section =
        header.section(kind, direction).expect("invariant: a header's sections were checked");
    let mut table = vec![T::zeroed(); (section.extent.bytes / size_of::<T>() as u64) as usize];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut table);
    backing.read(section.extent.offset, bytes, path)?;
    if crc(bytes) == section.crc {
        return Ok(table);
    }
    let context =
        format!("section {kind:?} {direction:?}: checksum mismatch; import the graph again");
    Err(Error::new(Kind::Corrupt, context).at_path(path).at_offset(section.extent.offset))
}
