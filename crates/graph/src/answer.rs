//! Answers as tables: what each kernel found, and what a graph says of single vertices, as columns
//! of names and numbers in a documented order.
//!
//! A kernel makes the table of its own answer. Code that writes tables (text, CSV, JSON lines)
//! depends on [`Table`] alone.
//!
//! Order of rows; vertices that are equal by it follow in order of their names (numbers as numbers,
//! text by bytes)
//! - [`Answer::Bfs`]: vertices that were reached, nearest first;
//! - [`Answer::PageRank`]: highest rank first;
//! - [`Answer::Components`]: vertices of the largest component first, equal components by name. A
//!   component is called by its vertex of lowest id, in a file ordered by degree the one of highest
//!   degree;
//! - [`degrees`]: highest degree first; [`neighbours`]: by name; [`path`]: from source to target.

use crate::error::Result;
use crate::format::Direction;
use crate::format::file::GraphFile;
use crate::kernels::Answer;
use crate::lists::ListReader;
use crate::path::Path;
use crate::table::{ByName, counts, first, vertices};
pub use crate::table::{Cell, Cells, Column, Table, name};

/// The table of a kernel's answer; `top` limits it to the nearest or highest vertices, or to the
/// vertices of the largest components.
///
/// # Errors
/// `Kind::Io`, `Kind::Corrupt` from reading names.
pub fn of_kernel(graph: &GraphFile, answer: &Answer, top: Option<usize>) -> Result<Table> {
    Ok(answer.rows(&ByName::new(graph)?, top.unwrap_or(usize::MAX)))
}

/// The `top` rows that a report shows of a kernel's answer: those of [`of_kernel`], or of
/// components the largest ones with their sizes.
///
/// # Errors
/// As [`of_kernel`].
pub fn shown(graph: &GraphFile, answer: &Answer, top: usize) -> Result<Table> {
    Ok(answer.shown(&ByName::new(graph)?, top))
}

/// The neighbours of a vertex, with the weights of the edges when there are any.
///
/// # Errors
/// `Kind::Io`, `Kind::Corrupt`.
///
/// # Panics
/// When `v` is no vertex.
pub fn neighbours(graph: &GraphFile, v: u32, direction: Direction, weights: bool) -> Result<Table> {
    let by_name = ByName::new(graph)?;
    let mut reader = ListReader::new(graph, direction);
    let (targets, with) = reader.list(v)?;
    let mut rows: Vec<usize> = (0..targets.len()).collect();
    rows.sort_unstable_by_key(|&i| by_name.place[targets[i] as usize]);
    let mut columns = vec![vertices("vertex", rows.iter().map(|&i| targets[i]).collect())];
    if weights && with.len() == targets.len() && graph.is_weighted() {
        let cells = Cells::Singles(rows.iter().map(|&i| with[i]).collect());
        columns.push(Column { name: "weight", cells });
    }
    Ok(Table::new(columns))
}

/// The degrees of all vertices, or of the `top` highest: of a directed graph the arcs out of each
/// vertex and into it, and their sum.
///
/// # Errors
/// `Kind::Io`, `Kind::Corrupt` from reading names.
pub fn degrees(graph: &GraphFile, top: Option<usize>) -> Result<Table> {
    let by_name = ByName::new(graph)?;
    let place = |v: &u32| by_name.place[*v as usize];
    let order = |a: &u32, b: &u32| {
        degree(graph, *b).cmp(&degree(graph, *a)).then_with(|| place(a).cmp(&place(b)))
    };
    Ok(degrees_of(graph, first(graph.vertices() as usize, top.unwrap_or(usize::MAX), order)))
}

/// The degrees of these vertices, in this order.
///
/// # Panics
/// When one of them is no vertex.
pub fn degrees_of(graph: &GraphFile, rows: Vec<u32>) -> Table {
    let sum = counts("degree", rows.iter().map(|&v| degree(graph, v)));
    let mut columns = vec![sum];
    if graph.is_directed() {
        let of = |d: Direction| rows.iter().map(move |&v| u64::from(graph.lists(d).degree(v)));
        columns.push(counts("out", of(Direction::Out)));
        columns.push(counts("in", of(Direction::In)));
    }
    columns.insert(0, vertices("vertex", rows));
    Table::new(columns)
}

fn degree(graph: &GraphFile, v: u32) -> u64 {
    let out = u64::from(graph.outgoing().degree(v));
    if graph.is_directed() { out + u64::from(graph.incoming().degree(v)) } else { out }
}

