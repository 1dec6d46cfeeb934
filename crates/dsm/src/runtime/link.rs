//! Messages over a carrier: pieces of a size it takes, in order, kept while a peer has no room.
//!
//! A frame is {sequence number u32, more u8, bytes}. Two threads of a rank may take frames off the
//! carrier at the same time, so a frame may be handed in before an earlier one: the number puts
//! them in order again, and shows a frame lost or doubled.
//!
//! Invariants
//! - Bodies reach the receiver whole, once, in the order of `send`. Checked by
//!   `bodies_arrive_whole_and_in_order_however_frames_are_swapped`,
//!   `doubled_lost_and_broken_frames_are_refused`.
//! - `send` never waits: what has no room waits here and goes out with `drain`. Checked by
//!   `bodies_arrive_whole_and_in_order_however_frames_are_swapped`.

use std::collections::{BTreeMap, VecDeque};

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::carrier::Carrier;
use crate::error::{Error, Kind, Result};

const HEADER_BYTES: usize = 5;
const PIECE_BYTES_MAX: usize = 1 << 20;
/// Frames that may be ahead of a missing one; two threads can be ahead by a few.
const EARLY_MAX: usize = 1024;

#[derive(Default)]
struct Peer {
    /// Bodies sent, without those of `send_uncounted`.
    bodies: u64,
    sent: u32,
    taken: u32,
    early: BTreeMap<u32, Vec<u8>>,
    partial: Vec<u8>,
    outbox: VecDeque<Vec<u8>>,
}

/// This rank's ends of its channels to every other; see the module's page.
pub(super) struct Link {
    piece_bytes: usize,
    peers: Vec<Peer>,
    messages: u64,
    bytes: u64,
}

impl Link {
    pub(super) fn new(carrier: &dyn Carrier) -> Self {
        let piece_bytes = carrier.post_bytes_max().min(PIECE_BYTES_MAX) - HEADER_BYTES;
        let peers = (0..carrier.ranks()).map(|_| Peer::default()).collect();
        Link { piece_bytes, peers, messages: 0, bytes: 0 }
    }

    /// Messages sent so far, and their bytes with headers.
    pub(super) fn traffic(&self) -> (u64, u64) {
        (self.messages, self.bytes)
    }

    /// Bodies sent to each rank so far, whether they have left or not.
    pub(super) fn bodies(&self) -> Vec<u64> {
        self.peers.iter().map(|peer| peer.bodies).collect()
    }

    /// Sends `body`, which is gone before its frames leave, to `to`, now or when there is room. A
    /// receiver that is gone is noticed by its liveness, not here.
    pub(super) fn send(&mut self, carrier: &dyn Carrier, to: NodeId, body: impl AsRef<[u8]>) {
        self.peers[to.index()].bodies += 1;
        self.send_uncounted(carrier, to, body);
    }

