//! A branch on the flag of the comparison before it: with each condition, operands in every order
//! and NaNs of both kinds, both tiers take the same way, also where the comparison itself was
//! finished on tier 0.
#![cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]

use littoral_la64::asm::word;
use littoral_la64::bare::Bare;
use littoral_la64::interp::{Tier, Trap};

const CODE: u64 = 0x1000;
const LEN: u64 = 1 << 16;

const CONDITIONS: [&str; 11] =
    ["af", "un", "eq", "ueq", "lt", "ult", "le", "ule", "ne", "or", "une"];

/// The cause field, which translated arithmetic does not keep.
const CAUSE: u32 = 0x1f << 24;

/// Numbers in order, an infinity, a quiet and a signalling NaN, of eight and of four bytes.
const OPERANDS: [[u64; 2]; 6] = [
    [0xbff0_0000_0000_0000, 0xbf80_0000],
    [0, 0],
    [0x3ff8_0000_0000_0000, 0x3fc0_0000],
    [0x7ff0_0000_0000_0000, 0x7f80_0000],
    [0x7ff8_0000_0000_0001, 0x7fc0_0001],
    [0x7ff0_0000_0000_0001, 0x7f80_0001],
];

/// Compares registers 4 and 5 four times, and the other way round. Register 6 tells the ways,
/// register 8 what was raised.
fn program(compare: &str, branch: &str) -> Vec<u32> {
    let lines: [(&str, &[i64]); 14] = [
        ("movgr2fr.d", &[1, 4]),
        ("movgr2fr.d", &[2, 5]),
        ("movgr2fcsr", &[0, 0]),
        (compare, &[3, 1, 2]),
        (branch, &[3, 8]),
        ("addi.d", &[6, 6, 1]),
        (compare, &[0, 2, 1]),
        (branch, &[0, 8]),
        ("addi.d", &[6, 6, 16]),
        ("movfcsr2gr", &[8, 0]),
        ("bstrpick.d", &[8, 8, 23, 0]),
        ("addi.d", &[7, 7, -1]),
        ("bnez", &[7, -40]),
        ("syscall", &[0]),
    ];
    lines.iter().map(|(name, operands)| word(name, operands).expect(name)).collect()
}

fn same(code: &[u32], a: u64, b: u64, place: &str) {
    let [first, second] = [Tier::Interpreter, Tier::Blocks].map(|tier| {
        let mut core = Bare::between_refusals(tier, LEN).expect("executable memory");
        let bytes: Vec<u8> = code.iter().flat_map(|w| w.to_le_bytes()).collect();
        core.write(CODE, &bytes).expect("inside");
        core.may_write_code(false);
        core.catch_invalid(true);
        core.state_mut().pc = CODE;
        [(4, a), (5, b), (7, 4)].into_iter().for_each(|(n, v)| core.state_mut().x[n] = v);
        assert_eq!(core.run(1000), Trap::Syscall, "{place}");
        core.state_mut().fcsr &= !CAUSE;
        core
    });
    assert!(second.translations() > 0, "{place}");
    assert_eq!(first.state(), second.state(), "{place}");
}

#[test]
fn a_branch_goes_where_the_comparison_before_it_says() {
    for (form, suffix) in ["d", "s"].into_iter().enumerate() {
        for (quiet, condition) in CONDITIONS.iter().flat_map(|c| [("c", c), ("s", c)]) {
            let compare = format!("fcmp.{quiet}{condition}.{suffix}");
            for branch in ["bceqz", "bcnez"] {
                let code = program(&compare, branch);
                for (a, b) in OPERANDS.iter().flat_map(|a| OPERANDS.iter().map(move |b| (a, b))) {
                    let place = format!("{compare} {:x} {:x}, {branch}", a[form], b[form]);
                    same(&code, a[form], b[form], &place);
                }
            }
        }
    }
}
