//! Block 0 of a graph file: what it holds and where.
//!
//! Invariants of a decoded header
//! - Flags and section kinds are known; counts are in range; the file is as long as it says.
//!   Checked by `check_counts`, `other_magic_version_and_flags_are_refused_by_name`.
//! - Exactly the sections the flags call for are present, once each, inside the file, on block
//!   boundaries, not overlapping, each exactly as long as the counts make it (PAGES: whole pages).
//!   Checked by `check_places`, `overlapping_sections_are_refused`.
//!
//! So a hostile header cannot make anyone allocate more than the file's own size.

use littoral_base::codec::{Reader, Writer, seal, unseal};
use littoral_base::mutant;

use super::{
    BLOCK_BYTES, Direction, Extent, HEAD_BLOCK_VERTICES, HEAD_UNIT_BYTES, Layout, VERTICES_MAX,
};
use crate::error::{Error, Kind, Result};

/// The first eight bytes of a graph file.
pub const MAGIC: &[u8; 8] = b"LITGRAPH";
/// The version of files without weights, and of older files with weights in pages of their own.
pub const VERSION_1: u32 = 1;
/// The version of files with weights behind the neighbours of each piece.
pub const VERSION_2: u32 = 2;
/// The most neighbours of a vertex that HEADS repeats.
pub const HEADS_MAX: u32 = 16;
/// How many it repeats by default (measured, `docs/design/graph-kernels.md`).
pub const HEADS_DEFAULT: u32 = 8;
const SECTIONS_MAX: u32 = 64;
const PAGES_MAX: u64 = 1 << 32;

/// Flag bits of the header.
pub mod flag {
    /// Arcs have a direction; OUT and IN are stored.
    pub const DIRECTED: u32 = 1;
    /// Arcs have weights.
    pub const WEIGHTED: u32 = 2;
    /// Vertices have numbers as names.
    pub const NAMES_U64: u32 = 4;
    /// Vertices have text as names.
    pub const NAMES_TEXT: u32 = 8;
    /// Ids descend by degree.
    pub const DEGREE_ORDER: u32 = 16;
    pub(crate) const KNOWN: u32 = 31;
}

/// Kinds of section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum SectionKind {
    /// List addresses and degrees.
    Vertices = 1,
    /// Degrees too large for the vertex table.
    Overflow = 2,
    /// The front of every list.
    Heads = 3,
    /// The lists.
    Pages = 4,
    /// Weights, parallel to the lists.
    Weights = 5,
    /// Names that are numbers.
    Names = 6,
    /// Where each text name begins.
    NameOffsets = 7,
    /// The text of all names.
    NameBytes = 8,
    /// Vertices in order of name.
    NameOrder = 9,
}

const KINDS: [SectionKind; 9] = [
    SectionKind::Vertices,
    SectionKind::Overflow,
    SectionKind::Heads,
    SectionKind::Pages,
    SectionKind::Weights,
    SectionKind::Names,
    SectionKind::NameOffsets,
    SectionKind::NameBytes,
    SectionKind::NameOrder,
];

impl SectionKind {
    /// The kind's name as reports show it.
    pub const fn name(self) -> &'static str {
        match self {
            SectionKind::Vertices => "vertices",
            SectionKind::Overflow => "overflow",
            SectionKind::Heads => "heads",
            SectionKind::Pages => "pages",
            SectionKind::Weights => "weights",
            SectionKind::Names => "names",
            SectionKind::NameOffsets => "name_offsets",
            SectionKind::NameBytes => "name_bytes",
            SectionKind::NameOrder => "name_order",
        }
    }
}

/// One row of the section table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// What it holds.
    pub kind: SectionKind,
    /// Which arcs; `Out` for names.
    pub direction: Direction,
    /// Where it lies.
    pub extent: Extent,
    /// CRC32C of its bytes.
    pub crc: u32,
}

/// The header of a graph file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The format version.
    pub version: u32,
    /// Bits of [`flag`].
    pub flags: u32,
    /// How many vertices.
    pub vertices: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Arcs stored in each direction; an undirected edge is two.
    pub arcs: u64,
    /// Neighbours of each vertex that HEADS repeats.
    pub heads: u32,
    /// Repeated in every page's trailer.
    pub generation: u32,
    /// Self-loops removed at import.
    pub loops_removed: u64,
    /// Duplicate edges removed at import.
    pub duplicates_removed: u64,
    /// Bytes of the whole file.
    pub file_bytes: u64,
    /// The section table.
    pub sections: Vec<Section>,
}

