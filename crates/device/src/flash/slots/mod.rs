//! The life of a slot, once, for every device whose answers arrive by themselves.
//!
//! `Free -> Issued -> Done -> Free`, and `Issued -> Abandoned -> Free` when the asker went away
//! before the answer: an abandoned slot is not given out until the device has answered.
//!
//! Invariants
//! - [`Slots::outstanding`] is the number of slots whose answer is still owed (issued or
//!   abandoned). Checked by `an_abandoned_slot_is_free_only_after_its_answer`,
//!   `a_failed_device_owes_nothing`.
//! - A slot is issued on only when free, and completed only when an answer is owed. Checked by
//!   `Slots::issue`, `Slots::complete`.
//!
//! Callers: the pread pool, io_uring, the emulator.

use std::cell::Cell;

use crate::read::{Slot, Status};

pub(crate) mod raw;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Issued,
    Done(Status),
    Abandoned,
}

/// The states of a device's slots.
#[derive(Debug)]
pub(crate) struct Slots {
    states: Box<[Cell<State>]>,
    outstanding: Cell<u32>,
}

impl Slots {
    pub(crate) fn new(count: u32) -> Self {
        let states = (0..count).map(|_| Cell::new(State::Free)).collect();
        Slots { states, outstanding: Cell::new(0) }
    }

    /// Answers still owed.
    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding.get()
    }

    /// Marks a free slot as issued.
    pub(crate) fn issue(&self, slot: Slot) {
        let cell = &self.states[slot.index()];
        debug_assert_eq!(cell.get(), State::Free, "{slot:?} is not free");
        cell.set(State::Issued);
        self.outstanding.set(self.outstanding.get() + 1);
    }

    /// Marks a free slot as answered at once.
    pub(crate) fn finish_at_issue(&self, slot: Slot, status: Status) {
        self.issue(slot);
        self.complete(slot, status);
    }

    /// Takes an answer; true when a reader still waits for it.
    pub(crate) fn complete(&self, slot: Slot, status: Status) -> bool {
        let cell = &self.states[slot.index()];
        let wanted = cell.get() == State::Issued;
        debug_assert!(wanted || cell.get() == State::Abandoned, "{slot:?} owes no answer");
        cell.set(if wanted { State::Done(status) } else { State::Free });
        self.outstanding.set(self.outstanding.get() - 1);
        wanted
    }

    /// The status of a finished request.
    #[inline]
    pub(crate) fn poll(&self, slot: Slot) -> Option<Status> {
        match self.states[slot.index()].get() {
            State::Done(status) => Some(status),
            _ => None,
        }
    }

    /// Frees a finished slot, abandons an issued one.
    pub(crate) fn release(&self, slot: Slot) {
        let cell = &self.states[slot.index()];
        cell.set(match cell.get() {
            State::Issued | State::Abandoned => State::Abandoned,
            State::Done(_) | State::Free => State::Free,
        });
    }

    pub(crate) fn is_free(&self, slot: Slot) -> bool {
        self.states[slot.index()].get() == State::Free
    }

    /// Whether a reader waits for the slot's answer.
    #[inline]
    pub(crate) fn is_wanted(&self, slot: Slot) -> bool {
        self.states[slot.index()].get() == State::Issued
    }

    /// Whether no reader waits for the slot's answer.
    pub(crate) fn is_abandoned(&self, slot: Slot) -> bool {
        self.states[slot.index()].get() == State::Abandoned
    }

    /// Answers every owed request with `status`: the device itself has failed.
    pub(crate) fn fail_all(&self, status: Status) {
        for (i, cell) in (0..).zip(&self.states) {
            if matches!(cell.get(), State::Issued | State::Abandoned) {
                self.complete(Slot(i), status);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abandoned_slot_is_free_only_after_its_answer() {
        let slots = Slots::new(2);
        let s = Slot(1);
        slots.issue(s);
        assert!(slots.poll(s).is_none() && !slots.is_free(s));
        slots.release(s);
        assert!(!slots.is_free(s) && slots.outstanding() == 1);
        assert!(!slots.complete(s, Status::Ok));
        assert!(slots.is_free(s) && slots.outstanding() == 0);
    }

    #[test]
    fn a_failed_device_owes_nothing() {
        let slots = Slots::new(3);
        slots.issue(Slot(0));
        slots.issue(Slot(1));
        slots.release(Slot(1));
        slots.fail_all(Status::Os);
        assert_eq!(slots.poll(Slot(0)), Some(Status::Os));
        assert!(slots.is_free(Slot(1)) && slots.is_free(Slot(2)) && slots.outstanding() == 0);
    }

    #[test]
    fn a_finished_slot_keeps_its_status_until_released() {
        let slots = Slots::new(1);
        slots.issue(Slot(0));
        assert!(slots.complete(Slot(0), Status::MediaError));
        assert_eq!(slots.poll(Slot(0)), Some(Status::MediaError));
        slots.release(Slot(0));
        assert!(slots.is_free(Slot(0)));
        slots.finish_at_issue(Slot(0), Status::Refused);
        assert_eq!(slots.poll(Slot(0)), Some(Status::Refused));
    }
}
