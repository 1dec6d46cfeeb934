//! The two packed words of the protocol: the persistent stamp and the volatile ownership record.
//!
//! ```text
//! stamp  63..18 clock | 17..11 tid | 10..3 check | 2 live | 1..0 count mod 4
//! orec   63 unsettled | 62..17 clock | 16..15 state | 14 newest slot | 13..7 owner, or count
//!        6..0 tid
//! ```
//!
//! - A stamp names the transaction (thread slot, clock) that wrote its slot; the count says which
//!   of two valid slots is later. Zero: never written, or scrubbed. The check bits are
//!   [`check`] of the others: a stamp with one flipped bit is always refused.
//! - An orec caches the newest slot's stamp, so that reading and validating touch no medium and
//!   committing reads none. Its version part (clock, newest and tid) changes with every commit and
//!   never repeats. A free one has no owner and keeps the count there.
//! - A settled orec is free and of a living object. Any other is above every settled one, so that
//!   one comparison with what [`Starts`] holds for its thread slot says that a version may be read.
//! - No orec in use is zero: that is one not yet built.
//!
//! Paper 3.1 packs (tid, clock) alike; the persistent `new` and `lock` of figure 7 are gone.

/// Bits of a thread slot's number.
pub(crate) const TID_BITS: u32 = 7;
/// Thread slots a pool can have.
pub const THREADS_MAX: usize = 1 << TID_BITS;

/// Snapshots of a session. A version's epoch is kept as u32, and a writer may load what handles
/// that are being refused add for a moment, one each.
pub(crate) const EPOCHS_MAX: u64 = u32::MAX as u64 - THREADS_MAX as u64;
const _: () = assert!(EPOCHS_MAX + THREADS_MAX as u64 <= u32::MAX as u64);

/// Clocks a thread slot can spend: 2^46, two years at a million transactions a second.
pub(crate) const CLOCK_MAX: u64 = (1 << 46) - 1;

/// Bits by which a clock lies above the low end of a persistent word.
pub(crate) const CLOCK_SHIFT: u32 = 18;
const TID_SHIFT: u32 = 11;
const TID_MASK: u64 = (THREADS_MAX - 1) as u64;

/// Check bits of `word`, `bits` of them: the high bits of its product with an odd constant.
///
/// The constant has no run of eight equal bits. So if one bit of `word` changes, the product
/// changes by a power of two times the constant, whose part in the check bits is neither all zeros
/// nor all ones, and a carry from below cannot undo it. Any other change is missed once in
/// `2^bits`.
#[inline(always)]
pub(crate) const fn check(word: u64, bits: u32) -> u64 {
    word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)
}

const CHECK_BITS: u32 = 8;
const CHECK_SHIFT: u32 = 3;
const CHECK_MASK: u64 = ((1 << CHECK_BITS) - 1) << CHECK_SHIFT;

/// What a slot carries beside its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(pub(crate) u64);

impl Stamp {
    pub(crate) const NONE: Stamp = Stamp(0);

    pub(crate) fn new(tid: u32, clock: u64, live: bool, count: u64) -> Stamp {
        debug_assert!(clock <= CLOCK_MAX && u64::from(tid) <= TID_MASK);
        let id = clock << CLOCK_SHIFT | u64::from(tid) << TID_SHIFT;
        Stamp(id).with(live, count)
    }
    /// The stamp of the same transaction for another version.
    #[inline(always)]
    pub(crate) fn with(self, live: bool, count: u64) -> Stamp {
        let plain = self.0 & !(CHECK_MASK | 7) | u64::from(live) << 2 | count & 3;
        Stamp(plain | check(plain, CHECK_BITS) << CHECK_SHIFT)
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
        self.is_none() || (self.with(self.live(), self.count()) == self && self.clock() > 0)
    }
}

/// What a writer does with a record it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It means to write; readers still read the newest version.
    Intent,
    /// It is between its validation and its release; others wait or abort.
    Committing,
}

/// An ownership record's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Orec(pub(crate) u64);

const UNSETTLED: u64 = 1 << 63;
const OREC_CLOCK_SHIFT: u32 = 17;
const CODE_SHIFT: u32 = 15;
const NEWEST_SHIFT: u32 = 14;
const OWNER_SHIFT: u32 = 7;
const VERSION_MASK: u64 = CLOCK_MAX << OREC_CLOCK_SHIFT | 1 << NEWEST_SHIFT | TID_MASK;

