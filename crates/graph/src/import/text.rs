//! Text edge lists to edges, line by line.
//!
//! Invariants
//! - Nothing is guessed past the first edge: every later line has the same number of fields and the
//!   same kind of ids, or the import ends with its path and line.
//! - Weights are finite and not negative.

use std::path::Path;

use super::dialect::{Columns, Format, Ids, fields, looks_numeric};
use super::input::Lines;
use super::intern::{Interner, Numbers, Text};
use super::{ImportOptions, Source};
use crate::build::{EdgeList, Hooks, Stage};
use crate::error::Result;
use crate::format::VERTICES_MAX;

/// Lines between two looks at the interrupt flag.
const LINES_A_STEP: u64 = 1 << 16;

/// What is known once the first edge has been seen.
struct Body {
    columns: Columns,
    names: Interner,
    edges: Vec<[u32; 2]>,
    weights: Option<Vec<f32>>,
}

/// Why a line is no edge.
enum Fault {
    Fields(usize),
    Quote(&'static str),
    EmptyId,
    NotANumber(String),
    NumberAmongText(String),
    NumberTooLarge(String),
    Weight(String),
    TooManyVertices,
}

impl Fault {
    fn describe(&self, columns: Columns) -> String {
        match self {
            Fault::Fields(found) => format!(
                "{found} columns where {} were expected{}",
                columns.count,
                if columns.count == 2 {
                    " (weights: name the file .wel, or use a CSV header)"
                } else {
                    ""
                }
            ),
            Fault::Quote(what) => (*what).to_owned(),
            Fault::EmptyId => "an empty id".to_owned(),
            Fault::NotANumber(id) => format!(
                "'{id}' is no number from 0 to 2^64 - 1, but the first ids are; \
                 labels and numbers are mixed (a first line `# ids: text` accepts both)"
            ),
            Fault::NumberAmongText(id) => format!(
                "'{id}' is a number, but the first ids are text; \
                 labels and numbers are mixed (a first line `# ids: text` accepts both)"
            ),
            Fault::NumberTooLarge(id) => format!("id {id} is above 2^64 - 1"),
            Fault::Weight(w) => format!("weight '{w}' is no finite number >= 0"),
            Fault::TooManyVertices => format!("more than {VERTICES_MAX} distinct vertices"),
        }
    }
}

/// Reads a text edge list.
pub(super) fn read(
    path: &Path,
    format: Format,
    options: &ImportOptions,
    hooks: &mut Hooks<'_>,
) -> Result<(EdgeList, Source)> {
    let mut lines = Lines::open(path)?;
    let mut source = Source::new(format, lines.compression());
    let mut reader = Reader::new(format, options);
    loop {
        let number = lines.number();
        if number.is_multiple_of(LINES_A_STEP) {
            let (done, total) = lines.progress();
            hooks.step(Stage::Reading, done, total)?;
        }
        let Some(line) = lines.next()? else { break };
        match reader.line(line, &mut source) {
            Ok(()) => {}
            Err((fault, columns)) => return Err(lines.error(fault.describe(columns))),
        }
    }
    source.lines = lines.number() - 1;
    let undirected = reader.undirected;
    let Some(body) = reader.body else {
        return Err(lines.error("the graph is empty: no edge before the end of the file"));
    };
    source.ids = match body.names {
        Interner::Numbers(_) => Ids::Numbers,
        Interner::Text(_) => Ids::Text,
    };
    let edges = EdgeList {
        vertices: body.names.len(),
        directed: options.directed.unwrap_or(!undirected),
        edges: body.edges,
        weights: body.weights,
        labels: body.names.into_labels(),
    };
    Ok((edges, source))
}

struct Reader<'a> {
    format: Format,
    options: &'a ImportOptions,
    body: Option<Body>,
    undirected: bool,
    text_declared: bool,
    /// Digits among text ids are refused, unless ids were declared to be text.
    strict_text: bool,
}

type LineResult = std::result::Result<(), (Fault, Columns)>;

impl<'a> Reader<'a> {
    fn new(format: Format, options: &'a ImportOptions) -> Self {
        Reader {
            format,
            options,
            body: None,
            undirected: false,
            text_declared: false,
            strict_text: true,
        }
    }

