//! What an emulated flash device answers to a plan that always strikes, what it does with abandoned
//! reads, and which options it refuses. `flash_soak` of the crate `assure` reads it for long.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use littoral_base::fault::Plan;
use littoral_device::Kind;
use littoral_device::flash::emulator::{Emulator, EmulatorOptions, Format, Pattern, Rule};
use littoral_device::read::{ReadDevice, Slot, Status};

const SEED: u64 = 0x1177_0a41;
const CAPACITY: u64 = 1 << 22;
const PAGE: u32 = 256;

fn format(rule: Rule) -> Format {
    match rule {
        Rule::Word | Rule::TwoSentinels | Rule::CanaryFirstLine => Format::Arbitrary,
        Rule::ReservedWord => Format::ReservedTails,
        Rule::PageTrailer { page_bytes } => Format::Trailers(page_bytes),
    }
}

#[test]
fn a_device_that_always_fails_says_so() {
    for (text, wanted) in [
        ("seed=1 read:fail=1/1", Status::MediaError),
        ("seed=1 read:drop=1/1", Status::TimedOut),
        ("seed=1 read:corrupt=1/1", Status::ChecksumMismatch),
    ] {
        let plan: Plan = text.parse().unwrap();
        let content = Pattern { seed: SEED, capacity_bytes: CAPACITY, format: Format::Arbitrary };
        let options = EmulatorOptions { plan, slots: 1, depth: 2, ..EmulatorOptions::default() };
        let emulator = Emulator::new(Arc::new(content), options).unwrap();
        emulator.issue(Slot(0), 64, 64);
        while emulator.poll(Slot(0)).is_none() {
            emulator.reap();
        }
        let status = emulator.poll(Slot(0)).unwrap();
        // A corrupted answer may lose its tag, which looks like no answer at all.
        assert!(
            status == wanted || text.contains("corrupt") && status == Status::TimedOut,
            "{text}: {status}"
        );
    }
}

#[test]
fn an_abandoned_slot_is_free_in_the_end_and_its_data_reach_no_other() {
    for plan in ["seed=3 read:drop=1/1", "seed=3 read:delay=1/1", "seed=3"] {
        let plan: Plan = plan.parse().unwrap();
        let content = Pattern { seed: SEED, capacity_bytes: CAPACITY, format: Format::Arbitrary };
        let options = EmulatorOptions {
            plan,
            deadline: 16,
            slots: 1,
            depth: 2,
            ..EmulatorOptions::default()
        };
        let emulator = Emulator::new(Arc::new(content), options).unwrap();
        emulator.issue(Slot(0), 0, 64);
        emulator.release(Slot(0));
        assert!(!emulator.is_free(Slot(0)));
        for _ in 0..1_000 {
            emulator.reap();
        }
        assert!(emulator.is_free(Slot(0)));
    }
}

#[test]
fn what_a_rule_cannot_survive_is_refused_by_name() {
    for (rule, text) in [
        (Rule::ReservedWord, "read:corrupt=1/9"),
        (Rule::TwoSentinels, "read:misdirect=1/9"),
        (Rule::Word, "read:torn=1/9"),
        (Rule::PageTrailer { page_bytes: PAGE }, "@7=torn"),
    ] {
        let plan: Plan = text.parse().unwrap();
        let content = Pattern { seed: 1, capacity_bytes: CAPACITY, format: format(rule) };
        let options = EmulatorOptions { rule, plan, ..EmulatorOptions::default() };
        let e = Emulator::new(Arc::new(content), options).map(|_| ()).unwrap_err();
        assert_eq!(e.kind(), Kind::IllegalRequest);
        assert!(e.to_string().contains(text), "{e}");
    }
}

#[test]
fn options_that_break_the_protocol_are_refused_with_the_nearest() {
    let refused = |change: fn(&mut EmulatorOptions)| {
        let mut options = EmulatorOptions::default();
        change(&mut options);
        let content = Pattern { seed: 1, capacity_bytes: CAPACITY, format: Format::Arbitrary };
        Emulator::new(Arc::new(content), options).map(|_| ()).unwrap_err().to_string()
    };
    let e = refused(|o| o.slots = o.depth);
    assert!(e.contains("nearest legal value 63"), "{e}");
    assert!(refused(|o| o.slots = 0).contains("nearest legal value 1"));
    assert!(refused(|o| o.read_bytes_max = 100).contains("nearest legal value 128"));
    assert!(refused(|o| o.attempts = 0).contains("nearest legal value 1"));
    let e = refused(|o| (o.rule, o.deadline) = (Rule::ReservedWord, 10));
    assert!(e.contains("late answers cannot be told apart"), "{e}");
    assert!(refused(|o| o.rule = Rule::PageTrailer { page_bytes: 100 }).contains("pages of 100 B"));
}
