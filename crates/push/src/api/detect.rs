//! Tables whose schema is not known: the kinds of their columns are found out from all records.
//!
//! - A column whose fields are all integers is an `int`, else all decimals that 64 bits hold with
//!   the most digits behind the point a `decimal`, else all days (`yyyy-mm-dd`) a `date`. The range
//!   is that of its values.
//! - Every other column holds words: up to [`WORDS_MAX`] different ones become a dictionary, whose
//!   codes can be compared and grouped by; more are text that nothing is computed on.
//! - An empty field is NULL.
//! - The first line names the columns. What separates fields is the one of `,`, tab, `;` and `|`
//!   that stands most often in it.
//!
//! Invariants
//! - What is stored reads back as it was written. Checked by `kinds_are_found_in_the_records`.

use std::collections::BTreeSet;
use std::io::Read;

use super::set::{About, Dictionary};
use crate::data::{date, decimal};
use crate::error::{Error, Kind, Result};
use crate::page::{Column, ColumnKind, Format, Record, Schema, Value};

/// Most words of a dictionary.
pub const WORDS_MAX: usize = 4096;
/// Most digits behind a decimal's point.
const SCALE_MAX: usize = 9;

/// What was found out about a table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Schema and dictionaries; no pages yet.
    pub about: About,
    delimiter: u8,
}

/// What a column can still be.
#[derive(Debug)]
struct Guess {
    is_int: bool,
    scale: Option<usize>,
    is_date: bool,
    has_null: bool,
    has_value: bool,
    words: Option<BTreeSet<String>>,
}

impl Guess {
    fn new() -> Guess {
        let words = Some(BTreeSet::new());
        let (has_null, has_value) = (false, false);
        Guess { is_int: true, scale: Some(0), is_date: true, has_null, has_value, words }
    }

    fn see(&mut self, field: &str) {
        if field.is_empty() {
            self.has_null = true;
            return;
        }
        self.has_value = true;
        self.is_int = self.is_int && field.parse::<i64>().is_ok();
        let scale = field.split_once('.').map_or(0, |(_, part)| part.len());
        let fits = scale <= SCALE_MAX && decimal(field, scale as u8).is_some();
        self.scale = self.scale.filter(|_| fits).map(|s| s.max(scale));
        self.is_date = self.is_date && date(field).is_some();
        if let Some(words) = &mut self.words {
            if !words.contains(field) {
                words.insert(field.to_owned());
            }
            if words.len() > WORDS_MAX || field.len() > usize::from(u16::MAX) {
                self.words = None;
            }
        }
    }

    fn kind(&self) -> ColumnKind {
        match self.scale {
            _ if !self.has_value => ColumnKind::Text,
            _ if self.is_int => ColumnKind::Int,
            Some(scale) => ColumnKind::Decimal(scale as u8),
            None if self.is_date => ColumnKind::Date,
            None => ColumnKind::Text,
        }
    }
}

fn reader<R: Read>(input: R, delimiter: u8) -> csv::Reader<R> {
    let mut builder = csv::ReaderBuilder::new();
    builder.delimiter(delimiter).flexible(false).trim(csv::Trim::All);
    builder.from_reader(input)
}

fn failed(e: csv::Error) -> Error {
    if e.is_io_error() {
        return Error::with_source(Kind::Io, "the table cannot be read", e);
    }
    let line = e.position().map_or(0, csv::Position::line);
    Error::with_source(Kind::Usage, format!("line {line} cannot be read as the others"), e)
}

/// The separator that stands most often in the first line.
fn delimiter_of(line: &str) -> u8 {
    let count = |d: &u8| line.bytes().filter(|b| b == d).count();
    b"|;\t,".iter().copied().max_by_key(count).unwrap_or(b',')
}

/// The integer of a field of a number column.
fn integer(kind: ColumnKind, field: &str) -> Option<i64> {
    match kind {
        ColumnKind::Int => field.parse().ok(),
        ColumnKind::Decimal(scale) => decimal(field, scale),
        ColumnKind::Date => date(field),
        ColumnKind::Char | ColumnKind::List | ColumnKind::Text => None,
    }
}

