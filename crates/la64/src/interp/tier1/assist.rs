//! Binary translation assists: flags as x86 has them, which the host makes itself, conditions on
//! them, scratch registers.
//!
//! - The state has the flags in the places of the host's, so `pushf` reads what an operation of the
//!   same width leaves. What the host leaves undefined is masked: the adjust flag of logic, all but
//!   carry and overflow of products.
//! - On tier 0 are shifts by register, and of bytes and halfwords, where the host leaves carries
//!   undefined; rotations; Arm's flags, the x87 stack.

use super::super::lbt;
use super::block::{Block, Decoded, Lowering, plain};
use super::integer::put_condition;
use super::layout;
use crate::jit::emit::{
    ADD, AND, AND_I, Cond, Form, IMUL, MOV, MOV_TO, MOVSX8, MOVSX16, MOVSXD, MUL, OR, RAX, RCX,
    RDX, SAR, SHL, SHR, SUB, XOR,
};
use crate::jit::flags::{ADC, SBB};
use littoral_base::mutant;

const CARRY: i32 = lbt::CF as i32;
const PARITY: i32 = lbt::PF as i32;
const ADJUST: i32 = lbt::AF as i32;
const ZERO: i32 = lbt::ZF as i32;
const SIGN: i32 = lbt::SF as i32;
const OVERFLOW: i32 = lbt::OF as i32;
const ALL: i32 = lbt::ALL as i32;

/// The flags `which` become the host's, those of `kept` stay, and others are cleared.
fn take(b: &mut Block<'_>, which: i32, kept: i32) {
    b.asm.push_flags();
    b.asm.pop(RAX);
    put_flags(b, which, kept);
}

/// The flags `which` become those of rax, those of `kept` stay, and others are cleared.
fn put_flags(b: &mut Block<'_>, which: i32, kept: i32) {
    b.asm.arith(AND_I, false, RAX, which);
    if kept != 0 {
        b.asm.op(MOV, false, RCX, layout::LBT_FLAGS);
        b.asm.arith(AND_I, false, RCX, kept);
        b.asm.op(OR, false, RAX, RCX);
    }
    b.asm.op(MOV_TO, false, RAX, layout::LBT_FLAGS);
}

/// The flags of rj op rk.
fn binary(b: &mut Block<'_>, d: &Decoded, bits: u32, (form, which): (Form, i32)) {
    b.load(RAX, d.rj());
    let k = b.get(d.rk(), RCX);
    b.asm.sized(form, bits, RAX, k);
    take(b, which, 0);
}

/// The flags of rj op 1, without the carry.
fn step(b: &mut Block<'_>, d: &Decoded, bits: u32, form: Form) {
    b.load(RAX, d.rj());
    b.asm.mov_imm(RCX, 1);
    b.asm.sized(form, bits, RAX, RCX);
    let kept = if mutant!("la64_assist_steps_carry") { 0 } else { CARRY };
    take(b, ALL & !kept, kept);
}

/// rax = rj op rk op carry, of so many bits.
fn with_carry(b: &mut Block<'_>, d: &Decoded, bits: u32, form: Form) {
    b.load(RAX, d.rj());
    b.load(RDX, d.rk());
    b.asm.op(MOV, false, RCX, layout::LBT_FLAGS);
    // Its lowest bit goes to the host's carry.
    b.asm.imm8(SHR, false, RCX, 1);
    b.asm.sized(form, bits, RAX, RDX);
}

/// The flags of rj + rk + carry.
fn add_with_carry(b: &mut Block<'_>, d: &Decoded, bits: u32, form: Form) {
    with_carry(b, d, bits, form);
    take(b, ALL, 0);
}

