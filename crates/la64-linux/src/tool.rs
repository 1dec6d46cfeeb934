//! What the command line shows of a program without running it.

use crate::error::{Error, Kind, Result, of_program};
use littoral_la64::elf;
use littoral_la64::front::Front;
use littoral_la64::isa;
use std::io::Write;
use std::path::Path;

fn written(result: std::io::Result<()>) -> Result<()> {
    match result {
        // A reader that has seen enough is no failure.
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|e| Error::with_source(Kind::Io, "cannot write the output", e)),
    }
}

/// Writes the instructions of all executable segments: address, word, text, and for branches the
/// target.
///
/// # Errors
/// The file cannot be read, or is not an ELF file of LoongArch or of an architecture in `fronts`.
pub fn disasm(file: &Path, fronts: &[&dyn Front], out: &mut impl Write) -> Result<()> {
    let shown = file.display();
    let bytes = std::fs::read(file)
        .map_err(|e| Error::with_source(Kind::Io, format!("cannot read {shown}"), e))?;
    let front = elf::machine(&bytes)
        .and_then(|machine| fronts.iter().find(|f| f.machine().number == machine.number));
    let machine = front.map_or(elf::LOONGARCH, |f| f.machine());
    let program = elf::parse_for(&bytes, machine).map_err(|e| of_program(shown, e))?;
    for s in program.segments.iter().filter(|s| s.prot & 4 != 0) {
        let code = &bytes[s.offset as usize..(s.offset + s.file_len) as usize];
        written(match front {
            Some(front) => foreign(*front, s.address, code, out),
            None => segment(s.address, code, out),
        })?;
    }
    Ok(())
}

/// As [`segment`], by a front, whose text has the targets of branches.
fn foreign(
    front: &dyn Front,
    address: u64,
    code: &[u8],
    out: &mut impl Write,
) -> std::io::Result<()> {
    let mut at = 0;
    while at < code.len() {
        let pc = address + at as u64;
        let (len, digits, text) = shown(front, pc, &code[at..]);
        let width = if front.lengths() == (4, 4) { 8 } else { 20 };
        writeln!(out, "{pc:12x}: {digits:<width$}  {text}")?;
        at += len;
    }
    out.flush()
}

/// The instruction at `pc`: how many bytes it has, their digits and its text. Where all have four
/// bytes, the digits are those of a word.
pub(crate) fn shown(front: &dyn Front, pc: u64, bytes: &[u8]) -> (usize, String, String) {
    let (_, least) = front.lengths();
    let found = front.text(pc, bytes);
    let len = found.as_ref().map_or(least.min(bytes.len()), |(_, len)| *len).max(1);
    let bytes = bytes.iter().take(len);
    let digits: String = match least {
        4 => bytes.rev().map(|byte| format!("{byte:02x}")).collect(),
        _ => bytes.map(|byte| format!("{byte:02x}")).collect(),
    };
    let kind = if least == 4 { ".word" } else { ".byte" };
    let text = found.map_or_else(|| format!("{kind} 0x{digits}"), |(text, _)| text);
    (len, digits, text)
}

fn segment(address: u64, code: &[u8], out: &mut impl Write) -> std::io::Result<()> {
    for (n, chunk) in code.chunks_exact(4).enumerate() {
        let pc = address + 4 * n as u64;
        let word = u32::from_le_bytes(chunk.try_into().expect("invariant: four bytes"));
        let text = isa::disassemble(word).unwrap_or_else(|| format!(".word {word:#010x}"));
        match target(pc, word) {
            Some(to) => writeln!(out, "{pc:12x}: {word:08x}  {text}  # {to:#x}")?,
            None => writeln!(out, "{pc:12x}: {word:08x}  {text}")?,
        }
    }
    out.flush()
}

/// Where a direct branch goes.
fn target(pc: u64, word: u32) -> Option<u64> {
    let row = isa::decode(word)?.row();
    let relative = (0x40..0x6d).contains(&(row.word >> 24)) && row.stem() != "jirl";
    relative.then(|| pc.wrapping_add(row.immediate(word, 0) as i64 as u64))
}

/// Writes the line for `/proc/sys/fs/binfmt_misc/register`.
///
/// # Errors
/// The output cannot be written.
pub fn binfmt(out: &mut impl Write) -> Result<()> {
    let own = std::env::current_exe()
        .map_err(|e| Error::with_source(Kind::Io, "cannot find this command's own path", e))?;
    const MAGIC: &str = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x02\x01";
    const MASK: &str =
        r"\xff\xff\xff\xff\xff\xff\xff\xfc\x00\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff";
    // binfmt_misc starts `la64 PROGRAM ARGUMENTS`; the wrapper name `la64-run` implies `run`.
    let wrapper = own.with_file_name("la64-run");
    written(writeln!(out, ":la64:M::{MAGIC}:{MASK}:{}:F", wrapper.display()))
}
