//! Newtypes for places and quantities, and the parsers behind every size, time and rate a user
//! types.
//!
//! - Time is integer picoseconds ([`Picos`]); u64 holds 213 days.
//! - Sizes are bytes; `KiB MiB GiB TiB` are powers of 1024, `kB MB GB TB` powers of 1000, a bare
//!   number is bytes.
//! - Rates are operations a second with `k M G`.
//! - Parsers return the offending text and what would have been legal.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! place {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl $name {
            /// The value as an index, checked against the platform's address width.
            #[inline]
            pub fn index(self) -> usize {
                usize::try_from(self.0).expect("invariant: an index fits usize")
            }
        }
    };
}

place! {
    /// A logical block address, in blocks of the device's logical block size.
    Lba(u64)
}
place! {
    /// A zone of a zoned device, counted from zero.
    ZoneId(u32)
}
place! {
    /// A page of a file or device, counted from zero.
    PageNo(u64)
}
place! {
    /// A node (rank) of a fabric, counted from zero.
    NodeId(u16)
}
place! {
    /// A logical timestamp; its meaning is the engine's.
    Timestamp(u64)
}

/// Integer picoseconds: a point on a clock or a length of time.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Picos(pub u64);

impl Picos {
    /// Zero.
    pub const ZERO: Picos = Picos(0);
    /// The far end of time.
    pub const MAX: Picos = Picos(u64::MAX);

    /// From nanoseconds, saturating.
    pub const fn from_nanos(ns: u64) -> Picos {
        Picos(ns.saturating_mul(1_000))
    }
    /// From microseconds, saturating.
    pub const fn from_micros(us: u64) -> Picos {
        Picos(us.saturating_mul(1_000_000))
    }
    /// Whole nanoseconds, rounded down.
    pub const fn as_nanos(self) -> u64 {
        self.0 / 1_000
    }
    /// Seconds, for display only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }
    /// The difference, zero when `earlier` is later.
    #[must_use]
    pub const fn saturating_sub(self, earlier: Picos) -> Picos {
        Picos(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Picos {
    type Output = Picos;
    fn add(self, other: Picos) -> Picos {
        Picos(self.0.checked_add(other.0).expect("invariant: times fit 213 days"))
    }
}

impl AddAssign for Picos {
    fn add_assign(&mut self, other: Picos) {
        *self = *self + other;
    }
}

impl Sub for Picos {
    type Output = Picos;
    fn sub(self, other: Picos) -> Picos {
        Picos(self.0.checked_sub(other.0).expect("invariant: subtraction of a later time"))
    }
}

impl fmt::Display for Picos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p = self.0;
        match p {
            0..1_000 => write!(f, "{p} ps"),
            1_000..1_000_000 => write!(f, "{} ns", trim(p as f64 / 1e3)),
            1_000_000..1_000_000_000 => write!(f, "{} us", trim(p as f64 / 1e6)),
            1_000_000_000..1_000_000_000_000 => write!(f, "{} ms", trim(p as f64 / 1e9)),
            _ => write!(f, "{} s", trim(p as f64 / 1e12)),
        }
    }
}

fn trim(x: f64) -> String {
    let s = format!("{x:.3}");
    s.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A text that is no size, time, rate or range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseUnitError {
    text: String,
    wanted: &'static str,
}

impl fmt::Display for ParseUnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not {}", self.text, self.wanted)
    }
}

impl std::error::Error for ParseUnitError {}

