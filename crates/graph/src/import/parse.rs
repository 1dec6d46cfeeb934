//! A block of records to edges, by itself: blocks are parsed by several threads at once.
//!
//! Invariants
//! - The ids of a block are numbers as long as every one is written as a number is printed; the
//!   first other id makes them text, all of them. So numbers can be turned into text later without
//!   loss, and what a file means does not depend on where its blocks end. Checked by
//!   `numbers_are_what_prints_as_it_is_written`, `text_ids_may_be_digits_once_declared`.
//! - Local ids are given in order of first appearance in the block. Checked by
//!   `any_number_of_threads_reads_the_same`.

use littoral_base::mutant;

use super::dialect::Ids;
use super::fault::{Fault, RECORD_BYTES_MAX, place};
use super::input::Block;
use super::intern::Text;
use super::record::{Field, RecordEnd, record_end, split};
use super::sniff::Plan;

/// What a block holds.
pub(crate) struct Parsed {
    /// Line feeds in the block.
    pub(crate) lines: u64,
    pub(crate) edges: Edges,
    /// One weight per edge, when the plan has them.
    pub(crate) weights: Vec<f32>,
    /// Whether an id is text and no number of any kind.
    pub(crate) has_text: bool,
    /// The first id that is a number, but none that ids can be.
    pub(crate) odd: Option<Trouble>,
    /// What is wrong; nothing was parsed behind it.
    pub(crate) trouble: Option<Trouble>,
}

/// A fault with its place in the block.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    /// From one.
    pub(crate) line: u64,
    /// From one, in characters.
    pub(crate) column: u64,
    pub(crate) fault: Fault,
}

/// Edges by number, or by local id with the names.
pub(crate) enum Edges {
    Numbers(Vec<[u64; 2]>),
    Text(Text, Vec<[u32; 2]>),
}

/// Parses a block; `as_text` when ids are known to be text.
pub(crate) fn parse(block: &Block, plan: &Plan, as_text: bool) -> Parsed {
    let bytes = &block.bytes[..];
    let mut parsed = Parsed {
        lines: memchr::memchr_iter(b'\n', bytes).count() as u64,
        edges: if as_text { text() } else { Edges::Numbers(Vec::new()) },
        weights: Vec::new(),
        has_text: false,
        odd: None,
        trouble: None,
    };
    let valid = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => {
            parsed.stop(bytes, e.valid_up_to(), Fault::NotUtf8);
            return parsed;
        }
    };
    if let Some(nul) = memchr::memchr(0, bytes) {
        parsed.stop(bytes, nul, Fault::Nul);
        return parsed;
    }
    let mut parser = Parser { text: valid, plan, block, parsed, fields: Vec::new() };
    if let Err((at, fault)) = parser.run() {
        parser.parsed.stop(bytes, at, fault);
    }
    parser.parsed
}

fn text() -> Edges {
    Edges::Text(Text::new(), Vec::new())
}

impl Parsed {
    fn stop(&mut self, bytes: &[u8], at: usize, fault: Fault) {
        let (line, column) = place(bytes, at);
        self.trouble = Some(Trouble { line, column, fault });
    }
}

type Step = Result<(), (usize, Fault)>;

struct Parser<'a> {
    text: &'a str,
    plan: &'a Plan,
    block: &'a Block,
    parsed: Parsed,
    fields: Vec<Field>,
}