/// States: a free record, an intent on a living object (or, one more, on one that is not alive), a
/// commit under way.
const FREE: u64 = 0;
const INTENT: u64 = 1;
const COMMITTING: u64 = 3;

impl Orec {
    /// The record of an object whose slot `newest` carries `stamp`.
    #[inline(always)]
    pub(crate) fn free(stamp: Stamp, newest: usize) -> Orec {
        let id = stamp.clock() << OREC_CLOCK_SHIFT | stamp.tid() as u64;
        let ended = u64::from(!stamp.live()) << 63;
        Orec(ended | id | (newest as u64) << NEWEST_SHIFT | stamp.count() << OWNER_SHIFT)
    }
    /// The record of a free one's version in the hands of `owner`.
    #[inline(always)]
    pub(crate) fn owned(self, state: State, owner: u32) -> Orec {
        let code = match state {
            State::Intent => INTENT + u64::from(self.0 >= UNSETTLED),
            State::Committing => COMMITTING,
        };
        let held = UNSETTLED | code << CODE_SHIFT | u64::from(owner) << OWNER_SHIFT;
        Orec(self.version() | held)
    }
    /// The record of the version that `id`'s transaction makes of a free one's object: the other
    /// slot, the next count.
    #[inline(always)]
    pub(crate) fn next(self, id: Orec, live: bool) -> Orec {
        debug_assert!(self.is_free() && id.0 & !(CLOCK_MAX << OREC_CLOCK_SHIFT | TID_MASK) == 0);
        let newest = !self.0 & 1 << NEWEST_SHIFT;
        let count = (self.0 + (1 << OWNER_SHIFT)) & 3 << OWNER_SHIFT;
        Orec(id.0 | newest | count | u64::from(!live) << 63)
    }
    /// The count of the newest slot; of a free record only.
    #[inline(always)]
    pub(crate) fn count(self) -> u64 {
        debug_assert!(self.is_free(), "an owned record keeps no count");
        self.0 >> OWNER_SHIFT & 3
    }
    #[inline(always)]
    pub(crate) fn version(self) -> u64 {
        self.0 & VERSION_MASK
    }
    #[inline(always)]
    fn code(self) -> u64 {
        self.0 >> CODE_SHIFT & 3
    }
    #[inline(always)]
    pub(crate) fn is_free(self) -> bool {
        self.code() == FREE
    }
    #[inline(always)]
    pub(crate) fn is_committing(self) -> bool {
        self.code() == COMMITTING
    }
    #[inline(always)]
    pub(crate) fn owner(self) -> u32 {
        (self.0 >> OWNER_SHIFT & TID_MASK) as u32
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
        (self.0 >> NEWEST_SHIFT & 1) as usize
    }
    /// Whether the object is alive. One whose next version is being committed counts as alive: its
    /// record does not say, and no thread may read it.
    #[inline(always)]
    pub(crate) fn live(self) -> bool {
        self.0 < UNSETTLED || matches!(self.code(), INTENT | COMMITTING)
    }
    #[inline(always)]
    pub(crate) fn tid(self) -> usize {
        (self.0 & TID_MASK) as usize
    }
    #[inline(always)]
    pub(crate) fn clock(self) -> u64 {
        self.0 >> OREC_CLOCK_SHIFT & CLOCK_MAX
    }
}

/// The clock of each thread slot up to which its versions may be read: the paper's scs.
///
/// Kept as the highest word that a settled record of such a version can be.
#[derive(Clone, Debug)]
pub(crate) struct Starts([u64; THREADS_MAX]);

