//! Profiles: what a device can do, as data, each figure with its source.
//!
//! A profile is a TOML file. Every figure is a table `{ value, basis, source }`: the basis says
//! whether the figure comes from a paper, from public pages, from a measurement, or is assumed. The
//! kinds of device share the format; each has its own rows ([`DeviceKind::rows`]). The shipped
//! profiles are the files of `profiles/`; a user's own is read from a path. How the figures become
//! behaviour is on `docs/design/profiles.md`.
//!
//! ```
//! use littoral_device::profile::Profile;
//! let xlfdd = Profile::named("xlfdd")?;
//! assert_eq!(xlfdd.flash()?.latency.as_nanos(), 4_000);
//! let slower = xlfdd.with("read.latency", "8us")?;
//! assert_ne!(slower.hash(), xlfdd.hash());
//! # Ok::<(), littoral_device::Error>(())
//! ```
//!
//! Invariants
//! - A `Profile` value is valid: every required figure is there, every figure is in its range.
//!   Checked by `every_shipped_profile_is_valid_and_named_as_it_is_asked_for`,
//!   `a_change_is_checked_and_marks_the_name`.
//! - [`Profile::hash`] covers kind, name, interface and values in one canonical spelling; comments,
//!   sources and the order of fields do not change it. Checked by
//!   `the_hash_sees_values_and_nothing_else`.
//! - A name is shipped once over all kinds, so that a name alone says which profile. Checked by
//!   `every_shipped_profile_is_valid_and_named_as_it_is_asked_for`.
//! - An error names file, line, field and the nearest legal value. Checked by
//!   `errors_name_line_field_and_nearest_legal_value`,
//!   `mistakes_in_profiles_of_every_kind_are_named_with_line_and_remedy`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::error::{Error, Kind, Result};

pub(crate) mod fields;
mod kinds;
pub mod machine;
mod rows;
mod spec;

pub use fields::suggestion;
use fields::{Fields, Origin, Scalar};
pub use kinds::{DeviceKind, Flash, Memory, Push, Zoned};
pub use spec::{Row, Rule, Unit};

/// The format that profile files name in their field `schema`.
pub const SCHEMA: &str = "littoral.profile/1";

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// A paper about the device.
    Paper,
    /// A vendor's or reviewer's public page.
    Public,
    /// A measurement by littoral's own benches.
    Measured,
    /// Adjusted until a model reproduced published figures, which the source names.
    Fitted,
    /// An assumption, its reason given as the source.
    Assumed,
    /// Given by the user on the command line.
    Given,
}

const BASES: [(&str, Basis); 6] = [
    ("paper", Basis::Paper),
    ("public", Basis::Public),
    ("measured", Basis::Measured),
    ("fitted", Basis::Fitted),
    ("assumed", Basis::Assumed),
    ("given", Basis::Given),
];

impl Basis {
    /// The name as a profile spells it.
    pub fn name(self) -> &'static str {
        BASES.iter().find(|(_, b)| *b == self).expect("invariant: every basis is listed").0
    }
}

/// One figure of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The value in the base unit of its row.
    pub value: u64,
    /// What stands behind it.
    pub basis: Basis,
    /// The source in words.
    pub source: String,
}

/// How the host talks to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// Polled submission ring, completion found in memory, no doorbell, no completion queue (paper
    /// 003).
    Lightweight,
    /// NVMe queue pair with doorbells and a completion queue (paper 003's baseline).
    Doorbell,
    /// Loads over a memory bus or CXL.mem.
    Load,
}

const INTERFACES: [(&str, Interface); 3] = [
    ("lightweight", Interface::Lightweight),
    ("doorbell", Interface::Doorbell),
    ("load", Interface::Load),
];

impl Interface {
    /// The name as a profile spells it.
    pub fn name(self) -> &'static str {
        INTERFACES.iter().find(|(_, i)| *i == self).expect("invariant: every interface is listed").0
    }
}

/// How modelled flash hands its data over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transfer {
    /// As a pointer into its contents: the transfer costs the host nothing.
    #[default]
    Pointer,
    /// Copied into a buffer at the host's expense.
    Copy,
}

