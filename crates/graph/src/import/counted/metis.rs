//! METIS: a line of vertices, edges and format, then a list per vertex.
//!
//! Weights and sizes of vertices are read over; weights of edges are kept.

use super::{Counted, Lines, bad, nothing, vertex, weight};
use crate::error::{Error, Kind, Result};

/// What a list holds.
struct Shape {
    vertices: u32,
    edges: u64,
    /// Numbers before the neighbours: the size and weights of the vertex.
    before: usize,
    weighted: bool,
}

/// An arc as its list names it: the neighbours ordered, the weight's bits, and where it stands.
type Named = ([u32; 2], u32, u64);

/// Reads an undirected graph, each edge of which both ends name.
pub(super) fn read(lines: &mut Lines<'_, '_>) -> Result<Counted> {
    let head = loop {
        match lines.next()? {
            None => return Err(lines.bad("no line of vertices and edges")),
            Some(line) if line.starts_with('%') || line.trim().is_empty() => {}
            Some(line) => break line.to_owned(),
        }
    };
    let shape = shape(lines, &head)?;
    if lines.sink.block_bytes(1).is_some() {
        let what = "--memory: both ends of a METIS graph's edges are compared in memory; write it \
                    as an edge list first, for example with `graph convert IN.graph OUT.el`";
        let refused = Error::new(Kind::Argument, format!("{}: {what}", lines.path.display()));
        return Err(refused.at_path(lines.path));
    }
    // Arcs from the smaller id, and from the larger.
    let mut named: [Vec<Named>; 2] = [Vec::new(), Vec::new()];
    let mut lists = 0;
    while let Some(line) = lines.next()? {
        if line.starts_with('%') || (lists == shape.vertices && line.trim().is_empty()) {
            continue;
        }
        let line = line.to_owned();
        if lists == shape.vertices {
            return Err(lines.bad(format!("more than the {lists} lists that are counted")));
        }
        let arcs = list(&line, lists, &shape, lines.number, &mut named);
        arcs.map_err(|what| lines.bad(what))?;
        lists += 1;
    }
    let found = (named[0].len() + named[1].len()) as u64;
    if lists < shape.vertices {
        let what = format!("{lists} lists where {} are counted", shape.vertices);
        return Err(lines.bad(what));
    }
    if let Some((arc, line, is_down)) = lonely(&mut named) {
        let (from, to) = if is_down { (arc[1], arc[0]) } else { (arc[0], arc[1]) };
        let what = format!(
            "vertex {} names {}, which does not name it back with the same weight",
            from + 1,
            to + 1
        );
        return Err(bad(lines.path, line, what));
    }
    // Twice the count of a damaged head may need more than 64 bits.
    let counted = 2 * u128::from(shape.edges);
    if u128::from(found) != counted {
        return Err(lines.bad(format!("{found} neighbours where {counted} are counted")));
    }
    let [up, _] = named;
    let directed = lines.begin(false, shape.weighted, shape.edges)?;
    for (edge, bits, _) in up {
        lines.push(edge, shape.weighted.then_some(f32::from_bits(bits)))?;
    }
    Ok(Counted { vertices: shape.vertices, directed, weighted: shape.weighted })
}

fn shape(lines: &Lines<'_, '_>, head: &str) -> Result<Shape> {
    let mut words = head.split_ascii_whitespace();
    let vertices = lines.vertices(words.next())?;
    let edges = lines.count(words.next())?;
    let format = words.next().unwrap_or("0");
    if format.len() > 3 || format.bytes().any(|b| b != b'0' && b != b'1') {
        return Err(lines.bad(format!("'{format}' is no METIS format: up to three of 0 and 1")));
    }
    let digit = |from_end: usize| format.bytes().rev().nth(from_end) == Some(b'1');
    let weights = match words.next() {
        None => 1,
        Some(word) => word.parse::<u8>().map_err(|_| {
            lines.bad(format!("'{word}' is no number of weights of a vertex, 0 to 255"))
        })?,
    };
    nothing(words.next()).map_err(|what| lines.bad(what))?;
    let weights = if digit(1) { usize::from(weights) } else { 0 };
    Ok(Shape { vertices, edges, before: usize::from(digit(2)) + weights, weighted: digit(0) })
}

/// Adds the arcs of vertex `v`.
fn list(
    line: &str,
    v: u32,
    shape: &Shape,
    number: u64,
    named: &mut [Vec<Named>; 2],
) -> std::result::Result<(), String> {
    let mut words = line.split_ascii_whitespace();
    for _ in 0..shape.before {
        let word = words.next().unwrap_or("");
        word.parse::<u64>().map_err(|_| format!("'{word}' is no size or weight of a vertex"))?;
    }
    while let Some(word) = words.next() {
        let to = vertex(Some(word), shape.vertices)?;
        if to == v {
            return Err(format!("vertex {} names itself", v + 1));
        }
        let bits = if shape.weighted { weight(words.next())?.to_bits() } else { 0 };
        named[usize::from(to < v)].push(([v.min(to), v.max(to)], bits, number));
    }
    Ok(())
}

/// The first arc in the file that its other end does not name, its line, and whether it leads to
/// the smaller id.
fn lonely(named: &mut [Vec<Named>; 2]) -> Option<([u32; 2], u64, bool)> {
    named.iter_mut().for_each(|arcs| arcs.sort_unstable());
    let [up, down] = &*named;
    let key = |n: &Named| (n.0, n.1);
    let (mut i, mut k) = (0, 0);
    let mut first: Option<([u32; 2], u64, bool)> = None;
    let mut keep = |n: &Named, is_down| {
        if first.is_none_or(|f| n.2 < f.1) {
            first = Some((n.0, n.2, is_down));
        }
    };
    while i < up.len() || k < down.len() {
        match (up.get(i), down.get(k)) {
            (Some(a), Some(b)) if key(a) == key(b) => (i, k) = (i + 1, k + 1),
            (Some(a), Some(b)) if key(a) > key(b) => {
                keep(b, true);
                k += 1;
            }
            (Some(a), _) => {
                keep(a, false);
                i += 1;
            }
            (None, Some(b)) => {
                keep(b, true);
                k += 1;
            }
            (None, None) => break,
        }
    }
    first
}
