//! Translated code: what a region becomes, and where regions are kept.
//!
//! - A region's words lie in a code area; its entries are written to the table of entries.
//! - Each LA64 instruction belongs to a [`Mark`], which names the guest instruction.
//! - An exit is a `break` (or a load of the table of entries) whose address is known here. Where
//!   the host's processor executes the code, a `bl` to the routine of the area takes the place of
//!   each `break` and `syscall`, or a `b` to instructions behind the region that leave (see
//!   `littoral_la64::native`).
//!
//! Invariants
//! - Code is never moved or overwritten except for exits that become branches. Checked by
//!   `regions_lie_one_behind_the_other`.

use crate::layout::{AREA_BYTES, Layout};
use littoral_base::mutant;
use littoral_la64::asm;
use littoral_la64::memory::Window;
use littoral_la64::native::{Leaves, Routine};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// How a guest register gets its value at a fault, in LA64 registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fix {
    /// To, a, b, amount: a + (b << amount).
    Sum(u8, u8, u8, u8),
    /// To, a, b: whether a is less than b, unsigned if the last says so.
    Less(u8, u8, u8, bool),
}

/// LA64 instructions from `word` to the next mark belong to one guest instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Place of the first instruction, in words from the region's begin.
    pub word: u32,
    /// Guest address at which the state is exact before the first instruction.
    pub pc: u64,
    /// Address of the guest instruction that faults if one of these faults.
    pub fault_pc: u64,
    /// Whether the state is exact before the first instruction; otherwise `pc` is where the guest
    /// instruction begins anew.
    pub is_exact: bool,
    /// Registers that a fault finds saved: in LBT scratch register 3, in the upper half of v30; 0
    /// for none.
    pub spilled: [u8; 2],
    /// Register of floating point that a fault finds saved in the general scratch register.
    pub spilled_float: Option<u8>,
    /// What makes the state exact if one of the instructions faults.
    pub fix: Option<Fix>,
}

/// Where the target of an indirect jump is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In an LA64 general register.
    Register(u8),
    /// In the upper half of the vector register for it.
    Upper,
}

/// What comes behind an instruction that was translated alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// The instruction at this address.
    Next(u64),
    /// The one whose address is in the register `Architecture::LINK`.
    Linked,
    /// The instruction itself, at this address: it repeats, and is not done yet.
    Again(u64),
}

/// Why control leaves translated code at an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// To a guest address; the branch at this place (words from the region's begin) led to the
    /// exit.
    Direct {
        /// Where to.
        pc: u64,
        /// The branch.
        branch: u32,
    },
    /// To an address that only the run knows.
    Indirect(Source),
    /// A word that is no instruction.
    Illegal(u32),
    /// The guest's `break` with its code.
    Break(u32),
    /// A trap instruction whose condition holds, with its code.
    Trap(u32),
    /// An addition that overflows.
    Overflow,
    /// A floating-point exception that the program asks for by writing its control register.
    Float,
    /// Code may have changed; control goes on at this address.
    Changed(u64),
    /// A division by zero, or a quotient that does not fit.
    Divide,
    /// An instruction that only the system may execute.
    Privileged,
    /// A system call; control goes on at this address.
    Syscall(u64),
    /// The guest instruction at this address is executed by `Architecture::assist`.
    Assist(u64),
    /// An instruction that was translated alone has been executed.
    Single(Behind),
}

/// A translated region before it has a place.
#[derive(Debug, Default)]
pub struct Region {
    /// LA64 code.
    pub words: Vec<u32>,
    /// In order of their places.
    pub marks: Vec<Mark>,
    /// By place.
    pub exits: Vec<(u32, Exit)>,
    /// Guest addresses and places at which control may enter.
    pub entries: Vec<(u64, u32)>,
    /// Places of `syscall`.
    pub calls: Vec<u32>,
    /// Guest instructions translated.
    pub guest_count: u64,
    /// Blocks whose instructions are counted where they begin, by place.
    pub counted: Vec<Counted>,
}

/// LA64 instructions by which a block counts its instructions.
pub const COUNTING: i64 = 6;

/// A block that counts its instructions before it executes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Place of the first word at which all of them are counted, in words from the region's begin;
    /// up to the next entry.
    pub word: u32,
    /// Guest addresses of the instructions, in the order of execution.
    pub pcs: Arc<[u64]>,
}

