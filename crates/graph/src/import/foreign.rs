//! Graph formats that are recognised and not read, or read under another name: refused by name,
//! with what to do.
//!
//! Read as edge lists, some of these would even parse, into a wrong graph.

use std::path::Path;

use super::dialect::extension;
use crate::error::{Error, Kind};

struct Foreign {
    name: &'static str,
    extensions: &'static [&'static str],
    /// What its files begin with; empty where that says nothing.
    magics: &'static [&'static [u8]],
    todo: &'static str,
}

/// The format whose files may begin with comments.
const DIMACS: &str = "a DIMACS graph";
/// The format that nothing but its lists tells.
const METIS: &str = "a METIS graph";
/// Lines of a possible METIS graph that are looked at.
const METIS_LINES: usize = 256;

const FORMATS: [Foreign; 15] = [
    Foreign {
        name: "a Matrix Market file",
        extensions: &[],
        magics: &[b"%%MatrixMarket"],
        todo: "say `--from mtx`",
    },
    Foreign { name: METIS, extensions: &[], magics: &[], todo: "say `--from graph`" },
    Foreign {
        name: DIMACS,
        extensions: &[],
        magics: &[b"p sp ", b"p edge ", b"p col "],
        todo: "say `--from gr`",
    },
    Foreign {
        name: "a Parquet file",
        extensions: &[],
        magics: &[b"PAR1"],
        todo: "say `--from parquet`",
    },
    Foreign {
        name: "an Arrow file",
        extensions: &[],
        magics: &[b"ARROW1"],
        todo: "say `--from arrow`",
    },
    Foreign {
        name: "a Pajek network",
        extensions: &["net"],
        magics: &[b"*Vertices", b"*vertices", b"*Network", b"*network"],
        todo: "turn its arcs into an edge list, for example with networkx.read_pajek",
    },
    Foreign {
        name: "a GML graph",
        extensions: &["gml"],
        magics: &[b"graph [", b"graph\n[", b"Creator \""],
        todo: "turn it into an edge list, for example with networkx.read_gml",
    },
    Foreign {
        name: "an XML graph (GraphML or GEXF)",
        extensions: &["graphml", "gexf", "xml"],
        magics: &[b"<?xml", b"<graphml", b"<gexf"],
        todo: "export its edges as CSV, for example from Gephi's data laboratory",
    },
    Foreign {
        name: "a Graphviz graph",
        extensions: &["dot", "gv"],
        magics: &[b"digraph ", b"strict graph", b"strict digraph", b"graph {"],
        todo: "write its edges as one `source,target` per line",
    },
    Foreign {
        name: "JSON",
        extensions: &["json", "jsonl", "ndjson"],
        magics: &[],
        todo: "write its edges as CSV, for example `jq -r '.edges[]|[.source,.target]|@csv'`",
    },
    Foreign {
        name: "a spreadsheet",
        extensions: &["xlsx", "xls", "ods"],
        magics: &[],
        todo: "save the sheet with the edges as CSV",
    },
    Foreign {
        name: "an archive or spreadsheet (zip)",
        extensions: &["zip"],
        magics: &[b"PK\x03\x04"],
        todo: "unpack it, or save the sheet with the edges as CSV",
    },
    Foreign {
        name: "a SQLite database",
        extensions: &["sqlite", "sqlite3", "db"],
        magics: &[b"SQLite format 3\0"],
        todo: "export the table with the edges: `sqlite3 -csv -header FILE 'select ...' > OUT.csv`",
    },
    Foreign {
        name: "a NumPy file",
        extensions: &["npy", "npz"],
        magics: &[b"\x93NUMPY"],
        todo: "write the edges as text, for example with numpy.savetxt(..., fmt='%d')",
    },
    Foreign {
        name: "a PDF document",
        extensions: &["pdf"],
        magics: &[b"%PDF-"],
        todo: "give the edge list itself",
    },
];

fn refusal(path: &Path, format: &Foreign) -> Error {
    let is_read = format.extensions.is_empty();
    let why = if is_read { "not an edge list" } else { "which is not read yet" };
    let context = format!("{} is {}, {why}; {}", path.display(), format.name, format.todo);
    Error::new(if is_read { Kind::Input } else { Kind::Unsupported }, context).at_path(path)
}

/// The refusal of a file whose name tells a format that is not read.
pub(super) fn by_name(path: &Path) -> Option<Error> {
    let extension = extension(path);
    let found = FORMATS.iter().find(|f| f.extensions.contains(&&*extension));
    found.map(|f| refusal(path, f))
}

/// The refusal of a file whose first bytes, decompressed, tell a format that is not read.
pub(super) fn by_content(path: &Path, front: &[u8]) -> Option<Error> {
    let begins = |f: &&Foreign| f.magics.iter().any(|m| starts_with(front, m));
    let found = FORMATS.iter().find(begins);
    found.or_else(|| after_comments(front)).map(|f| refusal(path, f))
}

