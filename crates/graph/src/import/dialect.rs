//! How a text input is written: its format, its delimiter, and which comments it may hold.
//!
//! - The name, without `.gz` or `.zst`, tells the format: `.el .wel .csv .tsv .sg .wsg .mtx
//!   .graph .gr .parquet .arrow`; `.txt`, `.snap`, `.edges` and everything else are SNAP lists
//!   (spaces or tabs, `#` comments).
//! - A format proposes a delimiter; [`super::sniff`] checks the proposal against the first records.

use std::path::Path;

use crate::error::{Error, Kind, Result};

/// Input formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `source target` per line.
    El,
    /// `source target weight` per line.
    Wel,
    /// As `El`, with `#` comments that may tell the direction.
    Snap,
    /// Comma-separated values.
    Csv,
    /// Tab-separated values.
    Tsv,
    /// The GAP suite's serialized graph.
    Sg,
    /// The GAP suite's serialized graph with integer weights.
    Wsg,
    /// Matrix Market: a square sparse matrix.
    Mtx,
    /// METIS: a list per vertex.
    Metis,
    /// DIMACS: arcs of a shortest-path problem, or edges.
    Dimacs,
    /// Parquet: a table with named columns.
    Parquet,
    /// Arrow IPC: a table with named columns, in the file form or the stream form.
    Arrow,
}

const NAMES: [(&str, Format); 18] = [
    ("el", Format::El),
    ("wel", Format::Wel),
    ("snap", Format::Snap),
    ("csv", Format::Csv),
    ("tsv", Format::Tsv),
    ("sg", Format::Sg),
    ("wsg", Format::Wsg),
    ("mtx", Format::Mtx),
    ("graph", Format::Metis),
    ("metis", Format::Metis),
    ("gr", Format::Dimacs),
    ("dimacs", Format::Dimacs),
    ("col", Format::Dimacs),
    ("parquet", Format::Parquet),
    ("pq", Format::Parquet),
    ("arrow", Format::Arrow),
    ("feather", Format::Arrow),
    ("ipc", Format::Arrow),
];

impl Format {
    /// The format a file's name stands for.
    pub fn of_path(path: &Path) -> Format {
        let extension = extension(path);
        NAMES.iter().find(|(n, _)| *n == extension).map_or(Format::Snap, |&(_, f)| f)
    }

    /// The format's name on the command line.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, f)| *f == self).map_or("", |(n, _)| n)
    }

    /// Whether it is the GAP suite's binary form.
    pub fn is_serialized(self) -> bool {
        matches!(self, Format::Sg | Format::Wsg)
    }

    /// Whether it is a table of typed columns.
    pub fn is_columnar(self) -> bool {
        matches!(self, Format::Parquet | Format::Arrow)
    }

    /// Whether it is a text that counts vertices and edges at its beginning.
    pub(crate) fn is_counted(self) -> bool {
        matches!(self, Format::Mtx | Format::Metis | Format::Dimacs)
    }

    /// Whether it is a table, which may begin with a header and holds no comments after that.
    pub(crate) fn is_table(self) -> bool {
        matches!(self, Format::Csv | Format::Tsv)
    }

    pub(crate) fn delimiter(self) -> Delimiter {
        match self {
            Format::Csv => Delimiter::Byte(b','),
            Format::Tsv => Delimiter::Byte(b'\t'),
            _ => Delimiter::Space,
        }
    }
}

/// A file name's last extension, in lower case, compression aside.
pub(crate) fn extension(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let plain = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name);
    plain.rsplit_once('.').map_or("", |(_, e)| e).to_owned()
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

/// What separates the fields of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delimiter {
    /// Any run of spaces and tabs.
    Space,
    /// One ASCII character.
    Byte(u8),
}

const DELIMITERS: [(&str, Delimiter); 5] = [
    ("comma", Delimiter::Byte(b',')),
    ("tab", Delimiter::Byte(b'\t')),
    ("semicolon", Delimiter::Byte(b';')),
    ("pipe", Delimiter::Byte(b'|')),
    ("space", Delimiter::Space),
];

impl Delimiter {
    /// Its name on the command line: a word, or the character itself.
    pub fn name(self) -> String {
        match (DELIMITERS.iter().find(|(_, d)| *d == self), self) {
            (Some((name, _)), _) => (*name).to_owned(),
            (None, Delimiter::Byte(b)) => char::from(b).to_string(),
            (None, Delimiter::Space) => "space".to_owned(),
        }
    }

    /// Whether `byte` is blank space around a field, which is not part of it.
    #[inline(always)]
    pub(crate) fn is_padding(self, byte: u8) -> bool {
        byte == b' ' || (byte == b'\t' && self != Delimiter::Byte(b'\t'))
    }

    /// Whether `byte` ends a field.
    #[inline(always)]
    pub(crate) fn is_delimiter(self, byte: u8) -> bool {
        match self {
            Delimiter::Space => byte == b' ' || byte == b'\t',
            Delimiter::Byte(b) => byte == b,
        }
    }
}

impl std::str::FromStr for Delimiter {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        if let Some((_, d)) = DELIMITERS.iter().find(|(n, _)| *n == text) {
            return Ok(*d);
        }
        let usable = |b: u8| b.is_ascii_punctuation() && !matches!(b, b'"' | b'-' | b'.' | b'+');
        match text.as_bytes() {
            b" " => Ok(Delimiter::Space),
            b"\t" | b"\\t" => Ok(Delimiter::Byte(b'\t')),
            &[b] if usable(b) => Ok(Delimiter::Byte(b)),
            _ => {
                let context = format!(
                    "'{text}' is no delimiter; say comma, tab, semicolon, pipe, space, or one \
                     ASCII punctuation character other than \" - . +"
                );
                Err(Error::new(Kind::Argument, context))
            }
        }
    }
}

/// Which lines are comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comments {
    /// None: every line that is not blank is a record.
    None,
    /// Lines that begin with this character.
    Begin(u8),
}

impl std::str::FromStr for Comments {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match text.as_bytes() {
            b"none" => Ok(Comments::None),
            &[b] if b.is_ascii_punctuation() && b != b'"' => Ok(Comments::Begin(b)),
            _ => {
                let context = format!(
                    "'{text}' begins no comment; say one ASCII character such as #, or none"
                );
                Err(Error::new(Kind::Argument, context))
            }
        }
    }
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
    fn delimiters_are_words_or_characters() {
        for (text, wanted) in [
            ("comma", Delimiter::Byte(b',')),
            (";", Delimiter::Byte(b';')),
            ("\\t", Delimiter::Byte(b'\t')),
            (" ", Delimiter::Space),
            ("~", Delimiter::Byte(b'~')),
        ] {
            let delimiter: Delimiter = text.parse().unwrap();
            assert_eq!(delimiter, wanted);
            assert_eq!(delimiter.name().parse::<Delimiter>().unwrap(), wanted);
        }
        for bad in ["", "\"", "a", "7", "-", "||", "\n", "\u{a6}"] {
            assert!(bad.parse::<Delimiter>().unwrap_err().to_string().contains("semicolon"));
        }
    }
}
