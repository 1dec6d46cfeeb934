//! Every completion rule under every fault it admits: nothing wrong is ever believed; and the
//! canary, a rule that is wrong on purpose, is caught by the same checks.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use littoral_assure::flash::{self, SoakReport};
use littoral_base::fault::Plan;
use littoral_device::flash::emulator::{
    Drive, EmulatorOptions, Format, Pattern, Rule, SENTINEL_A, SENTINEL_B,
};
use proptest::prelude::*;

const SEED: u64 = 0x1177_0a41;
const CAPACITY: u64 = 1 << 22;
const PAGE: u32 = 256;

/// The medium's word, written apart from the content under test: SplitMix64's finaliser by its
/// published constants, then the share of sentinel values, then the reserved tail.
fn word(index: u64, tails_reserved: bool) -> u64 {
    fn scatter(mut z: u64) -> u64 {
        for (shift, factor) in [(30, 0xbf58476d1ce4e5b9_u64), (27, 0x94d049bb133111eb)] {
            z ^= z >> shift;
            z = z.wrapping_mul(factor);
        }
        z ^ z >> 31
    }
    let random = scatter(SEED ^ scatter(index));
    let value = match random % 32 {
        0 => 0xa5a5_5a5a_c3c3_3c3c,
        1 => 0x5a5a_a5a5_3c3c_c3c3,
        2 | 3 => 0xffff_ffff_ffff_ffff,
        _ => random,
    };
    if tails_reserved && index % 8 == 7 { value & 0x7fff_ffff_ffff_ffff } else { value }
}

fn format(rule: Rule) -> Format {
    match rule {
        Rule::Word | Rule::TwoSentinels | Rule::CanaryFirstLine => Format::Arbitrary,
        Rule::ReservedWord => Format::ReservedTails,
        Rule::PageTrailer { page_bytes } => Format::Trailers(page_bytes),
    }
}

fn expected(rule: Rule) -> impl Fn(u64) -> Option<u64> {
    move |index| match rule {
        Rule::PageTrailer { page_bytes } => {
            let words = u64::from(page_bytes) / 8;
            (index % words < words - 2).then(|| word(index, false))
        }
        Rule::ReservedWord => Some(word(index, true)),
        _ => Some(word(index, false)),
    }
}

fn soak(options: EmulatorOptions, reads: u64) -> SoakReport {
    let rule = options.rule;
    let content = Pattern { seed: SEED, capacity_bytes: CAPACITY, format: format(rule) };
    flash::soak(Arc::new(content), options, &expected(rule), reads, 3).unwrap()
}

const IDENTIFIED: &str = "read:fail=1/64 read:drop=1/32 read:duplicate=1/16 read:delay=1/16 \
    read:shuffle=1/8 read:misdirect=1/32 read:corrupt=1/16 read:alias=1/32";
const UNIDENTIFIED: &str = "read:fail=1/64 read:drop=1/32 read:duplicate=1/16 read:delay=1/16 \
    read:shuffle=1/8 read:alias=1/32";

fn plan(rule: Rule, seed: u64) -> Plan {
    let text = match rule {
        Rule::ReservedWord | Rule::TwoSentinels => UNIDENTIFIED,
        _ => IDENTIFIED,
    };
    format!("seed={seed} {text}").parse().unwrap()
}

fn options(rule: Rule, seed: u64) -> EmulatorOptions {
    // An early deadline makes answers late; rules without identity do not allow it.
    let early = matches!(rule, Rule::Word | Rule::PageTrailer { .. } | Rule::CanaryFirstLine);
    let deadline = if early { 24 } else { 0 };
    EmulatorOptions { rule, plan: plan(rule, seed), deadline, ..EmulatorOptions::default() }
}

const RULES: [Rule; 4] =
    [Rule::Word, Rule::PageTrailer { page_bytes: PAGE }, Rule::ReservedWord, Rule::TwoSentinels];

#[test]
fn nothing_wrong_is_believed_under_every_fault() {
    for rule in RULES {
        let report = soak(options(rule, 11), 200_000);
        assert_eq!(report.undetected_count, 0, "{rule:?}: {report:?}");
        assert!(report.ok_count > 180_000, "{rule:?}: {report:?}");
        assert!(report.host.reissues_count > 1_000, "{rule:?} met no fault: {report:?}");
        assert_eq!(report.answered_count + report.abandoned_count, 200_000, "{rule:?}");
    }
}

