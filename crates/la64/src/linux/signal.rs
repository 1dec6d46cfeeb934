//! Signals: from faults and from the host, into guest handlers and back.
//!
//! Frame at the new stack pointer (LoongArch's `rt_sigframe`): siginfo 128 bytes; ucontext with
//! flags, link, stack, mask (128 bytes); sigcontext with pc, 32 registers, flags; extended context
//! records (magic, size, 8 bytes of padding, then registers): one LASX record with all vector
//! registers, condition flags and FCSR, then a terminator.

use super::process::{Action, lock};
use super::raw::{self, Disposition};
use super::thread::Thread;
use crate::interp::Trap;

const SIGILL: u32 = 4;
const SIGTRAP: u32 = 5;
const SIGBUS: u32 = 7;
const SIGFPE: u32 = 8;
const SIGSEGV: u32 = 11;

pub(super) const SA_ONSTACK: u64 = 0x0800_0000;
pub(super) const SA_RESTART: u64 = 0x1000_0000;
const SA_NODEFER: u64 = 0x4000_0000;
const SA_RESETHAND: u64 = 0x8000_0000;
pub(super) const SS_ONSTACK: u64 = 1;
pub(super) const SS_DISABLE: u64 = 2;

const INFO: u64 = 0;
const UCONTEXT: u64 = 128;
const STACK: u64 = UCONTEXT + 16;
const MASK: u64 = UCONTEXT + 40;
const CONTEXT: u64 = UCONTEXT + 176;
const REGISTERS: u64 = CONTEXT + 8;
const FLAGS: u64 = REGISTERS + 256;
const EXTENDED: u64 = CONTEXT + 272;
const RECORD_HEAD: u64 = 16;
const LASX_MAGIC: u32 = 0x4153_5801;
const LSX_MAGIC: u32 = 0x5358_0001;
const FPU_MAGIC: u32 = 0x4650_5501;
/// 32 registers of 32 bytes, condition flags, FCSR, padded to 16.
const LASX_LEN: u64 = RECORD_HEAD + 1024 + 16;
const FRAME_LEN: u64 = EXTENDED + LASX_LEN + 16;

/// The siginfo of a fault.
fn fault_info(number: u32, code: i32, address: u64) -> [u64; 16] {
    let mut info = [0; 16];
    info[0] = u64::from(number);
    info[1] = u64::from(code as u32);
    info[2] = address;
    info
}

/// Turns a trap into the signal Linux gives.
pub(super) fn fault(thread: &mut Thread, trap: Trap) {
    let pc = thread.cpu.state.pc;
    let (number, code, address) = match trap {
        Trap::Illegal(_) => (SIGILL, 1, pc),
        Trap::Fetch(a) if a % 4 != 0 => (SIGBUS, 1, a),
        Trap::Fetch(a) | Trap::Load(a) => memory_fault(thread, a, false),
        Trap::Store(a) => memory_fault(thread, a, true),
        Trap::Unaligned(a) => (SIGBUS, 1, a),
        Trap::Bound(a) => (SIGSEGV, 3, a),
        Trap::Float => (SIGFPE, float_code(thread.cpu.state.fcsr), pc),
        Trap::Break(6) => (SIGFPE, 2, pc),
        Trap::Break(7) => (SIGFPE, 1, pc),
        Trap::Break(_) => (SIGTRAP, 1, pc),
        Trap::Syscall | Trap::CodeChanged | Trap::OutOfBudget | Trap::Attention => return,
    };
    if let Trap::Illegal(word) = trap {
        let handled = lock(&thread.process.actions)[SIGILL as usize - 1].handler > 1;
        if !handled {
            thread.say(&format!("no instruction this machine has at {pc:#x}: word {word:#010x}"));
        }
    }
    deliver(thread, number, fault_info(number, code, address), true);
}

fn memory_fault(thread: &Thread, address: u64, write: bool) -> (u32, i32, u64) {
    let space = lock(&thread.process.space);
    match space.area(address) {
        None => (SIGSEGV, 1, address),
        Some((_, area)) if area.prot & if write { 2 } else { 1 } == 0 => (SIGSEGV, 2, address),
        // Allowed by its protection and refused all the same: beyond the end of a file.
        Some(_) => (SIGBUS, 2, address),
    }
}

fn float_code(fcsr: u32) -> i32 {
    let raised = fcsr >> 24 & fcsr & 31;
    match raised {
        c if c & 16 != 0 => 7,
        c if c & 8 != 0 => 3,
        c if c & 4 != 0 => 4,
        c if c & 2 != 0 => 5,
        _ => 6,
    }
}

/// Delivers a signal to the thread; `forced` for faults, which cannot be ignored.
pub(super) fn deliver(thread: &mut Thread, number: u32, info: [u64; 16], forced: bool) {
    let index = number as usize - 1;
    let action = lock(&thread.process.actions)[index];
    let blocked = thread.mask >> index & 1 == 1;
    match action.handler {
        0 => die(thread, number),
        1 if !forced => {}
        1 => die(thread, number),
        _ if forced && blocked => die(thread, number),
        _ => {
            if push_frame(thread, number, &info, action).is_none() {
                die(thread, SIGSEGV);
                return;
            }
            let own = if action.flags & SA_NODEFER == 0 { 1 << index } else { 0 };
            set_mask(thread, thread.mask | action.mask | own);
            if action.flags & SA_RESETHAND != 0 {
                lock(&thread.process.actions)[index] = Action::default();
                raw::set_disposition(number, Disposition::Default);
            }
        }
    }
}

