//! The bytes of a message: little-endian, one tag byte, lengths in front.
//!
//! | tag | message | fields |
//! |---|---|---|
//! | 1 | `GetPage` | page u32, lower half of the barrier generation u32 |
//! | 2 | `Page` | page u32, length u32, bytes |
//! | 3 | `Diffs` | count u32, then a page: page u32, lines u16, then a line: u16, mask u64, bytes |
//! | 4 | `DiffsApplied` | |
//! | 5 | `Acquire` | lock u32, seen u64 |
//! | 6 to 9 | | grant, release, arrival and departure of version 2, which are refused by name |
//! | 10 | `DiffsAlong` | as `Diffs` |
//! | 11 | `Wanted` | count u32, absent pages, count u32, held pages |
//! | 12 | `Push` | count u32, then page u32, rank u16 each |
//! | 13 | `Grant` | lock u32, version u64, count u32 (all ones: everything), notices |
//! | 14 | `Release` | lock u32, generation u64, count u32, runs |
//! | 15 | `Arrive` | generation u64, count u32, runs |
//! | 16 | `Depart` | generation u64, count u32, notices |
//! | 17 | `Gather` | generation u64, round u8, count u32, arrivals |
//!
//! A page in a list is a u32. A run is its first page u32 and its length u8, or 255 and its length
//! u32 where that is 255 or more. A notice is a run and a u16 writer. An arrival is
//! {rank u16, allocations u32, one number for them u64, count u32, runs, count u32, pages}.
//!
//! Invariants
//! - `decode(encode(m)) == m`; bytes that are no message are an error with the offset, never a
//!   panic; a hostile length allocates nothing beyond the bytes that are there. Checked by
//!   `messages_come_back`, `every_prefix_and_every_longer_form_is_refused`, `noise_never_panics`,
//!   `a_hostile_count_allocates_nothing`.
//! - A run has one form: the long one is refused for lengths of the short one, and a run that is
//!   empty or goes beyond page 2^32 - 1 is none. Checked by `a_run_has_one_form`.

use littoral_base::codec::{Reader, Writer};
use littoral_base::units::NodeId;

use super::diff::Diff;
use super::message::{Arrival, LockId, Message, Notice, Notices, PageId, PageRun};
use crate::error::{Error, Kind, Result};

const EVERYTHING: u32 = u32::MAX;
/// The length of a run whose length follows.
const LONG: u8 = u8::MAX;
/// Most bytes of a run.
pub(crate) const RUN_BYTES_MAX: usize = 9;
/// Tags of version 2 for messages that name single pages.
const SINGLE_PAGES: std::ops::RangeInclusive<u8> = 6..=9;

/// The bytes of `message`.
pub fn encode(message: &Message) -> Vec<u8> {
    let mut w = Writer::new();
    match message {
        Message::GetPage { page, phase } => _ = w.u8(1).u32(page.0).u32(*phase),
        Message::Page { page, bytes } => _ = w.u8(2).u32(page.0).u32(count(bytes.len())).raw(bytes),
        Message::Diffs { diffs } => put_diffs(w.u8(3), diffs),
        Message::DiffsAlong { diffs } => put_diffs(w.u8(10), diffs),
        Message::Wanted { absent, held } => {
            w.u8(11);
            put_pages(&mut w, absent);
            put_pages(&mut w, held);
        }
        Message::Push { pages } => {
            w.u8(12).u32(count(pages.len()));
            pages.iter().for_each(|(page, rank)| _ = w.u32(page.0).u16(rank.0));
        }
        Message::DiffsApplied => _ = w.u8(4),
        Message::Acquire { lock, seen } => _ = w.u8(5).u32(lock.0).u64(*seen),
        Message::Grant { lock, notices, version } => {
            w.u8(13).u32(lock.0).u64(*version);
            match notices {
                Notices::Everything => _ = w.u32(EVERYTHING),
                Notices::These(list) => put_notices(&mut w, list),
            }
        }
        Message::Release { lock, generation, pages } => {
            w.u8(14).u32(lock.0).u64(*generation);
            put_runs(&mut w, pages);
        }
        Message::Arrive { generation, pages } => {
            w.u8(15).u64(*generation);
            put_runs(&mut w, pages);
        }
        Message::Depart { generation, notices } => {
            w.u8(16).u64(*generation);
            put_notices(&mut w, notices);
        }
        Message::Gather { generation, round, arrivals } => {
            w.u8(17).u64(*generation).u8(*round).u32(count(arrivals.len()));
            arrivals.iter().for_each(|arrival| put_arrival(&mut w, arrival));
        }
    }
    w.finish()
}

