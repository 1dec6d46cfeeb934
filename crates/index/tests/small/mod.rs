//! The small store that several tests make.

use littoral_device::zoned::zones::Geometry;
use littoral_index::index::Engine;
use littoral_index::kv::Options;

/// Options of a store of one conventional and seven sequential zones.
pub(crate) fn small(engine: Engine) -> Options {
    let options = Options::new(engine, 7);
    let geometry = Geometry {
        conventional_zones: 1,
        sequential_zones: 7,
        zone_blocks: 130,
        capacity_blocks: 101,
        open_zones_max: 2,
        active_zones_max: 4,
        ..options.geometry
    };
    Options { geometry, ..options }
}
