//! An input file as blocks of whole records, whatever it is compressed with.
//!
//! Invariants
//! - Compression is told by the file's first bytes, never by its name. Checked by
//!   `compression_is_told_by_the_first_bytes`.
//! - A block ends where a record ends; only a record longer than [`RECORD_BYTES_MAX`] is cut, and
//!   parsing then refuses it, so a hostile file cannot take all memory. Lists of METIS files have
//!   any length: they are refused where memory is bounded. Checked by
//!   `blocks_end_where_records_end`, `a_list_of_a_metis_file_may_be_of_any_length`.
//! - A byte order mark at the beginning is not part of the text; UTF-16 and UTF-32 are refused by
//!   name. Checked by `wide_encodings_are_told_by_mark_or_zeros`,
//!   `odd_files_give_the_right_graph_or_a_refusal_in_place`.
//! - A truncated gzip or zstd stream is an error with the line it ends in. Checked by
//!   `truncated_gzip_and_zstd_are_refused_with_a_line`.

use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memchr::{memchr, memrchr};

use super::dialect::Delimiter;
use super::fault::{RECORD_BYTES_MAX, place};
use super::foreign;
use super::record::{RecordEnd, record_end};
use crate::error::{Error, Kind, Result, io, text};

/// Bytes of a block, about; also what the dialect is found out from.
const BLOCK_BYTES: usize = 1 << 20;
const BUFFER_BYTES: usize = 1 << 18;

/// How an input is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, several members allowed.
    Gzip,
    /// zstd, several frames allowed.
    Zstd,
}

/// Counts what has been read from the file itself, for progress.
struct Counted<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.count.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// How much of a file has been read, from any thread.
#[derive(Clone, Debug)]
pub(crate) struct Consumed {
    count: Arc<AtomicU64>,
    bytes: u64,
}

impl Consumed {
    /// Bytes of the file read so far, and all of them.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.count.load(Ordering::Relaxed), self.bytes)
    }
}

/// A file being read through its compression.
pub(crate) struct Input {
    path: PathBuf,
    reader: Box<dyn Read + Send>,
    compression: Compression,
    consumed: Consumed,
    /// What has been read and not been handed out.
    buffer: Vec<u8>,
    /// Lines before the buffer.
    lines: u64,
    ended: bool,
}

impl Input {
    /// Opens a file, looks through gzip or zstd, and reads its front.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut file = File::open(path).map_err(|e| io("cannot open", path, e))?;
        let meta = file.metadata().map_err(|e| io("cannot look at", path, e))?;
        if meta.is_dir() {
            let context = format!("{} is a folder, not a list of edges", path.display());
            return Err(Error::new(Kind::Argument, context).at_path(path));
        }
        let mut magic = Vec::new();
        let front = Read::by_ref(&mut file).take(6).read_to_end(&mut magic);
        front.map_err(|e| io("cannot read", path, e))?;
        let compression = compression_of(&magic, path)?;
        let count = Arc::new(AtomicU64::new(0));
        let whole = Cursor::new(magic).chain(file);
        let counted = Counted { inner: whole, count: Arc::clone(&count) };
        let mut input = Input {
            path: path.to_path_buf(),
            reader: decompress(counted, compression).map_err(|e| io("cannot read", path, e))?,
            compression,
            consumed: Consumed { count, bytes: meta.len() },
            buffer: Vec::new(),
            lines: 0,
            ended: false,
        };
        input.fill(BLOCK_BYTES)?;
        input.check_encoding()?;
        Ok(input)
    }

    /// What has been read and not been handed out: the front of the file, after opening.
    pub(crate) fn front(&self) -> &[u8] {
        &self.buffer
    }

    /// The refusal of a file whose front tells another format than the one it is read as.
    pub(crate) fn foreign(&self) -> Option<Error> {
        foreign::by_content(&self.path, &self.buffer)
    }

    /// Whether the front is all there is.
    pub(crate) fn is_whole(&self) -> bool {
        self.ended
    }

    /// About how many lines the file has, from those of its front.
    pub(crate) fn lines_estimate(&self) -> u64 {
        let lines = memchr::memchr_iter(b'\n', &self.buffer).count() as u64;
        let (read, total) = self.consumed.progress();
        let read = match self.compression {
            _ if self.ended => return lines,
            Compression::None => self.buffer.len() as u64,
            Compression::Gzip | Compression::Zstd => read,
        };
        (u128::from(lines) * u128::from(total) / u128::from(read.max(1))) as u64
    }

    /// Leaves out `bytes` of the front, and answers how many lines they were.
    pub(crate) fn skip(&mut self, bytes: usize) -> u64 {
        self.lines += memchr::memchr_iter(b'\n', &self.buffer[..bytes]).count() as u64;
        self.buffer.drain(..bytes);
        self.lines
    }

    /// Blocks of records separated by `delimiter`.
    pub(crate) fn into_blocks(self, delimiter: Delimiter, comments: [Option<u8>; 2]) -> Blocks {
        let records = Records::Fields(delimiter, comments);
        Blocks { input: self, records, bytes: BLOCK_BYTES, record_bytes_max: RECORD_BYTES_MAX }
    }

    /// Blocks of lines in which quotes mean nothing, each of at most `line_bytes_max` bytes.
    pub(crate) fn into_lines(self, line_bytes_max: usize) -> Blocks {
        let (records, bytes) = (Records::Lines, BLOCK_BYTES);
        Blocks { input: self, records, bytes, record_bytes_max: line_bytes_max }
    }

    /// How the file is compressed.
    pub(crate) fn compression(&self) -> Compression {
        self.compression
    }

    /// The progress of reading, for another thread.
    pub(crate) fn consumed(&self) -> Consumed {
        self.consumed.clone()
    }

    fn fill(&mut self, bytes: usize) -> Result<()> {
        let wanted = bytes.saturating_sub(self.buffer.len());
        let mut limited = (&mut self.reader).take(wanted as u64);
        match limited.read_to_end(&mut self.buffer) {
            Ok(read) => {
                self.ended = read < wanted;
                Ok(())
            }
            Err(e) => Err(self.broken(e)),
        }
    }

    fn broken(&self, source: std::io::Error) -> Error {
        let what = match self.compression {
            Compression::None => return io("cannot read", &self.path, source),
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        };
        let (line, column) = place(&self.buffer, self.buffer.len());
        let line = self.lines + line;
        let what = format!("{what} data are truncated or damaged");
        let context = format!("{}:{line}:{column}: {what}", self.path.display());
        let error = Error::with_source(Kind::Input, context, source);
        error.at_path(&self.path).at_line(line).at_column(column)
    }

    fn check_encoding(&mut self) -> Result<()> {
        let front = &self.buffer[..];
        if let Some(encoding) = wide_encoding(front) {
            let what = format!(
                "{encoding} text; convert it first, for example by `iconv -f {encoding} -t utf-8`"
            );
            return Err(text(&self.path, 1, 1, what));
        }
        if front.starts_with(b"\xef\xbb\xbf") {
            self.buffer.drain(..3);
        }
        Ok(())
    }
}

