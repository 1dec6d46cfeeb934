//! A store at rest as one file, independent of zones and trees.
//!
//! Bytes (all little-endian)
//!
//! | part | bytes |
//! |---|---|
//! | header, 64 bytes | magic `LITKVBAK`, version u32 = 1, engine tag of 8 bytes (`zb` or `cow`, zeros), key bytes u32, value bytes u32, records u64, zeros, CRC32C in the last four bytes, salt 0 |
//! | chunks | records of the chunk u32, then key and value of each in ascending order of keys, then CRC32C with the chunk's number, counted from one, as salt |
//!
//! - Checksums are those of the store (`docs/design/store.md`): the salt's eight bytes, then
//!   everything in front of the checksum.
//! - A chunk has 4096 records, the last one what is left; nothing follows it.
//! - The file is written under another name, by one process at a time, read back and verified, and
//!   only then given its name. [`Backup::open`] verifies all of a file before it gives out any.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use littoral_base::codec::{Reader, SEAL_BYTES, Writer, seal, unseal};
use littoral_base::{mutant, names};
use littoral_device::try_lock;

use crate::index::Engine;
use crate::kv::Kv;
use crate::{Error, Kind, Result};

const MAGIC: &[u8; 8] = b"LITKVBAK";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 64;
const CHUNK_RECORDS: u64 = 4096;

/// A verified backup.
#[derive(Debug)]
pub struct Backup {
    /// The tree it came from.
    pub engine: Engine,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Records.
    pub records: u64,
    file: File,
    path: PathBuf,
}

fn io<'p>(path: &'p Path, what: &'p str) -> impl Fn(std::io::Error) -> Error + 'p {
    move |e| Error::with_source(Kind::Io, format!("{}: {what}", path.display()), e)
}

fn damaged(path: &Path, what: &str) -> Error {
    Error::new(Kind::Corrupt, format!("{}: {what}", path.display())).at_path(path)
}

/// Writes every record of a store into the new file `path`; how many.
///
/// # Errors
/// `Kind::Exists` when the file exists, or its name with `.part` behind it is another file's;
/// `Kind::Busy` when another process is writing it; `Kind::Corrupt` when a page of the store is
/// damaged or what was written does not read back the same; `Kind::Io`. This call has made no file
/// then.
pub fn write(kv: &Kv, path: &Path) -> Result<u64> {
    vacant(path)?;
    let draft = path.with_added_extension("part");
    // A draft that is there is what a killed process left, unless another one is writing it.
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).create(true).truncate(false).open(&draft);
    let file = opened.map_err(io(&draft, "create"))?;
    let is_taken = try_lock(&file, true).is_err_and(|e| e.kind() == ErrorKind::WouldBlock);
    if is_taken && !mutant!("kv_backups_share_a_draft") {
        let text = format!("{}: another process is writing this backup", draft.display());
        return Err(Error::new(Kind::Busy, text));
    }
    // That process may have ended, and given the file its name, since it was looked for.
    vacant(path)?;
    check_draft(&file, &draft)?;
    let written = write_draft(kv, &file, &draft, path);
    if written.is_err() {
        // What is left of a draft is of no use; that it cannot be removed matters less than why.
        let _ = std::fs::remove_file(&draft);
    }
    written
}

/// Refuses a file that has a draft's name and that no backup began. A draft of which power was cut
/// may be zeros.
fn check_draft(file: &File, draft: &Path) -> Result<()> {
    let mut begin = [0; MAGIC.len()];
    let len = file.read_at(&mut begin, 0).map_err(io(draft, "read"))?;
    let begin = &begin[..len];
    let is_ours = MAGIC.starts_with(begin) || begin.iter().all(|&b| b == 0);
    if is_ours || mutant!("kv_backup_replaces_any_draft") {
        return Ok(());
    }
    let text = format!("{}: exists and is no draft of a backup; move it away", draft.display());
    Err(Error::new(Kind::Exists, text))
}

/// Refuses a path where something is.
fn vacant(path: &Path) -> Result<()> {
    // A link to nothing is there too, and would be replaced.
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    let text = format!("{}: exists; it is not overwritten", path.display());
    Err(Error::new(Kind::Exists, text))
}

