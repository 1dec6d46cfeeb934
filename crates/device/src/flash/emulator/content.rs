//! What an emulated medium holds: functions of the address, so that any read can be checked.
//!
//! Invariants
//! - A content is read-only and answers the same bytes for the same address for ever. Checked by
//!   `nothing_wrong_is_believed_under_every_fault`.
//! - [`Pattern`] can hold sentinel-valued data: words equal to either sentinel, and words of all
//!   ones wherever the completion rule does not reserve them. Checked by
//!   `reserved_tails_are_free_of_all_ones_and_data_hold_every_sentinel`.

use littoral_base::{codec, rng};

use super::sentinel::{SENTINEL_A, SENTINEL_B};
use crate::flash::protocol::LINE_WORDS;
use crate::region::Region;

/// Read-only content of an emulated medium.
pub trait Content: Send + Sync {
    /// Readable bytes, a multiple of a line.
    fn capacity_bytes(&self) -> u64;
    /// Reads words from byte address `addr`, a multiple of a line, on.
    fn fill(&self, addr: u64, words: &mut [u64]);
}

/// What a pattern keeps free for a completion rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Arbitrary data, sentinel values included.
    Arbitrary,
    /// The last 32-bit word of each line is below 2^31 (vertex ids); other words are arbitrary.
    ReservedTails,
    /// Pages of this many bytes, each ending in a trailer.
    Trailers(u32),
}

/// Pseudo-random data: word `i` is a function of the seed and `i` alone.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// The seed.
    pub seed: u64,
    /// Readable bytes.
    pub capacity_bytes: u64,
    /// What is kept free.
    pub format: Format,
}

impl Pattern {
    /// The word of number `index` (byte address over eight), before any trailer. One word in eight
    /// is a value that completion rules use as a sentinel.
    pub fn word(&self, index: u64) -> u64 {
        let random = rng::mix(self.seed ^ rng::mix(index));
        let word = match random & 31 {
            0 => SENTINEL_A,
            1 => SENTINEL_B,
            2 | 3 => u64::MAX,
            _ => random,
        };
        let is_tail = index % LINE_WORDS as u64 == LINE_WORDS as u64 - 1;
        if is_tail && self.format == Format::ReservedTails { word & (u64::MAX >> 1) } else { word }
    }
}

impl Content for Pattern {
    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn fill(&self, addr: u64, words: &mut [u64]) {
        for (i, word) in words.iter_mut().enumerate() {
            *word = self.word(addr / 8 + i as u64);
        }
        if let Format::Trailers(page_bytes) = self.format {
            let page_words = page_bytes as usize / 8;
            for (i, page) in words.chunks_exact_mut(page_words).enumerate() {
                let page_no = addr / u64::from(page_bytes) + i as u64;
                seal_words(page, page_no as u32, GENERATION);
            }
        }
    }
}

const GENERATION: u32 = 1;

fn seal_words(page: &mut [u64], page_no: u32, generation: u32) {
    let last = page.len() - 1;
    page[last - 1] = u64::from(generation) << 32 | u64::from(page_no);
    page[last] &= u64::from(u32::MAX);
    let mut crc = 0;
    for word in &page[..last] {
        crc = codec::crc_append(crc, &word.to_le_bytes());
    }
    crc = codec::crc_append(crc, &(page[last] as u32).to_le_bytes());
    page[last] |= u64::from(crc) << 32;
}

/// The page number in the trailer of a page whose CRC verifies: `{page_no u32, generation u32, info
/// u32, crc32c u32}` at the end, the CRC over all bytes before it.
pub fn verified_page_no(page: &[u8]) -> Option<u32> {
    let body = page.get(..page.len().checked_sub(4)?)?;
    let crc = u32::from_le_bytes(page[body.len()..].try_into().ok()?);
    let page_no = page.get(page.len().checked_sub(16)?..)?;
    (codec::crc(body) == crc)
        .then(|| u32::from_le_bytes([page_no[0], page_no[1], page_no[2], page_no[3]]))
}

/// The bytes of a region, such as a loaded graph file; padded with zeros to a whole line.
pub struct RegionContent(pub Region);

impl Content for RegionContent {
    fn capacity_bytes(&self) -> u64 {
        (self.0.len() as u64).next_multiple_of(super::LINE)
    }

    fn fill(&self, addr: u64, words: &mut [u64]) {
        let bytes: &[u8] = &self.0;
        for (i, word) in words.iter_mut().enumerate() {
            let at = (addr as usize + 8 * i).min(bytes.len());
            let mut piece = [0u8; 8];
            let rest = &bytes[at..];
            let n = rest.len().min(8);
            piece[..n].copy_from_slice(&rest[..n]);
            *word = u64::from_le_bytes(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_verify_and_name_their_page() {
        let p = Pattern { seed: 5, capacity_bytes: 4096, format: Format::Trailers(256) };
        let mut words = [0; 64];
        p.fill(512, &mut words);
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(verified_page_no(&bytes[..256]), Some(2));
        assert_eq!(verified_page_no(&bytes[256..]), Some(3));
        assert_eq!(verified_page_no(&bytes[128..384]), None);
        assert_eq!(verified_page_no(b"short"), None);
    }

    #[test]
    fn reserved_tails_are_free_of_all_ones_and_data_hold_every_sentinel() {
        let p = Pattern { seed: 1, capacity_bytes: 1 << 20, format: Format::ReservedTails };
        let tails = (0..4096).map(|line| p.word(line * 8 + 7));
        assert!(tails.clone().all(|w| w >> 32 < 1 << 31));
        let q = Pattern { format: Format::Arbitrary, ..p };
        for sentinel in [SENTINEL_A, SENTINEL_B, u64::MAX] {
            assert!((0..4096).any(|line| q.word(line * 8 + 7) == sentinel));
        }
    }
}
