//! Packed records, as READ_FILT returns them: see `docs/design/push-pages.md`.

use super::ir::{Function, Output};
use crate::error::{Error, Kind, Result};
use crate::page::{self, ColumnKind, Record, Value};

/// Packs a record.
pub(super) fn pack(function: &Function, columns: &[usize], record: &Record) -> Vec<u8> {
    let mut out = Vec::new();
    let nullable = columns.iter().filter(|&&c| function.schema.columns[c].nullable);
    for (n, &c) in nullable.enumerate() {
        if n % 8 == 0 {
            out.push(0);
        }
        let is_null = record[c] == Value::Null;
        *out.last_mut().expect("invariant: pushed above") |= u8::from(is_null) << (n % 8);
    }
    for &c in columns {
        let column = &function.schema.columns[c];
        if column.kind == ColumnKind::List {
            let list = record[c].list();
            out.extend((list.len() as u32).to_le_bytes());
            out.extend(list.iter().flat_map(|t| t.to_le_bytes()));
        } else {
            out.extend(&record[c].int().unwrap_or(0).to_le_bytes()[..column.width()]);
        }
    }
    out
}

/// Bytes of the packed record at the start of `bytes`.
pub(super) fn packed_len(function: &Function, bytes: &[u8]) -> Result<usize> {
    unpack(function, bytes).map(|(_, len)| len)
}

/// The packed record at the start of `bytes`, with its length; columns that are not there are NULL.
pub(super) fn unpack(function: &Function, bytes: &[u8]) -> Result<(Record, usize)> {
    let short = || Error::new(Kind::Corrupt, "filtered records end inside a record: read again");
    let Output::Rows(columns) = &function.output else {
        return Err(Error::new(Kind::Usage, "only a function that returns rows packs records"));
    };
    let schema = &function.schema;
    let nullable = columns.iter().filter(|&&c| schema.columns[c].nullable).count();
    let mut at = nullable.div_ceil(8);
    let mut record = vec![Value::Null; schema.columns.len()];
    let mut bit = 0;
    for &c in columns {
        let column = &schema.columns[c];
        if column.kind == ColumnKind::List {
            let len = bytes.get(at..at + 4).ok_or_else(short)?;
            let len = page::u32_at(len, 0) as usize;
            let list = bytes.get(at + 4..at + 4 + 4 * len).ok_or_else(short)?;
            record[c] = Value::List(list.chunks(4).map(|t| page::u32_at(t, 0)).collect());
            at += 4 + 4 * len;
            continue;
        }
        let field = bytes.get(at..at + column.width()).ok_or_else(short)?;
        let unsigned = column.kind == ColumnKind::Char;
        let value = page::columns::integer(field, 0, column.width(), unsigned);
        at += column.width();
        let is_null = column.nullable && {
            bit += 1;
            bytes[(bit - 1) / 8] >> ((bit - 1) % 8) & 1 == 1
        };
        record[c] = if is_null { Value::Null } else { Value::Int(value) };
    }
    Ok((record, at))
}
