//! An index on any zoned device: what `kv` on the command line does, as plain functions.
//!
//! - The device is opened by the caller. A process killed at any moment leaves a device that opens
//!   with every acknowledged record.
//! - [`Kv::load`] makes batches durable and only then appends their keys to the acknowledgement
//!   file, so each key in that file is readable after any crash of the process.

use std::io::{BufRead, Write};

use littoral_base::mutant;
use littoral_device::zoned::ZonedDevice;
use littoral_device::zoned::zones::Geometry;
pub use littoral_store::MEMORY_BYTES;
pub use littoral_store::store::Durability;
use littoral_store::store::StoreCounts;

use crate::index::{Engine, Index};
use crate::layout::Shape;
use crate::tree::Direction;
use crate::{Error, Kind, Result};

/// Records made durable together while loading.
const LOAD_BATCH: usize = 1000;

/// Whether what is opened may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing is written, not even a recovery.
    Read,
    /// One writer.
    Write,
}

/// A device's error as this crate reports it.
pub fn device_error(e: littoral_device::Error) -> Error {
    littoral_store::error::device("zoned device")(e)
}

/// How a new store is laid out.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The tree.
    pub engine: Engine,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// The device, where it is made for the store.
    pub geometry: Geometry,
    /// Tells this store from every other; the caller draws it.
    pub id: u64,
}

impl Options {
    /// Keys and values of eight bytes in zones of 64 MiB: one GiB written in place, 64 zones at
    /// write pointers. The file is sparse.
    pub fn new(engine: Engine, id: u64) -> Options {
        let geometry = Geometry {
            block_bytes: 4096,
            conventional_zones: 16,
            sequential_zones: 64,
            zone_blocks: 16_384,
            capacity_blocks: 16_384,
            open_zones_max: 14,
            active_zones_max: 14,
            append_blocks_max: 31,
        };
        Options { engine, key_bytes: 8, value_bytes: 8, geometry, id }
    }

    /// Sizes of records and pages on a device with such blocks.
    ///
    /// # Errors
    /// `Kind::Usage` for record sizes that fit no page.
    pub fn shape(&self, block_bytes: u32) -> Result<Shape> {
        Shape::fitting(block_bytes as usize, self.key_bytes, self.value_bytes)
    }
}

/// What `kv stats` shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stats {
    /// The tree.
    pub engine: Engine,
    /// Records held.
    pub records_count: u64,
    /// Layers of pages.
    pub layers_count: u32,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Conventional pages free, and all.
    pub conventional_blocks: (u64, u64),
    /// Sequential pages live, written and all.
    pub sequential_blocks: (u64, u64, u64),
    /// What this process wrote and read.
    pub counts: StoreCounts,
}

impl Stats {
    /// The share of the medium's pages that is in use, conventional and sequential ones together.
    pub fn used_share(&self) -> f64 {
        let (free, conventional) = self.conventional_blocks;
        let (live, _, sequential) = self.sequential_blocks;
        (conventional - free + live) as f64 / (conventional + sequential) as f64
    }
}

/// Any zoned device: which one is decided when the program runs.
pub type AnyZoned = Box<dyn ZonedDevice + Send + Sync>;

/// An index on a device. Dropping it does what [`Kv::close`] does and cannot say
/// whether that succeeded.
pub struct Kv {
    index: Index<AnyZoned>,
}

impl Drop for Kv {
    fn drop(&mut self) {
        // After a panic the state in memory is not trusted; the redo log has what was durable.
        if std::thread::panicking() || mutant!("kv_drop_leaves_batch") {
            return;
        }
        // A drop cannot fail: what was not durable is lost then, as after a kill. In a forked child
        // the device refuses, so the store stays as its owner has it.
        let _ = self.index.close_if_writable();
    }
}

impl std::fmt::Debug for Kv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kv").field("stats", &self.stats()).finish()
    }
}

fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
    move |e| Error::with_source(Kind::Io, what, e)
}

impl Kv {
    /// Creates an index on a device; the geometry of `options` is the device's own.
    ///
    /// # Errors
    /// `Kind::Foreign` when the device holds anything, `Kind::Unsupported` when it cannot serve the
    /// engine, `Kind::Usage` for record sizes that fit no page; those of the store.
    pub fn create_on(device: AnyZoned, options: &Options) -> Result<Kv> {
        let shape = options.shape(device.limits().block_bytes)?;
        Index::create(device, options.engine, shape, options.id).map(|index| Kv { index })
    }

