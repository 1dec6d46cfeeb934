//! Matrix Market: banner, comments, a line of rows, columns and entries, the entries.

use super::{Counted, Lines, nothing, vertex, weight};
use crate::error::Result;

/// Reads a square sparse matrix; symmetric ones are undirected graphs.
pub(super) fn read(lines: &mut Lines<'_, '_>) -> Result<Counted> {
    let banner = lines.next()?.unwrap_or("").to_ascii_lowercase();
    let (weighted, directed) = kind(lines, &banner)?;
    let (vertices, entries) = loop {
        let Some(line) = lines.next()? else {
            return Err(lines.bad("no line of rows, columns and entries"));
        };
        if !line.starts_with('%') && !line.trim().is_empty() {
            let line = line.to_owned();
            break size(lines, &line)?;
        }
    };
    let directed = lines.begin(directed, weighted, entries)?;
    let entry = |line: &str| match line.trim().is_empty() {
        true => Ok(None),
        false => entry(line, vertices, weighted).map(Some),
    };
    lines.records(&entry, entries, "entries")?;
    if lines.edges_count < entries {
        let found = lines.edges_count;
        return Err(lines.bad(format!("{found} entries where {entries} are counted")));
    }
    Ok(Counted { vertices, directed, weighted })
}

/// Whether the matrix has values, and whether it stands for a directed graph.
fn kind(lines: &Lines<'_, '_>, banner: &str) -> Result<(bool, bool)> {
    let words: Vec<&str> = banner.split_ascii_whitespace().collect();
    let ["%%matrixmarket", "matrix", layout, field, symmetry] = words[..] else {
        let what = "no Matrix Market banner: `%%MatrixMarket matrix coordinate real general`";
        return Err(lines.bad(what));
    };
    let weighted = match (layout, field) {
        ("array", _) => {
            let what = "a dense matrix (array); write its nonzero entries as coordinate";
            return Err(lines.unsupported(what));
        }
        ("coordinate", "pattern") => false,
        ("coordinate", "real" | "integer" | "double") => true,
        ("coordinate", "complex") => {
            let what = "complex values are no weights; write their absolute values as real";
            return Err(lines.unsupported(what));
        }
        _ => return Err(lines.bad(format!("'{layout} {field}' is no Matrix Market matrix"))),
    };
    match symmetry {
        "general" => Ok((weighted, true)),
        "symmetric" => Ok((weighted, false)),
        "skew-symmetric" | "hermitian" => {
            let what = format!("{symmetry} values are no weights; write them as general");
            Err(lines.unsupported(what))
        }
        _ => Err(lines.bad(format!("'{symmetry}' is no symmetry of Matrix Market"))),
    }
}

fn size(lines: &Lines<'_, '_>, line: &str) -> Result<(u32, u64)> {
    let mut words = line.split_ascii_whitespace();
    let (rows, columns) = (words.next(), words.next());
    let entries = lines.count(words.next())?;
    nothing(words.next()).map_err(|what| lines.bad(what))?;
    if rows != columns {
        let (rows, columns) = (rows.unwrap_or("0"), columns.unwrap_or("0"));
        let what = format!("{rows} rows and {columns} columns; a graph's matrix is square");
        return Err(lines.bad(what));
    }
    Ok((lines.vertices(rows)?, entries))
}

fn entry(
    line: &str,
    vertices: u32,
    weighted: bool,
) -> std::result::Result<([u32; 2], Option<f32>), String> {
    let mut words = line.split_ascii_whitespace();
    let edge = [vertex(words.next(), vertices)?, vertex(words.next(), vertices)?];
    let weight = if weighted { Some(weight(words.next())?) } else { None };
    nothing(words.next())?;
    Ok((edge, weight))
}
