//! What translated x86-64 code consists of: flags as x86 has them, conditions on them, and vectors
//! while the trap on invalid operations is enabled. Both tiers end in the same state, and the
//! translator calls the interpreter for none of it.
#![cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]

use littoral_la64::asm::word;
use littoral_la64::bare::Bare;
use littoral_la64::interp::{Tier, Trap};
use littoral_la64::state::{State, fcsr};

const CODE: u64 = 0x1000;
const TABLE: u64 = 0x4000;
const LEN: u64 = 1 << 16;

/// Numbers at the ends of the ranges of each width.
const NUMBERS: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x8000,
    0x7fff_ffff,
    0xffff_ffff,
    0x1_0000_0000,
    i64::MAX as u64,
    1 << 63,
    0xdead_beef_1234_567e,
];

type Line<'a> = (&'a str, &'a [i64]);

fn words(lines: &[Line<'_>]) -> Vec<u32> {
    lines.iter().map(|(name, operands)| word(name, operands).expect(name)).collect()
}

/// Operations of registers 4 and 5, of four widths; those of 32 and 64 bits; those by a number.
fn operations() -> Vec<(String, Vec<i64>)> {
    let of = |stem: &str, suffixes: &[&str], operands: &[i64]| -> Vec<_> {
        suffixes.iter().map(|s| (format!("{stem}.{s}"), operands.to_vec())).collect()
    };
    let mut all = Vec::new();
    for stem in ["x86add", "x86sub", "x86and", "x86or", "x86xor", "x86adc", "x86sbc"] {
        all.extend(of(stem, &["b", "h", "w", "d"], &[4, 5]));
    }
    for stem in ["x86inc", "x86dec"] {
        all.extend(of(stem, &["b", "h", "w", "d"], &[4]));
    }
    for stem in ["x86add", "x86sub"] {
        all.extend(of(stem, &["wu", "du"], &[4, 5]));
    }
    all.extend(of("x86mul", &["w", "d", "wu", "du"], &[4, 5]));
    for stem in ["x86slli", "x86srli", "x86srai"] {
        for count in [0, 1, 7, 31] {
            all.extend(of(stem, &["w", "d"], &[4, count]));
        }
        all.extend(of(stem, &["d"], &[4, 63]));
    }
    for stem in ["adc", "sbc"] {
        all.extend(of(stem, &["b", "h", "w", "d"], &[11, 4, 5]));
    }
    all.extend([("movgr2scr".into(), vec![2, 4]), ("movscr2gr".into(), vec![11, 2])]);
    // With register 0 in each place.
    all.extend([("x86sub.w".into(), vec![0, 5]), ("x86add.b".into(), vec![4, 0])]);
    all.extend([("x86mtflag".into(), vec![4, 0x15]), ("x86mtflag".into(), vec![0, 0x2a])]);
    all.extend([("adc.d".into(), vec![0, 4, 5]), ("adc.h".into(), vec![11, 0, 0])]);
    all
}

/// For each entry of the table at register 12: flags from register 8, then one operation, then
/// flags, every condition, and a branch on the last one go into register 13.
fn program(name: &str, operands: &[i64], branch: &str) -> Vec<u32> {
    let mut lines: Vec<Line<'_>> = vec![
        ("ld.d", &[4, 12, 0]),
        ("ld.d", &[5, 12, 8]),
        ("movgr2scr", &[0, 8]),
        ("or", &[14, 8, 0]),
        ("x86mtflag", &[14, 0x3f]),
        (name, operands),
        ("x86mfflag", &[6, 0x3f]),
        ("x86mfflag", &[9, 0x25]),
        ("xor", &[13, 13, 9]),
        ("movscr2gr", &[9, 0]),
        ("add.d", &[13, 13, 9]),
        ("add.d", &[10, 0, 0]),
    ];
    const CONDITIONS: [[i64; 2]; 16] = {
        let mut all = [[9, 0]; 16];
        let mut n = 0;
        while n < 16 {
            all[n][1] = n as i64;
            n += 1;
        }
        all
    };
    for condition in &CONDITIONS {
        lines.extend([
            ("slli.d", &[10, 10, 1][..]),
            ("setx86j", condition),
            ("or", &[10, 10, 9]),
            ("setx86j", condition),
            (branch, &[9, 8]),
            ("addi.d", &[10, 10, 32]),
        ]);
    }
    lines.extend([
        ("slli.d", &[9, 13, 5][..]),
        ("add.d", &[13, 13, 9]),
        ("xor", &[13, 13, 10]),
        ("add.d", &[13, 13, 6]),
        ("add.d", &[13, 13, 11]),
        ("addi.d", &[12, 12, 16]),
        ("addi.d", &[7, 7, -1]),
    ]);
    let back = [7, -4 * lines.len() as i64];
    lines.extend([("bnez", &back[..]), ("syscall", &[0])]);
    words(&lines)
}

fn core(tier: Tier, code: &[u32], catches: bool) -> Bare {
    let mut core = Bare::between_refusals(tier, LEN).expect("executable memory");
    let bytes: Vec<u8> = code.iter().flat_map(|w| w.to_le_bytes()).collect();
    core.write(CODE, &bytes).expect("inside");
    core.may_write_code(false);
    core.catch_invalid(catches);
    core
}

