//! Floor 1 of littoral: other nodes' memory. One-sided operations, messages, notification and
//! liveness behind one trait.
//!
//! Every node of a job has one [`Fabric`] handle. Node `n` exports a window of bytes; `put`, `get`
//! and `fetch_add` reach any node's window without its processor taking part (a fabric without such
//! hardware runs an agent in its place and counts its messages). `post` sends a message that the
//! receiver takes with `receive`.
//!
//! Rules
//! - Operations of one node on one other node take effect in program order; `flush` returns when
//!   all earlier operations on that node have taken effect there.
//! - `put` of at most eight aligned bytes is never seen in part.
//! - A dead node is reported by `liveness` and every operation on it fails with `Kind::Io`. A node
//!   of this machine is dead once its process has ended, which is noticed at once; a node of
//!   another machine is dead once it has been silent for longer than the fabric's limit
//!   (`docs/design/dsm.md`, *Liveness*).
//! - Windows of a non-coherent pool obey `memory::Domain`: a put is visible only after `flush`, a
//!   get sees the medium.

pub mod bell;
pub mod board;
pub mod counted;
pub mod faulty;
mod forward;
mod frames;
pub mod hostile;
pub mod mailbox;
pub mod opened;
pub mod order;
pub mod pool;
pub mod pool_file;
mod pool_layout;
pub mod process;
pub mod raw;
mod refusal;
pub mod shm;
mod silence;
pub mod sim;
pub mod tcp;
pub mod timing;
mod window;

use std::time::{Duration, Instant};

use littoral_base::units::NodeId;

pub use littoral_device::error::{Error, Kind, Result};

use forward::forward_fabric;
pub use silence::{BEAT, JOIN_MAX, SILENCE_DEFAULT, SILENCE_MIN, Silence};

/// Whether a node can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It answers.
    Alive,
    /// It is gone; the words say how it was noticed.
    Dead(String),
}

/// A read-modify-write of one aligned word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rmw {
    /// Adds, wrapping around.
    Add(u64),
    /// Puts a value in.
    Swap(u64),
    /// Puts `new` in if `current` is there.
    CompareSwap {
        /// What must be there.
        current: u64,
        /// What comes in its place.
        new: u64,
    },
}

/// One node's handle on the other nodes' memory; see the module's page for the rules.
pub trait Fabric {
    /// This node.
    fn me(&self) -> NodeId;
    /// How many nodes the job has.
    fn nodes(&self) -> u16;
    /// Bytes of each node's window.
    fn window_bytes(&self) -> usize;

    /// Whether windows are coherent memory that this processor reaches by its own loads, stores and
    /// read-modify-writes: what one node stores before a release another sees after the acquire.
    fn is_coherent(&self) -> bool {
        false
    }

    /// Writes `data` at `offset` of `node`'s window.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` outside the window, `Kind::Io` when the node is gone.
    fn put(&self, node: NodeId, offset: usize, data: &[u8]) -> Result<()>;

    /// Reads from `offset` of `node`'s window.
    ///
    /// # Errors
    /// As `put`.
    fn get(&self, node: NodeId, offset: usize, into: &mut [u8]) -> Result<()>;

    /// Adds to the aligned word at `offset` of `node`'s window and returns what it held before.
    ///
    /// # Errors
    /// As `put`; `Kind::Unsupported` on a fabric without remote atomics.
    fn fetch_add(&self, node: NodeId, offset: usize, add: u64) -> Result<u64>;

    /// Returns when all earlier operations on `node` have taken effect there.
    ///
    /// # Errors
    /// `Kind::Io` when the node is gone.
    fn flush(&self, node: NodeId) -> Result<()>;

    /// Sends a message.
    ///
    /// # Errors
    /// As `put`.
    fn post(&self, node: NodeId, message: &[u8]) -> Result<()>;

    /// The longest message that [`Fabric::post`] takes, in bytes.
    fn post_bytes_max(&self) -> usize;

    /// Sends a message unless the receiver has no room for it now; whether it was sent. A node that
    /// both sends and serves uses it, so that two full nodes never wait for each other.
    ///
    /// # Errors
    /// As `post`.
    fn try_post(&self, node: NodeId, message: &[u8]) -> Result<bool> {
        self.post(node, message).map(|()| true)
    }

    /// The longest message in bytes for which [`Fabric::try_post`] never waits.
    fn try_post_bytes_max(&self) -> usize {
        self.post_bytes_max()
    }

