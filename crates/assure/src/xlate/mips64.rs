//! Random MIPS64 programs on the translator and on the exact interpreter: registers, memory, pc and
//! the event at the end must be equal.
//!
//! - Programs are up to 48 instructions with forward branches, accesses that fault, jumps by
//!   register, calls, misaligned targets.
//! - Each runs twice on the translator: in one go, and in slices of a few LA64 instructions, which
//!   stop wherever the guest's state is exact.
//! - Some run on a played processor that executes LA64 code itself (`littoral_la64::native`), in
//!   one go and with signals that come after any number of instructions.
//! - HI and LO are not compared behind an access or a floating-point operation that faults: the
//!   translator keeps them where the program reads them.
//! - A program whose operations meet a signalling NaN of the legacy encoding is set aside (see
//!   `mips64::legacy`).
//! - A program that reaches an address between the guest's end and the window's is set aside: the
//!   translator's own memory lies there, which has no protection in this window. Such programs are
//!   counted as [`Verdict::set_aside`].

pub mod qemu;
mod runner;

use littoral_la64::float::{Double, Format, Single};
use littoral_la64::front::Settings;
use littoral_la64::interp::{Cache, Cpu, Features, Tier};
use littoral_la64::memory::{Memory, Window};
use littoral_la64::native::{Emulated, Processor};
use littoral_xlate::engine::Engine;
use littoral_xlate::event::Event;
use littoral_xlate::layout::{AREA_BYTES, Layout};
use littoral_xlate::mips64::Mips64;
use littoral_xlate::mips64::exact::{Exact, Machine};
use littoral_xlate::mips64::float::{guest_fcsr, set_guest_fcsr};
use littoral_xlate::mips64::isa::{self, Field, Inst};
use littoral_xlate::mips64::legacy::nan;
use littoral_xlate::mips64::registers::{MAP, SCR_HI, SCR_LO, SCR_THREAD, float, la64, set_float};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Cause bits of FCSR.
const CAUSE: u32 = 0x3f << 12;
/// Values that meet the corners of floating point; quiet NaNs are of the legacy encoding.
const CORNERS: [u64; 14] = [
    0,
    1 << 63,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff7_ffff_ffff_ffff,
    0xfff0_0000_0000_0001,
    1,
    0x000f_ffff_ffff_ffff,
    0x7fef_ffff_ffff_ffff,
    0x41e0_0000_0000_0000,
    0x3f80_0000_7fbf_ffff,
    0x7f80_0000_ff80_0000,
];

/// Where programs lie.
const CODE: u64 = 0x1000;
const CODE_LEN: u64 = 0x1000;
/// What their pointers point to.
const DATA: u64 = 0x4000;
const DATA_LEN: usize = 0x1000;
const GUEST_END: u64 = 0x1_0000;
const WINDOW_LEN: u64 = 0x400_0000;
const INSTRUCTIONS_MAX: u64 = 48;

/// What came of random programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Programs compared.
    pub programs_count: u64,
    /// Instructions that the interpreter executed in them.
    pub instructions_count: u64,
    /// Programs that reached the translator's own memory, met a signalling NaN or did not end.
    pub set_aside: u64,
    /// Programs with a difference.
    pub different: u64,
    /// The first difference.
    pub first: Option<String>,
}

/// A small generator, so that a seed means the same programs everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = self.0 ^ self.0 >> 29;
        x.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 8
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Registers that programs use: few, so that they meet.
const REGISTERS: [u64; 10] = [0, 1, 2, 3, 4, 5, 8, 25, 29, 31];
/// Those that hold addresses of data at first.
const POINTERS: [u64; 3] = [4, 5, 29];

struct Program {
    words: Vec<u32>,
    machine: Machine,
    data: Vec<u8>,
}

fn put(word: &mut u32, lo: u32, width: u32, value: u64) {
    let mask = ((1u64 << width) - 1) as u32;
    *word = *word & !(mask << lo) | (value as u32 & mask) << lo;
}

