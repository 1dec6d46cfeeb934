//! Binary translation assists: operations that compute only the flags an x86 or Arm instruction
//! would leave, condition tests on them, the x87 stack top, and 80-bit conversions.
//!
//! - x86 and Arm flags share one register: CF 0, PF 2, AF 4, ZF 6, SF 7, OF 11; Arm's N, Z, C, V
//!   are SF, ZF, CF, OF. Arm subtraction sets C as a borrow, like x86's.
//! - x86 counts, and a count of `rcr` in a register, are taken modulo 32 (64 for `.d`); a shift by
//!   zero leaves all flags, a rotation by zero still writes CF; OF changes only for a count of one;
//!   `x86sbc` derives AF from operands without the borrow. These are what Loongson's cores were
//!   measured to do by the public unofficial-loongarch-intrinsics-guide (jiegec); no emulator
//!   serves as an oracle here.
//! - In stack mode the scalar floating-point registers 0 to 7 are rotated by the top.
//! - `x86settag` on a tag it does not expect traps like an illegal instruction.

use super::integer::sx;
use super::operation::{Entry, illegal_operand};
use super::{Cpu, Cursor, Exit, Handler, Slot};
use crate::float::{Double, Env, Rounding};

pub(super) const CF: u32 = 1;
pub(super) const PF: u32 = 1 << 2;
pub(super) const AF: u32 = 1 << 4;
pub(super) const ZF: u32 = 1 << 6;
pub(super) const SF: u32 = 1 << 7;
pub(super) const OF: u32 = 1 << 11;
pub(super) const ALL: u32 = CF | PF | AF | ZF | SF | OF;

const fn flag(on: bool, bit: u32) -> u32 {
    if on { bit } else { 0 }
}

