//! A read device part of whose contents is held in DRAM as well.
//!
//! A read that lies in held frames is answered from DRAM at once: no latency, no place of the
//! device's rate, no byte of its link. Every other read goes to the device.
//!
//! - The device is modelled with its contents in DRAM, so holding a frame copies nothing: what is
//!   held is a bitmap over frames of [`FRAME_BYTES`].
//! - A held read costs the processor what a read from DRAM costs: its lines are prefetched when it
//!   is issued.
//!
//! Invariants
//! - A slot serves one request, from DRAM or from the device, until it is released. Checked by
//!   `an_issue_on_a_slot_in_use_panics_in_debug_builds`.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::raw::cpu::prefetch_slice;
use crate::read::{Lease, Limits, ReadDevice, Slot, Status};
use crate::region::Region;

/// What is held or not held as a whole.
pub const FRAME_BYTES: u64 = 4096;

/// The frames of a device that are held in DRAM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    words: Vec<u64>,
    held: u64,
}

impl Frames {
    /// No frame of a device of `bytes` bytes.
    pub fn none(bytes: u64) -> Frames {
        Frames { words: vec![0; bytes.div_ceil(FRAME_BYTES).div_ceil(64) as usize], held: 0 }
    }

    /// Holds the frame of byte `addr`; answers whether it was not held before.
    pub fn hold(&mut self, addr: u64) -> bool {
        let frame = addr / FRAME_BYTES;
        let Some(word) = self.words.get_mut((frame / 64) as usize) else { return false };
        let new = *word >> (frame % 64) & 1 == 0;
        *word |= 1 << (frame % 64);
        self.held += u64::from(new);
        new
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.held * FRAME_BYTES
    }

    /// Whether all of `len` bytes at `addr` are held.
    #[inline(always)]
    pub fn holds(&self, addr: u64, len: u32) -> bool {
        let last = addr.saturating_add(u64::from(len).saturating_sub(1)) / FRAME_BYTES;
        let held = |frame: u64| {
            let word = self.words.get((frame / 64) as usize);
            word.is_some_and(|w| w >> (frame % 64) & 1 != 0)
        };
        (addr / FRAME_BYTES..=last).all(held)
    }
}

/// Reads and bytes that were answered from DRAM.
pub type Hits = Rc<Cell<(u64, u64)>>;

/// A device with frames in DRAM; see the module's page.
///
/// ```
/// use std::sync::Arc;
/// use littoral_device::flash::cached::{Cached, Frames};
/// use littoral_device::flash::paced::{PacedOptions, PacedPtr};
/// use littoral_device::{profile::Profile, read::{ReadDevice, Slot, Status}, region::Region};
///
/// let region = Region::from_bytes(&[7; 8192])?;
/// let paced = PacedPtr::new(region.clone(), PacedOptions::of(&Profile::named("xlfdd")?.flash()?,
/// None)); let mut frames = Frames::none(8192); frames.hold(4096); let device = Cached::new(paced,
/// region, Arc::new(frames)); device.issue(Slot(0), 4096, 64); assert_eq!(device.poll(Slot(0)),
/// Some(Status::Ok), "held: no latency"); device.release(Slot(0)); device.issue(Slot(0), 0, 64);
/// assert_eq!(device.poll(Slot(0)), None, "4 us have not passed");
/// # Ok::<(), littoral_device::Error>(())
/// ```
pub struct Cached<D> {
    device: D,
    /// The contents in DRAM; `None` where no frame is held.
    region: Option<Region>,
    frames: Arc<Frames>,
    /// Address and length of held reads, by slot; length 0 where the slot is the device's.
    held: Vec<Cell<(u64, u32)>>,
    hits: Hits,
}

impl<D: ReadDevice> Cached<D> {
    /// `device`, whose contents are `region`, with `frames` held.
    pub fn new(device: D, region: Region, frames: Arc<Frames>) -> Cached<D> {
        Cached::over(device, Some(region), frames)
    }

    /// `device` alone: every read goes to it.
    pub fn nothing(device: D) -> Cached<D> {
        Cached::over(device, None, Arc::default())
    }

    fn over(device: D, region: Option<Region>, frames: Arc<Frames>) -> Cached<D> {
        let slots = device.limits().slots as usize;
        let held = vec![Cell::new((0, 0)); slots];
        Cached { device, region, frames, held, hits: Hits::default() }
    }

    /// What was answered from DRAM so far, also after the device has been given away.
    pub fn hits(&self) -> Hits {
        Rc::clone(&self.hits)
    }

    #[inline(always)]
    fn bytes(&self, (addr, len): (u64, u32)) -> &[u8] {
        let held = addr as usize..addr as usize + len as usize;
        self.region.as_ref().and_then(|region| region.get(held)).unwrap_or(&[])
    }
}

impl<D: ReadDevice> ReadDevice for Cached<D> {
    const FAST: bool = D::FAST;

    fn limits(&self) -> Limits {
        self.device.limits()
    }