impl Table {
    /// Reads a table twice to find out its columns: `open` opens it from its beginning.
    ///
    /// # Errors
    /// [`Kind::Usage`] for a table without records or with records of different lengths,
    /// [`Kind::Io`] when it cannot be read.
    pub fn detect<R: Read>(
        mut open: impl FnMut() -> Result<R>,
        format: Format,
        page_bytes: usize,
    ) -> Result<Table> {
        let mut first = Vec::new();
        let mut input = open()?;
        let io = |e| Error::with_source(Kind::Io, "the table cannot be read", e);
        let mut byte = [0];
        while input.read(&mut byte).map_err(io)? == 1 && byte[0] != b'\n' {
            first.push(byte[0]);
        }
        let delimiter = delimiter_of(&String::from_utf8_lossy(&first));
        let mut csv = reader(open()?, delimiter);
        let names = csv.headers().map_err(failed)?.clone();
        let mut guesses: Vec<Guess> = names.iter().map(|_| Guess::new()).collect();
        let mut rows = 0u64;
        for record in csv.records() {
            let record = record.map_err(failed)?;
            guesses.iter_mut().zip(&record).for_each(|(guess, field)| guess.see(field));
            rows += 1;
        }
        if rows == 0 {
            return Err(Error::new(Kind::Usage, "the table has a first line and no records"));
        }
        let mut ranges = vec![(i64::MAX, i64::MIN); guesses.len()];
        for record in reader(open()?, delimiter).records() {
            let record = record.map_err(failed)?;
            let fields = guesses.iter_mut().zip(&record).zip(&mut ranges);
            for ((guess, field), range) in fields {
                match integer(guess.kind(), field) {
                    Some(v) => *range = (range.0.min(v), range.1.max(v)),
                    // Too large with the digits that others have behind the point: words.
                    None if !field.is_empty() => guess.scale = None,
                    None => {}
                }
            }
        }
        Ok(Table { about: about(&names, guesses, &ranges, format, page_bytes)?, delimiter })
    }

    /// The records.
    pub fn records<R: Read>(&self, input: R) -> impl Iterator<Item = Result<Record>> {
        let about = self.about.clone();
        let records = reader(input, self.delimiter).into_records();
        records.map(move |record| {
            let record = record.map_err(failed)?;
            let columns = about.schema.columns.iter().enumerate();
            let value = |((n, column), field): ((usize, &Column), &str)| {
                if field.is_empty() && column.nullable {
                    return Ok(Value::Null);
                }
                let code = |words: &[String]| {
                    let found = words.binary_search_by(|w| w.as_str().cmp(field));
                    found.ok().map(|code| code as i64)
                };
                let found = match about.words(n) {
                    Some(words) => code(words),
                    None if column.kind == ColumnKind::Text => {
                        // Column pages keep no text, whatever stands in it.
                        let kept = if about.format == Format::Text { field } else { "" };
                        return Ok(Value::Text(kept.as_bytes().to_vec()));
                    }
                    None => integer(column.kind, field),
                };
                let changed = || {
                    let what = format!("`{field}` of `{}` was not there before", column.name);
                    Error::new(Kind::Usage, format!("{what}: the table changed while it was read"))
                };
                found.map(Value::Int).ok_or_else(changed)
            };
            columns.zip(&record).map(value).collect()
        })
    }
}