const fn mask(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

/// The low `bits` bits, sign-extended.
const fn extend(value: u64, bits: u32) -> u64 {
    ((value << (64 - bits)) as i64 >> (64 - bits)) as u64
}

/// PF, ZF and SF of a result.
const fn result_flags(r: u64, bits: u32) -> u32 {
    flag((r as u8).count_ones().is_multiple_of(2), PF)
        | flag(r & mask(bits) == 0, ZF)
        | flag(r >> (bits - 1) & 1 == 1, SF)
}

fn overflow(a: u64, b: u64, r: u64, bits: u32) -> bool {
    (a ^ r) & (b ^ r) & 1 << (bits - 1) != 0
}

/// What an operation of `bits` bits on a and b makes of the flags: (which, their values).
type Effect = fn(a: u64, b: u64, old: u32, bits: u32) -> (u32, u32);

fn add_with(a: u64, b: u64, carry: u64, bits: u32) -> (u32, u32) {
    let wide = u128::from(a) + u128::from(b) + u128::from(carry);
    let r = wide as u64 & mask(bits);
    let values = flag(wide >> bits != 0, CF)
        | flag((a ^ b ^ r) & 16 != 0, AF)
        | flag(overflow(a, b, r, bits), OF)
        | result_flags(r, bits);
    (ALL, values)
}

fn sub_with(a: u64, b: u64, borrow: u64, bits: u32) -> (u32, u32) {
    let r = a.wrapping_sub(b).wrapping_sub(borrow) & mask(bits);
    let half = if borrow == 0 { (a ^ b ^ r) & 16 != 0 } else { a & 15 < b & 15 };
    let values = flag(u128::from(a) < u128::from(b) + u128::from(borrow), CF)
        | flag(half, AF)
        | flag((a ^ b) & (a ^ r) & 1 << (bits - 1) != 0, OF)
        | result_flags(r, bits);
    (ALL, values)
}

fn add(a: u64, b: u64, _: u32, bits: u32) -> (u32, u32) {
    add_with(a, b, 0, bits)
}

fn sub(a: u64, b: u64, _: u32, bits: u32) -> (u32, u32) {
    sub_with(a, b, 0, bits)
}

/// The unsigned forms never overflow.
fn add_unsigned(a: u64, b: u64, _: u32, bits: u32) -> (u32, u32) {
    (ALL, add_with(a, b, 0, bits).1 & !OF)
}

fn sub_unsigned(a: u64, b: u64, _: u32, bits: u32) -> (u32, u32) {
    (ALL, sub_with(a, b, 0, bits).1 & !OF)
}

fn adc(a: u64, b: u64, old: u32, bits: u32) -> (u32, u32) {
    add_with(a, b, u64::from(old & CF), bits)
}

fn sbc(a: u64, b: u64, old: u32, bits: u32) -> (u32, u32) {
    sub_with(a, b, u64::from(old & CF), bits)
}

fn inc(a: u64, _: u64, _: u32, bits: u32) -> (u32, u32) {
    (ALL & !CF, add_with(a, 1, 0, bits).1)
}

fn dec(a: u64, _: u64, _: u32, bits: u32) -> (u32, u32) {
    (ALL & !CF, sub_with(a, 1, 0, bits).1)
}

fn mul(a: u64, b: u64, _: u32, bits: u32) -> (u32, u32) {
    let product = i128::from(extend(a, bits) as i64) * i128::from(extend(b, bits) as i64);
    let fits = product << (128 - bits) >> (128 - bits) == product;
    (ALL, flag(!fits, CF | OF))
}

fn mul_unsigned(a: u64, b: u64, _: u32, bits: u32) -> (u32, u32) {
    (ALL, flag((u128::from(a) * u128::from(b)) >> bits != 0, CF | OF))
}

fn and(a: u64, b: u64, _: u32, bits: u32) -> (u32, u32) {
    (ALL, result_flags(a & b, bits))
}

fn or(a: u64, b: u64, _: u32, bits: u32) -> (u32, u32) {
    (ALL, result_flags(a | b, bits))
}

fn xor(a: u64, b: u64, _: u32, bits: u32) -> (u32, u32) {
    (ALL, result_flags(a ^ b, bits))
}

fn count_of(b: u64, bits: u32) -> u32 {
    b as u32 & if bits == 64 { 63 } else { 31 }
}

/// Flags of a shift: carry out, overflow if by one, and the result's.
fn shifted(count: u32, carry: bool, one: bool, r: u64, bits: u32) -> (u32, u32) {
    if count == 0 {
        return (0, 0);
    }
    let which = CF | PF | ZF | SF | flag(count == 1, OF);
    (which, flag(carry, CF) | flag(one, OF) | result_flags(r, bits))
}

fn sll(a: u64, b: u64, _: u32, bits: u32) -> (u32, u32) {
    let c = count_of(b, bits);
    let wide = u128::from(a) << c;
    let r = wide as u64 & mask(bits);
    shifted(c, wide >> bits & 1 == 1, (a ^ r) >> (bits - 1) & 1 == 1, r, bits)
}

fn srl(a: u64, b: u64, _: u32, bits: u32) -> (u32, u32) {
    let c = count_of(b, bits);
    let carry = c > 0 && a >> (c - 1) & 1 == 1;
    shifted(c, carry, a >> (bits - 1) & 1 == 1, a >> c, bits)
}

fn sra(a: u64, b: u64, _: u32, bits: u32) -> (u32, u32) {
    let c = count_of(b, bits);
    let wide = extend(a, bits) as i64;
    let carry = c > 0 && wide >> (c - 1) & 1 == 1;
    shifted(c, carry, false, (wide >> c) as u64 & mask(bits), bits)
}

fn rotated(a: u64, n: u32, bits: u32) -> u64 {
    match n {
        0 => a,
        _ => (a >> n | a << (bits - n)) & mask(bits),
    }
}

fn rotr(a: u64, b: u64, _: u32, bits: u32) -> (u32, u32) {
    let c = count_of(b, bits);
    let n = c % bits;
    let r = rotated(a, n, bits);
    let carry = n > 0 && r >> (bits - 1) & 1 == 1;
    let one = (r >> (bits - 1) ^ r >> (bits - 2)) & 1 == 1;
    (CF | flag(c == 1, OF), flag(carry, CF) | flag(one, OF))
}

fn rotl(a: u64, b: u64, _: u32, bits: u32) -> (u32, u32) {
    let c = count_of(b, bits);
    let n = c % bits;
    let r = rotated(a, (bits - n) % bits, bits);
    let carry = if n == 0 { a >> (bits - 1) } else { r } & 1 == 1;
    (CF | flag(c == 1, OF), flag(carry, CF) | flag((a ^ r) >> (bits - 1) & 1 == 1, OF))
}

fn rcr(a: u64, b: u64, old: u32, bits: u32) -> (u32, u32) {
    let c = count_of(b, bits);
    let n = c % (bits + 1);
    if n == 0 {
        return (0, 0);
    }
    let r = a >> 1 | u64::from(old & CF) << (bits - 1);
    let one = (r >> (bits - 1) ^ r >> (bits - 2)) & 1 == 1;
    (CF | flag(c == 1, OF), flag(a >> (n - 1) & 1 == 1, CF) | flag(one, OF))
}

fn rcl(a: u64, b: u64, _: u32, bits: u32) -> (u32, u32) {
    let c = count_of(b, bits);
    let n = c % (bits + 1);
    if n == 0 {
        return (0, 0);
    }
    let carry = a >> (bits - n) & 1 == 1;
    let one = (a << 1 >> (bits - 1) & 1 == 1) != carry;
    (CF | flag(c == 1, OF), flag(carry, CF) | flag(one, OF))
}

fn update(cpu: &mut Cpu, (which, values): (u32, u32)) {
    cpu.state.lbt.flags = cpu.state.lbt.flags & !which | values & which;
}

fn by_register<const BITS: u32>(cpu: &mut Cpu, i: Cursor<'_>, effect: Effect) -> Exit {
    let (a, b, old) = (cpu.x(i.rj) & mask(BITS), cpu.x(i.rk) & mask(BITS), cpu.state.lbt.flags);
    update(cpu, effect(a, b, old, BITS));
    i.chain(cpu)
}

fn by_immediate<const BITS: u32>(cpu: &mut Cpu, i: Cursor<'_>, effect: Effect) -> Exit {
    let (a, old) = (cpu.x(i.rj) & mask(BITS), cpu.state.lbt.flags);
    update(cpu, effect(a, i.imm as u64, old, BITS));
    i.chain(cpu)
}

/// `name.suffix bits by effect` entries.
macro_rules! x86 {
    ($($name:literal $by:ident $effect:ident [$($suffix:literal $bits:literal)*];)*) => {
        &[$($((concat!($name, $suffix), {
            fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
                $by::<$bits>(cpu, i, $effect)
            }
            run
        }),)*)*]
    };
}

