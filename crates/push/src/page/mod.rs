//! Pages of records as page functions read them: text rows or columns, checked and self-describing.
//! The bytes are those of `docs/design/push-pages.md`.
//!
//! Invariants
//! - What was written reads back, in both formats. Checked by `records_read_back_from_pages`.
//! - No damage of a page's valid bytes passes [`check`]. Checked by `damaged_pages_are_refused`.
//!
//! STORE writes pages through [`Writer`]; the host and the reference interpreter read them with
//! [`read`]; page functions read them in place.

pub(crate) mod columns;
pub mod schema;
pub(crate) mod text;

pub use columns::{Directory, directory};
pub use schema::{Column, ColumnKind, Record, Schema, Value};

use crate::error::{Error, Kind, Result};
use littoral_base::codec;

/// Bytes of the header.
pub const HEADER_LEN: usize = 32;
/// Place of the checksum of a page.
pub(crate) const CHECKSUM_AT: usize = 28;
/// Most records of a page: page functions sum so many values without an overflow. Only records of
/// texts, which take no byte of a column page, come near it.
pub const ROWS_MAX: usize = (1 << 16) - 1;
/// The first four bytes of a page: `LPG1`.
pub const MAGIC: u32 = 0x3147_504c;

/// How records lie in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Rows of text.
    Text,
    /// One array per column.
    Columns,
}

impl Format {
    /// Its word on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Columns => "columns",
        }
    }

    /// Its number in headers.
    pub fn code(self) -> u8 {
        match self {
            Format::Text => 1,
            Format::Columns => 2,
        }
    }

    /// The format of that number.
    pub fn from_code(code: u8) -> Option<Format> {
        [Format::Text, Format::Columns].into_iter().find(|f| f.code() == code)
    }
}

/// What a page says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How its records lie.
    pub format: Format,
    /// Its size in bytes.
    pub page_bytes: usize,
    /// Number of records.
    pub rows: usize,
    /// Bytes in use from its start.
    pub valid_bytes: usize,
    /// Its place in the data set.
    pub number: u64,
}

pub(crate) fn u32_at(page: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(page[at..at + 4].try_into().expect("invariant: four bytes"))
}

fn corrupt(what: impl Into<String>) -> Error {
    Error::new(Kind::Corrupt, what)
}

/// Verifies a page against its schema: magic, size, checksums, and that every offset and row a
/// function will follow lies inside the valid bytes.
///
/// # Errors
/// [`Kind::Corrupt`] naming what does not verify.
pub fn check(page: &[u8], schema: &Schema) -> Result<Header> {
    let header = header_of(page, schema.columns.len())?;
    if u32_at(page, 24) != schema.crc() {
        let what =
            format!("page {}: written under another schema; read it with that", header.number);
        return Err(corrupt(what));
    }
    if u32_at(page, CHECKSUM_AT) != checksum(page, header.valid_bytes) {
        let what = format!("page {}: its checksum does not hold; read it again", header.number);
        return Err(corrupt(what));
    }
    let fault = match header.format {
        Format::Text => text::fault_of(&page[HEADER_LEN..header.valid_bytes], &header, schema),
        Format::Columns => columns::fault_of(&page[..header.valid_bytes], &header, schema),
    };
    match fault {
        Some(what) => Err(corrupt(format!("page {}: {what}", header.number))),
        None => Ok(header),
    }
}

fn header_of(page: &[u8], columns: usize) -> Result<Header> {
    if page.len() < HEADER_LEN || u32_at(page, 0) != MAGIC {
        return Err(corrupt("no page: the magic LPG1 is missing"));
    }
    let number = u64::from_le_bytes(page[16..24].try_into().expect("invariant: eight bytes"));
    let Some(format) = Format::from_code(page[4]) else {
        return Err(corrupt(format!("page {number}: format {} is unknown", page[4])));
    };
    let valid_bytes = u32_at(page, 12) as usize;
    let sane = (12..=16).contains(&page[5])
        && page.len() == 1 << page[5]
        && (HEADER_LEN..=page.len()).contains(&valid_bytes)
        && usize::from(u16::from_le_bytes([page[6], page[7]])) == columns;
    if !sane {
        let what = format!("page {number}: size, valid size or columns contradict the page");
        return Err(corrupt(what));
    }
    let rows = u32_at(page, 8) as usize;
    Ok(Header { format, page_bytes: page.len(), rows, valid_bytes, number })
}

fn checksum(page: &[u8], valid_bytes: usize) -> u32 {
    codec::crc_append(codec::crc(&page[..CHECKSUM_AT]), &page[HEADER_LEN..valid_bytes])
}

