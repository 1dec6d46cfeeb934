//! Answers as tables: what each kernel found, and what a graph says of single vertices, as columns
//! of names and numbers in a documented order.
//!
//! This is the one place that turns an [`Answer`] into columns. Code that writes tables (text, CSV,
//! JSON lines) depends on [`Table`] alone, so a new kernel needs an arm in [`of_kernel`] only.
//!
//! Order of rows; vertices that are equal by it follow in order of their names (numbers as numbers,
//! text by bytes)
//! - [`Answer::Bfs`]: vertices that were reached, nearest first;
//! - [`Answer::PageRank`]: highest rank first;
//! - [`Answer::Components`]: vertices of the largest component first, equal components by name. A
//!   component is called by its vertex of lowest id, in a file ordered by degree the one of highest
//!   degree;
//! - [`degrees`]: highest degree first; [`neighbours`]: by name; [`path`]: from source to target.

use std::borrow::Cow;

use crate::error::Result;
use crate::format::Direction;
use crate::format::file::GraphFile;
use crate::kernels::{Answer, UNREACHED};
use crate::lists::ListReader;
use crate::names::{Labels, Names};
use crate::path::Path;

/// The cells of a column.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Cells {
    /// Vertices, to be shown by name.
    Vertices(Vec<u32>),
    /// Whole numbers.
    Counts(Vec<u64>),
    /// Numbers of single precision.
    Singles(Vec<f32>),
    /// Numbers of double precision.
    Doubles(Vec<f64>),
}

impl Cells {
    fn len(&self) -> usize {
        match self {
            Cells::Vertices(c) => c.len(),
            Cells::Counts(c) => c.len(),
            Cells::Singles(c) => c.len(),
            Cells::Doubles(c) => c.len(),
        }
    }
}

/// A cell, in the form that its writer needs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Cell<'a> {
    /// A vertex with a number for a name.
    Number(u64),
    /// A vertex with text for a name.
    Text(Cow<'a, str>),
    /// A whole number.
    Count(u64),
    /// A number of single precision.
    Single(f32),
    /// A number of double precision.
    Double(f64),
}

/// A column with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// What the column is called in every form of output.
    pub name: &'static str,
    /// Its cells.
    pub cells: Cells,
}

/// An answer in columns of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    columns: Vec<Column>,
}

impl Table {
    /// A table of columns.
    ///
    /// # Panics
    /// When they differ in length.
    pub fn new(columns: Vec<Column>) -> Table {
        let equal = columns.windows(2).all(|w| w[0].cells.len() == w[1].cells.len());
        assert!(equal, "columns of one table are equally long");
        Table { columns }
    }

    /// The columns, in order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |c| c.cells.len())
    }

    /// The cell in `row` and `column`, with vertices by their names.
    ///
    /// # Panics
    /// When the table has no such cell, or it holds a vertex that has no name.
    pub fn cell<'n>(&self, row: usize, column: usize, names: &'n Names) -> Cell<'n> {
        match &self.columns[column].cells {
            Cells::Vertices(c) => name(names, c[row]),
            Cells::Counts(c) => Cell::Count(c[row]),
            Cells::Singles(c) => Cell::Single(c[row]),
            Cells::Doubles(c) => Cell::Double(c[row]),
        }
    }
}

/// The name of `v` as a cell.
///
/// # Panics
/// When `v` is no vertex.
pub fn name(names: &Names, v: u32) -> Cell<'_> {
    match names.labels() {
        Labels::Identity => Cell::Number(v.into()),
        Labels::Numbers(numbers) => Cell::Number(numbers[v as usize]),
        Labels::Text(text) => Cell::Text(String::from_utf8_lossy(text.get(v))),
    }
}

fn vertices(name: &'static str, cells: Vec<u32>) -> Column {
    Column { name, cells: Cells::Vertices(cells) }
}

fn counts(name: &'static str, cells: impl IntoIterator<Item = u64>) -> Column {
    Column { name, cells: Cells::Counts(cells.into_iter().collect()) }
}

/// The table of a kernel's answer; `top` limits it to the nearest or highest vertices, or to the
/// vertices of the largest components.
///
/// # Errors
/// `Kind::Io`, `Kind::Corrupt` from reading names.
pub fn of_kernel(graph: &GraphFile, answer: &Answer, top: Option<usize>) -> Result<Table> {
    let by_name = ByName::new(graph)?;
    let top = top.unwrap_or(usize::MAX);
    Ok(match answer {
        Answer::Bfs(parents) => bfs(&by_name, parents, top),
        Answer::PageRank(ranks) => pagerank(&by_name, ranks, top),
        Answer::Components(labels) => components(&by_name, labels, top).0,
    })
}

/// The largest components with their sizes, `top` of them.
///
/// # Errors
/// As [`of_kernel`].
pub fn largest_components(graph: &GraphFile, labels: &[u32], top: usize) -> Result<Table> {
    Ok(components(&ByName::new(graph)?, labels, top).1)
}

/// Vertices in order of their names.
struct ByName<'g> {
    order: Cow<'g, [u32]>,
    /// The place of each vertex in that order.
    place: Vec<u32>,
}