pub(super) static X86_TABLE: &[Entry] = x86! {
    "x86add" by_register add [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86sub" by_register sub [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86add" by_register add_unsigned [".wu" 32 ".du" 64];
    "x86sub" by_register sub_unsigned [".wu" 32 ".du" 64];
    "x86adc" by_register adc [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86sbc" by_register sbc [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86inc" by_register inc [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86dec" by_register dec [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86mul" by_register mul [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86mul" by_register mul_unsigned [".bu" 8 ".hu" 16 ".wu" 32 ".du" 64];
    "x86and" by_register and [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86or" by_register or [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86xor" by_register xor [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86sll" by_register sll [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86srl" by_register srl [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86sra" by_register sra [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86rotr" by_register rotr [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86rotl" by_register rotl [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86rcr" by_register rcr [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86rcl" by_register rcl [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86slli" by_immediate sll [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86srli" by_immediate srl [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86srai" by_immediate sra [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86rotri" by_immediate rotr [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86rotli" by_immediate rotl [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86rcri" by_immediate rcr [".b" 8 ".h" 16 ".w" 32 ".d" 64];
    "x86rcli" by_immediate rcl [".b" 8 ".h" 16 ".w" 32 ".d" 64];
};

/// Whether an Arm condition holds.
const fn arm_holds(flags: u32, condition: u32) -> bool {
    let (n, z, c, v) = (flags & SF != 0, flags & ZF != 0, flags & CF != 0, flags & OF != 0);
    let base = match condition >> 1 & 7 {
        0 => z,
        1 => c,
        2 => n,
        3 => v,
        4 => c && !z,
        5 => n == v,
        6 => !z && n == v,
        _ => return true,
    };
    base != (condition & 1 == 1)
}

/// Whether an x86 condition, in the order of `setx86j`, holds.
const fn x86_holds(flags: u32, condition: u32) -> bool {
    let (c, z, s, o) = (flags & CF != 0, flags & ZF != 0, flags & SF != 0, flags & OF != 0);
    match condition & 15 {
        0 => !c && !z,
        1 => !c,
        2 => c,
        3 => c || z,
        4 => z,
        5 => !z,
        6 => !z && s == o,
        7 => s == o,
        8 => s != o,
        9 => z || s != o,
        10 => s,
        11 => !s,
        12 => o,
        13 => !o,
        14 => flags & PF != 0,
        _ => flags & PF == 0,
    }
}

/// N and Z of an Arm result.
fn arm_result(r: u64, bits: u32) -> u32 {
    result_flags(r, bits) & (SF | ZF)
}

fn arm_add(a: u64, b: u64, old: u32, bits: u32) -> (u32, u32) {
    (SF | ZF | CF | OF, add(a, b, old, bits).1)
}

fn arm_sub(a: u64, b: u64, old: u32, bits: u32) -> (u32, u32) {
    (SF | ZF | CF | OF, sub(a, b, old, bits).1)
}

fn arm_adc(a: u64, b: u64, old: u32, bits: u32) -> (u32, u32) {
    (SF | ZF | CF | OF, adc(a, b, old, bits).1)
}

/// The borrow in is the inverted C; overflow is judged with it added to the subtrahend.
fn arm_sbc(a: u64, b: u64, old: u32, bits: u32) -> (u32, u32) {
    let whole = b + u64::from(old & CF == 0);
    let r = a.wrapping_sub(whole) & mask(bits);
    let v = (a ^ whole) & (a ^ r) & 1 << (bits - 1) != 0;
    (SF | ZF | CF | OF, flag(a < whole, CF) | flag(v, OF) | arm_result(r, bits))
}

fn arm_and(a: u64, b: u64, _: u32, bits: u32) -> (u32, u32) {
    (SF | ZF, arm_result(a & b, bits))
}

fn arm_or(a: u64, b: u64, _: u32, bits: u32) -> (u32, u32) {
    (SF | ZF, arm_result(a | b, bits))
}

fn arm_xor(a: u64, b: u64, _: u32, bits: u32) -> (u32, u32) {
    (SF | ZF, arm_result(a ^ b, bits))
}

fn arm_not(a: u64, _: u64, _: u32, bits: u32) -> (u32, u32) {
    (SF | ZF, arm_result(!a, bits))
}

fn arm_mov(a: u64, _: u64, _: u32, bits: u32) -> (u32, u32) {
    (SF | ZF, arm_result(a, bits))
}

/// Shift by the low byte of b; by zero it leaves C.
fn arm_shift(count: u64, r: u64, carry: bool) -> (u32, u32) {
    let which = SF | ZF | flag(count != 0, CF);
    (which, arm_result(r, 32) | flag(carry, CF))
}

fn arm_sll(a: u64, b: u64, _: u32, _: u32) -> (u32, u32) {
    let c = b & 255;
    let wide = if c > 32 { 0 } else { a << c };
    arm_shift(c, wide & mask(32), wide >> 32 & 1 == 1)
}

fn arm_srl(a: u64, b: u64, _: u32, _: u32) -> (u32, u32) {
    let c = b & 255;
    let before = if c > 32 { 0 } else { a << 1 >> c };
    arm_shift(c, before >> 1, before & 1 == 1)
}

fn arm_sra(a: u64, b: u64, _: u32, _: u32) -> (u32, u32) {
    let c = b & 255;
    let before = (sx(a) as i64) << 1 >> c.min(33);
    arm_shift(c, before as u64 >> 1 & mask(32), before & 1 == 1)
}

fn arm_rotr(a: u64, b: u64, _: u32, _: u32) -> (u32, u32) {
    let r = u64::from((a as u32).rotate_right(b as u32 & 31));
    arm_shift(b & 255, r, r >> 31 == 1)
}

fn arm_rrx(a: u64, _: u64, old: u32, _: u32) -> (u32, u32) {
    let r = a >> 1 | u64::from(old & CF) << 31;
    (SF | ZF | CF, arm_result(r, 32) | flag(a & 1 == 1, CF))
}

fn arm_if(cpu: &mut Cpu, i: Cursor<'_>, condition: u32, b: u64, bits: u32, effect: Effect) -> Exit {
    let (a, old) = (cpu.x(i.rj) & mask(bits), cpu.state.lbt.flags);
    if arm_holds(old, condition) {
        update(cpu, effect(a, b & mask(bits), old, bits));
    }
    i.chain(cpu)
}

macro_rules! arm {
    ($effect:ident register) => {{
        fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            let b = cpu.x(i.rk);
            arm_if(cpu, i, i.imm as u32, b, 32, $effect)
        }
        run
    }};
    ($effect:ident immediate) => {{
        fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            arm_if(cpu, i, i.imm2.into(), i.imm as u64, 32, $effect)
        }
        run
    }};
    ($effect:ident alone $bits:literal) => {{
        fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            arm_if(cpu, i, i.imm as u32, 0, $bits, $effect)
        }
        run
    }};
}

pub(super) static ARM_TABLE: &[Entry] = &[
    ("armadd.w", arm!(arm_add register)),
    ("armsub.w", arm!(arm_sub register)),
    ("armadc.w", arm!(arm_adc register)),
    ("armsbc.w", arm!(arm_sbc register)),
    ("armand.w", arm!(arm_and register)),
    ("armor.w", arm!(arm_or register)),
    ("armxor.w", arm!(arm_xor register)),
    ("armsll.w", arm!(arm_sll register)),
    ("armsrl.w", arm!(arm_srl register)),
    ("armsra.w", arm!(arm_sra register)),
    ("armrotr.w", arm!(arm_rotr register)),
    ("armslli.w", arm!(arm_sll immediate)),
    ("armsrli.w", arm!(arm_srl immediate)),
    ("armsrai.w", arm!(arm_sra immediate)),
    ("armrotri.w", arm!(arm_rotr immediate)),
    ("armnot.w", arm!(arm_not alone 32)),
    ("armmov.w", arm!(arm_mov alone 32)),
    ("armmov.d", arm!(arm_mov alone 64)),
    ("armrrx.w", arm!(arm_rrx alone 32)),
];

/// rd = f(rj, rk or immediate, carry), sign-extended from `$bits`.
macro_rules! value {
    ($bits:literal, $b:expr, $f:expr) => {{
        fn run(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
            let (b, f): (fn(&Cpu, Cursor<'_>) -> u64, fn(u64, u64, u64) -> u64) = ($b, $f);
            let carry = u64::from(cpu.state.lbt.flags & CF);
            let result = f(cpu.x(i.rj) & mask($bits), b(cpu, i), carry);
            cpu.set_x(i.to, extend(result, $bits));
            i.chain(cpu)
        }
        run as Handler
    }};
}

fn rk(cpu: &Cpu, i: Cursor<'_>) -> u64 {
    cpu.x(i.rk)
}

fn immediate(_: &Cpu, i: Cursor<'_>) -> u64 {
    i.imm as u64
}

/// Rotates the carry and `bits` bits right as one ring.
fn through_carry(a: u64, count: u64, carry: u64, bits: u32) -> u64 {
    let ring = u128::from(carry) << bits | u128::from(a);
    let n = (count % u64::from(bits + 1)) as u32;
    (ring >> n | ring << (bits + 1 - n)) as u64
}

pub(super) static VALUE_TABLE: &[Entry] = &[
    ("adc.b", value!(8, rk, |a, b, c| a.wrapping_add(b).wrapping_add(c))),
    ("adc.h", value!(16, rk, |a, b, c| a.wrapping_add(b).wrapping_add(c))),
    ("adc.w", value!(32, rk, |a, b, c| a.wrapping_add(b).wrapping_add(c))),
    ("adc.d", value!(64, rk, |a, b, c| a.wrapping_add(b).wrapping_add(c))),
    ("sbc.b", value!(8, rk, |a, b, c| a.wrapping_sub(b).wrapping_sub(c))),
    ("sbc.h", value!(16, rk, |a, b, c| a.wrapping_sub(b).wrapping_sub(c))),
    ("sbc.w", value!(32, rk, |a, b, c| a.wrapping_sub(b).wrapping_sub(c))),
    ("sbc.d", value!(64, rk, |a, b, c| a.wrapping_sub(b).wrapping_sub(c))),
    ("rcr.b", value!(8, rk, |a, b, c| through_carry(a, b & 31, c, 8))),
    ("rcr.h", value!(16, rk, |a, b, c| through_carry(a, b & 31, c, 16))),
    ("rcr.w", value!(32, rk, |a, b, c| through_carry(a, b & 31, c, 32))),
    ("rcr.d", value!(64, rk, |a, b, c| through_carry(a, b & 63, c, 64))),
    ("rcri.b", value!(8, immediate, |a, b, c| through_carry(a, b, c, 8))),
    ("rcri.h", value!(16, immediate, |a, b, c| through_carry(a, b, c, 16))),
    ("rcri.w", value!(32, immediate, |a, b, c| through_carry(a, b, c, 32))),
    ("rcri.d", value!(64, immediate, |a, b, c| through_carry(a, b, c, 64))),
    ("rotr.b", value!(8, rk, |a, b, _| rotated(a, b as u32 % 8, 8))),
    ("rotr.h", value!(16, rk, |a, b, _| rotated(a, b as u32 % 16, 16))),
    ("rotri.b", value!(8, immediate, |a, b, _| rotated(a, b as u32 % 8, 8))),
    ("rotri.h", value!(16, immediate, |a, b, _| rotated(a, b as u32 % 16, 16))),
    ("addu12i.w", value!(32, immediate, |a, b, _| a.wrapping_add(b << 12))),
    ("addu12i.d", value!(64, immediate, |a, b, _| a.wrapping_add(b << 12))),
];

fn set(cpu: &mut Cpu, i: Cursor<'_>, value: u64) -> Exit {
    cpu.set_x(i.to, value);
    i.chain(cpu)
}

fn setx86j(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let holds = x86_holds(cpu.state.lbt.flags, i.imm as u32);
    set(cpu, i, holds.into())
}

fn setarmj(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let holds = arm_holds(cpu.state.lbt.flags, i.imm as u32);
    set(cpu, i, holds.into())
}

fn armmove(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let from = if arm_holds(cpu.state.lbt.flags, i.imm as u32) { i.rj } else { i.rd };
    let value = cpu.x(from);
    set(cpu, i, value)
}

fn setx86loop<const ZERO: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let zero = cpu.state.lbt.flags & ZF != 0;
    let value = cpu.x(i.rj) != 0 && zero == ZERO;
    set(cpu, i, value.into())
}

/// The flags a mask of six bits names, in the order CF, PF, AF, ZF, SF, OF.
fn named(mask: i64) -> u32 {
    let bits = [CF, PF, AF, ZF, SF, OF];
    bits.iter().enumerate().fold(0, |m, (n, &bit)| m | flag(mask >> n & 1 == 1, bit))
}

fn x86mfflag(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let value = cpu.state.lbt.flags & named(i.imm);
    set(cpu, i, value.into())
}

fn x86mtflag(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let value = cpu.x(i.rd) as u32;
    update(cpu, (named(i.imm), value));
    i.chain(cpu)
}

/// Arm's places of the flags in a register: V 28, C 29, Z 30, N 31.
const ARM_PLACES: [(u32, u32); 4] = [(OF, 28), (CF, 29), (ZF, 30), (SF, 31)];

fn armmfflag(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let flags = cpu.state.lbt.flags & named(i.imm);
    let value = ARM_PLACES.iter().fold(0, |v, &(bit, at)| v | u64::from(flags & bit != 0) << at);
    set(cpu, i, sx(value))
}

fn armmtflag(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let from = cpu.x(i.rd);
    let values = ARM_PLACES.iter().fold(0, |v, &(bit, at)| v | flag(from >> at & 1 == 1, bit));
    update(cpu, (named(i.imm) & (SF | ZF | CF | OF), values));
    i.chain(cpu)
}

fn movgr2scr(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    cpu.state.lbt.scratch[i.rd.number() & 3] = cpu.x(i.rj);
    i.chain(cpu)
}

fn movscr2gr(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let value = cpu.state.lbt.scratch[i.rj.number() & 3];
    set(cpu, i, value)
}

fn x86mttop(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    cpu.state.lbt.top = i.imm as u8 & 7;
    i.chain(cpu)
}

fn x86mftop(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let top = cpu.state.lbt.top;
    set(cpu, i, top.into())
}

fn move_top<const BY: u8>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    cpu.state.lbt.top = cpu.state.lbt.top.wrapping_add(BY) & 7;
    i.chain(cpu)
}

fn stack_mode<const ON: bool>(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    cpu.state.lbt.stack_mode = ON.into();
    i.chain(cpu)
}

/// Sets (mode 0), clears (1), tests (2), tests and clears (3), pops (4) a tag bit of rd.
fn x86settag(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let tags = cpu.x(i.rd);
    let bit = 1u64 << (i.imm2 & 7);
    let other = 1u64 << ((i.imm2 & 63) / 8);
    let (set_now, other_set) = (tags & bit != 0, tags & other != 0);
    let next = match i.imm & 7 {
        0 if !set_now => tags | bit,
        1 if set_now => tags & !bit,
        2 if set_now && other_set => tags,
        3 if set_now && other_set => tags & !bit,
        4 if set_now && other_set => tags & !(bit | other),
        5..=7 => tags,
        _ => return illegal_operand(cpu, i),
    };
    set(cpu, i, next)
}

/// Sign, exponent (biased by 16383) and significand with its explicit leading one, of a double.
fn extended(d: u64) -> (u64, u64, u64) {
    let (sign, exponent, fraction) = (d >> 63, d >> 52 & 0x7ff, d & mask(52));
    match (exponent, fraction) {
        (0, 0) => (sign, 0, 0),
        (0, f) => {
            let up = f.leading_zeros();
            (sign, 16383 - 1074 + 63 - u64::from(up), f << up)
        }
        (0x7ff, 0) => (sign, 0x7fff, 1 << 63),
        (0x7ff, f) => (sign, 0x7fff, 1 << 63 | 1 << 62 | f << 11),
        (e, f) => (sign, e + 16383 - 1023, 1 << 63 | f << 11),
    }
}

fn fcvt_ld_d(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let value = extended(cpu.f(i.rj)).2;
    cpu.set_f(i.rd, value);
    i.chain(cpu)
}

fn fcvt_ud_d(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let (sign, exponent, _) = extended(cpu.f(i.rj));
    cpu.set_f(i.rd, sign << 15 | exponent);
    i.chain(cpu)
}

/// Extended to double, truncated: significand in fj, sign and exponent in fk.
fn fcvt_d_ld(cpu: &mut Cpu, i: Cursor<'_>) -> Exit {
    let (significand, high) = (cpu.f(i.rj), cpu.f(i.rk));
    let (negative, exponent) = (high >> 15 & 1 == 1, (high & 0x7fff) as i32);
    let sign = u64::from(negative) << 63;
    let value = match exponent {
        0x7fff => sign | 0x7ff << 52 | significand << 1 >> 12,
        _ if significand == 0 => sign,
        e if e - 16383 > 1023 => sign | 0x7ff << 52,
        e => {
            let mut env = Env::new(Rounding::Zero);
            crate::float::assemble::<Double>(negative, e - 16383, significand, &mut env)
        }
    };
    cpu.set_f(i.rd, value);
    i.chain(cpu)
}

/// The floating-point register that `slot` names in stack mode.
#[cold]
pub(super) fn rotated_register(cpu: &Cpu, slot: Slot) -> usize {
    match slot.number() & 31 {
        n @ 0..=7 => (n + usize::from(cpu.state.lbt.top)) & 7,
        n => n,
    }
}

pub(super) static TABLE: &[Entry] = &[
    ("movgr2scr", movgr2scr),
    ("movscr2gr", movscr2gr),
    ("x86mttop", x86mttop),
    ("x86mftop", x86mftop),
    ("x86inctop", move_top::<1>),
    ("x86dectop", move_top::<7>),
    ("x86settm", stack_mode::<true>),
    ("x86clrtm", stack_mode::<false>),
    ("x86settag", x86settag),
    ("setx86j", setx86j),
    ("setarmj", setarmj),
    ("setx86loope", setx86loop::<true>),
    ("setx86loopne", setx86loop::<false>),
    ("armmove", armmove),
    ("x86mfflag", x86mfflag),
    ("x86mtflag", x86mtflag),
    ("armmfflag", armmfflag),
    ("armmtflag", armmtflag),
    ("fcvt.ld.d", fcvt_ld_d),
    ("fcvt.ud.d", fcvt_ud_d),
    ("fcvt.d.ld", fcvt_d_ld),
];

#[cfg(test)]
mod tests;
