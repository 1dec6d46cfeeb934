//! The figures that a profile may hold, one row per figure: name, unit, legal range, meaning.
//!
//! Invariants
//! - A figure's name is written once: reading, validation, display, hashing and documentation loop
//!   over these rows. Checked by `names_are_unique_and_ranges_are_not_empty`,
//!   `every_figure_of_every_kind_stands_on_the_page`.

use super::spec::{Row, Rule, Unit};

const fn row(
    key: &'static str,
    unit: Unit,
    range: (u64, u64),
    rule: Rule,
    required: bool,
    meaning: &'static str,
) -> Row {
    Row { key, unit, least: range.0, greatest: range.1, rule, required, meaning }
}

const NS: u64 = 1_000;
const SECOND: u64 = 1_000_000_000_000;
const TERA: u64 = 1_000_000_000_000;

/// The figures of a flash profile.
pub(super) static FLASH: &[Row] = &[
    row(
        "read.latency",
        Unit::Time,
        (1, SECOND),
        Rule::Any,
        true,
        "from a request seen by the device to its last byte in memory, device idle",
    ),
    row(
        "read.per_core_max",
        Unit::Rate,
        (1, TERA),
        Rule::Any,
        true,
        "most reads per second that one core's queue is served",
    ),
    row(
        "read.total_max",
        Unit::Rate,
        (1, TERA),
        Rule::Any,
        true,
        "most reads per second over all cores",
    ),
    row(
        "read.granule_bytes",
        Unit::Size,
        (1, 1 << 16),
        Rule::PowerOfTwo,
        true,
        "addresses and lengths are multiples of it",
    ),
    row("read.bytes_max", Unit::Size, (1, 1 << 24), Rule::PowerOfTwo, true, "longest single read"),
    row(
        "link.bytes_max",
        Unit::Bandwidth,
        (1, 1000 * TERA),
        Rule::Any,
        true,
        "most payload bytes per second over the host link",
    ),
    row(
        "queue.depth",
        Unit::Count,
        (2, 1 << 20),
        Rule::Any,
        true,
        "entries of one core's submission queue",
    ),
    row(
        "queue.doorbell",
        Unit::Time,
        (0, 100_000 * NS),
        Rule::Any,
        false,
        "time a core loses to one uncached doorbell write; absent without doorbells",
    ),
    row(
        "nand.channels",
        Unit::Count,
        (1, 4096),
        Rule::Any,
        false,
        "channels between controller and chips",
    ),
    row(
        "nand.chips_per_channel",
        Unit::Count,
        (1, 4096),
        Rule::Any,
        false,
        "units of a channel that read at the same time (dies times planes)",
    ),
    row(
        "nand.page_bytes",
        Unit::Size,
        (64, 1 << 20),
        Rule::PowerOfTwo,
        false,
        "bytes of a flash page",
    ),
    row(
        "nand.pages_per_block",
        Unit::Count,
        (1, 1 << 20),
        Rule::Any,
        false,
        "pages erased together",
    ),
    row("nand.read", Unit::Time, (1, SECOND), Rule::Any, false, "cell array to page register"),
    row("nand.program", Unit::Time, (1, SECOND), Rule::Any, false, "page register to cell array"),
    row("nand.erase", Unit::Time, (1, 10 * SECOND), Rule::Any, false, "erasing a block"),
    row(
        "nand.channel_bytes_max",
        Unit::Bandwidth,
        (1, TERA),
        Rule::Any,
        false,
        "bytes per second over one channel",
    ),
    row(
        "cost.price_per_gb",
        Unit::Price,
        (0, 1_000_000_000_000),
        Rule::Any,
        false,
        "price of 10^9 bytes, in whatever currency profiles are compared in",
    ),
    row(
        "cost.power",
        Unit::Power,
        (0, 10_000_000),
        Rule::Any,
        false,
        "power of the device while it serves reads",
    ),
];

const EXBI: u64 = 1 << 60;
const ZONES_MAX: u64 = 1 << 24;

