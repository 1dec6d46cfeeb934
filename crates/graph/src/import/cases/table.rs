//! The table of odd edge lists.

use super::{Case, Packed, Want};

const AB: Want = Want::Edges(&[("a", "b"), ("b", "c")]);
const N12: Want = Want::Edges(&[("1", "2"), ("2", "3")]);

const fn case(file: &'static str, bytes: &'static [u8], want: Want) -> Case {
    Case { file, bytes, packed: Packed::No, options: &[], want }
}

impl Case {
    const fn with(self, options: &'static [&'static str]) -> Case {
        Case { options, ..self }
    }

    const fn packed(self, packed: Packed) -> Case {
        Case { packed, ..self }
    }
}

/// Headers and columns.
const HEADERS: [Case; 39] = [
    case("g.csv", b"source,target\na,b\nb,c\n", AB),
    case("id.csv", b"id,source,target\n7,1,2\n8,2,3\n", N12),
    case("year.csv", b"year,from,to\n1999,a,b\n2000,b,c\n", AB),
    case("none.csv", b"1,2\n2,3\n", N12),
    case("none.tsv", b"1\t2\n2\t3\n", N12),
    case("text.csv", b"a,b\nb,c\n", AB),
    case("turned.csv", b"Target,Source\nb,a\nc,b\n", AB),
    case("wide.csv", b"FromNodeId,ToNodeId\n1,2\n2,3\n", N12),
    case("other.csv", b"x,y\n1,2\n2,3\n", N12),
    case("index.csv", b",source,target\n0,a,b\n1,b,c\n", AB),
    case(
        "weight.csv",
        b"u,v,w\na,b,2.5\nb,c,0\n",
        Want::Weighted(&[("a", "b", 2.5), ("b", "c", 0.0)]),
    ),
    case(
        "gephi.csv",
        b"Source,Target,Type,Id,Label,Weight\na,b,Undirected,0,,1.0\nb,c,Undirected,1,,2.0\n",
        Want::Weighted(&[("a", "b", 1.0), ("b", "c", 2.0)]),
    )
    .with(&["--directed"]),
    case(
        "gephi.csv",
        b"Source,Target,Type\na,b,Undirected\nb,c,Undirected\n",
        Want::Undirected(&[("a", "b"), ("b", "c")]),
    ),
    case(
        "gephi.csv",
        b"Source,Target,Type\na,b,Directed\nb,c,Undirected\n",
        Want::Refused(3, 5, "direction 'Undirected'"),
    ),
    case("neo.csv", b":START_ID,:END_ID,:TYPE\na,b,LIKES\nb,c,LIKES\n", AB),
    case("triple.csv", b"head,relation,tail\na,r,b\nb,s,c\n", AB),
    case("unclear.csv", b"alice,bob\ncarol,dave\n", Want::Refused(1, 1, "--no-header")),
    case("unclear.csv", b"a,b\nb,c\n", AB).with(&["--no-header"]),
    case("unclear.csv", b"alice,bob\na,b\nb,c\n", AB).with(&["--header"]),
    case("one.csv", b"a,b\n", Want::Refused(1, 1, "--header")),
    case("mixed.csv", b"bash,libc6\n2048,python\n", Want::Refused(1, 1, "--no-header")),
    case(
        "several.csv",
        b"source_id,source_name,target_id,target_name\n1,a,2,b\n",
        Want::Refused(1, 1, "the header is: source_id, source_name, target_id, target_name"),
    ),
    case("several.csv", b"source_id,source_name,target_id,target_name\n1,a,2,b\n2,b,3,c\n", AB)
        .with(&["--columns=source_name,target_name"]),
    case("people.csv", b"id,name,city\n1,a,b\n", Want::Refused(1, 1, "--header")),
    case("people.csv", b"id,name,city\n1,a,b\n2,b,c\n", AB).with(&["--columns=2,3", "--header"]),
    case("no_such.csv", b"from,to\n1,2\n", Want::Refused(1, 1, "no column is called 'weight'"))
        .with(&["--columns=from,to,weight"]),
    case("triple.csv", b"a,knows,b\nb,knows,c\n", Want::Refused(1, 1, "third is no weight")),
    case("counter.csv", b"0,1,5\n1,2,5\n2,3,5\n", Want::Refused(1, 1, "counts the records")),
    case("marked.csv", b"#target,source\nb,a\nc,b\n", AB),
    case("list.txt", b"source target\n1 2\n2 3\n", N12),
    case("letters.txt", b"u v\nv w\n", Want::Refused(1, 1, "--no-header")),
    case("letters.csv", b"u,v\na,b\n", Want::Refused(1, 1, "--header")),
    case("letters.csv", b"u,v\n1,2\n2,3\n", N12),
    case("words.csv", b"from,to\nto,from\n", Want::Refused(1, 1, "--header")),
    case("words.csv", b"from,to\nto,b\n", Want::Edges(&[("from", "to"), ("to", "b")]))
        .with(&["--no-header"]),
    case("mac.csv", b"source,target\r1,2\r", Want::Refused(1, 14, "carriage return"))
        .with(&["--header"]),
    case("behind.csv", b"\"a\"b,c\n1,2\n", Want::Refused(1, 4, "behind a closing quote"))
        .with(&["--header"]),
    case("behind.csv", b"\"a\"b,c\n1,2\n", Want::Refused(1, 4, "behind a closing quote"))
        .with(&["--columns=source,target"]),
    case("excel.csv", b"sep=;\r\nsource;target\r\na;b\r\nb;c\r\n", AB),
];