impl<'g> ByName<'g> {
    fn new(graph: &'g GraphFile) -> Result<Self> {
        let names = graph.names()?;
        let order: Cow<'g, [u32]> = match names.labels() {
            Labels::Identity => Cow::Owned((0..graph.vertices()).collect()),
            _ => Cow::Borrowed(names.order()),
        };
        let mut place = vec![0; order.len()];
        (0u32..).zip(order.iter()).for_each(|(i, &v)| place[v as usize] = i);
        Ok(ByName { order, place })
    }

    /// Vertices in ascending order of `key`, equal ones by name; keys from `keys` on are left out.
    fn by_key(&self, key: &[u32], keys: usize) -> Vec<u32> {
        let mut starts = vec![0usize; keys + 1];
        let inside = |k: &&u32| (**k as usize) < keys;
        key.iter().filter(inside).for_each(|&k| starts[k as usize + 1] += 1);
        (0..keys).for_each(|k| starts[k + 1] += starts[k]);
        let mut sorted = vec![0; starts[keys]];
        for &v in self.order.iter() {
            let k = key[v as usize] as usize;
            if k < keys {
                sorted[starts[k]] = v;
                starts[k] += 1;
            }
        }
        sorted
    }
}

/// How many steps each vertex is from the source, by following parents; [`UNREACHED`] without one.
fn levels(parents: &[u32]) -> Vec<u32> {
    let mut level = vec![UNREACHED; parents.len()];
    let mut way = Vec::new();
    for v in (0u32..).take(parents.len()) {
        let mut at = v;
        while level[at as usize] == UNREACHED && parents[at as usize] != UNREACHED {
            let parent = parents[at as usize];
            if parent == at {
                level[at as usize] = 0;
                break;
            }
            way.push(at);
            at = parent;
        }
        let mut depth = level[at as usize];
        while let Some(below) = way.pop() {
            depth += 1;
            level[below as usize] = depth;
        }
    }
    level
}

fn bfs(by_name: &ByName<'_>, parents: &[u32], top: usize) -> Table {
    let level = levels(parents);
    let deepest = level.iter().filter(|&&l| l != UNREACHED).max();
    let mut rows = by_name.by_key(&level, deepest.map_or(0, |&d| d as usize + 1));
    rows.truncate(top);
    let depth = counts("level", rows.iter().map(|&v| level[v as usize].into()));
    let parent = rows.iter().map(|&v| parents[v as usize]).collect();
    Table::new(vec![vertices("vertex", rows), depth, vertices("parent", parent)])
}

fn pagerank(by_name: &ByName<'_>, ranks: &[f32], top: usize) -> Table {
    let place = |v: &u32| by_name.place[*v as usize];
    let order = |a: &u32, b: &u32| {
        let (high, low) = (ranks[*b as usize], ranks[*a as usize]);
        high.total_cmp(&low).then_with(|| place(a).cmp(&place(b)))
    };
    let rows = first(ranks.len(), top, order);
    let rank = rows.iter().map(|&v| ranks[v as usize]).collect();
    let rank = Column { name: "rank", cells: Cells::Singles(rank) };
    Table::new(vec![vertices("vertex", rows), rank])
}

/// The first `top` of `n` vertices in `order`.
fn first(n: usize, top: usize, order: impl Fn(&u32, &u32) -> std::cmp::Ordering) -> Vec<u32> {
    let mut rows: Vec<u32> = (0u32..).take(n).collect();
    if (1..n).contains(&top) {
        rows.select_nth_unstable_by(top - 1, &order);
    }
    rows.truncate(top);
    rows.sort_unstable_by(order);
    rows
}

/// The vertices of the `top` largest components, and those components with their sizes.
fn components(by_name: &ByName<'_>, labels: &[u32], top: usize) -> (Table, Table) {
    let mut size = vec![0u32; labels.len()];
    labels.iter().for_each(|&l| size[l as usize] += 1);
    let mut roots: Vec<u32> = (0u32..).take(size.len()).filter(|&l| size[l as usize] > 0).collect();
    let place = |v: u32| by_name.place[v as usize];
    roots.sort_unstable_by(|&a, &b| {
        size[b as usize].cmp(&size[a as usize]).then_with(|| place(a).cmp(&place(b)))
    });
    roots.truncate(top);
    let mut key = vec![u32::MAX; labels.len()];
    (0u32..).zip(&roots).for_each(|(i, &root)| key[root as usize] = i);
    let key: Vec<u32> = labels.iter().map(|&l| key[l as usize]).collect();
    let rows = by_name.by_key(&key, roots.len());
    let component: Vec<u32> = rows.iter().map(|&v| labels[v as usize]).collect();
    let sizes = |of: &[u32]| {
        counts("size", of.iter().map(|&l| size[l as usize].into()).collect::<Vec<_>>())
    };
    let size_column = sizes(&component);
    let whole =
        Table::new(vec![vertices("vertex", rows), vertices("component", component), size_column]);
    let size_column = sizes(&roots);
    (whole, Table::new(vec![vertices("component", roots), size_column]))
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
    if weights && with.len() == targets.len() && graph.lists(direction).weights().is_some() {
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
    use crate::names::TextNames;

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
        let largest = largest_components(&g, &labels, 1).unwrap();
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
