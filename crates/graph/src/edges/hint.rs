//! The prefetch instructions that edges in DRAM are read with.

/// Which instruction brings edges in DRAM near before they are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hint {
    /// None: the processor's own prefetchers alone.
    None,
    /// Into all caches (`PREFETCHT0`).
    T0,
    /// Past the outer caches (`PREFETCHNTA`).
    Nta,
}

impl Hint {
    /// Every hint.
    pub const ALL: [Hint; 3] = [Hint::None, Hint::T0, Hint::Nta];

    /// The name in output.
    pub fn name(self) -> &'static str {
        match self {
            Hint::None => "no hint",
            Hint::T0 => "hint T0",
            Hint::Nta => "hint NTA",
        }
    }
}
