//! What is the host processor's own on LoongArch: the way into the kernel, the context of a signal,
//! and code in the window that the processor executes (`littoral_la64::native`).
//!
//! Such code has the window's addresses, so the window begins at address 0, and every register, so
//! a handler of signals runs on a stack of its own, whose first word is the thread's tp.

use littoral_la64::memory::Window;
use littoral_la64::native::{self, Processor};
use std::cell::Cell;
use std::sync::Arc;

/// Signals of faults beside those of every host: code may have an instruction that this processor
/// has not.
pub(super) const FAULTS: u64 = 1 << (libc::SIGILL - 1);

/// The kernel's `struct ucontext` up to the general registers.
#[repr(C)]
pub(super) struct Context {
    flags_and_link: [u64; 2],
    stack: [u64; 3],
    mask: u64,
    unused: [u64; 15],
    /// The machine's part is aligned to 16 bytes.
    padding: u64,
    pc: u64,
    registers: [u64; 32],
}

const _: () = assert!(std::mem::offset_of!(Context, pc) == 176, "the kernel's layout");

std::arch::global_asm!(
    ".text",
    ".globl la64_enter",
    ".type la64_enter,@function",
    "la64_enter:",
    "move $a7, $a0",
    "move $t0, $a1",
    "move $t1, $a2",
    "ld.d $a0, $t0, 0",
    "ld.d $a1, $t0, 8",
    "ld.d $a2, $t0, 16",
    "ld.d $a3, $t0, 24",
    "ld.d $a4, $t0, 32",
    "ld.d $a5, $t0, 40",
    ".globl la64_enter_check",
    "la64_enter_check:",
    "ld.bu $t0, $t1, 0",
    "bnez $t0, la64_enter_restart",
    ".globl la64_enter_syscall",
    "la64_enter_syscall:",
    "syscall 0",
    ".globl la64_enter_done",
    "la64_enter_done:",
    "jr $ra",
    ".globl la64_enter_restart",
    "la64_enter_restart:",
    "li.d $a0, -512",
    "jr $ra",
    ".size la64_enter, . - la64_enter",
);

// The handler of signals: with the thread's own tp if code was interrupted, which lies below
// `la64_native_end`. The kernel puts the interrupted one back.
std::arch::global_asm!(
    ".text",
    ".globl la64_on_signal",
    ".type la64_on_signal,@function",
    "la64_on_signal:",
    "la.pcrel $t0, la64_native_end",
    "ld.d $t0, $t0, 0",
    "ld.d $t1, $a2, 176",
    "bgeu $t1, $t0, 1f",
    "move $t0, $sp",
    "bstrins.d $t0, $zero, 15, 0",
    "ld.d $tp, $t0, 0",
    "1:",
    "b {on_signal}",
    ".size la64_on_signal, . - la64_on_signal",
    on_signal = sym super::on_signal,
);

unsafe extern "C" {
    fn la64_on_signal();
}

/// The handler of signals.
pub(super) fn handler() -> usize {
    la64_on_signal as *const () as usize
}

/// The kernel's `struct sigaction` with every signal blocked: handler, flags, mask.
pub(super) fn action(handler: u64, flags: i32) -> [u64; 3] {
    [handler, flags as u64, u64::MAX]
}

/// Whether this processor, if it can execute code, has LBT; `None` if it lacks vectors of 256 bits.
pub(super) fn executes() -> Option<bool> {
    const LASX: u64 = 1 << 5;
    const LBT_X86: u64 = 1 << 10;
    // SAFETY: reads a vector that the kernel gave.
    let capabilities = unsafe { libc::getauxval(libc::AT_HWCAP) };
    (capabilities & LASX != 0).then_some(capabilities & LBT_X86 != 0)
}

