//! Measurements of media and emulators: undetected faults, io_uring beside fio, io_uring beside
//! mmap.
//!
//! Every function measures and returns plain figures, or says why it could not. Clocks: the fault
//! soak is a count (nothing is timed); everything else is wall time and processor time of real
//! reads, nothing modelled.
//!
//! Programs that are compared run in turn on the same file, several times; the best run of each
//! counts.
//!
//! Invariants
//! - The checker of the soak shares no code with the emulated content, and a canary (a completion
//!   rule that is wrong on purpose) is run beside it: a soak that does not catch the canary is an
//!   error. Checked by `the_soak_believes_nothing_wrong_and_catches_its_canary`.

use std::sync::Arc;

use littoral_assure::flash::{SoakReport, soak};
use littoral_device::flash::emulator::{EmulatorOptions, Format, Pattern, Rule};

use littoral_bench::error::{Error, Kind, Result};

pub mod limited;
pub mod versus_fio;

/// A figure, or why there is none.
#[derive(Clone, Debug)]
pub enum Outcome<T> {
    /// It was measured.
    Measured(T),
    /// It was not, and what this host does not have for it.
    Skipped(String),
}

/// What the fault soak found.
#[derive(Clone, Debug)]
pub struct FaultFigures {
    /// Reads issued over all completion rules.
    pub reads_count: u64,
    /// Reads believed although wrong: must be zero.
    pub undetected_count: u64,
    /// Each rule's report with its fault plan.
    pub rules: Vec<(&'static str, String, SoakReport)>,
    /// Wrong reads believed by the canary: must not be zero.
    pub canary_caught_count: u64,
}

const CAPACITY: u64 = 1 << 24;
const PAGE: u32 = 256;
const EVERY_FAULT: &str = "read:fail=1/64 read:drop=1/64 read:duplicate=1/16 read:delay=1/16 \
    read:shuffle=1/8 read:alias=1/32";
const IDENTITY_FAULTS: &str = "read:misdirect=1/32 read:corrupt=1/16";
const RULES: [Rule; 4] =
    [Rule::Word, Rule::PageTrailer { page_bytes: PAGE }, Rule::ReservedWord, Rule::TwoSentinels];

/// Reads `reads` times over the four completion rules with every fault each rule admits, checking
/// every word against an independent function of its address. Two threads where there are two
/// cores.
///
/// Ten million reads take seconds; a thousand million, minutes.
///
/// # Errors
/// `Kind::Environment` when the canary is not caught, since the soak then proves nothing.
pub fn faults_undetected(reads: u64, seed: u64) -> Result<FaultFigures> {
    let canary = soak_rule(Rule::CanaryFirstLine, 50_000, seed)?.1;
    if canary.undetected_count == 0 {
        let message = "the fault soak did not catch its canary; its other figures prove nothing";
        return Err(Error::new(Kind::Environment, message));
    }
    let share = reads.div_ceil(RULES.len() as u64);
    let rules = std::thread::scope(|scope| {
        // The two dearer rules first, one a thread.
        let other = scope.spawn(|| soak_rules(&RULES[..2], share, seed));
        let mut later = soak_rules(&RULES[2..], share, seed)?;
        let mut all = other.join().expect("invariant: a soak does not panic")?;
        all.append(&mut later);
        Ok::<_, Error>(all)
    })?;
    Ok(FaultFigures {
        reads_count: share * RULES.len() as u64,
        undetected_count: rules.iter().map(|(_, _, r)| r.undetected_count).sum(),
        rules,
        canary_caught_count: canary.undetected_count,
    })
}

type RuleReport = (&'static str, String, SoakReport);

fn soak_rules(rules: &[Rule], reads: u64, seed: u64) -> Result<Vec<RuleReport>> {
    let one = |rule: &Rule| {
        let (plan, report) = soak_rule(*rule, reads, seed)?;
        Ok((rule.name(), plan, report))
    };
    rules.iter().map(one).collect()
}

fn soak_rule(rule: Rule, reads: u64, seed: u64) -> Result<(String, SoakReport)> {
    let failed =
        |e: &dyn std::fmt::Display| Error::new(Kind::Environment, format!("fault soak: {e}"));
    let (format, identified) = match rule {
        Rule::PageTrailer { page_bytes } => (Format::Trailers(page_bytes), true),
        Rule::ReservedWord => (Format::ReservedTails, false),
        Rule::TwoSentinels => (Format::Arbitrary, false),
        Rule::Word | Rule::CanaryFirstLine => (Format::Arbitrary, true),
    };
    let more = if identified { IDENTITY_FAULTS } else { "" };
    let plan = format!("seed={seed} {EVERY_FAULT} {more}");
    // An early deadline makes answers late and crossing; rules without identity do not allow it.
    let deadline = if identified { 24 } else { 0 };
    let options = EmulatorOptions {
        rule,
        deadline,
        slots: 63,
        read_bytes_max: 1024,
        delay_max: 32,
        plan: plan.parse().map_err(|e| failed(&e))?,
        ..EmulatorOptions::default()
    };
    let content = Pattern { seed, capacity_bytes: CAPACITY, format };
    let expected = |index| expected_word(rule, seed, index);
    let report =
        soak(Arc::new(content), options, &expected, reads, seed).map_err(|e| failed(&e))?;
    Ok((plan.trim_end().to_owned(), report))
}

/// What the medium holds, told apart from the content's own code: two rounds of the SplitMix64
/// finaliser by its published constants, one word in eight a sentinel, trailers not known.
fn expected_word(rule: Rule, seed: u64, index: u64) -> Option<u64> {
    if matches!(rule, Rule::PageTrailer { .. }) && index % 32 >= 30 {
        return None;
    }
    let random = finalise(seed ^ finalise(index));
    let value = match random & 0x1f {
        0 => 0xa5a5_5a5a_c3c3_3c3c,
        1 => 0x5a5a_a5a5_3c3c_c3c3,
        2 | 3 => !0,
        _ => random,
    };
    let reserved = rule == Rule::ReservedWord && index & 7 == 7;
    Some(if reserved { value << 1 >> 1 } else { value })
}

fn finalise(z: u64) -> u64 {
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soak_believes_nothing_wrong_and_catches_its_canary() {
        let figures = faults_undetected(40_000, 7).unwrap();
        assert_eq!(figures.undetected_count, 0, "{figures:?}");
        assert!(figures.canary_caught_count > 0);
        assert_eq!(figures.rules.len(), 4);
        assert!(
            figures.rules.iter().all(|(_, _, r)| r.ok_count > 8_000 && r.host.reissues_count > 100)
        );
    }
}
