//! An image that is built where devices in memory keep their contents: no copy of it is made.
//!
//! Invariants
//! - What was written is what the region holds, also where more came than was expected. Checked by
//!   `an_image_is_the_same_in_a_region_and_may_outgrow_it`.

use std::io::{self, Error, ErrorKind, Seek, SeekFrom, Write};

use littoral_device::region::{Region, RegionMut};

use super::{BuildOptions, EdgeList};

/// Bytes that any graph file may take beside its edges and vertices.
const BESIDE_BYTES: u64 = 1 << 20;

/// Writes into memory that becomes a [`Region`].
pub(super) struct RegionWriter {
    blank: RegionMut,
    at: usize,
    end: usize,
}

impl RegionWriter {
    /// Room for `bytes` bytes; memory is taken when it is written.
    pub(super) fn new(bytes: u64) -> io::Result<RegionWriter> {
        let len = usize::try_from(bytes).map_err(|_| Error::from(ErrorKind::OutOfMemory))?;
        let blank = RegionMut::zeroed(len).map_err(Error::other)?;
        Ok(RegionWriter { blank, at: 0, end: 0 })
    }

    /// Room for the graph of `edges`, by a generous guess.
    pub(super) fn for_edges(edges: &EdgeList, options: &BuildOptions) -> io::Result<RegionWriter> {
        let arcs = 2 * edges.edges.len() as u64;
        let words_per_arc = 1 + u64::from(edges.weights.is_some());
        // Padding of pages, entries of their directories.
        let lists = 2 * 4 * arcs * words_per_arc;
        let heads = 4 * u64::from(options.heads);
        let vertices = u64::from(edges.vertices) * (2 * (8 + heads + 16) + 8);
        RegionWriter::new(lists + vertices + BESIDE_BYTES)
    }

    /// What was written.
    pub(super) fn finish(mut self) -> Region {
        self.blank.truncate(self.end);
        self.blank.freeze()
    }

    /// Makes room for `len` bytes.
    fn grow(&mut self, len: usize) -> io::Result<()> {
        let mut larger = RegionMut::zeroed(len.max(2 * self.blank.len())).map_err(Error::other)?;
        larger[..self.end].copy_from_slice(&self.blank[..self.end]);
        self.blank = larger;
        Ok(())
    }
}

impl Write for RegionWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let to = self.at + bytes.len();
        if to > self.blank.len() {
            self.grow(to)?;
        }
        self.blank[self.at..to].copy_from_slice(bytes);
        self.at = to;
        self.end = self.end.max(to);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for RegionWriter {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(at) => (0, i64::try_from(at).map_err(Error::other)?),
            SeekFrom::End(by) => (self.end, by),
            SeekFrom::Current(by) => (self.at, by),
        };
        let at = (from as i64).checked_add(by).and_then(|at| usize::try_from(at).ok());
        self.at = at.ok_or_else(|| Error::from(ErrorKind::InvalidInput))?;
        Ok(self.at as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{Hooks, build_in_memory, build_in_region};

    #[test]
    fn an_image_is_the_same_in_a_region_and_may_outgrow_it() {
        let list = || EdgeList::new(3000, false, (1..3000).map(|v| [v - 1, v]).collect());
        let options = BuildOptions::default();
        let (image, report) = build_in_memory(list(), &options, &mut Hooks::none()).unwrap();
        let (region, same) = build_in_region(list(), &options, &mut Hooks::none()).unwrap();
        assert_eq!((&region[..], same), (&image[..], report));
        let mut out = RegionWriter::new(10).unwrap();
        out.write_all(&image).unwrap();
        out.seek(SeekFrom::Start(2)).unwrap();
        out.write_all(b"head").unwrap();
        assert_eq!(out.seek(SeekFrom::End(-1)).unwrap(), image.len() as u64 - 1);
        assert!(out.seek(SeekFrom::Current(i64::MIN)).is_err());
        let found = out.finish();
        assert_eq!((found.len(), &found[2..6]), (image.len(), &b"head"[..]));
        assert_eq!(found[6..], image[6..]);
    }
}
