//! A device behind a local socket (`unix:`), as `push serve` offers it.
//!
//! A message to the device is the length of its data (u32), the command, the data; a message from
//! it is the length (u32), the completion, the data.
//!
//! Invariants
//! - Nothing is read behind bytes that are no message: the connection has ended then. Checked by
//!   `a_connection_that_brings_no_messages_has_ended`.

use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
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
    /// Whether it brought what is no message.
    has_ended: bool,
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
        let (input, output) = (connect(path)?, Vec::new());
        Ok(Remote { path: path.to_owned(), input, output, has_ended: false })
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

    /// Ends a connection whose bytes are no message, as where the next one begins is unknown.
    fn end(&mut self) {
        // A connection that cannot be shut down has ended.
        let _ = self.input.get_ref().shutdown(Shutdown::Both);
        self.has_ended = true;
    }
}

impl Device for Remote {
    fn submit(&mut self, command: &Command, payload: &[u8]) -> Result<()> {
        put_message(&mut self.output, &command.encode(), payload);
        if self.output.len() > 1 << 20 { self.flush() } else { Ok(()) }
    }

    fn wait(&mut self) -> Result<(Completion, Vec<u8>)> {
        let lost = self.lost();
        if self.has_ended {
            return Err(lost(ErrorKind::ConnectionAborted.into()));
        }
        // Commands are sent together, when no answer is left to take.
        if !self.output.is_empty() && self.input.buffer().is_empty() {
            self.flush()?;
        }
        let mut head = [0; 4 + COMPLETION_BYTES];
        if self.input.buffer().len() < head.len() {
            self.flush()?;
        }
        self.input.read_exact(&mut head).map_err(&lost)?;
        let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if len > DATA_MAX {
            self.end();
            let what = format!("{}: a message of {len} bytes", self.path.display());
            return Err(Error::new(Kind::Corrupt, what));
        }
        let mut data = vec![0; len];
        if self.input.buffer().len() < len {
            self.flush()?;
        }
        self.input.read_exact(&mut data).map_err(&lost)?;
        let completion = Completion::decode(&head[4..]).inspect_err(|_| self.end())?;
        Ok((completion, data))
    }

    fn reconnect(&mut self) -> Result<()> {
        self.output.clear();
        let mut last = None;
        for _ in 0..TRIES {
            match connect(&self.path) {
                Ok(input) => {
                    (self.input, self.has_ended) = (input, false);
                    return Ok(());
                }
                Err(e) => last = Some(e),
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(last.expect("invariant: it was tried"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_connection_that_brings_no_messages_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        let listener = UnixListener::bind(&path).unwrap();
        let mut remote = Remote::open(&path).unwrap();
        // A message that is too long; a completion whose status is unknown.
        let unknown = [&[0u8; 4][..], &[9; COMPLETION_BYTES]].concat();
        for bytes in [[0xffu8; 4 + COMPLETION_BYTES].to_vec(), unknown] {
            let (mut peer, _) = listener.accept().unwrap();
            peer.write_all(&bytes.repeat(3)).unwrap();
            assert_eq!(remote.wait().unwrap_err().kind(), Kind::Corrupt);
            assert_eq!(remote.wait().unwrap_err().kind(), Kind::Io, "nothing more is read");
            remote.reconnect().unwrap();
        }
    }
}
