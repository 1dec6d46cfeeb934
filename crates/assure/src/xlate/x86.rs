//! Random x86-64 programs on the translator and on the host processor: registers, flags, memory
//! and the event at the end must be equal.
//!
//! - Each program runs on the translator in one go, in slices of a few LA64 instructions, which
//!   stop wherever the guest's state is exact, and in slices with barriers and counts.
//! - Some run on a played processor that executes LA64 code itself (`littoral_la64::native`), in
//!   one go and with signals that come after any number of instructions.
//! - A program may step: both stop behind each instruction by the trap flag, and where and with
//!   which registers must be equal too.
//! - A program that reaches an address which is mapped here and not there, or there and not here,
//!   is set aside and counted, and so is one that jumps, on both, to an address that is not
//!   canonical.
//! - Where the host's processor is not Intel's, [`Rules`] finds what its x87 does otherwise, and
//!   that is not compared.

pub mod child;
pub mod programs;
mod values;

use child::{BASES, CODE, DATA, End, Host, OWN_ADDRESSES, PAGE, Registers, STOPS_MAX, sum_of};
use littoral_la64::front::Settings;
use littoral_la64::interp::{Cache, Cpu, Features, Tier};
use littoral_la64::memory::{Memory, Window};
use littoral_la64::native::{Emulated, Processor};
use littoral_la64::state::State;
use littoral_xlate::engine::Engine;
use littoral_xlate::event::Event;
use littoral_xlate::layout::{AREA_BYTES, Layout};
use littoral_xlate::x86::decode::{Inst, Operand, decode};
use littoral_xlate::x86::float::Vectors;
use littoral_xlate::x86::registers::{COUNTS, DIRECTION_BIT, Machine, TRAP_BIT, arithmetic_bits};
use littoral_xlate::x86::{Conventions, X86, x87};
use programs::{Program, Random};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Length of the window that programs run in.
pub const WINDOW_LEN: u64 = 0x400_0000;
/// Slices of a program: more than the repetitions of a page have.
const RUNS_MAX: u64 = 20_000;
const ADJUST: u64 = 1 << 4;
/// The flag of denormal operands, which translated code does not raise.
const DENORMAL: u32 = 1 << 1;
/// Where the words of x87 have the opcode of the latest instruction.
const OPCODE: u64 = 0xffff << 48;

/// Rules of x87 in which the processors of the two makers differ, and which the host shows.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Bits of the first three words of x87 (opcode, address, operand's address) that the host sets
    /// otherwise: not as Intel's processors, which note opcode and operand only with an exception
    /// that is not masked, and restore what was saved.
    pub open: [u64; 3],
    /// Whether angles are reduced by pi of 66 bits.
    pub reduces_as_here: bool,
    /// Whether a store to memory that is missing faults although its value raises an exception that
    /// is not masked; Intel's processors note the exception and do not store.
    pub stores_fault_first: bool,
}

