//! Lanes of 128 bits.

use super::raw::Array;

/// An integer lane.
pub(super) trait Lane: Array {
    /// Width.
    const BITS: u32;
    /// Lanes in 128 bits.
    const COUNT: u32 = 128 / Self::BITS;
    /// The low bits of a value.
    fn cut(value: u128) -> Self;
    /// The lane's bits, zero-extended.
    fn bits(self) -> u128;
}

macro_rules! lanes {
    ($($type:ty, $unsigned:ty;)*) => {
        $(impl Lane for $type {
            const BITS: u32 = <$type>::BITS;
            #[inline(always)]
            fn cut(value: u128) -> Self {
                value as $type
            }
            #[inline(always)]
            fn bits(self) -> u128 {
                self as $unsigned as u128
            }
        })*
    };
}

lanes! {
    i8, u8; u8, u8; i16, u16; u16, u16; i32, u32; u32, u32; i64, u64; u64, u64; i128, u128; u128, u128;
}

/// Lane `n` of a vector.
#[inline(always)]
pub(super) fn get<T: Lane>(v: u128, n: u32) -> T {
    T::split(v).as_ref()[n as usize]
}

/// The vector with lane `n` replaced.
#[inline(always)]
pub(super) fn put<T: Lane>(v: u128, n: u32, lane: T) -> u128 {
    let mut all = T::split(v);
    all.as_mut()[n as usize] = lane;
    T::join(all)
}

/// The vector whose lane n is f(n).
#[inline(always)]
pub(super) fn build<T: Lane>(f: impl Fn(u32) -> T) -> u128 {
    let mut all = T::split(0);
    for (n, lane) in all.as_mut().iter_mut().enumerate() {
        *lane = f(n as u32);
    }
    T::join(all)
}
