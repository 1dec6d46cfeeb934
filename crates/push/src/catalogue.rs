//! The catalogue: what CATALOGUE returns about the functions that a device has loaded.
//!
//! A header of 16 bytes and 64 bytes per function, little-endian (`docs/design/push.md` has the
//! bytes). A host reads it to find a function of its version and format, and to know what a page
//! of it costs before its first scan.
//!
//! Invariants
//! - Bytes that decode encode to the same bytes. Checked by `catalogues_come_back`.
//! - Names are unique within a version and format. Checked by
//!   `functions_that_cannot_be_listed_are_refused`.

use littoral_base::codec;

use crate::command::{long, word};
use crate::error::{Error, Kind, Result};
use crate::function::Compiled;
use crate::page::Format;

/// `LPC1`.
const MAGIC: u32 = 0x3143_504c;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 16;
/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 64;
/// Bytes of a name.
pub const NAME_BYTES: usize = 24;

/// One function that a device has loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name: 1 to 24 bytes of lower-case letters, digits and hyphens.
    pub name: String,
    /// Its version, counted by its author.
    pub version: u32,
    /// The pages that it takes.
    pub format: Format,
    /// Whether it returns records rather than sums.
    pub returns_rows: bool,
    /// CRC32C of the schema's text.
    pub schema_crc: u32,
    /// CRC32C of its code.
    pub code_crc: u32,
    /// Bytes of its code.
    pub code_bytes: u32,
    /// Pages that it has run on.
    pub pages: u64,
    /// Instructions that it has taken on them, merges included.
    pub instructions: u64,
}

impl Entry {
    /// The entry of a compiled function that has not run yet.
    pub fn of(name: &str, version: u32, compiled: &Compiled) -> Entry {
        let code: Vec<u8> = compiled.words().iter().flat_map(|w| w.to_le_bytes()).collect();
        Entry {
            name: name.to_owned(),
            version,
            format: compiled.format(),
            returns_rows: compiled.returns_rows(),
            schema_crc: compiled.function().schema.crc(),
            code_crc: codec::crc(&code),
            code_bytes: code.len() as u32,
            pages: 0,
            instructions: 0,
        }
    }

    /// The entry of a function that INIT brings, of its compiled code or of the ELF file that
    /// stands for it. Its name is `f-`, the CRC of the code, `-`, the CRC of the schema, both in
    /// hexadecimal digits.
    pub fn of_program(compiled: &Compiled, elf: Option<&[u8]>) -> Entry {
        let mut entry = Entry::of("", 1, compiled);
        if let Some(elf) = elf {
            (entry.code_crc, entry.code_bytes) = (codec::crc(elf), elf.len() as u32);
        }
        entry.name = format!("f-{:08x}-{:08x}", entry.code_crc, entry.schema_crc);
        entry
    }

    /// Mean instructions per page; none before the first page.
    pub fn mean(&self) -> Option<u64> {
        self.instructions.checked_div(self.pages)
    }

    fn is_named(&self) -> bool {
        let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        (1..=NAME_BYTES).contains(&self.name.len()) && self.name.bytes().all(is_plain)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(self.name.as_bytes());
        out.resize(begin + NAME_BYTES, 0);
        for value in [self.version, self.schema_crc, self.code_crc, self.code_bytes] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        for value in [self.pages, self.instructions] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend([self.format.code(), u8::from(self.returns_rows)]);
        out.resize(begin + ENTRY_BYTES, 0);
    }

    fn decode(bytes: &[u8]) -> Result<Entry> {
        let (name, rest) = bytes.split_at(NAME_BYTES);
        let len = name.iter().position(|b| *b == 0).unwrap_or(NAME_BYTES);
        let Some(format) = Format::from_code(rest[32]) else {
            return Err(corrupt(format!("format {} of a function is unknown", rest[32])));
        };
        let entry = Entry {
            name: String::from_utf8_lossy(&name[..len]).into_owned(),
            version: word(rest, 0),
            format,
            returns_rows: rest[33] == 1,
            schema_crc: word(rest, 4),
            code_crc: word(rest, 8),
            code_bytes: word(rest, 12),
            pages: long(rest, 16),
            instructions: long(rest, 24),
        };
        let is_zero = |bytes: &[u8]| bytes.iter().all(|b| *b == 0);
        if !entry.is_named() || rest[33] > 1 || !is_zero(&name[len..]) || !is_zero(&rest[34..]) {
            return Err(corrupt("a name or a reserved byte of a catalogue's entry".to_owned()));
        }
        Ok(entry)
    }
}

fn corrupt(what: String) -> Error {
    Error::new(Kind::Corrupt, what)
}

