//! Schemas: names, kinds and ranges of a data set's columns, and the values they hold.
//!
//! Invariants
//! - A schema read back from its text equals the one that wrote it. Checked by
//!   `a_schema_reads_back_from_its_text`.

use crate::error::{Error, Kind, Result};
use littoral_base::codec;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// An integer.
    Int,
    /// A decimal number scaled by ten to this power.
    Decimal(u8),
    /// A day, as the integer yyyymmdd.
    Date,
    /// One byte.
    Char,
    /// A list of ranks of tokens, ascending and each once: page functions merge lists.
    List,
    /// Bytes that nothing is computed on.
    Text,
}

impl ColumnKind {
    /// The name in a schema's text.
    pub fn name(self) -> String {
        match self {
            ColumnKind::Int => "int".to_owned(),
            ColumnKind::Decimal(scale) => format!("decimal({scale})"),
            ColumnKind::Date => "date".to_owned(),
            ColumnKind::Char => "char".to_owned(),
            ColumnKind::List => "list".to_owned(),
            ColumnKind::Text => "text".to_owned(),
        }
    }
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: ColumnKind,
    /// The least value that may be stored.
    pub low: i64,
    /// The greatest value that may be stored.
    pub high: i64,
    /// Whether NULL may be stored.
    pub nullable: bool,
}

impl Column {
    /// A column of integers in `low..=high`.
    pub fn int(name: &str, low: i64, high: i64) -> Column {
        Column::of(name, ColumnKind::Int, low, high)
    }

    /// A column of decimals with `scale` digits behind the point, in `low..=high` scaled.
    pub fn decimal(name: &str, scale: u8, low: i64, high: i64) -> Column {
        Column::of(name, ColumnKind::Decimal(scale), low, high)
    }

    /// A column of days.
    pub fn date(name: &str) -> Column {
        Column::of(name, ColumnKind::Date, 0, 99_991_231)
    }

    /// A column of single bytes in `low..=high`.
    pub fn char(name: &str, low: u8, high: u8) -> Column {
        Column::of(name, ColumnKind::Char, low.into(), high.into())
    }

    /// A column of token lists.
    pub fn list(name: &str) -> Column {
        Column::of(name, ColumnKind::List, 0, u32::MAX.into())
    }

    /// A column of bytes.
    pub fn text(name: &str) -> Column {
        Column::of(name, ColumnKind::Text, 0, 0)
    }

    /// The same column with NULL allowed.
    pub fn or_null(self) -> Column {
        Column { nullable: true, ..self }
    }

    fn of(name: &str, kind: ColumnKind, low: i64, high: i64) -> Column {
        Column { name: name.to_owned(), kind, low, high, nullable: false }
    }

    /// Whether a function can compute on it as an integer.
    pub fn is_number(&self) -> bool {
        !matches!(self.kind, ColumnKind::List | ColumnKind::Text)
    }

    /// Bytes of a value in a column page: 1, 2, 4 or 8; 4 for an element of a list.
    pub fn width(&self) -> usize {
        match self.kind {
            ColumnKind::Char => 1,
            ColumnKind::Date | ColumnKind::List | ColumnKind::Text => 4,
            ColumnKind::Int | ColumnKind::Decimal(_) => {
                let fits =
                    |bits: u32| self.low >= -(1 << (bits - 1)) && self.high < 1 << (bits - 1);
                [8, 16, 32].into_iter().find(|&b| fits(b)).map_or(8, |b| b as usize / 8)
            }
        }
    }

    /// Whether a leading minus sign in a text row counts.
    pub fn is_signed(&self) -> bool {
        self.low < 0
    }

    fn line(&self) -> String {
        let kind = self.kind.name();
        let null = if self.nullable { " null" } else { "" };
        format!("{} {kind} {} {}{null}\n", self.name, self.low, self.high)
    }

    fn parse(line: &str) -> Option<Column> {
        let words: Vec<_> = line.split(' ').collect();
        let (&[name, kind, low, high], rest) = words.split_first_chunk::<4>()?;
        let kind = match kind {
            "int" => ColumnKind::Int,
            "date" => ColumnKind::Date,
            "char" => ColumnKind::Char,
            "list" => ColumnKind::List,
            "text" => ColumnKind::Text,
            _ => {
                let scale = kind.strip_prefix("decimal(")?.strip_suffix(')')?;
                ColumnKind::Decimal(scale.parse().ok()?)
            }
        };
        let column = Column::of(name, kind, low.parse().ok()?, high.parse().ok()?);
        match rest {
            [] => Some(column),
            ["null"] => Some(column.or_null()),
            _ => None,
        }
    }
}

/// The columns of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// In the order of a row.
    pub columns: Vec<Column>,
}

impl Schema {
    /// A schema of these columns.
    ///
    /// # Errors
    /// [`Kind::Usage`] for no or too many columns, equal or empty names, names with white space,
    /// an empty range, a scale above 18, or a nullable list.
    pub fn new(columns: Vec<Column>) -> Result<Schema> {
        if columns.is_empty() || columns.len() > 256 {
            let what = format!("a schema has 1 to 256 columns, not {}", columns.len());
            return Err(Error::new(Kind::Usage, what));
        }
        for (n, column) in columns.iter().enumerate() {
            let name = &column.name;
            let fault = if name.is_empty() || name.contains(char::is_whitespace) {
                "needs a name without white space"
            } else if columns[..n].iter().any(|c| c.name == *name) {
                "stands twice in the schema: rename one"
            } else if column.low > column.high {
                "has an empty range: swap its ends"
            } else if matches!(column.kind, ColumnKind::Decimal(19..)) {
                "has more than 18 digits behind the point"
            } else if column.kind == ColumnKind::List && column.nullable {
                "is a list, which cannot be NULL: store an empty list"
            } else if column.kind == ColumnKind::Char && !(0 <= column.low && column.high < 256) {
                "is a char, whose range lies in 0 to 255"
            } else {
                continue;
            };
            return Err(Error::new(Kind::Usage, format!("column {n} `{name}` {fault}")));
        }
        Ok(Schema { columns })
    }

