//! The ring's workload: chains of dependent 64-byte reads, as async code and by hand.
//!
//! Each context holds a state of 64 bits; a step reads the line that the state names and mixes its
//! first word into the state. So no read of a chain can start before the one before it has ended:
//! what overlaps is the work of different contexts, and nothing else.
//!
//! - [`run_async`] is what a user of the ring writes; [`run_by_hand`] keeps the same states in an
//!   array and drives the same device without futures, guards or counters of polls.
//! - [`run_fixed`] and [`run_fixed_by_hand`] do the same with reads of a fixed length.
//! - All answer the sum of the final states, which [`run_plain`] computes without any device: a
//!   run that read wrong bytes is noticed.

use std::cell::Cell;

use littoral_base::rng;
use littoral_device::read::{ReadDevice, Slot, Status};
use littoral_device::region::Region;
use littoral_runtime::{Cx, Error, Kind, Ring};

/// Bytes of a read.
pub const LINE_BYTES: u64 = 64;
/// An odd factor with well mixed bits (from the golden ratio).
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// How far the chains go.
#[derive(Clone, Copy, Debug)]
pub struct Chains {
    /// How many there are.
    pub contexts: u32,
    /// Reads of each.
    pub steps: u64,
    /// Right shift that turns a state into a line number.
    shift: u32,
}

impl Chains {
    /// `contexts` chains of `steps` reads over `bytes` bytes, a power of two of at least 128.
    pub fn new(contexts: u32, steps: u64, bytes: u64) -> Chains {
        assert!(bytes.is_power_of_two() && bytes >= 2 * LINE_BYTES, "an array of 2^n lines, n > 0");
        Chains { contexts, steps, shift: 64 - (bytes / LINE_BYTES).trailing_zeros() }
    }

    /// Reads in all.
    pub fn reads(&self) -> u64 {
        u64::from(self.contexts) * self.steps
    }

    #[inline(always)]
    fn addr(&self, state: u64) -> u64 {
        (state >> self.shift) * LINE_BYTES
    }
}

#[inline(always)]
fn first_word(line: &[u8]) -> u64 {
    u64::from_le_bytes(line[..8].try_into().expect("invariant: a line has 8 bytes"))
}

#[inline(always)]
fn next(state: u64, word: u64) -> u64 {
    (state ^ word).wrapping_mul(FACTOR)
}

fn start(context: u32) -> u64 {
    rng::mix(u64::from(context) + 1)
}

/// An array of `bytes` bytes whose lines begin with words from `seed`.
///
/// # Errors
/// When there is no memory for it.
pub fn contents(bytes: u64, seed: u64) -> littoral_device::Result<Region> {
    let len = usize::try_from(bytes).expect("invariant: an array fits the address space");
    Region::build(len, |into| {
        for (i, line) in into.chunks_exact_mut(LINE_BYTES as usize).enumerate() {
            line[..8].copy_from_slice(&rng::mix(seed ^ i as u64).to_le_bytes());
        }
    })
}

/// The chains as coroutines on `ring`, which must have as many contexts as there are chains.
///
/// # Errors
/// What the ring ends with.
#[inline(never)]
pub fn run_async<D: ReadDevice>(ring: &Ring<D>, chains: Chains) -> Result<u64, Error> {
    let sum = Cell::new(0u64);
    ring.run(|cx| chain(cx, &chains, &sum))?;
    Ok(sum.get())
}

#[inline(always)]
async fn chain<D: ReadDevice>(
    cx: Cx<'_, D>,
    chains: &Chains,
    sum: &Cell<u64>,
) -> Result<(), Error> {
    let mut state = start(cx.context());
    let (mut left, shift) = (chains.steps, chains.shift);
    while left > 0 {
        let line = cx.read((state >> shift) * LINE_BYTES, LINE_BYTES as u32).await?;
        state = next(state, first_word(&line));
        left -= 1;
    }
    sum.set(sum.get().wrapping_add(state));
    Ok(())
}

/// The chains as coroutines that read by [`Cx::reader`].
///
/// # Errors
/// What the ring ends with.
#[inline(never)]
pub fn run_fixed<D: ReadDevice>(ring: &Ring<D>, chains: Chains) -> Result<u64, Error> {
    let sum = Cell::new(0u64);
    ring.run(|cx| fixed_chain(cx, &chains, &sum))?;
    Ok(sum.get())
}

#[inline(always)]
async fn fixed_chain<D: ReadDevice>(
    cx: Cx<'_, D>,
    chains: &Chains,
    sum: &Cell<u64>,
) -> Result<(), Error> {
    let mut reader = cx.reader::<{ LINE_BYTES as usize }>();
    let mut state = start(cx.context());
    let (mut left, shift) = (chains.steps, chains.shift);
    while left > 0 {
        let line = reader.read((state >> shift) * LINE_BYTES).await?;
        state = next(state, first_word(line));
        left -= 1;
    }
    sum.set(sum.get().wrapping_add(state));
    Ok(())
}

#[derive(Clone, Copy)]
struct Machine {
    state: u64,
    left: u64,
}

