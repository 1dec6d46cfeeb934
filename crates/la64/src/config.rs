//! CPUCFG words: what the machine says about itself, never more than the interpreter implements.
//!
//! Field places are the manual's (table of CPUCFG configuration words).

/// What a machine announces: an instruction outside it is illegal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// 128-bit vectors.
    pub lsx: bool,
    /// 256-bit vectors.
    pub lasx: bool,
    /// Binary translation assists.
    pub lbt: bool,
    /// The additions of version 1.1.
    pub v1_1: bool,
}

impl Features {
    /// All that the interpreter implements.
    pub const ALL: Features = Features { lsx: true, lasx: true, lbt: true, v1_1: true };
}

/// Word `index` of the configuration, 0 beyond the last.
pub fn cpucfg(features: Features, index: u64) -> u32 {
    match index {
        // PRID: an implementation of series 0x14 (LA464 class), revision of our own.
        0 => 0x0014_c010,
        // ARCH = LA64, PGMMU, PALEN and VALEN 48 bits less one, UAL, RI, EP, RPLV, HP.
        1 => 2 | 1 << 2 | 47 << 4 | 47 << 12 | 1 << 20 | 1 << 21 | 1 << 22 | 1 << 23 | 1 << 24,
        2 => word2(features),
        // CCDMA, ITLBHMC, ICHMC..: coherent caches; LLDBAR implied.
        3 => 1 | 1 << 8,
        // The stable counter runs at 100 MHz (see `Cpu::time`).
        4 => 100_000_000,
        5 => 1 | 1 << 16,
        _ => 0,
    }
}

fn word2(features: Features) -> u32 {
    let bit = |on: bool, place: u32| u32::from(on) << place;
    let float = 1 | 1 << 1 | 1 << 2 | 1 << 3;
    let vectors = bit(features.lsx, 6) | bit(features.lasx, 7);
    // Stable counter, and AM* for words and doublewords.
    let counter = 1 << 14 | 1 << 22;
    let lbt = bit(features.lbt, 18) | bit(features.lbt, 19) | bit(features.lbt, 20);
    // FRECIPE, LAM_BH, LAMCAS, LLACQ_SCREL, SCQ.
    let v1_1 = (25..30).fold(0, |w, place| w | bit(features.v1_1, place));
    float | vectors | counter | lbt | v1_1
}

/// How much memory code of the host takes, and how it may be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of code of the host; code that needs more drops all code.
    pub code_len: u64,
    /// No page is writable and executable: code is written through a second mapping.
    pub separate: bool,
    /// Code counts no instructions: to measure what counting costs. The count is wrong then, and a
    /// loop sees neither the end of a budget nor attention.
    pub uncounted: bool,
    /// Instructions that translated code retires before the dispatch loop looks at the attention
    /// flag; each may leave 8 bytes on the stack of its thread.
    pub slice: u64,
    /// Instructions that a thread retires on tier 2 before it looks for the first time which loop
    /// it is in; looks that find nothing new become rarer. With few, each loop becomes a region at
    /// once.
    pub watch: u64,
    /// Regions are translated on a thread of their own, and tried by the threads that run them: it
    /// is not certain when one is there, and for how long.
    pub aside: bool,
}

impl Limits {
    /// The least useful length of code.
    pub const CODE_LEN_MIN: u64 = 256 << 10;
    /// The greatest length of code: jumps reach no further.
    pub const CODE_LEN_MAX: u64 = 1 << 30;
    /// The longest slice.
    pub const SLICE_MAX: u64 = 1 << 28;
}

impl Default for Limits {
    fn default() -> Limits {
        let (code_len, slice, watch) = (64 << 20, 1 << 16, 1 << 23);
        Limits { code_len, separate: false, uncounted: false, slice, watch, aside: true }
    }
}

/// What runs a program. Results, faults and counts are those of tier 0 on every tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// The interpreter.
    Interpreter,
    /// The translator of single blocks; the interpreter where there is none.
    Blocks,
    /// The same, and a translator of the loops that a program is in most: regions of many blocks.
    #[default]
    Regions,
}

impl Tier {
    /// The tier of this number.
    pub fn new(number: u8) -> Option<Tier> {
        [Tier::Interpreter, Tier::Blocks, Tier::Regions].get(usize::from(number)).copied()
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self as u8
    }
}
