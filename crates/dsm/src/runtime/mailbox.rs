//! What has come for a program beside shared memory, and the condition variables kept here.
//!
//! Invariants
//! - Letters of one sender, channel and tag are taken in the order in which they came. Checked by
//!   `letters_are_taken_by_sender_channel_and_tag_in_order`.
//! - Letters of one sender that no *credit* was given for take at most [`LETTERS_MAX`] bytes and
//!   one letter, since a sender waits for credit. A letter gets it when it is taken, or when a
//!   thread of this rank waits for another rank: what that one sends next may be behind it. Checked
//!   by `letters_wait_at_the_sender_while_their_receiver_computes`,
//!   `letters_to_a_rank_that_waits_never_wait`.
//! - A set flag grants at once, and when it is set all that wait. Checked by
//!   `a_flag_grants_who_waits_before_and_after_it_is_set`.

use std::collections::{BTreeMap, VecDeque};

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::control::CvAct;

/// Bytes of letters from one rank that are kept for a program that neither takes them nor waits.
pub(super) const LETTERS_MAX: usize = 1 << 20;
/// Credit that is worth a message.
const CREDIT_MIN: usize = LETTERS_MAX / 4;

struct Letter {
    from: NodeId,
    channel: u8,
    tag: i32,
    bytes: Vec<u8>,
    /// Whether its sender has, or will have, the credit for it.
    is_credited: bool,
}

/// A condition variable at its manager.
#[derive(Default)]
struct Flag {
    is_set: bool,
    waiting: Vec<NodeId>,
}

/// What has come and was not taken yet.
#[derive(Default)]
pub(super) struct Mailbox {
    letters: VecDeque<Letter>,
    /// Credit that each sender is to be told of.
    owed: BTreeMap<NodeId, usize>,
    /// Bytes sent to each rank that it has not credited.
    on_trust: BTreeMap<NodeId, usize>,
    /// Threads of the program that wait for another rank.
    waiting: usize,
    flags: BTreeMap<u32, Flag>,
    /// Condition variables that the manager says are set, waited for here.
    granted: Vec<u32>,
    /// Condition variables that the manager has changed as this rank asked.
    heard: Vec<u32>,
}

impl Mailbox {
    /// Keeps a letter.
    pub(super) fn put(&mut self, from: NodeId, channel: u8, tag: i32, bytes: Vec<u8>) {
        let is_credited = self.waiting > 0;
        if is_credited {
            *self.owed.entry(from).or_default() += bytes.len();
        }
        self.letters.push_back(Letter { from, channel, tag, bytes, is_credited });
    }

    /// Takes the first letter of a channel; of one sender, and of one tag, where they are given.
    pub(super) fn take(
        &mut self,
        from: Option<NodeId>,
        channel: u8,
        tag: Option<i32>,
    ) -> Option<Vec<u8>> {
        let wanted = |l: &Letter| {
            let is_senders = from.is_none_or(|from| from == l.from);
            l.channel == channel && is_senders && tag.is_none_or(|tag| tag == l.tag)
        };
        let at = self.letters.iter().position(wanted)?;
        let letter = self.letters.remove(at)?;
        if !letter.is_credited {
            *self.owed.entry(letter.from).or_default() += letter.bytes.len();
        }
        Some(letter.bytes)
    }

    /// A thread of the program begins to wait for another rank: every letter gets its credit.
    pub(super) fn begin_waiting(&mut self) {
        self.waiting += 1;
        for letter in self.letters.iter_mut().filter(|letter| !letter.is_credited) {
            letter.is_credited = true;
            *self.owed.entry(letter.from).or_default() += letter.bytes.len();
        }
    }

    /// The thread goes on.
    pub(super) fn end_waiting(&mut self) {
        debug_assert!(self.waiting > 0, "a wait that ends has begun");
        self.waiting -= 1;
    }

    /// Credit that is worth a message, and whose it is.
    pub(super) fn credit(&mut self) -> Vec<(NodeId, u64)> {
        let due = self.owed.extract_if(.., |_, bytes| *bytes >= CREDIT_MIN);
        due.map(|(rank, bytes)| (rank, bytes as u64)).collect()
    }

    /// Notes that so many bytes leave for a rank.
    pub(super) fn trust(&mut self, to: NodeId, bytes: usize) {
        *self.on_trust.entry(to).or_default() += bytes;
    }

    /// A rank has credited so many bytes; whether they were sent to it.
    pub(super) fn take_credit(&mut self, from: NodeId, bytes: u64) -> bool {
        let on_trust = self.on_trust.entry(from).or_default();
        let left = usize::try_from(bytes).ok().and_then(|bytes| on_trust.checked_sub(bytes));
        *on_trust = left.unwrap_or(0);
        left.is_some()
    }

    /// Whether a letter to a rank must wait for its credit.
    pub(super) fn must_wait(&self, to: NodeId) -> bool {
        let on_trust = self.on_trust.get(&to).copied().unwrap_or(0);
        on_trust > LETTERS_MAX && !mutant!("dsm_letters_unbounded")
    }

