//! Names and addresses of a program's functions and data, from its symbol table.
//!
//! - `.symtab` counts if there is one, `.dynsym` otherwise; a stripped program has neither and no
//!   names.
//! - A global name hides a local one of the same spelling.
//! - Names take no more memory than a few files: symbols may share a name's bytes. Checked by
//!   `names_that_symbols_share_are_bounded`.

use std::collections::BTreeMap;

use littoral_base::mutant;

use super::{Reader, Result, bad};

const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: u64 = 24;
const SYMTAB: u32 = 2;
const DYNSYM: u32 = 11;
/// Most bytes of all names together, over those of the file. An entry of the table is longer than
/// most names, so that no linker's file comes near.
const NAMES_MAX: usize = 8;

/// A section header, as far as symbols need it.
struct Section {
    kind: u32,
    offset: u64,
    len: u64,
    link: u32,
}

fn section(r: &Reader<'_>, table: u64, n: u64) -> Result<Section> {
    let at = table.checked_add(n * SECTION_BYTES as u64);
    let at = at.ok_or_else(|| bad("section headers out of range"))? as usize;
    let (offset, len) = (r.u64(at + 24)?, r.u64(at + 32)?);
    Ok(Section { kind: r.u32(at + 4)?, offset, len, link: r.u32(at + 40)? })
}

/// A defined symbol.
struct Symbol {
    name: String,
    address: u64,
    len: u64,
    is_function: bool,
    is_local: bool,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its address, before any load bias.
    pub address: u64,
    /// Bytes of its code.
    pub len: u64,
    /// Its name.
    pub name: String,
}

/// Defined symbols and their addresses, before any load bias.
///
/// # Errors
/// [`Kind::BadElf`](crate::error::Kind::BadElf) for tables that leave the file.
pub fn symbols(file: &[u8]) -> Result<BTreeMap<String, u64>> {
    let (mut global, mut local) = (BTreeMap::new(), BTreeMap::new());
    for symbol in defined(file)? {
        let into = if symbol.is_local { &mut local } else { &mut global };
        into.insert(symbol.name, symbol.address);
    }
    local.append(&mut global);
    Ok(local)
}

/// Functions whose length is known, by address; of several names of one place the first.
///
/// # Errors
/// As [`symbols`].
pub fn functions(file: &[u8]) -> Result<Vec<Function>> {
    let is_known = |s: &Symbol| s.is_function && s.len > 0;
    let function = |s: Symbol| Function { address: s.address, len: s.len, name: s.name };
    let mut list: Vec<Function> =
        defined(file)?.into_iter().filter(is_known).map(function).collect();
    list.sort_by_key(|f| f.address);
    list.dedup_by_key(|f| f.address);
    Ok(list)
}

/// The symbols that name a place.
fn defined(file: &[u8]) -> Result<Vec<Symbol>> {
    const FUNCTION: u8 = 2;
    let r = Reader(file);
    let (table, count) = (r.u64(40)?, u64::from(r.u16(60)?));
    if table == 0 || count == 0 {
        return Ok(Vec::new());
    }
    let sections: Vec<Section> =
        (0..count).map(|n| section(&r, table, n)).collect::<Result<_>>()?;
    let of = |kind| sections.iter().find(|s| s.kind == kind);
    let Some(symbols) = of(SYMTAB).or_else(|| of(DYNSYM)) else { return Ok(Vec::new()) };
    let strings = sections.get(symbols.link as usize);
    let strings = strings.ok_or_else(|| bad("the symbols' names are in no section"))?;
    let names = bytes(file, strings, "symbol names")?;
    let entries = Reader(bytes(file, symbols, "symbols")?);
    let (mut list, mut held) = (Vec::new(), 0);
    for n in 0..symbols.len / SYMBOL_BYTES {
        let at = (n * SYMBOL_BYTES) as usize;
        let (name, [info, _], index) =
            (entries.u32(at)?, entries.bytes::<2>(at + 4)?, entries.u16(at + 6)?);
        // Undefined symbols, sections and files name no place.
        if index == 0 || info & 15 > FUNCTION {
            continue;
        }
        let name = name_at(names, name)?;
        held += name.len();
        if held > file.len().saturating_mul(NAMES_MAX) && !mutant!("la64_names_without_bound") {
            return Err(bad("the symbols' names are longer than eight files"));
        }
        if !name.is_empty() {
            let (address, len) = (entries.u64(at + 8)?, entries.u64(at + 16)?);
            let (is_function, is_local) = (info & 15 == FUNCTION, info >> 4 == 0);
            list.push(Symbol { name, address, len, is_function, is_local });
        }
    }
    Ok(list)
}

fn bytes<'a>(file: &'a [u8], s: &Section, what: &str) -> Result<&'a [u8]> {
    let end = s.offset.checked_add(s.len).filter(|&e| e <= file.len() as u64);
    let end =
        end.ok_or_else(|| bad(format!("truncated: {what} at {:#x} leave the file", s.offset)))?;
    Ok(&file[s.offset as usize..end as usize])
}

fn name_at(names: &[u8], at: u32) -> Result<String> {
    let rest = names.get(at as usize..).ok_or_else(|| bad("a symbol's name is out of range"))?;
    let name = rest.split(|&b| b == 0).next().unwrap_or(&[]);
    Ok(String::from_utf8_lossy(name).into_owned())
}
