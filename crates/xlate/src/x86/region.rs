//! Regions: the blocks that an entry leads to by branches and jumps to fixed addresses.
//!
//! - A block begins at the entry, at a branch's target, behind a branch, behind a system call and
//!   behind an instruction that runs outside translated code.
//! - A call's target is no part of the region; the instruction behind the call is.
//! - Instructions may overlap: a block is what its first address leads to.
//!
//! Invariants
//! - Blocks stand in the order of their addresses. Checked by `a_loop_and_a_call_are_one_region`.

use super::decode::{Inst, LEN_MAX, Operand, Undecoded, decode};
use super::isa::flag;
use crate::guest::{Fetch, Unfetched};
use littoral_base::mutant;
use std::collections::{BTreeMap, BTreeSet};

/// What the translator assumes of a program beyond the architecture, and what the program's owner
/// asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conventions {
    /// Calls and returns are those of the System V ABI: flags hold nothing across them and across
    /// jumps by register, and upper parts of vector registers only in arguments and results.
    pub abi_calls: bool,
    /// A fault need not show the flags and the upper parts of vector registers that the program
    /// does not read.
    pub lazy_faults: bool,
    /// Other threads see loads and stores in the order that x86 promises.
    pub ordered: bool,
    /// Guest instructions are counted.
    pub counts: bool,
    /// The code has no LBT instruction.
    pub without_lbt: bool,
    /// A thread of the process has denormal numbers count as zeros: arithmetic that meets them runs
    /// outside translated code, as the MXCSR of each thread asks.
    pub flushes: bool,
    /// A region has few instructions: where translating costs as much as executing, most of what a
    /// long region holds is never executed.
    pub short_regions: bool,
    /// Each instruction is translated alone and its code leaves behind it: for programs that step.
    pub single: bool,
}

/// Most instructions of a region.
pub const INSTRUCTIONS_MAX: usize = 300;
/// Most instructions of a short region.
pub const INSTRUCTIONS_SHORT: usize = 32;

/// How a block ends.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// Straight on to this address.
    Goes(u64),
    /// By a branch, jump, call or return.
    Flow(Inst),
    /// At bytes that are no instruction: their address and the first four of them.
    Illegal(u64, u32),
}

/// Instructions that are executed one after the other.
#[derive(Clone, Debug)]
pub struct Block {
    /// Address of the first instruction.
    pub start: u64,
    /// Instructions before the end.
    pub body: Vec<Inst>,
    /// The end.
    pub end: End,
}

/// What stands at an address.
#[derive(Clone, Copy, Debug)]
enum Found {
    Inst(Inst),
    Illegal(u32),
}

/// What stands at addresses.
#[derive(Default)]
struct Instructions {
    list: Vec<Found>,
    /// Places in the list by address.
    places: BTreeMap<u64, u32>,
}

impl Instructions {
    fn has(&self, at: u64) -> bool {
        self.places.contains_key(&at)
    }

    fn add(&mut self, at: u64, found: Found) {
        self.places.insert(at, self.list.len() as u32);
        self.list.push(found);
    }

    fn get(&self, at: u64) -> Option<&Found> {
        self.places.get(&at).map(|&place| &self.list[place as usize])
    }
}

fn find(at: u64, fetch: Fetch<'_>) -> Result<Found, Unfetched> {
    let mut bytes = [0; LEN_MAX];
    let len = fetch(at, &mut bytes);
    let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    match decode(at, &bytes[..len]) {
        Ok(inst) => Ok(Found::Inst(inst)),
        Err(Undecoded::Truncated) => Err(Unfetched { address: at.wrapping_add(len as u64) }),
        Err(Undecoded::Unknown | Undecoded::TooLong) => Ok(Found::Illegal(word)),
    }
}

/// The region that begins at `entry`, of at most `most` instructions.
///
/// # Errors
/// The first instruction cannot be fetched.
pub fn discover(
    entry: u64,
    most: usize,
    conventions: Conventions,
    fetch: Fetch<'_>,
) -> Result<Vec<Block>, Unfetched> {
    find(entry, fetch)?;
    let mut found = Instructions::default();
    let mut leaders = BTreeSet::from([entry]);
    let mut work = vec![entry];
    while let Some(mut at) = work.pop() {
        while found.list.len() < most && !found.has(at) {
            let Ok(what) = find(at, fetch) else { break };
            found.add(at, what);
            let Found::Inst(inst) = what else { break };
            at = inst.end();
            if inst.is_flow() {
                let next = Some(at).filter(|_| inst.comes_back());
                let target = inst.target().filter(|_| !inst.is("call"));
                leaders.extend(target.iter().chain(&next));
                work.extend(target.into_iter().chain(next));
                break;
            }
            // Control comes back here from outside.
            let leaves = inst.is_outside(conventions) && !mutant!("x86_assist_ends_region");
            if inst.is("syscall") || leaves {
                leaders.insert(at);
            }
        }
        // Chains that meet are cut there, or each would have a copy of what follows.
        if found.has(at) {
            leaders.insert(at);
        }
    }
    leaders.retain(|&at| found.has(at));
    Ok(leaders.iter().map(|&start| cut(start, &found, &leaders)).collect())
}

