//! Opening a machine's devices: the only place that turns a medium into a device.
//!
//! | kind | opened as | media |
//! |---|---|---|
//! | `flash` | [`FlashDevice`], which gives each thread a handle | `ram`, `file:`, `uring:`, `mmap:` |
//! | `zoned` | [`AnyZoned`] | `ram`, `file:`, `zbd:` |
//! | `memory` | [`AnyDomain`] | `ram`, `file:`, `dax:` |
//! | `push` | a device that computes (module `push`) | `ram`, `file:`, `unix:` |
//! | `fabric` | `FabricDevice`, to which each node attaches (module `fabric`) | `ram`, `pool`, `pool:`, `tcp:` |
//!
//! A file is created only where there is none.
//!
//! Invariants
//! - A description that cannot be opened is refused with its place. Checked by
//!   `a_file_device_reads_its_file_and_takes_no_data`.

use std::path::Path;

use littoral_device::flash::opened::{Access, FlashDevice};
use littoral_device::memory::Domain as _;
use littoral_device::pmem::{self, AnyDomain, Draft, FileCopy};
use littoral_device::profile::DeviceKind;
use littoral_device::profile::machine::{DeviceSpec, Medium};
use littoral_device::region::Region;
use littoral_device::zoned::any::AnyZoned;
use littoral_device::zoned::file::FileDevice;
use littoral_device::zoned::joined::Joined;
use littoral_device::zoned::linux::LinuxDevice;
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_device::{Error, Kind, Result};

use super::Machine;

/// The longest append of a modelled device whose description gives none, in blocks.
const APPEND_BLOCKS_MAX: u32 = 31;

/// Whether a device of a machine opens.
#[derive(Debug)]
pub struct DeviceCheck {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// What stands behind it.
    pub medium: String,
    /// What was opened, in words; or why it was not.
    pub found: Result<String>,
}

impl Machine {
    /// Opens every device that is there, one after the other, and makes nothing.
    pub fn check(&self) -> Vec<DeviceCheck> {
        let check = |device: &DeviceSpec| DeviceCheck {
            name: device.name.clone(),
            kind: device.kind.name(),
            medium: device.medium.to_string(),
            found: self.try_opening(device),
        };
        self.spec().devices.iter().map(check).collect()
    }

    fn try_opening(&self, device: &DeviceSpec) -> Result<String> {
        let is_made_later =
            matches!(device.kind, DeviceKind::Zoned | DeviceKind::Memory | DeviceKind::Push)
                && matches!(&device.medium, Medium::File(path) if !path.exists());
        if is_made_later {
            return Ok("not there yet; made when it is first used".to_owned());
        }
        let name = &device.name;
        match device.kind {
            DeviceKind::Flash => Ok(self.flash(name)?.describe()),
            DeviceKind::Zoned => Ok(self.zoned(name)?.describe()),
            DeviceKind::Memory => {
                let memory = self.memory(name)?;
                Ok(format!("{} B, durable by {}", memory.len(), memory.name()))
            }
            #[cfg(feature = "push")]
            DeviceKind::Push => self.push(name).map(|opened| opened.describe()),
            #[cfg(not(feature = "push"))]
            DeviceKind::Push => Err(described(device, not_built(device))),
            #[cfg(feature = "fabric")]
            DeviceKind::Fabric => match device.medium {
                // A pool's file would be made and ended by looking.
                Medium::Pool(_) => self.carrier(name).map(|_| "made when a job starts".to_owned()),
                _ => Ok(self.fabric(name)?.describe()),
            },
            #[cfg(not(feature = "fabric"))]
            DeviceKind::Fabric => Err(described(device, not_built(device))),
        }
    }

    /// The device of this kind and name.
    pub(super) fn named(&self, name: &str, kind: DeviceKind) -> Result<&DeviceSpec> {
        let device = self.spec().choose(kind, Some(name))?;
        log::info!("opening device `{name}`, {}, on {}", kind.name(), device.medium);
        Ok(device)
    }

    /// Opens a flash device. One on `ram` takes contents ([`FlashDevice::filled`]; zeros until
    /// then) and is modelled by its profile, if it has one; the others hold what their file holds.
    ///
    /// # Errors
    /// `Kind::Profile` for an unknown device or one of another kind; else as the device's own
    /// opening.
    pub fn flash(&self, name: &str) -> Result<FlashDevice> {
        let device = self.named(name, DeviceKind::Flash)?;
        let opened = match &device.medium {
            Medium::Ram => modelled_flash(device),
            Medium::File(path) => FlashDevice::file(path, Access::Pread),
            Medium::Uring(path) => FlashDevice::file(path, Access::Uring),
            Medium::Mmap(path) => FlashDevice::file(path, Access::Mmap),
            _ => Err(not_built(device)),
        };
        opened.map_err(|e| described(device, e))
    }

