//! Lengths in an Arrow IPC file, checked before its decoder allocates memory by them.
//!
//! Invariant: a message, its body and each of its buffers lie inside the file, and no buffer says
//! that it is longer than [`BUFFER_BYTES_MAX`] without compression. Checked by
//! `lengths_that_a_file_does_not_have_are_refused`.

use std::fs::File;
use std::os::unix::fs::FileExt;

use arrow_ipc::{Block, RecordBatch, root_as_footer, root_as_message};

use super::Decoded;

const MAGIC: &[u8; 6] = b"ARROW1";
/// What begins a message since version 0.15 of the format.
const CONTINUATION: u32 = u32::MAX;
/// The longest buffer behind a compressed one: offsets of text have 32 bits.
const BUFFER_BYTES_MAX: u64 = 1 << 31;

/// Checks every length of a file, or of a stream in a file; the most bytes that a batch takes while
/// it is decoded, with the dictionaries before it.
pub(super) fn check(file: &File) -> Decoded<u64> {
    let mut needs = Needs::default();
    let bytes = file.metadata()?.len();
    let mut front = [0; 6];
    file.read_exact_at(&mut front, 0)?;
    if front != *MAGIC {
        let mut at = 0;
        while let Some(found) = message(file, (at, bytes))? {
            at = found.body + found.body_bytes;
            needs.add(&found);
        }
        return Ok(needs.bytes());
    }
    let mut tail = [0; 10];
    let tail_at = bytes.checked_sub(10).ok_or("shorter than a footer")?;
    file.read_exact_at(&mut tail, tail_at)?;
    let length = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    let from = tail_at.checked_sub(length).ok_or("a footer longer than the file")?;
    let footer = read(file, from, length)?;
    let footer = root_as_footer(&footer).map_err(|e| e.to_string())?;
    let blocks = [footer.dictionaries(), footer.recordBatches()];
    for block in blocks.into_iter().flatten().flatten() {
        needs.add(&self::block(file, block, tail_at)?);
    }
    Ok(needs.bytes())
}

/// What decoding takes: a batch at a time, all dictionaries.
#[derive(Default)]
struct Needs {
    batch: u64,
    dictionaries: u64,
}

impl Needs {
    fn add(&mut self, found: &Found) {
        let bytes = found.body_bytes.saturating_add(found.plain_bytes);
        if found.is_dictionary {
            self.dictionaries = self.dictionaries.saturating_add(bytes);
        } else {
            self.batch = self.batch.max(bytes);
        }
    }

    fn bytes(&self) -> u64 {
        self.batch.saturating_add(self.dictionaries)
    }
}

fn block(file: &File, block: &Block, end: u64) -> Decoded<Found> {
    let lengths = (u64::try_from(block.metaDataLength())?, u64::try_from(block.bodyLength())?);
    let at = u64::try_from(block.offset())?;
    let whole = lengths.0.checked_add(lengths.1).and_then(|sum| sum.checked_add(at));
    if whole.is_none_or(|whole| whole > end) {
        return Err("a block that leaves the file".into());
    }
    // The decoder takes buffers from where the block says that the body is.
    match message(file, (at, end))? {
        Some(found) if found.body == at + lengths.0 && found.body_bytes == lengths.1 => Ok(found),
        _ => Err("a block whose lengths are not its message's".into()),
    }
}

/// Where a message's body lies, and what it is.
struct Found {
    body: u64,
    body_bytes: u64,
    /// Its compressed buffers without compression.
    plain_bytes: u64,
    is_dictionary: bool,
}

/// Checks the message at `at` in a file that ends at `end`; nothing at the end of a stream.
fn message(file: &File, (at, end): (u64, u64)) -> Decoded<Option<Found>> {
    if at + 4 > end {
        return Ok(None);
    }
    let word = |at: u64| -> Decoded<u32> {
        let mut word = [0; 4];
        file.read_exact_at(&mut word, at)?;
        Ok(u32::from_le_bytes(word))
    };
    let first = word(at)?;
    let (length, from) =
        if first == CONTINUATION { (word(at + 4)?, at + 8) } else { (first, at + 4) };
    if length == 0 {
        return Ok(None);
    }
    let body = from + u64::from(length);
    if body > end {
        return Err("a message longer than the file".into());
    }
    let metadata = read(file, from, length.into())?;
    let message = root_as_message(&metadata).map_err(|e| e.to_string())?;
    let body_bytes = u64::try_from(message.bodyLength())?;
    if body.checked_add(body_bytes).is_none_or(|next| next > end) {
        return Err("a body longer than the file".into());
    }
    let dictionary = message.header_as_dictionary_batch().and_then(|batch| batch.data());
    let is_dictionary = dictionary.is_some();
    let plain_bytes = match message.header_as_record_batch().or(dictionary) {
        Some(batch) => buffers(file, batch, (body, body_bytes))?,
        None => 0,
    };
    Ok(Some(Found { body, body_bytes, plain_bytes, is_dictionary }))
}

/// Checks the buffers of a batch whose body begins at `body`; the bytes of the compressed ones
/// without compression.
fn buffers(file: &File, batch: RecordBatch<'_>, (body, bytes): (u64, u64)) -> Decoded<u64> {
    let mut plain_bytes = 0u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let (at, length) = (u64::try_from(buffer.offset())?, u64::try_from(buffer.length())?);
        if at.checked_add(length).is_none_or(|to| to > bytes) {
            return Err("a buffer that leaves its body".into());
        }
        if batch.compression().is_some() && length >= 8 {
            let mut prefix = [0; 8];
            file.read_exact_at(&mut prefix, body + at)?;
            // Minus one: this buffer is not compressed.
            let plain = i64::from_le_bytes(prefix);
            if plain == -1 {
                continue;
            }
            let plain = u64::try_from(plain)?;
            if plain > BUFFER_BYTES_MAX {
                return Err(
                    "a compressed buffer of more than 2 GiB: write the table in smaller batches"
                        .into(),
                );
            }
            plain_bytes = plain_bytes.saturating_add(plain);
        }
    }
    Ok(plain_bytes)
}

fn read(file: &File, at: u64, length: u64) -> Decoded<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length)?];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}