const fn zones(key: &'static str, range: (u64, u64), required: bool, meaning: &'static str) -> Row {
    row(key, Unit::Count, range, Rule::Any, required, meaning)
}

const fn bytes(key: &'static str, least: u64, required: bool, meaning: &'static str) -> Row {
    row(key, Unit::Size, (least, EXBI), Rule::Any, required, meaning)
}

const fn time(key: &'static str, greatest: u64, required: bool, meaning: &'static str) -> Row {
    row(key, Unit::Time, (0, greatest), Rule::Any, required, meaning)
}

/// The figures of a zoned device: those of its geometry, as a machine file has them too, then its
/// times.
pub(super) static ZONED: &[Row] = &[
    row(
        "geometry.block_bytes",
        Unit::Size,
        (512, 65_536),
        Rule::PowerOfTwo,
        true,
        "bytes of a logical block",
    ),
    zones("geometry.zones", (1, ZONES_MAX), true, "zones in all"),
    zones("geometry.conventional_zones", (0, ZONES_MAX), false, "leading zones written in place"),
    bytes("geometry.zone_size", 4096, true, "address space of a zone"),
    bytes("geometry.zone_capacity", 4096, false, "writable bytes of a sequential zone"),
    zones("geometry.open_zones_max", (0, ZONES_MAX), false, "most zones open; 0: no limit"),
    zones("geometry.active_zones_max", (0, ZONES_MAX), false, "most zones active; 0: no limit"),
    bytes("geometry.append_bytes_max", 0, false, "longest append; 0: no append command"),
    time("timing.read", SECOND, true, "reading one block"),
    time("timing.program", SECOND, true, "writing one block of a sequential zone"),
    time("timing.conventional", SECOND, true, "writing one block of a conventional zone"),
    time("timing.reset", 100 * SECOND, true, "resetting a zone"),
    time("timing.finish", 100 * SECOND, true, "finishing a zone"),
    time("timing.flush", SECOND, true, "a flush with nothing outstanding"),
    row(
        "timing.channels",
        Unit::Count,
        (1, 4096),
        Rule::Any,
        true,
        "requests served at the same time",
    ),
    row(
        "wear.step_resets",
        Unit::Count,
        (1, 1 << 32),
        Rule::Any,
        false,
        "resets after which a zone is one step slower; absent without wear",
    ),
    row(
        "wear.step",
        Unit::Percent,
        (0, 10_000),
        Rule::Any,
        false,
        "how much slower one step makes a zone",
    ),
];

/// The figures of persistent memory.
pub(super) static MEMORY: &[Row] = &[
    time("write.latency", SECOND, true, "from a fence to durability of one line, idle"),
    row(
        "write.line_bytes",
        Unit::Size,
        (64, 1 << 20),
        Rule::PowerOfTwo,
        true,
        "the unit that the medium writes",
    ),
    row(
        "write.bytes_max",
        Unit::Bandwidth,
        (1, TERA),
        Rule::Any,
        true,
        "sustained random write bandwidth",
    ),
    bytes("write.buffer_bytes", 0, true, "bytes accepted ahead of the medium"),
    time("read.latency", SECOND, true, "random read; reported, not charged"),
];

const MILLI: u64 = 1_000_000_000;

/// The figures of one configuration of an interconnect.
pub(super) static FABRIC: &[Row] = &[
    time("send", 100 * MILLI, true, "processor time to hand a message to the network"),
    time("latency", 100 * MILLI, true, "from a message's last byte sent to its arrival"),
    time("byte", MILLI, true, "interface time per byte"),
    time(
        "acknowledge",
        100 * MILLI,
        true,
        "what a sender waits after its last byte; 0: it does not",
    ),
    time("trap", 100 * MILLI, true, "processor time to take a message in; 0: hardware does"),
    time("fault", 100 * MILLI, true, "processor time into and out of a page fault's handler"),
    time("board", 100 * MILLI, false, "an operation of the lock manager in hardware"),
    time("operation", MILLI, true, "processor time of one operation that a program declares"),
];