fn corrupt(what: impl Into<String>) -> Error {
    Error::new(Kind::Corrupt, what)
}

impl Header {
    /// Whether all bits of `bits` are set.
    pub fn has(&self, bits: u32) -> bool {
        self.flags & bits == bits
    }

    /// Whether the weights of a piece lie behind its neighbours.
    pub fn is_paired(&self) -> bool {
        self.version == VERSION_2 && self.has(flag::WEIGHTED)
    }

    /// The geometry of the file's pages.
    pub fn layout(&self) -> Layout {
        let layout = Layout::new(self.page_bytes);
        layout.expect("invariant: a header's page size was checked").paired(self.is_paired())
    }

    /// The directions stored.
    pub fn directions(&self) -> &'static [Direction] {
        if self.has(flag::DIRECTED) { &[Direction::Out, Direction::In] } else { &[Direction::Out] }
    }

    /// Edges of the graph: arcs when directed, half the arcs when not.
    pub fn edges(&self) -> u64 {
        if self.has(flag::DIRECTED) { self.arcs } else { self.arcs / 2 }
    }

    /// The section of a kind and direction, if the file has it.
    pub fn section(&self, kind: SectionKind, direction: Direction) -> Option<&Section> {
        self.sections.iter().find(|s| s.kind == kind && s.direction == direction)
    }

    /// The header as block 0.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.raw(MAGIC).u32(self.version).u32(self.flags).u32(self.vertices).u32(self.page_bytes);
        w.u64(self.arcs).u32(self.heads).u32(self.generation).u64(self.loops_removed);
        w.u64(self.duplicates_removed).u64(self.file_bytes);
        w.u32(u32::try_from(self.sections.len()).expect("invariant: few sections")).u32(0);
        for s in &self.sections {
            w.u32(s.kind as u32).u32(s.direction as u32).u64(s.extent.offset).u64(s.extent.bytes);
            w.u32(s.crc).u32(0);
        }
        assert!(w.len() < BLOCK_BYTES, "the section table fits block 0");
        w.pad_to(BLOCK_BYTES);
        let mut block = w.finish();
        seal(&mut block, 0);
        block
    }

    /// Reads block 0 of a file of `file_bytes` bytes and checks every field.
    ///
    /// # Errors
    /// `Kind::Foreign` for another magic, `Kind::Unsupported` for another version or unknown flags
    /// and sections, `Kind::Corrupt` for anything that contradicts itself.
    pub fn decode(block: &[u8], file_bytes: u64) -> Result<Header> {
        if block.get(..MAGIC.len()) != Some(MAGIC) {
            let context = "no graph file: it does not begin with LITGRAPH; `littoral graph import` \
                           makes one from an edge list";
            return Err(Error::new(Kind::Foreign, context));
        }
        let version = version_of(block)?;
        let body = block.get(..BLOCK_BYTES).and_then(|b| unseal(b, 0));
        let body = body.ok_or_else(|| corrupt("header: checksum mismatch or truncated"))?;
        let header = decode_fields(version, &body[12..])?
            .ok_or_else(|| corrupt("header: section table cut off"))?;
        header.check(file_bytes)?;
        Ok(header)
    }

    fn check(&self, file_bytes: u64) -> Result<()> {
        if file_bytes != self.file_bytes {
            return Err(corrupt(format!(
                "truncated or extended: {file_bytes} bytes, the header says {}",
                self.file_bytes
            )));
        }
        self.check_counts()?;
        self.check_places()?;
        self.expected_sections()
            .try_for_each(|(kind, direction)| self.check_one(kind, direction))?;
        match self
            .sections
            .iter()
            .find(|s| !self.expected_sections().any(|e| e == (s.kind, s.direction)))
        {
            None => Ok(()),
            Some(s) => {
                Err(corrupt(format!("section {:?} {:?} has no business here", s.kind, s.direction)))
            }
        }
    }

    fn check_counts(&self) -> Result<()> {
        let n = self.vertices;
        if n == 0 || n > VERTICES_MAX {
            return Err(corrupt(format!("{n} vertices; a graph has 1 to {VERTICES_MAX}")));
        }
        Layout::new(self.page_bytes).map_err(|e| corrupt(e.context().to_owned()))?;
        if self.heads > HEADS_MAX {
            return Err(corrupt(format!("heads {}; at most {HEADS_MAX}", self.heads)));
        }
        if self.has(flag::NAMES_U64 | flag::NAMES_TEXT) {
            return Err(corrupt("names both numbers and text"));
        }
        if !self.has(flag::DIRECTED) && !self.arcs.is_multiple_of(2) {
            return Err(corrupt("an undirected graph with an odd number of arcs"));
        }
        Ok(())
    }

    /// Sections lie on block boundaries, inside the file, in ascending order without overlap.
    fn check_places(&self) -> Result<()> {
        let mut end = BLOCK_BYTES as u64;
        for s in &self.sections {
            let Extent { offset, bytes } = s.extent;
            let fits = (offset >= end || mutant!("graph_sections_overlap"))
                && offset % BLOCK_BYTES as u64 == 0
                && offset.checked_add(bytes).is_some_and(|e| e <= self.file_bytes);
            if !fits {
                let context = format!(
                    "section {:?} {:?} at byte {offset}, {bytes} long, leaves the file or overlaps",
                    s.kind, s.direction
                );
                return Err(corrupt(context));
            }
            end = offset + bytes;
        }
        Ok(())
    }

    fn expected_sections(&self) -> impl Iterator<Item = (SectionKind, Direction)> + '_ {
        let named = self.flags & (flag::NAMES_U64 | flag::NAMES_TEXT) != 0;
        KINDS.iter().copied().flat_map(|k| self.directions().iter().map(move |&d| (k, d))).filter(
            move |&(kind, direction)| match kind {
                SectionKind::Weights => self.has(flag::WEIGHTED) && !self.is_paired(),
                SectionKind::Names => self.has(flag::NAMES_U64) && direction == Direction::Out,
                SectionKind::NameOffsets | SectionKind::NameBytes => {
                    self.has(flag::NAMES_TEXT) && direction == Direction::Out
                }
                SectionKind::NameOrder => named && direction == Direction::Out,
                _ => true,
            },
        )
    }

    fn check_one(&self, kind: SectionKind, direction: Direction) -> Result<()> {
        let mut found = self.sections.iter().filter(|s| s.kind == kind && s.direction == direction);
        let (Some(section), None) = (found.next(), found.next()) else {
            return Err(corrupt(format!(
                "section {kind:?} {direction:?} is missing or there twice"
            )));
        };
        if self.length_is_right(section) {
            return Ok(());
        }
        let context = format!(
            "section {kind:?} {direction:?} is {} bytes long, not what the counts make it",
            section.extent.bytes
        );
        Err(corrupt(context))
    }

    fn length_is_right(&self, section: &Section) -> bool {
        let (n, bytes) = (u64::from(self.vertices), section.extent.bytes);
        let page = u64::from(self.page_bytes);
        match section.kind {
            SectionKind::Vertices | SectionKind::Names => bytes == 8 * n,
            SectionKind::Overflow => bytes % 8 == 0 && bytes <= 8 * n,
            SectionKind::Heads => {
                let units_max = n.div_ceil(HEAD_BLOCK_VERTICES as u64) * u64::from(self.heads);
                bytes % HEAD_UNIT_BYTES as u64 == 0 && bytes / HEAD_UNIT_BYTES as u64 <= units_max
            }
            SectionKind::Pages => {
                bytes % page == 0 && bytes / page < PAGES_MAX && self.arcs <= bytes / 4
            }
            SectionKind::Weights => self
                .section(SectionKind::Pages, section.direction)
                .is_some_and(|p| p.extent.bytes == bytes),
            SectionKind::NameOffsets => bytes == 8 * (n + 1),
            SectionKind::NameBytes => true,
            SectionKind::NameOrder => bytes == 4 * n,
        }
    }
}

