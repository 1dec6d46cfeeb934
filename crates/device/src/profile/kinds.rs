//! The kinds of device, and a profile's figures as structures, one per kind.
//!
//! - Each function of [`Profile`] here refuses a profile of another kind by name.
//! - What no single row can check is checked here, when a profile is read.

use littoral_base::units::Picos;

use super::spec::Row;
use super::{Interface, Profile, rows};
use crate::error::Result;
use crate::nand::Parameters;
use crate::zoned::timing::Timing;
use crate::zoned::zones::Geometry;

/// The kinds of device that a machine is made of and a profile describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceKind {
    /// Small asynchronous reads ([`crate::read::ReadDevice`]).
    Flash,
    /// Zoned storage ([`crate::zoned::ZonedDevice`]).
    Zoned,
    /// Persistent or pooled memory ([`crate::memory::Domain`]).
    Memory,
    /// Other nodes' memory, as the crate `littoral-fabric` carries it.
    Fabric,
    /// Flash behind cores that run functions on pages, as the crate `littoral-push` models it.
    Push,
}

impl DeviceKind {
    /// Every kind with its name.
    pub const ALL: [(&'static str, DeviceKind); 5] = [
        ("flash", DeviceKind::Flash),
        ("zoned", DeviceKind::Zoned),
        ("memory", DeviceKind::Memory),
        ("fabric", DeviceKind::Fabric),
        ("push", DeviceKind::Push),
    ];

    /// The figures that a profile of this kind may hold. Those of a fabric stand in each of its
    /// configurations, so that their keys have no section.
    pub fn rows(self) -> &'static [Row] {
        match self {
            DeviceKind::Flash => rows::FLASH,
            DeviceKind::Zoned => rows::ZONED,
            DeviceKind::Memory => rows::MEMORY,
            DeviceKind::Fabric => rows::FABRIC,
            DeviceKind::Push => rows::PUSH,
        }
    }

    /// The name as profiles and machine files spell it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, k)| *k == self).expect("invariant: every kind is listed").0
    }
}

/// The figures of a flash profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flash {
    /// From a request seen by the idle device to its last byte in memory.
    pub latency: Picos,
    /// Most reads per second that one core's queue is served.
    pub reads_per_core_max: u64,
    /// Most reads per second over all cores.
    pub reads_total_max: u64,
    /// Addresses and lengths are multiples of this.
    pub granule_bytes: u32,
    /// Longest single read in bytes.
    pub read_bytes_max: u32,
    /// Most payload bytes per second over the host link.
    pub link_bytes_per_s: u64,
    /// Entries of one core's submission queue.
    pub queue_depth: u32,
    /// Time a core loses to one uncached doorbell write, where there are doorbells.
    pub doorbell: Option<Picos>,
    /// How the host talks to the device.
    pub interface: Interface,
    /// The flash behind it, where the profile describes it.
    pub nand: Option<Parameters>,
}

/// The figures of a zoned profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zoned {
    /// The shape and the limits.
    pub geometry: Geometry,
    /// The times.
    pub timing: Timing,
}

/// The figures of a profile of persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// From a fence to durability of one line, idle.
    pub write_latency: Picos,
    /// The unit that the medium writes.
    pub line_bytes: u64,
    /// Sustained random write bandwidth in bytes per second.
    pub write_bytes_per_s: u64,
    /// Bytes that the part accepts ahead of its medium.
    pub buffer_bytes: u64,
    /// Random read latency; reported, not charged.
    pub read_latency: Picos,
}

/// The figures of a device that computes, and of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Push {
    /// The flash.
    pub nand: Parameters,
    /// Bytes per second between flash controller and device memory.
    pub bus_bytes_per_s: u64,
    /// Bytes per second from device to host.
    pub link_bytes_per_s: u64,
    /// Cores that run page functions and firmware.
    pub cores: u32,
    /// Clock of a core.
    pub core_mhz: u64,
    /// Cycles per instruction in thousandths.
    pub cpi_milli: u64,
    /// Instructions that a page function may spend on one page.
    pub budget: u64,
    /// Firmware instructions per page read, written and moved by garbage collection.
    pub firmware: [u64; 3],
    /// Fetched pages that device memory holds.
    pub dram_pages: u32,
    /// Cores of the host.
    pub host_cores: u32,
    /// Slots of a host queue.
    pub queue_depth: u32,
}

impl Profile {
    /// The figures of a device that computes.
    ///
    /// # Errors
    /// `Kind::Profile` when the profile describes another kind of device.
    pub fn push(&self) -> Result<Push> {
        self.expect_kind(DeviceKind::Push)?;
        Ok(Push {
            nand: self.nand().expect("invariant: a push profile describes its flash"),
            bus_bytes_per_s: self.required("bus.bytes_max"),
            link_bytes_per_s: self.required("link.bytes_max"),
            cores: self.small("core.count"),
            core_mhz: self.required("core.clock_mhz"),
            cpi_milli: self.required("core.cpi_milli"),
            budget: self.required("core.budget"),
            firmware: ["core.firmware_read", "core.firmware_write", "core.firmware_move"]
                .map(|key| self.required(key)),
            dram_pages: self.small("dram.pages"),
            host_cores: self.small("host.cores"),
            queue_depth: self.small("host.queue_depth"),
        })
    }

