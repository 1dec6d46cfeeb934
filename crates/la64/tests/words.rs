//! Words in registers and choices between registers: translated code leaves what the interpreter
//! leaves, whichever registers are named.
#![cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]

use littoral_la64::asm::word;
use littoral_la64::bare::Bare;
use littoral_la64::interp::{Tier, Trap};

const CODE: u64 = 0x1000;
const LEN: u64 = 1 << 16;
/// Registers with and without a host register of their own.
const REGISTERS: [i64; 5] = [4, 5, 12, 23, 24];

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn register(&mut self) -> i64 {
        match self.below(12) {
            0 => 0,
            n => REGISTERS[n as usize % REGISTERS.len()],
        }
    }
}

/// Both tiers run the words, which end with `break`, from the same registers.
fn same(code: &[u32], random: &mut Random) {
    let values: Vec<u64> = REGISTERS
        .iter()
        .map(|_| match random.below(4) {
            0 => random.0,
            1 => random.0 as i32 as u64,
            2 => random.below(3),
            _ => random.0 & 0xffff_ffff,
        })
        .collect();
    let cores = [Tier::Interpreter, Tier::Blocks].map(|tier| {
        let mut core = Bare::on(tier, LEN);
        let bytes: Vec<u8> = code.iter().flat_map(|w| w.to_le_bytes()).collect();
        core.write(CODE, &bytes).expect("inside");
        core.may_write_code(false);
        core.state_mut().pc = CODE;
        for (n, value) in REGISTERS.iter().zip(&values) {
            core.state_mut().x[*n as usize] = *value;
        }
        let trap = core.run(100_000);
        assert_eq!(trap, Trap::Break(0));
        core
    });
    let state = |core: &Bare| core.state().clone();
    assert_eq!(state(&cores[0]), state(&cores[1]), "{code:08x?} from {values:x?}");
}

fn coded(name: &str, operands: &[i64]) -> u32 {
    word(name, operands).expect(name)
}

#[test]
fn registers_of_a_choice_are_those_of_the_interpreter() {
    let mut random = Random(11);
    for round in 0..4000 {
        let [t, u, r, a, b, c] = std::array::from_fn(|_| random.register());
        let masks = if round % 2 == 0 { ["maskeqz", "masknez"] } else { ["masknez", "maskeqz"] };
        let order = if round % 3 == 0 { [u, t] } else { [t, u] };
        let mut code = Vec::new();
        if round % 4 == 0 {
            code.push(coded("sltu", &[c, a, b]));
        }
        code.push(coded(masks[0], &[t, a, c]));
        code.push(coded(masks[1], &[u, b, c]));
        code.push(coded("or", &[r, order[0], order[1]]));
        // What follows may write a mask's register without reading it, or read it first.
        for _ in 0..random.below(3) {
            let operands = [random.register(), random.register(), random.register()];
            code.push(coded(["add.d", "sub.w", "mul.d"][random.below(3) as usize], &operands));
        }
        if random.below(2) == 0 {
            code.push(coded("ori", &[random.register(), 0, 5]));
        }
        code.push(coded("break", &[0]));
        same(&code, &mut random);
    }
}

#[test]
fn words_stay_extended_through_any_sequence() {
    const THREE: [&str; 17] = [
        "add.w", "sub.w", "mul.w", "add.d", "sub.d", "and", "or", "xor", "nor", "andn", "orn",
        "sll.w", "srl.w", "sra.w", "slt", "maskeqz", "mod.w",
    ];
    const SHIFTS: [&str; 6] = ["slli.w", "srli.w", "srai.w", "rotri.w", "srai.d", "slli.d"];
    const IMMEDIATE: [&str; 5] = ["addi.w", "addi.d", "andi", "ori", "xori"];
    let mut random = Random(7);
    for _ in 0..3000 {
        let mut code = Vec::new();
        for _ in 0..12 {
            let [rd, rj, rk] = std::array::from_fn(|_| random.register());
            let imm = [0, 1, 31, 255, 1000][random.below(5) as usize];
            code.push(match random.below(8) {
                0..3 => coded(THREE[random.below(17) as usize], &[rd, rj, rk]),
                3 => coded(SHIFTS[random.below(6) as usize], &[rd, rj, imm & 31]),
                4 => coded(IMMEDIATE[random.below(5) as usize], &[rd, rj, imm]),
                // The compilers' way to extend.
                5 => coded(["addi.w", "slli.w"][random.below(2) as usize], &[rd, rj, 0]),
                6 => coded("bstrpick.w", &[rd, rj, 31.min(imm), imm.min(7)]),
                _ => coded(["lu12i.w", "lu32i.d"][random.below(2) as usize], &[rd, imm - 500]),
            });
        }
        code.push(coded("break", &[0]));
        same(&code, &mut random);
    }
}

/// Fields of zeros, and word sums of numbers that are known to be short: some are just too long.
#[test]
fn short_sums_and_cleared_fields_are_those_of_the_interpreter() {
    const EDGES: [i64; 9] = [0, 1, 7, 11, 15, 29, 30, 31, 32];
    let mut random = Random(23);
    for round in 0..6000 {
        let [a, b, c] = std::array::from_fn(|_| random.register());
        let edge = |random: &mut Random| EDGES[random.below(9) as usize];
        let mut code = vec![
            coded("bstrpick.d", &[a, b, edge(&mut random), 0]),
            coded("bstrpick.d", &[b, c, edge(&mut random), 0]),
        ];
        let by = edge(&mut random) & 31;
        let imm = [-2048, -1, 1, 255, 2047][random.below(5) as usize];
        for _ in 0..2 {
            let [d, j, k] = std::array::from_fn(|_| [a, b, c][random.below(3) as usize]);
            code.push(match random.below(6) {
                0 => coded("add.w", &[d, j, k]),
                1 => coded("sub.w", &[d, j, k]),
                2 => coded("addi.w", &[d, j, imm]),
                3 => coded("slli.w", &[d, j, by]),
                4 => coded("alsl.w", &[d, j, k, 1 + by % 4]),
                _ => coded("sub.d", &[d, j, k]),
            });
        }
        let (lsb, msb) = (edge(&mut random), [edge(&mut random), 63, 40][random.below(3) as usize]);
        let (from, of) = (if round % 3 == 0 { c } else { 0 }, [a, b, c][round % 3]);
        if msb >= lsb {
            code.push(coded("bstrins.d", &[of, from, msb, lsb]));
        }
        if msb.min(31) >= lsb {
            code.push(coded("bstrins.w", &[a, 0, msb.min(31), lsb]));
        }
        code.push(coded("add.w", &[c, of, a]));
        code.push(coded("addi.w", &[b, of, 0]));
        code.push(coded("break", &[0]));
        same(&code, &mut random);
    }
}
