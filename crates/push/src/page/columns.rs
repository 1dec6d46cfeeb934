//! Column pages: a directory, one array per column, bitmaps of NULLs, lists by index.

use super::schema::{ColumnKind, Record, Schema, Value};
use super::{HEADER_LEN, Header, ROWS_MAX, u32_at};

/// Where a column's arrays lie, as offsets in the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    /// Values, or indices of a list.
    pub values: usize,
    /// Bitmap of NULLs; 0 if the column has none.
    pub nulls: usize,
    /// Elements of a list; 0 for other kinds.
    pub elements: usize,
}

/// Where the arrays of column `n` lie in a page of `rows` rows.
pub fn directory(page: &[u8], schema: &Schema, rows: usize, n: usize) -> Directory {
    let at = HEADER_LEN + 8 * n;
    let (values, nulls) = (u32_at(page, at) as usize, u32_at(page, at + 4) as usize);
    let is_list = schema.columns[n].kind == ColumnKind::List;
    let elements = if is_list { values + (4 * (rows + 1)).next_multiple_of(8) } else { 0 };
    Directory { values, nulls, elements }
}

fn null_bytes(rows: usize) -> usize {
    rows.div_ceil(64) * 8
}

/// Collects the records of one page.
#[derive(Debug)]
pub(super) struct Builder {
    schema: Schema,
    rows: usize,
    values: Vec<Vec<Value>>,
    elements: Vec<usize>,
}

impl Builder {
    pub(super) fn new(schema: &Schema) -> Builder {
        let n = schema.columns.len();
        Builder {
            schema: schema.clone(),
            rows: 0,
            values: vec![Vec::new(); n],
            elements: vec![0; n],
        }
    }

    pub(super) fn push(&mut self, record: &[Value]) {
        for (n, value) in record.iter().enumerate() {
            if self.schema.columns[n].kind != ColumnKind::Text {
                self.elements[n] += value.list().len();
                self.values[n].push(value.clone());
            }
        }
        self.rows += 1;
    }

    /// Bytes behind the header, with one record more if there is one.
    pub(super) fn bytes_with(&self, record: Option<&[Value]>) -> usize {
        let rows = self.rows + usize::from(record.is_some());
        let columns = self.schema.columns.iter().enumerate().map(|(n, c)| {
            let values = match c.kind {
                ColumnKind::Text => 0,
                ColumnKind::List => {
                    let more = record.map_or(0, |r| r[n].list().len());
                    (4 * (rows + 1)).next_multiple_of(8) + 4 * (self.elements[n] + more)
                }
                _ => rows * c.width(),
            };
            let nulls = if has_nulls(&self.schema, n) { null_bytes(rows) } else { 0 };
            values.next_multiple_of(8) + nulls
        });
        8 * self.schema.columns.len() + columns.sum::<usize>()
    }

    /// Writes directory and arrays behind the header; the bytes used.
    pub(super) fn write(&self, page: &mut [u8]) -> usize {
        let mut at = HEADER_LEN + 8 * self.schema.columns.len();
        for (n, column) in self.schema.columns.iter().enumerate() {
            let entry = HEADER_LEN + 8 * n;
            if column.kind == ColumnKind::Text {
                continue;
            }
            page[entry..entry + 4].copy_from_slice(&(at as u32).to_le_bytes());
            at = match column.kind {
                ColumnKind::List => self.write_list(n, page, at),
                _ => self.write_values(n, column.width(), page, at),
            };
            if has_nulls(&self.schema, n) {
                page[entry + 4..entry + 8].copy_from_slice(&(at as u32).to_le_bytes());
                for (row, value) in self.values[n].iter().enumerate() {
                    page[at + row / 8] |= u8::from(*value == Value::Null) << (row % 8);
                }
                at += null_bytes(self.rows);
            }
        }
        let used = at - HEADER_LEN;
        assert_eq!(used, self.bytes_with(None), "a page is as long as it was planned");
        used
    }

    fn write_values(&self, n: usize, width: usize, page: &mut [u8], at: usize) -> usize {
        let unsigned = self.schema.columns[n].kind == ColumnKind::Char;
        for (row, value) in self.values[n].iter().enumerate() {
            let (place, value) = (at + row * width, value.int().unwrap_or(0));
            page[place..place + width].copy_from_slice(&value.to_le_bytes()[..width]);
            debug_assert_eq!(integer(page, place, width, unsigned), value, "row {row} of {n}");
        }
        at + (self.rows * width).next_multiple_of(8)
    }

