//! Faults of page functions: what each verdict of a plan does to a run of one page.
//!
//! A page function works on a scratch accumulator. A run that fails drops it and the page goes to
//! the host as it is, so that no verdict changes an answer.
//!
//! Invariants
//! - A run that falls back never spends more than its budget. Checked by
//!   `a_fallen_back_run_stays_within_its_budget`.

use littoral_base::fault::Verdict;

/// Instructions that a run spends under `verdict`, and whether its page goes to the host raw.
///
/// - *fail*: the function traps half way;
/// - *drop*: it never ends and spends its whole budget;
/// - *delay*: it takes up to four times its instructions, within the budget;
/// - *corrupt*: the page does not verify; the function is not begun;
/// - *duplicate*: the run is done twice and merged once;
/// - *cut*: the device vanishes, which [`crate::device::sim`] acts out before it asks here.
pub fn run_of(verdict: Verdict, wanted: u64, budget: u64) -> (u64, bool) {
    match verdict {
        Verdict::Fail => ((wanted / 2).min(budget), true),
        Verdict::Drop => (budget, true),
        Verdict::Corrupt(_) => (0, true),
        Verdict::Delay(word) => {
            let slow = wanted.saturating_add(wanted.saturating_mul(word % 4));
            (slow.min(budget), slow > budget)
        }
        Verdict::Duplicate => {
            let twice = wanted.saturating_mul(2);
            (twice.min(budget), wanted > budget)
        }
        // The last four have no meaning for a page function: the plan's adapter refuses them.
        Verdict::Pass
        | Verdict::Cut
        | Verdict::Shuffle(_)
        | Verdict::Misdirect(_)
        | Verdict::Alias(_)
        | Verdict::Torn(_) => (wanted.min(budget), wanted > budget),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_base::fault::FAULTS;

    #[test]
    fn a_fallen_back_run_stays_within_its_budget() {
        for (name, make) in FAULTS {
            for word in 0..8 {
                for wanted in [0, 10, 99, 1000, u64::MAX] {
                    let (spent, falls_back) = run_of(make(word), wanted, 100);
                    assert!(spent <= 100, "{name}");
                    assert!(falls_back || wanted <= 100, "{name} lets an overrun pass");
                }
            }
        }
    }
}
