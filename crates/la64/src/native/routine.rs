//! The routine that enters code and leaves it, as LA64 words.
//!
//! ```text
//! enter:      save the caller's registers on its stack, and where, in the frame
//!             attention set -> abandon
//!             registers from the state, r21 last; jump
//! leave:      the Cpu from the vector register; pc = the bl; reason = exit; r1 if code saved it
//! interrupted: (r21 is the Cpu) registers to the state, but r21 and the pc
//! abandon:    (r21 is the Cpu) the caller's registers; return
//! ```

use super::reason;
use crate::asm::{self, Asm};
use crate::interp::Cpu;
use crate::state::{Frame, Lbt, State, fcsr};
use littoral_base::mutant;
use std::mem::offset_of;
use std::ops::Range;

const RA: i64 = 1;
const TP: i64 = 2;
const SP: i64 = 3;
const A0: i64 = 4;
const A1: i64 = 5;
const T0: i64 = 12;
/// Holds the address of the `Cpu` while registers are taken, and the target of the jump.
const LINK: i64 = 21;
/// Registers that a caller finds as they were, and those that it lends (tp, r21).
const KEPT: [i64; 13] = [RA, TP, LINK, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31];
/// Floating-point registers that a caller finds as they were.
const KEPT_FLOAT: std::ops::RangeInclusive<i64> = 24..=31;
const FLOATS_AT: i64 = 8 * KEPT.len() as i64;
const FCSR_AT: i64 = FLOATS_AT + 8 * 8;
/// Bytes on the caller's stack, a multiple of 16.
const SAVED_LEN: i64 = FCSR_AT + 8;
/// The doubleword of the vector register that holds the address of the `Cpu`, and the one in which
/// code that needs r1 has saved it.
const LANE: i64 = 2;
const LINK_LANE: i64 = 3;
/// All flags of LBT that are x86's.
const FLAGS: i64 = 0x3f;

const fn at(offset: usize) -> i64 {
    assert!(offset < 2048, "in reach of a displacement");
    offset as i64
}

const X: i64 = at(offset_of!(Cpu, state) + offset_of!(State, x));
const PC: i64 = at(offset_of!(Cpu, state) + offset_of!(State, pc));
const FCC: i64 = at(offset_of!(Cpu, state) + offset_of!(State, fcc));
const FCSR: i64 = at(offset_of!(Cpu, state) + offset_of!(State, fcsr));
const LBT: usize = offset_of!(Cpu, state) + offset_of!(State, lbt);
const SCRATCH: i64 = at(LBT + offset_of!(Lbt, scratch));
const LBT_FLAGS: i64 = at(LBT + offset_of!(Lbt, flags));
const V: i64 = at(offset_of!(Cpu, state) + offset_of!(State, v));
const FRAME: usize = offset_of!(Cpu, native);
const FRAME_SP: i64 = at(FRAME + offset_of!(Frame, sp));
const FRAME_REASON: i64 = at(FRAME + offset_of!(Frame, reason));

/// Where parts of a routine begin, in bytes from its begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// Its length.
    pub(crate) len: u64,
    /// From the look at the attention flag to the jump.
    pub(crate) entering: Range<u64>,
    /// Where code leaves.
    pub(crate) leave: u64,
    /// Where interrupted code leaves.
    pub(crate) interrupted: u64,
    /// Where a run ends that has not begun.
    pub(crate) abandon: u64,
}

/// How code leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaves {
    /// The vector register whose doubleword 2 code leaves alone.
    pub thread: u8,
    /// Code keeps r1: it saves it in doubleword 3 of that register before it leaves.
    pub keeps_link: bool,
}

impl Leaves {
    /// The instructions by which code leaves, the last of which is at `at`, to where the routine at
    /// `begin` takes over.
    pub fn words(&self, routine: &Routine, begin: u64, at: u64) -> Option<Vec<u32>> {
        let leave = begin + routine.leave();
        let jump = asm::word("bl", &[leave.wrapping_sub(at) as i64])?;
        let save = asm::word("xvinsgr2vr.d", &[self.thread.into(), RA, LINK_LANE])?;
        Some(if self.keeps_link { vec![save, jump] } else { vec![jump] })
    }
}

/// The routine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routine {
    words: Vec<u32>,
    places: Places,
}

impl Routine {
    /// A routine for code that leaves so.
    ///
    /// # Panics
    /// If there is no such vector register.
    pub fn new(Leaves { thread, keeps_link }: Leaves, has_lbt: bool) -> Routine {
        assert!(thread < 32, "a vector register");
        let (mut asm, mut places) = (Asm::default(), Places::default());
        let abandon = asm.label();
        let here = |asm: &Asm| 4 * asm.len() as u64;
        save(&mut asm);
        places.entering.start = here(&asm);
        asm.op("ld.bu", &[T0, A1, 0]);
        asm.branch("bnez", &[T0], abandon);
        take(&mut asm, thread.into(), has_lbt);
        asm.op("jirl", &[0, LINK, 0]);
        places.entering.end = here(&asm);
        places.leave = here(&asm);
        asm.op("xvpickve2gr.d", &[LINK, thread.into(), LANE]);
        asm.op("addi.d", &[RA, RA, -4]);
        asm.op("st.d", &[RA, LINK, PC]);
        // Register 0 is that reason.
        const { assert!(reason::EXIT == 0) };
        asm.op("st.d", &[0, LINK, FRAME_REASON]);
        if keeps_link {
            asm.op("xvpickve2gr.d", &[RA, thread.into(), LINK_LANE]);
        }
        places.interrupted = here(&asm);
        give(&mut asm, has_lbt);
        places.abandon = here(&asm);
        asm.bind(abandon);
        restore(&mut asm);
        places.len = here(&asm);
        let words = asm.finish().expect("invariant: every operand of the routine fits");
        Routine { words, places }
    }

