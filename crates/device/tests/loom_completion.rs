//! The completion protocol under loom: every interleaving of a host and a device over two slots and
//! three requests, bounded in preemptions (`LOOM_MAX_PREEMPTIONS`).
//!
//! The host believes a read once the completion word carries its tag, *without* looking at the CRC:
//! what is proved is the order of stores, which the CRC would only mask. The third request goes out
//! on whichever slot is answered first, over a ring of three entries of which two may be
//! outstanding, so an entry and a buffer are both used again.
//!
//! Two mutants of the device must be caught: one answers before the data, one writes its word into
//! the other slot. A model that lets them pass proves nothing.
//!
//! `scripts/schedules.sh loom` runs it; by hand:
//! `RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target-loom LOOM_MAX_PREEMPTIONS=3
//! cargo test --release -p littoral-device --test loom_completion`
#![cfg(loom)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use littoral_base::sync::{Arc, thread};
use littoral_device::flash::protocol::{
    CompletionWord, CompletionWords, LINE_BYTES, LINE_WORDS, Lines, Request, SubmissionRing,
};

const SLOTS: u32 = 2;
const DEPTH: u32 = 3;
const REQUESTS: u64 = 3;

#[derive(Clone, Copy, PartialEq)]
enum Device {
    Faithful,
    AnswersBeforeData,
    AnswersTheOtherSlot,
}

struct Shared {
    ring: SubmissionRing,
    lines: Lines,
    words: CompletionWords,
}

fn payload(addr: u64) -> [u64; LINE_WORDS] {
    [addr + 1; LINE_WORDS]
}

fn serve(shared: &Shared, device: Device) {
    for position in 0..REQUESTS {
        let request = loop {
            match shared.ring.take(position) {
                Some(request) => break request,
                None => thread::yield_now(),
            }
        };
        let word = CompletionWord::new(&request, 0, &[]);
        match device {
            Device::Faithful => {
                shared.lines.deliver(request.slot, 0, &payload(request.addr));
                shared.words.answer(request.slot, word);
            }
            Device::AnswersBeforeData => {
                shared.words.answer(request.slot, word);
                shared.lines.deliver(request.slot, 0, &payload(request.addr));
            }
            Device::AnswersTheOtherSlot => {
                shared.lines.deliver(request.slot, 0, &payload(request.addr));
                shared.words.answer(1 - request.slot, word);
            }
        }
    }
}

/// The host's side; tags count requests on all slots, so that one meant for another slot would do.
struct Host {
    issued: u64,
    waiting: [Option<Request>; SLOTS as usize],
}

impl Host {
    fn issue(&mut self, shared: &Shared, slot: u32) {
        let tag = self.issued as u32 + 1;
        let request = Request { addr: 1000 * u64::from(tag), len: LINE_BYTES as u32, slot, tag };
        shared.ring.put(self.issued, request);
        self.issued += 1;
        self.waiting[slot as usize] = Some(request);
    }

    /// Takes an answer on `slot` if there is one, checks its data, and uses the slot again.
    fn take(&mut self, shared: &Shared, slot: u32) {
        let Some(request) = self.waiting[slot as usize] else { return };
        let word = shared.words.latest(slot);
        if word.tag() != request.tag {
            let foreign = word.tag() != 0 && word.tag() > request.tag;
            assert!(!foreign, "an answer to a request that this slot never made");
            return;
        }
        let mut bytes = Vec::new();
        shared.lines.copy_out(slot, LINE_BYTES, &mut bytes);
        let wanted: Vec<u8> = payload(request.addr).iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(bytes, wanted, "believed before it was there");
        self.waiting[slot as usize] = None;
        if self.issued < REQUESTS {
            self.issue(shared, slot);
        }
    }
}

fn model(device: Device) {
    loom::model(move || {
        let shared = Arc::new(Shared {
            ring: SubmissionRing::new(DEPTH),
            lines: Lines::new(SLOTS, 1),
            words: CompletionWords::new(SLOTS),
        });
        let served = shared.clone();
        let thread = thread::spawn(move || serve(&served, device));
        let mut host = Host { issued: 0, waiting: [None; SLOTS as usize] };
        (0..SLOTS).for_each(|slot| host.issue(&shared, slot));
        while host.waiting.iter().any(Option::is_some) {
            (0..SLOTS).for_each(|slot| host.take(&shared, slot));
            thread::yield_now();
        }
        assert_eq!(host.issued, REQUESTS);
        thread.join().unwrap();
    });
}

#[test]
fn what_is_believed_is_there() {
    model(Device::Faithful);
}

#[test]
fn a_device_that_answers_before_the_data_is_caught() {
    assert!(catch_unwind(AssertUnwindSafe(|| model(Device::AnswersBeforeData))).is_err());
}

#[test]
fn an_answer_in_the_wrong_slot_is_caught() {
    assert!(catch_unwind(AssertUnwindSafe(|| model(Device::AnswersTheOtherSlot))).is_err());
}

#[test]
fn a_line_whose_last_word_is_seen_is_whole() {
    loom::model(|| {
        let lines = Arc::new(Lines::new(1, 1));
        lines.mark(0, 0, u64::MAX);
        let delivered = lines.clone();
        let thread = thread::spawn(move || delivered.deliver(0, 0, &payload(7)));
        while lines.tail(0, 0) == u64::MAX {
            thread::yield_now();
        }
        let mut bytes = Vec::new();
        lines.copy_out(0, LINE_BYTES, &mut bytes);
        let wanted: Vec<u8> = payload(7).iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(bytes, wanted, "a line is seen before it is whole");
        thread.join().unwrap();
    });
}
