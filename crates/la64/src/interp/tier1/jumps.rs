//! From guest addresses to code, for indirect branches: direct-mapped, probed by generated code.
//!
//! An entry that holds no code holds an address of another place, which nothing finds there.

/// Entries are 2 to this power.
pub(super) const TABLE_BITS: u32 = 14;

/// The table: pairs of guest address and host address.
#[derive(Debug)]
pub(super) struct Jumps {
    table: Box<[[u64; 2]]>,
    /// Places in use.
    used: Vec<u32>,
}

fn place(pc: u64) -> usize {
    (pc >> 2) as usize & ((1 << TABLE_BITS) - 1)
}

fn empty(place: usize) -> [u64; 2] {
    [if place == 0 { 4 } else { 0 }, 0]
}

impl Default for Jumps {
    fn default() -> Jumps {
        Jumps { table: (0..1 << TABLE_BITS).map(empty).collect(), used: Vec::new() }
    }
}

impl Jumps {
    /// Lets `pc` lead to `code`.
    pub(super) fn set(&mut self, pc: u64, code: u64) {
        let at = place(pc);
        if self.table[at][1] == 0 {
            self.used.push(at as u32);
        }
        self.table[at] = [pc, code];
    }

    /// Empties the table.
    pub(super) fn clear(&mut self) {
        for at in self.used.drain(..) {
            self.table[at as usize] = empty(at as usize);
        }
    }

    /// Where it is, for generated code.
    pub(super) fn address(&self) -> u64 {
        self.table.as_ptr() as u64
    }
}
