//! A device behind a local socket (`unix:`), as `push serve` offers it.
//!
//! A message to the device is the length of its data (u32), the command, the data; a message from
//! it is the length (u32), the completion, the data.

use std::io::{BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Device;
use crate::command::{COMPLETION_BYTES, Command, Completion};
use crate::error::{Error, Kind, Result};

/// Most bytes of data in a message.
pub(crate) const DATA_MAX: usize = 80 << 20;
/// Silence after which a device counts as lost.
const SILENCE: Duration = Duration::from_secs(60);
/// Times that a connection is tried, a tenth of a second apart.
const TRIES: u32 = 20;

/// A device behind a socket.
#[derive(Debug)]
pub struct Remote {
    path: PathBuf,
    input: BufReader<UnixStream>,
    output: Vec<u8>,
}

/// Adds a message to bytes that are to be sent.
pub(crate) fn put_message(out: &mut Vec<u8>, head: &[u8], data: &[u8]) {
    out.extend_from_slice(&(data.len() as u32).to_le_bytes());
    out.extend_from_slice(head);
    out.extend_from_slice(data);
}

fn connect(path: &Path) -> Result<BufReader<UnixStream>> {
    let failed = |e| {
        let what = format!("{}: no device answers; start `littoral push serve`", path.display());
        Error::with_source(Kind::Io, what, e)
    };
    let stream = UnixStream::connect(path).map_err(failed)?;
    stream.set_read_timeout(Some(SILENCE)).map_err(failed)?;
    stream.set_write_timeout(Some(SILENCE)).map_err(failed)?;
    Ok(BufReader::with_capacity(256 << 10, stream))
}

impl Remote {
    /// Connects to the device at a socket.
    ///
    /// # Errors
    /// [`Kind::Io`] when none answers.
    pub fn open(path: &Path) -> Result<Remote> {
        Ok(Remote { path: path.to_owned(), input: connect(path)?, output: Vec::new() })
    }

    fn lost(&self) -> impl Fn(std::io::Error) -> Error + use<> {
        let what = format!("{}: the device is lost", self.path.display());
        move |e| Error::with_source(Kind::Io, what.clone(), e)
    }

    fn flush(&mut self) -> Result<()> {
        let lost = self.lost();
        let written = self.input.get_mut().write_all(&self.output).map_err(lost);
        self.output.clear();
        written
    }
}

impl Device for Remote {
    fn submit(&mut self, command: &Command, payload: &[u8]) -> Result<()> {
        put_message(&mut self.output, &command.encode(), payload);
        if self.output.len() > 1 << 20 { self.flush() } else { Ok(()) }
    }

    fn wait(&mut self) -> Result<(Completion, Vec<u8>)> {
        // Commands are sent together, when no answer is left to take.
        if !self.output.is_empty() && self.input.buffer().is_empty() {
            self.flush()?;
        }
        let lost = self.lost();
        let mut head = [0; 4 + COMPLETION_BYTES];
        if self.input.buffer().len() < head.len() {
            self.flush()?;
        }
        self.input.read_exact(&mut head).map_err(&lost)?;
        let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if len > DATA_MAX {
            let what = format!("{}: a message of {len} bytes", self.path.display());
            return Err(Error::new(Kind::Corrupt, what));
        }
        let mut data = vec![0; len];
        if self.input.buffer().len() < len {
            self.flush()?;
        }
        self.input.read_exact(&mut data).map_err(&lost)?;
        Ok((Completion::decode(&head[4..])?, data))
    }

    fn reconnect(&mut self) -> Result<()> {
        self.output.clear();
        let mut last = None;
        for _ in 0..TRIES {
            match connect(&self.path) {
                Ok(input) => {
                    self.input = input;
                    return Ok(());
                }
                Err(e) => last = Some(e),
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(last.expect("invariant: it was tried"))
    }
}
