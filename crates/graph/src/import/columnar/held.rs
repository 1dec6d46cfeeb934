//! What decoders keep in memory of a table, counted before they allocate it.
//!
//! A page of a Parquet file is decoded whole, and so is a batch of an Arrow file; how long they are
//! is the writer's choice. The header of a page and the message of a batch say it in advance. What
//! would go beyond the bound is not read, and the import ends with what it needs.
//!
//! In memory at the same time
//! - Parquet: of each column that is read a page and a dictionary, decompressed; one of them as it
//!   is in the file; the footer.
//! - Arrow: the largest batch with all its columns, as it is in the file and decompressed; the
//!   dictionaries.
//!
//! Invariant: no page and no batch is read that does not fit the bound. Checked by
//! `what_does_not_fit_the_memory_is_refused_before_it_is_read`.

use std::fs::File;
use std::io::BufReader;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// Bytes that a header of a page begins with: three numbers of 32 bits.
const FRONT_BYTES: usize = 18;
/// What the header of a page calls a dictionary.
const DICTIONARY: u64 = 2;

/// What decoders hold, shared between them and who counts.
#[derive(Clone, Debug)]
pub(super) struct Held(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    /// The most that may be held.
    most: u64,
    /// Columns of pages that are read.
    columns: u64,
    /// The largest page and dictionary, decompressed, and the longest read from the file.
    page: u64,
    dictionary: u64,
    read: u64,
    /// Batches with their dictionaries, or the footer, decoded.
    kept: u64,
    /// Names of rows that are numbered at once, beyond what reading may take anyway.
    names: u64,
    /// What the header read last says of its page.
    front: Option<Page>,
    /// What would have been held, had it not been too much.
    refused: Option<u64>,
}

impl Held {
    /// Nothing yet, at most `most` bytes, for pages of `columns` columns.
    pub(super) fn new(most: Option<u64>, columns: usize) -> Held {
        let most = most.unwrap_or(u64::MAX);
        Held(Arc::new(Mutex::new(Counts { most, columns: columns as u64, ..Counts::default() })))
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most bytes that have been held at the same time.
    pub(super) fn bytes(&self) -> u64 {
        self.counts().bytes()
    }

    /// The bytes for which the decoder was refused.
    pub(super) fn refused(&self) -> Option<u64> {
        self.counts().refused
    }

    /// Counts batches of `bytes` at most with their dictionaries, or a decoded footer; answers
    /// whether they fit.
    pub(super) fn admit_kept(&self, bytes: u64) -> bool {
        let mut counts = self.counts();
        counts.kept = counts.kept.max(bytes);
        counts.fits()
    }

    /// Counts names that take `bytes` more than reading may take anyway; answers whether they fit.
    pub(super) fn admit_names(&self, bytes: u64) -> bool {
        let mut counts = self.counts();
        counts.names = counts.names.max(bytes);
        counts.fits()
    }
}

impl Counts {
    fn bytes(&self) -> u64 {
        let pages = self.columns.saturating_mul(self.page.saturating_add(self.dictionary));
        [self.read, self.kept, self.names].into_iter().fold(pages, u64::saturating_add)
    }

    fn fits(&mut self) -> bool {
        let fits = self.bytes() <= self.most;
        if !fits {
            self.refused = Some(self.bytes());
        }
        fits
    }

    /// Counts a read of `length` bytes, of the page whose header was read last where it is one.
    fn admit(&mut self, length: u64) -> bool {
        self.read = self.read.max(length);
        if let Some(page) = self.front.take().filter(|page| page.compressed == length) {
            let largest =
                if page.kind == DICTIONARY { &mut self.dictionary } else { &mut self.page };
            *largest = (*largest).max(page.decompressed);
        }
        self.fits()
    }
}

/// A Parquet file whose pages are counted.
pub(super) struct Counted {
    pub(super) file: File,
    pub(super) held: Held,
}

impl Length for Counted {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl ChunkReader for Counted {
    type T = BufReader<File>;

    fn get_read(&self, start: u64) -> Result<BufReader<File>> {
        let mut front = [0; FRONT_BYTES];
        let length = self.file.read_at(&mut front, start)?;
        self.held.counts().front = Page::of(&front[..length]);
        self.file.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if !self.held.counts().admit(length as u64) {
            return Err(ParquetError::General("a page beyond the memory".to_owned()));
        }
        self.file.get_bytes(start, length)
    }
}

/// What the header of a page says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Page {
    kind: u64,
    decompressed: u64,
    compressed: u64,
}

impl Page {
    /// The numbers at the beginning of a header; none where there is something else.
    ///
    /// Source: `PageHeader` in parquet.thrift; Thrift's compact protocol.
    fn of(front: &[u8]) -> Option<Page> {
        let mut bytes = front.iter().copied();
        let mut field = || {
            // The field after the last one, a number of 32 bits: 7 bits a byte, sign at the end.
            bytes.next().filter(|&head| head == 0x15)?;
            let (mut zigzag, mut shift) = (0u64, 0);
            loop {
                let byte = bytes.next()?;
                zigzag |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
                if shift > 28 {
                    return None;
                }
            }
            (zigzag & 1 == 0).then_some(zigzag >> 1)
        };
        Some(Page { kind: field()?, decompressed: field()?, compressed: field()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_tells_the_bytes_of_its_page() {
        // A data page of 16384 bytes, 300 of them in the file; then a field of another kind.
        let front = [0x15, 0x00, 0x15, 0x80, 0x80, 0x02, 0x15, 0xd8, 0x04, 0x2c];
        let page = Page { kind: 0, decompressed: 16_384, compressed: 300 };
        assert_eq!(Page::of(&front), Some(page));
        assert_eq!(Page::of(&front[..7]), None, "cut off");
        assert_eq!(Page::of(b"PAR1"), None);
        assert_eq!(Page::of(&[0x15, 0x01, 0x15, 0x00, 0x15, 0x00]), None, "a negative number");
        assert_eq!(Page::of(&[[0x15, 0xff].as_slice(), &[0xff; 16]].concat()), None, "no end");
    }

    #[test]
    fn the_largest_of_each_kind_counts_for_each_column() {
        let held = Held::new(Some(10_000), 2);
        let read = |page: Option<Page>, length: u64| {
            held.counts().front = page;
            held.counts().admit(length)
        };
        assert!(read(None, 500), "the footer");
        assert!(read(Some(Page { kind: 0, decompressed: 3000, compressed: 700 }), 700));
        assert!(read(Some(Page { kind: 0, decompressed: 1000, compressed: 200 }), 200));
        assert!(read(Some(Page { kind: 2, decompressed: 1000, compressed: 90 }), 90));
        assert_eq!(held.bytes(), 2 * (3000 + 1000) + 700);
        let other = Page { kind: 0, decompressed: 1 << 40, compressed: 5 };
        assert!(read(Some(other), 6), "no header of what is read");
        assert_eq!(held.refused(), None);
        assert!(!read(Some(Page { kind: 0, decompressed: 4000, compressed: 10 }), 10));
        assert_eq!(held.refused(), Some(2 * (4000 + 1000) + 700));
        assert!(Held::new(None, 2).admit_kept(u64::MAX));
        let held = Held::new(Some(10), 0);
        assert!(held.admit_kept(6) && held.admit_names(4) && !held.admit_names(5));
        assert_eq!(held.refused(), Some(11));
    }
}
