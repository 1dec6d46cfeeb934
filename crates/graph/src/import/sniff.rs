//! What a text edge list is, found out from its first records.
//!
//! Steps, each of which the caller can overrule
//! 1. Comments before the first record are passed over; they may say `Undirected` (SNAP), `% sym`
//!    (KONECT) or `ids: text`.
//! 2. The delimiter: the format's own, or the one other that splits all the first records evenly.
//! 3. Whether the first record is a header: it names columns by the usual words, or it is text over
//!    columns of numbers. A first record with a number in it, or whose text comes again, is data.
//! 4. The columns: see [`super::columns`].
//!
//! Invariant: where two readings of the file are possible and would make different graphs, the file
//! is refused, and the message names the option that decides. Checked by
//! `headers_are_told_from_data_or_asked_for`, `delimiters_are_found_or_asked_for`.

use littoral_base::mutant;

use super::ImportOptions;
use super::columns::{self, Columns, Said};
use super::dialect::{Comments, Delimiter, Format, Ids};
use super::fault::Fault;
use super::record::{Field, RecordEnd, record_end, split};

/// Records looked at.
const RECORDS: usize = 256;
/// How many numbers under a text make that text a header when the other columns are text too.
const NUMBERS_EVIDENT: usize = 8;

/// How the rest of the file is read.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) delimiter: Delimiter,
    pub(crate) comments: CommentRule,
    pub(crate) columns: Columns,
    pub(crate) header: Option<Vec<String>>,
    pub(crate) ids: Option<Ids>,
    pub(crate) undirected: bool,
    /// Where the records begin in the front of the file.
    pub(crate) body: usize,
}

/// Which lines are comments among the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommentRule {
    pub(crate) begin: [Option<u8>; 2],
    /// Whether the caller said so; otherwise a comment that could be a record is refused.
    pub(crate) is_certain: bool,
}

impl CommentRule {
    const USUAL: [Option<u8>; 2] = [Some(b'#'), Some(b'%')];

    fn leading(options: &ImportOptions) -> CommentRule {
        match options.comments {
            None => CommentRule { begin: Self::USUAL, is_certain: false },
            Some(Comments::None) => CommentRule { begin: [None, None], is_certain: true },
            Some(Comments::Begin(b)) => CommentRule { begin: [Some(b), None], is_certain: true },
        }
    }

    /// The rule among the records: a table has none there unless the caller says so.
    fn inside(self, is_table: bool) -> CommentRule {
        if is_table && !self.is_certain {
            CommentRule { begin: [None, None], ..self }
        } else {
            self
        }
    }

    /// Whether the line that begins with `byte` is a comment.
    #[inline(always)]
    pub(crate) fn is_comment(self, byte: u8) -> bool {
        self.begin[0] == Some(byte) || self.begin[1] == Some(byte)
    }

    /// Whether a comment may be meant as a record: nothing stands between its mark and its text,
    /// and it has as many fields as a record.
    pub(crate) fn is_doubtful(self, line: &str, delimiter: Delimiter, count: usize) -> bool {
        let text = line.as_bytes().get(1).is_some_and(|b| b.is_ascii_alphanumeric() || *b >= 0x80);
        let mut fields = Vec::new();
        !self.is_certain
            && text
            && split(line, (0, line.len()), delimiter, &mut fields).is_ok()
            && fields.len() == count
    }
}

/// Why a file is refused, and at which offset of its front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) at: usize,
    pub(crate) what: String,
}

fn refuse<T>(at: usize, what: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { at, what: what.into() })
}

/// The first records, split by one delimiter.
struct Split {
    delimiter: Delimiter,
    records: Vec<Vec<String>>,
    /// Where the second record begins.
    second: usize,
    /// Whether all records have the same number of fields and nothing is wrong with them.
    is_even: bool,
    /// The first thing that is wrong with a record, and where.
    fault: Option<(usize, Fault)>,
}

