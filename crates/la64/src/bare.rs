//! A bare core: one memory that code may write and execute everywhere; nothing is undone.
//!
//! Differential tests run single instructions and short blocks on it. Programs run on
//! [`Core`](crate::device::Core), which separates rights.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::interp::{Cache, CodeCache, Cpu, Features, Fetch, Limits, Maker, Origin, Store};
use crate::interp::{Text, Tier, Trap};
#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
use crate::memory::raw::Fenced;
use crate::memory::{Memory, Window};
use crate::state::State;

/// Executes whatever the program counter leads to.
struct Anywhere {
    /// Code may be written.
    written: bool,
    /// A file in a store, and where its beginning is.
    file: Option<(usize, u64)>,
}

impl Fetch for Anywhere {
    fn text(&self, _: u64) -> Option<Text> {
        Some(Text { end: u64::MAX, written: self.written })
    }

    fn origin(&self, pc: u64) -> Option<Origin> {
        let (file, start) = self.file.filter(|_| !self.written)?;
        Some(Origin { file, offset: pc.checked_sub(start)? })
    }
}

/// A core with a memory of its own.
pub struct Bare {
    cpu: Cpu,
    cache: Cache,
    text: Anywhere,
    // The window in `cpu` leads here.
    _ground: Ground,
}

/// Raises the attention of a core of this thread by a signal of the host, at any instruction of
/// the host. The process gets a handler of SIGURG.
pub struct Alarm {
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    timer: crate::jit::raw::Alarm,
    #[cfg(not(all(feature = "jit", target_arch = "x86_64", target_os = "linux")))]
    flag: AtomicBool,
}

#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
impl Alarm {
    /// An alarm of this thread; `None` where there is no translator, or the host has no such timer.
    pub fn new() -> Option<Alarm> {
        crate::jit::raw::Alarm::new().map(|timer| Alarm { timer })
    }

    fn set(&self, ns: u32) {
        self.timer.set(ns);
    }

    fn flag(&self) -> &AtomicBool {
        self.timer.flag()
    }
}

#[cfg(not(all(feature = "jit", target_arch = "x86_64", target_os = "linux")))]
impl Alarm {
    /// None: there is no translator.
    pub fn new() -> Option<Alarm> {
        None
    }

    fn set(&self, _: u32) {}

    fn flag(&self) -> &AtomicBool {
        &self.flag
    }
}

/// What a window leads to.
enum Ground {
    #[expect(dead_code, reason = "kept for the window")]
    Memory(Memory),
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    #[expect(dead_code, reason = "kept for the window")]
    Fenced(Fenced),
}

/// Limits for tests: on tier 2 regions come soon, and always at the same instruction.
fn limits_of(tier: Tier) -> Limits {
    let limits = Limits::default();
    match tier {
        Tier::Regions => Limits { watch: 300, slice: 1500, aside: false, ..limits },
        Tier::Interpreter | Tier::Blocks => limits,
    }
}

impl Bare {
    /// A core with at least `memory_bytes` of zeroed memory from address 0 on.
    pub fn new(memory_bytes: u64) -> Bare {
        Bare::on(Tier::Blocks, memory_bytes)
    }

    /// As [`Bare::new`], with limits on translated code.
    pub fn within(limits: Limits, memory_bytes: u64) -> Bare {
        Bare::on_within(Tier::Blocks, limits, memory_bytes)
    }

    /// As [`Bare::within`], on a tier.
    pub fn on_within(tier: Tier, limits: Limits, memory_bytes: u64) -> Bare {
        let memory = Memory::new(memory_bytes);
        let mut core = Bare::of(tier, memory.window(), Ground::Memory(memory));
        core.cache = Cache::of(&Arc::new(CodeCache::new(tier, limits)));
        core
    }

    /// As [`Bare::new`], on a tier. On tier 2 a loop becomes a region after some hundred
    /// instructions.
    pub fn on(tier: Tier, memory_bytes: u64) -> Bare {
        let memory = Memory::new(memory_bytes);
        Bare::of(tier, memory.window(), Ground::Memory(memory))
    }

