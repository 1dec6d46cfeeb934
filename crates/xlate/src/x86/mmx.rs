//! MMX, with the instructions of SSE, SSE2 and SSSE3 that name its registers: executed outside
//! translated code, because programs of today have few of them.
//!
//! - A register of MMX is the significand of a register of x87, by its number.
//! - Each instruction that names a register sets the top to 0 and marks all registers as full;
//!   `emms` marks them empty.
//! - A register that is written gets an exponent and a sign of ones.
//! - An exception of x87 that pends comes first, but not before a conversion from memory, which
//!   names no register.

use super::decode::{Inst, Operand};
use super::memory::{address, load, store};
use super::registers::la64;
use super::x87::{F80, Fpu};
use super::{assist, completion};
use crate::event::Event;
use littoral_base::mutant;
use littoral_la64::interp::Cpu;

/// One instruction under way.
struct Step<'a> {
    fpu: Fpu,
    cpu: &'a mut Cpu,
    inst: &'a Inst,
}

/// Executes an instruction.
///
/// # Errors
/// What it raises; registers are then as before, but for the top and the tags where an exception of
/// SSE is not masked.
pub(super) fn execute(cpu: &mut Cpu, inst: &Inst) -> Result<(), Event> {
    let fpu = Fpu::read(&cpu.state);
    let names_register = inst.is("emms") || inst.operands().any(|o| matches!(o, Operand::Mm(_)));
    if fpu.pending() != 0 && (names_register || mutant!("x86_conversions_wait_for_x87")) {
        return Err(Event::X87(fpu.pending()));
    }
    let mut step = Step { fpu, cpu, inst };
    let result = step.run();
    let mut fpu = step.fpu;
    // An exception of SSE comes behind the change to MMX.
    if names_register && matches!(result, Ok(()) | Err(Event::Float)) {
        fpu.top = 0;
        fpu.full = if inst.is("emms") { 0 } else { 0xff };
        fpu.write(&mut cpu.state);
    }
    result
}

/// Bits of an element by the last letter of a name.
fn element(name: &str) -> u32 {
    match name.as_bytes()[name.len() - 1] {
        b'b' => 8,
        b'w' => 16,
        b'd' => 32,
        _ => 64,
    }
}

