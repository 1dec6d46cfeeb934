//! Sleeping until another process has written something, without losing the wake-up.
//!
//! A bell is a count and a number of sleepers in memory that both sides reach. Who sleeps: reads
//! the count, announces itself, looks once more, and sleeps only while the count is what it read.
//! Who writes: writes, and strikes the bell only if a sleeper is announced, so that writing to a
//! node that is awake costs a fence and a load.
//!
//! The count only grows, so a late waker strikes the bell with no waiter and does no harm. A
//! *parked* flag that is cleared late would lose the next wake-up.
//!
//! Invariants
//! - What was written before [`ring`] is seen by the sleeper's look, or the sleeper is woken: the
//!   sequentially consistent fences on both sides forbid that both miss. Checked by
//!   `a_sleeper_whose_word_was_written_wakes`.

use std::time::Duration;

use littoral_base::mutant;
use littoral_base::sync::atomic::{Ordering, fence};

/// The two words of a bell and how to sleep on the first.
pub trait Bell {
    /// The count.
    fn count(&self) -> u32;
    /// Adds one to the count.
    fn strike(&self);
    /// How many are announced as sleepers.
    fn sleepers(&self) -> u64;
    /// Announces one more.
    fn announce(&self);
    /// Takes one announcement back.
    fn withdraw(&self);
    /// Sleeps while the count is `seen`, until woken, at most for `timeout`; may return early.
    fn sleep(&self, seen: u32, timeout: Option<Duration>);
    /// Wakes every sleeper.
    fn wake(&self);
}

/// Wakes the sleepers of `bell`, if there are any; what was written before is then seen by them.
#[inline]
pub fn ring(bell: &impl Bell) {
    if !mutant!("loom_bell_without_fence") {
        fence(Ordering::SeqCst);
    }
    if bell.sleepers() > 0 {
        bell.strike();
        bell.wake();
    }
}

/// One round of waiting: what `ready` answers, or nothing after one sleep.
pub fn sleep_unless<T>(
    bell: &impl Bell,
    timeout: Option<Duration>,
    mut ready: impl FnMut() -> Option<T>,
) -> Option<T> {
    let seen = bell.count();
    bell.announce();
    fence(Ordering::SeqCst);
    let answer = ready();
    if answer.is_none() {
        bell.sleep(seen, timeout);
    }
    bell.withdraw();
    answer
}