    /// The place of a column.
    ///
    /// # Errors
    /// [`Kind::Usage`] if there is none of this name.
    pub fn find(&self, name: &str) -> Result<usize> {
        self.columns.iter().position(|c| c.name == name).ok_or_else(|| {
            let names: Vec<_> = self.columns.iter().map(|c| c.name.as_str()).collect();
            Error::new(Kind::Usage, format!("no column `{name}`: there are {}", names.join(", ")))
        })
    }

    /// The schema as text, one column per line.
    pub fn to_text(&self) -> String {
        self.columns.iter().map(Column::line).collect()
    }

    /// The schema that [`Schema::to_text`] wrote.
    ///
    /// # Errors
    /// [`Kind::Usage`] naming the first line that is no column.
    pub fn parse(text: &str) -> Result<Schema> {
        let column = |(n, line): (usize, &str)| {
            let what = || format!("line {}: `{line}` is no column: name kind low high", n + 1);
            Column::parse(line).ok_or_else(|| Error::new(Kind::Usage, what()))
        };
        Schema::new(text.lines().enumerate().map(column).collect::<Result<_>>()?)
    }

    /// The checksum by which a page names its schema.
    pub fn crc(&self) -> u32 {
        codec::crc(self.to_text().as_bytes())
    }
}

/// One field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// NULL.
    Null,
    /// A number, day or byte.
    Int(i64),
    /// Ranks of tokens, ascending, each once.
    List(Vec<u32>),
    /// Bytes.
    Text(Vec<u8>),
}

impl Value {
    /// The integer; `None` for NULL and what is no number.
    pub fn int(&self) -> Option<i64> {
        match self {
            Value::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The list; empty for what is none.
    pub fn list(&self) -> &[u32] {
        match self {
            Value::List(list) => list,
            _ => &[],
        }
    }
}

/// Fields in the order of the schema.
pub type Record = Vec<Value>;

/// Why a record cannot be stored under a schema; `None` if it can.
pub fn fault_of(schema: &Schema, record: &[Value]) -> Option<String> {
    if record.len() != schema.columns.len() {
        return Some(format!("{} fields for {} columns", record.len(), schema.columns.len()));
    }
    schema.columns.iter().zip(record).find_map(|(c, value)| {
        let fits = match value {
            Value::Null => c.nullable,
            Value::Int(v) => {
                let separator = [i64::from(b'|'), i64::from(b'\n')].contains(v);
                c.is_number()
                    && (c.low..=c.high).contains(v)
                    && !(c.kind == ColumnKind::Char && separator)
                    && (c.kind != ColumnKind::Date || is_day(*v))
            }
            Value::List(list) => c.kind == ColumnKind::List && ascends(list),
            Value::Text(t) => c.kind == ColumnKind::Text && !t.iter().any(|b| b"|\n".contains(b)),
        };
        let range = || match value {
            Value::List(list) if c.kind == ColumnKind::List => {
                format!("{list:?} is no list of `{}`: ranks ascend, each once", c.name)
            }
            Value::Text(_) if c.kind == ColumnKind::Text => {
                format!("`{}` has a `|` or a line feed, which end fields of text pages", c.name)
            }
            _ => format!("{:?} is not {}", value, c.line().trim_end()),
        };
        (!fits).then(range)
    })
}

/// Whether ranks ascend, each once.
pub fn ascends(list: &[u32]) -> bool {
    list.is_sorted_by(|a, b| a < b)
}

fn is_day(v: i64) -> bool {
    (1..=12).contains(&(v / 100 % 100)) && (1..=31).contains(&(v % 100)) && v <= 99_991_231
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_reads_back_from_its_text() {
        let columns = vec![
            Column::int("a", -5, 300),
            Column::decimal("b", 2, 0, 99).or_null(),
            Column::date("c"),
            Column::char("d", b'A', b'Z'),
            Column::list("e"),
            Column::text("f").or_null(),
        ];
        let schema = Schema::new(columns).unwrap();
        assert_eq!(Schema::parse(&schema.to_text()).unwrap(), schema);
        let widths: Vec<_> = schema.columns.iter().map(Column::width).collect();
        assert_eq!(widths, [2, 1, 4, 1, 4, 4]);
        assert!(
            Schema::parse("a int 0 1\nb real 0 1\n").unwrap_err().to_string().contains("line 2")
        );
        let twice = vec![Column::date("a"), Column::date("a")];
        assert!(Schema::new(twice).unwrap_err().to_string().contains("twice"));
        assert!(Schema::new(vec![Column::int("a", 2, 1)]).is_err());
        assert!(schema.find("g").unwrap_err().to_string().contains("a, b"));
    }

    #[test]
    fn a_list_ascends_and_has_each_rank_once() {
        let schema = Schema::new(vec![Column::list("e")]).unwrap();
        let fault = |list: &[u32]| fault_of(&schema, &[Value::List(list.to_vec())]);
        assert!([&[][..], &[7], &[0, 3, u32::MAX]].into_iter().all(|list| fault(list).is_none()));
        for list in [&[3, 1][..], &[1, 1], &[0, 5, 4, 6]] {
            let fault = fault(list).expect("out of order");
            assert!(fault.contains("`e`: ranks ascend"), "{fault}");
        }
    }
}
