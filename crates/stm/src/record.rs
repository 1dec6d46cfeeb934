//! Plain data that lives in a pool: records of 64-bit words, and typed references between them.
//!
//! - A record is copied word by word and never borrowed from the medium, so a concurrent overwrite
//!   is a defined race that the reader's recheck finds.
//! - A record's tag and size are part of its type: a slab holds one tag, and a reference of another
//!   type is refused.
//! - A [`Ref`] is an offset, not an address: pools may be mapped anywhere.
//!
//! ```
//! littoral_stm::record! {
//!     /// A node of a list.
//!     pub struct Node = "example.node/1" {
//!         /// The key.
//!         pub key: u64,
//!         /// The next node.
//!         pub next: littoral_stm::Ref<Node>,
//!     }
//! }
//! use littoral_stm::Record;
//! assert_eq!(Node::WORDS, 2);
//! ```

use std::fmt;
use std::hint::select_unpredictable;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The most words a record may have.
pub const WORDS_MAX: usize = 255;

/// A record's words while they are looked at: in place where the medium is mapped memory.
///
/// Another transaction may be replacing them meanwhile: a reader must cope with any words at
/// all, and the engine drops what was concluded from words that changed.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a>(Source<'a>);

#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    InPlace(&'a [AtomicU64]),
    /// Two slots {stamp, three words} of one line, and whether it is the second. Loading from both
    /// does not wait for the choice.
    Twin(&'a [AtomicU64; 8], bool),
    Copied(&'a [u64]),
}

impl<'a> Words<'a> {
    /// Words read in place.
    #[inline(always)]
    pub fn in_place(words: &'a [AtomicU64]) -> Self {
        Words(Source::InPlace(words))
    }

    /// Words copied before.
    #[inline(always)]
    pub fn copied(words: &'a [u64]) -> Self {
        Words(Source::Copied(words))
    }

    /// The payload of slot `slot`, 0 or 1, of a line that two slots share.
    #[inline(always)]
    pub(crate) fn twin(line: &'a [AtomicU64; 8], slot: usize) -> Self {
        debug_assert!(slot < 2, "a line of two slots");
        Words(Source::Twin(line, slot == 1))
    }

    /// Word `i` of the record.
    ///
    /// # Panics
    /// When the record has no such word.
    #[inline(always)]
    pub fn get(&self, i: usize) -> u64 {
        match self.0 {
            Source::InPlace(words) => words[i].load(Relaxed),
            Source::Copied(words) => words[i],
            Source::Twin(line, second) => {
                let (a, b) = (line[1 + i].load(Relaxed), line[5 + i].load(Relaxed));
                select_unpredictable(second, b, a)
            }
        }
    }
}

impl Words<'_> {
    /// How many of the `N` ascending words from word `from` on are below `limit`; any number up to
    /// `N` when they do not ascend.
    ///
    /// # Panics
    /// When the record has no such words, or fewer than two are asked for.
    #[inline(always)]
    pub fn rank<const N: usize>(&self, from: usize, limit: u64) -> usize {
        const { assert!(N >= 2, "one word is compared without this") }
        match self.0 {
            Source::InPlace(words) => {
                rank::<N, _>(limit, &words[from..from + N], |w| w.load(Relaxed))
            }
            Source::Copied(words) => rank::<N, _>(limit, &words[from..from + N], |&w| w),
            Source::Twin(..) => self.rank_by_word(from, N, limit),
        }
    }

    #[inline(never)]
    fn rank_by_word(&self, from: usize, n: usize, limit: u64) -> usize {
        (from..from + n).map(|i| usize::from(self.get(i) < limit)).sum()
    }
}

/// One comparison says which half, the words of that half are counted; neither is a branch.
#[inline(always)]
fn rank<const N: usize, W>(limit: u64, words: &[W], load: impl Fn(&W) -> u64) -> usize {
    let (lower, half) = (N / 2, N - N / 2);
    let from = usize::from(load(&words[lower - 1]) < limit) * lower;
    let half = &words[from..from + half];
    from + half.iter().map(|w| usize::from(load(w) < limit)).sum::<usize>()
}

