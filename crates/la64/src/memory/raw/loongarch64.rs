//! The accesses of LoongArch hosts, which `super` has for x86-64: each instruction that reaches
//! guest memory stands in the section `la64_extable` with its landing, where execution goes on
//! after a host fault with r12 = 1.
//!
//! A store or a copy over a page's end tries both pages first, because the architecture does not
//! say that an unaligned store which faults has stored nothing. The smallest page is assumed.

use super::{PAGE, Word};

macro_rules! guarded {
    ([$($line:expr),*], $err:ident, $($operand:tt)*) => {
        core::arch::asm!(
            "move $r12, $zero",
            $($line,)*
            "3:",
            out("$r12") $err,
            $($operand)*
            options(nostack)
        )
    };
}

/// The entry of the instruction at label 2; it lands at label 3.
macro_rules! entry {
    ($label:literal) => {
        concat!(
            ".pushsection la64_extable,\"aR\",@progbits\n.balign 4\n.long ",
            $label,
            "b - .\n.long 3f - .\n.popsection"
        )
    };
}

/// Whether `size` bytes from `p` lie on two pages.
fn is_over_the_end(p: *const u8, size: usize) -> bool {
    p as u64 % PAGE + size as u64 > PAGE
}

/// Tries both pages of a store that lies on two.
///
/// # Safety
/// As [`Word::store`].
#[cold]
unsafe fn probe_both(p: *mut u8, size: usize) -> Option<()> {
    // SAFETY: the caller's, for the first and the last byte.
    unsafe {
        probe_write(p)?;
        probe_write(p.add(size - 1))
    }
}

macro_rules! loads_and_stores {
    ($load:literal, $store:literal) => {
        #[inline(always)]
        unsafe fn load(p: *const u8) -> Option<Self> {
            let (error, value): (u64, Self);
            // SAFETY: one load; the caller vouches for `p`, a host fault lands with r12 = 1.
            unsafe {
                guarded!([$load, entry!("2")], error, p = in(reg) p, v = out(reg) value,);
            }
            (error == 0).then_some(value)
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut u8) -> Option<()> {
            let error: u64;
            if is_over_the_end(p, size_of::<Self>()) {
                // SAFETY: the caller's.
                unsafe { probe_both(p, size_of::<Self>())? };
            }
            // SAFETY: one store of the word's size; see `load`.
            unsafe {
                guarded!([$store, entry!("2")], error, p = in(reg) p, v = in(reg) self,);
            }
            (error == 0).then_some(())
        }
    };
}

/// Words that load-linked and store-conditional have.
macro_rules! linked {
    ($type:ty, $signed:ty, $load:literal, $store:literal, $link:literal, $conditional:literal) => {
        impl Word for $type {
            loads_and_stores!($load, $store);
            unsafe fn swap_if(p: *mut u8, old: Self, new: Self) -> Option<Self> {
                let (error, seen): (u64, u64);
                // SAFETY: a pair of accesses at an aligned place; either lands with r12 = 1.
                unsafe {
                    guarded!(
                        ["dbar 0", $link, "bne {seen}, {old}, 5f", "move {t}, {new}", $conditional,
                         "beqz {t}, 2b", "5: dbar 0", entry!("2"), entry!("4")],
                        error, p = in(reg) p, old = in(reg) old as $signed as i64, new = in(reg) new,
                        seen = out(reg) seen, t = out(reg) _,
                    );
                }
                let seen = (error == 0).then_some(seen as Self)?;
                if seen != old {
                    // An atomic operation needs the right to write whatever it finds.
                    // SAFETY: the caller's.
                    unsafe { probe_write(p)? };
                }
                Some(seen)
            }
        }
    };
}

linked!(
    u32,
    i32,
    "2: ld.wu {v}, {p}, 0",
    "2: st.w {v}, {p}, 0",
    "2: ll.w {seen}, {p}, 0",
    "4: sc.w {t}, {p}, 0"
);
linked!(
    u64,
    i64,
    "2: ld.d {v}, {p}, 0",
    "2: st.d {v}, {p}, 0",
    "2: ll.d {seen}, {p}, 0",
    "4: sc.d {t}, {p}, 0"
);

/// Narrower words, which are swapped as parts of one of 32 bits.
macro_rules! parts {
    ($type:ty, $load:literal, $store:literal) => {
        impl Word for $type {
            loads_and_stores!($load, $store);
            unsafe fn swap_if(p: *mut u8, old: Self, new: Self) -> Option<Self> {
                let shift = 8 * (p as u64 % 4);
                let whole = p.wrapping_sub(p as usize % 4);
                let mask = u32::from(<$type>::MAX) << shift;
                loop {
                    // SAFETY: an aligned word lies on one page, so on that of the part.
                    let before = unsafe { u32::load(whole)? };
                    let seen = (before >> shift) as $type;
                    let part = if seen == old { new } else { seen };
                    let after = before & !mask | u32::from(part) << shift;
                    // SAFETY: as above.
                    if unsafe { u32::swap_if(whole, before, after)? } == before {
                        return Some(seen);
                    }
                }
            }
        }
    };
}

parts!(u8, "2: ld.bu {v}, {p}, 0", "2: st.b {v}, {p}, 0");
parts!(u16, "2: ld.hu {v}, {p}, 0", "2: st.h {v}, {p}, 0");

/// As on x86-64.
///
/// # Safety
/// As there.
pub(super) unsafe fn copy_16(from: *const u8, to: *mut u8) -> bool {
    // SAFETY: the caller's: both halves are read before one is written.
    let halves = unsafe { [u64::load(from), u64::load(from.add(8))] };
    let [Some(low), Some(high)] = halves else { return false };
    let is_in_one_page = !is_over_the_end(to, 16);
    // SAFETY: as above.
    unsafe {
        (is_in_one_page || probe_both(to, 16).is_some())
            && low.store(to).is_some()
            && high.store(to.add(8)).is_some()
    }
}

/// As on x86-64.
///
/// # Safety
/// As there.
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) -> Option<()> {
    let words = len / 8 * 8;
    for at in (0..words).step_by(8) {
        // SAFETY: the caller's, for each word.
        unsafe { u64::load(from.add(at))?.store(to.add(at))? };
    }
    for at in words..len {
        // SAFETY: the caller's, for each byte.
        unsafe { u8::load(from.add(at))?.store(to.add(at))? };
    }
    Some(())
}

/// As on x86-64: the word around the byte, or-ed with zero.
///
/// # Safety
/// As there.
pub(super) unsafe fn probe_write(p: *mut u8) -> Option<()> {
    let error: u64;
    let whole = p.wrapping_sub(p as usize % 4);
    // SAFETY: leaves the word as it is; a host fault lands with r12 = 1.
    unsafe {
        guarded!(
            ["2: amor.w {t}, $zero, {p}", entry!("2")], error, p = in(reg) whole, t = out(reg) _,
        );
    }
    (error == 0).then_some(())
}
