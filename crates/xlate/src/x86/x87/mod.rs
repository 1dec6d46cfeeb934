//! x87: instructions on eight registers of 80 bits, executed outside translated code.
//!
//! - [`state`]: the registers of a thread.
//! - [`float80`]: numbers and rounding.
//! - [`arithmetic`]: results that are rounded once.
//! - [`convert`]: formats of memory.
//! - [`transcendental`]: functions computed with 128 bits.
//! - [`image`]: instructions that save and restore the registers.
//!
//! An instruction works on a copy of the registers, so one that fails leaves them as they are. An
//! exception that is not masked pends, and the next instruction that waits is the event.

mod arithmetic;
mod convert;
mod float80;
mod image;
mod state;
mod transcendental;

pub use float80::F80;
pub use image::{saved, set_saved};
pub use state::Fpu;

use super::decode::{Inst, Mem};
use super::isa::flag;
use super::memory::address;
use crate::event::Event;
use arithmetic::Order;
use convert::{DOUBLE, SINGLE};
use float80::{C1, Class, DENORMAL, Env, INVALID, Num, OVERFLOW, UNDERFLOW, ZERO_DIVIDE};
use littoral_la64::interp::Cpu;
use state::{C0, C2, C3, EXCEPTIONS, STACK};
use std::cmp::Ordering;
use transcendental::Angle;

/// Exceptions that keep an instruction from its result where they are not masked.
const BEFORE: u16 = INVALID | DENORMAL | ZERO_DIVIDE;
const CONDITIONS: u16 = C0 | C2 | C3;

/// The rounding mode of the control word that cuts off.
const TOWARDS_ZERO: u16 = 3 << 10;

/// Instructions that do not wait for a pending exception.
const AT_ONCE: [&str; 6] = ["fnstenv", "fnsave", "fnstcw", "fnstsw", "fnclex", "fninit"];
/// Instructions that leave the address of the latest instruction.
const CONTROL: [&str; 10] = [
    "fnstenv", "fnsave", "fnstcw", "fnstsw", "fnclex", "fninit", "fldcw", "fldenv", "frstor",
    "wait",
];

/// One instruction under way.
struct Step<'a> {
    fpu: Fpu,
    cpu: &'a mut Cpu,
    inst: &'a Inst,
    /// The address of the operand in memory.
    at: u64,
}

/// Executes an instruction.
///
/// # Errors
/// What it raises; registers are then as before.
pub(super) fn execute(cpu: &mut Cpu, inst: &Inst) -> Result<(), Event> {
    let name = inst.row.stem;
    let fpu = Fpu::read(&cpu.state);
    if !AT_ONCE.contains(&name) && fpu.pending() != 0 {
        return Err(Event::X87(fpu.pending()));
    }
    let at = inst.memory().map_or(0, |m| address(&cpu.state, &m));
    let mut step = Step { fpu, cpu, inst, at };
    if CONTROL.contains(&name) {
        step.control(name)?;
    } else {
        step.fpu.ip = inst.at;
        match inst.memory() {
            Some(m) => step.on_memory(name, m.size)?,
            None => step.on_registers(name),
        }
    }
    let fpu = step.fpu;
    fpu.write(&mut cpu.state);
    Ok(())
}

