//! What an interconnect's operations take, as profiles: the simulator's constants, each with its
//! source.
//!
//! ```toml
//! schema = "littoral.fabric/1"
//! name = "loongson-2e"
//! summary = "what it stands for"
//!
//! [cluster]                # one table a configuration
//! send = { value = "60us", basis = "fitted", source = "..." }
//! ```
//!
//! A configuration is named `profile:configuration`, or by its profile alone when it is the only
//! one. The shipped profiles are `loongson-2e` (paper 002's cluster, its board with TCP/IP over
//! remote memory, and its board with the lock manager), `tcp`, `rdma` and `cxl-pool`.
//!
//! ```
//! use littoral_device::fabric::timing::{FabricProfile, Timing};
//! let cluster = Timing::open("loongson-2e:cluster")?;
//! assert!(cluster.board.is_none());
//! assert_eq!(FabricProfile::open("loongson-2e")?.configurations().count(), 3);
//! # Ok::<(), littoral_device::Error>(())
//! ```
//!
//! Invariants
//! - A [`FabricProfile`] is valid: each configuration has every required figure, in its range, with
//!   basis and source; errors name file, line, field and the nearest legal value.
//! - [`FabricProfile::hash`] covers names and values, not sources or spelling.
//! - Nothing here is a measurement of this machine; results say *modelled* and carry the hash.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use littoral_base::units::Picos;

use super::sim::LogGp;
use crate::error::{Error, Kind, Result};
use crate::profile::{Figure, Row, Rule, Unit, fields, read_figure, suggestion, text_of};

/// The format that fabric profiles name in their field `schema`.
pub const SCHEMA: &str = "littoral.fabric/1";

const MILLI: u64 = 1_000_000_000;

const fn row(key: &'static str, greatest: u64, required: bool, meaning: &'static str) -> Row {
    Row { key, unit: Unit::Time, least: 0, greatest, rule: Rule::Any, required, meaning }
}

/// The figures of a configuration.
pub static ROWS: [Row; 8] = [
    row("send", 100 * MILLI, true, "processor time to hand a message to the network"),
    row("latency", 100 * MILLI, true, "from a message's last byte sent to its being there"),
    row("byte", MILLI, true, "interface time a byte"),
    row(
        "acknowledge",
        100 * MILLI,
        true,
        "what a sender waits after its last byte; 0: it does not",
    ),
    row("trap", 100 * MILLI, true, "processor time to take a message in; 0: hardware does"),
    row("fault", 100 * MILLI, true, "processor time into and out of a page fault's handler"),
    row("board", 100 * MILLI, false, "an operation of the lock manager in hardware; absent: none"),
    row("operation", MILLI, true, "processor time of one operation that a program declares"),
];

/// What a configuration's operations take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Processor time to hand a message to the network.
    pub send: Picos,
    /// From the last byte sent to the message in the receiver's memory.
    pub latency: Picos,
    /// A byte on the interface.
    pub byte: Picos,
    /// What a sender waits after its last byte for the receiver's acknowledgement, where messages
    /// are sent one by one; zero where they are not.
    pub acknowledge: Picos,
    /// Processor time to take a message in: interrupt, handler, copies. Zero where hardware does.
    pub trap: Picos,
    /// Entering and leaving the fault handler, twin included.
    pub fault: Picos,
    /// One operation of the lock manager in hardware; absent where a rank manages locks.
    pub board: Option<Picos>,
    /// One operation that a program declares (`Job::work`).
    pub operation: Picos,
}

impl Timing {
    /// The configuration of that name; see the module's page.
    ///
    /// # Errors
    /// As [`FabricProfile::open`]; `Kind::Profile` when the profile has several configurations and
    /// the name does not say which.
    pub fn open(name: &str) -> Result<Timing> {
        FabricProfile::resolve(name).map(|(_, _, timing)| timing)
    }

    /// The constants of the simulated fabric's one-sided operations, which an agent carries out
    /// where there is no hardware.
    pub fn loggp(&self) -> LogGp {
        LogGp {
            latency: self.latency,
            overhead: self.send,
            gap: self.acknowledge,
            byte: self.byte,
            service: self.trap,
            board: self.board.unwrap_or(self.trap),
        }
    }
}

/// A profile of an interconnect; see the module's page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricProfile {
    name: String,
    summary: String,
    configurations: Vec<(String, BTreeMap<&'static str, Figure>)>,
}

