//! 128 bits as an array of lanes and back, and the register file as one array of lanes, which the
//! compiler turns into the host's vector code; shifts and masks of 128-bit integers it does not.
#![allow(unsafe_code)]

use crate::state::Vreg;

// Lane 0 is the low bits and the first element.
const _: () = assert!(cfg!(target_endian = "little"), "lanes are laid out little-endian");

/// A lane whose array fills 128 bits.
pub(in super::super) trait Array: Copy {
    /// All lanes.
    type All: AsRef<[Self]> + AsMut<[Self]> + Copy;
    /// The lanes of a vector.
    fn split(v: u128) -> Self::All;
    /// The vector of lanes.
    fn join(all: Self::All) -> u128;
    /// The lanes of one half of a register where they are.
    fn half(v: &Vreg, n: usize) -> &Self::All;
    /// As `half`.
    fn half_mut(v: &mut Vreg, n: usize) -> &mut Self::All;
}

macro_rules! array {
    ($($type:ty)*) => {
        $(impl Array for $type {
            type All = [$type; 16 / size_of::<$type>()];
            #[inline(always)]
            #[allow(unnecessary_transmutes)]
            fn split(v: u128) -> Self::All {
                // SAFETY: both are 16 plain bytes without padding or invalid values.
                unsafe { std::mem::transmute(v) }
            }
            #[inline(always)]
            #[allow(unnecessary_transmutes)]
            fn join(all: Self::All) -> u128 {
                // SAFETY: as `split`.
                unsafe { std::mem::transmute(all) }
            }
            #[inline(always)]
            fn half(v: &Vreg, n: usize) -> &Self::All {
                // SAFETY: a register is two halves of 16 plain bytes, aligned to 32.
                unsafe { &*std::ptr::from_ref(v).cast::<Self::All>().add(n & 1) }
            }
            #[inline(always)]
            fn half_mut(v: &mut Vreg, n: usize) -> &mut Self::All {
                // SAFETY: as `half`, borrowed for as long.
                unsafe { &mut *std::ptr::from_mut(v).cast::<Self::All>().add(n & 1) }
            }
        })*
    };
}
array!(i8 u8 i16 u16 i32 u32 i64 u64 i128 u128);

/// The register file as words.
#[inline(always)]
pub(in super::super) fn words(v: &mut [Vreg; 32]) -> &mut [u32; 256] {
    const { assert!(size_of::<[Vreg; 32]>() == 256 * 4) };
    // SAFETY: the same plain bytes, of smaller alignment, borrowed for as long.
    unsafe { &mut *std::ptr::from_mut(v).cast() }
}

/// The register file as doublewords.
#[inline(always)]
pub(in super::super) fn doublewords(v: &mut [Vreg; 32]) -> &mut [u64; 128] {
    const { assert!(size_of::<[Vreg; 32]>() == 128 * 8) };
    // SAFETY: as `words`.
    unsafe { &mut *std::ptr::from_mut(v).cast() }
}
