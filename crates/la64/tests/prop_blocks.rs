//! Whole blocks against single steps: random programs of the instructions that the interpreter
//! joins in pairs, with branches and with accesses that fault, end in the same registers, memory,
//! count and trap whether they run in one go or an instruction at a time (which never joins any).

use littoral_la64::device::{Core, End, Outcome};
use littoral_la64::{elf, isa};

const AT: u64 = 0x1_0000;
const MEMORY_LEN: u64 = 1 << 20;
/// Registers the programs use: t0 to t7, and zero.
const REGISTERS: [i64; 9] = [0, 12, 13, 14, 15, 16, 17, 18, 19];
const LENGTH: i64 = 48;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn register(&mut self) -> i64 {
        REGISTERS[self.below(REGISTERS.len() as u64) as usize]
    }
}

fn word(mnemonic: &str, operands: &[i64]) -> u32 {
    isa::encode(isa::find(mnemonic).expect(mnemonic), operands).expect("operands fit")
}

const THREE: [&str; 20] = [
    "add.d", "add.w", "sub.d", "or", "and", "xor", "slt", "sltu", "maskeqz", "masknez", "mul.d",
    "mul.w", "ldx.d", "ldx.w", "ldx.b", "ldx.bu", "stx.d", "stx.w", "stx.b", "or",
];
const WITH_IMMEDIATE: [(&str, i64, i64); 15] = [
    ("addi.d", -64, 128),
    ("addi.w", -64, 128),
    ("ori", 0, 4096),
    ("andi", 0, 4096),
    ("sltui", -64, 128),
    ("slli.d", 0, 64),
    ("srli.d", 0, 64),
    ("ld.d", -2048, 4096),
    ("ld.w", -2048, 4096),
    ("ld.b", -2048, 4096),
    ("ld.bu", -2048, 4096),
    ("ld.hu", -2048, 4096),
    ("st.d", -2048, 4096),
    ("st.w", -2048, 4096),
    ("st.b", -2048, 4096),
];
const BRANCHES: [&str; 6] = ["beq", "bne", "blt", "bge", "bltu", "bgeu"];

/// One instruction at place `n`; branches lead forward, so every program ends.
fn instruction(random: &mut Random, n: i64) -> u32 {
    let [d, j, k] = [0; 3].map(|_| random.register());
    let forward = (1 + random.below((LENGTH - n).min(9) as u64) as i64) * 4;
    match random.below(16) {
        0..5 => {
            let name = THREE[random.below(20) as usize];
            // An indexed store at a small number would nearly always end the program: page 0 is
            // not writable.
            let wild = !name.starts_with("stx") || random.below(8) == 0;
            if wild { word(name, &[d, j, k]) } else { word(name, &[d, 12 + n % 2, 0]) }
        }
        5..11 => {
            let (name, low, span) = WITH_IMMEDIATE[random.below(15) as usize];
            // Accesses go through registers that hold addresses, most of the time.
            let base = if random.below(8) > 0 && name.contains('.') { 12 + n % 2 } else { j };
            word(name, &[d, base, low + random.below(span as u64) as i64])
        }
        11 => word("alsl.d", &[d, j, k, 1 + random.below(4) as i64]),
        12 => {
            let (a, b) = (random.below(64) as i64, random.below(64) as i64);
            // Now and then the field is upside down, which is illegal.
            let upside_down = random.below(16) == 0 && a != b;
            let (msb, lsb) = if upside_down { (a.min(b), a.max(b)) } else { (a.max(b), a.min(b)) };
            word("bstrpick.d", &[d, j, msb, lsb])
        }
        13 => word("lu12i.w", &[d, random.below(64) as i64]),
        14 => word(BRANCHES[random.below(6) as usize], &[j, d, forward]),
        _ => match random.below(4) {
            0 => word("b", &[forward]),
            1 => word("beqz", &[j, forward]),
            2 => word("bnez", &[j, forward]),
            _ => word("vinsgr2vr.w", &[random.below(32) as i64, j, random.below(4) as i64]),
        },
    }
}

/// Two address registers, then random instructions, then the return.
fn program(random: &mut Random) -> Vec<u32> {
    // The second address is a page before the end of memory, or the end: what is below is inside.
    let last = if random.below(3) == 0 { 256 } else { 255 };
    let start = [word("lu12i.w", &[12, 32]), word("lu12i.w", &[13, last])];
    let body: Vec<u32> = (0..LENGTH).map(|n| instruction(random, n)).collect();
    [start.as_slice(), &body, &[word("jirl", &[0, 1, 0])]].concat()
}

fn loaded(code: &[u32]) -> Core {
    Core::load(&elf::executable(AT, code), MEMORY_LEN).expect("the program fits")
}

fn memory(core: &Core) -> Vec<u8> {
    let mut bytes = vec![0; (MEMORY_LEN - AT) as usize];
    core.read(AT, &mut bytes).expect("inside");
    bytes
}

/// Runs by single steps to the end.
fn stepped(core: &mut Core) -> Outcome {
    let mut outcome = core.run(core.entry(), &[1, 2, 3], 1);
    let mut instructions = outcome.instructions;
    while outcome.end == End::OutOfBudget {
        outcome = core.resume(1);
        instructions += outcome.instructions;
    }
    Outcome { instructions, ..outcome }
}

#[test]
fn blocks_and_single_steps_agree_in_everything() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut trapped, mut done) = (0, 0);
    for n in 0..600 {
        let code = program(&mut random);
        let (mut whole, mut steps) = (loaded(&code), loaded(&code));
        let in_one_go = whole.run(whole.entry(), &[1, 2, 3], 1 << 20);
        let by_steps = stepped(&mut steps);
        assert_eq!(in_one_go, by_steps, "program {n}: {code:08x?}");
        assert_eq!(whole.state(), steps.state(), "program {n}: {code:08x?}");
        assert!(memory(&whole) == memory(&steps), "program {n}: memory differs: {code:08x?}");
        match in_one_go.end {
            End::Trap { .. } => trapped += 1,
            _ => done += 1,
        }
    }
    assert!(trapped > 20 && done > 20, "both ends occur: {trapped} traps, {done} returns");
}

#[test]
fn a_fault_in_either_half_of_a_pair_is_the_one_of_that_instruction() {
    // t0 = 0x20000 is memory, t1 = -1 << 12 is not.
    let start = [word("lu12i.w", &[12, 32]), word("lu12i.w", &[13, -1])];
    let halves = [("ld.d", "st.d"), ("st.w", "ld.bu"), ("ld.b", "ld.d"), ("st.b", "st.b")];
    for (first, second) in halves {
        for broken in 0..2 {
            let base = |n| if n == broken { 13 } else { 12 };
            let pair = [word(first, &[14, base(0), 8]), word(second, &[15, base(1), 16])];
            let mut core = loaded(&[start.as_slice(), &pair].concat());
            let outcome = core.run(core.entry(), &[], 100);
            let End::Trap { pc, .. } = outcome.end else { panic!("{first} {second}: {outcome:?}") };
            assert_eq!(
                (pc - core.entry(), outcome.instructions),
                (8 + 4 * broken, 2 + broken),
                "{first}"
            );
        }
    }
}
