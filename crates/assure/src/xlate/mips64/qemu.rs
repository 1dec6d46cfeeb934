//! Random MIPS64 programs on the exact interpreter and on QEMU's user mode: registers, memory, pc
//! and the signal at the end must be equal.
//!
//! - Programs are those of [`super::judge`], which compares the translator with the interpreter.
//! - What the manual leaves open, and what QEMU does otherwise than the kernel, is taken out of a
//!   program before it runs: [`open`] says what.
//! - Above a single or a word in a floating-point register stands what the manual leaves open; it
//!   is not compared, and what would read it is taken out ([`Uppers`]).
//! - The cause field of FCSR is not compared, and its flags not where two operations of one
//!   instruction end with a trap of the second.

use super::runner::{
    BEGIN_LEN, END_ADDRESS, END_FCSR, END_FLOATS, END_GENERAL, END_HI, END_LEN, END_LO, END_PC,
    OWN_ADDRESSES, program as file,
};
use super::{
    Bench, CAUSE, CODE, CODE_LEN, GUEST_END, Outcome, Program, Random, Verdict, describe, failed,
    program,
};
use littoral_la64::float::{Double, Single};
use littoral_la64::memory::Memory;
use littoral_xlate::event::Event;
use littoral_xlate::mips64::exact::{Exact, Machine};
use littoral_xlate::mips64::isa::Inst;
use littoral_xlate::mips64::legacy::nan;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The processor that QEMU plays: release 2 and no more, with NaNs of the legacy encoding.
const PROCESSOR: &str = "MIPS64R2-generic";
const STEPS_MAX: u64 = 1000;
/// The end of a program's addresses.
const USER_END: u64 = 1 << 40;
/// Differences of which something is said.
const DESCRIBED_MAX: u64 = 20;
const SIGILL: u64 = 4;
const SIGTRAP: u64 = 5;
const SIGFPE: u64 = 8;
const SIGBUS: u64 = 10;
const SIGSEGV: u64 = 11;

/// Fields of an instruction word.
#[derive(Clone, Copy)]
struct Word(u32);

impl Word {
    fn at(self, lo: u32, width: u32) -> u32 {
        self.0 >> lo & ((1 << width) - 1)
    }

    fn opcode(self) -> u32 {
        self.at(26, 6)
    }

    fn function(self) -> u32 {
        self.at(0, 6)
    }

    fn s(self) -> usize {
        self.at(21, 5) as usize
    }

    fn t(self) -> usize {
        self.at(16, 5) as usize
    }

    /// Whether it works on 32 bits and the manual asks for operands that are extended by their
    /// signs: in the register of field s, in that of t.
    fn reads_words(self) -> (bool, bool) {
        match (self.opcode(), self.function()) {
            (0, 0x02 | 0x03 | 0x06 | 0x07) => (false, true),
            (0, 0x18..=0x1b | 0x20..=0x23) => (true, true),
            (8 | 9, _) => (true, false),
            (0x1c, 0..=5) => (true, true),
            (0x1c, 0x20 | 0x21) => (true, false),
            (0x1f, 0) => (true, false),
            (0x1f, 4) => (true, true),
            (0x1f, 0x20) => (false, true),
            _ => (false, false),
        }
    }

    /// Whether it is arithmetic or a conversion between formats with a NaN among its operands.
    fn meets_nan(self, machine: &Machine) -> bool {
        let register = |lo| machine.f[self.at(lo, 5) as usize];
        let (fr, ft, fs) = (register(21), register(16), register(11));
        let (format, operands) = match (self.opcode(), self.at(21, 5), self.function()) {
            (0x13, _, 0x20..) => (16 + self.at(0, 3), vec![fr, ft, fs]),
            (0x11, format, 0..=3) => (format, vec![ft, fs]),
            (0x11, format, 4 | 0x15 | 0x16 | 0x20 | 0x21) => (format, vec![fs]),
            _ => return false,
        };
        let is_nan = |value: u64| match format {
            16 => nan::<Single>(value & 0xffff_ffff).is_some(),
            17 => nan::<Double>(value).is_some(),
            _ => false,
        };
        operands.into_iter().any(is_nan)
    }