impl Split {
    fn new(text: &str, from: usize, whole: bool, delimiter: Delimiter, rule: CommentRule) -> Split {
        let (second, records) = (text.len(), Vec::new());
        let mut split = Split { delimiter, records, second, is_even: true, fault: None };
        let (mut at, mut fields) = (from, Vec::new());
        while at < text.len() && split.records.len() < RECORDS && split.is_even {
            let rest = &text.as_bytes()[at..];
            let is_comment = rule.is_comment(rest[0]);
            let found = match is_comment && !mutant!("graph_quotes_of_comments_open_fields") {
                true => memchr::memchr(b'\n', rest)
                    .map_or(RecordEnd::Text, |n| RecordEnd::Newline(at + n)),
                false => record_end(text.as_bytes(), at, delimiter),
            };
            let (end, next) = match found {
                RecordEnd::Newline(n) => (n, n + 1),
                RecordEnd::Text if whole => (text.len(), text.len()),
                RecordEnd::Open(quote) if whole => {
                    split.fail((quote, Fault::OpenQuote));
                    break;
                }
                _ => break,
            };
            if !is_comment && !text[at..end].trim().is_empty() {
                let is_first = split.records.is_empty();
                split.record(text, (at, end), &mut fields);
                if is_first {
                    split.second = next;
                }
            }
            at = next;
        }
        split
    }

    fn record(&mut self, text: &str, place: (usize, usize), fields: &mut Vec<Field>) {
        if let Err(fault) = split(text, place, self.delimiter, fields) {
            return self.fail(fault);
        }
        let record: Vec<String> = fields.iter().map(|f| f.text(text).into_owned()).collect();
        if self.records.first().is_some_and(|f| f.len() != record.len()) {
            let at = fields.get(self.count()).map_or(place.1, |f| f.start);
            self.fail((at, Fault::Fields(record.len())));
        }
        self.records.push(record);
    }

    fn fail(&mut self, fault: (usize, Fault)) {
        self.is_even = false;
        self.fault.get_or_insert(fault);
    }

    fn refusal(&self) -> Option<Refusal> {
        let columns = Columns { count: self.count(), ..Columns::pair() };
        let what = |fault: &Fault| fault.describe(&columns);
        self.fault.as_ref().map(|(at, fault)| Refusal { at: *at, what: what(fault) })
    }

    fn count(&self) -> usize {
        self.records.first().map_or(0, Vec::len)
    }

    fn names_columns(&self) -> bool {
        self.records.first().is_some_and(|r| matches!(columns::said(r), Said::Pair(..)))
    }
}

struct Sniffer<'a> {
    text: &'a str,
    whole: bool,
    format: Format,
    options: &'a ImportOptions,
    rule: CommentRule,
    from: usize,
    /// Comments before the first record: where each begins and its text.
    comments: Vec<(usize, &'a str)>,
    /// The delimiter that a first line such as `sep=;` names, for spreadsheets.
    said: Option<Delimiter>,
}

