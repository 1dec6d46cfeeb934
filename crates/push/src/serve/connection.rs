//! One host's connection: bytes to entries of the request queue, entries of the response queue to
//! bytes, neither waiting for the other side.
//!
//! Invariants
//! - One call reads [`READ_BYTES`] at most, whatever a host sends. Checked by
//!   `a_call_reads_a_fixed_number_of_bytes`.
//! - A host cannot make the server hold more than its message limit and what it asked for. Checked
//!   by `answers_that_are_not_read_end_the_connection`.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use littoral_base::units::Picos;

use crate::api::{DATA_MAX, put_message};
use crate::command::{COMMAND_BYTES, COMPLETION_BYTES};

/// An entry of the request queue with its data.
type Request = ([u8; COMMAND_BYTES], Vec<u8>);

/// Bytes of answers that a host has not read after which its connection is closed.
const OUTPUT_MAX: usize = 96 << 20;
/// Bytes of one read.
const READ_BYTES: usize = 1 << 16;
/// Bytes of a message in front of its data.
const HEAD: usize = 4 + COMMAND_BYTES;

pub(super) struct Connection {
    stream: UnixStream,
    /// What one read may bring, filled anew by each.
    chunk: Vec<u8>,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of the output that are sent.
    sent: usize,
    /// When bytes came, or an answer went, last.
    heard: Picos,
    is_open: bool,
}

impl Connection {
    pub(super) fn new(stream: UnixStream, now: Picos) -> Connection {
        let (input, output, chunk) = (Vec::new(), Vec::new(), vec![0; READ_BYTES]);
        Connection { stream, chunk, input, output, sent: 0, heard: now, is_open: true }
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    pub(super) fn has_output(&self) -> bool {
        self.sent < self.output.len()
    }

    /// Whether nothing came and nothing was answered for a lease.
    pub(super) fn is_silent(&self, now: Picos, lease: Picos) -> bool {
        now.0.saturating_sub(self.heard.0) > lease.0
    }

    /// The entries that have arrived whole after one more read: others are served before the next.
    pub(super) fn receive(&mut self, now: Picos) -> Vec<Request> {
        match self.stream.read(&mut self.chunk) {
            Ok(0) => self.is_open = false,
            Ok(n) => {
                self.heard = now;
                self.input.extend(&self.chunk[..n]);
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.is_open = false,
        }
        self.commands()
    }

    fn commands(&mut self) -> Vec<Request> {
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some((len, entry)) = self.input[at..].split_first_chunk::<4>() {
            let len = u32::from_le_bytes(*len) as usize;
            if len > DATA_MAX {
                log::info!("a host sent {len} bytes of data; its connection is closed");
                self.is_open = false;
                break;
            }
            let Some((entry, rest)) = entry.split_first_chunk::<COMMAND_BYTES>() else { break };
            let Some(data) = rest.get(..len) else { break };
            found.push((*entry, data.to_vec()));
            at += HEAD + len;
        }
        self.input.drain(..at);
        found
    }

    pub(super) fn send(&mut self, now: Picos, entry: &[u8; COMPLETION_BYTES], data: &[u8]) {
        self.heard = now;
        if self.output.len() - self.sent + data.len() > OUTPUT_MAX {
            self.is_open = false;
            return;
        }
        put_message(&mut self.output, entry, data);
        if self.output.len() - self.sent > 1 << 18 {
            self.flush();
        }
    }

    pub(super) fn flush(&mut self) {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    // A host that always lags a little would let what was sent grow for ever.
                    if self.sent > self.output.len() / 2 {
                        self.output.drain(..self.sent);
                        self.sent = 0;
                    }
                    return;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.is_open = false;
                    return;
                }
            }
        }
        self.output.clear();
        self.sent = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, Opcode};

    #[test]
    fn a_call_reads_a_fixed_number_of_bytes() {
        let (mut host, stream) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut connection = Connection::new(stream, Picos(0));
        let (mut messages, sent) = (Vec::new(), 1500);
        let entry = Command::plain(Opcode::Read, 0).encode();
        (0..sent).for_each(|_| put_message(&mut messages, &entry, &[]));
        host.write_all(&messages).unwrap();
        let first = connection.receive(Picos(0)).len();
        assert!(first <= READ_BYTES / HEAD, "{first} of {sent} commands at once");
        let rest: usize = (0..3).map(|_| connection.receive(Picos(0)).len()).sum();
        assert_eq!(first + rest, sent, "the rest comes with later calls");
    }

    #[test]
    fn answers_that_are_not_read_end_the_connection() {
        let (_host, stream) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut connection = Connection::new(stream, Picos(0));
        let (data, mut answers) = (vec![0u8; 1 << 20], 0);
        while connection.is_open() {
            connection.send(Picos(0), &[0; COMPLETION_BYTES], &data);
            answers += 1;
            assert!(answers <= OUTPUT_MAX / data.len() + 2, "{answers} MiB of answers");
        }
        let held = connection.output.len() - connection.sent;
        assert!(held <= OUTPUT_MAX + 4 + COMPLETION_BYTES, "{held} bytes are held");
    }
}
