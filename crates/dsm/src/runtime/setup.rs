//! What a rank is set up with: the memory of its pages, and what its protocol is told at the start.

use littoral_base::mutant;
use littoral_base::units::NodeId;

use super::Config;
use super::carrier::Carrier;
use super::shared_pages::Layout;
use crate::core::rank::Rank;
use crate::error::Result;
use crate::memory::{Segment, page_bytes};

/// The memory of a rank's pages.
pub(super) fn segment_of(config: &Config, me: NodeId, ranks: u16) -> Result<Segment> {
    let (base, bytes_max) = (config.base, config.bytes_max);
    let mut segment = match (&config.pool, &config.direct, &config.frames) {
        (Some(pool), _, _) => Segment::pooled(pool, bytes_max)?,
        (None, Some(file), _) => Segment::direct_at(base, file, bytes_max)?,
        (None, None, Some(file)) => {
            let from = Layout::new(ranks, bytes_max, config.locks).frames(me);
            Segment::reached(file, from, base, bytes_max, config.mechanism)?
        }
        (None, None, None) => Segment::private_at(base, bytes_max, config.mechanism)?,
    };
    if config.many_threads {
        segment.let_many_threads_in();
    }
    Ok(segment)
}

/// Tells a new rank what is shared, and outside of virtual time what travels along and whether
/// barriers have a manager.
pub(super) fn prepare(
    rank: &mut Rank<Segment>,
    carrier: &dyn Carrier,
    in_place: bool,
    alone: bool,
    config: &Config,
) {
    let in_turns = carrier.turns().is_some();
    rank.keep_early_requests();
    match carrier.ranks() {
        _ if in_turns || alone => {}
        0 | 1 => {}
        2 => rank.exchange_arrivals(),
        _ if config.crowded && !mutant!("dsm_crowded_ranks_gather") => {}
        _ => rank.gather_arrivals(),
    }
    if in_place {
        return rank.share_in_place();
    }
    rank.keep_unshared_home();
    if config.predict && !in_turns {
        rank.send_along();
    }
}

/// Limits the copies of a rank that has any.
pub(super) fn limit_copies(
    rank: &mut Rank<Segment>,
    config: &Config,
    shares_pages: bool,
) -> Result<()> {
    let pages = config.cache_pages(page_bytes())?;
    if !shares_pages {
        rank.limit_copies(pages);
    }
    Ok(())
}
