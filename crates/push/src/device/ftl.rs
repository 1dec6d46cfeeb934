//! The page-mapped flash translation layer of a tenant's overwritten pages.
//!
//! A logical page lives on one chip for ever; within the chip it is written to the active block.
//! When a chip has no free block beyond its reserve, collection takes the block with the fewest
//! valid pages, moves those and erases it. Every [`LEVEL_EVERY`]th collection takes the least worn
//! block instead, so that blocks of cold pages wear too. Mappings change when a command is given,
//! its time is charged by the caller; an erased block is free when the erase has ended.
//!
//! Invariants
//! - A logical page maps to one physical page, which names it. Checked by `Ftl::check`.
//! - One block of a chip is always left for collection. Checked by
//!   `overwrites_keep_the_map_and_wear_evenly`.

/// Every so many collections the least worn block is taken, whatever its valid pages.
pub const LEVEL_EVERY: u64 = 16;

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Block {
    /// The logical page in each physical one, [`NONE`] where there is no valid one.
    pages: Vec<u32>,
    valid: u32,
    erases: u64,
}

#[derive(Clone, Debug)]
struct Chip {
    blocks: Vec<Block>,
    free: Vec<usize>,
    active: usize,
    next: usize,
    collecting: Option<usize>,
    collections: u64,
}

/// The layer over all chips.
#[derive(Clone, Debug)]
pub struct Ftl {
    chips: Vec<Chip>,
    /// Block and page of each logical page on its chip.
    map: Vec<(u32, u32)>,
}

/// What a collection has to do on its chip before the erase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collection {
    /// Valid pages that were moved.
    pub moves: u32,
}

impl Ftl {
    /// A layer with `logical` pages written once, in blocks of `pages_per_block`, each chip having
    /// `spare` blocks more than its pages need (at least three).
    pub fn new(chips: usize, logical: u32, pages_per_block: u32, spare: u32) -> Ftl {
        assert!(spare >= 3, "a chip needs an active block, a reserve and one to write to");
        let of_chip = logical.div_ceil(chips as u32).div_ceil(pages_per_block) + spare;
        let block = Block { pages: vec![NONE; pages_per_block as usize], valid: 0, erases: 0 };
        let chip = Chip {
            blocks: vec![block; of_chip as usize],
            free: (1..of_chip as usize).rev().collect(),
            active: 0,
            next: 0,
            collecting: None,
            collections: 0,
        };
        let mut ftl = Ftl { chips: vec![chip; chips], map: vec![(NONE, NONE); logical as usize] };
        for page in 0..logical {
            let is_written = ftl.write(page);
            assert!(is_written, "a new layer has room for its pages");
        }
        ftl
    }

    /// Logical pages.
    pub fn pages(&self) -> u32 {
        self.map.len() as u32
    }

    /// The chip of a logical page.
    pub fn chip(&self, page: u32) -> usize {
        page as usize % self.chips.len()
    }

    /// Maps a logical page anew; false when its chip must be collected first.
    pub fn write(&mut self, page: u32) -> bool {
        let chip = self.chip(page);
        if self.chips[chip].is_full() && self.chips[chip].free.len() <= 1 {
            return false;
        }
        self.place(chip, page);
        true
    }

    /// Whether a chip wants a collection now.
    pub fn is_short(&self, chip: usize) -> bool {
        let c = &self.chips[chip];
        c.free.len() <= 2 && c.collecting.is_none()
    }

    /// Chooses a block of a chip and moves its valid pages; [`Ftl::erased`] ends it.
    pub fn collect(&mut self, chip: usize) -> Option<Collection> {
        debug_assert!(self.chips[chip].collecting.is_none(), "chip {chip} is being collected");
        let victim = self.chips[chip].victim()?;
        self.chips[chip].collecting = Some(victim);
        self.chips[chip].collections += 1;
        let valid: Vec<u32> =
            self.chips[chip].blocks[victim].pages.iter().copied().filter(|&p| p != NONE).collect();
        for &page in &valid {
            self.place(chip, page);
        }
        debug_assert_eq!(self.chips[chip].blocks[victim].valid, 0, "a valid page is left");
        Some(Collection { moves: valid.len() as u32 })
    }