fn write_draft(kv: &Kv, file: &File, draft: &Path, path: &Path) -> Result<u64> {
    file.set_len(0).map_err(io(draft, "create"))?;
    let mut out = BufWriter::new(file);
    let stats = kv.stats();
    out.write_all(&header(kv)).map_err(io(draft, "write"))?;
    let (mut chunk, mut count, mut number) = (Vec::new(), 0, 0);
    let mut failure = None;
    kv.scan(None, None, |key, value| {
        chunk.extend_from_slice(key);
        chunk.extend_from_slice(value);
        count += 1;
        if count % CHUNK_RECORDS == 0 {
            number += 1;
            failure = write_chunk(&mut out, number, CHUNK_RECORDS, &mut chunk).err();
        }
        failure.is_none()
    })?;
    if let Some(e) = failure {
        return Err(io(draft, "write")(e));
    }
    if count % CHUNK_RECORDS > 0 {
        write_chunk(&mut out, number + 1, count % CHUNK_RECORDS, &mut chunk)
            .map_err(io(draft, "write"))?;
    }
    let file = out.into_inner().map_err(|e| io(draft, "write")(e.into_error()))?;
    file.sync_all().map_err(io(draft, "flush"))?;
    let same = Backup::open(draft)?.equals(kv)?;
    if count != stats.records_count || !same {
        return Err(damaged(draft, "what was written does not read back the same"));
    }
    // Reading a store takes long, and another file may have been given the name meanwhile.
    if !mutant!("kv_backup_replaces_late_file") {
        vacant(path)?;
    }
    std::fs::rename(draft, path).map_err(io(path, "rename"))?;
    name_durably(path).inspect_err(|_| {
        // Why it has no durable name matters more than that it cannot be removed.
        let _ = std::fs::remove_file(path);
    })?;
    Ok(count)
}

/// Makes the name of a new file or folder durable: its folder is flushed, where the file system
/// knows such a request.
///
/// # Errors
/// `Kind::Io`.
pub fn name_durably(path: &Path) -> Result<()> {
    names::name_durably(path).map_err(io(names::folder_of(path), "flush"))
}

fn header(kv: &Kv) -> Vec<u8> {
    let stats = kv.stats();
    let mut w = Writer::new();
    w.raw(MAGIC).u32(VERSION).raw(&stats.engine.tag());
    w.u32(stats.key_bytes as u32).u32(stats.value_bytes as u32).u64(stats.records_count);
    w.pad_to(HEADER_BYTES);
    let mut bytes = w.finish();
    seal(&mut bytes, 0);
    bytes
}

fn write_chunk(
    out: &mut impl Write,
    number: u64,
    records: u64,
    body: &mut Vec<u8>,
) -> std::io::Result<()> {
    debug_assert!((1..=CHUNK_RECORDS).contains(&records), "a chunk of {records} records");
    debug_assert!(body.len().is_multiple_of(records as usize), "records are written whole");
    let mut chunk = (records as u32).to_le_bytes().to_vec();
    chunk.append(body);
    chunk.extend_from_slice(&[0; SEAL_BYTES]);
    seal(&mut chunk, number);
    out.write_all(&chunk)
}

impl Backup {
    /// Opens a backup and verifies all of it.
    ///
    /// # Errors
    /// `Kind::Foreign` for another file or version, `Kind::Corrupt` naming the chunk, `Kind::Io`.
    pub fn open(path: &Path) -> Result<Backup> {
        let mut file = File::open(path).map_err(io(path, "open"))?;
        let mut bytes = [0; HEADER_BYTES];
        if file.read_exact(&mut bytes).is_err() || !bytes.starts_with(MAGIC) {
            let text = format!("{}: is no backup of a store", path.display());
            return Err(Error::new(Kind::Foreign, text));
        }
        let mut r = Reader::new(&bytes[8..]);
        let version = r.u32().unwrap_or(0);
        if version != VERSION && unseal(&bytes, 0).is_some() {
            let text =
                format!("{}: backup format {version}; this build reads {VERSION}", path.display());
            return Err(Error::new(Kind::Foreign, text));
        }
        let fields = unseal(&bytes, 0).and_then(|_| {
            let tag: [u8; 8] = r.bytes(8)?.try_into().ok()?;
            Some((Engine::tagged(tag)?, r.u32()? as usize, r.u32()? as usize, r.u64()?))
        });
        let (engine, key_bytes, value_bytes, records) =
            fields.ok_or_else(|| damaged(path, "the header does not verify"))?;
        let path = path.to_owned();
        let backup = Backup { engine, key_bytes, value_bytes, records, file, path };
        backup.for_each(|_, _| Ok(()))?;
        Ok(backup)
    }