type Scale = (&'static str, f64);

fn parse_scaled(text: &str, scales: &[Scale], wanted: &'static str) -> Result<f64, ParseUnitError> {
    let bad = || ParseUnitError { text: text.to_owned(), wanted };
    let body = text.trim();
    let split = body.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(body.len());
    let number: f64 = body[..split].parse().map_err(|_| bad())?;
    let suffix = body[split..].trim();
    let scale = scales.iter().find(|(name, _)| name.eq_ignore_ascii_case(suffix));
    let value = number * scale.ok_or_else(bad)?.1;
    if value.is_finite() && value < 9.0e18 { Ok(value) } else { Err(bad()) }
}

const SIZES: &[Scale] = &[
    ("", 1.0),
    ("B", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
];
const TIMES: &[Scale] =
    &[("ps", 1.0), ("ns", 1e3), ("us", 1e6), ("µs", 1e6), ("ms", 1e9), ("s", 1e12)];
const RATES: &[Scale] = &[("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9)];

/// A size in bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_scaled(text, SIZES, "a size such as 4096, 64KiB or 4GiB").map(|v| Bytes(v as u64))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = self.0 as f64;
        match self.0 {
            0..1024 => write!(f, "{} B", self.0),
            1024..1_048_576 => write!(f, "{} KiB", trim(b / 1024.0)),
            1_048_576..1_073_741_824 => write!(f, "{} MiB", trim(b / 1_048_576.0)),
            _ => write!(f, "{} GiB", trim(b / 1_073_741_824.0)),
        }
    }
}

impl FromStr for Picos {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_scaled(text, TIMES, "a time with a unit, such as 800ns, 4us or 1.5ms")
            .map(|v| Picos(v as u64))
    }
}

/// Operations a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PerSecond(pub f64);

impl FromStr for PerSecond {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let text = text.strip_suffix("/s").unwrap_or(text).trim_end();
        parse_scaled(text, RATES, "a rate a second such as 500k, 44M or 1G").map(PerSecond)
    }
}

impl fmt::Display for PerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let r = self.0;
        if r >= 1e9 {
            write!(f, "{} G/s", trim(r / 1e9))
        } else if r >= 1e6 {
            write!(f, "{} M/s", trim(r / 1e6))
        } else if r >= 1e3 {
            write!(f, "{} k/s", trim(r / 1e3))
        } else {
            write!(f, "{} /s", trim(r))
        }
    }
}

/// An inclusive range typed as `A..B`, or a single value typed as `A`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span<T> {
    /// The low end.
    pub from: T,
    /// The high end, not below `from`.
    pub to: T,
}

impl<T: FromStr<Err = ParseUnitError> + PartialOrd + Copy> FromStr for Span<T> {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (a, b) = text.split_once("..").unwrap_or((text, text));
        let (from, to) = (a.parse()?, b.trim_start_matches('=').parse()?);
        if from <= to {
            Ok(Span { from, to })
        } else {
            Err(ParseUnitError { text: text.to_owned(), wanted: "a range from low to high" })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_times_and_rates_parse_with_their_units() {
        assert_eq!("4GiB".parse(), Ok(Bytes(4 << 30)));
        assert_eq!("1.5 KiB".parse(), Ok(Bytes(1536)));
        assert_eq!("4us".parse(), Ok(Picos::from_micros(4)));
        assert_eq!("44M".parse(), Ok(PerSecond(44e6)));
        assert_eq!(PerSecond(44e6).to_string().parse(), Ok(PerSecond(44e6)));
        let span: Span<Picos> = "1us..20us".parse().unwrap();
        assert_eq!((span.from, span.to), (Picos::from_micros(1), Picos::from_micros(20)));
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for bad in ["", "GiB", "4 parsecs", "-1", "1e400", "4..5"] {
            assert!(bad.parse::<Bytes>().is_err(), "{bad} parsed");
        }
        assert!("4".parse::<Picos>().is_err(), "a time needs a unit");
        assert!("9us..1us".parse::<Span<Picos>>().is_err());
        let message = "x".parse::<Bytes>().unwrap_err().to_string();
        assert!(message.contains("'x'") && message.contains("4GiB"), "{message}");
    }

    #[test]
    fn display_is_short_and_has_a_unit() {
        assert_eq!(Picos::from_nanos(4_500).to_string(), "4.5 us");
        assert_eq!(Bytes(512 << 20).to_string(), "512 MiB");
        assert_eq!(PerSecond(44e6).to_string(), "44 M/s");
    }
}
