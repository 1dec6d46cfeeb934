//! What changed in a page since its twin was made: 64-byte lines with byte masks.
//!
//! - A diff names exactly the bytes that differ from the twin, so two ranks may write neighbouring
//!   bytes of one word between synchronisations and neither loses (word-sized diffs would).
//! - Applying a diff touches only the bytes it names; diffs with disjoint bytes commute.
//! - A byte written with the value it had is not in the diff; by scope consistency no rank may rely
//!   on such a write against a concurrent one.

use std::ops::Range;

/// Bytes of a diff line.
pub const LINE_BYTES: usize = 64;
/// Bytes compared at once before their lines are: a guard mostly writes few bytes of a page.
const BLOCK_BYTES: usize = 8 * LINE_BYTES;

/// Bytes of a line compared at once.
const WORD_BYTES: usize = 8;

/// A line with changed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Changed {
    /// Line of the page.
    line: u16,
    /// Bit `i` set: byte `i` of the line changed.
    mask: u64,
}

/// The changed bytes of one page, lines ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Diff {
    lines: Vec<Changed>,
    /// The changed bytes of all lines in order, as many as the masks have bits.
    bytes: Vec<u8>,
}

/// The runs of changed bytes of a line: where each begins in the page, and its bytes.
fn runs(changed: Changed, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> + '_ {
    let (mut mask, mut done) = (changed.mask, 0);
    std::iter::from_fn(move || {
        let at = mask.trailing_zeros();
        let ones = mask.checked_shr(at)?.trailing_ones();
        let run = bytes.get(done..done + ones as usize).filter(|r| !r.is_empty())?;
        mask &= !(u64::MAX >> (64 - ones) << at);
        done += ones as usize;
        Some((usize::from(changed.line) * LINE_BYTES + at as usize, run))
    })
}

/// The bits that are set, in ascending order.
pub(crate) fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = bits.trailing_zeros() as usize;
        bits &= bits.checked_sub(1)?;
        Some(at)
    })
}

/// The bytes of a line of a page.
pub(crate) fn range_of(line: usize) -> Range<usize> {
    line * LINE_BYTES..(line + 1) * LINE_BYTES
}

/// The lines that differ: which line of the page, and its bytes before and now.
fn changed_lines<'p>(
    twin: &'p [u8],
    page: &'p [u8],
) -> impl Iterator<Item = (usize, (&'p [u8], &'p [u8]))> {
    let blocks = twin.chunks(BLOCK_BYTES).zip(page.chunks(BLOCK_BYTES));
    let first_lines = (0usize..).step_by(BLOCK_BYTES / LINE_BYTES);
    let changed = first_lines.zip(blocks).filter(|(_, (old, new))| old != new);
    changed.flat_map(|(first, (old, new))| {
        let lines = old.chunks(LINE_BYTES).zip(new.chunks(LINE_BYTES));
        (first..).zip(lines).filter(|(_, (old, new))| old != new)
    })
}

impl Diff {
    /// What changed from `twin` to `page`.
    ///
    /// # Panics
    /// When the two differ in length.
    pub fn between(twin: &[u8], page: &[u8]) -> Diff {
        assert_eq!(twin.len(), page.len(), "a twin is as long as its page");
        let differ = changed_lines(twin, page).count();
        let mut diff = Diff { lines: Vec::with_capacity(differ), bytes: Vec::new() };
        diff.bytes.reserve_exact((differ * LINE_BYTES).min(page.len()));
        changed_lines(twin, page).for_each(|(line, (old, new))| diff.add(line, old, new));
        diff.bytes.shrink_to_fit();
        debug_assert!(diff.fits(page.len()), "a difference outside its page");
        diff
    }

    /// As `between`, where only these lines may have changed: bit `i` set for line `i`. No other
    /// byte is looked at.
    ///
    /// # Panics
    /// When a line is not inside the two.
    pub fn between_lines(twin: &[u8], page: &[u8], lines: u64) -> Diff {
        let mut diff = Diff::default();
        diff.set_between_lines(twin, page, lines);
        diff.shrink();
        diff
    }

    /// As `between_lines`, in place of what this is.
    ///
    /// # Panics
    /// As `between_lines`.
    pub fn set_between_lines(&mut self, twin: &[u8], page: &[u8], lines: u64) {
        self.lines.clear();
        self.bytes.clear();
        for line in ones(lines) {
            let (old, new) = (&twin[range_of(line)], &page[range_of(line)]);
            if old != new {
                self.add(line, old, new);
            }
        }
        debug_assert!(self.fits(page.len()), "a difference outside its page");
    }

    /// Gives back the memory that its bytes do not need.
    pub fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Adds a line that has changed.
    fn add(&mut self, line: usize, old: &[u8], new: &[u8]) {
        let line = u16::try_from(line).expect("invariant: a page has at most 65536 lines");
        let mut mask = 0;
        let words = old.chunks(WORD_BYTES).zip(new.chunks(WORD_BYTES));
        for (at, (old, new)) in (0..).step_by(WORD_BYTES).zip(words) {
            let word = |bytes: &[u8]| bytes.as_array().map(|word| u64::from_le_bytes(*word));
            if word(old).is_some() && word(old) == word(new) {
                continue;
            }
            for (i, byte) in new.iter().enumerate().filter(|(i, byte)| old[*i] != **byte) {
                mask |= 1 << (at + i);
                self.bytes.push(*byte);
            }
        }
        self.lines.push(Changed { line, mask });
    }

