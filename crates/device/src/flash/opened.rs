//! An opened flash device: what threads share, and the handle that each thread reads through.
//!
//! - Contents are a region of this process, a file mapped into memory, or a file that is read.
//! - A region may be modelled by a profile; every other device runs at its own speed.
//! - [`FlashDevice::handle`] gives a thread its own queue as the closed enum [`AnyDevice`]. A
//!   kernel matches on it once and is compiled for the variants that matter to it.
//! - Clones share contents and the rate of all cores.
//!
//! Invariants
//! - [`FlashDevice::clock`], [`FlashDevice::name`] and [`FlashDevice::describe`] are the only
//!   source of the words about what is measured and what is modelled. Checked by
//!   `every_device_gives_the_bytes_it_holds_and_names_its_clock`.
//! - A file device reads the file that it opened, whatever later takes its path. Checked by
//!   `a_device_reads_the_file_it_opened_though_another_takes_its_name`.
//! - Contents fit the device. Checked by `contents_fit_the_device_or_are_refused`.

use std::path::Path;
use std::sync::Arc;

use littoral_base::clock::ClockKind;
use littoral_base::units::PerSecond;

use super::any::AnyDevice;
use super::dram::Dram;
use super::file::{Direct, Source};
use super::paced::{Paced, PacedOptions};
use super::pacer::SharedRate;
use super::pread::{Pread, PreadOptions};
use super::queue_pair::{Batching, Doorbell, QueuePair};
use super::uring::{Uring, UringOptions, available};
use crate::error::{Error, Kind, Result};
pub use crate::profile::Transfer;
use crate::profile::{Interface, Profile};
use crate::read::{ReadDevice, Slot};
use crate::region::Region;

/// How a file or block device is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// By io_uring; by a pool of threads where that is forbidden.
    Uring,
    /// By a pool of threads that call `pread`.
    Pread,
    /// Mapped into memory: page faults fetch what is read.
    Mmap,
}

/// What a modelled device obeys.
#[derive(Clone, Debug)]
struct Model {
    profile: Profile,
    interface: Interface,
    transfer: Transfer,
    options: PacedOptions,
    /// The rate that all threads' handles share.
    shared: SharedRate,
}

#[derive(Clone, Debug)]
enum Contents {
    Region(Region),
    Mapped(Region),
    /// Read by io_uring, past the page cache where `is_direct` says so, or by threads.
    File {
        source: Arc<Source>,
        uring_refused: Option<String>,
        access: Access,
    },
}

/// An opened flash device; see the module's page.
#[derive(Clone, Debug)]
pub struct FlashDevice {
    contents: Contents,
    model: Option<Model>,
    /// Bytes that contents put here later may have; none: what there is stays.
    capacity: Option<usize>,
}

impl FlashDevice {
    /// DRAM with `region` as its contents: nothing modelled.
    pub fn dram(region: Region) -> FlashDevice {
        FlashDevice { contents: Contents::Region(region), model: None, capacity: None }
    }

    /// `region` behind a model of the part that `profile` describes. A profile whose interface is
    /// `doorbell` gets an NVMe-style queue pair, which hands data out by pointer.
    ///
    /// # Errors
    /// `Kind::Profile` when the profile describes no flash, `Kind::IllegalRequest` for copies
    /// behind a queue pair.
    pub fn modelled(region: Region, profile: &Profile, transfer: Transfer) -> Result<FlashDevice> {
        let flash = profile.flash()?;
        Self::modelled_as(region, profile, flash.interface, transfer)
    }

    /// As [`FlashDevice::modelled`], behind another interface than the profile's.
    ///
    /// # Errors
    /// As [`FlashDevice::modelled`].
    pub fn modelled_as(
        region: Region,
        profile: &Profile,
        interface: Interface,
        transfer: Transfer,
    ) -> Result<FlashDevice> {
        let flash = profile.flash()?;
        if interface == Interface::Doorbell && transfer == Transfer::Copy {
            let what = "a queue pair is modelled with data by pointer; copies go with flash that \
                        has no doorbells";
            return Err(Error::new(Kind::IllegalRequest, what));
        }
        let model = Model {
            profile: profile.clone(),
            interface,
            transfer,
            options: PacedOptions::of(&flash, None),
            shared: SharedRate::new(PerSecond(flash.reads_total_max as f64)),
        };
        Ok(FlashDevice { contents: Contents::Region(region), model: Some(model), capacity: None })
    }