/// One instruction at place `n` of `length`.
fn instruction(random: &mut Random, n: u64, length: u64) -> u32 {
    let rows = isa::rows();
    let row = &rows[random.below(rows.len() as u64) as usize];
    let mut word = row.word | random.next() as u32 & !row.mask;
    let inst = Inst { at: 0, word, row };
    for lo in [21, 16, 11] {
        if row.mask >> lo & 31 == 0 {
            put(&mut word, lo, 5, REGISTERS[random.below(10) as usize]);
        }
    }
    let forward = 1 + random.below((length - n).min(9));
    match inst.special().map(|s| s.0) {
        Some("load" | "store" | "linked") => {
            put(&mut word, 21, 5, POINTERS[random.below(3) as usize]);
            if random.below(2) == 0 {
                put(&mut word, 0, 16, random.below(256).wrapping_sub(128));
            }
        }
        Some("lwl" | "lwr" | "ldl" | "ldr" | "swl" | "swr" | "sdl" | "sdr") => {
            put(&mut word, 21, 5, POINTERS[random.below(3) as usize]);
            put(&mut word, 0, 16, random.below(64).wrapping_sub(32));
        }
        Some("branch" | "bc1") => put(&mut word, 0, 16, forward),
        Some("cfc1" | "ctc1") => put(&mut word, 11, 5, 31),
        Some("j" | "jal") => put(&mut word, 0, 26, CODE / 4 + n + forward),
        Some("jr" | "jalr") => put(&mut word, 21, 5, [25, 31][random.below(2) as usize]),
        // Not into the translator's own memory.
        Some("lui") => put(&mut word, 0, 16, random.next() | 0x8000),
        Some("rdhwr") => put(&mut word, 11, 5, 29),
        _ => {}
    }
    if row.mnemonic == "sll" && random.below(2) == 0 {
        put(&mut word, 6, 5, 0);
    }
    word
}

fn is_kept(random: &mut Random, word: u32) -> bool {
    let Some(inst) = Inst::decode(0, word) else { return random.below(64) == 0 };
    let ends = matches!(
        inst.special(),
        Some(("syscall" | "break" | "synci" | "trap" | "trapi" | "addtrap" | "daddtrap", _))
    );
    let (a, b) = (inst.get(Field::A), inst.get(Field::B));
    let is_open = match inst.row.mnemonic {
        "ext" | "dextm" | "dextu" => a + b > 31,
        "ins" | "dinsu" | "dins" => b < a,
        // A link that its own condition reads.
        "bltzal" | "bgezal" | "bltzall" | "bgezall" => inst.reg(Field::S) == isa::RA,
        _ => false,
    };
    // The manual leaves these open; the kernel's registers differ; what ends programs is rare.
    let kernel = [Field::S, Field::T, Field::D].iter().any(|&f| [26, 27].contains(&inst.reg(f)));
    !is_open && !kernel && (!ends || random.below(8) == 0)
}

/// Whether an instruction may not stand in a delay slot here.
fn is_flow(word: u32) -> bool {
    Inst::decode(0, word).is_some_and(|inst| inst.is_branch() || inst.ends_block())
}

