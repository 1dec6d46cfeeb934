//! Little-endian fields and checksummed blocks: how littoral's media are read and written.
//!
//! - Everything on a medium is little-endian; every block that is trusted carries a CRC32C.
//! - A [`Reader`] never panics: running off the end is an answer, not a crash.
//! - [`seal`] and [`unseal`] put a CRC32C into the last four bytes of a block; the CRC covers the
//!   block's other bytes and a caller's salt (its address, say), so a block found elsewhere than
//!   where it was written does not verify.

/// CRC32C (Castagnoli) of `bytes`.
pub fn crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// CRC32C of `bytes` continuing from `crc`.
pub fn crc_append(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// Bytes of the checksum that [`seal`] writes at the end of a block.
pub const SEAL_BYTES: usize = 4;

fn block_crc(body: &[u8], salt: u64) -> u32 {
    crc_append(crc(&salt.to_le_bytes()), body)
}

/// Writes the checksum of `block` under `salt` into its last four bytes.
///
/// # Panics
/// When the block is shorter than [`SEAL_BYTES`]: a caller's constant is wrong.
pub fn seal(block: &mut [u8], salt: u64) {
    let (body, tail) = block.split_at_mut(block.len() - SEAL_BYTES);
    tail.copy_from_slice(&block_crc(body, salt).to_le_bytes());
}

/// The body of a block sealed under `salt`, or `None` when it does not verify.
pub fn unseal(block: &[u8], salt: u64) -> Option<&[u8]> {
    let (body, tail) = block.split_at_checked(block.len().checked_sub(SEAL_BYTES)?)?;
    (tail == block_crc(body, salt).to_le_bytes()).then_some(body)
}

/// CRC32C's polynomial, bit-reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Corrects the one flipped bit of a block sealed under `salt`: its number, counted from the first
/// byte's lowest bit, or `None` when no single bit explains the checksum. A block that verifies is
/// left as it is and answers `None`.
///
/// CRC32C tells every single flipped bit of a block from every other. Damage of other kinds is
/// mistaken for a single bit once in about 2^32 / bits, so this serves to save what can be saved,
/// never to read.
pub fn mend(block: &mut [u8], salt: u64) -> Option<usize> {
    let bytes = block.len().checked_sub(SEAL_BYTES)?;
    let (body, tail) = block.split_at(bytes);
    let stored = u32::from_le_bytes(tail.try_into().ok()?);
    let syndrome = stored ^ block_crc(body, salt);
    let bit = match syndrome.count_ones() {
        0 => return None,
        1 => bytes * 8 + syndrome.trailing_zeros() as usize,
        _ => flipped_bit(bytes, syndrome)?,
    };
    block[bit / 8] ^= 1 << (bit % 8);
    unseal(block, salt).map(|_| bit)
}

/// The bit of a body of `bytes` bytes whose flip changes the checksum by `syndrome`.
fn flipped_bit(bytes: usize, syndrome: u32) -> Option<usize> {
    let behind_zeros = |sum: u32, bits: u32| {
        (0..bits).fold(sum, |s, _| (s >> 1) ^ (POLYNOMIAL & (s & 1).wrapping_neg()))
    };
    // What each bit of the last byte does; one byte further to the front is eight zeros more.
    let mut effects: [u32; 8] = std::array::from_fn(|bit| behind_zeros(1 << bit, 8));
    for at in (0..bytes).rev() {
        if let Some(bit) = effects.iter().position(|&e| e == syndrome) {
            return Some(at * 8 + bit);
        }
        effects = effects.map(|e| behind_zeros(e, 8));
    }
    None
}

/// Reads little-endian fields from a slice, front to back.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the front of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// The next `n` bytes.
    #[inline]
    pub fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(head)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    /// The next byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }
    /// The next two bytes.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }
    /// The next four bytes.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
    /// The next eight bytes.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
    /// A byte string with its length in front as `u16`.
    #[inline]
    pub fn short_bytes(&mut self) -> Option<&'a [u8]> {
        let n = self.u16()?;
        self.bytes(usize::from(n))
    }

    /// How many bytes are left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }
}

