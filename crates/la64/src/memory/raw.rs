//! Loads, stores and compare-and-swap through host pointers, with host faults turned into `None`.
//!
//! On x86-64 (`raw/x86_64.rs`) each access is one instruction followed by a landing label; both
//! addresses go into the section `la64_extable`. A SIGSEGV or SIGBUS whose program counter stands
//! in the table continues at the landing with ecx = 1 (see [`landing`]). Where the value goes to a
//! register of the guest the assembly stores it there too ([`Extend`], [`copy_16`]), so that the
//! landing can be the cold branch itself: stable Rust lets assembly jump or return a value, not
//! both. LoongArch hosts have the same table with r12 in place of ecx (`raw/loongarch64.rs`). Other
//! hosts access memory plainly (`raw/plain.rs`): there the window must be wholly mapped, which is
//! all the device core needs.
//!
//! Unsafe code is confined here because bounds-checked access to a sparse terabyte of guest memory
//! has no safe expression.
#![allow(unsafe_code)]

#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
mod fenced;
#[cfg(target_arch = "loongarch64")]
mod loongarch64;
mod pages;
#[cfg(not(any(target_arch = "x86_64", target_arch = "loongarch64")))]
mod plain;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
pub(crate) use fenced::Fenced;
#[cfg(target_arch = "loongarch64")]
use loongarch64 as host;
use pages::Guard;
pub use pages::Memory;
#[cfg(not(any(target_arch = "x86_64", target_arch = "loongarch64")))]
use plain as host;
#[cfg(target_arch = "x86_64")]
use x86_64 as host;

/// A plain integer that guest memory holds.
pub trait Word: Copy {
    /// Reads at `p`; `None` if the host refuses.
    ///
    /// # Safety
    /// `p` is inside a window: mapped, or refused by the host with a signal the table knows.
    unsafe fn load(p: *const u8) -> Option<Self>;
    /// Writes at `p`; `None` if the host refuses.
    ///
    /// # Safety
    /// As `load`.
    unsafe fn store(self, p: *mut u8) -> Option<()>;
    /// Compare-and-swap at an aligned `p`: what was there.
    ///
    /// # Safety
    /// As `load`, and `p` is aligned to the word's size.
    unsafe fn swap_if(p: *mut u8, old: Self, new: Self) -> Option<Self>;
}

/// A word in memory that a general register holds widened by its sign or by zeros.
pub(crate) trait Extend: Word {
    /// The register's contents.
    fn widened(self) -> u64;
    /// The low part of a register.
    fn cut(register: u64) -> Self;
    /// Reads at `base + at` and writes element `n` of `x`; false if the host refuses.
    ///
    /// # Safety
    /// As [`Word::load`] for the address; `x` has more than `n` elements.
    #[inline(always)]
    unsafe fn load_to(base: u64, at: u64, x: *mut u64, n: u64) -> bool {
        // SAFETY: the caller vouches for both places.
        let value = unsafe { Self::load((base + at) as *const u8) };
        value.is_some_and(|v| {
            // SAFETY: as above.
            unsafe { *x.add(n as usize) = v.widened() };
            true
        })
    }
    /// Writes the low part of `value` at `base + at`; false if the host refuses.
    ///
    /// # Safety
    /// As [`Word::store`].
    #[inline(always)]
    unsafe fn store_from(base: u64, at: u64, value: u64) -> bool {
        // SAFETY: the caller vouches for the place.
        unsafe { Self::cut(value).store((base + at) as *mut u8).is_some() }
    }
}

#[cfg(not(target_arch = "x86_64"))]
macro_rules! extend {
    ($($type:ty)*) => {
        $(impl Extend for $type {
            fn widened(self) -> u64 {
                self as u64
            }
            fn cut(register: u64) -> Self {
                register as $type
            }
        })*
    };
}
#[cfg(not(target_arch = "x86_64"))]
extend! { i8 u8 i16 u16 i32 u32 u64 }

macro_rules! signed_word {
    ($($type:ty, $unsigned:ty;)*) => {
        $(impl Word for $type {
            #[inline(always)]
            unsafe fn load(p: *const u8) -> Option<Self> {
                // SAFETY: the caller's, passed on.
                unsafe { <$unsigned>::load(p) }.map(|v| v as $type)
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut u8) -> Option<()> {
                // SAFETY: the caller's, passed on.
                unsafe { (self as $unsigned).store(p) }
            }
            #[inline(always)]
            unsafe fn swap_if(p: *mut u8, old: Self, new: Self) -> Option<Self> {
                // SAFETY: the caller's, passed on.
                unsafe { <$unsigned>::swap_if(p, old as $unsigned, new as $unsigned) }
                    .map(|v| v as $type)
            }
        })*
    };
}
signed_word! { i8, u8; i16, u16; i32, u32; }

