//! Records and their fields: RFC 4180 with any delimiter, and lists separated by spaces.
//!
//! Rules
//! - A field that begins with `"` is quoted: it ends at the next `"` that is not doubled, may hold
//!   delimiters and line breaks, and `""` in it stands for one `"`. Elsewhere a quote is a
//!   character like any other.
//! - Blank space around a field is not part of it, except inside quotes.
//! - A record ends at LF or CRLF outside quotes, or at the end of the input. A carriage return
//!   anywhere else outside quotes is a fault.
//!
//! Invariant: [`record_end`] and [`split`] agree on which quotes open a field, so blocks that are
//! cut at record ends parse as the whole input would. Checked by
//! `threads_and_blocks_change_neither_graph_nor_fault`.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use super::dialect::Delimiter;
use super::fault::Fault;

/// Where a record ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordEnd {
    /// At the line feed at this offset.
    Newline(usize),
    /// At the end of the text, which holds no line feed outside quotes any more.
    Text,
    /// Nowhere in the text: the quote at this offset is not closed.
    Open(usize),
}

/// Where the record that begins at `from` ends.
pub(crate) fn record_end(bytes: &[u8], from: usize, delimiter: Delimiter) -> RecordEnd {
    let mut at = from;
    while let Some(found) = memchr2(b'\n', b'"', &bytes[at..]) {
        let here = at + found;
        if bytes[here] == b'\n' {
            return RecordEnd::Newline(here);
        }
        at = here + 1;
        if opens_field(&bytes[from..here], delimiter) {
            match closing_quote(bytes, at) {
                Some((close, _)) => at = close + 1,
                None => return RecordEnd::Open(here),
            }
        }
    }
    RecordEnd::Text
}

/// Whether a quote behind `before`, the record so far, begins a field.
fn opens_field(before: &[u8], delimiter: Delimiter) -> bool {
    match delimiter {
        Delimiter::Space => before.last().is_none_or(|&b| delimiter.is_delimiter(b)),
        Delimiter::Byte(_) => {
            let last = before.iter().rev().find(|&&b| !delimiter.is_padding(b));
            last.is_none_or(|&b| delimiter.is_delimiter(b))
        }
    }
}

/// The quote that closes a field whose text begins at `from`, and whether quotes are doubled in it.
fn closing_quote(bytes: &[u8], from: usize) -> Option<(usize, bool)> {
    let (mut at, mut doubled) = (from, false);
    loop {
        let quote = at + memchr(b'"', &bytes[at..])?;
        if bytes.get(quote + 1) != Some(&b'"') {
            return Some((quote, doubled));
        }
        (at, doubled) = (quote + 2, true);
    }
}

/// A field of a record, without its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) start: usize,
    pub(crate) end: usize,
    doubled: bool,
}

impl Field {
    /// The field's text in `text`, which its record is part of.
    #[inline(always)]
    pub(crate) fn text(self, text: &str) -> Cow<'_, str> {
        let raw = &text[self.start..self.end];
        if self.doubled { Cow::Owned(raw.replace("\"\"", "\"")) } else { Cow::Borrowed(raw) }
    }
}

/// The fields of the record at `start..end` of `text`, into `into`.
///
/// # Errors
/// What is wrong, and at which offset.
pub(crate) fn split(
    text: &str,
    (start, end): (usize, usize),
    delimiter: Delimiter,
    into: &mut Vec<Field>,
) -> Result<(), (usize, Fault)> {
    into.clear();
    let end = if text.as_bytes()[start..end].ends_with(b"\r") { end - 1 } else { end };
    let mut cursor = Cursor { text, at: start, end, delimiter };
    match delimiter {
        Delimiter::Space => loop {
            cursor.skip_padding();
            if cursor.at == end {
                return Ok(());
            }
            into.push(cursor.field()?);
        },
        Delimiter::Byte(_) => loop {
            cursor.skip_padding();
            into.push(cursor.field()?);
            if cursor.at == end {
                return Ok(());
            }
            cursor.at += 1;
        },
    }
}

struct Cursor<'t> {
    text: &'t str,
    at: usize,
    end: usize,
    delimiter: Delimiter,
}

