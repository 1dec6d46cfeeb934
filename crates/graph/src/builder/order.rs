//! Ids by degree: hubs first, equal degrees by first appearance, by counting sort.

/// A numbering by degree and its inverse.
pub(crate) struct Ranking {
    /// `rank[old]` is the vertex's place when sorted by degree.
    pub(crate) rank: Vec<u32>,
    /// `old[rank]` is the vertex at that place.
    pub(crate) old: Vec<u32>,
}

impl Ranking {
    /// The numbering in which the vertex `old[place]` has the number `place`.
    pub(super) fn of(old: Vec<u32>) -> Ranking {
        let mut rank = vec![u32::MAX; old.len()];
        for (place, &v) in (0u32..).zip(&old) {
            debug_assert_eq!(rank[v as usize], u32::MAX, "vertex {v} has two numbers");
            rank[v as usize] = place;
        }
        Ranking { rank, old }
    }
}

/// Ranks vertices by descending degree; stable.
pub(crate) fn by_degree(degrees: &[u32]) -> Ranking {
    let mut old: Vec<u32> = (0..degrees.len() as u32).collect();
    let most = degrees.iter().copied().max().unwrap_or(0);
    if u64::from(most) < 4 * degrees.len() as u64 + 1024 {
        counting_sort(degrees, most as usize, &mut old);
    } else {
        old.sort_by_key(|&v| std::cmp::Reverse(degrees[v as usize]));
    }
    debug_assert!(
        old.is_sorted_by(|&a, &b| degrees[a as usize] >= degrees[b as usize]),
        "degrees ascend somewhere"
    );
    Ranking::of(old)
}

fn counting_sort(degrees: &[u32], most: usize, old: &mut [u32]) {
    let mut next = vec![0u32; most + 2];
    for &d in degrees {
        next[most - d as usize + 1] += 1;
    }
    for d in 0..=most {
        next[d + 1] += next[d];
    }
    for (v, &d) in (0u32..).zip(degrees) {
        let at = &mut next[most - d as usize];
        old[*at as usize] = v;
        *at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hubs_first_then_first_appearance() {
        let r = by_degree(&[2, 0, 7, 2, 7]);
        assert_eq!(r.old, [2, 4, 0, 3, 1]);
        assert_eq!(r.rank, [2, 4, 0, 3, 1]);
        let far = by_degree(&[1, 1 << 30, 1]);
        assert_eq!(far.old, [1, 0, 2]);
    }
}