/// Delimiters.
const DELIMITERS: [Case; 13] = [
    case("semicolon.csv", b"source;target\na;b\nb;c\n", AB),
    case("semicolon.csv", b"1;2\n2;3\n", N12),
    case("pipe.csv", b"1|2\n2|3\n", N12),
    case("tab.csv", b"from\tto\na\tb\nb\tc\n", AB),
    case("space.csv", b"1 2\n2 3\n", N12),
    case("comma.txt", b"1,2\n2,3\n", N12),
    case(
        "tabs.txt",
        b"New York\tSan Jose\nSan Jose\tRome\n",
        Want::Edges(&[("New York", "San Jose"), ("San Jose", "Rome")]),
    ),
    case(
        "both.csv",
        b"1,2;3,4\n5,6;7,8\n",
        Want::Refused(1, 1, "by comma (3 columns) or by semicolon (2 columns)"),
    ),
    case("both.csv", b"1,2;3,4\n", Want::Edges(&[("1,2", "3,4")]))
        .with(&["--delimiter=;", "--no-header"]),
    case("padded.txt", b"1, 2\n2, 3\n", Want::Refused(1, 1, "--delimiter")),
    case("padded.txt", b"1, 2\n2, 3\n", N12).with(&["--delimiter=comma"]),
    case("decimal.csv", b"u;v;w\na;b;1,5\n", Want::Refused(2, 5, "weight '1,5'")),
    case("single.csv", b"a\nb\n", Want::Refused(1, 1, "1 column where 2")),
];

/// Quotes, line ends, blank lines, comments.
const RECORDS: [Case; 27] = [
    case("quoted.csv", b"source,target\n\"a\",\"b\"\n\"b\",\"c\"\n", AB),
    case("comma.csv", b"from,to\n\"Doe, J\",b\n", Want::Edges(&[("Doe, J", "b")])),
    case(
        "doubled.csv",
        b"from,to\n\"say \"\"hi\"\"\",\"\"\"\"\n",
        Want::Edges(&[("say \"hi\"", "\"")]),
    ),
    case(
        "lines.csv",
        b"from,to\r\n\"two\nlines\",b\r\nb,\"c\r\nd\"\r\n",
        Want::Edges(&[("two\nlines", "b"), ("b", "c\r\nd")]),
    ),
    case("lines.csv", b"from,to\n\"two\nlines\",b\nb,\n", Want::Refused(4, 3, "an empty id")),
    case("inner.csv", b"from,to\n5\" pipe,b\n", Want::Edges(&[("5\" pipe", "b")])),
    case("kept.csv", b"from,to\n\" a \", b \n", Want::Edges(&[(" a ", "b")])),
    case("space.txt", b"\"New York\" Rome\n", Want::Edges(&[("New York", "Rome")])),
    case("open.csv", b"from,to\na,b\n\"x,y\nc,d\n", Want::Refused(3, 1, "not closed")),
    case("behind.csv", b"from,to\n\"a\"x,b\n", Want::Refused(2, 4, "behind a closing quote")),
    case("crlf.csv", b"source,target\r\na,b\r\nb,c\r\n", AB),
    case("crlf.el", b"1 2\r\n2 3\r\n", N12),
    case("mac.csv", b"source,target\ra,b\rb,c\r", Want::Refused(1, 14, "carriage return")),
    case("mac.txt", b"1 2\r2 3\r", Want::Refused(1, 4, "carriage return")),
    case("noend.csv", b"source,target\na,b\nb,c", AB),
    case("noend.el", b"1 2\n2 3", N12),
    case("noend.csv", b"source,target\na,b\nb,\"c\"", AB),
    case("blank.csv", b"\n\nsource,target\n\na,b\n  \nb,c\n\n", AB),
    case("padded.el", b"  1   2 \n\t2\t3\t\n", N12),
    case("comment.csv", b"# made by hand, 2020\nsource,target\na,b\nb,c\n", AB),
    case("hash.csv", b"source,target\na,b\n#b,c\n", Want::Edges(&[("a", "b"), ("#b", "c")])),
    case("hash.csv", b"#a,b\nb,c\nc,#a\n", Want::Refused(1, 1, "--comment none")),
    case("hash.txt", b"#a b\nb c\n", Want::Refused(1, 1, "--comment none")),
    case("hash.txt", b"#a b\nb c\n", Want::Edges(&[("#a", "b"), ("b", "c")]))
        .with(&["--comment=none"]),
    case("middle.txt", b"1 2\n#3 4\n2 3\n", Want::Refused(2, 1, "--comment")),
    case("middle.txt", b"# nodes: 3\n1 2\n# half way there\n2 3\n", N12),
    case("semi.csv", b"; note\na,b\nb,c\n", AB).with(&["--comment=;", "--no-header"]),
];

