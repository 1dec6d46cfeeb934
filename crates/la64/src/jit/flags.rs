//! Operations of any width and the flags that they leave.
//!
//! - Checked against an independent disassembler like the others (`tests/emit.rs`).

use super::emit::Map::One;
use super::emit::{Asm, Form, Reg, Rm, forms};

forms! {
    CARRY_FORMS, "Register and register or memory, with the carry.";
    ADC = Form::of("adc", 0, One, 0x13);
    SBB = Form::of("sbb", 0, One, 0x1b);
}

impl Asm {
    /// An operation on `bits` bits, 8 to 64, of a form whose opcode less one is that of bytes.
    pub fn sized(&mut self, f: Form, bits: u32, reg: Reg, rm: impl Into<Rm>) {
        let f = match bits {
            8 => Form { opcode: f.opcode - 1, byte: true, ..f },
            16 => Form { prefix: 0x66, ..f },
            _ => f,
        };
        self.op(f, bits == 64, reg, rm);
    }

    /// `pushf`.
    pub fn push_flags(&mut self) {
        self.byte(0x9c);
    }
}