impl Rules {
    /// The host's, by programs whose ends are known of Intel's processors.
    pub fn of(host: &mut Host) -> Rules {
        const BEFORE: [u64; 2] = [0x1234_5678, 0x2345_6789];
        const SET: u64 = 0x123 << 48;
        const FDIV: u64 = 0x33 << 48;
        // fld dword [rbx]; fdiv dword [rbx], zero by zero, masked and not.
        let cases: [(&[u8], u64, [u64; 3]); 3] = [
            (&[0xd9, 0x03, 0xcc], 0x37f, [SET, CODE, BEFORE[1]]),
            (&[0xd9, 0x03, 0xd8, 0x33, 0xcc], 0x37f, [SET, CODE + 2, BEFORE[1]]),
            (&[0xd9, 0x03, 0xd8, 0x33, 0xcc], 0x37e, [FDIV, CODE + 2, DATA]),
        ];
        let mut run = |code: &[u8], rbx: u64, x87: [u64; 3], top: [u64; 2]| {
            let mut registers = Registers { rip: CODE, flags: 0x202, ..Registers::default() };
            registers.gpr[3] = rbx;
            registers.x87[..3].copy_from_slice(&x87);
            registers.x87[3..5].copy_from_slice(&top);
            host.run(code, &[0; PAGE], &registers)
        };
        let mut open = [0; 3];
        for (code, control, expected) in cases {
            let found =
                run(code, DATA, [control | SET, BEFORE[0], BEFORE[1]], [0; 2]).registers.x87;
            for (n, mask) in [OPCODE, u64::MAX, u64::MAX].into_iter().enumerate() {
                let is_same = (found[n] ^ expected[n]) & mask == 0;
                open[n] |= if is_same { 0 } else { mask };
            }
        }
        // fsin of pi of 64 bits: what it lacks of pi of 66 bits.
        const FULL: u64 = 1 << 32;
        const PI: [u64; 2] = [0xc90f_daa2_2168_c235, 0x4000];
        let sine = run(&[0xd9, 0xfe, 0xcc], DATA, [0x37f | FULL, 0, 0], PI).registers.x87;
        // fstp dword [rbx] of an empty register, to an address that is not mapped.
        let store = run(&[0xd9, 0x1b, 0xcc], WINDOW_LEN, [0x37e, 0, 0], [0; 2]);
        Rules {
            open,
            reduces_as_here: sine[3..5] == [1 << 63, 0xbfbf],
            stores_fault_first: matches!(store.signal, 7 | 11),
        }
    }

    /// Whether the host's program ended at a store of x87 that faults where the translator's noted
    /// an exception and went on.
    fn faults_first(&self, program: &Program, ours: &Ours, theirs: &End) -> bool {
        const SUMMARY: u64 = 0x80 << 16;
        let went_on = ours.registers.rip != theirs.registers.rip || failed(ours.event).is_none();
        let is_noted = ours.registers.x87[0] & SUMMARY != 0 && went_on;
        let is_fault = matches!(theirs.signal, 7 | 11);
        self.stores_fault_first
            && is_fault
            && is_noted
            && theirs.instruction(program).is_some_and(|inst| {
                let is_memory = matches!(inst.operands().next(), Some(Operand::Mem(_)));
                inst.row.x87 && is_memory && inst.row.stem.contains("st")
            })
    }

    /// Whether what a program stores depends on rules that are not these.
    pub fn leaves_open(&self, program: &Program) -> bool {
        const SAVE: [&str; 3] = ["fxsave", "fnsave", "fnstenv"];
        let saves = |&at: &u64| {
            let bytes = program.code.get((at - CODE) as usize..).unwrap_or_default();
            decode(at, bytes).is_ok_and(|inst| SAVE.contains(&inst.row.stem))
        };
        self.open != [0; 3] && program.starts.iter().any(saves)
    }

    /// Registers without what the host does otherwise.
    pub fn mask(&self, mut x87: [u64; 19]) -> [u64; 19] {
        x87.iter_mut().zip(self.open).for_each(|(word, open)| *word &= !open);
        x87
    }
}

/// How a program ended on the translator.
#[derive(Debug)]
pub struct Ours {
    /// Why it stopped.
    pub event: Event,
    /// Registers.
    pub registers: Registers,
    /// The data page.
    pub data: Vec<u8>,
    /// Where it stopped by its trap flag, and the sums of its registers there.
    pub stops: Vec<(u64, u64)>,
}

fn set_x87(state: &mut State, words: [u64; 19]) {
    let registers = std::array::from_fn(|n| [words[3 + 2 * n], words[4 + 2 * n]]);
    x87::set_saved(state, true, [words[0], words[1], words[2]], registers);
}

fn x87_of(state: &State) -> [u64; 19] {
    let (head, registers) = x87::saved(state, true);
    let stack = registers.as_flattened();
    std::array::from_fn(|n| if n < 3 { head[n] } else { stack[n - 3] })
}

