//! Turns `src/isa/rows/*.txt`, the one instruction table, into Rust: the rows, the operand formats
//! and the decision tree of the decoder.
//!
//! Invariants (checked here, so a bad table does not build)
//! - Fixed bits of a row never overlap its operand bits.
//! - No word matches two rows: any two rows differ in a bit that both fix.

use std::fmt::Write as _;
use std::path::PathBuf;

mod tree;

/// One expanded row of the table.
pub(crate) struct Row {
    word: u32,
    mask: u32,
    name: String,
    stem_len: usize,
    group: &'static str,
    format: String,
    v1_1: bool,
}

const GROUPS: [(&str, &str); 6] = [
    ("base", "Base"),
    ("fp", "Float"),
    ("lsx", "Lsx"),
    ("lasx", "Lasx"),
    ("lbt", "Lbt"),
    ("system", "System"),
];

fn main() {
    let source = PathBuf::from("src/isa/rows");
    tell_cargo("rerun-if-changed=src");
    tell_cargo(&format!("rustc-env=LA64_REVISION={:016x}", revision()));
    tell_cargo("rerun-if-changed=codegen");
    let mut rows = Vec::new();
    for (file, group) in GROUPS {
        let path = source.join(format!("{file}.txt"));
        let text = std::fs::read_to_string(&path).expect("table file");
        for line in text.lines().filter(|l| !l.starts_with('#') && !l.is_empty()) {
            expand(line, group, &mut rows);
        }
    }
    rows.sort_by_key(|r| r.word);
    check_disjoint(&rows);
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("OUT_DIR is set by cargo"));
    std::fs::write(out.join("rows.rs"), render(&rows)).expect("write rows.rs");
}

/// A hash of what decides which code the translator makes: the source of this crate, its options
/// and the compiler. Code in the cache on disk is for the engine of the same one.
fn revision() -> u64 {
    let mut files = Vec::new();
    for folder in ["src", "codegen"] {
        find_files(PathBuf::from(folder), &mut files);
    }
    files.sort();
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    for file in files {
        hasher.add(file.to_string_lossy().as_bytes());
        hasher.add(&std::fs::read(&file).expect("a source file"));
    }
    for name in ["CARGO_ENCODED_RUSTFLAGS", "OPT_LEVEL", "TARGET", "DEBUG", "CARGO_PKG_VERSION"] {
        hasher.add(std::env::var(name).unwrap_or_default().as_bytes());
    }
    let compiler = std::env::var_os("RUSTC").expect("RUSTC is set by cargo");
    let version = std::process::Command::new(compiler).arg("-vV").output();
    hasher.add(&version.expect("the compiler runs").stdout);
    hasher.0
}

fn find_files(folder: PathBuf, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a source folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => find_files(path, files),
            false => files.push(path),
        }
    }
}

/// FNV-1a.
struct Fnv(u64);

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for &byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// A build script's stdout is its channel to cargo.
fn tell_cargo(directive: &str) {
    use std::io::Write as _;
    writeln!(std::io::stdout(), "cargo::{directive}").expect("cargo listens");
}

/// One table line: `word step stem suffixes... : operands... ; attribute`.
fn expand(line: &str, group: &'static str, rows: &mut Vec<Row>) {
    let (head, tail) = line.split_once(':').expect("a row has a colon");
    let (format, attribute) = tail.split_once(';').unwrap_or((tail, ""));
    let mut head = head.split_whitespace();
    let mut next = || head.next().expect("word, step, stem");
    let (word, step, stem) = (next(), next(), next());
    let word = u32::from_str_radix(word, 16).expect("hexadecimal word");
    let step = u32::from_str_radix(step.trim_start_matches('+'), 16).unwrap_or(0);
    let format = format.split_whitespace().collect::<Vec<_>>().join(" ");
    let mask = !format.split_whitespace().fold(0, |m, t| m | field(t).2);
    for (i, suffix) in head.enumerate() {
        let dotted = if suffix == "-" { String::new() } else { format!(".{suffix}") };
        let word = word + step * i as u32;
        assert_eq!(word & !mask, 0, "fixed bits under operands: {line}");
        rows.push(Row {
            word,
            mask,
            name: format!("{stem}{dotted}"),
            stem_len: stem.len(),
            group,
            format: format.clone(),
            v1_1: attribute.trim() == "v1.1",
        });
    }
}

