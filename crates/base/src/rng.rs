//! The one random generator engines are given: seeded, splittable by name, reproducible for ever.
//!
//! Invariant: the stream of a `(seed, name)` pair never changes between versions, since seeds are
//! part of published figures. xoshiro256++ is seeded through SplitMix64 as its authors advise.
//! Checked by `streams_are_fixed_and_apart`.

pub use rand::{Rng as RngCore, RngExt as Rng};
use rand_xoshiro::rand_core::SeedableRng;

/// The generator: xoshiro256++.
pub type Generator = rand_xoshiro::Xoshiro256PlusPlus;

/// The generator of `seed`.
pub fn seeded(seed: u64) -> Generator {
    Generator::seed_from_u64(seed)
}

/// An independent stream of `seed` for one named use, so that adding a user of randomness does not
/// shift the numbers of another.
pub fn stream(seed: u64, name: &str) -> Generator {
    let tag = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    seeded(mix(seed ^ mix(tag)))
}

/// SplitMix64's finaliser: a bijection of `u64` that scatters neighbouring inputs.
pub const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_fixed_and_apart() {
        assert_eq!(seeded(1).next_u64(), seeded(1).next_u64());
        assert_ne!(stream(1, "a").next_u64(), stream(1, "b").next_u64());
        assert_ne!(stream(1, "a").next_u64(), stream(2, "a").next_u64());
    }
}
