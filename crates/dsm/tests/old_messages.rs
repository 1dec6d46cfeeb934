//! Messages between ranks as version 3 of the protocol writes them, in one committed file: this
//! build decodes each to its value and encodes the value to the same bytes. Those of version 2 that
//! name single pages in place of runs are refused by name.
//!
//! - `tests/fixtures/v3/messages.bin` is the bytes of each message of [`messages`], in order,
//!   behind their length (u32, little-endian); `v2` is the same of version 2.
//! - `LITTORAL_FIXTURES=DIR cargo test -p littoral-dsm --test old_messages` writes the file to
//!   `DIR`. Ranks of one job run the same build or builds of one version, so a changed message
//!   needs a new version of the greeting and a new folder here.

#![allow(clippy::unwrap_used)]

use littoral_base::units::NodeId;
use littoral_dsm::core::diff::Diff;
use littoral_dsm::core::message::{Arrival, LockId, Message, Notice, Notices, PageId, PageRun};
use littoral_dsm::core::wire::{decode, encode};
use littoral_testing::fixtures::{Fixtures, offer};

/// The message's tag in the table of `core/wire.rs`; a new message does not compile until it is
/// here and in the fixture.
fn tag(message: &Message) -> u8 {
    match message {
        Message::GetPage { .. } => 1,
        Message::Page { .. } => 2,
        Message::Diffs { .. } => 3,
        Message::DiffsApplied => 4,
        Message::Acquire { .. } => 5,
        Message::Grant { .. } => 13,
        Message::Release { .. } => 14,
        Message::Arrive { .. } => 15,
        Message::Depart { .. } => 16,
        Message::DiffsAlong { .. } => 10,
        Message::Wanted { .. } => 11,
        Message::Push { .. } => 12,
        Message::Gather { .. } => 17,
    }
}

/// Tags of version 2 that version 3 has no message for.
const SINGLE_PAGES: std::ops::RangeInclusive<u8> = 6..=9;
const TAGS: u8 = 17;

fn pages(numbers: &[u32]) -> Vec<PageId> {
    numbers.iter().copied().map(PageId).collect()
}

fn run(first: u32, count: u32) -> PageRun {
    PageRun::new(PageId(first), count).unwrap()
}

fn notices(of: &[(u32, u32, u16)]) -> Vec<Notice> {
    let notice = |&(first, count, writer): &(u32, u32, u16)| Notice {
        pages: run(first, count),
        writer: NodeId(writer),
    };
    of.iter().map(notice).collect()
}

fn arrival(rank: u16) -> Arrival {
    let runs = [run(5, 2), run(9, 300)];
    let pages = runs[..usize::from(rank.min(2))].to_vec();
    let wanted = pages.iter().map(|run| run.first()).collect();
    Arrival { rank: NodeId(rank), made: (4, 0x2122_2324_2526_2728), pages, wanted }
}

fn diffs() -> Vec<(PageId, Diff)> {
    let mut diff = Diff::default();
    diff.push(0, 1 << 63 | 5, &[0xa0, 0xa1, 0xa2]);
    diff.push(63, u64::MAX, &(0..64).collect::<Vec<u8>>());
    vec![(PageId(7), diff), (PageId(8), Diff::default())]
}

/// Every message, with empty and full lists and the largest numbers of each field.
fn messages() -> Vec<Message> {
    let (lock, version) = (LockId(0x0102_0304), 0x1112_1314_1516_1718);
    vec![
        Message::GetPage { page: PageId(0x0a0b_0c0d), phase: 0x0e0f_1011 },
        Message::Page { page: PageId(3), bytes: (0..=255).collect() },
        Message::Diffs { diffs: diffs() },
        Message::DiffsApplied,
        Message::Acquire { lock, seen: u64::MAX },
        Message::Grant { lock, notices: Notices::Everything, version },
        Message::Grant { lock, notices: Notices::These(vec![]), version: 0 },
        Message::Grant {
            lock,
            notices: Notices::These(notices(&[(1, 1, 2), (7, 254, 2), (u32::MAX, 1, u16::MAX)])),
            version,
        },
        Message::Release {
            lock,
            generation: 5,
            pages: vec![run(9, 1), run(7, 255), run(1, u32::MAX)],
        },
        Message::Arrive { generation: u64::MAX, pages: vec![] },
        Message::Depart { generation: 6, notices: notices(&[(4, 65_536, 3)]) },
        Message::DiffsAlong { diffs: diffs() },
        Message::Wanted { absent: pages(&[1]), held: pages(&[2, u32::MAX]) },
        Message::Push { pages: vec![(PageId(1), NodeId(0)), (PageId(2), NodeId(9))] },
        Message::Gather { generation: 3, round: 1, arrivals: vec![arrival(0), arrival(7)] },
    ]
}

fn fixture(version: &str) -> Vec<u8> {
    Fixtures::of(env!("CARGO_MANIFEST_DIR"), version).bytes("messages.bin")
}

/// The messages of a file, each as its bytes.
fn parts(file: &[u8]) -> Vec<&[u8]> {
    let (mut rest, mut found) = (file, Vec::new());
    while let Some((len, after)) = rest.split_first_chunk() {
        let (bytes, after) = after.split_at(u32::from_le_bytes(*len) as usize);
        found.push(bytes);
        rest = after;
    }
    assert!(rest.is_empty());
    found
}

#[test]
fn messages_of_version_3_decode_to_their_values() {
    let file = fixture("v3");
    let found: Vec<_> = parts(&file).into_iter().map(|bytes| decode(bytes).unwrap()).collect();
    assert_eq!(found, messages());
    for wanted in (1..=TAGS).filter(|tag| !SINGLE_PAGES.contains(tag)) {
        assert!(found.iter().any(|m| tag(m) == wanted), "no message of tag {wanted}");
    }
}

#[test]
fn messages_are_written_as_version_3_byte_for_byte() {
    let mut file = Vec::new();
    for message in messages() {
        let bytes = encode(&message);
        assert_eq!(bytes[0], tag(&message), "{message:?}");
        file.extend((bytes.len() as u32).to_le_bytes());
        file.extend(bytes);
    }
    offer("messages.bin", &file);
    assert!(file == fixture("v3"), "the bytes of version 3 changed");
}

#[test]
fn messages_of_version_2_mean_the_same_or_are_refused_by_name() {
    let (old, new) = (fixture("v2"), messages());
    for (bytes, now) in parts(&old).into_iter().zip(new) {
        match decode(bytes) {
            Ok(message) => assert_eq!(message, now),
            Err(e) => {
                assert!(SINGLE_PAGES.contains(&bytes[0]), "{e}");
                assert!(e.to_string().contains("version 2"), "{e}");
            }
        }
    }
}
