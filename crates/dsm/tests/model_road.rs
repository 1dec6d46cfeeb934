//! What ranks that share pages in place tell rank 0 of their allocations, in every order: a line
//! per parity of the barrier. No rank reads a line of a later barrier, so equal programs never
//! differ and a difference is seen at its barrier.

#![allow(clippy::unwrap_used)]

use stateright::{Checker, Model, Property};

const BARRIERS: usize = 4;

/// A rank between its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// Writes its line next.
    Before,
    Arrived,
    /// Reads rank 0's line next.
    Left,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Ranks {
    at: Vec<(usize, At)>,
    /// What rank 0's lines say.
    lines: Vec<u8>,
    /// Barriers at which a rank saw a difference.
    differed: Vec<Option<usize>>,
}

/// Allocations of each rank before each barrier.
struct Road {
    made: Vec<[u8; BARRIERS]>,
    lines: usize,
}

impl Model for Road {
    type State = Ranks;
    type Action = usize;

    fn init_states(&self) -> Vec<Ranks> {
        let n = self.made.len();
        let (at, lines) = (vec![(0, At::Before); n], vec![0; self.lines]);
        vec![Ranks { at, lines, differed: vec![None; n] }]
    }

    fn actions(&self, state: &Ranks, actions: &mut Vec<usize>) {
        let all_came = |g: usize| {
            state.at.iter().all(|(at, step)| *at > g || (*at == g && *step != At::Before))
        };
        actions.extend((0..self.made.len()).filter(|r| {
            let (g, step) = state.at[*r];
            g < BARRIERS && state.differed[*r].is_none() && (step != At::Arrived || all_came(g))
        }));
    }

    fn next_state(&self, state: &Ranks, rank: usize) -> Option<Ranks> {
        let mut next = state.clone();
        let (g, step) = state.at[rank];
        let mine = self.made[rank][g];
        next.at[rank] = match step {
            At::Before => {
                if rank == 0 {
                    next.lines[g % self.lines] = mine;
                }
                (g, At::Arrived)
            }
            At::Arrived => (g, At::Left),
            At::Left => {
                next.differed[rank] = (state.lines[g % self.lines] != mine).then_some(g);
                (g + 1, At::Before)
            }
        };
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("a difference is seen, and only that", |m: &Road, s: &Ranks| {
            s.at.iter().zip(&s.differed).zip(&m.made).all(|(((at, _), differed), made)| {
                let first = (0..BARRIERS).find(|g| made[*g] != m.made[0][*g]);
                match differed {
                    Some(g) => first == Some(*g),
                    None => first.is_none_or(|g| *at <= g),
                }
            })
        })]
    }
}

fn holds(lines: usize, made: &[[u8; BARRIERS]]) -> bool {
    let checker = Road { made: made.to_vec(), lines }.checker().spawn_bfs().join();
    assert!(checker.unique_state_count() > 40, "the model explored nothing");
    checker.discoveries().is_empty()
}

#[test]
fn a_line_is_not_rewritten_while_it_is_read() {
    for made in [[1, 2, 3, 4], [1, 1, 2, 2], [0, 1, 1, 1]] {
        assert!(holds(2, &[made; 3]));
        let mut other = made;
        other[2] = 9;
        assert!(holds(2, &[made, other, made]));
    }
}

/// The canary: with one line rank 0 rewrites what another rank has still to read.
#[test]
fn one_line_is_too_few() {
    assert!(!holds(1, &[[1, 2, 3, 4]; 3]));
}
