//! Parameters of a task: numbers, bitmaps, the query of a similarity join, and the block of bytes
//! that INIT carries.
//!
//! The block: parameters as i64; eight entries of two u64 (a bitmap's offset in the block and its
//! bits); one entry of three u64 (offset of the query's tokens, their number, offset of the table
//! of overlaps); then the bitmaps as u64 words, tokens and table as u32.
//!
//! Invariants
//! - Two prefixes of a query and a similar record share a token. Checked by
//!   `the_prefixes_of_similar_records_share_a_token`.

use super::ir::{BITMAPS, Function};
use crate::error::{Error, Kind, Result};
use crate::page::schema;
use littoral_base::mutant;

/// A set of small integers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bitmap {
    /// Words of 64 bits.
    pub words: Vec<u64>,
}

impl Bitmap {
    /// The set of `members`.
    pub fn of(members: impl IntoIterator<Item = u64>) -> Bitmap {
        let mut words = Vec::new();
        for member in members {
            let word = (member / 64) as usize;
            if words.len() <= word {
                words.resize(word + 1, 0);
            }
            words[word] |= 1 << (member % 64);
        }
        Bitmap { words }
    }

    /// Whether `key` is a member.
    #[inline]
    pub fn holds(&self, key: i64) -> bool {
        let word = usize::try_from(key / 64).ok().and_then(|w| self.words.get(w));
        key >= 0 && word.is_some_and(|w| w >> (key % 64) & 1 == 1)
    }

    /// Its bits.
    pub fn bits(&self) -> u64 {
        self.words.len() as u64 * 64
    }
}

/// The query record of a similarity join: tokens in the data set's order, rare first.
///
/// Records are similar if they share at least `threshold` of the shorter one's tokens. With
/// a = ceil(threshold x min(|q|, |x|)), similar records share a token among the first |q| - a + 1
/// of one and |x| - a + 1 of the other. (The paper's prefixes, |q| - ceil(t|q|) + 1, miss answers
/// when the lengths differ.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    tokens: Vec<u32>,
    /// Overlap needed by the number of tokens of the shorter record.
    overlaps: Vec<u32>,
    threshold: (u32, u32),
}

impl Query {
    /// A query that asks for a share of `numerator / denominator`.
    ///
    /// # Errors
    /// [`Kind::Usage`] for no tokens, tokens out of order, or a share outside 0 to 1.
    pub fn new(tokens: Vec<u32>, numerator: u32, denominator: u32) -> Result<Query> {
        let fault = if tokens.is_empty() || tokens.len() > 65536 {
            "a query has 1 to 65536 tokens"
        } else if !schema::ascends(&tokens) {
            "the query's tokens are not in ascending order, each once"
        } else if numerator == 0 || numerator > denominator {
            "a threshold lies above 0 and at most at 1"
        } else {
            let (n, d) = (u64::from(numerator), u64::from(denominator));
            let overlap = |shorter: usize| (n * shorter as u64).div_ceil(d) as u32;
            let overlaps = (0..=tokens.len()).map(overlap).collect();
            return Ok(Query { tokens, overlaps, threshold: (numerator, denominator) });
        };
        Err(Error::new(Kind::Usage, fault))
    }

    /// The tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The share of tokens, as numerator and denominator.
    pub fn threshold(&self) -> (u32, u32) {
        self.threshold
    }

    /// Tokens that a record of `len` tokens must share.
    #[inline]
    pub fn overlap(&self, len: usize) -> usize {
        self.overlaps[len.min(self.tokens.len())] as usize
    }

    /// Lengths of the record's and the query's prefix.
    #[inline]
    pub fn prefixes(&self, len: usize) -> (usize, usize) {
        if mutant!("push_prefix_by_own_length") {
            let own = |n: usize| n - self.overlap(n).min(n) + 1;
            return (own(len).min(len), own(self.tokens.len()));
        }
        let overlap = self.overlap(len);
        (len - overlap + 1, self.tokens.len() - overlap + 1)
    }
}

/// Parameters of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params {
    /// Numbers.
    pub values: Vec<i64>,
    /// Bitmaps.
    pub bitmaps: Vec<Bitmap>,
    /// The query of a similarity join.
    pub query: Option<Query>,
}

impl Params {
    /// Parameters that are numbers only.
    pub fn of(values: &[i64]) -> Params {
        Params { values: values.to_vec(), ..Params::default() }
    }

    /// Refuses parameters that do not fit a function.
    ///
    /// # Errors
    /// [`Kind::Usage`] naming the first one.
    pub fn validate(&self, function: &Function) -> Result<()> {
        if self.values.len() != function.params.len() || self.bitmaps.len() > BITMAPS {
            let (found, wanted) = (self.values.len(), function.params.len());
            return Err(Error::new(Kind::Usage, format!("{found} parameters for {wanted}")));
        }
        for (n, (value, (low, high))) in self.values.iter().zip(&function.params).enumerate() {
            if !(low..=high).contains(&value) {
                let what = format!("parameter {n} is {value}, outside {low} to {high}");
                return Err(Error::new(Kind::Usage, what));
            }
        }
        Ok(())
    }

    /// Offset of a bitmap's entry in a block of `values` parameters.
    pub(crate) fn bitmap_entry(values: usize, bitmap: usize) -> i64 {
        (8 * values + 16 * bitmap) as i64
    }

    /// Offset of the query's entry.
    pub(crate) fn query_entry(values: usize) -> i64 {
        (8 * values + 16 * BITMAPS) as i64
    }

    /// The block of bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut head: Vec<u64> = self.values.iter().map(|&v| v as u64).collect();
        let mut at = 8 * (self.values.len() + 2 * BITMAPS + 3) as u64;
        let mut body = Vec::new();
        for n in 0..BITMAPS {
            let words = self.bitmaps.get(n).map_or(&[][..], |b| &b.words);
            head.extend([at, words.len() as u64 * 64]);
            body.extend(words.iter().flat_map(|w| w.to_le_bytes()));
            at += words.len() as u64 * 8;
        }
        let empty = (Vec::new(), Vec::new());
        let (tokens, table) =
            self.query.as_ref().map_or(empty, |q| (q.tokens.clone(), q.overlaps.clone()));
        head.extend([at, tokens.len() as u64, at + 4 * tokens.len() as u64]);
        body.extend(tokens.iter().chain(&table).flat_map(|t| t.to_le_bytes()));
        head.iter().flat_map(|w| w.to_le_bytes()).chain(body).collect()
    }
}