const SHIPPED: [(&str, &str); 4] = [
    ("loongson-2e", include_str!("shipped/loongson-2e.toml")),
    ("tcp", include_str!("shipped/tcp.toml")),
    ("rdma", include_str!("shipped/rdma.toml")),
    ("cxl-pool", include_str!("shipped/cxl-pool.toml")),
];

impl FabricProfile {
    /// The names of the shipped profiles.
    pub fn shipped() -> impl Iterator<Item = &'static str> + Clone {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// A shipped profile, or the file at `name` when `name` looks like a path (has a `/` or ends in
    /// `.toml`).
    ///
    /// # Errors
    /// `Kind::Io` when the file cannot be read, `Kind::Profile` for a name that is not there, with
    /// the nearest, and as [`FabricProfile::parse`].
    pub fn open(name: &str) -> Result<FabricProfile> {
        Self::parse(&text_of("fabric profile", &SHIPPED, name)?, name)
    }

    /// The profile, configuration and constants that `profile[:configuration]` names.
    ///
    /// # Errors
    /// As [`Timing::open`].
    pub fn resolve(name: &str) -> Result<(FabricProfile, String, Timing)> {
        let (file, wanted) = match name.rsplit_once(':') {
            Some((file, wanted)) => (file, Some(wanted)),
            None => (name, None),
        };
        let profile = Self::open(file)?;
        let found = match (wanted, &profile.configurations[..]) {
            (None, [(only, _)]) => only.clone(),
            (None, _) => {
                let all: Vec<_> = profile.configurations().collect();
                let what = format!(
                    "profile `{file}` has several configurations; write `{file}:{}` or another of \
                     {}",
                    all[0],
                    all.join(", ")
                );
                return Err(Error::new(Kind::Profile, what));
            }
            (Some(wanted), _) => wanted.to_owned(),
        };
        let timing = profile.timing(&found)?;
        Ok((profile, found, timing))
    }

