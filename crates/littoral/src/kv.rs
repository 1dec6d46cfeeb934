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
//! - A file that a creation makes for the device has another name until the store in it is whole
//!   (`kv/draft.rs`). On a device that was there, such as a drive, the store is marked until then
//!   (`Store::begin`). So what a killed creation or restore leaves is never opened, and the next
//!   one replaces it.

use std::path::{Path, PathBuf};

use littoral_base::names::folder_of;
use littoral_device::profile::DeviceKind;
use littoral_device::profile::machine::{DeviceSpec, Medium, SCHEMA};
use littoral_device::zoned::file::FileDevice;
pub use littoral_index::backup::Backup;
use littoral_index::backup::name_durably;
pub use littoral_index::index::Engine;
use littoral_index::kv::AnyZoned;
pub use littoral_index::kv::{Access, Durability, Kv, Options, Stats, device_error, padded};
use littoral_index::salvage::salvage;
pub use littoral_index::salvage::{Missing, Salvage};
use littoral_index::{Error, Kind, Result};

use crate::machine::Machine;

mod draft;
mod opening;

pub use opening::Opening;

use draft::Draft;

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
    /// Which of its zoned devices, where it has several.
    pub device: Option<String>,
    /// Tells this store from every other; the caller draws it.
    pub id: u64,
}