#[test]
fn flags_and_conditions_are_those_of_the_interpreter() {
    let pairs: Vec<u64> = NUMBERS.iter().flat_map(|&a| NUMBERS.map(|b| [a, b])).flatten().collect();
    let table: Vec<u8> = pairs.iter().flat_map(|n| n.to_le_bytes()).collect();
    for (n, (name, operands)) in operations().iter().enumerate() {
        let branch = ["beqz", "bnez"][n % 2];
        let code = program(name, operands, branch);
        for flags in [0, 0x8d5, 0x891, 0x44] {
            let [first, second] = [Tier::Interpreter, Tier::Blocks].map(|tier| {
                let mut core = core(tier, &code, false);
                core.write(TABLE, &table).expect("inside");
                let state = core.state_mut();
                state.pc = CODE;
                (state.x[7], state.x[8], state.x[12]) = (pairs.len() as u64 / 2, flags, TABLE);
                assert_eq!(core.run(1 << 20), Trap::Syscall, "{name} {operands:?}");
                core
            });
            assert!(second.translations() > 0, "{name}");
            assert_eq!(first.state(), second.state(), "{name} {operands:?}, flags {flags:x}");
            // The system call at the end.
            assert_eq!(second.calls_of_tier_0(), 1, "{name}");
        }
    }
}

/// Instructions of vectors on registers 1 and 2, and 3 where there is one more; whether all
/// elements raise at once.
const LANES: [(&str, usize, bool); 18] = [
    ("vfadd.d", 3, true),
    ("vfadd.s", 3, true),
    ("vfsub.d", 3, true),
    ("vfmul.s", 3, true),
    ("vfmul.d", 3, true),
    ("vfsqrt.d", 2, true),
    ("vfcmp.clt.d", 3, true),
    ("vfcmp.sle.s", 3, true),
    ("vfrintrz.d", 2, true),
    ("vffint.s.w", 2, true),
    ("vfcvtl.d.s", 2, true),
    ("vfdiv.d", 3, true),
    ("vfdiv.s", 3, true),
    ("vfrecip.d", 2, false),
    ("vfcvt.s.d", 3, false),
    ("vftintrz.w.d", 3, false),
    ("vfmadd.d", 4, false),
    ("xvfadd.d", 3, false),
];

/// Zero, one, a number whose sums and products are inexact, the greatest, an infinity, a quiet and
/// a signalling NaN; an infinity and a signalling NaN of four bytes, an infinity and one.
const DOUBLES: [u64; 9] = [
    0,
    0x3ff0_0000_0000_0000,
    0x3fb9_9999_9999_999a,
    0x7fef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0x7ff8_0000_0000_0001,
    0x7ff0_0000_0000_0001,
    0x7f80_0001_7f80_0000,
    0xff80_0000_3f80_0000,
];

/// The state behind an instruction, or where it has trapped.
fn end(core: &mut Bare, values: [[u64; 4]; 3]) -> (Trap, State) {
    let state = core.state_mut();
    state.pc = CODE;
    state.fcsr = fcsr::ENABLE_INVALID;
    state.x[4] = 3;
    for (n, value) in values.into_iter().enumerate() {
        state.v[1 + n].0 = value;
    }
    state.v[4].0 = [0x5555; 4];
    let trap = core.run(1000);
    let state = core.state();
    // What translated code does not keep, and the counts of rounds before a block is translated.
    (trap, State { fcsr: state.fcsr & !fcsr::CAUSE, instructions: 0, ..state.clone() })
}

/// One element is invalid and another one divides by zero, overflows or is inexact: no flag is
/// raised when the instruction traps.
#[test]
fn elements_raise_nothing_when_another_one_traps() {
    for (name, fields, is_translated) in LANES {
        let operands = [4, 1, 2, 3];
        let lines: [Line<'_>; 5] = [
            (name, &operands[..fields]),
            ("vadd.d", &[5, 4, 4]),
            ("addi.d", &[4, 4, -1]),
            ("bnez", &[4, -12]),
            ("syscall", &[0]),
        ];
        let code = words(&lines);
        let mut cores = [Tier::Interpreter, Tier::Blocks].map(|tier| core(tier, &code, true));
        let (mut trapped, mut ended) = (0, 0);
        let pairs = || DOUBLES.iter().flat_map(|&a| DOUBLES.map(|b| [a, b]));
        for (j, k) in pairs().flat_map(|j| pairs().map(move |k| (j, k))) {
            let wide = |[low, high]: [u64; 2]| [low, high, high, low];
            let values = [wide(j), wide(k), wide([k[1], j[0]])];
            let [first, second] = cores.each_mut().map(|core| end(core, values));
            assert_eq!(first, second, "{name} {j:x?} {k:x?}");
            trapped += u64::from(first.0 == Trap::Float);
            ended += u64::from(first.0 == Trap::Syscall);
        }
        let translated = &cores[1];
        assert!(translated.translations() > 0 && (trapped > 100 || name == "vffint.s.w"), "{name}");
        // One call is the system call at the end.
        assert_eq!(translated.calls_of_tier_0() <= ended, is_translated, "{name}");
    }
}
