//! Memory operands of instructions that run outside translated code, and instructions in memory.

use super::decode::{Inst, LEN_MAX, Mem, Undecoded, decode};
use super::registers::la64;
use crate::event::Event;
use littoral_la64::interp::Cpu;
use littoral_la64::memory::Window;
use littoral_la64::state::State;

/// The address of an operand in memory.
pub(super) fn address(state: &State, m: &Mem) -> u64 {
    let get = |n: u8| state.x[usize::from(la64(n))];
    let base = m.base.map_or(0, get);
    let index = m.index.map_or(0, |(n, scale)| get(n) << scale);
    let sum = base.wrapping_add(index).wrapping_add(m.displacement as u64);
    let sum = if m.short { sum & 0xffff_ffff } else { sum };
    sum.wrapping_add(m.segment.map_or(0, |segment| super::segment_base(state, segment)))
}

/// Bytes of memory, each page of which is there.
pub(super) fn load<const N: usize>(cpu: &Cpu, at: u64) -> Result<[u8; N], Event> {
    let mut bytes = [0; N];
    for (n, byte) in bytes.iter_mut().enumerate() {
        let at = at.wrapping_add(n as u64);
        *byte = cpu.window.load::<u8>(at).ok_or(Event::Load(at))?;
    }
    Ok(bytes)
}

pub(super) fn store(cpu: &Cpu, at: u64, bytes: &[u8]) -> Result<(), Event> {
    // What stands there is stored again first, so that a fault leaves memory as it is.
    for (n, _) in bytes.iter().enumerate() {
        let at = at.wrapping_add(n as u64);
        let old = cpu.window.load::<u8>(at).ok_or(Event::Store(at))?;
        if n == 0 || n + 1 == bytes.len() {
            cpu.window.store(at, old).ok_or(Event::Store(at))?;
        }
    }
    cpu.window.write(at, bytes).ok_or(Event::Store(at))
}

/// The bytes at `pc`, as many as an instruction may have and as can be read.
pub(super) fn code(window: &Window, pc: u64) -> ([u8; LEN_MAX], usize) {
    let mut bytes = [0; LEN_MAX];
    let mut len = 0;
    while len < LEN_MAX {
        let Some(byte) = window.load::<u8>(pc.wrapping_add(len as u64)) else { break };
        bytes[len] = byte;
        len += 1;
    }
    (bytes, len)
}

/// The instruction at `pc`.
pub(super) fn decoded(window: &Window, pc: u64) -> Result<Inst, Undecoded> {
    let (bytes, len) = code(window, pc);
    decode(pc, &bytes[..len])
}
