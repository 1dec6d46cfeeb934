//! Judge of the emulated flash medium: reads it for long, checking every word against an
//! independent function.
//!
//! The caller gives the function; it must not share code with the content, or a mistake in one
//! would hide in the other. A word that is believed ([`Status::Ok`]) and differs is *undetected
//! corruption*, the only thing that must never happen; failed reads are counted by status.

use std::sync::Arc;

use littoral_base::rng::{self, Rng};

use littoral_device::Result;
use littoral_device::flash::emulator::{Content, Emulator, EmulatorCounts, EmulatorOptions};
use littoral_device::read::{ReadDevice, Slot, Status};

/// What came of a soak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoakReport {
    /// Reads answered (abandoned ones are not).
    pub answered_count: u64,
    /// Reads answered with data.
    pub ok_count: u64,
    /// Reads whose asker went away.
    pub abandoned_count: u64,
    /// Reads that ended with an error status, which is an honest answer.
    pub failed_count: u64,
    /// Reads believed although a word of theirs is wrong.
    pub undetected_count: u64,
    /// Words compared.
    pub words_count: u64,
    /// What the host side saw.
    pub host: EmulatorCounts,
}

/// What the medium holds: the word of number `index` (byte address over eight), `None` where it is
/// not known to the checker (trailers).
pub type Expected<'a> = &'a dyn Fn(u64) -> Option<u64>;

struct Soak<'a> {
    emulator: Emulator,
    expected: Expected<'a>,
    rng: rng::Generator,
    asked: Vec<Option<(u64, u32)>>,
    left: u64,
    report: SoakReport,
}

/// Issues `reads` reads of random place and length and checks every answer.
///
/// # Errors
/// As [`Emulator::new`].
pub fn soak(
    content: Arc<dyn Content>,
    options: EmulatorOptions,
    expected: Expected<'_>,
    reads: u64,
    seed: u64,
) -> Result<SoakReport> {
    let asked = vec![None; options.slots as usize];
    let emulator = Emulator::new(content, options)?;
    let rng = rng::stream(seed, "soak");
    let mut soak =
        Soak { emulator, expected, rng, asked, left: reads, report: SoakReport::default() };
    while soak.left > 0 || soak.asked.iter().any(Option::is_some) {
        for index in 0..soak.asked.len() {
            soak.visit(index);
        }
        soak.emulator.reap();
    }
    soak.report.host = soak.emulator.counts();
    Ok(soak.report)
}

impl Soak<'_> {
    fn visit(&mut self, index: usize) {
        let slot = Slot(index as u32);
        if let Some(asked) = self.asked[index]
            && let Some(status) = self.emulator.poll(slot)
        {
            self.judge(slot, asked, status);
            self.emulator.release(slot);
            self.asked[index] = None;
        }
        if self.asked[index].is_none() && self.left > 0 && self.emulator.is_free(slot) {
            self.left -= 1;
            self.ask(slot);
        }
    }

    /// Mostly one granule, as graph reads are; now and then the longest read; one in 64 abandoned.
    fn ask(&mut self, slot: Slot) {
        let limits = self.emulator.limits();
        let granule = u64::from(limits.granule_bytes);
        let longest = u64::from(limits.read_bytes_max) / granule;
        let word = self.rng.random::<u64>();
        let units = if word & 7 == 0 { 1 + (word >> 8) % longest } else { 1 };
        let places = limits.capacity_bytes / granule - units + 1;
        let (addr, len) = ((word >> 20) % places * granule, (units * granule) as u32);
        self.emulator.issue(slot, addr, len);
        if word >> 3 & 63 == 0 {
            self.emulator.release(slot);
            self.report.abandoned_count += 1;
        } else {
            self.asked[slot.index()] = Some((addr, len));
        }
    }

    fn judge(&mut self, slot: Slot, (addr, len): (u64, u32), status: Status) {
        self.report.answered_count += 1;
        if !status.is_ok() {
            self.report.failed_count += 1;
            return;
        }
        self.report.ok_count += 1;
        let data = self.emulator.copy(slot);
        let mut wrong = data.len() != len as usize;
        for (index, bytes) in (addr / 8..).zip(data.chunks_exact(8)) {
            let found = u64::from_le_bytes(bytes.try_into().expect("invariant: eight bytes"));
            if let Some(word) = (self.expected)(index) {
                wrong |= word != found;
                self.report.words_count += 1;
            }
        }
        self.report.undetected_count += u64::from(wrong);
    }
}
