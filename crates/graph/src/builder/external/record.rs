//! An edge or arc as it lies in temporary files: 8 bytes, 12 with a weight.

use bytemuck::Pod;

/// Two ends and perhaps a weight. Records compare by the first end, the second, the weight.
pub(super) trait Record: Pod + Ord + Send + Sync {
    /// The record of `ends`; the weight is dropped where there is none.
    fn new(ends: [u32; 2], weight: f32) -> Self;
    /// Both ends.
    fn ends(self) -> [u32; 2];
    /// The weight; 0 without one.
    fn weight(self) -> f32;
    /// Sorts records.
    fn sort(records: &mut [Self]);

    /// The same weight between other ends.
    #[inline(always)]
    fn between(self, ends: [u32; 2]) -> Self {
        Self::new(ends, self.weight())
    }
}

impl Record for u64 {
    #[inline(always)]
    fn new([a, b]: [u32; 2], _weight: f32) -> Self {
        u64::from(a) << 32 | u64::from(b)
    }
    #[inline(always)]
    fn ends(self) -> [u32; 2] {
        [(self >> 32) as u32, self as u32]
    }
    #[inline(always)]
    fn weight(self) -> f32 {
        0.0
    }
    fn sort(records: &mut [Self]) {
        records.sort_unstable();
    }
}

/// Ends and the bits of a weight. Weights are finite and not negative, so bits order as they do.
impl Record for [u32; 3] {
    #[inline(always)]
    fn new([a, b]: [u32; 2], weight: f32) -> Self {
        // Zero has no sign as a weight.
        [a, b, (weight + 0.0).to_bits()]
    }
    #[inline(always)]
    fn ends(self) -> [u32; 2] {
        [self[0], self[1]]
    }
    #[inline(always)]
    fn weight(self) -> f32 {
        f32::from_bits(self[2])
    }
    fn sort(records: &mut [Self]) {
        records.sort_unstable_by_key(|r| (u64::new(r.ends(), 0.0), r[2]));
    }
}
