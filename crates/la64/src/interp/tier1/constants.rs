//! Constants in general registers while a block is translated.
//!
//! - A constant is *due* from the instruction that makes it until something needs the register: an
//!   instruction that reads it, an exit, a call of tier 0, the slow way of a later instruction.
//!   Many are never written: an address whose accesses are constant, a value that others replace.
//! - A register to which numbers were added in a region is due as well: it holds the sum before
//!   these *steps*. Displacements and immediates have them meanwhile.
//! - So is a register that is to be shifted for the next instruction alone, an access by an index
//!   that writes it: the address has the *scale*.
//! - Where code leaves the common way, the register is written there and stays due here.

/// A constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Constant {
    pub(super) value: u64,
    /// It moves with the code: it is the address of an instruction, and a number.
    pub(super) relative: bool,
}

impl Constant {
    /// One that stays what it is.
    pub(super) fn fixed(value: u64) -> Constant {
        Constant { value, relative: false }
    }

    /// One that moves with the code.
    pub(super) fn relative(value: u64) -> Constant {
        Constant { value, relative: true }
    }
}

/// What a register gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owed {
    /// A constant.
    Constant(Constant),
    /// Itself and a number.
    Step(i32),
    /// Itself, shifted to the left.
    Scale(u8),
}

/// Registers and what they are to get.
pub(super) type Due = Vec<(usize, Owed)>;

/// What is known of general registers.
#[derive(Clone, Debug, Default)]
pub(super) struct Constants {
    values: [Option<Constant>; 32],
    /// Registers that do not hold their constant yet, or to which a number is to be added.
    due: u32,
    /// These numbers.
    steps: [i32; 32],
    /// A register that is to be shifted, and by how much.
    scaled: Option<(usize, u8)>,
    /// What was due when the current instruction began.
    before: Due,
}

impl Constants {
    /// The constant that register `n` holds, or will when it is needed.
    pub(super) fn get(&self, n: usize) -> Option<Constant> {
        if n == 0 { Some(Constant::fixed(0)) } else { self.values[n] }
    }

    /// Register `n` holds a constant.
    pub(super) fn know(&mut self, n: usize, value: Constant) {
        self.values[n] = Some(value);
    }

    /// Register `n` is to hold a constant.
    pub(super) fn put_off(&mut self, n: usize, value: Constant) {
        self.forget(n);
        self.values[n] = Some(value);
        self.due |= 1 << n;
    }

    /// Register `n` holds something else.
    pub(super) fn forget(&mut self, n: usize) {
        self.values[n] = None;
        self.steps[n] = 0;
        self.due &= !(1 << n);
        self.scaled = self.scaled.filter(|&(of, _)| of != n);
    }

    /// By how much register `n` is to be shifted.
    pub(super) fn scale(&self, n: usize) -> u8 {
        self.scaled.filter(|&(of, _)| of == n).map_or(0, |(_, by)| by)
    }

    /// Register `n`, of which nothing else is known, is to be shifted for the next instruction.
    pub(super) fn put_scale(&mut self, n: usize, by: u8) {
        debug_assert!(self.scaled.is_none());
        self.forget(n);
        self.scaled = Some((n, by));
        self.due |= 1 << n;
    }

    /// What is to be added to register `n`.
    pub(super) fn step(&self, n: usize) -> i32 {
        self.steps[n]
    }

    /// A number is to be added to register `n`, which holds no constant.
    pub(super) fn put_step(&mut self, n: usize, step: i32) {
        self.forget(n);
        self.steps[n] = step;
        self.due |= u32::from(step != 0) << n;
    }

    /// What register `n` is to get.
    fn owed(&self, n: usize) -> Option<Owed> {
        match self.steps[n] {
            _ if self.scale(n) > 0 => Some(Owed::Scale(self.scale(n))),
            0 => self.values[n].map(Owed::Constant),
            step => Some(Owed::Step(step)),
        }
    }

    /// Whether some register does not hold its constant yet.
    pub(super) fn are_any_due(&self) -> bool {
        self.due != 0
    }

    /// Whether register `n` does not hold its constant yet.
    pub(super) fn is_due(&self, n: usize) -> bool {
        self.due >> n & 1 == 1
    }

    /// Register `n` gets what is due now.
    pub(super) fn take(&mut self, n: usize) -> Due {
        let owed = self.owed(n);
        self.due &= !(1 << n);
        self.steps[n] = 0;
        self.scaled = self.scaled.filter(|&(of, _)| of != n);
        owed.map(|owed| (n, owed)).into_iter().collect()
    }

    /// All registers get what is due now.
    pub(super) fn take_all(&mut self) -> Due {
        let due = self.due();
        (self.due, self.steps, self.scaled) = (0, [0; 32], None);
        due
    }

    /// Registers that do not hold what they are to hold yet.
    pub(super) fn due(&self) -> Due {
        let mut list = Due::new();
        let mut left = self.due;
        while left != 0 {
            let n = left.trailing_zeros() as usize;
            left &= left - 1;
            list.extend(self.owed(n).map(|owed| (n, owed)));
        }
        list
    }

    /// The current instruction begins.
    pub(super) fn begin(&mut self) {
        self.before = self.due();
    }

    /// What was due when the current instruction began.
    pub(super) fn due_before(&self) -> Due {
        self.before.clone()
    }
}