/// Where the translator's code and its table lie in the window.
pub fn layout() -> Layout {
    Layout { areas: vec![2], entries: 0x300_0000, guest_end: 0x20_0000, alignment: 1 }
}

/// The program's end, and how many of its instructions were executed if they are counted.
///
/// # Panics
/// The window is shorter than [`WINDOW_LEN`].
pub fn translated(
    window: Window,
    program: &Program,
    tier: Tier,
    slice: u64,
    conventions: Conventions,
) -> (Ours, u64) {
    let settings = Settings { counts: conventions.counts, ..Settings::default() };
    let slice = slice.min(100_000);
    ended((window, program), conventions, settings, (Cache::new(tier), &mut || slice))
}

/// The same on a played processor that executes LA64 code itself. With a seed signals interrupt
/// it.
///
/// # Panics
/// The window is shorter than [`WINDOW_LEN`], or the processor is left as no caller may find it.
pub fn executed(
    window: Window,
    program: &Program,
    conventions: Conventions,
    seed: Option<u64>,
) -> (Ours, u64) {
    /// Behind the table of entries.
    const SPARE: u64 = 0x380_0000;
    /// A routine and some code.
    const INSTRUCTIONS_MAX: u64 = 600;
    let features = Features { lbt: !conventions.without_lbt, ..Features::ALL };
    let code = layout().begins().next().expect("an area");
    let processor = Arc::new(Emulated::new(features, code..code + AREA_BYTES, SPARE));
    let counts = conventions.counts;
    let native: Arc<dyn Processor> = processor.clone();
    let settings = Settings { counts, native: Some(native), ..Settings::default() };
    let mut random = Random(seed.unwrap_or_default());
    let mut begin = || {
        if seed.is_some() {
            processor.interrupt_after(random.below(INSTRUCTIONS_MAX));
        }
        u64::MAX
    };
    let cache = Cache::new(Tier::Interpreter);
    ended((window, program), conventions, settings, (cache, &mut begin))
}

/// The program's end in runs with the budgets that `begin` gives.
fn ended(
    (window, program): (Window, &Program),
    conventions: Conventions,
    settings: Settings,
    (mut cache, begin): (Cache, &mut dyn FnMut() -> u64),
) -> (Ours, u64) {
    let mut code = program.code.clone();
    code.resize(PAGE, 0xcc);
    let written = [(CODE, &code), (DATA, &program.data)]
        .into_iter()
        .try_for_each(|(at, bytes)| window.write(at, bytes));
    assert!(written.is_some(), "programs lie in the window");
    let engine = Engine::new(layout(), X86(conventions)).with(settings);
    let features = Features { lbt: !conventions.without_lbt, ..Features::ALL };
    let mut cpu = Cpu::new(window, features);
    engine.prepare(&mut cpu.state);
    let Registers { gpr, flags, rip, vectors, x87 } = program.registers.clone();
    set_x87(&mut cpu.state, x87);
    vectors.write(&mut cpu.state);
    Machine { gpr, flags, rip, fs: BASES.0, gs: BASES.1 }.write(&mut cpu.state);
    let executable = |pc: u64| (CODE..CODE + PAGE as u64).contains(&pc);
    let never = AtomicBool::new(false);
    // Programs end; one that does not is a difference.
    let mut event = Event::OutOfBudget;
    let mut runs = 0;
    let mut stops = Vec::new();
    while goes_on(event) && runs < RUNS_MAX {
        if event == Event::Full {
            // The program has denormal numbers count as zeros.
            engine.renew(&window, &cpu.epoch, &|| ());
        }
        event = engine.run((&mut cpu, &mut cache), &executable, &never, begin());
        runs += 1;
        if event == Event::Step {
            note_stop(&mut cpu.state, &mut stops);
        }
    }
    engine.clear(&window, &cpu.epoch);
    let mut data = vec![0; PAGE];
    assert!(window.read(DATA, &mut data).is_some(), "the data is in the window");
    let Machine { gpr, flags, rip, .. } = Machine::read(&cpu.state);
    let vectors = Vectors::read(&cpu.state);
    let count = cpu.state.v[COUNTS].0[3];
    let x87 = x87_of(&cpu.state);
    let registers = Registers { gpr, flags, rip, vectors, x87 };
    (Ours { event, registers, data, stops }, count)
}