impl Parser<'_> {
    fn run(&mut self) -> Step {
        let bytes = self.text.as_bytes();
        let is_plain = self.plan.columns == super::columns::Columns::pair();
        let mut at = 0;
        while at < bytes.len() {
            if is_plain {
                at = self.plain_pairs(at);
                if at == bytes.len() {
                    break;
                }
            }
            at = self.any(at)?;
        }
        Ok(())
    }

    /// Takes the record at `at`, whatever it is, and answers where the next one begins.
    fn any(&mut self, at: usize) -> Result<usize, (usize, Fault)> {
        let bytes = self.text.as_bytes();
        if self.plan.comments.is_comment(bytes[at]) {
            let end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |n| at + n);
            // The rest of a line that was cut would be taken for a record.
            if self.is_too_long(at, end) && !mutant!("graph_cut_comment_passed_over") {
                return Err((at, Fault::TooLong));
            }
            let line = self.text[at..end].trim_end();
            let columns = self.plan.columns.count;
            if self.plan.comments.is_doubtful(line, self.plan.delimiter, columns) {
                return Err((at, Fault::CommentOrRecord));
            }
            return Ok((end + 1).min(bytes.len()));
        }
        let end = match record_end(bytes, at, self.plan.delimiter) {
            RecordEnd::Newline(end) => end,
            RecordEnd::Text => bytes.len(),
            RecordEnd::Open(quote) => return Err((quote, Fault::OpenQuote)),
        };
        if self.is_too_long(at, end) {
            return Err((at, Fault::TooLong));
        }
        if !self.text[at..end].trim().is_empty() {
            self.record(at, end)?;
        }
        Ok((end + 1).min(bytes.len()))
    }

    /// Whether the record or comment at `at..end` is longer than any that is read.
    fn is_too_long(&self, at: usize, end: usize) -> bool {
        debug_assert!(at <= end && end <= self.text.len(), "a record from {at} to {end}");
        end - at > RECORD_BYTES_MAX || (self.block.is_cut && end == self.text.len())
    }

    fn record(&mut self, start: usize, end: usize) -> Step {
        let plan = self.plan;
        let columns = &plan.columns;
        let mut fields = std::mem::take(&mut self.fields);
        split(self.text, (start, end), plan.delimiter, &mut fields)?;
        if fields.len() != columns.count {
            let at = fields.get(columns.count).map_or(end, |f| f.start);
            return Err((at, Fault::Fields(fields.len())));
        }
        let weight = columns.weight.map(|w| self.weight(fields[w])).transpose()?;
        if let Some((at, undirected)) = columns.direction {
            let cell = fields[at].text(self.text);
            if super::columns::is_undirected(&cell) != Some(undirected) {
                return Err((fields[at].start, Fault::Direction(cell.into_owned())));
            }
        }
        self.edge(fields[columns.source], fields[columns.target])?;
        self.parsed.weights.extend(weight);
        self.fields = fields;
        Ok(())
    }

    fn weight(&self, field: Field) -> Result<f32, (usize, Fault)> {
        let text = field.text(self.text);
        let value: Option<f32> = text.parse().ok();
        // Zero has no sign as a weight.
        let value = value.filter(|w| w.is_finite() && *w >= 0.0).map(|w| w + 0.0);
        value.ok_or_else(|| (field.start, Fault::Weight(text.into_owned())))
    }

    fn edge(&mut self, source: Field, target: Field) -> Step {
        if let Edges::Numbers(edges) = &mut self.parsed.edges {
            let strict = self.plan.ids == Some(Ids::Numbers);
            let number = |f: Field| number(&f.text(self.text), strict);
            if let (Some(s), Some(t)) = (number(source), number(target)) {
                edges.push([s, t]);
                return Ok(());
            }
        }
        let (source, target) = (self.id(source)?, self.id(target)?);
        if let Edges::Text(_, edges) = &mut self.parsed.edges {
            edges.push([source, target]);
        }
        Ok(())
    }

    /// The local id of a name; ids become text when they are not yet.
    fn id(&mut self, field: Field) -> Result<u32, (usize, Fault)> {
        let name = field.text(self.text);
        let fault = |fault: Fault| Err((field.start, fault));
        if name.is_empty() {
            return fault(Fault::EmptyId);
        }
        if self.plan.ids == Some(Ids::Numbers) && number(&name, true).is_none() {
            return fault(Fault::NotANumber(name.into_owned()));
        }
        if self.plan.ids.is_none() && number(&name, false).is_none() {
            if is_odd(&name) {
                let (line, column) = place(self.text.as_bytes(), field.start);
                let fault = || Trouble { line, column, fault: Fault::NotAnId(name.to_string()) };
                self.parsed.odd.get_or_insert_with(fault);
            } else {
                self.parsed.has_text = true;
            }
        }
        let (names, _) = self.parsed.edges.as_text();
        names.id(&name).ok_or((field.start, Fault::TooManyVertices))
    }

    /// Takes records that are two plain numbers, from `at` on, and answers where that ends.
    fn plain_pairs(&mut self, at: usize) -> usize {
        let Edges::Numbers(edges) = &mut self.parsed.edges else { return at };
        let (bytes, delimiter) = (self.text.as_bytes(), self.plan.delimiter);
        let mut done = at;
        while let Some((pair, next)) = plain_pair(bytes, done, delimiter) {
            edges.push(pair);
            done = next;
        }
        done
    }
}

