//! Signals: from faults and from the host, into guest handlers and back.
//!
//! - The guest's ABI writes and reads the frame (see `abi`); signals here have the host's numbers.
//! - One signal is taken at a time, and the mask of its handler is set before the kernel may hand
//!   over the next: so real-time signals queue, and order and nesting are the kernel's.

use super::abi::{Delivery, Raised};
use super::debug::Stop;
use super::process::Action;
use super::raw::{self, Disposition};
use super::space::{PROT_EXEC, page_len};
use super::sync::lock;
use super::thread::Thread;
use littoral_base::mutant;
use littoral_la64::front::Event;

const PROT_READ: u32 = 1;
const PROT_WRITE: u32 = 2;

const SIGILL: u32 = 4;
const SIGTRAP: u32 = 5;
const SIGBUS: u32 = 7;
const SIGFPE: u32 = 8;
const SIGSEGV: u32 = 11;
const FPE_INTDIV: i32 = 1;
const FPE_INTOVF: i32 = 2;
const TRAP_TRACE: i32 = 2;
/// The kernel names no place.
const SI_KERNEL: i32 = 0x80;

pub(super) const SA_ONSTACK: u64 = 0x0800_0000;
pub(super) const SA_RESTART: u64 = 0x1000_0000;
const SA_NODEFER: u64 = 0x4000_0000;
const SA_RESETHAND: u64 = 0x8000_0000;
const SS_ONSTACK: u64 = 1;
const SS_DISABLE: u64 = 2;
/// There is no alternate stack while a handler runs on it.
const SS_AUTODISARM: u64 = 1 << 31;

/// The siginfo of a fault.
fn fault_info(number: u32, code: i32, address: u64) -> [u64; 16] {
    let mut info = [0; 16];
    info[0] = u64::from(number);
    info[1] = u64::from(code as u32);
    info[2] = address;
    info
}

/// Turns an event into the signal Linux gives.
pub(super) fn fault(thread: &mut Thread, event: Event) {
    let pc = thread.cpu.state.pc;
    let abi = thread.process.abi;
    let Some((number, code, address)) = raised(thread, event) else { return };
    if let Event::Illegal(word) = event {
        let handled = thread.actions()[SIGILL as usize - 1].handler > 1;
        if !handled {
            thread.say(&format!("no instruction this machine has at {pc:#x}: word {word:#010x}"));
        }
    }
    thread.trap = (abi.trap)(thread.trap, event, (number, code, address));
    deliver(thread, number, fault_info(number, code, address), true);
}

/// The signal for an event, if it raises one.
fn raised(thread: &mut Thread, event: Event) -> Option<Raised> {
    let pc = thread.cpu.state.pc;
    let abi = thread.process.abi;
    Some(match event {
        Event::Illegal(_) if abi.illegal_code == SI_KERNEL => (SIGILL, SI_KERNEL, 0),
        Event::Illegal(_) => (SIGILL, abi.illegal_code, pc),
        Event::Fetch(a) if !a.is_multiple_of(abi.alignment) => match abi.misaligned_code {
            SI_KERNEL => (SIGBUS, SI_KERNEL, 0),
            code => (SIGBUS, code, a),
        },
        Event::Fetch(a) => memory_fault(thread, a, PROT_EXEC)?,
        Event::Load(a) => memory_fault(thread, a, PROT_READ)?,
        Event::Store(a) => memory_fault(thread, a, PROT_WRITE)?,
        Event::Unaligned(_) if abi.misaligned_code == SI_KERNEL => (SIGBUS, SI_KERNEL, 0),
        Event::Unaligned(a) => (SIGBUS, 1, a),
        Event::Bound(a) => (SIGSEGV, 3, a),
        Event::Float => (SIGFPE, float_code(thread.cpu.state.fcsr), pc),
        Event::X87(raised) => (SIGFPE, x87_code(raised), pc),
        Event::Divide => (SIGFPE, FPE_INTDIV, pc),
        Event::Privileged => (SIGSEGV, SI_KERNEL, 0),
        Event::Overflow => (SIGFPE, FPE_INTOVF, pc),
        Event::Step => (SIGTRAP, TRAP_TRACE, pc),
        Event::Break(code) => (abi.on_break)(code, pc),
        Event::Trap(code) => match (abi.on_break)(code, pc) {
            (SIGTRAP, ..) if !mutant!("mips64_trap_is_a_breakpoint") => (SIGTRAP, SI_KERNEL, 0),
            other => other,
        },
        Event::Syscall | Event::CodeChanged | Event::OutOfBudget => return None,
        Event::Attention | Event::Full => return None,
    })
}