/// A window that begins at address 0, without its first pages, and this processor, which executes
/// code there; `None` where the kernel has no room.
pub(super) fn reserve_native(len: u64, has_lbt: bool) -> Option<(Window, Arc<dyn Processor>)> {
    const FIRST: u64 = 1 << 16;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let flags = flags | libc::MAP_FIXED_NOREPLACE;
    let (at, whole) = (FIRST as *mut libc::c_void, (len - FIRST) as usize);
    // SAFETY: a mapping where nothing is, or none.
    let got = unsafe { libc::mmap(at, whole, libc::PROT_NONE, flags, -1, 0) };
    if got != at {
        if got != libc::MAP_FAILED {
            // SAFETY: the mapping made above by a kernel that took the address for a hint.
            unsafe { libc::munmap(got, whole) };
        }
        return None;
    }
    // SAFETY: the mapping is the window's alone, and the kernel maps nothing below it. Threads of a
    // process that has such a window get a stack for signals in `adopt`.
    unsafe {
        let window = Window::new(std::ptr::null_mut(), len);
        Some((window, native::host(len, has_lbt)))
    }
}

/// Bytes of a stack for signals, and its alignment.
const STACK_LEN: usize = 1 << 16;

/// A thread's stack for signals.
struct SignalStack {
    mapping: *mut libc::c_void,
}

impl SignalStack {
    fn new() -> Option<SignalStack> {
        let (rights, none) = (libc::PROT_READ | libc::PROT_WRITE, std::ptr::null_mut());
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping, in which an aligned stack lies; the kernel reads a local.
        unsafe {
            let mapping = libc::mmap(none, 2 * STACK_LEN, rights, flags, -1, 0);
            if mapping == libc::MAP_FAILED {
                return None;
            }
            let stack = mapping.cast::<u8>();
            let stack = stack.add(stack.align_offset(STACK_LEN));
            native::occupy(stack.cast());
            let stack = libc::stack_t { ss_sp: stack.cast(), ss_flags: 0, ss_size: STACK_LEN };
            let done = libc::sigaltstack(&stack, std::ptr::null_mut()) == 0;
            let own = SignalStack { mapping };
            done.then_some(own)
        }
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        let none = libc::SS_DISABLE;
        let stack = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: none, ss_size: 0 };
        // SAFETY: signals come to the thread's own stack from now on; the mapping is of `new`.
        unsafe {
            libc::sigaltstack(&stack, std::ptr::null_mut());
            libc::munmap(self.mapping, 2 * STACK_LEN);
        }
    }
}

thread_local! {
    static STACK: Cell<Option<SignalStack>> = const { Cell::new(None) };
}

/// Whether threads are taken out of code by a signal.
pub(super) fn kicks() -> bool {
    native::is_code(0)
}

/// What a thread needs that runs code which this processor executes.
pub(super) fn adopt() {
    if native::is_code(0) {
        let stack = SignalStack::new().expect("a stack for signals");
        STACK.set(Some(stack));
    }
}

/// An instruction of code raised an exception: the thread leaves code there.
pub(super) fn is_faulty_code(context: &mut Context) -> bool {
    leave_code(context, true)
}

fn leave_code(context: &mut Context, is_fault: bool) -> bool {
    const R21: usize = 21;
    match native::interrupt(context.pc, &mut context.registers[R21], is_fault) {
        Some(next) => {
            go_on(context, next);
            true
        }
        None => false,
    }
}

/// The interrupted program counter.
pub(super) fn pc(context: &Context) -> u64 {
    context.pc
}

/// The thread goes on at `pc`.
pub(super) fn go_on(context: &mut Context, pc: u64) {
    context.pc = pc;
}

/// The thread goes on at the landing of an access, which was refused.
pub(super) fn land(context: &mut Context, landing: u64) {
    const R12: usize = 12;
    go_on(context, landing);
    context.registers[R12] = 1;
}

/// Code that was interrupted is left; the interpreter looks at the attention flag.
pub(super) fn hurry(context: &mut Context) {
    leave_code(context, false);
}

/// The mask that the thread has again behind the handler.
pub(super) fn mask(context: &mut Context) -> *mut u64 {
    &raw mut context.mask
}