#[test]
fn nothing_wrong_is_believed_when_the_device_is_a_thread() {
    for rule in RULES {
        let threaded = EmulatorOptions { drive: Drive::Threaded, ..options(rule, 12) };
        let report = soak(threaded, 3_000);
        assert_eq!(report.undetected_count, 0, "{rule:?}: {report:?}");
        assert!(report.ok_count > 2_500, "{rule:?}: {report:?}");
    }
}

#[test]
fn the_canary_is_caught() {
    let report = soak(options(Rule::CanaryFirstLine, 11), 50_000);
    assert!(report.undetected_count > 100, "checks that cannot fail: {report:?}");
    let orderly = EmulatorOptions { plan: Plan::none(), ..options(Rule::CanaryFirstLine, 11) };
    let shuffled: Plan = "seed=1 read:shuffle=1/4".parse().unwrap();
    let report = soak(EmulatorOptions { plan: shuffled, ..orderly }, 50_000);
    assert!(report.undetected_count > 10, "shuffled lines alone must defeat it: {report:?}");
}

#[test]
fn a_stepped_run_repeats_exactly() {
    let run = || soak(options(Rule::Word, 5), 20_000);
    assert_eq!(run(), run());
}

#[test]
fn without_faults_nothing_is_asked_twice_and_no_entry_waits() {
    for rule in [Rule::Word, Rule::ReservedWord] {
        let slots = EmulatorOptions::default().depth - 1;
        let calm = EmulatorOptions { rule, slots, plan: Plan::none(), ..Default::default() };
        let report = soak(calm, 20_000);
        assert_eq!(report.failed_count, 0, "{report:?}");
        assert_eq!((report.host.reissues_count, report.host.blocked_count), (0, 0), "{report:?}");
    }
}

#[test]
fn data_equal_to_either_sentinel_are_read() {
    // The content holds lines whose tails equal A, and lines whose tails equal B, often both in one
    // read.
    let tails: Vec<u64> = (0..CAPACITY / 64).map(|line| word(line * 8 + 7, false)).collect();
    assert!(tails.contains(&SENTINEL_A) && tails.contains(&SENTINEL_B));
    let calm = EmulatorOptions {
        rule: Rule::TwoSentinels,
        plan: Plan::none(),
        ..EmulatorOptions::default()
    };
    let report = soak(calm, 50_000);
    assert_eq!((report.failed_count, report.undetected_count), (0, 0), "{report:?}");
    assert!(report.host.reissues_count > 1_000, "{report:?}");
}

#[test]
fn a_device_without_power_times_every_read_out() {
    for rule in RULES {
        let plan: Plan = "seed=1 cut=100".parse().unwrap();
        let report = soak(EmulatorOptions { plan, ..options(rule, 1) }, 1_000);
        assert_eq!(report.undetected_count, 0);
        assert!(report.ok_count > 50 && report.failed_count > 800, "{rule:?}: {report:?}");
    }
}

proptest! {
    #![proptest_config(littoral_testing::cases(48))]

    #[test]
    fn any_mixture_of_faults_and_shapes_is_survived(
        seed: u64, rule in 0..RULES.len(), slots in 1u32..40, spare in 1u32..5,
        latency in 0u64..20, delay_max in 0u64..200, early in 0u64..60,
        rates in proptest::collection::vec(1u64..40, 6),
    ) {
        let rule = RULES[rule];
        let names = ["fail", "drop", "duplicate", "delay", "shuffle", "alias"];
        let mut text = format!("seed={seed}");
        for (name, rate) in names.iter().zip(&rates) {
            text += &format!(" read:{name}=1/{}", rate + 1);
        }
        if matches!(rule, Rule::Word | Rule::PageTrailer { .. }) {
            text += " read:misdirect=1/16 read:corrupt=1/16";
        }
        let deadline = if matches!(rule, Rule::Word | Rule::PageTrailer { .. }) { early } else { 0 };
        let options = EmulatorOptions {
            slots, depth: slots + spare, rule, latency, delay_max, deadline,
            plan: text.parse().unwrap(), read_bytes_max: 1024, ..EmulatorOptions::default()
        };
        let report = soak(options, 3_000);
        prop_assert_eq!(report.undetected_count, 0, "{:?}", report);
        prop_assert_eq!(report.answered_count + report.abandoned_count, 3_000);
    }
}
