//! Writes of another tenant and the garbage collection that they cause.

use std::collections::VecDeque;

use littoral_base::units::Picos;
use littoral_device::nand::{Chip, Command, Finished, Rank};

use super::{Event, Sim};
use crate::device::Machine;
use crate::device::ftl::Ftl;

/// A tenant that overwrites random pages at an even pace while the scan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    /// Logical pages that it owns.
    pub pages: u32,
    /// Time between two writes.
    pub period: Picos,
    /// Blocks that each chip has beyond what the pages need.
    pub spare_blocks: u32,
    /// Seed of the addresses.
    pub seed: u64,
}

pub(super) const KIND_SHIFT: u32 = 56;
const WRITE: u64 = 1;
const GC_READ: u64 = 2;
const GC_PROGRAM: u64 = 3;
const ERASE: u64 = 4;

pub(super) struct Writes {
    pub(super) ftl: Ftl,
    pub(super) writer: Writer,
    pub(super) random: littoral_base::rng::Generator,
    pub(super) began: Vec<(Picos, u32)>,
    pub(super) waiting: Vec<VecDeque<u32>>,
    /// Per chip: reads and programs of its collection that are left before the erase.
    pub(super) left: Vec<u32>,
    pub(super) done: Vec<Picos>,
    pub(super) erases: u64,
    pub(super) moved: u64,
}

impl Sim<'_> {
    fn chip(&self, index: usize) -> Chip {
        let of_channel = self.machine.nand.chips_per_channel as usize;
        Chip { channel: (index / of_channel) as u32, chip: (index % of_channel) as u32 }
    }

    pub(super) fn write_due(&mut self) {
        use littoral_base::rng::Rng;
        let at = self.firmware(self.machine.firmware.write);
        let service = self.bus.acquire(at, self.machine.bus_time());
        let writes = self.writes.as_mut().expect("invariant: a writer is there");
        let page = writes.random.random_range(0..writes.ftl.pages());
        writes.began.push((self.now, page));
        let write = writes.began.len() as u32 - 1;
        self.queue.schedule(service.end, Event::WriteReady(write));
        self.queue.schedule(self.now + writes.writer.period, Event::WriteDue);
    }

    pub(super) fn write_ready(&mut self, write: u32) {
        let writes = self.writes.as_mut().expect("invariant: a writer is there");
        let page = writes.began[write as usize].1;
        let chip = writes.ftl.chip(page);
        let must_wait = !writes.waiting[chip].is_empty() || !writes.ftl.write(page);
        if must_wait {
            writes.waiting[chip].push_back(write);
        } else {
            let place = self.chip(chip);
            let tag = WRITE << KIND_SHIFT | u64::from(write);
            self.nand.submit_tagged(self.now, Command::Program, place, Rank::User, tag);
        }
        self.collect(chip);
    }

    fn collect(&mut self, chip: usize) {
        let writes = self.writes.as_mut().expect("invariant: a writer is there");
        if !writes.ftl.is_short(chip) {
            return;
        }
        let Some(collection) = writes.ftl.collect(chip) else { return };
        writes.moved += u64::from(collection.moves);
        writes.left[chip] = collection.moves;
        if collection.moves == 0 {
            return self.erase(chip);
        }
        for _ in 0..collection.moves {
            let at = self.firmware(self.machine.firmware.move_page);
            let read = Command::Read { bytes: self.machine.nand.page_bytes };
            let tag = GC_READ << KIND_SHIFT | chip as u64;
            self.nand.submit_tagged(at, read, self.chip(chip), Rank::Firmware, tag);
        }
    }

    fn erase(&mut self, chip: usize) {
        let tag = ERASE << KIND_SHIFT | chip as u64;
        self.nand.submit_tagged(self.now, Command::Erase, self.chip(chip), Rank::Firmware, tag);
    }

    pub(super) fn written(&mut self, finished: Finished) {
        let low = (finished.tag & ((1 << KIND_SHIFT) - 1)) as usize;
        let place = finished.chip;
        let writes = self.writes.as_mut().expect("invariant: a writer is there");
        match finished.tag >> KIND_SHIFT {
            WRITE => {
                let began = writes.began[low].0;
                writes.done.push(self.now - began);
            }
            GC_READ => {
                let tag = GC_PROGRAM << KIND_SHIFT | low as u64;
                self.nand.submit_tagged(self.now, Command::Program, place, Rank::Firmware, tag);
            }
            GC_PROGRAM => {
                writes.left[low] -= 1;
                if writes.left[low] == 0 {
                    self.erase(low);
                }
            }
            kind => {
                debug_assert_eq!((kind, writes.left[low]), (ERASE, 0), "a collection ends");
                writes.ftl.erased(low);
                writes.erases += 1;
                self.resume_writes(low);
            }
        }
    }

    /// Gives the writes that waited for a free block their pages.
    fn resume_writes(&mut self, chip: usize) {
        let place = self.chip(chip);
        let writes = self.writes.as_mut().expect("invariant: a writer is there");
        while let Some(&write) = writes.waiting[chip].front() {
            if !writes.ftl.write(writes.began[write as usize].1) {
                break;
            }
            writes.waiting[chip].pop_front();
            let tag = WRITE << KIND_SHIFT | u64::from(write);
            self.nand.submit_tagged(self.now, Command::Program, place, Rank::User, tag);
        }
        self.collect(chip);
    }
}

impl Writes {
    pub(super) fn new(machine: &Machine, writer: Writer) -> Writes {
        let chips = (machine.nand.channels * machine.nand.chips_per_channel) as usize;
        let pages_per_block = machine.nand.pages_per_block;
        let mut ftl = Ftl::new(chips, writer.pages, pages_per_block, writer.spare_blocks);
        let mut random = littoral_base::rng::stream(writer.seed, "overwrites");
        age(&mut ftl, &mut random);
        Writes {
            ftl,
            writer,
            random,
            began: Vec::new(),
            waiting: vec![VecDeque::new(); chips],
            left: vec![0; chips],
            done: Vec::new(),
            erases: 0,
            moved: 0,
        }
    }
}

/// Overwrites every page twice on average before time begins, so that a run meets a device that has
/// been collecting for a while.
fn age(ftl: &mut Ftl, random: &mut littoral_base::rng::Generator) {
    use littoral_base::rng::Rng;
    for _ in 0..2 * u64::from(ftl.pages()) {
        let page = random.random_range(0..ftl.pages());
        let chip = ftl.chip(page);
        while !ftl.write(page) || ftl.is_short(chip) {
            let found = ftl.collect(chip);
            assert!(found.is_some(), "a full chip has a block to collect");
            ftl.erased(chip);
        }
    }
}
