//! PageRank, checked: a textbook iteration must leave the ranks almost as they are.

use super::{Dangling, PageRankOptions};
use crate::error::Result;
use crate::format::Direction;
use crate::format::file::GraphFile;
use crate::verify::{Adjacency, check_length, refuted};

/// The sum over all vertices of |what one textbook iteration makes of `ranks` - `ranks`|.
///
/// # Errors
/// `Kind::Refuted` when the number of ranks is wrong; `Kind::Io`, `Kind::Corrupt`.
fn residual(graph: &GraphFile, ranks: &[f32], options: &PageRankOptions) -> Result<f64> {
    let damping = f64::from(options.damping);
    check_length(ranks.len(), graph)?;
    let out = Adjacency::load(graph, Direction::Out)?;
    let mut incoming = vec![0f64; ranks.len()];
    let mut kept_back = 0f64;
    for (u, &rank) in (0u32..).zip(ranks) {
        let degree = out.neighbours(u).count();
        if degree == 0 {
            kept_back += f64::from(rank);
        }
        for v in out.neighbours(u) {
            incoming[v as usize] += f64::from(rank) / degree as f64;
        }
    }
    let n = ranks.len() as f64;
    let spread = if options.dangling == Dangling::Spread { kept_back / n } else { 0.0 };
    let next = incoming.iter().map(|sum| (1.0 - damping) / n + damping * (sum + spread));
    Ok(next.zip(ranks).map(|(new, &old)| (new - f64::from(old)).abs()).sum())
}

/// Checks that `ranks` solve the PageRank equation to within the tolerance asked for.
///
/// # Errors
/// `Kind::Refuted` with the residual; otherwise as [`residual`].
pub(super) fn pagerank(graph: &GraphFile, ranks: &[f32], options: &PageRankOptions) -> Result<()> {
    let residual = residual(graph, ranks, options)?;
    // A sum of NaN must not pass.
    if residual < options.tolerance {
        return Ok(());
    }
    let what = format!(
        "ranks change by {residual:.2e} in all, more than {:.2e}; a run that ended at its limit of {} \
         iterations needs more of them (--iterations)",
        options.tolerance, options.iterations_max
    );
    Err(refuted(what))
}
