//! What an operation is: its row in a table of operations, its code as a type, and the code of
//! words that are no operation.
//!
//! - An [`Operation`] leaves control at the next instruction, or ends the block with an [`Exit`]; a
//!   [`Last`] is anything, branches too.
//! - This module knows no operation: the modules of operations import it, and `bind` and `pairs`
//!   import them.

use super::{Cpu, Cursor, Exit, Handler, Trap};
use std::ops::ControlFlow;

/// A mnemonic and its code.
pub(super) type Entry = (&'static str, Handler);

/// A mnemonic without its leading `x` and its code for 128 and 256 bits.
pub(super) type VectorEntry = (&'static str, [Handler; 2]);

/// What leaves control at the next instruction, or ends the block.
pub(super) trait Operation {
    /// Executes it.
    fn run(cpu: &mut Cpu, i: Cursor<'_>) -> ControlFlow<Exit>;
}

/// What may stand last in a pair.
pub(super) trait Last {
    /// Executes it and what follows.
    fn finish(cpu: &mut Cpu, i: Cursor<'_>) -> Exit;
}

impl<O: Operation> Last for O {
    #[inline(always)]
    fn finish(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
        match O::run(cpu, i) {
            ControlFlow::Continue(()) => i.chain(cpu),
            ControlFlow::Break(exit) => exit,
        }
    }
}

/// The handler of one operation.
pub(super) fn single<O: Operation>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    O::finish(cpu, i)
}

/// What a word that is no instruction runs.
pub(super) fn illegal(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    cpu.fault(i, Trap::Illegal(i.imm as u32))
}

/// What an instruction with operands that do not exist runs: traps with the word itself.
pub(super) fn illegal_operand(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let word = cpu.window.load::<u32>(i.pc()).unwrap_or(0);
    cpu.fault(i, Trap::Illegal(word))
}
