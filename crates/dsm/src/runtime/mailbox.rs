//! What has come for a program beside shared memory, and the condition variables kept here.
//!
//! Invariants
//! - Letters of one sender, channel and tag are taken in the order in which they came. Checked by
//!   `letters_are_taken_by_sender_channel_and_tag_in_order`.
//! - A set flag grants at once, and when it is set all that wait. Checked by
//!   `a_flag_grants_who_waits_before_and_after_it_is_set`.

use std::collections::{BTreeMap, VecDeque};

use littoral_base::units::NodeId;

use super::control::CvAct;

/// A letter: its sender, channel, tag and bytes.
type Letter = (NodeId, u8, i32, Vec<u8>);

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
    flags: BTreeMap<u32, Flag>,
    /// Condition variables that the manager says are set, waited for here.
    granted: Vec<u32>,
}

impl Mailbox {
    pub(super) fn put(&mut self, from: NodeId, channel: u8, tag: i32, bytes: Vec<u8>) {
        self.letters.push_back((from, channel, tag, bytes));
    }

    pub(super) fn take(&mut self, from: NodeId, channel: u8, tag: i32) -> Option<Vec<u8>> {
        let wanted = |l: &Letter| (l.0, l.1, l.2) == (from, channel, tag);
        let at = self.letters.iter().position(wanted)?;
        self.letters.remove(at).map(|letter| letter.3)
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
        }
        Vec::new()
    }

    pub(super) fn take_grant(&mut self, cv: u32) -> Option<()> {
        let at = self.granted.iter().position(|n| *n == cv)?;
        self.granted.swap_remove(at);
        Some(())
    }
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
    fn letters_are_taken_by_sender_channel_and_tag_in_order() {
        let mut box_ = Mailbox::default();
        let (a, b) = (NodeId(1), NodeId(2));
        for (from, tag, byte) in [(a, 7, 1), (b, 7, 2), (a, 8, 3), (a, 7, 4)] {
            box_.put(from, 0, tag, vec![byte]);
        }
        assert_eq!(box_.take(a, 1, 7), None);
        assert_eq!([box_.take(a, 0, 7), box_.take(a, 0, 7)], [Some(vec![1]), Some(vec![4])]);
        assert_eq!([box_.take(a, 0, 7), box_.take(b, 0, 7)], [None, Some(vec![2])]);
    }
}
