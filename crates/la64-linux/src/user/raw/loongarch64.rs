//! What is the host processor's own on LoongArch: the way into the kernel, and the context of a
//! signal.

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
    "jr $ra",
    ".globl la64_enter_restart",
    "la64_enter_restart:",
    "li.d $a0, -512",
    "jr $ra",
    ".size la64_enter, . - la64_enter",
);

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

/// Nothing is translated to code of this host, and the interpreter looks at the attention flag.
pub(super) fn hurry(_: &mut Context) {}

/// The mask that the thread has again behind the handler.
pub(super) fn mask(context: &mut Context) -> *mut u64 {
    &raw mut context.mask
}
