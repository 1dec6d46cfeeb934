//! The order of memory that the LoongArch manual allows, on tier 0: what a thread has issued and
//! not done, and what takes place at each of its turns.
//!
//! - A store goes to its thread's buffer and becomes visible at a later turn, before or behind
//!   other stores of the buffer. A load of its own thread reads it there.
//! - A load reads memory at a later turn than its own, also behind later loads and stores, but
//!   before an instruction of its thread names its register.
//! - Accesses of one thread to the same bytes keep their order. What is visible to one other thread
//!   is visible to all of them.
//! - `dbar` orders what its hint says: bits 3 and 2 leave out earlier loads and stores, bits 1 and
//!   0 later ones. Orders that only later loads or only later stores keep are kept by both, which
//!   allows less than the manual.
//! - `am*`, `ll`, `sc`, floating-point and vector accesses and system calls wait for all earlier
//!   accesses, and later ones for them, which allows less than the manual too.
//! - Stores off their alignment are made at once, behind all earlier accesses. A fault is exact.
//!
//! Invariants
//! - A thread alone sees its accesses in their order. Checked by
//!   `a_thread_alone_sees_its_own_order`.

use super::{Cpu, Fetch, Trap, atomic};
use crate::isa;
use littoral_base::{mutant, rng};

/// Turns by a seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    /// A number below another.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (rng::mix(self.0) % end as u64) as usize
    }
}

/// Bytes of memory.
#[derive(Clone, Copy, Debug)]
struct Bytes {
    address: u64,
    len: u8,
}

impl Bytes {
    fn overlaps(self, other: Bytes) -> bool {
        let ends = |a: Bytes, b: Bytes| b.address.wrapping_sub(a.address) < u64::from(a.len);
        ends(self, other) || ends(other, self)
    }
}

/// A load that has not read yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    at: Bytes,
    register: u8,
    is_signed: bool,
}

#[derive(Clone, Copy, Debug)]
enum Buffered {
    Store(Bytes, u64),
    /// Stores behind it are visible after those before it.
    Barrier,
}

/// A plain access of general registers.
#[derive(Clone, Copy, Debug)]
enum Access {
    Load(Pending),
    Store(Bytes, u64),
}

/// What an instruction is for the order of memory.
#[derive(Clone, Copy, Debug)]
enum Role {
    Access(Access),
    Barrier(u32),
    /// It waits for all earlier accesses.
    Ordered,
    /// No access.
    Plain,
}

/// What a thread has issued and not done.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    pending: Vec<Pending>,
    buffer: Vec<Buffered>,
    /// An access that failed when it took place.
    late: Option<Trap>,
}

/// A thread's weak order, and what decides about it.
#[derive(Debug)]
pub(crate) struct Mode {
    orders: Orders,
    random: Random,
}

impl Mode {
    /// By a seed.
    pub(crate) fn new(seed: u64) -> Mode {
        Mode { orders: Orders::default(), random: Random::new(seed) }
    }

    /// One turn of a thread that runs: an instruction, which `step` executes on tier 0, or an
    /// access that an earlier one issued. A trap ends the thread's run.
    pub(crate) fn turn(
        &mut self,
        cpu: &mut Cpu,
        fetch: &impl Fetch,
        step: impl FnOnce(&mut Cpu) -> Trap,
    ) -> Option<Trap> {
        let choice = self.random.below(6);
        if !self.orders.late_turn(cpu, choice, &mut self.random) {
            return self.orders.instruction(cpu, fetch, step);
        }
        self.orders.late.take()
    }

    /// All that was issued takes place: a trap if something of it fails.
    pub(crate) fn settle(&mut self, cpu: &mut Cpu) -> Option<Trap> {
        self.orders.settle(cpu);
        self.orders.late.take()
    }
}