/// Two instructions that the translator joins, now and then.
fn pair(random: &mut Random, words: &mut Vec<u32>) {
    let register = || REGISTERS.iter().copied();
    let list: Vec<u64> = register().collect();
    let mut pick = || list[1 + random.below(9) as usize];
    let (a, b, c, d) = (pick(), pick(), pick(), pick());
    let r = |s: u64, t: u64, d: u64, low: u64| (s << 21 | t << 16 | d << 11 | low) as u32;
    let amount = random.below(5) << 6;
    let offset = random.below(64);
    let base = POINTERS[random.below(3) as usize];
    let i =
        |op: u64, s: u64, t: u64, imm: u64| (op << 26 | s << 21 | t << 16 | imm & 0xffff) as u32;
    match random.below(8) {
        0 => words.extend([r(0, a, b, amount | 0x38), r(b, c, d, 0x2d)]),
        1 => words.extend([r(0, a, b, amount), r(c, b, d, 0x21)]),
        2 => words.extend([r(base, 8, a, 0x2d), i(0x23, a, c, 0)]),
        3 => words.extend([i(0x22, base, a, offset + 3), i(0x26, base, a, offset)]),
        4 => words.extend([i(0x2d, base, a, offset), i(0x2c, base, a, offset + 7)]),
        5 => words.extend([r(a, b, 0, 0x1c), r(0, 0, c, 0x12)]),
        6 => words.extend([r(a, b, 0, 0x1a), r(0, 0, c, 0x12), r(0, 0, d, 0x10)]),
        _ => words.extend([r(a, b, c, 0x2b), i(5, c, 0, 1 + random.below(4))]),
    }
}

/// Instructions that make a number in one register, one by one from the number before.
fn number(random: &mut Random, words: &mut Vec<u32>) {
    let register = 1 + random.below(3);
    let mut put = |op: u64, s: u64, d: u64, low: u64| {
        words.push((op << 26 | s << 21 | register << 16 | d << 11 | low & 0xffff) as u32);
    };
    match random.below(3) {
        // Not an address of the translator's own memory.
        0 => put(0xf, 0, 0, random.next() | 0x8000),
        1 => put(0x9, 0, 0, random.next()),
        _ => put(0xd, 0, 0, random.next() & 0x7fff),
    }
    for _ in 0..1 + random.below(6) {
        let corner = [0, 1, 0x7ff, 0x800, 0xfff, 0x7fff, 0x8000, 0xffff, 0xf800];
        let value = match random.below(2) {
            0 => corner[random.below(9) as usize],
            _ => random.next(),
        };
        match random.below(6) {
            0 => put(0x9, register, 0, value),
            1 => put(0x19, register, 0, value),
            2 => put(0xd, register, 0, value),
            // sll, dsll, dsll32.
            kind => {
                let function = [0, 0x38, 0x3c][kind as usize - 3];
                put(0, 0, register, random.below(32) << 6 | function);
            }
        }
    }
}

/// A value that is no signalling NaN of the legacy encoding in either format: those pass LA64's
/// operations as quiet ones (see `mips64::legacy`).
fn without_signalling(value: u64) -> u64 {
    let value = if nan::<Double>(value) == Some(true) { value & !Double::QUIET } else { value };
    if nan::<Single>(value & 0xffff_ffff) == Some(true) { value & !Single::QUIET } else { value }
}

/// Clears the cause bits in the register of `cfc1` or `ctc1`. Translated code does not keep them,
/// so no program here looks at them.
fn without_causes(word: u32) -> u32 {
    const INS_ZERO_12_6: u32 = 0x7c00_8b04;
    INS_ZERO_12_6 | word & 0x1f << 16
}

