//! What the runtime asks of a fabric: posts that may be refused, receipts, signs of life.
//!
//! A fabric that threads may share is used as it is ([`Shared`]); one that they may not is used
//! under a lock and polled ([`Exclusive`]). A job of one rank needs none ([`Solo`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use littoral_base::mutant;
use littoral_base::units::NodeId;
use littoral_fabric::{Fabric, Liveness};

use crate::error::{Error, Kind, Result};
use crate::turn::Turns;

/// A way for messages between the ranks of a job; usable from several threads of a rank.
pub trait Carrier: Send + Sync {
    /// This rank.
    fn me(&self) -> NodeId;
    /// Ranks of the job.
    fn ranks(&self) -> u16;
    /// The longest message.
    fn post_bytes_max(&self) -> usize;
    /// Sends a message if there is room; whether it was sent.
    ///
    /// # Errors
    /// `Kind::PeerLost` when the receiver is gone.
    fn try_post(&self, to: NodeId, message: &[u8]) -> Result<bool>;
    /// Takes the next message, waiting at most `timeout`.
    ///
    /// # Errors
    /// `Kind::Environment` when the fabric itself failed.
    fn receive(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>>;
    /// As `receive`, by a thread whose processor another one may need.
    ///
    /// # Errors
    /// As `receive`.
    fn receive_asleep(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        self.receive(timeout)
    }
    /// As [`Fabric::attend`].
    fn attend(&self, _begins: bool) -> bool {
        false
    }
    /// As [`Fabric::call`].
    fn call(&self) {}
    /// As `receive`, by the thread that attends.
    ///
    /// # Errors
    /// As `receive`.
    fn receive_attending(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        self.receive(timeout)
    }
    /// Shows the others that this rank is alive, where that does not happen by itself.
    ///
    /// # Errors
    /// `Kind::Environment` when the fabric itself failed.
    fn show_life(&self) -> Result<()>;
    /// Sends what still waits for other ranks, as far as they take it within a few seconds.
    fn send_rest(&self) {}
    /// Whether a rank can be reached.
    fn liveness(&self, rank: NodeId) -> Liveness;
    /// As `liveness`, of a rank whose process the kernel of this machine cannot be asked about.
    fn liveness_by_signs(&self, rank: NodeId) -> Liveness {
        self.liveness(rank)
    }
    /// Whether all that a rank whose process has ended ever sent here can be received now.
    fn has_delivered(&self, _rank: NodeId) -> bool {
        true
    }
    /// The fabric itself, where its windows are coherent memory.
    fn coherent(&self) -> Option<&dyn Fabric> {
        None
    }
    /// The rank's turns, where ranks run one at a time in virtual time.
    fn turns(&self) -> Option<&dyn Turns> {
        None
    }
}

fn lost(e: littoral_device::error::Error) -> Error {
    Error::over(Kind::PeerLost, "sending to another rank", e)
}

fn broken(e: littoral_device::error::Error) -> Error {
    Error::over(Kind::Environment, "the fabric", e)
}

/// A fabric that threads may share.
pub struct Shared<F>(pub F);

impl<F: Fabric + Send + Sync> Carrier for Shared<F> {
    fn me(&self) -> NodeId {
        self.0.me()
    }
    fn ranks(&self) -> u16 {
        self.0.nodes()
    }
    fn post_bytes_max(&self) -> usize {
        self.0.try_post_bytes_max()
    }
    fn try_post(&self, to: NodeId, message: &[u8]) -> Result<bool> {
        self.0.try_post(to, message).map_err(lost)
    }
    fn receive(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        self.0.receive(timeout).map_err(broken)
    }
    fn receive_asleep(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        self.0.receive_asleep(timeout).map_err(broken)
    }
    fn attend(&self, begins: bool) -> bool {
        self.0.attend(begins)
    }
    fn call(&self) {
        self.0.call();
    }
    fn receive_attending(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        self.0.receive_attending(timeout).map_err(broken)
    }
    fn show_life(&self) -> Result<()> {
        self.0.show_life().map_err(broken)
    }
    fn send_rest(&self) {
        self.0.send_rest();
    }
    fn liveness(&self, rank: NodeId) -> Liveness {
        self.0.liveness(rank)
    }
    fn has_delivered(&self, rank: NodeId) -> bool {
        self.0.has_delivered(rank)
    }
    fn coherent(&self) -> Option<&dyn Fabric> {
        self.0.is_coherent().then_some(&self.0 as &dyn Fabric)
    }
}

const SPIN_TURNS: u32 = 200;
const YIELD_TURNS: u32 = 220;
const NAP: Duration = Duration::from_micros(60);
/// How long a thread that attends polls before it naps: nothing wakes it, and its program waits.
const ATTENTIVE: Duration = Duration::from_micros(100);
/// Turns after which it gives its processor away once.
const ATTENTIVE_TURNS: u32 = 16;

/// A fabric of one thread, under a lock; waiting polls it and naps in between.
pub struct Exclusive<F> {
    fabric: Mutex<F>,
    /// The thread that attends is to look whether its wait has ended: another one may have taken
    /// the message that it waits for.
    is_called: AtomicBool,
    me: NodeId,
    ranks: u16,
    post_bytes_max: usize,
}

impl<F: Fabric> Exclusive<F> {
    /// Puts `fabric` under a lock.
    pub fn new(fabric: F) -> Self {
        let (me, ranks) = (fabric.me(), fabric.nodes());
        let post_bytes_max = fabric.post_bytes_max();
        let is_called = AtomicBool::new(false);
        Exclusive { fabric: Mutex::new(fabric), is_called, me, ranks, post_bytes_max }
    }