    /// As [`Bare::on`], with memory on whose sides the host refuses accesses, so that the
    /// translator leaves checks of addresses to it; behind that is memory of nothing. `None` where
    /// there is no translator. The process gets a handler of SIGSEGV.
    pub fn between_refusals(tier: Tier, memory_bytes: u64) -> Option<Bare> {
        const SLACK: u64 = 1 << 16;
        Bare::between(tier, memory_bytes, SLACK)
    }

    /// As [`Bare::between_refusals`], with so many bytes on either side that refuse accesses.
    pub fn between(tier: Tier, memory_bytes: u64, slack: u64) -> Option<Bare> {
        #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
        return Fenced::new(memory_bytes, slack)
            .map(|memory| Bare::of(tier, memory.window(), Ground::Fenced(memory)));
        #[cfg(not(all(feature = "jit", target_arch = "x86_64", target_os = "linux")))]
        {
            let _ = (tier, memory_bytes, slack);
            None
        }
    }

    fn of(tier: Tier, window: Window, ground: Ground) -> Bare {
        let cpu = Cpu::new(window, Features::ALL);
        let text = Anywhere { written: true, file: None };
        let cache = Cache::of(&Arc::new(CodeCache::new(tier, limits_of(tier))));
        Bare { cpu, cache, text, _ground: ground }
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

    /// Takes all regions away, or puts them back.
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    pub fn turn_regions(&mut self, are_there: bool) {
        self.cache.turn_regions(&self.cpu, &self.text, are_there);
    }

    /// Lets invalid floating-point operations of translated code fault on the host, instead of
    /// testing results for NaNs; without effect where the host's faults cannot be caught. The
    /// process gets a handler of SIGFPE.
    pub fn catch_invalid(&mut self, on: bool) {
        self.cpu.catch_invalid(on);
    }

    /// Whether the program may write code, as it may at first. Otherwise code is compared with
    /// memory only after [`Bare::forget_code`], as that of a file is.
    pub fn may_write_code(&mut self, may: bool) {
        self.text.written = may;
        self.forget_code();
    }

    /// Who makes this core's code. `None` where there is no translator.
    pub fn maker(&self) -> Option<Maker> {
        Maker::this(&self.cpu.window, self.cpu.features, Limits::default())
    }

    /// Reads code from a store and keeps it there, as that of a file whose beginning is at `start`,
    /// which the program does not write.
    pub fn keep_code(&mut self, store: &Arc<Store>, file: usize, start: u64) {
        let code = CodeCache::new(Tier::Blocks, Limits::default()).with_store(store.clone());
        self.cache = Cache::of(&Arc::new(code));
        self.text = Anywhere { written: false, file: Some((file, start)) };
    }

    /// How many blocks were read from a store.
    pub fn blocks_read(&self) -> u64 {
        self.cache.translation().read
    }

    /// How often blocks were translated to code of the host.
    pub fn translations(&self) -> u64 {
        self.cache.translation().blocks
    }

    /// How often code of the host called the interpreter for an instruction without a translation.
    pub fn calls_of_tier_0(&self) -> u64 {
        self.cache.translation().alone_calls
    }

    /// How many of them were regions.
    pub fn regions(&self) -> u64 {
        self.cache.translation().regions
    }

    /// How often control left translated code for the dispatch loop.
    pub fn exits(&self) -> u64 {
        self.cache.translation().exits
    }

    /// Executes at most `budget` instructions from the program counter on; why it stopped.
    pub fn run(&mut self, budget: u64) -> Trap {
        static NEVER: AtomicBool = AtomicBool::new(false);
        self.cache.run(&mut self.cpu, &self.text, &NEVER, budget)
    }

    /// As [`Bare::run`], with an alarm in so many nanoseconds, which stops it with
    /// [`Trap::Attention`].
    pub fn run_until(&mut self, alarm: &Alarm, ns: u32, budget: u64) -> Trap {
        alarm.set(ns);
        self.cache.run(&mut self.cpu, &self.text, alarm.flag(), budget)
    }

    /// Executes one instruction; why it stopped.
    pub fn step(&mut self) -> Trap {
        self.cache.step(&mut self.cpu, &self.text)
    }
}