fn program(random: &mut Random) -> Program {
    let length = 2 + random.below(INSTRUCTIONS_MAX - 2);
    let mut words = Vec::new();
    while (words.len() as u64) < length {
        match random.below(8) {
            0 => {
                pair(random, &mut words);
                continue;
            }
            1 => {
                number(random, &mut words);
                continue;
            }
            _ => {}
        }
        let word = instruction(random, words.len() as u64, length);
        // The manual leaves a branch in a delay slot open.
        let follows = words.last().is_some_and(|&last| is_flow(last));
        let reads_causes = word & 0xffe0_ffff == 0x4440_f800;
        // What sets a cause and its trap ends the program: most have no cause.
        if !follows && word & 0xffe0_ffff == 0x44c0_f800 && random.below(4) != 0 {
            words.push(without_causes(word));
        }
        if is_kept(random, word) && !(follows && (is_flow(word) || reads_causes)) {
            words.push(word);
            if reads_causes {
                words.push(without_causes(word));
            }
        }
    }
    // Branches lead at most nine places beyond the last; there the program ends.
    words.extend([0x0000_01cd; 12]);
    let mut machine = Machine { pc: CODE, thread: random.next(), ..Machine::default() };
    for r in &mut machine.r[1..] {
        let wide = random.next() << 20 ^ random.next();
        *r = [wide, wide as i32 as i64 as u64, random.below(64)][random.below(3) as usize];
    }
    for p in POINTERS {
        machine.r[p as usize] = DATA + DATA_LEN as u64 / 2 + random.below(64);
    }
    for code in [25, 31] {
        let misaligned = if random.below(8) == 0 { random.below(4) } else { 0 };
        machine.r[code] = CODE + 4 * random.below(length) + misaligned;
    }
    (machine.r[26], machine.r[27]) = (0, 0);
    (machine.hi, machine.lo) = (random.next(), random.next());
    for f in &mut machine.f {
        let wide = random.next() << 20 ^ random.next();
        let near = (0x3f + random.below(3)) << 56 | wide >> 12;
        let corner = CORNERS[random.below(CORNERS.len() as u64) as usize];
        *f = without_signalling([wide, near, corner, random.below(100)][random.below(4) as usize]);
    }
    machine.fcsr = random.next() as u32 & 0xfe80_007f;
    let data = (0..DATA_LEN).map(|_| random.next() as u8).collect();
    Program { words, machine, data }
}

/// Where the translator's code and its table lie in the window.
fn layout() -> Layout {
    Layout { areas: vec![2], entries: 0x300_0000, guest_end: GUEST_END, alignment: 4 }
}

/// The two memories and what runs on them.
struct Bench {
    ours: Window,
    theirs: Window,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    event: Event,
    machine: Machine,
    memory: Vec<u8>,
}

impl Bench {
    fn fill(window: &Window, program: &Program) {
        let bytes: Vec<u8> = program.words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let written =
            [(0, vec![0; GUEST_END as usize]), (CODE, bytes), (DATA, program.data.clone())]
                .into_iter()
                .try_for_each(|(at, bytes)| window.write(at, &bytes));
        assert!(written.is_some(), "programs lie in the memory");
    }

    fn memory(window: &Window) -> Vec<u8> {
        let mut bytes = vec![0; GUEST_END as usize];
        let read = window.read(0, &mut bytes);
        assert!(read.is_some(), "the guest's memory is in the window");
        bytes
    }

    /// The interpreter's outcome and count; `None` if the program does not end, or operates on a
    /// signalling NaN.
    fn exact(&self, program: &Program) -> Option<(Outcome, u64)> {
        const STEPS_MAX: u64 = 1000;
        Bench::fill(&self.theirs, program);
        let mut exact = Exact {
            machine: program.machine.clone(),
            window: &self.theirs,
            end: GUEST_END,
            executable: CODE..CODE + CODE_LEN,
            link: None,
            met_signalling: false,
            written_control: None,
        };
        for count in 0..STEPS_MAX {
            if let Err(event) = exact.step() {
                let memory = Bench::memory(&self.theirs);
                if exact.met_signalling {
                    return None;
                }
                return Some((Outcome { event, machine: exact.machine, memory }, count));
            }
        }
        None
    }

    /// The translator's outcome, in slices of `slice` LA64 instructions.
    fn translated(&self, program: &Program, tier: Tier, slice: u64) -> Outcome {
        // A longer run is one that a processor would make.
        let slice = slice.min(1 << 40);
        self.ended(program, Settings::default(), (Cache::new(tier), &mut || slice))
    }

