//! What a graph file holds, as numbers for people: `littoral graph info`.
//!
//! Header and vertex tables alone are read; no page is touched.

use serde::Serialize;

use crate::format::file::GraphFile;
use crate::format::header::{SectionKind, flag};
use crate::format::{Direction, ENTRY_WORDS};

/// A section's kind, direction and size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SectionInfo {
    /// Its kind.
    pub kind: &'static str,
    /// `out` or `in`.
    pub direction: &'static str,
    /// Where it begins in the file.
    pub offset_bytes: u64,
    /// Its length.
    pub size_bytes: u64,
}

/// The numbers of a graph file; every key names its unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GraphInfo {
    /// The file.
    pub path: String,
    /// Its format version.
    pub format_version: u32,
    /// Whether edges have a direction.
    pub directed: bool,
    /// Whether edges have weights.
    pub weighted: bool,
    /// What vertices are called: `ids`, `numbers` or `text`.
    pub names: &'static str,
    /// How ids were given: `degree` or `input`.
    pub order: &'static str,
    /// Vertices.
    pub vertices_count: u32,
    /// Vertices without an edge.
    pub isolated_count: u32,
    /// Edges (an undirected edge counts once).
    pub edges_count: u64,
    /// Self-loops removed at import.
    pub loops_removed_count: u64,
    /// Duplicate edges removed at import.
    pub duplicates_removed_count: u64,
    /// The largest out-degree (degree, when undirected).
    pub degree_max: u32,
    /// The mean over all vertices.
    pub degree_mean: f64,
    /// Half of all vertices have no more than this.
    pub degree_p50: u32,
    /// 99 % of all vertices have no more than this.
    pub degree_p99: u32,
    /// Neighbours of each vertex that HEADS repeats.
    pub heads_count: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages of lists, both directions.
    pub pages_count: u64,
    /// Lists longer than a page, both directions.
    pub long_lists_count: u64,
    /// Page words that hold neither list, directory nor trailer, as a share of all.
    pub padding_share: f64,
    /// Bytes of DRAM for the vertex tables.
    pub resident_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// The section table.
    pub sections: Vec<SectionInfo>,
}

/// The numbers of an open graph.
pub fn info(graph: &GraphFile) -> GraphInfo {
    let header = graph.header();
    let degrees = Degrees::of(graph);
    let pages = Pages::of(graph);
    let names = match (header.has(flag::NAMES_U64), header.has(flag::NAMES_TEXT)) {
        (true, _) => "numbers",
        (_, true) => "text",
        _ => "ids",
    };
    GraphInfo {
        path: graph.path().display().to_string(),
        format_version: header.version,
        directed: graph.is_directed(),
        weighted: header.has(flag::WEIGHTED),
        names,
        order: if header.has(flag::DEGREE_ORDER) { "degree" } else { "input" },
        vertices_count: header.vertices,
        isolated_count: degrees.isolated,
        edges_count: header.edges(),
        loops_removed_count: header.loops_removed,
        duplicates_removed_count: header.duplicates_removed,
        degree_max: degrees.quantile(1.0),
        degree_mean: header.arcs as f64 / f64::from(header.vertices),
        degree_p50: degrees.quantile(0.5),
        degree_p99: degrees.quantile(0.99),
        heads_count: header.heads,
        page_bytes: header.page_bytes,
        pages_count: pages.count,
        long_lists_count: pages.long_lists,
        padding_share: pages.padding_share,
        resident_bytes: graph.resident_bytes(),
        file_bytes: header.file_bytes,
        sections: sections(graph),
    }
}

fn sections(graph: &GraphFile) -> Vec<SectionInfo> {
    let row = |s: &crate::format::header::Section| SectionInfo {
        kind: s.kind.name(),
        direction: if s.direction == Direction::Out { "out" } else { "in" },
        offset_bytes: s.extent.offset,
        size_bytes: s.extent.bytes,
    };
    graph.header().sections.iter().map(row).collect()
}

struct Degrees {
    /// Out-degrees, ascending.
    sorted: Vec<u32>,
    isolated: u32,
}

impl Degrees {
    fn of(graph: &GraphFile) -> Self {
        let (out, into) = (graph.outgoing(), graph.incoming());
        let mut sorted: Vec<u32> = (0..graph.vertices()).map(|v| out.degree(v)).collect();
        let lonely = (0..graph.vertices()).filter(|&v| out.degree(v) == 0 && into.degree(v) == 0);
        let isolated = lonely.count() as u32;
        sorted.sort_unstable();
        Degrees { sorted, isolated }
    }

    fn quantile(&self, q: f64) -> u32 {
        let rank = (q * self.sorted.len() as f64).ceil() as usize;
        self.sorted[rank.clamp(1, self.sorted.len()) - 1]
    }
}

struct Pages {
    count: u64,
    long_lists: u64,
    padding_share: f64,
}

impl Pages {
    fn of(graph: &GraphFile) -> Self {
        let (header, layout) = (graph.header(), graph.layout());
        let (piece_arcs, arc_words) = (layout.piece_arcs() as u32, layout.arc_words() as u64);
        let (mut count, mut used, mut long_lists) = (0, 0, 0);
        for &direction in header.directions() {
            let lists = graph.lists(direction);
            let pages = header.section(SectionKind::Pages, direction).map_or(0, |s| s.extent.bytes);
            count += pages / u64::from(header.page_bytes);
            for v in 0..header.vertices {
                let degree = lists.degree(v);
                let pieces = degree.div_ceil(piece_arcs);
                used += u64::from(degree) * arc_words + u64::from(pieces) * ENTRY_WORDS as u64;
                long_lists += u64::from(pieces > 1);
            }
        }
        let free = (count * layout.capacity_words() as u64).saturating_sub(used);
        let words = (count * layout.page_words() as u64).max(1);
        Pages { count, long_lists, padding_share: free as f64 / words as f64 }
    }
}
