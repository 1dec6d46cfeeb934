//! The table of guards: which bytes of shared memory the program has lent itself.
//!
//! Where other ranks' differences come to this rank's frames the table is the engine's, under its
//! lock. On a direct segment no message reaches the pages, so the table belongs to the thread that
//! makes the guards and a guard takes no lock (`super::lend`).
//!
//! Invariants
//! - A guard that writes overlaps no other. Checked by
//!   `overlapping_guards_and_taken_locks_are_refused`.
//! - No guard outlives its scope: a lock, an unlock and a barrier are refused while one is in the
//!   table, since only a guard that was leaked can be (mutant `dsm_leaked_guard_unnoticed`).
//!   Checked by `a_leaked_guard_is_named_at_the_end_of_its_scope`.

use littoral_base::mutant;

use crate::error::{Error, Kind, Result};

/// Bytes of shared memory that the program has a guard on.
#[derive(Clone, Copy, Debug)]
struct Guard {
    id: u64,
    start: usize,
    end: usize,
    write: bool,
}

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct Guards {
    list: Vec<Guard>,
    next: u64,
}

impl Guards {
    /// Notes a guard on bytes `start..end`; its number.
    ///
    /// # Errors
    /// `Kind::Misuse` when a guard overlaps and one of the two writes.
    pub(super) fn add(&mut self, start: usize, end: usize, write: bool) -> Result<u64> {
        let clash = |g: &&Guard| g.start < end && start < g.end && (write || g.write);
        if let Some(g) = self.list.iter().find(clash).filter(|_| start < end) {
            let what = format!(
                "bytes {start}..{end} of shared memory while a guard on {}..{} lives",
                g.start, g.end
            );
            return Err(Error::new(Kind::Misuse, what).at_offset(start as u64));
        }
        self.next += 1;
        self.list.push(Guard { id: self.next, start, end, write });
        Ok(self.next)
    }

    /// Ends a guard; its bytes.
    pub(super) fn remove(&mut self, id: u64) -> Option<(usize, usize)> {
        // The newest mostly ends first.
        let at = self.list.iter().rposition(|g| g.id == id)?;
        let Guard { start, end, .. } = self.list.swap_remove(at);
        Some((start, end))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether there is a guard on one of the bytes `start..end`.
    pub(super) fn meets(&self, start: usize, end: usize) -> bool {
        self.list.iter().any(|g| g.start < end && start < g.end)
    }

    /// Refuses to end or begin a scope with a guard in the table.
    ///
    /// # Errors
    /// `Kind::Misuse` naming the guard's bytes.
    pub(super) fn refuse_leaked(&self) -> Result<()> {
        match self.list.first() {
            Some(g) if !mutant!("dsm_leaked_guard_unnoticed") => Err(leaked(g)),
            _ => Ok(()),
        }
    }
}

#[cold]
fn leaked(g: &Guard) -> Error {
    let kind = if g.write { "writing" } else { "reading" };
    let what = format!(
        "a {kind} guard on bytes {}..{} of shared memory was leaked, as by mem::forget or \
         Box::leak: what it wrote reaches no other rank; drop guards before their scope ends",
        g.start, g.end
    );
    Error::new(Kind::Misuse, what).at_offset(g.start as u64)
}
