//! The small store that several tests make.

use littoral::kv::{Engine, Options};
use littoral_device::zoned::zones::Geometry;

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