/// The encoding that a text's first bytes tell, when its units are wider than a byte.
fn wide_encoding(front: &[u8]) -> Option<&'static str> {
    match front {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Some("UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("UTF-16"),
        [a, 0, b, 0, ..] if *a != 0 && *b != 0 => Some("UTF-16LE"),
        [0, a, 0, b, ..] if *a != 0 && *b != 0 => Some("UTF-16BE"),
        _ => None,
    }
}

/// Whole records, to be parsed by any thread.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) bytes: Vec<u8>,
    /// Whether the last record is cut because it is too long.
    pub(crate) is_cut: bool,
}

/// What ends a record.
#[derive(Clone, Copy, Debug)]
enum Records {
    /// A line feed outside quoted fields, which this separates; these begin a line in which quotes
    /// mean nothing.
    Fields(Delimiter, [Option<u8>; 2]),
    /// Every line feed.
    Lines,
}

impl Records {
    /// Behind the last record that ends in `bytes`; 0 when none does.
    fn last_end(self, bytes: &[u8]) -> usize {
        match self {
            Records::Fields(delimiter, comments) => last_end(bytes, delimiter, comments),
            Records::Lines => memrchr(b'\n', bytes).map_or(0, |n| n + 1),
        }
    }
}

/// A file's records, block by block.
pub(crate) struct Blocks {
    input: Input,
    records: Records,
    /// Bytes of a block, about.
    bytes: usize,
    /// Bytes of a record, at most.
    record_bytes_max: usize,
}

impl Blocks {
    /// Blocks of about `bytes`, where that is given.
    pub(crate) fn of_bytes(self, bytes: Option<usize>) -> Blocks {
        Blocks { bytes: bytes.unwrap_or(BLOCK_BYTES), ..self }
    }

    /// The next block; `None` at the end of the file.
    ///
    /// # Errors
    /// `Kind::Io`, or `Kind::Input` for damaged compression.
    pub(crate) fn next(&mut self) -> Result<Option<Block>> {
        let mut wanted = self.bytes;
        // The front is longer than a block where blocks are short.
        let short = self.input.buffer.get(..wanted).map_or(0, |b| self.records.last_end(b));
        if short > 0 {
            return Ok(Some(self.cut(short)));
        }
        loop {
            if !self.input.ended {
                self.input.fill(wanted)?;
            }
            let buffer = &mut self.input.buffer;
            if self.input.ended {
                let bytes = std::mem::take(buffer);
                return Ok((!bytes.is_empty()).then_some(Block { bytes, is_cut: false }));
            }
            let end = self.records.last_end(buffer);
            if end > 0 || buffer.len() > self.record_bytes_max.saturating_mul(2) {
                let is_cut = end == 0;
                let end = if is_cut { buffer.len() } else { end };
                return Ok(Some(Block { is_cut, ..self.cut(end) }));
            }
            // Lines of any length are searched again each time, so what is read doubles.
            let doubled = if self.record_bytes_max > RECORD_BYTES_MAX { buffer.len() } else { 0 };
            wanted = buffer.len() + self.bytes.max(doubled);
        }
    }
}