    fn locked(&self) -> MutexGuard<'_, F> {
        self.fabric.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Fabric + Send> Carrier for Exclusive<F> {
    fn me(&self) -> NodeId {
        self.me
    }
    fn ranks(&self) -> u16 {
        self.ranks
    }
    /// A quarter of what a ring holds, so that several messages are under way.
    fn post_bytes_max(&self) -> usize {
        (self.post_bytes_max / 4).max(256)
    }
    fn try_post(&self, to: NodeId, message: &[u8]) -> Result<bool> {
        self.locked().try_post(to, message).map_err(lost)
    }
    fn receive(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        let deadline = Instant::now() + timeout;
        let mut turns = 0u32;
        loop {
            let found = self.locked().receive(Duration::ZERO).map_err(broken)?;
            if found.is_some() || Instant::now() >= deadline {
                return Ok(found);
            }
            turns = turns.saturating_add(1);
            match turns {
                0..SPIN_TURNS => std::hint::spin_loop(),
                SPIN_TURNS..YIELD_TURNS => std::thread::yield_now(),
                _ => std::thread::sleep(NAP),
            }
        }
    }
    /// Every thread polls, so the one that attends takes what comes by being quicker.
    fn attend(&self, _begins: bool) -> bool {
        true
    }
    fn call(&self) {
        self.is_called.store(!mutant!("dsm_call_of_a_pool_unheard"), Ordering::Release);
    }
    fn receive_attending(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        let begun = Instant::now();
        for turn in 1u32.. {
            let found = self.locked().receive(Duration::ZERO).map_err(broken)?;
            let is_called = self.is_called.swap(false, Ordering::AcqRel);
            let waited = begun.elapsed();
            if found.is_some() || is_called || waited >= timeout {
                return Ok(found);
            }
            if waited >= ATTENTIVE {
                std::thread::sleep(NAP);
            } else if turn.is_multiple_of(ATTENTIVE_TURNS) {
                std::thread::yield_now();
            }
        }
        Ok(None)
    }
    fn show_life(&self) -> Result<()> {
        self.locked().show_life().map_err(broken)
    }
    fn liveness(&self, rank: NodeId) -> Liveness {
        self.locked().liveness(rank)
    }
    fn has_delivered(&self, rank: NodeId) -> bool {
        self.locked().has_delivered(rank)
    }
}

/// A job of one rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct Solo;

impl Carrier for Solo {
    fn me(&self) -> NodeId {
        NodeId(0)
    }
    fn ranks(&self) -> u16 {
        1
    }
    fn post_bytes_max(&self) -> usize {
        1 << 20
    }
    fn try_post(&self, to: NodeId, _message: &[u8]) -> Result<bool> {
        Err(Error::new(Kind::PeerLost, format!("rank {to} of a job of one")).at_peer(to))
    }
    fn receive(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        std::thread::sleep(timeout);
        Ok(None)
    }
    fn show_life(&self) -> Result<()> {
        Ok(())
    }
    fn liveness(&self, _rank: NodeId) -> Liveness {
        Liveness::Alive
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use littoral_fabric::hostile::HostilePool;
    use littoral_fabric::pool::{PoolFabric, PoolLayout};

    /// As when the server has taken the message that ends the operation.
    #[test]
    fn a_call_ends_the_wait_of_the_thread_that_attends_a_pool() {
        const FOR_EVER: Duration = Duration::from_secs(1 << 20);
        let layout = PoolLayout::new(2, 64);
        let pool = HostilePool::new(layout.pool_bytes(), 1, 1000);
        let carrier = Exclusive::new(PoolFabric::new(pool.view(0), layout, NodeId(0)).unwrap());
        assert!(carrier.attend(true));
        for _ in 0..2 {
            carrier.call();
            assert_eq!(carrier.receive_attending(FOR_EVER).unwrap(), None);
        }
        carrier.attend(false);
    }
}