    /// Address and bytes of an access that must be aligned.
    fn access(self, machine: &Machine) -> Option<(u64, u64)> {
        let at = machine.r[self.s()].wrapping_add(self.0 as i16 as i64 as u64);
        let indexed = machine.r[self.s()].wrapping_add(machine.r[self.t()]);
        Some(match (self.opcode(), self.function()) {
            (0x21 | 0x25 | 0x29, _) => (at, 2),
            (0x23 | 0x27 | 0x2b | 0x31 | 0x39 | 0x30 | 0x38, _) => (at, 4),
            (0x37 | 0x3f | 0x35 | 0x3d | 0x34 | 0x3c, _) => (at, 8),
            (0x13, 0x00 | 0x08) => (indexed, 4),
            (0x13, 0x01 | 0x09) => (indexed, 8),
            _ => return None,
        })
    }
}

/// Whether an instruction is taken out: the manual leaves its result open, or QEMU's user mode is
/// not the kernel.
///
/// - 32-bit operations on registers that hold no extended word.
/// - Words that the table does not have: QEMU's processor has more of them.
/// - System calls, which QEMU would make.
/// - Accesses off their alignment: the kernel makes them, QEMU sends a signal, but none for `ll`
///   and `sc`.
/// - `jr` and `jalr` with a hint that the manual reserves: QEMU takes it for an unknown
///   instruction.
/// - Arithmetic on NaNs: the interpreter gives the first of them, QEMU the default one.
/// - Bits of FCSR that not every processor has: denormal numbers as zeros among them.
/// - `madd` and its kin on a HI or LO that holds no extended word.
fn open(word: Word, machine: &Machine) -> bool {
    let is_word = |value: u64| value == value as i32 as i64 as u64;
    let Some(inst) = Inst::decode(0, word.0) else { return true };
    let (reads_s, reads_t) = word.reads_words();
    let is_wide = reads_s && !is_word(machine.r[word.s()])
        || reads_t && !is_word(machine.r[word.t()])
        || word.opcode() == 0x1c
            && word.function() != 2
            && word.function() < 6
            && !(is_word(machine.hi) && is_word(machine.lo));
    let is_misaligned = word.access(machine).is_some_and(|(at, bytes)| !at.is_multiple_of(bytes));
    const MISSING: u64 = 0x017e_0000;
    let is_control = inst.special().is_some_and(|s| s.0 == "ctc1");
    let is_call = inst.special().is_some_and(|s| s.0 == "syscall");
    let sets_missing = is_control && machine.r[word.t()] & MISSING != 0;
    let has_hint = word.opcode() == 0 && matches!(word.function(), 8 | 9) && word.at(6, 4) != 0;
    is_wide || is_misaligned || has_hint || is_call || sets_missing || word.meets_nan(machine)
}

/// Floating-point registers whose upper halves are open, one bit each.
#[derive(Clone, Copy, Default)]
struct Uppers(u32);

impl Uppers {
    fn set(&mut self, register: u32, is_open: bool) {
        self.0 = self.0 & !(1 << register) | u32::from(is_open) << register;
    }

    fn has(self, register: u32) -> bool {
        self.0 >> register & 1 == 1
    }

    /// Follows an instruction; true if it reads an upper half that is open.
    fn follow(&mut self, word: Word) -> bool {
        let (ft, fs, fd) = (word.at(16, 5), word.at(11, 5), word.at(6, 5));
        match word.opcode() {
            0x31 => self.set(ft, true),
            0x35 => self.set(ft, false),
            0x3d => return self.has(ft),
            0x13 => return self.follow_extended(word),
            0x11 => match word.at(21, 5) {
                1 | 3 => return self.has(fs),
                4 => self.set(fs, true),
                5 | 7 => self.set(fs, false),
                16 => self.follow_single(word.function(), fd),
                17 => return self.follow_double(word.function(), (ft, fs, fd)),
                20 => self.set(fd, word.function() == 0x20),
                21 => {
                    let reads = self.has(fs);
                    self.set(fd, word.function() == 0x20);
                    return reads;
                }
                _ => {}
            },
            _ => {}
        }
        false
    }

    fn follow_single(&mut self, function: u32, fd: u32) {
        match function {
            0x30.. => {}
            // To a double or to 64 bits.
            0x08..=0x0b | 0x21 | 0x25 => self.set(fd, false),
            _ => self.set(fd, true),
        }
    }

