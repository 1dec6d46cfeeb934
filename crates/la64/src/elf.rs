//! A reader of ELF files that believes nothing: every offset and size is checked before use, and a
//! contradiction is an error that names it.

use crate::error::{Error, Kind, Result};

pub mod relocate;
pub mod symbols;

/// An architecture as ELF files name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its number.
    pub number: u16,
    /// What it is called.
    pub name: &'static str,
}

/// LoongArch.
pub const LOONGARCH: Machine = Machine { number: 258, name: "LoongArch" };
const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const INTERP: u32 = 3;
const GNU_STACK: u32 = 0x6474_e551;
const HEADER_LEN: usize = 64;
const SEGMENT_LEN: usize = 56;

/// A loadable segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Place in the file.
    pub offset: u64,
    /// Address, before any load bias.
    pub address: u64,
    /// Bytes from the file.
    pub file_len: u64,
    /// Bytes in memory, the rest zero.
    pub memory_len: u64,
    /// PROT_READ 1, PROT_WRITE 2, PROT_EXEC 4.
    pub prot: u32,
}

/// What the program headers say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elf {
    /// Entry address, before any load bias.
    pub entry: u64,
    /// True if the file may be loaded anywhere.
    pub position_independent: bool,
    /// Loadable segments in file order.
    pub segments: Vec<Segment>,
    /// Path of the program's interpreter.
    pub interpreter: Option<String>,
    /// Offset and length of the dynamic section in the file.
    pub dynamic: Option<(u64, u64)>,
    /// Address of the program headers, before any load bias; 0 if they are not loaded.
    pub headers_address: u64,
    /// Number of program headers.
    pub headers_count: u64,
    /// The program executes code on its stack (PT_GNU_STACK).
    pub executes_stack: bool,
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> Result<[u8; N]> {
        let slice = at.checked_add(N).and_then(|end| self.0.get(at..end));
        let slice = slice
            .ok_or_else(|| bad(format!("truncated: {N} bytes at offset {at:#x} are missing")))?;
        Ok(slice.try_into().expect("invariant: N bytes"))
    }

    fn u16(&self, at: usize) -> Result<u16> {
        Ok(u16::from_le_bytes(self.bytes(at)?))
    }

    fn u32(&self, at: usize) -> Result<u32> {
        Ok(u32::from_le_bytes(self.bytes(at)?))
    }

    fn u64(&self, at: usize) -> Result<u64> {
        Ok(u64::from_le_bytes(self.bytes(at)?))
    }
}

fn bad(what: impl Into<String>) -> Error {
    Error::new(Kind::BadElf, what)
}

/// Reads the headers of a LoongArch ELF file.
///
/// # Errors
/// As [`parse_for`].
pub fn parse(file: &[u8]) -> Result<Elf> {
    parse_for(file, LOONGARCH)
}

/// Reads the headers of an ELF file for `wanted`.
///
/// # Errors
/// [`Kind::BadElf`] if it is none, is not that architecture's 64-bit little-endian kind, is
/// truncated, or has segments that overlap or leave the address space.
pub fn parse_for(file: &[u8], wanted: Machine) -> Result<Elf> {
    parse_head(file, file.len() as u64, wanted)
}

/// Reads the headers of an ELF file of `len` bytes for `wanted` from the first ones of them.
///
/// # Errors
/// As [`parse_for`]; a file whose headers are not among the first bytes counts as truncated.
pub fn parse_head(head: &[u8], len: u64, wanted: Machine) -> Result<Elf> {
    let r = Reader(head);
    let ident: [u8; 16] = r.bytes(0).map_err(|_| bad("too short for an ELF file"))?;
    if ident[..4] != *b"\x7fELF" {
        return Err(bad("not an ELF file (it does not start with 7f 45 4c 46)"));
    }
    let (kind, machine) = (r.u16(16)?, r.u16(18)?);
    if machine != wanted.number {
        let Machine { number, name } = wanted;
        return Err(bad(format!("for machine {machine}, not {name} ({number})")));
    }
    if ident[4] != 2 || ident[5] != 1 {
        return Err(bad("not a 64-bit little-endian file"));
    }
    if kind != 2 && kind != 3 {
        return Err(bad(format!("ELF type {kind} is neither an executable nor a shared object")));
    }
    let (table, entry_len, count) = (r.u64(32)? as usize, r.u16(54)?, r.u16(56)?);
    if usize::from(entry_len) != SEGMENT_LEN {
        return Err(bad(format!("program headers of {entry_len} bytes, not {SEGMENT_LEN}")));
    }
    let mut elf = Elf {
        entry: r.u64(24)?,
        position_independent: kind == 3,
        segments: Vec::new(),
        interpreter: None,
        dynamic: None,
        headers_address: 0,
        headers_count: count.into(),
        executes_stack: false,
    };
    for n in 0..usize::from(count) {
        let at = table
            .checked_add(n * SEGMENT_LEN)
            .ok_or_else(|| bad("program headers out of range"))?;
        header(&r, at, len, &mut elf)?;
    }
    check(&elf)?;
    elf.headers_address = headers_address(&elf, table as u64);
    Ok(elf)
}

