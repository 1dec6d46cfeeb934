//! What a figure of a profile is: its unit, its rule, its row.
//!
//! Invariants
//! - Every figure is an unsigned integer in its base unit (picoseconds, bytes, a second, a count),
//!   so the canonical form of a profile has one spelling on every platform. Checked by
//!   `the_hash_sees_values_and_nothing_else`.
//! - Parsing, validation, display, hashing and documentation loop over these rows; a figure's name
//!   is written once. Checked by `names_are_unique_and_ranges_are_not_empty`.
//!
//! The rows themselves are those of [`super::rows`].

use std::fmt;

use littoral_base::units::{Bytes, PerSecond, Picos};

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Picoseconds; written as a text such as `"4us"`.
    Time,
    /// Bytes; written as a number or a text such as `"4KiB"`.
    Size,
    /// Operations per second; written as a number or a text such as `"44M"`.
    Rate,
    /// Bytes per second; written as a number or a text such as `"12.8G"`.
    Bandwidth,
    /// Per cent.
    Percent,
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
            Unit::Rate | Unit::Bandwidth => "per_s",
            Unit::Percent => "percent",
            Unit::Count => "count",
            Unit::Price => "micro",
            Unit::Power => "mw",
        }
    }

    /// The unit's name in machine-readable output, with [`Unit::number`].
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Time => "ns",
            Unit::Size => "bytes",
            Unit::Rate => "per_s",
            Unit::Bandwidth => "bytes_per_s",
            Unit::Percent => "percent",
            Unit::Count => "count",
            Unit::Price => "price",
            Unit::Power => "w",
        }
    }

    /// The value in the unit that [`Unit::name`] names.
    pub fn number(self, value: u64) -> f64 {
        let value = value as f64;
        match self {
            Unit::Time | Unit::Power => value / 1e3,
            Unit::Price => value / 1e6,
            _ => value,
        }
    }

    /// The value as a person reads it.
    pub fn show(self, value: u64) -> String {
        match self {
            Unit::Time => Picos(value).to_string(),
            Unit::Size => Bytes(value).to_string(),
            Unit::Rate => PerSecond(value as f64).to_string(),
            Unit::Bandwidth => PerSecond(value as f64).to_string().replace("/s", "B/s"),
            Unit::Percent => format!("{value} %"),
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
            Unit::Bandwidth => {
                let rate = text.replace("B/s", "/s").parse::<PerSecond>();
                rate.map(|r| r.0 as u64).map_err(|e| words(&e))
            }
            Unit::Percent => {
                let number = text.trim().trim_end_matches('%').trim_end();
                number.parse().map_err(|_| format!("'{text}' is not a percentage such as 10"))
            }
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
    /// The key without its section.
    pub fn field(&self) -> &'static str {
        self.key.rsplit_once('.').map_or(self.key, |(_, field)| field)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_shown_value_is_read_as_the_same_value() {
        for (unit, value) in [
            (Unit::Bandwidth, 12_800_000_000),
            (Unit::Percent, 10),
            (Unit::Rate, 44_000_000),
            (Unit::Time, 4_000_000),
            (Unit::Size, 4096),
        ] {
            assert_eq!(unit.parse(&unit.show(value)), Ok(value), "{unit:?}");
        }
    }
}
