//! DIMACS: comments `c`, one line `p`, then arcs `a` with weights or edges `e` without.

use super::{Counted, Lines, nothing, vertex, weight};
use crate::error::Result;

/// Reads the arcs of a shortest-path problem, or the edges of a colouring or clique problem.
pub(super) fn read(lines: &mut Lines<'_, '_>) -> Result<Counted> {
    let mut head = None;
    let mut directed = false;
    while let Some(line) = lines.next()? {
        let line = line.to_owned();
        let mut words = line.split_ascii_whitespace();
        match (words.next(), head) {
            (None | Some("c"), _) => {}
            (Some("p"), None) => {
                let (vertices, count, weighted) = problem(lines, words)?;
                directed = lines.begin(weighted, weighted, count)?;
                head = Some((vertices, count, weighted));
            }
            (Some("p"), Some(_)) => return Err(lines.bad("a second line of 'p'")),
            (Some(_), None) => return Err(lines.bad("an arc before the line of 'p'")),
            (Some(word), Some((vertices, count, weighted))) => {
                if word != if weighted { "a" } else { "e" } {
                    let known = if weighted { "c and a" } else { "c and e" };
                    return Err(lines.bad(format!("a line of '{word}'; here begin lines {known}")));
                }
                if lines.edges_count == count {
                    return Err(lines.bad(format!("more than the {count} arcs that are counted")));
                }
                let mut arc = || {
                    let edge = [vertex(words.next(), vertices)?, vertex(words.next(), vertices)?];
                    let weight = if weighted { Some(weight(words.next())?) } else { None };
                    nothing(words.next())?;
                    Ok((edge, weight))
                };
                let (edge, weight) = arc().map_err(|what: String| lines.bad(what))?;
                lines.push(edge, weight)?;
            }
        }
    }
    let Some((vertices, count, weighted)) = head else {
        return Err(lines.bad("no line of 'p sp' or 'p edge'"));
    };
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
