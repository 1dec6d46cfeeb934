//! One host's connection: bytes to commands, answers to bytes, neither waiting for the other side.
//!
//! Invariants
//! - A host cannot make the server hold more than its message limit and what it asked for. Checked
//!   by `a_host_that_does_not_read_is_closed`.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use littoral_base::units::Picos;

use crate::api::{DATA_MAX, message};
use crate::command::{COMMAND_BYTES, Command, Completion};

/// Bytes of answers that a host has not read after which its connection is closed.
const OUTPUT_MAX: usize = 96 << 20;
/// Bytes of a message in front of its data.
const HEAD: usize = 4 + COMMAND_BYTES;

pub(super) struct Connection {
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of the output that are sent.
    sent: usize,
    heard: Picos,
    is_open: bool,
}

impl Connection {
    pub(super) fn new(stream: UnixStream, now: Picos) -> Connection {
        let (input, output) = (Vec::new(), Vec::new());
        Connection { stream, input, output, sent: 0, heard: now, is_open: true }
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

    /// Whether nothing came for a lease.
    pub(super) fn is_silent(&self, now: Picos, lease: Picos) -> bool {
        now.0.saturating_sub(self.heard.0) > lease.0
    }

    /// The commands that have arrived whole.
    pub(super) fn receive(&mut self, now: Picos) -> Vec<(Command, Vec<u8>)> {
        let mut chunk = [0; 1 << 16];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => self.is_open = false,
                Ok(n) => {
                    self.heard = now;
                    self.input.extend(&chunk[..n]);
                    if n == chunk.len() {
                        continue;
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(_) => self.is_open = false,
            }
            break;
        }
        self.commands()
    }

    fn commands(&mut self) -> Vec<(Command, Vec<u8>)> {
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some(head) = self.input.get(at..at + HEAD) {
            let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let command = Command::decode(&head[4..]);
            let (Ok(command), true) = (command, len <= DATA_MAX) else {
                log::info!("a host sent what is no command; its connection is closed");
                self.is_open = false;
                break;
            };
            let Some(data) = self.input.get(at + HEAD..at + HEAD + len) else { break };
            found.push((command, data.to_vec()));
            at += HEAD + len;
        }
        self.input.drain(..at);
        found
    }

    pub(super) fn send(&mut self, completion: &Completion, data: &[u8]) {
        if self.output.len() - self.sent + data.len() > OUTPUT_MAX {
            self.is_open = false;
            return;
        }
        self.output.extend(message(&completion.encode(), data));
        if self.output.len() - self.sent > 1 << 18 {
            self.flush();
        }
    }

    pub(super) fn flush(&mut self) {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
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
