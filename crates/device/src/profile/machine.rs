//! The machine file: which memory devices a machine is made of, what stands behind each.
//!
//! ```toml
//! schema = "littoral.machine/1"
//!
//! [device.fast]
//! kind = "flash"              # flash | zoned | memory | fabric | push
//! medium = "ram"              # or file:PATH, uring:PATH, mmap:PATH, zbd:PATH, dax:PATH,
//!                             # pool:PATH, tcp:HOST:PORT,..., unix:PATH
//! profile = "xlfdd"           # what it is modelled by; a name or a path; on ram only
//! capacity = "4GiB"
//!
//! [device.zones]
//! kind = "zoned"
//! medium = "zbd:/dev/nvme0n2"
//! conventional = "/dev/nvme0n1"   # zones written in place, when they are another device's
//! ```
//!
//! Invariants
//! - A [`MachineSpec`] is valid: each medium can serve its kind, every number is in range, names
//!   are unique (TOML sees to that) and can be file names. Checked by
//!   `mistakes_are_named_with_line_and_remedy`, `the_emulated_machine_obeys_its_own_rules`.
//! - Unknown kinds, media and fields are errors with a suggestion; nothing is ignored. Checked by
//!   `mistakes_are_named_with_line_and_remedy`.
//! - A file that one device writes belongs to no other device of the machine. Checked by
//!   `check_owners`.
//!
//! The geometry of a zoned device on `ram` may come from its profile; figures beside the profile
//! replace single ones.
//!
//! This file says what to open; opening is the facade's work.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::fields::{self, Fields, Origin, suggestion};
use super::kinds::geometry;
use super::spec::{Row, Rule, Unit};
use super::{DeviceKind, Interface, Profile, Transfer, in_range};
use crate::error::{Error, Kind, Result};
use crate::zoned::zones::Geometry;

mod medium;
mod read;

pub use medium::Medium;
use read::read_device;

/// The format that machine files name in their field `schema`.
pub const SCHEMA: &str = "littoral.machine/1";

impl DeviceKind {
    /// The media that a device of this kind can be on, as [`Medium::scheme`] spells them.
    pub fn media(self) -> &'static [&'static str] {
        match self {
            DeviceKind::Flash => &["ram", "file:", "uring:", "mmap:"],
            DeviceKind::Zoned => &["ram", "file:", "zbd:"],
            DeviceKind::Memory => &["ram", "file:", "dax:"],
            DeviceKind::Fabric => &["ram", "pool", "pool:", "tcp:"],
            DeviceKind::Push => &["ram", "file:", "unix:"],
        }
    }

    /// The figures of a device's geometry; a zoned device has those of a zoned profile.
    fn geometry_rows(self) -> impl Iterator<Item = &'static Row> + Clone {
        let rows = match self {
            DeviceKind::Flash | DeviceKind::Memory | DeviceKind::Push => CAPACITY,
            DeviceKind::Zoned => DeviceKind::Zoned.rows(),
            DeviceKind::Fabric => FABRIC,
        };
        rows.iter().filter(move |r| self != DeviceKind::Zoned || r.key.starts_with("geometry."))
    }
}

/// One device of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Its name in the machine file.
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
    /// What stands behind it.
    pub medium: Medium,
    /// What it is modelled by; none means at the medium's own speed.
    pub profile: Option<Profile>,
    /// Which configuration of the profile, for an interconnect.
    pub configuration: Option<String>,
    /// Where a zoned block device has its conventional zones, if apart from it: an ordinary device
    /// or file.
    pub conventional: Option<PathBuf>,
    /// How modelled flash talks to the host, where that is not the profile's interface.
    pub interface: Option<Interface>,
    /// How modelled flash hands its data over.
    pub transfer: Transfer,
    /// Whether each node of a fabric keeps its own copies of what is shared, although the medium
    /// could be shared in place.
    pub has_own_pages: bool,
    /// Where it is described, as `file:line`; empty for a device without a machine file.
    pub place: String,
    geometry: BTreeMap<&'static str, u64>,
}

impl DeviceSpec {
    /// A device without a machine file, with nothing said of it but its medium.
    pub fn new(name: &str, kind: DeviceKind, medium: Medium) -> DeviceSpec {
        DeviceSpec {
            name: name.to_owned(),
            kind,
            medium,
            profile: None,
            configuration: None,
            conventional: None,
            interface: None,
            transfer: Transfer::Pointer,
            has_own_pages: false,
            place: String::new(),
            geometry: BTreeMap::new(),
        }
    }

