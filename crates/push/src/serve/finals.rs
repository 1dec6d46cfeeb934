//! FINALs that wait for the pages of their tasks.
//!
//! Invariants
//! - A task has one at most: what the end of each page looks at is not made longer by a host that
//!   repeats itself. Checked by `a_task_has_one_final_which_is_answered_however_it_ends`.

use littoral_base::mutant;

use crate::command::Command;

/// The engine's number of a session, and a task of it.
pub(super) type Key = (u32, u16);

/// FINALs and the hosts that sent them.
pub(super) struct Finals<H>(Vec<(H, Command)>);

impl<H: Copy + Eq> Finals<H> {
    /// None.
    pub(super) fn new() -> Finals<H> {
        Finals(Vec::new())
    }

    fn place(&self, key: Key) -> Option<usize> {
        self.0.iter().position(|(_, c)| (c.session, c.task) == key)
    }

    /// Whether that of the command's task waits.
    pub(super) fn has_that_of(&self, command: &Command) -> bool {
        self.place((command.session, command.task)).is_some() && !mutant!("push_finals_pile_up")
    }

    /// One more.
    pub(super) fn add(&mut self, host: H, command: Command) {
        let is_first = self.place((command.session, command.task)).is_none();
        debug_assert!(is_first || mutant!("push_finals_pile_up"), "a task has one");
        self.0.push((host, command));
    }

    /// That of a task, which waits no more.
    pub(super) fn take(&mut self, key: Key) -> Option<(H, Command)> {
        self.place(key).map(|place| self.0.remove(place))
    }

    /// Forgets those of a host.
    pub(super) fn drop_host(&mut self, host: H) {
        self.0.retain(|(of, _)| *of != host);
    }
}