impl Starts {
    /// No clock but zero.
    pub(crate) fn none() -> Starts {
        Starts([highest(0); THREADS_MAX])
    }
    /// Whether a record is settled and its version's clock known.
    #[inline(always)]
    pub(crate) fn settle(&self, seen: Orec) -> bool {
        seen.0 <= self.0[seen.tid()]
    }
    /// Whether a version's clock is known, whatever the state of its record.
    #[inline(always)]
    pub(crate) fn know(&self, seen: Orec) -> bool {
        seen.clock() << OREC_CLOCK_SHIFT <= self.0[seen.tid()]
    }
    /// Whether clock `clock` of slot `tid` is known.
    pub(crate) fn reach(&self, tid: usize, clock: u64) -> bool {
        clock << OREC_CLOCK_SHIFT <= self.0[tid]
    }
    /// Knows clock `clock` of slot `tid` from now on.
    #[inline(always)]
    pub(crate) fn learn(&mut self, tid: usize, clock: u64) {
        let known = &mut self.0[tid & TID_MASK as usize];
        *known = (*known).max(highest(clock));
    }
}

#[inline(always)]
const fn highest(clock: u64) -> u64 {
    clock << OREC_CLOCK_SHIFT | ((1 << OREC_CLOCK_SHIFT) - 1)
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
        let zero = Stamp::new(0, 0, true, 1);
        assert!(!zero.is_formed(), "clocks begin at one");
        let free = Orec::free(stamp, 1);
        assert_eq!((free.tid(), free.clock(), free.newest()), (127, CLOCK_MAX, 1));
        assert!(free.live() && free.is_free() && free.count() == 3);
        let held = free.owned(State::Committing, 99);
        assert_eq!((held.version(), held.owner()), (free.version(), 99));
        assert!(held.blocks(98) && !held.blocks(99) && held.is_mine(99) && held.live());
        assert_ne!(Orec::free(Stamp::NONE, 1).0, 0);
    }

    #[test]
    fn an_intent_keeps_whether_the_object_is_alive() {
        for live in [true, false] {
            let free = Orec::free(Stamp::new(5, 77, live, 2), 0);
            let meant = free.owned(State::Intent, 127);
            assert!(meant.live() == live && free.live() == live);
            assert!(meant.is_mine(127) && !meant.is_free() && !meant.blocks(1));
            assert_eq!(meant.version(), free.version());
            assert_eq!(meant.version(), free.owned(State::Committing, 0).version());
        }
    }

    #[test]
    fn the_next_version_is_in_the_other_slot_and_counts_on() {
        let id = Orec::free(Stamp::new(9, 12, true, 0), 0);
        for (count, newest, live) in [(3, 0, true), (0, 1, false), (1, 0, false), (2, 1, true)] {
            let before = Orec::free(Stamp::new(127, 5, !live, count), newest);
            let stamp = Stamp::new(9, 12, live, count + 1);
            assert_eq!(before.next(id, live), Orec::free(stamp, 1 - newest));
        }
    }

    #[test]
    fn a_record_is_settled_when_it_is_free_alive_and_of_a_known_clock() {
        let mut starts = Starts::none();
        starts.learn(3, 40);
        starts.learn(3, 39);
        for (tid, clock, known) in [(3, 40, true), (3, 41, false), (4, 1, false), (4, 0, true)] {
            let free = |live| Orec::free(Stamp::new(tid, clock, live, 3), 1);
            assert_eq!(starts.settle(free(true)), known);
            assert!(!starts.settle(free(false)), "no object");
            for state in [State::Intent, State::Committing] {
                let held = free(true).owned(state, 0);
                assert!(!starts.settle(held) && starts.know(held) == known);
            }
            assert_eq!(
                (starts.know(free(false)), starts.reach(tid as usize, clock)),
                (known, known)
            );
        }
        starts.learn(127, CLOCK_MAX);
        assert!(starts.settle(Orec::free(Stamp::new(127, CLOCK_MAX, true, 3), 1)));
        assert!(!starts.settle(Orec::free(Stamp::new(127, CLOCK_MAX, false, 3), 1)));
    }

    #[test]
    fn no_flipped_bit_makes_a_stamp_of_another() {
        for i in 0..2000u64 {
            let clock = (littoral_base::rng::mix(i) % CLOCK_MAX) >> (i % 46);
            let stamp = Stamp::new(i as u32 % 128, clock.max(1), i & 4 == 0, i);
            assert!(stamp.is_formed());
            assert!((0..64).all(|bit| !Stamp(stamp.0 ^ 1 << bit).is_formed()), "{stamp:?}");
        }
        assert!((0..64).all(|bit| !Stamp(1 << bit).is_formed()), "an unused slot");
    }
}
