//! Integer operations: arithmetic, shifts, bit fields, multiply and divide, CRC, assertions.
//!
//! - Results of `.w` forms are sign-extended from bit 31, also the unsigned ones.
//! - Division does not trap: by zero gives the dividend (remainder 0), the overflowing quotient
//!   wraps. The manual leaves the former open; this is QEMU's choice.
//! - A bit field with msb below lsb is illegal.

use super::operation::{Entry, Operation, illegal_operand, single};
use super::{Cpu, Cursor, Exit, Trap};
use std::ops::ControlFlow;

/// Operations that pairs are made of, each a type of its own: rd = f(rj, rk, first immediate).
macro_rules! operations {
    ($($name:ident = |$a:ident, $b:ident, $i:ident| $body:expr;)*) => {
        $(
            #[doc = stringify!($name)]
            pub(super) struct $name;
            impl Operation for $name {
                #[inline(always)]
                fn run(cpu: &mut Cpu, i: Cursor<'_>) -> ControlFlow<Exit> {
                    let f: fn(u64, u64, i64) -> u64 = |$a, $b, $i| {
                        let _ = ($b, $i);
                        $body
                    };
                    let value = f(cpu.x(i.rj), cpu.x(i.rk), i.imm);
                    cpu.set_x(i.to, value);
                    ControlFlow::Continue(())
                }
            }
        )*
    };
}

operations! {
    AddD = |a, b, i| a.wrapping_add(b);
    AddiD = |a, b, i| a.wrapping_add(i as u64);
    AddW = |a, b, i| sx(a.wrapping_add(b));
    AddiW = |a, b, i| sx(a.wrapping_add(i as u64));
    SubD = |a, b, i| a.wrapping_sub(b);
    Or = |a, b, i| a | b;
    Ori = |a, b, i| a | i as u64;
    And = |a, b, i| a & b;
    Andi = |a, b, i| a & i as u64;
    Xor = |a, b, i| a ^ b;
    Slt = |a, b, i| u64::from((a as i64) < b as i64);
    Sltu = |a, b, i| u64::from(a < b);
    Sltui = |a, b, i| u64::from(a < i as u64);
    Maskeqz = |a, b, i| if b == 0 { 0 } else { a };
    Masknez = |a, b, i| if b != 0 { 0 } else { a };
    SlliD = |a, b, i| a << (i & 63);
    SlliW = |a, b, i| sx(a << i);
    SrliD = |a, b, i| a >> (i & 63);
    AlslD = |a, b, i| (a << i).wrapping_add(b);
    MulW = |a, b, i| sx(a.wrapping_mul(b));
    MulD = |a, b, i| a.wrapping_mul(b);
}

/// Copies a register.
pub(super) struct Move;

impl Operation for Move {
    #[inline(always)]
    fn run(cpu: &mut Cpu, i: Cursor<'_>) -> ControlFlow<Exit> {
        let value = cpu.x(i.rj);
        cpu.set_x(i.to, value);
        ControlFlow::Continue(())
    }
}

/// Adds the immediate to a register in place.
pub(super) struct Step;

impl Operation for Step {
    #[inline(always)]
    fn run(cpu: &mut Cpu, i: Cursor<'_>) -> ControlFlow<Exit> {
        let value = cpu.x(i.to).wrapping_add(i.imm as u64);
        cpu.set_x(i.to, value);
        ControlFlow::Continue(())
    }
}

/// A constant: the whole work was done when it was decoded.
pub(super) struct Constant;

impl Operation for Constant {
    #[inline(always)]
    fn run(cpu: &mut Cpu, i: Cursor<'_>) -> ControlFlow<Exit> {
        cpu.set_x(i.to, i.imm as u64);
        ControlFlow::Continue(())
    }
}

/// `bstrpick.d`, or illegal.
pub(super) struct BstrpickD;

impl Operation for BstrpickD {
    #[inline(always)]
    fn run(cpu: &mut Cpu, i: Cursor<'_>) -> ControlFlow<Exit> {
        let (msb, lsb) = (i.imm as u32, u32::from(i.imm2));
        if msb < lsb {
            return ControlFlow::Break(illegal_operand(cpu, i));
        }
        let value = pick(cpu.x(i.rj), msb, lsb);
        cpu.set_x(i.to, value);
        ControlFlow::Continue(())
    }
}

