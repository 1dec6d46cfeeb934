//! LSX and LASX on the host's vector registers, 128 bits at a time.
//!
//! - A 256-bit instruction is its 128-bit namesake on either half, except for those that move data
//!   between halves. Low halves may be pinned, upper halves are in the state.
//! - A register is written after the instruction's last access, last check of a result and last
//!   read of a register, so that the slow way may run it again.
//! - xmm0 holds intermediate values and results without a pin, xmm1 constants and values of rk,
//!   xmm2 values of rj.

mod float;
mod integer;
mod permute;
mod transfer;
mod widen;

use super::block::{Block, Decoded, Lowering};
use super::layout;
use crate::jit::emit::{Form, RAX, Rm, XOR, Xmm};
use crate::jit::packed::{V_MOVDQA, V_MOVDQU, V_MOVDQU_TO, V_PCMPEQD, V_PINSR, V_PXOR};

const X0: Xmm = Xmm(0);
const X1: Xmm = Xmm(1);
const X2: Xmm = Xmm(2);

/// The operands of an instruction on one half.
struct Operands {
    /// Where the result is made: a pin or xmm0.
    to: Xmm,
    /// rj: a pin or xmm2.
    j: Xmm,
    /// rk, or a constant in xmm1.
    k: Rm,
    imm: i64,
}

/// Makes the result of one half.
type Op = fn(&mut Block<'_>, &Operands);

/// The halves that an instruction works on.
fn halves(d: &Decoded) -> std::ops::Range<usize> {
    0..1 + usize::from(d.wide)
}

/// Where half `half` of vector register `n` is.
fn place(b: &Block<'_>, n: usize, half: usize) -> Rm {
    match b.vector_pin(n) {
        Some(x) if half == 0 => x.into(),
        Some(_) | None => layout::v(n, half).into(),
    }
}

/// A host register with the value at `from`: itself, or `scratch`.
fn register(b: &mut Block<'_>, from: Rm, scratch: Xmm) -> Xmm {
    match from {
        Rm::R(n) => Xmm(n),
        Rm::M(_) => {
            b.asm.packed_unary(V_MOVDQU, scratch, from);
            scratch
        }
    }
}

/// A host register with half `half` of vector register `n`: its pin, or `scratch`.
fn get(b: &mut Block<'_>, n: usize, half: usize, scratch: Xmm) -> Xmm {
    register(b, place(b, n, half), scratch)
}

/// The host register in which a half of vector register `n` is made.
fn target(b: &Block<'_>, n: usize, half: usize) -> Xmm {
    match place(b, n, half) {
        Rm::R(x) => Xmm(x),
        Rm::M(_) => X0,
    }
}

/// Half `half` of vector register `n` = `from`.
fn put(b: &mut Block<'_>, n: usize, half: usize, from: Xmm) {
    match place(b, n, half) {
        Rm::R(x) if x == from.0 => {}
        Rm::R(x) => b.asm.packed_unary(V_MOVDQA, Xmm(x), from),
        Rm::M(m) => b.asm.packed_unary(V_MOVDQU_TO, from, m),
    }
}

/// `to` = `value` in both doublewords.
fn constant(b: &mut Block<'_>, to: Xmm, value: u64) {
    match value {
        0 => b.asm.packed(V_PXOR, to, to, to),
        u64::MAX => b.asm.packed(V_PCMPEQD, to, to, to),
        _ => b.load_literal(to, value),
    }
}

/// `to` = two doublewords. Changes rax and the flags.
fn constants(b: &mut Block<'_>, to: Xmm, [low, high]: [u64; 2]) {
    if low == high {
        return constant(b, to, low);
    }
    b.asm.mov_imm(RAX, low);
    b.asm.packed_from_general(to, RAX);
    match high {
        0 => b.asm.op(XOR, false, RAX, RAX),
        _ => b.asm.mov_imm(RAX, high),
    }
    b.asm.packed_insert(V_PINSR, true, to, to, RAX, 1);
}

/// The low `bits` bits of `value` in every lane of that width.
fn repeated(value: i64, bits: u32) -> u64 {
    let lane = value as u64 & (u64::MAX >> (64 - bits));
    (0..64 / bits).fold(0, |all, n| all | lane << (n * bits))
}

/// Changes each bit of `to`. Changes xmm1.
fn invert(b: &mut Block<'_>, to: Xmm) {
    constant(b, X1, u64::MAX);
    b.asm.packed(V_PXOR, to, to, X1);
}

/// rd = op(rj, rk) by halves.
fn by_halves(b: &mut Block<'_>, d: &Decoded, op: Op) {
    for half in halves(d) {
        let j = get(b, d.rj(), half, X2);
        let o =
            Operands { to: target(b, d.rd(), half), j, k: place(b, d.rk(), half), imm: d.imm() };
        op(b, &o);
        put(b, d.rd(), half, o.to);
    }
}

/// rd = op(rj, a constant) by halves.
fn with_constant(b: &mut Block<'_>, d: &Decoded, value: u64, op: Op) {
    for half in halves(d) {
        let j = get(b, d.rj(), half, X2);
        constant(b, X1, value);
        let o = Operands { to: target(b, d.rd(), half), j, k: X1.into(), imm: d.imm() };
        op(b, &o);
        put(b, d.rd(), half, o.to);
    }
}

/// to = form(k, j).
fn swapped(b: &mut Block<'_>, o: &Operands, form: Form) {
    let k = register(b, o.k, X1);
    b.asm.packed(form, o.to, k, o.j);
}

/// Rows of instructions with one operation by halves.
macro_rules! rows_by_halves {
    ($($name:literal |$b:ident, $o:ident| $body:expr;)*) => {
        &[$($crate::interp::tier1::block::plain($name, |b, d| {
            super::by_halves(b, d, |$b, $o| $body)
        }),)*]
    };
}
use rows_by_halves;

/// The translation of a mnemonic.
pub(super) fn find(mnemonic: &str) -> Option<&'static Lowering> {
    let stem = mnemonic.strip_prefix('x').unwrap_or(mnemonic);
    let integer = [
        integer::SIMPLE_TABLE,
        integer::TABLE,
        integer::COMPARE_TABLE,
        integer::SHIFT_TABLE,
        integer::LOGIC_TABLE,
        transfer::TABLE,
        transfer::TEST_TABLE,
    ];
    let tables = integer.iter().chain(&widen::TABLES).chain(&permute::TABLES).chain(&float::TABLES);
    let wide = permute::WIDE_TABLE.iter().find(|l| l.name == mnemonic);
    let by_halves = tables.copied().flatten().find(|l| l.name == stem);
    wide.or(by_halves)
}