impl Transfer {
    /// Every way with its name in machine files.
    pub const ALL: [(&'static str, Transfer); 2] =
        [("pointer", Transfer::Pointer), ("copy", Transfer::Copy)];
}

/// A device's figures; see the module's page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    name: String,
    summary: String,
    kind: DeviceKind,
    interface: Option<Interface>,
    figures: BTreeMap<String, Figure>,
}

/// A shipped profile: its name, its kind and its file.
macro_rules! shipped {
    ($($name:literal $kind:ident),+ $(,)?) => {
        [$(($name, DeviceKind::$kind, include_str!(concat!("../../profiles/", $name, ".toml")))),+]
    };
}

/// Every shipped profile, whatever it describes.
const SHIPPED: [(&str, DeviceKind, &str); 14] = shipped![
    "xlfdd" Flash,
    "nvme-tlc" Flash,
    "nvme-optane" Flash,
    "cxl-flash" Flash,
    "zns-paper" Zoned,
    "zns-ssd" Zoned,
    "smr-disk" Zoned,
    "optane-dcpmm" Memory,
    "loongson-2e" Fabric,
    "tcp" Fabric,
    "rdma" Fabric,
    "cxl-pool" Fabric,
    "summarizer-board" Push,
    "compute-ssd" Push,
];

impl Profile {
    /// The names of the shipped profiles of every kind.
    pub fn shipped() -> impl Iterator<Item = &'static str> + Clone {
        SHIPPED.iter().map(|(name, ..)| *name)
    }

