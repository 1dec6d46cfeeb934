//! An input file as lines of text, whatever it is compressed with.
//!
//! Invariants
//! - Compression is told by the file's first bytes, never by its name.
//! - A line longer than [`LINE_BYTES_MAX`] is an error, so a hostile file cannot take all memory.
//! - Every error carries path and line; a truncated gzip or zstd stream is one.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::error::{Error, Kind, Result, io};

/// The longest line that is read.
pub const LINE_BYTES_MAX: usize = 1 << 20;
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
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.count.set(self.count.get() + n as u64);
        Ok(n)
    }
}

/// Lines of an input file.
pub(crate) struct Lines {
    path: PathBuf,
    reader: Box<dyn BufRead>,
    compression: Compression,
    consumed: Rc<Cell<u64>>,
    bytes: u64,
    number: u64,
    line: Vec<u8>,
}

impl Lines {
    /// Opens a file, looking through gzip or zstd.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut file = File::open(path).map_err(|e| io("cannot open", path, e))?;
        let bytes = file.metadata().map_err(|e| io("cannot look at", path, e))?.len();
        let mut magic = Vec::new();
        let front = Read::by_ref(&mut file).take(6).read_to_end(&mut magic);
        front.map_err(|e| io("cannot read", path, e))?;
        let compression = compression_of(&magic, path)?;
        let consumed = Rc::new(Cell::new(0));
        let whole = Cursor::new(magic).chain(file);
        let counted = Counted { inner: whole, count: Rc::clone(&consumed) };
        Ok(Lines {
            path: path.to_path_buf(),
            reader: decompress(counted, compression).map_err(|e| io("cannot read", path, e))?,
            compression,
            consumed,
            bytes,
            number: 0,
            line: Vec::new(),
        })
    }

    /// The next line without its end; `None` at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<&str>> {
        self.line.clear();
        let mut limited = (&mut self.reader).take(LINE_BYTES_MAX as u64 + 1);
        let read = limited.read_until(b'\n', &mut self.line);
        self.number += 1;
        if let Err(e) = read {
            return Err(self.broken(e));
        }
        if self.line.is_empty() {
            return Ok(None);
        }
        if self.line.len() > LINE_BYTES_MAX {
            return Err(
                self.error(format!("longer than {LINE_BYTES_MAX} bytes: is this a text file?"))
            );
        }
        let Ok(text) = std::str::from_utf8(&self.line) else {
            return Err(self.error("not UTF-8 text"));
        };
        let text = if self.number == 1 { text.trim_start_matches('\u{feff}') } else { text };
        Ok(Some(text.trim_end_matches(['\n', '\r'])))
    }

    fn broken(&self, source: std::io::Error) -> Error {
        let what = match self.compression {
            Compression::None => return io("cannot read", &self.path, source),
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        };
        let context = format!("{}: {what} data are truncated or damaged", self.place());
        Error::with_source(Kind::Input, context, source)
    }

    fn place(&self) -> String {
        format!("{}:{}", self.path.display(), self.number)
    }

    /// An error at the current line.
    #[cold]
    pub(crate) fn error(&self, what: impl AsRef<str>) -> Error {
        Error::new(Kind::Input, format!("{}: {}", self.place(), what.as_ref()))
    }

    /// Bytes of the file read so far, and all of them.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.consumed.get(), self.bytes)
    }

    /// How the file is compressed.
    pub(crate) fn compression(&self) -> Compression {
        self.compression
    }

    /// The number of the current line, from one.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

fn compression_of(magic: &[u8], path: &Path) -> Result<Compression> {
    let unsupported = |name: &str| {
        let context = format!("{} is {name}; gzip, zstd or plain text are read", path.display());
        Err(Error::new(Kind::Unsupported, context))
    };
    match magic {
        [0x1f, 0x8b, ..] => Ok(Compression::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Ok(Compression::Zstd),
        [b'B', b'Z', b'h', ..] => unsupported("bzip2"),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => unsupported("xz"),
        [b'P', b'K', 3, 4, ..] => unsupported("a zip archive"),
        [b'L', b'I', b'T', b'G', b'R', b'A'] => unsupported("a littoral graph already"),
        _ => Ok(Compression::None),
    }
}

fn decompress(
    file: impl Read + 'static,
    compression: Compression,
) -> std::io::Result<Box<dyn BufRead>> {
    Ok(match compression {
        Compression::None => Box::new(BufReader::with_capacity(BUFFER_BYTES, file)),
        Compression::Gzip => {
            let raw = BufReader::with_capacity(BUFFER_BYTES, file);
            let inflated = flate2::bufread::MultiGzDecoder::new(raw);
            Box::new(BufReader::with_capacity(BUFFER_BYTES, inflated))
        }
        Compression::Zstd => {
            let inflated = zstd::Decoder::new(file)?;
            Box::new(BufReader::with_capacity(BUFFER_BYTES, inflated))
        }
    })
}
