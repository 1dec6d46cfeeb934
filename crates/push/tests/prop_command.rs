//! Entries come back; a page is counted once whatever is delayed, repeated or lost.

#![allow(clippy::unwrap_used)] // Reason: helpers of a test.

use littoral_base::rng::{self, Rng};
use littoral_base::units::Picos;
use littoral_push::command::{
    Account, Admission, Answer, Command, Completion, Ending, Generation, OPCODES, Opcode, Quotas,
    Sessions, Status,
};
use proptest::prelude::*;

const QUOTAS: Quotas = Quotas { sessions: 4, tasks: 2, pages: 1000, lease: Picos(1_000) };

fn command(page: usize, attempt: u16) -> Command {
    let (page, opcode) = (page as u64, Opcode::ReadProc);
    Command {
        opcode,
        id: 1,
        session: 7,
        task: 0,
        attempt,
        page,
        address: 0,
        buffer: 0,
        bytes: 8192,
        backlog: 0,
        host_page: 0,
    }
}

/// A scan over a channel that reorders, repeats and delays; the pages that the host and the device
/// counted, by page.
fn scan(pages: usize, seed: u64) -> (Vec<u32>, bool) {
    let mut random = rng::seeded(seed);
    let (mut device, mut host) = (Sessions::new(QUOTAS), Account::new(pages));
    let mut counted = vec![0u32; pages];
    let mut merges = vec![0u32; pages];
    assert_eq!(device.init(Picos(0), 7, 0, pages as u64), Status::Processed);
    let mut to_device: Vec<Command> = Vec::new();
    let mut inside: Vec<(Command, Generation)> = Vec::new();
    let mut to_host: Vec<(usize, u16, Status)> = Vec::new();
    for page in 0..pages {
        to_device.push(command(page, host.attempt(page)));
    }
    let mut timeouts = 0;
    while host.open() > 0 {
        let queues = [to_device.len(), inside.len(), to_host.len()];
        match random.random_range(0..4) {
            0 if queues[0] > 0 => {
                let c = to_device.swap_remove(random.random_range(0..queues[0]));
                if random.random_range(0..8) == 0 {
                    to_device.push(c);
                }
                match device.admit(Picos(0), &c) {
                    Admission::Admitted(generation) => inside.push((c, generation)),
                    Admission::Answered(status) => {
                        to_host.push((c.page as usize, c.attempt, status))
                    }
                }
            }
            1 if queues[1] > 0 => {
                let (c, generation) = inside.swap_remove(random.random_range(0..queues[1]));
                let ending = match random.random_range(0..5) {
                    0 => Ending::Shipped(Status::Raw),
                    1 => Ending::Shipped(Status::Filtered),
                    2 => Ending::Shipped(Status::MediaError),
                    _ => Ending::Computed,
                };
                let page = c.page as usize;
                let before = device_count(&mut device);
                let status = device.ended(&c, generation, ending);
                merges[page] += device_count(&mut device) - before;
                to_host.push((page, c.attempt, status));
            }
            2 if queues[2] > 0 => {
                let (page, attempt, status) =
                    to_host.swap_remove(random.random_range(0..queues[2]));
                if random.random_range(0..6) == 0 {
                    continue; // lost
                }
                match host.answered(page, attempt, status) {
                    Answer::Compute => counted[page] += 1,
                    Answer::Retry => to_device.push(command(page, host.attempt(page))),
                    Answer::OnDevice | Answer::Ignore => {}
                }
            }
            // A timeout: some page is asked for again.
            _ if timeouts < 4 * pages || queues == [0; 3] => {
                timeouts += 1;
                let page = random.random_range(0..pages);
                if host.is_open(page) {
                    to_device.push(command(page, host.attempt(page)));
                }
            }
            _ => {}
        }
    }
    let merged = last(&mut device, inside, &mut merges);
    let total: Vec<u32> = counted.iter().zip(&merges).map(|(a, b)| a + b).collect();
    (total, host.check(merged).is_ok())
}