    /// As `send`, of what `bodies` leaves out.
    pub(super) fn send_uncounted(
        &mut self,
        carrier: &dyn Carrier,
        to: NodeId,
        body: impl AsRef<[u8]>,
    ) {
        self.messages += 1;
        let mut rest = body.as_ref();
        loop {
            let (piece, later) = rest.split_at(rest.len().min(self.piece_bytes));
            let peer = &mut self.peers[to.index()];
            let mut frame = Vec::with_capacity(HEADER_BYTES + piece.len());
            frame.extend(peer.sent.to_le_bytes());
            frame.push(u8::from(!later.is_empty()));
            frame.extend(piece);
            peer.sent = peer.sent.wrapping_add(1);
            self.bytes += frame.len() as u64;
            peer.outbox.push_back(frame);
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        drop(body);
        self.drain_one(carrier, to.index());
    }

    /// Sends what has found no room before; whether nothing is left.
    pub(super) fn drain(&mut self, carrier: &dyn Carrier) -> bool {
        let mut is_done = true;
        for n in 0..self.peers.len() {
            self.drain_one(carrier, n);
            is_done &= self.peers[n].outbox.is_empty();
            if !is_done && mutant!("dsm_full_peer_stops_others") {
                break;
            }
        }
        is_done
    }

    /// Bytes to `to` that have found no room so far.
    pub(super) fn waiting_bytes(&self, to: NodeId) -> usize {
        self.peers[to.index()].outbox.iter().map(Vec::len).sum()
    }

    fn drain_one(&mut self, carrier: &dyn Carrier, n: usize) {
        let to = NodeId(u16::try_from(n).expect("invariant: ranks fit u16"));
        let outbox = &mut self.peers[n].outbox;
        while let Some(frame) = outbox.front() {
            match carrier.try_post(to, frame) {
                Ok(true) => drop(outbox.pop_front()),
                Ok(false) => break,
                Err(_) => return outbox.clear(),
            }
        }
    }

    /// Takes a frame in; the bodies that are whole and in order with it.
    ///
    /// # Errors
    /// `Kind::Protocol` for a frame that was there before, or that is none.
    pub(super) fn accept(&mut self, from: NodeId, frame: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let bad = |what: &str| {
            Error::new(Kind::Protocol, format!("rank {from} sent {what}")).at_peer(from)
        };
        let number = frame.first_chunk().copied().map(u32::from_le_bytes);
        let number =
            number.filter(|_| frame.len() >= HEADER_BYTES).ok_or_else(|| bad("no frame"))?;
        let peer = self.peers.get_mut(from.index()).ok_or_else(|| bad("as a stranger"))?;
        let ahead = number.wrapping_sub(peer.taken) as usize;
        if ahead >= EARLY_MAX || peer.early.insert(number, frame).is_some() {
            return Err(bad(&format!("frame {number} where {} was due", peer.taken)));
        }
        let mut whole = Vec::new();
        if mutant!("dsm_link_in_order_of_arrival") && peer.early.len() == 1 {
            peer.taken = number;
        }
        while let Some(frame) = peer.early.remove(&peer.taken) {
            peer.taken = peer.taken.wrapping_add(1);
            peer.partial.extend(&frame[HEADER_BYTES..]);
            if frame[4] == 0 {
                whole.push(std::mem::take(&mut peer.partial));
            }
        }
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use littoral_fabric::Liveness;
    use proptest::prelude::*;
    use std::sync::Mutex;
    use std::time::Duration;

    /// A carrier of small messages that is full every other time, and always to rank 2.
    struct Narrow(Mutex<(Vec<Vec<u8>>, u32)>);

    impl Carrier for Narrow {
        fn me(&self) -> NodeId {
            NodeId(0)
        }
        fn ranks(&self) -> u16 {
            4
        }
        fn post_bytes_max(&self) -> usize {
            16
        }
        fn try_post(&self, to: NodeId, message: &[u8]) -> Result<bool> {
            assert!(message.len() <= 16);
            if to == NodeId(2) {
                return Ok(false);
            }
            let mut state = self.0.lock().unwrap();
            state.1 += 1;
            if state.1.is_multiple_of(3) {
                return Ok(false);
            }
            state.0.push(message.to_vec());
            Ok(true)
        }
        fn receive(&self, _timeout: Duration) -> Result<Option<(NodeId, Vec<u8>)>> {
            Ok(None)
        }
        fn show_life(&self) -> Result<()> {
            Ok(())
        }
        fn liveness(&self, _rank: NodeId) -> Liveness {
            Liveness::Alive
        }
    }

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn bodies_arrive_whole_and_in_order_however_frames_are_swapped(
            bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..12),
            swaps in proptest::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let carrier = Narrow(Mutex::new((Vec::new(), 0)));
            let mut link = Link::new(&carrier);
            bodies.iter().for_each(|b| link.send(&carrier, NodeId(1), b));
            while !link.drain(&carrier) {}
            let mut frames = std::mem::take(&mut carrier.0.lock().unwrap().0);
            let last = frames.len() - 1;
            for s in swaps { if last > 0 { frames.swap(s.index(last), s.index(last) + 1); } }
            let mut receiver = Link::new(&carrier);
            let mut got = Vec::new();
            for f in frames { got.extend(receiver.accept(NodeId(1), f).unwrap()); }
            prop_assert_eq!(got, bodies);
        }
    }

    #[test]
    fn a_full_peer_stops_no_other() {
        let carrier = Narrow(Mutex::new((Vec::new(), 2)));
        let mut link = Link::new(&carrier);
        link.send(&carrier, NodeId(2), [1; 20]);
        link.send(&carrier, NodeId(3), [2; 8]);
        assert!(link.waiting_bytes(NodeId(2)) > 20 && link.waiting_bytes(NodeId(3)) > 8);
        assert!(!link.drain(&carrier));
        assert_eq!(link.waiting_bytes(NodeId(3)), 0);
        assert_eq!(carrier.0.lock().unwrap().0.len(), 1);
    }

    #[test]
    fn doubled_lost_and_broken_frames_are_refused() {
        let carrier = Narrow(Mutex::new((Vec::new(), 0)));
        let mut link = Link::new(&carrier);
        let frame = |n: u32| [&n.to_le_bytes()[..], &[0, 9]].concat();
        assert_eq!(link.accept(NodeId(1), frame(0)).unwrap(), vec![vec![9]]);
        for bad in [frame(0), frame(5000), vec![1, 2]] {
            assert_eq!(link.accept(NodeId(1), bad).unwrap_err().kind(), Kind::Protocol);
        }
        assert!(link.accept(NodeId(1), frame(2)).unwrap().is_empty(), "one is missing");
        assert_eq!(link.accept(NodeId(1), frame(1)).unwrap().len(), 2);
        assert!(link.accept(NodeId(7), frame(0)).is_err());
    }
}
