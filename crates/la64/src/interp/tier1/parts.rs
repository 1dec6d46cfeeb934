//! A finished block that is not in the arena yet.

use super::super::raw::Alone;
use super::block::{Block, Exit, Sites};
use super::slow::Slow;

/// The block's code and what belongs to it, by offsets in the arena.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Where it will begin.
    pub(super) start: usize,
    pub(super) bytes: Vec<u8>,
    pub(super) exits: Vec<Exit>,
    pub(super) faults: Vec<(u32, u32)>,
    pub(super) slows: Vec<Slow>,
    #[expect(clippy::vec_box, reason = "code holds their addresses")]
    pub(super) alone: Vec<Box<Alone>>,
    pub(super) sites: Sites,
    /// Displacements that lead to before its beginning: to routines and other blocks.
    pub(super) before: Vec<usize>,
}

impl Parts {
    /// Those of a block that is written.
    pub(super) fn of(block: Block<'_>) -> Parts {
        let Block { asm, start, exits, faults, slows, alone, sites, .. } = block;
        Parts { start, bytes: asm.bytes, exits, faults, slows, alone, sites, before: asm.before }
    }

    /// Nothing but code that will begin at an offset, in the room of what was here before.
    pub(super) fn begin(&mut self, start: usize, code: &[u8]) {
        let Parts { start: at, bytes, exits, faults, slows, alone, sites, before } = self;
        *at = start;
        bytes.clear();
        bytes.extend_from_slice(code);
        exits.clear();
        faults.clear();
        slows.clear();
        alone.clear();
        *sites = Sites::default();
        before.clear();
    }
}
