//! How a ring is set up.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use littoral_device::read::Limits;

use crate::error::{Error, Kind, Result};

/// How many contexts a ring runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contexts {
    /// As many as make throughput flat: from 64 upward by doubling, found once and kept.
    #[default]
    Auto,
    /// Exactly this many.
    Fixed(u32),
}

/// Options of a [`Ring`](crate::Ring).
#[derive(Clone, Debug)]
pub struct RingOptions {
    /// How many contexts run.
    pub contexts: Contexts,
    /// How many reads a context may hold or await at once; with `Auto` it bounds the contexts, so
    /// that slots suffice.
    pub reads_per_context_max: u32,
    /// Contexts polled between two calls of the device's `reap` (and so between two timestamps).
    pub polls_per_reap: u32,
    /// The largest future a run accepts, in bytes: large frames cost cache at hundreds of contexts.
    pub future_bytes_max: usize,
    /// Longest sleep while nothing is ready, on devices that can be slept on.
    pub park_max: Duration,
    /// Ends a run with `Kind::Interrupted` after the sweep in which it is set; [`Ring::block_on`]
    /// takes no notice.
    ///
    /// [`Ring::block_on`]: crate::Ring::block_on
    pub interrupt: Option<Arc<AtomicBool>>,
}

impl Default for RingOptions {
    fn default() -> Self {
        RingOptions {
            contexts: Contexts::Auto,
            reads_per_context_max: 2,
            polls_per_reap: 16,
            future_bytes_max: 1024,
            park_max: Duration::from_millis(1),
            interrupt: None,
        }
    }
}

impl RingOptions {
    /// The defaults with a number of contexts.
    #[must_use]
    pub fn with_contexts(contexts: Contexts) -> Self {
        RingOptions { contexts, ..RingOptions::default() }
    }

    /// Refuses options that cannot work and answers the most contexts there will be.
    pub(crate) fn contexts_max(&self, limits: &Limits) -> Result<u32> {
        let refuse = |what: String| Err(Error::new(Kind::Options, what));
        if self.polls_per_reap == 0 || self.reads_per_context_max == 0 {
            return refuse("polls_per_reap and reads_per_context_max must be at least 1".into());
        }
        let slots = limits.slots;
        match self.contexts {
            Contexts::Fixed(0) => refuse("a ring needs at least one context".into()),
            Contexts::Fixed(n) if n > slots => refuse(format!(
                "{n} contexts need at least {n} slots but the device has {slots}: \
                 ask for fewer contexts or open the device with more slots"
            )),
            Contexts::Fixed(n) => Ok(n),
            Contexts::Auto if slots == 0 => refuse("the device has no slots".into()),
            Contexts::Auto => Ok((slots / self.reads_per_context_max).max(1)),
        }
    }
}
