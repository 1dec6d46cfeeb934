//! A scan in words: filter, keys and sums, or columns; and its answer as a table.
//!
//! Invariants
//! - Equal scans of equal data show equal tables, wherever pages are computed. Checked by
//!   `any_road_of_each_page_gives_the_plain_answer`.

use super::set::About;
use super::text::{parse_expression, parse_test};
use super::wire::Program;
use crate::error::{Error, Kind, Result};
use crate::function::{Answer, Compiled, Function, Output, Params, Test};
use crate::page::{ColumnKind, Value};

/// A scan: which records, and what is made of them.
///
/// With keys or sums the answer has a row per group: keys, number of records, sums. With columns it
/// has a row per record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Which records pass, such as `price > 10`; all of them otherwise.
    pub filter: Option<String>,
    /// Columns that make a group.
    pub keys: Vec<String>,
    /// Sums, such as `price * qty`.
    pub sums: Vec<String>,
    /// Columns of the records that pass; excludes keys and sums.
    pub columns: Vec<String>,
}

/// How an answer is shown: a heading per column and what its integers mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The headings.
    pub headings: Vec<String>,
    keys: Vec<usize>,
    scales: Vec<u8>,
    columns: Vec<usize>,
}

impl Scan {
    /// The program for a data set, and how its answer is shown.
    ///
    /// # Errors
    /// [`Kind::Usage`] for a column that does not exist or a text that is not understood,
    /// [`Kind::Unsupported`] for what cannot be compiled.
    pub fn plan(&self, about: &About) -> Result<(Program, Shown)> {
        let find = |names: &[String]| {
            names.iter().map(|n| about.schema.find(n)).collect::<Result<Vec<_>>>()
        };
        let filter = match &self.filter {
            Some(text) => parse_test(about, text)?,
            None => Test::And(vec![]),
        };
        let (keys, columns) = (find(&self.keys)?, find(&self.columns)?);
        if !columns.is_empty() && (!keys.is_empty() || !self.sums.is_empty()) {
            let what = "a scan returns columns of records or groups with sums, not both";
            return Err(Error::new(Kind::Usage, what));
        }
        let sums =
            self.sums.iter().map(|s| parse_expression(about, s)).collect::<Result<Vec<_>>>()?;
        let (sums, scales): (Vec<_>, Vec<_>) = sums.into_iter().unzip();
        let mut headings = self.keys.clone();
        let output = if columns.is_empty() {
            headings.push("count".to_owned());
            headings.extend(self.sums.iter().map(|s| format!("sum({s})")));
            Output::Aggregate { keys: keys.clone(), sums }
        } else {
            headings.clone_from(&self.columns);
            Output::Rows(columns.clone())
        };
        let function = Function::new(&about.schema, vec![], filter, output);
        function.validate()?;
        let (format, params) = (about.format, Params::default());
        let program = Program { function, format, params, elf: None };
        Ok((program, Shown { headings, keys, scales, columns }))
    }
}

impl Shown {
    /// How the answer of an aggregate over a data set is shown; `scales` are its sums' digits
    /// behind the point, `names` their headings.
    pub fn of_sums(about: &About, keys: &[usize], names: &[&str], scales: &[u8]) -> Shown {
        let name = |&k: &usize| about.schema.columns[k].name.clone();
        let mut headings: Vec<String> = keys.iter().map(name).collect();
        headings.push("count".to_owned());
        headings.extend(names.iter().map(|n| (*n).to_owned()));
        Shown { headings, keys: keys.to_vec(), scales: scales.to_vec(), columns: Vec::new() }
    }

    /// The answer's rows; `None` is NULL. An aggregate without keys has one row, also over nothing.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] for records that do not parse.
    pub fn rows(
        &self,
        about: &About,
        program: &Program,
        answer: &Answer,
    ) -> Result<Vec<Vec<Option<String>>>> {
        if !self.columns.is_empty() {
            return self.records(about, program, answer);
        }
        let mut rows = Vec::new();
        for (key, group) in &answer.groups {
            let keys = self.keys.iter().zip(key);
            let mut row: Vec<_> =
                keys.map(|(&k, v)| v.map(|v| shown(about, k, v.into()))).collect();
            row.push(Some(group.count.to_string()));
            let sums = group.totals.iter().zip(&self.scales);
            row.extend(sums.map(|(t, &s)| (t.present > 0).then(|| decimal(t.sum, s))));
            rows.push(row);
        }
        if rows.is_empty() && self.keys.is_empty() {
            let sums = self.scales.iter().map(|_| None);
            rows.push(std::iter::once(Some("0".to_owned())).chain(sums).collect());
        }
        Ok(rows)
    }

    fn records(
        &self,
        about: &About,
        program: &Program,
        answer: &Answer,
    ) -> Result<Vec<Vec<Option<String>>>> {
        let compiled = Compiled::new(&program.function, program.format)?;
        let mut rows = Vec::new();
        for packed in &answer.rows {
            for record in compiled.unpack(packed)? {
                let value = |&c: &usize| match &record[c] {
                    Value::Int(v) => Some(shown(about, c, (*v).into())),
                    Value::List(list) => {
                        let words: Vec<_> = list.iter().map(u32::to_string).collect();
                        Some(words.join(" "))
                    }
                    Value::Text(_) | Value::Null => None,
                };
                rows.push(self.columns.iter().map(value).collect());
            }
        }
        Ok(rows)
    }
}

/// A value of a column as people write it.
fn shown(about: &About, column: usize, v: i128) -> String {
    if let Some(word) = about.words(column).and_then(|w| w.get(usize::try_from(v).ok()?)) {
        return word.clone();
    }
    match about.schema.columns[column].kind {
        ColumnKind::Decimal(scale) => decimal(v, scale),
        ColumnKind::Date => format!("{:04}-{:02}-{:02}", v / 10_000, v / 100 % 100, v % 100),
        ColumnKind::Char => u8::try_from(v).map_or(v.to_string(), |b| char::from(b).to_string()),
        ColumnKind::Int | ColumnKind::List | ColumnKind::Text => v.to_string(),
    }
}

/// A scaled integer with its point.
fn decimal(v: i128, scale: u8) -> String {
    if scale == 0 {
        return v.to_string();
    }
    let width = usize::from(scale);
    let digits = format!("{:0>1$}", v.unsigned_abs(), width + 1);
    let (whole, part) = digits.split_at(digits.len() - width);
    let sign = if v < 0 { "-" } else { "" };
    format!("{sign}{whole}.{part}")
}

#[cfg(test)]
mod tests {
    use super::decimal;

    #[test]
    fn scaled_integers_read_as_decimals() {
        assert_eq!(
            [(-5, 2), (1234, 2), (7, 0), (-123_456, 4)].map(|(v, s)| decimal(v, s)),
            ["-0.05", "12.34", "7", "-12.3456"]
        );
    }
}