/// Copies 16 bytes; false if the host refuses the side that is the guest's.
///
/// # Safety
/// Both sides are valid for 16 bytes, or in a window as [`Word::load`] has it.
#[inline(always)]
unsafe fn copy_16(from: *const u8, to: *mut u8) -> bool {
    // SAFETY: the caller's.
    unsafe { host::copy_16(from, to) }
}

/// Copies `len` bytes; `None` if the host refuses the side that is the guest's (bytes before the
/// refused one may have been copied).
///
/// # Safety
/// Both sides are valid for `len` bytes, or in a window as [`Word::load`] has it; they do not
/// overlap.
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) -> Option<()> {
    // SAFETY: the caller's.
    unsafe { host::copy(from, to, len) }
}

/// Changes nothing, but faults where a store would.
///
/// # Safety
/// `p` is inside a window.
unsafe fn probe_write(p: *mut u8) -> Option<()> {
    // SAFETY: the caller's.
    unsafe { host::probe_write(p) }
}

/// Guest addresses `[0, len)` at host address `base`.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    base: u64,
    len: u64,
    /// Below this address any word and any vector fits, so that the common load needs one compare.
    near: u64,
    /// The same for stores: 0 where a guard looks at each of them.
    near_stores: u64,
    /// Address of the [`Guard`] that admits stores, or 0.
    guard: u64,
    /// Bytes before and behind the window that refuse every access.
    #[cfg_attr(
        not(all(feature = "jit", target_arch = "x86_64", target_os = "linux")),
        expect(dead_code, reason = "only translated code leaves bounds to refusals")
    )]
    slack: u64,
}

/// The longest single access.
const ACCESS_MAX: u64 = 32;
const PAGE: u64 = 4096;

impl Window {
    /// A window onto `[base, base + len)` of the host.
    ///
    /// # Safety
    /// The range belongs to the guest alone for as long as the window is used: no Rust reference
    /// points into it. On x86-64 pages of it may be unmapped only while the process's handler of
    /// SIGSEGV and SIGBUS continues at `landing` with ecx = 1, on LoongArch with r12 = 1; on other
    /// hosts never.
    pub unsafe fn new(base: *mut u8, len: u64) -> Window {
        let near = (len + 1).saturating_sub(ACCESS_MAX);
        Window { base: base as u64, len, near, near_stores: near, guard: 0, slack: 0 }
    }

    /// The same window, `slack` bytes on either side of which refuse every access: a translator
    /// then need not look at small displacements.
    ///
    /// # Safety
    /// The bytes are reserved without access as long as the window is used, and the process's
    /// handler of SIGSEGV continues at `landing`.
    pub unsafe fn between_refusals(self, slack: u64) -> Window {
        Window { slack, ..self }
    }

    /// The address that no access by a compare alone may reach, the slack, and whether stores need
    /// rights.
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    pub(crate) fn shape(&self) -> (u64, u64, bool) {
        (self.near, self.slack, self.guard != 0)
    }

    /// Offset of the host address of guest address 0.
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    pub(crate) const BASE: usize = std::mem::offset_of!(Window, base);
    /// Offset of the address below which every access fits.
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    pub(crate) const NEAR: usize = std::mem::offset_of!(Window, near);

