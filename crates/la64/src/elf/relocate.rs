//! Relocations of a position-independent program, as a loader without shared libraries applies
//! them.
//!
//! - Only `R_LARCH_RELATIVE` is applied, from `DT_RELA`, `DT_JMPREL` and `DT_RELR`. Any other type
//!   needs a symbol of a library or a resolver and is refused by name.
//! - Every offset is checked: the tables lie in loaded segments, and so does each word that is
//!   changed.

use super::{Elf, Reader, Result, bad};

const NEEDED: u64 = 1;
const PLT_REL_SIZE: u64 = 2;
const RELA: u64 = 7;
const RELA_SIZE: u64 = 8;
const REL: u64 = 17;
const JMP_REL: u64 = 23;
const RELR_SIZE: u64 = 35;
const RELR: u64 = 36;
const ENTRY_BYTES: u64 = 24;
const RELATIVE: u32 = 3;

/// Names of the dynamic relocation types, by number (LoongArch ELF psABI 2.30, table 6).
const NAMES: [&str; 15] = [
    "R_LARCH_NONE",
    "R_LARCH_32",
    "R_LARCH_64",
    "R_LARCH_RELATIVE",
    "R_LARCH_COPY",
    "R_LARCH_JUMP_SLOT",
    "R_LARCH_TLS_DTPMOD32",
    "R_LARCH_TLS_DTPMOD64",
    "R_LARCH_TLS_DTPREL32",
    "R_LARCH_TLS_DTPREL64",
    "R_LARCH_TLS_TPREL32",
    "R_LARCH_TLS_TPREL64",
    "R_LARCH_IRELATIVE",
    "R_LARCH_TLS_DESC32",
    "R_LARCH_TLS_DESC64",
];

/// A word that holds an address, before any load bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relative {
    /// Where the word is.
    pub at: u64,
    /// The address that it is to hold; `None`: the address that the file's own word holds.
    pub target: Option<u64>,
}

/// What the dynamic section says of relocations.
#[derive(Default)]
struct Dynamic {
    rela: [u64; 2],
    plt: [u64; 2],
    relr: [u64; 2],
}

/// The words of `file` that change with the load bias.
///
/// # Errors
/// [`Kind::BadElf`](crate::error::Kind::BadElf) for a program that needs a shared library or a
/// relocation of another type, and for tables that lie outside the loaded segments.
pub fn relatives(file: &[u8], elf: &Elf) -> Result<Vec<Relative>> {
    let Some((offset, len)) = elf.dynamic else { return Ok(Vec::new()) };
    let dynamic = dynamic(&Reader(file), offset, len)?;
    let mut found = Vec::new();
    for [at, len] in [dynamic.rela, dynamic.plt] {
        entries(file, elf, at, len, &mut found)?;
    }
    packed(file, elf, dynamic.relr, &mut found)?;
    for r in &found {
        let inside = |s: &super::Segment| {
            r.at >= s.address && r.at.checked_add(8).is_some_and(|e| e <= s.address + s.memory_len)
        };
        if !elf.segments.iter().any(inside) {
            return Err(bad(format!("a relocation at {:#x} is outside the segments", r.at)));
        }
    }
    Ok(found)
}

fn dynamic(r: &Reader<'_>, offset: u64, len: u64) -> Result<Dynamic> {
    let mut found = Dynamic::default();
    for n in 0..len / 16 {
        let at = (offset + 16 * n) as usize;
        let (tag, value) = (r.u64(at)?, r.u64(at + 8)?);
        match tag {
            0 => break,
            NEEDED => return Err(bad("the program needs a shared library; link it statically")),
            REL => return Err(bad("relocations without addends (DT_REL) do not exist here")),
            RELA => found.rela[0] = value,
            RELA_SIZE => found.rela[1] = value,
            JMP_REL => found.plt[0] = value,
            PLT_REL_SIZE => found.plt[1] = value,
            RELR => found.relr[0] = value,
            RELR_SIZE => found.relr[1] = value,
            _ => {}
        }
    }
    Ok(found)
}

/// The file's bytes of `len` loaded bytes at `address`.
fn loaded<'a>(file: &'a [u8], elf: &Elf, address: u64, len: u64) -> Result<&'a [u8]> {
    let offset = elf.segments.iter().find_map(|s| {
        let into = address.checked_sub(s.address)?;
        (into.checked_add(len)? <= s.file_len).then_some(s.offset + into)
    });
    let missing = || bad(format!("relocations at {address:#x} are outside the segments"));
    let offset = offset.ok_or_else(missing)? as usize;
    Ok(&file[offset..offset + len as usize])
}

fn entries(
    file: &[u8],
    elf: &Elf,
    address: u64,
    len: u64,
    found: &mut Vec<Relative>,
) -> Result<()> {
    if len == 0 {
        return Ok(());
    }
    let table = Reader(loaded(file, elf, address, len)?);
    for n in 0..len / ENTRY_BYTES {
        let at = (n * ENTRY_BYTES) as usize;
        let (offset, info, addend) = (table.u64(at)?, table.u64(at + 8)?, table.u64(at + 16)?);
        match info as u32 {
            0 => {}
            RELATIVE => found.push(Relative { at: offset, target: Some(addend) }),
            other => {
                let name = NAMES.get(other as usize).copied();
                let name = name.map_or_else(|| format!("type {other}"), str::to_owned);
                let what = "only R_LARCH_RELATIVE is applied; link the program statically";
                return Err(bad(format!("relocation {name} at {offset:#x}: {what}")));
            }
        }
    }
    Ok(())
}

/// `DT_RELR`: an even word is the address of a word to relocate, an odd one a bitmap of the 63
/// words that follow the last one named.
fn packed(
    file: &[u8],
    elf: &Elf,
    [address, len]: [u64; 2],
    found: &mut Vec<Relative>,
) -> Result<()> {
    if len == 0 {
        return Ok(());
    }
    let table = Reader(loaded(file, elf, address, len)?);
    let mut next = 0u64;
    for n in 0..len / 8 {
        let word = table.u64(8 * n as usize)?;
        if word & 1 == 0 {
            found.push(Relative { at: word, target: None });
            next = word.wrapping_add(8);
            continue;
        }
        let named = (0..63).filter(|bit| word >> (bit + 1) & 1 == 1);
        let ats = named.map(|bit| next.wrapping_add(8 * bit));
        found.extend(ats.map(|at| Relative { at, target: None }));
        next = next.wrapping_add(8 * 63);
    }
    Ok(())
}