fn count(n: usize) -> u32 {
    u32::try_from(n).expect("invariant: a job has fewer than 2^32 pages and notices")
}

fn put_pages(w: &mut Writer, pages: &[PageId]) {
    w.u32(count(pages.len()));
    pages.iter().for_each(|p| _ = w.u32(p.0));
}

fn put_notices(w: &mut Writer, notices: &[Notice]) {
    w.u32(count(notices.len()));
    for notice in notices {
        put_run(w, notice.pages);
        w.u16(notice.writer.0);
    }
}

fn put_arrival(w: &mut Writer, arrival: &Arrival) {
    let (count, sum) = arrival.made;
    w.u16(arrival.rank.0).u32(count).u64(sum);
    put_runs(w, &arrival.pages);
    put_pages(w, &arrival.wanted);
}

fn arrival(r: &mut Reader<'_>) -> Option<Arrival> {
    let (rank, made) = (NodeId(r.u16()?), (r.u32()?, r.u64()?));
    Some(Arrival { rank, made, pages: runs(r)?, wanted: list(r, |r| r.u32().map(PageId))? })
}

/// A counted list of runs.
pub(crate) fn put_runs(w: &mut Writer, runs: &[PageRun]) {
    w.u32(count(runs.len()));
    runs.iter().for_each(|run| put_run(w, *run));
}

fn put_run(w: &mut Writer, run: PageRun) {
    w.u32(run.first().0);
    match u8::try_from(run.count()) {
        Ok(short) if short < LONG => _ = w.u8(short),
        _ => _ = w.u8(LONG).u32(run.count()),
    }
}

/// What [`put_runs`] wrote.
pub(crate) fn runs(r: &mut Reader<'_>) -> Option<Vec<PageRun>> {
    list(r, run)
}

fn run(r: &mut Reader<'_>) -> Option<PageRun> {
    let (first, short) = (PageId(r.u32()?), r.u8()?);
    let count = match short {
        LONG => r.u32().filter(|count| *count >= u32::from(LONG))?,
        short => u32::from(short),
    };
    PageRun::new(first, count)
}

fn put_diffs(w: &mut Writer, diffs: &[(PageId, Diff)]) {
    w.u32(count(diffs.len()));
    diffs.iter().for_each(|(page, diff)| put_diff(w, *page, diff));
}

fn put_diff(w: &mut Writer, page: PageId, diff: &Diff) {
    let lines = diff.lines();
    let count = u16::try_from(lines.len()).expect("invariant: a page has at most 65535 lines");
    w.u32(page.0).u16(count);
    lines.for_each(|(line, mask, bytes)| _ = w.u16(line).u64(mask).raw(bytes));
}

/// The message in `bytes`, all of them.
///
/// # Errors
/// `Kind::Protocol` with the offset at which the bytes stop being a message.
pub fn decode(bytes: &[u8]) -> Result<Message> {
    let mut r = Reader::new(bytes);
    match message(&mut r) {
        Some(m) if r.remaining() == 0 => Ok(m),
        None if bytes.first().is_some_and(|tag| SINGLE_PAGES.contains(tag)) => {
            let what = "a message of version 2 of the protocol; start every rank with one build";
            Err(Error::new(Kind::Protocol, what))
        }
        _ => {
            let at = bytes.len() - r.remaining();
            let what = format!("{} bytes are no message from offset {at} on", bytes.len());
            Err(Error::new(Kind::Protocol, what).at_offset(at as u64))
        }
    }
}

