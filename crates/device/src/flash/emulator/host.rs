//! The host's half of the emulator: how the arrival of a whole read is recognised, rule by rule.
//!
//! Invariants
//! - Data are copied to a private buffer first and checked there: whatever the device writes into
//!   the shared lines later, late, twice or for another request, cannot change what was checked.
//!   Checked by `nothing_wrong_is_believed_when_the_device_is_a_thread`,
//!   `what_the_device_writes_later_does_not_reach_data_handed_out`.
//! - A rule answers [`Status::Ok`] only for data that it can prove, under the faults its adapter
//!   admits. Checked by `nothing_wrong_is_believed_under_every_fault`, `the_canary_is_caught`.
//!
//! The rules and the proof of each are on `docs/design/completion.md`.

use super::content::verified_page_no;
use super::sentinel::{RESERVED, SENTINEL_A, SENTINEL_B};
use super::{Rule, Wire};
use crate::flash::protocol::{LINE_BYTES, Request};
use crate::read::Status;

/// A request as the host remembers it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) request: Request,
    pub(super) attempt: u32,
    pub(super) deadline: u64,
    /// Its number in the submission ring.
    pub(super) position: u64,
    /// Lines already recognised as arrived (two sentinels only).
    pub(super) arrived: u64,
}

impl Flight {
    fn lines(&self) -> usize {
        self.request.len as usize / LINE_BYTES
    }

    fn sentinel(&self) -> u64 {
        if self.attempt.is_multiple_of(2) { SENTINEL_A } else { SENTINEL_B }
    }
}

/// What a look at the shared memory shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// No whole answer yet.
    Nothing,
    /// A proven answer.
    Answer(Status),
    /// An answer that proves wrong; the request is worth another attempt.
    Bad(Status),
}

/// Before a request is submitted: marks what has not arrived.
pub(super) fn prepare(wire: &Wire, rule: Rule, flight: &Flight) {
    let sentinel = match rule {
        Rule::Word => return,
        Rule::TwoSentinels => flight.sentinel(),
        Rule::PageTrailer { .. } | Rule::ReservedWord | Rule::CanaryFirstLine => RESERVED,
    };
    for line in (0..flight.lines()).filter(|l| flight.arrived >> (l % 64) & 1 == 0) {
        wire.lines.mark(flight.request.slot, line, sentinel);
    }
}

/// Looks for the answer to `flight`; proven data are in `buffer`. `overdue`: the deadline has
/// passed.
pub(super) fn look(
    wire: &Wire,
    rule: Rule,
    flight: &mut Flight,
    buffer: &mut Vec<u8>,
    overdue: bool,
) -> Seen {
    if rule == Rule::Word {
        return by_word(wire, flight, buffer);
    }
    let failure = wire.answers.latest(flight.request.slot);
    if failure.tag() == flight.request.tag && failure.verifies(&flight.request, &[]) {
        return Seen::Answer(status_of(failure.status()));
    }
    let slot = flight.request.slot;
    let is_there = match rule {
        Rule::Word => unreachable!("invariant: handled above"),
        Rule::PageTrailer { page_bytes } => {
            return by_trailer(wire, page_bytes, flight, buffer, overdue);
        }
        Rule::ReservedWord => {
            (0..flight.lines()).all(|l| wire.lines.tail(slot, l) >> 32 != RESERVED >> 32)
        }
        Rule::TwoSentinels => note_arrivals(wire, flight),
        Rule::CanaryFirstLine => wire.lines.tail(slot, 0) != RESERVED,
    };
    if !is_there {
        return Seen::Nothing;
    }
    wire.lines.copy_out(slot, flight.request.len as usize, buffer);
    Seen::Answer(Status::Ok)
}

fn by_word(wire: &Wire, flight: &Flight, buffer: &mut Vec<u8>) -> Seen {
    let request = &flight.request;
    let word = wire.answers.latest(request.slot);
    if word.tag() != request.tag {
        return Seen::Nothing;
    }
    let status = status_of(word.status());
    let len = if status == Status::Ok { request.len as usize } else { 0 };
    wire.lines.copy_out(request.slot, len, buffer);
    if word.verifies(request, buffer) {
        Seen::Answer(status)
    } else {
        Seen::Bad(Status::ChecksumMismatch)
    }
}

fn by_trailer(
    wire: &Wire,
    page_bytes: u32,
    flight: &Flight,
    buffer: &mut Vec<u8>,
    overdue: bool,
) -> Seen {
    let request = &flight.request;
    let all_there = (0..flight.lines()).all(|l| wire.lines.tail(request.slot, l) != RESERVED);
    if !all_there && !overdue {
        return Seen::Nothing;
    }
    wire.lines.copy_out(request.slot, request.len as usize, buffer);
    let first = request.addr / u64::from(page_bytes);
    for (page, page_no) in buffer.chunks_exact(page_bytes as usize).zip(first..) {
        match verified_page_no(page) {
            Some(found) if u64::from(found) == page_no => {}
            Some(_) => return Seen::Bad(Status::Misdirected),
            // A line whose data equal the mark cannot be told from one that is missing, so the
            // checksum is asked once, at the deadline.
            None if all_there => return Seen::Bad(Status::ChecksumMismatch),
            None => return Seen::Nothing,
        }
    }
    Seen::Answer(Status::Ok)
}

/// A line has arrived when its last word differs from the sentinel of this attempt, or did so in an
/// earlier one: it cannot equal both.
fn note_arrivals(wire: &Wire, flight: &mut Flight) -> bool {
    let (slot, sentinel) = (flight.request.slot, flight.sentinel());
    for line in 0..flight.lines() {
        if wire.lines.tail(slot, line) != sentinel {
            flight.arrived |= 1 << line;
        }
    }
    flight.arrived.count_ones() as usize == flight.lines()
}

fn status_of(byte: u8) -> Status {
    let known = [Status::Ok, Status::MediaError, Status::Misdirected, Status::Refused];
    known.into_iter().find(|s| *s as u8 == byte).unwrap_or(Status::ChecksumMismatch)
}