impl Edges {
    /// How many edges.
    pub(crate) fn len(&self) -> usize {
        match self {
            Edges::Numbers(pairs) => pairs.len(),
            Edges::Text(_, pairs) => pairs.len(),
        }
    }

    /// The names and edges as text, after turning numbers into it.
    pub(crate) fn as_text(&mut self) -> (&mut Text, &mut Vec<[u32; 2]>) {
        if let Edges::Numbers(numbers) = self {
            let mut names = Text::new();
            let mut id = |n: u64| names.id(&n.to_string()).expect("invariant: a block is small");
            let edges = numbers.iter().map(|&[s, t]| [id(s), id(t)]).collect();
            *self = Edges::Text(names, edges);
        }
        match self {
            Edges::Text(names, edges) => (names, edges),
            Edges::Numbers(_) => unreachable!("numbers were turned into text"),
        }
    }
}

/// Two numbers, a delimiter between and a line end behind, at `at`; and where the next line begins.
#[inline(always)]
fn plain_pair(
    bytes: &[u8],
    at: usize,
    delimiter: super::dialect::Delimiter,
) -> Option<([u64; 2], usize)> {
    let (source, mut at) = digits(bytes, at)?;
    if !delimiter.is_delimiter(*bytes.get(at)?) {
        return None;
    }
    at += 1;
    let (target, at) = digits(bytes, at)?;
    match *bytes.get(at)? {
        b'\n' => Some(([source, target], at + 1)),
        b'\r' if bytes.get(at + 1) == Some(&b'\n') => Some(([source, target], at + 2)),
        _ => None,
    }
}

/// A number as it is printed, of at most 19 digits, at `at`; and where it ends.
#[inline(always)]
fn digits(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut value = 0u64;
    let mut end = at;
    while let Some(digit) = bytes.get(end).map(|b| b.wrapping_sub(b'0')).filter(|d| *d <= 9) {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        end += 1;
    }
    let len = end - at;
    let is_printed = len == 1 || (2..=19).contains(&len) && bytes[at] != b'0';
    is_printed.then_some((value, end))
}

/// The number that `text` is; without `loose`, only as numbers are printed.
fn number(text: &str, loose: bool) -> Option<u64> {
    let is_printed = text == "0" || text.bytes().next().is_some_and(|b| (b'1'..=b'9').contains(&b));
    if is_printed || loose { text.parse().ok() } else { None }
}

/// What tables write where a value is missing.
const MISSING: [&str; 6] = ["na", "n/a", "nan", "null", "none", "nil"];

/// Whether `text` is what stands among numbers without being an id: a number that is signed, broken
/// or too large, or a word for a missing value.
fn is_odd(text: &str) -> bool {
    if MISSING.iter().any(|m| m.eq_ignore_ascii_case(text)) {
        return true;
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let begins = digits.bytes().next().is_some_and(|b| b.is_ascii_digit() || b == b'.');
    let is_padded = digits == text && text.len() > 1 && text.bytes().all(|b| b.is_ascii_digit());
    let is_padded = is_padded && text.starts_with('0');
    begins && !is_padded && digits.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_prints_as_it_is_written() {
        for (text, wanted) in [
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("007", None),
            ("+7", None),
            ("-7", None),
            ("", None),
            ("1.0", None),
        ] {
            assert_eq!(number(text, false), wanted, "{text}");
        }
        assert_eq!(number("007", true), Some(7));
        for odd in ["-1", "+1", "1.5", "1e9", "99999999999999999999", ".5", "NaN", "NULL"] {
            assert!(is_odd(odd), "{odd}");
        }
        for text in ["007", "x1", "1x", "inf", "-", "1_000", ""] {
            assert!(!is_odd(text), "{text}");
        }
    }

    #[test]
    fn the_short_way_takes_only_plain_pairs() {
        let space = super::super::dialect::Delimiter::Space;
        assert_eq!(plain_pair(b"12 345\n6", 0, space), Some(([12, 345], 7)));
        assert_eq!(plain_pair(b"1\t0\r\n", 0, space), Some(([1, 0], 5)));
        for other in [&b"1 2"[..], b"1  2\n", b"01 2\n", b"1 2 3\n", b"1 2\r3\n", b" 1 2\n", b"\n"]
        {
            assert_eq!(plain_pair(other, 0, space), None);
        }
        assert_eq!(plain_pair(b"1 12345678901234567890\n", 0, space), None);
    }
}
