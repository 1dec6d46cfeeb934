//! Images from the cache on disk: all blocks of a guest file get their place in the arena at once,
//! linked as they were written.
//!
//! - What depends on the place, or on where the guest's file is, is written in one pass over each
//!   list of such places, before anything leads to the code.
//! - Half of what is left of the arena stays for blocks that are translated.

use super::super::super::Cpu;
use super::super::super::image::Image;
use super::super::super::raw::Alone;
use super::super::super::record::{add_long, replace, set};
use super::super::super::translation::{Journal, Placed};
use super::super::adopted::{Adopted, FIRST_EXIT, LAST_EXIT};
use super::super::known::Known;
use super::{At, BLOCK_BYTES_MAX, Engine, Filling, Key};
use crate::jit::raw::Landings;
use littoral_base::mutant;
use std::sync::Arc;

/// A guest file whose image was asked for: its number, where it is, and the image's place among the
/// adopted ones, if it is there.
pub(super) type Asked = (usize, u64, Option<usize>);

impl Filling {
    /// What became of the image of a guest file at an address, if it was asked for.
    pub(in super::super::super) fn asked(&self, file: usize, base: u64) -> Option<Option<usize>> {
        let is_it = |asked: &&Asked| (asked.0, asked.1) == (file, base);
        self.images.iter().find(is_it).map(|asked| asked.2)
    }

    /// The image of a guest file at an address has this place, or is not used.
    pub(in super::super::super) fn note_image(
        &mut self,
        (file, base): (usize, u64),
        place: Option<usize>,
    ) {
        self.images.push((file, base, place));
    }
}

impl Engine {
    /// Gives an image's code a place, for a guest file that begins at address `base` and whose
    /// instructions the caller has found in memory: its place among the images. `None` if there is
    /// no room, or the image contradicts itself. The lock is held.
    pub(in super::super::super) fn adopt(
        &self,
        filling: &mut Filling,
        (image, base): (&Arc<Image>, u64),
        cpu: &Cpu,
        journal: &mut Journal,
    ) -> Option<usize> {
        let (start, len) = (self.floor + filling.used, image.code().len());
        let left = self.arena.len().checked_sub(start + BLOCK_BYTES_MAX)?;
        let first_exit = FIRST_EXIT + filling.image_exits;
        let behind = u32::try_from(image.exits_count()).ok()?.checked_add(first_exit)?;
        if len > left / 2 || self.images.is_full() || behind > LAST_EXIT {
            return None;
        }
        let adopted = Adopted { image: image.clone(), start: start as u32, base, first_exit };
        let mut alone = Vec::new();
        self.arena.fill(start, len, |code| {
            code.copy_from_slice(image.code());
            self.settle(code, &adopted, cpu, &mut alone)
        })?;
        filling.alone.append(&mut alone);
        filling.used = start + len - self.floor;
        filling.image_exits = behind - FIRST_EXIT;
        let (bytes, pairs) = image.faults();
        self.faults.images.add(Landings { start: start as u32, bytes, pairs })?;
        journal.adopted(image.blocks().len() as u64, || {
            let host = |at: u32| self.arena.address(start + at as usize);
            let blocks = image.blocks().map(|block| Placed {
                guest: base.wrapping_add(u64::from(block.key & !1)),
                host: host(block.start),
                len: block.len.into(),
            });
            blocks.collect()
        });
        self.images.add(adopted)
    }

    /// Writes what depends on the code's place and on the guest file's; `None` outside the code.
    #[expect(clippy::vec_box, reason = "code holds their addresses")]
    fn settle(
        &self,
        code: &mut [u8],
        adopted: &Adopted,
        cpu: &Cpu,
        alone: &mut Vec<Box<Alone>>,
    ) -> Option<()> {
        let Adopted { image, start, base, first_exit } = adopted;
        for site in image.before() {
            let from = start + site + 4;
            let inside = |to: u32| ((to as usize) < self.floor).then_some(to);
            replace(code, site, |to| Some(inside(to)?.wrapping_sub(from)))?;
        }
        let moved = if mutant!("la64_image_stays_where_it_was") { 0 } else { *base };
        for site in image.relative() {
            add_long(code, site, moved)?;
        }
        for (number, exit) in (*first_exit..).zip(image.exits()) {
            set(code, exit.id, number)?;
        }
        for [site, place] in image.alone() {
            let (offset, word) = image.instruction(site, place)?;
            let pc = base.wrapping_add(offset.into());
            let inst = (self.slows.decode)(cpu, word, pc);
            let made = Box::new(Alone::new(pc, inst, place as u16));
            set(code, site, made.address() as u32)?;
            set(code, site.checked_add(4)?, (made.address() >> 32) as u32)?;
            alone.push(made);
        }
        Some(())
    }

    /// The code of a block of an adopted image, which is known from now on. The lock is held.
    pub(in super::super::super) fn enter(
        &self,
        filling: &mut Filling,
        place: usize,
        key: Key,
    ) -> Option<At> {
        let start = self.images.get(place)?.find(key.pc, key.plain)?;
        let host = self.arena.address(start as usize);
        let known = Known { key: key.number(), host, start, body: start, words: None };
        filling.entered += 1;
        Some(self.make_known(filling, known))
    }

    /// Where the code of an address is, known or in an image; `None` if it is compared with memory.
    pub(super) fn start_of(&self, pc: u64) -> Option<usize> {
        let known = self.known.find(pc);
        let is_compared = known.is_some_and(|known| known.words.is_some());
        if is_compared && !mutant!("la64_region_over_compared_code") {
            return None;
        }
        let inside = || self.images.iter().find_map(|image| image.find(pc, false));
        known.map(|known| known.start).or_else(inside).map(|start| start as usize)
    }

    /// Blocks of images.
    pub(in super::super::super) fn blocks_of_images(&self) -> usize {
        self.images.iter().map(|adopted| adopted.image.blocks().len()).sum()
    }

    /// Whether an image's code would get a place. Nothing of it is run.
    #[cfg(test)]
    pub(in super::super::super) fn settles(
        &self,
        image: &Arc<Image>,
        base: u64,
        cpu: &Cpu,
    ) -> bool {
        let (image, start) = (image.clone(), (self.floor + 64) as u32);
        let mut code = image.code().to_vec();
        let adopted = Adopted { image, start, base, first_exit: FIRST_EXIT };
        self.settle(&mut code, &adopted, cpu, &mut Vec::new()).is_some()
    }
}
