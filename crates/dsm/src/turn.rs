//! Turns: what a rank in virtual time says as it gives its turn away, and what wakes it.
//!
//! The runtime asks a carrier for [`Turns`]; virtual time implements them.

use littoral_base::units::{NodeId, Picos};

/// What a rank waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Pages.
    Data,
    /// Locks, barriers, acknowledgements.
    Syn,
}

/// What a rank does next as it gives its turn away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Its program has computed so much.
    Compute {
        /// Operations the program declared.
        operations: u64,
        /// Processor time of its thread, where that is what counts.
        processor: Picos,
    },
    /// Its program has begun an operation.
    Begin {
        /// What it waits for.
        wait: Wait,
        /// A fault came first.
        faulted: bool,
        /// The operation ended at once.
        done: bool,
    },
    /// It has taken a message in; whether its program's operation ended with it.
    Served {
        /// Whether it did.
        ended: bool,
    },
    /// It leaves.
    Leave,
}

/// What wakes a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Its program goes on.
    Go,
    /// A message to take in.
    Message(NodeId, Vec<u8>),
    /// A rank is gone, and how that was noticed.
    Lost(NodeId, String),
    /// The job cannot go on.
    Stuck(String),
}

/// A rank's turns: what [`crate::runtime`] asks of a carrier in virtual time.
pub trait Turns {
    /// Says what the rank does next, with what it has posted, and waits for its next turn.
    ///
    /// # Errors
    /// `Kind::PeerLost` when the conductor is gone.
    fn give(&self, ask: Ask) -> crate::Result<Wake>;
    /// Whether messages are posted that no turn has carried yet.
    fn has_posts(&self) -> bool;
    /// The program declares operations.
    fn declare(&self, operations: u64);
    /// What has been computed since it was asked last; `None` for nothing.
    fn computed(&self) -> Option<Ask>;
    /// Virtual time.
    fn now(&self) -> Picos;
}
