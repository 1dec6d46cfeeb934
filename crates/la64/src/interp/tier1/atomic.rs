//! Atomics as locked host instructions, load-linked and store-conditional, barriers.
//!
//! - An access off its natural alignment takes the slow way, which traps.
//! - x86 orders everything but an earlier write before a later read, so a barrier is needed for
//!   that pair alone: bits 2 and 1 of a `dbar` hint exempt them.

use super::block::{Block, Decoded, Lowering, plain};
use super::layout;
use crate::jit::emit::{
    AND, CMOVA, CMOVB, CMOVG, CMOVL, CMP, CMPXCHG, Cond, Form, MOV, MOV_TO, MOVSXD, MOVZX8, Mem,
    OR, OR_I, RAX, RCX, RDX, RSP, XADD, XCHG, XOR,
};

/// rax = the guest address rj + immediate, aligned and inside the window.
fn address(b: &mut Block<'_>, d: &Decoded, imm: i32, wide: bool) -> Mem {
    b.sum(RAX, d.rj(), imm);
    b.asm.test_byte(RAX, if wide { 7 } else { 3 });
    b.slow_if(Cond::Ne);
    b.asm.op(CMP, true, RAX, layout::NEAR);
    b.slow_if(Cond::Ae);
    Mem::indexed(layout::WINDOW, RAX, 0, 0)
}

/// rd = `from`, sign-extended if narrow.
fn put(b: &mut Block<'_>, d: &Decoded, from: crate::jit::emit::Reg, wide: bool) {
    if !wide {
        b.asm.op(MOVSXD, true, from, from);
    }
    b.put(d.rd(), from);
}

/// Whether tier 0 has to do it: operands that are illegal, or a guarded window.
fn is_rare(b: &Block<'_>, d: &Decoded) -> bool {
    b.shape.guarded || d.rd() != 0 && (d.rd() == d.rj() || d.rd() == d.rk())
}

/// `amswap` and `amadd`: one instruction gives the old value.
fn exchange(b: &mut Block<'_>, d: &Decoded, wide: bool, form: Form) {
    if is_rare(b, d) {
        return b.call_tier_0(d);
    }
    let m = address(b, d, 0, wide);
    b.load(RCX, d.rk());
    // A fault overwrites rcx; the slow way reads rk again.
    b.access();
    b.asm.lock();
    b.asm.op(form, wide, RCX, m);
    put(b, d, RCX, wide);
}

/// The other `am`: compare-and-swap until nothing came between; `step` makes rcx from the old value
/// in rax and rk.
fn modify(b: &mut Block<'_>, d: &Decoded, wide: bool, step: fn(&mut Block<'_>, bool, usize)) {
    if is_rare(b, d) {
        return b.call_tier_0(d);
    }
    address(b, d, 0, wide);
    b.asm.op(MOV, true, RDX, RAX);
    let m = Mem::indexed(layout::WINDOW, RDX, 0, 0);
    b.access();
    b.asm.op(MOV, wide, RAX, m);
    let again = b.asm.here();
    b.asm.op(MOV, true, RCX, RAX);
    step(b, wide, d.rk());
    b.access();
    b.asm.lock();
    b.asm.op(CMPXCHG, wide, RCX, m);
    b.asm.jump(Some(Cond::Ne), again);
    put(b, d, RAX, wide);
}

/// rcx = rcx op rk.
fn apply(b: &mut Block<'_>, wide: bool, rk: usize, form: Form) {
    if rk != 0 {
        let place = b.place(rk);
        b.asm.op(form, wide, RCX, place);
    } else if form == AND {
        b.asm.op(XOR, false, RCX, RCX);
    }
}

/// rcx = rk if rk compares with rcx so that `form` moves.
fn select(b: &mut Block<'_>, wide: bool, rk: usize, form: Form) {
    match rk {
        0 => {
            // No register is free for a zero: it is made of rk's own sink in two steps.
            b.asm.push(RAX);
            b.asm.mov_imm(RAX, 0);
            b.asm.op(CMP, wide, RCX, RAX);
            b.asm.op(form, wide, RCX, RAX);
            b.asm.pop(RAX);
        }
        _ => {
            let place = b.place(rk);
            b.asm.op(CMP, wide, RCX, place);
            b.asm.op(form, wide, RCX, place);
        }
    }
}

/// `amcas`: rd holds the expected value.
fn compare_and_swap(b: &mut Block<'_>, d: &Decoded, wide: bool) {
    if b.shape.guarded {
        return b.call_tier_0(d);
    }
    address(b, d, 0, wide);
    b.asm.op(MOV, true, RDX, RAX);
    b.load(RAX, d.rd());
    b.load(RCX, d.rk());
    b.access();
    b.asm.lock();
    b.asm.op(CMPXCHG, wide, RCX, Mem::indexed(layout::WINDOW, RDX, 0, 0));
    put(b, d, RAX, wide);
}