#[derive(Debug)]
struct Placed {
    base: u64,
    len: u32,
    marks: Vec<Mark>,
    counted: Vec<Counted>,
}

/// All translated code of a program.
#[derive(Debug)]
pub struct Store {
    layout: Layout,
    area: usize,
    next: u64,
    regions: BTreeMap<u64, Placed>,
    exits: HashMap<u64, (u64, Exit)>,
    /// Entries that were written, for [`Store::clear`].
    entries: Vec<u64>,
    /// Exits that became branches, for [`Store::clear`].
    links: Vec<Linked>,
    /// How often [`Store::clear`] came.
    generation: u64,
    /// How code leaves, where the host's processor executes it.
    native: Option<(Leaves, Arc<Routine>)>,
    /// Areas that begin with the routine, by their begins.
    with_routine: Vec<u64>,
    /// Exits and system calls by the address of the `bl` behind the region that leaves for them.
    left_for: HashMap<u64, u64>,
    /// System calls whose `syscall` has become a way to leave.
    calls: HashSet<u64>,
}

/// An exit that became a branch: what stood there and at the branch that led to it.
#[derive(Debug)]
struct Linked {
    at: u64,
    exit: (u64, Exit),
    words: [(u64, u32); 2],
}

/// No code area has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Store {
    /// A store without code.
    ///
    /// # Panics
    /// If the layout has no code area.
    pub fn new(layout: Layout) -> Store {
        let next = layout.area(0).expect("invariant: a layout has a code area");
        Store {
            layout,
            area: 0,
            next,
            regions: BTreeMap::new(),
            exits: HashMap::new(),
            entries: Vec::new(),
            links: Vec::new(),
            generation: 0,
            native: None,
            with_routine: Vec::new(),
            left_for: HashMap::new(),
            calls: HashSet::new(),
        }
    }

    /// An empty store of code that leaves by a routine, which each area begins with.
    pub fn native(layout: Layout, native: Option<(Leaves, Arc<Routine>)>) -> Store {
        let mut store = Store { native, ..Store::new(layout) };
        store.next += store.routine_len();
        store
    }

    /// Bytes of an area that come before code.
    fn routine_len(&self) -> u64 {
        self.native.as_ref().map_or(0, |(_, routine)| routine.len_bytes())
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Where the next region begins, if it has at most `words` instructions.
    pub fn place(&mut self, words: usize) -> Result<u64, Full> {
        let bytes = 4 * words as u64;
        loop {
            while !self.layout.admits(self.next) && self.layout.is_code(self.next) {
                self.next += 4;
            }
            let begin = self.layout.area(self.area).ok_or(Full)?;
            if self.next + bytes <= begin + AREA_BYTES {
                return Ok(self.next);
            }
            self.area += 1;
            self.next = self.layout.area(self.area).ok_or(Full)? + self.routine_len();
        }
    }

    /// Writes a region to the place that [`Store::place`] has named, and its entries to the table.
    pub fn add(&mut self, window: &Window, base: u64, region: Region) -> Option<()> {
        assert_eq!(base, self.next, "regions are written where the store said");
        let len = region.words.len() as u32;
        debug_assert!(region.marks.is_sorted_by_key(|mark| mark.word), "marks lie by place");
        debug_assert!(region.entries.iter().all(|e| e.1 < len), "an entry behind {len} words");
        debug_assert!(region.exits.iter().all(|e| e.0 < len), "an exit behind {len} words");
        let at = |word: u32| base + 4 * u64::from(word);
        let mut words = region.words;
        if let Some((leaves, routine)) = self.native.clone() {
            let begin = base & !(AREA_BYTES - 1);
            if !self.with_routine.contains(&begin) {
                write_words(window, begin, routine.words())?;
                self.with_routine.push(begin);
            }
            self.calls.extend(region.calls.iter().map(|&word| at(word)));
            let is_break =
                |(word, exit): &(u32, Exit)| (!matches!(exit, Exit::Indirect(_))).then_some(*word);
            let breaks = region.exits.iter().filter_map(is_break);
            for word in breaks.chain(region.calls) {
                self.leave_for(&mut words, (leaves, &routine), (begin, base), word)?;
            }
        }
        write_words(window, base, &words)?;
        for (word, exit) in region.exits {
            self.exits.insert(at(word), (base, exit));
        }
        for (pc, word) in region.entries {
            self.set_entry(window, pc, at(word))?;
        }
        let len = words.len() as u32;
        self.next = base + 4 * u64::from(len);
        self.regions
            .insert(base, Placed { base, len, marks: region.marks, counted: region.counted });
        Some(())
    }

    /// Lets the instruction at a place of the region at `base` leave by the routine at `begin`.
    fn leave_for(
        &mut self,
        words: &mut Vec<u32>,
        (leaves, routine): (Leaves, &Routine),
        (begin, base): (u64, u64),
        word: u32,
    ) -> Option<()> {
        let at = |word: usize| base + 4 * word as u64;
        if !leaves.keeps_link {
            words[word as usize] = *leaves.words(routine, begin, at(word as usize))?.first()?;
            return Some(());
        }
        let behind = words.len();
        words[word as usize] = asm::word("b", &[4 * (behind as i64 - i64::from(word))])?;
        words.extend(leaves.words(routine, begin, at(behind + 1))?);
        self.left_for.insert(at(behind + 1), at(word as usize));
        Some(())
    }

    /// The exit or system call at whose instruction, or for which, code has left by the `bl` at an
    /// address; and whether it is a system call.
    pub fn left(&self, at: u64) -> (u64, bool) {
        let exit = self.left_for.get(&at).copied().unwrap_or(at);
        (exit, self.calls.contains(&exit))
    }

    fn set_entry(&mut self, window: &Window, pc: u64, address: u64) -> Option<()> {
        if self.layout.admits(address) && self.entry(window, pc).is_none() {
            window.store::<u32>(self.layout.entry(pc), address as u32)?;
            self.entries.push(pc);
        }
        Some(())
    }

    /// The LA64 code of a guest address.
    pub fn entry(&self, window: &Window, pc: u64) -> Option<u64> {
        if !self.layout.is_guest(pc) {
            return None;
        }
        let address = u64::from(window.load::<u32>(self.layout.entry(pc))?);
        // The guest may have stored here by a wild address.
        (self.layout.admits(address) && self.mark(address).is_some()).then_some(address)
    }

    /// The exit at an LA64 address, and where its region begins.
    pub fn exit(&self, address: u64) -> Option<(u64, Exit)> {
        self.exits.get(&address).copied()
    }

    /// The mark of an LA64 address, and whether the address is the mark's first instruction.
    pub fn mark(&self, address: u64) -> Option<(Mark, bool)> {
        let (_, placed) = self.regions.range(..=address).next_back()?;
        let word = ((address - placed.base) / 4) as u32;
        if word >= placed.len {
            return None;
        }
        let behind = placed.marks.partition_point(|m| m.word <= word);
        let mark = *placed.marks[..behind].last()?;
        Some((mark, mark.word == word))
    }

    /// Instructions that the block at an LA64 address has counted and not executed, if control
    /// leaves it at the guest address `pc`.
    pub fn uncounted(&self, address: u64, pc: u64) -> u64 {
        if mutant!("xlate_left_block_counts_whole") {
            return 0;
        }
        let Some((_, placed)) = self.regions.range(..=address).next_back() else { return 0 };
        let word = ((address - placed.base) / 4) as u32;
        let behind = placed.counted.partition_point(|c| c.word <= word);
        let Some(block) = placed.counted[..behind].last() else { return 0 };
        let executed = block.pcs.iter().position(|&at| at == pc);
        executed.map_or(0, |executed| (block.pcs.len() - executed) as u64)
    }

    /// Changes whenever all code is forgotten: an address of code from before leads to old code.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Makes an exit lead to `target` without leaving: the `break` becomes a branch, and so does
    /// the branch before it if it reaches. Not if the target is code of another generation.
    pub fn link(
        &mut self,
        window: &Window,
        exit: u64,
        (target, generation): (u64, u64),
    ) -> Option<()> {
        if generation != self.generation && !mutant!("xlate_links_to_forgotten_code") {
            return None;
        }
        let (base, Exit::Direct { branch, .. }) = self.exit(exit)? else { return None };
        let jump = asm::word("b", &[target.wrapping_sub(exit) as i64])?;
        let branch = base + 4 * u64::from(branch);
        let word = window.load::<u32>(branch)?;
        let words = [(exit, window.load::<u32>(exit)?), (branch, word)];
        self.links.push(Linked { at: exit, exit: self.exit(exit)?, words });
        window.store::<u32>(exit, jump)?;
        let retargeted = retarget(word, target.wrapping_sub(branch) as i64);
        if let Some(word) = retargeted.filter(|_| branch != exit) {
            window.store::<u32>(branch, word)?;
        }
        self.exits.remove(&exit);
        Some(())
    }

    /// Forgets which guest addresses have code. The code stays, because threads may be inside it,
    /// and its exits lead out of it again.
    pub fn clear(&mut self, window: &Window) -> Option<()> {
        self.generation += 1;
        for link in std::mem::take(&mut self.links) {
            self.exits.insert(link.at, link.exit);
            for (at, word) in link.words {
                window.store::<u32>(at, word)?;
            }
        }
        for pc in std::mem::take(&mut self.entries) {
            window.store::<u32>(self.layout.entry(pc), 0)?;
        }
        Some(())
    }

    /// Gives the code areas free, which no thread is inside. Comes behind [`Store::clear`].
    pub fn empty(&mut self) {
        assert!(self.entries.is_empty(), "no entry leads into code that goes");
        *self = Store::native(self.layout.clone(), self.native.take());
    }

    /// Bytes of code.
    pub fn code_bytes(&self) -> u64 {
        self.regions.values().map(|r| 4 * u64::from(r.len)).sum()
    }
}

