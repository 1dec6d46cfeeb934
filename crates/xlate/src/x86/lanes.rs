//! Upper parts of vector registers that the program reads: a scalar operation keeps only those.
//!
//! A set has bit n for bits 32 to 63 of xmm n, and bit 16 + n for bits 64 to 127. Its sense is that
//! of liveness: what some path reads before it writes it.
//!
//! Where control leaves the region all parts are live, but for what the System V ABI says of calls
//! and returns ([`Conventions::abi_calls`]). Only with [`Conventions::lazy_faults`] are parts dead
//! at all, because otherwise each fault shows them.

use super::decode::{Inst, Operand};
use super::region::{Block, Conventions, End};
use littoral_base::mutant;

/// Every part.
pub(super) const ALL: u32 = u32::MAX;
/// Parts that arguments and results may have: xmm0 to xmm7, xmm0 and xmm1.
const ARGUMENTS: u32 = 0x00ff_00ff;
const RESULTS: u32 = 0x0003_0003;
const MIDDLES: u32 = 0xffff;

/// The parts of a register above so many bytes.
pub(super) const fn above(register: u8, size: u8) -> u32 {
    let middle = if size == 4 { 1 << register } else { 0 };
    middle | 1 << (16 + register)
}

/// The registers of an instruction's first two operands.
#[derive(Clone, Copy)]
struct Registers {
    first: Option<u8>,
    second: Option<u8>,
    /// The first operand is memory or a general register: of so many bytes.
    stored: Option<u8>,
}

impl Registers {
    fn of(inst: &Inst) -> Registers {
        let number = |o: Option<Operand>| match o {
            Some(Operand::Xmm(n)) => Some(n),
            _ => None,
        };
        let mut operands = inst.operands();
        let (first, second) = (operands.next(), operands.next());
        let stored = match first {
            Some(Operand::Mem(m)) => Some(m.size),
            Some(Operand::Reg(r)) => Some(r.size),
            _ => None,
        };
        Registers { first: number(first), second: number(second), stored }
    }

    /// Parts of the first register above so many bytes; none where it is another operand.
    fn first(self, size: u8) -> u32 {
        self.first.map_or(0, |n| above(n, size))
    }

    fn second(self, size: u8) -> u32 {
        self.second.map_or(0, |n| above(n, size))
    }

    fn middle_of_first(self) -> u32 {
        self.first(4) & MIDDLES
    }

    fn middle_of_second(self) -> u32 {
        self.second(4) & MIDDLES
    }

    /// What becomes of the parts of the second register if those of the first among `parts` come
    /// from the same places there.
    fn copied(self, live: u32, parts: u32) -> u32 {
        let (Some(first), Some(second)) = (self.first, self.second) else { return 0 };
        let taken = live & parts & above(first, 4);
        taken >> first << second
    }
}

/// The parts that are live before a move; `None` for another instruction.
fn before_move(stem: &str, r: Registers, live: u32) -> Option<u32> {
    let is_load = r.first.is_some() && r.second.is_none();
    Some(match stem {
        "movups" | "movupd" | "movdqu" | "movaps" | "movapd" | "movdqa" | "movntps" | "movntpd"
        | "movntdq" | "lddqu" | "movntdqa" => match r.stored {
            Some(_) => live | r.second(4),
            None => live & !r.first(4) | r.copied(live, ALL),
        },
        "movss" | "movsd" | "movq" | "movd" if is_load => live & !r.first(4),
        "movss" => live,
        "movsd" | "movq" | "movd" if r.stored.is_some() => match r.stored {
            Some(8) => live | r.middle_of_second(),
            _ => live,
        },
        "movsd" => live & !r.middle_of_first() | r.copied(live, MIDDLES),
        "movq" => live & !r.first(4) | r.copied(live, MIDDLES),
        "movhps" | "movhpd" if is_load => live & !r.first(8),
        "movlps" | "movlpd" if is_load => live & !r.middle_of_first(),
        "movlps" | "movlpd" => live | r.middle_of_second(),
        _ => return None,
    })
}