/// What is made of a record's words. A trait beside closures, because a closure cannot be told to
/// be inlined and a search looks at one record after the other.
pub trait Look {
    /// What it makes of them.
    type Out;
    /// Looks; may be called more than once and on words that are being replaced.
    fn look(&mut self, words: Words<'_>) -> Self::Out;
}

/// Copies the whole record.
pub(crate) struct Whole<T>(pub(crate) PhantomData<T>);

impl<T: Record> Look for Whole<T> {
    type Out = T;
    #[inline(always)]
    fn look(&mut self, words: Words<'_>) -> T {
        T::load(|i| words.get(i))
    }
}

/// Does what a closure does.
pub(crate) struct By<F>(pub(crate) F);

impl<R, F: FnMut(Words<'_>) -> R> Look for By<F> {
    type Out = R;
    #[inline(always)]
    fn look(&mut self, words: Words<'_>) -> R {
        self.0(words)
    }
}

/// Plain data of `WORDS` words; implemented by [`record!`](crate::record!).
pub trait Record: Copy + 'static {
    /// Names the type on the medium; never zero.
    const TAG: u64;
    /// The name behind the tag, for people.
    const NAME: &'static str = "";
    /// Words of payload, 1 to [`WORDS_MAX`].
    const WORDS: usize;
    /// Builds the record from its words.
    fn load(word: impl FnMut(usize) -> u64) -> Self;
    /// Hands out the record's words, each once.
    fn store(&self, word: impl FnMut(usize, u64));
}

/// A field of a record: one or more whole words.
pub trait Field: Copy + 'static {
    /// Words of the field.
    const WORDS: usize;
    /// Builds the field from the words at `at`.
    fn load(word: &mut impl FnMut(usize) -> u64, at: usize) -> Self;
    /// Hands out the words at `at`.
    fn store(&self, word: &mut impl FnMut(usize, u64), at: usize);
}

macro_rules! word_field {
    ($($t:ty: $to:expr, $from:expr;)*) => {$(
        impl Field for $t {
            const WORDS: usize = 1;
            #[inline(always)]
            fn load(word: &mut impl FnMut(usize) -> u64, at: usize) -> Self {
                let from: fn(u64) -> $t = $from;
                from(word(at))
            }
            #[inline(always)]
            fn store(&self, word: &mut impl FnMut(usize, u64), at: usize) {
                let to: fn($t) -> u64 = $to;
                word(at, to(*self));
            }
        }
    )*};
}

word_field! {
    u64: |v| v, |w| w;
    i64: |v| v as u64, |w| w as i64;
    u32: |v| u64::from(v), |w| w as u32;
    bool: |v| u64::from(v), |w| w != 0;
    f64: f64::to_bits, f64::from_bits;
}

impl<F: Field, const N: usize> Field for [F; N] {
    const WORDS: usize = N * F::WORDS;
    #[inline(always)]
    fn load(word: &mut impl FnMut(usize) -> u64, at: usize) -> Self {
        const { assert!(N > 0, "an array field has elements") }
        // Not `array::from_fn`, which is a call that nothing inlines.
        let mut all = [F::load(word, at); N];
        let mut i = 1;
        while i < N {
            all[i] = F::load(word, at + i * F::WORDS);
            i += 1;
        }
        all
    }
    #[inline(always)]
    fn store(&self, word: &mut impl FnMut(usize, u64), at: usize) {
        for (i, field) in self.iter().enumerate() {
            field.store(word, at + i * F::WORDS);
        }
    }
}

/// A reference to a record in a pool: its offset there, or null.
pub struct Ref<T> {
    offset: u64,
    of: PhantomData<fn() -> T>,
}

impl<T> Ref<T> {
    /// The reference to nothing.
    pub const NULL: Ref<T> = Ref { offset: 0, of: PhantomData };

    /// A reference to offset `offset`; a wrong one is refused when it is used.
    pub const fn from_offset(offset: u64) -> Self {
        Ref { offset, of: PhantomData }
    }

    /// The offset, zero for null.
    #[inline(always)]
    pub const fn offset(self) -> u64 {
        self.offset
    }

    /// Whether this refers to nothing.
    #[inline(always)]
    pub const fn is_null(self) -> bool {
        self.offset == 0
    }
}

impl<T> Clone for Ref<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Ref<T> {}
impl<T> PartialEq for Ref<T> {
    fn eq(&self, other: &Self) -> bool {
        self.offset == other.offset
    }
}
impl<T> Eq for Ref<T> {}
impl<T> Default for Ref<T> {
    fn default() -> Self {
        Self::NULL
    }
}
impl<T> fmt::Debug for Ref<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{:#x}", self.offset)
    }
}