    /// The erase of a chip's collection has ended.
    pub fn erased(&mut self, chip: usize) {
        let c = &mut self.chips[chip];
        let block = c.collecting.take().expect("invariant: an erase ends a collection");
        debug_assert_eq!(c.blocks[block].valid, 0, "block {block} is erased with valid pages");
        debug_assert!(!c.free.contains(&block), "block {block} is free twice");
        c.blocks[block].pages.fill(NONE);
        c.blocks[block].erases += 1;
        c.free.push(block);
    }

    /// Fewest and most erases of a block.
    pub fn wear(&self) -> (u64, u64) {
        let erases = || self.chips.iter().flat_map(|c| c.blocks.iter().map(|b| b.erases));
        (erases().min().unwrap_or(0), erases().max().unwrap_or(0))
    }

    /// Checks the map against the blocks.
    ///
    /// # Panics
    /// When they differ.
    pub fn check(&self) {
        for (page, &(block, at)) in self.map.iter().enumerate() {
            let chip = &self.chips[self.chip(page as u32)];
            assert_eq!(chip.blocks[block as usize].pages[at as usize], page as u32, "map");
        }
        let valid: u32 = self.chips.iter().flat_map(|c| c.blocks.iter().map(|b| b.valid)).sum();
        assert_eq!(valid as usize, self.map.len(), "a logical page has one valid copy");
    }

    fn place(&mut self, chip: usize, page: u32) {
        let old = self.map[page as usize];
        let c = &mut self.chips[chip];
        if old.0 != NONE {
            let block = &mut c.blocks[old.0 as usize];
            block.pages[old.1 as usize] = NONE;
            block.valid -= 1;
        }
        if c.is_full() {
            let worn = |&i: &usize| c.blocks[c.free[i]].erases;
            let least = (0..c.free.len()).min_by_key(worn);
            c.active = c.free.swap_remove(least.expect("invariant: a reserve block is left"));
            c.next = 0;
        }
        let (active, at) = (c.active, c.next);
        c.next += 1;
        let block = &c.blocks[active];
        debug_assert_eq!(block.pages[at], NONE, "page {at} is written twice before an erase");
        c.blocks[active].pages[at] = page;
        c.blocks[active].valid += 1;
        self.map[page as usize] = (active as u32, at as u32);
    }
}

impl Chip {
    fn is_full(&self) -> bool {
        self.next == self.blocks[self.active].pages.len()
    }

    fn victim(&self) -> Option<usize> {
        let used = |b: &usize| *b != self.active && !self.free.contains(b);
        let closed = || (0..self.blocks.len()).filter(used);
        if self.collections % LEVEL_EVERY == LEVEL_EVERY - 1 {
            return closed().min_by_key(|&b| self.blocks[b].erases);
        }
        closed().min_by_key(|&b| self.blocks[b].valid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_base::rng::{self, Rng};

    #[test]
    fn overwrites_keep_the_map_and_wear_evenly() {
        let mut ftl = Ftl::new(4, 4 * 6 * 16, 16, 4);
        let mut random = rng::seeded(5);
        for _ in 0..40_000 {
            // Half of all writes hit a tenth of the pages.
            let hot = random.random_range(0..2) == 0;
            let page = random.random_range(0..if hot { ftl.pages() / 10 } else { ftl.pages() });
            let chip = ftl.chip(page);
            while !ftl.write(page) {
                assert!(ftl.collect(chip).is_some(), "a full chip has a block to collect");
                ftl.erased(chip);
            }
            if ftl.is_short(chip) {
                let moved = ftl.collect(chip).unwrap();
                assert!(moved.moves <= 16);
                ftl.erased(chip);
            }
        }
        ftl.check();
        let (least, most) = ftl.wear();
        assert!(least > 0 && most <= 3 * least + 64, "wear from {least} to {most}");
    }
}
