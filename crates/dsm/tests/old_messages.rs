//! Messages between ranks as version 2 of the protocol writes them, in one committed file: this
//! build decodes each to its value and encodes the value to the same bytes.
//!
//! - `tests/fixtures/v2/messages.bin` is the bytes of each message of [`messages`], in order,
//!   behind their length (u32, little-endian).
//! - `LITTORAL_FIXTURES=DIR cargo test -p littoral-dsm --test old_messages` writes the file to
//!   `DIR`. Ranks of one job run the same build or builds of one version, so a changed message
//!   needs a new version of the greeting and a new folder here.

use littoral_base::units::NodeId;
use littoral_dsm::core::diff::Diff;
use littoral_dsm::core::message::{LockId, Message, Notice, Notices, PageId};
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
        Message::Grant { .. } => 6,
        Message::Release { .. } => 7,
        Message::Arrive { .. } => 8,
        Message::Depart { .. } => 9,
        Message::DiffsAlong { .. } => 10,
        Message::Wanted { .. } => 11,
        Message::Push { .. } => 12,
    }
}

const TAGS: u8 = 12;

fn pages(numbers: &[u32]) -> Vec<PageId> {
    numbers.iter().copied().map(PageId).collect()
}

fn notices(of: &[(u32, u16)]) -> Vec<Notice> {
    of.iter().map(|&(page, writer)| Notice { page: PageId(page), writer: NodeId(writer) }).collect()
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
            notices: Notices::These(notices(&[(1, 2), (u32::MAX, u16::MAX)])),
            version,
        },
        Message::Release { lock, generation: 5, pages: pages(&[9, 8, 7]) },
        Message::Arrive { generation: u64::MAX, pages: vec![] },
        Message::Depart { generation: 6, notices: notices(&[(4, 3)]) },
        Message::DiffsAlong { diffs: diffs() },
        Message::Wanted { absent: pages(&[1]), held: pages(&[2, u32::MAX]) },
        Message::Push { pages: vec![(PageId(1), NodeId(0)), (PageId(2), NodeId(9))] },
    ]
}

fn fixture() -> Vec<u8> {
    Fixtures::of(env!("CARGO_MANIFEST_DIR"), "v2").bytes("messages.bin")
}

#[test]
fn messages_of_version_2_decode_to_their_values() {
    let file = fixture();
    let (mut rest, mut found) = (&file[..], Vec::new());
    while let Some((len, after)) = rest.split_first_chunk() {
        let (bytes, after) = after.split_at(u32::from_le_bytes(*len) as usize);
        found.push(decode(bytes).unwrap());
        rest = after;
    }
    assert!(rest.is_empty());
    assert_eq!(found, messages());
    for wanted in 1..=TAGS {
        assert!(found.iter().any(|m| tag(m) == wanted), "no message of tag {wanted}");
    }
}

#[test]
fn messages_are_written_as_version_2_byte_for_byte() {
    let mut file = Vec::new();
    for message in messages() {
        let bytes = encode(&message);
        assert_eq!(bytes[0], tag(&message), "{message:?}");
        file.extend((bytes.len() as u32).to_le_bytes());
        file.extend(bytes);
    }
    offer("messages.bin", &file);
    assert!(file == fixture(), "the bytes of version 2 changed");
}
