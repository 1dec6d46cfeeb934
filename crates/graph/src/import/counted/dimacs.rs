//! DIMACS: comments `c`, one line `p`, then arcs `a` with weights or edges `e` without.

use super::{Counted, Found, Lines, nothing, vertex, weight};
use crate::error::Result;

/// Reads the arcs of a shortest-path problem, or the edges of a colouring or clique problem.
pub(super) fn read(lines: &mut Lines<'_, '_>) -> Result<Counted> {
    let (vertices, count, weighted) = loop {
        let Some(line) = lines.next()? else {
            return Err(lines.bad("no line of 'p sp' or 'p edge'"));
        };
        let line = line.to_owned();
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            None | Some("c") => {}
            Some("p") => break problem(lines, words)?,
            Some(_) => return Err(lines.bad("an arc before the line of 'p'")),
        }
    };
    let directed = lines.begin(weighted, weighted, count)?;
    lines.records(&|line: &str| arc(line, vertices, weighted), count, "arcs")?;
    if lines.edges_count < count {
        let found = lines.edges_count;
        return Err(lines.bad(format!("{found} arcs where {count} are counted")));
    }
    Ok(Counted { vertices, directed, weighted })
}

/// Vertices, arcs, and whether they have weights and directions.
fn problem<'w>(
    lines: &Lines<'_, '_>,
    mut words: impl Iterator<Item = &'w str>,
) -> Result<(u32, u64, bool)> {
    let weighted = match words.next() {
        Some("sp") => true,
        Some("edge" | "col") => false,
        other => {
            let other = other.unwrap_or("");
            return Err(lines.bad(format!("a problem of '{other}'; sp, edge and col are read")));
        }
    };
    let head = (lines.vertices(words.next())?, lines.count(words.next())?, weighted);
    nothing(words.next()).map_err(|what| lines.bad(what))?;
    Ok(head)
}

/// What a line behind that of `p` holds.
fn arc(line: &str, vertices: u32, weighted: bool) -> Found {
    let mut words = line.split_ascii_whitespace();
    match (words.next(), weighted) {
        (None | Some("c"), _) => return Ok(None),
        (Some("a"), true) | (Some("e"), false) => {}
        (Some("p"), _) => return Err("a second line of 'p'".to_owned()),
        (Some(word), _) => {
            let known = if weighted { "c and a" } else { "c and e" };
            return Err(format!("a line of '{word}'; here begin lines {known}"));
        }
    }
    let edge = [vertex(words.next(), vertices)?, vertex(words.next(), vertices)?];
    let weight = if weighted { Some(weight(words.next())?) } else { None };
    nothing(words.next())?;
    Ok(Some((edge, weight)))
}
