//! Threads on tier 0 that see memory in weak order: they take turns by a seed, which decides about
//! reorderings too, so a run can be repeated. What is reordered is in `interp::orders`.
//!
//! Invariants
//! - The same seed gives the same end. Checked by `the_same_seed_gives_the_same_end`.

use crate::interp::{Cache, Cpu, Fetch, Orders, Random, Tier, Trap};

/// A thread.
#[derive(Debug)]
pub struct Thread {
    /// Its registers.
    pub cpu: Cpu,
    cache: Cache,
    orders: Orders,
    ended: Option<Trap>,
}

impl Thread {
    /// A thread that begins at its pc.
    pub fn new(cpu: Cpu) -> Thread {
        let cache = Cache::new(Tier::Interpreter);
        Thread { cpu, cache, orders: Orders::default(), ended: None }
    }

    /// How it ended; none while it runs.
    pub fn ended(&self) -> Option<Trap> {
        self.ended
    }

    /// The owner has set registers: the thread runs again.
    pub fn restart(&mut self) {
        (self.orders, self.ended) = (Orders::default(), None);
    }

    fn is_done(&self) -> bool {
        self.ended.is_some() && self.orders.is_empty()
    }

    fn turn(&mut self, fetch: &impl Fetch, random: &mut Random) {
        let choice = if self.ended.is_some() { random.below(2) } else { random.below(6) };
        let Thread { cpu, cache, orders, ended } = self;
        let took = orders.late_turn(cpu, choice, random);
        if !took && ended.is_none() {
            *ended = orders.instruction(cpu, fetch, |cpu| cache.step(cpu, fetch));
        }
        *ended = ended.or(orders.failed());
    }
}

/// Runs threads until each has ended and all stores are visible; false if that takes more turns
/// than allowed.
pub fn run(threads: &mut [Thread], fetch: &impl Fetch, seed: u64, turns_max: u64) -> bool {
    let mut random = Random::new(seed);
    for _ in 0..turns_max {
        let left = threads.iter().filter(|t| !t.is_done()).count();
        if left == 0 {
            return true;
        }
        let chosen = random.below(left);
        let thread = threads.iter_mut().filter(|t| !t.is_done()).nth(chosen);
        thread.expect("invariant: it was counted").turn(fetch, &mut random);
    }
    false
}