    /// A file or block device, read by `access`.
    ///
    /// # Errors
    /// As [`Source::open`]; `Kind::Io` when a mapping is refused.
    pub fn file(path: &Path, access: Access) -> Result<FlashDevice> {
        if access == Access::Mmap {
            let source = Source::open(path, Direct::No)?;
            let contents = Contents::Mapped(Region::map(&source.file, source.len, path)?);
            return Ok(FlashDevice { contents, model: None, capacity: None });
        }
        let uring_refused = match access {
            Access::Uring => available().err(),
            _ => None,
        };
        if let Some(why) = &uring_refused {
            log::info!("a pool of pread threads stands in for io_uring: {why}");
        }
        let is_uring = access == Access::Uring && uring_refused.is_none();
        let direct = if is_uring { Direct::Auto } else { Direct::No };
        let source = Arc::new(Source::open(path, direct)?);
        let contents = Contents::File { source, uring_refused, access };
        Ok(FlashDevice { contents, model: None, capacity: None })
    }

    /// The same with room for `bytes` of contents, which [`FlashDevice::filled`] puts there.
    #[must_use]
    pub fn with_capacity(mut self, bytes: usize) -> FlashDevice {
        self.capacity = Some(bytes);
        self
    }

    /// The same device with these contents, where it is one whose contents are given to it.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` for a device that holds what its file holds, `Kind::Exhausted` for
    /// more bytes than it has room for.
    pub fn filled(&self, region: Region) -> Result<FlashDevice> {
        if !self.takes_contents() {
            let what = format!("{}: it holds what its file holds", self.name());
            return Err(Error::new(Kind::IllegalRequest, what));
        }
        match self.capacity {
            Some(capacity) if region.len() > capacity => {
                let what = format!("{} B do not fit a device of {capacity} B", region.len());
                Err(Error::new(Kind::Exhausted, what))
            }
            _ => Ok(FlashDevice { contents: Contents::Region(region), ..self.clone() }),
        }
    }

    /// Whether contents are given to the device, rather than found in its file.
    pub fn takes_contents(&self) -> bool {
        matches!(self.contents, Contents::Region(_))
    }

    /// Bytes that can be read.
    pub fn len(&self) -> u64 {
        match &self.contents {
            Contents::Region(region) | Contents::Mapped(region) => region.len() as u64,
            Contents::File { source, .. } => source.len,
        }
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The contents where loads reach them and nothing is modelled.
    pub fn resident(&self) -> Option<&Region> {
        match (&self.contents, &self.model) {
            (Contents::Region(region) | Contents::Mapped(region), None) => Some(region),
            _ => None,
        }
    }

    /// The contents of a device that is filled with a region.
    pub fn region(&self) -> Option<&Region> {
        match &self.contents {
            Contents::Region(region) => Some(region),
            Contents::Mapped(_) | Contents::File { .. } => None,
        }
    }

    /// The profile behind a modelled device.
    pub fn profile(&self) -> Option<&Profile> {
        self.model.as_ref().map(|m| &m.profile)
    }

    /// Latency, rates and slots of one handle of a modelled device.
    pub fn paced_options(&self) -> Option<&PacedOptions> {
        self.model.as_ref().map(|m| &m.options)
    }

    /// Which clock stands behind a time on this device.
    pub fn clock(&self) -> ClockKind {
        if self.model.is_some() { ClockKind::Paced } else { ClockKind::Wall }
    }

    /// What kind of device this is, in a word: `dram`, `flash` and `nvme` (modelled), `uring`,
    /// `pread` or `mmap`.
    pub fn name(&self) -> &'static str {
        match (&self.contents, &self.model) {
            (_, Some(m)) if m.interface == Interface::Doorbell => "nvme",
            (_, Some(_)) => "flash",
            (Contents::Region(_), None) => "dram",
            (Contents::Mapped(_), None) => "mmap",
            (Contents::File { access: Access::Uring, .. }, None) => "uring",
            (Contents::File { .. }, None) => "pread",
        }
    }

    /// What is real and what is modelled, in one line.
    pub fn describe(&self) -> String {
        if let Some(model) = &self.model {
            return model.describe();
        }
        match &self.contents {
            Contents::Region(_) => "data in DRAM; nothing modelled".to_owned(),
            Contents::Mapped(_) => "the file mapped into memory; nothing modelled".to_owned(),
            Contents::File { access: Access::Uring, uring_refused: None, source } => {
                let way = if source.direct {
                    "past the page cache (O_DIRECT)"
                } else {
                    "through the page cache, which may serve reads (no direct access here)"
                };
                format!("the file read by io_uring {way}; nothing modelled")
            }
            Contents::File { uring_refused: Some(why), .. } => format!(
                "the file read by a pool of threads through the page cache, which may serve \
                 reads, because io_uring is unavailable ({why}); nothing modelled"
            ),
            Contents::File { .. } => {
                "the file read by a pool of threads through the page cache, which may serve reads; \
                 nothing modelled"
                    .to_owned()
            }
        }
    }

