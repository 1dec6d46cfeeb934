//! The bytes a node exports: words that the node's own threads and its agent reach at the same
//! time.
//!
//! Invariants
//! - Aligned words are read and written whole: a put of up to eight aligned bytes is never seen in
//!   part. Longer transfers are words one after another and may be seen in part, as on real
//!   fabrics. Checked by `an_aligned_word_is_never_seen_in_part`.
//! - A transfer outside the window is refused before any byte moves. Checked by
//!   `a_window_is_a_byte_array`.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Rmw, order};
use crate::{Error, Kind, Result};

const WORD: usize = 8;

/// A node's exported bytes.
#[derive(Debug)]
pub(crate) struct Window {
    words: Vec<AtomicU64>,
    bytes: usize,
}

impl Window {
    /// A window of `bytes` zero bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Window { words: (0..bytes.div_ceil(WORD)).map(|_| AtomicU64::new(0)).collect(), bytes }
    }

    /// Bytes in the window.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Copies `data` in at `offset`.
    pub(crate) fn put(&self, offset: usize, data: &[u8]) -> Result<()> {
        in_window(offset, data.len(), self.bytes)?;
        copy_in(&self.words, offset, data);
        Ok(())
    }

    /// Copies bytes out from `offset`.
    pub(crate) fn get(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        in_window(offset, into.len(), self.bytes)?;
        copy_out(&self.words, offset, into);
        Ok(())
    }

    /// Adds to the aligned word at `offset` and returns what it held.
    pub(crate) fn fetch_add(&self, offset: usize, add: u64) -> Result<u64> {
        self.rmw(offset, Rmw::Add(add))
    }

    /// Changes the aligned word at `offset` and returns what it held.
    pub(crate) fn rmw(&self, offset: usize, op: Rmw) -> Result<u64> {
        aligned_word(offset, self.bytes)?;
        Ok(change(&self.words[offset / WORD], op))
    }
}

/// Whether a transfer lies in a window.
#[inline]
pub(super) fn in_window(offset: usize, len: usize, window: usize) -> Result<()> {
    if offset.checked_add(len).is_some_and(|end| end <= window) {
        return Ok(());
    }
    Err(outside(offset, len, window))
}

/// Whether `offset` is that of a word of a window.
#[inline]
pub(super) fn aligned_word(offset: usize, window: usize) -> Result<()> {
    in_window(offset, WORD, window)?;
    if !offset.is_multiple_of(WORD) {
        return Err(misaligned(offset));
    }
    Ok(())
}

#[cold]
fn outside(offset: usize, len: usize, window: usize) -> Error {
    let what = format!("bytes {offset}..+{len} of a window of {window} bytes");
    Error::new(Kind::IllegalRequest, what).at_offset(offset as u64)
}

#[cold]
fn misaligned(offset: usize) -> Error {
    let what = format!("a word at {offset}, which is no multiple of {WORD}");
    Error::new(Kind::IllegalRequest, what).at_offset(offset as u64)
}

/// Copies `data` into `words` from byte `offset` on.
pub(super) fn copy_in(words: &[AtomicU64], offset: usize, data: &[u8]) {
    let mut at = offset;
    let mut rest = data;
    while !rest.is_empty() {
        let within = at % WORD;
        let (now, later) = rest.split_at(rest.len().min(WORD - within));
        put_part(&words[at / WORD], within, now);
        at += now.len();
        rest = later;
    }
}

fn put_part(word: &AtomicU64, within: usize, part: &[u8]) {
    debug_assert!(within + part.len() <= WORD, "{} bytes from byte {within}", part.len());
    if let Ok(bytes) = part.try_into() {
        word.store(u64::from_le_bytes(bytes), order::store());
        return;
    }
    let mut bytes = [0; WORD];
    bytes[within..within + part.len()].copy_from_slice(part);
    let value = u64::from_le_bytes(bytes);
    let mut ones = [0; WORD];
    ones[within..within + part.len()].fill(0xff);
    let mask = u64::from_le_bytes(ones);
    let merge = |old: u64| Some(old & !mask | value);
    // The closure always answers, so the update cannot fail.
    let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, merge);
}

/// Copies bytes out of `words` from byte `offset` on.
pub(super) fn copy_out(words: &[AtomicU64], offset: usize, into: &mut [u8]) {
    let mut done = 0;
    while done < into.len() {
        let at = offset + done;
        let within = at % WORD;
        let n = (into.len() - done).min(WORD - within);
        let bytes = words[at / WORD].load(order::load()).to_le_bytes();
        into[done..done + n].copy_from_slice(&bytes[within..within + n]);
        done += n;
    }
}

/// Carries out a read-modify-write; what the word held before.
#[inline]
pub(super) fn change(word: &AtomicU64, op: Rmw) -> u64 {
    match op {
        Rmw::Add(add) => word.fetch_add(add, order::change()),
        Rmw::Swap(value) => word.swap(value, order::change()),
        Rmw::CompareSwap { current, new } => {
            let done = word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire);
            done.unwrap_or_else(|found| found)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn a_window_is_a_byte_array(
            ops in proptest::collection::vec((0usize..100, proptest::collection::vec(any::<u8>(), 0..30)), 0..40),
        ) {
            let w = Window::new(101);
            let mut oracle = vec![0u8; 101];
            for (at, data) in ops {
                let fits = at + data.len() <= 101;
                prop_assert_eq!(w.put(at, &data).is_ok(), fits);
                if fits { oracle[at..at + data.len()].copy_from_slice(&data); }
                let mut all = vec![0; 101];
                w.get(0, &mut all).unwrap();
                prop_assert_eq!(&all, &oracle);
            }
        }
    }

    #[test]
    fn an_aligned_word_is_never_seen_in_part() {
        let w = Window::new(64);
        std::thread::scope(|s| {
            s.spawn(|| (0..20_000u32).for_each(|i| w.put(8, &[i as u8; 8]).unwrap()));
            s.spawn(|| (0..20_000u32).for_each(|i| w.put(20, &[i as u8; 4]).unwrap()));
            for _ in 0..20_000 {
                let (mut word, mut half) = ([0; 8], [0; 4]);
                w.get(8, &mut word).unwrap();
                w.get(20, &mut half).unwrap();
                assert_eq!((word, half), ([word[0]; 8], [half[0]; 4]), "seen in part");
            }
        });
    }

    #[test]
    fn fetch_add_wants_an_aligned_word_inside() {
        let w = Window::new(16);
        assert_eq!((w.fetch_add(8, 5).unwrap(), w.fetch_add(8, 1).unwrap()), (0, 5));
        assert_eq!(w.fetch_add(4, 1).unwrap_err().kind(), Kind::IllegalRequest);
        assert!(w.fetch_add(16, 1).is_err() && w.get(usize::MAX, &mut [0]).is_err());
    }
}