impl Default for New {
    fn default() -> Self {
        New { engine: Engine::Zb, key_bytes: 8, value_bytes: 8, machine: None, device: None, id: 0 }
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
/// `Kind::Exists` when the directory holds a store, `Kind::Foreign` when the device holds anything,
/// `Kind::Usage` for sizes that fit no page or a machine without one zoned device,
/// `Kind::Unsupported` when the device cannot serve the engine; those of the store.
pub fn create(dir: &Path, new: &New) -> Result<Kv> {
    make(dir, new, |_| Ok(())).map(|made| made.0)
}

/// Creates a store and fills it; only then does the directory hold a store, so that one whose
/// filling failed or was interrupted is not taken for a whole one.
fn make<T>(dir: &Path, new: &New, fill: impl FnOnce(&mut Kv) -> Result<T>) -> Result<(Kv, T)> {
    let Some(machine) = &new.machine else { return make_file(dir, &new.options(), fill) };
    let device = zoned(machine, new.device.as_deref())?;
    if device.medium == Medium::Ram {
        let geometry = machine.zoned_geometry(&device.name).map_err(device_error)?;
        return make_file(dir, &Options { geometry, ..new.options() }, fill);
    }
    let text = device_file(device)?;
    vacant(dir)?;
    make_folder(dir)?;
    let _turn = Opening::creation(dir)?;
    vacant(dir)?;
    // A device that this creation makes has its name once it is whole, and goes with a creation
    // that fails; one that was there stays as it is.
    let (draft, opened) = match &device.medium {
        Medium::File(path) if !path.exists() => {
            let (draft, made) = Draft::make(path, |at| machine.zoned_at(&device.name, at))?;
            (Some(draft), made)
        }
        _ => (None, machine.zoned(&device.name).map_err(device_error)?),
    };
    // A device that was there has its name already: its store is marked until it is whole.
    let begun = Kv::begin_on(Box::new(opened), &new.options());
    let mut kv = begun.map_err(|e| in_use(&device.medium, e))?;
    let filled = fill(&mut kv)?;
    kv.made()?;
    publish(dir, &text, draft)?;
    Ok((kv, filled))
}

/// The refusal of a device that holds something, with its file and what to do.
fn in_use(medium: &Medium, e: Error) -> Error {
    match medium {
        Medium::File(path) if e.kind() == Kind::Foreign => {
            let advice = "holds something; remove the file if nothing in it is needed";
            e.in_context(format!("{}: {advice}", path.display()))
        }
        _ => e,
    }
}

/// Gives a new device its name, and the directory `dir` the file that says where it is.
fn publish(dir: &Path, text: &str, device: Option<Draft>) -> Result<()> {
    let (draft, place) = (dir.join("device.toml.new"), dir.join(DEVICE_FILE));
    std::fs::write(&draft, text).map_err(|e| failed(&draft, e))?;
    let synced = std::fs::File::open(&draft).and_then(|f| f.sync_all());
    synced.map_err(|e| failed(&draft, e))?;
    let named = device.map(Draft::publish).transpose()?;
    std::fs::rename(&draft, &place).map_err(|e| failed(&place, e)).inspect_err(|_| {
        // What cannot be removed is refused by the next creation, by its path.
        let _ = named.map(std::fs::remove_file);
    })?;
    name_durably(&place)
}

/// Creates a store whose device is the sparse file `DIR/zones`, laid out by `options`.
///
/// # Errors
/// As [`create`].
pub fn create_file(dir: &Path, options: &Options) -> Result<Kv> {
    make_file(dir, options, |_| Ok(())).map(|made| made.0)
}

fn make_file<T>(
    dir: &Path,
    options: &Options,
    fill: impl FnOnce(&mut Kv) -> Result<T>,
) -> Result<(Kv, T)> {
    vacant(dir)?;
    // Sizes that fit no page are refused before anything is made.
    options.shape(options.geometry.block_bytes)?;
    make_folder(dir)?;
    // Two creations at once would replace each other's file.
    let _turn = Opening::creation(dir)?;
    vacant(dir)?;
    let path = dir.join("zones");
    // Built under another name: a creation that was interrupted leaves no half index behind.
    let fresh = dir.join("zones.new");
    if fresh.exists() {
        std::fs::remove_file(&fresh).map_err(|e| failed(&fresh, e))?;
    }
    let device = FileDevice::create(&fresh, options.geometry).map_err(device_error)?;
    let made = Kv::create_on(Box::new(device), options)
        .and_then(|mut kv| fill(&mut kv).map(|filled| (kv, filled)))
        .inspect_err(|_| {
            // What cannot be removed is replaced by the next creation.
            let _ = std::fs::remove_file(&fresh);
        })?;
    std::fs::rename(&fresh, &path).map_err(|e| failed(&path, e))?;
    name_durably(&path)?;
    Ok(made)
}

/// Refuses a directory that holds a store.
fn vacant(dir: &Path) -> Result<()> {
    holder(dir).map_or(Ok(()), |held| {
        let text = format!("{}: exists; it is not overwritten", held.display());
        Err(Error::new(Kind::Exists, text))
    })
}

/// Makes a directory and those above it, each with its name durable.
fn make_folder(dir: &Path) -> Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    make_folder(folder_of(dir))?;
    match std::fs::create_dir(dir) {
        // Another process was faster.
        Err(_) if dir.is_dir() => Ok(()),
        made => made.map_err(|e| failed(dir, e)),
    }?;
    name_durably(dir)
}

fn open_file(dir: &Path, opening: Opening) -> Result<Kv> {
    let device = opening.file(dir, &dir.join("zones"))?;
    open_on(Box::new(device), dir, opening)
}

fn open_on(device: AnyZoned, dir: &Path, opening: Opening) -> Result<Kv> {
    let kv = Kv::open_within(device, opening.access, opening.memory_bytes);
    kv.map_err(|e| e.in_context(dir.display()))
}

/// Opens the store of the directory `dir`.
///
/// # Errors
/// `Kind::Io` when there is none, `Kind::Busy` when another process has it, `Kind::Foreign`,
/// `Kind::Corrupt`.
pub fn open(dir: &Path, opening: impl Into<Opening>) -> Result<Kv> {
    let opening = opening.into();
    log::info!("opening the store of {} ({:?})", dir.display(), opening.access);
    let pointer = dir.join(DEVICE_FILE);
    if pointer.exists() {
        let machine = Machine::open(Some(&pointer)).map_err(device_error)?;
        let medium = &zoned(&machine, None)?.medium;
        if let Medium::File(path) = medium
            && !path.exists()
        {
            return Err(gone(path, &pointer));
        }
        return open_with(dir, &machine, None, opening);
    }
    if !dir.join("zones").exists() {
        let at = dir.display();
        let text = format!("{at}: no store here; make one with `littoral kv create {at}`");
        return Err(Error::new(Kind::Io, text));
    }
    open_file(dir, opening)
}

/// The refusal of a store whose device's file is not where its directory says. Another creation
/// would be refused too.
fn gone(path: &Path, pointer: &Path) -> Error {
    let (path, pointer) = (path.display(), pointer.display());
    let advice = "if the file was moved, say where with `--machine`";
    let text = format!("{path}: not there, where {pointer} has the device of the store; {advice}");
    Error::new(Kind::Io, text)
}

/// Opens the store of the directory `dir` on a machine's zoned device, wherever the directory says
/// that its device is: a drive has moved, say. A device on `ram` has its zones in `DIR/zones`.
///
/// # Errors
/// As [`open`]; `Kind::Usage` for a machine without such a device.
pub fn open_with(
    dir: &Path,
    machine: &Machine,
    device: Option<&str>,
    opening: impl Into<Opening>,
) -> Result<Kv> {
    let opening = opening.into();
    let device = zoned(machine, device)?;
    let opened: AnyZoned = match (&device.medium, opening.access) {
        (Medium::Ram, _) => return open_file(dir, opening),
        (Medium::File(path), _) if !path.exists() => {
            let at = path.display();
            let text = format!("{at}: no store here; make one with `littoral kv create`");
            return Err(Error::new(Kind::Io, text));
        }
        (Medium::File(path), Access::Read) => Box::new(opening.file(dir, path)?),
        _ => Box::new(opening.device(dir, || machine.zoned(&device.name))?),
    };
    open_on(opened, dir, opening)
}

/// Writes what can be read of the damaged store in `src` into a new one for the directory `dst`,
/// laid out by `new`, whose engine and sizes are those of `src`. `src` is not written to.
///
/// # Errors
/// Those of [`create`]; `Kind::Corrupt` when `src` has no superblock or no root that can be read;
/// `Kind::Full` when `dst` is too small.
pub fn repair(src: &Path, dst: &Path, new: &New) -> Result<Salvage> {
    // Asked first: what is there must not be found only after a long search.
    vacant(dst)?;
    let (mut device, notes) = open_damaged(src)?;
    let found = salvage(&mut device, |_, _| Ok(())).map_err(|e| e.in_context(src.display()))?;
    let (key_bytes, value_bytes) = (found.shape.key_bytes, found.shape.value_bytes);
    let new = New { engine: found.engine, key_bytes, value_bytes, ..new.clone() };
    let (kv, mut done) = make(dst, &new, |kv| {
        let mut done = None;
        kv.fill(|put| salvage(&mut device, put).map(|found| done = Some(found)))?;
        let done = done.expect("invariant: a salvage that did not fail has an answer");
        if kv.stats().records_count != done.records {
            let text = format!("{}: the new store does not hold what was saved", dst.display());
            return Err(Error::new(Kind::Corrupt, text));
        }
        kv.check()?;
        Ok(done)
    })?;
    kv.close()?;
    done.notes.splice(0..0, notes);
    Ok(done)
}

/// A directory's device, to be read only, damaged as it may be; what of it did not verify.
fn open_damaged(dir: &Path) -> Result<(AnyZoned, Vec<String>)> {
    let pointer = dir.join(DEVICE_FILE);
    if pointer.exists() {
        let machine = Machine::open(Some(&pointer)).map_err(device_error)?;
        let device = zoned(&machine, None)?;
        // Opening it by the machine would make a file that is not there.
        if let Medium::File(path) = &device.medium {
            return damaged_file(path);
        }
        let opened = machine.zoned(&device.name).map_err(device_error)?;
        return Ok((Box::new(opened), Vec::new()));
    }
    damaged_file(&dir.join("zones"))
}

fn damaged_file(path: &Path) -> Result<(AnyZoned, Vec<String>)> {
    let opened = FileDevice::open_damaged(path).map_err(device_error)?;
    Ok((Box::new(opened.0), opened.1))
}

/// Writes every record of a store into the new file `path`; how many.
///
/// # Errors
/// `Kind::Exists`; `Kind::Corrupt` when part of the store is damaged;
/// `Kind::Io`.
pub fn backup(store: &Kv, path: &Path) -> Result<u64> {
    littoral_index::backup::write(store, path)
}

/// Makes a store for the directory `dst` from a backup, laid out by `new`; how many records.
///
/// # Errors
/// `Kind::Foreign` and `Kind::Corrupt` for a file that is no whole backup, before anything is
/// made; those of [`create`]; `Kind::Full`.
pub fn restore(path: &Path, dst: &Path, new: &New) -> Result<u64> {
    let saved = Backup::open(path)?;
    let (key_bytes, value_bytes) = (saved.key_bytes, saved.value_bytes);
    let new = New { engine: saved.engine, key_bytes, value_bytes, ..new.clone() };
    let (kv, records) = make(dst, &new, |kv| saved.restore(kv))?;
    kv.close()?;
    Ok(records)
}

/// The file that makes a directory a store's.
fn holder(dir: &Path) -> Option<PathBuf> {
    [DEVICE_FILE, "zones"].map(|name| dir.join(name)).into_iter().find(|p| p.exists())
}

fn failed(path: &Path, e: std::io::Error) -> Error {
    Error::with_source(Kind::Io, path.display().to_string(), e)
}

/// A machine's zoned device: the named one, or the only one.
fn zoned<'m>(machine: &'m Machine, name: Option<&str>) -> Result<&'m DeviceSpec> {
    machine.spec().choose(DeviceKind::Zoned, name).map_err(device_error)
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
        text.push_str(&format!("{} = {value}\n", row.field()));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A store on the file `zones`, by a machine file in `folder`.
    fn on(folder: &Path, zones: &Path) -> New {
        let file = folder.join("machine.toml");
        let text = format!(
            "schema = \"{SCHEMA}\"\n[device.z]\nkind = \"zoned\"\nmedium = 'file:{}'\n\
             block_bytes = 4096\nzones = 8\nconventional_zones = 1\nzone_size = \"512KiB\"\n",
            zones.display()
        );
        std::fs::write(&file, text).unwrap();
        New { machine: Some(Machine::open(Some(&file)).unwrap()), id: 9, ..New::default() }
    }

    #[test]
    fn a_store_that_is_being_restored_is_not_there_and_a_part_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("store");
        let new = on(dir.path(), &at.join("zones"));
        let left = at.join("zones.0.0.new");
        let cut = make(&at, &new, |kv| -> Result<()> {
            kv.put(&[1; 8], &[2; 8])?;
            let files: Vec<_> = std::fs::read_dir(&at).unwrap().flatten().collect();
            assert_eq!(files.len(), 1, "{files:?}");
            // What is left where the process is killed now.
            std::fs::copy(files[0].path(), &left).unwrap();
            let refused = open(&at, Access::Read).unwrap_err();
            assert_eq!(refused.kind(), Kind::Io, "{refused}");
            Err(Error::new(Kind::Full, "half of it"))
        });
        assert_eq!(cut.unwrap_err().kind(), Kind::Full);
        let refused = open(&at, Access::Read).unwrap_err();
        assert!(left.exists() && refused.to_string().contains("no store here"), "{refused}");
        let (kv, _) = make(&at, &new, |kv| kv.put(&[3; 8], &[4; 8])).unwrap();
        kv.close().unwrap();
        assert_eq!(std::fs::read_dir(&at).unwrap().count(), 2, "the device and where it is");
        let kv = open(&at, Access::Read).unwrap();
        assert_eq!(kv.get(&[1; 8]).unwrap(), None);
        assert_eq!(kv.get(&[3; 8]).unwrap(), Some(vec![4; 8]));
        drop(kv);
        let refused = create(&dir.path().join("other"), &new).unwrap_err();
        assert_eq!(refused.kind(), Kind::Foreign, "{refused}");
        let advice = format!("{}: holds something; remove the file", at.join("zones").display());
        assert!(refused.to_string().starts_with(&advice), "{refused}");
    }

    /// As a drive is, which cannot be made under another name.
    #[test]
    fn a_part_on_a_device_that_was_there_is_refused_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("store");
        let new = on(dir.path(), &dir.path().join("zones"));
        let machine = new.machine.as_ref().unwrap();
        drop(machine.zoned("z").unwrap());
        let cut = make(&at, &new, |kv| -> Result<()> {
            kv.put(&[1; 8], &[2; 8])?;
            Err(Error::new(Kind::Full, "half of it"))
        });
        assert_eq!(cut.unwrap_err().kind(), Kind::Full);
        let refused = open_with(&at, machine, None, Access::Read).unwrap_err();
        assert!(refused.to_string().contains("cut short"), "{refused}");
        let (kv, _) = make(&at, &new, |kv| kv.put(&[3; 8], &[4; 8])).unwrap();
        kv.close().unwrap();
        let kv = open(&at, Access::Read).unwrap();
        assert_eq!(kv.get(&[1; 8]).unwrap(), None);
        assert_eq!(kv.get(&[3; 8]).unwrap(), Some(vec![4; 8]));
        drop(kv);
        std::fs::remove_file(dir.path().join("zones")).unwrap();
        let refused = open(&at, Access::Read).unwrap_err();
        let says = |words: &str| refused.to_string().contains(words);
        assert!(says("device.toml has the device") && says("--machine"), "{refused}");
    }
}
