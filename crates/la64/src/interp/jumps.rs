//! From guest addresses to blocks of tier 0, for indirect branches: direct-mapped, one table per
//! thread, probed by handlers. It exists when a thread interprets.
//!
//! - An entry that holds no block holds an address of another place, which nothing finds there.
//! - A table is for one generation of code: [`Jumps::for_code`] empties it when that changes.

/// Entries are 2 to this power.
pub(super) const TABLE_BITS: u32 = 14;

/// The table: pairs of guest address and place of the code.
#[derive(Debug)]
pub(super) struct Jumps {
    table: Box<[[u64; 2]]>,
    /// Places in use.
    used: Vec<u32>,
    /// Number of the code that entries lead to.
    code: u64,
}

/// The place of a guest address in the table.
#[inline(always)]
pub(super) fn place(pc: u64) -> usize {
    (pc >> 2) as usize & ((1 << TABLE_BITS) - 1)
}

fn empty(place: usize) -> [u64; 2] {
    [if place == 0 { 4 } else { 0 }, 0]
}

impl Default for Jumps {
    /// Zeroed pages take memory when they are written.
    fn default() -> Jumps {
        let mut table = vec![[0; 2]; 1 << TABLE_BITS].into_boxed_slice();
        table[0] = empty(0);
        Jumps { table, used: Vec::new(), code: 0 }
    }
}

impl Jumps {
    /// Empties the table unless its entries lead to the code of this number.
    pub(super) fn for_code(&mut self, number: u64) -> &mut Jumps {
        if self.code != number {
            for at in self.used.drain(..) {
                self.table[at as usize] = empty(at as usize);
            }
            self.code = number;
        }
        self
    }

    /// Lets `pc` lead to `code`.
    pub(super) fn set(&mut self, pc: u64, code: u64) {
        let at = place(pc);
        if self.table[at][1] == 0 {
            self.used.push(at as u32);
        }
        self.table[at] = [pc, code];
    }

    /// Where it is.
    pub(super) fn address(&self) -> *const [u64; 2] {
        self.table.as_ptr()
    }
}