    /// The same with a geometry figure such as `capacity`, in its base unit.
    ///
    /// # Errors
    /// `Kind::Profile` for a figure that this kind of device does not have, or a value out of
    /// range.
    pub fn with_figure(mut self, field: &str, value: u64) -> Result<DeviceSpec> {
        let mut rows = self.kind.geometry_rows();
        let Some(row) = rows.find(|r| r.field() == field) else {
            let hint = suggestion(field, self.kind.geometry_rows().map(Row::field));
            let kind = self.kind.name();
            let what = format!("a {kind} device has no figure `{field}`{hint}");
            return Err(Error::new(Kind::Profile, what));
        };
        let value = in_range(row, value)
            .map_err(|m| Error::new(Kind::Profile, format!("`{field}`: {m}")))?;
        self.geometry.insert(row.field(), value);
        Ok(self)
    }

    /// The same zoned device with this shape and these limits.
    ///
    /// # Errors
    /// As [`DeviceSpec::with_figure`].
    pub fn with_zones(self, g: &Geometry) -> Result<DeviceSpec> {
        let block = u64::from(g.block_bytes);
        let zones = u64::from(g.conventional_zones) + u64::from(g.sequential_zones);
        [
            ("block_bytes", block),
            ("zones", zones),
            ("conventional_zones", u64::from(g.conventional_zones)),
            ("zone_size", g.zone_blocks * block),
            ("zone_capacity", g.capacity_blocks * block),
            ("open_zones_max", u64::from(g.open_zones_max)),
            ("active_zones_max", u64::from(g.active_zones_max)),
            ("append_bytes_max", u64::from(g.append_blocks_max) * block),
        ]
        .into_iter()
        .try_fold(self, |device, (field, value)| device.with_figure(field, value))
    }

    /// What stands before an error about this device: its place where it has one, and its name.
    pub fn label(&self) -> String {
        match &self.place[..] {
            "" => format!("device `{}`", self.name),
            place => format!("{place}: device `{}`", self.name),
        }
    }

    /// A geometry figure such as `capacity` or `zones`, in its base unit: the file's own, else the
    /// profile's.
    pub fn geometry(&self, key: &str) -> Option<u64> {
        let own = self.geometry.get(key).copied();
        own.or_else(|| self.profile.as_ref()?.value(&format!("geometry.{key}")))
    }

    /// The shape and the limits of a zoned device, as far as its figures go.
    pub fn zones(&self) -> Geometry {
        geometry(|field| self.geometry(field))
    }

    /// Every geometry figure with its row.
    pub fn figures(&self) -> impl Iterator<Item = (&'static Row, u64)> {
        self.kind.geometry_rows().filter_map(|r| Some((r, self.geometry(r.field())?)))
    }
}

/// A machine: its devices by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineSpec {
    /// The devices, in order of name.
    pub devices: Vec<DeviceSpec>,
    /// The file that they are described in; empty where there is none.
    pub file: String,
}

const fn optional(key: &'static str, unit: Unit, range: (u64, u64), meaning: &'static str) -> Row {
    let (least, greatest) = range;
    Row { key, unit, least, greatest, rule: Rule::Any, required: false, meaning }
}

const EXBI: u64 = 1 << 60;
const CAPACITY: &[Row] = &[optional("capacity", Unit::Size, (4096, EXBI), "bytes of the device")];
const FABRIC: &[Row] = &[
    optional("nodes", Unit::Count, (1, 1 << 16), "nodes of a job"),
    optional("window", Unit::Size, (4096, EXBI), "bytes each node exports"),
];

