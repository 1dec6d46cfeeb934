//! Odd edge lists with the graph or the refusal each must give: the table behind the claim
//! `import.wrong`.
//!
//! Every case is a small file written out here. What is expected was worked out by hand, not taken
//! from a run. [`wrong`] reads each of them with one thread and with three and answers which ones
//! gave another graph, or another refusal, or a refusal at another place.

mod table;

use std::io::Write as _;
use std::path::Path;

use super::{Comments, Delimiter, Ids, ImportOptions, read};
use crate::builder::{EdgeList, Hooks};
use crate::error::{Error, Kind, Result, io};
use crate::names::Names;

/// What an odd file must give.
#[derive(Clone, Copy, Debug)]
enum Want {
    /// These edges, in this order.
    Edges(&'static [(&'static str, &'static str)]),
    /// The same without a direction.
    Undirected(&'static [(&'static str, &'static str)]),
    /// These edges with weights.
    Weighted(&'static [(&'static str, &'static str, f32)]),
    /// A refusal at this line and column, whose message holds this.
    Refused(u32, u32, &'static str),
    /// A refusal of the whole file, of which no line is wrong; its message begins with the file and
    /// holds this.
    Foreign(&'static str),
}

/// How a case's bytes are put into its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packed {
    No,
    Gzip,
    Zstd,
    /// As gzip, with the last bytes missing.
    CutGzip,
    /// As zstd, with the last bytes missing.
    CutZstd,
}

/// An odd file.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// The file's name.
    file: &'static str,
    bytes: &'static [u8],
    packed: Packed,
    /// Options as on the command line.
    options: &'static [&'static str],
    want: Want,
}

/// How many cases there are.
pub fn count() -> usize {
    table::CASES.iter().map(|part| part.len()).sum()
}

/// What each case that is read wrongly gave, and what it should have given.
///
/// # Errors
/// `Kind::Io` when the files cannot be written below `scratch`.
pub fn wrong(scratch: &Path) -> Result<Vec<String>> {
    let mut list = Vec::new();
    for (number, case) in table::CASES.iter().flat_map(|part| part.iter()).enumerate() {
        let folder = scratch.join(format!("case-{number}"));
        std::fs::create_dir_all(&folder).map_err(|e| io("cannot create", &folder, e))?;
        let path = folder.join(case.file);
        let packed = pack(case.bytes, case.packed).map_err(|e| io("cannot pack", &path, e))?;
        std::fs::write(&path, packed).map_err(|e| io("cannot write", &path, e))?;
        for threads in [1, 3] {
            let options = ImportOptions { threads: Some(threads), ..options(case.options)? };
            let found = read(&path, &options, &mut Hooks::none()).map(|(edges, _)| edges);
            if let Err(what) = judge(case, &path, found) {
                let text = String::from_utf8_lossy(case.bytes);
                let with = case.options.join(" ");
                list.push(format!("{} {with} ({threads} threads): {what}\n{text:?}", case.file));
                break;
            }
        }
    }
    Ok(list)
}

fn pack(bytes: &[u8], packed: Packed) -> std::io::Result<Vec<u8>> {
    let gzip = || {
        let mut w = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        w.write_all(bytes)?;
        w.finish()
    };
    let cut = |mut packed: Vec<u8>| {
        packed.truncate(packed.len() - 5);
        packed
    };
    match packed {
        Packed::No => Ok(bytes.to_vec()),
        Packed::Gzip => gzip(),
        Packed::CutGzip => gzip().map(cut),
        Packed::Zstd => zstd::encode_all(bytes, 3),
        Packed::CutZstd => zstd::encode_all(bytes, 3).map(cut),
    }
}

/// Options from the words of the command line.
fn options(words: &[&str]) -> Result<ImportOptions> {
    let mut options = ImportOptions::default();
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "--header" => options.header = Some(true),
            "--no-header" => options.header = Some(false),
            "--directed" => options.directed = Some(true),
            "--undirected" => options.directed = Some(false),
            "--from" => options.format = Some(value.parse()?),
            "--delimiter" => options.delimiter = Some(value.parse::<Delimiter>()?),
            "--comment" => options.comments = Some(value.parse::<Comments>()?),
            "--columns" => options.columns = Some(value.split(',').map(str::to_owned).collect()),
            "--ids" if value == "text" => options.ids = Some(Ids::Text),
            "--ids" => options.ids = Some(Ids::Numbers),
            _ => unreachable!("the table knows no option {word}"),
        }
    }
    Ok(options)
}

/// Whether the case gave what it must; otherwise what it gave.
fn judge(case: &Case, path: &Path, found: Result<EdgeList>) -> std::result::Result<(), String> {
    let (edges, refusal) = match found {
        Ok(edges) => (Some(shown(&edges)), None),
        Err(e) if matches!(e.kind(), Kind::Input | Kind::Unsupported | Kind::Argument) => {
            (None, Some(e))
        }
        Err(e) => return Err(format!("neither graph nor refusal: {e}")),
    };
    let same = match case.want {
        Want::Edges(list) => edges == Some(expected(true, list.iter().map(|e| (e.0, e.1, None)))),
        Want::Undirected(list) => {
            edges == Some(expected(false, list.iter().map(|e| (e.0, e.1, None))))
        }
        Want::Weighted(list) => {
            edges == Some(expected(true, list.iter().map(|e| (e.0, e.1, Some(e.2)))))
        }
        Want::Refused(line, column, words) => {
            let place = format!("{}:{line}:{column}: ", path.display());
            refusal.as_ref().is_some_and(|r| {
                let (shown, fields) = (r.to_string(), r.place());
                let at = (fields.line, fields.column);
                let is_there = at == (Some(line.into()), Some(column.into()));
                is_there && is_of(r, path) && shown.starts_with(&place) && shown.contains(words)
            })
        }
        Want::Foreign(words) => {
            let begin = path.display().to_string();
            refusal.as_ref().is_some_and(|r| {
                let shown = r.to_string();
                is_of(r, path) && shown.starts_with(&begin) && shown.contains(words)
            })
        }
    };
    if same {
        return Ok(());
    }
    let refusal = refusal.map(|r| format!("{r}, with the fields {:?}", r.place()));
    let gave = edges.or(refusal).unwrap_or_default();
    Err(format!("gave {gave}, wanted {:?}", case.want))
}

/// Whether an error's fields name the file too.
fn is_of(refusal: &Error, path: &Path) -> bool {
    refusal.place().path.as_deref() == Some(path)
}

/// A list of edges in words.
fn expected<'a>(
    directed: bool,
    list: impl Iterator<Item = (&'a str, &'a str, Option<f32>)>,
) -> String {
    let mut words = if directed { "directed" } else { "undirected" }.to_owned();
    for (source, target, weight) in list {
        words += &format!(" {source:?}->{target:?}");
        words += &weight.map_or(String::new(), |w| format!(" ({w})"));
    }
    words
}

fn shown(edges: &EdgeList) -> String {
    let names = Names::new(edges.labels.clone(), edges.vertices);
    let name = |v: u32| names.name(v);
    let named: Vec<_> = edges.edges.iter().map(|e| (name(e[0]), name(e[1]))).collect();
    let weight = |i: usize| edges.weights.as_ref().map(|w| w[i]);
    let list = named.iter().enumerate().map(|(i, (s, t))| (s.as_str(), t.as_str(), weight(i)));
    expected(edges.directed, list)
}
