//! Signals: from faults and from the host, into guest handlers and back.
//!
//! Frame at the new stack pointer (LoongArch's `rt_sigframe`): siginfo 128 bytes; ucontext with
//! flags, link, stack, mask (128 bytes); sigcontext with pc, 32 registers, flags; extended context
//! records (magic, size, 8 bytes of padding, then registers), placed from the top of the stack down
//! as the kernel does: terminator, then one of FPU, LSX or LASX, the widest that the thread has
//! used, then LBT if the thread has used that.
//!
//! - One signal is taken at a time, and the mask of its handler is set before the kernel may hand
//!   over the next: so real-time signals queue, and order and nesting are the kernel's.
//! - "Used" means decoded, a little more than executed: a record may be there early, never late.
//! - The x87 stack mode travels in bit 5 of the FCSR, where the hardware shows it.

use super::process::Action;
use super::raw::{self, Disposition};
use super::space::{PAGE, PROT_EXEC};
use super::sync::lock;
use super::thread::Thread;
use littoral_la64::interp::Trap;
use littoral_la64::memory::Window;

const PROT_READ: u32 = 1;
const PROT_WRITE: u32 = 2;

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
/// Length of what stands before the records.
const EXTENDED: u64 = CONTEXT + 272;
const RECORD_HEAD: u64 = 16;
const STACK_MODE_BIT: u32 = 5;

/// A kind of extended context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    /// The low `lanes` doublewords of each vector register, condition flags, FCSR.
    Registers { lanes: u64 },
    /// Scratch registers, flags, stack top.
    Lbt,
}

impl Record {
    fn of(magic: u32) -> Option<Record> {
        Some(match magic {
            0x4650_5501 => Record::Registers { lanes: 1 },
            0x5358_0001 => Record::Registers { lanes: 2 },
            0x4153_5801 => Record::Registers { lanes: 4 },
            0x4254_0001 => Record::Lbt,
            _ => return None,
        })
    }

    fn magic(self) -> u32 {
        match self {
            Record::Registers { lanes: 1 } => 0x4650_5501,
            Record::Registers { lanes: 2 } => 0x5358_0001,
            Record::Registers { .. } => 0x4153_5801,
            Record::Lbt => 0x4254_0001,
        }
    }

    /// Length without the head, and alignment, which is at least 16.
    fn shape(self) -> (u64, u64) {
        match self {
            Record::Registers { lanes } => (256 * lanes + 16, (8 * lanes).max(16)),
            Record::Lbt => (40, 16),
        }
    }
}

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
        Trap::Fetch(a) => memory_fault(thread, a, PROT_EXEC),
        Trap::Load(a) => memory_fault(thread, a, PROT_READ),
        Trap::Store(a) => memory_fault(thread, a, PROT_WRITE),
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

