//! What the translator did: figures over a thread's life, and where code of the host lies. Both
//! exist on every host; without a translator they stay zero and empty.
//!
//! - The figures only grow: dropping code takes nothing back.
//! - Places are recorded only on request, because their list grows with every translated block.

use std::ops::AddAssign;

/// Figures of the translator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Translation {
    /// Blocks translated; one that is translated again counts again.
    pub blocks: u64,
    /// Guest instructions in them.
    pub instructions: u64,
    /// Bytes of code of the host.
    pub code_bytes: u64,
    /// Bytes of what is kept beside the code: exits, faults, slow ways, words to compare.
    pub map_bytes: u64,
    /// Regions among the blocks.
    pub regions: u64,
    /// Blocks read from the cache on disk instead.
    pub read: u64,
    /// How often control left generated code for the dispatch loop.
    pub exits: u64,
    /// How often tier 0 went on from the dispatch loop.
    pub interpreted: u64,
    /// Calls of tier 0 from generated code for accesses and operations that the common way does not
    /// serve.
    pub slow_calls: u64,
    /// The same for instructions without a translation.
    pub alone_calls: u64,
}

impl AddAssign for Translation {
    fn add_assign(&mut self, other: Translation) {
        self.blocks += other.blocks;
        self.instructions += other.instructions;
        self.code_bytes += other.code_bytes;
        self.map_bytes += other.map_bytes;
        self.regions += other.regions;
        self.read += other.read;
        self.exits += other.exits;
        self.interpreted += other.interpreted;
        self.slow_calls += other.slow_calls;
        self.alone_calls += other.alone_calls;
    }
}

/// Where the code of a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Guest address of its first instruction.
    pub guest: u64,
    /// Host address of its code.
    pub host: u64,
    /// Bytes of code.
    pub len: u64,
}

/// A block's instructions and code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Host address of the code.
    pub host: u64,
    /// Its bytes.
    pub code: Vec<u8>,
    /// Guest address and word of each instruction, and where its code begins.
    pub instructions: Vec<(u64, u32, usize)>,
    /// Where what stands behind the instructions begins: exits and slow ways.
    pub behind: usize,
}

/// Where a block's code comes from.
#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
#[derive(Clone, Copy, Debug)]
pub(super) enum Made {
    /// It was translated.
    Translated {
        /// Guest instructions.
        instructions: u64,
        /// Bytes that are kept beside the code.
        map_bytes: u64,
        /// It has many paths.
        is_region: bool,
    },
    /// From the cache on disk.
    Read,
}

/// The translator's own account.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// Figures.
    pub(super) total: Translation,
    /// Blocks since they were taken last, if they are recorded.
    pub(super) placed: Option<Vec<Placed>>,
    /// Blocks with their code, since they were taken last, if they are recorded.
    pub(super) listed: Option<Vec<Listing>>,
}

#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
impl Journal {
    /// Generated code called slow ways and tier 0 so often.
    pub(super) fn note_calls(&mut self, [slow, alone]: [u64; 2]) {
        self.total.slow_calls += slow;
        self.total.alone_calls += alone;
    }

    /// Whether blocks are recorded with their code.
    pub(super) fn lists(&self) -> bool {
        self.listed.is_some()
    }

    /// So many blocks were read from the cache on disk at once, at these places.
    pub(super) fn adopted(&mut self, count: u64, places: impl FnOnce() -> Vec<Placed>) {
        self.total.read += count;
        if let Some(list) = &mut self.placed {
            list.extend(places());
        }
    }

    /// A block was translated, or read from the cache on disk.
    pub(super) fn note(&mut self, placed: Placed, made: Made) {
        self.total += match made {
            Made::Translated { instructions, map_bytes, is_region } => Translation {
                blocks: 1,
                regions: is_region.into(),
                instructions,
                code_bytes: placed.len,
                map_bytes,
                ..Translation::default()
            },
            Made::Read => Translation { read: 1, ..Translation::default() },
        };
        if let Some(list) = &mut self.placed {
            list.push(placed);
        }
    }
}