    /// Appends a line and its changed bytes: as many as `mask` has bits, or the diff does not fit
    /// any page.
    pub fn push(&mut self, line: u16, mask: u64, bytes: &[u8]) {
        self.lines.push(Changed { line, mask });
        self.bytes.extend_from_slice(bytes);
    }

    /// The changed lines: number, mask of changed bytes, and these bytes.
    pub fn lines(&self) -> impl ExactSizeIterator<Item = (u16, u64, &[u8])> + '_ {
        self.parts().map(|(Changed { line, mask }, bytes)| (line, mask, bytes))
    }

    fn parts(&self) -> impl ExactSizeIterator<Item = (Changed, &[u8])> + '_ {
        let mut rest = &self.bytes[..];
        self.lines.iter().map(move |changed| {
            let (bytes, after) = rest.split_at(rest.len().min(changed.mask.count_ones() as usize));
            rest = after;
            (*changed, bytes)
        })
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Bytes a message spends on this diff: ten a line and one a changed byte.
    pub fn wire_bytes(&self) -> usize {
        10 * self.lines.len() + self.bytes.len()
    }

    /// Whether every line is inside a page of `page_bytes` and the masks have as many bits as there
    /// are bytes.
    pub fn fits(&self, page_bytes: usize) -> bool {
        let bits: usize = self.lines.iter().map(|l| l.mask.count_ones() as usize).sum();
        bits == self.bytes.len()
            && self.lines.iter().all(|l| {
                let start = usize::from(l.line) * LINE_BYTES;
                let last = 63 - l.mask.leading_zeros().min(63) as usize;
                l.mask != 0 && start + last < page_bytes
            })
    }

    /// The changed bytes as runs: where each begins in the page, and its bytes.
    pub fn runs(&self) -> impl Iterator<Item = (usize, &[u8])> + '_ {
        self.parts().flat_map(|(changed, bytes)| runs(changed, bytes))
    }

    /// Writes the changed bytes into `page`.
    ///
    /// # Panics
    /// When the diff does not fit the page; check diffs from outside with [`Diff::fits`].
    pub fn apply(&self, page: &mut [u8]) {
        self.runs().for_each(|(at, bytes)| page[at..at + bytes.len()].copy_from_slice(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Several blocks, the last of them and its last line cut off.
    const PAGE_BYTES: usize = 2 * BLOCK_BYTES + LINE_BYTES + 12;

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn applying_a_diff_to_the_twin_gives_the_page(
            twin in proptest::collection::vec(any::<u8>(), PAGE_BYTES),
            writes in proptest::collection::vec((0..PAGE_BYTES, any::<u8>()), 0..40),
        ) {
            let mut page = twin.clone();
            for (i, b) in writes { page[i] = b; }
            let diff = Diff::between(&twin, &page);
            prop_assert!(diff.fits(PAGE_BYTES));
            let mut copy = twin.clone();
            diff.apply(&mut copy);
            prop_assert_eq!(&copy, &page);
            let mut by_runs = twin;
            for (at, bytes) in diff.runs() { by_runs[at..at + bytes.len()].copy_from_slice(bytes); }
            prop_assert_eq!(by_runs, page);
        }

        /// A rank that knows of each line that may have changed finds the same.
        #[test]
        fn lines_that_may_have_changed_suffice(
            twin in proptest::collection::vec(any::<u8>(), 64 * LINE_BYTES),
            writes in proptest::collection::vec((0..64 * LINE_BYTES, any::<u8>()), 0..40),
            more: u64,
        ) {
            let (mut page, mut lines) = (twin.clone(), 0);
            for (i, b) in writes {
                page[i] = b;
                lines |= 1 << (i / LINE_BYTES);
            }
            let whole = Diff::between(&twin, &page);
            prop_assert_eq!(&Diff::between_lines(&twin, &page, lines), &whole);
            prop_assert_eq!(&Diff::between_lines(&twin, &page, lines | more), &whole);
            prop_assert_eq!(ones(more).map(|at| 1u64 << at).sum::<u64>(), more);
        }

        #[test]
        fn disjoint_diffs_commute(
            base in proptest::collection::vec(any::<u8>(), 128),
            writes in proptest::collection::vec((0usize..128, any::<u8>(), any::<bool>()), 0..60),
        ) {
            let owner: Vec<bool> = (0..128).map(|i| i % 3 == 0).collect();
            let (mut a, mut b) = (base.clone(), base.clone());
            for (i, v, _) in writes { if owner[i] { a[i] = v } else { b[i] = v } }
            let (da, db) = (Diff::between(&base, &a), Diff::between(&base, &b));
            let (mut ab, mut ba) = (base.clone(), base.clone());
            da.apply(&mut ab); db.apply(&mut ab);
            db.apply(&mut ba); da.apply(&mut ba);
            prop_assert_eq!(&ab, &ba);
            for i in 0..128 { prop_assert_eq!(ab[i], if owner[i] { a[i] } else { b[i] }); }
        }
    }

    #[test]
    fn a_diff_outside_the_page_does_not_fit() {
        let mut far = Diff::default();
        far.push(1, 1 << 3, &[7]);
        assert!(far.fits(68) && !far.fits(67));
        let mut liar = Diff::default();
        liar.push(0, 3, &[7]);
        assert!(!liar.fits(64));
    }
}
