//! Random x86-64 programs on the translator and on the host processor: registers, flags, memory
//! and the event at the end must be equal.
//!
//! - Each program runs on the translator in one go, and in slices of a few LA64 instructions, which
//!   stop wherever the guest's state is exact.
//! - A program that reaches an address which is mapped here and not there is set aside and counted,
//!   and so is one that jumps to an address that is not canonical.
//! - `LITTORAL_CASES_TIMES=700` makes a million programs of it; the last line of the output is
//!   `latx.fuzz.unexplained`.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[path = "x86_host/child.rs"]
mod child;
#[path = "x86_host/programs.rs"]
mod programs;

use child::{BASES, CODE, DATA, End, Host, PAGE, Registers};
use littoral_la64::front::Settings;
use littoral_la64::interp::{Cache, Cpu, Features, Tier};
use littoral_la64::memory::{Memory, Window};
use littoral_la64::state::State;
use littoral_xlate::engine::Engine;
use littoral_xlate::event::Event;
use littoral_xlate::layout::Layout;
use littoral_xlate::x86::decode::decode;
use littoral_xlate::x86::float::Vectors;
use littoral_xlate::x86::registers::{COUNTS, DIRECTION_BIT, Machine, arithmetic_bits};
use littoral_xlate::x86::{Conventions, X86, x87};
use programs::{
    Program, Random, accesses, comparisons, program, program_of, vector_rows, x87_rows,
};
use std::sync::atomic::AtomicBool;

const WINDOW_LEN: u64 = 0x400_0000;
/// Slices of a program: more than the repetitions of a page have.
const RUNS_MAX: u64 = 20_000;
const ADJUST: u64 = 1 << 4;
/// The flag of denormal operands, which translated code does not raise.
const DENORMAL: u32 = 1 << 1;

