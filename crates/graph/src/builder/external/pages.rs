//! Sorted arcs of one bucket to pages, and HEADS from the pages that were written.
//!
//! Invariant: the pages are those that [`super::super::write`] makes of the same lists in memory.
//! Checked by `the_file_is_the_one_made_in_memory`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::record::Record;
use crate::builder::write::{SectionWriter, put_list};
use crate::error::{Result, io};
use crate::format::header::SectionKind;
use crate::format::page::{CONTINUED, CONTINUES, PageId, PageWriter};
use crate::format::vertices::VertexTable;
use crate::format::{Direction, Extent, HEAD_BLOCK_VERTICES, Layout, RESERVED_WORD};

/// Words of pages that are written at once.
const CHUNK_WORDS: usize = 1 << 16;

/// Fills the pages of one direction, bucket by bucket.
pub(super) struct Pages<'a> {
    pub(super) table: &'a VertexTable,
    pub(super) layout: Layout,
    pub(super) direction: Direction,
    pub(super) generation: u32,
    /// The id of each rank where ids are not ranks.
    pub(super) name: Option<&'a [u32]>,
}

/// A list of a bucket: its address, and which of the bucket's arcs are its own.
pub(super) struct Place {
    addr: u64,
    from: u64,
    to: u64,
}

impl Pages<'_> {
    /// Writes `pages`, all of whose lists are in `arcs`.
    ///
    /// # Errors
    /// `Kind::Io`.
    pub(super) fn write<R: Record>(
        &self,
        arcs: &[R],
        pages: std::ops::Range<u32>,
        out: &mut SectionWriter<'_, File>,
    ) -> Result<()> {
        let places = self.places(arcs);
        let page_words = self.layout.page_words();
        let mut words = vec![0u32; CHUNK_WORDS.max(page_words)];
        let mut places = places.iter().peekable();
        let mut goes_on: Option<Place> = None;
        let mut filled = 0;
        for number in pages {
            let page = &mut words[filled..filled + page_words];
            page.fill(0);
            let mut writer = PageWriter::new(page, self.layout);
            let mut flags = 0;
            if let Some(place) = goes_on.take() {
                flags |= CONTINUES;
                goes_on = self.put(&mut writer, arcs, &place);
            }
            let here = |place: &&Place| place.addr / page_words as u64 == u64::from(number);
            while let Some(place) = places.next_if(here) {
                goes_on = self.put(&mut writer, arcs, place);
            }
            flags |= if goes_on.is_some() { CONTINUED } else { 0 };
            writer.finish(PageId::lists(self.direction, number), self.generation, flags);
            filled += page_words;
            if filled == words.len() {
                out.write(bytemuck::cast_slice(&words))?;
                filled = 0;
            }
        }
        assert!(places.next().is_none() && goes_on.is_none(), "a bucket's lists end in its pages");
        out.write(bytemuck::cast_slice(&words[..filled]))
    }

    /// The lists of `arcs` in order of address.
    fn places<R: Record>(&self, arcs: &[R]) -> Vec<Place> {
        let lists = || arcs.chunk_by(|a, b| a.ends()[0] == b.ends()[0]);
        // Exactly as many as there are: a vector that doubles would leave the bound.
        let mut places = Vec::with_capacity(lists().count());
        for list in lists() {
            let from = places.last().map_or(0, |p: &Place| p.to);
            let owned = self.table.list(list[0].ends()[0]);
            assert_eq!(owned.degree as usize, list.len(), "every arc was counted");
            places.push(Place { addr: owned.addr, from, to: from + u64::from(owned.degree) });
        }
        places.sort_unstable_by_key(|p| p.addr);
        places
    }

    /// Puts as much of a list as the page takes; answers what goes on in the next page.
    fn put<R: Record>(
        &self,
        writer: &mut PageWriter<'_>,
        arcs: &[R],
        place: &Place,
    ) -> Option<Place> {
        let Place { addr, from, to } = *place;
        let end = to.min(from + self.layout.piece_arcs() as u64);
        let piece = &arcs[from as usize..end as usize];
        let rank = |arc: &R| arc.ends()[1];
        let id = |arc: &R| self.name.map_or(rank(arc), |name| name[rank(arc) as usize]);
        put_list(writer, piece[0].ends()[0], piece, id, |arc| arc.weight());
        (end < to).then_some(Place { addr, from: end, to })
    }
}

/// Pages that were written, read again through a small cache.
pub(super) struct Written<'a> {
    pub(super) path: &'a Path,
    pub(super) pages: Extent,
    pub(super) layout: Layout,
    /// Which page each slot holds.
    held: Vec<u32>,
    words: Vec<u32>,
}

impl<'a> Written<'a> {
    /// A cache of about `bytes`.
    pub(super) fn new(path: &'a Path, pages: Extent, layout: Layout, bytes: usize) -> Self {
        let slots = (bytes / layout.page_bytes()).clamp(4, 4096);
        let words = vec![0; slots * layout.page_words()];
        Written { path, pages, layout, held: vec![u32::MAX; slots], words }
    }

    /// Writes the first neighbours of every vertex, block by block.
    ///
    /// # Errors
    /// `Kind::Io`.
    pub(super) fn heads(
        &mut self,
        table: &VertexTable,
        heads: u32,
        direction: Direction,
        out: &mut SectionWriter<'_, File>,
    ) -> Result<()> {
        out.begin(SectionKind::Heads, direction);
        let mut block = Vec::new();
        for (i, units) in table.head_units(heads).enumerate() {
            let units = units as usize;
            block.clear();
            block.resize(units * HEAD_BLOCK_VERTICES, RESERVED_WORD);
            let first = i * HEAD_BLOCK_VERTICES;
            for at in 0..HEAD_BLOCK_VERTICES.min(table.len() as usize - first) {
                let list = table.list((first + at) as u32);
                let count = (list.degree as usize).min(units);
                if count > 0 {
                    let front = self.words(out.medium(), list.addr, count)?;
                    let places = block[at..].iter_mut().step_by(HEAD_BLOCK_VERTICES);
                    places.zip(front).for_each(|(place, &word)| *place = word);
                }
            }
            out.write(bytemuck::cast_slice(&block))?;
        }
        out.end()
    }

    /// The `count` words at word address `addr`, which are in one page.
    fn words(&mut self, file: &File, addr: u64, count: usize) -> Result<&[u32]> {
        let page_words = self.layout.page_words();
        let (page, at) = (addr / page_words as u64, (addr % page_words as u64) as usize);
        let slot = (page % self.held.len() as u64) as usize;
        let words = &mut self.words[slot * page_words..][..page_words];
        if u64::from(self.held[slot]) != page {
            let offset = self.pages.offset + page * self.layout.page_bytes() as u64;
            let read = file.read_exact_at(bytemuck::cast_slice_mut(words), offset);
            read.map_err(|e| io("cannot read", self.path, e))?;
            self.held[slot] = page as u32;
        }
        Ok(&words[at..at + count])
    }
}