/// Ends the process as the default action of the signal does; a signal whose default is to be
/// ignored or to stop the process does that instead.
fn die(thread: &mut Thread, number: u32) {
    const STOPS: [u32; 4] = [19, 20, 21, 22];
    const IGNORED: [u32; 4] = [17, 18, 23, 28];
    if IGNORED.contains(&number) {
        return;
    }
    raw::force_disposition(number, Disposition::Default);
    let others = raw::set_mask(!(1 << (number - 1)));
    raw::raise(number);
    raw::set_mask(others);
    if !STOPS.contains(&number) {
        thread.exit_group(128 + number as i32);
    }
}

/// Sets guest and host mask. SIGKILL and SIGSTOP cannot be blocked.
pub(super) fn set_mask(thread: &mut Thread, mask: u64) {
    thread.mask = mask & !(1 << 8 | 1 << 18);
    raw::set_mask(thread.mask);
}

fn on_alternate(thread: &Thread) -> bool {
    let [base, len, flags] = thread.alternate;
    let sp = thread.cpu.state.x[3];
    flags & SS_DISABLE == 0 && sp > base && sp - base <= len
}

fn push_frame(thread: &mut Thread, number: u32, info: &[u64; 16], action: Action) -> Option<()> {
    let [base, len, flags] = thread.alternate;
    let switch = action.flags & SA_ONSTACK != 0 && flags & SS_DISABLE == 0 && !on_alternate(thread);
    let top = if switch { base + len } else { thread.cpu.state.x[3] };
    // The vector registers are aligned to 32 bytes, which puts the frame at 16 modulo 32.
    let frame = (top.checked_sub(FRAME_LEN + 32)? & !31) + 16;
    write_frame(thread, frame, info)?;
    let state = &mut thread.cpu.state;
    state.x[1] = thread.process.trampoline;
    state.x[3] = frame;
    state.x[4] = u64::from(number);
    state.x[5] = frame + INFO;
    state.x[6] = frame + UCONTEXT;
    state.pc = action.handler;
    state.link_address = u64::MAX;
    Some(())
}

fn write_frame(thread: &Thread, frame: u64, info: &[u64; 16]) -> Option<()> {
    let (w, state) = (&thread.cpu.window, &thread.cpu.state);
    let put = |at: u64, words: &[u64]| {
        words.iter().enumerate().try_for_each(|(n, &word)| w.store(frame + at + 8 * n as u64, word))
    };
    put(INFO, info)?;
    put(UCONTEXT, &[0, 0])?;
    let [base, len, flags] = thread.alternate;
    let status = if on_alternate(thread) { SS_ONSTACK } else { flags };
    put(STACK, &[base, status, len])?;
    put(MASK, &[thread.mask])?;
    put(CONTEXT, &[state.pc])?;
    put(REGISTERS, &state.x[..32])?;
    const USED_FP: u64 = 1;
    put(FLAGS, &[USED_FP])?;
    put(EXTENDED, &[u64::from(LASX_MAGIC) | LASX_LEN << 32, 0])?;
    for (n, v) in state.v.iter().enumerate() {
        put(EXTENDED + RECORD_HEAD + 32 * n as u64, &v.0)?;
    }
    let fcc = u64::from_le_bytes(state.fcc);
    put(EXTENDED + RECORD_HEAD + 1024, &[fcc, u64::from(state.fcsr)])?;
    put(EXTENDED + LASX_LEN, &[0, 0])
}

/// rt_sigreturn: restores what the frame at the stack pointer says, also if a handler changed it.
pub(super) fn sigreturn(thread: &mut Thread) {
    let frame = thread.cpu.state.x[3];
    if restore(thread, frame).is_none() {
        deliver(thread, SIGSEGV, fault_info(SIGSEGV, 1, frame), true);
    }
}

fn restore(thread: &mut Thread, frame: u64) -> Option<()> {
    let w = thread.cpu.window;
    let get = |at: u64| w.load::<u64>(frame.wrapping_add(at));
    let mask = get(MASK)?;
    let pc = get(CONTEXT)?;
    let mut x = [0; 33];
    for (n, x) in x.iter_mut().enumerate().take(32).skip(1) {
        *x = get(REGISTERS + 8 * n as u64)?;
    }
    let mut at = EXTENDED;
    loop {
        let head = get(at)?;
        let (magic, len) = (head as u32, head >> 32);
        let lanes = match magic {
            0 => break,
            LASX_MAGIC => 4,
            LSX_MAGIC => 2,
            FPU_MAGIC => 1,
            _ => 0,
        };
        if lanes > 0 {
            restore_vectors(thread, frame.wrapping_add(at + RECORD_HEAD), lanes)?;
        }
        at += len.max(RECORD_HEAD);
    }
    thread.cpu.state.x = x;
    thread.cpu.state.pc = pc;
    set_mask(thread, mask);
    Some(())
}

fn restore_vectors(thread: &mut Thread, at: u64, lanes: usize) -> Option<()> {
    let w = thread.cpu.window;
    for (n, v) in thread.cpu.state.v.iter_mut().enumerate() {
        for (lane, word) in v.0.iter_mut().enumerate().take(lanes) {
            *word = w.load(at + (8 * (n * lanes + lane)) as u64)?;
        }
    }
    let tail = at + 256 * lanes as u64;
    thread.cpu.state.fcc = w.load::<u64>(tail)?.to_le_bytes().map(|b| b & 1);
    thread.cpu.state.fcsr = w.load::<u32>(tail + 8)? & crate::state::fcsr::VIEWS[0];
    Some(())
}