/// Appends little-endian fields to a vector.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty writer.
    pub fn new() -> Self {
        Self::default()
    }
    /// Appends a byte.
    #[inline]
    pub fn u8(&mut self, v: u8) -> &mut Self {
        self.bytes.push(v);
        self
    }
    /// Appends two bytes.
    #[inline]
    pub fn u16(&mut self, v: u16) -> &mut Self {
        self.raw(&v.to_le_bytes())
    }
    /// Appends four bytes.
    #[inline]
    pub fn u32(&mut self, v: u32) -> &mut Self {
        self.raw(&v.to_le_bytes())
    }
    /// Appends eight bytes.
    #[inline]
    pub fn u64(&mut self, v: u64) -> &mut Self {
        self.raw(&v.to_le_bytes())
    }
    /// Appends bytes as they are.
    #[inline]
    pub fn raw(&mut self, v: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(v);
        self
    }
    /// Appends a byte string with its length in front as `u16`; `None` when it is longer than that.
    #[inline]
    pub fn short_bytes(&mut self, v: &[u8]) -> Option<&mut Self> {
        let n = u16::try_from(v.len()).ok()?;
        Some(self.u16(n).raw(v))
    }
    /// Pads with zeros up to `len` bytes; a longer writer is left as it is.
    pub fn pad_to(&mut self, len: usize) -> &mut Self {
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
        self
    }
    /// How many bytes have been written.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    /// The bytes.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn crc32c_known_answer() {
        assert_eq!(crc(b"123456789"), 0xe306_9283);
    }

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn a_sealed_block_verifies_only_unchanged_and_in_place(
            mut block in proptest::collection::vec(any::<u8>(), SEAL_BYTES..200),
            salt: u64, flip in any::<prop::sample::Index>(), bit in 0u8..8,
        ) {
            seal(&mut block, salt);
            prop_assert!(unseal(&block, salt).is_some());
            prop_assert!(unseal(&block, salt ^ 1).is_none());
            let i = flip.index(block.len());
            block[i] ^= 1 << bit;
            prop_assert!(unseal(&block, salt).is_none());
        }

        #[test]
        fn one_flipped_bit_is_mended_and_nothing_else_is_touched(
            mut block in proptest::collection::vec(any::<u8>(), SEAL_BYTES + 1..300),
            salt: u64, at in any::<prop::sample::Index>(), other in any::<prop::sample::Index>(),
        ) {
            seal(&mut block, salt);
            let whole = block.clone();
            prop_assert_eq!(mend(&mut block, salt), None);
            let (bit, second) = (at.index(block.len() * 8), other.index(block.len() * 8));
            block[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(mend(&mut block, salt), Some(bit));
            prop_assert_eq!(&block, &whole);
            if bit != second {
                for b in [bit, second] {
                    block[b / 8] ^= 1 << (b % 8);
                }
                let two = block.clone();
                prop_assert_eq!(mend(&mut block, salt), None);
                prop_assert_eq!(&block, &two);
            }
        }

        #[test]
        fn fields_come_back_in_order(a: u8, b: u16, c: u32, d: u64, s in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut w = Writer::new();
            w.u8(a).u16(b).u32(c).u64(d).short_bytes(&s).unwrap();
            let bytes = w.finish();
            let mut r = Reader::new(&bytes);
            prop_assert_eq!((r.u8(), r.u16(), r.u32(), r.u64()), (Some(a), Some(b), Some(c), Some(d)));
            prop_assert_eq!(r.short_bytes(), Some(&s[..]));
            prop_assert_eq!((r.remaining(), r.u8()), (0, None));
        }
    }

    #[test]
    fn short_blocks_are_refused() {
        assert_eq!(unseal(&[1, 2, 3], 0), None);
    }
}
