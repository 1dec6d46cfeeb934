//! Memory that holds code and may be executed, where faults inside it continue, and entering it.
//!
//! - An [`Arena`] is one private mapping, readable, writable and executable; a forked child
//!   inherits it copy-on-write. Its owner alone writes it, and not while its code runs.
//! - Which instructions of an arena may fault is a [`Faults`]. The handler of SIGSEGV reads it on
//!   the thread that runs the code, which changes nothing meanwhile.
//!
//! Unsafe because these are the host's raw interfaces.
#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::cell::Cell;

/// Executable memory.
#[derive(Debug)]
pub(crate) struct Arena {
    base: u64,
    len: usize,
}

impl Arena {
    /// Reserves `len` bytes; `None` where the host refuses executable memory.
    pub(crate) fn new(len: usize) -> Option<Arena> {
        let rights = ProtFlags::READ | ProtFlags::WRITE | ProtFlags::EXEC;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), len, rights, flags) };
        Some(Arena { base: base.ok()? as u64, len })
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The host address of an offset.
    pub(crate) fn address(&self, offset: usize) -> u64 {
        assert!(offset <= self.len, "inside the arena");
        self.base + offset as u64
    }

    /// Copies code in.
    pub(crate) fn write(&mut self, offset: usize, code: &[u8]) {
        assert!(offset + code.len() <= self.len, "inside the arena");
        let to = self.address(offset) as *mut u8;
        // SAFETY: in bounds of the mapping, which no reference points into.
        unsafe { to.copy_from_nonoverlapping(code.as_ptr(), code.len()) };
    }

    /// Replaces the four bytes at `offset`.
    pub(crate) fn write_number(&mut self, offset: usize, number: u32) {
        self.write(offset, &number.to_le_bytes());
    }

    /// Lets the jump whose displacement stands at `offset` lead to `to`, by one store.
    pub(crate) fn patch(&mut self, offset: usize, to: usize) {
        assert!(offset + 4 <= self.len && to < self.len, "inside the arena");
        let distance = (to as i64 - (offset as i64 + 4)) as i32;
        let at = self.address(offset) as *mut i32;
        // SAFETY: in bounds; only the owning thread executes this code, and not now.
        unsafe { at.write_unaligned(distance) };
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`; its code runs only while its owner exists.
        let _ = unsafe { munmap(self.base as *mut _, self.len) };
    }
}

/// Where faults of an arena's instructions continue.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Address of the arena.
    pub(crate) base: u64,
    /// Offsets of an instruction and of its landing, by the former.
    pub(crate) list: Vec<(u32, u32)>,
}

thread_local! {
    /// The faults of the code that this thread runs, or null.
    static RUNNING: Cell<*const Faults> = const { Cell::new(std::ptr::null()) };
}

/// Where execution continues after a fault at `pc` in generated code.
pub(crate) fn landing(pc: u64) -> Option<u64> {
    // SAFETY: `enter` sets it to a reference for the time of its call, and this runs on the same
    // thread.
    let faults = unsafe { RUNNING.get().as_ref() }?;
    let offset = u32::try_from(pc.checked_sub(faults.base)?).ok()?;
    let at = faults.list.binary_search_by_key(&offset, |f| f.0).ok()?;
    Some(faults.base + u64::from(faults.list[at].1))
}

/// Calls the entry routine at address `entry` with two arguments.
///
/// # Safety
/// The routine keeps the System V calling convention, and `frame` is what it and the code that it
/// enters expect. `faults` is not changed before this returns.
pub(crate) unsafe fn enter(entry: u64, frame: *mut u8, code: u64, faults: *const Faults) {
    // SAFETY: the caller vouches for the routine.
    let routine: extern "sysv64" fn(*mut u8, u64) = unsafe { std::mem::transmute(entry) };
    let before = RUNNING.replace(faults);
    routine(frame, code);
    RUNNING.set(before);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jit::emit::{Asm, MOV_TO, Mem, RDI, RSI};

    #[test]
    fn code_runs_and_is_patched() {
        let mut arena = Arena::new(1 << 16).expect("executable memory");
        let mut asm = Asm::new(0);
        let jump = asm.jump_near(None);
        asm.bind_near(jump);
        asm.op(MOV_TO, true, RSI, Mem::at(RDI, 0));
        let end = asm.here();
        asm.ret();
        arena.write(0, &asm.bytes);
        let (mut cell, faults) = (0u64, Faults::default());
        let run = |cell: &mut u64, arena: &Arena| {
            // SAFETY: the code stores its second argument at the first, or returns.
            unsafe { enter(arena.address(0), std::ptr::from_mut(cell).cast(), 7, &faults) };
        };
        run(&mut cell, &arena);
        assert_eq!(std::mem::take(&mut cell), 7);
        arena.patch(jump, end);
        run(&mut cell, &arena);
        assert_eq!(cell, 0);
    }

    #[test]
    fn only_listed_instructions_land() {
        let faults = Faults { base: 0x1000, list: vec![(4, 100), (9, 100), (20, 200)] };
        assert_eq!(landing(0x1004), None, "no code runs");
        RUNNING.set(&faults);
        let found = [0x0fff, 0x1004, 0x1005, 0x1009, 0x1014, 0x1015].map(landing);
        RUNNING.set(std::ptr::null());
        assert_eq!(found, [None, Some(0x1064), None, Some(0x1064), Some(0x10c8), None]);
    }
}