/// The flags of rj - rk - carry; the adjust flag is that of rj - rk.
fn subtract_with_carry(b: &mut Block<'_>, d: &Decoded, bits: u32, form: Form) {
    with_carry(b, d, bits, form);
    b.asm.push_flags();
    b.load_low(RAX, d.rj());
    b.asm.op(SUB, false, RAX, RDX);
    b.asm.push_flags();
    b.asm.pop(RAX);
    b.asm.arith(AND_I, false, RAX, ADJUST);
    b.asm.pop(RCX);
    b.asm.arith(AND_I, false, RCX, ALL & !ADJUST);
    b.asm.op(OR, false, RAX, RCX);
    b.asm.op(MOV_TO, false, RAX, layout::LBT_FLAGS);
}

/// rd = rj op rk op carry, sign-extended.
fn value_with_carry(b: &mut Block<'_>, d: &Decoded, bits: u32, form: Form) {
    if d.rd() == 0 {
        return;
    }
    with_carry(b, d, bits, form);
    match bits {
        8 => b.asm.op(MOVSX8, true, RAX, RAX),
        16 => b.asm.op(MOVSX16, true, RAX, RAX),
        32 => b.asm.op(MOVSXD, true, RAX, RAX),
        _ => {}
    }
    b.put(d.rd(), RAX);
    if bits < 64 {
        b.extends(d.rd());
    }
}

/// The flags of rj shifted by the immediate. By zero they stay; the adjust flag stays always, and
/// overflow unless by one.
fn shift(b: &mut Block<'_>, d: &Decoded, wide: bool, form: Form) {
    let count = d.imm() & if wide { 63 } else { 31 };
    if count == 0 {
        return;
    }
    b.load(RAX, d.rj());
    b.asm.imm8(form, wide, RAX, count as u8);
    let kept = if count == 1 { ADJUST } else { ADJUST | OVERFLOW };
    take(b, ALL & !kept, kept);
}

/// Carry and overflow: whether the product of rj and rk does not fit.
fn product(b: &mut Block<'_>, d: &Decoded, wide: bool, signed: bool) {
    b.load(RAX, d.rj());
    let k = b.get(d.rk(), RCX);
    match signed {
        true => b.asm.op(IMUL, wide, RAX, k),
        false => b.asm.unary(MUL, wide, k),
    }
    take(b, CARRY | OVERFLOW, 0);
}

/// rd = whether a condition holds, in the order of `setx86j`.
fn condition(b: &mut Block<'_>, d: &Decoded) {
    if d.rd() == 0 {
        return;
    }
    let number = d.imm() & 15;
    match number {
        0 | 3 => b.asm.test_byte(layout::LBT_FLAGS, (CARRY | ZERO) as u8),
        1 | 2 => b.asm.test_byte(layout::LBT_FLAGS, CARRY as u8),
        4 | 5 => b.asm.test_byte(layout::LBT_FLAGS, ZERO as u8),
        6..=9 => compare_signs(b, number == 6 || number == 9),
        10 | 11 => b.asm.test_byte(layout::LBT_FLAGS, SIGN as u8),
        12 | 13 => b.asm.test_byte(layout::LBT_FLAGS_HIGH, (OVERFLOW >> 8) as u8),
        _ => b.asm.test_byte(layout::LBT_FLAGS, PARITY as u8),
    }
    // Those that hold where no flag of the tested ones is set.
    let is_none = matches!(number, 0 | 1 | 5 | 6 | 7 | 11 | 13 | 15);
    let cond = if is_none { Cond::E } else { Cond::Ne };
    put_condition(b, d.rd(), cond);
    b.flags_tell(d.rd(), cond);
}

/// Host flags say whether sign and overflow differ, or the zero flag is set if that counts too.
fn compare_signs(b: &mut Block<'_>, or_zero: bool) {
    b.asm.op(MOV, false, RAX, layout::LBT_FLAGS);
    b.asm.op(MOV, false, RCX, RAX);
    b.asm.imm8(SHR, false, RCX, 4);
    b.asm.op(XOR, false, RCX, RAX);
    b.asm.arith(AND_I, false, RCX, SIGN);
    if or_zero {
        b.asm.arith(AND_I, false, RAX, ZERO);
        b.asm.op(OR, false, RAX, RCX);
    }
}

