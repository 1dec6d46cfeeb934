//! Images of code in an arena (see `interp::image`), and what is looked up in them while code runs.
//!
//! - An image's code is in the arena before it is listed here, and stays as long as the arena. Its
//!   lists stay where they were read: an exit or a slow way is looked up when it is taken.

use super::super::image::Image;
use super::block::Exit;
use super::slow::{Decode, Slow};
use crate::jit::shelf::Shelf;
use crate::shared::List;
use std::sync::Arc;

/// Exits of images have numbers from here on; those of blocks are below.
pub(super) const FIRST_EXIT: u32 = 1 << 28;
/// No number of an exit is above this.
pub(super) const LAST_EXIT: u32 = 1 << 29;

/// An image in an arena.
#[derive(Debug)]
pub(super) struct Adopted {
    pub(super) image: Arc<Image>,
    /// Where its code begins.
    pub(super) start: u32,
    /// Guest address of the beginning of the guest file.
    pub(super) base: u64,
    /// The number of its first exit.
    pub(super) first_exit: u32,
}

impl Adopted {
    /// Where the code of a guest address is, which is plain or not.
    pub(super) fn find(&self, pc: u64, plain: bool) -> Option<u32> {
        let offset = u32::try_from(pc.wrapping_sub(self.base)).ok()?;
        let key = offset | u32::from(plain);
        let block = self.image.find(key).filter(|_| offset.is_multiple_of(4))?;
        Some(self.start + block.start)
    }

    /// The exit of a number.
    pub(super) fn exit(&self, number: u32) -> Option<Exit> {
        let exit = self.image.exit(number.checked_sub(self.first_exit)? as usize)?;
        let site = exit.site.map(|site| self.start + site);
        let target = self.base.wrapping_add(exit.to);
        Some(Exit { site, target, plain: exit.plain, linked: exit.linked })
    }

    /// Sites of the exits that lead to the code of a guest address.
    pub(super) fn sites_to(&self, pc: u64) -> impl Iterator<Item = u32> {
        let to = pc.wrapping_sub(self.base);
        let exits = self.image.exits().filter(move |exit| exit.to == to && !exit.plain);
        exits.filter_map(|exit| Some(self.start + exit.site?))
    }

    /// The slow way whose call returns to an offset.
    fn slow(&self, back: u32) -> Option<Slow> {
        let inside = back.checked_sub(self.start)?;
        let place = self.image.slow(inside)?;
        let (offset, word) = self.image.instruction(inside, place)?;
        let pc = self.base.wrapping_add(offset.into());
        Some(Slow { pc, back, word, before: place as u16 })
    }
}

/// All slow ways of one arena.
#[derive(Debug)]
pub(super) struct Slows {
    /// Address of the arena.
    pub(super) base: u64,
    pub(super) decode: Decode,
    /// By the return address of their calls.
    pub(super) list: List<Slow>,
    pub(super) images: Arc<Shelf<Adopted>>,
}

impl Slows {
    /// The instruction whose slow way's call returns to address `back`.
    pub(super) fn find(&self, back: u64) -> Slow {
        let offset = (back - self.base) as u32;
        let found = self.list.find(offset, |s| s.back);
        let found = found.or_else(|| self.images.iter().find_map(|image| image.slow(offset)));
        found.expect("invariant: every slow way is listed")
    }
}