    /// The same on a played processor that executes LA64 code itself. With a seed signals interrupt
    /// it.
    fn executed(&self, program: &Program, seed: Option<u64>) -> Outcome {
        /// Behind the table of entries.
        const SPARE: u64 = 0x380_0000;
        /// A routine and some code.
        const INSTRUCTIONS_MAX: u64 = 600;
        let code = layout().begins().next().expect("an area");
        let processor = Emulated::new(Features::ALL, code..code + AREA_BYTES, SPARE);
        let processor = Arc::new(processor);
        let mut random = Random(seed.unwrap_or_default());
        let mut begin = || {
            if seed.is_some() {
                processor.interrupt_after(random.below(INSTRUCTIONS_MAX));
            }
            u64::MAX
        };
        let native: Arc<dyn Processor> = processor.clone();
        let settings = Settings { native: Some(native), ..Settings::default() };
        self.ended(program, settings, (Cache::new(Tier::Interpreter), &mut begin))
    }

    /// The outcome in runs with the budgets that `begin` gives.
    fn ended(
        &self,
        program: &Program,
        settings: Settings,
        (mut cache, begin): (Cache, &mut dyn FnMut() -> u64),
    ) -> Outcome {
        Bench::fill(&self.ours, program);
        let engine = Engine::new(layout(), Mips64::default()).with(settings);
        let window = self.ours;
        let mut cpu = Cpu::new(window, Features::ALL);
        engine.prepare(&mut cpu.state);
        set_machine(&mut cpu, &program.machine);
        let executable = |pc: u64| (CODE..CODE + CODE_LEN).contains(&pc);
        let never = AtomicBool::new(false);
        let event = loop {
            let event = engine.run((&mut cpu, &mut cache), &executable, &never, begin());
            if !matches!(event, Event::OutOfBudget | Event::Attention) {
                break event;
            }
        };
        engine.clear(&window, &cpu.epoch);
        let memory = Bench::memory(&self.ours);
        Outcome { event, machine: machine(&cpu), memory }
    }
}

fn set_machine(cpu: &mut Cpu, machine: &Machine) {
    let state = &mut cpu.state;
    for (n, &value) in machine.r.iter().enumerate() {
        if MAP[n] != 0 {
            state.x[usize::from(MAP[n])] = value;
        }
    }
    state.lbt.scratch[usize::from(SCR_HI)] = machine.hi;
    state.lbt.scratch[usize::from(SCR_LO)] = machine.lo;
    state.lbt.scratch[usize::from(SCR_THREAD)] = machine.thread;
    for (n, &value) in machine.f.iter().enumerate() {
        set_float(state, n as u8, value);
    }
    set_guest_fcsr(state, machine.fcsr);
    state.pc = machine.pc;
}

fn machine(cpu: &Cpu) -> Machine {
    let state = &cpu.state;
    Machine {
        r: std::array::from_fn(|n| state.x[usize::from(la64(n as u8))]),
        hi: state.lbt.scratch[usize::from(SCR_HI)],
        lo: state.lbt.scratch[usize::from(SCR_LO)],
        pc: state.pc,
        thread: state.lbt.scratch[usize::from(SCR_THREAD)],
        f: std::array::from_fn(|n| float(state, n as u8)),
        fcsr: guest_fcsr(state),
    }
}

/// The address of a failed access.
fn failed(event: Event) -> Option<u64> {
    match event {
        Event::Load(at) | Event::Store(at) | Event::Unaligned(at) => Some(at),
        _ => None,
    }
}