/// The flags that a mask names.
fn named(mask: i64) -> i32 {
    let bits = [CARRY, PARITY, ADJUST, ZERO, SIGN, OVERFLOW];
    let chosen = bits.iter().enumerate().filter(|(n, _)| mask >> n & 1 == 1);
    chosen.fold(0, |all, (_, bit)| all | bit)
}

fn read_flags(b: &mut Block<'_>, d: &Decoded) {
    if d.rd() == 0 {
        return;
    }
    let to = b.target(d.rd());
    b.asm.op(MOV, false, to, layout::LBT_FLAGS);
    b.asm.arith(AND_I, false, to, named(d.imm()));
    b.put(d.rd(), to);
    b.extends(d.rd());
}

fn write_flags(b: &mut Block<'_>, d: &Decoded) {
    let which = named(d.imm());
    b.load_low(RAX, d.rd());
    put_flags(b, which, ALL & !which);
}

fn to_scratch(b: &mut Block<'_>, d: &Decoded) {
    let from = b.get(d.rj(), RAX);
    b.asm.op(MOV_TO, true, from, layout::lbt_scratch(d.word as usize & 3));
}

fn from_scratch(b: &mut Block<'_>, d: &Decoded) {
    if d.rd() == 0 {
        return;
    }
    let to = b.target(d.rd());
    b.asm.op(MOV, true, to, layout::lbt_scratch(d.word as usize >> 5 & 3));
    b.put(d.rd(), to);
}

/// Rows of four widths.
macro_rules! widths {
    ($($name:literal $f:ident $what:expr;)*) => {
        &[$(
            plain(concat!($name, ".b"), |b, d| $f(b, d, 8, $what)),
            plain(concat!($name, ".h"), |b, d| $f(b, d, 16, $what)),
            plain(concat!($name, ".w"), |b, d| $f(b, d, 32, $what)),
            plain(concat!($name, ".d"), |b, d| $f(b, d, 64, $what)),
        )*]
    };
}

pub(super) static TABLE: &[Lowering] = widths! {
    "x86add" binary (ADD, ALL);
    "x86sub" binary (SUB, ALL);
    "x86and" binary (AND, ALL & !ADJUST);
    "x86or" binary (OR, ALL & !ADJUST);
    "x86xor" binary (XOR, ALL & !ADJUST);
    "x86inc" step ADD;
    "x86dec" step SUB;
    "x86adc" add_with_carry ADC;
    "x86sbc" subtract_with_carry SBB;
    "adc" value_with_carry ADC;
    "sbc" value_with_carry SBB;
};

pub(super) static OTHER_TABLE: &[Lowering] = &[
    plain("x86add.wu", |b, d| binary(b, d, 32, (ADD, ALL & !OVERFLOW))),
    plain("x86add.du", |b, d| binary(b, d, 64, (ADD, ALL & !OVERFLOW))),
    plain("x86sub.wu", |b, d| binary(b, d, 32, (SUB, ALL & !OVERFLOW))),
    plain("x86sub.du", |b, d| binary(b, d, 64, (SUB, ALL & !OVERFLOW))),
    plain("x86slli.w", |b, d| shift(b, d, false, SHL)),
    plain("x86slli.d", |b, d| shift(b, d, true, SHL)),
    plain("x86srli.w", |b, d| shift(b, d, false, SHR)),
    plain("x86srli.d", |b, d| shift(b, d, true, SHR)),
    plain("x86srai.w", |b, d| shift(b, d, false, SAR)),
    plain("x86srai.d", |b, d| shift(b, d, true, SAR)),
    plain("x86mul.w", |b, d| product(b, d, false, true)),
    plain("x86mul.d", |b, d| product(b, d, true, true)),
    plain("x86mul.wu", |b, d| product(b, d, false, false)),
    plain("x86mul.du", |b, d| product(b, d, true, false)),
    plain("setx86j", condition),
    plain("x86mfflag", read_flags),
    plain("x86mtflag", write_flags),
    plain("movgr2scr", to_scratch),
    plain("movscr2gr", from_scratch),
];