    /// Opens a zoned device; one on `ram` takes the virtual time of its profile, one on a file is
    /// created there when the file is absent.
    ///
    /// # Errors
    /// As [`Machine::flash`]; `Kind::Profile` for an illegal geometry.
    pub fn zoned(&self, name: &str) -> Result<AnyZoned> {
        let device = self.named(name, DeviceKind::Zoned)?;
        let opened = match &device.medium {
            Medium::Ram => modelled_zones(device),
            Medium::File(path) => zones_in_file(path, device),
            Medium::Zbd(path) => drive(path, device),
            _ => Err(not_built(device)),
        };
        opened.map_err(|e| described(device, e))
    }

    /// A zoned device as the one of that name, which is on a file, would be made, but in the new
    /// file `path`.
    ///
    /// # Errors
    /// `Kind::Profile` for an unknown device or an illegal geometry; `Kind::Exists`, `Kind::Io`.
    pub fn zoned_at(&self, name: &str, path: &Path) -> Result<AnyZoned> {
        let device = self.named(name, DeviceKind::Zoned)?;
        let made = FileDevice::create(path, geometry(device));
        let opened = made.map(|made| AnyZoned::File(Box::new(made)));
        opened.map_err(|e| described(device, e))
    }

    /// The geometry of a zoned device that is emulated.
    ///
    /// # Errors
    /// `Kind::Profile` for an unknown device.
    pub fn zoned_geometry(&self, name: &str) -> Result<Geometry> {
        self.spec().choose(DeviceKind::Zoned, Some(name)).map(geometry)
    }

    /// Opens a memory device; one on `ram` is paced by its profile, one on a file is created there
    /// when the file is absent. Files are made durable by the means that promise most.
    ///
    /// # Errors
    /// As [`Machine::flash`]; `Kind::Profile` for an absent capacity.
    pub fn memory(&self, name: &str) -> Result<AnyDomain> {
        let device = self.named(name, DeviceKind::Memory)?;
        let opened = match &device.medium {
            Medium::Ram => modelled_memory(device),
            Medium::File(path) if path.exists() => AnyDomain::open(path),
            Medium::File(path) => AnyDomain::create(path, capacity(device)?),
            Medium::Dax(path) => AnyDomain::open(path),
            _ => Err(not_built(device)),
        };
        opened.map_err(|e| described(device, e))
    }

    /// As [`Machine::memory`], for what is made anew: a file that exists is refused.
    ///
    /// # Errors
    /// As [`Machine::memory`]; `Kind::Exists` for a file, `Kind::Foreign` when the memory
    /// holds anything.
    pub fn new_memory(&self, name: &str) -> Result<AnyDomain> {
        let (memory, draft) = self.draft_memory(name)?;
        draft.map_or(Ok(()), Draft::publish)?;
        Ok(memory)
    }

    /// As [`Machine::new_memory`]; a file that is made for it is a draft, which gets its name when
    /// it is published.
    ///
    /// # Errors
    /// As [`Machine::new_memory`].
    pub fn draft_memory(&self, name: &str) -> Result<(AnyDomain, Option<Draft>)> {
        let device = self.spec().choose(DeviceKind::Memory, Some(name))?;
        if let Medium::File(path) = &device.medium {
            let made = AnyDomain::draft(path, capacity(device)?);
            let (memory, draft) = made.map_err(|e| described(device, e))?;
            return Ok((memory, Some(draft)));
        }
        let memory = self.memory(name)?;
        if memory.is_blank() {
            return Ok((memory, None));
        }
        let what = format!("{} on {} holds something", device.label(), device.medium);
        Err(Error::new(Kind::Foreign, what + "; fill it with zeros to use it for another pool"))
    }

    /// A private copy of a memory device's contents: the device is opened for reading and never
    /// changes. `beside_owner`: also while a process is at work on it.
    ///
    /// # Errors
    /// As [`Machine::memory`]; `Kind::Unsupported` on `ram`, where nothing outlives a process.
    pub fn memory_copy(&self, name: &str, beside_owner: bool) -> Result<FileCopy> {
        let (device, path) = self.memory_path(name)?;
        let copy = if beside_owner { FileCopy::beside_owner(path) } else { FileCopy::open(path) };
        copy.map_err(|e| described(device, e))
    }

    /// A memory device and its file.
    ///
    /// # Errors
    /// As [`Machine::memory_copy`].
    pub fn memory_path(&self, name: &str) -> Result<(&DeviceSpec, &Path)> {
        let device = self.spec().choose(DeviceKind::Memory, Some(name))?;
        match device.medium.path() {
            Some(path) => Ok((device, path)),
            None => {
                let what = "is memory of one process, and nothing is there when another looks";
                let text = format!("{} {what}; name a device on `file:` or `dax:`", device.label());
                Err(Error::new(Kind::Unsupported, text))
            }
        }
    }
}

