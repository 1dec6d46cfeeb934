//! Memory operands of instructions that run outside translated code, and instructions in memory.
//!
//! - An aligned word of up to 8 bytes is one access, as on the processor: no other thread finds a
//!   part of it, and it is no mix of two values of another thread.

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

/// An aligned word by one access; `None` for other lengths, and where it is missing.
fn load_word(cpu: &Cpu, at: u64, len: usize) -> Option<u64> {
    let is_aligned = at.is_multiple_of(len as u64);
    match len {
        2 if is_aligned => cpu.window.load::<u16>(at).map(u64::from),
        4 if is_aligned => cpu.window.load::<u32>(at).map(u64::from),
        8 if is_aligned => cpu.window.load::<u64>(at),
        _ => None,
    }
}

/// Stores an aligned word by one access; `None` for other lengths, and where it is missing.
fn store_word(cpu: &Cpu, at: u64, bytes: &[u8]) -> Option<()> {
    let is_aligned = at.is_multiple_of(bytes.len() as u64);
    match bytes.len() {
        2 if is_aligned => cpu.window.store(at, u16::from_le_bytes(bytes.try_into().ok()?)),
        4 if is_aligned => cpu.window.store(at, u32::from_le_bytes(bytes.try_into().ok()?)),
        8 if is_aligned => cpu.window.store(at, u64::from_le_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

/// Bytes of memory, each page of which is there.
pub(super) fn load<const N: usize>(cpu: &Cpu, at: u64) -> Result<[u8; N], Event> {
    let mut bytes = [0; N];
    if let Some(word) = load_word(cpu, at, N) {
        bytes.copy_from_slice(&word.to_le_bytes()[..N]);
        return Ok(bytes);
    }
    for (n, byte) in bytes.iter_mut().enumerate() {
        let at = at.wrapping_add(n as u64);
        *byte = cpu.window.load::<u8>(at).ok_or(Event::Load(at))?;
    }
    Ok(bytes)
}

pub(super) fn store(cpu: &Cpu, at: u64, bytes: &[u8]) -> Result<(), Event> {
    if store_word(cpu, at, bytes).is_some() {
        return Ok(());
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_la64::interp::Features;
    use littoral_la64::memory::Memory;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Two threads, of which one writes words of equal bytes, by each way to read and to write.
    #[test]
    fn no_thread_finds_a_mix_of_two_words() {
        const AT: u64 = 0x100;
        const ROUNDS: u64 = 20_000;
        let window = Memory::leaked(0x1000);
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let cpu = Cpu::new(window, Features::ALL);
                for n in 0..ROUNDS {
                    let word = (n & 1).wrapping_neg();
                    store(&cpu, AT, &word.to_le_bytes()).expect("in the window");
                    cpu.window.store(AT + 8, word).expect("in the window");
                }
                is_done.store(true, Ordering::Release);
            });
            let cpu = Cpu::new(window, Features::ALL);
            while !is_done.load(Ordering::Acquire) {
                let written = cpu.window.load::<u64>(AT).expect("in the window");
                let read = load(&cpu, AT + 8).map(u64::from_le_bytes).expect("in the window");
                for word in [written, read] {
                    assert!(matches!(word, 0 | u64::MAX), "{word:x}");
                }
            }
        });
    }

    #[test]
    fn words_that_are_missing_or_not_aligned_are_told_byte_by_byte() {
        const LEN: u64 = 0x1000;
        let cpu = Cpu::new(Memory::leaked(LEN), Features::ALL);
        assert_eq!(store(&cpu, 0x101, &[1, 2, 3, 4]), Ok(()));
        assert_eq!(load::<4>(&cpu, 0x100), Ok([0, 1, 2, 3]));
        assert_eq!(load::<8>(&cpu, LEN - 3), Err(Event::Load(LEN)));
        assert_eq!(load::<8>(&cpu, LEN), Err(Event::Load(LEN)));
        assert_eq!(store(&cpu, LEN - 3, &[9; 8]), Err(Event::Store(LEN)));
        assert_eq!(load::<4>(&cpu, LEN - 4), Ok([0; 4]));
    }
}
