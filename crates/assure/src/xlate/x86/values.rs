//! Values that random programs begin with: corner values, near ones, any bits.

use super::child::{CODE, DATA, Registers};
use littoral_xlate::x86::float::Vectors;
use littoral_xlate::x86::isa::flag;

/// A generator, so that a seed means the same programs everywhere.
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = self.0 ^ self.0 >> 29;
        x.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 8
    }

    /// A number below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit
    }

    /// Whether one of so many came.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Registers that hold addresses of data at first.
const POINTERS: [u8; 6] = [3, 5, 6, 7, 12, 14];

/// A double, or two singles: corner values, near ones, any bits.
pub(super) fn number(random: &mut Random) -> u64 {
    const DOUBLES: [u64; 16] = [
        0,
        0x3ff0_0000_0000_0000,
        0x7ff0_0000_0000_0000,
        0x7ff8_0000_0000_0000,
        0x7ff0_0000_0000_0001,
        0x7ff8_1234_5678_9abc,
        0x7ff4_dcba_9876_5432,
        1,
        0x000f_ffff_ffff_ffff,
        0x0010_0000_0000_0000,
        0x7fef_ffff_ffff_ffff,
        0x43e0_0000_0000_0000,
        0x41df_ffff_ffe0_0000,
        0x41e0_0000_0000_0000,
        0x3fdf_ffff_ffff_ffff,
        0x36a0_0000_0000_0001,
    ];
    const SINGLES: [u32; 14] = [
        0,
        0x3f80_0000,
        0x7f80_0000,
        0x7fc0_0000,
        0x7f80_0001,
        0x7fc1_2345,
        0x7fa5_4321,
        1,
        0x007f_ffff,
        0x0080_0000,
        0x7f7f_ffff,
        0x5f00_0000,
        0x4f00_0000,
        0x3eff_ffff,
    ];
    let single = |random: &mut Random| {
        let sign = (random.below(2) as u32) << 31;
        let value = match random.below(3) {
            0 => SINGLES[random.below(SINGLES.len() as u64) as usize],
            1 => 0x3f00_0000 + random.below(0x200_0000) as u32,
            _ => random.draw() as u32,
        };
        u64::from(value ^ sign)
    };
    let sign = random.below(2) << 63;
    match random.below(6) {
        0 => DOUBLES[random.below(DOUBLES.len() as u64) as usize] ^ sign,
        1 => (0x3fe0_0000_0000_0000 + random.below(0x40_0000_0000_0000)) ^ sign,
        2 => (random.below(1 << 24) as f64).to_bits() ^ sign,
        3 => random.draw() << 20 ^ random.draw(),
        _ => single(random) | single(random) << 32,
    }
}

/// Vector registers with numbers.
fn vectors(random: &mut Random) -> Vectors {
    let xmm = std::array::from_fn(|_| [number(random), number(random)]);
    Vectors { xmm, mxcsr: mxcsr(random) }
}

/// A number of 80 bits: corner values, near ones, any bits.
fn extended(random: &mut Random) -> [u64; 2] {
    const CORNERS: [(u64, u64); 14] = [
        (0, 0),
        (0x3fff, 1 << 63),
        (0x7fff, 1 << 63),
        (0x7fff, 3 << 62),
        (0x7fff, 1 << 63 | 1),
        (0x7fff, 0xc123_4567_89ab_cdef),
        (0x7fff, 0x8edc_ba98_7654_3210),
        (0, 1),
        (0, u64::MAX),
        (1, 1 << 63),
        (0x7ffe, u64::MAX),
        (0x7fff, 0),
        (0x3fff, 0x4000_0000_0000_0000),
        (0x3ffe, 0xb504_f333_f9de_6484),
    ];
    let sign = random.below(2) << 15;
    let wide = random.draw() << 20 ^ random.draw();
    let (exp, m) = match random.below(8) {
        0 | 1 => CORNERS[random.below(14) as usize],
        2 => (0x3fff + random.below(64), wide | 1 << 63),
        3 => (0x3ff0 + random.below(20), (wide | 1 << 63) & u64::MAX << random.below(64)),
        4 => (random.below(0x8000), wide),
        5 => (random.below(70), wide | 1 << 63),
        6 => (0x7fb0 + random.below(0x4f), wide | 1 << 63),
        _ => (0x3ffc + random.below(5), wide | 1 << 63),
    };
    [m, exp | sign]
}

/// The registers of x87.
fn x87(random: &mut Random) -> [u64; 19] {
    let masks = if random.one_in(5) { random.below(64) } else { 63 };
    let control = random.below(16) << 8 | masks | 0x40;
    let raised = if random.one_in(3) { random.draw() & 0x3f & masks } else { 0 };
    let status = random.draw() & 0x7f00 | raised;
    let full = match random.below(3) {
        0 => 0xff,
        1 => random.below(256),
        _ => 0xf << random.below(5),
    };
    let mut words = [control | status << 16 | full << 32, 0, 0].to_vec();
    words.extend((0..8).flat_map(|_| extended(random)));
    std::array::from_fn(|n| words[n])
}

/// MXCSR: any rounding and flags, sometimes exceptions that trap, but not those of denormal
/// operands and of underflow; sometimes denormal operands or results as zeros.
pub(super) fn mxcsr(random: &mut Random) -> u32 {
    let open = if random.one_in(6) { random.draw() as u32 & 0x1680 } else { 0 };
    let drawn = random.draw();
    let zeros = if drawn >> 40 & 3 == 0 { (drawn >> 32) as u32 & 0x8040 } else { 0 };
    (drawn as u32 & 0x603d | 0x1f80 | zeros) & !open
}

/// Registers at the begin: pointers, numbers of all widths, small ones.
pub(super) fn registers(random: &mut Random) -> Registers {
    let mut registers = Registers { rip: CODE, ..Registers::default() };
    for r in &mut registers.gpr {
        let wide = random.draw() << 20 ^ random.draw();
        *r = [wide, wide as u32 as u64, random.below(64), wide as i32 as i64 as u64]
            [random.below(4) as usize];
    }
    for p in POINTERS {
        registers.gpr[usize::from(p)] = DATA + 0x400 + random.below(0x800);
    }
    if !random.one_in(4) {
        for p in POINTERS {
            registers.gpr[usize::from(p)] &= !15;
        }
    }
    registers.vectors = vectors(random);
    registers.x87 = x87(random);
    registers.gpr[4] = DATA + 0x800 + 8 * random.below(16);
    if random.one_in(4) {
        // Far away: an access faults.
        registers.gpr[12] = (1 << 40) + random.below(1 << 20);
    }
    if random.one_in(2) {
        registers.gpr[1] = random.below(70);
    }
    let bits = flag::PLACES.iter().fold(0, |bits, &p| bits | 1u64 << p);
    registers.flags = random.draw() & bits | 0x202;
    registers
}
