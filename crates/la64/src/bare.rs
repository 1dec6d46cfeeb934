//! A bare core: one memory that code may write and execute everywhere; nothing is undone.
//!
//! Differential tests run single instructions and short blocks on it. Programs run on
//! [`Core`](crate::device::Core), which separates rights.

use std::sync::atomic::AtomicBool;

use crate::interp::{Cache, Cpu, Features, Fetch, Text, Tier, Trap};
use crate::memory::Memory;
use crate::state::State;

/// Executes whatever the program counter leads to.
struct Anywhere;

impl Fetch for Anywhere {
    fn text(&self, _: u64) -> Option<Text> {
        Some(Text { end: u64::MAX, written: true })
    }
}

/// A core with a memory of its own.
pub struct Bare {
    cpu: Cpu,
    cache: Cache,
    // The window in `cpu` leads here.
    _memory: Memory,
}

impl Bare {
    /// A core with at least `memory_bytes` of zeroed memory from address 0 on.
    pub fn new(memory_bytes: u64) -> Bare {
        Bare::on(Tier::default(), memory_bytes)
    }

    /// As [`Bare::new`], on a tier.
    pub fn on(tier: Tier, memory_bytes: u64) -> Bare {
        let memory = Memory::new(memory_bytes);
        let cpu = Cpu::new(memory.window(), Features::ALL);
        Bare { cpu, cache: Cache::new(tier), _memory: memory }
    }

    /// Registers and program counter.
    pub fn state(&self) -> &State {
        &self.cpu.state
    }

    /// Registers and program counter, to be changed.
    pub fn state_mut(&mut self) -> &mut State {
        &mut self.cpu.state
    }

    /// Copies `bytes` to `address`; `None` outside the memory.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        self.cpu.window.write(address, bytes)
    }

    /// Fills `bytes` from `address` on; `None` outside the memory.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        self.cpu.window.read(address, bytes)
    }

    /// Forgets decoded code, as after [`Bare::write`] changed it.
    pub fn forget_code(&mut self) {
        self.cache.clear();
    }

    /// How often blocks were translated to code of the host.
    pub fn translations(&self) -> u64 {
        self.cache.translation().blocks
    }

    /// Executes at most `budget` instructions from the program counter on; why it stopped.
    pub fn run(&mut self, budget: u64) -> Trap {
        static NEVER: AtomicBool = AtomicBool::new(false);
        self.cache.run(&mut self.cpu, &Anywhere, &NEVER, budget)
    }

    /// Executes one instruction; why it stopped.
    pub fn step(&mut self) -> Trap {
        self.cache.step(&mut self.cpu, &Anywhere)
    }
}
