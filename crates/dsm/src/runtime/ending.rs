//! The end of a job that fails, on this rank and told to the others.
//!
//! Invariants
//! - A rank fails once, by what it saw or was told first, and tells the others then. Checked by
//!   `misuse_ends_every_rank_with_a_message`.
//! - A thread that waits for its operation learns of the end. Checked by
//!   `a_thread_that_waits_learns_that_another_has_ended_the_job`.

use std::sync::atomic::Ordering;

use littoral_base::error::Place;
use littoral_base::mutant;

use super::control::Body;
use super::engine::{Engine, Failure};
use super::{Common, OnLoss, leave, say};
use crate::error::{Error, Kind};
use crate::turn::Ask;

impl Common {
    /// The job is lost: nothing of this rank goes on, and the others are told.
    pub(super) fn fail(&self, engine: &mut Engine, e: &Error) {
        if engine.failed.is_some() {
            return;
        }
        let text = e.to_string();
        let mut place = e.place().clone();
        place.rank.get_or_insert(self.carrier.me());
        engine.failed = Some(Failure { kind: e.kind(), text: text.clone(), place });
        self.lost.store(true, Ordering::Release);
        engine.pronounce(e.kind(), &text);
        engine.broadcast(&*self.carrier, &Body::Abort { why: text });
        engine.drain(&*self.carrier);
        self.end_wait(engine);
        if let Some(turns) = self.carrier.turns() {
            // It carries the abort; a conductor that is gone needs none.
            let _ = turns.give(Ask::Leave);
        }
        if self.on_loss == OnLoss::Exit {
            self.give_up(e);
        }
    }

    /// Ends the job for every rank; `why` unless it has failed already.
    pub(super) fn abandon(&self, why: String) {
        let mut engine = self.locked();
        let why = match &engine.failed {
            Some(f) => f.text.clone(),
            None => {
                engine.pronounce(Kind::Misuse, &why);
                let place = Place::default();
                engine.failed = Some(Failure { kind: Kind::PeerLost, text: why.clone(), place });
                self.lost.store(true, Ordering::Release);
                why
            }
        };
        engine.broadcast(&*self.carrier, &Body::Abort { why });
        engine.drain(&*self.carrier);
        // Another thread of the program may wait for its operation.
        if !mutant!("dsm_waits_outlast_the_job") {
            self.end_wait(&mut engine);
        }
    }

    /// Ends the process: where the program computes, or faults, there is no caller to tell.
    pub(super) fn give_up(&self, e: &Error) -> ! {
        say(&format!("littoral dsm: rank {}: {e}", self.carrier.me()));
        leave(i32::from(e.class().exit_code()))
    }
}
