//! Walking a TOML document so that every complaint names file, line, field and what would be legal.
//!
//! Invariants
//! - Every key of a table is either asked for or reported as unknown with the nearest known name.
//!   Checked by `errors_name_line_field_and_nearest_legal_value`.
//! - No value is taken without its type being checked; nothing here panics on any input. Checked by
//!   `mistakes_are_named_with_line_and_remedy`,
//!   `no_prefix_of_a_profile_and_no_flipped_byte_panics`.
//!
//! Callers: profiles and machine files.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Error, Kind, Result};

/// The text of a file and its name, to turn offsets into `name:line`.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
}

impl Origin<'_> {
    /// `name:line` of a byte offset.
    pub(crate) fn place(&self, at: usize) -> String {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
        format!("{}:{line}", self.name)
    }

    /// An error at a byte offset.
    pub(crate) fn error(&self, at: usize, message: impl std::fmt::Display) -> Error {
        Error::new(Kind::Profile, format!("{}: {message}", self.place(at)))
    }
}

/// Parses a document, or says where it is no TOML.
pub(crate) fn parse<'a>(origin: Origin<'a>) -> Result<DeTable<'a>> {
    match DeTable::parse(origin.text) {
        Ok(table) => Ok(table.into_inner()),
        Err(e) => {
            let at = e.span().map_or(0, |s: Range<usize>| s.start);
            Err(origin.error(at, format_args!("not TOML: {}", e.message())))
        }
    }
}

/// One table of a document while it is being read.
pub(crate) struct Fields<'a, 't> {
    pub(crate) origin: Origin<'a>,
    /// Dotted path of the table, empty at the top.
    pub(crate) path: String,
    table: &'t DeTable<'a>,
    at: usize,
    known: BTreeSet<String>,
}

impl<'a, 't> Fields<'a, 't> {
    pub(crate) fn new(origin: Origin<'a>, path: &str, table: &'t DeTable<'a>, at: usize) -> Self {
        Fields { origin, path: path.to_owned(), table, at, known: BTreeSet::new() }
    }

    /// The dotted name of a field of this table.
    pub(crate) fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The value of `key`, which becomes a known name.
    pub(crate) fn get(&mut self, key: &str) -> Option<&'t Spanned<DeValue<'a>>> {
        self.known.insert(key.to_owned());
        self.table.iter().find(|(k, _)| k.get_ref() == key).map(|(_, v)| v)
    }

    /// The text of `key`.
    pub(crate) fn text(&mut self, key: &str) -> Result<Option<(&'t str, usize)>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let at = value.span().start;
        match value.get_ref().as_str() {
            Some(text) => Ok(Some((text, at))),
            None => Err(self.wrong_type(key, value, "a text in quotes")),
        }
    }

    /// The text of `key`, which must be there.
    pub(crate) fn required_text(&mut self, key: &str) -> Result<(&'t str, usize)> {
        self.text(key)?.ok_or_else(|| self.missing(key))
    }

    /// The table of `key`.
    pub(crate) fn table(&mut self, key: &str) -> Result<Option<Fields<'a, 't>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref().as_table() {
            Some(table) => {
                let path = self.name(key);
                Ok(Some(Fields::new(self.origin, &path, table, value.span().start)))
            }
            None => Err(self.wrong_type(key, value, "a table")),
        }
    }

    /// An unsigned number of `key`, or its text for the caller to parse.
    pub(crate) fn number_or_text(&mut self, key: &str) -> Result<Option<(Scalar<'t>, usize)>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let at = value.span().start;
        match scalar(value.get_ref()) {
            Some(found) => Ok(Some((found, at))),
            None => Err(self.wrong_type(key, value, "a number of zero or more, or a text")),
        }
    }

    /// The keys of the table, each of which becomes a known name.
    pub(crate) fn names(&mut self) -> Vec<String> {
        let names: Vec<String> = self.table.iter().map(|(k, _)| k.get_ref().to_string()).collect();
        self.known.extend(names.iter().cloned());
        names
    }

    /// An error about the table as a whole.
    pub(crate) fn mistake(&self, message: &str) -> Error {
        self.origin.error(self.at, format_args!("`{}`: {message}", self.path))
    }

    /// An error saying that `key` is missing.
    pub(crate) fn missing(&self, key: &str) -> Error {
        self.origin.error(self.at, format_args!("field `{}` is missing", self.name(key)))
    }

    fn wrong_type(&self, key: &str, value: &Spanned<DeValue<'_>>, wanted: &str) -> Error {
        let found = value.get_ref().type_str();
        let name = self.name(key);
        self.origin.error(value.span().start, format_args!("`{name}` is {found}, wanted {wanted}"))
    }

    /// Refuses every key that was not read.
    pub(crate) fn finish(&self) -> Result<()> {
        for (key, _) in self.table.iter() {
            if !self.known.contains(key.get_ref().as_ref()) {
                let known = self.known.iter().map(String::as_str);
                let hint = suggestion(key.get_ref(), known);
                let name = self.name(key.get_ref());
                let at = key.span().start;
                return Err(self.origin.error(at, format_args!("unknown field `{name}`{hint}")));
            }
        }
        Ok(())
    }
}

/// A number or a text.
pub(crate) enum Scalar<'t> {
    Number(u64),
    Text(&'t str),
}

fn scalar<'t>(value: &'t DeValue<'_>) -> Option<Scalar<'t>> {
    if let Some(text) = value.as_str() {
        return Some(Scalar::Text(text));
    }
    let integer = value.as_integer()?;
    let digits = integer.as_str().trim_start_matches('+');
    u64::from_str_radix(digits, integer.radix()).ok().map(Scalar::Number)
}

/// `; did you mean ...?` for the nearest of `known`, or the whole list when none is near.
pub fn suggestion<'k>(word: &str, known: impl Iterator<Item = &'k str> + Clone) -> String {
    let near = known.clone().map(|k| (distance(word, k), k)).min();
    match near {
        Some((d, k)) if d <= 1 + word.len() / 3 => format!("; did you mean `{k}`?"),
        Some(_) => {
            let all: Vec<_> = known.collect();
            format!("; known are {}", all.join(", "))
        }
        None => String::new(),
    }
}

/// Edits (insert, delete, replace) between two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distance_known_answers() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn suggestions_name_the_near_word_or_list_all() {
        let known = ["latency", "bytes_max"];
        assert_eq!(suggestion("latncy", known.into_iter()), "; did you mean `latency`?");
        assert!(suggestion("zzz", known.into_iter()).contains("latency, bytes_max"));
    }
}
