//! The frame that an x86-64 signal handler finds (the kernel's `rt_sigframe`): the address to
//! return to; ucontext with flags, link, stack (24 bytes), sigcontext (256 bytes) and mask;
//! siginfo (128 bytes). Above it, at a multiple of 64, lies the state of the floating-point unit as
//! `fxsave` writes it (512 bytes).
//!
//! sigcontext: sixteen general registers in the kernel's order, rip, flags, segments, error and
//! number of the latest exception, mask, address of the latest refused access, address of the
//! floating-point state.

use super::super::{Delivery, Registers};
use super::{RAX, RDI, RDX, RSI, RSP};
use littoral_base::mutant;
use littoral_la64::front::x86_64::{FLAGS, MXCSR, X87, XMM};
use littoral_la64::memory::Window;

/// At the frame's begin; a handler's return takes the address off the stack.
const RETURN_LEN: u64 = 8;
/// Places from the stack pointer as `rt_sigreturn` finds it, behind the address of return.
pub(super) const STACK: u64 = 16;
const CONTEXT: u64 = 40;
const RIP: u64 = CONTEXT + 128;
const FLAGS_AT: u64 = CONTEXT + 136;
const FLOAT_AT: u64 = CONTEXT + 184;
const MASK: u64 = CONTEXT + 256;
const INFO: u64 = MASK + 8;
const FRAME_LEN: u64 = RETURN_LEN + INFO + 128;
/// Length of what `fxsave` writes, and its alignment.
const FLOAT_LEN: u64 = 512;
const FLOAT_ALIGN: u64 = 64;
const MXCSR_AT: u64 = 24;
const ST_AT: u64 = 32;
const XMM_AT: u64 = 160;
/// The control word of x87 and MXCSR in a new process, which a handler begins with.
const CONTROL_WORD: u64 = 0x37f;
const MXCSR_DEFAULT: u64 = 0x1f80;
/// The most bytes that a frame takes, those for alignment included.
pub(super) const LEN_MAX: u64 = 1040;
const _: () = assert!(FRAME_LEN + FLOAT_LEN + FLOAT_ALIGN + 16 <= LEN_MAX);

/// General registers in the order of sigcontext: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp.
const ORDER: [u8; 16] = [8, 9, 10, 11, 12, 13, 14, 15, RDI, RSI, 5, 3, RDX, RAX, 1, RSP];
/// Segments of 64-bit programs: cs, and ss in the highest quarter.
const SEGMENTS: u64 = 0x33 | 0x2b << 48;
/// ss is saved and restored.
const UC_FLAGS: u64 = 2 | 4;
const SA_RESTORER: u64 = 0x0400_0000;
/// Flags with which no handler begins: direction and trap flag.
const CLEARED: u64 = 1 << 10 | 1 << 8;

/// Puts the frame below the delivery's top and enters the handler. As in the kernel a program says
/// where its handlers return to.
pub(super) fn enter(registers: &mut Registers<'_>, w: &Window, d: &Delivery) -> Option<()> {
    (d.action.flags & SA_RESTORER != 0).then_some(())?;
    let float = d.top.checked_sub(FLOAT_LEN)? & !(FLOAT_ALIGN - 1);
    let frame = (float.checked_sub(FRAME_LEN)? & !15).checked_sub(8)?;
    (frame > d.bottom).then_some(())?;
    write_float(registers, w, float)?;
    w.store(frame, d.action.restorer)?;
    let context = frame + RETURN_LEN;
    w.store_words(context, [UC_FLAGS, 0])?;
    w.store_words(context + STACK, d.stack)?;
    for (n, register) in ORDER.into_iter().enumerate() {
        w.store(context + CONTEXT + 8 * n as u64, registers.get(register))?;
    }
    let (pc, flags) = (registers.state.pc, registers.get(FLAGS));
    let trap = [d.trap.error, d.trap.number, d.mask, d.trap.address];
    w.store_words(context + RIP, [pc, flags, SEGMENTS])?;
    w.store_words(context + RIP + 24, trap)?;
    w.store_words(context + FLOAT_AT, [float, 0, 0, 0, 0, 0, 0, 0, 0])?;
    w.store(context + MASK, d.mask)?;
    w.store_words(context + INFO, d.info)?;
    let cleared = if mutant!("x86_handler_keeps_trap_flag") { 1 << 10 } else { CLEARED };
    let values = [
        (RDI, u64::from(d.signal)),
        (RSI, context + INFO),
        (RDX, context),
        (RAX, 0),
        (RSP, frame),
        (FLAGS, flags & !cleared),
    ];
    values.into_iter().for_each(|(register, value)| registers.set(register, value));
    (0..19).for_each(|n| registers.set(X87 + n, if n == 0 { CONTROL_WORD } else { 0 }));
    if !mutant!("x86_handler_keeps_mxcsr") {
        registers.set(MXCSR, MXCSR_DEFAULT);
        (0..32).for_each(|n| registers.set(XMM + n, 0));
    }
    registers.state.pc = d.action.handler;
    registers.state.link_address = u64::MAX;
    Some(())
}

/// Where `fxsave` has the n-th word of x87.
fn x87_at(n: u8) -> u64 {
    8 * u64::from(n) + if n < 3 { 0 } else { ST_AT - 24 }
}

/// The floating-point state: x87 and the vector registers.
fn write_float(registers: &Registers<'_>, w: &Window, at: u64) -> Option<()> {
    /// The bits of MXCSR that there are.
    const MXCSR_MASK: u64 = 0xffff;
    w.write(at, &[0; FLOAT_LEN as usize])?;
    (0..19).try_for_each(|n| w.store(at + x87_at(n), registers.get(X87 + n)))?;
    w.store(at + MXCSR_AT, registers.get(MXCSR) | MXCSR_MASK << 32)?;
    (0..32).try_for_each(|n| w.store(at + XMM_AT + 8 * u64::from(n), registers.get(XMM + n)))
}

/// Restores what the frame at the stack pointer says, also if a handler changed it. Without an
/// address of a floating-point state the program begins with a new one.
pub(super) fn restore(registers: &mut Registers<'_>, w: &Window) -> Option<u64> {
    let context = registers.get(RSP);
    let get = |at: u64| w.load::<u64>(context.wrapping_add(at));
    let (mask, pc) = (get(MASK)?, get(RIP)?);
    let mut values = vec![(FLAGS, get(FLAGS_AT)?)];
    for (n, register) in ORDER.into_iter().enumerate() {
        values.push((register, get(CONTEXT + 8 * n as u64)?));
    }
    let float = get(FLOAT_AT)?;
    let of_float = |at: u64| match float {
        0 => Some(match at {
            0 => CONTROL_WORD,
            MXCSR_AT => MXCSR_DEFAULT,
            _ => 0,
        }),
        _ => w.load::<u64>(float.wrapping_add(at)),
    };
    values.push((MXCSR, of_float(MXCSR_AT)? & 0xffff_ffff));
    for n in 0..19 {
        values.push((X87 + n, of_float(x87_at(n))?));
    }
    for n in 0..32 {
        values.push((XMM + n, of_float(XMM_AT + 8 * u64::from(n))?));
    }
    registers.state.pc = pc;
    values.into_iter().for_each(|(register, value)| registers.set(register, value));
    Some(mask)
}