    /// Takes the next message, waiting at most `timeout`; `None` when there was none.
    ///
    /// # Errors
    /// `Kind::Io` when the fabric itself failed.
    fn receive(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>>;

    /// As `receive`, by a thread whose processor another one may need: it sleeps at once where
    /// `receive` would look again and again.
    ///
    /// # Errors
    /// As `receive`.
    fn receive_asleep(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        self.receive(timeout)
    }

    /// Says that from now on, or no longer, one thread of this node takes what comes by
    /// `receive_attending`, so that no thread in `receive` need be woken by it; whether the fabric
    /// can tell them apart.
    fn attend(&self, _begins: bool) -> bool {
        false
    }

    /// Wakes the thread that attends, if it sleeps in `receive_attending`.
    fn call(&self) {}

    /// As `receive`, by the thread that attends.
    ///
    /// # Errors
    /// As `receive`.
    fn receive_attending(&self, timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
        self.receive(timeout)
    }

    /// Wakes `node` if it sleeps in `receive` or in a wait on its own window.
    ///
    /// # Errors
    /// `Kind::Io` when the node is gone.
    fn notify(&self, node: NodeId) -> Result<()>;

    /// Shows the other nodes that this one is alive, on fabrics where nothing else does it for a
    /// node that computes.
    ///
    /// # Errors
    /// `Kind::Io` when the fabric itself failed.
    fn show_life(&self) -> Result<()> {
        Ok(())
    }

    /// Sends what still waits for other nodes, as far as they take it within a few seconds: the
    /// last step of a node that waits for nothing more.
    fn send_rest(&self) {}

    /// Whether `node` can be reached.
    fn liveness(&self, node: NodeId) -> Liveness;

    /// Whether all that `node`, whose process has ended, ever sent here can be received now. Where
    /// messages lie in memory that the nodes share that is always so; where they travel it is once
    /// the way has ended.
    fn has_delivered(&self, _node: NodeId) -> bool {
        true
    }

    /// Changes the aligned word at `offset` of `node`'s window and returns what it held before.
    ///
    /// # Errors
    /// As `fetch_add`; `Kind::Unsupported` for what the fabric's hardware cannot do.
    fn rmw(&self, node: NodeId, offset: usize, op: Rmw) -> Result<u64> {
        match op {
            Rmw::Add(add) => self.fetch_add(node, offset, add),
            Rmw::Swap(_) | Rmw::CompareSwap { .. } => {
                let what = format!("{op:?} on this fabric");
                Err(Error::new(Kind::Unsupported, what).at_rank(self.me()).at_peer(node))
            }
        }
    }

    /// Writes the aligned word at `offset` of `node`'s window and sees that a wait there notices:
    /// one remote write.
    ///
    /// # Errors
    /// As `put`.
    fn signal(&self, node: NodeId, offset: usize, word: u64) -> Result<()> {
        self.put(node, offset, &word.to_le_bytes())?;
        self.flush(node)?;
        self.notify(node)
    }

    /// Waits until the aligned word at `offset` of this node's own window is no longer `unlike`, at
    /// most for `timeout`: spins a few microseconds, then sleeps where the fabric can wake it.
    ///
    /// # Errors
    /// As `get`.
    fn wait_word(&self, offset: usize, unlike: u64, timeout: Duration) -> Result<Option<u64>> {
        let deadline = Instant::now().checked_add(timeout);
        let mut turns = 0u32;
        loop {
            let mut bytes = [0; 8];
            self.get(self.me(), offset, &mut bytes)?;
            let word = u64::from_le_bytes(bytes);
            if word != unlike {
                return Ok(Some(word));
            }
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return Ok(None);
            }
            turns = turns.saturating_add(1);
            match turns {
                0..500 => std::hint::spin_loop(),
                500..1000 => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(50)),
            }
        }
    }

    /// Waits for `length` without asking anything of the fabric; virtual time where the fabric has
    /// that.
    fn pause(&self, length: Duration) {
        std::thread::sleep(length);
    }

    /// Writes to the board of `node` ([`board`]): posted, at most [`board::BOARD_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// `Kind::Unsupported` where there is no board, else as `put`.
    fn board_write(&self, node: NodeId, _data: &[u8]) -> Result<()> {
        Err(refusal::no_board(node, " on this fabric").at_rank(self.me()))
    }

    /// Reads from the board of `node`; the question says what.
    ///
    /// # Errors
    /// As `board_write`.
    fn board_read(&self, node: NodeId, _question: &[u8]) -> Result<Vec<u8>> {
        Err(refusal::no_board(node, " on this fabric").at_rank(self.me()))
    }

    /// Begins a read of the board and does not wait for the answer, which [`Fabric::board_answer`]
    /// takes: the two halves of a split transaction. `None` where the fabric has only the whole
    /// one; nothing was asked then.
    ///
    /// # Errors
    /// As `board_write`.
    fn board_ask(&self, _node: NodeId, _question: &[u8]) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Waits for the answer to what `board_ask` began.
    ///
    /// # Errors
    /// As `board_write`.
    fn board_answer(&self, _node: NodeId, _asked: u64) -> Result<Vec<u8>> {
        Err(Error::new(Kind::Unsupported, "this fabric's reads are whole"))
    }
}

macro_rules! through_reference {
    ($self:ident, $($call:tt)+) => {
        (**$self).$($call)+
    };
}

/// A borrowed fabric is a fabric: a test keeps one, what counts or drives it has the other.
impl<F: Fabric + ?Sized> Fabric for &F {
    forward_fabric!(through_reference: all);
}
