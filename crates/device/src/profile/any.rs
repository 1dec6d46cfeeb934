//! Every shipped profile under one name space, whatever kind of device it describes.
//!
//! - A name is shipped once over all kinds (a test), so that a name alone says which profile.
//! - A file's kind follows from what stands in it: its `schema`, or the tables that only zoned
//!   devices have, or the figures that only memory has.
//! - A figure is a number and its unit; times are nanoseconds here, whatever the kind's own unit.
//!
//! Callers: what shows profiles. An engine opens the profile of its own kind.

use std::path::Path;

use super::{Basis, Profile, SHIPPED, Unit, suggestion};
use crate::error::{Error, Kind, Result};
use crate::fabric::timing::FabricProfile;
use crate::pmem::PmemProfile;
use crate::zoned::timing::Profile as ZonedProfile;

/// A profile of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyProfile {
    /// Flash that answers small reads.
    Flash(Profile),
    /// Zoned flash or a zoned disk, with the name it was opened by.
    Zoned(String, ZonedProfile),
    /// An interconnect.
    Fabric(FabricProfile),
    /// Persistent memory.
    Memory(PmemProfile),
}

/// One figure of a profile of any kind.
#[derive(Clone, Debug, PartialEq)]
pub struct AnyFigure {
    /// Section and field, such as `read.latency`.
    pub key: String,
    /// The value in `unit`.
    pub value: f64,
    /// `ns`, `bytes`, `per_s`, `bytes_per_s`, `percent` or `count`.
    pub unit: &'static str,
    /// What stands behind it; absent where the profile names one source for all its figures.
    pub basis: Option<Basis>,
    /// The source in words.
    pub source: String,
}

impl AnyProfile {
    /// The names of the shipped profiles of every kind.
    pub fn shipped() -> impl Iterator<Item = &'static str> + Clone {
        let flash = SHIPPED.iter().map(|(name, _)| *name);
        let zoned = ZonedProfile::names();
        flash.chain(zoned).chain(FabricProfile::shipped()).chain([PmemProfile::SHIPPED])
    }

    /// A shipped profile of any kind, or the file at `name` when `name` looks like a path (has a
    /// `/` or ends in `.toml`).
    ///
    /// # Errors
    /// `Kind::Profile` with the nearest name when there is none, `Kind::Io` when the file cannot be
    /// read, else as the reading of the kind found.
    pub fn open(name: &str) -> Result<AnyProfile> {
        if name.contains('/') || name.ends_with(".toml") {
            return Self::load(name);
        }
        if ZonedProfile::names().any(|n| n == name) {
            return Ok(AnyProfile::Zoned(name.to_owned(), ZonedProfile::named(name)?));
        }
        if FabricProfile::shipped().any(|n| n == name) {
            return FabricProfile::open(name).map(AnyProfile::Fabric);
        }
        if name == PmemProfile::SHIPPED {
            return Ok(AnyProfile::Memory(PmemProfile::optane_dcpmm()));
        }
        if Profile::shipped().any(|n| n == name) {
            return Profile::named(name).map(AnyProfile::Flash);
        }
        let hint = suggestion(name, Self::shipped());
        Err(Error::new(Kind::Profile, format!("there is no profile `{name}`{hint}")))
    }

    fn load(path: &str) -> Result<AnyProfile> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::with_source(Kind::Io, format!("reading profile {path}"), e))?;
        let table: toml::Table = text
            .parse()
            .map_err(|e| Error::with_source(Kind::Profile, format!("profile {path}"), e))?;
        let schema = table.get("schema").and_then(toml::Value::as_str);
        let file = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
        if schema == Some(crate::fabric::timing::SCHEMA) {
            return FabricProfile::parse(&text, path).map(AnyProfile::Fabric);
        }
        if table.contains_key("geometry") || table.contains_key("timing") {
            let parsed = ZonedProfile::parse(&text).map_err(|e| e.in_context(path))?;
            return Ok(AnyProfile::Zoned(file.into_owned(), parsed));
        }
        if table.contains_key("media_line_bytes") {
            return PmemProfile::parse(&text, path).map(AnyProfile::Memory);
        }
        Profile::parse(&text, path).map(AnyProfile::Flash)
    }

    /// The name.
    pub fn name(&self) -> &str {
        match self {
            AnyProfile::Flash(p) => p.name(),
            AnyProfile::Zoned(name, _) => name,
            AnyProfile::Fabric(p) => p.name(),
            AnyProfile::Memory(p) => &p.name,
        }
    }

    /// The kind of device, as a machine file spells it.
    pub fn kind(&self) -> &'static str {
        match self {
            AnyProfile::Flash(_) => "flash",
            AnyProfile::Zoned(..) => "zoned",
            AnyProfile::Fabric(_) => "fabric",
            AnyProfile::Memory(_) => "memory",
        }
    }

    /// One sentence on what the profile stands for.
    pub fn summary(&self) -> &str {
        match self {
            AnyProfile::Flash(p) => p.summary(),
            AnyProfile::Zoned(_, p) => &p.summary,
            AnyProfile::Fabric(p) => p.summary(),
            AnyProfile::Memory(p) => &p.summary,
        }
    }

    /// How the host talks to the device, where kinds differ in that.
    pub fn interface(&self) -> Option<&'static str> {
        match self {
            AnyProfile::Flash(p) => Some(p.interface().name()),
            _ => None,
        }
    }

    /// The hash of names and values, sixteen hexadecimal digits.
    pub fn hash(&self) -> String {
        match self {
            AnyProfile::Flash(p) => p.hash(),
            AnyProfile::Zoned(_, p) => p.hash(),
            AnyProfile::Fabric(p) => p.hash(),
            AnyProfile::Memory(p) => p.hash(),
        }
    }

    /// Every figure, in the order of the kind's own list.
    pub fn figures(&self) -> Vec<AnyFigure> {
        match self {
            AnyProfile::Flash(p) => {
                p.figures().map(|(row, f)| figure(row.key.to_owned(), row.unit, f)).collect()
            }
            AnyProfile::Fabric(p) => p
                .configurations()
                .flat_map(|c| {
                    p.figures(c)
                        .map(move |(row, f)| figure(format!("{c}.{}", row.key), row.unit, f))
                })
                .collect(),
            AnyProfile::Zoned(_, p) => {
                let geometry = numbers("geometry.", &p.geometry, &p.timing.source);
                let timing = numbers("timing.", &p.timing, &p.timing.source);
                geometry.into_iter().chain(timing).collect()
            }
            AnyProfile::Memory(p) => numbers("", p, &p.source),
        }
    }
}