/// Whether a program is to be run on behind an event.
fn goes_on(event: Event) -> bool {
    matches!(event, Event::OutOfBudget | Event::Attention | Event::Step | Event::Full)
}

/// Notes a stop as the host's process does, which notes where a program begins too. Behind the last
/// one the program stops no more.
fn note_stop(state: &mut State, stops: &mut Vec<(u64, u64)>) {
    let mut machine = Machine::read(state);
    if stops.len() + 1 < STOPS_MAX {
        stops.push((machine.rip, sum_of(&machine.gpr)));
    } else {
        machine.flags &= !TRAP_BIT;
        machine.write(state);
    }
}

/// The address of a failed access.
fn failed(event: Event) -> Option<u64> {
    match event {
        Event::Load(at) | Event::Store(at) | Event::Fetch(at) => Some(at),
        _ => None,
    }
}

/// Whether an address has the form that the processor accepts.
fn is_canonical(address: u64) -> bool {
    (address << 16) as i64 >> 16 == address as i64
}

/// Whether an event is what the signal tells.
fn same_event(ours: Event, theirs: &End) -> bool {
    const GENERAL: i64 = 0x80;
    match (theirs.signal, ours) {
        (4, Event::Illegal(_))
        | (5, Event::Break(_))
        | (8, Event::Divide | Event::Float | Event::X87(_)) => true,
        (11, Event::Privileged) => theirs.code == GENERAL,
        (7 | 11, event) => failed(event).is_some_and(|at| match theirs.code {
            // An access across pages names the page that is missing.
            1 | 2 => at.abs_diff(theirs.address) < 16,
            _ => !is_canonical(at) || !is_canonical(at.wrapping_add(15)),
        }),
        _ => false,
    }
}

fn compare(
    program: &Program,
    ours: &Ours,
    theirs: &End,
    (fault_flags, rules): (bool, Rules),
) -> Result<(), String> {
    if !same_event(ours.event, theirs) {
        let (signal, code, at) = (theirs.signal, theirs.code, theirs.address);
        let what = format!("{:x?}, not signal {signal}, code {code}, {at:#x}", ours.event);
        return Err(format!(
            "{what}, at {:#x} and {:#x}",
            ours.registers.rip, theirs.registers.rip
        ));
    }
    let mut flags = arithmetic_bits() | DIRECTION_BIT;
    if program.adjust_is_open {
        flags &= !ADJUST;
    }
    if !fault_flags && theirs.signal != 5 {
        flags = 0;
    }
    let mut expected = theirs.registers.clone();
    if theirs.signal == 5 {
        // The kernel names the address behind the instruction.
        let at = ours.registers.rip;
        let bytes = program.code.get(at.wrapping_sub(CODE) as usize..).unwrap_or_default();
        if decode(at, bytes).is_ok_and(|inst| inst.end() == expected.rip) {
            expected.rip = at;
        }
    }
    // What the program does not read of upper parts need not be shown either.
    let is_lazy = !fault_flags && theirs.signal != 5;
    let mask = |r: &Registers| {
        let part =
            |[low, high]: [u64; 2]| if is_lazy { [u64::from(low as u32), 0] } else { [low, high] };
        let mxcsr = r.vectors.mxcsr & !DENORMAL;
        let vectors = Vectors { mxcsr, xmm: r.vectors.xmm.map(part) };
        Registers { flags: r.flags & flags, vectors, x87: rules.mask(r.x87), ..r.clone() }
    };
    let (a, b) = (mask(&ours.registers), mask(&expected));
    if a != b {
        let names = (0..16).filter(|&n| a.gpr[n] != b.gpr[n]);
        let wrong: Vec<_> =
            names.map(|n| format!("r{n} {:x} not {:x}", a.gpr[n], b.gpr[n])).collect();
        let (v, w) = (a.vectors, b.vectors);
        let names = (0..16).filter(|&n| v.xmm[n] != w.xmm[n]);
        let vectors: Vec<_> =
            names.map(|n| format!("xmm{n} {:x?} not {:x?}", v.xmm[n], w.xmm[n])).collect();
        let (f, g) = (a.flags, b.flags);
        let names = (0..19).filter(|&n| a.x87[n] != b.x87[n]);
        let x87: Vec<_> =
            names.map(|n| format!("x87 {n}: {:x} not {:x}", a.x87[n], b.x87[n])).collect();
        let control = format!("mxcsr {:x} not {:x}; {x87:?}", v.mxcsr, w.mxcsr);
        let text = format!("flags {f:x} not {g:x}; rip {:x} {:x}; {control}", a.rip, b.rip);
        return Err(format!("{wrong:?} {vectors:x?}; {text}"));
    }
    match ours.data.iter().zip(&theirs.data).position(|(a, b)| a != b) {
        Some(at) => Err(format!("memory at {:#x}", DATA + at as u64)),
        None => Ok(()),
    }
}