impl<T: 'static> Field for Ref<T> {
    const WORDS: usize = 1;
    #[inline(always)]
    fn load(word: &mut impl FnMut(usize) -> u64, at: usize) -> Self {
        Ref::from_offset(word(at))
    }
    #[inline(always)]
    fn store(&self, word: &mut impl FnMut(usize, u64), at: usize) {
        word(at, self.offset);
    }
}

/// The tag of a record's name and size: FNV-1a, with the low bit set so that it is never zero.
pub const fn tag(name: &str, words: usize) -> u64 {
    let bytes = name.as_bytes();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ words as u64;
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash | 1
}

/// Declares a record: a plain struct whose fields are whole words, under a name for the medium.
#[macro_export]
macro_rules! record {
    ($(#[$meta:meta])* $vis:vis struct $name:ident = $tag:literal {
        $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $t:ty),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        $vis struct $name { $($(#[$field_meta])* $field_vis $field: $t,)+ }

        impl $crate::Record for $name {
            const WORDS: usize = 0 $(+ <$t as $crate::record::Field>::WORDS)+;
            const TAG: u64 = $crate::record::tag($tag, Self::WORDS);
            const NAME: &'static str = $tag;
            #[inline(always)]
            fn load(mut word: impl FnMut(usize) -> u64) -> Self {
                let mut at = 0;
                $(
                    let $field = <$t as $crate::record::Field>::load(&mut word, at);
                    at += <$t as $crate::record::Field>::WORDS;
                )+
                debug_assert_eq!(at, Self::WORDS);
                $name { $($field,)+ }
            }
            #[inline(always)]
            fn store(&self, mut word: impl FnMut(usize, u64)) {
                let mut at = 0;
                $(
                    $crate::record::Field::store(&self.$field, &mut word, at);
                    at += <$t as $crate::record::Field>::WORDS;
                )+
                debug_assert_eq!(at, Self::WORDS);
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::record! {
        struct Mixed = "test.mixed/1" { a: u64, b: [i64; 3], c: bool, d: Ref<Mixed>, e: f64 }
    }

    #[test]
    fn every_word_is_stored_once_and_comes_back() {
        let m = Mixed { a: 1, b: [-1, 2, -3], c: true, d: Ref::from_offset(64), e: 1.5 };
        let mut words = [None; Mixed::WORDS];
        m.store(|i, w| assert!(words[i].replace(w).is_none(), "word {i} twice"));
        assert_eq!(Mixed::load(|i| words[i].unwrap()), m);
        assert_ne!(tag("a", 1), tag("a", 2));
    }

    #[test]
    fn words_below_a_limit_are_counted_alike_from_everywhere() {
        let plain = [0, 3, 7, 7, 9, 12, u64::MAX, u64::MAX];
        let atomic = plain.map(AtomicU64::new);
        for limit in [0, 1, 3, 4, 7, 8, 9, 10, 13, u64::MAX] {
            let want =
                |from: usize, n| plain[from..from + n].iter().filter(|&&w| w < limit).count();
            for words in [Words::in_place(&atomic), Words::copied(&plain)] {
                assert_eq!(words.rank::<8>(0, limit), want(0, 8), "{limit}");
                assert_eq!(words.rank::<5>(1, limit), want(1, 5), "{limit}");
                assert_eq!(words.rank::<2>(2, limit), want(2, 2), "{limit}");
            }
            assert_eq!(Words::twin(&atomic, 1).rank::<3>(0, limit), want(5, 3));
        }
    }

    #[test]
    fn the_rank_among_words_that_are_being_replaced_is_some_rank() {
        for seed in 0..200 {
            let words: [u64; 14] =
                std::array::from_fn(|i| littoral_base::rng::mix(seed << 8 | i as u64));
            assert!(Words::copied(&words).rank::<14>(0, words[seed as usize % 14]) <= 14);
        }
    }

    #[test]
    fn a_twin_line_shows_the_slot_that_was_chosen() {
        let line: [AtomicU64; 8] = std::array::from_fn(|i| AtomicU64::new(i as u64));
        let words = |slot| [0, 1, 2].map(|i| Words::twin(&line, slot).get(i));
        assert_eq!((words(0), words(1)), ([1, 2, 3], [5, 6, 7]));
    }
}
