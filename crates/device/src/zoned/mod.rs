//! Zoned storage: sequential zones with a write pointer, conventional zones written in place.
//!
//! One trait for NVMe ZNS, host-managed SMR, null_blk and the model. Every request that a drive
//! would reject is rejected with the same meaning: an append or write away from the write pointer,
//! past the zone's capacity (which is at most its size), beyond the open or active limit, on a
//! READ_ONLY or OFFLINE zone.
//!
//! Addresses are logical blocks ([`Lba`]); data are whole blocks. Writes are never asynchronous: a
//! write is *submitted* and answered with a [`Ticket`] that can be waited for, so an engine
//! overlaps writes without an executor (design: reads are coroutines, writes are tickets).
//!
//! Zone states follow ZBC/ZNS: `Empty -> ImplicitOpen|ExplicitOpen -> Closed|Full`, `Full -> Empty`
//! by reset, and the two error states. *Active* zones are open or closed ones.
//!
//! Durability: a completed write is durable only after a later [`ZonedDevice::flush`] completes; a
//! power cut keeps any legal subset of unflushed writes (a prefix of each sequential zone).

pub mod any;
mod direct;
pub mod emulated;
pub mod file;
mod host;
pub mod joined;
pub mod linux;
pub mod model;
pub mod refusal;
mod sparse;
pub mod timing;
pub mod zones;

use littoral_base::units::{Lba, Picos, ZoneId};

use crate::error::Result;

/// Whether a zone is written in place or at a write pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZoneKind {
    /// Any block may be written at any time.
    Conventional,
    /// Written only at the write pointer, erased only as a whole.
    Sequential,
}

/// The state of a zone, as ZBC and ZNS name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZoneState {
    /// A conventional zone: no write pointer.
    NotWritePointer,
    /// Nothing written.
    Empty,
    /// Opened by a write.
    ImplicitOpen,
    /// Opened by command.
    ExplicitOpen,
    /// Active, but not open.
    Closed,
    /// The write pointer is at the capacity, or the zone was finished.
    Full,
    /// Worn out for writing; its data can be read.
    ReadOnly,
    /// Lost.
    Offline,
}

/// One zone as a report shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneReport {
    /// Which zone.
    pub zone: ZoneId,
    /// How it is written.
    pub kind: ZoneKind,
    /// Its state.
    pub state: ZoneState,
    /// Its first block.
    pub start: Lba,
    /// Address space it takes, in blocks.
    pub size_blocks: u64,
    /// Writable blocks, at most `size_blocks`.
    pub capacity_blocks: u64,
    /// Where the next append lands; `start` for conventional zones.
    pub write_pointer: Lba,
}

/// What a zoned device can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZonedLimits {
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// Zones in all.
    pub zones: u32,
    /// Most zones open at once; zero means no limit.
    pub open_zones_max: u32,
    /// Most zones active at once; zero means no limit.
    pub active_zones_max: u32,
    /// Longest single append in blocks; zero when the device has no append command.
    pub append_blocks_max: u32,
}

/// A submitted write. Tickets are numbered in order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[must_use = "a write that is not waited for may have failed"]
pub struct Ticket(pub u64);

/// A zoned block device, or a model of one.
pub trait ZonedDevice {
    /// What the device can take.
    fn limits(&self) -> ZonedLimits;

    /// Virtual time since the device was made, where its times are modelled.
    fn virtual_now(&self) -> Option<Picos> {
        None
    }

    /// Reports `count` zones from `first` on.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` past the last zone, `Kind::Io` when the device fails.
    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>>;

    /// Reads whole blocks. Blocks never written read as zeros.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` out of range or on an OFFLINE zone, `Kind::Io` when the device fails.
    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()>;

    /// Writes whole blocks: in place on a conventional zone, at the write pointer on a sequential
    /// one.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` for every write a drive rejects; `Kind::Exhausted` at an open or
    /// active limit.
    fn write(&mut self, at: Lba, data: &[u8]) -> Result<Ticket>;

    /// Appends whole blocks to a sequential zone; [`ZonedDevice::wait`] says where they landed.
    ///
    /// # Errors
    /// As `write`, and `Kind::Unsupported` where the device has no append command.
    fn append(&mut self, zone: ZoneId, data: &[u8]) -> Result<Ticket>;

    /// Waits for a submitted write and returns its first block.
    ///
    /// # Errors
    /// The failure of the write itself.
    fn wait(&mut self, ticket: Ticket) -> Result<Lba>;

    /// Makes every completed write durable.
    ///
    /// # Errors
    /// `Kind::Io`; after it the handle is poisoned.
    fn flush(&mut self) -> Result<()>;

