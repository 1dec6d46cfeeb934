//! The machine an application runs on: memory devices by name, opened and described.
//!
//! ```
//! use littoral::machine::Machine;
//! let machine = Machine::open(None)?;
//! let names: Vec<_> = machine.spec().devices.iter().map(|d| d.name.as_str()).collect();
//! assert_eq!(names, ["flash", "memory", "zoned"]);
//! let memory = machine.open_memory("memory")?;
//! assert_eq!(memory.len(), 256 << 20);
//! # Ok::<(), littoral::device::Error>(())
//! ```
//!
//! Invariants
//! - Opening a machine touches no medium; a device is touched when it is opened.
//! - A description says what is modelled and what is real; a modelled device carries its profile's
//!   name and hash.
//! - Nothing that exists is overwritten: files are created only where there are none.
//! - A device with contents of its own has one owner: a second opening is `Kind::Busy`.
//!
//! A device that this build cannot open is `Kind::Unsupported` by name.

use std::path::Path;

use littoral_device::flash::any::{AnyDevice, Opened};
use littoral_device::flash::dram::Dram;
use littoral_device::flash::paced::{Paced, PacedOptions};
use littoral_device::flash::pread::{Pread, PreadOptions};
use littoral_device::flash::uring::UringOptions;
use littoral_device::memory::Domain;
use littoral_device::pmem::{self, FlushFence, Msync};
use littoral_device::profile::DeviceKind;
use littoral_device::profile::machine::{DeviceSpec, MachineSpec, Medium};
use littoral_device::region::Region;
use littoral_device::zoned::ZonedDevice;
use littoral_device::zoned::file::FileDevice;
use littoral_device::zoned::joined::Joined;
use littoral_device::zoned::linux::LinuxDevice;
use littoral_device::zoned::model::ModelDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_device::{Error, Kind, Result};

pub mod facts;
pub mod host;

/// The file a machine is described in when none is named and it exists in the working folder.
pub const DEFAULT_FILE: &str = "machine.toml";

/// The longest append of a modelled device whose description gives none, in blocks.
const APPEND_BLOCKS_MAX: u32 = 31;

/// A machine; see the module's page.
#[derive(Clone, Debug)]
pub struct Machine {
    spec: MachineSpec,
    origin: String,
}

impl Machine {
    /// The machine described at `path`, or in `machine.toml` of the working folder, or else
    /// everything emulated in memory.
    ///
    /// # Errors
    /// As [`MachineSpec::load`].
    pub fn open(path: Option<&Path>) -> Result<Machine> {
        match path {
            Some(path) => Self::load(path),
            None if Path::new(DEFAULT_FILE).exists() => Self::load(Path::new(DEFAULT_FILE)),
            None => {
                let origin = "no machine file: everything is emulated in memory".to_owned();
                Ok(Machine { spec: MachineSpec::emulated(None), origin })
            }
        }
    }

    /// A machine whose devices are emulated in the files of `folder`, which is made if absent.
    ///
    /// # Errors
    /// `Kind::Io` when the folder cannot be made.
    pub fn in_folder(folder: &Path) -> Result<Machine> {
        std::fs::create_dir_all(folder).map_err(|e| {
            Error::with_source(Kind::Io, format!("making the folder {}", folder.display()), e)
        })?;
        let origin = format!("no machine file: everything is emulated in {}", folder.display());
        Ok(Machine { spec: MachineSpec::emulated(Some(folder)), origin })
    }

    /// A machine of these devices; `origin` says where they come from.
    pub fn of(spec: MachineSpec, origin: &str) -> Machine {
        Machine { spec, origin: origin.to_owned() }
    }

    fn load(path: &Path) -> Result<Machine> {
        let origin = format!("machine file {}", path.display());
        Ok(Machine { spec: MachineSpec::load(path)?, origin })
    }

    /// The devices.
    pub fn spec(&self) -> &MachineSpec {
        &self.spec
    }

    /// Where the description comes from, in words.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// What is real on this host and what the machine's devices are.
    pub fn describe(&self) -> facts::Description {
        facts::describe(self)
    }

    fn device(&self, name: &str, kind: DeviceKind) -> Result<&DeviceSpec> {
        let device = self.spec.device(name)?;
        if device.kind == kind {
            let medium = device.medium.scheme();
            let place = device.medium.path().map(|p| p.display().to_string()).unwrap_or_default();
            log::info!("opening device `{name}`, {}, on {medium}{place}", kind.name());
            return Ok(device);
        }
        let (found, wanted) = (device.kind.name(), kind.name());
        let message = format!("device `{name}` is {found}, wanted {wanted}");
        Err(Error::new(Kind::IllegalRequest, message))
    }

