//! Key-value stores in directories: an ordered index on a machine's zoned device, found again by
//! its directory.
//!
//! ```
//! use littoral::kv::{self, Access, New};
//! let dir = tempfile::tempdir()?;
//! let at = dir.path().join("users");
//! let mut store = kv::create(&at, &New { id: 1, ..New::default() })?;
//! store.put(b"ada\0\0\0\0\0", b"1815\0\0\0\0")?;
//! drop(store);
//! let store = kv::open(&at, Access::Read)?;
//! assert_eq!(store.get(b"ada\0\0\0\0\0")?, Some(b"1815\0\0\0\0".to_vec()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - Without a machine, or with one whose zoned device is on `ram`, the device is the sparse file
//!   `DIR/zones`.
//! - Otherwise it is the machine's, and `DIR/device.toml`, a machine file of that one device, says
//!   where; the machine's own file is not needed again.
//! - Nothing that exists is overwritten: a directory with a store, and a device with anything on
//!   it, are refused.

use std::path::{Path, PathBuf};

use littoral_device::profile::machine::{DeviceSpec, MachineKind, Medium, SCHEMA};
pub use littoral_index::index::Engine;
pub use littoral_index::kv::{Access, Kv, Options, Stats, device_error, padded};
use littoral_index::{Error, Kind, Result};

use crate::machine::Machine;

/// The file that says where a directory's device is, when that is not in the directory.
const DEVICE_FILE: &str = "device.toml";

/// What a new store is to be.
#[derive(Clone, Debug)]
pub struct New {
    /// The tree.
    pub engine: Engine,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// The machine whose zoned device is used.
    pub machine: Option<Machine>,
    /// Tells this store from every other; the caller draws it.
    pub id: u64,
}

impl Default for New {
    fn default() -> Self {
        New { engine: Engine::Zb, key_bytes: 8, value_bytes: 8, machine: None, id: 0 }
    }
}

impl New {
    fn options(&self) -> Options {
        let options = Options::new(self.engine, self.id);
        Options { key_bytes: self.key_bytes, value_bytes: self.value_bytes, ..options }
    }
}

/// Creates a store for the directory `dir`, which is made if absent.
///
/// # Errors
/// `Kind::Busy` when the directory holds a store, `Kind::Foreign` when the device holds anything,
/// `Kind::Usage` for sizes that fit no page or a machine without one zoned device,
/// `Kind::Unsupported` when the device cannot serve the engine; those of the store.
pub fn create(dir: &Path, new: &New) -> Result<Kv> {
    let Some(machine) = &new.machine else { return Kv::create(dir, &new.options()) };
    let device = only_zoned(machine)?;
    if device.medium == Medium::Ram {
        let geometry = machine.zoned_geometry(&device.name).map_err(device_error)?;
        return Kv::create(dir, &Options { geometry, ..new.options() });
    }
    let text = device_file(device)?;
    let holder = [DEVICE_FILE, "zones"].map(|name| dir.join(name));
    if let Some(held) = holder.iter().find(|p| p.exists()) {
        let text = format!("{}: exists; it is not overwritten", held.display());
        return Err(Error::new(Kind::Busy, text));
    }
    let opened = machine.open_zoned(&device.name).map_err(device_error)?;
    let kv = Kv::create_on(opened, &new.options())?;
    std::fs::create_dir_all(dir).map_err(|e| failed(dir, e))?;
    let (draft, place) = (dir.join("device.toml.new"), dir.join(DEVICE_FILE));
    std::fs::write(&draft, text).map_err(|e| failed(&draft, e))?;
    let synced = std::fs::File::open(&draft).and_then(|f| f.sync_all());
    synced.and_then(|()| std::fs::rename(&draft, &place)).map_err(|e| failed(&place, e))?;
    Ok(kv)
}

/// Opens the store of the directory `dir`.
///
/// # Errors
/// `Kind::Io` when there is none, `Kind::Busy` when another process has it, `Kind::Foreign`,
/// `Kind::Corrupt`.
pub fn open(dir: &Path, access: Access) -> Result<Kv> {
    log::info!("opening the store of {} ({access:?})", dir.display());
    let pointer = dir.join(DEVICE_FILE);
    if pointer.exists() {
        let machine = Machine::open(Some(&pointer)).map_err(device_error)?;
        let device = only_zoned(&machine)?;
        let opened = machine.open_zoned(&device.name).map_err(device_error)?;
        return Kv::open_on(opened, access).map_err(|e| e.in_context(dir.display()));
    }
    if !dir.join("zones").exists() {
        let at = dir.display();
        let text = format!("{at}: no store here; make one with `littoral kv create {at}`");
        return Err(Error::new(Kind::Io, text));
    }
    Kv::open(dir, access)
}

fn failed(path: &Path, e: std::io::Error) -> Error {
    Error::with_source(Kind::Io, path.display().to_string(), e)
}

/// The zoned device of a machine that has one.
fn only_zoned(machine: &Machine) -> Result<&DeviceSpec> {
    let devices = &machine.spec().devices;
    let zoned: Vec<&DeviceSpec> = devices.iter().filter(|d| d.kind == MachineKind::Zoned).collect();
    match zoned[..] {
        [one] => Ok(one),
        [] => Err(Error::new(Kind::Usage, "the machine has no device of kind `zoned`")),
        _ => {
            let names: Vec<&str> = zoned.iter().map(|d| d.name.as_str()).collect();
            let text =
                format!("several zoned devices ({}); give a machine with one", names.join(", "));
            Err(Error::new(Kind::Usage, text))
        }
    }
}

/// A machine file of this one device, its paths made absolute.
fn device_file(device: &DeviceSpec) -> Result<String> {
    let path = device.medium.path().expect("invariant: only `ram` has no path");
    let medium = format!("{}{}", device.medium.scheme(), absolute(path)?);
    let mut text =
        format!("schema = \"{SCHEMA}\"\n\n[device.zoned]\nkind = \"zoned\"\nmedium = '{medium}'\n");
    if let Some(beside) = &device.conventional {
        text.push_str(&format!("conventional = '{}'\n", absolute(beside)?));
    }
    for (row, value) in device.figures() {
        text.push_str(&format!("{} = {value}\n", row.key));
    }
    Ok(text)
}

fn absolute(path: &Path) -> Result<String> {
    let found: PathBuf = std::path::absolute(path).map_err(|e| failed(path, e))?;
    let plain = found.to_str().filter(|s| !s.contains(['\'', '\n', '\r']));
    plain.map(str::to_owned).ok_or_else(|| {
        let text = format!("{}: quotes and line ends cannot be recorded", found.display());
        Error::new(Kind::Usage, text)
    })
}
