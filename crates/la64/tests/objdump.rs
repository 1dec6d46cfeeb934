//! The disassembler's text against GNU objdump's for LoongArch, for every row of the table.
//!
//! objdump is `$LA64_OBJDUMP` or `loongarch64-linux-gnu-objdump` in PATH; without it the test says
//! loudly that nothing was compared. Differences that binutils itself has are listed by name.

use littoral_la64::isa::{self, ROWS};
use std::collections::HashMap;
use std::io::Write as _;
use std::process::Command;

/// Rows of the table that binutils 2.46 does not know.
const UNKNOWN_TO_BINUTILS: [&str; 6] =
    ["gtlbclr", "gtlbfill", "gtlbrd", "gtlbsrch", "gtlbwr", "unknown.1"];

const WORDS_PER_ROW: u32 = 40;

fn objdump(file: &std::path::Path) -> Option<String> {
    let tool = std::env::var("LA64_OBJDUMP").unwrap_or("loongarch64-linux-gnu-objdump".into());
    let flags = ["-D", "-b", "binary", "-m", "loongarch64", "-M", "no-aliases"];
    let out = Command::new(&tool).args(flags).arg(file).output().ok()?;
    assert!(out.status.success(), "{tool}: {}", String::from_utf8_lossy(&out.stderr));
    Some(String::from_utf8(out.stdout).expect("objdump prints UTF-8"))
}

/// Mnemonic and operands of an objdump line, without the target it appends to branches.
fn theirs(line: &str) -> Option<(u64, String)> {
    let mut parts = line.splitn(3, '\t');
    let at = u64::from_str_radix(parts.next()?.trim().trim_end_matches(':'), 16).ok()?;
    parts.next()?;
    let text = parts.next()?.split('#').next()?.replace('\t', " ");
    Some((at, text.split_whitespace().collect::<Vec<_>>().join(" ")))
}

#[test]
fn text_equals_objdump() {
    let mut words = Vec::new();
    let mut seed = 7u64;
    for row in &ROWS {
        for _ in 0..WORDS_PER_ROW {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            words.push(row.word | (seed >> 32) as u32 & !row.mask);
        }
    }
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    std::fs::write(file.path(), bytes).expect("write words");
    let Some(output) = objdump(file.path()) else {
        let why = "NOT COMPARED: no LoongArch objdump (set LA64_OBJDUMP), \
                   see crates/la64-linux/scripts/qemu-user.sh";
        // Past the test runner's capture, so that a skip cannot read as a pass.
        return writeln!(std::io::stderr(), "{why}").expect("stderr");
    };
    let theirs: HashMap<u64, String> = output.lines().filter_map(theirs).collect();
    assert_eq!(theirs.len(), words.len(), "objdump printed every word");
    let mut different: HashMap<&str, (usize, String, String)> = HashMap::new();
    for (i, &word) in words.iter().enumerate() {
        let row = isa::decode(word).expect("row").row();
        let ours = isa::disassemble(word).expect("row");
        let gnu = &theirs[&(4 * i as u64)];
        if gnu.starts_with(".word") && UNKNOWN_TO_BINUTILS.contains(&row.mnemonic) {
            continue;
        }
        let plain = ours.replace(", ", ",");
        if plain != gnu.replace(", ", ",") {
            different.entry(row.mnemonic).or_insert((0, ours, gnu.clone())).0 += 1;
        }
    }
    let mut list: Vec<_> = different.into_iter().collect();
    list.sort();
    assert!(list.is_empty(), "{} rows differ: {list:#?}", list.len());
}
