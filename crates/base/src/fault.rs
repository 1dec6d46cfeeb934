//! The one fault plan: which operation of which kind meets which fate, under one seed.
//!
//! A [`Plan`] is asked once for every operation a device is given, in order, and answers with a
//! [`Verdict`]. Four sources decide, the first that speaks wins: a power cut at an operation index,
//! a verdict pinned to an operation index, a fault rate for the kind of operation, and "carry on".
//! The whole plan is one short text, so a failing run is repeated by pasting its replay string.
//!
//! ```
//! use littoral_base::fault::{Op, Plan, Verdict};
//! let mut plan: Plan = "seed=7 read:drop=1/4 @2=fail cut=5".parse()?;
//! let fates: Vec<_> = (0..6).map(|_| plan.judge(Op::Read)).collect();
//! assert_eq!((fates[2], fates[5]), (Verdict::Fail, Verdict::Cut));
//! let mut again: Plan = plan.replay().parse()?;
//! assert_eq!(fates, (0..6).map(|_| again.judge(Op::Read)).collect::<Vec<_>>());
//! # Ok::<(), littoral_base::fault::ParsePlanError>(())
//! ```
//!
//! Invariants
//! - The verdict of operation `i` depends on the seed, `i`, the kind and the plan's text alone,
//!   never on earlier verdicts: shortening a failing run does not move its faults. Checked by
//!   `a_verdict_depends_on_no_earlier_one`.
//! - After a cut every further operation is cut too, until [`Plan::restore_power`]. Checked by
//!   `rates_are_about_right_and_a_cut_lasts_until_power_returns`.
//!
//! Adapters live beside the devices, one per device kind: reads, zones, memory, fabric. An
//! [`Adapter`] says which verdicts it can act on; one it cannot act on is refused when the plan is
//! installed.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::rng;

