//! The queues between hosts and a device: requests of 64 bytes go in, responses of 16 bytes come
//! out, each with its data.
//!
//! The device in this process, the served one and the simulated one take their commands from here
//! and answer here; what a host and a device know of each other has passed through an entry.
//!
//! Invariants
//! - Entries leave in the order in which they came. Checked by `entries_pass_in_order_as_bytes`.
//! - Bytes that are no command are an error of the host that sent them and of no other. Checked by
//!   `entries_pass_in_order_as_bytes`.

use std::collections::VecDeque;

use crate::command::{COMMAND_BYTES, COMPLETION_BYTES, Command, Completion};
use crate::error::Result;

/// A command with its data.
pub type Request = (Command, Vec<u8>);

/// Requests and responses of hosts that `H` tells apart; a response's data are a `D`.
#[derive(Debug)]
pub struct Queues<H, D> {
    requests: VecDeque<(H, [u8; COMMAND_BYTES], Vec<u8>)>,
    responses: VecDeque<(H, [u8; COMPLETION_BYTES], D)>,
}

impl<H, D> Default for Queues<H, D> {
    fn default() -> Queues<H, D> {
        Queues { requests: VecDeque::new(), responses: VecDeque::new() }
    }
}

impl<H, D> Queues<H, D> {
    /// A host adds a request.
    pub fn request(&mut self, host: H, entry: [u8; COMMAND_BYTES], data: Vec<u8>) {
        self.requests.push_back((host, entry, data));
    }

    /// The device takes the oldest request: the host, and its command with data.
    ///
    /// # Errors
    /// As [`Command::decode`]; the entry is gone.
    pub fn next_request(&mut self) -> Option<(H, Result<Request>)> {
        let (host, entry, data) = self.requests.pop_front()?;
        Some((host, Command::decode(&entry).map(|command| (command, data))))
    }

    /// The device adds a response.
    pub fn respond(&mut self, host: H, completion: &Completion, data: D) {
        let entry = completion.encode();
        debug_assert_eq!(Completion::decode(&entry).ok().as_ref(), Some(completion));
        self.responses.push_back((host, entry, data));
    }

    /// The oldest response and the host that it is for.
    pub fn next_response(&mut self) -> Option<(H, [u8; COMPLETION_BYTES], D)> {
        self.responses.pop_front()
    }

    /// The connection is lost: nothing that was on the way arrives.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.responses.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Opcode, Status};

    #[test]
    fn entries_pass_in_order_as_bytes() {
        let mut queues = Queues::default();
        let command = |id| Command { id, ..Command::plain(Opcode::Read, 7) };
        for id in 0..3 {
            queues.request('a', command(id).encode(), vec![id as u8]);
        }
        queues.request('b', [0xff; COMMAND_BYTES], Vec::new());
        for id in 0..3 {
            let (host, taken) = queues.next_request().unwrap();
            assert_eq!((host, taken.unwrap()), ('a', (command(id), vec![id as u8])));
            let (status, attempt) = (Status::Raw, 1);
            let completion = Completion { id, attempt, status, bytes: 0, merged: 0 };
            queues.respond(host, &completion, ());
        }
        let (host, taken) = queues.next_request().unwrap();
        assert!(host == 'b' && taken.is_err() && queues.next_request().is_none());
        for id in 0..3 {
            let (host, entry, _) = queues.next_response().unwrap();
            assert_eq!((host, Completion::decode(&entry).unwrap().id), ('a', id));
        }
        assert!(queues.next_response().is_none());
    }
}
