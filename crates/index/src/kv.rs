//! An index in a directory: what `kv` on the command line does, as plain functions.
//!
//! `DIR/zones` is a zoned device in a sparse file ([`FileDevice`]); everything else is in it. A
//! process killed at any moment leaves a directory that opens with every acknowledged record.
//! [`Kv::load`] makes batches durable and only then appends their keys to the acknowledgement file,
//! so each key in that file is readable after any crash of the process.

use std::io::{BufRead, Write};
use std::path::Path;

use littoral_device::zoned::file::FileDevice;
use littoral_device::zoned::zones::Geometry;
use littoral_store::store::{Durability, StoreCounts};

use crate::index::{Engine, Index};
use crate::layout::Shape;
use crate::zb::Direction;
use crate::{Error, Kind, Result};

/// Records made durable together while loading.
const LOAD_BATCH: usize = 1000;

/// How a new directory is laid out.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The tree.
    pub engine: Engine,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// The device in the file.
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
    /// Conventional pages free, and all.
    pub conventional_blocks: (u64, u64),
    /// Sequential pages live, written and all.
    pub sequential_blocks: (u64, u64, u64),
    /// What this process wrote and read.
    pub counts: StoreCounts,
}

/// An index in a directory.
#[derive(Debug)]
pub struct Kv {
    index: Index<FileDevice>,
}

fn device_error(e: littoral_device::Error) -> Error {
    let kind = match e.kind() {
        littoral_device::Kind::Busy => Kind::Busy,
        littoral_device::Kind::Foreign => Kind::Foreign,
        littoral_device::Kind::Corrupt => Kind::Corrupt,
        littoral_device::Kind::Profile => Kind::Usage,
        _ => Kind::Io,
    };
    Error::with_source(kind, "zoned file", e)
}

fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
    move |e| Error::with_source(Kind::Io, what, e)
}

impl Kv {
    /// Creates a directory and an index in it.
    ///
    /// # Errors
    /// `Kind::Busy` when the directory holds an index already (nothing is overwritten),
    /// `Kind::Usage` for record sizes that fit no page; those of the store.
    pub fn create(dir: &Path, options: &Options) -> Result<Kv> {
        let shape = Shape::fitting(
            options.geometry.block_bytes as usize,
            options.key_bytes,
            options.value_bytes,
        )?;
        let path = dir.join("zones");
        if path.exists() {
            let text = format!("{}: exists; it is not overwritten", path.display());
            return Err(Error::new(Kind::Busy, text));
        }
        std::fs::create_dir_all(dir).map_err(io(dir.display().to_string()))?;
        // Built under another name: a creation that was interrupted leaves no half index behind.
        let fresh = dir.join("zones.new");
        if fresh.exists() {
            std::fs::remove_file(&fresh).map_err(io(fresh.display().to_string()))?;
        }
        let device = FileDevice::create(&fresh, options.geometry).map_err(device_error)?;
        let index = Index::create(device, options.engine, shape, options.id)?;
        std::fs::rename(&fresh, &path).map_err(io(path.display().to_string()))?;
        let folder = std::fs::File::open(dir).and_then(|d| d.sync_all());
        folder.map_err(io(dir.display().to_string()))?;
        Ok(Kv { index })
    }

    /// Opens a directory's index.
    ///
    /// # Errors
    /// `Kind::Busy` when another process has it, `Kind::Foreign`, `Kind::Corrupt`, `Kind::Io`.
    pub fn open(dir: &Path) -> Result<Kv> {
        let device = FileDevice::open(&dir.join("zones")).map_err(device_error)?;
        Index::open(device).map(|index| Kv { index }).map_err(|e| e.in_context(dir.display()))
    }

    /// The index.
    pub fn index(&self) -> &Index<FileDevice> {
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
        mut ack: Option<&mut dyn Write>,
    ) -> Result<u64> {
        self.index.store_mut().set_durability(Durability::Batch);
        let mut waiting: Vec<String> = Vec::new();
        let mut loaded = 0;
        let mut result = Ok(());
        for (n, line) in lines.lines().enumerate() {
            result = line.map_err(io(name)).and_then(|line| {
                let key =
                    self.load_line(&line).map_err(|e| e.in_context(format!("{name}:{}", n + 1)))?;
                waiting.push(key);
                Ok(())
            });
            if result.is_ok() && waiting.len() >= LOAD_BATCH {
                result = self.acknowledge(&mut waiting, &mut ack).map(|n| loaded += n);
            }
            if result.is_err() {
                break;
            }
        }
        let last = self.acknowledge(&mut waiting, &mut ack).map(|n| loaded += n);
        self.index.store_mut().set_durability(Durability::Operation);
        result.and(last).map(|()| loaded)
    }

    fn load_line(&mut self, line: &str) -> Result<String> {
        let shape = *self.index.shape();
        let split = line.split_once('\t');
        let (key, value) =
            split.ok_or_else(|| Error::new(Kind::Usage, "no tab between key and value"))?;
        let k = padded(key.as_bytes(), shape.key_bytes, "key")?;
        let v = padded(value.as_bytes(), shape.value_bytes, "value")?;
        self.index.put(&k, &v)?;
        Ok(key.to_owned())
    }

    fn acknowledge(
        &mut self,
        waiting: &mut Vec<String>,
        ack: &mut Option<&mut dyn Write>,
    ) -> Result<u64> {
        self.index.sync()?;
        if let Some(out) = ack {
            let lines: String = waiting.iter().map(|k| format!("{k}\n")).collect();
            out.write_all(lines.as_bytes())
                .and_then(|()| out.flush())
                .map_err(io("acknowledgement file"))?;
        }
        Ok(waiting.drain(..).count() as u64)
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