    #[inline(always)]
    fn issue(&self, slot: Slot, addr: u64, len: u32) {
        debug_assert_eq!(self.held[slot.index()].get().1, 0, "{slot:?} is in use");
        if len > 0 && self.frames.holds(addr, len) {
            debug_assert!(self.device.is_free(slot), "{slot:?} is in use");
            self.held[slot.index()].set((addr, len));
            let (reads, bytes) = self.hits.get();
            self.hits.set((reads + 1, bytes + u64::from(len)));
            prefetch_slice(self.bytes((addr, len)));
        } else {
            self.device.issue(slot, addr, len);
        }
    }

    fn kick(&self) {
        self.device.kick();
    }

    #[inline(always)]
    fn reap(&self) {
        self.device.reap();
    }

    #[inline(always)]
    fn poll(&self, slot: Slot) -> Option<Status> {
        if self.held[slot.index()].get().1 > 0 { Some(Status::Ok) } else { self.device.poll(slot) }
    }

    #[inline(always)]
    fn data(&self, slot: Slot, lease: Lease) -> &[u8] {
        match self.held[slot.index()].get() {
            (_, 0) => self.device.data(slot, lease),
            held => self.bytes(held),
        }
    }

    #[inline(always)]
    fn release(&self, slot: Slot) {
        if self.held[slot.index()].replace((0, 0)).1 == 0 {
            self.device.release(slot);
        }
    }

    #[inline(always)]
    fn release_done(&self, slot: Slot) {
        if self.held[slot.index()].replace((0, 0)).1 == 0 {
            self.device.release_done(slot);
        }
    }

    #[inline(always)]
    fn is_free(&self, slot: Slot) -> bool {
        self.held[slot.index()].get().1 == 0 && self.device.is_free(slot)
    }

    fn park(&self, timeout: Duration) {
        self.device.park(timeout);
    }

    fn request(&self, slot: Slot) -> Option<(u64, u32)> {
        match self.held[slot.index()].get() {
            (_, 0) => self.device.request(slot),
            held => Some(held),
        }
    }

    fn last_error(&self) -> Option<String> {
        self.device.last_error()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flash::paced::{PacedOptions, PacedPtr};
    use crate::flash::pacer::Timing;
    use littoral_base::units::Picos;

    fn device(held: &[u64]) -> Cached<PacedPtr> {
        let region = Region::build(1 << 16, |b| {
            b.iter_mut().enumerate().for_each(|(i, x)| *x = (i >> 8) as u8);
        })
        .unwrap();
        let timing =
            Timing { latency: Picos::from_micros(200), pause_min: Picos::MAX, ..Timing::default() };
        let options = PacedOptions { timing, slots: 4, granule_bytes: 16, read_bytes_max: 8192 };
        let mut frames = Frames::none(1 << 16);
        held.iter().for_each(|&addr| assert!(frames.hold(addr)));
        Cached::new(PacedPtr::new(region.clone(), options), region, Arc::new(frames))
    }

    #[test]
    fn held_reads_are_there_at_once_and_others_take_their_time() {
        let device = device(&[4096, 8192]);
        let contents = device.region.clone().unwrap();
        device.issue(Slot(1), 4096, 8192);
        assert_eq!(device.poll(Slot(1)), Some(Status::Ok));
        assert_eq!(device.copy(Slot(1)), &contents[4096..12_288]);
        assert!(!device.is_free(Slot(1)));
        device.release(Slot(1));
        assert!(device.is_free(Slot(1)));
        assert_eq!(device.hits().get(), (1, 8192));
        device.issue(Slot(1), 8192, 4112);
        assert_eq!(device.poll(Slot(1)), None, "the last 16 bytes are not held");
        while device.poll(Slot(1)).is_none() {
            device.reap();
        }
        assert_eq!(device.copy(Slot(1)), &contents[8192..12_304]);
        assert_eq!(device.request(Slot(1)), Some((8192, 4112)));
    }

    #[test]
    fn with_nothing_held_every_read_goes_to_the_device() {
        let device = Cached::nothing(device(&[4096]).device);
        device.issue(Slot(1), 4096, 64);
        assert_eq!(device.poll(Slot(1)), None, "200 us have not passed");
        while device.poll(Slot(1)).is_none() {
            device.reap();
        }
        assert_eq!(device.copy(Slot(1)), [16; 64]);
        device.release(Slot(1));
        assert!(device.is_free(Slot(1)) && device.hits().get() == (0, 0));
    }

    #[test]
    fn frames_are_counted_once_and_never_held_beyond_the_end() {
        let mut frames = Frames::none(3 * FRAME_BYTES);
        assert!(frames.hold(0) && !frames.hold(17) && frames.hold(FRAME_BYTES));
        assert_eq!(frames.bytes(), 2 * FRAME_BYTES);
        assert!(frames.holds(0, 8192) && !frames.holds(0, 8193) && !frames.holds(u64::MAX, 16));
        assert!(!frames.hold(u64::MAX));
    }
}