impl MachineSpec {
    /// The machine of someone without a machine file: everything emulated in memory, or in files of
    /// one directory when `directory` is given.
    ///
    /// # Panics
    /// Never: the shipped profile it names is tested.
    pub fn emulated(directory: Option<&Path>) -> MachineSpec {
        let medium = |name: &str| match directory {
            None => Medium::Ram,
            Some(dir) => Medium::File(dir.join(name)),
        };
        let device = |name: &str, kind, profile, geometry: &[(&'static str, u64)]| DeviceSpec {
            profile,
            geometry: geometry.iter().copied().collect(),
            ..DeviceSpec::new(name, kind, medium(name))
        };
        let xlfdd = Profile::named("xlfdd").expect("invariant: the shipped profile is valid");
        let paced = directory.is_none().then_some(xlfdd);
        let zones = [
            ("block_bytes", 4096),
            ("zones", 64),
            ("conventional_zones", 0),
            ("zone_size", 16 << 20),
            ("zone_capacity", 16 << 20),
            ("open_zones_max", 14),
            ("active_zones_max", 14),
        ];
        MachineSpec {
            devices: vec![
                device("flash", DeviceKind::Flash, paced, &[("capacity", 1 << 30)]),
                device("memory", DeviceKind::Memory, None, &[("capacity", 256 << 20)]),
                device("zoned", DeviceKind::Zoned, None, &zones),
            ],
            file: String::new(),
        }
    }

    /// A machine of one device.
    pub fn one(device: DeviceSpec) -> MachineSpec {
        MachineSpec { devices: vec![device], file: String::new() }
    }

    /// Reads the machine file at `path`.
    ///
    /// # Errors
    /// `Kind::Io` when it cannot be read, else as [`MachineSpec::parse`].
    pub fn load(path: &Path) -> Result<MachineSpec> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::with_source(Kind::Io, format!("reading machine file {name}"), e))?;
        Self::parse_in(&text, &name, path.parent().unwrap_or(Path::new("")))
    }

    /// Reads a machine file's text; `origin` names it in errors.
    ///
    /// # Errors
    /// `Kind::Profile` with file, line, field and what would be legal.
    pub fn parse(text: &str, origin: &str) -> Result<MachineSpec> {
        Self::parse_in(text, origin, Path::new(""))
    }

    /// As [`MachineSpec::parse`]; relative paths of profiles and media begin at `folder`.
    fn parse_in(text: &str, origin: &str, folder: &Path) -> Result<MachineSpec> {
        let origin = Origin { name: origin, text };
        let document = fields::parse(origin)?;
        let mut top = Fields::new(origin, "", &document, 0);
        let (schema, at) = top.required_text("schema")?;
        if schema != SCHEMA {
            let message = format!("schema is `{schema}`, this build reads `{SCHEMA}`");
            return Err(Error::new(Kind::Unsupported, format!("{}: {message}", origin.place(at))));
        }
        let mut devices = Vec::new();
        if let Some(mut table) = top.table("device")? {
            for name in table.names() {
                let fields = table.table(&name)?.ok_or_else(|| table.missing(&name))?;
                devices.push(read_device(name, fields, folder)?);
            }
        }
        top.finish()?;
        if devices.is_empty() {
            return Err(origin.error(0, "no device is described; write a table `[device.NAME]`"));
        }
        check_owners(&devices)?;
        devices.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(MachineSpec { devices, file: origin.name.to_owned() })
    }

    /// The device called `name`.
    ///
    /// # Errors
    /// `Kind::Profile` with the nearest name.
    pub fn device(&self, name: &str) -> Result<&DeviceSpec> {
        self.devices.iter().find(|d| d.name == name).ok_or_else(|| {
            let hint = suggestion(name, self.devices.iter().map(|d| d.name.as_str()));
            let what = format!("this machine has no device `{name}`{hint}");
            Error::new(Kind::Profile, self.in_file(&what))
        })
    }

    /// The device of `kind` called `name`, or the only one of `kind` when no name is given.
    ///
    /// # Errors
    /// `Kind::Profile` when there is no such device, when the device is of another kind, and when
    /// there are several to choose from; the words list them.
    pub fn choose(&self, kind: DeviceKind, name: Option<&str>) -> Result<&DeviceSpec> {
        let of_kind: Vec<&DeviceSpec> = self.devices.iter().filter(|d| d.kind == kind).collect();
        let names: Vec<&str> = of_kind.iter().map(|d| d.name.as_str()).collect();
        let (names, wanted) = (names.join(", "), kind.name());
        if let Some(name) = name {
            let device = self.device(name)?;
            if device.kind == kind {
                return Ok(device);
            }
            let choices = match &names[..] {
                "" => format!("; this machine has no {wanted} device"),
                names => format!("; {wanted} devices are {names}"),
            };
            let message = format!("{} is {}, wanted {wanted}", device.label(), device.kind.name());
            return Err(Error::new(Kind::Profile, message + &choices));
        }
        match of_kind[..] {
            [one] => Ok(one),
            [] => {
                let what = format!("the machine has no device of kind `{wanted}`");
                Err(Error::new(Kind::Profile, self.in_file(&what)))
            }
            _ => {
                let what = format!("several {wanted} devices ({names}); name one by --device NAME");
                Err(Error::new(Kind::Profile, self.in_file(&what)))
            }
        }
    }

    fn in_file(&self, what: &str) -> String {
        if self.file.is_empty() { what.to_owned() } else { format!("{}: {what}", self.file) }
    }
}