    /// Reads a profile from `text`; `origin` names it in errors.
    ///
    /// # Errors
    /// `Kind::Profile` with file, line, field and the nearest legal value; `Kind::Unsupported` for
    /// another format.
    pub fn parse(text: &str, origin: &str) -> Result<FabricProfile> {
        let origin = fields::Origin { name: origin, text };
        let document = fields::parse(origin)?;
        let mut top = fields::Fields::new(origin, "", &document, 0);
        let (schema, at) = top.required_text("schema")?;
        if schema != SCHEMA {
            let message = format!("schema is `{schema}`, this build reads `{SCHEMA}`");
            return Err(Error::new(Kind::Unsupported, format!("{}: {message}", origin.place(at))));
        }
        let name = top.required_text("name")?.0.to_owned();
        let summary = top.required_text("summary")?.0.to_owned();
        let mut configurations = Vec::new();
        let heads = ["schema", "name", "summary"];
        for found in top.names().into_iter().filter(|n| !heads.contains(&n.as_str())) {
            let table = top.table(&found)?.ok_or_else(|| top.missing(&found))?;
            configurations.push((found, read_configuration(table)?));
        }
        if configurations.is_empty() {
            return Err(origin.error(0, "no configuration; write a table such as `[cluster]`"));
        }
        Ok(FabricProfile { name, summary, configurations })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One sentence on what it stands for.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// The names of the configurations, in order of name.
    pub fn configurations(&self) -> impl Iterator<Item = &str> {
        self.configurations.iter().map(|(name, _)| name.as_str())
    }

    /// Every figure of a configuration with its row; none for a name that is not there.
    pub fn figures(&self, configuration: &str) -> impl Iterator<Item = (&'static Row, &Figure)> {
        let found = self.configurations.iter().filter(move |(n, _)| n == configuration);
        found.flat_map(|(_, figures)| ROWS.iter().filter_map(|r| Some((r, figures.get(r.key)?))))
    }

    /// The constants of a configuration.
    ///
    /// # Errors
    /// `Kind::Profile` with the nearest name.
    pub fn timing(&self, configuration: &str) -> Result<Timing> {
        let found = self.configurations.iter().find(|(name, _)| name == configuration);
        let Some((_, figures)) = found else {
            let known = self.configurations.iter().map(|(n, _)| n.as_str());
            let hint = suggestion(configuration, known);
            let what = format!("profile `{}` has no configuration `{configuration}`", self.name);
            return Err(Error::new(Kind::Profile, format!("{what}{hint}")));
        };
        let time = |key: &str| Picos(figures.get(key).map_or(0, |f| f.value));
        Ok(Timing {
            send: time("send"),
            latency: time("latency"),
            byte: time("byte"),
            acknowledge: time("acknowledge"),
            trap: time("trap"),
            fault: time("fault"),
            board: figures.get("board").map(|f| Picos(f.value)),
            operation: time("operation"),
        })
    }

    /// The canonical form: one line a figure, base units, no sources.
    pub fn canonical(&self) -> String {
        let mut out = format!("{SCHEMA}\nname={}\n", self.name);
        for (name, _) in &self.configurations {
            for (row, figure) in self.figures(name) {
                writeln!(out, "{name}.{}_{}={}", row.key, row.unit.suffix(), figure.value)
                    .expect("invariant: writing to a string succeeds");
            }
        }
        out
    }

    /// XXH3-64 of the canonical form, as sixteen hexadecimal digits.
    pub fn hash(&self) -> String {
        format!("{:016x}", xxhash_rust::xxh3::xxh3_64(self.canonical().as_bytes()))
    }
}

fn read_configuration(mut table: fields::Fields<'_, '_>) -> Result<BTreeMap<&'static str, Figure>> {
    let mut figures = BTreeMap::new();
    for row in &ROWS {
        match read_figure(&mut table, row.key, row)? {
            Some(figure) => _ = figures.insert(row.key, figure),
            None if row.required => return Err(table.missing(row.key)),
            None => {}
        }
    }
    table.finish()?;
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        FabricProfile::parse(text, "f.toml").unwrap_err().to_string()
    }

    #[test]
    fn every_shipped_profile_is_valid_sourced_and_named_as_asked() {
        for name in FabricProfile::shipped() {
            let profile = FabricProfile::open(name).unwrap();
            assert_eq!(profile.name(), name);
            for configuration in profile.configurations() {
                assert!(profile.timing(configuration).is_ok());
                assert!(profile.figures(configuration).all(|(_, f)| !f.source.is_empty()));
            }
        }
    }

    #[test]
    fn mistakes_are_named_with_line_and_remedy() {
        let good = include_str!("shipped/tcp.toml");
        for (from, to, wanted) in [
            ("send = {", "sent = {", "field `default.send` is missing"),
            ("basis = \"public\"", "basis = \"publik\"", "did you mean `public`?"),
            ("name = \"tcp\"", "nme = \"tcp\"", "field `name` is missing"),
            ("littoral.fabric/1", "littoral.fabric/9", "this build reads `littoral.fabric/1`"),
            ("[default]", "[default]\nboared = 3", "did you mean `board`?"),
        ] {
            let e = refused(&good.replacen(from, to, 1));
            assert!(e.contains(wanted) && e.contains("f.toml"), "{to}: {e}");
        }
        let over = refused(&good.replacen("\"5us\"", "\"5s\"", 1));
        assert!(over.contains("nearest legal value 100 ms"), "{over}");
        assert!(
            refused("schema = \"littoral.fabric/1\"\nname = \"a\"\nsummary = \"b\"")
                .contains("no configuration")
        );
    }

    #[test]
    fn names_lead_to_configurations_or_say_which_there_are() {
        assert!(Timing::open("rdma").is_ok());
        let several = Timing::open("loongson-2e").unwrap_err().to_string();
        assert!(several.contains("loongson-2e:cluster"), "{several}");
        let typo = Timing::open("loongson-2e:clutser").unwrap_err().to_string();
        assert!(typo.contains("did you mean `cluster`?"), "{typo}");
        let typo = Timing::open("rdam").unwrap_err().to_string();
        assert!(typo.contains("did you mean `rdma`?"), "{typo}");
    }

    #[test]
    fn the_hash_is_of_values_and_not_of_spelling() {
        let text = include_str!("shipped/tcp.toml");
        let plain = FabricProfile::parse(text, "a").unwrap();
        let other = text.replace("basis = \"public\"", "basis = \"assumed\"");
        let same = FabricProfile::parse(&other, "b").unwrap();
        assert_eq!(plain.hash(), same.hash());
        let changed = FabricProfile::parse(&text.replacen("5us", "6us", 1), "c").unwrap();
        assert_ne!(plain.hash(), changed.hash());
    }
}
