//! Range scans, forward and backward: leaf by leaf, each found from the top by a separator.
//!
//! Leaves are not linked: a link would be one more address to change whenever a leaf moves. A scan
//! carries the separator at which the last leaf ended and descends again, so it holds no page
//! between leaves. Every scan ends: the separators it follows are strictly monotone.

use littoral_store::pages::Pages;

use super::Zb;
use super::state::HeadView;
use crate::tree::{Direction, Range};
use crate::{Error, Kind, Result};

/// One leaf as a scan sees it: its records and the separator beyond it.
struct Reach {
    records: Vec<u8>,
    beyond: Option<Vec<u8>>,
}

/// Where a descent is heading.
#[derive(Clone, Copy)]
enum Aim<'a> {
    /// The leaf that covers the key.
    At(&'a [u8]),
    /// The leaf that covers what lies just below the key.
    Below(&'a [u8]),
    /// The last leaf.
    Last,
}

/// Picks among `n` live slots by their separators; slot 0 of them is First.
fn pick<'k>(n: usize, aim: Aim<'_>, key: impl Fn(usize) -> &'k [u8]) -> usize {
    let covers = |i: usize| match aim {
        Aim::At(k) => key(i) <= k,
        Aim::Below(k) => key(i) < k,
        Aim::Last => true,
    };
    (1..n).rev().find(|&i| covers(i)).unwrap_or(0)
}

impl<P: Pages> Zb<P> {
    /// The leaf at `aim`, with the separator behind it (forward) or in front of it (backward).
    fn reach(&self, aim: Aim<'_>, direction: Direction) -> Result<Reach> {
        let mut beyond = None;
        let mut head = self.core.root.top;
        let note =
            |beyond: &mut Option<Vec<u8>>, n: usize, i: usize, key: &dyn Fn(usize) -> Vec<u8>| {
                match direction {
                    Direction::Forward if i + 1 < n => *beyond = Some(key(i + 1)),
                    Direction::Backward if i > 0 => *beyond = Some(key(i)),
                    _ => {}
                }
            };
        for level in (0..=self.core.root.height as usize).rev() {
            let page = self.core.pages.read(head)?;
            let view = HeadView::new(&self.core.shape, &page);
            let slot = pick(view.count(), aim, |i| view.key(i));
            note(&mut beyond, view.count(), slot, &|i| view.key(i).to_vec());
            let ptr = view.ptr(slot).ok_or_else(|| Self::damaged(head, slot))?;
            let body = self.load(level, ptr)?;
            if level == 0 {
                return Ok(Reach { records: body.live_records(), beyond });
            }
            let live: Vec<usize> = (0..body.slots()).filter(|&i| body.is_live(i)).collect();
            let i = pick(live.len(), aim, |i| body.key(live[i]));
            note(&mut beyond, live.len(), i, &|i| body.key(live[i]).to_vec());
            head = body.child(live[i]);
        }
        unreachable!("invariant: level 0 returns")
    }

    /// Calls `each` with key and value of every record in `[from, to)`, in the given direction,
    /// until it answers false. `None` leaves that end open.
    ///
    /// # Errors
    /// `Kind::Usage` for a bound of another size; those of the store.
    pub fn scan(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
        mut each: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        from.into_iter().chain(to).try_for_each(|k| self.core.check_key(k))?;
        let range = Range { from, to, direction };
        let lowest = vec![0; self.core.shape.key_bytes];
        let mut aim = match (direction, from, to) {
            (Direction::Forward, from, _) => Some((false, from.map_or(lowest, <[u8]>::to_vec))),
            (Direction::Backward, _, Some(to)) => Some((false, to.to_vec())),
            (Direction::Backward, _, None) => Some((true, Vec::new())),
        };
        while let Some((is_last, key)) = aim.take() {
            let target = match direction {
                _ if is_last => Aim::Last,
                Direction::Forward => Aim::At(&key),
                Direction::Backward => Aim::Below(&key),
            };
            let reach = self.reach(target, direction)?;
            if !self.emit(&reach.records, range, &mut each) {
                return Ok(());
            }
            let inside = |k: &Vec<u8>| match direction {
                Direction::Forward => to.is_none_or(|t| &k[..] < t),
                Direction::Backward => from.is_none_or(|f| &k[..] > f),
            };
            let went_on = |next: &Vec<u8>| match direction {
                Direction::Forward => next > &key,
                Direction::Backward => is_last || next < &key,
            };
            if reach.beyond.as_ref().is_some_and(|next| !went_on(next)) {
                let text = format!("separators out of order behind key {key:02x?}");
                return Err(Error::new(Kind::Corrupt, text));
            }
            aim = reach.beyond.filter(inside).map(|k| (false, k));
        }
        Ok(())
    }

    fn emit(
        &self,
        records: &[u8],
        range: Range<'_>,
        each: &mut impl FnMut(&[u8], &[u8]) -> bool,
    ) -> bool {
        let inside = |r: &&[u8]| range.holds(&r[..self.core.shape.key_bytes]);
        let stride = self.core.shape.leaf().record;
        let mut visit = |r: &[u8]| {
            let (k, v) = r.split_at(self.core.shape.key_bytes);
            each(k, v)
        };
        match range.direction {
            Direction::Forward => records.chunks_exact(stride).filter(inside).all(&mut visit),
            Direction::Backward => records.chunks_exact(stride).rev().filter(inside).all(visit),
        }
    }
}