/// Writes the header of a page whose other bytes are in place.
fn seal(page: &mut [u8], header: &Header, schema: &Schema) {
    assert!(header.valid_bytes <= page.len() && page.len().is_power_of_two());
    page[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    page[4] = header.format.code();
    page[5] = page.len().ilog2() as u8;
    page[6..8].copy_from_slice(&(schema.columns.len() as u16).to_le_bytes());
    page[8..12].copy_from_slice(&(header.rows as u32).to_le_bytes());
    page[12..16].copy_from_slice(&(header.valid_bytes as u32).to_le_bytes());
    page[16..24].copy_from_slice(&header.number.to_le_bytes());
    page[24..28].copy_from_slice(&schema.crc().to_le_bytes());
    let crc = checksum(page, header.valid_bytes);
    page[CHECKSUM_AT..HEADER_LEN].copy_from_slice(&crc.to_le_bytes());
}

/// Packs records into pages.
#[derive(Debug)]
pub struct Writer {
    schema: Schema,
    format: Format,
    page_bytes: usize,
    number: u64,
    text: Vec<u8>,
    rows: usize,
    columns: columns::Builder,
}

impl Writer {
    /// A writer of pages of `page_bytes` bytes.
    ///
    /// # Errors
    /// [`Kind::Usage`] unless the size is a power of two in 4096 to 65536.
    pub fn new(schema: &Schema, format: Format, page_bytes: usize) -> Result<Writer> {
        if !page_bytes.is_power_of_two() || !(4096..=65536).contains(&page_bytes) {
            let what = format!("pages of {page_bytes} bytes: choose 4, 8, 16, 32 or 64 KiB");
            return Err(Error::new(Kind::Usage, what));
        }
        Ok(Writer {
            schema: schema.clone(),
            format,
            page_bytes,
            number: 0,
            text: Vec::new(),
            rows: 0,
            columns: columns::Builder::new(schema),
        })
    }

    /// Adds a record; gives back the page that it did not fit into any more.
    ///
    /// # Errors
    /// [`Kind::Usage`] for a record that the schema does not allow or that exceeds a page.
    pub fn push(&mut self, record: &[Value]) -> Result<Option<Vec<u8>>> {
        if let Some(fault) = schema::fault_of(&self.schema, record) {
            let what = format!("record {} of page {}: {fault}", self.rows, self.number);
            return Err(Error::new(Kind::Usage, what));
        }
        let room = self.page_bytes - HEADER_LEN;
        let (fits, alone) = match self.format {
            Format::Text => {
                let mut row = Vec::new();
                text::write(&self.schema, record, &mut row);
                let fits = self.text.len() + row.len() <= room;
                let full = if fits { None } else { self.take() };
                let alone = row.len() <= room;
                self.text.extend(row);
                (full, alone)
            }
            Format::Columns => {
                let fits = self.columns.bytes_with(Some(record)) <= room && self.rows < ROWS_MAX;
                let full = if fits { None } else { self.take() };
                let alone = self.columns.bytes_with(Some(record)) <= room;
                self.columns.push(record);
                (full, alone)
            }
        };
        if !alone {
            (self.text, self.columns) = (Vec::new(), columns::Builder::new(&self.schema));
            let what =
                format!("a record exceeds a page of {} bytes: use larger pages", self.page_bytes);
            return Err(Error::new(Kind::Usage, what));
        }
        self.rows += 1;
        Ok(fits)
    }

    /// The last page; `None` if every record is in an earlier one.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        if self.rows == 0 {
            return None;
        }
        let mut page = vec![0; self.page_bytes];
        let used = match self.format {
            Format::Text => {
                page[HEADER_LEN..][..self.text.len()].copy_from_slice(&self.text);
                self.text.len()
            }
            Format::Columns => self.columns.write(&mut page),
        };
        let header = Header {
            format: self.format,
            page_bytes: self.page_bytes,
            rows: self.rows,
            valid_bytes: HEADER_LEN + used,
            number: self.number,
        };
        seal(&mut page, &header, &self.schema);
        debug_assert!(check(&page, &self.schema).is_ok_and(|found| found == header), "{header:?}");
        self.text.clear();
        self.columns = columns::Builder::new(&self.schema);
        (self.rows, self.number) = (0, self.number + 1);
        Some(page)
    }
}

/// Packs records into pages, all at once.
///
/// # Errors
/// As [`Writer::push`].
pub fn write_all(
    schema: &Schema,
    format: Format,
    page_bytes: usize,
    records: impl IntoIterator<Item = Record>,
) -> Result<Vec<Vec<u8>>> {
    let mut writer = Writer::new(schema, format, page_bytes)?;
    let mut pages = Vec::new();
    for record in records {
        pages.extend(writer.push(&record)?);
    }
    pages.extend(writer.take());
    Ok(pages)
}

/// The records of a page.
///
/// # Errors
/// As [`check`].
pub fn read(page: &[u8], schema: &Schema) -> Result<Vec<Record>> {
    let header = check(page, schema)?;
    Ok(match header.format {
        Format::Text => text::read(&page[HEADER_LEN..header.valid_bytes], schema),
        Format::Columns => columns::read(page, header.rows, schema),
    })
}