/// The same before arithmetic on scalars, logic, and what reads low parts only.
fn before_operation(stem: &str, r: Registers, live: u32) -> Option<u32> {
    let doubles = r.middle_of_first() | r.middle_of_second();
    let upper = live & r.first(8) != 0;
    Some(match stem {
        "addss" | "subss" | "mulss" | "divss" | "minss" | "maxss" | "sqrtss" | "cmpss"
        | "cvtsi2ss" | "ucomiss" | "comiss" | "cvttss2si" | "cvtss2si" | "roundss" => live,
        "addsd" | "subsd" | "mulsd" | "divsd" | "minsd" | "maxsd" | "cmpsd" | "ucomisd"
        | "comisd" => live | doubles,
        "sqrtsd" | "roundsd" => live & !r.middle_of_first() | r.middle_of_second(),
        "cvtss2sd" | "cvtsi2sd" => live & !r.middle_of_first(),
        "cvtsd2ss" | "cvttsd2si" | "cvtsd2si" => live | r.middle_of_second(),
        "xorps" | "xorpd" | "pxor" if r.first == r.second => live & !r.first(4),
        "andps" | "andpd" | "andnps" | "andnpd" | "orps" | "orpd" | "xorps" | "xorpd" | "pand"
        | "pandn" | "por" | "pxor" => live | r.copied(live, ALL),
        "unpcklpd" | "movlhps" => live & !r.first(8) | if upper { r.middle_of_second() } else { 0 },
        "unpcklps" => live & !r.first(4) | if upper { doubles } else { 0 },
        "cvtps2pd" | "movddup" => live & !r.first(4) | r.middle_of_second(),
        // xmm0 says which elements are taken.
        "pblendvb" | "blendvps" | "blendvpd" if !mutant!("x86_blend_mask_dead") => {
            live | r.first(4) | r.second(4) | above(0, 4)
        }
        _ => return None,
    })
}

/// The parts that are live before an instruction, if these are live behind it.
pub(super) fn before(inst: &Inst, live: u32, conventions: Conventions) -> u32 {
    // A system call shows flags too.
    if !conventions.lazy_faults || inst.shows_flags() {
        return ALL;
    }
    let is_open = inst.is_outside(conventions) && !inst.row.x87;
    if is_open {
        return ALL;
    }
    let (stem, registers) = (inst.row.stem, Registers::of(inst));
    if registers.first.is_none() && registers.second.is_none() {
        return live;
    }
    let rule = before_move(stem, registers, live).filter(|_| !inst.row.mmx);
    let rule = rule.or_else(|| before_operation(stem, registers, live));
    rule.unwrap_or(live | registers.first(4) | registers.second(4))
}

/// The parts that are live behind each instruction of a block's body.
pub(super) fn in_block(block: &Block, behind: u32, conventions: Conventions) -> Vec<u32> {
    let mut live = match block.end {
        End::Flow(inst) => before(&inst, behind, conventions),
        End::Goes(_) => behind,
        End::Illegal(..) => ALL,
    };
    let mut all = vec![0; block.body.len()];
    for (inst, place) in block.body.iter().zip(&mut all).rev() {
        *place = live;
        live = before(inst, live, conventions);
    }
    all
}

/// The parts that are live at the begin of a block.
fn at_begin(block: &Block, behind: u32, conventions: Conventions) -> u32 {
    let live = in_block(block, behind, conventions);
    match (block.body.first(), live.first(), block.end) {
        (Some(inst), Some(&live), _) => before(inst, live, conventions),
        (_, _, End::Flow(inst)) => before(&inst, behind, conventions),
        (_, _, End::Goes(_)) => behind,
        (_, _, End::Illegal(..)) => ALL,
    }
}

/// Where control goes behind a block, by the blocks' places, and the parts that are live where it
/// leaves the region.
fn ways(blocks: &[Block], block: &Block, conventions: Conventions) -> (Vec<usize>, u32) {
    let place = |at: u64| blocks.binary_search_by_key(&at, |b| b.start).ok();
    let targets = match block.end {
        End::Goes(at) => vec![at],
        End::Illegal(..) => return (Vec::new(), ALL),
        End::Flow(inst) if inst.is("call") => {
            return (Vec::new(), if conventions.abi_calls { ARGUMENTS } else { ALL });
        }
        End::Flow(inst) if inst.is("ret") => {
            return (Vec::new(), if conventions.abi_calls { RESULTS } else { ALL });
        }
        End::Flow(inst) => {
            let next = Some(inst.end()).filter(|_| inst.is_conditional());
            inst.target().into_iter().chain(next).collect()
        }
    };
    let inside: Vec<usize> = targets.iter().filter_map(|&at| place(at)).collect();
    let leaves = inside.len() < targets.len() || targets.is_empty();
    (inside, if leaves { ALL } else { 0 })
}

/// The parts that are live behind each block.
pub(super) fn live_behind(blocks: &[Block], conventions: Conventions) -> Vec<u32> {
    let ways: Vec<_> = blocks.iter().map(|block| ways(blocks, block, conventions)).collect();
    if !conventions.lazy_faults {
        return vec![ALL; blocks.len()];
    }
    let mut behind: Vec<u32> = ways.iter().map(|(_, leaves)| *leaves).collect();
    let mut begin: Vec<u32> = vec![0; blocks.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for (n, block) in blocks.iter().enumerate().rev() {
            behind[n] = ways[n].0.iter().fold(ways[n].1, |live, &m| live | begin[m]);
            let live = at_begin(block, behind[n], conventions);
            changed |= live != begin[n];
            begin[n] = live;
        }
    }
    behind
}