    /// The names of the shipped profiles of one kind.
    pub fn shipped_of(kind: DeviceKind) -> impl Iterator<Item = &'static str> + Clone {
        SHIPPED.iter().filter(move |(_, k, _)| *k == kind).map(|(name, ..)| *name)
    }

    /// The shipped profile of that name.
    ///
    /// # Errors
    /// `Kind::Profile` with the nearest name when there is none.
    pub fn named(name: &str) -> Result<Profile> {
        if let Some((_, _, text)) = SHIPPED.iter().find(|(n, ..)| *n == name) {
            return Self::parse(text, name);
        }
        let hint = suggestion(name, Self::shipped());
        Err(Error::new(Kind::Profile, format!("there is no profile `{name}`{hint}")))
    }

    /// A shipped profile, or the file at `name` when `name` looks like a path (has a `/` or ends in
    /// `.toml`).
    ///
    /// # Errors
    /// `Kind::Io` when the file cannot be read, else as [`Profile::parse`].
    pub fn open(name: &str) -> Result<Profile> {
        if !(name.contains('/') || name.ends_with(".toml")) {
            return Self::named(name);
        }
        let text = std::fs::read_to_string(name)
            .map_err(|e| Error::with_source(Kind::Io, format!("reading profile {name}"), e))?;
        Self::parse(&text, name)
    }

    /// The profile and the configuration that `profile[:configuration]` names; a profile with one
    /// configuration needs none named.
    ///
    /// # Errors
    /// As [`Profile::open`]; `Kind::Profile` when the profile has several configurations and the
    /// name does not say which, or has none of that name, or is of another kind.
    pub fn configured(name: &str) -> Result<(Profile, String)> {
        let (file, wanted) = match name.rsplit_once(':') {
            Some((file, wanted)) => (file, Some(wanted)),
            None => (name, None),
        };
        let profile = Self::open(file)?;
        profile.expect_kind(DeviceKind::Fabric)?;
        let all = profile.configurations();
        let found = match (wanted, &all[..]) {
            (None, [only]) => (*only).to_owned(),
            (None, _) => {
                let what = format!(
                    "profile `{file}` has several configurations; write `{file}:{}` or another of \
                     {}",
                    all[0],
                    all.join(", ")
                );
                return Err(Error::new(Kind::Profile, what));
            }
            (Some(wanted), _) if all.contains(&wanted) => wanted.to_owned(),
            (Some(wanted), _) => {
                let hint = suggestion(wanted, all.iter().copied());
                let what = format!("profile `{}` has no configuration `{wanted}`", profile.name);
                return Err(Error::new(Kind::Profile, format!("{what}{hint}")));
            }
        };
        Ok((profile, found))
    }

    /// Reads a profile from `text`; `origin` names it in errors.
    ///
    /// # Errors
    /// `Kind::Profile` with file, line, field and the nearest legal value.
    pub fn parse(text: &str, origin: &str) -> Result<Profile> {
        let origin = Origin { name: origin, text };
        let document = fields::parse(origin)?;
        let mut top = Fields::new(origin, "", &document, 0);
        let (schema, at) = top.required_text("schema")?;
        if schema != SCHEMA {
            let message = format!("schema is `{schema}`, this build reads `{SCHEMA}`");
            return Err(Error::new(Kind::Unsupported, format!("{}: {message}", origin.place(at))));
        }
        let name = top.required_text("name")?.0.to_owned();
        let summary = top.required_text("summary")?.0.to_owned();
        let kind = choice(&mut top, "kind", &DeviceKind::ALL)?;
        let interface = match kind {
            DeviceKind::Flash => Some(choice(&mut top, "interface", &INTERFACES)?),
            _ => None,
        };
        let figures = match kind {
            DeviceKind::Fabric => read_configurations(&mut top)?,
            _ => read_figures(&mut top, kind)?,
        };
        top.finish()?;
        let profile = Profile { name, summary, kind, interface, figures };
        profile.check().map_err(|m| origin.error(0, m))?;
        Ok(profile)
    }

    /// The profile with one figure replaced; its basis becomes [`Basis::Given`] and its name gains
    /// the change, so that no result can pass for the unchanged device's.
    ///
    /// # Errors
    /// `Kind::Profile` for an unknown figure or a value out of range.
    pub fn with(&self, key: &str, value: &str) -> Result<Profile> {
        let known = self.keys();
        let Some((_, row)) = known.iter().find(|(k, _)| k == key) else {
            let hint = suggestion(key, known.iter().map(|(k, _)| k.as_str()));
            return Err(Error::new(Kind::Profile, format!("unknown figure `{key}`{hint}")));
        };
        let bad = |m: String| Error::new(Kind::Profile, format!("`{key}`: {m}"));
        let value = in_range(row, row.unit.parse(value).map_err(bad)?).map_err(bad)?;
        let mut changed = self.clone();
        write!(changed.name, "+{key}={}", row.unit.show(value).replace(' ', ""))
            .expect("invariant: writing to a string succeeds");
        let figure = Figure { value, basis: Basis::Given, source: "given by the user".to_owned() };
        changed.figures.insert(key.to_owned(), figure);
        changed.check().map_err(|m| Error::new(Kind::Profile, m))?;
        Ok(changed)
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One sentence on what the device is.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// What it describes.
    pub fn kind(&self) -> DeviceKind {
        self.kind
    }

    /// How the host talks to the device, where its kind has a choice.
    pub fn interface(&self) -> Option<Interface> {
        self.interface
    }

    /// The names of an interconnect's configurations, in order; none for another kind.
    pub fn configurations(&self) -> Vec<&str> {
        if self.kind != DeviceKind::Fabric {
            return Vec::new();
        }
        let heads = self.figures.keys().filter_map(|k| Some(k.rsplit_once('.')?.0));
        let mut all: Vec<&str> = heads.collect();
        all.dedup();
        all
    }

    /// Every key that the profile may hold, with its row.
    fn keys(&self) -> Vec<(String, &'static Row)> {
        let rows = self.kind.rows();
        if self.kind != DeviceKind::Fabric {
            return rows.iter().map(|row| (row.key.to_owned(), row)).collect();
        }
        let all = self.configurations().into_iter();
        all.flat_map(|c| rows.iter().map(move |row| (format!("{c}.{}", row.key), row))).collect()
    }

    /// Every figure with its key and row, in the order of the kind's rows.
    pub fn figures(&self) -> impl Iterator<Item = (String, &'static Row, &Figure)> {
        let found = |(key, row): (String, _)| self.figures.get(&key).map(|f| (key, row, f));
        self.keys().into_iter().filter_map(found)
    }

    /// The value of a figure in the base unit of its row, such as `value("read.latency")`.
    pub fn value(&self, key: &str) -> Option<u64> {
        self.figures.get(key).map(|f| f.value)
    }

    /// The canonical form: one line per figure, base units, no sources.
    pub fn canonical(&self) -> String {
        let mut out = format!("{SCHEMA}\nkind={}\nname={}\n", self.kind.name(), self.name);
        if let Some(interface) = self.interface {
            out.push_str(&format!("interface={}\n", interface.name()));
        }
        for (key, row, figure) in self.figures() {
            writeln!(out, "{key}_{}={}", row.unit.suffix(), figure.value)
                .expect("invariant: writing to a string succeeds");
        }
        out
    }

    /// XXH3-64 of the canonical form, as sixteen hexadecimal digits.
    pub fn hash(&self) -> String {
        format!("{:016x}", xxhash_rust::xxh3::xxh3_64(self.canonical().as_bytes()))
    }

    /// Price of 10^9 bytes, in the currency of the profiles compared.
    pub fn price_per_gb(&self) -> Option<f64> {
        self.value("cost.price_per_gb").map(|micro| micro as f64 / 1e6)
    }

    /// Watts while it serves reads.
    pub fn power_w(&self) -> Option<f64> {
        self.value("cost.power").map(|mw| mw as f64 / 1e3)
    }

    /// The profile itself when it describes a device of `kind`.
    ///
    /// # Errors
    /// `Kind::Profile` naming both kinds and the shipped profiles of the wanted one.
    pub fn expect_kind(&self, kind: DeviceKind) -> Result<&Profile> {
        if self.kind == kind {
            return Ok(self);
        }
        let known: Vec<_> = Self::shipped_of(kind).collect();
        let (name, found, wanted) = (&self.name, self.kind.name(), kind.name());
        let message = format!(
            "profile `{name}` describes a {found} device, wanted {wanted}; shipped are {}",
            known.join(", ")
        );
        Err(Error::new(Kind::Profile, message))
    }

    fn required(&self, key: &str) -> u64 {
        self.value(key).expect("invariant: a valid profile has its required figures")
    }

    /// What no single row can check.
    fn check(&self) -> std::result::Result<(), String> {
        for (key, row) in self.keys().iter().filter(|(_, row)| row.required) {
            if !self.figures.contains_key(key) {
                return Err(format!("field `{key}` is missing ({})", row.meaning));
            }
        }
        match self.kind {
            DeviceKind::Flash => self.check_flash(),
            DeviceKind::Zoned => self.check_zoned(),
            DeviceKind::Memory | DeviceKind::Push => Ok(()),
            DeviceKind::Fabric if self.figures.is_empty() => {
                Err("no configuration; write a table such as `[cluster]`".to_owned())
            }
            DeviceKind::Fabric => Ok(()),
        }
    }
}