/// rd = f(rj, rk).
macro_rules! jk {
    ($f:expr) => {{
        fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            let f: fn(u64, u64) -> u64 = $f;
            let value = f(cpu.x(i.rj), cpu.x(i.rk));
            cpu.set_x(i.to, value);
            i.chain(cpu)
        }
        run
    }};
}

/// rd = f(rj, first immediate).
macro_rules! ji {
    ($f:expr) => {{
        fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            let f: fn(u64, i64) -> u64 = $f;
            let value = f(cpu.x(i.rj), i.imm);
            cpu.set_x(i.to, value);
            i.chain(cpu)
        }
        run
    }};
}

/// rd = f(rj).
macro_rules! j {
    ($f:expr) => {{
        fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            let f: fn(u64) -> u64 = $f;
            let value = f(cpu.x(i.rj));
            cpu.set_x(i.to, value);
            i.chain(cpu)
        }
        run
    }};
}

/// rd = f(rj, rk, first immediate).
macro_rules! jki {
    ($f:expr) => {{
        fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            let f: fn(u64, u64, i64) -> u64 = $f;
            let value = f(cpu.x(i.rj), cpu.x(i.rk), i.imm);
            cpu.set_x(i.to, value);
            i.chain(cpu)
        }
        run
    }};
}

/// rd = f(rd, rj, msb, lsb), or illegal.
macro_rules! field {
    ($f:expr) => {{
        fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            let f: fn(u64, u64, u32, u32) -> u64 = $f;
            let (msb, lsb) = (i.imm as u32, u32::from(i.imm2));
            if msb < lsb {
                return illegal_operand(cpu, i);
            }
            let value = f(cpu.x(i.rd), cpu.x(i.rj), msb, lsb);
            cpu.set_x(i.to, value);
            i.chain(cpu)
        }
        run
    }};
}

/// Sign-extends the low word.
pub(super) const fn sx(value: u64) -> u64 {
    value as i32 as i64 as u64
}

const fn ones(msb: u32, lsb: u32) -> u64 {
    (u64::MAX >> (63 - (msb - lsb))) << lsb
}

const fn insert(old: u64, field: u64, msb: u32, lsb: u32) -> u64 {
    let mask = ones(msb, lsb);
    old & !mask | field << lsb & mask
}

const fn pick(value: u64, msb: u32, lsb: u32) -> u64 {
    (value & ones(msb, lsb)) >> lsb
}

const fn div(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { (a as i64).wrapping_div(b as i64) as u64 }
}

const fn rem(a: u64, b: u64) -> u64 {
    if b == 0 { 0 } else { (a as i64).wrapping_rem(b as i64) as u64 }
}

const fn div_unsigned(a: u64, b: u64) -> u64 {
    match a.checked_div(b) {
        Some(quotient) => quotient,
        None => a,
    }
}

const fn rem_unsigned(a: u64, b: u64) -> u64 {
    match a.checked_rem(b) {
        Some(remainder) => remainder,
        None => 0,
    }
}

fn bytes_of_halves_swapped(x: u64) -> u64 {
    (x & 0x00ff_00ff_00ff_00ff) << 8 | x >> 8 & 0x00ff_00ff_00ff_00ff
}

fn halves_of_words_swapped(x: u64) -> u64 {
    (x & 0x0000_ffff_0000_ffff) << 16 | x >> 16 & 0x0000_ffff_0000_ffff
}

/// One step a bit: fast enough for what uses it, and obviously right.
fn crc(data: u64, crc: u64, bits: u32, polynomial: u32) -> u64 {
    let mut crc = crc as u32;
    for n in 0..bits {
        let bit = (crc ^ (data >> n) as u32) & 1;
        crc = (crc >> 1) ^ (polynomial * bit);
    }
    sx(u64::from(crc))
}

const CRC32: u32 = 0xedb8_8320;
const CRC32C: u32 = 0x82f6_3b78;

fn rdtime(cpu: &mut Cpu, i: Cursor<'_>, f: fn(u64) -> u64) -> Exit {
    let now = (cpu.time)();
    if i.rj.number() != 0 {
        cpu.set_x(i.rj, 0);
    }
    cpu.set_x(i.to, f(now));
    i.chain(cpu)
}

fn rdtimel_w(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    rdtime(cpu, i, sx)
}

fn rdtimeh_w(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    rdtime(cpu, i, |t| sx(t >> 32))
}

fn rdtime_d(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    rdtime(cpu, i, |t| t)
}

