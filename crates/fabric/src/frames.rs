//! The frames of the TCP fabric: {length u32, kind u8, applied u64, body}, little-endian.
//!
//! Invariants
//! - Bytes that are no frame are told from a frame that has not all come; neither panics.
//! - Beats, answers and identities are not operations: they are not counted for acknowledgement.

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
    Ok(queue.len())
}