    /// A window onto the same memory, all of whose stores `guard` admits or refuses.
    ///
    /// # Safety
    /// `guard` outlives the window, stands for the window's pages, and is used by one thread at a
    /// time.
    unsafe fn guarded(self, guard: &Guard) -> Window {
        Window { near_stores: 0, guard: std::ptr::from_ref(guard) as u64, ..self }
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True for a window without addresses.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The host address of guest address `address`, if `size` bytes from there are in the window.
    #[inline(always)]
    pub fn host(&self, address: u64, size: u64) -> Option<*mut u8> {
        (address <= self.len.wrapping_sub(size) && size <= self.len)
            .then(|| (self.base + address) as *mut u8)
    }

    /// The guest address of a host address inside the window.
    pub fn guest(&self, host: u64) -> Option<u64> {
        host.checked_sub(self.base).filter(|&a| a < self.len)
    }

    /// The host address of a word of at most eight bytes.
    #[inline(always)]
    fn word_at<T: Word>(&self, address: u64) -> Option<*mut u8> {
        const { assert!(size_of::<T>() <= 8) };
        if address < self.near {
            return Some((self.base + address) as *mut u8);
        }
        self.near_the_end(address, size_of::<T>() as u64)
    }

    #[cold]
    fn near_the_end(&self, address: u64, size: u64) -> Option<*mut u8> {
        self.host(address, size)
    }

    /// As `word_at`, for a store.
    #[inline(always)]
    fn word_to_store<T: Word>(&self, address: u64) -> Option<*mut u8> {
        const { assert!(size_of::<T>() <= 8) };
        if address < self.near_stores {
            return Some((self.base + address) as *mut u8);
        }
        self.admitted(address, size_of::<T>() as u64)
    }

    /// The host address of `size` bytes that may be stored to: inside the window, and admitted by
    /// its guard if it has one.
    #[inline(never)]
    fn admitted(&self, address: u64, size: u64) -> Option<*mut u8> {
        let p = self.host(address, size)?;
        if self.guard == 0 {
            return Some(p);
        }
        // SAFETY: `guarded` had a reference, which its caller vouches outlives the window.
        let guard = unsafe { &*(self.guard as *const Guard) };
        guard.admit(address, size).then_some(p)
    }

    /// Reads a word; `None` outside the window or where the host refuses.
    #[inline(always)]
    pub fn load<T: Word>(&self, address: u64) -> Option<T> {
        let p = self.word_at::<T>(address)?;
        // SAFETY: `p..p + size` is inside the window, whose pages `new` vouches for.
        unsafe { T::load(p) }
    }

    /// Writes a word; `None` outside the window or where the host refuses.
    #[inline(always)]
    pub fn store<T: Word>(&self, address: u64, value: T) -> Option<()> {
        let p = self.word_to_store::<T>(address)?;
        // SAFETY: as `load`.
        unsafe { value.store(p) }
    }

    /// True where every access fits; elsewhere [`Window::load`] and [`Window::store`] decide.
    #[inline(always)]
    pub(crate) fn is_near(&self, address: u64) -> bool {
        address < self.near
    }

    /// True where every store fits and no guard looks at it; elsewhere [`Window::store`] decides.
    #[inline(always)]
    pub(crate) fn is_near_to_store(&self, address: u64) -> bool {
        address < self.near_stores
    }

    /// Reads a word into element `n` of `x`; false where the host refuses.
    ///
    /// # Safety
    /// [`Window::is_near`] holds, and `x` has more than `n` elements.
    #[inline(always)]
    pub(crate) unsafe fn load_near<T: Extend>(&self, at: u64, x: *mut u64, n: usize) -> bool {
        // SAFETY: near, so inside the window, whose pages `new` vouches for; the caller vouches
        // for the element.
        unsafe { T::load_to(self.base, at, x, n as u64) }
    }

    /// Writes the low part of `value`; false where the host refuses.
    ///
    /// # Panics
    /// Where [`Window::is_near_to_store`] does not hold.
    #[inline(always)]
    pub(crate) fn store_near<T: Extend>(&self, at: u64, value: u64) -> bool {
        assert!(self.is_near_to_store(at));
        // SAFETY: as `load_near`.
        unsafe { T::store_from(self.base, at, value) }
    }

    /// Reads the low `N` words of a vector register.
    #[inline(always)]
    pub(crate) fn load_vector<const N: usize>(&self, at: u64, v: &mut [u64; 4]) -> Option<()> {
        const { assert!(N == 2 || N == 4) };
        if !self.is_near(at) {
            let words = self.load_words::<N>(at)?;
            v[..N].copy_from_slice(&words);
            return Some(());
        }
        // The upper half is read first into a place of its own: all or nothing.
        let mut upper = [0u64; 2];
        let from = (self.base + at) as *const u8;
        // SAFETY: near, so 32 bytes are inside the window; both targets have 16 bytes.
        let done = unsafe {
            (N == 2 || copy_16(from.add(16), upper.as_mut_ptr().cast()))
                && copy_16(from, v.as_mut_ptr().cast())
        };
        if N == 4 && done {
            v[2..].copy_from_slice(&upper);
        }
        done.then_some(())
    }

    /// Writes the low `N` words of a vector register, all or none.
    #[inline(always)]
    pub(crate) fn store_vector<const N: usize>(&self, at: u64, v: &[u64; 4]) -> Option<()> {
        const { assert!(N == 2 || N == 4) };
        if !self.is_near_to_store(at) || N == 4 && at % PAGE > PAGE - 32 {
            let words: &[u64; N] = v.first_chunk().expect("invariant: N is at most 4");
            return self.store_words(at, *words);
        }
        let to = (self.base + at) as *mut u8;
        // SAFETY: near, so 32 bytes are inside the window. A single host store across pages stores
        // nothing if it faults, and two stores are in one page.
        let done = unsafe {
            copy_16(v.as_ptr().cast(), to)
                && (N == 2 || copy_16(v.as_ptr().add(2).cast(), to.add(16)))
        };
        done.then_some(())
    }

    /// Compare-and-swap of an aligned word: what was there.
    #[inline(always)]
    pub fn swap_if<T: Word>(&self, address: u64, old: T, new: T) -> Option<T> {
        let p = self.word_to_store::<T>(address)?;
        assert!(address.is_multiple_of(size_of::<T>() as u64), "the caller has checked alignment");
        // SAFETY: as `load`; aligned because windows start on a page.
        unsafe { T::swap_if(p, old, new) }
    }

    /// Compare-and-swap of 16 aligned bytes; true if it stored.
    #[cfg(target_arch = "x86_64")]
    pub fn swap_if_16(&self, address: u64, old: [u64; 2], new: [u64; 2]) -> Option<bool> {
        let p = self.admitted(address, 16)?;
        assert!(address.is_multiple_of(16), "the caller has checked alignment");
        // SAFETY: an aligned place of the window.
        unsafe { host::swap_if_16(p, old, new) }
    }

    /// Compare-and-swap of 16 aligned bytes; true if it stored. One lock serves all windows.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn swap_if_16(&self, address: u64, old: [u64; 2], new: [u64; 2]) -> Option<bool> {
        static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _guard = LOCK.lock().unwrap_or_else(|e| e.into_inner());
        let now = [self.load::<u64>(address)?, self.load::<u64>(address + 8)?];
        if now == old {
            self.store(address, new[0])?;
            self.store(address + 8, new[1])?;
        }
        Some(now == old)
    }

