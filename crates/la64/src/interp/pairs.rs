//! Two operations in one handler, which saves the step between them.
//!
//! - A pair is an [`Operation`] and a [`Last`].
//! - The handler of a pair stands in the first instruction and reads the second one's fields where
//!   they are; the second keeps its own handler. So a fault, a count or an entry between the two is
//!   what it would be without the pair.
//! - Which pairs exist is a matter of speed alone: the lists below are what compiled programs use
//!   most.

use super::branch::{B, Beq, Beqz, Bge, Bgeu, Blt, Bltu, Bne, Bnez, Return};
use super::integer::{
    AddD, AddW, AddiD, AddiW, AlslD, And, Andi, BstrpickD, Constant, Maskeqz, Masknez, Move, MulD,
    MulW, Or, Ori, SlliD, Slt, Sltu, Sltui, SrliD, Step, SubD, Xor,
};
use super::memory::{Index, Load, Offset, Store};
use super::operation::{Last, Operation, single};
use super::vector::InsertW;
use super::{Cpu, Cursor, Exit, Handler};
use std::ops::ControlFlow;

/// The handler of two.
fn pair<A: Operation, B: Last>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    match A::run(cpu, i) {
        ControlFlow::Continue(()) => B::finish(cpu, i.next()),
        ControlFlow::Break(exit) => exit,
    }
}

/// `FIRSTS` and `SECONDS` by mnemonic, and the handlers of every combination.
macro_rules! pairs {
    (first { $($a:literal $first:ty,)* } second { $($b:literal $second:ty,)* }) => {
        const FIRSTS: &[&str] = &[$($a),*];
        const SECONDS: &[&str] = &[$($b),*];
        trait Joined {
            const WITH: [Handler; SECONDS.len()];
        }
        impl<A: Operation> Joined for A {
            const WITH: [Handler; SECONDS.len()] = [$(pair::<A, $second>),*];
        }
        static HANDLERS: [[Handler; SECONDS.len()]; FIRSTS.len()] = [$(<$first>::WITH),*];
    };
}

pairs! {
    first {
        "add.d" AddD,
        "addi.d" AddiD,
        "add.w" AddW,
        "addi.w" AddiW,
        "sub.d" SubD,
        "or" Or,
        "ori" Ori,
        "and" And,
        "andi" Andi,
        "xor" Xor,
        "slt" Slt,
        "sltu" Sltu,
        "sltui" Sltui,
        "maskeqz" Maskeqz,
        "masknez" Masknez,
        "slli.d" SlliD,
        "srli.d" SrliD,
        "alsl.d" AlslD,
        "mul.d" MulD,
        "mul.w" MulW,
        "bstrpick.d" BstrpickD,
        "constant" Constant,
        "move" Move,
        "step" Step,
        "lu12i.w" Constant,
        "pcalau12i" Constant,
        "vinsgr2vr.w" InsertW,
        "ld.d" Load<u64, Offset>,
        "ld.w" Load<i32, Offset>,
        "ld.bu" Load<u8, Offset>,
        "ld.b" Load<i8, Offset>,
        "ld.hu" Load<u16, Offset>,
        "ldx.d" Load<u64, Index>,
        "ldx.w" Load<i32, Index>,
        "ldx.b" Load<i8, Index>,
        "st.d" Store<u64, Offset>,
        "st.w" Store<u32, Offset>,
        "st.b" Store<u8, Offset>,
    }
    second {
        "constant" Constant,
        "move" Move,
        "step" Step,
        "vinsgr2vr.w" InsertW,
        "add.d" AddD,
        "addi.d" AddiD,
        "add.w" AddW,
        "addi.w" AddiW,
        "sub.d" SubD,
        "or" Or,
        "ori" Ori,
        "and" And,
        "andi" Andi,
        "xor" Xor,
        "slt" Slt,
        "sltu" Sltu,
        "maskeqz" Maskeqz,
        "masknez" Masknez,
        "slli.d" SlliD,
        "srli.d" SrliD,
        "alsl.d" AlslD,
        "mul.w" MulW,
        "bstrpick.d" BstrpickD,
        "ld.d" Load<u64, Offset>,
        "ld.w" Load<i32, Offset>,
        "ld.bu" Load<u8, Offset>,
        "ldx.d" Load<u64, Index>,
        "ldx.w" Load<i32, Index>,
        "ldx.b" Load<i8, Index>,
        "st.d" Store<u64, Offset>,
        "st.w" Store<u32, Offset>,
        "st.b" Store<u8, Offset>,
        "stx.d" Store<u64, Index>,
        "stx.b" Store<u8, Index>,
        "beq" Beq,
        "bne" Bne,
        "blt" Blt,
        "bge" Bge,
        "bltu" Bltu,
        "bgeu" Bgeu,
        "beqz" Beqz,
        "bnez" Bnez,
        "b" B,
        "ret" Return,
    }
}

/// The places of an operation in the lists.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Key {
    first: Option<u8>,
    second: Option<u8>,
}

impl Key {
    /// The places of a mnemonic, or of one of the special forms below.
    pub(super) fn of(name: &str) -> Key {
        let place = |list: &[&str]| list.iter().position(|&n| n == name).map(|n| n as u8);
        Key { first: place(FIRSTS), second: place(SECONDS) }
    }
}

/// The handler of two instructions that follow each other, if there is one.
pub(super) fn find(first: Key, second: Key) -> Option<Handler> {
    Some(HANDLERS[usize::from(first.first?)][usize::from(second.second?)])
}

/// A form of an instruction that is less work than the whole: the words it is for, its code, and
/// its name in the lists.
#[derive(Clone, Copy, Debug)]
pub(super) struct Special {
    pub(super) fits: fn(u32) -> bool,
    pub(super) handler: Handler,
    pub(super) name: &'static str,
}

/// The special form of an instruction, if it has one.
pub(super) fn special(mnemonic: &str) -> Option<Special> {
    Some(match mnemonic {
        // A constant.
        "ori" | "addi.w" => Special {
            fits: |word| word >> 5 & 31 == 0,
            handler: single::<Constant>,
            name: "constant",
        },
        // A move between registers.
        "or" => {
            Special { fits: |word| word >> 10 & 31 == 0, handler: single::<Move>, name: "move" }
        }
        // A step: source and destination are one register, which is not register 0.
        "addi.d" => Special {
            fits: |word| word & 31 != 0 && word & 31 == word >> 5 & 31,
            handler: single::<Step>,
            name: "step",
        },
        // A return.
        "jirl" => {
            Special { fits: |word| word == 0x4c00_0020, handler: Return::finish, name: "ret" }
        }
        _ => return None,
    })
}