/// Finds out how to read a file that begins with `text`; `whole` when that is all of it.
pub(crate) fn plan(
    text: &str,
    whole: bool,
    format: Format,
    options: &ImportOptions,
) -> Result<Plan, Refusal> {
    let rule = CommentRule::leading(options);
    let comments = Vec::new();
    let mut sniffer = Sniffer { text, whole, format, options, rule, from: 0, comments, said: None };
    sniffer.skip_comments();
    if sniffer.from == text.len() {
        return refuse(sniffer.from, "the graph is empty: no edge before the end of the file");
    }
    let split = sniffer.split()?;
    let is_table = is_table(format, split.delimiter);
    if split.records.is_empty() {
        // A record is as long as a front at most, so one that ends behind it may be too long.
        let what =
            format!("no record ends in the first {} bytes: is this a text file?", text.len());
        return Err(split.refusal().unwrap_or(Refusal { at: sniffer.from, what }));
    }
    if split.count() == 1 {
        let what = "1 column where 2 were expected; say --delimiter if fields are separated by \
                    something else than commas, tabs, semicolons, pipes or spaces";
        return refuse(sniffer.from, what);
    }
    // What is wrong with a record says more than what is unclear about the first one.
    let broken = |unclear| split.refusal().unwrap_or(unclear);
    let header = sniffer.header(&split, is_table).map_err(broken)?;
    let in_file = header == Header::FirstRecord;
    let names = match &header {
        Header::FirstRecord => split.records.first().cloned(),
        Header::Comment(names) => Some(names.clone()),
        Header::None => None,
    };
    let records = if in_file { &split.records[1..] } else { &split.records[..] };
    let columns = sniffer.columns(names.as_deref(), records, is_table).map_err(broken)?;
    let body = if in_file { split.second } else { sniffer.from };
    let direction = columns.direction.is_some_and(|(_, undirected)| undirected);
    let undirected = sniffer.undirected()? || direction;
    let ids = options.ids.or(sniffer.says_text().then_some(Ids::Text));
    let comments = rule.inside(is_table);
    Ok(Plan { delimiter: split.delimiter, comments, columns, header: names, ids, undirected, body })
}

/// Whether a file is a table: lists are separated by spaces or tabs.
fn is_table(format: Format, delimiter: Delimiter) -> bool {
    format.is_table() || !matches!(delimiter, Delimiter::Space | Delimiter::Byte(b'\t'))
}

#[derive(PartialEq, Eq)]
enum Header {
    None,
    FirstRecord,
    /// In a comment such as `#source,target`.
    Comment(Vec<String>),
}

impl<'a> Sniffer<'a> {
    fn skip_comments(&mut self) {
        while let Some(rest) = self.text.get(self.from..).filter(|r| !r.is_empty()) {
            let end = rest.find('\n');
            let line = &rest[..end.unwrap_or(rest.len())];
            let is_comment = self.rule.is_comment(rest.as_bytes()[0]);
            if let (0, &[b's', b'e', b'p', b'=', d]) = (self.from, line.trim_end().as_bytes()) {
                self.said = Some(Delimiter::Byte(d));
                self.from += end.map_or(rest.len(), |e| e + 1);
                continue;
            }
            if !(is_comment || line.trim().is_empty()) || (end.is_none() && !self.whole) {
                return;
            }
            if is_comment {
                self.comments.push((self.from, line.trim_end()));
            }
            self.from += end.map_or(rest.len(), |e| e + 1);
        }
    }

    fn says(&self, test: impl Fn(&str) -> bool) -> bool {
        self.comments.iter().any(|(_, c)| test(&c.to_ascii_lowercase()))
    }

    fn says_text(&self) -> bool {
        self.says(|c| c[1..].trim() == "ids: text")
    }

    /// Whether comments say that edges have no direction; two kinds of vertices and two kinds of
    /// edges are refused.
    fn undirected(&self) -> Result<bool, Refusal> {
        let first = |c: &str| c[1..].split_ascii_whitespace().next().unwrap_or("").to_owned();
        let bipartite = |c: &str| c.starts_with('%') && first(c) == "bip";
        let is_given = self.options.directed.is_some();
        let two_kinds = self.comments.iter().find(|(_, c)| bipartite(c));
        if let Some((at, _)) = two_kinds.filter(|_| !is_given) {
            return refuse(
                *at,
                "a KONECT graph of two kinds of vertices (`% bip`): equal numbers in its two \
                 columns are different vertices; make the names differ, or say --directed or \
                 --undirected if they are the same",
            );
        }
        let is_snap = self.format == Format::Snap;
        let konect = self.says(|c| c.starts_with('%') && first(c) == "sym");
        let snap = is_snap && self.says(|c| c.contains("undirected"));
        let says_both = snap && self.says(|c| c.replace("undirected", "").contains("directed"));
        if says_both && !is_given && !mutant!("graph_directed_and_undirected_taken") {
            let at = self.comments.first().map_or(self.from, |&(at, _)| at);
            return refuse(
                at,
                "comments say both directed and undirected; say --directed or --undirected",
            );
        }
        Ok(konect || snap)
    }

