//! What a text input looks like: format by name, columns by header, ids by the first edge.
//!
//! Rules (a caller's override wins over each)
//! - The name, without `.gz` or `.zst`, tells the format: `.el .wel .csv .tsv .sg .wsg`; `.txt`,
//!   `.snap`, `.edges` and everything else are SNAP lists (spaces or tabs, `#` comments).
//! - CSV and TSV begin with a header unless their first two fields are numbers; a column called
//!   `weight`, `w`, `cost`, `distance` or `capacity` holds weights.
//! - Edges have a direction, except where a SNAP comment says `Undirected`.
//! - Ids are numbers when both ids of the first edge are, else text; a file that then changes its
//!   mind is refused, since "7" and a label "seven" in one column are most likely a mistake. A
//!   comment `# ids: text` before the first edge makes all ids text, digits too.

use std::path::Path;

use crate::error::{Error, Kind, Result};

/// Input formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `source target` a line.
    El,
    /// `source target weight` a line.
    Wel,
    /// As `El`, with `#` comments that may tell the direction.
    Snap,
    /// Comma-separated values with a header.
    Csv,
    /// Tab-separated values with a header.
    Tsv,
    /// The GAP suite's serialized graph.
    Sg,
    /// The GAP suite's serialized graph with integer weights.
    Wsg,
}

const NAMES: [(&str, Format); 7] = [
    ("el", Format::El),
    ("wel", Format::Wel),
    ("snap", Format::Snap),
    ("csv", Format::Csv),
    ("tsv", Format::Tsv),
    ("sg", Format::Sg),
    ("wsg", Format::Wsg),
];

impl Format {
    /// The format a file's name stands for.
    pub fn of_path(path: &Path) -> Format {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let plain = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name);
        let extension = plain.rsplit_once('.').map_or("", |(_, e)| e);
        NAMES.iter().find(|(n, _)| *n == extension).map_or(Format::Snap, |&(_, f)| f)
    }

    /// Whether it is the GAP suite's binary form.
    pub fn is_serialized(self) -> bool {
        matches!(self, Format::Sg | Format::Wsg)
    }

    pub(crate) fn separator(self) -> Separator {
        match self {
            Format::Csv => Separator::Comma,
            Format::Tsv => Separator::Tab,
            _ => Separator::Space,
        }
    }
}

impl std::str::FromStr for Format {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        NAMES.iter().find(|(n, _)| *n == text).map(|&(_, f)| f).ok_or_else(|| {
            let known: Vec<_> = NAMES.iter().map(|(n, _)| *n).collect();
            let context = format!("'{text}' is no input format; known: {}", known.join(", "));
            Error::new(Kind::Argument, context)
        })
    }
}

/// What ids are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ids {
    /// Numbers from 0 to 2^64 - 1.
    Numbers,
    /// Text; digits are text too.
    Text,
}

/// What parts a line's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separator {
    Space,
    Comma,
    Tab,
}

/// Fields of a line, at most as many as anyone asks for.
pub(crate) const FIELDS_MAX: usize = 64;

/// The fields of a line; quotes around a CSV field are taken off.
///
/// # Errors
/// What is wrong with the line.
pub(crate) fn fields<'a>(
    line: &'a str,
    separator: Separator,
    into: &mut Vec<&'a str>,
) -> std::result::Result<(), &'static str> {
    into.clear();
    match separator {
        Separator::Space => into.extend(line.split_ascii_whitespace().take(FIELDS_MAX)),
        Separator::Tab => into.extend(line.split('\t').take(FIELDS_MAX).map(str::trim)),
        Separator::Comma if !line.contains('"') => {
            into.extend(line.split(',').take(FIELDS_MAX).map(str::trim));
        }
        Separator::Comma => return quoted(line, into),
    }
    Ok(())
}

fn quoted<'a>(line: &'a str, into: &mut Vec<&'a str>) -> std::result::Result<(), &'static str> {
    let mut rest = Some(line);
    while let Some(text) = rest {
        let text = text.trim_start();
        let (field, after) = match text.strip_prefix('"') {
            None => (text.split(',').next().unwrap_or("").trim_end(), text.find(',')),
            Some(open) => {
                let end = open.find('"').ok_or("a quote is not closed on its line")?;
                let tail = &open[end + 1..];
                if tail.starts_with('"') {
                    return Err("a quote inside a quoted field; rename the vertex");
                }
                if !tail.trim_start().is_empty() && !tail.trim_start().starts_with(',') {
                    return Err("text behind a closing quote");
                }
                (
                    &open[..end],
                    text.len()
                        .checked_sub(tail.len())
                        .and_then(|at| text[at..].find(',').map(|c| at + c)),
                )
            }
        };
        into.push(field);
        rest = after.map(|comma| &text[comma + 1..]);
    }
    Ok(())
}

/// Where source, target and weight stand in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    /// How many fields a line has.
    pub(crate) count: usize,
    /// Which field is the weight.
    pub(crate) weight: Option<usize>,
}

impl Columns {
    /// The columns a header names.
    pub(crate) fn of_header(fields: &[&str]) -> Columns {
        const WEIGHTS: [&str; 5] = ["weight", "w", "cost", "distance", "capacity"];
        let is_weight = |f: &&str| WEIGHTS.iter().any(|w| w.eq_ignore_ascii_case(f));
        let weight = fields.iter().skip(2).position(is_weight).map(|i| i + 2);
        Columns { count: fields.len(), weight }
    }

    /// The columns of a headless format; CSV and TSV take what the first line has.
    pub(crate) fn of_format(format: Format, first: &[&str]) -> Columns {
        match format {
            Format::Wel => Columns { count: 3, weight: Some(2) },
            Format::Csv | Format::Tsv => {
                Columns { count: first.len(), weight: (first.len() == 3).then_some(2) }
            }
            _ => Columns { count: 2, weight: None },
        }
    }
}

/// Whether a field is meant as a number: digits, perhaps with a sign.
pub(crate) fn looks_numeric(field: &str) -> bool {
    let digits = field.strip_prefix(['-', '+']).unwrap_or(field);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_formats() {
        let of = |n: &str| Format::of_path(Path::new(n));
        assert_eq!(
            (of("a/b.el"), of("b.WEL.gz"), of("x.tsv.zst")),
            (Format::El, Format::Wel, Format::Tsv)
        );
        assert_eq!(
            (of("soc-LiveJournal1.txt.gz"), of("edges"), of("g.sg")),
            (Format::Snap, Format::Snap, Format::Sg)
        );
        assert!("dot".parse::<Format>().unwrap_err().to_string().contains("csv"));
    }

    #[test]
    fn quoted_fields_may_hold_commas_and_broken_quotes_are_told() {
        let split = |line: &str| {
            let mut out = Vec::new();
            fields(line, Separator::Comma, &mut out).map(|()| out.join("|"))
        };
        assert_eq!(split("a,b ,3"), Ok("a|b|3".to_owned()));
        assert_eq!(split("\"a,b\" , c,\"\""), Ok("a,b|c|".to_owned()));
        assert_eq!(split("x,\"y\""), Ok("x|y".to_owned()));
        for bad in ["\"a,b", "\"a\"b,c", "\"a\"\"b\",c"] {
            assert!(split(bad).is_err(), "{bad}");
        }
    }
}
