//! What a translator knows of guest code, for any guest: sets of registers, and which registers
//! are live at the ends of blocks.
//!
//! A register is live where some path reads it before writing it. Control that leaves the region
//! finds every register live, except those that the translator names dead there.

/// A set of guest registers, by their numbers below 128.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegSet(u128);

impl RegSet {
    /// Every register.
    pub const ALL: RegSet = RegSet(u128::MAX);

    /// Whether a register is in the set.
    pub const fn has(self, register: u8) -> bool {
        self.0 >> register & 1 == 1
    }

    /// The set and a register.
    pub const fn with(self, register: u8) -> RegSet {
        RegSet(self.0 | 1 << register)
    }

    /// The set without a register.
    pub const fn without(self, register: u8) -> RegSet {
        RegSet(self.0 & !(1 << register))
    }

    /// What is in either.
    pub const fn union(self, other: RegSet) -> RegSet {
        RegSet(self.0 | other.0)
    }

    /// What is in this set only.
    pub const fn minus(self, other: RegSet) -> RegSet {
        RegSet(self.0 & !other.0)
    }

    /// Whether the sets share a register.
    pub const fn meets(self, other: RegSet) -> bool {
        self.0 & other.0 != 0
    }
}

impl FromIterator<u8> for RegSet {
    fn from_iter<I: IntoIterator<Item = u8>>(registers: I) -> RegSet {
        registers.into_iter().fold(RegSet::default(), RegSet::with)
    }
}

/// What liveness needs to know of a block.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Registers read before they are written.
    pub reads: RegSet,
    /// Registers written.
    pub writes: RegSet,
    /// Blocks that follow, by their place in the list.
    pub next: Vec<usize>,
    /// Registers live where control leaves the region behind this block.
    pub leaves: RegSet,
}

impl Summary {
    /// Adds an instruction behind those that are there.
    pub fn add(&mut self, reads: RegSet, writes: RegSet) {
        self.reads = self.reads.union(reads.minus(self.writes));
        self.writes = self.writes.union(writes);
    }
}

/// The registers live behind each block.
pub fn live_out(blocks: &[Summary]) -> Vec<RegSet> {
    let mut out: Vec<RegSet> = blocks.iter().map(|b| b.leaves).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for (n, block) in blocks.iter().enumerate().rev() {
            let live = block.next.iter().fold(block.leaves, |live, &m| {
                live.union(blocks[m].reads.union(out[m].minus(blocks[m].writes)))
            });
            changed |= live != out[n];
            out[n] = live;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &[u8]) -> RegSet {
        list.iter().copied().collect()
    }

    #[test]
    fn a_loop_keeps_what_it_reads_live() {
        // 0: writes 1; 1: reads 1 and 2, writes 3, loops or leaves with 3; 2: leaves with 4.
        let mut blocks = vec![Summary::default(), Summary::default(), Summary::default()];
        blocks[0].add(set(&[]), set(&[1]));
        blocks[0].next = vec![1];
        blocks[1].add(set(&[1, 2]), set(&[3]));
        blocks[1].add(set(&[3]), set(&[5]));
        blocks[1].next = vec![1, 2];
        blocks[2].leaves = set(&[3, 4]);
        let live = live_out(&blocks);
        assert_eq!(live[0], set(&[1, 2, 4]));
        assert_eq!(live[1], set(&[1, 2, 3, 4]));
        assert_eq!(live[2], set(&[3, 4]));
    }
}