/// An enum whose variants have names, made together so that none can be left out.
macro_rules! named_ops {
    ($($(#[$doc:meta])+ $variant:ident = $name:literal,)+) => {
        /// Kinds of operation a plan can tell apart.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Op {
            $($(#[$doc])+ $variant,)+
        }

        impl Op {
            /// Every kind.
            pub const ALL: &'static [Op] = &[$(Op::$variant),+];

            /// The name in a plan's text.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Op::$variant => $name,)+
                }
            }
        }
    };
}

named_ops! {
    /// A read of flash or block media.
    Read = "read",
    /// A write in place.
    Write = "write",
    /// A zone append or a write at a write pointer.
    Append = "append",
    /// A cache flush of a block device.
    Flush = "flush",
    /// A zone reset, finish, open or close.
    Zone = "zone",
    /// A store to persistent or pooled memory.
    Store = "store",
    /// A cache-line write-back or invalidation.
    WriteBack = "writeback",
    /// A persistence fence.
    Fence = "fence",
    /// A message or one-sided operation on a fabric.
    Send = "send",
    /// A run of a function on a page inside a device.
    Task = "task",
}

/// Builds a verdict from a random word.
pub type MakeVerdict = fn(u64) -> Verdict;

/// `$word` where there is a payload.
macro_rules! payload {
    ($type:ty, $word:ident) => {
        $word
    };
}

/// As for operations: the enum and the table of its faults from one list.
macro_rules! named_verdicts {
    ($($(#[$doc:meta])+ $variant:ident $(($word:ty))? = $name:literal,)+) => {
        /// What happens to one operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Verdict {
            /// It is carried out.
            Pass,
            $($(#[$doc])+ $variant $(($word))?,)+
        }

        /// Every fault: its name in a plan's text and how it is built.
        pub const FAULTS: &[(&str, MakeVerdict)] = &[
            $(($name, |_word| Verdict::$variant $((payload!($word, _word)))?)),+
        ];
    };
}

named_verdicts! {
    /// It ends with an error status.
    Fail = "fail",
    /// It is never answered.
    Drop = "drop",
    /// It is answered twice.
    Duplicate = "duplicate",
    /// It is answered late (the adapter knows how late; the payload is a random word for it).
    Delay(u64) = "delay",
    /// Its parts arrive in an order drawn from this word.
    Shuffle(u64) = "shuffle",
    /// It takes effect at another place, drawn from this word.
    Misdirect(u64) = "misdirect",
    /// One bit of its data, drawn from this word, is wrong.
    Corrupt(u64) = "corrupt",
    /// Its data look like "not arrived yet" (a sentinel), in words drawn from this word.
    Alias(u64) = "alias",
    /// Only a legal part of it, drawn from this word, takes effect before power is lost.
    Torn(u64) = "torn",
    /// Power is lost before it; on a fabric, the node is cut off before it.
    Cut = "cut",
}

/// Acts verdicts out on one kind of device; one stands beside each kind of device.
///
/// A match on [`Verdict`] in [`Adapter::refusal`] lists every verdict, so that a new one does not
/// compile until each adapter has decided. That each kind of operation has an adapter, and each
/// verdict one that acts it out, is tested where all adapters are known.
pub trait Adapter {
    /// The kinds of operation that it judges.
    fn ops(&self) -> &'static [Op];

    /// Why a verdict cannot be acted out on an operation of kind `op`; `None` when it can.
    fn refusal(&self, op: Op, verdict: Verdict) -> Option<&'static str>;

    /// The first verdict of `plan` that cannot be acted out, with the reason.
    ///
    /// # Errors
    /// That verdict: the plan must not be installed, since its fault would never strike.
    fn check(&self, plan: &Plan) -> Result<(), Refused> {
        let spoken = self
            .ops()
            .iter()
            .flat_map(|&op| plan.verdicts(op).into_iter().map(move |verdict| (op, verdict)));
        for (op, verdict) in spoken {
            if let Some(why) = self.refusal(op, verdict) {
                return Err(Refused { op, verdict, why });
            }
        }
        Ok(())
    }
}

/// A verdict that a device cannot act out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The kind of operation.
    pub op: Op,
    /// What it would meet.
    pub verdict: Verdict,
    /// Why it cannot.
    pub why: &'static str,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} on {}: {}", self.verdict, self.op.name(), self.why)
    }
}

impl std::error::Error for Refused {}

/// The adapter of functions that run on pages inside a device; the crate `push` acts its
/// verdicts out.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskFaults;

impl Adapter for TaskFaults {
    fn ops(&self) -> &'static [Op] {
        &[Op::Task]
    }

    fn refusal(&self, _op: Op, verdict: Verdict) -> Option<&'static str> {
        match verdict {
            Verdict::Pass
            | Verdict::Fail
            | Verdict::Drop
            | Verdict::Duplicate
            | Verdict::Delay(_)
            | Verdict::Corrupt(_)
            | Verdict::Cut => None,
            Verdict::Shuffle(_) => Some("a page function has no parts that arrive apart"),
            Verdict::Misdirect(_) => Some("a page function writes its scratch memory alone"),
            Verdict::Alias(_) => Some("a page in device memory has arrived"),
            Verdict::Torn(_) => Some("nothing of a page function outlives power"),
        }
    }
}

fn verdict_name(make: MakeVerdict) -> &'static str {
    let sample = std::mem::discriminant(&make(0));
    let same = |(_, m): &&(&str, MakeVerdict)| std::mem::discriminant(&m(0)) == sample;
    FAULTS.iter().find(same).expect("invariant: every verdict is listed").0
}

/// A fault that strikes one operation in `one_in` of its kind.
#[derive(Clone, Copy, Debug)]
struct Rate {
    make: MakeVerdict,
    one_in: u64,
}

/// A seeded plan of faults; see the module's page.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    seed: u64,
    rates: BTreeMap<Op, Vec<Rate>>,
    pinned: BTreeMap<u64, MakeVerdict>,
    cut_at: Option<u64>,
    next: u64,
    dark: bool,
}