/// The program header at an offset, in a file of `len` bytes.
fn header(r: &Reader<'_>, at: usize, len: u64, elf: &mut Elf) -> Result<()> {
    let (kind, flags, offset) = (r.u32(at)?, r.u32(at + 4)?, r.u64(at + 8)?);
    let (address, file_len, memory_len) = (r.u64(at + 16)?, r.u64(at + 32)?, r.u64(at + 40)?);
    let end = offset.checked_add(file_len);
    let file = |what| {
        end.filter(|&e| e <= len)
            .ok_or_else(|| bad(format!("truncated: {what} at {offset:#x} leaves the file")))
    };
    match kind {
        LOAD if memory_len > 0 => {
            file("a segment")?;
            let prot = flags >> 2 & 1 | flags & 2 | (flags & 1) << 2;
            elf.segments.push(Segment { offset, address, file_len, memory_len, prot });
        }
        DYNAMIC => {
            file("the dynamic section")?;
            elf.dynamic = Some((offset, file_len));
        }
        INTERP => {
            let what = "the interpreter's name";
            let end = file(what)?;
            let bytes = r.0.get(offset as usize..end as usize);
            let bytes = bytes.ok_or_else(|| bad(format!("truncated: {what} is missing")))?;
            let bytes = bytes.split(|&b| b == 0).next().unwrap_or(&[]);
            elf.interpreter = Some(String::from_utf8_lossy(bytes).into_owned());
        }
        GNU_STACK => elf.executes_stack = flags & 1 != 0,
        _ => {}
    }
    Ok(())
}

fn check(elf: &Elf) -> Result<()> {
    if elf.segments.is_empty() {
        return Err(bad("nothing to load: no PT_LOAD segment"));
    }
    let mut last = 0;
    for s in &elf.segments {
        let end = s.address.checked_add(s.memory_len).filter(|&e| e < 1 << 47);
        let end = end
            .ok_or_else(|| bad(format!("segment at {:#x} leaves the address space", s.address)))?;
        if s.file_len > s.memory_len {
            return Err(bad(format!(
                "segment at {:#x} is larger in the file than in memory",
                s.address
            )));
        }
        if s.address < last {
            return Err(bad(format!("segment at {:#x} overlaps the one before it", s.address)));
        }
        last = end;
    }
    Ok(())
}

fn headers_address(elf: &Elf, table: u64) -> u64 {
    let holds = |s: &&Segment| table >= s.offset && table < s.offset + s.file_len;
    elf.segments.iter().find(holds).map_or(0, |s| s.address + (table - s.offset))
}

/// The architecture of a little-endian ELF file.
pub fn machine(file: &[u8]) -> Option<Machine> {
    let number = Reader(file).u16(18).ok()?;
    file.starts_with(b"\x7fELF").then_some(Machine { number, name: "this architecture" })
}

/// True if the bytes begin like a LoongArch ELF file.
pub fn is_loongarch(head: &[u8]) -> bool {
    head.len() >= HEADER_LEN
        && head.starts_with(b"\x7fELF")
        && head[18..20] == LOONGARCH.number.to_le_bytes()
}

/// A minimal executable: one segment with `code`, loaded at `address`, entered at its start.
/// Tests and the differential fuzzer make their programs with it.
pub fn executable(address: u64, code: &[u32]) -> Vec<u8> {
    executable_with(address, code, 0)
}

/// As [`executable`], with at least `memory_len` bytes of memory from `address` on.
pub fn executable_with(address: u64, code: &[u32], memory_len: u64) -> Vec<u8> {
    // Flags: double-float ABI, object ABI version 1.
    executable_for((LOONGARCH, 0x43), address, code, memory_len)
}

/// As [`executable_with`], for an architecture with these flags in the file's header.
pub fn executable_for(
    (machine, flags): (Machine, u32),
    address: u64,
    code: &[u32],
    memory_len: u64,
) -> Vec<u8> {
    let len = (HEADER_LEN + SEGMENT_LEN + 4 * code.len()) as u64;
    let entry = address + (HEADER_LEN + SEGMENT_LEN) as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    for half in [2u16, machine.number] {
        file.extend(half.to_le_bytes());
    }
    file.extend(1u32.to_le_bytes());
    for word in [entry, HEADER_LEN as u64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(flags.to_le_bytes());
    for half in [HEADER_LEN as u16, SEGMENT_LEN as u16, 1, 64, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    file.extend(LOAD.to_le_bytes());
    file.extend(7u32.to_le_bytes());
    for word in [0, address, address, len, len.max(memory_len), 0x1000] {
        file.extend(word.to_le_bytes());
    }
    file.extend(code.iter().flat_map(|w| w.to_le_bytes()));
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minimal_executable_reads_back() {
        let elf = parse(&executable(0x1_2000_0000, &[0x0382_b80b])).unwrap();
        assert_eq!(elf.entry, 0x1_2000_0078);
        assert_eq!((elf.segments.len(), elf.headers_address), (1, 0x1_2000_0040));
        assert_eq!(elf.segments[0].prot, 7);
    }

    /// The first bytes are enough if the headers are among them, and say the same as all.
    #[test]
    fn the_first_bytes_are_enough() {
        let file = executable(0x1_2000_0000, &[0; 400]);
        let (whole, len) = (parse(&file).unwrap(), file.len() as u64);
        for head in [120, 121, 500, file.len()] {
            assert_eq!(parse_head(&file[..head], len, LOONGARCH).unwrap(), whole);
            assert!(parse_head(&file[..head], len - 1, LOONGARCH).is_err(), "a segment is cut");
        }
        assert!(parse_head(&file[..111], len, LOONGARCH).is_err());
    }

    #[test]
    fn every_truncation_and_every_flipped_byte_is_an_error_or_a_sane_file() {
        let good = executable(0x1_2000_0000, &[0; 4]);
        for len in 0..good.len() {
            let error = parse(&good[..len]).unwrap_err();
            assert_eq!(error.kind(), Kind::BadElf, "{error}");
        }
        for at in 0..120 {
            for bit in 0..8 {
                let mut file = good.clone();
                file[at] ^= 1 << bit;
                if let Ok(elf) = parse(&file) {
                    assert!(
                        elf.segments.iter().all(|s| s.offset + s.file_len <= file.len() as u64)
                    );
                }
            }
        }
    }
}