    fn try_split(&self, delimiter: Delimiter) -> Split {
        let rule = self.rule.inside(is_table(self.format, delimiter));
        Split::new(self.text, self.from, self.whole, delimiter, rule)
    }

    /// Whether these columns are as many as the format and the caller leave room for.
    fn fits(&self, split: &Split) -> bool {
        let count = split.count();
        let free = self.format.is_table() || split.delimiter != Delimiter::Space;
        let wanted = if self.format == Format::Wel { 3 } else { 2 };
        split.is_even
            && count >= 2
            && (free || count == wanted || self.options.columns.is_some() || split.names_columns())
    }

    fn split(&self) -> Result<Split, Refusal> {
        if let Some(delimiter) = self.options.delimiter.or(self.said) {
            return Ok(self.try_split(delimiter));
        }
        let own = self.try_split(self.format.delimiter());
        if self.format == Format::Tsv && own.count() >= 2 {
            return Ok(own);
        }
        let others = [b',', b'\t', b';', b'|'].map(Delimiter::Byte);
        let others = others.into_iter().filter(|d| *d != own.delimiter);
        let mut fitting: Vec<Split> = others
            .map(|d| self.try_split(d))
            .filter(|s| self.fits(s) && s.records != own.records)
            .collect();
        if self.fits(&own) {
            fitting.insert(0, own);
        } else if fitting.is_empty() {
            let spaces = self.try_split(Delimiter::Space);
            let better = own.count() < 2 && self.fits(&spaces);
            return Ok(if better { spaces } else { own });
        }
        if fitting.len() > 1 {
            let telling = fitting.iter().filter(|s| s.names_columns()).count();
            if telling != 1 {
                return refuse(self.from, several(&fitting));
            }
            fitting.retain(Split::names_columns);
        }
        Ok(fitting.remove(0))
    }

    fn header(&self, split: &Split, is_table: bool) -> Result<Header, Refusal> {
        if let Some(given) = self.options.header {
            return Ok(if given { Header::FirstRecord } else { Header::None });
        }
        if let Some(names) = self.header_in_comment(split)? {
            return Ok(names);
        }
        let is_name = |c: &String| c.parse::<usize>().is_err();
        if self.options.columns.iter().flatten().any(is_name) {
            return Ok(Header::FirstRecord);
        }
        match evidence(&split.records, is_table) {
            Evidence::Header => Ok(Header::FirstRecord),
            Evidence::Data => Ok(Header::None),
            Evidence::Unclear => {
                let shown = split.records[0].join(", ");
                let what = format!(
                    "the first line may be a header or an edge ({shown}); say --header or --no-header"
                );
                refuse(self.from, what)
            }
        }
    }

    /// The header in the last comment, when that has as many fields as a record.
    fn header_in_comment(&self, split: &Split) -> Result<Option<Header>, Refusal> {
        for &(at, comment) in &self.comments {
            if !self.rule.is_doubtful(comment, split.delimiter, split.count()) {
                continue;
            }
            let mut fields = Vec::new();
            let text = &comment[1..];
            let is_whole =
                super::record::split(text, (0, text.len()), split.delimiter, &mut fields);
            let names: Vec<String> = fields.iter().map(|f| f.text(text).into_owned()).collect();
            if is_whole.is_err() || columns::said(&names) == Said::Nothing {
                return refuse(at, Fault::CommentOrRecord.describe(&Columns::pair()));
            }
            return Ok(Some(Header::Comment(names)));
        }
        Ok(None)
    }