    /// Its code, which may lie anywhere.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Bytes of code.
    pub fn len_bytes(&self) -> u64 {
        self.places.len
    }

    /// Where code leaves by `bl`, in bytes from the routine's begin.
    pub fn leave(&self) -> u64 {
        self.places.leave
    }

    pub(super) fn places(&self) -> &Places {
        &self.places
    }
}

/// Saves what the caller must find again, and where.
fn save(asm: &mut Asm) {
    asm.op("addi.d", &[SP, SP, -SAVED_LEN]);
    for (n, register) in (0..).zip(KEPT) {
        asm.op("st.d", &[register, SP, 8 * n]);
    }
    for (n, register) in (0..).zip(KEPT_FLOAT) {
        asm.op("fst.d", &[register, SP, FLOATS_AT + 8 * n]);
    }
    asm.op("movfcsr2gr", &[T0, 0]);
    asm.op("st.w", &[T0, SP, FCSR_AT]);
    asm.op("st.d", &[SP, A0, FRAME_SP]);
    asm.op("or", &[LINK, A0, 0]);
}

/// Takes the registers of the state at r21; r21 itself becomes the pc.
fn take(asm: &mut Asm, thread: i64, has_lbt: bool) {
    let load = |asm: &mut Asm, name: &str, at: i64| asm.op(name, &[T0, LINK, at]);
    load(asm, "ld.w", FCSR);
    // What the latest operation raised is of no use, and with its trap allowed it may trap here.
    const { assert!(fcsr::CAUSE == 0x1f << 24) };
    if !mutant!("la64_native_cause_traps_again") {
        asm.op("bstrins.w", &[T0, 0, 28, 24]);
    }
    asm.op("movgr2fcsr", &[0, T0]);
    for n in 0..8 {
        load(asm, "ld.bu", FCC + n);
        asm.op("movgr2cf", &[n, T0]);
    }
    for n in 0..32 {
        asm.op("xvld", &[n, LINK, V + 32 * n]);
    }
    asm.op("xvinsgr2vr.d", &[thread, LINK, LANE]);
    if has_lbt {
        for n in 0..4 {
            load(asm, "ld.d", SCRATCH + 8 * n);
            asm.op("movgr2scr", &[n, T0]);
        }
        load(asm, "ld.wu", LBT_FLAGS);
        asm.op("x86mtflag", &[T0, FLAGS]);
    }
    for n in (1..32).filter(|&n| n != LINK) {
        asm.op("ld.d", &[n, LINK, X + 8 * n]);
    }
    asm.op("ld.d", &[LINK, LINK, PC]);
}

/// Gives the registers to the state at r21, but r21.
fn give(asm: &mut Asm, has_lbt: bool) {
    let store = |asm: &mut Asm, name: &str, at: i64| asm.op(name, &[T0, LINK, at]);
    for n in (1..32).filter(|&n| n != LINK) {
        asm.op("st.d", &[n, LINK, X + 8 * n]);
    }
    for n in 0..32 {
        asm.op("xvst", &[n, LINK, V + 32 * n]);
    }
    asm.op("movfcsr2gr", &[T0, 0]);
    store(asm, "st.w", FCSR);
    for n in 0..8 {
        asm.op("movcf2gr", &[T0, n]);
        store(asm, "st.b", FCC + n);
    }
    if has_lbt {
        for n in 0..4 {
            asm.op("movscr2gr", &[T0, n]);
            store(asm, "st.d", SCRATCH + 8 * n);
        }
        asm.op("x86mfflag", &[T0, FLAGS]);
        store(asm, "st.w", LBT_FLAGS);
    }
}

/// The contrary of [`save`], with the `Cpu` in r21, and the return.
fn restore(asm: &mut Asm) {
    asm.op("ld.d", &[SP, LINK, FRAME_SP]);
    asm.op("ld.w", &[T0, SP, FCSR_AT]);
    asm.op("movgr2fcsr", &[0, T0]);
    for (n, register) in (0..).zip(KEPT_FLOAT) {
        asm.op("fld.d", &[register, SP, FLOATS_AT + 8 * n]);
    }
    for (n, register) in (0..).zip(KEPT) {
        asm.op("ld.d", &[register, SP, 8 * n]);
    }
    asm.op("addi.d", &[SP, SP, SAVED_LEN]);
    asm.op("jirl", &[0, RA, 0]);
}