    /// Reads `N` words.
    #[inline(always)]
    pub fn load_words<const N: usize>(&self, address: u64) -> Option<[u64; N]> {
        let mut words = [0; N];
        for (i, word) in words.iter_mut().enumerate() {
            *word = self.load(address.wrapping_add(8 * i as u64))?;
        }
        Some(words)
    }

    /// Writes `N` words, all or none.
    #[inline(always)]
    pub fn store_words<const N: usize>(&self, address: u64, words: [u64; N]) -> Option<()> {
        let last = 8 * N as u64 - 1;
        let p = self.admitted(address, last + 1)?;
        if address % PAGE + last >= PAGE {
            // SAFETY: both ends are inside the window.
            unsafe {
                probe_write(p)?;
                probe_write(p.add(last as usize))?;
            }
        }
        words.iter().enumerate().try_for_each(|(i, &w)| self.store(address + 8 * i as u64, w))
    }

    /// Copies guest bytes out; `None` if any of them cannot be read (`bytes` is then undefined).
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        if bytes.is_empty() {
            return Some(());
        }
        let p = self.host(address, bytes.len() as u64)?;
        // SAFETY: the source is inside the window, whose pages `new` vouches for; the target is a
        // slice.
        unsafe { copy(p, bytes.as_mut_ptr(), bytes.len()) }
    }

    /// Copies bytes in, past any guard; `None` if any of them cannot be written (earlier ones may
    /// then be).
    pub fn write(&self, address: u64, bytes: &[u8]) -> Option<()> {
        if bytes.is_empty() {
            return Some(());
        }
        let p = self.host(address, bytes.len() as u64)?;
        // SAFETY: as `read`, the other way.
        unsafe { copy(bytes.as_ptr(), p, bytes.len()) }
    }

    /// Copies bytes in where the guest itself could store them; `None`, and nothing is stored, if a
    /// guard refuses any of them.
    pub(crate) fn write_as_guest(&self, address: u64, bytes: &[u8]) -> Option<()> {
        if bytes.is_empty() {
            return Some(());
        }
        self.admitted(address, bytes.len() as u64)?;
        self.write(address, bytes)
    }

    /// Orders everything before against everything after, in every thread.
    pub fn fence(&self) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "loongarch64"))]
unsafe extern "C" {
    #[link_name = "__start_la64_extable"]
    static TABLE_START: [i32; 2];
    #[link_name = "__stop_la64_extable"]
    static TABLE_STOP: [i32; 2];
}