/// The most bytes of an access.
const ACCESS_MAX: u64 = 32;

/// The event of an access that was refused only because pages were watched, done again with leave
/// to write there; `None` for another access.
pub(super) fn write_watched(thread: &mut Thread, event: Event) -> Option<Event> {
    let (Event::Load(address) | Event::Store(address)) = event else { return None };
    let process = thread.process.clone();
    if !process.abi.coherent {
        return None;
    }
    let space = lock(&process.space);
    let pages = [address, address.saturating_add(ACCESS_MAX - 1)].map(|at| at & !(page_len() - 1));
    let watched = space.watched();
    let pages: Vec<u64> = pages.into_iter().filter(|page| watched.contains(page)).collect();
    if !pages.is_empty() {
        drop(space);
        process.unwatch(&pages);
        let event = thread.run_unwatched();
        // The instruction may lie on the page that it has written. What comes behind it was read
        // too, perhaps from pages that are not watched: nothing would drop that code.
        match mutant!("x86_code_read_unwatched_stays") {
            true => pages.iter().for_each(|&page| process.code_written(page..page + page_len())),
            false => process.code_written(0..u64::MAX),
        }
        process.interrupt();
        return Some(event);
    }
    // Another thread may have done the same since the access. Refused again, it is no such one.
    let refused = Some([thread.cpu.state.pc, address, space.watches_count()]);
    let may_be_watched =
        |prot: u32, shared: bool| prot & PROT_WRITE != 0 && (shared || prot & PROT_EXEC != 0);
    let area = space.area(address);
    let was_watched = area.is_some_and(|(_, area)| may_be_watched(area.prot, area.shared));
    let is_new = std::mem::replace(&mut thread.refused, refused) != refused;
    (was_watched && is_new).then_some(Event::OutOfBudget)
}