fn cpucfg(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let value = crate::config::cpucfg(cpu.features, cpu.x(i.rj));
    cpu.set_x(i.to, sx(u64::from(value)));
    i.chain(cpu)
}

fn asrtle(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    match cpu.x(i.rj) <= cpu.x(i.rk) {
        true => i.chain(cpu),
        false => cpu.fault(i, Trap::Bound(cpu.x(i.rj))),
    }
}

fn asrtgt(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    match cpu.x(i.rj) > cpu.x(i.rk) {
        true => i.chain(cpu),
        false => cpu.fault(i, Trap::Bound(cpu.x(i.rj))),
    }
}

fn lu32i_d(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let value = cpu.x(i.rd) & 0xffff_ffff | i.imm as u64;
    cpu.set_x(i.to, value);
    i.chain(cpu)
}

/// Hints without effect here.
fn nothing(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    i.chain(cpu)
}

fn dbar(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    cpu.window.fence();
    i.chain(cpu)
}

pub(super) static TABLE: &[Entry] = &[
    ("add.d", single::<AddD>),
    ("addi.d", single::<AddiD>),
    ("or", single::<Or>),
    ("andi", single::<Andi>),
    ("add.w", single::<AddW>),
    ("addi.w", single::<AddiW>),
    ("sub.w", jk!(|a, b| sx(a.wrapping_sub(b)))),
    ("sub.d", single::<SubD>),
    ("addu16i.d", ji!(|a, i| a.wrapping_add(i as u64))),
    ("slt", single::<Slt>),
    ("sltu", single::<Sltu>),
    ("slti", ji!(|a, i| u64::from((a as i64) < i))),
    ("sltui", single::<Sltui>),
    ("maskeqz", single::<Maskeqz>),
    ("masknez", single::<Masknez>),
    ("nor", jk!(|a, b| !(a | b))),
    ("and", single::<And>),
    ("xor", single::<Xor>),
    ("orn", jk!(|a, b| a | !b)),
    ("andn", jk!(|a, b| a & !b)),
    ("ori", single::<Ori>),
    ("xori", ji!(|a, i| a ^ i as u64)),
    ("lu12i.w", single::<Constant>),
    ("lu32i.d", lu32i_d),
    ("lu52i.d", ji!(|a, i| a & (u64::MAX >> 12) | i as u64)),
    ("pcaddi", single::<Constant>),
    ("pcalau12i", single::<Constant>),
    ("pcaddu12i", single::<Constant>),
    ("pcaddu18i", single::<Constant>),
    ("sll.w", jk!(|a, b| sx(a << (b & 31)))),
    ("srl.w", jk!(|a, b| sx((a as u32 >> (b & 31)).into()))),
    ("sra.w", jk!(|a, b| (a as i32 >> (b & 31)) as u64)),
    ("rotr.w", jk!(|a, b| sx((a as u32).rotate_right(b as u32 & 31).into()))),
    ("sll.d", jk!(|a, b| a << (b & 63))),
    ("srl.d", jk!(|a, b| a >> (b & 63))),
    ("sra.d", jk!(|a, b| (a as i64 >> (b & 63)) as u64)),
    ("rotr.d", jk!(|a, b| a.rotate_right(b as u32 & 63))),
    ("slli.w", single::<SlliW>),
    ("srli.w", ji!(|a, i| sx((a as u32 >> i).into()))),
    ("srai.w", ji!(|a, i| (a as i32 >> i) as u64)),
    ("rotri.w", ji!(|a, i| sx((a as u32).rotate_right(i as u32).into()))),
    ("slli.d", single::<SlliD>),
    ("srli.d", single::<SrliD>),
    ("srai.d", ji!(|a, i| (a as i64 >> (i & 63)) as u64)),
    ("rotri.d", ji!(|a, i| a.rotate_right(i as u32))),
    ("alsl.w", jki!(|a, b, i| sx((a << i).wrapping_add(b)))),
    ("alsl.wu", jki!(|a, b, i| (a << i).wrapping_add(b) & 0xffff_ffff)),
    ("alsl.d", single::<AlslD>),
    ("bytepick.w", jki!(|a, b, i| sx(((b as u32 as u64) << 32 | a & 0xffff_ffff) >> (32 - 8 * i)))),
    ("bytepick.d", jki!(|a, b, i| ((u128::from(b) << 64 | u128::from(a)) >> (64 - 8 * i)) as u64)),
    ("bstrins.w", field!(|old, v, msb, lsb| sx(insert(old, v, msb, lsb)))),
    ("bstrins.d", field!(|old, v, msb, lsb| insert(old, v, msb, lsb))),
    ("bstrpick.w", field!(|_, v, msb, lsb| sx(pick(v, msb, lsb)))),
    ("bstrpick.d", single::<BstrpickD>),
    ("ext.w.h", j!(|a| a as i16 as u64)),
    ("ext.w.b", j!(|a| a as i8 as u64)),
    ("clo.w", j!(|a| (a as u32).leading_ones().into())),
    ("clz.w", j!(|a| (a as u32).leading_zeros().into())),
    ("cto.w", j!(|a| (a as u32).trailing_ones().into())),
    ("ctz.w", j!(|a| (a as u32).trailing_zeros().into())),
    ("clo.d", j!(|a| a.leading_ones().into())),
    ("clz.d", j!(|a| a.leading_zeros().into())),
    ("cto.d", j!(|a| a.trailing_ones().into())),
    ("ctz.d", j!(|a| a.trailing_zeros().into())),
    ("revb.2h", j!(|a| sx(bytes_of_halves_swapped(a)))),
    ("revb.4h", j!(bytes_of_halves_swapped)),
    ("revb.2w", j!(|a| a.swap_bytes().rotate_left(32))),
    ("revb.d", j!(u64::swap_bytes)),
    ("revh.2w", j!(halves_of_words_swapped)),
    ("revh.d", j!(|a| halves_of_words_swapped(a).rotate_left(32))),
    ("bitrev.4b", j!(|a| sx(a.reverse_bits().swap_bytes()))),
    ("bitrev.8b", j!(|a| a.reverse_bits().swap_bytes())),
    ("bitrev.w", j!(|a| sx((a as u32).reverse_bits().into()))),
    ("bitrev.d", j!(u64::reverse_bits)),
    ("mul.w", single::<MulW>),
    ("mulh.w", jk!(|a, b| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u64)),
    ("mulh.wu", jk!(|a, b| sx(((a & 0xffff_ffff) * (b & 0xffff_ffff)) >> 32))),
    ("mul.d", single::<MulD>),
    ("mulh.d", jk!(|a, b| ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64)),
    ("mulh.du", jk!(|a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64)),
    ("mulw.d.w", jk!(|a, b| sx(a).wrapping_mul(sx(b)))),
    ("mulw.d.wu", jk!(|a, b| (a & 0xffff_ffff) * (b & 0xffff_ffff))),
    ("div.w", jk!(|a, b| sx(div(sx(a), sx(b))))),
    ("mod.w", jk!(|a, b| sx(rem(sx(a), sx(b))))),
    ("div.wu", jk!(|a, b| sx(div_unsigned(a & 0xffff_ffff, b & 0xffff_ffff)))),
    ("mod.wu", jk!(|a, b| sx(rem_unsigned(a & 0xffff_ffff, b & 0xffff_ffff)))),
    ("div.d", jk!(div)),
    ("mod.d", jk!(rem)),
    ("div.du", jk!(div_unsigned)),
    ("mod.du", jk!(rem_unsigned)),
    ("crc.w.b.w", jk!(|a, b| crc(a, b, 8, CRC32))),
    ("crc.w.h.w", jk!(|a, b| crc(a, b, 16, CRC32))),
    ("crc.w.w.w", jk!(|a, b| crc(a, b, 32, CRC32))),
    ("crc.w.d.w", jk!(|a, b| crc(a, b, 64, CRC32))),
    ("crcc.w.b.w", jk!(|a, b| crc(a, b, 8, CRC32C))),
    ("crcc.w.h.w", jk!(|a, b| crc(a, b, 16, CRC32C))),
    ("crcc.w.w.w", jk!(|a, b| crc(a, b, 32, CRC32C))),
    ("crcc.w.d.w", jk!(|a, b| crc(a, b, 64, CRC32C))),
    ("rdtimel.w", rdtimel_w),
    ("rdtimeh.w", rdtimeh_w),
    ("rdtime.d", rdtime_d),
    ("cpucfg", cpucfg),
    ("asrtle.d", asrtle),
    ("asrtgt.d", asrtgt),
    ("preld", nothing),
    ("preldx", nothing),
    ("dbar", dbar),
];