    /// Opens a flash device. One on `ram` holds `data` (or zeros) and is paced by its profile,
    /// copies charged to the host; the others hold what their file holds and refuse data.
    ///
    /// # Errors
    /// `Kind::Profile` for an unknown device, `Kind::IllegalRequest` for data given to a file,
    /// `Kind::Exhausted` for data larger than the device; else as the device's own opening.
    pub fn open_flash(
        &self,
        name: &str,
        data: Option<Region>,
        options: UringOptions,
    ) -> Result<Opened> {
        let device = self.device(name, DeviceKind::Flash)?;
        if let (Some(path), Some(_)) = (device.medium.path(), &data) {
            let message = format!("device `{name}` holds the bytes of {}", path.display());
            return Err(Error::new(Kind::IllegalRequest, message));
        }
        match &device.medium {
            Medium::Ram => open_ram(device, data),
            Medium::File(path) => {
                let (slots, read_bytes_max) = (options.slots, options.read_bytes_max);
                let options = PreadOptions { slots, read_bytes_max, ..PreadOptions::default() };
                let pool = Pread::open(path, options)?;
                let description = "real: pread pool, page cache".to_owned();
                Ok(Opened { device: AnyDevice::Pread(pool), description })
            }
            Medium::Uring(path) => {
                let opened = AnyDevice::open_file(path, options)?;
                Ok(Opened { description: format!("real: {}", opened.description), ..opened })
            }
            medium => Err(not_built(device, medium)),
        }
    }

    /// Opens a zoned device; one on `ram` takes the virtual time of its profile, one on a file is
    /// created there when the file is absent.
    ///
    /// # Errors
    /// `Kind::Profile` for an unknown device or an illegal geometry; else as the device's own
    /// opening.
    pub fn open_zoned(&self, name: &str) -> Result<Box<dyn ZonedDevice + Send + Sync>> {
        let device = self.device(name, DeviceKind::Zoned)?;
        match &device.medium {
            Medium::Ram => {
                let mut model = ModelDevice::new(geometry(device))?;
                if let Some(profile) = &device.profile {
                    model.set_timing(profile.zoned()?.timing);
                }
                Ok(Box::new(model))
            }
            Medium::File(path) if path.exists() => Ok(Box::new(FileDevice::open(path)?)),
            Medium::File(path) => Ok(Box::new(FileDevice::create(path, geometry(device))?)),
            Medium::Zbd(path) => {
                let drive = LinuxDevice::open(path)?;
                match &device.conventional {
                    Some(beside) => Ok(Box::new(Joined::open(beside, drive)?)),
                    None => Ok(Box::new(drive)),
                }
            }
            medium => Err(not_built(device, medium)),
        }
    }

    /// The geometry of a zoned device that is emulated.
    ///
    /// # Errors
    /// `Kind::Profile` for an unknown device.
    pub fn zoned_geometry(&self, name: &str) -> Result<Geometry> {
        self.device(name, DeviceKind::Zoned).map(geometry)
    }

    /// Opens a memory device; one on `ram` is paced by its profile, one on a file is created there
    /// when the file is absent.
    ///
    /// # Errors
    /// `Kind::Profile` for an unknown device or an absent capacity; else as the domain's own
    /// opening.
    pub fn open_memory(&self, name: &str) -> Result<Box<dyn Domain>> {
        let device = self.device(name, DeviceKind::Memory)?;
        match &device.medium {
            Medium::Ram => {
                let dram = pmem::Dram::new(capacity(device)?);
                match &device.profile {
                    Some(profile) => Ok(Box::new(pmem::Paced::new(dram, profile.memory()?))),
                    None => Ok(Box::new(dram)),
                }
            }
            Medium::File(path) if path.exists() => Ok(Box::new(Msync::open(path)?)),
            Medium::File(path) => Ok(Box::new(Msync::create(path, capacity(device)?)?)),
            Medium::Dax(path) => Ok(Box::new(FlushFence::open(path)?)),
            medium => Err(not_built(device, medium)),
        }
    }
}

fn not_built(device: &DeviceSpec, medium: &Medium) -> Error {
    let (name, kind, scheme) = (&device.name, device.kind.name(), medium.scheme());
    let message = format!("device `{name}`: this build opens no {kind} device on `{scheme}`");
    Error::new(Kind::Unsupported, message)
}

fn open_ram(device: &DeviceSpec, data: Option<Region>) -> Result<Opened> {
    let capacity = capacity(device)?;
    let region = match data {
        Some(region) if region.len() > capacity => {
            let (name, len) = (&device.name, region.len());
            let message = format!("{len} B do not fit device `{name}` of {capacity} B");
            return Err(Error::new(Kind::Exhausted, message));
        }
        Some(region) => region,
        None => Region::build(capacity, |_| {})?,
    };
    let Some(profile) = &device.profile else {
        let description = "real: DRAM, data by prefetch".to_owned();
        return Ok(Opened { device: AnyDevice::Dram(Dram::new(region)), description });
    };
    let flash = profile.flash()?;
    let paced = Paced::new(region, PacedOptions::of(&flash, None));
    let description = format!("modelled: {}", facts::profile_words(profile));
    Ok(Opened { device: AnyDevice::Paced(Box::new(paced)), description })
}

fn capacity(device: &DeviceSpec) -> Result<usize> {
    let bytes = device.geometry("capacity").ok_or_else(|| {
        let message = format!("device `{}` is not there yet: give its `capacity`", device.name);
        Error::new(Kind::Profile, message)
    })?;
    usize::try_from(bytes).map_err(|_| {
        let message = format!("device `{}`: {bytes} B do not fit this address space", device.name);
        Error::new(Kind::Unsupported, message)
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