impl Step<'_> {
    fn env(&self) -> Env {
        Env::new(self.fpu.control)
    }

    /// Notes what was raised. Whether the instruction has no result.
    fn raise(&mut self, flags: u16, blocking: u16) -> bool {
        let open = flags & !self.fpu.control & EXCEPTIONS;
        let flags = if open & BEFORE != 0 { flags & (BEFORE | STACK | C1) } else { flags };
        let flags = if open & BEFORE != 0 && flags & STACK == 0 { flags & !C1 } else { flags };
        self.fpu.status = self.fpu.status & !C1 | flags;
        self.fpu.summarize();
        if open != 0 {
            let low = u16::from(self.inst.modrm);
            self.fpu.opcode = u16::from(self.inst.row.opcode & 7) << 8 | low;
            let offset = |m| address(&self.cpu.state, &Mem { segment: None, ..m });
            // An instruction without an operand in memory leaves the address of the last one.
            self.fpu.dp = self.inst.memory().map_or(self.fpu.dp, offset);
        }
        open & blocking != 0
    }

    /// An operand that is not there. Whether the instruction has no result.
    fn underflow(&mut self) -> bool {
        self.raise(INVALID | STACK, BEFORE)
    }

    fn store(&mut self, n: u8, env: Env, value: F80) -> bool {
        if self.raise(env.flags, BEFORE) {
            return false;
        }
        self.fpu.set_st(n, value);
        true
    }

    /// Pushes what is computed, if there is room.
    fn push(&mut self, env: Env, value: F80) {
        if !self.fpu.is_empty(7) {
            if !self.raise(INVALID | STACK | C1, BEFORE) {
                self.fpu.push(F80::INDEFINITE);
            }
        } else if !self.raise(env.flags, INVALID) {
            // A denormal number is pushed also where its exception is not masked.
            self.fpu.push(value);
        }
    }

    fn load<const N: usize>(&self) -> Result<u128, Event> {
        let loaded: [u8; N] = super::memory::load(self.cpu, self.at)?;
        let mut bytes = [0; 16];
        bytes[..N].copy_from_slice(&loaded);
        Ok(u128::from_le_bytes(bytes))
    }

    fn write(&self, bytes: &[u8]) -> Result<(), Event> {
        super::memory::store(self.cpu, self.at, bytes)
    }

    /// An operand in memory as a number; whether it is denormal there.
    fn operand(&self, is_integer: bool, size: u8) -> Result<(F80, bool), Event> {
        Ok(match (is_integer, size) {
            (true, 2) => (exact(self.load::<2>()? as i16 as i64), false),
            (true, 4) => (exact(self.load::<4>()? as i32 as i64), false),
            (true, _) => (exact(self.load::<8>()? as i64), false),
            (_, 4) => convert::widen(self.load::<4>()? as u64, SINGLE),
            (_, 8) => convert::widen(self.load::<8>()? as u64, DOUBLE),
            _ => {
                let bits = self.load::<10>()?;
                (F80 { se: (bits >> 64) as u16, m: bits as u64 }, false)
            }
        })
    }

    fn on_memory(&mut self, name: &str, size: u8) -> Result<(), Event> {
        match name {
            "fld" | "fild" => {
                let (value, is_denormal) = self.operand(name == "fild", size)?;
                let mut env = self.env();
                let signals = size < 10 && value.class() == Class::Signalling;
                env.flags |= if signals { INVALID } else { 0 };
                env.flags |= if is_denormal { DENORMAL } else { 0 };
                self.push(env, if signals { value.quieted() } else { value });
            }
            "fbld" => {
                let value = convert::from_decimal(self.load::<10>()?);
                self.push(self.env(), value);
            }
            "fst" | "fstp" | "fist" | "fistp" | "fisttp" | "fbstp" => {
                self.put_in_memory(name, size)?
            }
            _ => {
                let is_integer = name.starts_with("fi");
                let other = self.operand(is_integer, size)?;
                let pops = name.ends_with('p');
                match self.inst.modrm >> 3 & 7 {
                    2 | 3 => self.compare(Some(other), 0, false, u8::from(pops)),
                    code => self.operate(code, Some(other), 0, 0, 0),
                }
            }
        }
        Ok(())
    }

    fn put_in_memory(&mut self, name: &str, size: u8) -> Result<(), Event> {
        let is_empty = self.fpu.is_empty(0);
        let mut env = self.env();
        let value = if is_empty { F80::INDEFINITE } else { self.fpu.st(0) };
        let bits = match (name, size) {
            ("fbstp", _) => convert::to_decimal(value, &mut env),
            ("fist" | "fistp" | "fisttp", _) => {
                if name == "fisttp" {
                    env.control |= TOWARDS_ZERO;
                }
                convert::to_integer(value, 8 * u32::from(size), &mut env) as u128
            }
            (_, 4) => convert::narrow(value, SINGLE, &mut env).into(),
            (_, 8) => convert::narrow(value, DOUBLE, &mut env).into(),
            _ => u128::from(value.se) << 64 | u128::from(value.m),
        };
        let flags = if is_empty { INVALID | STACK } else { env.flags };
        // Where the store is refused, nothing else counts.
        let blocking = BEFORE | OVERFLOW | UNDERFLOW;
        if flags & !self.fpu.control & blocking == 0 {
            self.write(&bits.to_le_bytes()[..usize::from(size)])?;
        }
        if !self.raise(flags, blocking) && name.ends_with('p') {
            self.fpu.pop();
        }
        Ok(())
    }

    /// Arithmetic by its code in the middle field: the result to register `to`, of the top and
    /// another register or an operand in memory.
    fn operate(&mut self, code: u8, memory: Option<(F80, bool)>, n: u8, to: u8, pops: u8) {
        if self.fpu.is_empty(0) || memory.is_none() && self.fpu.is_empty(n) {
            if !self.underflow() {
                self.fpu.set_st(to, F80::INDEFINITE);
                (0..pops).for_each(|_| self.fpu.pop());
            }
            return;
        }
        let mut env = self.env();
        let a = self.fpu.st(0);
        let (b, is_denormal) = memory.unwrap_or_else(|| (self.fpu.st(n), false));
        let value = match code {
            0 => arithmetic::add(a, b, &mut env),
            1 => arithmetic::mul(a, b, &mut env),
            4 => arithmetic::sub(a, b, &mut env),
            5 => arithmetic::sub(b, a, &mut env),
            6 => arithmetic::div(a, b, &mut env),
            _ => arithmetic::div(b, a, &mut env),
        };
        if is_denormal && env.flags & (INVALID | ZERO_DIVIDE) == 0 && !a.is_nan() {
            env.flags |= DENORMAL;
        }
        if self.store(to, env, value) {
            (0..pops).for_each(|_| self.fpu.pop());
        }
    }

    fn set_conditions(&mut self, order: Order) {
        let bits = match order {
            None => C0 | C2 | C3,
            Some(Ordering::Less) => C0,
            Some(Ordering::Equal) => C3,
            Some(Ordering::Greater) => 0,
        };
        self.fpu.status = self.fpu.status & !CONDITIONS | bits;
    }

    fn order(&mut self, memory: Option<(F80, bool)>, n: u8, quiet: bool) -> (Order, bool) {
        if self.fpu.is_empty(0) || memory.is_none() && self.fpu.is_empty(n) {
            return (None, self.underflow());
        }
        let mut env = self.env();
        let (b, is_denormal) = memory.unwrap_or_else(|| (self.fpu.st(n), false));
        let order = arithmetic::compare(self.fpu.st(0), b, quiet, &mut env);
        env.flags |= if is_denormal && order.is_some() { DENORMAL } else { 0 };
        (order, self.raise(env.flags, BEFORE))
    }

    fn compare(&mut self, memory: Option<(F80, bool)>, n: u8, quiet: bool, pops: u8) {
        let (order, blocked) = self.order(memory, n, quiet);
        self.set_conditions(order);
        if !blocked {
            (0..pops).for_each(|_| self.fpu.pop());
        }
    }

    /// fcomi and its kin: the order in the processor's flags.
    fn compare_to_flags(&mut self, n: u8, quiet: bool, pops: u8) {
        let is_missing = self.fpu.is_empty(0) || self.fpu.is_empty(n);
        let before = self.fpu.status & C1;
        let (order, blocked) = self.order(None, n, quiet);
        if !is_missing {
            self.fpu.status |= before;
        }
        let set = match order {
            None => flag::Z | flag::P | flag::C,
            Some(Ordering::Less) => flag::C,
            Some(Ordering::Equal) => flag::Z,
            Some(Ordering::Greater) => 0,
        };
        let places = flag::PLACES.iter().enumerate();
        let bits = |all: u8| {
            places.clone().filter(|(n, _)| all >> n & 1 == 1).fold(0, |b, (_, &p)| b | 1u32 << p)
        };
        let flags = &mut self.cpu.state.lbt.flags;
        *flags = *flags & !bits(flag::ALL) | bits(set);
        if !blocked {
            (0..pops).for_each(|_| self.fpu.pop());
        }
    }

    fn on_registers(&mut self, name: &str) {
        let (opcode, modrm) = (self.inst.row.opcode, self.inst.modrm);
        let (code, n) = (modrm >> 3 & 7, modrm & 7);
        match name {
            "fcom" => self.compare(None, n, false, 0),
            "fcomp" => self.compare(None, n, false, 1),
            "fcompp" => self.compare(None, 1, false, 2),
            "fucom" => self.compare(None, n, true, 0),
            "fucomp" => self.compare(None, n, true, 1),
            "fucompp" => self.compare(None, 1, true, 2),
            "fcomi" => self.compare_to_flags(n, false, 0),
            "fcomip" => self.compare_to_flags(n, false, 1),
            "fucomi" => self.compare_to_flags(n, true, 0),
            "fucomip" => self.compare_to_flags(n, true, 1),
            "ftst" => self.compare(Some((F80::zero(false), false)), 0, false, 0),
            "fxam" => self.examine(),
            "fld" => self.load_register(n),
            "fst" => self.store_register(n, 0),
            "fstp" => self.store_register(n, 1),
            "fxch" => self.exchange(n),
            "fnop" => {}
            "ffree" => {
                self.fpu.free(n);
                self.fpu.status &= !C1;
            }
            "fdecstp" | "fincstp" => {
                let by = if name == "fincstp" { 1 } else { 7 };
                self.fpu.top = (self.fpu.top + by) & 7;
                self.fpu.status &= !C1;
            }
            _ if name.starts_with("fcmov") => self.move_if(name, n),
            _ if opcode == 0xd9 && code == 5 => self.push(self.env(), self.constant(n)),
            _ if opcode == 0xd9 && code == 4 => self.sign(name),
            _ if opcode == 0xd9 => self.function(name),
            _ => {
                let to = if opcode == 0xd8 { 0 } else { n };
                self.operate(code, None, n, to, u8::from(opcode == 0xde));
            }
        }
    }

    fn constant(&self, n: u8) -> F80 {
        self.env().full(transcendental::constant(n))
    }

    /// The class of the top.
    fn examine(&mut self) {
        let value = self.fpu.st(0);
        let bits = match value.class() {
            _ if self.fpu.is_empty(0) => C3 | C0,
            Class::Invalid => 0,
            Class::Quiet | Class::Signalling => C0,
            Class::Normal => C2,
            Class::Infinity => C2 | C0,
            Class::Zero => C3,
            Class::Denormal => C3 | C2,
        };
        let sign = if value.neg() { C1 } else { 0 };
        self.fpu.status = self.fpu.status & !(CONDITIONS | C1) | bits | sign;
    }

    fn load_register(&mut self, n: u8) {
        let value = self.fpu.st(n);
        if self.fpu.is_empty(n) {
            if !self.underflow() {
                self.fpu.push(F80::INDEFINITE);
            }
            return;
        }
        self.push(self.env(), value);
    }

    fn store_register(&mut self, n: u8, pops: u8) {
        let mut value = self.fpu.st(0);
        if self.fpu.is_empty(0) {
            if self.underflow() {
                return;
            }
            value = F80::INDEFINITE;
        } else {
            self.fpu.status &= !C1;
        }
        self.fpu.set_st(n, value);
        (0..pops).for_each(|_| self.fpu.pop());
    }

    fn exchange(&mut self, n: u8) {
        let missing = [0, n].map(|n| self.fpu.is_empty(n));
        if missing.contains(&true) {
            if self.underflow() {
                return;
            }
        } else {
            self.fpu.status &= !C1;
        }
        let value = |k: usize, n| if missing[k] { F80::INDEFINITE } else { self.fpu.st(n) };
        let (a, b) = (value(0, 0), value(1, n));
        self.fpu.set_st(0, b);
        self.fpu.set_st(n, a);
    }

    fn move_if(&mut self, name: &str, n: u8) {
        if self.fpu.is_empty(0) || self.fpu.is_empty(n) {
            if !self.underflow() {
                self.fpu.set_st(0, F80::INDEFINITE);
            }
            return;
        }
        let has = |place: u32| self.cpu.state.lbt.flags >> place & 1 == 1;
        let (carry, zero, parity) = (has(0), has(6), has(2));
        let holds = match name {
            "fcmovb" => carry,
            "fcmove" => zero,
            "fcmovbe" => carry || zero,
            "fcmovu" => parity,
            "fcmovnb" => !carry,
            "fcmovne" => !zero,
            "fcmovnbe" => !carry && !zero,
            _ => !parity,
        };
        if holds {
            self.fpu.set_st(0, self.fpu.st(n));
        }
    }

    /// fchs and fabs, which take any bits.
    fn sign(&mut self, name: &str) {
        let value = self.fpu.st(0);
        if self.fpu.is_empty(0) {
            if !self.underflow() {
                self.fpu.set_st(0, F80::INDEFINITE);
            }
            return;
        }
        self.fpu.status &= !C1;
        let se = if name == "fchs" { value.se ^ 0x8000 } else { value.se & 0x7fff };
        self.fpu.set_st(0, F80 { se, ..value });
    }

    /// Instructions with a name of their own behind D9.
    fn function(&mut self, name: &str) {
        match name {
            "fsqrt" | "frndint" | "f2xm1" => self.unary(name),
            "fsin" | "fcos" => self.of_angle(name),
            "fptan" | "fsincos" | "fxtract" => self.twice(name),
            "fprem" | "fprem1" => self.remainder(name == "fprem1"),
            _ => self.binary(name),
        }
    }

    fn unary(&mut self, name: &str) {
        if self.fpu.is_empty(0) {
            if !self.underflow() {
                self.fpu.set_st(0, F80::INDEFINITE);
            }
            return;
        }
        let (mut env, value) = (self.env(), self.fpu.st(0));
        let result = match name {
            "fsqrt" => arithmetic::sqrt(value, &mut env),
            "frndint" => arithmetic::integer(value, &mut env),
            _ => transcendental::power(value, &mut env),
        };
        self.store(0, env, result);
    }

    fn of_angle(&mut self, name: &str) {
        self.fpu.status &= !C2;
        if self.fpu.is_empty(0) {
            if !self.underflow() {
                self.fpu.set_st(0, F80::INDEFINITE);
            }
            return;
        }
        let what = if name == "fsin" { Angle::Sine } else { Angle::Cosine };
        let mut env = self.env();
        match transcendental::of_angle(self.fpu.st(0), what, &mut env) {
            Some(result) => {
                self.store(0, env, result);
            }
            None => self.fpu.status = self.fpu.status & !C1 | C2,
        }
    }

    /// Instructions that replace the top and push another result.
    fn twice(&mut self, name: &str) {
        if name != "fxtract" {
            self.fpu.status &= !C2;
        }
        if self.fpu.is_empty(0) || !self.fpu.is_empty(7) {
            let over = if self.fpu.is_empty(0) { 0 } else { C1 };
            if !self.raise(INVALID | STACK | over, BEFORE) {
                self.fpu.set_st(0, F80::INDEFINITE);
                self.fpu.push(F80::INDEFINITE);
            }
            return;
        }
        let (mut env, mut second, value) = (self.env(), self.env(), self.fpu.st(0));
        let results = match name {
            "fxtract" => Some(arithmetic::extract(value, &mut env)),
            "fptan" => transcendental::of_angle(value, Angle::Tangent, &mut env)
                .map(|result| (result, if result.is_nan() { result } else { exact(1) })),
            _ => {
                let cosine = transcendental::of_angle(value, Angle::Cosine, &mut second);
                let sine = transcendental::of_angle(value, Angle::Sine, &mut env);
                sine.zip(cosine)
            }
        };
        let Some((first, then)) = results else {
            self.fpu.status = self.fpu.status & !C1 | C2;
            return;
        };
        env.flags = (env.flags | second.flags) & !C1 | second.flags & C1;
        if self.store(0, env, first) {
            self.fpu.push(then);
        }
    }

    fn remainder(&mut self, nearest: bool) {
        self.fpu.status &= !C2;
        if self.fpu.is_empty(0) || self.fpu.is_empty(1) {
            if !self.underflow() {
                self.fpu.set_st(0, F80::INDEFINITE);
            }
            return;
        }
        let (mut env, a, b) = (self.env(), self.fpu.st(0), self.fpu.st(1));
        let (result, quotient) = arithmetic::remainder(a, b, nearest, &mut env);
        if !self.store(0, env, result) || result.is_nan() {
            return;
        }
        self.fpu.status &= !CONDITIONS;
        let bits = match quotient {
            None => C2,
            Some(q) => [(0, C1), (1, C3), (2, C0)]
                .iter()
                .fold(0, |all, &(n, bit)| all | if q >> n & 1 == 1 { bit } else { 0 }),
        };
        self.fpu.status |= bits;
    }

    fn binary(&mut self, name: &str) {
        let pops = name != "fscale";
        let to = u8::from(pops);
        if self.fpu.is_empty(0) || self.fpu.is_empty(1) {
            if !self.underflow() {
                self.fpu.set_st(to, F80::INDEFINITE);
                (0..to).for_each(|_| self.fpu.pop());
            }
            return;
        }
        let (mut env, a, b) = (self.env(), self.fpu.st(0), self.fpu.st(1));
        let result = match name {
            "fscale" => arithmetic::scale(a, b, &mut env),
            "fpatan" => transcendental::angle(b, a, &mut env),
            "fyl2x" => transcendental::times_log(b, a, &mut env),
            _ => transcendental::times_log_1(b, a, &mut env),
        };
        if self.store(to, env, result) && pops {
            self.fpu.pop();
        }
    }
}

fn exact(value: i64) -> F80 {
    F80::exact(Num::integer(value))
}