/// `ll`: notes address and value, and what follows the value for `sc.q`.
fn link(b: &mut Block<'_>, d: &Decoded, wide: bool, imm: i32) {
    let m = address(b, d, imm, wide);
    b.access();
    b.asm.op(if wide { MOV } else { MOVSXD }, true, RDX, m);
    b.access();
    b.asm.op(MOV, true, RCX, Mem { disp: 8, ..m });
    b.asm.op(MOV_TO, true, RAX, layout::LINK_ADDRESS);
    b.asm.op(MOV_TO, true, RDX, layout::LINK_VALUE);
    b.asm.op(MOV_TO, true, RCX, layout::LINK_HIGH);
    b.put(d.rd(), RDX);
}

/// `sc`: stores if the linked value is still there.
fn conditional(b: &mut Block<'_>, d: &Decoded, wide: bool, imm: i32) {
    if b.shape.guarded {
        return b.call_tier_0(d);
    }
    address(b, d, imm, wide);
    b.asm.op(MOV, true, RDX, RAX);
    b.load(RCX, d.rd());
    b.asm.op(CMP, true, RDX, layout::LINK_ADDRESS);
    let closed = b.asm.jump_short(Some(Cond::Ne));
    b.asm.op(MOV, true, RAX, layout::LINK_VALUE);
    b.access();
    b.asm.lock();
    b.asm.op(CMPXCHG, wide, RCX, Mem::indexed(layout::WINDOW, RDX, 0, 0));
    b.asm.bind_short(closed);
    b.asm.set(Cond::E, RAX);
    b.asm.op(MOVZX8, false, RAX, RAX);
    b.asm.mov_imm_to(layout::LINK_ADDRESS, -1);
    b.put(d.rd(), RAX);
}

fn barrier(b: &mut Block<'_>, d: &Decoded) {
    const WRITES_EXEMPT: i64 = 4;
    const READS_EXEMPT: i64 = 2;
    // Hint 0x700 orders reads of one address only.
    if d.imm() == 0x700 || d.imm() < 32 && d.imm() & (WRITES_EXEMPT | READS_EXEMPT) != 0 {
        return;
    }
    b.asm.lock();
    b.asm.arith(OR_I, false, Mem::at(RSP, 0), 0);
}

macro_rules! both {
    ($name:literal, $suffix:literal, $f:expr) => {
        [plain(concat!($name, $suffix), $f), plain(concat!($name, "_db", $suffix), $f)]
    };
}

macro_rules! modifying {
    ($($name:literal $word:literal $double:literal $step:expr;)*) => {
        &[$(
            both!($name, $word, |b, d| modify(b, d, false, $step)),
            both!($name, $double, |b, d| modify(b, d, true, $step)),
        )*]
    };
}

static MODIFYING: &[[Lowering; 2]] = modifying! {
    "amand" ".w" ".d" |b, wide, rk| apply(b, wide, rk, AND);
    "amor" ".w" ".d" |b, wide, rk| apply(b, wide, rk, OR);
    "amxor" ".w" ".d" |b, wide, rk| apply(b, wide, rk, XOR);
    "ammax" ".w" ".d" |b, wide, rk| select(b, wide, rk, CMOVL);
    "ammin" ".w" ".d" |b, wide, rk| select(b, wide, rk, CMOVG);
    "ammax" ".wu" ".du" |b, wide, rk| select(b, wide, rk, CMOVB);
    "ammin" ".wu" ".du" |b, wide, rk| select(b, wide, rk, CMOVA);
};

static EXCHANGING: &[[Lowering; 2]] = &[
    both!("amswap", ".w", |b, d| exchange(b, d, false, XCHG)),
    both!("amswap", ".d", |b, d| exchange(b, d, true, XCHG)),
    both!("amadd", ".w", |b, d| exchange(b, d, false, XADD)),
    both!("amadd", ".d", |b, d| exchange(b, d, true, XADD)),
    both!("amcas", ".w", |b, d| compare_and_swap(b, d, false)),
    both!("amcas", ".d", |b, d| compare_and_swap(b, d, true)),
];

static OTHERS: &[Lowering] = &[
    plain("ll.w", |b, d| link(b, d, false, d.imm() as i32)),
    plain("ll.d", |b, d| link(b, d, true, d.imm() as i32)),
    plain("llacq.w", |b, d| link(b, d, false, d.imm() as i32)),
    plain("llacq.d", |b, d| link(b, d, true, d.imm() as i32)),
    plain("sc.w", |b, d| conditional(b, d, false, d.imm() as i32)),
    plain("sc.d", |b, d| conditional(b, d, true, d.imm() as i32)),
    plain("screl.w", |b, d| conditional(b, d, false, d.imm() as i32)),
    plain("screl.d", |b, d| conditional(b, d, true, d.imm() as i32)),
    plain("dbar", barrier),
];

/// The translation of a mnemonic of this module.
pub(super) fn find(mnemonic: &str) -> Option<&'static Lowering> {
    let pairs = MODIFYING.iter().chain(EXCHANGING).flatten();
    pairs.chain(OTHERS).find(|l| l.name == mnemonic)
}