/// FINAL's count. Requests still on the way are no longer the host's; those inside hold FINAL up.
fn last(device: &mut Sessions, inside: Vec<(Command, Generation)>, merges: &mut [u32]) -> u32 {
    let mut answer = device.finish(Picos(0), 7, 0);
    for (c, generation) in inside {
        assert!(answer.is_none(), "FINAL answered with a page under way");
        let before = device_count(device);
        device.ended(&c, generation, Ending::Computed);
        merges[c.page as usize] += device_count(device) - before;
        answer = device.finish(Picos(0), 7, 0);
    }
    let (status, merged) = answer.unwrap();
    assert_eq!(status, Status::Result);
    merged
}

/// Merged pages, through the number that FINAL would return.
fn device_count(device: &mut Sessions) -> u32 {
    device.merged(7, 0)
}

proptest! {
    #![proptest_config(littoral_testing::standard())]
    #[test]
    fn a_page_is_counted_once_in_any_interleaving(pages in 1usize..12, seed: u64) {
        let (counted, is_agreed) = scan(pages, seed);
        prop_assert!(counted.iter().all(|c| *c == 1), "{:?}", counted);
        prop_assert!(is_agreed);
    }

    #[test]
    fn entries_come_back(
        op in 0..OPCODES.len(), id: u16, session: u32, task: u16, attempt: u16, page: u64, address: u64,
        buffer: u64, bytes: u32, backlog: u64, host_page: u64, flip in 0usize..64, status in 0u8..8, merged: u32,
    ) {
        let c = Command { opcode: OPCODES[op], id, session, task, attempt, page, address, buffer, bytes, backlog, host_page };
        let mut entry = c.encode();
        prop_assert_eq!(Command::decode(&entry).unwrap(), c);
        entry[flip] ^= 0x10;
        if let Ok(other) = Command::decode(&entry) {
            prop_assert_eq!(other.encode(), entry);
            prop_assert_ne!(other, c);
        }
        let mut entry = [0; 16];
        entry[10] = status;
        entry[0..4].copy_from_slice(&bytes.to_le_bytes());
        entry[4..8].copy_from_slice(&merged.to_le_bytes());
        let completion = Completion::decode(&entry).unwrap();
        prop_assert_eq!(completion.encode(), entry);
        prop_assert!(Completion::decode(&entry[..15]).is_err());
    }
}

#[test]
fn final_is_a_barrier() {
    let mut device = Sessions::new(QUOTAS);
    device.init(Picos(0), 7, 0, 2);
    let (first, late) = (command(0, 1), command(1, 1));
    let Admission::Admitted(generation) = device.admit(Picos(0), &first) else { panic!("refused") };
    assert_eq!(device.finish(Picos(0), 7, 0), None, "a page is under way");
    assert_eq!(device.admit(Picos(0), &late), Admission::Answered(Status::SessionGone));
    assert_eq!(device.ended(&first, generation, Ending::Computed), Status::Processed);
    assert_eq!(device.finish(Picos(0), 7, 0), Some((Status::Result, 1)));
    assert_eq!(device.count(), 0);
}

#[test]
fn forgotten_sessions_make_room_and_quotas_hold() {
    let mut device = Sessions::new(QUOTAS);
    for session in 0..4 {
        assert_eq!(device.init(Picos(0), session, 0, 1), Status::Processed);
    }
    assert_eq!(device.init(Picos(0), 9, 0, 1), Status::Exhausted, "a fifth session");
    assert_eq!(device.init(Picos(900), 3, 1, 1), Status::Processed);
    assert_eq!(device.init(Picos(900), 3, 2, 1), Status::Exhausted, "a third task");
    assert_eq!(device.init(Picos(900), 3, 1, 5000), Status::Exhausted, "too many pages");
    assert_eq!(device.init(Picos(1_500), 9, 0, 1), Status::Processed, "leases have run out");
    assert_eq!(device.count(), 2);
    let gone = Command { session: 0, ..command(0, 1) };
    assert_eq!(device.admit(Picos(1_500), &gone), Admission::Answered(Status::SessionGone));
}