fn message(r: &mut Reader<'_>) -> Option<Message> {
    Some(match r.u8()? {
        1 => Message::GetPage { page: PageId(r.u32()?), phase: r.u32()? },
        2 => {
            let page = PageId(r.u32()?);
            let n = r.u32()?;
            Message::Page { page, bytes: r.bytes(n as usize)?.to_vec() }
        }
        3 => Message::Diffs { diffs: list(r, diff_of_page)? },
        4 => Message::DiffsApplied,
        5 => Message::Acquire { lock: LockId(r.u32()?), seen: r.u64()? },
        10 => Message::DiffsAlong { diffs: list(r, diff_of_page)? },
        11 => Message::Wanted {
            absent: list(r, |r| r.u32().map(PageId))?,
            held: list(r, |r| r.u32().map(PageId))?,
        },
        12 => Message::Push { pages: list(r, |r| Some((PageId(r.u32()?), NodeId(r.u16()?))))? },
        13 => grant(r)?,
        14 => Message::Release { lock: LockId(r.u32()?), generation: r.u64()?, pages: runs(r)? },
        15 => Message::Arrive { generation: r.u64()?, pages: runs(r)? },
        16 => Message::Depart { generation: r.u64()?, notices: list(r, notice)? },
        17 => Message::Gather { generation: r.u64()?, round: r.u8()?, arrivals: list(r, arrival)? },
        _ => return None,
    })
}

fn grant(r: &mut Reader<'_>) -> Option<Message> {
    let (lock, version) = (LockId(r.u32()?), r.u64()?);
    let mut ahead = r.clone();
    let notices = if ahead.u32()? == EVERYTHING {
        *r = ahead;
        Notices::Everything
    } else {
        Notices::These(list(r, notice)?)
    };
    Some(Message::Grant { lock, notices, version })
}