/// Ids and weights.
const VALUES: [Case; 29] = [
    case(
        "2048.tsv",
        b"package\tdepends_on\n2048\tlibc6\nlibc6\t7\n",
        Want::Edges(&[("2048", "libc6"), ("libc6", "7")]),
    ),
    case("late.el", b"1 2\n2 3\n3 bob\n", Want::Edges(&[("1", "2"), ("2", "3"), ("3", "bob")])),
    case("early.el", b"bob 1\n1 2\n", Want::Edges(&[("bob", "1"), ("1", "2")])),
    case("padded.csv", b"from,to\n007,7\n7,8\n", Want::Edges(&[("007", "7"), ("7", "8")])),
    case("padded.csv", b"from,to\n007,8\n7,9\n", Want::Edges(&[("7", "8"), ("7", "9")]))
        .with(&["--ids=numbers"]),
    case("large.el", b"0 18446744073709551615\n", Want::Edges(&[("0", "18446744073709551615")])),
    case(
        "huge.el",
        b"1 2\n2 18446744073709551616\n",
        Want::Refused(2, 3, "'18446744073709551616'"),
    ),
    case(
        "huge.el",
        b"1 18446744073709551616\nx 1\n",
        Want::Edges(&[("1", "18446744073709551616"), ("x", "1")]),
    ),
    case("negative.el", b"1 2\n-1 2\n", Want::Refused(2, 1, "--ids text")),
    case("negative.el", b"1 2\n-1 2\n", Want::Edges(&[("1", "2"), ("-1", "2")]))
        .with(&["--ids=text"]),
    case("float.csv", b"source,target\n1.0,2.0\n", Want::Refused(2, 1, "'1.0'")),
    case("missing.csv", b"source,target\n1,2\n2,NA\n", Want::Refused(3, 3, "'NA'")),
    case("missing.csv", b"source,target\na,none\n", Want::Edges(&[("a", "none")])),
    case("strict.el", b"1 2\n2 x\n", Want::Refused(2, 3, "'x'")).with(&["--ids=numbers"]),
    case("empty.csv", b"source,target\na,\n", Want::Refused(2, 3, "an empty id")),
    case("empty.csv", b"source,target\n\"\",a\n", Want::Refused(2, 2, "an empty id")),
    case(
        "short.csv",
        b"source,target,weight\n1,2,3\n1,2\n",
        Want::Refused(3, 4, "2 columns where 3"),
    ),
    case("long.el", b"1 2\n3 4 5\n", Want::Refused(2, 5, "3 columns where 2")),
    case("konect.txt", b"% asym\n1 2 1 99\n2 3 1 99\n", Want::Refused(2, 1, "--columns 1,2")),
    case("konect.txt", b"% sym\n1 2 1\n2 3 1\n", Want::Undirected(&[("1", "2"), ("2", "3")]))
        .with(&["--columns=1,2"]),
    case("konect.txt", b"% bip\n1 2\n2 3\n", Want::Refused(1, 1, "two kinds")),
    case(
        "snap.txt",
        b"# Undirected graph\n# FromNodeId\tToNodeId\n1\t2\n2\t3\n",
        Want::Undirected(&[("1", "2"), ("2", "3")]),
    ),
    case("minus.wel", b"1 2 3\n2 3 -0.5\n", Want::Refused(2, 5, "weight '-0.5'")),
    case("nan.wel", b"1 2 nan\n", Want::Refused(1, 5, "weight 'nan'")),
    case("inf.csv", b"u,v,w\n1,2,1e39\n", Want::Refused(2, 5, "weight '1e39'")),
    case("zero.wel", b"1 2 -0\n", Want::Weighted(&[("1", "2", 0.0)])),
    case("headed.wel", b"src dst weight\n1 2 3\n", Want::Weighted(&[("1", "2", 3.0)])),
    case("third.csv", b"a,b,0.5\nb,c,2\n", Want::Weighted(&[("a", "b", 0.5), ("b", "c", 2.0)])),
    case("third.txt", b"1 2 0.5\n2 3 4\n", Want::Weighted(&[("1", "2", 0.5), ("2", "3", 4.0)]))
        .with(&["--columns=1,2,3"]),
];

