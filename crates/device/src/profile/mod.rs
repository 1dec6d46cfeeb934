//! Profiles: what a device can do, as data, each figure with its source.
//!
//! A profile is a TOML file. Every figure is a table `{ value, basis, source }`: the basis says
//! whether the figure comes from a paper, from public pages, from a measurement, or is assumed. The
//! shipped profiles are the files of `profile/shipped`; a user's own is read from a path. How the
//! figures become behaviour is on `docs/design/profiles.md`.
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
//! - [`Profile::hash`] covers kind, name, interface and values in one canonical spelling; comments,
//!   sources and the order of fields do not change it. Every result carries it.
//! - An error names file, line, field and the nearest legal value.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use littoral_base::units::Picos;

use crate::error::{Error, Kind, Result};

mod any;
pub(crate) mod fields;
pub mod machine;
mod spec;

pub use any::{AnyFigure, AnyProfile};
pub use fields::suggestion;
use fields::{Fields, Origin, Scalar};
pub use spec::{DeviceKind, Row, Rule, Unit};

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
    /// 003, L1 to L5).
    Lightweight,
    /// NVMe queue pair with doorbells and a completion queue (paper 003, N1 to N8).
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

/// A device's figures; see the module's page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    name: String,
    summary: String,
    kind: DeviceKind,
    interface: Interface,
    figures: BTreeMap<&'static str, Figure>,
}

/// The figures of a flash profile, ready for an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flash {
    /// From a request seen by the idle device to its last byte in memory.
    pub latency: Picos,
    /// Most reads a second that one core's queue is served.
    pub reads_per_core_max: u64,
    /// Most reads a second over all cores.
    pub reads_total_max: u64,
    /// Addresses and lengths are multiples of this.
    pub granule_bytes: u32,
    /// Longest single read in bytes.
    pub read_bytes_max: u32,
    /// Most payload bytes a second over the host link.
    pub link_bytes_per_s: u64,
    /// Entries of one core's submission queue.
    pub queue_depth: u32,
    /// Time a core loses to one uncached doorbell write, where there are doorbells.
    pub doorbell: Option<Picos>,
    /// How the host talks to the device.
    pub interface: Interface,
    /// The flash behind it, where the profile describes it.
    pub nand: Option<Nand>,
}

/// The NAND section of a flash profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nand {
    /// Channels between controller and chips.
    pub channels: u32,
    /// Units of a channel that work at the same time (dies times planes).
    pub chips_per_channel: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages erased together.
    pub pages_per_block: u32,
    /// Cell array to page register.
    pub read: Picos,
    /// Page register to cell array.
    pub program: Picos,
    /// Erasing a block.
    pub erase: Picos,
    /// Bytes a second over one channel.
    pub channel_bytes_per_s: u64,
}

const SHIPPED: [(&str, &str); 4] = [
    ("xlfdd", include_str!("shipped/xlfdd.toml")),
    ("nvme-tlc", include_str!("shipped/nvme-tlc.toml")),
    ("nvme-optane", include_str!("shipped/nvme-optane.toml")),
    ("cxl-flash", include_str!("shipped/cxl-flash.toml")),
];

/// The text of a profile shipped under `name`; `what` says in an error what was looked for.
pub(crate) fn shipped_text(
    what: &str,
    shipped: &[(&'static str, &'static str)],
    name: &str,
) -> Result<&'static str> {
    if let Some((_, text)) = shipped.iter().find(|(n, _)| *n == name) {
        return Ok(text);
    }
    let hint = suggestion(name, shipped.iter().map(|(n, _)| *n));
    Err(Error::new(Kind::Profile, format!("there is no {what} `{name}`{hint}")))
}

/// The text of a shipped profile, or of the file at `name` when `name` looks like a path (has a `/`
/// or ends in `.toml`).
pub(crate) fn text_of(
    what: &str,
    shipped: &[(&'static str, &'static str)],
    name: &str,
) -> Result<Cow<'static, str>> {
    if !(name.contains('/') || name.ends_with(".toml")) {
        return shipped_text(what, shipped, name).map(Cow::Borrowed);
    }
    let read = std::fs::read_to_string(name);
    read.map(Cow::Owned)
        .map_err(|e| Error::with_source(Kind::Io, format!("reading profile {name}"), e))
}

impl Profile {
    /// The names of the shipped profiles.
    pub fn shipped() -> impl Iterator<Item = &'static str> + Clone {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// The shipped profile of that name.
    ///
    /// # Errors
    /// `Kind::Profile` with the nearest name when there is none.
    pub fn named(name: &str) -> Result<Profile> {
        Self::parse(shipped_text("profile", &SHIPPED, name)?, name)
    }