/// Refuses a file that one device writes and another one names too. Flash is only read, so several
/// flash devices may share a file.
fn check_owners(devices: &[DeviceSpec]) -> Result<()> {
    let place = |path: &Path| {
        let path = std::fs::canonicalize(path).or_else(|_| std::path::absolute(path));
        path.unwrap_or_default()
    };
    let mut owners: BTreeMap<PathBuf, Vec<&DeviceSpec>> = BTreeMap::new();
    for device in devices {
        for path in device.medium.path().into_iter().chain(device.conventional.as_deref()) {
            owners.entry(place(path)).or_default().push(device);
        }
    }
    let is_shared = |d: &[&DeviceSpec]| d.iter().any(|d| d.kind != DeviceKind::Flash);
    let mut conflicts = owners.iter().filter(|(_, d)| d.len() > 1 && is_shared(d));
    let Some((path, found)) = conflicts.next() else { return Ok(()) };
    let (first, second) = (found[0], found[1]);
    let message = format!(
        "{} and {} both own {}; a file has one owner, give one of them another path",
        second.label(),
        first.label(),
        path.display()
    );
    Err(Error::new(Kind::Profile, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
schema = "littoral.machine/1"

[device.fast]
kind = "flash"
medium = "ram"
profile = "xlfdd"
capacity = "4GiB"

[device.disk]
kind = "flash"
medium = "uring:/data/graph.lg"

[device.smr]
kind = "zoned"
medium = "file:smr.img"
block_bytes = 4096
zones = 32
zone_size = "64MiB"
zone_capacity = "48MiB"
"#;

    fn refused(text: &str) -> String {
        MachineSpec::parse(text, "m.toml").unwrap_err().to_string()
    }

    #[test]
    fn a_machine_file_is_read_whole() {
        let m = MachineSpec::parse(GOOD, "m.toml").unwrap();
        let names: Vec<_> = m.devices.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["disk", "fast", "smr"]);
        assert_eq!(m.device("fast").unwrap().geometry("capacity"), Some(4 << 30));
        assert_eq!(m.device("fast").unwrap().profile.as_ref().unwrap().name(), "xlfdd");
        assert_eq!(m.device("disk").unwrap().medium, Medium::Uring("/data/graph.lg".into()));
        assert_eq!(m.device("smr").unwrap().figures().count(), 4);
        assert!(m.device("dusk").unwrap_err().to_string().contains("did you mean `disk`?"));
    }

    #[test]
    fn a_profile_path_begins_at_the_machine_file() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("slow.toml", &include_str!("../../profiles/xlfdd.toml").replacen("4us", "9us", 1));
        write("m.toml", &GOOD.replacen("\"xlfdd\"", "\"slow.toml\"", 1));
        let machine = MachineSpec::load(&dir.path().join("m.toml")).unwrap();
        let profile = machine.device("fast").unwrap().profile.clone().unwrap();
        assert_eq!(profile.flash().unwrap().latency, littoral_base::units::Picos(9_000_000));
        write("m.toml", &GOOD.replacen("\"xlfdd\"", "\"gone.toml\"", 1));
        let error = MachineSpec::load(&dir.path().join("m.toml")).unwrap_err().to_string();
        let wanted = dir.path().join("gone.toml").display().to_string();
        assert!(error.contains(&wanted) && error.contains("m.toml:7"), "{error}");
    }

    #[test]
    fn a_medium_s_path_begins_at_the_machine_file() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("m.toml");
        let text = GOOD.replacen("uring:/data/graph.lg", "uring:graph.lg", 1);
        assert_ne!(text, GOOD);
        std::fs::write(&at, &text).unwrap();
        let medium = |spec: MachineSpec| spec.device("disk").unwrap().medium.clone();
        let loaded = medium(MachineSpec::load(&at).unwrap());
        assert_eq!(loaded, Medium::Uring(dir.path().join("graph.lg")));
        // A text without a file has no folder, and an absolute path stays as it is.
        let parsed = medium(MachineSpec::parse(&text, "m.toml").unwrap());
        assert_eq!(parsed, Medium::Uring("graph.lg".into()));
        std::fs::write(&at, GOOD).unwrap();
        let absolute = medium(MachineSpec::load(&at).unwrap());
        assert_eq!(absolute, Medium::Uring("/data/graph.lg".into()));
    }

    #[test]
    fn mistakes_are_named_with_line_and_remedy() {
        for (from, to, wanted) in [
            (
                "kind = \"zoned\"",
                "kind = \"zned\"",
                "m.toml:15: `device.smr.kind` is `zned`; did you mean `zoned`?",
            ),
            (
                "\"file:smr.img\"",
                "\"dax:/dev/dax0\"",
                "m.toml:16: `device.smr.medium` is `dax:/dev/dax0`; a zoned device takes",
            ),
            (
                "\"uring:/data/graph.lg\"",
                "\"urin:/data\"",
                "unknown medium `urin:/data`; did you mean `uring:`?",
            ),
            ("\"uring:/data/graph.lg\"", "\"uring:\"", "names no place"),
            ("zones = 32", "zoons = 32", "unknown field `device.smr.zoons`; did you mean `zones`?"),
            ("zones = 32", "", "m.toml:14: field `device.smr.zones` is missing"),
            (
                "\"48MiB\"",
                "\"65MiB\"",
                "`zone_capacity` is above `zone_size`; nearest legal value 67108864",
            ),
            ("block_bytes = 4096", "block_bytes = 1000", "nearest legal value 1 KiB"),
            (
                "profile = \"xlfdd\"",
                "profile = \"xlfd\"",
                "m.toml:7: there is no profile `xlfd`; did you mean `xlfdd`?",
            ),
            ("capacity = \"4GiB\"", "capacity = true", "`device.fast.capacity` is boolean"),
            ("[device.smr]", "[devices.smr]", "unknown field `devices`; did you mean `device`?"),
            ("[device.smr]", "[device.\"a/b\"]", "device name `a/b`"),
        ] {
            let e = refused(&GOOD.replacen(from, to, 1));
            assert!(e.contains(wanted), "{to}: {e}");
        }
        assert!(refused("schema = \"littoral.machine/1\"").contains("[device.NAME]"));
        assert!(refused("schema = \"littoral.machine/9\"").contains("littoral.machine/1"));
    }

    #[test]
    fn every_kind_of_device_takes_a_profile_of_its_kind_and_no_other() {
        let device = |kind: &str, profile: &str, rest: &str| {
            let head = "schema = \"littoral.machine/1\"\n[device.d]\nmedium = \"ram\"\n";
            let text = format!("{head}kind = \"{kind}\"\nprofile = \"{profile}\"\n{rest}");
            MachineSpec::parse(&text, "m.toml").map(|m| m.devices[0].clone())
        };
        let size = "capacity = \"1MiB\"";
        for (kind, profile, rest) in [
            ("flash", "nvme-tlc", size),
            ("zoned", "zns-ssd", "zones = 16"),
            ("memory", "optane-dcpmm", size),
            ("fabric", "loongson-2e:manager", "nodes = 4\nwindow = \"1MiB\""),
        ] {
            let found = device(kind, profile, rest).unwrap();
            assert_eq!(found.profile.unwrap().kind().name(), kind);
        }
        let zoned = device("zoned", "zns-ssd", "zones = 16").unwrap();
        assert_eq!(
            (zoned.geometry("zones"), zoned.geometry("zone_size")),
            (Some(16), Some(2 << 30))
        );
        let fabric = device("fabric", "tcp", "nodes = 4\nwindow = \"1MiB\"").unwrap();
        assert_eq!(fabric.configuration.as_deref(), Some("default"));
        let wrong = device("memory", "zns-ssd", size).unwrap_err().to_string();
        assert!(wrong.contains("describes a zoned device, wanted memory"), "{wrong}");
        assert!(wrong.contains("m.toml:5") && wrong.contains("optane-dcpmm"), "{wrong}");
        let several = device("fabric", "loongson-2e", "nodes = 4\nwindow = \"1MiB\"").unwrap_err();
        assert!(several.to_string().contains("loongson-2e:cluster"), "{several}");
        let over = device("zoned", "zns-ssd", "zone_capacity = \"3GiB\"").unwrap_err().to_string();
        assert!(over.contains("`zone_capacity` is above `zone_size`"), "{over}");
    }

    #[test]
    fn the_emulated_machine_obeys_its_own_rules() {
        for dir in [None, Some(Path::new("d"))] {
            for d in MachineSpec::emulated(dir).devices {
                assert!(d.kind.media().contains(&d.medium.scheme()));
                for (row, value) in d.figures() {
                    assert_eq!(row.nearest(value), value, "{}.{}", d.name, row.key);
                }
            }
        }
    }
}