/// Encodings, compression, and other formats.
const FILES: [Case; 35] = [
    case("bom.csv", b"\xef\xbb\xbfsource,target\na,b\nb,c\n", AB),
    case("bom.el", b"\xef\xbb\xbf1 2\n2 3\n", N12),
    case("utf16.csv", b"\xff\xfea\0,\0b\0\n\0", Want::Refused(1, 1, "UTF-16")),
    case("utf16.csv", b"1\0,\x002\0\n\0", Want::Refused(1, 1, "UTF-16LE")),
    case("utf32.csv", b"\xff\xfe\0\0a\0\0\0", Want::Refused(1, 1, "UTF-32")),
    case("latin.csv", b"source,target\na,b\nz,caf\xe9\n", Want::Refused(3, 6, "not UTF-8")),
    case(
        "utf8.csv",
        "source,target\n\u{fc}\u{f1},\u{65e5}\u{672c}\n".as_bytes(),
        Want::Edges(&[("\u{fc}\u{f1}", "\u{65e5}\u{672c}")]),
    ),
    case(
        "utf8.csv",
        "source,target\n\u{fc}\u{f1},\n".as_bytes(),
        Want::Refused(2, 4, "an empty id"),
    ),
    case("nbsp.csv", "source,target\n1,\u{a0}2\n2,3\n".as_bytes(), N12),
    case("nul.el", b"1 2\n2 \x003\n", Want::Refused(2, 3, "NUL")),
    case("empty.csv", b"", Want::Refused(1, 1, "the graph is empty")),
    case("empty.txt", b"# nothing\n\n", Want::Refused(3, 1, "the graph is empty")),
    case("header.csv", b"source,target\n", Want::Refused(2, 1, "the graph is empty")),
    case("g.csv.gz", b"source,target\na,b\nb,c\n", AB).packed(Packed::Gzip),
    case("g.el", b"1 2\n2 3\n", N12).packed(Packed::Gzip),
    case("g.el.zst", b"1 2\n2 3\n", N12).packed(Packed::Zstd),
    case("cut.el.gz", b"1 2\n2 3\n", Want::Refused(3, 1, "gzip data are truncated"))
        .packed(Packed::CutGzip),
    case("cut.el.zst", b"1 2\n2 3\n", Want::Refused(1, 4, "zstd data are truncated"))
        .packed(Packed::CutZstd),
    case(
        "g.mtx",
        b"%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n",
        Want::Edges(&[("1", "2")]),
    ),
    case(
        "g.txt",
        b"%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n",
        Want::Foreign("Matrix Market"),
    ),
    case("g.graph", b"2 1\n2\n1\n", Want::Undirected(&[("1", "2")])),
    case("g.graph.gz", b"2 1\n2\n1\n", Want::Undirected(&[("1", "2")])).packed(Packed::Gzip),
    case("g.txt", b"2 1\n2\n1\n", Want::Undirected(&[("1", "2")])).with(&["--from=metis"]),
    case("g.graph", b"2 1\n2\n1\n", Want::Foreign("--directed")).with(&["--directed"]),
    case("g.gr", b"p sp 2 1\na 1 2 5\n", Want::Weighted(&[("1", "2", 5.0)])),
    case("g.gr", b"p sp 2 1\na 1 2 5\n", Want::Foreign("go with tables")).with(&["--header"]),
    case("g.gr", b"p sp 2 2\na 1 2 5\n", Want::Foreign("g.gr:2: 1 arcs")),
    case("g.parquet", b"PAR1\0\0", Want::Foreign("Parquet")),
    case("g.csv", b"PAR1\0\0", Want::Foreign("Parquet")),
    case("g.parquet", b"PAR1\0\0", Want::Foreign("Parquet")).with(&["--from=csv"]),
    case("g.txt", b"c a road\np sp 2 1\na 1 2 5\n", Want::Foreign("DIMACS")),
    case("g.csv", b"%%matrixmarket matrix coordinate\n2 2 1\n1 2\n", Want::Foreign("Matrix")),
    case("g.mtx", b"%%MatrixMarket matrix array real general\n2 2\n", Want::Foreign("Matrix"))
        .with(&["--from=el"]),
    case("g.txt", b"4 4\n2 3\n1\n1 4\n3\n", Want::Refused(3, 2, "if this is a METIS graph")),
    case("g.graph", b"4 4\n2 3\n1\n1 4\n3\n", Want::Refused(3, 2, "if this is a METIS graph"))
        .with(&["--from=el"]),
];

/// All of them.
pub(super) const CASES: [&[Case]; 5] = [&HEADERS, &DELIMITERS, &RECORDS, &VALUES, &FILES];