    /// The figures of a flash profile.
    ///
    /// # Errors
    /// `Kind::Profile` when the profile describes another kind of device.
    pub fn flash(&self) -> Result<Flash> {
        self.expect_kind(DeviceKind::Flash)?;
        Ok(Flash {
            latency: self.time("read.latency"),
            reads_per_core_max: self.required("read.per_core_max"),
            reads_total_max: self.required("read.total_max"),
            granule_bytes: self.small("read.granule_bytes"),
            read_bytes_max: self.small("read.bytes_max"),
            link_bytes_per_s: self.required("link.bytes_max"),
            queue_depth: self.small("queue.depth"),
            doorbell: self.value("queue.doorbell").map(Picos),
            interface: self.interface.expect("invariant: a flash profile has an interface"),
            nand: self.nand(),
        })
    }

    /// The figures of a zoned profile.
    ///
    /// # Errors
    /// `Kind::Profile` when the profile describes another kind of device.
    pub fn zoned(&self) -> Result<Zoned> {
        self.expect_kind(DeviceKind::Zoned)?;
        let timing = Timing {
            read: self.time("timing.read"),
            program: self.time("timing.program"),
            conventional: self.time("timing.conventional"),
            reset: self.time("timing.reset"),
            finish: self.time("timing.finish"),
            flush: self.time("timing.flush"),
            channels: self.small("timing.channels") as usize,
            wear_step_resets: self.value("wear.step_resets").unwrap_or(0),
            wear_step_percent: self.value("wear.step").unwrap_or(0),
        };
        Ok(Zoned { geometry: geometry(|field| self.zone_figure(field)), timing })
    }

    /// The figures of a profile of persistent memory.
    ///
    /// # Errors
    /// `Kind::Profile` when the profile describes another kind of device.
    pub fn memory(&self) -> Result<Memory> {
        self.expect_kind(DeviceKind::Memory)?;
        Ok(Memory {
            write_latency: self.time("write.latency"),
            line_bytes: self.required("write.line_bytes"),
            write_bytes_per_s: self.required("write.bytes_max"),
            buffer_bytes: self.required("write.buffer_bytes"),
            read_latency: self.time("read.latency"),
        })
    }

    fn nand(&self) -> Option<Parameters> {
        self.value("nand.channels")?;
        Some(Parameters {
            channels: self.small("nand.channels"),
            chips_per_channel: self.small("nand.chips_per_channel"),
            page_bytes: self.small("nand.page_bytes"),
            pages_per_block: self.small("nand.pages_per_block"),
            read: self.time("nand.read"),
            program: self.time("nand.program"),
            erase: self.time("nand.erase"),
            channel_bytes_per_s: self.required("nand.channel_bytes_max"),
        })
    }

    fn zone_figure(&self, field: &str) -> Option<u64> {
        self.value(&format!("geometry.{field}"))
    }

    fn time(&self, key: &str) -> Picos {
        Picos(self.required(key))
    }

    fn small(&self, key: &str) -> u32 {
        u32::try_from(self.required(key)).expect("invariant: the row's range fits 32 bits")
    }

    pub(super) fn check_flash(&self) -> std::result::Result<(), String> {
        let (granule, longest) =
            (self.required("read.granule_bytes"), self.required("read.bytes_max"));
        if longest < granule {
            return Err(format!(
                "`read.bytes_max` {longest} is below `read.granule_bytes`; nearest legal value {granule}"
            ));
        }
        let (core, total) = (self.required("read.per_core_max"), self.required("read.total_max"));
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
        if (self.interface == Some(Interface::Doorbell))
            != self.figures.contains_key("queue.doorbell")
        {
            return Err("`queue.doorbell` goes with interface `doorbell` and no other".to_owned());
        }
        Ok(())
    }

    pub(super) fn check_zoned(&self) -> std::result::Result<(), String> {
        check_zones("geometry.", |field| self.zone_figure(field))
    }
}

/// The geometry that the figures of a zoned device describe: zones that are not conventional are
/// sequential, a capacity left out is the zone's size, a limit left out is none.
pub(super) fn geometry(figure: impl Fn(&str) -> Option<u64>) -> Geometry {
    let or_zero = |field: &str| figure(field).unwrap_or(0);
    let small = |field: &str| u32::try_from(or_zero(field)).expect("invariant: the row's range");
    let (block, size) = (or_zero("block_bytes").max(1), or_zero("zone_size"));
    let conventional_zones = small("conventional_zones");
    let append_blocks = or_zero("append_bytes_max") / block;
    Geometry {
        block_bytes: small("block_bytes"),
        conventional_zones,
        sequential_zones: small("zones").saturating_sub(conventional_zones),
        zone_blocks: size / block,
        capacity_blocks: figure("zone_capacity").unwrap_or(size) / block,
        open_zones_max: small("open_zones_max"),
        active_zones_max: small("active_zones_max"),
        append_blocks_max: u32::try_from(append_blocks).unwrap_or(u32::MAX),
    }
}

/// What no single figure of a zoned device can check; `section` stands before each name in errors.
pub(super) fn check_zones(
    section: &str,
    figure: impl Fn(&str) -> Option<u64>,
) -> std::result::Result<(), String> {
    let (Some(block), Some(zones), Some(size)) =
        (figure("block_bytes"), figure("zones"), figure("zone_size"))
    else {
        return Ok(());
    };
    for field in ["zone_size", "zone_capacity", "append_bytes_max"] {
        let value = figure(field).unwrap_or(0);
        if !value.is_multiple_of(block) {
            let near = value.next_multiple_of(block);
            return Err(format!(
                "`{section}{field}` {value} is no multiple of `{section}block_bytes`; nearest legal \
                 value {near}"
            ));
        }
    }
    for (field, limit, most) in
        [("zone_capacity", "zone_size", size), ("conventional_zones", "zones", zones)]
    {
        if figure(field).is_some_and(|value| value > most) {
            return Err(format!(
                "`{section}{field}` is above `{section}{limit}`; nearest legal value {most}"
            ));
        }
    }
    geometry(figure).validate().map_err(|e| e.to_string())
}
