//! Whether a transaction may still commit, whatever its closure made of failed operations.
//!
//! - An operation that changes something may be half done when it fails: a tree's node split and
//!   its other half not made, a record locked and its new words not put. So its error ends the
//!   transaction, also where the closure drops it.
//! - A conflict ends it too: what was not read, or not written, is not known to be as it was.
//! - A read that finds no object changes nothing; its error may be dropped. Not so where it is part
//!   of an operation on a structure that changes it ([`Access::fail`](super::Access::fail)).
//!
//! Checked by `a_transaction_with_a_failed_operation_does_not_commit_though_its_error_is_dropped`.

use littoral_base::mutant;
use littoral_device::memory::Domain;

use super::Tx;
use crate::error::{Abort, Error, Kind, Reason};

/// Whether a transaction may commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Sound,
    /// An operation met another transaction.
    Lost,
    /// An operation that changes something failed.
    Failed(Kind),
}

impl<D: Domain> Tx<'_, '_, D> {
    /// Notes a conflict that an operation met, whatever its caller makes of it.
    #[cold]
    pub(super) fn lose(&mut self, abort: Abort) -> Abort {
        if abort.is_conflict() { self.fail(abort) } else { abort }
    }

    /// Notes that an operation failed, whatever its caller makes of that.
    #[cold]
    pub(super) fn fail(&mut self, abort: Abort) -> Abort {
        if self.standing == Standing::Sound && !mutant!("stm_dropped_error_commits") {
            self.standing = match &abort.0 {
                Reason::Conflict => Standing::Lost,
                Reason::Failed(error) => Standing::Failed(error.kind()),
            };
        }
        abort
    }

    /// What the commit of a transaction comes to, one of whose operations failed.
    #[cold]
    pub(super) fn failed(&self) -> Abort {
        let Standing::Failed(kind) = self.standing else { return Abort::conflict() };
        let text = "an operation of this transaction failed, so all of it is undone; the closure \
                    dropped the operation's error";
        Error::new(kind, text).into()
    }
}