fn version_of(block: &[u8]) -> Result<u32> {
    match block.get(8..12).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])) {
        Some(version @ (VERSION_1 | VERSION_2)) => Ok(version),
        Some(v) => Err(Error::new(
            Kind::Unsupported,
            format!("graph file version {v}; this build reads versions 1 and 2: import again"),
        )),
        None => Err(corrupt("header: truncated")),
    }
}

/// The fields behind magic and version; `None` when they run off the block.
fn decode_fields(version: u32, body: &[u8]) -> Result<Option<Header>> {
    let mut r = Reader::new(body);
    let Some(mut header) = decode_counts(version, &mut r) else { return Ok(None) };
    if header.flags & !flag::KNOWN != 0 {
        let context = format!("flags {:#x} hold features this build does not know", header.flags);
        return Err(Error::new(Kind::Unsupported, context));
    }
    let Some(count) = r.u32().filter(|&c| c <= SECTIONS_MAX) else {
        return Err(corrupt(format!("more than {SECTIONS_MAX} sections")));
    };
    let Some(_) = r.u32() else { return Ok(None) };
    for _ in 0..count {
        let Some(row) = decode_row(&mut r) else { return Ok(None) };
        header.sections.push(known_section(row)?);
    }
    Ok(Some(header))
}

fn decode_counts(version: u32, r: &mut Reader<'_>) -> Option<Header> {
    Some(Header {
        version,
        flags: r.u32()?,
        vertices: r.u32()?,
        page_bytes: r.u32()?,
        arcs: r.u64()?,
        heads: r.u32()?,
        generation: r.u32()?,
        loops_removed: r.u64()?,
        duplicates_removed: r.u64()?,
        file_bytes: r.u64()?,
        sections: Vec::new(),
    })
}

