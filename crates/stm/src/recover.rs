//! What a restart does before the first transaction: O(threads), whatever the heap's size.
//!
//! At a crash a thread slot has at most one transaction between its clock step and its frontier, so
//! the only stamps that never committed are (t, frontier(t) + 1) of slots marked active. A restart
//! 1. records that clock in the slot's dead list, fence;
//! 2. moves the frontier past it, fence;
//! 3. clears the active mark, fence.
//!
//! Slabs are resolved when first touched ([`crate::slab`]), judged by the frontiers and dead lists
//! as they were then. When a dead list is full, or a scan was asked for, every slab is resolved at
//! once and, once no bad stamp is left on the medium, the dead lists are emptied.
//!
//! Each step repeated after a crash inside recovery gives the same or a safer state: step 1 finds
//! its entry, step 2 skips one more clock at worst.
//!
//! Deviation from paper 004: clocks resume at frontier + 2, with the one dead clock remembered,
//! instead of a scan that zeroes invalid stamps before any clock is reused; that scan is what made
//! restart linear.

use littoral_base::mutant;
use littoral_device::memory::Domain;

use crate::error::{Error, Kind, Result, device};
use crate::format::{DEAD_MAX, Frontier, Layout, SlabEntry};
use crate::word::Stamp;

/// How a pool is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// In time independent of the pool's size; slabs are resolved when first touched.
    Lazy,
    /// Everything is resolved, checked and scrubbed before the first transaction.
    Scan,
}

/// The frontiers and dead clocks by which this session judges stamps of earlier ones.
#[derive(Debug)]
pub(crate) struct Boot {
    lines: Vec<Frontier>,
}

impl Boot {
    /// Whether `stamp`, found at `at`, belongs to a committed transaction (or is none at all).
    pub(crate) fn covers(&self, stamp: Stamp, at: usize) -> Result<bool> {
        if stamp.is_none() {
            return Ok(true);
        }
        let line = self.lines.get(stamp.tid()).filter(|_| stamp.is_formed());
        match line {
            Some(line) if line.dead.contains(&stamp.clock()) => Ok(false),
            Some(line) if stamp.clock() <= line.clock => Ok(true),
            _ => {
                let text = format!("offset {at}: stamp {:#x} was never given out", stamp.0);
                Err(Error::new(Kind::Corrupt, text).at_offset(at as u64))
            }
        }
    }

    /// The clocks from which the thread slots go on.
    pub(crate) fn clocks(&self) -> Vec<u64> {
        let resumed = |l: &Frontier| if mutant!("stm_clocks_from_zero") { 0 } else { l.clock };
        self.lines.iter().map(resumed).collect()
    }

    pub(crate) fn has_dead(&self) -> bool {
        self.lines.iter().any(|l| !l.dead.is_empty())
    }
}

/// What is left to do once every slab has been resolved.
#[derive(Debug)]
pub(crate) struct Pending {
    active: Vec<usize>,
    /// Whether a dead list was full, so that only a scan makes the frontiers movable.
    pub(crate) must_scan: bool,
}

/// Reads the frontiers and does the three steps; they wait for [`finish`] when a dead list is full.
pub(crate) fn boot<D: Domain>(domain: &D, layout: &Layout) -> Result<(Boot, Pending)> {
    let read = |tid| Frontier::read(domain, layout, tid);
    let mut lines = (0..layout.threads).map(read).collect::<Result<Vec<_>>>()?;
    let active: Vec<usize> = (0..layout.threads).filter(|&t| lines[t].active).collect();
    let must_scan = active.iter().any(|&t| lines[t].dead.len() == DEAD_MAX);
    if !must_scan && !active.is_empty() {
        for &tid in &active {
            if let Some(clock) = lines[tid].unfinished().filter(|c| !lines[tid].dead.contains(c)) {
                Frontier::write_dead(domain, layout, tid, clock);
            }
        }
        domain.fence().map_err(device("record unfinished clocks"))?;
        pass_over(domain, layout, &active, |t| lines[t].unfinished().unwrap_or(lines[t].clock))?;
    }
    for &tid in &active {
        if let Some(clock) = lines[tid].unfinished() {
            lines[tid].clock = clock;
            lines[tid].dead.push(clock);
        }
    }
    let is_passed = |&t: &usize| {
        let found = Frontier::read(domain, layout, t);
        found.is_ok_and(|f| !f.active && f.clock == lines[t].clock)
    };
    debug_assert!(must_scan || active.iter().all(is_passed), "no unfinished clock is used again");
    Ok((Boot { lines }, Pending { active, must_scan }))
}

fn pass_over<D: Domain>(
    domain: &D,
    layout: &Layout,
    active: &[usize],
    clock: impl Fn(usize) -> u64,
) -> Result<()> {
    for &tid in active {
        Frontier::write_clock(domain, layout, tid, clock(tid));
    }
    domain.fence().map_err(device("move the frontiers"))?;
    for &tid in active {
        Frontier::write_active(domain, layout, tid, false);
    }
    domain.fence().map_err(device("clear the active marks"))
}

/// Empties the dead lists; every slab in use, by its entry, has been resolved.
pub(crate) fn finish<D: Domain>(
    domain: &D,
    layout: &Layout,
    boot: &Boot,
    pending: &Pending,
    entries: &[Option<SlabEntry>],
) -> Result<()> {
    debug_assert!(entries.len() == layout.slabs, "one entry a slab");
    if boot.has_dead() {
        // An earlier restart may have ended between scrubbing a stamp and its fence: here that
        // stamp reads as zero, the medium holds it still, and only its dead clock refuses it.
        if !mutant!("stm_scan_trusts_unfenced") {
            for slab in (0..layout.slabs).filter(|&slab| entries[slab].is_some()) {
                domain.write_back(layout.slab_offset(slab), layout.slab_bytes());
            }
            domain.fence().map_err(device("what was scrubbed before"))?;
        }
        for tid in 0..layout.threads {
            Frontier::clear_dead(domain, layout, tid);
        }
        domain.fence().map_err(device("empty the dead lists"))?;
    }
    if pending.must_scan {
        pass_over(domain, layout, &pending.active, |t| boot.lines[t].clock)?;
    }
    let is_done = |t| Frontier::read(domain, layout, t).is_ok_and(|f| f.dead.is_empty());
    debug_assert!((0..layout.threads).all(is_done), "a dead clock outlives the scan");
    Ok(())
}
