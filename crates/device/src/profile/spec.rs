//! The figures a profile may hold, one row a figure: name, unit, legal range, meaning.
//!
//! Invariants
//! - Every figure is an unsigned integer in its base unit (picoseconds, bytes, a second, a count),
//!   so the canonical form of a profile has one spelling on every platform.
//! - Parsing, validation, display, hashing and documentation loop over these rows; a figure's name
//!   is written once.
//!
//! Callers: [`super::Profile`] alone.

use std::fmt;

use littoral_base::units::{Bytes, PerSecond, Picos};

/// What a profile describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// Flash, or flash-like memory, that answers small reads.
    Flash,
}

impl DeviceKind {
    /// Every kind with its name.
    pub const ALL: [(&'static str, DeviceKind); 1] = [("flash", DeviceKind::Flash)];

    /// The rows of this kind.
    pub fn rows(self) -> &'static [Row] {
        match self {
            DeviceKind::Flash => FLASH,
        }
    }

    /// The name as a profile spells it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, k)| *k == self).expect("invariant: every kind is listed").0
    }
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Picoseconds; written as a text such as `"4us"`.
    Time,
    /// Bytes; written as a number or a text such as `"4KiB"`.
    Size,
    /// Operations or bytes a second; written as a number or a text such as `"44M"`.
    Rate,
    /// A plain count.
    Count,
    /// Millionths of a currency unit; written as a text such as `"0.12"`, or whole units.
    Price,
    /// Milliwatts; written as a text such as `"8.5 W"`.
    Power,
}

/// A decimal number of at most nine whole digits in parts of `1 / scale`.
fn decimal(text: &str, scale: u64, wanted: &str) -> Result<u64, String> {
    let bad = || format!("'{text}' is not {wanted}");
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let places = scale.ilog10() as usize;
    if !digits(whole) || !digits(part) || whole.len() > 9 || part.len() > places {
        return Err(bad());
    }
    let whole: u64 = whole.parse().map_err(|_| bad())?;
    let part: u64 = format!("{part:0<places$}").parse().map_err(|_| bad())?;
    Ok(whole * scale + part)
}

impl Unit {
    /// The suffix of a figure's name in machine-readable output.
    pub const fn suffix(self) -> &'static str {
        match self {
            Unit::Time => "ps",
            Unit::Size => "bytes",
            Unit::Rate => "per_s",
            Unit::Count => "count",
            Unit::Price => "micro",
            Unit::Power => "mw",
        }
    }

    /// The value as a person reads it.
    pub fn show(self, value: u64) -> String {
        match self {
            Unit::Time => Picos(value).to_string(),
            Unit::Size => Bytes(value).to_string(),
            Unit::Rate => PerSecond(value as f64).to_string(),
            Unit::Count => value.to_string(),
            Unit::Price => (value as f64 / 1e6).to_string(),
            Unit::Power => format!("{} W", value as f64 / 1e3),
        }
    }

    /// Reads a text in this unit.
    ///
    /// # Errors
    /// What would have been legal.
    pub fn parse(self, text: &str) -> Result<u64, String> {
        let words = |e: &dyn fmt::Display| e.to_string();
        match self {
            Unit::Time => text.parse::<Picos>().map(|p| p.0).map_err(|e| words(&e)),
            Unit::Size => text.parse::<Bytes>().map(|b| b.0).map_err(|e| words(&e)),
            Unit::Rate => text.parse::<PerSecond>().map(|r| r.0 as u64).map_err(|e| words(&e)),
            Unit::Count => text.parse().map_err(|_| format!("'{text}' is not a count such as 16")),
            Unit::Price => decimal(text.trim(), 1_000_000, "a price such as 0.12"),
            Unit::Power => {
                let number = text.trim().trim_end_matches(['W', 'w']).trim_end();
                decimal(number, 1_000, "a power such as 8.5 W")
            }
        }
    }
}

/// What a figure's value must obey beyond its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Any value of the range.
    Any,
    /// A power of two.
    PowerOfTwo,
}

/// One figure that a profile of some kind may hold.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Section and field, such as `read.latency`.
    pub key: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Least legal value in the base unit.
    pub least: u64,
    /// Greatest legal value in the base unit.
    pub greatest: u64,
    /// What it must obey beyond the range.
    pub rule: Rule,
    /// Whether every profile of the kind has it.
    pub required: bool,
    /// What it means.
    pub meaning: &'static str,
}

impl Row {
    /// The legal value nearest to `value`; `value` itself when it is legal.
    pub fn nearest(&self, value: u64) -> u64 {
        let clamped = value.clamp(self.least, self.greatest);
        match self.rule {
            Rule::Any => clamped,
            Rule::PowerOfTwo => nearest_power_of_two(clamped).clamp(self.least, self.greatest),
        }
    }

    /// What is legal, in words.
    pub fn legal(&self) -> String {
        let (least, greatest) = (self.unit.show(self.least), self.unit.show(self.greatest));
        match self.rule {
            Rule::Any => format!("{least} to {greatest}"),
            Rule::PowerOfTwo => format!("a power of two from {least} to {greatest}"),
        }
    }
}

fn nearest_power_of_two(value: u64) -> u64 {
    let above = value.checked_next_power_of_two().unwrap_or(1 << 63);
    let below = if above > 1 { above / 2 } else { above };
    if value.abs_diff(below) < above.abs_diff(value) { below } else { above }
}

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
pub(super) const FLASH: &[Row] = &[
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
        "most reads a second that one core's queue is served",
    ),
    row(
        "read.total_max",
        Unit::Rate,
        (1, TERA),
        Rule::Any,
        true,
        "most reads a second over all cores",
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
        Unit::Rate,
        (1, 1000 * TERA),
        Rule::Any,
        true,
        "most payload bytes a second over the host link",
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
        Unit::Rate,
        (1, TERA),
        Rule::Any,
        false,
        "bytes a second over one channel",
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

/// The row of `key`, if the kind has it.
pub(super) fn find(kind: DeviceKind, key: &str) -> Option<&'static Row> {
    kind.rows().iter().find(|r| r.key == key)
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn prices_and_powers_are_decimals() {
        assert_eq!(Unit::Price.parse("0.12"), Ok(120_000));
        assert_eq!(Unit::Power.parse("8.5 W"), Ok(8_500));
        assert_eq!(
            (Unit::Price.show(120_000), Unit::Power.show(8_500)),
            ("0.12".into(), "8.5 W".into())
        );
        for bad in ["", ".", "1.", "-1", "1e3", "0.1234567", "1234567890"] {
            assert!(Unit::Price.parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_unique_and_ranges_are_not_empty() {
        for (i, a) in FLASH.iter().enumerate() {
            assert!(a.least <= a.greatest, "{}", a.key);
            assert!(FLASH[..i].iter().all(|b| b.key != a.key), "{} twice", a.key);
        }
    }
}
