//! What can be wrong with a record, and how it is said.

use super::columns::Columns;
use crate::format::VERTICES_MAX;

/// The longest record that is read.
pub const RECORD_BYTES_MAX: usize = 1 << 20;

/// Why a record is no edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Fields(usize),
    OpenQuote,
    BehindQuote,
    CarriageReturn,
    EmptyId,
    NotAnId(String),
    NotANumber(String),
    Weight(String),
    Direction(String),
    CommentOrRecord,
    TooLong,
    Nul,
    NotUtf8,
    TooManyVertices,
}

impl Fault {
    /// The fault in words; `columns` is what was expected.
    pub(crate) fn describe(&self, columns: &Columns) -> String {
        match self {
            Fault::Fields(found) => fields(*found, columns.count),
            Fault::OpenQuote => "a quote that opens here is not closed".to_owned(),
            Fault::BehindQuote => {
                "text behind a closing quote; a quote inside a quoted field is doubled".to_owned()
            }
            Fault::CarriageReturn => {
                "a carriage return inside a record; lines end with LF or CRLF".to_owned()
            }
            Fault::EmptyId => "an empty id".to_owned(),
            Fault::NotAnId(id) => format!(
                "'{id}' cannot be an id among numbers from 0 to 2^64 - 1; `--ids text` takes all ids \
                 as text"
            ),
            Fault::NotANumber(id) => {
                format!("'{id}' is no number from 0 to 2^64 - 1, as `--ids numbers` asks for")
            }
            Fault::Weight(w) => format!("weight '{w}' is no finite number >= 0"),
            Fault::Direction(d) => format!(
                "direction '{d}' differs from the first edge's; say --directed or --undirected"
            ),
            Fault::CommentOrRecord => {
                "this line may be a comment or an edge; say `--comment none` \
                 if no line is a comment, or `--comment CHARACTER` for lines that begin with it"
                    .to_owned()
            }
            Fault::TooLong => {
                format!("a record longer than {RECORD_BYTES_MAX} bytes: is this a text file?")
            }
            Fault::Nul => "a NUL byte: is this a text file?".to_owned(),
            Fault::NotUtf8 => "not UTF-8 text; convert it first, for example by \
                 `iconv -f latin1 -t utf-8`"
                .to_owned(),
            Fault::TooManyVertices => format!("more than {VERTICES_MAX} distinct vertices"),
        }
    }
}

fn fields(found: usize, wanted: usize) -> String {
    let word = if found == 1 { "column" } else { "columns" };
    format!("{found} {word} where {wanted} were expected")
}

/// Line and column, from one, of the byte at `at`; columns are counted in characters.
pub(crate) fn place(bytes: &[u8], at: usize) -> (u64, u64) {
    let before = &bytes[..at.min(bytes.len())];
    let lines = memchr::memchr_iter(b'\n', before).count() as u64;
    let line = memchr::memrchr(b'\n', before).map_or(0, |n| n + 1);
    let is_start = |b: &&u8| **b & 0xc0 != 0x80;
    let characters = before[line..].iter().filter(is_start).count() as u64;
    (lines + 1, characters + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let text = "ab\n\u{e4}\u{f6},x\n".as_bytes();
        let at = text.iter().position(|&b| b == b'x').unwrap();
        assert_eq!((place(text, 0), place(text, at)), ((1, 1), (2, 4)));
        assert_eq!(place(text, text.len()), (3, 1));
    }
}
