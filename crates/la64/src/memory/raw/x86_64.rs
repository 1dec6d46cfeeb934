//! The accesses of x86-64 hosts: each is one instruction that reaches guest memory, followed by its
//! landing; both addresses go into the section `la64_extable`. After a host fault execution goes on
//! at the landing, with ecx = 1.

use super::{Extend, Word};

macro_rules! guarded {
    ($instruction:literal, $err:ident, $($operand:tt)*) => {
        core::arch::asm!(
            "xor ecx, ecx",
            concat!("2: ", $instruction),
            "3:",
            ".pushsection la64_extable,\"aR\",@progbits",
            ".balign 4",
            ".long 2b - .",
            ".long 3b - .",
            ".popsection",
            out("ecx") $err,
            $($operand)*
            options(nostack)
        )
    };
}

macro_rules! word {
    ($type:ty, $class:ident, $load:literal, $store:literal, $cas:literal) => {
        impl Word for $type {
            #[inline(always)]
            unsafe fn load(p: *const u8) -> Option<Self> {
                let error: u32;
                let value: $type;
                // SAFETY: one load; the caller vouches for `p`, a host fault lands with ecx = 1.
                unsafe { guarded!($load, error, p = in(reg) p, v = out($class) value,) };
                (error == 0).then_some(value)
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut u8) -> Option<()> {
                let error: u32;
                // SAFETY: one store of the word's size; see `load`.
                unsafe { guarded!($store, error, p = in(reg) p, v = in($class) self,) };
                (error == 0).then_some(())
            }
            #[inline(always)]
            unsafe fn swap_if(p: *mut u8, old: Self, new: Self) -> Option<Self> {
                let error: u32;
                let mut seen = old as u64;
                // SAFETY: one locked compare-and-swap; see `load`.
                unsafe {
                    guarded!($cas, error, p = in(reg) p, v = in($class) new,
                        inout("rax") seen,)
                };
                (error == 0).then_some(seen as Self)
            }
        }
    };
}

word!(
    u8,
    reg_byte,
    "mov {v}, byte ptr [{p}]",
    "mov byte ptr [{p}], {v}",
    "lock cmpxchg byte ptr [{p}], {v}"
);
word!(
    u16,
    reg,
    "mov {v:x}, word ptr [{p}]",
    "mov word ptr [{p}], {v:x}",
    "lock cmpxchg word ptr [{p}], {v:x}"
);
word!(
    u32,
    reg,
    "mov {v:e}, dword ptr [{p}]",
    "mov dword ptr [{p}], {v:e}",
    "lock cmpxchg dword ptr [{p}], {v:e}"
);
word!(
    u64,
    reg,
    "mov {v}, qword ptr [{p}]",
    "mov qword ptr [{p}], {v}",
    "lock cmpxchg qword ptr [{p}], {v}"
);

/// As `guarded`, with the landing at a label of the surrounding code: no outputs but clobbers.
macro_rules! guarded_jump {
    ([$($instruction:literal),*], $($operand:tt)*) => {
        core::arch::asm!(
            $($instruction,)*
            ".pushsection la64_extable,\"aR\",@progbits",
            ".balign 4",
            ".long 2b - .",
            ".long {refused} - .",
            ".popsection",
            refused = label { return false },
            out("rcx") _,
            $($operand)*
            options(nostack)
        )
    };
}