type Row = (u32, u32, Extent, u32);

fn decode_row(r: &mut Reader<'_>) -> Option<Row> {
    let row = (r.u32()?, r.u32()?, Extent { offset: r.u64()?, bytes: r.u64()? }, r.u32()?);
    r.u32()?;
    Some(row)
}

fn known_section((kind, direction, extent, crc): Row) -> Result<Section> {
    let known = KINDS.into_iter().find(|&k| k as u32 == kind);
    let direction = match direction {
        0 => Some(Direction::Out),
        1 => Some(Direction::In),
        _ => None,
    };
    match (known, direction) {
        (Some(kind), Some(direction)) => Ok(Section { kind, direction, extent, crc }),
        _ => Err(Error::new(Kind::Unsupported, format!("a section of unknown kind {kind}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_magic_version_and_flags_are_refused_by_name() {
        assert_eq!(Header::decode(b"%PDF-1.7", 8).unwrap_err().kind(), Kind::Foreign);
        assert_eq!(Header::decode(b"", 0).unwrap_err().kind(), Kind::Foreign);
        let mut block = MAGIC.to_vec();
        block.extend(3u32.to_le_bytes());
        let e = Header::decode(&block, 12).unwrap_err();
        assert_eq!(e.kind(), Kind::Unsupported);
        assert!(e.to_string().contains("version 3"), "{e}");
    }

    #[test]
    fn hostile_counts_are_refused_before_anything_is_allocated() {
        let sections = vec![Section {
            kind: SectionKind::Vertices,
            direction: Direction::Out,
            extent: Extent { offset: 4096, bytes: u64::MAX - 4096 },
            crc: 0,
        }];
        let header = Header {
            version: VERSION_1,
            flags: 0,
            vertices: VERTICES_MAX,
            page_bytes: 4096,
            arcs: u64::MAX - 1,
            heads: 2,
            generation: 0,
            loops_removed: 0,
            duplicates_removed: 0,
            file_bytes: 4096,
            sections,
        };
        let e = Header::decode(&header.encode(), 4096).unwrap_err();
        assert_eq!(e.kind(), Kind::Corrupt);
        assert!(e.to_string().contains("leaves the file"), "{e}");
    }

    #[test]
    fn overlapping_sections_are_refused() {
        let edges = crate::builder::EdgeList::new(2, false, vec![[0, 1]]);
        let (options, none) =
            (crate::builder::BuildOptions::default(), &mut crate::builder::Hooks::none());
        let (image, _) = crate::builder::build_in_memory(edges, &options, none).unwrap();
        let mut header = Header::decode(&image[..BLOCK_BYTES], image.len() as u64).unwrap();
        let first = header.sections[0].extent.offset;
        header.sections[1].extent.offset = first;
        let e = Header::decode(&header.encode(), image.len() as u64).unwrap_err();
        assert!(e.to_string().contains("Vertices Out at byte 4096"), "{e}");
    }
}
