//! The frame that a MIPS64 signal handler finds (the kernel's `rt_sigframe`): 24 bytes of argument
//! space; siginfo 128 bytes; ucontext with flags, link, stack (24 bytes), sigcontext (600 bytes)
//! and mask (16 bytes).
//!
//! sigcontext: 32 general registers, 32 floating-point registers, HI and three of the DSP
//! extension, LO and three, pc, FCSR, which parts of the floating-point unit were used.

use super::super::{Delivery, Registers};
use super::{NUMBERS, RA, SET_USED_LEN, SP, T9};
use littoral_la64::front::mips64::{FCSR, FLOAT, HI, LO};
use littoral_la64::memory::Window;

const INFO: u64 = 24;
const UCONTEXT: u64 = INFO + 128;
pub(super) const STACK: u64 = UCONTEXT + 16;
const CONTEXT: u64 = UCONTEXT + 40;
const FLOATS: u64 = CONTEXT + 256;
const HI_AT: u64 = CONTEXT + 512;
const LO_AT: u64 = CONTEXT + 544;
const PC: u64 = CONTEXT + 576;
const CONTROL: u64 = CONTEXT + 584;
const MASK: u64 = CONTEXT + 600;
const FRAME_LEN: u64 = MASK + 16 + 8;
/// The kernel leaves this much below the interrupted function's stack.
const LEFT_FREE: u64 = 32;
/// The floating-point unit was used, with 32 registers of 64 bits.
const USED: u64 = 1 | 2;

/// Puts the frame below the delivery's top and enters the handler.
pub(super) fn enter(registers: &mut Registers<'_>, w: &Window, d: &Delivery) -> Option<()> {
    let frame = d.top.checked_sub(LEFT_FREE + FRAME_LEN)? & !15;
    let get = |n: u8| registers.get(n);
    w.store_words(frame, [0; 3])?;
    w.store_words(frame + INFO, d.info)?;
    w.store_words(frame + UCONTEXT, [0; 2])?;
    for n in 0..32 {
        w.store(frame + CONTEXT + 8 * u64::from(n), get(n))?;
        w.store(frame + FLOATS + 8 * u64::from(n), get(FLOAT + n))?;
    }
    let pc = registers.state.pc;
    w.store_words(frame + HI_AT, [get(HI), 0, 0, 0, get(LO), 0, 0, 0, pc])?;
    w.store_words(frame + CONTROL, [get(FCSR) | USED << 32, 0])?;
    w.store_words(frame + STACK, d.stack)?;
    w.store_words(frame + MASK, [NUMBERS.guest_set(d.mask), 0])?;
    let number = NUMBERS.guest_signal(d.signal);
    let values = [
        (4, number.into()),
        (5, frame + INFO),
        (6, frame + UCONTEXT),
        (SP, frame),
        (RA, d.trampoline),
        (T9, d.action.handler),
    ];
    values.into_iter().for_each(|(register, value)| registers.set(register, value));
    registers.state.pc = d.action.handler;
    registers.state.link_address = u64::MAX;
    Some(())
}

/// Restores what the frame at the stack pointer says, also if a handler changed it.
pub(super) fn restore(registers: &mut Registers<'_>, w: &Window) -> Option<u64> {
    let frame = registers.get(SP);
    let get = |at: u64| w.load::<u64>(frame.wrapping_add(at));
    let mask = get(MASK)?;
    get(MASK + SET_USED_LEN)?;
    let mut values = vec![(HI, get(HI_AT)?), (LO, get(LO_AT)?)];
    values.push((FCSR, get(CONTROL)? & 0xffff_ffff));
    for n in 0..32 {
        values.push((n, get(CONTEXT + 8 * u64::from(n))?));
        values.push((FLOAT + n, get(FLOATS + 8 * u64::from(n))?));
    }
    registers.state.pc = get(PC)?;
    values.into_iter().for_each(|(register, value)| registers.set(register, value));
    Some(NUMBERS.host_set(mask))
}