fn about(
    names: &csv::StringRecord,
    guesses: Vec<Guess>,
    ranges: &[(i64, i64)],
    format: Format,
    page_bytes: usize,
) -> Result<About> {
    let (mut columns, mut dictionaries) = (Vec::new(), Vec::new());
    for (n, (guess, name)) in guesses.into_iter().zip(names).enumerate() {
        // A schema's text has one word per name.
        let name = name.split_whitespace().collect::<Vec<_>>().join("_");
        let name = if name.is_empty() { format!("column_{}", n + 1) } else { name };
        let kind = guess.kind();
        let (low, high) = ranges[n];
        let column = match (kind, guess.words) {
            (ColumnKind::Text, Some(words)) if guess.has_value => {
                let words: Vec<String> = words.into_iter().collect();
                let last = words.len() as i64 - 1;
                dictionaries.push(Dictionary { column: n, words });
                Column::int(&name, 0, last)
            }
            (ColumnKind::Text | ColumnKind::List | ColumnKind::Char, _) => Column::text(&name),
            (ColumnKind::Int, _) => Column::int(&name, low, high),
            (ColumnKind::Decimal(scale), _) => Column::decimal(&name, scale, low, high),
            (ColumnKind::Date, _) => Column::date(&name),
        };
        columns.push(if guess.has_null { column.or_null() } else { column });
    }
    let schema = Schema::new(columns)?;
    Ok(About { dictionaries, ..About::new(&schema, format, page_bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::DataSet;

    #[test]
    fn kinds_are_found_in_the_records() {
        let text = "id;unit price;day;region;empty;mixed\n\
                    1;10.5;2024-05-31;north;;7\n\
                    -2;.25;2024-06-01;\"so;uth\";;x\n\
                    3;4;;north;;7\n";
        let table = Table::detect(|| Ok(text.as_bytes()), Format::Columns, 4096).unwrap();
        let schema = table.about.schema.to_text();
        let wanted = "id int -2 3\nunit_price decimal(2) 25 1050\nday date 0 99991231 null\n\
                      region int 0 1\nempty text 0 0 null\nmixed int 0 1\n";
        assert_eq!(schema, wanted);
        assert_eq!(table.about.words(3).unwrap(), ["north", "so;uth"]);
        let records: Vec<Record> = table.records(text.as_bytes()).collect::<Result<_>>().unwrap();
        assert_eq!(records[1][1..4], [Value::Int(25), Value::Int(20_240_601), Value::Int(1)]);
        assert_eq!((&records[2][2], &records[2][4]), (&Value::Null, &Value::Null));
        for (bad, words) in [("a,b\n", "no records"), ("a,b\n1,2\n3\n", "line 3")] {
            let error = Table::detect(|| Ok(bad.as_bytes()), Format::Columns, 4096).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
        let many: String = (0..5000).map(|n| format!("word {n}\n")).collect();
        let many = format!("w\n{many}");
        let table = Table::detect(|| Ok(many.as_bytes()), Format::Columns, 4096).unwrap();
        assert_eq!(table.about.schema.to_text(), "w text 0 0\n");
    }

    #[test]
    fn texts_with_separators_are_no_fault_where_no_text_is_kept() {
        let rows: String = (0..5000).map(|n| format!("{n},\"a|b\n{n}\"\n")).collect();
        let text = format!("id,note\n{rows}");
        for (format, is_stored) in [(Format::Columns, true), (Format::Text, false)] {
            let table = Table::detect(|| Ok(text.as_bytes()), format, 4096).unwrap();
            assert_eq!(table.about.schema.columns[1].kind, ColumnKind::Text);
            let stored = DataSet::of_records(&table.about, table.records(text.as_bytes()));
            assert_eq!(stored.is_ok(), is_stored, "{format:?}");
            let words = stored.err().map(|e| e.to_string()).unwrap_or_default();
            assert!(is_stored || words.contains("text pages"), "{words}");
        }
    }

    /// A file that fails behind its second line.
    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the medium fails"))
        }
    }

    #[test]
    fn a_table_that_cannot_be_read_is_no_mistake_in_it() {
        let open = || Ok("a,b\n1,2\n".as_bytes().chain(Broken));
        let error = Table::detect(open, Format::Columns, 4096).unwrap_err();
        assert_eq!(error.kind(), Kind::Io, "{error}");
    }

    #[test]
    fn decimals_that_have_no_common_scale_are_words() {
        let text = "n,m\n12345678901,1\n0.123456789,2\n,3\n";
        let table = Table::detect(|| Ok(text.as_bytes()), Format::Columns, 4096).unwrap();
        assert_eq!(table.about.schema.to_text(), "n int 0 1 null\nm int 1 3\n");
        assert_eq!(table.about.words(0).unwrap(), ["0.123456789", "12345678901"]);
        let records: Vec<Record> = table.records(text.as_bytes()).collect::<Result<_>>().unwrap();
        let codes: Vec<&Value> = records.iter().map(|r| &r[0]).collect();
        assert_eq!(codes, [&Value::Int(1), &Value::Int(0), &Value::Null]);
    }
}