    fn columns(
        &self,
        header: Option<&[String]>,
        records: &[Vec<String>],
        is_table: bool,
    ) -> Result<Columns, Refusal> {
        let count = header.map_or(records.first().map_or(0, Vec::len), <[String]>::len);
        let found = match (&self.options.columns, header) {
            (Some(wanted), _) => columns::chosen(wanted, count, header),
            (None, Some(header)) => columns::of_header(header),
            (None, None) if is_table => columns::of_records(records),
            (None, None) if self.format == Format::Wel => {
                Ok(Columns { count: 3, weight: Some(2), ..Columns::pair() })
            }
            (None, None) if count == 2 => Ok(Columns::pair()),
            (None, None) => Err(format!(
                "{} where 2 were expected; say --columns 1,2, or --columns 1,2,3 for weights in the \
                 third",
                if count == 1 { "1 column".to_owned() } else { format!("{count} columns") }
            )),
        };
        let mut columns = found.or_else(|what| refuse(self.from, what))?;
        if self.options.directed.is_none() {
            let direction = header.and_then(columns::direction_column);
            columns.direction = direction.and_then(|at| {
                let cell = records.first().and_then(|r| r.get(at));
                cell.and_then(|c| columns::is_undirected(c)).map(|undirected| (at, undirected))
            });
        }
        Ok(columns)
    }
}

fn several(fitting: &[Split]) -> String {
    let one = |s: &Split| format!("{} ({} columns)", s.delimiter.name(), s.count());
    let all: Vec<String> = fitting.iter().map(one).collect();
    format!("fields may be separated by {}; say --delimiter", all.join(" or by "))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence {
    Header,
    Data,
    Unclear,
}

/// A number as tables write them.
fn is_number(field: &str) -> bool {
    let begins = |b: &u8| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b'.');
    field.as_bytes().first().is_some_and(begins) && field.parse::<f64>().is_ok()
}

/// Whether the first record is a header.
fn evidence(records: &[Vec<String>], is_table: bool) -> Evidence {
    let Some((first, rest)) = records.split_first() else { return Evidence::Data };
    if mutant!("graph_first_edge_as_header") {
        return Evidence::Header;
    }
    match columns::said(first) {
        Said::Pair(s, t) => return names_or_edge(first, rest, [s, t]),
        Said::Several => return Evidence::Header,
        Said::Nothing => {}
    }
    if first.iter().any(|f| is_number(f)) {
        return Evidence::Data;
    }
    let is_numeric = |c: &usize| rest.iter().all(|r| r.get(*c).is_some_and(|f| is_number(f)));
    let numeric = (0..first.len()).filter(is_numeric).count();
    let comes_again = rest.iter().flatten().any(|f| !f.is_empty() && first.contains(f));
    if !is_table {
        // Lists have no header; but text over nothing but numbers looks like one.
        let odd = !rest.is_empty() && numeric == first.len();
        return if odd { Evidence::Unclear } else { Evidence::Data };
    }
    match (rest.len(), numeric) {
        (0, _) => Evidence::Unclear,
        (_, 0) if comes_again => Evidence::Data,
        (_, 0) => Evidence::Unclear,
        (_, n) if n == first.len() => Evidence::Header,
        (rows, _) if rows >= NUMBERS_EVIDENT && !comes_again => Evidence::Header,
        _ => Evidence::Unclear,
    }
}