    fn follow_double(&mut self, function: u32, (ft, fs, fd): (u32, u32, u32)) -> bool {
        let both = matches!(function, 0..=3 | 0x30..);
        let reads = self.has(fs) || both && self.has(ft);
        match function {
            // A condition may keep the destination.
            0x11..=0x13 | 0x30.. => {}
            0x0c..=0x0f | 0x20 | 0x24 => self.set(fd, true),
            _ => self.set(fd, false),
        }
        reads
    }

    fn follow_extended(&mut self, word: Word) -> bool {
        let (fr, ft, fs, fd) = (word.at(21, 5), word.at(16, 5), word.at(11, 5), word.at(6, 5));
        match word.function() {
            0x00 => self.set(fd, true),
            0x01 | 0x05 => self.set(fd, false),
            0x09 | 0x0d => return self.has(fs),
            0x08 | 0x0f => {}
            function if function & 7 == 0 => self.set(fd, true),
            _ => {
                let reads = [fr, ft, fs].into_iter().any(|r| self.has(r));
                self.set(fd, false);
                return reads;
            }
        }
        false
    }
}

/// How a program ended on the interpreter.
struct Expected {
    outcome: Outcome,
    count: u64,
    uppers: Uppers,
    /// The instruction at the end, in the delay slot if it has one.
    last: [u32; 2],
}

/// What comes of one try.
enum Tried {
    Ended(Box<Expected>),
    /// The instruction at this place of the program is open.
    Open(usize),
    /// It does not end, meets a signalling NaN, executes what it wrote, jumps off the alignment, or
    /// reaches the runner's memory.
    Aside,
}

fn try_once(bench: &Bench, program: &Program) -> Tried {
    Bench::fill(&bench.theirs, program);
    let mut exact = Exact {
        machine: program.machine.clone(),
        window: &bench.theirs,
        end: GUEST_END,
        executable: CODE..CODE + CODE_LEN,
        link: None,
        met_signalling: false,
        written_control: None,
    };
    let mut uppers = Uppers::default();
    for count in 0..STEPS_MAX {
        let pc = exact.machine.pc;
        let place = (pc.wrapping_sub(CODE) / 4) as usize;
        let (before, mut last) = (uppers, [0; 2]);
        if pc.is_multiple_of(4) && place < program.words.len() {
            let branch = Inst::decode(pc, program.words[place]).filter(Inst::is_branch);
            let len = 1 + usize::from(branch.is_some());
            let mut machine = exact.machine.clone();
            for (n, &word) in program.words[place..].iter().take(len).enumerate() {
                if bench.theirs.load::<u32>(pc + 4 * n as u64) != Some(word) {
                    return Tried::Aside;
                }
                last[n] = word;
                if open(Word(word), &machine) || uppers.follow(Word(word)) {
                    return Tried::Open(place + n);
                }
                // A delay slot finds what its branch has linked.
                let links = branch.map(|i| i.writes()).unwrap_or_default();
                for r in (1..32u8).filter(|&r| links.has(r)) {
                    machine.r[usize::from(r)] = pc + 8;
                }
            }
            // Its delay slot may be left out.
            if branch.is_some_and(|i| i.is_likely()) {
                uppers.0 |= before.0;
            }
        }
        if let Err(event) = exact.step() {
            if exact.met_signalling {
                return Tried::Aside;
            }
            let memory = Bench::memory(&bench.theirs);
            // QEMU does not fault there.
            let is_mapped = failed(event).is_some_and(|at| OWN_ADDRESSES.contains(&at));
            if is_mapped || matches!(event, Event::Fetch(at) if !at.is_multiple_of(4)) {
                return Tried::Aside;
            }
            // What the instruction at the end would have written is as it was.
            uppers.0 |= before.0;
            let outcome = Outcome { event, machine: exact.machine, memory };
            return Tried::Ended(Box::new(Expected { outcome, count, uppers, last }));
        }
    }
    Tried::Aside
}

/// The program without what is open, and its end; `None` if it is set aside.
fn closed(bench: &Bench, program: &mut Program) -> Option<Expected> {
    for _ in 0..=program.words.len() {
        match try_once(bench, program) {
            Tried::Ended(expected) => return Some(*expected),
            Tried::Open(place) => program.words[place] = 0,
            Tried::Aside => return None,
        }
    }
    None
}