fn choice<T: Copy>(fields: &mut Fields<'_, '_>, key: &str, all: &[(&'static str, T)]) -> Result<T> {
    let (word, at) = fields.required_text(key)?;
    match all.iter().find(|(n, _)| *n == word) {
        Some((_, value)) => Ok(*value),
        None => {
            let hint = suggestion(word, all.iter().map(|(n, _)| *n));
            let name = fields.name(key);
            Err(fields.origin.error(at, format_args!("`{name}` is `{word}`{hint}")))
        }
    }
}

fn read_figures(top: &mut Fields<'_, '_>, kind: DeviceKind) -> Result<BTreeMap<String, Figure>> {
    let mut figures = BTreeMap::new();
    let mut sections: Vec<&'static str> = Vec::new();
    for row in kind.rows() {
        let section = split_key(row).0;
        if !sections.contains(&section) {
            sections.push(section);
        }
    }
    for section in sections {
        let Some(mut fields) = top.table(section)? else { continue };
        for row in kind.rows() {
            let (head, field) = split_key(row);
            if head != section {
                continue;
            }
            if let Some(figure) = read_figure(&mut fields, field, row)? {
                figures.insert(row.key.to_owned(), figure);
            }
        }
        fields.finish()?;
    }
    Ok(figures)
}

fn split_key(row: &Row) -> (&'static str, &'static str) {
    row.key.split_once('.').expect("invariant: a key has a section")
}

/// The figures of every configuration of an interconnect: each table but the profile's own fields.
fn read_configurations(top: &mut Fields<'_, '_>) -> Result<BTreeMap<String, Figure>> {
    let mut figures = BTreeMap::new();
    let own = ["schema", "name", "summary", "kind"];
    for found in top.names().into_iter().filter(|n| !own.contains(&n.as_str())) {
        let mut table = top.table(&found)?.ok_or_else(|| top.missing(&found))?;
        for row in DeviceKind::Fabric.rows() {
            match read_figure(&mut table, row.key, row)? {
                Some(figure) => _ = figures.insert(format!("{found}.{}", row.key), figure),
                None if row.required => return Err(table.missing(row.key)),
                None => {}
            }
        }
        table.finish()?;
    }
    Ok(figures)
}

fn read_figure(fields: &mut Fields<'_, '_>, field: &str, row: &Row) -> Result<Option<Figure>> {
    let Some(mut inner) = fields.table(field)? else { return Ok(None) };
    let (value, at) = inner.number_or_text("value")?.ok_or_else(|| inner.missing("value"))?;
    let parsed = match value {
        Scalar::Number(_) if row.unit == Unit::Time => {
            Err(format!("a time needs a unit, such as \"{}\"", row.unit.show(4_000_000)))
        }
        Scalar::Number(n) if row.unit == Unit::Price => Ok(n.saturating_mul(1_000_000)),
        Scalar::Number(n) if row.unit == Unit::Power => Ok(n.saturating_mul(1_000)),
        Scalar::Number(n) => Ok(n),
        Scalar::Text(text) => row.unit.parse(text),
    };
    let name = row.key;
    let value = parsed
        .and_then(|v| in_range(row, v))
        .map_err(|m| inner.origin.error(at, format_args!("`{name}`: {m}")))?;
    let basis = choice(&mut inner, "basis", &BASES)?;
    let (source, at) = inner.required_text("source")?;
    if source.trim().is_empty() {
        return Err(inner.origin.error(at, format_args!("`{name}.source` is empty")));
    }
    let figure = Figure { value, basis, source: source.to_owned() };
    inner.finish()?;
    Ok(Some(figure))
}

fn in_range(row: &Row, value: u64) -> std::result::Result<u64, String> {
    let nearest = row.nearest(value);
    if nearest == value {
        return Ok(value);
    }
    Err(format!(
        "{} is not {}; nearest legal value {}",
        row.unit.show(value),
        row.legal(),
        row.unit.show(nearest)
    ))
}

#[cfg(test)]
mod tests;