    /// A thread's own handle, one of `sharers` threads that read at the same time. A file gets
    /// `slots` requests outstanding; a model has those of its profile.
    ///
    /// # Errors
    /// As the handle's own opening.
    pub fn handle(&self, sharers: usize, slots: u32) -> Result<AnyDevice> {
        match (&self.contents, &self.model) {
            (Contents::Region(region), Some(model)) => model.handle(region, sharers),
            (Contents::Region(region) | Contents::Mapped(region), _) => {
                Ok(AnyDevice::Dram(Dram::with_slots(region.clone(), slots)))
            }
            (Contents::File { source, access: Access::Uring, uring_refused: None }, _) => {
                let options = UringOptions { slots, ..UringOptions::default() };
                Ok(AnyDevice::Uring(Box::new(Uring::on(source.try_clone()?, options)?)))
            }
            (Contents::File { source, .. }, _) => {
                let options = PreadOptions { slots, ..PreadOptions::default() };
                Ok(AnyDevice::Pread(Pread::on(source.try_clone()?, options)?))
            }
        }
    }

    /// The first `len` bytes, read through a handle of the device.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` past the end; `Kind::Io` when a read fails.
    pub fn read_prefix(&self, len: u64) -> Result<Vec<u8>> {
        if len > self.len() {
            let what = format!("{len} B wanted of a device that holds {} B", self.len());
            return Err(Error::new(Kind::IllegalRequest, what));
        }
        let handle = self.handle(1, PREFIX_SLOTS)?;
        let limits = handle.limits();
        let granule = u64::from(limits.granule_bytes.max(1));
        let piece = u64::from(limits.read_bytes_max) / granule * granule;
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
        while (bytes.len() as u64) < len {
            let at = bytes.len() as u64;
            let wanted = piece.min(len - at);
            let asked = wanted.next_multiple_of(granule).min(limits.capacity_bytes - at);
            bytes.extend_from_slice(&read_one(&handle, at, asked as u32)?[..wanted as usize]);
        }
        Ok(bytes)
    }
}

const PREFIX_SLOTS: u32 = 4;

/// One read, waited for.
fn read_one(device: &AnyDevice, at: u64, len: u32) -> Result<Vec<u8>> {
    const SLOT: Slot = Slot(0);
    device.issue(SLOT, at, len);
    device.kick();
    let status = loop {
        if let Some(status) = device.poll(SLOT) {
            break status;
        }
        device.reap();
        if device.limits().can_park {
            device.park(std::time::Duration::from_millis(10));
        }
    };
    if !status.is_ok() {
        let words = device.last_error().unwrap_or_else(|| format!("{status:?}"));
        device.release(SLOT);
        return Err(Error::new(Kind::Io, format!("reading {len} B at {at}: {words}")));
    }
    let bytes = device.copy(SLOT);
    device.release(SLOT);
    Ok(bytes)
}

impl Model {
    /// What a doorbell costs; zero where the profile says nothing of one.
    fn doorbell_ns(&self) -> f64 {
        let flash = self.profile.flash().ok();
        flash.and_then(|f| f.doorbell).map_or(0.0, |d| d.0 as f64 / 1e3)
    }

    fn handle(&self, region: &Region, sharers: usize) -> Result<AnyDevice> {
        let mut options = self.options.clone();
        if sharers > 1 {
            options.timing.shared = Some(self.shared.clone());
        }
        let region = region.clone();
        Ok(match (self.interface, self.transfer) {
            (Interface::Doorbell, _) => {
                let doorbell = Doorbell::BusyNs(self.doorbell_ns());
                let pair = QueuePair::new(region, options, doorbell, Batching::PerKick)?;
                AnyDevice::QueuePair(Box::new(pair))
            }
            (_, Transfer::Pointer) => AnyDevice::Pointed(Box::new(Paced::new(region, options))),
            (_, Transfer::Copy) => AnyDevice::Paced(Box::new(Paced::new(region, options))),
        })
    }

