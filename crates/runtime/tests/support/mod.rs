//! A read device that answers when a script says so: late, out of order, or with an error.
//!
//! Time is the number of `reap` calls. Each request draws its delay and its status from the script
//! in turn. Data arrive in the slot's own buffer at the moment of the answer, also for abandoned
//! slots: a ring that gave such a slot to someone else would show that someone the wrong bytes.

use std::cell::{Cell, RefCell};

use littoral_base::clock::ClockKind;
use littoral_device::read::{Completion, Lease, Limits, ReadDevice, Slot, Status};

/// Bytes of a buffer.
pub(crate) const READ_BYTES_MAX: u32 = 16;

/// What the device holds at an address: a function, so that every answer can be checked.
pub(crate) fn content(addr: u64) -> u64 {
    addr.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5555
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Free,
    UnderWay { due: u64, addr: u64, status: Status, abandoned: bool },
    Done(Status),
}

/// See the module.
pub(crate) struct Scripted {
    states: Vec<Cell<State>>,
    buffers: Vec<Vec<Cell<u8>>>,
    /// What `data` lends: a copy taken at the answer, leaked for the test's life.
    lent: Vec<Cell<&'static [u8]>>,
    now: Cell<u64>,
    script: RefCell<Box<dyn Iterator<Item = (u64, Status)>>>,
    pub(crate) late_answers: Cell<u64>,
}

impl Scripted {
    /// `slots` slots; request after request takes a delay (in reaps) and a status from `script`.
    pub(crate) fn new(
        slots: u32,
        script: impl Iterator<Item = (u64, Status)> + 'static,
    ) -> Scripted {
        let buffer = || vec![Cell::new(0); READ_BYTES_MAX as usize];
        Scripted {
            states: (0..slots).map(|_| Cell::new(State::Free)).collect(),
            buffers: (0..slots).map(|_| buffer()).collect(),
            lent: (0..slots).map(|_| Cell::new(&[][..])).collect(),
            now: Cell::new(0),
            script: RefCell::new(Box::new(script)),
            late_answers: Cell::new(0),
        }
    }

    fn answer(&self, slot: usize, addr: u64, status: Status, abandoned: bool) {
        for (byte, value) in self.buffers[slot].iter().zip(content(addr).to_le_bytes()) {
            byte.set(value);
        }
        self.late_answers.set(self.late_answers.get() + u64::from(abandoned));
        self.states[slot].set(if abandoned { State::Free } else { State::Done(status) });
    }
}

impl ReadDevice for Scripted {
    fn limits(&self) -> Limits {
        Limits {
            slots: self.states.len() as u32,
            granule_bytes: 1,
            read_bytes_max: READ_BYTES_MAX,
            capacity_bytes: u64::MAX,
            completion: Completion::Word,
            clock: ClockKind::Virtual,
            can_park: false,
        }
    }

    fn issue(&self, slot: Slot, addr: u64, _len: u32) {
        assert_eq!(self.states[slot.index()].get(), State::Free, "{slot:?} was not free");
        let (delay, status) = self.script.borrow_mut().next().unwrap_or((0, Status::Ok));
        let due = self.now.get() + delay;
        self.states[slot.index()].set(State::UnderWay { due, addr, status, abandoned: false });
    }

    fn reap(&self) {
        self.now.set(self.now.get() + 1);
        for slot in 0..self.states.len() {
            if let State::UnderWay { due, addr, status, abandoned } = self.states[slot].get()
                && due < self.now.get()
            {
                self.answer(slot, addr, status, abandoned);
            }
        }
    }

    fn poll(&self, slot: Slot) -> Option<Status> {
        match self.states[slot.index()].get() {
            State::Done(status) => Some(status),
            State::UnderWay { abandoned: false, .. } => None,
            state => panic!("{slot:?} was polled while {state:?}"),
        }
    }

    fn data(&self, slot: Slot, _: Lease) -> &[u8] {
        let bytes: Vec<u8> = self.buffers[slot.index()].iter().map(Cell::get).collect();
        let seen = self.lent[slot.index()].get();
        if seen != bytes {
            self.lent[slot.index()].set(Vec::leak(bytes));
        }
        self.lent[slot.index()].get()
    }

    fn release(&self, slot: Slot) {
        let state = &self.states[slot.index()];
        match state.get() {
            State::Done(_) => state.set(State::Free),
            State::UnderWay { due, addr, status, abandoned: false } => {
                state.set(State::UnderWay { due, addr, status, abandoned: true });
            }
            other => panic!("{slot:?} was released while {other:?}"),
        }
    }

    fn is_free(&self, slot: Slot) -> bool {
        self.states[slot.index()].get() == State::Free
    }
}