/// The signal for a refused access: by the page of its address, or by the next page if the access
/// may have crossed into that one. `None` if both allow it: another thread may have given the right
/// since, so the access is made again, once after each change of rights.
fn memory_fault(thread: &mut Thread, address: u64, needed: u32) -> Option<Raised> {
    if let Some(raised) = (thread.process.abi.beyond)(address) {
        return Some(raised);
    }
    let space = lock(&thread.process.space);
    let refusal = |at: u64| match space.area(at) {
        None => Some((SIGSEGV, 1, at)),
        Some((_, area)) if area.prot & needed == 0 => Some((SIGSEGV, 2, at)),
        Some(_) => None,
    };
    let behind = address.saturating_add(ACCESS_MAX - 1) & !(page_len() - 1);
    let crossed = || (behind > address).then(|| refusal(behind)).flatten();
    if let Some(raised) = refusal(address).or_else(crossed) {
        return Some(raised);
    }
    let allowed = Some([thread.cpu.state.pc, address, space.rights_count()]);
    let is_new = std::mem::replace(&mut thread.allowed, allowed) != allowed;
    let is_late_error = mutant!("la64_late_rights_are_bus_errors");
    if is_new && !is_late_error {
        return None;
    }
    // Refused again: a guard that `madvise` put there, or beyond the end of a file.
    Some(match thread.pending.is_refused_everywhere() && !is_late_error {
        true => (SIGSEGV, thread.process.abi.guard_code, address),
        false => (SIGBUS, 2, address),
    })
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

/// The code for exceptions as the status word of x87 has them.
fn x87_code(raised: u16) -> i32 {
    match raised {
        c if c & 1 != 0 => 7,
        c if c & 4 != 0 => 3,
        c if c & 8 != 0 => 4,
        c if c & 0x12 != 0 => 5,
        _ => 6,
    }
}

/// Delivers a signal to the thread; `forced` for faults, which cannot be ignored.
pub(super) fn deliver(thread: &mut Thread, number: u32, info: [u64; 16], forced: bool) {
    let waited = thread.waited.take().filter(|_| !forced);
    let Some((number, info)) = shown(thread, number, info) else { return };
    let index = number as usize - 1;
    let action = thread.actions()[index];
    let blocked = thread.mask >> index & 1 == 1;
    match action.handler {
        0 => die(thread, number),
        1 if !forced => {}
        1 => die(thread, number),
        _ if forced && blocked => die(thread, number),
        _ => {
            // A frame may come to a watched page.
            let entered = enter(thread, number, &info, action);
            let again = entered.is_none() && thread.process.unwatch_all(&thread.pending);
            if entered.is_none() && !(again && enter(thread, number, &info, action).is_some()) {
                return no_frame(thread, number);
            }
            let own = if action.flags & SA_NODEFER == 0 { 1 << index } else { 0 };
            // Another signal that only the wait let through comes too, as in the kernel.
            set_mask(thread, waited.unwrap_or(thread.mask) | action.mask | own);
            if action.flags & SA_RESETHAND != 0 {
                thread.actions()[index] = Action::default();
                raw::set_disposition(number, Disposition::Default, 0);
            }
        }
    }
}

/// There is no room for the frame of a signal: SIGSEGV comes instead, for whose handler there may
/// be another stack.
fn no_frame(thread: &mut Thread, number: u32) {
    match number == SIGSEGV || mutant!("la64_signal_without_room_kills") {
        true => die(thread, SIGSEGV),
        false => deliver(thread, SIGSEGV, fault_info(SIGSEGV, SI_KERNEL, 0), true),
    }
}

/// The signal that a debugger lets pass; `None` if it withholds it.
fn shown(thread: &mut Thread, number: u32, info: [u64; 16]) -> Option<(u32, [u64; 16])> {
    let Some(debugger) = thread.process.debugger.clone() else { return Some((number, info)) };
    let tid = thread.tid();
    let chosen = debugger.show_signal(tid, &mut thread.cpu.state, number);
    match chosen {
        0 => None,
        same if same == number => Some((number, info)),
        // Another one: as if a process without a number had sent it.
        other => Some((other, fault_info(other, 0, 0))),
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
    if !STOPS.contains(&number) {
        thread.last_words(Stop::Killed(number));
    }
    raw::force_disposition(number, Disposition::Default);
    let others = raw::set_mask(!(1 << (number - 1)));
    raw::raise(number);
    raw::set_mask(others);
    if !STOPS.contains(&number) {
        raw::exit_group(128 + number as i32);
    }
}

/// Sets guest and host mask. SIGKILL and SIGSTOP cannot be blocked.
pub(super) fn set_mask(thread: &mut Thread, mask: u64) {
    thread.mask = mask & !(1 << 8 | 1 << 18);
    apply_mask(thread);
}

/// Gives the host the guest's mask, unless a signal is noted: then everything stays blocked until
/// the guest has taken it. Nothing can be noted between the look and the new mask.
pub(super) fn apply_mask(thread: &Thread) {
    raw::set_mask(u64::MAX);
    thread.pending.hold(thread.mask);
    if !thread.pending.any() {
        raw::set_mask(thread.mask);
    }
}

fn on_alternate(thread: &Thread) -> bool {
    let [base, len, flags] = thread.alternate;
    let sp = thread.register(thread.process.abi.roles.stack);
    flags & (SS_DISABLE | SS_AUTODISARM) == 0 && sp > base && sp - base <= len
}

/// What a `stack_t` says of the alternate stack.
pub(super) fn stack_words(thread: &Thread) -> [u64; 3] {
    let [base, len, flags] = thread.alternate;
    let status = if on_alternate(thread) { SS_ONSTACK } else { 0 };
    words_of_stack(thread, [base, len, flags | status])
}

/// Base, length and flags in their places in a `stack_t`.
fn words_of_stack(thread: &Thread, stack: [u64; 3]) -> [u64; 3] {
    let mut words = [0; 3];
    for (place, value) in thread.process.abi.signals.stack.into_iter().zip(stack) {
        words[place] = value;
    }
    words
}

/// Makes what a `stack_t` says the alternate stack.
///
/// # Errors
/// EPERM on the one that there is, EINVAL for unknown flags, ENOMEM for too short a stack.
pub(super) fn set_stack(thread: &mut Thread, words: [u64; 3]) -> Result<(), i32> {
    let signals = &thread.process.abi.signals;
    let [base, len, flags] = signals.stack.map(|place| words[place]);
    let flags = flags & 0xffff_ffff;
    if on_alternate(thread) {
        return Err(libc::EPERM);
    }
    thread.alternate = match flags & !SS_AUTODISARM {
        SS_DISABLE => [0, 0, flags],
        0 | SS_ONSTACK if len < signals.stack_len_min => return Err(libc::ENOMEM),
        0 | SS_ONSTACK => [base, len, flags & SS_AUTODISARM],
        _ => return Err(libc::EINVAL),
    };
    Ok(())
}

/// Puts a frame on the stack that the action names, and enters the handler.
fn enter(thread: &mut Thread, number: u32, info: &[u64; 16], action: Action) -> Option<()> {
    let [base, len, flags] = thread.alternate;
    let switch = action.flags & SA_ONSTACK != 0 && flags & SS_DISABLE == 0 && !on_alternate(thread);
    let abi = thread.process.abi;
    let zone = if mutant!("x86_frame_in_red_zone") { 0 } else { abi.signals.red_zone };
    let stack = thread.register(abi.roles.stack).wrapping_sub(zone);
    let top = if switch { base.wrapping_add(len) } else { stack };
    let is_bounded = (switch || on_alternate(thread)) && !mutant!("la64_frames_leave_their_stack");
    let delivery = Delivery {
        top,
        bottom: if is_bounded { base } else { 0 },
        signal: number,
        info: (abi.signals.info)(info),
        action,
        mask: thread.mask,
        stack: words_of_stack(thread, thread.alternate),
        trampoline: thread.process.trampoline,
        trap: thread.trap,
        used: thread.cache.used(),
    };
    let window = thread.cpu.window;
    let mut registers = thread.process.registers(&mut thread.cpu.state);
    (abi.signals.enter)(&mut registers, &window, &delivery)?;
    if flags & SS_AUTODISARM != 0 {
        thread.alternate = [0, 0, SS_DISABLE];
    }
    Some(())
}

/// rt_sigreturn: restores what the frame at the stack pointer says, also if a handler changed it,
/// the alternate stack included.
pub(super) fn sigreturn(thread: &mut Thread) {
    let abi = thread.process.abi;
    let frame = thread.register(abi.roles.stack);
    let window = thread.cpu.window;
    let stack = window.load_words::<3>(frame.wrapping_add(abi.signals.stack_at));
    let mut registers = thread.process.registers(&mut thread.cpu.state);
    let restored = stack.zip((abi.signals.restore)(&mut registers, &window));
    if !mutant!("la64_links_outlive_handlers") {
        // A store-conditional of the interrupted code must not go by a load of the handler.
        thread.cpu.state.link_address = u64::MAX;
    }
    match restored {
        Some((stack, mask)) => {
            // One that the kernel would refuse leaves the one that there is, as in the kernel.
            let _ = set_stack(thread, stack);
            set_mask(thread, mask);
        }
        None => deliver(thread, SIGSEGV, fault_info(SIGSEGV, 1, frame), true),
    }
}