    /// Opens a zone explicitly.
    ///
    /// # Errors
    /// `Kind::Exhausted` at the open or active limit, `Kind::IllegalRequest` in a wrong state.
    fn open(&mut self, zone: ZoneId) -> Result<()>;

    /// Closes an open zone; it stays active.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` in a wrong state.
    fn close(&mut self, zone: ZoneId) -> Result<()>;

    /// Moves the write pointer to the capacity: the zone is full and no longer active.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` in a wrong state.
    fn finish(&mut self, zone: ZoneId) -> Result<()>;

    /// Erases a sequential zone: its data are gone and its write pointer is at its start.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` on a conventional, READ_ONLY or OFFLINE zone.
    fn reset(&mut self, zone: ZoneId) -> Result<()>;

    /// Keeps room for `zones`, and for `spare_blocks` more wherever they are written. Means
    /// something where the device shares its room with others, as a sparse file does.
    ///
    /// # Errors
    /// `Kind::Exhausted` when there is not that much room: what there is stays kept.
    fn keep_room(&mut self, zones: &[ZoneId], spare_blocks: u64) -> Result<()> {
        let _ = (zones, spare_blocks);
        Ok(())
    }

    /// Whether the room of blocks is shared with others, so that a write may lack it.
    fn shares_room(&self) -> bool {
        false
    }

    /// Whether the spare blocks of [`ZonedDevice::keep_room`] are all there, after an attempt to
    /// refill them. Writes that need more room than is left take them.
    ///
    /// # Errors
    /// `Kind::Io`.
    fn has_spare_room(&mut self) -> Result<bool> {
        Ok(true)
    }

    /// Says that the content of blocks is not needed, conventional ones or sequential ones behind
    /// the write pointer: the room that they take may be given back. They read as zeros, or as
    /// before, until they are written.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` for other blocks, `Kind::Io`.
    fn discard(&mut self, at: Lba, blocks: u64) -> Result<()> {
        let _ = (at, blocks);
        Ok(())
    }
}

/// Writes every method of [`ZonedDevice`] as one that hands on to another device; `through!(self,
/// limits())` is the caller's macro that says on what to call it.
macro_rules! forward_zoned {
    ($through:ident) => {
        fn limits(&self) -> ZonedLimits {
            $through!(self, limits())
        }
        fn virtual_now(&self) -> Option<Picos> {
            $through!(self, virtual_now())
        }
        fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
            $through!(self, report(first, count))
        }
        fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
            $through!(self, read(at, into))
        }
        fn write(&mut self, at: Lba, data: &[u8]) -> Result<Ticket> {
            $through!(self, write(at, data))
        }
        fn append(&mut self, zone: ZoneId, data: &[u8]) -> Result<Ticket> {
            $through!(self, append(zone, data))
        }
        fn wait(&mut self, ticket: Ticket) -> Result<Lba> {
            $through!(self, wait(ticket))
        }
        fn flush(&mut self) -> Result<()> {
            $through!(self, flush())
        }
        fn open(&mut self, zone: ZoneId) -> Result<()> {
            $through!(self, open(zone))
        }
        fn close(&mut self, zone: ZoneId) -> Result<()> {
            $through!(self, close(zone))
        }
        fn finish(&mut self, zone: ZoneId) -> Result<()> {
            $through!(self, finish(zone))
        }
        fn reset(&mut self, zone: ZoneId) -> Result<()> {
            $through!(self, reset(zone))
        }
        fn keep_room(&mut self, zones: &[ZoneId], spare_blocks: u64) -> Result<()> {
            $through!(self, keep_room(zones, spare_blocks))
        }
        fn shares_room(&self) -> bool {
            $through!(self, shares_room())
        }
        fn has_spare_room(&mut self) -> Result<bool> {
            $through!(self, has_spare_room())
        }
        fn discard(&mut self, at: Lba, blocks: u64) -> Result<()> {
            $through!(self, discard(at, blocks))
        }
    };
}

pub(crate) use forward_zoned;

macro_rules! through_pointer {
    ($self:ident, $($call:tt)+) => {
        (**$self).$($call)+
    };
}

/// A borrowed device is a device: its owner keeps it when the borrower fails.
impl<T: ZonedDevice + ?Sized> ZonedDevice for &mut T {
    forward_zoned!(through_pointer);
}

/// A boxed device is a device: which one is decided when the program runs.
impl<T: ZonedDevice + ?Sized> ZonedDevice for Box<T> {
    forward_zoned!(through_pointer);
}
