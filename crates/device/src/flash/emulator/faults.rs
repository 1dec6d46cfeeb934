//! The read adapter of the fault plan: which verdicts a completion rule survives.
//!
//! A rule that cannot tell right data from wrong refuses the verdicts that would make them wrong,
//! when the plan is installed and by name: a fault that strikes unseen would make every figure a
//! lie.
//!
//! | verdict | what the emulated device does |
//! |---|---|
//! | fail | answers with an error status |
//! | drop | never answers |
//! | duplicate | answers twice, the second time later |
//! | delay | answers late, past the deadline for some |
//! | shuffle | delivers the lines one by one in random order |
//! | misdirect | reads another address, or answers into another slot |
//! | corrupt | flips one bit of the data or of the answer |
//! | alias | leaves out the last word of some lines: they look as if they had not arrived |
//! | cut | answers nothing any more |
//! | torn | refused: a read has no torn effect |

use littoral_base::fault::{Op, Plan, Verdict};

use super::Rule;
use crate::error::{Error, Kind, Result};

/// Refuses a plan whose verdicts `rule` cannot answer with truth.
pub(super) fn check(plan: &Plan, rule: Rule) -> Result<()> {
    for verdict in plan.verdicts(Op::Read) {
        if let Some(why) = refusal(verdict, rule) {
            let message = format!(
                "fault plan `{plan}`: a read device with {} cannot act on {verdict:?}: {why}",
                rule.name()
            );
            return Err(Error::new(Kind::IllegalRequest, message));
        }
    }
    Ok(())
}

fn refusal(verdict: Verdict, rule: Rule) -> Option<&'static str> {
    let identified = match rule {
        Rule::Word | Rule::PageTrailer { .. } | Rule::CanaryFirstLine => true,
        Rule::ReservedWord | Rule::TwoSentinels => false,
    };
    match verdict {
        Verdict::Torn(_) => Some("a read has no torn effect; use corrupt or shuffle"),
        Verdict::Corrupt(_) | Verdict::Misdirect(_) if !identified => Some(
            "the data carry neither checksum nor address; use the completion word or the page trailer",
        ),
        _ => None,
    }
}