/// QEMU with the runner.
struct Peer(Child);

impl Peer {
    fn start(qemu: &Path, runner: &Path) -> io::Result<Peer> {
        let mut command = Command::new(qemu);
        command.args(["-cpu", PROCESSOR]).arg(runner);
        Ok(Peer(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?))
    }

    /// Runs a program to its end. `image` is the program's memory.
    fn run(&mut self, machine: &Machine, image: &[u8]) -> io::Result<Ended> {
        let gone = || io::Error::other("a pipe to QEMU is missing");
        let tail = [machine.hi, machine.lo, machine.thread, machine.fcsr.into(), machine.pc];
        let words = machine.r.iter().chain(&machine.f).chain(&tail);
        let mut input: Vec<u8> = words.flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(input.len(), BEGIN_LEN, "as the runner reads it");
        input.extend(image);
        self.0.stdin.as_mut().ok_or_else(gone)?.write_all(&input)?;
        let mut output = vec![0; END_LEN + GUEST_END as usize];
        self.0.stdout.as_mut().ok_or_else(gone)?.read_exact(&mut output)?;
        Ok(Ended(output))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// What the runner wrote of a program.
struct Ended(Vec<u8>);

impl Ended {
    fn word(&self, at: usize) -> u64 {
        self.0[at..].first_chunk().copied().map_or(0, u64::from_le_bytes)
    }

    fn machine(&self, thread: u64) -> Machine {
        Machine {
            r: std::array::from_fn(|n| self.word(END_GENERAL + 8 * n)),
            hi: self.word(END_HI),
            lo: self.word(END_LO),
            pc: self.word(END_PC),
            thread,
            f: std::array::from_fn(|n| self.word(END_FLOATS + 8 * n)),
            fcsr: self.word(END_FCSR) as u32,
        }
    }
}

/// Whether a signal is what an event leads to. Of an access beyond a program's addresses QEMU names
/// another address.
fn same_signal(event: Event, signal: u64, address: u64) -> bool {
    match event {
        Event::Break(_) | Event::Trap(_) => matches!(signal, SIGTRAP | SIGFPE),
        Event::Overflow | Event::Float => signal == SIGFPE,
        Event::Illegal(_) => signal == SIGILL,
        Event::Fetch(at) => matches!(signal, SIGBUS | SIGSEGV) && at == address,
        _ => failed(event).is_some_and(|at| {
            let is_named = at.abs_diff(address) < 8 || at >= USER_END;
            matches!(signal, SIGBUS | SIGSEGV) && is_named
        }),
    }
}

/// Whether an instruction is two operations: a multiply-add, a reciprocal root.
fn is_double_operation(word: Word) -> bool {
    let is_root = word.opcode() == 0x11 && word.function() == 0x16;
    word.opcode() == 0x13 && word.function() >= 0x20 || is_root
}

/// Whether it is a branch that its fields say is never taken. QEMU makes nothing of it, so a fault
/// in its delay slot is the slot's.
fn is_never_taken(word: Word) -> bool {
    match word.opcode() {
        1 => matches!(word.t(), 0 | 16) && word.s() == 0,
        5 => word.s() == word.t(),
        7 => word.s() == 0,
        _ => false,
    }
}

/// What differs.
fn compare(expected: &Expected, peer: &Ended) -> Result<(), String> {
    const FLAGS: u32 = 0x1f << 2;
    let outcome = &expected.outcome;
    let (signal, address) = (peer.word(0), peer.word(END_ADDRESS));
    if !same_signal(outcome.event, signal, address) {
        let at = peer.word(END_PC);
        let what = format!("{:x?}, not signal {signal} at {address:#x}", outcome.event);
        return Err(format!("{what}, at {:#x} and {at:#x}", outcome.machine.pc));
    }
    let two = expected.last.into_iter().any(|word| is_double_operation(Word(word)));
    let open_flags = if outcome.event == Event::Float && two { FLAGS } else { 0 };
    let mask = |machine: &Machine| {
        let mut machine = machine.clone();
        machine.fcsr &= !(CAUSE | open_flags);
        (machine.r[26], machine.r[27]) = (0, 0);
        for (n, f) in machine.f.iter_mut().enumerate() {
            *f &= if expected.uppers.has(n as u32) { 0xffff_ffff } else { u64::MAX };
        }
        machine
    };
    let (ours, mut theirs) = (mask(&outcome.machine), mask(&peer.machine(outcome.machine.thread)));
    if is_never_taken(Word(expected.last[0])) && theirs.pc == ours.pc + 4 {
        theirs.pc = ours.pc;
    }
    if ours != theirs {
        let names = (0..32).filter(|&n| ours.r[n] != theirs.r[n]);
        let general: Vec<_> =
            names.map(|n| format!("r{n} {:x} not {:x}", ours.r[n], theirs.r[n])).collect();
        let names = (0..32).filter(|&n| ours.f[n] != theirs.f[n]);
        let floats: Vec<_> =
            names.map(|n| format!("f{n} {:x} not {:x}", ours.f[n], theirs.f[n])).collect();
        let rest =
            |m: &Machine| format!("hi {:x} lo {:x} pc {:x} fcsr {:x}", m.hi, m.lo, m.pc, m.fcsr);
        return Err(format!("{general:?} {floats:?} {}, not {}", rest(&ours), rest(&theirs)));
    }
    let memory = &peer.0[END_LEN..];
    match outcome.memory.iter().zip(memory).position(|(a, b)| a != b) {
        Some(at) => Err(format!("memory at {at:#x}")),
        None => Ok(()),
    }
}

/// Compares random programs on the interpreter and on `qemu`, which is QEMU's user mode for
/// little-endian MIPS64 (N64); `folder` takes a file.
///
/// # Errors
/// QEMU cannot be started or ends early.
pub fn judge(qemu: &Path, folder: &Path, seed: u64, programs: u64) -> io::Result<Verdict> {
    judge_damaged(qemu, folder, (seed, programs), |_, _| {})
}

/// What [`judge`] must notice: in each answer of QEMU a bit is wrong, of another register each
/// time, of the pc or of memory.
///
/// # Errors
/// As [`judge`].
pub fn canary(qemu: &Path, folder: &Path, seed: u64, programs: u64) -> io::Result<Verdict> {
    const PLACES: [usize; 7] = [
        END_GENERAL + 8,
        END_GENERAL + 8 * 31,
        END_FCSR,
        END_HI,
        END_LO,
        END_PC,
        END_LEN + CODE as usize,
    ];
    judge_damaged(qemu, folder, (seed, programs), |n, answer| {
        answer[PLACES[n as usize % PLACES.len()]] ^= 1;
    })
}

fn judge_damaged(
    qemu: &Path,
    folder: &Path,
    (seed, programs): (u64, u64),
    damage: fn(u64, &mut [u8]),
) -> io::Result<Verdict> {
    let runner = folder.join("runner");
    std::fs::write(&runner, file())?;
    std::fs::set_permissions(&runner, std::fs::Permissions::from_mode(0o755))?;
    let mut peer = Peer::start(qemu, &runner)?;
    let bench = Bench { ours: Memory::leaked(GUEST_END), theirs: Memory::leaked(GUEST_END) };
    let mut random = Random(seed);
    let mut verdict = Verdict::default();
    for n in 0..programs {
        let mut program = program(&mut random);
        let Some(expected) = closed(&bench, &mut program) else {
            verdict.set_aside += 1;
            continue;
        };
        Bench::fill(&bench.theirs, &program);
        let mut ended = peer.run(&program.machine, &Bench::memory(&bench.theirs))?;
        damage(n, &mut ended.0);
        verdict.programs_count += 1;
        verdict.instructions_count += expected.count;
        if let Err(what) = compare(&expected, &ended) {
            verdict.different += 1;
            match &mut verdict.first {
                None => verdict.first = Some(describe(&program, n, &what)),
                Some(text) if verdict.different < DESCRIBED_MAX => {
                    let [branch, slot] = expected.last;
                    text.push_str(&format!(
                        "program {n}: {what}, behind {branch:08x} {slot:08x}\n"
                    ));
                }
                Some(_) => {}
            }
        }
    }
    Ok(verdict)
}