fn write_words(window: &Window, at: u64, words: &[u32]) -> Option<()> {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    window.write(at, &bytes)
}

/// A branch with another offset, if it reaches.
fn retarget(word: u32, offset: i64) -> Option<u32> {
    let id = littoral_la64::isa::decode(word)?;
    let mut operands: Vec<i64> = littoral_la64::isa::operands(id, word).map(i64::from).collect();
    *operands.last_mut()? = offset;
    littoral_la64::isa::encode(id, &operands)
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_la64::memory::Memory;

    #[test]
    fn regions_lie_one_behind_the_other() {
        let layout =
            Layout { areas: vec![2], entries: 0x300_0000, guest_end: 0x1_0000, alignment: 4 };
        let window = Memory::leaked(0x400_0000);
        let mut store = Store::new(layout);
        let mut bases = Vec::new();
        for n in 0..3u64 {
            let base = store.place(4).unwrap();
            let mark = Mark {
                word: 0,
                pc: 4 * n,
                fault_pc: 4 * n,
                is_exact: true,
                spilled: [0; 2],
                spilled_float: None,
                fix: None,
            };
            let direct = Exit::Direct { pc: 0, branch: 3 };
            let region = Region {
                words: vec![0x1500_0000 + n as u32; 4],
                marks: vec![mark],
                exits: vec![(3, direct)],
                entries: vec![(4 * n, 0)],
                calls: Vec::new(),
                guest_count: 1,
                counted: Vec::new(),
            };
            store.add(&window, base, region).unwrap();
            bases.push(base);
        }
        assert!(bases.windows(2).all(|w| w[1] == w[0] + 16));
        assert_eq!(store.entry(&window, 4), Some(bases[1]));
        assert_eq!(store.mark(bases[1] + 8).unwrap().0.pc, 4);
        let generation = store.generation();
        store.link(&window, bases[2] + 12, (bases[0], generation)).unwrap();
        let branch = asm::word("b", &[bases[0] as i64 - bases[2] as i64 - 12]);
        assert_eq!(window.load::<u32>(bases[2] + 12), branch);
        assert_eq!(window.load::<u32>(bases[2] + 8), Some(0x1500_0002));
        assert_eq!(store.exit(bases[2] + 12), None);
        store.clear(&window).unwrap();
        assert_eq!(store.entry(&window, 4), None);
        assert_eq!(window.load::<u32>(bases[2] + 12), Some(0x1500_0002), "it leads out again");
        assert!(store.exit(bases[2] + 12).is_some());
        // As from a thread that has found the target before.
        assert_eq!(store.link(&window, bases[2] + 12, (bases[0], generation)), None);
        assert!(store.exit(bases[2] + 12).is_some());
        store.empty();
        assert_eq!(store.place(4), Ok(bases[0]));
    }
}