fn compare_stops(ours: &[(u64, u64)], theirs: &[(u64, u64)]) -> Result<(), String> {
    match (0..ours.len().max(theirs.len())).find(|&n| ours.get(n) != theirs.get(n)) {
        None => Ok(()),
        Some(n) => Err(format!("stop {n} is {:x?}, not {:x?}", ours.get(n), theirs.get(n))),
    }
}

/// A program in words.
pub fn describe(program: &Program, n: u64, what: &str) -> String {
    let mut text = format!("program {n}: {what}\nbegins with {:x?}\n", program.registers);
    for pair in program.starts.windows(2) {
        let bytes = &program.code[(pair[0] - CODE) as usize..(pair[1] - CODE) as usize];
        if bytes.iter().all(|&b| b == 0x90) {
            continue;
        }
        let name = decode(pair[0], bytes)
            .map(|i| format!("{} {:x?}", i.row.name, i.operands().collect::<Vec<_>>()));
        text.push_str(&format!("{:x}: {bytes:02x?} {name:?}\n", pair[0]));
    }
    text
}

/// Whether a program ended at a store of an MMX register: whether the top is 0 by then, the manual
/// leaves open.
fn ends_in_mmx_store(program: &Program, theirs: &End) -> bool {
    let is_store = |inst: Inst| {
        let names_memory = matches!(inst.operands().next(), Some(Operand::Mem(_)));
        inst.row.mmx && (names_memory || inst.is("maskmovq"))
    };
    theirs.signal != 5 && theirs.instruction(program).is_some_and(is_store)
}

impl End {
    /// The instruction at which the program ended.
    fn instruction(&self, program: &Program) -> Option<Inst> {
        let at = self.registers.rip;
        let bytes = program.code.get(at.wrapping_sub(CODE) as usize..).unwrap_or_default();
        decode(at, bytes).ok()
    }

    /// Whether the program reached memory that the window has and the process has not.
    pub fn leaves_its_pages(&self) -> bool {
        const GENERAL: i64 = 0x80;
        let is_own = matches!(self.signal, 7 | 11) && self.code != GENERAL;
        is_own && self.address < WINDOW_LEN
    }
}