    fn write_list(&self, n: usize, page: &mut [u8], at: usize) -> usize {
        let elements = at + (4 * (self.rows + 1)).next_multiple_of(8);
        let mut count = 0usize;
        for (row, value) in self.values[n].iter().enumerate() {
            page[at + 4 * row..][..4].copy_from_slice(&(count as u32).to_le_bytes());
            for token in value.list() {
                page[elements + 4 * count..][..4].copy_from_slice(&token.to_le_bytes());
                count += 1;
            }
        }
        page[at + 4 * self.rows..][..4].copy_from_slice(&(count as u32).to_le_bytes());
        elements + (4 * count).next_multiple_of(8)
    }
}

/// Whether column `n` has a bitmap of NULLs.
fn has_nulls(schema: &Schema, n: usize) -> bool {
    schema.columns[n].nullable && schema.columns[n].kind != ColumnKind::Text
}

/// What is wrong with the directory or the lists; `None` if every array lies inside `page`, which
/// ends with its valid bytes.
pub(super) fn fault_of(page: &[u8], header: &Header, schema: &Schema) -> Option<String> {
    let mut free = HEADER_LEN + 8 * schema.columns.len();
    if page.len() < free {
        return Some("no room for the directory".to_owned());
    }
    if header.rows > ROWS_MAX {
        return Some(format!("{} records, more than {ROWS_MAX}: store them again", header.rows));
    }
    for (n, column) in schema.columns.iter().enumerate() {
        let d = directory(page, schema, header.rows, n);
        let fault = || Some(format!("the arrays of column {n} lie outside the page"));
        if column.kind == ColumnKind::Text {
            if d.values != 0 || d.nulls != 0 {
                return fault();
            }
            continue;
        }
        let mut end = d.values + column.width() * header.rows;
        if d.values < free || !d.values.is_multiple_of(8) || end > page.len() {
            return fault();
        }
        if column.kind == ColumnKind::List {
            if d.elements > page.len() {
                return fault();
            }
            let index = |row| u32_at(page, d.values + 4 * row) as usize;
            let grows = index(0) == 0 && (0..header.rows).all(|r| index(r) <= index(r + 1));
            end = d.elements + 4 * index(header.rows);
            if !grows || end > page.len() {
                return fault();
            }
        }
        free = end.next_multiple_of(8);
        if has_nulls(schema, n) {
            if d.nulls < free
                || !d.nulls.is_multiple_of(8)
                || d.nulls + null_bytes(header.rows) > page.len()
            {
                return fault();
            }
            free = d.nulls + null_bytes(header.rows);
        } else if d.nulls != 0 {
            return fault();
        }
    }
    None
}

/// The integer of `width` bytes at `at`, with a sign unless `unsigned`.
#[inline]
pub(crate) fn integer(page: &[u8], at: usize, width: usize, unsigned: bool) -> i64 {
    let mut bytes = [0; 8];
    bytes[..width].copy_from_slice(&page[at..at + width]);
    let value = i64::from_le_bytes(bytes);
    let shift = 64 - 8 * width as u32;
    if unsigned { value } else { value << shift >> shift }
}

/// Whether row `row` is NULL in the bitmap at `at`.
#[inline]
pub(crate) fn is_null(page: &[u8], at: usize, row: usize) -> bool {
    page[at + row / 8] >> (row % 8) & 1 == 1
}

/// The elements of row `row` of a list column.
pub(crate) fn elements(page: &[u8], d: &Directory, row: usize) -> Vec<u32> {
    let index = |row| u32_at(page, d.values + 4 * row) as usize;
    (index(row)..index(row + 1)).map(|e| u32_at(page, d.elements + 4 * e)).collect()
}

/// The records of a page that is checked; text columns are empty, or NULL where they may be.
pub(super) fn read(page: &[u8], rows: usize, schema: &Schema) -> Vec<Record> {
    let places: Vec<_> =
        (0..schema.columns.len()).map(|n| directory(page, schema, rows, n)).collect();
    let value = |n: usize, row: usize| {
        let (column, d) = (&schema.columns[n], &places[n]);
        match column.kind {
            ColumnKind::Text if column.nullable => Value::Null,
            ColumnKind::Text => Value::Text(Vec::new()),
            ColumnKind::List => Value::List(elements(page, d, row)),
            _ if d.nulls != 0 && is_null(page, d.nulls, row) => Value::Null,
            kind => {
                let unsigned = kind == ColumnKind::Char;
                Value::Int(integer(page, d.values + row * column.width(), column.width(), unsigned))
            }
        }
    };
    (0..rows).map(|row| (0..places.len()).map(|n| value(n, row)).collect()).collect()
}
