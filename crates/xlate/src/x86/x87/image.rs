//! Instructions that control x87, and those that save and restore its registers.

use super::state::EXCEPTIONS;
use super::{F80, Fpu, Step};
use crate::event::Event;
use crate::x86::memory::load;
use littoral_la64::state::State;

/// Bytes of the environment of 32 and of 16 bits.
const LONG: usize = 28;
const SHORT: usize = 14;

impl Step<'_> {
    /// Instructions that leave the address of the latest one.
    pub(super) fn control(&mut self, name: &str) -> Result<(), Event> {
        match name {
            "wait" => {}
            "fninit" => self.fpu = Fpu { registers: self.fpu.registers, ..Fpu::default() },
            "fnclex" => {
                self.fpu.status &= !(EXCEPTIONS | super::STACK);
                self.fpu.summarize();
            }
            "fldcw" => {
                let word = self.load::<2>()? as u16;
                self.fpu.set_control(word);
            }
            "fnstcw" => self.write(&self.fpu.control.to_le_bytes())?,
            "fnstsw" => {
                let word = self.fpu.status_word();
                match self.inst.memory() {
                    Some(_) => self.write(&word.to_le_bytes())?,
                    None => {
                        let rax = usize::from(crate::x86::registers::la64(0));
                        let rax = &mut self.cpu.state.x[rax];
                        *rax = *rax & !0xffff | u64::from(word);
                    }
                }
            }
            "fnstenv" => {
                self.write(&self.environment())?;
                self.fpu.control |= EXCEPTIONS;
                self.fpu.summarize();
            }
            "fnsave" => {
                let mut bytes = self.environment();
                for n in 0..8 {
                    let F80 { se, m } = self.fpu.st(n);
                    bytes.extend(m.to_le_bytes());
                    bytes.extend(se.to_le_bytes());
                }
                self.write(&bytes)?;
                self.fpu = Fpu { registers: self.fpu.registers, ..Fpu::default() };
            }
            "fldenv" => {
                let bytes: [u8; LONG] = self.bytes(self.env_len())?;
                self.set_environment(&bytes);
            }
            _ => {
                let len = self.env_len();
                let bytes: [u8; 108] = self.bytes(len + 80)?;
                self.set_environment(&bytes[..len]);
                let full = self.fpu.full;
                for n in 0..8 {
                    let at = len + 10 * usize::from(n);
                    let word = |at: usize, len: usize| {
                        (0..len).rev().fold(0, |w, k| w << 8 | u64::from(bytes[at + k]))
                    };
                    self.fpu.set_st(n, F80 { se: word(at + 8, 2) as u16, m: word(at, 8) });
                }
                self.fpu.full = full;
            }
        }
        Ok(())
    }

    fn bytes<const N: usize>(&self, len: usize) -> Result<[u8; N], Event> {
        let mut bytes = [0; N];
        for (n, byte) in bytes.iter_mut().enumerate().take(len) {
            *byte = load::<1>(self.cpu, self.at.wrapping_add(n as u64))?[0];
        }
        Ok(bytes)
    }

    fn env_len(&self) -> usize {
        if self.inst.size == 2 { SHORT } else { LONG }
    }

    /// Control, status, tags, addresses; segments read as zero.
    fn environment(&self) -> Vec<u8> {
        let f = &self.fpu;
        let (control, status, tags) = (f.control, f.status_word(), f.tags());
        if self.env_len() == SHORT {
            let words = [control, status, tags, f.ip as u16, 0, f.dp as u16, 0];
            return words.iter().flat_map(|w| w.to_le_bytes()).collect();
        }
        let high = |word: u16| 0xffff_0000 | u32::from(word);
        let opcode = u32::from(f.opcode) << 16;
        let words = [
            high(control),
            high(status),
            high(tags),
            f.ip as u32,
            opcode,
            f.dp as u32,
            0xffff_0000,
        ];
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    fn set_environment(&mut self, bytes: &[u8]) {
        let short = self.env_len() == SHORT;
        let step = if short { 2 } else { 4 };
        let word = |n: usize| {
            let at = n * step;
            (0..step).rev().fold(0u32, |w, k| w << 8 | u32::from(bytes[at + k]))
        };
        self.fpu.set_status(word(1) as u16);
        self.fpu.set_control(word(0) as u16);
        self.fpu.set_tags(word(2) as u16);
        self.fpu.ip = word(3).into();
        self.fpu.dp = word(5).into();
        self.fpu.opcode = if short { 0 } else { (word(4) >> 16) as u16 & 0x7ff };
    }
}

/// The x87 part of what `fxsave` writes: up to MXCSR, and the registers.
pub fn saved(state: &State, is_wide: bool) -> ([u64; 3], [[u64; 2]; 8]) {
    let fpu = Fpu::read(state);
    let cut = |address: u64| if is_wide { address } else { address & 0xffff_ffff };
    let registers = std::array::from_fn(|n| {
        let F80 { se, m } = fpu.st(n as u8);
        [m, se.into()]
    });
    ([fpu.words(), cut(fpu.ip), cut(fpu.dp)], registers)
}

/// Sets what [`saved`] gives.
pub fn set_saved(
    state: &mut State,
    is_wide: bool,
    [words, ip, dp]: [u64; 3],
    registers: [[u64; 2]; 8],
) {
    let cut = |address: u64| if is_wide { address } else { address & 0xffff_ffff };
    let mut fpu = Fpu { ip: cut(ip), dp: cut(dp), ..Fpu::default() };
    fpu.set_words(words);
    let full = fpu.full;
    for (n, [m, se]) in registers.into_iter().enumerate() {
        fpu.set_st(n as u8, F80 { se: se as u16, m });
    }
    fpu.full = full;
    fpu.write(state);
}