macro_rules! extend {
    ($($type:ty, $load:literal, $store:literal;)*) => {
        $(impl Extend for $type {
            #[inline(always)]
            fn widened(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn cut(register: u64) -> Self {
                register as $type
            }
            #[inline(always)]
            unsafe fn load_to(base: u64, at: u64, x: *mut u64, n: u64) -> bool {
                // SAFETY: one load from where the caller vouches, one store to an element it
                // vouches for; a host fault lands at the label with rcx clobbered.
                unsafe {
                    guarded_jump!(
                        [$load, "mov qword ptr [{x} + 8 * {n}], rcx"],
                        b = in(reg) base, o = in(reg) at, x = in(reg) x, n = in(reg) n,
                    );
                }
                true
            }
            #[inline(always)]
            unsafe fn store_from(base: u64, at: u64, value: u64) -> bool {
                // SAFETY: one store of the word's size where the caller vouches; see `load_to`.
                unsafe {
                    guarded_jump!(
                        [$store], b = in(reg) base, o = in(reg) at, v = in(reg) value,
                    );
                }
                true
            }
        })*
    };
}

extend! {
    i8, "2: movsx rcx, byte ptr [{b} + {o}]", "2: mov byte ptr [{b} + {o}], {v:l}";
    u8, "2: movzx ecx, byte ptr [{b} + {o}]", "2: mov byte ptr [{b} + {o}], {v:l}";
    i16, "2: movsx rcx, word ptr [{b} + {o}]", "2: mov word ptr [{b} + {o}], {v:x}";
    u16, "2: movzx ecx, word ptr [{b} + {o}]", "2: mov word ptr [{b} + {o}], {v:x}";
    i32, "2: movsxd rcx, dword ptr [{b} + {o}]", "2: mov dword ptr [{b} + {o}], {v:e}";
    u32, "2: mov ecx, dword ptr [{b} + {o}]", "2: mov dword ptr [{b} + {o}], {v:e}";
    u64, "2: mov rcx, qword ptr [{b} + {o}]", "2: mov qword ptr [{b} + {o}], {v}";
}

/// Copies 16 bytes; false if the host refuses the side that is the guest's.
///
/// # Safety
/// As [`super::copy_16`].
#[inline(always)]
pub(super) unsafe fn copy_16(from: *const u8, to: *mut u8) -> bool {
    // SAFETY: one load and one store of what the caller vouches for; either may land at the label.
    unsafe {
        guarded_jump!(
            [
                "2: movups {v}, xmmword ptr [{f}]",
                ".pushsection la64_extable,\"aR\",@progbits",
                ".balign 4",
                ".long 2b - .",
                ".long {refused} - .",
                ".popsection",
                "2: movups xmmword ptr [{t}], {v}"
            ],
            f = in(reg) from, t = in(reg) to, v = out(xmm_reg) _,
        );
    }
    true
}

/// Copies `len` bytes; `None` if the host refuses the side that is the guest's.
///
/// # Safety
/// As [`super::copy`].
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) -> Option<()> {
    let left: u64;
    // SAFETY: the caller's. `rcx` ends at zero; a host fault lands at the next instruction with
    // ecx = 1. The direction flag is clear by the ABI.
    unsafe {
        core::arch::asm!(
            "2: rep movsb",
            "3:",
            ".pushsection la64_extable,\"aR\",@progbits",
            ".balign 4",
            ".long 2b - .",
            ".long 3b - .",
            ".popsection",
            inout("rcx") len as u64 => left,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack)
        );
    }
    (left == 0).then_some(())
}

/// A locked `or` with zero.
///
/// # Safety
/// As [`super::probe_write`].
pub(super) unsafe fn probe_write(p: *mut u8) -> Option<()> {
    let error: u32;
    // SAFETY: leaves the byte as it is; a host fault lands with ecx = 1.
    unsafe { guarded!("lock or byte ptr [{p}], 0", error, p = in(reg) p,) };
    (error == 0).then_some(())
}

/// Compare-and-swap of 16 bytes; whether it stored.
///
/// # Safety
/// `p` is inside a window, and aligned to 16 bytes.
pub(super) unsafe fn swap_if_16(p: *mut u8, old: [u64; 2], new: [u64; 2]) -> Option<bool> {
    let (mut low, mut high) = (old[0], old[1]);
    let error: u64;
    // SAFETY: cmpxchg16b at an aligned place of the window. rbx is saved around it because
    // LLVM reserves it; the landing after a fault restores it, being the next instruction.
    unsafe {
        core::arch::asm!(
            "xor r8d, r8d",
            "xchg rbx, rsi",
            "2: lock cmpxchg16b xmmword ptr [rdi]",
            "jmp 5f",
            "3: mov r8d, 1",
            "5: mov rbx, rsi",
            ".pushsection la64_extable,\"aR\",@progbits",
            ".balign 4",
            ".long 2b - .",
            ".long 3b - .",
            ".popsection",
            in("rdi") p,
            inout("rsi") new[0] => _,
            inout("rcx") new[1] => _,
            inout("rax") low,
            inout("rdx") high,
            out("r8") error,
            options(nostack)
        );
    }
    (error == 0).then_some([low, high] == old)
}
