//! Limits of resources that are a program's own. The host's limits of the same name would limit the
//! engine too, whose reservation of addresses is larger than any limit that a program sets.
//!
//! Invariant: a limit that is written as text reads back equal. Checked by
//! `a_limit_reads_back_as_it_is_written`.

use littoral_base::units::Bytes;
use std::fmt;
use std::str::FromStr;

/// No limit (RLIM_INFINITY).
pub const UNLIMITED: u64 = u64::MAX;
/// How no limit is written.
const UNLIMITED_NAME: &str = "unlimited";

/// A resource that the guest's process counts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Private writable memory (RLIMIT_DATA).
    Data,
    /// The first stack (RLIMIT_STACK).
    Stack,
    /// Addresses (RLIMIT_AS).
    Addresses,
}

impl Resource {
    /// Each of them; their places in a list are their values.
    pub const ALL: [Resource; 3] = [Resource::Data, Resource::Stack, Resource::Addresses];

    fn name(self) -> &'static str {
        match self {
            Resource::Data => "data",
            Resource::Stack => "stack",
            Resource::Addresses => "as",
        }
    }
}

/// A limit in bytes, [`UNLIMITED`] for none: the one that counts, and how far a program may raise
/// it. Written `NAME=SOFT:HARD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What is limited.
    pub resource: Resource,
    /// The limit that counts, in bytes.
    pub soft: u64,
    /// How far it may be raised, in bytes.
    pub hard: u64,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: u64| match value {
            UNLIMITED => String::from(UNLIMITED_NAME),
            bytes => bytes.to_string(),
        };
        write!(f, "{}={}:{}", self.resource.name(), shown(self.soft), shown(self.hard))
    }
}

impl FromStr for Limit {
    type Err = String;

    /// One value stands for both.
    fn from_str(text: &str) -> Result<Limit, String> {
        let bad = || String::from("not NAME=SOFT:HARD, where NAME is as, data or stack");
        let (name, values) = text.split_once('=').ok_or_else(bad)?;
        let resource = Resource::ALL.into_iter().find(|r| r.name() == name).ok_or_else(bad)?;
        let (soft, hard) = values.split_once(':').unwrap_or((values, values));
        let (soft, hard) = (value(soft)?, value(hard)?);
        match soft <= hard {
            true => Ok(Limit { resource, soft, hard }),
            false => Err("the limit is above the one up to which it may be raised".into()),
        }
    }
}

fn value(text: &str) -> Result<u64, String> {
    match text {
        UNLIMITED_NAME => Ok(UNLIMITED),
        // A program's own number is exact, which one with a unit need not be.
        bytes => match bytes.parse() {
            Ok(bytes) => Ok(bytes),
            Err(_) => Ok(bytes.parse::<Bytes>().map_err(|e| e.to_string())?.0),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_reads_back_as_it_is_written() {
        for resource in Resource::ALL {
            for (soft, hard) in
                [(0, 0), (4097, u64::MAX - 1), (1, UNLIMITED), (UNLIMITED, UNLIMITED)]
            {
                let limit = Limit { resource, soft, hard };
                assert_eq!(limit.to_string().parse::<Limit>(), Ok(limit));
            }
        }
        let both = Limit { resource: Resource::Stack, soft: 1 << 20, hard: 1 << 20 };
        assert_eq!("stack=1MiB".parse::<Limit>(), Ok(both));
    }

    #[test]
    fn what_is_no_limit_is_refused() {
        for bad in ["", "as", "as=", "as=x", "as=2:1", "as=unlimited:1", "files=1", "=1"] {
            assert!(bad.parse::<Limit>().is_err(), "{bad}");
        }
    }
}