/// A path, a vertex per row: the step, the vertex, and by weight how far it is from the source.
pub fn path(path: &Path, weighted: bool) -> Table {
    let steps = counts("step", (0u64..).take(path.vertices.len()));
    let mut columns = vec![steps, vertices("vertex", path.vertices.clone())];
    if weighted {
        columns.push(Column { name: "distance", cells: Cells::Doubles(path.distances.clone()) });
    }
    Table::new(columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{BuildOptions, EdgeList, Hooks, build_in_memory};
    use crate::kernels::UNREACHED;
    use crate::names::{Labels, TextNames};

    fn graph(names: &[&str], directed: bool, edges: &[[u32; 2]]) -> GraphFile {
        let mut text = TextNames::new();
        names.iter().for_each(|n| text.push(n));
        let list = EdgeList {
            labels: Labels::Text(text),
            ..EdgeList::new(names.len() as u32, directed, edges.to_vec())
        };
        let (image, _) =
            build_in_memory(list, &BuildOptions::default(), &mut Hooks::none()).unwrap();
        GraphFile::from_image(image).unwrap()
    }

    fn rows(table: &Table, graph: &GraphFile) -> Vec<String> {
        let names = graph.names().unwrap();
        let cell = |r: usize, c: usize| match table.cell(r, c, names) {
            Cell::Number(n) | Cell::Count(n) => n.to_string(),
            Cell::Text(t) => t.into_owned(),
            Cell::Single(x) => x.to_string(),
            Cell::Double(x) => x.to_string(),
        };
        let row = |r| (0..table.columns().len()).map(|c| cell(r, c)).collect::<Vec<_>>().join(" ");
        (0..table.rows()).map(row).collect()
    }

    fn ids(graph: &GraphFile, names: &[&str]) -> Vec<u32> {
        names.iter().map(|n| graph.names().unwrap().find(n).unwrap()).collect()
    }

    #[test]
    fn searches_list_the_nearest_first_and_equal_ones_by_name() {
        let g = graph(&["s", "b", "a", "c", "lost"], true, &[[0, 1], [0, 2], [1, 3], [4, 0]]);
        let [s, b, a, c, lost] = ids(&g, &["s", "b", "a", "c", "lost"])[..] else { panic!() };
        let mut parents = vec![UNREACHED; 5];
        for (v, parent) in [(s, s), (b, s), (a, s), (c, b), (lost, UNREACHED)] {
            parents[v as usize] = parent;
        }
        let answer = Answer::Bfs(parents);
        let all = of_kernel(&g, &answer, None).unwrap();
        assert_eq!(rows(&all, &g), ["s 0 s", "a 1 s", "b 1 s", "c 2 b"]);
        assert_eq!(rows(&of_kernel(&g, &answer, Some(2)).unwrap(), &g), ["s 0 s", "a 1 s"]);
    }

    #[test]
    fn ranks_go_down_and_components_by_size() {
        let g = graph(&["z", "y", "x", "w", "v"], false, &[[0, 1], [2, 3]]);
        let [z, y, x, w, v] = ids(&g, &["z", "y", "x", "w", "v"])[..] else { panic!() };
        let mut ranks = vec![0.1f32; 5];
        ranks[y as usize] = 0.4;
        let table = of_kernel(&g, &Answer::PageRank(ranks), Some(3)).unwrap();
        assert_eq!(rows(&table, &g), ["y 0.4", "v 0.1", "w 0.1"]);
        let mut labels = vec![0; 5];
        for (vertex, label) in [(z, z.min(y)), (y, z.min(y)), (x, x.min(w)), (w, x.min(w)), (v, v)]
        {
            labels[vertex as usize] = label;
        }
        let table = of_kernel(&g, &Answer::Components(labels.clone()), None).unwrap();
        let first = g.names().unwrap().name(x.min(w));
        let second = g.names().unwrap().name(z.min(y));
        let wanted = [
            format!("w {first} 2"),
            format!("x {first} 2"),
            format!("y {second} 2"),
            format!("z {second} 2"),
            "v v 1".to_owned(),
        ];
        assert_eq!(rows(&table, &g), wanted);
        let largest = shown(&g, &Answer::Components(labels), 1).unwrap();
        assert_eq!(rows(&largest, &g), [format!("{first} 2")]);
    }

    #[test]
    fn neighbours_and_degrees_are_named() {
        let g = graph(&["a", "c", "b"], true, &[[0, 1], [0, 2], [2, 0]]);
        let a = ids(&g, &["a"])[0];
        let out = neighbours(&g, a, Direction::Out, true).unwrap();
        assert_eq!(rows(&out, &g), ["b", "c"]);
        assert_eq!(rows(&neighbours(&g, a, Direction::In, true).unwrap(), &g), ["b"]);
        assert_eq!(rows(&degrees(&g, None).unwrap(), &g), ["a 3 2 1", "b 2 1 1", "c 1 0 1"]);
        assert_eq!(rows(&degrees(&g, Some(1)).unwrap(), &g), ["a 3 2 1"]);
    }
}