/// Programs on both processors.
pub struct Bench {
    /// The host's process.
    pub host: Host,
    /// What the host does otherwise.
    pub rules: Rules,
    /// The translator's memory.
    pub window: Window,
    /// Programs that ended with their last instruction.
    pub whole: u64,
    /// Where programs that step have stopped.
    pub stops: u64,
    /// Whether programs run without LBT.
    pub without_lbt: bool,
}

impl Bench {
    /// Starts the host's process.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn new() -> std::io::Result<Bench> {
        let mut host = Host::start()?;
        let rules = Rules::of(&mut host);
        let window = Memory::leaked(WINDOW_LEN);
        Ok(Bench { host, rules, window, whole: 0, stops: 0, without_lbt: false })
    }

    /// What differs; `None` if the program reaches memory that the window has and the process has
    /// not or the other way round, or stores or shows what the manual leaves open.
    ///
    /// # Panics
    /// The host's process has ended.
    pub fn check(&mut self, program: &Program, n: u64) -> Option<Result<(), String>> {
        let theirs = self.host.run(&program.code, &program.data, &program.registers);
        self.whole += u64::from(theirs.signal == 5);
        let is_open = self.rules.leaves_open(program) || ends_in_mmx_store(program, &theirs);
        if theirs.leaves_its_pages() || is_open {
            return None;
        }
        let tier = if n.is_multiple_of(4) { Tier::Blocks } else { Tier::Interpreter };
        let lazy = Conventions { lazy_faults: true, ..Conventions::default() };
        // As for a process with threads whose instructions are counted; a slice is longer than the
        // code that counts.
        let all = Conventions { ordered: true, counts: true, ..Conventions::default() };
        let ways = [(u64::MAX, lazy), (1 + n % 9, Conventions::default()), (8 + n % 9, all)];
        for (slice, conventions) in ways {
            let conventions = Conventions { without_lbt: self.without_lbt, ..conventions };
            let (ours, _) = translated(self.window, program, tier, slice, conventions);
            if self.is_open(program, &ours, &theirs) {
                return None;
            }
            let how = (!conventions.lazy_faults, self.rules);
            if let Err(what) = compare(program, &ours, &theirs, how) {
                return Some(Err(format!("in slices of {slice}: {what}")));
            }
        }
        Some(if n % 3 == 1 { self.check_executed(program, n, &theirs) } else { Ok(()) })
    }

    /// Whether the two may differ, by where they ended.
    fn is_open(&self, program: &Program, ours: &Ours, theirs: &End) -> bool {
        const GENERAL: i64 = 0x80;
        let is_mapped_there = failed(ours.event).is_some_and(|at| OWN_ADDRESSES.contains(&at));
        // The processor faults at the jump, translated code behind it. Where the processor does not
        // fault, the translator has jumped to where it must not.
        let is_beyond = matches!(ours.event, Event::Fetch(at) if !is_canonical(at));
        is_beyond && (theirs.signal, theirs.code) == (11, GENERAL)
            || is_mapped_there
            || self.rules.faults_first(program, ours, theirs)
    }

    /// The same of a program that steps: without LBT too, with counts, on the played processor with
    /// signals. Set aside is what [`Bench::check`] sets aside, and a program that ends at `int1`,
    /// which some hypervisors report as a step.
    ///
    /// # Panics
    /// The host's process has ended.
    pub fn check_steps(&mut self, program: &Program, n: u64) -> Option<Result<(), String>> {
        let mut program = program.clone();
        program.registers.flags |= TRAP_BIT;
        let program = &program;
        let theirs = self.host.run(&program.code, &program.data, &program.registers);
        let is_open = self.rules.leaves_open(program) || ends_in_mmx_store(program, &theirs);
        if theirs.leaves_its_pages() || is_open {
            return None;
        }
        self.whole += u64::from(theirs.signal == 5);
        self.stops += theirs.stops.len() as u64;
        let tier = if n.is_multiple_of(4) { Tier::Blocks } else { Tier::Interpreter };
        let lazy = Conventions { lazy_faults: true, ..Conventions::default() };
        let plain = Conventions { without_lbt: true, ..Conventions::default() };
        let all = Conventions { ordered: true, counts: true, ..Conventions::default() };
        for (way, conventions) in [lazy, plain, all, all].into_iter().enumerate() {
            let (ours, _) = match way {
                3 => executed(self.window, program, conventions, Some(n | 1)),
                // A program may clear the flag; a slice is longer than the code that counts.
                _ => translated(self.window, program, tier, 8 + n % 9, conventions),
            };
            if ours.event == Event::Break(1) || self.is_open(program, &ours, &theirs) {
                return None;
            }
            let first = theirs.stops.first().map(|stop| stop.0);
            assert_eq!(first, Some(program.registers.rip), "the monitor steps into a program");
            let same = compare_stops(&ours.stops, &theirs.stops[1..]).and_then(|()| {
                let how = (!conventions.lazy_faults, self.rules);
                compare(program, &ours, &theirs, how)
            });
            if let Err(what) = same {
                return Some(Err(format!("steps, way {way}: {what}")));
            }
        }
        Some(Ok(()))
    }

    /// The same on the played processor.
    fn check_executed(&self, program: &Program, n: u64, theirs: &End) -> Result<(), String> {
        let lazy = Conventions { lazy_faults: true, ..Conventions::default() };
        let all = Conventions { ordered: true, counts: true, ..Conventions::default() };
        for (seed, conventions) in [(None, lazy), (Some(n | 1), all)] {
            let (without_lbt, short_regions) = (self.without_lbt, true);
            let conventions = Conventions { without_lbt, short_regions, ..conventions };
            let (ours, _) = executed(self.window, program, conventions, seed);
            let how = (!conventions.lazy_faults, self.rules);
            let at = |what| format!("executed, signals by {seed:?}: {what}");
            compare(program, &ours, theirs, how).map_err(at)?;
        }
        Ok(())
    }

    /// The program with everything replaced by `nop` that the difference does not need, in words.
    pub fn reduced(&mut self, mut program: Program, n: u64, mut what: String) -> String {
        for pair in program.starts.clone().windows(2) {
            let place = (pair[0] - CODE) as usize..(pair[1] - CODE) as usize;
            let before = program.code[place.clone()].to_vec();
            program.code[place.clone()].fill(0x90);
            match self.check(&program, n) {
                Some(Err(other)) => what = other,
                Some(Ok(())) | None => program.code[place].copy_from_slice(&before),
            }
        }
        describe(&program, n, &what)
    }
}