    /// Calls `each` with every record, in ascending order of keys.
    ///
    /// # Errors
    /// `Kind::Corrupt` naming the chunk that does not verify; those of `each`.
    pub fn for_each(&self, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let path = &self.path;
        let mut input = BufReader::new(&self.file);
        input.seek(SeekFrom::Start(HEADER_BYTES as u64)).map_err(io(path, "read"))?;
        let record = self.key_bytes.saturating_add(self.value_bytes).max(1);
        let (mut left, mut number, mut last) = (self.records, 0, None::<Vec<u8>>);
        while left > 0 {
            number += 1;
            let count = left.min(CHUNK_RECORDS);
            let wrong = || damaged(path, &format!("chunk {number} does not verify"));
            let bytes = (count as usize).checked_mul(record).ok_or_else(wrong)?;
            // Read by what is there: a length that cannot be must not become an allocation.
            let mut chunk = Vec::new();
            let most = bytes as u64 + 4 + SEAL_BYTES as u64;
            input.by_ref().take(most).read_to_end(&mut chunk).map_err(io(path, "read"))?;
            let body = unseal(&chunk, number).filter(|_| chunk.len() as u64 == most);
            let body = body.filter(|b| b[..4] == (count as u32).to_le_bytes()).ok_or_else(wrong)?;
            for one in body[4..].chunks_exact(record) {
                let (key, value) = one.split_at(self.key_bytes);
                if last.as_deref().is_some_and(|l| l >= key) {
                    return Err(wrong());
                }
                each(key, value)?;
                last = Some(key.to_vec());
            }
            left -= count;
        }
        let mut rest = [0];
        match input.read(&mut rest).map_err(io(path, "read"))? {
            0 => Ok(()),
            _ => Err(damaged(path, "something follows the last chunk")),
        }
    }

    /// Whether a store holds these records and no others.
    ///
    /// # Errors
    /// Those of the store and of reading the file.
    pub fn equals(&self, kv: &Kv) -> Result<bool> {
        let mut is_equal = kv.stats().records_count == self.records;
        self.for_each(|key, value| {
            is_equal &= kv.get(key)?.as_deref() == Some(value);
            Ok(())
        })?;
        Ok(is_equal)
    }

    /// Writes the records into an empty store and verifies that it holds them.
    ///
    /// # Errors
    /// `Kind::Usage` for a store that is not empty or has other sizes, `Kind::Full`; those of the
    /// store.
    pub fn restore(&self, kv: &mut Kv) -> Result<u64> {
        let stats = kv.stats();
        let fits = (stats.key_bytes, stats.value_bytes) == (self.key_bytes, self.value_bytes);
        if !fits || stats.records_count > 0 {
            return Err(Error::new(Kind::Usage, "a backup is restored into an empty store alike"));
        }
        kv.fill(|put| self.for_each(put))?;
        match self.equals(kv)? {
            true => Ok(self.records),
            false => Err(damaged(&self.path, "the new store does not read back the same")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::Options;
    use littoral_device::zoned::model::ModelDevice;

    /// A store of one record.
    fn store() -> Kv {
        let options = Options::new(Engine::Zb, 1);
        let device = ModelDevice::new(options.geometry).unwrap();
        let mut kv = Kv::create_on(Box::new(device), &options).unwrap();
        kv.put(&[1; 8], &[2; 8]).unwrap();
        kv
    }

    #[test]
    fn a_file_with_a_drafts_name_is_kept_and_a_draft_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (path, draft) = (dir.path().join("saved"), dir.path().join("saved.part"));
        let kv = store();
        std::fs::write(&draft, b"half of a download").unwrap();
        let error = write(&kv, &path).unwrap_err();
        assert_eq!(error.kind(), Kind::Exists, "{error}");
        assert_eq!(std::fs::read(&draft).unwrap(), b"half of a download");
        for left in [&b""[..], &MAGIC[..3], &[0; 4096]] {
            std::fs::write(&draft, left).unwrap();
            assert_eq!(write(&kv, &path).unwrap(), 1);
            assert!(!draft.exists());
            std::fs::remove_file(&path).unwrap();
        }
    }

    /// Folders of procfs cannot be flushed, nor can those of some file systems that are shared
    /// with a host.
    #[test]
    fn a_folder_that_cannot_be_flushed_names_its_files() {
        name_durably(Path::new("/proc/self/status")).unwrap();
    }

    #[test]
    fn a_file_made_while_the_backup_was_written_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (path, draft) = (dir.path().join("saved"), dir.path().join("saved.part"));
        std::fs::write(&path, b"of another process").unwrap();
        let file = File::create(&draft).unwrap();
        let error = write_draft(&store(), &file, &draft, &path).unwrap_err();
        assert_eq!(error.kind(), Kind::Exists, "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"of another process");
    }
}