/// Whether outcomes are equal, and what differs.
fn compare(ours: &Outcome, theirs: &Outcome) -> Result<(), String> {
    let near = |a: u64, b: u64| a.abs_diff(b) < 8;
    let same_event = match (failed(ours.event), failed(theirs.event)) {
        // Parts of an unaligned word fail together, at the address of either.
        (Some(a), Some(b)) => {
            near(a, b)
                && std::mem::discriminant(&ours.event) == std::mem::discriminant(&theirs.event)
        }
        _ => ours.event == theirs.event,
    };
    let mut expected = theirs.machine.clone();
    if failed(theirs.event).is_some() || theirs.event == Event::Float {
        (expected.hi, expected.lo) = (ours.machine.hi, ours.machine.lo);
    }
    let (at, behind) = (ours.machine.pc, ours.machine.pc.wrapping_add(4));
    let both_failed = failed(ours.event).is_some() && failed(theirs.event).is_some();
    if both_failed
        && theirs.machine.pc == behind
        && let Some(register) =
            joined_loads(word_at(&theirs.memory, at), word_at(&theirs.memory, behind))
    {
        // The pair fails whole, at its first instruction.
        expected.pc = at;
        expected.r[register] = ours.machine.r[register];
    }
    // The cause of the latest operation is exact only where the program traps.
    expected.fcsr = expected.fcsr & !CAUSE | ours.machine.fcsr & CAUSE;
    if !same_event {
        return Err(format!("event {:?}, not {:?}", ours.event, theirs.event));
    }
    if ours.machine != expected {
        return Err(format!("registers {:x?}, not {expected:x?}", ours.machine));
    }
    match ours.memory.iter().zip(&theirs.memory).position(|(a, b)| a != b) {
        Some(at) => Err(format!("memory at {at:#x}")),
        None => Ok(()),
    }
}

fn word_at(memory: &[u8], at: u64) -> u32 {
    let bytes = memory.get(at as usize..).and_then(|m| m.first_chunk());
    bytes.copied().map_or(0, u32::from_le_bytes)
}

/// The register of two loads of parts of one unaligned word or doubleword.
fn joined_loads(first: u32, second: u32) -> Option<usize> {
    let (base, register) = (|word: u32| word >> 21 & 31, |word: u32| word >> 16 & 31);
    let pair = matches!(
        (first >> 26, second >> 26),
        (0x22, 0x26) | (0x26, 0x22) | (0x1a, 0x1b) | (0x1b, 0x1a)
    );
    let same = base(first) == base(second) && register(first) == register(second);
    (pair && same).then(|| register(first) as usize)
}

/// Compares `programs` random programs.
pub fn judge(seed: u64, programs: u64) -> Verdict {
    let bench = Bench { ours: Memory::leaked(WINDOW_LEN), theirs: Memory::leaked(GUEST_END) };
    let mut random = Random(seed);
    let mut verdict = Verdict::default();
    for n in 0..programs {
        let program = program(&mut random);
        let Some((theirs, count)) = bench.exact(&program) else {
            verdict.set_aside += 1;
            continue;
        };
        let own = failed(theirs.event).is_some_and(|at| at > GUEST_END - 8 && at < WINDOW_LEN);
        let code = CODE as usize..CODE as usize + 4 * program.words.len();
        let bytes: Vec<u8> = program.words.iter().flat_map(|w| w.to_le_bytes()).collect();
        if own || theirs.memory[code] != bytes {
            verdict.set_aside += 1;
            continue;
        }
        verdict.programs_count += 1;
        verdict.instructions_count += count;
        let tier = if n % 4 == 0 { Tier::Interpreter } else { Tier::Blocks };
        let slices = [u64::MAX, 1 + n % 9];
        let result = slices.iter().try_for_each(|&slice| {
            compare(&bench.translated(&program, tier, slice), &theirs)
                .map_err(|what| format!("in slices of {slice}: {what}"))
        });
        let ways = if n % 3 == 1 { &[None, Some(n | 1)][..] } else { &[] };
        let executed = ways.iter().try_for_each(|&seed| {
            compare(&bench.executed(&program, seed), &theirs)
                .map_err(|what| format!("executed, signals by {seed:?}: {what}"))
        });
        let result = result.and(executed);
        if let Err(what) = result {
            verdict.different += 1;
            verdict.first.get_or_insert_with(|| describe(&program, n, &what));
        }
    }
    verdict
}