/// Where execution continues after a host fault at `pc`, if the fault is one of this module's.
#[cfg(any(target_arch = "x86_64", target_arch = "loongarch64"))]
pub fn landing(pc: u64) -> Option<u64> {
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    if let Some(next) = crate::jit::raw::landing(pc) {
        return Some(next);
    }
    let mut entry = &raw const TABLE_START;
    let stop = &raw const TABLE_STOP;
    while entry < stop {
        // SAFETY: the linker's start and stop symbols bound an array of such pairs.
        let [fault, landing] = unsafe { *entry };
        let at =
            |offset: i32, word: u64| (entry as u64 + 4 * word).wrapping_add(offset as i64 as u64);
        if at(fault, 0) == pc {
            return Some(at(landing, 1));
        }
        // SAFETY: stays at or below `stop`.
        entry = unsafe { entry.add(1) };
    }
    None
}

/// For a handler of a signal that raised the attention flag of the thread it interrupted at `pc`,
/// with `r14` in that register: translated code leaves at its next exit, where it would go on to
/// the end of its slice. The count stays exact.
#[cfg(target_arch = "x86_64")]
pub fn hurry(pc: u64, r14: &mut i64) {
    #[cfg(all(feature = "jit", target_os = "linux"))]
    crate::jit::raw::hurry(pc, r14);
    #[cfg(not(all(feature = "jit", target_os = "linux")))]
    let _ = (pc, r14);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_stop_at_the_end_of_the_window() {
        let memory = Memory::new(PAGE);
        let w = memory.window();
        assert_eq!(w.store::<u64>(PAGE - 8, 7), Some(()));
        assert_eq!(w.load::<u64>(PAGE - 8), Some(7));
        assert_eq!(w.load::<u64>(PAGE - 7), None);
        assert_eq!(w.load::<u8>(PAGE), None);
        assert_eq!(w.load::<u8>(u64::MAX), None);
        assert_eq!(w.store::<u64>(u64::MAX - 3, 1), None);
        assert_eq!(w.store_words(PAGE - 16, [1u64; 4]), None);
        assert_eq!(w.load::<u64>(PAGE - 16), Some(0), "nothing of a refused store is stored");
        let mut v = [1, 2, 3, 4];
        assert_eq!(w.store_vector::<4>(PAGE - 32, &v), Some(()));
        assert_eq!(w.store_vector::<4>(PAGE - 31, &[0; 4]), None);
        assert_eq!(w.load_vector::<2>(PAGE - 16, &mut v), Some(()));
        assert_eq!(v, [3, 4, 3, 4], "a short vector leaves the upper half");
        assert_eq!(w.load_vector::<4>(PAGE - 31, &mut v), None);
        assert_eq!(v, [3, 4, 3, 4], "a refused load changes nothing");
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "loongarch64"))]
    #[test]
    fn every_entry_of_the_table_lands_and_nothing_else_does() {
        let (start, stop) = (&raw const TABLE_START as u64, &raw const TABLE_STOP as u64);
        assert!(
            stop > start && (stop - start).is_multiple_of(8),
            "whole pairs: {start:x} {stop:x}"
        );
        let code = landing as *const () as u64;
        for entry in (start..stop).step_by(8) {
            // SAFETY: inside the bounds that the linker set.
            let fault = unsafe { *(entry as *const i32) };
            let pc = entry.wrapping_add(fault as i64 as u64);
            let next = landing(pc).expect("an entry of the table");
            // One program is far smaller than 2^31 bytes.
            assert!(next != pc && next.abs_diff(code) < 1 << 31, "{pc:x} lands at {next:x}");
        }
        assert_eq!(landing(start), None);
        assert_eq!(landing(0), None);
    }

    #[test]
    fn compare_and_swap_of_every_width() {
        let memory = Memory::new(PAGE);
        let w = memory.window();
        w.store::<u64>(0, 0x1122_3344_5566_7788).unwrap();
        assert_eq!(w.swap_if::<u8>(0, 0x88, 1), Some(0x88));
        assert_eq!(w.swap_if::<u8>(0, 0x88, 2), Some(1));
        assert_eq!(w.swap_if::<u16>(2, 0x5566, 3), Some(0x5566));
        assert_eq!(w.swap_if::<u32>(4, 0x1122_3344, 5), Some(0x1122_3344));
        assert_eq!(w.load::<u64>(0), Some(0x0000_0005_0003_7701));
        assert_eq!(w.swap_if_16(0, [0x0000_0005_0003_7701, 0], [8, 9]), Some(true));
        assert_eq!(w.swap_if_16(0, [0, 0], [1, 1]), Some(false));
        assert_eq!(w.load_words(0), Some([8u64, 9]));
    }
}
