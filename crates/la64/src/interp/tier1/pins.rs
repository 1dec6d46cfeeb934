//! Which registers of the guest are in registers of the host.
//!
//! - Code is entered and left with the [`STANDARD`] ones. A loop that leads back to its own
//!   beginning has pins of its own: those that it uses most. They stay across its back edge; what
//!   differs from the standard goes through [`State`] on the way in and at each exit.
//! - A loop keeps each standard pin that it uses, unless another register is used more often.
//!
//! [`State`]: crate::state::State

use super::layout::{self, PINS, VECTOR_PINS, WINDOW};
use super::reach::Reach;
use crate::isa::{self, FieldKind};
use crate::jit::emit::{Asm, LEA, MOV, MOV_TO, MOVAPS, MOVAPS_TO, Mem, Reg, Xmm};

/// A host register for some of the guest's registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pins {
    general: [Option<Reg>; 33],
    /// Low halves of vector registers.
    vector: [Option<Xmm>; 32],
    /// Host addresses of what general registers point at, which the code does not change.
    bases: [Option<Reg>; 32],
}

/// No register.
const NONE: Pins = Pins { general: [None; 33], vector: [None; 32], bases: [None; 32] };

/// The pins between blocks.
pub(super) static STANDARD: Pins = {
    let mut pins = NONE;
    let mut n = 0;
    while n < PINS.len() {
        pins.general[PINS[n].0] = Some(PINS[n].1);
        n += 1;
    }
    let mut n = 0;
    while n < VECTOR_PINS {
        pins.vector[n] = Some(Xmm(n as u8 + 3));
        n += 1;
    }
    pins
};

impl Pins {
    /// The host register of general register `n`, if it has one.
    pub(super) fn general(&self, n: usize) -> Option<Reg> {
        self.general[n]
    }

    /// The host register of the low half of vector register `n`, if it has one.
    pub(super) fn vector(&self, n: usize) -> Option<Xmm> {
        self.vector[n]
    }

    /// The host register with the host address of guest address `n`, if there is one.
    pub(super) fn base(&self, n: usize) -> Option<Reg> {
        self.bases[n]
    }

    /// The pins of a loop of these words, each with how often it is executed, with these accesses.
    pub(super) fn of_loop(words: impl Iterator<Item = (u32, u32)>, reach: &Reach) -> Pins {
        let (mut general, mut vector) = ([0; 33], [0; 32]);
        for (word, times) in words {
            let Some(id) = isa::decode(word) else { continue };
            for field in id.row().fields {
                let n = (word >> field.lo & 31) as usize;
                match field.kind {
                    FieldKind::Gpr => general[n] += times * u32::from(n != 0),
                    FieldKind::Fpr | FieldKind::Vr | FieldKind::Xr => vector[n] += times,
                    FieldKind::Fcc | FieldKind::Scratch | FieldKind::Fcsr => {}
                    FieldKind::Signed | FieldKind::Unsigned => {}
                }
            }
        }
        let mut pins = STANDARD.clone();
        assign(&mut pins.general, &general);
        assign(&mut pins.vector, &vector);
        // Registers that the loop does not name have no use for their host registers.
        let unused = |n: &usize| general[*n] == 0 && pins.general[*n].is_some();
        let mut free: Vec<usize> = (1..32).filter(unused).collect();
        for base in reach.staying_in_pairs() {
            // The state has the register, too.
            let own = reach.is_address(base) && pins.general[base].is_some();
            let from = if own { Some(base) } else { free.pop() };
            if let Some(n) = from {
                pins.bases[base] = pins.general[n].take();
            }
        }
        pins
    }

    /// Writes all pins to the state.
    pub(super) fn spill(&self, asm: &mut Asm) {
        self.spill_others(asm, &NONE);
    }

    /// Reads all pins from the state.
    pub(super) fn reload(&self, asm: &mut Asm) {
        self.reload_others(asm, &NONE);
    }

    /// Changes from these pins to others; keeps rax and the flags.
    pub(super) fn change_to(&self, asm: &mut Asm, others: &Pins) {
        self.spill_others(asm, others);
        others.reload_others(asm, self);
    }

    /// Writes those pins to the state that `kept` has elsewhere or not at all.
    fn spill_others(&self, asm: &mut Asm, kept: &Pins) {
        for (n, pin) in differing(&self.general, &kept.general) {
            asm.op(MOV_TO, true, pin, layout::x(n));
        }
        for (n, pin) in differing(&self.vector, &kept.vector) {
            asm.sse(MOVAPS_TO, pin, layout::v(n, 0));
        }
    }

    /// Reads those pins from the state that `before` has elsewhere or not at all.
    fn reload_others(&self, asm: &mut Asm, before: &Pins) {
        for (n, pin) in differing(&self.general, &before.general) {
            asm.op(MOV, true, pin, layout::x(n));
        }
        for (n, pin) in differing(&self.vector, &before.vector) {
            asm.sse(MOVAPS, pin, layout::v(n, 0));
        }
        for (n, base) in differing(&self.bases, &before.bases) {
            let from = self.general[n].unwrap_or(base);
            if from == base {
                asm.op(MOV, true, base, layout::x(n));
            }
            asm.op(LEA, true, base, Mem::indexed(WINDOW, from, 0, 0));
        }
    }
}

/// The pins of `these` that are not the same in `those`.
fn differing<R: Copy + PartialEq>(
    these: &[Option<R>],
    those: &[Option<R>],
) -> impl Iterator<Item = (usize, R)> {
    let pairs = these.iter().zip(those).enumerate();
    pairs.filter_map(|(n, (this, that))| this.filter(|_| this != that).map(|pin| (n, pin)))
}

/// Gives host registers of little used registers to those that are used more often.
fn assign<R: Copy>(pins: &mut [Option<R>], uses: &[u32]) {
    let of = |pinned: bool| {
        let numbers = (0..pins.len()).filter(|&n| pins[n].is_some() == pinned);
        let mut list: Vec<usize> = numbers.collect();
        list.sort_by_key(|&n| uses[n]);
        list
    };
    let (little_used, wanted) = (of(true), of(false));
    for (from, to) in little_used.into_iter().zip(wanted.into_iter().rev()) {
        if uses[to] > uses[from] {
            pins[to] = pins[from].take();
        }
    }
}
