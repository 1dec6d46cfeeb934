//! The software manager that the paper's hardware replaces: one rank takes requests as messages.
//!
//! Request, grant and release are messages, as in JIAJIA; each of the two that reach the manager
//! takes processor time there (the paper's *server* time), which the board does not.
//!
//! The server thread is the only receiver at the manager's node; a client of the same node gets its
//! answers through a channel.
//!
//! Invariants
//! - Requests are granted in order of arrival; a message that is no request is ignored and counted.
//!   Checked by `grants_come_in_order_of_arrival`, `the_baselines_exclude_too`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};

use littoral_base::units::NodeId;
use littoral_fabric::Fabric;

use super::{Barriers, Locks, PATIENCE, lost, must_live};
use crate::core::barrier::Barrier;
use crate::core::lock::ManagedLock;
use crate::core::message::{LockId, Message, Notices, PageId};
use crate::core::pages::runs_of;
use crate::core::wire;
use crate::error::{Error, Kind, Result};

/// What a server did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounts {
    /// Messages taken, each a trap of the manager's processor.
    pub traps: u64,
    /// Answers sent.
    pub answers: u64,
    /// Messages that broke the protocol.
    pub refused: u64,
}

/// The manager's side.
pub struct LockServer {
    capacity: usize,
    locks: BTreeMap<LockId, ManagedLock>,
    barrier: Barrier,
    local: Option<Sender<Message>>,
    counts: ServerCounts,
}

impl LockServer {
    /// The manager of a job in which `clients` ranks meet at the barrier. Answers to a client of
    /// the manager's own node go to `local`.
    pub fn new(clients: u16, capacity: usize, local: Option<Sender<Message>>) -> Self {
        let (locks, barrier) = (BTreeMap::new(), Barrier::new(clients));
        LockServer { capacity, locks, barrier, local, counts: ServerCounts::default() }
    }

    /// Serves until `stop` is set and no message has come since for a moment.
    ///
    /// # Errors
    /// `Kind::PeerLost` when the fabric fails.
    pub fn serve<F: Fabric>(&mut self, fabric: &F, stop: &AtomicBool) -> Result<ServerCounts> {
        loop {
            let stopping = stop.load(Ordering::Acquire);
            if !self.serve_one(fabric)? && stopping {
                return Ok(self.counts);
            }
        }
    }

    /// Serves one message, waiting for it with patience; whether one came.
    ///
    /// # Errors
    /// As [`LockServer::serve`].
    pub fn serve_one<F: Fabric>(&mut self, fabric: &F) -> Result<bool> {
        let Some((from, bytes)) = fabric.receive(PATIENCE / 10).map_err(lost)? else {
            return Ok(false);
        };
        self.counts.traps += 1;
        let Ok(answers) = wire::decode(&bytes).and_then(|m| self.take(from, m)) else {
            self.counts.refused += 1;
            return Ok(true);
        };
        for (to, message) in answers {
            self.counts.answers += 1;
            match &self.local {
                Some(local) if to == fabric.me() => {
                    // A client that has left wants no answer.
                    let _ = local.send(message);
                }
                _ => fabric.post(to, &wire::encode(&message)).map_err(lost)?,
            }
        }
        Ok(true)
    }

    fn lock(&mut self, lock: LockId) -> &mut ManagedLock {
        let capacity = self.capacity;
        self.locks.entry(lock).or_insert_with(|| ManagedLock::new(lock, capacity))
    }

    fn take(&mut self, from: NodeId, message: Message) -> Result<Vec<(NodeId, Message)>> {
        match message {
            Message::Acquire { lock, seen } => {
                Ok(self.lock(lock).acquire(from, seen)?.into_iter().collect())
            }
            Message::Release { lock, generation, pages } => {
                Ok(self.lock(lock).release(from, generation, &pages)?.into_iter().collect())
            }
            Message::Arrive { generation, pages } => self.barrier.arrive(from, generation, &pages),
            _ => Err(Error::new(Kind::Protocol, "not for a manager")),
        }
    }
}

/// A rank's side.
pub struct ServerClient<'f, F> {
    fabric: &'f F,
    manager: NodeId,
    local: Option<Receiver<Message>>,
    seen: BTreeMap<LockId, u64>,
    generation: u64,
}

impl<'f, F: Fabric> ServerClient<'f, F> {
    /// This rank's side of the manager at `manager`; `local` where that is this node.
    pub fn new(fabric: &'f F, manager: NodeId, local: Option<Receiver<Message>>) -> Self {
        ServerClient { fabric, manager, local, seen: BTreeMap::new(), generation: 0 }
    }

    fn tell(&self, message: &Message) -> Result<()> {
        self.fabric.post(self.manager, &wire::encode(message)).map_err(lost)
    }

    fn answer(&self, doing: &str) -> Result<Message> {
        loop {
            match &self.local {
                Some(local) => match local.recv_timeout(PATIENCE) {
                    Ok(message) => return Ok(message),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => {
                        let what = format!("the lock server ended {doing}");
                        return Err(Error::new(Kind::PeerLost, what).at_peer(self.manager));
                    }
                },
                None => {
                    if let Some((_, bytes)) = self.fabric.receive(PATIENCE).map_err(lost)? {
                        return wire::decode(&bytes);
                    }
                }
            }
            must_live(self.fabric, self.manager, doing)?;
        }
    }
}

impl<F: Fabric> Locks for ServerClient<'_, F> {
    fn acquire(&mut self, lock: LockId) -> Result<Notices> {
        let seen = self.seen.get(&lock).copied().unwrap_or(0);
        self.tell(&Message::Acquire { lock, seen })?;
        match self.answer(&format!("while a rank waited for lock {}", lock.0))? {
            Message::Grant { lock: granted, notices, version } if granted == lock => {
                self.seen.insert(lock, version);
                Ok(notices)
            }
            _ => {
                let refused = Error::new(Kind::Protocol, format!("no grant of lock {}", lock.0));
                Err(refused.at_peer(self.manager).at_lock(lock.0))
            }
        }
    }

    fn release(&mut self, lock: LockId, written: &[PageId]) -> Result<()> {
        let generation = self.generation;
        self.tell(&Message::Release { lock, generation, pages: runs_of(written) })
    }
}

impl<F: Fabric> Barriers for ServerClient<'_, F> {
    fn barrier(&mut self, written: &[PageId]) -> Result<Notices> {
        let generation = self.generation;
        self.tell(&Message::Arrive { generation, pages: runs_of(written) })?;
        match self.answer("while others waited at a barrier")? {
            Message::Depart { generation: left, notices } if left == generation => {
                self.generation += 1;
                Ok(Notices::These(notices))
            }
            _ => {
                let what = format!("no departure from {generation}");
                let refused = Error::new(Kind::Protocol, what).at_peer(self.manager);
                Err(refused.at_generation(generation))
            }
        }
    }
}
