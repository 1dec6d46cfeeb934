//! Floating point of the exact interpreter: FR=1, release 2, legacy NaNs.
//!
//! What the manual leaves open is as the translator has it: above a single stands what stands above
//! the first operand; above a word that was moved in, what was there.

use super::{Exact, Fields, Next, Step, branch_to};
use crate::event::Event;
use crate::mips64::float::condition_bit;
use crate::mips64::legacy::{compare, convert, default_nan, nan, to_int};
use littoral_la64::float::{self, Double, Env, Format, Rounding, Single, flag};

const LOW: u64 = 0xffff_ffff;
const SINGLE: u32 = 16;
const DOUBLE: u32 = 17;
const WORD: u32 = 20;
const LONG: u32 = 21;
/// Rounding mode of FCSR.
const MODE: u32 = 3;

/// A value of a format, in a register.
trait Boxed: Format {
    fn of(register: u64) -> u64 {
        register & (Self::SIGN | (Self::SIGN - 1))
    }
    fn above(register: u64) -> u64 {
        register & !(Self::SIGN | (Self::SIGN - 1))
    }
}

impl Boxed for Single {}
impl Boxed for Double {}

impl Exact<'_> {
    fn condition(&self, n: u32) -> bool {
        self.machine.fcsr >> condition_bit(n) & 1 == 1
    }

    fn set_condition(&mut self, n: u32, holds: bool) {
        let bit = condition_bit(n);
        self.machine.fcsr = self.machine.fcsr & !(1 << bit) | u32::from(holds) << bit;
    }

    fn float_env(&self) -> Env {
        Env::new(Rounding::from_bits(self.machine.fcsr & MODE))
    }

    /// Adds what an operation raised; it traps if that is enabled.
    fn raise(&mut self, env: &Env) -> Step {
        self.machine.fcsr = self.machine.fcsr & !(0x3f << 12) | env.flags << 12;
        if self.machine.fcsr >> 7 & env.flags & 0x1f != 0 {
            return Err(Event::Float);
        }
        self.machine.fcsr |= env.flags << 2;
        Ok(())
    }

    /// movf and movt.
    pub(super) fn move_by_condition(&mut self, f: Fields) -> Step<Next> {
        let wanted = f.at(16, 1) == 1;
        let value = self.machine.r[f.s()];
        if self.condition(f.at(18, 3)) == wanted { self.set(f.d(), value) } else { Ok(Next::On) }
    }

    /// lwc1, ldc1, swc1, sdc1.
    pub(super) fn float_access(&mut self, f: Fields, opcode: u32) -> Step<Next> {
        let at = self.machine.r[f.s()].wrapping_add(f.signed());
        self.float_at(at, f.t(), opcode)
    }

    fn float_at(&mut self, at: u64, register: usize, opcode: u32) -> Step<Next> {
        let value = self.machine.f[register];
        match opcode {
            0x31 => self.machine.f[register] = self.load(at, 4)?,
            0x35 => self.machine.f[register] = self.load(at, 8)?,
            0x39 => return self.store(at, 4, value),
            _ => return self.store(at, 8, value),
        }
        Ok(Next::On)
    }

    /// COP1X: indexed accesses, multiply-add.
    pub(super) fn float_extended(&mut self, f: Fields) -> Step<Next> {
        let at = self.machine.r[f.s()].wrapping_add(self.machine.r[f.t()]);
        let (fs, fd) = (f.d(), f.amount() as usize);
        match f.at(0, 6) {
            0x00 => self.float_at(at, fd, 0x31),
            0x01 => self.float_at(at, fd, 0x35),
            0x05 => self.float_at(at & !7, fd, 0x35),
            0x08 => self.float_at(at, fs, 0x39),
            0x09 => self.float_at(at, fs, 0x3d),
            0x0d => self.float_at(at & !7, fs, 0x3d),
            0x0f => Ok(Next::On),
            function => match function & 7 {
                0 => self.multiply_add::<Single>(f, function >> 3),
                1 => self.multiply_add::<Double>(f, function >> 3),
                _ => Err(Event::Illegal(f.0)),
            },
        }
    }

    fn multiply_add<F: Boxed>(&mut self, f: Fields, kind: u32) -> Step<Next> {
        let register = |n: u32, m: &super::Machine| m.f[n as usize];
        let (fr, ft) = (register(f.at(21, 5), &self.machine), register(f.at(16, 5), &self.machine));
        let fs = register(f.at(11, 5), &self.machine);
        let (subtract, negate) = match kind {
            4 => (false, false),
            5 => (true, false),
            6 => (false, true),
            7 => (true, true),
            _ => return Err(Event::Illegal(f.0)),
        };
        let operands = [F::of(fs), F::of(ft), F::of(fr)];
        self.met_signalling |= operands.into_iter().any(signals::<F>);
        let mut env = self.float_env();
        let product = two::<F>(2, F::of(fs), F::of(ft), &mut env);
        self.raise(&env)?;
        let mut env = self.float_env();
        let sum = two::<F>(u32::from(subtract), product, F::of(fr), &mut env);
        self.raise(&env)?;
        let sum = if negate { sum ^ F::SIGN } else { sum };
        self.machine.f[f.amount() as usize] = sum | F::above(fs);
        Ok(Next::On)
    }

    /// COP1.
    pub(super) fn float(&mut self, pc: u64, f: Fields) -> Step<Next> {
        let (fs, t) = (f.d(), self.machine.r[f.t()]);
        let value = self.machine.f[fs];
        match f.at(21, 5) {
            0 => self.set(f.t(), value as i32 as i64 as u64),
            1 => self.set(f.t(), value),
            2 if fs == 31 => self.set(f.t(), self.machine.fcsr as i32 as i64 as u64),
            2 if fs == 0 => self.set(f.t(), 0x0073_0000),
            3 => self.set(f.t(), (value as i64 >> 32) as u64),
            4 => self.put(fs, value & !LOW | t & LOW),
            5 => self.put(fs, t),
            6 if fs == 31 => {
                let fcsr = t as u32 & 0xfe81_ffff;
                self.machine.fcsr = fcsr;
                // The cause and the trap of one exception.
                if fcsr >> 12 & fcsr >> 7 & 0x1f == 0 {
                    return Ok(Next::On);
                }
                self.written_control = Some(fcsr);
                Err(Event::Float)
            }
            7 => self.put(fs, value & LOW | t << 32),
            8 => {
                let taken = self.condition(f.at(18, 3)) == (f.at(16, 1) == 1);
                Ok(branch_to(pc, f.signed(), taken, f.at(17, 1) == 1))
            }
            SINGLE => self.formatted::<Single>(f),
            DOUBLE => self.formatted::<Double>(f),
            format @ (WORD | LONG) => self.convert_int(f, format),
            _ => Err(Event::Illegal(f.0)),
        }
    }

    fn put(&mut self, register: usize, value: u64) -> Step<Next> {
        self.machine.f[register] = value;
        Ok(Next::On)
    }

    fn convert_int(&mut self, f: Fields, format: u32) -> Step<Next> {
        let value = self.machine.f[f.d()];
        let number =
            if format == WORD { i128::from(value as i32) } else { i128::from(value as i64) };
        let mut env = self.float_env();
        let made = match f.at(0, 6) {
            0x20 => float::from_int::<Single>(number, &mut env) | value & !LOW,
            0x21 => float::from_int::<Double>(number, &mut env),
            _ => return Err(Event::Illegal(f.0)),
        };
        self.raise(&env)?;
        self.put(f.amount() as usize, made)
    }

    fn formatted<F: Boxed>(&mut self, f: Fields) -> Step<Next> {
        let (ft, fs, fd) = (f.t(), f.d(), f.amount() as usize);
        let (register, other) = (self.machine.f[fs], self.machine.f[ft]);
        let (a, b, above) = (F::of(register), F::of(other), F::above(register));
        let mut env = self.float_env();
        let function = f.at(0, 6);
        let moves = matches!(function, 5..=7 | 0x11..=0x13);
        let reads_both = matches!(function, 0..=3 | 0x30..);
        self.met_signalling |= !moves && signals::<F>(a) || reads_both && signals::<F>(b);
        let value = match function {
            0..=3 => two::<F>(function, a, b, &mut env) | above,
            4 => one::<F>(a, &mut env, |e| float::sqrt::<F>(a, e)) | above,
            5 => a & !F::SIGN | above,
            6 => register,
            7 => a ^ F::SIGN | above,
            0x15 => one::<F>(a, &mut env, |e| float::recip::<F>(a, e)) | above,
            0x16 => return self.reciprocal_root::<F>(a, above, fd),
            0x08..=0x0f | 0x24 | 0x25 => {
                let modes = [Rounding::NearestEven, Rounding::Zero, Rounding::Up, Rounding::Down];
                if function < 0x20 {
                    env.rounding = modes[function as usize & 3];
                }
                let is_long = matches!(function, 0x08..=0x0b | 0x25);
                let value = to_int::<F>(a, if is_long { 64 } else { 32 }, &mut env);
                if is_long { value } else { value as i32 as i64 as u64 }
            }
            0x11 => {
                let wanted = f.at(16, 1) == 1;
                let moves = self.condition(f.at(18, 3)) == wanted;
                return if moves { self.put(fd, register) } else { Ok(Next::On) };
            }
            0x12 | 0x13 => {
                let moves = (self.machine.r[ft] == 0) == (function == 0x12);
                return if moves { self.put(fd, register) } else { Ok(Next::On) };
            }
            0x20 if F::FRACTION == 52 => convert::<F, Single>(a, &mut env) | register & !LOW,
            0x21 if F::FRACTION == 23 => convert::<F, Double>(a, &mut env),
            0x30.. if f.at(6, 2) == 0 => return self.compare::<F>(a, b, f),
            _ => return Err(Event::Illegal(f.0)),
        };
        self.raise(&env)?;
        self.put(fd, value)
    }

    fn reciprocal_root<F: Boxed>(&mut self, a: u64, above: u64, fd: usize) -> Step<Next> {
        let mut env = self.float_env();
        let root = one::<F>(a, &mut env, |e| float::sqrt::<F>(a, e));
        self.raise(&env)?;
        let mut env = self.float_env();
        let value = one::<F>(root, &mut env, |e| float::recip::<F>(root, e));
        self.raise(&env)?;
        self.put(fd, value | above)
    }

    fn compare<F: Boxed>(&mut self, a: u64, b: u64, f: Fields) -> Step<Next> {
        // The manual: unordered 1, equal 2, less 4, signalling 8.
        let asked = f.at(0, 4);
        let bits = asked >> 3 | (asked >> 2 & 1) << 1 | (asked >> 1 & 1) << 2 | (asked & 1) << 3;
        let mut env = self.float_env();
        let holds = compare::<F>(a, b, bits, &mut env);
        self.raise(&env)?;
        self.set_condition(f.at(8, 3), holds);
        Ok(Next::On)
    }
}

fn signals<F: Format>(value: u64) -> bool {
    nan::<F>(value) == Some(true)
}

/// Sum, difference, product or quotient.
fn two<F: Format>(kind: u32, a: u64, b: u64, env: &mut Env) -> u64 {
    if signals::<F>(a) || signals::<F>(b) {
        env.flags |= flag::INVALID;
        return default_nan::<F>();
    }
    if nan::<F>(a).is_some() {
        return a;
    }
    if nan::<F>(b).is_some() {
        return b;
    }
    let value = match kind {
        0 => float::add::<F>(a, b, env),
        1 => float::sub::<F>(a, b, env),
        2 => float::mul::<F>(a, b, env),
        _ => float::div::<F>(a, b, env),
    };
    if nan::<F>(value).is_some() { default_nan::<F>() } else { value }
}

/// An operation on one operand.
fn one<F: Format>(a: u64, env: &mut Env, number: impl Fn(&mut Env) -> u64) -> u64 {
    match nan::<F>(a) {
        Some(false) => a,
        Some(true) => {
            env.flags |= flag::INVALID;
            default_nan::<F>()
        }
        None => {
            let value = number(env);
            if nan::<F>(value).is_some() { default_nan::<F>() } else { value }
        }
    }
}