    fn describe(&self) -> String {
        let timing = &self.options.timing;
        let rate = timing.reads_per_core_max.map_or(0.0, |r| r.0);
        let figures = format!(
            "{} us, {:.0} M reads/s a core, link {:.1} GB/s, granule {} B",
            timing.latency.as_nanos() as f64 / 1e3,
            rate / 1e6,
            timing.link_bytes_per_s.unwrap_or(0.0) / 1e9,
            self.options.granule_bytes
        );
        let hand_over = match (self.interface, self.transfer) {
            (Interface::Doorbell, _) => {
                let ns = self.doorbell_ns();
                format!("behind a queue pair, doorbells of {ns:.0} ns once a batch")
            }
            (_, Transfer::Pointer) => "data handed out by pointer (transfer free)".to_owned(),
            (_, Transfer::Copy) => "data copied at the host's expense".to_owned(),
        };
        let name = self.profile.name();
        format!("modelled: flash {name} ({figures}), {hand_over}; contents are in DRAM")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents() -> (Vec<u8>, Region) {
        let bytes: Vec<u8> = (0..50_001u32).map(|i| (i * 7 % 251) as u8).collect();
        let region = Region::from_bytes(&bytes).unwrap();
        (bytes, region)
    }

    #[test]
    fn every_device_gives_the_bytes_it_holds_and_names_its_clock() {
        let (bytes, region) = contents();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        std::fs::write(&path, &bytes).unwrap();
        let xlfdd = Profile::named("xlfdd").unwrap();
        let nvme = Profile::named("nvme-optane").unwrap();
        let padded = |p: &Profile| {
            // A model's contents are whole granules.
            let granule = p.flash().unwrap().granule_bytes as usize;
            let len = bytes.len().next_multiple_of(granule);
            Region::build(len, |into| into[..bytes.len()].copy_from_slice(&bytes)).unwrap()
        };
        let modelled =
            |p: &Profile, t| FlashDevice::modelled(padded(p), p, t).expect("a legal device");
        for (device, name, clock) in [
            (FlashDevice::dram(region.clone()), "dram", ClockKind::Wall),
            (modelled(&xlfdd, Transfer::Pointer), "flash", ClockKind::Paced),
            (modelled(&xlfdd, Transfer::Copy), "flash", ClockKind::Paced),
            (modelled(&nvme, Transfer::Pointer), "nvme", ClockKind::Paced),
            (FlashDevice::file(&path, Access::Pread).unwrap(), "pread", ClockKind::Wall),
            (FlashDevice::file(&path, Access::Uring).unwrap(), "uring", ClockKind::Wall),
            (FlashDevice::file(&path, Access::Mmap).unwrap(), "mmap", ClockKind::Wall),
        ] {
            assert_eq!(device.read_prefix(50_001).unwrap(), bytes, "{name}");
            assert_eq!((device.name(), device.clock()), (name, clock));
            assert_eq!(device.describe().starts_with("modelled"), device.profile().is_some());
            assert_eq!(device.takes_contents(), device.region().is_some());
            let is_read = matches!(name, "pread" | "uring");
            assert_eq!(device.describe().contains("page cache"), is_read, "{}", device.describe());
            assert!(device.read_prefix(60_000).is_err(), "{name}");
        }
    }

    #[test]
    fn a_device_reads_the_file_it_opened_though_another_takes_its_name() {
        let (bytes, _) = contents();
        let dir = tempfile::tempdir().unwrap();
        for access in [Access::Pread, Access::Uring, Access::Mmap] {
            let (path, other) = (dir.path().join("data"), dir.path().join("other"));
            std::fs::write(&path, &bytes).unwrap();
            let device = FlashDevice::file(&path, access).unwrap();
            std::fs::write(&other, vec![9; bytes.len()]).unwrap();
            std::fs::rename(&other, &path).unwrap();
            assert_eq!(device.read_prefix(device.len()).unwrap(), bytes, "{access:?}");
            std::fs::remove_file(&path).unwrap();
            assert_eq!(device.read_prefix(device.len()).unwrap(), bytes, "{access:?}, removed");
        }
    }

    #[test]
    fn contents_fit_the_device_or_are_refused() {
        let (_, region) = contents();
        let small = FlashDevice::dram(region.clone()).with_capacity(4096);
        assert_eq!(small.filled(region.clone()).unwrap_err().kind(), Kind::Exhausted);
        let page = Region::from_bytes(&[1; 4096]).unwrap();
        assert_eq!(small.filled(page).unwrap().len(), 4096);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [3; 100]).unwrap();
        let real = FlashDevice::file(file.path(), Access::Pread).unwrap();
        assert_eq!(real.filled(region.clone()).unwrap_err().kind(), Kind::IllegalRequest);
        let nvme = Profile::named("nvme-tlc").unwrap();
        let copies = FlashDevice::modelled(region, &nvme, Transfer::Copy).unwrap_err();
        assert_eq!(copies.kind(), Kind::IllegalRequest);
    }
}
