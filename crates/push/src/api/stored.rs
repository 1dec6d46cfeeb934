//! Pages in memory that are shared by reference, and the data that go with a completion.
//!
//! Invariants
//! - A page in memory is verified once, because its bytes never change; a page from a file is
//!   verified each time it is read, because the file or its medium may have changed. Checked by
//!   `a_page_in_memory_is_verified_once_and_one_of_a_file_each_time`.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use littoral_device::region::Region;

use crate::page::{self, Header, Schema};

#[derive(Debug)]
enum Bytes {
    Own(Vec<u8>),
    /// A part of the memory that has the whole data set.
    Part(Region, Range<usize>),
}

/// A page of a data set.
#[derive(Debug)]
pub struct Stored {
    bytes: Bytes,
    /// What the first check found; none for a page that does not verify.
    header: OnceLock<Option<Header>>,
}

impl Stored {
    /// A page that has not been verified.
    pub fn new(bytes: Vec<u8>) -> Arc<Stored> {
        Arc::new(Stored { bytes: Bytes::Own(bytes), header: OnceLock::new() })
    }

    /// The same, in the memory that has the whole data set.
    ///
    /// # Panics
    /// When the memory has no such part.
    pub fn part(region: &Region, part: Range<usize>) -> Arc<Stored> {
        assert!(part.start <= part.end && part.end <= region.len(), "a part of {}", region.len());
        Arc::new(Stored { bytes: Bytes::Part(region.clone(), part), header: OnceLock::new() })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Own(bytes) => bytes,
            Bytes::Part(region, part) => &region[part.clone()],
        }
    }

    /// The header, if the page verifies against the schema of its data set; the first call finds
    /// that out.
    pub fn header(&self, schema: &Schema) -> Option<Header> {
        *self.header.get_or_init(|| page::check(self.bytes(), schema).ok())
    }
}

/// The data that go with a completion.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Totals, records, words.
    Own(Vec<u8>),
    /// A page as it is.
    Page(Arc<Stored>),
}

impl Payload {
    /// No data.
    pub fn none() -> Payload {
        Payload::Own(Vec::new())
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Payload::Own(bytes) => bytes,
            Payload::Page(page) => page.bytes(),
        }
    }

    /// The bytes as a value of their own; a page is copied.
    pub fn into_vec(self) -> Vec<u8> {
        match self {
            Payload::Own(bytes) => bytes,
            Payload::Page(page) => page.bytes().to_vec(),
        }
    }
}