impl Cursor<'_> {
    fn skip_padding(&mut self) {
        let bytes = &self.text.as_bytes()[..self.end];
        while bytes.get(self.at).is_some_and(|&b| self.delimiter.is_padding(b)) {
            self.at += 1;
        }
    }

    /// The field that begins here; afterwards the cursor is at its delimiter or at the end.
    fn field(&mut self) -> Result<Field, (usize, Fault)> {
        let bytes = &self.text.as_bytes()[..self.end];
        if bytes.get(self.at) == Some(&b'"') {
            return self.quoted();
        }
        let start = self.at;
        let rest = &bytes[start..];
        let delimiter = self.delimiter;
        let len = rest.iter().position(|&b| delimiter.is_delimiter(b)).unwrap_or(rest.len());
        self.at = start + len;
        if let Some(found) = memchr(b'\r', &rest[..len]) {
            return Err((start + found, Fault::CarriageReturn));
        }
        Ok(self.trimmed(start, start + len))
    }

    fn trimmed(&self, start: usize, end: usize) -> Field {
        let raw = &self.text[start..end];
        let front = raw.trim_start();
        let start = end - front.len();
        Field { start, end: start + front.trim_end().len(), doubled: false }
    }

    fn quoted(&mut self) -> Result<Field, (usize, Fault)> {
        let bytes = &self.text.as_bytes()[..self.end];
        let open = self.at;
        let Some((close, doubled)) = closing_quote(bytes, open + 1) else {
            return Err((open, Fault::OpenQuote));
        };
        self.at = close + 1;
        if self.delimiter != Delimiter::Space {
            self.skip_padding();
        }
        match bytes.get(self.at) {
            Some(&b) if !self.delimiter.is_delimiter(b) => Err((self.at, Fault::BehindQuote)),
            _ => Ok(Field { start: open + 1, end: close, doubled }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMA: Delimiter = Delimiter::Byte(b',');

    fn records(text: &str, delimiter: Delimiter) -> Result<Vec<Vec<String>>, (usize, Fault)> {
        let (mut at, mut out, mut fields) = (0, Vec::new(), Vec::new());
        while at < text.len() {
            let (end, next) = match record_end(text.as_bytes(), at, delimiter) {
                RecordEnd::Newline(n) => (n, n + 1),
                RecordEnd::Text => (text.len(), text.len()),
                RecordEnd::Open(quote) => return Err((quote, Fault::OpenQuote)),
            };
            split(text, (at, end), delimiter, &mut fields)?;
            out.push(fields.iter().map(|f| f.text(text).into_owned()).collect());
            at = next;
        }
        Ok(out)
    }

    fn joined(text: &str, delimiter: Delimiter) -> String {
        let records = records(text, delimiter).unwrap();
        records.iter().map(|r| r.join("|")).collect::<Vec<_>>().join("/")
    }

    #[test]
    fn quoted_fields_hold_delimiters_quotes_and_line_breaks() {
        for (text, wanted) in [
            ("a,b ,3", "a|b|3"),
            ("\"a,b\" , c,\"\"\r\n", "a,b|c|"),
            ("x,\"y\"\nz,w\n", "x|y/z|w"),
            ("\"say \"\"hi\"\"\",\"\"\"\"\n", "say \"hi\"|\""),
            ("\"two\nlines\",\"\r\n\"\r\nc,d", "two\nlines|\r\n/c|d"),
            ("5\" pipe,a\"b\"", "5\" pipe|a\"b\""),
            ("\" kept \",  cut ", " kept |cut"),
            ("a,,", "a||"),
        ] {
            assert_eq!(joined(text, COMMA), wanted, "{text:?}");
        }
        assert_eq!(joined("\"New York\" \t Rome \n1 2", Delimiter::Space), "New York|Rome/1|2");
        assert_eq!(joined("a b\t\"c\td\"\n", Delimiter::Byte(b'\t')), "a b|c\td");
    }

    #[test]
    fn broken_quotes_and_lone_carriage_returns_are_found_in_place() {
        for (text, at, fault) in [
            ("a,\"b", 2, Fault::OpenQuote),
            ("a,b\n \"c\nd\ne", 5, Fault::OpenQuote),
            ("\"a\"b,c", 3, Fault::BehindQuote),
            ("a\rb,c", 1, Fault::CarriageReturn),
        ] {
            assert_eq!(records(text, COMMA), Err((at, fault)), "{text:?}");
        }
    }
}