fn describe(program: &Program, n: u64, what: &str) -> String {
    let mut text = format!("program {n}: {what}\nbegins with {:x?}\n", program.machine);
    for (n, &word) in program.words.iter().enumerate() {
        let at = CODE + 4 * n as u64;
        let line = Inst::decode(at, word).map_or_else(|| "unknown".into(), |i| i.text());
        text.push_str(&format!("{at:x}: {word:08x} {line}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[u32]) -> Program {
        let mut machine = Machine { pc: CODE, ..Machine::default() };
        (machine.r[4], machine.r[5]) = (DATA, 1 << 40);
        Program { words: words.to_vec(), machine, data: vec![7; DATA_LEN] }
    }

    fn ends(words: &[u32]) -> Outcome {
        let bench = Bench { ours: Memory::leaked(WINDOW_LEN), theirs: Memory::leaked(GUEST_END) };
        let program = of(words);
        let ours = bench.translated(&program, Tier::Blocks, u64::MAX);
        let (theirs, _) = bench.exact(&program).expect("it ends");
        assert_eq!(compare(&ours, &theirs), Ok(()));
        ours
    }

    #[test]
    fn a_fault_names_the_instruction_and_its_address() {
        // daddu $2,$5,$4; lw $2,0($2): one access, the register as the addition left it.
        let outcome = ends(&[0x00a4_102d, 0x8c42_0000]);
        assert_eq!(outcome.event, Event::Load((1 << 40) + DATA));
        assert_eq!(outcome.machine.pc, CODE + 4);
        assert_eq!(outcome.machine.r[2], (1 << 40) + DATA);
        // beq $0,$0,2; lw $3,0($5): a delay slot begins at its branch.
        let outcome = ends(&[0x1000_0002, 0x8ca3_0000]);
        assert_eq!((outcome.event, outcome.machine.pc), (Event::Load(1 << 40), CODE));
    }

    #[test]
    fn a_system_call_ends_behind_itself_even_before_a_nop() {
        let outcome = ends(&[0x0000_000c, 0]);
        assert_eq!((outcome.event, outcome.machine.pc), (Event::Syscall, CODE + 4));
    }

    /// The second half of an instruction of two operations traps: the registers are those before
    /// it, whichever of them are the same, also in a delay slot whose branch left out a comparison.
    #[test]
    fn a_trapping_second_half_leaves_the_registers_as_they_were() {
        const TRAP_INEXACT: u32 = 1 << 7;
        const THREE: f64 = 3.0;
        let madd = |fd: u32, fr: u32, fs: u32, ft: u32, function: u32| {
            0x4c00_0000 | fr << 21 | ft << 16 | fs << 11 | fd << 6 | function
        };
        let rsqrt = |fd: u32, fs: u32| 0x4620_0016 | fs << 11 | fd << 6;
        let mut cases = vec![rsqrt(1, 4), rsqrt(4, 4)];
        for function in [0x21, 0x29, 0x31, 0x39] {
            // The destination is none of the others, each of them, and two of them.
            let places = [[5, 1, 2, 3], [1, 1, 2, 3], [2, 1, 2, 3], [3, 1, 2, 3], [1, 1, 1, 3]];
            cases.extend(places.map(|[fd, fr, fs, ft]| madd(fd, fr, fs, ft, function)));
            cases.extend([madd(2, 1, 2, 2, function), madd(2, 1, 3, 2, function)]);
            // f31, which has no register of its own: as addend, as destination, as both.
            let addend = [[5, 31, 2, 3], [2, 31, 2, 3], [31, 1, 2, 3], [31, 31, 2, 3]];
            cases.extend(addend.map(|[fd, fr, fs, ft]| madd(fd, fr, fs, ft, function)));
        }
        let bench = Bench { ours: Memory::leaked(WINDOW_LEN), theirs: Memory::leaked(GUEST_END) };
        let mut traps_count = 0;
        // slt $2,$4,$5; bne $2,$0,2.
        for before in [&[][..], &[0x0085_102a, 0x1440_0002]] {
            for &word in &cases {
                let mut program = of(&[before, &[word, 0, 0]].concat());
                let f = &mut program.machine.f;
                (f[1], f[2], f[3]) = (1e-300f64.to_bits(), THREE.to_bits(), 5f64.to_bits());
                (f[4], f[5]) = ((THREE * THREE).to_bits(), 7f64.to_bits());
                f[31] = 1e-300f64.to_bits();
                program.machine.fcsr = TRAP_INEXACT;
                program.words.extend([0x0000_000d; 2]);
                let (theirs, _) = bench.exact(&program).expect("it ends");
                for slice in [u64::MAX, 1, 2, 3, 4] {
                    let ours = bench.translated(&program, Tier::Blocks, slice);
                    assert_eq!(compare(&ours, &theirs), Ok(()), "{word:x} in slices of {slice}");
                }
                traps_count += usize::from(theirs.event == Event::Float);
            }
        }
        assert!(traps_count >= 2 * (cases.len() - 8), "{traps_count} of {}", 2 * cases.len());
    }

    /// ctc1 $4,$31, alone and in the delay slot of a branch on what it writes.
    #[test]
    fn a_cause_that_is_written_with_its_trap_is_an_exception() {
        let bench = Bench { ours: Memory::leaked(WINDOW_LEN), theirs: Memory::leaked(GUEST_END) };
        for words in [&[0x44c4_f800, 0x0000_000d, 0xd][..], &[0x4501_0002, 0x44c4_f800, 0xd, 0xd]] {
            for (causes, traps) in (0..32).flat_map(|c| [0, c, !c & 31, 31].map(|t| (c, t))) {
                let mut program = of(words);
                program.machine.r[4] = causes << 12 | traps << 7 | 1 << 23 | 2;
                let (theirs, _) = bench.exact(&program).expect("it ends");
                assert_eq!(theirs.event == Event::Float, causes & traps != 0);
                for slice in [u64::MAX, 1, 3] {
                    let ours = bench.translated(&program, Tier::Blocks, slice);
                    assert_eq!(compare(&ours, &theirs), Ok(()), "{causes:x} {traps:x} {slice}");
                }
            }
        }
    }

    /// jalr $31,$31 with a sum to f31 in its delay slot: scalar operations change the doubleword
    /// beside their result.
    #[test]
    fn a_jump_survives_a_floating_point_delay_slot() {
        let mut program = of(&[0x03e0_f809, 0x4621_0fc0, 0x0000_000d, 0x0000_000d]);
        program.machine.r[31] = CODE + 12;
        program.machine.f[1] = 2f64.to_bits();
        let bench = Bench { ours: Memory::leaked(WINDOW_LEN), theirs: Memory::leaked(GUEST_END) };
        let (theirs, _) = bench.exact(&program).expect("it ends");
        assert_eq!((theirs.machine.pc, theirs.machine.f[31]), (CODE + 12, 4f64.to_bits()));
        for tier in [Tier::Interpreter, Tier::Blocks] {
            let ours = bench.translated(&program, tier, u64::MAX);
            assert_eq!(compare(&ours, &theirs), Ok(()), "{tier:?}");
        }
    }

    #[test]
    fn jumps_to_where_no_code_is_end_at_the_target() {
        for target in [CODE + 2, CODE + 1, 1 << 50, 0, DATA] {
            let mut program = of(&[0x00a0_0008, 0]);
            program.machine.r[5] = target;
            let bench =
                Bench { ours: Memory::leaked(WINDOW_LEN), theirs: Memory::leaked(GUEST_END) };
            let ours = bench.translated(&program, Tier::Blocks, u64::MAX);
            assert_eq!((ours.event, ours.machine.pc), (Event::Fetch(target), target));
        }
    }

    #[test]
    fn random_programs_end_alike() {
        let times = std::env::var("LITTORAL_CASES_TIMES").ok().and_then(|t| t.parse().ok());
        let verdict = judge(1, 2000 * times.unwrap_or(1));
        assert_eq!(verdict.different, 0, "{}", verdict.first.unwrap_or_default());
        assert!(verdict.programs_count > 1000, "{verdict:?}");
    }
}