/// The signal for a refused access: by the page of its address, or by the next page if the access
/// may have crossed into that one.
fn memory_fault(thread: &Thread, address: u64, needed: u32) -> (u32, i32, u64) {
    const ACCESS_MAX: u64 = 32;
    let space = lock(&thread.process.space);
    let refusal = |at: u64| match space.area(at) {
        None => Some((SIGSEGV, 1, at)),
        Some((_, area)) if area.prot & needed == 0 => Some((SIGSEGV, 2, at)),
        Some(_) => None,
    };
    let behind = address.saturating_add(ACCESS_MAX - 1) & !(PAGE - 1);
    let crossed = || (behind > address).then(|| refusal(behind)).flatten();
    // Allowed by its protection and refused all the same: beyond the end of a file.
    refusal(address).or_else(crossed).unwrap_or((SIGBUS, 2, address))
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
                raw::set_disposition(number, Disposition::Default, 0);
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
    if !STOPS.contains(&number) {
        thread.last_words();
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
    if !thread.pending.any() {
        raw::set_mask(thread.mask);
    }
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
    let (records, frame) = layout(thread, top)?;
    write_frame(thread, frame, info)?;
    records.iter().try_for_each(|r| write_record(thread, r))?;
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

/// A record, or the terminator, in a frame: kind, address of its head, length with head.
type Placed = (Option<Record>, u64, u64);

/// The records below `top` and the address of the frame.
fn layout(thread: &Thread, top: u64) -> Option<(Vec<Placed>, u64)> {
    let used = thread.cache.used();
    let lanes = match used {
        _ if used.lasx => 4,
        _ if used.lsx => 2,
        _ => 1,
    };
    let mut base = (top & !15).checked_sub(RECORD_HEAD)?;
    let mut placed = vec![(None, base, 0)];
    let lbt = used.lbt.then_some(Record::Lbt);
    for record in std::iter::once(Record::Registers { lanes }).chain(lbt) {
        let (len, align) = record.shape();
        let at = (base.checked_sub(len)? & !(align - 1)).checked_sub(RECORD_HEAD)?;
        placed.push((Some(record), at, base - at));
        base = at;
    }
    Some((placed, base.checked_sub(EXTENDED)?))
}

fn write_frame(thread: &Thread, frame: u64, info: &[u64; 16]) -> Option<()> {
    let (w, state) = (&thread.cpu.window, &thread.cpu.state);
    let put = |at: u64, words: &[u64]| put_words(w, frame + at, words);
    put(INFO, info)?;
    put(UCONTEXT, &[0, 0])?;
    let [base, len, flags] = thread.alternate;
    let status = if on_alternate(thread) { SS_ONSTACK } else { flags };
    put(STACK, &[base, status, len])?;
    put(MASK, &[thread.mask])?;
    put(CONTEXT, &[state.pc])?;
    put(REGISTERS, &state.x[..32])?;
    const USED_FP: u64 = 1;
    put(FLAGS, &[USED_FP])
}

fn put_words(window: &Window, at: u64, words: &[u64]) -> Option<()> {
    words.iter().enumerate().try_for_each(|(n, &w)| window.store(at + 8 * n as u64, w))
}

fn write_record(thread: &Thread, &(record, at, len): &Placed) -> Option<()> {
    let (w, state) = (&thread.cpu.window, &thread.cpu.state);
    let magic = record.map_or(0, Record::magic);
    put_words(w, at, &[u64::from(magic) | len << 32, 0])?;
    let body = at + RECORD_HEAD;
    match record {
        None => Some(()),
        Some(Record::Registers { lanes }) => {
            for (n, v) in state.v.iter().enumerate() {
                put_words(w, body + 8 * lanes * n as u64, &v.0[..lanes as usize])?;
            }
            let fcc = u64::from_le_bytes(state.fcc);
            let fcsr = state.fcsr | u32::from(state.lbt.stack_mode) << STACK_MODE_BIT;
            put_words(w, body + 256 * lanes, &[fcc, u64::from(fcsr)])
        }
        Some(Record::Lbt) => {
            put_words(w, body, &state.lbt.scratch)?;
            let flags = u64::from(state.lbt.flags) | u64::from(state.lbt.top) << 32;
            put_words(w, body + 32, &[flags])
        }
    }
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
    let mut at = frame.wrapping_add(EXTENDED);
    loop {
        let head = w.load::<u64>(at)?;
        let (magic, len) = (head as u32, head >> 32);
        if magic == 0 {
            break;
        }
        // As in the kernel a record that is unknown or too short spoils the frame.
        let record = Record::of(magic)?;
        (len >= RECORD_HEAD + record.shape().0).then_some(())?;
        match record {
            Record::Registers { lanes } => {
                restore_vectors(thread, at + RECORD_HEAD, lanes as usize)?
            }
            Record::Lbt => restore_lbt(thread, at + RECORD_HEAD)?,
        }
        at = at.checked_add(len)?;
    }
    thread.cpu.state.x = x;
    thread.cpu.state.pc = pc;
    set_mask(thread, mask);
    Some(())
}

fn restore_lbt(thread: &mut Thread, at: u64) -> Option<()> {
    let [s0, s1, s2, s3, flags] = thread.cpu.window.load_words::<5>(at)?;
    let lbt = &mut thread.cpu.state.lbt;
    lbt.scratch = [s0, s1, s2, s3];
    lbt.flags = flags as u32;
    lbt.top = (flags >> 32) as u8 & 7;
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
    let fcsr = w.load::<u32>(tail + 8)?;
    thread.cpu.state.fcsr = fcsr & littoral_la64::state::fcsr::VIEWS[0];
    thread.cpu.state.lbt.stack_mode = (fcsr >> STACK_MODE_BIT) as u8 & 1;
    Some(())
}