    /// As [`Kv::create_on`], of a store that cannot be opened before [`Kv::made`]: one whose making
    /// is cut short is no store, and the next creation on its device replaces it.
    ///
    /// # Errors
    /// As [`Kv::create_on`].
    pub fn begin_on(device: AnyZoned, options: &Options) -> Result<Kv> {
        let shape = options.shape(device.limits().block_bytes)?;
        Index::begin(device, options.engine, shape, options.id).map(|index| Kv { index })
    }

    /// Makes a store that was begun one that can be opened, with all that it holds.
    ///
    /// # Errors
    /// Those of [`Index::made`].
    pub fn made(&mut self) -> Result<()> {
        self.index.made()
    }

    /// Opens a device's index.
    ///
    /// # Errors
    /// `Kind::Foreign` when the device holds no index, `Kind::Corrupt`, `Kind::Io`.
    pub fn open_on(device: AnyZoned, access: Access) -> Result<Kv> {
        Kv::open_within(device, access, MEMORY_BYTES)
    }

    /// As [`Kv::open_on`], with a limit on the pages in memory.
    ///
    /// # Errors
    /// As [`Kv::open_on`].
    pub fn open_within(device: AnyZoned, access: Access, memory_bytes: u64) -> Result<Kv> {
        let index = match access {
            Access::Read => Index::open_to_read_within(device, memory_bytes),
            Access::Write => Index::open_within(device, memory_bytes),
        };
        index.map(|index| Kv { index })
    }

    /// The index.
    pub fn index(&self) -> &Index<AnyZoned> {
        &self.index
    }

    /// Sets whether each change is durable on return (so at first) or at the next [`Kv::sync`].
    pub fn set_durability(&mut self, durability: Durability) {
        self.index.store_mut().set_durability(durability);
    }

    /// Makes every change so far durable.
    ///
    /// # Errors
    /// Those of [`Index::sync`].
    pub fn sync(&mut self) -> Result<()> {
        self.index.sync()
    }

    /// Makes every change durable and ends with a checkpoint, so that nothing rests on the end of
    /// the redo log. A store that is dropped does the same, but only this says when it fails.
    ///
    /// # Errors
    /// Those of [`Index::close`].
    pub fn close(mut self) -> Result<()> {
        self.index.close()
    }