impl Blocks {
    /// The first `end` bytes of the buffer as a block.
    fn cut(&mut self, end: usize) -> Block {
        let rest = self.input.buffer.split_off(end);
        let bytes = std::mem::replace(&mut self.input.buffer, rest);
        self.input.lines += memchr::memchr_iter(b'\n', &bytes).count() as u64;
        Block { bytes, is_cut: false }
    }
}

/// Behind the last record that ends in `bytes`; 0 when none does.
fn last_end(bytes: &[u8], delimiter: Delimiter, comments: [Option<u8>; 2]) -> usize {
    if memchr(b'"', bytes).is_none() {
        return memrchr(b'\n', bytes).map_or(0, |n| n + 1);
    }
    let mut at = 0;
    while at < bytes.len() {
        let end = if comments.contains(&Some(bytes[at])) {
            memchr(b'\n', &bytes[at..]).map(|n| at + n)
        } else {
            match record_end(bytes, at, delimiter) {
                RecordEnd::Newline(n) => Some(n),
                _ => None,
            }
        };
        let Some(end) = end else { break };
        at = end + 1;
    }
    at
}

fn compression_of(magic: &[u8], path: &Path) -> Result<Compression> {
    let unsupported = |name: &str| {
        let context = format!("{} is {name}; gzip, zstd or plain text are read", path.display());
        Err(Error::new(Kind::Unsupported, context).at_path(path))
    };
    match magic {
        [0x1f, 0x8b, ..] => Ok(Compression::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Ok(Compression::Zstd),
        // The level, then the first bytes of a block or of the end; a name may begin with BZh.
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A'] => unsupported("bzip2"),
        [b'B', b'Z', b'h', b'1'..=b'9', 0x17, b'r'] => unsupported("bzip2"),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => unsupported("xz"),
        [b'L', b'I', b'T', b'G', b'R', b'A'] => unsupported("a littoral graph already"),
        _ => Ok(Compression::None),
    }
}

fn decompress(
    file: impl Read + Send + 'static,
    compression: Compression,
) -> std::io::Result<Box<dyn Read + Send>> {
    let raw = BufReader::with_capacity(BUFFER_BYTES, file);
    Ok(match compression {
        Compression::None => Box::new(raw),
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(raw)),
        Compression::Zstd => Box::new(zstd::Decoder::with_buffer(raw)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_end_where_records_end() {
        const COMMA: Delimiter = Delimiter::Byte(b',');
        let none = [None, None];
        for (text, delimiter, comments, kept) in [
            ("a,b\nc,d\ne", COMMA, none, 8),
            ("a,b\n\"c\nd\",e\nf,\"g\nh", COMMA, none, 12),
            ("a,\"b\nc\nd\n", COMMA, none, 0),
            ("# say \"so\n1 2\n3 4", Delimiter::Space, [Some(b'#'), None], 14),
            ("a\"b,c\nd,e\n", COMMA, none, 10),
        ] {
            assert_eq!(last_end(text.as_bytes(), delimiter, comments), kept, "{text:?}");
        }
    }

    #[test]
    fn bzip2_is_told_from_names_that_begin_as_it_does() {
        let of = |magic: &[u8]| compression_of(magic, Path::new("g.el"));
        for text in [&b"BZhou "[..], b"BZh9 1", b"BZh,a\n", b"BZh"] {
            assert_eq!(of(text).unwrap(), Compression::None, "{text:?}");
        }
        for magic in [b"BZh91A", b"BZh1\x17r"] {
            assert_eq!(of(magic).unwrap_err().kind(), Kind::Unsupported);
        }
    }

    #[test]
    fn wide_encodings_are_told_by_mark_or_zeros() {
        for (front, wanted) in [
            (&b"\xff\xfea\0,\0"[..], Some("UTF-16")),
            (b"\xff\xfe\0\0a\0\0\0", Some("UTF-32")),
            (b"1\0,\0", Some("UTF-16LE")),
            (b"\x001\0,", Some("UTF-16BE")),
            (b"1,2\n", None),
            (b"", None),
        ] {
            assert_eq!(wide_encoding(front), wanted);
        }
    }
}
