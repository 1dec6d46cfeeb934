//! Rows of text: each field ends with `|`, each row with a line feed.

use super::Header;
use super::schema::{Column, ColumnKind, Record, Schema, Value};
use std::io::Write as _;

/// Appends a record in its canonical form.
pub(super) fn write(schema: &Schema, record: &[Value], row: &mut Vec<u8>) {
    for (column, value) in schema.columns.iter().zip(record) {
        match value {
            Value::Null => {}
            Value::Int(v) => write_number(column, *v, row),
            Value::List(list) => {
                list.iter().for_each(|t| write!(row, "{t} ").expect("invariant: memory"));
            }
            Value::Text(text) => row.extend(text),
        }
        row.push(b'|');
    }
    row.push(b'\n');
}

fn write_number(column: &Column, v: i64, row: &mut Vec<u8>) {
    let done = match column.kind {
        ColumnKind::Char => {
            row.push(v as u8);
            Ok(())
        }
        ColumnKind::Date => {
            write!(row, "{:04}-{:02}-{:02}", v / 10_000, v / 100 % 100, v % 100)
        }
        ColumnKind::Decimal(scale) if scale > 0 => {
            let unit = 10u64.pow(scale.into());
            let sign = if v < 0 { "-" } else { "" };
            let (whole, part) = (v.unsigned_abs() / unit, v.unsigned_abs() % unit);
            write!(row, "{sign}{whole}.{part:0width$}", width = usize::from(scale))
        }
        _ => write!(row, "{v}"),
    };
    done.expect("invariant: memory takes any text");
}

/// The integer that a field means: digits, a sign in front where the column has one.
pub(crate) fn number(column: &Column, field: &[u8]) -> i64 {
    if column.kind == ColumnKind::Char {
        return field.first().copied().unwrap_or(0).into();
    }
    let negative = column.is_signed() && field.first() == Some(&b'-');
    let digits = field.iter().filter(|b| b.is_ascii_digit());
    let digit = |v: i64, b: &u8| v.wrapping_mul(10).wrapping_add(i64::from(b - b'0'));
    let v = digits.fold(0i64, digit);
    if negative { v.wrapping_neg() } else { v }
}

/// The ranks of tokens in a field, each with a space behind it.
pub(crate) fn list(field: &[u8]) -> Vec<u32> {
    let mut tokens = Vec::new();
    let mut v = 0u64;
    for &b in field {
        if b == b' ' {
            tokens.push(v as u32);
            v = 0;
        } else if b.is_ascii_digit() {
            v = v.wrapping_mul(10).wrapping_add(u64::from(b - b'0'));
        }
    }
    tokens
}

/// What is wrong with the shape of rows: their number, fields per row, a last row without end.
pub(super) fn fault_of(rows: &[u8], header: &Header, schema: &Schema) -> Option<String> {
    let mut found = 0;
    for row in rows.split_inclusive(|&b| b == b'\n') {
        let fields = row.iter().filter(|&&b| b == b'|').count();
        if fields != schema.columns.len() || !row.ends_with(b"|\n") {
            return Some(format!("row {found} has {fields} fields or no end"));
        }
        found += 1;
    }
    (found != header.rows).then(|| format!("{found} rows where the header says {}", header.rows))
}

/// The records of rows whose shape is checked.
pub(super) fn read(rows: &[u8], schema: &Schema) -> Vec<Record> {
    let record = |row: &[u8]| {
        let fields = row.split(|&b| b == b'|');
        schema.columns.iter().zip(fields).map(|(c, f)| value(c, f)).collect()
    };
    rows.split_inclusive(|&b| b == b'\n').map(record).collect()
}

fn value(column: &Column, field: &[u8]) -> Value {
    match column.kind {
        _ if column.nullable && field.is_empty() => Value::Null,
        ColumnKind::List => Value::List(list(field)),
        ColumnKind::Text => Value::Text(field.to_vec()),
        _ => Value::Int(number(column, field)),
    }
}