fn cut(start: u64, found: &Instructions, leaders: &BTreeSet<u64>) -> Block {
    let (mut at, mut body) = (start, Vec::new());
    let end = loop {
        match found.get(at) {
            None => break End::Goes(at),
            Some(_) if at != start && leaders.contains(&at) => break End::Goes(at),
            Some(Found::Inst(inst)) if inst.is_flow() => break End::Flow(*inst),
            Some(Found::Inst(inst)) => body.push(*inst),
            Some(Found::Illegal(word)) => break End::Illegal(at, *word),
        }
        at = body.last().map_or(at, Inst::end);
    };
    Block { start, body, end }
}

impl Inst {
    /// Whether a block ends at the instruction.
    pub fn is_flow(&self) -> bool {
        self.row.traits.flow
    }

    /// Whether it is a conditional branch.
    pub fn is_conditional(&self) -> bool {
        self.row.traits.conditional
    }

    /// Whether control may reach the next instruction.
    pub fn comes_back(&self) -> bool {
        self.is_conditional() || self.is("call")
    }

    /// Where a branch, jump or call leads, if the code says so.
    pub fn target(&self) -> Option<u64> {
        self.operands().find_map(|o| match o {
            Operand::Target(target) => Some(target),
            Operand::Reg(_) | Operand::Xmm(_) | Operand::Mm(_) => None,
            Operand::Mem(_) | Operand::Imm(_) => None,
        })
    }

    /// Whether the instruction may access memory or raise an exception.
    pub fn may_fault(&self) -> bool {
        let traits = self.row.traits;
        traits.faults || self.memory().is_some() && !traits.names_only
    }

    /// Whether it runs outside translated code, at least with some operands.
    pub fn is_outside(&self, conventions: Conventions) -> bool {
        self.row.traits.assisted || conventions.flushes && self.row.traits.meets_denormals
    }

    /// Whether it works on vectors and writes no general register.
    pub fn writes_only_vectors(&self) -> bool {
        let has_vector = self.operands().any(|o| matches!(o, Operand::Xmm(_)));
        // pcmpistri and pcmpestri name vectors and write rcx.
        let writes_rcx = self.row.traits.gives_place && !mutant!("x86_strings_keep_rcx");
        has_vector && !writes_rcx && !matches!(self.operand(0), Operand::Reg(_))
    }

    /// Whether all flags must be exact before the instruction, whatever it reads itself.
    pub fn shows_flags(&self) -> bool {
        self.row.traits.shows_flags
    }

    /// The number by which the instruction shifts, if the code says so.
    pub fn fixed_count(&self) -> Option<u32> {
        let last = self.operands().last()?;
        let mask = if self.size_of_first() == 8 { 63 } else { 31 };
        match last {
            Operand::Imm(count) => Some(count as u32 & mask),
            Operand::Reg(_) | Operand::Xmm(_) | Operand::Mm(_) => None,
            Operand::Mem(_) | Operand::Target(_) => None,
        }
    }

    /// Bytes of the first operand.
    pub fn size_of_first(&self) -> u8 {
        match self.operands().next() {
            Some(Operand::Reg(r)) => r.size,
            Some(Operand::Mem(m)) => m.size,
            Some(Operand::Xmm(_)) => 16,
            Some(Operand::Mm(_)) => 8,
            Some(Operand::Imm(_) | Operand::Target(_)) | None => self.size,
        }
    }

    /// Flags that the instruction reads and writes.
    pub fn flags(&self) -> (u8, u8) {
        let (reads, writes) = (self.row.flags.reads, self.row.flags.writes);
        if self.row.traits.shifts {
            let own = if matches!(self.row.stem, "rcl" | "rcr") { flag::C } else { 0 };
            return match self.fixed_count() {
                Some(0) => (0, 0),
                Some(_) => (own, writes),
                None => (reads, writes),
            };
        }
        // A repetition of no element leaves the flags.
        let keeps = self.row.string && self.rep.is_some();
        (if keeps { reads | writes } else { reads }, writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_and_a_call_are_one_region() {
        // dec rax; jne -5; call +0x100; ret
        let code = [0x48, 0xff, 0xc8, 0x75, 0xfb, 0xe8, 0, 1, 0, 0, 0xc3];
        let fetch = |at: u64, bytes: &mut [u8]| {
            let rest = code.get(at.wrapping_sub(0x1000) as usize..).unwrap_or_default();
            let len = rest.len().min(bytes.len());
            bytes[..len].copy_from_slice(&rest[..len]);
            len
        };
        let blocks = discover(0x1000, 300, Conventions::default(), &fetch).expect("a region");
        let starts: Vec<u64> = blocks.iter().map(|b| b.start).collect();
        assert_eq!(starts, [0x1000, 0x1005, 0x100a]);
        assert!(matches!(blocks[2].end, End::Flow(ret) if ret.is("ret")));
        let missing = discover(0x2000, 300, Conventions::default(), &fetch);
        assert_eq!(missing.unwrap_err(), Unfetched { address: 0x2000 });
    }
}
