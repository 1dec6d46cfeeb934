//! The frames of the TCP fabric: {length u32, kind u8, applied u64, body}, little-endian.
//!
//! Invariants
//! - Bytes that are no frame are told from a frame that has not all come; neither panics. Checked
//!   by `a_frame_comes_whole_or_not_at_all`,
//!   `a_length_that_no_frame_has_is_told_from_one_that_has_not_all_come`.
//! - Beats, answers and identities are not operations: they are not counted for acknowledgement.
//!   Checked by `beats_answers_and_identities_are_no_operations`.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;

use littoral_base::codec::{Reader, Writer};

use super::Rmw;
use super::board::BOARD_BYTES_MAX;
use crate::{Error, Kind, Result};

pub(super) const HEADER_BYTES: usize = 13;

/// The longest body of a frame.
pub const BODY_BYTES_MAX: usize = 1 << 26;

pub(super) const PUT: u8 = 1;
pub(super) const GET: u8 = 2;
pub(super) const ADD: u8 = 3;
pub(super) const POST: u8 = 4;
pub(super) const FLUSH: u8 = 5;
pub(super) const BEAT_FRAME: u8 = 6;
pub(super) const ANSWER: u8 = 7;
pub(super) const WAKE: u8 = 8;
pub(super) const CHANGE: u8 = 9;
pub(super) const BOARD_WRITE: u8 = 10;
pub(super) const BOARD_READ: u8 = 11;
pub(super) const IDENTITY: u8 = 12;

pub(super) fn is_operation(kind: u8) -> bool {
    !matches!(kind, ANSWER | BEAT_FRAME | IDENTITY)
}

pub(super) enum Split<'b> {
    Frame(u8, u64, &'b [u8], &'b [u8]),
    More,
    TooLong(usize),
}

pub(super) fn split_frame(bytes: &[u8]) -> Split<'_> {
    let mut r = Reader::new(bytes);
    let (Some(length), Some(kind), Some(applied)) = (r.u32(), r.u8(), r.u64()) else {
        return Split::More;
    };
    let length = length as usize;
    if length > BODY_BYTES_MAX {
        return Split::TooLong(length);
    }
    match r.bytes(length) {
        Some(body) => Split::Frame(kind, applied, body, &bytes[HEADER_BYTES + length..]),
        None => Split::More,
    }
}

pub(super) fn read_change(r: &mut Reader<'_>) -> Option<Rmw> {
    let (op, a, b) = (r.u8()?, r.u64()?, r.u64()?);
    match op {
        0 => Some(Rmw::Add(a)),
        1 => Some(Rmw::Swap(a)),
        2 => Some(Rmw::CompareSwap { current: a, new: b }),
        _ => None,
    }
}

pub(super) fn write_change(w: &mut Writer, op: Rmw) {
    let (code, a, b) = match op {
        Rmw::Add(add) => (0, add, 0),
        Rmw::Swap(value) => (1, value, 0),
        Rmw::CompareSwap { current, new } => (2, current, new),
    };
    w.u8(code).u64(a).u64(b);
}

pub(super) fn board_sized(data: &[u8]) -> Result<()> {
    if data.len() <= BOARD_BYTES_MAX {
        return Ok(());
    }
    let what = format!("{} bytes for a board; at most {BOARD_BYTES_MAX}", data.len());
    Err(Error::new(Kind::IllegalRequest, what))
}

/// Memory that an empty queue keeps.
const QUEUE_BYTES_KEPT: usize = 1 << 16;

/// Writes what the socket takes now; how many bytes are left.
pub(super) fn drain(mut stream: &TcpStream, queue: &mut VecDeque<u8>) -> io::Result<usize> {
    while !queue.is_empty() {
        match stream.write(queue.as_slices().0) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => drop(queue.drain(..n)),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            Err(e) => return Err(e),
        }
    }
    if queue.is_empty() && queue.capacity() > QUEUE_BYTES_KEPT {
        *queue = VecDeque::new();
    }
    Ok(queue.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(kind: u8, applied: u64, body: &[u8]) -> Vec<u8> {
        let mut w = Writer::new();
        w.u32(body.len() as u32).u8(kind).u64(applied).raw(body);
        w.finish()
    }

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn a_frame_comes_whole_or_not_at_all(
            kind: u8, applied: u64, body in proptest::collection::vec(any::<u8>(), 0..60),
            after in proptest::collection::vec(any::<u8>(), 0..20), cut: prop::sample::Index,
        ) {
            let bytes = frame(kind, applied, &body);
            let part = &bytes[..cut.index(bytes.len())];
            prop_assert!(matches!(split_frame(part), Split::More), "{} bytes", part.len());
            let more = [&bytes[..], &after].concat();
            let Split::Frame(k, a, b, rest) = split_frame(&more) else { panic!("a whole frame") };
            prop_assert_eq!((k, a, b, rest), (kind, applied, &body[..], &after[..]));
        }

        #[test]
        fn a_change_comes_back_from_its_bytes(a: u64, b: u64, other in 3u8..) {
            for op in [Rmw::Add(a), Rmw::Swap(a), Rmw::CompareSwap { current: a, new: b }] {
                let mut w = Writer::new();
                write_change(&mut w, op);
                let mut bytes = w.finish();
                prop_assert_eq!(read_change(&mut Reader::new(&bytes)), Some(op));
                prop_assert_eq!(read_change(&mut Reader::new(&bytes[..bytes.len() - 1])), None);
                bytes[0] = other;
                prop_assert_eq!(read_change(&mut Reader::new(&bytes)), None);
            }
        }
    }

    #[test]
    fn a_length_that_no_frame_has_is_told_from_one_that_has_not_all_come() {
        let mut bytes = frame(PUT, 0, &[]);
        for (length, is_legal) in [(BODY_BYTES_MAX, true), (BODY_BYTES_MAX + 1, false)] {
            bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
            let is_more = matches!(split_frame(&bytes), Split::More);
            let is_refused =
                matches!(split_frame(&bytes), Split::TooLong(found) if found == length);
            assert_eq!((is_more, is_refused), (is_legal, !is_legal), "{length}");
        }
    }

    #[test]
    fn beats_answers_and_identities_are_no_operations() {
        let operations = [PUT, GET, ADD, POST, FLUSH, WAKE, CHANGE, BOARD_WRITE, BOARD_READ];
        assert!(operations.into_iter().all(is_operation));
        assert!(![ANSWER, BEAT_FRAME, IDENTITY].into_iter().any(is_operation));
    }
}
