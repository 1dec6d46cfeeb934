//! `--dump FILE`: each translated block, its guest instructions beside the code they became: host
//! code of LoongArch instructions, or LoongArch instructions of another architecture's.
//!
//! - The file is appended to, one write per look at the thread's new blocks, so that threads,
//!   children and programs after `execve` share it.

use crate::error::{Error, Kind, Result};
use littoral_la64::interp::Listing;
use littoral_la64::isa;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Bytes of code in a line.
const LINE_BYTES: usize = 16;

/// The file, by its name: a descriptor kept open would be among those of the program, which may
/// close it or put another file in its place.
pub(super) struct Dump(PathBuf);

impl Dump {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn open(path: &Path) -> Result<Dump> {
        let what = |e| {
            let what = format!("cannot open {}, where --dump writes", path.display());
            Error::with_source(Kind::Io, what, e)
        };
        let path = std::path::absolute(path).map_err(what)?;
        append_to(&path).map_err(what)?;
        Ok(Dump(path))
    }

    /// Adds blocks.
    pub(super) fn add(&self, blocks: &[Listing]) {
        if blocks.is_empty() {
            return;
        }
        self.append(&blocks.iter().map(shown).collect::<String>());
    }

    /// Adds text.
    pub(super) fn append(&self, text: &str) {
        // A full disk must not stop the guest.
        let _ = append_to(&self.0).and_then(|mut file| file.write_all(text.as_bytes()));
    }
}

fn append_to(path: &Path) -> std::io::Result<File> {
    File::options().append(true).create(true).open(path)
}

/// A block as text.
fn shown(block: &Listing) -> String {
    let Listing { host, code, instructions, behind } = block;
    let first = instructions.first().map_or(0, |i| i.0);
    let mut text = format!(
        "block {first:#x}: {} instructions, {} bytes at {host:#x}\n",
        instructions.len(),
        code.len()
    );
    let begins = instructions.iter().map(|i| i.2);
    // What stands before the first instruction is the block's entry.
    line(&mut text, "(entry)", &code[..begins.clone().next().unwrap_or(*behind)]);
    let ends = begins.skip(1).chain([*behind]);
    for (&(pc, word, begin), end) in instructions.iter().zip(ends) {
        let name = isa::disassemble(word).unwrap_or_else(|| ".word".into());
        line(&mut text, &format!("{pc:x} {word:08x} {name}"), &code[begin..end]);
    }
    line(&mut text, "(exits, slow ways)", &code[*behind..]);
    text
}

fn line(text: &mut String, what: &str, code: &[u8]) {
    let mut what = what;
    let mut rest = code;
    loop {
        let (now, later) = rest.split_at(rest.len().min(LINE_BYTES));
        let bytes: Vec<String> = now.iter().map(|b| format!("{b:02x}")).collect();
        let _ = writeln!(text, "  {what:<52} {}", bytes.join(" "));
        (what, rest) = ("", later);
        if rest.is_empty() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_stand_beside_their_code() {
        let addi = isa::encode(isa::find("addi.d").unwrap(), &[3, 3, -32]).unwrap();
        let block = Listing {
            host: 0x7000,
            code: (0..40).collect(),
            instructions: vec![(0x1000, addi, 2), (0x1004, 0, 6)],
            behind: 23,
        };
        let text = shown(&block);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "block 0x1000: 2 instructions, 40 bytes at 0x7000");
        assert!(lines[1].starts_with("  (entry)") && lines[1].ends_with(" 00 01"), "{text}");
        assert!(lines[2].starts_with("  1000 02ff8063 addi.d"), "{text}");
        assert!(lines[2].ends_with(" 02 03 04 05"), "{text}");
        assert!(lines[3].ends_with("13 14 15") && lines[3].contains("1004 00000000"), "{text}");
        assert!(lines[4].trim().starts_with("16"), "{text}");
        assert!(lines[5].contains("(exits, slow ways)"), "{text}");
    }
}