/// How a program ended on the translator.
#[derive(Debug)]
struct Ours {
    event: Event,
    registers: Registers,
    data: Vec<u8>,
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

/// The program's end, and how many of its instructions were executed if they are counted.
fn translated(
    window: Window,
    program: &Program,
    tier: Tier,
    slice: u64,
    conventions: Conventions,
) -> (Ours, u64) {
    let mut code = program.code.clone();
    code.resize(PAGE, 0xcc);
    let written = [(CODE, &code), (DATA, &program.data)]
        .into_iter()
        .try_for_each(|(at, bytes)| window.write(at, bytes));
    assert!(written.is_some(), "programs lie in the window");
    let layout = Layout { areas: vec![2], entries: 0x300_0000, guest_end: 0x20_0000, alignment: 1 };
    let settings = Settings { counts: conventions.counts, ..Settings::default() };
    let engine = Engine::new(layout, X86(conventions)).with(settings);
    let mut cpu = Cpu::new(window, Features::ALL);
    engine.prepare(&mut cpu.state);
    let Registers { gpr, flags, rip, vectors, x87 } = program.registers.clone();
    set_x87(&mut cpu.state, x87);
    vectors.write(&mut cpu.state);
    Machine { gpr, flags, rip, fs: BASES.0, gs: BASES.1 }.write(&mut cpu.state);
    let mut cache = Cache::new(tier);
    let executable = |pc: u64| (CODE..CODE + PAGE as u64).contains(&pc);
    let never = AtomicBool::new(false);
    // Programs end; one that does not is a difference.
    let mut event = Event::OutOfBudget;
    let mut runs = 0;
    while event == Event::OutOfBudget && runs < RUNS_MAX {
        event = engine.run((&mut cpu, &mut cache), &executable, &never, slice.min(100_000));
        runs += 1;
    }
    engine.clear(&window, &cpu.epoch);
    let mut data = vec![0; PAGE];
    assert!(window.read(DATA, &mut data).is_some(), "the data is in the window");
    let Machine { gpr, flags, rip, .. } = Machine::read(&cpu.state);
    let vectors = Vectors::read(&cpu.state);
    let count = cpu.state.v[COUNTS].0[3];
    let x87 = x87_of(&cpu.state);
    (Ours { event, registers: Registers { gpr, flags, rip, vectors, x87 }, data }, count)
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

fn compare(program: &Program, ours: &Ours, theirs: &End, fault_flags: bool) -> Result<(), String> {
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
    let mask = |r: &Registers| {
        let vectors = Vectors { mxcsr: r.vectors.mxcsr & !DENORMAL, ..r.vectors };
        Registers { flags: r.flags & flags, vectors, ..r.clone() }
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

fn describe(program: &Program, n: u64, what: &str) -> String {
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

impl End {
    /// Whether the program reached memory that the window has and the process has not.
    fn leaves_its_pages(&self) -> bool {
        const GENERAL: i64 = 0x80;
        let is_own = matches!(self.signal, 7 | 11) && self.code != GENERAL;
        is_own && self.address < WINDOW_LEN
    }
}

/// Programs on both processors.
struct Bench {
    host: Host,
    window: Window,
    /// Programs that ended with their last instruction.
    whole: u64,
}

impl Bench {
    fn new() -> Bench {
        Bench { host: Host::start(), window: Memory::leaked(WINDOW_LEN), whole: 0 }
    }

    /// What differs; `None` if the program reaches memory that the window has and the process has
    /// not.
    fn check(&mut self, program: &Program, n: u64) -> Option<Result<(), String>> {
        let theirs = self.host.run(&program.code, &program.data, &program.registers);
        self.whole += u64::from(theirs.signal == 5);
        if theirs.leaves_its_pages() {
            return None;
        }
        let tier = if n.is_multiple_of(4) { Tier::Blocks } else { Tier::Interpreter };
        let lazy = Conventions { faults_lose_flags: true, ..Conventions::default() };
        for (slice, conventions) in [(u64::MAX, lazy), (1 + n % 9, Conventions::default())] {
            let (ours, _) = translated(self.window, program, tier, slice, conventions);
            // The processor faults at the jump, translated code behind it.
            if matches!(ours.event, Event::Fetch(at) if !is_canonical(at)) {
                return None;
            }
            if let Err(what) = compare(program, &ours, &theirs, !conventions.faults_lose_flags) {
                return Some(Err(format!("in slices of {slice}: {what}")));
            }
        }
        Some(Ok(()))
    }

    /// The program with everything replaced by `nop` that the difference does not need, in words.
    fn reduced(&mut self, mut program: Program, n: u64, mut what: String) -> String {
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
#[derive(Default)]
struct Verdict {
    compared: u64,
    aside: u64,
    different: u64,
    /// The first differences.
    first: Vec<String>,
}

fn judge(seed: u64, programs: u64, make: fn(&mut Random) -> Program) -> Verdict {
    const DESCRIBED_MAX: usize = 12;
    let mut random = Random(seed);
    let mut bench = Bench::new();
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

/// `LITTORAL_CASES_TIMES`.
fn times() -> u64 {
    std::env::var("LITTORAL_CASES_TIMES").ok().and_then(|t| t.parse().ok()).unwrap_or(1)
}

#[test]
fn every_x87_instruction_ends_as_on_the_host() {
    const PROGRAMS: u64 = 100;
    let mut bench = Bench::new();
    let mut random = Random(19_800_087);
    let mut wrong = Vec::new();
    for (n, row) in x87_rows().enumerate() {
        let before = bench.whole;
        for m in 0..PROGRAMS * times() {
            let program = program_of(&mut random, row);
            let is_known = wrong.last().is_some_and(|(last, _)| *last == n);
            if let Some(Err(what)) = bench.check(&program, m)
                && !is_known
            {
                wrong.push((n, bench.reduced(program, m, what)));
            }
        }
        assert!(bench.whole > before, "no program of {} came to its end", row.name);
    }
    let texts: Vec<_> = wrong.into_iter().map(|(_, what)| what).collect();
    assert!(texts.is_empty(), "{} rows: {}", texts.len(), texts.join("\n"));
}

#[test]
fn every_vector_instruction_ends_as_on_the_host() {
    const PROGRAMS: u64 = 12;
    let mut bench = Bench::new();
    let mut random = Random(19_992_001);
    let mut wrong = Vec::new();
    for (n, row) in vector_rows().enumerate() {
        let before = bench.whole;
        for m in 0..PROGRAMS * times() {
            let program = program_of(&mut random, row);
            let is_known = wrong.last().is_some_and(|(last, _)| *last == n);
            if let Some(Err(what)) = bench.check(&program, m)
                && !is_known
            {
                wrong.push((n, bench.reduced(program, m, what)));
            }
        }
        assert!(bench.whole > before, "no program of {} came to its end", row.name);
    }
    let texts: Vec<_> = wrong.into_iter().map(|(_, what)| what).collect();
    assert!(texts.is_empty(), "{} rows: {}", texts.len(), texts.join("\n"));
}

#[test]
fn a_register_is_tested_again_when_it_was_written() {
    let mut bench = Bench::new();
    // movaps xmm0, [rbx]; another address in rbx; movaps xmm1, [rbx + 32]; int3
    let first = [0x0f, 0x28, 0x03];
    let last = [0x0f, 0x28, 0x4b, 0x20, 0xcc];
    let writes: [&[u8]; 4] = [
        // lea rbx, [rbx + 8]; movq rbx, xmm2; pextrw ebx, xmm2, 0; pslldq xmm2, 8
        &[0x48, 0x8d, 0x5b, 0x08],
        &[0x66, 0x48, 0x0f, 0x7e, 0xd3],
        &[0x66, 0x0f, 0xc5, 0xda, 0x00],
        &[0x66, 0x0f, 0x73, 0xfa, 0x08],
    ];
    for (n, write) in writes.into_iter().enumerate() {
        let code = [&first, write, &last].concat();
        let mut registers = Registers { rip: CODE, flags: 0x202, ..Registers::default() };
        registers.gpr[3] = DATA + 0x100;
        registers.vectors.xmm[2] = [DATA + 0x108, 0];
        let starts = vec![CODE, CODE + code.len() as u64];
        let program =
            Program { code, starts, registers, data: vec![5; PAGE], adjust_is_open: false };
        let whole = bench.whole;
        assert_eq!(bench.check(&program, 1), Some(Ok(())), "{n}");
        assert_eq!(bench.whole > whole, n == 3, "only the last one is aligned again");
    }
}

/// Functions that no fraction gives: within one unit of the last place, and all flags equal but
/// the direction of the rounding, and underflow where the neighbours are denormal.
#[test]
fn transcendental_functions_are_near_the_hosts() {
    const C1: u64 = 0x200 << 16;
    const UNDERFLOW: u64 = 0x10 << 16;
    let codes: [u8; 8] = [0xfe, 0xff, 0xfb, 0xf2, 0xf3, 0xf0, 0xf1, 0xf9];
    let mut bench = Bench::new();
    let mut random = Random(271_828);
    let (mut equal, mut near, mut wrong) = (0, 0, Vec::new());
    for n in 0..4000 * times() {
        let mut program = program(&mut random);
        let code = codes[(n % 8) as usize];
        program.code = vec![0xd9, code, 0xcc];
        program.registers.rip = CODE;
        let exp = program.registers.x87[4] & 0x7fff;
        // Beyond its range the manual leaves the result open.
        if code == 0xf0 && exp >= 0x3fff || code == 0xf9 && exp >= 0x3ffd {
            continue;
        }
        let theirs = bench.host.run(&program.code, &program.data, &program.registers);
        let way = Conventions::default();
        let (ours, _) = translated(bench.window, &program, Tier::Blocks, u64::MAX, way);
        let (a, b) = (ours.registers.x87, theirs.registers.x87);
        // Neighbours in another binade are near too.
        let place =
            |w: &[u64; 19], n: usize| u128::from(w[n + 1]) << 63 | u128::from(w[n] & !(1 << 63));
        let is_near =
            |n: usize| a[n..n + 2] == b[n..n + 2] || place(&a, n).abs_diff(place(&b, n)) == 1;
        // A denormal result that one has exactly underflows only at the other.
        let is_tiny = (3..19).step_by(2).any(|n| a[n] != b[n] && a[n + 1] & 0x7fff == 0);
        let open = if is_tiny { C1 | UNDERFLOW } else { C1 };
        if (a[0] ^ b[0]) & !open != 0 || !(3..19).step_by(2).all(is_near) {
            let begin = program.registers.x87;
            wrong.push(format!("d9 {code:x}: {begin:x?}\n{a:x?} not\n{b:x?}"));
        } else if a[3..] == b[3..] {
            equal += 1;
        } else {
            near += 1;
        }
    }
    println!("x87.transcendental: {equal} equal, {near} differ by one unit, {}", wrong.len());
    assert!(
        wrong.is_empty(),
        "{} differ: {}",
        wrong.len(),
        wrong[..wrong.len().min(12)].join("\n")
    );
}

/// Whether an approximation is the host's: within the bound of both, or the same where there is no
/// bound.
fn approximates(ours: u32, host: u32) -> bool {
    // 1.5 / 2^12 is each one's own relative error.
    const BOUND: f64 = 3.0 / 4096.0;
    let (x, y) = (f32::from_bits(ours), f32::from_bits(host));
    if !y.is_normal() {
        return ours == host;
    }
    (f64::from(x) / f64::from(y) - 1.0).abs() <= BOUND
}

#[test]
fn approximations_stay_within_the_manuals_bound() {
    // rcpps xmm1, xmm0; rsqrtps xmm2, xmm0; rcpss xmm3, [rbx]; rsqrtss xmm4, xmm0; int3
    let code = vec![
        0x0f, 0x53, 0xc8, 0x0f, 0x52, 0xd0, 0xf3, 0x0f, 0x53, 0x1b, 0xf3, 0x0f, 0x52, 0xe0, 0xcc,
    ];
    let mut bench = Bench::new();
    let mut random = Random(12);
    for n in 0..400 * times() {
        let mut program = program(&mut random);
        program.code.clone_from(&code);
        program.registers.gpr[3] = DATA + 0x100;
        program.registers.vectors.mxcsr |= 0x1f80;
        let theirs = bench.host.run(&program.code, &program.data, &program.registers);
        let (ours, _) =
            translated(bench.window, &program, Tier::Blocks, u64::MAX, Conventions::default());
        let (v, w) = (ours.registers.vectors, theirs.registers.vectors);
        assert_eq!((v.mxcsr, theirs.signal), (w.mxcsr, 5), "program {n}");
        let lanes = |v: &Vectors| {
            let words = |&d: &u64| [d as u32, (d >> 32) as u32];
            v.xmm.iter().flatten().flat_map(words).collect::<Vec<u32>>()
        };
        let (v, w) = (lanes(&v), lanes(&w));
        for (lane, (&a, &b)) in v.iter().zip(&w).enumerate() {
            let begin = program.registers.vectors.xmm[0];
            let is_new = (4..20).contains(&lane) && a != b;
            assert!(a == b || is_new && approximates(a, b), "{n}, {lane}: {a:x} {b:x} {begin:x?}");
        }
    }
}

#[test]
fn random_programs_end_as_on_the_host() {
    let Verdict { compared, aside, different, first } = judge(20_211_231, 1500 * times(), program);
    println!("latx.fuzz.unexplained = {different} of {compared} programs; {aside} set aside");
    assert_eq!(different, 0, "{}", first.join("\n"));
    assert!(compared > 500, "{compared} programs compared, {aside} set aside");
}

#[test]
fn accesses_with_far_displacements_end_as_on_the_host() {
    let Verdict { compared, different, first, .. } = judge(9_011, 2000 * times(), accesses);
    assert_eq!(different, 0, "{}", first.join("\n"));
    assert!(compared > 1500, "{compared} programs compared");
}

#[test]
fn comparisons_and_their_readers_end_as_on_the_host() {
    let Verdict { compared, different, first, .. } = judge(77_421, 3000 * times(), comparisons);
    assert_eq!(different, 0, "{}", first.join("\n"));
    assert!(compared > 2000, "{compared} programs compared");
}

/// A rotation of the accumulator by cl, then the carry in r8: `group` is the code of the rotation.
/// Slices are longer than the code that counts, so each of them comes further.
#[test]
fn a_count_does_not_depend_on_where_a_program_stops() {
    const COUNTING: u64 = 6;
    const PROGRAMS: u64 = 100;
    let mut bench = Bench::new();
    let mut random = Random(20_261_123);
    let conventions = Conventions { counts: true, ..Conventions::default() };
    let (mut early, mut aside) = (0, 0);
    for n in 0..PROGRAMS * times() {
        let program = program(&mut random);
        // A program that leaves its pages here, as a long `rep movs` does, overwrites the code that
        // is made of it and may never end.
        let theirs = bench.host.run(&program.code, &program.data, &program.registers);
        if theirs.leaves_its_pages() {
            aside += 1;
            continue;
        }
        let count =
            |slice| translated(bench.window, &program, Tier::Interpreter, slice, conventions);
        let (whole, expected) = count(u64::MAX);
        let (sliced, found) = count(COUNTING + 1 + n % 9);
        // It wrote to the translator's own memory, which is not protected here.
        if sliced.event != whole.event {
            aside += 1;
            continue;
        }
        assert_eq!(found, expected, "{}", describe(&program, n, "counts"));
        early += u64::from(!matches!(whole.event, Event::Break(_)));
    }
    let programs = PROGRAMS * times();
    assert!(early > programs / 10, "programs end by faults too: {early}");
    assert!(aside < programs / 20, "most programs are compared: {aside} are not");
}

fn rotation(size: usize, group: u8, count: u8) -> Program {
    let prefix: &[u8] = [&[][..], &[0x66], &[], &[0x48]][size];
    let opcode = if size == 0 { 0xd2 } else { 0xd3 };
    let code = [
        &[0xb9, count, 0, 0, 0][..],
        prefix,
        &[opcode, 0xc0 | group << 3],
        // setc r8b; cmp rcx, rdx, which sets what the rotation leaves undefined.
        &[0x41, 0x0f, 0x92, 0xc0, 0x48, 0x39, 0xd1, 0xcc],
    ]
    .concat();
    let mut registers = Registers { rip: CODE, flags: 0x203, ..Registers::default() };
    registers.gpr[0] = 0x0123_4567_89ab_cd6e;
    let starts = vec![CODE, CODE + code.len() as u64];
    Program { code, starts, registers, data: vec![0; PAGE], adjust_is_open: false }
}

#[test]
fn rotations_by_every_kind_of_count_carry_as_on_the_host() {
    let mut bench = Bench::new();
    for (size, group) in (0..4).flat_map(|size| (0..4).map(move |group| (size, group))) {
        for count in [0, 1, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 64] {
            let program = rotation(size, group, count);
            let result = bench.check(&program, 1).expect("it reaches no memory");
            assert_eq!(result, Ok(()), "rotation {group} of size {size} by {count}");
        }
    }
}