/// A counted list; grows with the bytes read, so a hostile count allocates nothing.
fn list<T>(
    r: &mut Reader<'_>,
    mut item: impl FnMut(&mut Reader<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let n = r.u32()?;
    let mut items = Vec::new();
    for _ in 0..n {
        items.push(item(r)?);
    }
    Some(items)
}

fn notice(r: &mut Reader<'_>) -> Option<Notice> {
    Some(Notice { pages: run(r)?, writer: NodeId(r.u16()?) })
}

fn diff_of_page(r: &mut Reader<'_>) -> Option<(PageId, Diff)> {
    let page = PageId(r.u32()?);
    let mut diff = Diff::default();
    for _ in 0..r.u16()? {
        let (line, mask) = (r.u16()?, r.u64()?);
        diff.push(line, mask, r.bytes(mask.count_ones() as usize)?);
    }
    Some((page, diff))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn line() -> impl Strategy<Value = (u16, u64, Vec<u8>)> {
        (any::<u16>(), any::<u64>(), vec(any::<u8>(), 64)).prop_map(|(line, mask, mut bytes)| {
            bytes.truncate(mask.count_ones() as usize);
            (line, mask, bytes)
        })
    }

    fn one_run() -> impl Strategy<Value = PageRun> {
        let count = prop_oneof![Just(1u32), 1u32..300, any::<u32>()];
        (any::<u32>(), count).prop_map(|(first, count)| {
            PageRun::new(PageId(first), count).unwrap_or(PageId(first).into())
        })
    }

    fn page_runs() -> impl Strategy<Value = Vec<PageRun>> {
        vec(one_run(), 0..9)
    }

    fn notices() -> impl Strategy<Value = Vec<Notice>> {
        let one = |(pages, writer)| Notice { pages, writer: NodeId(writer) };
        vec((one_run(), any::<u16>()).prop_map(one), 0..9)
    }

    fn pages() -> impl Strategy<Value = Vec<PageId>> {
        vec(any::<u32>().prop_map(PageId), 0..9)
    }

    fn arrivals() -> impl Strategy<Value = Arrival> {
        let own = (any::<u16>(), any::<(u32, u64)>());
        (own, page_runs(), pages()).prop_map(|((rank, made), pages, wanted)| Arrival {
            rank: NodeId(rank),
            made,
            pages,
            wanted,
        })
    }

    fn any_message() -> impl Strategy<Value = Message> {
        let diff = vec(line(), 0..4).prop_map(|lines| {
            let mut diff = Diff::default();
            lines.iter().for_each(|(line, mask, bytes)| diff.push(*line, *mask, bytes));
            diff
        });
        let pair = (any::<u32>().prop_map(PageId), diff).boxed();
        prop_oneof![
            any::<(u32, u32)>().prop_map(|(p, phase)| Message::GetPage { page: PageId(p), phase }),
            (any::<u32>(), vec(any::<u8>(), 0..200))
                .prop_map(|(p, bytes)| Message::Page { page: PageId(p), bytes }),
            vec(pair.clone(), 0..4).prop_map(|diffs| Message::Diffs { diffs }),
            vec(pair, 0..4).prop_map(|diffs| Message::DiffsAlong { diffs }),
            (pages(), pages()).prop_map(|(absent, held)| Message::Wanted { absent, held }),
            vec((any::<u32>().prop_map(PageId), any::<u16>().prop_map(NodeId)), 0..9)
                .prop_map(|pages| Message::Push { pages }),
            Just(Message::DiffsApplied),
            any::<(u32, u64)>().prop_map(|(l, seen)| Message::Acquire { lock: LockId(l), seen }),
            (any::<(u32, u64)>(), proptest::option::of(notices())).prop_map(|((l, version), n)| {
                let notices = n.map_or(Notices::Everything, Notices::These);
                Message::Grant { lock: LockId(l), notices, version }
            }),
            (any::<(u32, u64)>(), page_runs()).prop_map(|((l, generation), pages)| {
                Message::Release { lock: LockId(l), generation, pages }
            }),
            (any::<u64>(), page_runs())
                .prop_map(|(g, pages)| Message::Arrive { generation: g, pages }),
            (any::<u64>(), notices())
                .prop_map(|(g, notices)| Message::Depart { generation: g, notices }),
            (any::<(u64, u8)>(), vec(arrivals(), 0..4)).prop_map(
                |((generation, round), arrivals)| Message::Gather { generation, round, arrivals }
            ),
        ]
    }

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn messages_come_back(m in any_message()) {
            prop_assert_eq!(decode(&encode(&m)).unwrap(), m);
        }

        #[test]
        fn every_prefix_and_every_longer_form_is_refused(m in any_message(), cut in any::<prop::sample::Index>()) {
            let mut bytes = encode(&m);
            let short = &bytes[..cut.index(bytes.len())];
            prop_assert_eq!(decode(short).unwrap_err().kind(), Kind::Protocol);
            bytes.push(0);
            prop_assert!(decode(&bytes).is_err());
        }

        #[test]
        fn noise_never_panics(bytes in vec(any::<u8>(), 0..300)) {
            if let Ok(m) = decode(&bytes) { prop_assert_eq!(encode(&m), bytes); }
        }
    }

    #[test]
    fn a_hostile_count_allocates_nothing() {
        let mut w = Writer::new();
        w.u8(15).u64(0).u32(u32::MAX - 1);
        assert!(decode(&w.finish()).is_err());
    }

    #[test]
    fn a_run_has_one_form() {
        let arrival = |first: u32, short: u8, long: Option<u32>| {
            let mut w = Writer::new();
            w.u8(15).u64(0).u32(1).u32(first).u8(short);
            long.into_iter().for_each(|count| _ = w.u32(count));
            decode(&w.finish())
        };
        for (first, short, long) in
            [(7, 0, None), (u32::MAX, 2, None), (7, LONG, Some(254)), (2, LONG, Some(u32::MAX))]
        {
            assert_eq!(arrival(first, short, long).unwrap_err().kind(), Kind::Protocol);
        }
        for (first, count) in [(7, 1), (7, 254), (7, 255), (1, u32::MAX), (u32::MAX, 1)] {
            let run = PageRun::new(PageId(first), count).unwrap();
            let message = Message::Arrive { generation: 0, pages: vec![run] };
            assert_eq!(encode(&message).len(), 13 + if count < 255 { 5 } else { RUN_BYTES_MAX });
            assert_eq!(decode(&encode(&message)).unwrap(), message);
        }
    }

    #[test]
    fn messages_of_version_2_are_refused_by_name() {
        for tag in SINGLE_PAGES {
            let e = decode(&[tag, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap_err();
            assert!(e.to_string().contains("version 2"), "{e}");
        }
    }
}
