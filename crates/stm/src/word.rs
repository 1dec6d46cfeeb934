//! The two packed words of the protocol: the persistent stamp and the volatile ownership record.
//!
//! ```text
//! stamp  63..18 clock | 17..11 tid | 10..3 zero | 2 live | 1..0 count mod 4
//! orec   63..18 clock | 17..11 tid | 10 live | 9 newest slot | 8..7 state | 6..0 owner, or count
//! ```
//!
//! - A stamp names the transaction (thread slot, clock) that wrote its slot; the count says which
//!   of two valid slots is later. Zero: never written, or scrubbed.
//! - An orec caches the newest slot's stamp, so that reading and validating touch no medium and
//!   committing reads none. Its version part (all but state and owner) changes with every commit
//!   and never repeats. A free one has no owner and keeps the count there.
//! - No orec in use is zero: that is one not yet built.
//!
//! Paper 3.1 packs (tid, clock) alike; the persistent `new` and `lock` of figure 7 are gone.

/// Bits of a thread slot's number.
pub(crate) const TID_BITS: u32 = 7;
/// Thread slots a pool can have.
pub const THREADS_MAX: usize = 1 << TID_BITS;
/// Clocks a thread slot can spend: 2^46, two years at a million transactions a second.
pub(crate) const CLOCK_MAX: u64 = (1 << 46) - 1;

const CLOCK_SHIFT: u32 = 18;
const TID_SHIFT: u32 = 11;
const TID_MASK: u64 = (THREADS_MAX - 1) as u64;

/// What a slot carries beside its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(pub(crate) u64);

impl Stamp {
    pub(crate) const NONE: Stamp = Stamp(0);

    pub(crate) fn new(tid: u32, clock: u64, live: bool, count: u64) -> Stamp {
        debug_assert!(clock <= CLOCK_MAX && u64::from(tid) <= TID_MASK);
        let id = clock << CLOCK_SHIFT | u64::from(tid) << TID_SHIFT;
        Stamp(id | u64::from(live) << 2 | count & 3)
    }
    /// The stamp of the same transaction for another version.
    #[inline(always)]
    pub(crate) fn with(self, live: bool, count: u64) -> Stamp {
        Stamp(self.0 & !7 | u64::from(live) << 2 | count & 3)
    }
    pub(crate) fn clock(self) -> u64 {
        self.0 >> CLOCK_SHIFT
    }
    pub(crate) fn tid(self) -> usize {
        (self.0 >> TID_SHIFT & TID_MASK) as usize
    }
    pub(crate) fn live(self) -> bool {
        self.0 >> 2 & 1 == 1
    }
    pub(crate) fn count(self) -> u64 {
        self.0 & 3
    }
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }
    /// Whether the bits are ones that this format writes.
    pub(crate) fn is_formed(self) -> bool {
        self.is_none() || (self.0 >> 3 & 0xff == 0 && self.clock() > 0)
    }
}

/// State of an ownership record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum State {
    Free = 0,
    /// A writer means to write; readers still read the newest version.
    Intent = 1,
    /// A writer is between its validation and its release; others wait or abort.
    Committing = 2,
}

/// An ownership record's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Orec(pub(crate) u64);

const VERSION_MASK: u64 = !0x1ff;
const LIVE: u64 = 1 << 10;

impl Orec {
    /// The record of an object whose slot `newest` carries `stamp`.
    pub(crate) fn free(stamp: Stamp, newest: usize) -> Orec {
        let id = stamp.0 >> TID_SHIFT << TID_SHIFT;
        Orec(id | u64::from(stamp.live()) << 10 | (newest as u64) << 9 | stamp.count())
    }
    /// The count of the newest slot; of a free record only.
    #[inline(always)]
    pub(crate) fn count(self) -> u64 {
        debug_assert!(self.is_free(), "an owned record keeps no count");
        self.0 & 3
    }
    /// Whether the object is alive and nobody holds its record.
    #[inline(always)]
    pub(crate) fn is_settled(self) -> bool {
        self.0 & (3 << 7 | LIVE) == LIVE
    }
    pub(crate) fn owned(self, state: State, owner: u32) -> Orec {
        Orec(self.version() | (state as u64) << 7 | u64::from(owner))
    }
    #[inline(always)]
    pub(crate) fn version(self) -> u64 {
        self.0 & VERSION_MASK
    }
    #[inline(always)]
    pub(crate) fn is_free(self) -> bool {
        self.0 >> 7 & 3 == State::Free as u64
    }
    #[inline(always)]
    pub(crate) fn is_committing(self) -> bool {
        self.0 >> 7 & 3 == State::Committing as u64
    }
    #[inline(always)]
    pub(crate) fn owner(self) -> u32 {
        (self.0 & TID_MASK) as u32
    }
    /// Whether another than `me` is between validation and release here.
    #[inline(always)]
    pub(crate) fn blocks(self, me: u32) -> bool {
        self.is_committing() && self.owner() != me
    }
    /// Whether `me` holds the record in either state.
    #[inline(always)]
    pub(crate) fn is_mine(self, me: u32) -> bool {
        !self.is_free() && self.owner() == me
    }
    #[inline(always)]
    pub(crate) fn newest(self) -> usize {
        (self.0 >> 9 & 1) as usize
    }
    #[inline(always)]
    pub(crate) fn live(self) -> bool {
        self.0 >> 10 & 1 == 1
    }
    #[inline(always)]
    pub(crate) fn tid(self) -> usize {
        (self.0 >> TID_SHIFT & TID_MASK) as usize
    }
    #[inline(always)]
    pub(crate) fn clock(self) -> u64 {
        self.0 >> CLOCK_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_overlap() {
        let stamp = Stamp::new(127, CLOCK_MAX, true, 7);
        assert_eq!(
            (stamp.tid(), stamp.clock(), stamp.live(), stamp.count()),
            (127, CLOCK_MAX, true, 3)
        );
        assert_eq!(stamp.with(false, 6), Stamp::new(127, CLOCK_MAX, false, 2));
        assert!(stamp.is_formed() && !Stamp(1 << 5).is_formed());
        let free = Orec::free(stamp, 1);
        let held = free.owned(State::Committing, 99);
        assert_eq!(
            (held.tid(), held.clock(), held.live(), held.newest()),
            (127, CLOCK_MAX, true, 1)
        );
        assert_eq!((held.version(), held.owner()), (free.version(), 99));
        assert!(free.count() == 3 && free.is_settled() && !held.is_settled());
        assert!(Orec::free(Stamp::NONE, 1).0 != 0 && !Orec::free(Stamp::NONE, 1).is_settled());
        assert!(held.blocks(98) && !held.blocks(99) && held.is_mine(99) && free.is_free());
    }
}