/// Whether `front` begins with `magic`; the Matrix Market's banner may be in any case.
fn starts_with(front: &[u8], magic: &[u8]) -> bool {
    let begin = front.get(..magic.len());
    begin.is_some_and(|b| b == magic || magic.starts_with(b"%%") && b.eq_ignore_ascii_case(magic))
}

/// The format of a file that begins with comments of a format's own: DIMACS' lines of `c`, and the
/// `p` line behind them.
fn after_comments(front: &[u8]) -> Option<&'static Foreign> {
    let is_comment = |line: &&[u8]| matches!(line, [b'c'] | [b'c', b' ' | b'\t' | b'\r', ..]);
    let mut lines = front.split(|&b| b == b'\n').peekable();
    lines.next_if(is_comment)?;
    let line = lines.find(|line| !is_comment(line))?;
    FORMATS.iter().find(|f| f.name == DIMACS && f.magics.iter().any(|m| line.starts_with(m)))
}

/// What to say behind a refusal of a file that may be a METIS graph: all its lines are numbers, of
/// different lengths, and the first has a count of vertices and of edges. Such a file has no magic,
/// and one whose lines all have two numbers is an edge list as well.
pub(super) fn perhaps_metis(front: &str) -> Option<String> {
    let lines = front.lines().filter(|line| !line.starts_with('%'));
    let numbers = |line: &str| {
        line.split_ascii_whitespace().map(|n| n.parse::<u64>().ok()).collect::<Option<Vec<_>>>()
    };
    let lines = lines.take(METIS_LINES).map(numbers).collect::<Option<Vec<_>>>()?;
    let (head, lists) = lines.split_first()?;
    let vertices = *head.first().filter(|_| (2..=4).contains(&head.len()))?;
    // The last line of a front may be cut; a number cut short is a number still.
    let names_vertices = lists.iter().flatten().all(|&n| (1..=vertices).contains(&n));
    let is_ragged = lists.windows(2).any(|w| w[0].len() != w[1].len());
    let metis = FORMATS.iter().find(|f| f.name == METIS)?;
    let is_likely = (lists.len() as u64) <= vertices && names_vertices && is_ragged;
    is_likely.then(|| format!("; if this is {}: {}", metis.name, metis.todo))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ragged_lists_of_numbers_below_their_count_may_be_metis() {
        for front in ["4 4\n2 3\n1\n1 4\n3\n", "% says\n3 2 001\n2 5\n\n1\n"] {
            let is_likely = perhaps_metis(front).is_some();
            assert_eq!(is_likely, !front.contains('5'), "{front}");
        }
        for front in ["4 4\n2 3\n1 2\n", "4 4\n2 x\n1\n", "", "4\n1 2\n3\n"] {
            assert!(perhaps_metis(front).is_none(), "{front}");
        }
    }

    #[test]
    fn foreign_formats_are_named_with_what_to_do() {
        for (name, words) in [("g.NPZ", "numpy.savetxt"), ("g.gml.gz", "networkx.read_gml")] {
            let e = by_name(Path::new(name)).unwrap();
            assert_eq!(e.kind(), Kind::Unsupported);
            assert!(e.to_string().contains(words) && e.to_string().starts_with(name), "{e}");
        }
        assert!(by_name(Path::new("g.csv")).is_none() && by_name(Path::new("graph")).is_none());
        let matrix = by_content(Path::new("g.txt"), b"%%MatrixMarket matrix coordinate\n");
        assert!(matrix.unwrap().to_string().contains("--from mtx"));
        for (front, words) in [("PAR1\x15", "--from parquet"), ("ARROW1\0\0", "--from arrow")] {
            let e = by_content(Path::new("g.csv"), front.as_bytes()).unwrap();
            assert_eq!(e.kind(), Kind::Input);
            assert!(e.to_string().contains(words), "{e}");
        }
        assert!(by_content(Path::new("g.txt"), b"graph theory\n").is_none());
        for front in ["%%matrixmarket matrix\n", "%%MATRIXMARKET matrix\n"] {
            assert!(by_content(Path::new("g.csv"), front.as_bytes()).is_some(), "{front}");
        }
        let dimacs = by_content(Path::new("g.txt"), b"c a road\nc\np sp 2 1\na 1 2 5\n");
        assert!(dimacs.unwrap().to_string().contains("DIMACS"));
        assert!(by_content(Path::new("g.txt"), b"c d\nd e\n").is_none(), "an edge from c to d");
        assert!(by_content(Path::new("g.txt"), b"Creator \"igraph\"\ngraph\n[\n").is_some());
        assert!(by_content(Path::new("g.txt"), b"Creator Work\n").is_none(), "an edge");
    }
}
