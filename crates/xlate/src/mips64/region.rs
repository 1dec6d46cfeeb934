//! Regions: the blocks that an entry leads to by branches and jumps to fixed addresses.
//!
//! - A block begins at the entry, at a branch's target, behind a delay slot, behind a system call.
//! - A call's target is no part of the region; the instruction behind the call is.
//! - An instruction whose word cannot be fetched is no part of the region: control leaves there.
//!
//! Invariants
//! - Blocks stand in the order of their addresses. Checked by `a_loop_and_a_call_are_one_region`.

use super::isa::Inst;
pub use crate::guest::Unfetched;
use std::collections::{BTreeMap, BTreeSet};

/// Most instructions of a region.
const INSTRUCTIONS_MAX: usize = 400;

/// How a block ends.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// Straight on to this address.
    Goes(u64),
    /// By a branch or jump with the instruction of its delay slot.
    Branch(Inst, Inst),
    /// At a word that is no instruction: its address (of the branch, if it is a delay slot).
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
    Plain(Inst),
    Branch(Inst, Inst),
    Illegal(u32),
}

fn find(at: u64, fetch: &dyn Fn(u64) -> Option<u32>) -> Result<Found, Unfetched> {
    let get = |address| fetch(address).ok_or(Unfetched { address });
    let word = get(at)?;
    let Some(inst) = Inst::decode(at, word) else { return Ok(Found::Illegal(word)) };
    if !inst.is_branch() {
        return Ok(Found::Plain(inst));
    }
    let slot_at = at.wrapping_add(4);
    let slot_word = get(slot_at)?;
    Ok(match Inst::decode(slot_at, slot_word) {
        Some(slot) if !slot.is_branch() && !slot.ends_block() => Found::Branch(inst, slot),
        _ => Found::Illegal(slot_word),
    })
}

/// The region that begins at `entry`.
///
/// # Errors
/// The first instruction cannot be fetched.
pub fn discover(entry: u64, fetch: &dyn Fn(u64) -> Option<u32>) -> Result<Vec<Block>, Unfetched> {
    find(entry, fetch)?;
    let mut found = BTreeMap::new();
    let mut leaders = BTreeSet::from([entry]);
    let mut work = vec![entry];
    while let Some(mut at) = work.pop() {
        while found.len() < INSTRUCTIONS_MAX && !found.contains_key(&at) {
            let Ok(what) = find(at, fetch) else { break };
            found.insert(at, what);
            match what {
                Found::Plain(inst) => {
                    at = at.wrapping_add(4);
                    if inst.ends_block() {
                        leaders.insert(at);
                    }
                    continue;
                }
                Found::Branch(inst, _) => {
                    let behind = Some(at.wrapping_add(8)).filter(|_| inst.returns_or_falls());
                    let target = inst.target().filter(|_| !inst.is_call());
                    leaders.extend(target.iter().chain(&behind));
                    work.extend(target.into_iter().chain(behind));
                }
                Found::Illegal(_) => {}
            }
            break;
        }
    }
    leaders.retain(|at| found.contains_key(at));
    Ok(leaders.iter().map(|&start| cut(start, &found, &leaders)).collect())
}

fn cut(start: u64, found: &BTreeMap<u64, Found>, leaders: &BTreeSet<u64>) -> Block {
    let (mut at, mut body) = (start, Vec::new());
    let end = loop {
        match found.get(&at) {
            None => break End::Goes(at),
            Some(_) if at != start && leaders.contains(&at) => break End::Goes(at),
            Some(Found::Plain(inst)) => body.push(*inst),
            Some(Found::Branch(inst, slot)) => break End::Branch(*inst, *slot),
            Some(Found::Illegal(word)) => break End::Illegal(at, *word),
        }
        at = at.wrapping_add(4);
    };
    Block { start, body, end }
}

impl Block {
    /// Instructions that are executed whenever the block is: the slot of a likely branch is not.
    pub fn len(&self) -> usize {
        self.body.len()
            + match self.end {
                End::Branch(branch, _) if branch.is_likely() => 1,
                End::Branch(..) => 2,
                End::Goes(_) | End::Illegal(..) => 0,
            }
    }

    /// Whether nothing is executed but what stands at its end.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Inst {
    /// Whether a block ends behind the instruction although control goes on there.
    pub fn ends_block(&self) -> bool {
        matches!(self.special(), Some(("syscall" | "synci", _)))
    }

    /// Whether it is a call: control comes back behind the delay slot.
    pub fn is_call(&self) -> bool {
        match self.special() {
            Some(("jal" | "jalr", _)) => true,
            Some(("branch", words)) => words.contains(&"link"),
            _ => false,
        }
    }

    /// Whether control may reach the instruction behind the delay slot.
    pub fn returns_or_falls(&self) -> bool {
        self.is_call() || self.may_fall()
    }

    /// Whether control may reach it without a jump or a call: a condition may fail.
    pub fn may_fall(&self) -> bool {
        !["j", "jr", "jal", "jalr"].iter().any(|kind| self.is(kind)) && !self.is_always()
    }

    /// Whether it is a conditional branch whose condition always holds.
    pub fn is_always(&self) -> bool {
        use super::isa::Field::{S, T};
        match self.special() {
            Some(("branch", ["beq", ..])) => self.get(S) == self.get(T),
            Some(("branch", ["bge" | "ble", ..])) => self.get(S) == 0,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_and_a_call_are_one_region() {
        // addiu $4,$4,-1; bne $4,$0,-2; nop; jal 0; nop; jr $31; nop
        let code = [0x2484_ffffu32, 0x1480_fffe, 0, 0x0c00_0000, 0, 0x03e0_0008, 0];
        let fetch = |at: u64| code.get((at as usize - 0x1000) / 4).copied();
        let blocks = discover(0x1000, &fetch).expect("a region");
        let starts: Vec<u64> = blocks.iter().map(|b| b.start).collect();
        assert_eq!(starts, [0x1000, 0x100c, 0x1014]);
        assert!(matches!(blocks[2].end, End::Branch(jr, _) if jr.is("jr")));
        assert_eq!(discover(0x2000, &|_| None).unwrap_err(), Unfetched { address: 0x2000 });
    }
}
