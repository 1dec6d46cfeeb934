//! From an entry to a region of LA64 code.

use super::isa::flag;
use super::lanes;
use super::lower::Lower;
use super::region::{Block, Conventions, End, INSTRUCTIONS_MAX, INSTRUCTIONS_SHORT, discover};
use crate::code::Region;
use crate::guest::{Fetch, Unfetched};
use crate::ir::{RegSet, Summary, live_out};

/// The most LA64 words that a region may have.
pub const WORDS_MAX: usize = 1 << 15;

/// Translates the region at `entry` for the LA64 address `base`.
///
/// # Errors
/// The first instruction cannot be fetched.
pub fn translate(
    entry: u64,
    base: u64,
    conventions: Conventions,
    fetch: Fetch<'_>,
) -> Result<Region, Unfetched> {
    let mut most = match (conventions.single, conventions.short_regions) {
        (true, _) => 1,
        (false, true) => INSTRUCTIONS_SHORT,
        (false, false) => INSTRUCTIONS_MAX,
    };
    loop {
        let blocks = discover(entry, most, conventions, fetch)?;
        match region(entry, base, conventions, &blocks) {
            Some(region) => return Ok(region),
            // Too long for its place, or for a branch in it.
            None => {
                assert!(most > 1, "invariant: one instruction is short enough");
                most /= 2;
            }
        }
    }
}

/// The code of blocks, unless it is too long.
fn region(entry: u64, base: u64, conventions: Conventions, blocks: &[Block]) -> Option<Region> {
    let live = live_behind(blocks, conventions);
    let lanes = lanes::live_behind(blocks, conventions);
    let mut lower = Lower::new(base, blocks, conventions);
    // The entry comes first, so that the region's first word can be entered; the others follow in
    // the order of their addresses.
    let first = blocks.iter().position(|b| b.start == entry).unwrap_or(0);
    let order: Vec<usize> = (first..blocks.len()).chain(0..first).collect();
    for (place, &n) in order.iter().enumerate() {
        let next = order.get(place + 1).map(|&m| blocks[m].start);
        lower.block(&blocks[n], (live[n], lanes[n]), next);
    }
    lower.finish().filter(|region| region.words.len() <= WORDS_MAX)
}

/// Flags as registers of a set.
fn set(flags: u8) -> RegSet {
    (0..6).filter(|n| flags >> n & 1 == 1).collect()
}

/// The flags that are live behind each block.
fn live_behind(blocks: &[Block], conventions: Conventions) -> Vec<u8> {
    let place = |at: u64| blocks.binary_search_by_key(&at, |b| b.start).ok();
    let all = set(flag::ALL);
    let summaries: Vec<Summary> = blocks
        .iter()
        .map(|block| {
            let mut summary = Summary::default();
            let flow = match block.end {
                End::Flow(inst) => Some(inst),
                End::Goes(_) | End::Illegal(..) => None,
            };
            for inst in block.body.iter().chain(&flow) {
                let (reads, writes) = super::lower::flags_of(inst, conventions);
                summary.add(set(reads), set(writes));
            }
            let mut to = |at: u64| match place(at) {
                Some(n) => summary.next.push(n),
                None => summary.leaves = all,
            };
            match block.end {
                End::Goes(at) => to(at),
                End::Illegal(..) => summary.leaves = all,
                End::Flow(inst) if inst.is_conditional() => {
                    to(inst.end());
                    inst.target().into_iter().for_each(to);
                }
                End::Flow(inst) => match inst.target().filter(|_| !inst.is("call")) {
                    Some(target) => to(target),
                    None if conventions.abi_calls => {}
                    None => summary.leaves = all,
                },
            }
            summary
        })
        .collect();
    let bits = |set: RegSet| (0..6).fold(0, |flags, n| flags | u8::from(set.has(n)) << n);
    live_out(&summaries).into_iter().map(bits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_exchange_has_barriers_around_and_between_its_loads() {
        // lock cmpxchg16b [rdi]; hlt
        let code = [0xf0, 0x48, 0x0f, 0xc7, 0x0f, 0xf4];
        let fetch = |at: u64, bytes: &mut [u8]| {
            let rest = code.get(at.wrapping_sub(0x1000) as usize..).unwrap_or_default();
            let len = rest.len().min(bytes.len());
            bytes[..len].copy_from_slice(&rest[..len]);
            len
        };
        let conventions = Conventions::default();
        let region = translate(0x1000, 0x200_0000, conventions, &fetch).expect("a region");
        let texts = region.words.iter().filter_map(|&word| littoral_la64::isa::disassemble(word));
        let begin = |text: String| text.split(" $").next().unwrap_or_default().to_string();
        let is_access = |text: &String| {
            ["dbar", "ll.d", "ld.d", "sc.q"].iter().any(|name| text.starts_with(name))
        };
        let accesses: Vec<String> = texts.map(begin).filter(is_access).collect();
        assert_eq!(accesses, ["dbar 0x0", "ll.d", "dbar 0x14", "ld.d", "sc.q", "dbar 0x0"]);
    }
}
