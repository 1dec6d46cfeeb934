//! Exits that wait for a block: the places of their displacements, by the key of the block.
//!
//! - Places of one key are a chain in one list, so that an exit costs no allocation of its own.
//!   Checked by `each_site_is_taken_once_by_its_key`.

use super::super::trace::ByAddress;
use littoral_base::mutant;

/// The end of a chain. No arena has so many exits.
const END: u32 = u32::MAX;

/// A place, and the next link of its chain.
#[derive(Clone, Copy, Debug)]
struct Link {
    site: u32,
    next: u32,
}

/// All of one engine.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The first link of each key.
    first: ByAddress<u32>,
    links: Vec<Link>,
    /// The first link that is free.
    free: u32,
}

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting { first: ByAddress::default(), links: Vec::new(), free: END }
    }
}

impl Waiting {
    /// The displacement at `site` is to lead to the block of a key.
    pub(super) fn add(&mut self, key: u64, site: u32) {
        let first = self.first.entry(key).or_insert(END);
        let link = Link { site, next: *first };
        let place = match self.free {
            END => {
                self.links.push(link);
                self.links.len() - 1
            }
            free => {
                let free = free as usize;
                self.free = self.links[free].next;
                self.links[free] = link;
                free
            }
        };
        assert!(place < END as usize, "fewer exits than bytes of an arena");
        *first = place as u32;
    }

    /// Takes the places that wait for the block of a key.
    pub(super) fn take(&mut self, key: u64, mut f: impl FnMut(u32)) {
        let Some(mut at) = self.first.remove(&key) else { return };
        while at != END {
            let Link { site, next } = self.links[at as usize];
            f(site);
            if !mutant!("la64_waiting_links_are_lost") {
                self.links[at as usize].next = std::mem::replace(&mut self.free, at);
            }
            at = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_site_is_taken_once_by_its_key() {
        let mut waiting = Waiting::default();
        let take = |waiting: &mut Waiting, key| {
            let mut sites = Vec::new();
            waiting.take(key, |site| sites.push(site));
            sites.sort_unstable();
            sites
        };
        for round in 0..50 {
            for site in 0..90 {
                waiting.add(4 * u64::from(site % 7), 1000 * round + site);
            }
            for key in (0..7).rev() {
                let wanted: Vec<u32> = (0..90)
                    .filter(|site| site % 7 == key)
                    .map(|site| 1000 * round + site)
                    .collect();
                assert_eq!(take(&mut waiting, 4 * u64::from(key)), wanted);
                assert_eq!(take(&mut waiting, 4 * u64::from(key)), []);
            }
        }
        assert_eq!(waiting.links.len(), 90, "links are used again");
    }
}
