//! What is the host processor's own on x86-64: the way into the kernel, the context of a signal.

use littoral_la64::memory::{self, Window};
use littoral_la64::native::Processor;
use std::sync::Arc;

/// Signals of faults beside those of every host.
pub(super) const FAULTS: u64 = 0;

/// The handler of signals.
pub(super) fn handler() -> usize {
    super::on_signal as *const () as usize
}

/// The kernel's `struct sigaction` with every signal blocked: handler, flags, where the handler
/// returns to, mask.
pub(super) fn action(handler: u64, flags: i32) -> [u64; 4] {
    const RESTORER: u64 = 0x0400_0000;
    [handler, flags as u64 | RESTORER, la64_return as *const () as u64, u64::MAX]
}

/// LA64 code is executed on no processor of this architecture.
pub(super) fn executes() -> Option<bool> {
    None
}

/// See [`executes`].
pub(super) fn reserve_native(_: u64, _: bool) -> Option<(Window, Arc<dyn Processor>)> {
    None
}

/// The thread's code is the host's.
pub(super) fn is_faulty_code(_: &mut Context) -> bool {
    false
}

/// Whether threads are taken out of code by a signal.
pub(super) fn kicks() -> bool {
    false
}

/// What a thread of code needs that is not the host's.
pub(super) fn adopt() {}

/// The context of a signal.
pub(super) type Context = libc::ucontext_t;

std::arch::global_asm!(
    ".text",
    ".globl la64_enter",
    ".type la64_enter,@function",
    "la64_enter:",
    "push rbx",
    "mov rbx, rdx",
    "mov rax, rdi",
    "mov r11, rsi",
    "mov rdi, [r11]",
    "mov rsi, [r11 + 8]",
    "mov rdx, [r11 + 16]",
    "mov r10, [r11 + 24]",
    "mov r8, [r11 + 32]",
    "mov r9, [r11 + 40]",
    ".globl la64_enter_check",
    "la64_enter_check:",
    "cmp byte ptr [rbx], 0",
    "jne la64_enter_restart",
    ".globl la64_enter_syscall",
    "la64_enter_syscall:",
    "syscall",
    ".globl la64_enter_done",
    "la64_enter_done:",
    "pop rbx",
    "ret",
    ".globl la64_enter_restart",
    "la64_enter_restart:",
    "mov rax, -512",
    "pop rbx",
    "ret",
    ".size la64_enter, . - la64_enter",
);

// Where a handler of signals returns to: rt_sigreturn, by the instructions that debuggers know.
std::arch::global_asm!(
    ".text",
    ".globl la64_return",
    ".type la64_return,@function",
    "la64_return:",
    "mov rax, 15",
    "syscall",
    ".size la64_return, . - la64_return",
);

unsafe extern "C" {
    fn la64_return();
}

/// The interrupted program counter.
pub(super) fn pc(context: &Context) -> u64 {
    context.uc_mcontext.gregs[libc::REG_RIP as usize] as u64
}

/// The thread goes on at `pc`.
pub(super) fn go_on(context: &mut Context, pc: u64) {
    context.uc_mcontext.gregs[libc::REG_RIP as usize] = pc as i64;
}

/// The thread goes on at the landing of an access, which was refused.
pub(super) fn land(context: &mut Context, landing: u64) {
    go_on(context, landing);
    context.uc_mcontext.gregs[libc::REG_RCX as usize] = 1;
}

/// Translated code that was interrupted leaves soon.
pub(super) fn hurry(context: &mut Context) {
    let pc = pc(context);
    memory::hurry(pc, &mut context.uc_mcontext.gregs[libc::REG_R14 as usize]);
}

/// The mask that the thread has again behind the handler: the kernel's eight bytes of the field.
pub(super) fn mask(context: &mut Context) -> *mut u64 {
    (&raw mut context.uc_sigmask).cast()
}
