//! Named roots: how a program finds its structures again after a restart.
//!
//! - Roots are records like any other, in the first slabs, so naming one is part of a transaction.
//! - A root carries a checksum of its words: nothing else would notice a damaged name.
//! - An object that ends takes its names with it. [`Named`] says without a look at the roots that
//!   most objects have none.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use littoral_base::{codec, rng};

use crate::error::{Abort, Error, Kind};
use crate::record::{Record, Ref};

crate::record! {
    /// A name and what it leads to.
    pub(crate) struct Root = "littoral.stm.root/2" {
        name: [u64; 4],
        tag: u64,
        at: u64,
        /// CRC32C of the words before, and one bit so that it is never zero.
        check: u64,
    }
}

/// The longest name in bytes.
pub const NAME_BYTES_MAX: usize = 32;

/// The most roots a pool has.
pub(crate) const ROOTS_MAX: usize = 64;

impl Root {
    pub(crate) fn new<T: Record>(name: &str, at: Ref<T>) -> Result<Root, Abort> {
        let root = Root { name: packed(name)?, tag: T::TAG, at: at.offset(), check: 0 };
        Ok(Root { check: root.checksum(), ..root })
    }

    fn checksum(&self) -> u64 {
        let mut w = codec::Writer::new();
        for word in self.name {
            w.u64(word);
        }
        w.u64(self.tag).u64(self.at);
        u64::from(codec::crc(&w.finish())) | 1 << 32
    }

    /// The root, found sound.
    ///
    /// # Errors
    /// `Kind::Corrupt` with `offset`, where it lies.
    pub(crate) fn checked(self, offset: u64) -> Result<Root, Error> {
        if self.check == self.checksum() {
            return Ok(self);
        }
        let text = format!("offset {offset}: a root record's checksum is wrong; nothing changed");
        Err(Error::new(Kind::Corrupt, text).at_offset(offset))
    }

    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    pub(crate) fn is(&self, name: &[u64; 4]) -> bool {
        self.name == *name
    }

    /// The reference, checked to be of `T`.
    pub(crate) fn target<T: Record>(&self) -> Result<Ref<T>, Abort> {
        if self.tag == T::TAG {
            return Ok(Ref::from_offset(self.at));
        }
        Err(Error::new(Kind::BadReference, "the root of this name is of another type").into())
    }
}

impl Root {
    /// Name, tag and offset of what it leads to, as a person may read them.
    pub(crate) fn shown(&self) -> (String, u64, u64) {
        let bytes: Vec<u8> = self.name.iter().flat_map(|w| w.to_le_bytes()).collect();
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        (String::from_utf8_lossy(&bytes[..end]).into_owned(), self.tag, self.at)
    }
}

pub(crate) fn packed(name: &str) -> Result<[u64; 4], Abort> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() > NAME_BYTES_MAX || bytes.contains(&0) {
        let text =
            format!("root name {name:?}: legal are 1 to {NAME_BYTES_MAX} bytes, none of them 0");
        return Err(Error::new(Kind::Usage, text).into());
    }
    let mut padded = [0; NAME_BYTES_MAX];
    padded[..bytes.len()].copy_from_slice(bytes);
    let word = |i: usize| {
        u64::from_le_bytes(padded[8 * i..8 * i + 8].try_into().expect("invariant: eight bytes"))
    };
    Ok(std::array::from_fn(word))
}

/// Which objects may have a name: a bit set by a hash of their offset, and never cleared.
#[derive(Debug)]
pub(crate) struct Named([AtomicU64; 64]);

impl Named {
    pub(crate) fn new() -> Named {
        Named([const { AtomicU64::new(0) }; 64])
    }

    fn bit(&self, offset: u64) -> (&AtomicU64, u64) {
        let hash = rng::mix(offset);
        (&self.0[(hash >> 6 & 63) as usize], 1 << (hash & 63))
    }

    /// Notes that the object at `offset`, whose record the caller has locked, gets a name.
    pub(crate) fn add(&self, offset: u64) {
        let (word, bit) = self.bit(offset);
        word.fetch_or(bit, Relaxed);
    }

    /// Whether the object at `offset`, whose record the caller has locked, may have a name.
    #[inline]
    pub(crate) fn may_have(&self, offset: u64) -> bool {
        let (word, bit) = self.bit(offset);
        word.load(Relaxed) & bit != 0
    }
}
