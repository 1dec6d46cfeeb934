//! Files of separated values: `.tbl` as dbgen writes it, CSV with a header.
//!
//! Invariants
//! - A field that its column does not allow is an error with line and column; none is guessed.
//!   Checked by `fields_that_do_not_fit_are_named`.
//! - A line has a field per column. Checked by `lines_of_other_lengths_are_named`.

use crate::error::{Error, Kind, Result};
use crate::page::{Column, ColumnKind, Record, Schema, Value, schema};
use std::io::Read;

/// What stands between fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Separator {
    /// `|`, also behind the last field; no header, no quotes.
    Bar,
    /// `,`; the first line names the columns, in any order; quotes as in RFC 4180.
    Comma,
}

/// An import in progress: an iterator of records.
pub struct Import<R: Read> {
    reader: csv::Reader<R>,
    schema: Schema,
    /// Place of each column of the schema in a line.
    places: Vec<usize>,
}

impl<R: Read> Import<R> {
    /// Reads `input` under `schema`.
    ///
    /// # Errors
    /// [`Kind::Usage`] if a CSV header lacks a column or is no text, [`Kind::Io`] if it cannot be
    /// read.
    pub fn new(input: R, schema: &Schema, separator: Separator) -> Result<Import<R>> {
        let is_csv = separator == Separator::Comma;
        let mut builder = csv::ReaderBuilder::new();
        builder.has_headers(is_csv).flexible(!is_csv).quoting(is_csv);
        builder.delimiter(if is_csv { b',' } else { b'|' });
        let mut reader = builder.from_reader(input);
        let mut places: Vec<usize> = (0..schema.columns.len()).collect();
        if is_csv {
            let header = reader.headers();
            let header = header.map_err(|e| failed("the header", e))?.clone();
            let place = |column: &Column| {
                header.iter().position(|name| name.trim() == column.name).ok_or_else(|| {
                    let what = format!("the header has no column `{}`", column.name);
                    Error::new(Kind::Usage, what)
                })
            };
            places = schema.columns.iter().map(place).collect::<Result<_>>()?;
        }
        Ok(Import { reader, schema: schema.clone(), places })
    }

    /// Whether a line has a field per column. The `|` behind the last one may be missing, and is
    /// read as an empty field otherwise; of CSV the reader has compared the lines.
    fn has_all(&self, fields: &csv::ByteRecord) -> bool {
        let wanted = self.places.len();
        let is_ended =
            || fields.len() == wanted + 1 && fields.get(wanted).is_some_and(<[u8]>::is_empty);
        self.reader.has_headers() || fields.len() == wanted || is_ended()
    }

    fn record(&self, fields: &csv::ByteRecord) -> Result<Record> {
        let line = fields.position().map_or(0, csv::Position::line);
        if !self.has_all(fields) {
            let (found, wanted) = (fields.len(), self.places.len());
            let what = format!("line {line}: {found} fields for {wanted} columns");
            return Err(Error::new(Kind::Usage, what));
        }
        let value = |(column, &place): (&Column, &usize)| {
            let field = fields.get(place).unwrap_or_default();
            value(column, field).ok_or_else(|| {
                let found = String::from_utf8_lossy(field);
                let what =
                    format!("line {line}: `{found}` is no {:?} of `{}`", column.kind, column.name);
                Error::new(Kind::Usage, what)
            })
        };
        self.schema.columns.iter().zip(&self.places).map(value).collect()
    }
}

fn failed(what: &str, e: csv::Error) -> Error {
    let kind = if e.is_io_error() { Kind::Io } else { Kind::Usage };
    Error::with_source(kind, format!("{what} cannot be read"), e)
}

impl<R: Read> Iterator for Import<R> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        let mut fields = csv::ByteRecord::new();
        match self.reader.read_byte_record(&mut fields) {
            Ok(false) => None,
            Ok(true) => Some(self.record(&fields)),
            Err(e) => Some(Err(failed("a line", e))),
        }
    }
}

/// The value of a field; `None` if the column does not allow it.
fn value(column: &Column, field: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(field).ok()?;
    if field.is_empty() && column.nullable {
        return Some(Value::Null);
    }
    Some(match column.kind {
        ColumnKind::Int => Value::Int(text.trim().parse().ok()?),
        ColumnKind::Decimal(scale) => Value::Int(decimal(text.trim(), scale)?),
        ColumnKind::Date => Value::Int(date(text.trim())?),
        ColumnKind::Char => match field {
            &[byte] => Value::Int(byte.into()),
            _ => return None,
        },
        ColumnKind::List => {
            let tokens = text.split_ascii_whitespace().map(|t| t.parse().ok());
            let tokens: Vec<u32> = tokens.collect::<Option<_>>()?;
            Value::List(schema::ascends(&tokens).then_some(tokens)?)
        }
        ColumnKind::Text => Value::Text(field.to_vec()),
    })
}

/// A decimal scaled by ten to `scale`; digits beyond it must be zero.
pub(crate) fn decimal(text: &str, scale: u8) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && part.is_empty()) || !all_digits(whole) || !all_digits(part) {
        return None;
    }
    let (kept, beyond) = part.split_at(part.len().min(scale.into()));
    if beyond.bytes().any(|b| b != b'0') {
        return None;
    }
    let magnitude = format!("{whole}{kept:0<width$}", width = usize::from(scale));
    let magnitude: i64 = if magnitude.is_empty() { 0 } else { magnitude.parse().ok()? };
    Some(sign * magnitude)
}

pub(crate) fn date(text: &str) -> Option<i64> {
    let (year, rest) = text.split_once('-')?;
    let (month, day) = rest.split_once('-')?;
    let digits = |s: &str, n: usize| {
        let is_plain = s.len() == n && s.bytes().all(|b| b.is_ascii_digit());
        is_plain.then(|| s.parse::<u32>().ok()).flatten()
    };
    let (year, month, day) = (digits(year, 4)?, digits(month, 2)?, digits(day, 2)?);
    let is_day = (1..=12).contains(&month) && (1..=31).contains(&day);
    is_day.then(|| i64::from(year) * 10_000 + i64::from(month) * 100 + i64::from(day))
}