impl Plan {
    /// A plan of no faults at all.
    pub fn none() -> Self {
        Self::default()
    }

    /// A plan of no faults yet, under `seed`.
    pub fn seeded(seed: u64) -> Self {
        Plan { seed, ..Self::default() }
    }

    /// Adds a fault that strikes one in `one_in` operations of kind `op`; `make` builds the verdict
    /// from a random word, as the variants of [`Verdict`] themselves do.
    ///
    /// # Panics
    /// When `one_in` is zero.
    #[must_use]
    pub fn rate(mut self, op: Op, make: MakeVerdict, one_in: u64) -> Self {
        assert!(one_in > 0, "a rate is one in at least one");
        self.rates.entry(op).or_default().push(Rate { make, one_in });
        self
    }

    /// Pins a verdict to the operation of index `index`, counted from zero over all kinds.
    #[must_use]
    pub fn pin(mut self, index: u64, make: MakeVerdict) -> Self {
        self.pinned.insert(index, make);
        self
    }

    /// Cuts power before the operation of index `index`.
    #[must_use]
    pub fn cut_at(mut self, index: u64) -> Self {
        self.cut_at = Some(index);
        self
    }

    /// The fate of the next operation.
    #[inline]
    pub fn judge(&mut self, op: Op) -> Verdict {
        let index = self.next;
        self.next += 1;
        if self.dark || self.cut_at.is_some_and(|cut| index >= cut) {
            self.dark = true;
            return Verdict::Cut;
        }
        let verdict = self.verdict_at(index, op);
        self.dark = verdict == Verdict::Cut;
        verdict
    }

    fn verdict_at(&self, index: u64, op: Op) -> Verdict {
        if let Some(make) = self.pinned.get(&index) {
            return make(self.word(index, 0));
        }
        let Some(rates) = self.rates.get(&op) else { return Verdict::Pass };
        for (i, rate) in rates.iter().enumerate() {
            let word = self.word(index, i as u64 + 1);
            if word.is_multiple_of(rate.one_in) {
                return (rate.make)(rng::mix(word));
            }
        }
        Verdict::Pass
    }

    fn word(&self, index: u64, lane: u64) -> u64 {
        rng::mix(self.seed ^ rng::mix(index.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (lane << 56)))
    }

    /// How many operations have been judged.
    pub fn judged(&self) -> u64 {
        self.next
    }

    /// Whether power is out.
    pub fn is_dark(&self) -> bool {
        self.dark
    }

    /// Ends a power cut; the plan goes on with later operations and forgets the cut.
    pub fn restore_power(&mut self) {
        self.dark = false;
        self.cut_at = None;
    }

    /// Whether the plan can speak a verdict other than [`Verdict::Pass`].
    pub fn is_active(&self) -> bool {
        !self.rates.is_empty() || !self.pinned.is_empty() || self.cut_at.is_some()
    }

    /// The verdicts this plan can speak for `op`, so that an adapter can refuse what it cannot do.
    pub fn verdicts(&self, op: Op) -> Vec<Verdict> {
        let rates = self.rates.get(&op).into_iter().flatten().map(|r| (r.make)(0));
        rates.chain(self.pinned.values().map(|make| make(0))).collect()
    }

    /// The text that [`str::parse`] turns back into this plan, at operation zero.
    pub fn replay(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed={}", self.seed)?;
        for (op, rates) in &self.rates {
            let name = op.name();
            for r in rates {
                write!(f, " {name}:{}=1/{}", verdict_name(r.make), r.one_in)?;
            }
        }
        for (index, make) in &self.pinned {
            write!(f, " @{index}={}", verdict_name(*make))?;
        }
        match self.cut_at {
            Some(cut) => write!(f, " cut={cut}"),
            None => Ok(()),
        }
    }
}

/// A text that is no fault plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsePlanError(String);

