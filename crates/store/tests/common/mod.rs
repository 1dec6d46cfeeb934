//! What the tests of small stores share.

use littoral_device::zoned::zones::Geometry;

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: usize = 512;

/// The smallest device that has room to collect: eight zones of 98 blocks, so many of them
/// conventional.
pub(crate) const fn geometry(conventional_zones: u32) -> Geometry {
    Geometry {
        block_bytes: BLOCK_BYTES as u32,
        conventional_zones,
        sequential_zones: 8 - conventional_zones,
        zone_blocks: 98,
        capacity_blocks: 98,
        open_zones_max: 4,
        active_zones_max: 6,
        append_blocks_max: 0,
    }
}