/// The chains as an array of states driven by a plain loop over `device`.
///
/// # Errors
/// `Kind::Read` when the device refuses or fails a read.
#[inline(never)]
pub fn run_by_hand<D: ReadDevice>(device: &D, chains: Chains, stride: usize) -> Result<u64, Error> {
    let mut machines: Vec<Machine> =
        (0..chains.contexts).map(|i| Machine { state: start(i), left: chains.steps }).collect();
    for (i, m) in machines.iter().enumerate() {
        device.issue(Slot(i as u32), chains.addr(m.state), LINE_BYTES as u32);
    }
    let mut alive = machines.len();
    while alive > 0 {
        let mut from = 0;
        while from < machines.len() {
            device.reap();
            let to = machines.len().min(from + stride);
            for (i, machine) in machines[from..to].iter_mut().enumerate() {
                alive -= usize::from(step(device, chains, Slot((from + i) as u32), machine)?);
            }
            from = to;
        }
        device.kick();
    }
    Ok(machines.iter().fold(0, |sum, m| sum.wrapping_add(m.state)))
}

/// One poll of one machine; answers whether it ended just now.
#[inline(always)]
fn step<D: ReadDevice>(
    device: &D,
    chains: Chains,
    slot: Slot,
    machine: &mut Machine,
) -> Result<bool, Error> {
    if machine.left == 0 {
        return Ok(false);
    }
    match device.poll(slot) {
        None => Ok(false),
        Some(Status::Ok) => {
            machine.state =
                next(machine.state, device.word(slot, 0).expect("invariant: a line has 8 bytes"));
            device.release_done(slot);
            machine.left -= 1;
            if machine.left > 0 {
                device.issue(slot, chains.addr(machine.state), LINE_BYTES as u32);
            }
            Ok(machine.left == 0)
        }
        Some(status) => {
            device.release(slot);
            Err(Error::new(Kind::Read(status), format!("read on slot {}: {status}", slot.0)))
        }
    }
}

/// A machine that keeps what a fixed read's future keeps.
#[derive(Clone, Copy)]
struct FixedMachine<'d> {
    state: u64,
    left: u64,
    bytes: &'d [u8; LINE_BYTES as usize],
    due: u64,
}

/// The chains as an array of states with the reads in it, driven by a plain loop over the fixed
/// reads of `device`.
///
/// # Errors
/// `Kind::Read` when the device refuses a read or has no fixed reads.
#[inline(never)]
pub fn run_fixed_by_hand<D: ReadDevice>(
    device: &D,
    chains: Chains,
    stride: usize,
) -> Result<u64, Error> {
    device.reap();
    let mut machines = Vec::with_capacity(chains.contexts as usize);
    for context in 0..chains.contexts {
        let state = start(context);
        let (bytes, due) = issue_fixed(device, chains, state)?;
        machines.push(FixedMachine { state, left: chains.steps, bytes, due });
    }
    let mut alive = machines.len();
    while alive > 0 {
        for few in machines.chunks_mut(stride) {
            device.reap();
            for machine in few {
                alive -= usize::from(fixed_step(device, chains, machine)?);
            }
        }
        device.kick();
    }
    Ok(machines.iter().fold(0, |sum, m| sum.wrapping_add(m.state)))
}

type Line<'d> = (&'d [u8; LINE_BYTES as usize], u64);

#[inline(always)]
fn issue_fixed<D: ReadDevice>(device: &D, chains: Chains, state: u64) -> Result<Line<'_>, Error> {
    device.issue_fixed(chains.addr(state)).ok_or_else(|| {
        let what = format!("fixed read of {LINE_BYTES} bytes at {}", chains.addr(state));
        Error::new(Kind::Read(Status::Refused), what)
    })
}

/// One poll of one machine; answers whether it ended just now.
#[inline(always)]
fn fixed_step<'d, D: ReadDevice>(
    device: &'d D,
    chains: Chains,
    machine: &mut FixedMachine<'d>,
) -> Result<bool, Error> {
    if machine.left == 0 || !device.is_due(machine.due) {
        return Ok(false);
    }
    machine.state = next(machine.state, first_word(machine.bytes));
    machine.left -= 1;
    if machine.left > 0 {
        (machine.bytes, machine.due) = issue_fixed(device, chains, machine.state)?;
    }
    Ok(machine.left == 0)
}

/// The chains one after the other with plain loads: the answer, and the cost of not overlapping.
#[inline(never)]
pub fn run_plain(contents: &[u8], chains: Chains) -> u64 {
    (0..chains.contexts).fold(0, |sum, context| {
        let mut state = start(context);
        for _ in 0..chains.steps {
            let at = chains.addr(state) as usize;
            state = next(state, first_word(&contents[at..at + LINE_BYTES as usize]));
        }
        sum.wrapping_add(state)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_device::flash::dram::Dram;
    use littoral_device::flash::paced::{PacedCopy, PacedOptions};
    use littoral_runtime::{Contexts, RingOptions};

    #[test]
    fn all_forms_agree_and_the_async_frame_is_small() {
        let array = contents(1 << 14, 7).unwrap();
        let chains = Chains::new(13, 100, 1 << 14);
        let wanted = run_plain(&array, chains);
        let options = RingOptions::with_contexts(Contexts::Fixed(13));
        let ring = Ring::new(Dram::new(array.clone()), options).unwrap();
        assert_eq!(run_async(&ring, chains).unwrap(), wanted);
        assert!(ring.future_bytes() <= 96, "{} bytes", ring.future_bytes());
        assert_eq!(run_fixed(&ring, chains).unwrap(), wanted);
        assert!(ring.future_bytes() <= 128, "{} bytes of a fixed frame", ring.future_bytes());
        let device = Dram::with_slots(array.clone(), 13);
        assert_eq!(run_fixed_by_hand(&device, chains, 4).unwrap(), wanted);
        let copied = PacedCopy::new(array, PacedOptions::default());
        assert_eq!(run_by_hand(&copied, chains, 4).unwrap(), wanted);
    }
}
