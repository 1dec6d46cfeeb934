//! Jobs in virtual time: ordinary ranks, one at a time, on an interconnect that is modelled.
//!
//! The ranks of `dsm run --fabric sim` are processes with the real protocol and real memory. In
//! place of a fabric each has a [`seat`] at a [`conductor`], which carries every message and lets
//! one rank run at a time, in the order of virtual time ([`network`]).
//!
//! ```text
//! rank                                conductor
//!  program computes
//!  lock(5)           -- Compute -->   virtual time passes; others have their turns
//!                    <-- message --   a request for a page that arrives meanwhile
//!  serves it         -- Served -->    server time, the page is on its way
//!                    <-- Go ------    the computing is over
//!  asks the manager  -- Begin --->    sent
//!                    <-- message --   the grant
//!  takes it in       -- Served -->    the operation has ended
//!                    <-- Go ------    synchronisation time is over, the program goes on
//! ```
//!
//! Rules
//! - Code between two turns takes no virtual time, except what the rank says of its computing: the
//!   operations that the program declares (`Job::work`), or the thread's processor time
//!   ([`Compute`]). With declared operations equal jobs are equal to the last picosecond.
//! - A rank that leaves without a word (its process ended) is told to every other.
//! - When every rank waits and nothing is under way each is told so; nothing hangs.

pub mod conductor;
pub mod network;
pub mod seat;

use littoral_base::codec::{Reader, Writer};
use littoral_base::units::{NodeId, Picos};

pub use crate::turn::{Ask, Turns, Wait, Wake};

/// What a rank's computing is charged by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compute {
    /// The operations that the program declares; equal runs are equal.
    #[default]
    Declared,
    /// The processor time of the rank's thread on this machine; no two runs are equal.
    Processor,
}

impl Compute {
    /// Both ways.
    pub const ALL: [Compute; 2] = [Compute::Declared, Compute::Processor];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Compute::Declared => "declared",
            Compute::Processor => "processor",
        }
    }
}

type Posts = Vec<(NodeId, Vec<u8>)>;

fn encode_ask(ask: Ask, posts: &[(NodeId, Vec<u8>)]) -> Vec<u8> {
    let mut w = Writer::new();
    match ask {
        Ask::Compute { operations, processor } => _ = w.u8(0).u64(operations).u64(processor.0),
        Ask::Begin { wait, faulted, done } => {
            w.u8(1).u8(u8::from(wait == Wait::Syn)).u8(u8::from(faulted)).u8(u8::from(done));
        }
        Ask::Served { ended } => _ = w.u8(2).u8(u8::from(ended)),
        Ask::Leave => _ = w.u8(3),
    }
    for (to, bytes) in posts {
        w.u16(to.0).u32(length(bytes)).raw(bytes);
    }
    w.finish()
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("invariant: frames are at most a megabyte")
}

fn decode_ask(bytes: &[u8]) -> Option<(Ask, Posts)> {
    let mut r = Reader::new(bytes);
    let ask = match r.u8()? {
        0 => Ask::Compute { operations: r.u64()?, processor: Picos(r.u64()?) },
        1 => {
            let wait = if r.u8()? == 1 { Wait::Syn } else { Wait::Data };
            Ask::Begin { wait, faulted: r.u8()? == 1, done: r.u8()? == 1 }
        }
        2 => Ask::Served { ended: r.u8()? == 1 },
        3 => Ask::Leave,
        _ => return None,
    };
    let mut posts = Vec::new();
    while r.remaining() > 0 {
        let to = NodeId(r.u16()?);
        let len = r.u32()?;
        posts.push((to, r.bytes(len as usize)?.to_vec()));
    }
    Some((ask, posts))
}

fn encode_wake(wake: &Wake, now: Picos) -> Vec<u8> {
    let mut w = Writer::new();
    w.u64(now.0);
    match wake {
        Wake::Go => _ = w.u8(0),
        Wake::Message(from, bytes) => _ = w.u8(1).u16(from.0).raw(bytes),
        Wake::Lost(rank, how) => _ = w.u8(2).u16(rank.0).raw(how.as_bytes()),
        Wake::Stuck(how) => _ = w.u8(3).raw(how.as_bytes()),
    }
    w.finish()
}

fn decode_wake(bytes: &[u8]) -> Option<(Wake, Picos)> {
    let mut r = Reader::new(bytes);
    let now = Picos(r.u64()?);
    let tag = r.u8()?;
    let from = if matches!(tag, 1 | 2) { NodeId(r.u16()?) } else { NodeId(0) };
    let rest = r.bytes(r.remaining())?;
    let text = || String::from_utf8_lossy(rest).into_owned();
    let wake = match tag {
        0 => Wake::Go,
        1 => Wake::Message(from, rest.to_vec()),
        2 => Wake::Lost(from, text()),
        3 => Wake::Stuck(text()),
        _ => return None,
    };
    Some((wake, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_come_back_as_they_were_written() {
        let posts = vec![(NodeId(3), vec![1, 2]), (NodeId(0), vec![])];
        for ask in [
            Ask::Compute { operations: 7, processor: Picos(9) },
            Ask::Begin { wait: Wait::Syn, faulted: true, done: false },
            Ask::Begin { wait: Wait::Data, faulted: false, done: true },
            Ask::Served { ended: true },
            Ask::Leave,
        ] {
            let bytes = encode_ask(ask, &posts);
            assert_eq!(decode_ask(&bytes), Some((ask, posts.clone())));
            assert_eq!(decode_ask(&bytes[..bytes.len() - 1]), None, "a short turn is none");
        }
        for wake in [
            Wake::Go,
            Wake::Message(NodeId(2), vec![5, 6]),
            Wake::Lost(NodeId(1), "gone".into()),
            Wake::Stuck("all wait".into()),
        ] {
            assert_eq!(decode_wake(&encode_wake(&wake, Picos(4))), Some((wake, Picos(4))));
        }
        assert_eq!(decode_wake(&[0; 8]), None);
    }
}