/// The figures of a device that computes, and of its host.
pub(super) static PUSH: &[Row] = &[
    row(
        "nand.channels",
        Unit::Count,
        (1, 4096),
        Rule::Any,
        true,
        "channels between controller and chips",
    ),
    row(
        "nand.chips_per_channel",
        Unit::Count,
        (1, 4096),
        Rule::Any,
        true,
        "units of a channel that read at the same time (dies times planes)",
    ),
    row(
        "nand.page_bytes",
        Unit::Size,
        (64, 1 << 20),
        Rule::PowerOfTwo,
        true,
        "bytes of a flash page",
    ),
    row(
        "nand.pages_per_block",
        Unit::Count,
        (1, 1 << 20),
        Rule::Any,
        true,
        "pages erased together",
    ),
    row("nand.read", Unit::Time, (1, SECOND), Rule::Any, true, "cell array to page register"),
    row("nand.program", Unit::Time, (1, SECOND), Rule::Any, true, "page register to cell array"),
    row("nand.erase", Unit::Time, (1, 10 * SECOND), Rule::Any, true, "erasing a block"),
    row(
        "nand.channel_bytes_max",
        Unit::Bandwidth,
        (1, TERA),
        Rule::Any,
        true,
        "bytes per second over one channel",
    ),
    rate("bus.bytes_max", "bytes per second between flash controller and device memory"),
    rate("link.bytes_max", "bytes per second from device to host"),
    count("core.count", (1, 1024), "cores that run page functions and firmware"),
    count("core.clock_mhz", (1, 100_000), "clock of a core in MHz"),
    count("core.cpi_milli", (1, 1_000_000), "cycles per instruction in thousandths"),
    count("core.budget", (1, EXBI), "instructions that a page function may spend on one page"),
    count("core.firmware_read", (0, 1 << 32), "instructions per page read for a host"),
    count("core.firmware_write", (0, 1 << 32), "instructions per page written for a host"),
    count("core.firmware_move", (0, 1 << 32), "instructions per page that collection moves"),
    count("dram.pages", (1, 1 << 30), "fetched pages that device memory holds"),
    count("host.cores", (1, 4096), "cores of the host"),
    count("host.queue_depth", (1, 1 << 20), "slots of a host queue"),
];

const fn rate(key: &'static str, meaning: &'static str) -> Row {
    row(key, Unit::Bandwidth, (1, 1000 * TERA), Rule::Any, true, meaning)
}

const fn count(key: &'static str, range: (u64, u64), meaning: &'static str) -> Row {
    row(key, Unit::Count, range, Rule::Any, true, meaning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::DeviceKind;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn the_nearest_legal_value_is_legal_and_no_other_is_nearer(value in 0u64..1 << 20, i in 0..FLASH.len()) {
            let row = &FLASH[i];
            let near = row.nearest(value);
            prop_assert!((row.least..=row.greatest).contains(&near));
            prop_assert_eq!(row.nearest(near), near);
            if row.rule == Rule::PowerOfTwo {
                prop_assert!(near.is_power_of_two());
                let best = (0..63).map(|b| 1u64 << b)
                    .filter(|p| (row.least..=row.greatest).contains(p))
                    .map(|p| p.abs_diff(value)).min().unwrap();
                prop_assert_eq!(near.abs_diff(value), best);
            }
        }
    }

    #[test]
    fn names_are_unique_and_ranges_are_not_empty() {
        for (_, kind) in DeviceKind::ALL {
            let rows = kind.rows();
            for (i, a) in rows.iter().enumerate() {
                assert!(a.least <= a.greatest, "{}", a.key);
                assert!(rows[..i].iter().all(|b| b.key != a.key), "{} twice", a.key);
                let sections = usize::from(kind != DeviceKind::Fabric);
                assert_eq!(a.key.matches('.').count(), sections, "{}", a.key);
            }
        }
    }
}
