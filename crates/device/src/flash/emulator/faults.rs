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

use littoral_base::fault::{Adapter, Op, Plan, Verdict};

use super::Rule;
use crate::error::{Error, Kind, Result};

/// The read adapter of a device whose completions are told by this rule.
#[derive(Clone, Copy, Debug)]
pub struct ReadFaults(pub Rule);

impl Adapter for ReadFaults {
    fn ops(&self) -> &'static [Op] {
        &[Op::Read]
    }

    fn refusal(&self, _op: Op, verdict: Verdict) -> Option<&'static str> {
        let identified = match self.0 {
            Rule::Word | Rule::PageTrailer { .. } | Rule::CanaryFirstLine => true,
            Rule::ReservedWord | Rule::TwoSentinels => false,
        };
        match verdict {
            Verdict::Torn(_) => Some("a read has no torn effect; use corrupt or shuffle"),
            Verdict::Corrupt(_) | Verdict::Misdirect(_) if !identified => Some(
                "the data carry neither checksum nor address; use the completion word or the page \
                 trailer",
            ),
            Verdict::Pass
            | Verdict::Fail
            | Verdict::Drop
            | Verdict::Duplicate
            | Verdict::Delay(_)
            | Verdict::Shuffle(_)
            | Verdict::Misdirect(_)
            | Verdict::Corrupt(_)
            | Verdict::Alias(_)
            | Verdict::Cut => None,
        }
    }
}

/// Refuses a plan whose verdicts `rule` cannot answer with truth.
pub(super) fn check(plan: &Plan, rule: Rule) -> Result<()> {
    ReadFaults(rule).check(plan).map_err(|refused| {
        let message = format!(
            "fault plan `{plan}`: a read device with {} cannot act on {:?}: {}",
            rule.name(),
            refused.verdict,
            refused.why
        );
        Error::new(Kind::IllegalRequest, message)
    })
}