fn figure(key: String, unit: Unit, figure: &super::Figure) -> AnyFigure {
    let value = figure.value as f64;
    let (value, unit) = match unit {
        Unit::Time => (value / 1e3, "ns"),
        Unit::Size => (value, "bytes"),
        Unit::Rate => (value, "per_s"),
        Unit::Count => (value, "count"),
        Unit::Price => (value / 1e6, "price"),
        Unit::Power => (value / 1e3, "w"),
    };
    AnyFigure { key, value, unit, basis: Some(figure.basis), source: figure.source.clone() }
}

/// The numbers of a structure whose fields end in their units.
fn numbers(prefix: &str, fields: &impl serde::Serialize, source: &str) -> Vec<AnyFigure> {
    let table = toml::Table::try_from(fields).expect("invariant: a profile is a table of numbers");
    let number = |(key, value): (&String, &toml::Value)| {
        let value = value.as_integer()? as f64;
        let (name, unit) = split_unit(key);
        let (key, source) = (format!("{prefix}{name}"), source.to_owned());
        Some(AnyFigure { key, value, unit, basis: None, source })
    };
    table.iter().filter_map(number).collect()
}

fn split_unit(key: &str) -> (&str, &'static str) {
    let units = [
        ("_bytes_per_s", "bytes_per_s"),
        ("_ns", "ns"),
        ("_bytes", "bytes"),
        ("_percent", "percent"),
    ];
    let found = units.iter().find_map(|(end, unit)| Some((key.strip_suffix(end)?, *unit)));
    found.unwrap_or((key, "count"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn all_twelve_shipped_profiles_open_by_name_and_by_file() {
        let names: BTreeSet<&str> = AnyProfile::shipped().collect();
        assert_eq!((names.len(), AnyProfile::shipped().count()), (12, 12), "a name stands twice");
        let mut kinds = BTreeSet::new();
        for name in names {
            let profile = AnyProfile::open(name).unwrap();
            assert_eq!(profile.name(), name);
            assert!(!profile.summary().is_empty(), "{name} says what it stands for");
            assert_eq!(profile.hash().len(), 16);
            let figures = profile.figures();
            assert!(figures.len() >= 5, "{name}: {figures:?}");
            assert!(figures.iter().all(|f| !f.source.is_empty()), "{name}: {figures:?}");
            kinds.insert(profile.kind());
        }
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["fabric", "flash", "memory", "zoned"]);
    }

    #[test]
    fn a_file_of_every_kind_is_recognised() {
        let dir = tempfile::tempdir().unwrap();
        for (kind, text) in [
            ("flash", include_str!("shipped/xlfdd.toml")),
            ("zoned", include_str!("../zoned/profiles/smr-disk.toml")),
            ("fabric", include_str!("../fabric/shipped/tcp.toml")),
            ("memory", include_str!("../../profiles/optane-dcpmm.toml")),
        ] {
            let path = dir.path().join(format!("{kind}.toml"));
            std::fs::write(&path, text).unwrap();
            let profile = AnyProfile::open(path.to_str().unwrap()).unwrap();
            assert_eq!(profile.kind(), kind);
        }
        let absent = AnyProfile::open("./absent.toml").unwrap_err();
        assert_eq!(absent.kind(), Kind::Io);
    }

    #[test]
    fn an_unknown_name_brings_the_nearest_of_every_kind() {
        for (typo, near) in [("xlfd", "xlfdd"), ("smr-disc", "smr-disk"), ("rdna", "rdma")] {
            let error = AnyProfile::open(typo).unwrap_err().to_string();
            assert!(error.contains(&format!("did you mean `{near}`?")), "{error}");
        }
    }
}