    fn line(&mut self, line: &str, source: &mut Source) -> LineResult {
        if line.starts_with(['#', '%']) {
            self.comment(line);
            return Ok(());
        }
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let mut parts = Vec::with_capacity(8);
        let columns = self.body.as_ref().map_or(Columns { count: 2, weight: None }, |b| b.columns);
        let split = fields(line, self.format.separator(), &mut parts);
        split.map_err(|what| (Fault::Quote(what), columns))?;
        if self.body.is_none() && source.header.is_none() && self.begin(&parts, source) {
            return Ok(());
        }
        if self.body.is_none() {
            self.start_body(&parts, source);
        }
        let body = self.body.as_mut().expect("invariant: the first edge starts the body");
        body.edge(&parts, self.strict_text).map_err(|fault| (fault, body.columns))
    }

    /// Comments before the first edge may say whether edges have a direction, and what ids are.
    fn comment(&mut self, line: &str) {
        if self.body.is_none() {
            let line = line.to_ascii_lowercase();
            self.undirected |= self.format == Format::Snap && line.contains("undirected");
            self.text_declared |= line[1..].trim_ascii() == "ids: text";
        }
    }

    /// Whether the first line is a header; then it is kept.
    fn begin(&self, parts: &[&str], source: &mut Source) -> bool {
        let tabular = matches!(self.format, Format::Csv | Format::Tsv);
        let numbers = parts.len() >= 2 && parts[..2].iter().all(|p| looks_numeric(p));
        let header = self.options.header.unwrap_or(tabular && !numbers);
        if header {
            source.header = Some(parts.iter().map(|&p| p.to_owned()).collect());
        }
        header
    }

    fn start_body(&mut self, parts: &[&str], source: &Source) {
        let columns = match &source.header {
            Some(h) => Columns::of_header(&h.iter().map(String::as_str).collect::<Vec<_>>()),
            None => Columns::of_format(self.format, parts),
        };
        let numbers = parts.iter().take(2).all(|p| looks_numeric(p));
        let declared = self.options.ids.or(self.text_declared.then_some(Ids::Text));
        let ids = declared.unwrap_or(if numbers { Ids::Numbers } else { Ids::Text });
        self.strict_text = declared.is_none();
        self.body = Some(Body {
            columns,
            names: match ids {
                Ids::Numbers => Interner::Numbers(Numbers::default()),
                Ids::Text => Interner::Text(Text::new()),
            },
            edges: Vec::new(),
            weights: columns.weight.map(|_| Vec::new()),
        });
    }
}

impl Body {
    fn edge(&mut self, parts: &[&str], strict_text: bool) -> std::result::Result<(), Fault> {
        if parts.len() != self.columns.count || parts.len() < 2 {
            return Err(Fault::Fields(parts.len()));
        }
        let edge = [self.id(parts[0], strict_text)?, self.id(parts[1], strict_text)?];
        if let (Some(column), Some(weights)) = (self.columns.weight, &mut self.weights) {
            weights.push(weight(parts[column])?);
        }
        self.edges.push(edge);
        Ok(())
    }

    #[inline]
    fn id(&mut self, text: &str, strict_text: bool) -> std::result::Result<u32, Fault> {
        let id = match &mut self.names {
            Interner::Numbers(n) => n.id(number(text)?),
            Interner::Text(_) if text.is_empty() => return Err(Fault::EmptyId),
            Interner::Text(_) if strict_text && looks_numeric(text) => {
                return Err(Fault::NumberAmongText(text.to_owned()));
            }
            Interner::Text(t) => t.id(text),
        };
        id.ok_or(Fault::TooManyVertices)
    }
}

fn number(text: &str) -> std::result::Result<u64, Fault> {
    text.parse().map_err(|_| {
        if text.is_empty() {
            Fault::EmptyId
        } else if text.bytes().all(|b| b.is_ascii_digit()) {
            Fault::NumberTooLarge(text.to_owned())
        } else {
            Fault::NotANumber(text.to_owned())
        }
    })
}

fn weight(text: &str) -> std::result::Result<f32, Fault> {
    let value: Option<f32> = text.parse().ok();
    value.filter(|w| w.is_finite() && *w >= 0.0).ok_or_else(|| Fault::Weight(text.to_owned()))
}