/// An error about a device, with the place of its description where it has one.
pub(super) fn described(device: &DeviceSpec, e: Error) -> Error {
    if device.place.is_empty() { e } else { e.in_context(device.label()) }
}

/// What this build says of a device that it cannot open.
pub(super) fn not_built(device: &DeviceSpec) -> Error {
    let (kind, scheme) = (device.kind.name(), device.medium.scheme());
    let legal = device.kind.media().join(", ");
    let message =
        format!("this build opens no {kind} device on `{scheme}`; it opens them on {legal}");
    Error::new(Kind::Unsupported, message)
}

fn modelled_flash(device: &DeviceSpec) -> Result<FlashDevice> {
    // A device without a machine file grows with what is put on it.
    let capacity = device.geometry("capacity").map(|_| capacity(device)).transpose()?;
    let blank = Region::build(capacity.unwrap_or(0), |_| {})?;
    let opened = match (&device.profile, device.interface) {
        (None, _) => FlashDevice::dram(blank),
        (Some(profile), None) => FlashDevice::modelled(blank, profile, device.transfer)?,
        (Some(profile), Some(interface)) => {
            FlashDevice::modelled_as(blank, profile, interface, device.transfer)?
        }
    };
    Ok(match capacity {
        Some(bytes) => opened.with_capacity(bytes),
        None => opened,
    })
}

fn modelled_zones(device: &DeviceSpec) -> Result<AnyZoned> {
    let mut model = ModelDevice::new(geometry(device))?;
    if let Some(profile) = &device.profile {
        model.set_timing(profile.zoned()?.timing);
    }
    let name = device.profile.as_ref().map(|p| p.name().to_owned());
    Ok(AnyZoned::Model(Box::new(model), name))
}

fn zones_in_file(path: &Path, device: &DeviceSpec) -> Result<AnyZoned> {
    let opened = match path.exists() {
        true => FileDevice::open(path)?,
        false => FileDevice::create(path, geometry(device))?,
    };
    Ok(AnyZoned::File(Box::new(opened)))
}

fn drive(path: &Path, device: &DeviceSpec) -> Result<AnyZoned> {
    let drive = LinuxDevice::open(path)?;
    Ok(match &device.conventional {
        Some(beside) => AnyZoned::Joined(Box::new(Joined::open(beside, drive)?)),
        None => AnyZoned::Drive(Box::new(drive)),
    })
}

fn modelled_memory(device: &DeviceSpec) -> Result<AnyDomain> {
    let bytes = capacity(device)?;
    let dram = pmem::Dram::try_new(bytes)
        .map_err(|e| e.in_context(format!("no {bytes} B of memory, give a smaller `capacity`")))?;
    Ok(match &device.profile {
        Some(profile) => AnyDomain::Paced(Box::new(pmem::Paced::new(dram, profile.memory()?))),
        None => AnyDomain::Dram(dram),
    })
}

fn capacity(device: &DeviceSpec) -> Result<usize> {
    let bytes = device
        .geometry("capacity")
        .ok_or_else(|| Error::new(Kind::Profile, "it is not there yet: give its `capacity`"))?;
    usize::try_from(bytes).map_err(|_| {
        Error::new(Kind::Unsupported, format!("{bytes} B do not fit this address space"))
    })
}

/// The geometry of a zoned device; one that does not give its longest append takes
/// [`APPEND_BLOCKS_MAX`].
fn geometry(device: &DeviceSpec) -> Geometry {
    let found = device.zones();
    match device.geometry("append_bytes_max") {
        Some(_) => found,
        None => Geometry { append_blocks_max: APPEND_BLOCKS_MAX, ..found },
    }
}

#[cfg(test)]
mod tests {
    use littoral_device::profile::machine::MachineSpec;

    use super::*;

    /// A description made by a program is not checked as a machine file is, so its medium may be
    /// one that no build opens for this kind.
    #[test]
    fn a_medium_that_no_build_opens_is_named_with_the_legal_ones() {
        let zbd = || Medium::Zbd("/dev/none".into());
        for (kind, medium) in [
            (DeviceKind::Flash, zbd()),
            (DeviceKind::Zoned, Medium::Dax("/dev/none".into())),
            (DeviceKind::Memory, zbd()),
        ] {
            let scheme = medium.scheme();
            let spec = MachineSpec::one(DeviceSpec::new("part", kind, medium));
            let machine = Machine::of(spec, "options");
            let e = match kind {
                DeviceKind::Flash => machine.flash("part").map(drop),
                DeviceKind::Zoned => machine.zoned("part").map(drop),
                _ => machine.memory("part").map(drop),
            };
            let e = e.unwrap_err();
            assert_eq!(e.kind(), Kind::Unsupported, "{e}");
            let said = format!("opens no {} device on `{scheme}`", kind.name());
            assert!(e.to_string().contains(&said), "{e}");
            assert!(kind.media().iter().all(|legal| e.to_string().contains(legal)), "{e}");
        }
    }
}