impl fmt::Display for ParsePlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is no part of a fault plan; wanted seed=N, OP:FAULT=1/N, @INDEX=FAULT or cut=INDEX",
            self.0
        )
    }
}

impl std::error::Error for ParsePlanError {}

impl FromStr for Plan {
    type Err = ParsePlanError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut plan = Plan::none();
        for part in text.split_whitespace() {
            plan = plan.with_part(part).ok_or_else(|| ParsePlanError(part.to_owned()))?;
        }
        Ok(plan)
    }
}

impl Plan {
    fn with_part(mut self, part: &str) -> Option<Self> {
        let (key, value) = part.split_once('=')?;
        let fault = |name: &str| FAULTS.iter().find(|(n, _)| *n == name).map(|(_, make)| *make);
        if key == "seed" {
            self.seed = value.parse().ok()?;
            Some(self)
        } else if key == "cut" {
            Some(self.cut_at(value.parse().ok()?))
        } else if let Some(index) = key.strip_prefix('@') {
            Some(self.pin(index.parse().ok()?, fault(value)?))
        } else {
            let (op, name) = key.split_once(':')?;
            let op = *Op::ALL.iter().find(|o| o.name() == op)?;
            let one_in: u64 = value.strip_prefix("1/")?.parse().ok()?;
            let make = fault(name)?;
            (one_in > 0).then(|| self.rate(op, make, one_in))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fates(plan: &mut Plan, n: usize) -> Vec<Verdict> {
        (0..n).map(|i| plan.judge(Op::ALL[i % Op::ALL.len()])).collect()
    }

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn a_replay_string_repeats_every_verdict(
            seed: u64, n in 1u64..9, pin in 0u64..40, cut in proptest::option::of(0u64..80),
            op in 0usize..Op::ALL.len(), v in 0usize..FAULTS.len(),
        ) {
            let mut plan = Plan::seeded(seed).rate(Op::ALL[op], FAULTS[v].1, n).pin(pin, Verdict::Torn);
            if let Some(c) = cut { plan = plan.cut_at(c); }
            let mut again: Plan = plan.replay().parse().unwrap();
            prop_assert_eq!(fates(&mut plan, 100), fates(&mut again, 100));
        }

        #[test]
        fn a_verdict_depends_on_no_earlier_one(
            seed: u64, n in 1u64..9, pin in 0u64..40, op in 0usize..Op::ALL.len(),
            earlier in proptest::collection::vec(0usize..Op::ALL.len(), 0..40),
        ) {
            let op = Op::ALL[op];
            let plan = Plan::seeded(seed).rate(op, Verdict::Delay, n).pin(pin, Verdict::Torn);
            let (mut one, mut other) = (plan.clone(), plan);
            for kind in &earlier {
                one.judge(Op::ALL[*kind]);
                other.judge(op);
            }
            prop_assert_eq!(one.judge(op), other.judge(op));
        }
    }

    #[test]
    fn rates_are_about_right_and_a_cut_lasts_until_power_returns() {
        let mut plan = Plan::seeded(3).rate(Op::Read, Verdict::Delay, 10);
        let hits = (0..10_000).filter(|_| plan.judge(Op::Read) != Verdict::Pass).count();
        assert!((800..1200).contains(&hits), "{hits}");
        let mut plan = Plan::none().cut_at(1);
        assert_eq!(plan.judge(Op::Store), Verdict::Pass);
        assert_eq!(plan.judge(Op::Store), Verdict::Cut);
        assert_eq!(plan.judge(Op::Read), Verdict::Cut);
        plan.restore_power();
        assert_eq!(plan.judge(Op::Read), Verdict::Pass);
    }

    #[test]
    fn nonsense_is_refused_by_part() {
        for bad in ["seed", "read:explode=1/2", "read:drop=1/0", "@x=fail", "fly:drop=1/2"] {
            let e = bad.parse::<Plan>().unwrap_err();
            assert!(e.to_string().contains(bad), "{e}");
        }
    }
}