/// What came of random programs.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Programs that were compared.
    pub compared: u64,
    /// Programs that were set aside.
    pub aside: u64,
    /// Programs that ended differently.
    pub different: u64,
    /// The first differences.
    pub first: Vec<String>,
}

/// Compares random programs.
///
/// # Errors
/// The host's process cannot be started.
pub fn judge(
    seed: u64,
    programs: u64,
    make: fn(&mut Random) -> Program,
) -> std::io::Result<Verdict> {
    Ok(judge_on(Bench::new()?, seed, programs, make))
}

/// The same on a bench of the caller's.
pub fn judge_on(
    mut bench: Bench,
    seed: u64,
    programs: u64,
    make: fn(&mut Random) -> Program,
) -> Verdict {
    const DESCRIBED_MAX: usize = 12;
    let mut random = Random(seed);
    let mut verdict = Verdict::default();
    for n in 0..programs {
        let program = make(&mut random);
        match bench.check(&program, n) {
            None => verdict.aside += 1,
            Some(Ok(())) => verdict.compared += 1,
            Some(Err(what)) => {
                verdict.compared += 1;
                verdict.different += 1;
                if verdict.first.len() < DESCRIBED_MAX {
                    verdict.first.push(bench.reduced(program, n, what));
                }
            }
        }
    }
    verdict
}
