//! What the tests of small devices share.

use littoral_device::zoned::zones::Geometry;

/// A device small enough that every part of the layout is met, with tight limits.
pub(crate) const GEOMETRY: Geometry = Geometry {
    block_bytes: 512,
    conventional_zones: 1,
    sequential_zones: 9,
    zone_blocks: 130,
    capacity_blocks: 101,
    open_zones_max: 2,
    active_zones_max: 4,
    append_blocks_max: 0,
};

/// Key `i`: in no order, and no two alike.
pub(crate) fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}