/// An operand token as `(kind, Rust expression of the Field, bits it occupies)`.
fn field(token: &str) -> (char, String, u32) {
    let kind = token.chars().next().expect("token");
    if !"su".contains(kind) {
        let lo = match &token[1..] {
            "d" => 0,
            "j" => 5,
            "k" => 10,
            "a" => 15,
            other => panic!("register place {other}"),
        };
        let width = match kind {
            'c' => 3,
            't' | 'g' => 2,
            _ => 5,
        };
        return (kind, render_field(kind, [(lo, width), (0, 0)], 0, 0), mask_of(lo, width));
    }
    let (_, place) = token.split_once('@').expect("immediate place");
    let (place, shift) = place.split_once("<<").unwrap_or((place, "0"));
    let shift = shift.parse().expect("shift");
    if let Some((high, low)) = place.split_once('+').filter(|(h, _)| h.contains(':')) {
        let part = |p: &str| {
            let (lo, width) = p.split_once(':').expect("lo:width");
            (lo.parse().expect("lo"), width.parse().expect("width"))
        };
        let (high, low): ((u32, u32), (u32, u32)) = (part(high), part(low));
        let mask = mask_of(high.0, high.1) | mask_of(low.0, low.1);
        return (kind, render_field(kind, [low, high], shift, 0), mask);
    }
    let (lo, bias) = place.split_once('+').unwrap_or((place, "0"));
    let width = token[1..].split('@').next().expect("width").parse().expect("width");
    let lo = lo.parse().expect("place");
    let bias = bias.parse().expect("bias");
    (kind, render_field(kind, [(lo, width), (0, 0)], shift, bias), mask_of(lo, width))
}

fn mask_of(lo: u32, width: u32) -> u32 {
    (((1u64 << width) - 1) << lo) as u32
}

fn render_field(kind: char, parts: [(u32, u32); 2], shift: u32, bias: u32) -> String {
    let kind = match kind {
        'r' => "Gpr",
        'f' => "Fpr",
        'v' => "Vr",
        'x' => "Xr",
        'c' => "Fcc",
        't' => "Scratch",
        'g' => "Fcsr",
        's' => "Signed",
        'u' => "Unsigned",
        other => panic!("operand kind {other}"),
    };
    let [(lo, width), (high_lo, high_width)] = parts;
    format!(
        "Field {{ kind: FieldKind::{kind}, lo: {lo}, width: {width}, high_lo: {high_lo}, \
         high_width: {high_width}, shift: {shift}, bias: {bias} }}"
    )
}

fn check_disjoint(rows: &[Row]) {
    for (i, a) in rows.iter().enumerate() {
        for b in &rows[i + 1..] {
            let both = a.mask & b.mask;
            assert_ne!(a.word & both, b.word & both, "{} and {} overlap", a.name, b.name);
        }
    }
}

fn render(rows: &[Row]) -> String {
    let mut formats: Vec<&str> = rows.iter().map(|r| r.format.as_str()).collect();
    formats.sort_unstable();
    formats.dedup();
    let mut out = String::new();
    for (i, format) in formats.iter().enumerate() {
        let fields: Vec<_> = format.split_whitespace().map(|t| field(t).1).collect();
        let (n, fields) = (fields.len(), fields.join(", "));
        writeln!(out, "static FORMAT_{i}: [Field; {n}] = [{fields}];").expect("string");
    }
    writeln!(out, "/// Rows of the table.").expect("string");
    writeln!(out, "pub const ROWS_COUNT: usize = {};", rows.len()).expect("string");
    writeln!(out, "/// Every instruction, by fixed word.").expect("string");
    writeln!(out, "pub static ROWS: [Row; ROWS_COUNT] = [").expect("string");
    for r in rows {
        let format = formats.binary_search(&r.format.as_str()).expect("format");
        writeln!(
            out,
            "Row {{ word: {:#010x}, mask: {:#010x}, mnemonic: {:?}, stem_len: {}, \
             group: Group::{}, fields: &FORMAT_{format}, v1_1: {} }},",
            r.word, r.mask, r.name, r.stem_len, r.group, r.v1_1
        )
        .expect("string");
    }
    out.push_str("];\n");
    out.push_str(&tree::render(rows));
    out
}