    /// Acts on a condition variable; the ranks that are to be told that it is set.
    pub(super) fn act(&mut self, from: NodeId, act: CvAct, cv: u32) -> Vec<NodeId> {
        let flag = self.flags.entry(cv).or_default();
        match act {
            CvAct::Set => {
                flag.is_set = true;
                return std::mem::take(&mut flag.waiting);
            }
            CvAct::Reset => flag.is_set = false,
            CvAct::Wait if flag.is_set => return vec![from],
            CvAct::Wait => flag.waiting.push(from),
            CvAct::Granted => self.granted.push(cv),
            CvAct::Heard => self.heard.push(cv),
        }
        Vec::new()
    }

    pub(super) fn take_grant(&mut self, cv: u32) -> Option<()> {
        take_one(&mut self.granted, cv)
    }

    /// Whether the manager has said that it has changed the variable, once for each time.
    pub(super) fn take_heard(&mut self, cv: u32) -> Option<()> {
        take_one(&mut self.heard, cv)
    }
}

fn take_one(all: &mut Vec<u32>, cv: u32) -> Option<()> {
    let at = all.iter().position(|n| *n == cv)?;
    all.swap_remove(at);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_grants_who_waits_before_and_after_it_is_set() {
        let mut box_ = Mailbox::default();
        let (a, b) = (NodeId(1), NodeId(2));
        assert_eq!(box_.act(a, CvAct::Wait, 3), []);
        assert_eq!(box_.act(b, CvAct::Set, 3), [a]);
        assert_eq!(box_.act(b, CvAct::Wait, 3), [b]);
        assert_eq!(box_.act(a, CvAct::Reset, 3), []);
        assert_eq!(box_.act(b, CvAct::Wait, 3), []);
        assert_eq!(box_.act(a, CvAct::Set, 4), []);
    }

    #[test]
    fn letters_are_credited_once_when_they_are_taken_or_a_rank_waits() {
        let mut box_ = Mailbox::default();
        let (a, b) = (NodeId(1), NodeId(2));
        (0..3).for_each(|tag| box_.put(a, 0, tag, vec![0; CREDIT_MIN]));
        box_.put(b, 0, 0, vec![0; CREDIT_MIN - 1]);
        assert_eq!(box_.credit(), []);
        assert!(box_.take(Some(a), 0, Some(1)).is_some());
        assert_eq!(box_.credit(), [(a, CREDIT_MIN as u64)]);
        box_.begin_waiting();
        assert_eq!(box_.credit(), [(a, 2 * CREDIT_MIN as u64)], "too little for rank 2");
        assert!(box_.take(Some(a), 0, Some(0)).is_some());
        assert!(box_.take(Some(a), 0, Some(2)).is_some());
        assert_eq!(box_.credit(), []);
        box_.put(b, 0, 1, vec![0]);
        assert_eq!(box_.credit(), [(b, CREDIT_MIN as u64)]);
        box_.end_waiting();
        box_.put(b, 0, 2, vec![0; CREDIT_MIN]);
        assert_eq!(box_.credit(), []);
    }

    #[test]
    fn a_sender_waits_beyond_the_bound_until_there_is_credit() {
        let mut box_ = Mailbox::default();
        let to = NodeId(1);
        box_.trust(to, LETTERS_MAX);
        assert!(!box_.must_wait(to));
        box_.trust(to, 1);
        assert!(box_.must_wait(to) && !box_.must_wait(NodeId(2)));
        assert!(box_.take_credit(to, 1) && !box_.must_wait(to));
        assert!(!box_.take_credit(to, u64::MAX), "more than was sent");
    }

    #[test]
    fn letters_are_taken_by_sender_channel_and_tag_in_order() {
        let mut box_ = Mailbox::default();
        let (a, b) = (NodeId(1), NodeId(2));
        for (from, tag, byte) in [(a, 7, 1), (b, 7, 2), (a, 8, 3), (a, 7, 4)] {
            box_.put(from, 0, tag, vec![byte]);
        }
        let mut take = |from, channel| box_.take(Some(from), channel, Some(7));
        assert_eq!(take(a, 1), None);
        assert_eq!([take(a, 0), take(a, 0)], [Some(vec![1]), Some(vec![4])]);
        assert_eq!([take(a, 0), take(b, 0)], [None, Some(vec![2])]);
    }

    /// The credit for a letter that any sender may have sent is its sender's.
    #[test]
    fn letters_of_any_sender_and_tag_are_taken_in_the_order_in_which_they_came() {
        let mut box_ = Mailbox::default();
        let (a, b) = (NodeId(1), NodeId(2));
        for (from, channel, tag, byte) in [(b, 1, 7, 1), (b, 0, 7, 2), (a, 0, 8, 3), (a, 0, 7, 4)] {
            box_.put(from, channel, tag, vec![byte; CREDIT_MIN]);
        }
        let mut take = |from, tag| box_.take(from, 0, tag).map(|bytes| bytes[0]);
        assert_eq!(take(None, Some(8)), Some(3));
        assert_eq!(
            [take(None, None), take(None, None), take(None, None)],
            [Some(2), Some(4), None]
        );
        assert_eq!(take(Some(a), None), None);
        let credit = CREDIT_MIN as u64;
        assert_eq!(box_.credit(), [(a, 2 * credit), (b, credit)]);
    }
}