/// The bytes of a catalogue.
///
/// # Errors
/// `Kind::Usage` for a name that is empty, too long or not plain, and for a function that is there
/// twice.
pub fn encode(entries: &[Entry]) -> Result<Vec<u8>> {
    if let Some(entry) = entries.iter().find(|e| !e.is_named()) {
        let what = format!("`{}` does not name a function: use a-z, 0-9 and -", entry.name);
        return Err(Error::new(Kind::Usage, what));
    }
    if let Some(entry) = twice(entries) {
        let what = format!("`{}` of version {} is loaded twice", entry.name, entry.version);
        return Err(Error::new(Kind::Usage, what));
    }
    let mut out = Vec::with_capacity(HEADER_BYTES + entries.len() * ENTRY_BYTES);
    for value in [MAGIC, entries.len() as u32, ENTRY_BYTES as u32, 0] {
        out.extend_from_slice(&value.to_le_bytes());
    }
    entries.iter().for_each(|e| e.encode(&mut out));
    Ok(out)
}

/// The functions of a catalogue's bytes.
///
/// # Errors
/// `Kind::Corrupt` for another magic or length, and for an entry that does not decode or is there
/// twice.
pub fn decode(bytes: &[u8]) -> Result<Vec<Entry>> {
    if bytes.len() < HEADER_BYTES || word(bytes, 0) != MAGIC {
        return Err(corrupt("no catalogue: the magic LPC1 is missing".to_owned()));
    }
    let (header, rest) = bytes.split_at(HEADER_BYTES);
    let is_whole = rest.len() as u64 == u64::from(word(header, 4)) * ENTRY_BYTES as u64;
    if !is_whole || word(header, 8) != ENTRY_BYTES as u32 || word(header, 12) != 0 {
        return Err(corrupt("a catalogue whose header contradicts its length".to_owned()));
    }
    let entries = rest.chunks(ENTRY_BYTES).map(Entry::decode).collect::<Result<Vec<Entry>>>()?;
    match twice(&entries) {
        Some(entry) => Err(corrupt(format!("the catalogue has `{}` twice", entry.name))),
        None => Ok(entries),
    }
}

/// A function that is there twice.
fn twice(entries: &[Entry]) -> Option<&Entry> {
    let mut seen = std::collections::BTreeSet::new();
    entries.iter().find(|e| !seen.insert((&e.name, e.version, e.format.code())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Query;
    use proptest::prelude::*;

    fn entry(name: &str) -> Entry {
        let query = Query::q6().unwrap();
        let compiled = Compiled::new(&query.whole, Format::Columns).unwrap();
        Entry { pages: 3, instructions: 10, ..Entry::of(name, 2, &compiled) }
    }

    #[test]
    fn an_entry_has_its_bytes_where_the_page_says() {
        let bytes = encode(&[entry("q6")]).unwrap();
        assert_eq!(bytes.len(), HEADER_BYTES + ENTRY_BYTES);
        assert_eq!(&bytes[..9], b"LPC1\x01\0\0\0\x40");
        let own = &bytes[HEADER_BYTES..];
        assert_eq!((&own[..3], own[24], own[40], own[48]), (&b"q6\0"[..], 2, 3, 10));
        assert_eq!((own[56], own[57], &own[58..]), (2, 0, &[0; 6][..]));
        assert_eq!(entry("q6").mean(), Some(3));
        assert_eq!(Entry { pages: 0, ..entry("q6") }.mean(), None);
    }

    #[test]
    fn functions_that_cannot_be_listed_are_refused() {
        for name in ["", "Q6", "a b", "a-name-of-twenty-five-byte"] {
            assert_eq!(encode(&[entry(name)]).unwrap_err().kind(), Kind::Usage, "{name}");
        }
        assert!(encode(&[entry("q6"), entry("q6")]).unwrap_err().to_string().contains("twice"));
        let mut bytes = encode(&[entry("q6"), entry("q1")]).unwrap();
        bytes.copy_within(HEADER_BYTES..HEADER_BYTES + ENTRY_BYTES, HEADER_BYTES + ENTRY_BYTES);
        assert!(decode(&bytes).unwrap_err().to_string().contains("twice"));
    }

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn catalogues_come_back(
            names in proptest::collection::btree_set("[a-z0-9-]{1,24}", 0..4),
            version: u32, pages: u64, instructions: u64, at in 0usize..272, flip in 1u8..=255,
        ) {
            let own = |name: &String| Entry { version, pages, instructions, ..entry(name) };
            let entries: Vec<Entry> = names.iter().map(own).collect();
            let mut bytes = encode(&entries).unwrap();
            prop_assert_eq!(&decode(&bytes).unwrap(), &entries);
            prop_assert!(decode(&bytes[..bytes.len() - 1]).is_err());
            let at = at % bytes.len();
            bytes[at] ^= flip;
            if let Ok(other) = decode(&bytes) {
                prop_assert_eq!(encode(&other).unwrap(), bytes);
                prop_assert_ne!(other, entries);
            }
        }
    }
}