    /// Inserts or replaces a record, durable on return; whether the key is new.
    ///
    /// # Errors
    /// Those of [`Index::put`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.index.put(key, value)
    }

    /// Deletes a key, durable on return; whether it was there.
    ///
    /// # Errors
    /// Those of [`Index::delete`].
    pub fn delete(&mut self, key: &[u8]) -> Result<bool> {
        self.index.delete(key)
    }

    /// The value of a key.
    ///
    /// # Errors
    /// Those of [`Index::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.index.get(key)
    }

    /// Calls `visit` with every record in `[from, to)` in ascending order until it answers false.
    ///
    /// # Errors
    /// Those of [`Index::scan`].
    pub fn scan(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        self.index.scan(from, to, Direction::Forward, visit)
    }

    /// Loads lines of `key TAB value`; how many. Short keys and values are padded with zero bytes.
    /// Keys are written to `ack`, one a line and flushed, once they are durable.
    ///
    /// # Errors
    /// `Kind::Usage` naming `name:line` for a line that is no record: what precedes it is durable;
    /// `Kind::Full`, and those of the store.
    pub fn load(
        &mut self,
        lines: impl BufRead,
        name: &str,
        ack: Option<&mut dyn Write>,
    ) -> Result<u64> {
        self.load_watched(lines, name, ack, |_, _| ())
    }

    /// As [`Kv::load`]; calls `watch` with the records loaded so far and what the store holds then,
    /// after each batch that is durable.
    ///
    /// # Errors
    /// As [`Kv::load`].
    pub fn load_watched(
        &mut self,
        mut lines: impl BufRead,
        name: &str,
        mut ack: Option<&mut dyn Write>,
        mut watch: impl FnMut(u64, &Stats),
    ) -> Result<u64> {
        self.index.store_mut().set_durability(Durability::Batch);
        let (mut waiting, mut line) = (Vec::new(), Vec::new());
        let (mut loaded, mut read) = (0, 0);
        let result = loop {
            line.clear();
            read += 1;
            match lines.read_until(b'\n', &mut line).map_err(io(name)) {
                Ok(0) => break Ok(()),
                Ok(_) => {}
                Err(e) => break Err(e),
            }
            match self.load_line(&line) {
                Ok(key) => waiting.push(key),
                Err(e) => break Err(e.in_context(format!("{name}:{read}"))),
            }
            if waiting.len() >= LOAD_BATCH {
                match self.acknowledge(&mut waiting, &mut ack) {
                    Ok(n) => loaded += n,
                    Err(e) => break Err(e),
                }
                watch(loaded, &self.stats());
            }
        };
        let last = self.acknowledge(&mut waiting, &mut ack).map(|n| loaded += n);
        self.index.store_mut().set_durability(Durability::Operation);
        result.and(last).map(|()| loaded)
    }

    /// Puts the records that `give` gives into the store, durable together every thousand and when
    /// it ends.
    ///
    /// # Errors
    /// Those of `give` and of the store: what was made durable stays.
    pub fn fill(
        &mut self,
        give: impl FnOnce(&mut dyn FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        self.index.store_mut().set_durability(Durability::Batch);
        let mut waiting = 0;
        let given = give(&mut |key, value| {
            self.index.put(key, value)?;
            waiting += 1;
            if waiting % LOAD_BATCH == 0 { self.index.sync() } else { Ok(()) }
        });
        self.index.store_mut().set_durability(Durability::Operation);
        given.and(self.index.sync())
    }

    fn load_line(&mut self, line: &[u8]) -> Result<Vec<u8>> {
        let shape = *self.index.shape();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let tab = line.iter().position(|&b| b == b'\t');
        let tab = tab.ok_or_else(|| Error::new(Kind::Usage, "no tab between key and value"))?;
        let k = padded(&line[..tab], shape.key_bytes, "key")?;
        let v = padded(&line[tab + 1..], shape.value_bytes, "value")?;
        self.index.put(&k, &v)?;
        Ok(line[..tab].to_vec())
    }

    fn acknowledge(
        &mut self,
        waiting: &mut Vec<Vec<u8>>,
        ack: &mut Option<&mut dyn Write>,
    ) -> Result<u64> {
        self.index.sync()?;
        // Keys that were written in part are not written again behind that part.
        let is_kept = mutant!("kv_keys_acknowledged_again");
        let keys = if is_kept { waiting.clone() } else { std::mem::take(waiting) };
        if let Some(out) = ack {
            let lines: Vec<u8> = keys.iter().flat_map(|k| [k, &b"\n"[..]].concat()).collect();
            out.write_all(&lines).and_then(|()| out.flush()).map_err(io("acknowledgement file"))?;
        }
        Ok(keys.len() as u64)
    }

    /// What the index holds and did.
    pub fn stats(&self) -> Stats {
        let (shape, store) = (self.index.shape(), self.index.store_ref());
        Stats {
            engine: self.index.engine(),
            records_count: self.index.len(),
            layers_count: self.index.layers(),
            key_bytes: shape.key_bytes,
            value_bytes: shape.value_bytes,
            block_bytes: store.device().limits().block_bytes,
            conventional_blocks: store.conventional_blocks(),
            sequential_blocks: store.sequential_blocks(),
            counts: store.counts(),
        }
    }

    /// Walks every invariant; pages in use.
    ///
    /// # Errors
    /// `Kind::Corrupt` naming the page and the rule.
    pub fn check(&self) -> Result<u64> {
        self.index.check()
    }
}

/// Text as a field of `len` bytes, zeros behind it.
///
/// # Errors
/// `Kind::Usage` when it is longer.
pub fn padded(text: &[u8], len: usize, what: &str) -> Result<Vec<u8>> {
    if text.len() > len {
        let text = format!("{what} of {} bytes; this index takes {len}", text.len());
        return Err(Error::new(Kind::Usage, text));
    }
    let mut bytes = text.to_vec();
    bytes.resize(len, 0);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_device::zoned::model::ModelDevice;

    /// A file that takes three bytes, then none once, then all.
    #[derive(Default)]
    struct FullOnce {
        taken: Vec<u8>,
        writes: u32,
    }

    impl Write for FullOnce {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.writes += 1;
            let most = match self.writes {
                1 => 3,
                2 => return Err(std::io::ErrorKind::StorageFull.into()),
                _ => bytes.len(),
            };
            let n = bytes.len().min(most);
            self.taken.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn keys_whose_acknowledgement_failed_are_not_written_again() {
        let options = Options::new(Engine::Zb, 1);
        let device = ModelDevice::new(options.geometry).unwrap();
        let mut kv = Kv::create_on(Box::new(device), &options).unwrap();
        let lines: String = (0..LOAD_BATCH + 1).map(|n| format!("{n:08}\t{n}\n")).collect();
        let mut ack = FullOnce::default();
        let loaded = kv.load(lines.as_bytes(), "lines", Some(&mut ack as &mut dyn Write));
        assert_eq!(loaded.unwrap_err().kind(), Kind::Io);
        assert_eq!(ack.taken, b"000", "part of the first key and nothing behind it");
        assert_eq!(kv.stats().records_count, LOAD_BATCH as u64);
    }
}