impl Orders {
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.buffer.is_empty()
    }

    /// The trap of an access that failed when it took place.
    pub(crate) fn failed(&mut self) -> Option<Trap> {
        self.late.take()
    }

    fn settle(&mut self, cpu: &mut Cpu) {
        self.resolve_all(cpu);
        self.show_all(cpu);
    }

    /// An access that was issued earlier takes place, if the choice is one and there is one.
    pub(crate) fn late_turn(&mut self, cpu: &mut Cpu, choice: usize, random: &mut Random) -> bool {
        match choice {
            0 if !self.buffer.is_empty() => {
                let ready = self.ready_stores();
                self.show(cpu, ready[random.below(ready.len())]);
            }
            1 if !self.pending.is_empty() => {
                let ready = self.ready_loads();
                self.resolve(cpu, ready[random.below(ready.len())]);
            }
            _ => return false,
        }
        true
    }

    /// Stores that may become visible next.
    fn ready_stores(&self) -> Vec<usize> {
        let mut earlier: Vec<Bytes> = Vec::new();
        let mut ready = Vec::new();
        for (n, entry) in self.buffer.iter().enumerate() {
            let Buffered::Store(at, _) = *entry else { break };
            if !earlier.iter().any(|e| e.overlaps(at)) || mutant!("la64_weak_stores_pass_own") {
                ready.push(n);
            }
            earlier.push(at);
        }
        assert!(!ready.is_empty(), "invariant: no barrier is first");
        ready
    }

    /// Loads that may read next.
    fn ready_loads(&self) -> Vec<usize> {
        let is_first = |n: usize| {
            self.pending[..n].iter().all(|earlier| !earlier.at.overlaps(self.pending[n].at))
        };
        (0..self.pending.len()).filter(|&n| is_first(n)).collect()
    }

    /// A store becomes visible.
    fn show(&mut self, cpu: &mut Cpu, n: usize) {
        if let Buffered::Store(at, value) = self.buffer.remove(n) {
            let window = &cpu.window;
            let done = match at.len {
                1 => window.store(at.address, value as u8),
                2 => window.store(at.address, value as u16),
                4 => window.store(at.address, value as u32),
                _ => window.store(at.address, value),
            };
            if done.is_none() {
                self.late = Some(Trap::Store(at.address));
            }
        }
        while matches!(self.buffer.first(), Some(Buffered::Barrier)) {
            self.buffer.remove(0);
        }
    }

    fn show_all(&mut self, cpu: &mut Cpu) {
        while !self.buffer.is_empty() {
            self.show(cpu, 0);
        }
    }

    /// A load reads.
    fn resolve(&mut self, cpu: &mut Cpu, n: usize) {
        let load = self.pending.remove(n);
        match value(cpu, load.at) {
            Some(value) => put(cpu, load, value),
            None => self.late = Some(Trap::Load(load.at.address)),
        }
    }

    fn resolve_all(&mut self, cpu: &mut Cpu) {
        while !self.pending.is_empty() {
            self.resolve(cpu, 0);
        }
    }

    /// Loads for which something holds read, each behind earlier ones of the same bytes.
    fn resolve_those(&mut self, cpu: &mut Cpu, which: impl Fn(&Pending) -> bool) {
        while let Some(last) = self.pending.iter().rposition(&which) {
            let at = self.pending[last].at;
            let first = self.pending.iter().position(|p| p.at.overlaps(at)).unwrap_or(last);
            self.resolve(cpu, first);
        }
    }

    /// The next instruction; the trap that it ends with.
    pub(crate) fn instruction(
        &mut self,
        cpu: &mut Cpu,
        fetch: &impl Fetch,
        step: impl FnOnce(&mut Cpu) -> Trap,
    ) -> Option<Trap> {
        let pc = cpu.state.pc;
        let word = fetch.text(pc).and_then(|_| cpu.window.load::<u32>(pc));
        // What is no instruction, or cannot be fetched, is found by the step.
        let role = word.map_or(Role::Plain, |word| {
            // `bl` writes register 1 and does not name it.
            let named = [0, 5, 10, 15].map(|place| (word >> place & 31) as u8);
            let links = word >> 26 == 0x15;
            let is_named = |p: &Pending| named.contains(&p.register) || links && p.register == 1;
            self.resolve_those(cpu, is_named);
            role(cpu, word)
        });
        match role {
            Role::Access(access) if self.access(cpu, access) => {}
            Role::Barrier(hint) => self.barrier(cpu, hint),
            Role::Plain => return stepped(step(cpu)),
            Role::Ordered | Role::Access(_) => {
                self.settle(cpu);
                return stepped(step(cpu));
            }
        }
        cpu.state.pc += 4;
        cpu.state.instructions += 1;
        None
    }

    /// Issues a plain access; false if it faults, or must be one that cannot be split.
    fn access(&mut self, cpu: &mut Cpu, access: Access) -> bool {
        match access {
            Access::Load(load) if value(cpu, load.at).is_some() => self.issue(cpu, load),
            Access::Store(at, value) if can_store(cpu, at) => {
                self.resolve_those(cpu, |p| p.at.overlaps(at));
                self.buffer.push(Buffered::Store(at, value));
            }
            Access::Load(_) | Access::Store(..) => return false,
        }
        true
    }

    fn issue(&mut self, cpu: &mut Cpu, load: Pending) {
        let own = |entry: &Buffered| match *entry {
            Buffered::Store(at, value) if at.overlaps(load.at) => Some((at, value)),
            Buffered::Store(..) | Buffered::Barrier => None,
        };
        match self.buffer.iter().rev().find_map(own) {
            Some((at, value)) if at.address == load.at.address && at.len == load.at.len => {
                let mask = u64::MAX >> (64 - 8 * u32::from(at.len));
                return put(cpu, load, value & mask);
            }
            Some(_) => self.show_all(cpu),
            None => {}
        }
        self.pending.push(load);
    }

    /// `dbar`.
    fn barrier(&mut self, cpu: &mut Cpu, hint: u32) {
        // Loads of the same address keep their order anyway.
        const SAME_ADDRESS: u32 = 0x700;
        if hint == SAME_ADDRESS || mutant!("la64_weak_dbar_does_nothing") {
            return;
        }
        let orders = |bit: u32| hint > 31 || hint >> bit & 1 == 0;
        if orders(3) {
            self.resolve_all(cpu);
        }
        if orders(2) && orders(1) {
            self.show_all(cpu);
        } else if orders(2) && orders(0) && !self.buffer.is_empty() {
            self.buffer.push(Buffered::Barrier);
        }
    }
}