/// Whether names of a source and a target are a header or vertices: `u v` may be an edge among
/// letters.
fn names_or_edge(first: &[String], rest: &[Vec<String>], pair: [usize; 2]) -> Evidence {
    let ids = || rest.iter().flat_map(|r| pair.iter().filter_map(|&c| r.get(c)));
    let come_again = ids().any(|id| pair.iter().any(|&c| first[c] == *id));
    let are_letters = pair.iter().all(|&c| first[c].len() == 1);
    let are_numbers = ids().all(|id| is_number(id));
    if come_again || are_letters && !are_numbers && first.len() == 2 {
        return Evidence::Unclear;
    }
    Evidence::Header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, format: Format) -> Result<Plan, String> {
        plan(text, true, format, &ImportOptions::default()).map_err(|r| r.what)
    }

    fn header_of(text: &str, format: Format) -> Result<bool, String> {
        of(text, format).map(|p| p.header.is_some())
    }

    #[test]
    fn headers_are_told_from_data_or_asked_for() {
        for (text, wanted) in [
            ("source,target\na,b\n", Some(true)),
            ("1,2\n3,4\n", Some(false)),
            ("x,y\n1,2\n", Some(true)),
            ("bash,libc6\nlibc6,gcc\n", Some(false)),
            ("alice,bob\ncarol,dave\n", None),
            ("bash,libc6\n2048,python\n", None),
            ("alice,bob\n", None),
            ("alice,7\n", Some(false)),
        ] {
            assert_eq!(header_of(text, Format::Csv).ok(), wanted, "{text:?}");
        }
        let many: String = (0..9).map(|i| format!("{i},p{i}\n")).collect();
        assert_eq!(header_of(&format!("kunde,artikel\n{many}"), Format::Csv), Ok(true));
        assert_eq!(header_of("alice bob\ncarol dave\n", Format::El), Ok(false));
        assert_eq!(header_of("source target\n1 2\n", Format::Snap), Ok(true));
        assert!(header_of("a b\n1 2\n", Format::El).unwrap_err().contains("--no-header"));
    }

    #[test]
    fn delimiters_are_found_or_asked_for() {
        let delimiter = |text: &str, f: Format| of(text, f).map(|p| p.delimiter.name());
        for (text, format, wanted) in [
            ("1;2\n3;4\n", Format::Csv, "semicolon"),
            ("1|2\n3|4\n", Format::Csv, "pipe"),
            ("1\t2\n3\t4\n", Format::Csv, "tab"),
            ("1 2\n3 4\n", Format::Csv, "space"),
            ("1,2\n3,4\n", Format::Snap, "comma"),
            ("New York\tRome\nParis\tBonn\n", Format::Snap, "tab"),
            ("a;b,c;d\tx\nx\ty;z\n", Format::Tsv, "tab"),
            ("source;target\n1,5;2,5\n3,5;4,5\n", Format::Csv, "semicolon"),
        ] {
            assert_eq!(delimiter(text, format).as_deref(), Ok(wanted), "{text:?}");
        }
        for (text, format) in [("1,2;3,4\n5,6;7,8\n", Format::Csv), ("1, 2\n3, 4\n", Format::Snap)]
        {
            assert!(delimiter(text, format).unwrap_err().contains("--delimiter"), "{text:?}");
        }
    }

    #[test]
    fn quotes_in_comments_open_no_field() {
        let text = "New York\tRome\n#\t\"so\nParis\tBonn\n";
        let name = of(text, Format::Snap).map(|p| p.delimiter.name());
        assert_eq!(name.as_deref(), Ok("tab"));
    }

    #[test]
    fn comments_speak_and_doubtful_ones_are_asked_about() {
        assert!(of("# Undirected graph\n1 2\n", Format::Snap).unwrap().undirected);
        assert!(of("% sym unweighted\n1 2\n", Format::Snap).unwrap().undirected);
        assert!(of("% bip unweighted\n1 2\n", Format::Snap).unwrap_err().contains("two kinds"));
        let both = "# Directed graph\n# made of an undirected one\n1 2\n";
        assert!(of(both, Format::Snap).unwrap_err().contains("--undirected"));
        assert_eq!(of("# ids: text\na,1\n", Format::Csv).unwrap().ids, Some(Ids::Text));
        let named = of("#target,source\n1,2\n", Format::Csv).unwrap();
        assert_eq!((named.columns.source, named.columns.target, named.body), (1, 0, 15));
        assert!(
            of("#cats,dogs\nbirds,cats\ncats,birds\n", Format::Csv)
                .unwrap_err()
                .contains("--comment")
        );
    }
}