    /// A shipped profile, or the file at `name` when `name` looks like a path (has a `/` or ends in
    /// `.toml`).
    ///
    /// # Errors
    /// `Kind::Io` when the file cannot be read, else as [`Profile::parse`].
    pub fn open(name: &str) -> Result<Profile> {
        Self::parse(&text_of("profile", &SHIPPED, name)?, name)
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
        let interface = choice(&mut top, "interface", &INTERFACES)?;
        let figures = read_figures(&mut top, kind)?;
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
        let Some(row) = spec::find(self.kind, key) else {
            let hint = suggestion(key, self.kind.rows().iter().map(|r| r.key));
            return Err(Error::new(Kind::Profile, format!("unknown figure `{key}`{hint}")));
        };
        let bad = |m: String| Error::new(Kind::Profile, format!("`{key}`: {m}"));
        let value = in_range(row, row.unit.parse(value).map_err(bad)?).map_err(bad)?;
        let mut changed = self.clone();
        write!(changed.name, "+{key}={}", row.unit.show(value).replace(' ', ""))
            .expect("invariant: writing to a string succeeds");
        let figure = Figure { value, basis: Basis::Given, source: "given by the user".to_owned() };
        changed.figures.insert(row.key, figure);
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

    /// How the host talks to the device.
    pub fn interface(&self) -> Interface {
        self.interface
    }

    /// Every figure with its row, in the order of the kind's rows.
    pub fn figures(&self) -> impl Iterator<Item = (&'static Row, &Figure)> {
        self.kind.rows().iter().filter_map(|r| Some((r, self.figures.get(r.key)?)))
    }

    /// The canonical form: one line a figure, base units, no sources.
    pub fn canonical(&self) -> String {
        let mut out = format!(
            "{SCHEMA}\nkind={}\nname={}\ninterface={}\n",
            self.kind.name(),
            self.name,
            self.interface.name()
        );
        for (row, figure) in self.figures() {
            writeln!(out, "{}_{}={}", row.key, row.unit.suffix(), figure.value)
                .expect("invariant: writing to a string succeeds");
        }
        out
    }

    /// XXH3-64 of the canonical form, as sixteen hexadecimal digits.
    pub fn hash(&self) -> String {
        format!("{:016x}", xxhash_rust::xxh3::xxh3_64(self.canonical().as_bytes()))
    }

    /// The figures of a flash profile, ready for an engine.
    ///
    /// # Errors
    /// `Kind::Profile` when the profile describes another kind of device.
    pub fn flash(&self) -> Result<Flash> {
        if self.kind != DeviceKind::Flash {
            let message = format!("profile `{}` describes no flash", self.name);
            return Err(Error::new(Kind::Profile, message));
        }
        Ok(Flash {
            latency: Picos(self.value("read.latency")),
            reads_per_core_max: self.value("read.per_core_max"),
            reads_total_max: self.value("read.total_max"),
            granule_bytes: self.small("read.granule_bytes"),
            read_bytes_max: self.small("read.bytes_max"),
            link_bytes_per_s: self.value("link.bytes_max"),
            queue_depth: self.small("queue.depth"),
            doorbell: self.get("queue.doorbell").map(Picos),
            interface: self.interface,
            nand: self.nand(),
        })
    }

    /// Price of 10^9 bytes, in the currency of the profiles compared.
    pub fn price_per_gb(&self) -> Option<f64> {
        self.get("cost.price_per_gb").map(|micro| micro as f64 / 1e6)
    }

    /// Watts while it serves reads.
    pub fn power_w(&self) -> Option<f64> {
        self.get("cost.power").map(|mw| mw as f64 / 1e3)
    }

    fn nand(&self) -> Option<Nand> {
        self.get("nand.channels")?;
        Some(Nand {
            channels: self.small("nand.channels"),
            chips_per_channel: self.small("nand.chips_per_channel"),
            page_bytes: self.small("nand.page_bytes"),
            pages_per_block: self.small("nand.pages_per_block"),
            read: Picos(self.value("nand.read")),
            program: Picos(self.value("nand.program")),
            erase: Picos(self.value("nand.erase")),
            channel_bytes_per_s: self.value("nand.channel_bytes_max"),
        })
    }

    fn get(&self, key: &str) -> Option<u64> {
        self.figures.get(key).map(|f| f.value)
    }

    fn value(&self, key: &str) -> u64 {
        self.get(key).expect("invariant: a valid profile has its required figures")
    }

    fn small(&self, key: &str) -> u32 {
        u32::try_from(self.value(key)).expect("invariant: the row's range fits 32 bits")
    }

    /// What no single row can check.
    fn check(&self) -> std::result::Result<(), String> {
        for row in self.kind.rows().iter().filter(|r| r.required) {
            if !self.figures.contains_key(row.key) {
                return Err(format!("field `{}` is missing ({})", row.key, row.meaning));
            }
        }
        let (granule, longest) = (self.value("read.granule_bytes"), self.value("read.bytes_max"));
        if longest < granule {
            return Err(format!(
                "`read.bytes_max` {longest} is below `read.granule_bytes`; nearest legal value {granule}"
            ));
        }
        let (core, total) = (self.value("read.per_core_max"), self.value("read.total_max"));
        if total < core {
            return Err(format!(
                "`read.total_max` {total} is below `read.per_core_max`; nearest legal value {core}"
            ));
        }
        let nand: Vec<_> = self.kind.rows().iter().filter(|r| r.key.starts_with("nand.")).collect();
        let present = nand.iter().filter(|r| self.figures.contains_key(r.key)).count();
        if present != 0 && present != nand.len() {
            let absent = nand.iter().find(|r| !self.figures.contains_key(r.key));
            let key = absent.expect("invariant: some row is absent").key;
            return Err(format!("section `nand` is not complete: field `{key}` is missing"));
        }
        if (self.interface == Interface::Doorbell) != self.figures.contains_key("queue.doorbell") {
            return Err("`queue.doorbell` goes with interface `doorbell` and no other".to_owned());
        }
        Ok(())
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

fn read_figures(
    top: &mut Fields<'_, '_>,
    kind: DeviceKind,
) -> Result<BTreeMap<&'static str, Figure>> {
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
                figures.insert(row.key, figure);
            }
        }
        fields.finish()?;
    }
    Ok(figures)
}

fn split_key(row: &Row) -> (&'static str, &'static str) {
    row.key.split_once('.').expect("invariant: a key has a section")
}

pub(crate) fn read_figure(
    fields: &mut Fields<'_, '_>,
    field: &str,
    row: &Row,
) -> Result<Option<Figure>> {
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
