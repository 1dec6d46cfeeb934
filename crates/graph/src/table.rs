//! Tables: columns of vertices and numbers, and vertices in order of their names.
//!
//! Invariant: the columns of a table are equally long. Checked by `Table::new`.

use std::borrow::Cow;

use crate::error::Result;
use crate::format::file::GraphFile;
use crate::names::{Labels, Names};

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

pub(crate) fn vertices(name: &'static str, cells: Vec<u32>) -> Column {
    Column { name, cells: Cells::Vertices(cells) }
}

pub(crate) fn counts(name: &'static str, cells: impl IntoIterator<Item = u64>) -> Column {
    Column { name, cells: Cells::Counts(cells.into_iter().collect()) }
}

/// Vertices in order of their names.
pub(crate) struct ByName<'g> {
    pub(crate) order: Cow<'g, [u32]>,
    /// The place of each vertex in that order.
    pub(crate) place: Vec<u32>,
}

impl<'g> ByName<'g> {
    pub(crate) fn new(graph: &'g GraphFile) -> Result<Self> {
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
    pub(crate) fn by_key(&self, key: &[u32], keys: usize) -> Vec<u32> {
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

/// The first `top` of `n` vertices in `order`.
pub(crate) fn first(
    n: usize,
    top: usize,
    order: impl Fn(&u32, &u32) -> std::cmp::Ordering,
) -> Vec<u32> {
    let mut rows: Vec<u32> = (0u32..).take(n).collect();
    if (1..n).contains(&top) {
        rows.select_nth_unstable_by(top - 1, &order);
    }
    rows.truncate(top);
    rows.sort_unstable_by(order);
    rows
}
