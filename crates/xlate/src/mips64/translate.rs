//! From an entry to a region of LA64 code.

use super::fuse::{Tail, fuse};
use super::isa::{HI, Inst, LO, RA};
use super::lower::Lower;
use super::region::{Block, End, Unfetched, discover};
use crate::code::Region;
use crate::ir::{RegSet, Summary, live_out};
use littoral_base::mutant;

/// What the translator assumes of a program beyond the architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conventions {
    /// HI and LO hold nothing across calls and returns, as the N64 ABI says. A jump by another
    /// register than 31 may be one inside a function, as that of a table is.
    pub calls_lose_products: bool,
}

/// The most LA64 words that a region may have.
pub const WORDS_MAX: usize = 1 << 15;

/// Translates the region at `entry` for the LA64 address `base`.
///
/// # Errors
/// The first instruction cannot be fetched.
pub fn translate(
    entry: u64,
    base: u64,
    (conventions, counts): (Conventions, bool),
    fetch: &dyn Fn(u64) -> Option<u32>,
) -> Result<Region, Unfetched> {
    let blocks = discover(entry, fetch)?;
    let live = live_behind(&blocks, conventions);
    let mut lower = Lower::new(base, &blocks, counts);
    // The entry comes first, so that the region's first word can be entered; the others follow in
    // the order of their addresses.
    let first = blocks.iter().position(|b| b.start == entry).unwrap_or(0);
    let order: Vec<usize> = (first..blocks.len()).chain(0..first).collect();
    for (place, &n) in order.iter().enumerate() {
        let next = order.get(place + 1).map(|&m| blocks[m].start);
        let branch = match blocks[n].end {
            End::Branch(branch, slot) => Some((branch, slot)),
            End::Goes(_) | End::Illegal(..) => None,
        };
        let fused = fuse(&blocks[n].body, &Tail { branch, live: live[n] });
        lower.block(&blocks[n], &fused, next);
    }
    Ok(lower.finish())
}

fn live_behind(blocks: &[Block], conventions: Conventions) -> Vec<RegSet> {
    let place = |at: u64| blocks.binary_search_by_key(&at, |b| b.start).ok();
    let lost = RegSet::ALL.without(HI).without(LO);
    let summaries: Vec<Summary> = blocks
        .iter()
        .map(|block| {
            let mut summary = Summary::default();
            block.body.iter().for_each(|i| summary.add(i.needs(), i.writes()));
            let mut to = |at: u64| match place(at) {
                Some(n) => summary.next.push(n),
                None => summary.leaves = RegSet::ALL,
            };
            match block.end {
                End::Goes(at) => to(at),
                End::Illegal(..) => summary.leaves = RegSet::ALL,
                End::Branch(branch, slot) => {
                    let is_made = branch.is_call() && mutant!("mips64_conditional_calls_are_made");
                    if branch.may_fall() && !is_made {
                        to(branch.at.wrapping_add(8));
                    }
                    match branch.target().filter(|_| !branch.is_call()) {
                        Some(target) => to(target),
                        None if conventions.calls_lose_products && crosses(&branch) => {
                            summary.leaves = summary.leaves.union(lost);
                        }
                        None => summary.leaves = RegSet::ALL,
                    }
                    summary.add(branch.reads(), branch.writes());
                    // A slot that is skipped writes nothing.
                    let written =
                        if branch.is_likely() { RegSet::default() } else { slot.writes() };
                    summary.add(slot.needs(), written);
                }
            }
            summary
        })
        .collect();
    live_out(&summaries)
}

/// Whether a branch to no fixed address of the region is a call or a return.
fn crosses(branch: &Inst) -> bool {
    let returns = branch.is("jr") && branch.reads().has(RA);
    branch.is_call() || returns || mutant!("mips64_tables_lose_products")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often the region of `code` writes HI or LO, where calls lose them.
    fn product_writes(code: &[u32]) -> usize {
        let fetch = |at: u64| code.get((at as usize - 0x1000) / 4).copied();
        let conventions = Conventions { calls_lose_products: true };
        let region = translate(0x1000, 0x200_0000, (conventions, false), &fetch).expect("a region");
        let texts = region.words.iter().filter_map(|&word| littoral_la64::isa::disassemble(word));
        texts.filter(|text| text.starts_with("movgr2scr")).count()
    }

    #[test]
    fn a_jump_by_a_table_keeps_the_product() {
        // mult $4,$5; mflo $2; jr $3 or $31; nop
        let writes = |jump: u32| product_writes(&[0x0085_0018, 0x0000_1012, jump, 0]);
        assert_eq!(writes(0x0060_0008), 2, "of HI and LO");
        assert_eq!(writes(0x03e0_0008), 0, "of HI and LO");
    }

    #[test]
    fn a_call_that_is_not_made_keeps_the_product() {
        // mult $4,$5; mflo $2; bltzal $6,16; nop; mfhi $3; jr $31; nop
        let code = [0x0085_0018u32, 0x0000_1012, 0x04d0_0010, 0, 0x0000_1810, 0x03e0_0008, 0];
        assert_eq!(product_writes(&code), 2, "of HI and LO");
    }
}
