//! Named roots: how a program finds its structures again after a restart.
//!
//! Roots are records like any other, all in slab 0, so naming one is part of a transaction.

use crate::error::{Abort, Error, Kind};
use crate::record::{Record, Ref};

crate::record! {
    /// A name and what it leads to.
    pub(crate) struct Root = "littoral.stm.root/1" {
        name: [u64; 4],
        tag: u64,
        at: u64,
    }
}

/// The longest name in bytes.
pub const NAME_BYTES_MAX: usize = 32;

/// The most roots a pool has.
pub(crate) const ROOTS_MAX: usize = 64;

impl Root {
    pub(crate) fn new<T: Record>(name: &str, at: Ref<T>) -> Result<Root, Abort> {
        Ok(Root { name: packed(name)?, tag: T::TAG, at: at.offset() })
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
            format!("root name '{name}': legal are 1 to {NAME_BYTES_MAX} bytes, none of them 0");
        return Err(Error::new(Kind::Usage, text).into());
    }
    let mut padded = [0; NAME_BYTES_MAX];
    padded[..bytes.len()].copy_from_slice(bytes);
    let word = |i: usize| {
        u64::from_le_bytes(padded[8 * i..8 * i + 8].try_into().expect("invariant: eight bytes"))
    };
    Ok(std::array::from_fn(word))
}
