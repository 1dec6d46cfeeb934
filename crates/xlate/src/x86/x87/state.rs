//! The x87 registers of a thread, in vector registers that nothing else uses.
//!
//! - v17 to v24 hold the eight registers by their number: significand, then sign and exponent.
//! - v25 holds the control word, the status word, the tags and the opcode; the addresses of the
//!   latest instruction and its operand; a mark that all this was set.

use super::float80::{Class, F80};
use littoral_la64::state::State;

/// The first of eight vector registers.
const REGISTERS: usize = 17;
const CONTROL: usize = 25;
const SET: u64 = 1;

/// Bits of the status word.
pub(super) const STACK: u16 = 0x40;
pub(super) const SUMMARY: u16 = 0x80;
pub(super) const C0: u16 = 0x100;
pub(super) const C2: u16 = 0x400;
pub(super) const C3: u16 = 0x4000;
const TOP: u16 = 0x3800;
const BUSY: u16 = 0x8000;
/// All exceptions.
pub(super) const EXCEPTIONS: u16 = 0x3f;
/// The bits of the control word that can be written, and the one that is always set.
const WRITABLE: u16 = 0x1f3f;
const FIXED: u16 = 0x40;

/// The registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fpu {
    /// Control word.
    pub control: u16,
    /// Status word, without the top.
    pub status: u16,
    /// Number of the register on top.
    pub top: u8,
    /// A bit for each register that is not empty.
    pub full: u8,
    /// The opcode of the latest instruction that raised an unmasked exception.
    pub opcode: u16,
    /// The address of the latest instruction.
    pub ip: u64,
    /// The address of the operand.
    pub dp: u64,
    /// Registers by their number.
    pub registers: [F80; 8],
}

impl Default for Fpu {
    fn default() -> Fpu {
        Fpu {
            control: 0x37f,
            status: 0,
            top: 0,
            full: 0,
            opcode: 0,
            ip: 0,
            dp: 0,
            registers: [F80::default(); 8],
        }
    }
}

impl Fpu {
    /// The registers in a state.
    pub fn read(state: &State) -> Fpu {
        let [words, ip, dp, mark] = state.v[CONTROL].0;
        if mark != SET {
            return Fpu::default();
        }
        let registers = std::array::from_fn(|n| {
            let [m, se, ..] = state.v[REGISTERS + n].0;
            F80 { se: se as u16, m }
        });
        let mut fpu = Fpu { ip, dp, registers, ..Fpu::default() };
        fpu.set_words(words);
        fpu
    }

    /// Puts the registers into a state.
    pub fn write(&self, state: &mut State) {
        state.v[CONTROL].0 = [self.words(), self.ip, self.dp, SET];
        for (n, register) in self.registers.iter().enumerate() {
            state.v[REGISTERS + n].0 = [register.m, register.se.into(), 0, 0];
        }
    }

    /// The first eight bytes of what `fxsave` writes: control, status, tags, opcode.
    pub fn words(&self) -> u64 {
        u64::from(self.control)
            | u64::from(self.status_word()) << 16
            | u64::from(self.full) << 32
            | u64::from(self.opcode) << 48
    }

    /// Sets what [`Fpu::words`] shows.
    pub fn set_words(&mut self, words: u64) {
        self.set_status((words >> 16) as u16);
        self.set_control(words as u16);
        self.full = (words >> 32) as u8;
        self.opcode = (words >> 48) as u16 & 0x7ff;
    }

    pub(super) fn set_control(&mut self, word: u16) {
        self.control = word & WRITABLE | FIXED;
        self.summarize();
    }

    pub(super) fn set_status(&mut self, word: u16) {
        self.top = (word >> 11) as u8 & 7;
        self.status = word & !TOP;
        self.summarize();
    }

    /// Whether an exception pends.
    pub(super) fn summarize(&mut self) {
        let pends = self.status & !self.control & EXCEPTIONS != 0;
        self.status &= !(SUMMARY | BUSY);
        self.status |= if pends { SUMMARY | BUSY } else { 0 };
    }

    /// The status word.
    pub fn status_word(&self) -> u16 {
        self.status | u16::from(self.top) << 11
    }

    /// Exceptions that are raised and not masked.
    pub fn pending(&self) -> u16 {
        if self.status & SUMMARY == 0 { 0 } else { self.status & !self.control & EXCEPTIONS }
    }

    pub(super) fn number(&self, n: u8) -> usize {
        usize::from((self.top + n) & 7)
    }

    /// The n-th register from the top.
    pub fn st(&self, n: u8) -> F80 {
        self.registers[self.number(n)]
    }

    pub(super) fn is_empty(&self, n: u8) -> bool {
        self.full >> self.number(n) & 1 == 0
    }

    /// Sets the n-th register from the top.
    pub fn set_st(&mut self, n: u8, value: F80) {
        let number = self.number(n);
        self.registers[number] = value;
        self.full |= 1 << number;
    }

    pub(super) fn free(&mut self, n: u8) {
        self.full &= !(1 << self.number(n));
    }

    pub(super) fn pop(&mut self) {
        self.free(0);
        self.top = (self.top + 1) & 7;
    }

    pub(super) fn push(&mut self, value: F80) {
        self.top = self.top.wrapping_sub(1) & 7;
        self.set_st(0, value);
    }

    /// The tag word with two bits for each register.
    pub(super) fn tags(&self) -> u16 {
        let tag = |n: usize| match self.registers[n].class() {
            _ if self.full >> n & 1 == 0 => 3,
            Class::Zero => 1,
            Class::Normal => 0,
            _ => 2,
        };
        (0..8).fold(0, |tags, n| tags | tag(n) << (2 * n))
    }

    pub(super) fn set_tags(&mut self, tags: u16) {
        self.full = (0..8).fold(0, |full, n| full | u8::from(tags >> (2 * n) & 3 != 3) << n);
    }
}