/// The trap of a step that did not retire.
fn stepped(trap: Trap) -> Option<Trap> {
    (trap != Trap::OutOfBudget).then_some(trap)
}

/// What memory holds.
fn value(cpu: &Cpu, at: Bytes) -> Option<u64> {
    match at.len {
        1 => cpu.window.load::<u8>(at.address).map(u64::from),
        2 => cpu.window.load::<u16>(at.address).map(u64::from),
        4 => cpu.window.load::<u32>(at.address).map(u64::from),
        _ => cpu.window.load::<u64>(at.address),
    }
}

/// Whether a store can be made later: memory is written with what it holds. Off its alignment a
/// store may meet two pages, so it is made at once.
fn can_store(cpu: &Cpu, at: Bytes) -> bool {
    let (window, address) = (&cpu.window, at.address);
    let done = address.is_multiple_of(at.len.into()).then(|| match at.len {
        1 => window.swap_if(address, 0u8, 0).is_some(),
        2 => window.swap_if(address, 0u16, 0).is_some(),
        4 => window.swap_if(address, 0u32, 0).is_some(),
        _ => window.swap_if(address, 0u64, 0).is_some(),
    });
    done == Some(true)
}

/// Writes what a load has read.
fn put(cpu: &mut Cpu, load: Pending, value: u64) {
    if load.at.len == 8 {
        atomic::note_second_half(cpu, load.at.address, value);
    }
    let open = 64 - 8 * u32::from(load.at.len);
    let signed = ((value << open) as i64 >> open) as u64;
    if load.register != 0 {
        cpu.state.x[usize::from(load.register)] = if load.is_signed { signed } else { value };
    }
}

/// What an instruction is.
fn role(cpu: &Cpu, word: u32) -> Role {
    let Some(id) = isa::decode(word) else { return Role::Plain };
    let row = id.row();
    let (stem, suffix) = (row.stem(), row.suffix());
    let operand = |n: usize| isa::operands(id, word).nth(n).unwrap_or_default();
    let len = match suffix.as_bytes().first() {
        Some(b'b') => 1,
        Some(b'h') => 2,
        Some(b'w') => 4,
        _ => 8,
    };
    match stem {
        "ld" | "ldx" | "st" | "stx" => {
            let register = |n: usize| cpu.state.x[operand(n) as usize & 31];
            let beside = match stem {
                "ld" | "st" => operand(2) as i64 as u64,
                _ => register(2),
            };
            let at = Bytes { address: register(1).wrapping_add(beside), len };
            if stem.starts_with("st") {
                return Role::Access(Access::Store(at, register(0)));
            }
            let (register, is_signed) = (operand(0) as u8, !suffix.ends_with('u'));
            Role::Access(Access::Load(Pending { at, register, is_signed }))
        }
        "dbar" => Role::Barrier(operand(0) as u32),
        _ if is_ordered(stem) => Role::Ordered,
        _ => Role::Plain,
    }
}

/// Whether an instruction other than plain loads and stores may reach memory, or leaves the thread
/// for its owner.
fn is_ordered(stem: &str) -> bool {
    const BEGINS: [&str; 9] = ["ld", "st", "fld", "fst", "vld", "vst", "xvld", "xvst", "am"];
    let is_other = matches!(stem, "ll" | "sc" | "llacq" | "screl" | "ibar" | "syscall");
    is_other || BEGINS.iter().any(|begin| stem.starts_with(begin))
}