fn ones(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

/// Element n.
fn get(value: u64, bits: u32, n: u32) -> u64 {
    value >> (bits * n) & ones(bits)
}

/// The same with its sign.
fn signed(value: u64, bits: u32, n: u32) -> i64 {
    (get(value, bits, n) << (64 - bits)) as i64 >> (64 - bits)
}

/// Elements from the lowest on.
fn put(bits: u32, element: impl Fn(u32) -> u64) -> u64 {
    (0..64 / bits).fold(0, |all, n| all | (element(n) & ones(bits)) << (bits * n))
}

/// The result of an operation on pairs of elements; `None` for another instruction.
fn paired(name: &str, a: u64, b: u64) -> Option<u64> {
    let bits = element(name);
    let (low, high) = (-1 << (bits - 1), (ones(bits) >> 1) as i64);
    let of = |f: &dyn Fn(i64, i64) -> i64| {
        put(bits, |n| f(get(a, bits, n) as i64, get(b, bits, n) as i64) as u64)
    };
    let of_signed = |f: &dyn Fn(i64, i64) -> i64| {
        put(bits, |n| f(signed(a, bits, n), signed(b, bits, n)) as u64)
    };
    let truth = |holds: bool| -i64::from(holds);
    Some(match name {
        "paddb" | "paddw" | "paddd" | "paddq" => of(&i64::wrapping_add),
        "psubb" | "psubw" | "psubd" | "psubq" => of(&i64::wrapping_sub),
        "paddsb" | "paddsw" => of_signed(&|a, b| (a + b).clamp(low, high)),
        "psubsb" | "psubsw" => of_signed(&|a, b| (a - b).clamp(low, high)),
        "paddusb" | "paddusw" => of(&|a, b| (a + b).min(ones(bits) as i64)),
        "psubusb" | "psubusw" => of(&|a, b| (a - b).max(0)),
        "pcmpeqb" | "pcmpeqw" | "pcmpeqd" => of(&|a, b| truth(a == b)),
        "pcmpgtb" | "pcmpgtw" | "pcmpgtd" => of_signed(&|a, b| truth(a > b)),
        "pmullw" => of_signed(&|a, b| a * b),
        "pmulhw" => of_signed(&|a, b| (a * b) >> 16),
        "pmulhuw" => of(&|a, b| (a * b) >> 16),
        "pavgb" | "pavgw" => of(&|a, b| (a + b + 1) >> 1),
        "pminub" => of(&Ord::min),
        "pmaxub" => of(&Ord::max),
        "pminsw" => of_signed(&Ord::min),
        "pmaxsw" => of_signed(&Ord::max),
        _ => return None,
    })
}

/// The result of an operation on whole registers or on elements of two widths.
fn mixed(name: &str, a: u64, b: u64) -> Option<u64> {
    let bits = element(name);
    let pack = |low: i64, high: i64| {
        put(bits, |n| {
            let (from, n) = if n < 32 / bits { (a, n) } else { (b, n - 32 / bits) };
            signed(from, 2 * bits, n).clamp(low, high) as u64
        })
    };
    // The elements of two halves, one by one.
    let interleave = |bits: u32, first: u32| {
        put(bits, |n| get(if n % 2 == 0 { a } else { b }, bits, first + n / 2))
    };
    Some(match name {
        "pand" => a & b,
        "pandn" => !a & b,
        "por" => a | b,
        "pxor" => a ^ b,
        "packsswb" => pack(-128, 127),
        "packuswb" => pack(0, 255),
        "packssdw" => put(16, |n| {
            let from = if n < 2 { a } else { b };
            signed(from, 32, n % 2).clamp(-0x8000, 0x7fff) as u64
        }),
        "punpcklbw" => interleave(8, 0),
        "punpcklwd" => interleave(16, 0),
        "punpckldq" => interleave(32, 0),
        "punpckhbw" => interleave(8, 4),
        "punpckhwd" => interleave(16, 2),
        "punpckhdq" => interleave(32, 1),
        "pmuludq" => (a & ones(32)) * (b & ones(32)),
        "pmaddwd" => put(32, |n| {
            let product = |n| signed(a, 16, n) * signed(b, 16, n);
            (product(2 * n) + product(2 * n + 1)) as u64
        }),
        "psadbw" => (0..8).map(|n| get(a, 8, n).abs_diff(get(b, 8, n))).sum(),
        _ => return None,
    })
}

/// The result of an operation of SSSE3 on two registers.
fn later(name: &str, a: u64, b: u64) -> Option<u64> {
    let bits = element(name);
    let (low, high) = (-1 << (bits - 1), (ones(bits) >> 1) as i64);
    // Neighbours of the first register, then of the second.
    let neighbours = |f: &dyn Fn(i64, i64) -> i64| {
        put(bits, |n| {
            let (from, n) = if n < 32 / bits { (a, n) } else { (b, n - 32 / bits) };
            f(signed(from, bits, 2 * n), signed(from, bits, 2 * n + 1)) as u64
        })
    };
    Some(match name {
        "pshufb" => put(8, |n| match get(b, 8, n) {
            index if index >> 7 == 1 => 0,
            index => get(a, 8, index as u32 & 7),
        }),
        "phaddw" | "phaddd" => neighbours(&|x, y| x + y),
        "phsubw" | "phsubd" => neighbours(&|x, y| x - y),
        "phaddsw" => neighbours(&|x, y| (x + y).clamp(low, high)),
        "phsubsw" => neighbours(&|x, y| (x - y).clamp(low, high)),
        "pmaddubsw" => put(16, |n| {
            let product = |n| get(a, 8, n) as i64 * signed(b, 8, n);
            (product(2 * n) + product(2 * n + 1)).clamp(low, high) as u64
        }),
        "psignb" | "psignw" | "psignd" => {
            put(bits, |n| (signed(a, bits, n) * signed(b, bits, n).signum()) as u64)
        }
        "pabsb" | "pabsw" | "pabsd" => put(bits, |n| signed(b, bits, n).unsigned_abs()),
        "pmulhrsw" => put(16, |n| {
            let product = signed(a, 16, n) * signed(b, 16, n);
            (((product >> 14) + 1) >> 1) as u64
        }),
        _ => return None,
    })
}

/// A shift of all elements by one count.
fn shift(name: &str, a: u64, count: u64) -> Option<u64> {
    let bits = element(name);
    let (fits, by) = (count < u64::from(bits), count as u32);
    Some(match &name[..name.len() - 1] {
        "psll" => put(bits, |n| if fits { get(a, bits, n) << by } else { 0 }),
        "psrl" => put(bits, |n| if fits { get(a, bits, n) >> by } else { 0 }),
        "psra" => put(bits, |n| (signed(a, bits, n) >> if fits { by } else { bits - 1 }) as u64),
        _ => return None,
    })
}

impl Step<'_> {
    /// The value of an operand, its lowest 64 bits if it is wider.
    fn value(&self, operand: Operand) -> Result<u64, Event> {
        let state = &self.cpu.state;
        Ok(match operand {
            Operand::Mm(n) => self.fpu.registers[usize::from(n)].m,
            Operand::Xmm(n) => state.v[usize::from(n)].0[0],
            Operand::Reg(r) => state.x[usize::from(la64(r.number))] & ones(8 * u32::from(r.size)),
            Operand::Imm(value) => value as u64 & 0xff,
            Operand::Mem(m) => {
                let at = address(state, &m);
                match m.size {
                    2 => u16::from_le_bytes(load(self.cpu, at)?).into(),
                    4 => u32::from_le_bytes(load(self.cpu, at)?).into(),
                    16 if !at.is_multiple_of(16) => return Err(Event::Privileged),
                    _ => u64::from_le_bytes(load(self.cpu, at)?),
                }
            }
            Operand::Target(_) => unreachable!("no branch names a register of MMX"),
        })
    }

    /// Writes an operand.
    fn set(&mut self, operand: Operand, value: u64) -> Result<(), Event> {
        match operand {
            Operand::Mm(n) => {
                let se = if mutant!("x86_mmx_exponent_stays") {
                    self.fpu.registers[usize::from(n)].se
                } else {
                    0xffff
                };
                self.fpu.registers[usize::from(n)] = F80 { se, m: value };
            }
            Operand::Reg(r) => {
                let value = value & ones(8 * u32::from(r.size));
                self.cpu.state.x[usize::from(la64(r.number))] = value;
            }
            Operand::Mem(m) => {
                let at = address(&self.cpu.state, &m);
                store(self.cpu, at, &value.to_le_bytes()[..usize::from(m.size)])?;
            }
            Operand::Xmm(_) | Operand::Imm(_) | Operand::Target(_) => {
                unreachable!("{} writes no such operand", self.inst.row.name)
            }
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), Event> {
        let (name, inst) = (self.inst.row.stem, self.inst);
        match name {
            "emms" => return Ok(()),
            "movd" | "movq" | "movntq" => {
                let value = self.value(inst.operand(1))?;
                return self.set(inst.operand(0), value);
            }
            "movdq2q" | "movq2dq" => return self.between_files(),
            "maskmovq" => {
                let [value, mask] = [0, 1].map(|n| self.value(inst.operand(n)));
                let (value, mask) = (value?.to_le_bytes(), mask?.to_le_bytes());
                return assist::store_masked(self.cpu, inst, &value, &mask);
            }
            _ if name.starts_with("cvt") => return self.convert(name),
            _ => {}
        }
        let b = self.value(inst.operand(1))?;
        let last = inst.operands().nth(2).map_or(Ok(0), |o| self.value(o))? as u32;
        let a = self.value(inst.operand(0))?;
        let result = match name {
            "pshufw" => put(16, |n| get(b, 16, last >> (2 * n) & 3)),
            "pinsrw" => {
                let n = last & 3;
                a & !(ones(16) << (16 * n)) | (b & ones(16)) << (16 * n)
            }
            "pextrw" => get(b, 16, last & 3),
            "palignr" => match last {
                0..16 => ((u128::from(a) << 64 | u128::from(b)) >> (8 * last)) as u64,
                _ => 0,
            },
            "pmovmskb" => (0..8).fold(0, |all, n| all | (get(b, 8, n) >> 7) << n),
            _ => {
                let result = shift(name, a, b).or_else(|| paired(name, a, b));
                let result = result.or_else(|| mixed(name, a, b)).or_else(|| later(name, a, b));
                result.expect("invariant: every row of MMX has a rule")
            }
        };
        self.set(inst.operand(0), result)
    }

    /// movdq2q, movq2dq.
    fn between_files(&mut self) -> Result<(), Event> {
        let value = self.value(self.inst.operand(1))?;
        match self.inst.operand(0) {
            Operand::Xmm(n) => {
                self.cpu.state.v[usize::from(n)].0[..2].copy_from_slice(&[value, 0]);
                Ok(())
            }
            to => self.set(to, value),
        }
    }

    /// Conversions between two integers of 32 bits and two singles or doubles.
    fn convert(&mut self, name: &str) -> Result<(), Event> {
        let (to, source) = (self.inst.operand(0), self.inst.operand(1));
        let low = self.value(source)?;
        let truncates = name.starts_with("cvtt");
        let (from, into) =
            name[if truncates { 4 } else { 3 }..].split_once('2').unwrap_or_default();
        let letter = |kind: &str| match kind {
            "ps" => "s",
            "pd" => "d",
            _ => "w",
        };
        let values = match (from, source) {
            ("pd", Operand::Xmm(n)) => [low, self.cpu.state.v[usize::from(n)].0[1]],
            ("pd", Operand::Mem(m)) => {
                let at = address(&self.cpu.state, &m).wrapping_add(8);
                [low, u64::from_le_bytes(load(self.cpu, at)?)]
            }
            _ => [low & ones(32), low >> 32],
        };
        let state = &mut self.cpu.state;
        let results = completion::pair(state, (letter(into), letter(from)), values, truncates);
        let [first, second] = results.ok_or(Event::Float)?;
        match to {
            Operand::Xmm(n) if into == "pd" => {
                self.cpu.state.v[usize::from(n)].0[..2].copy_from_slice(&[first, second]);
                Ok(())
            }
            Operand::Xmm(n) => {
                self.cpu.state.v[usize::from(n)].0[0] = first & ones(32) | second << 32;
                Ok(())
            }
            _ => self.set(to, first & ones(32) | second << 32),
        }
    }
}
