//! What is kept of a translated block, as its record.

use super::super::record::{
    ALONE, BEFORE, ExitOf, FAULTS, Lists, RELATIVE, RunOf, SLOWS, WORDS, get, set,
};
use super::block::Decoded;
use super::parts::Parts;
use littoral_base::mutant;

/// Runs of instructions behind each other.
pub(in super::super) fn runs(list: &[Decoded]) -> Vec<RunOf> {
    let mut runs: Vec<RunOf> = Vec::new();
    for d in list {
        let from = d.pc.wrapping_sub(list[0].pc);
        match runs.last_mut() {
            Some(run) if run.from.wrapping_add(4 * u64::from(run.count)) == from => run.count += 1,
            _ => runs.push(RunOf { from, count: 1 }),
        }
    }
    runs
}

impl Parts {
    /// The block's record; `None` if its code is right only where it is.
    pub(super) fn record(&self, list: &[Decoded], groups: u8) -> Option<Vec<u8>> {
        if self.sites.fixed {
            return None;
        }
        assert_eq!(self.exits.len(), self.sites.exits.len(), "each exit has its number");
        let inside = |offset: usize| (offset - self.start) as u32;
        let mut code = self.bytes.clone();
        let mut lists = Lists::default();
        let pc = list[0].pc;
        runs(list).into_iter().for_each(|run| lists.run(run));
        lists.extend(WORDS, list.iter().map(|d| d.word));
        let mut sites = Vec::new();
        for (exit, &id) in self.exits.iter().zip(&self.sites.exits) {
            let site = exit.site.map(|site| site - self.start as u32);
            // Only a way to the block's own beginning stays.
            let leads_to = |site| Some(get(&code, site)?.wrapping_add(site + 4) as usize);
            let is_own = |site| leads_to(site).is_some_and(|to| to < code.len());
            let stays = |site| is_own(site) || mutant!("la64_stored_links_stay");
            let linked = exit.linked && site.is_none_or(stays);
            let to = exit.target.wrapping_sub(pc);
            lists.exit(ExitOf { to, site, id: inside(id), plain: exit.plain, linked });
            set(&mut code, inside(id), 0)?;
            let Some(site) = site else { continue };
            sites.push(site as usize + self.start);
            if !linked {
                // To the instruction that loads the exit's number.
                set(&mut code, site, (inside(id) - 1).wrapping_sub(site + 4))?;
            }
        }
        let pair = |&(a, b): &(u32, u32)| [a - self.start as u32, b - self.start as u32];
        lists.extend(FAULTS, self.faults.iter().flat_map(pair));
        let slow = |s: &super::slow::Slow| [s.back - self.start as u32, s.before.into()];
        lists.extend(SLOWS, self.slows.iter().flat_map(slow));
        let alone = |&(at, n): &(usize, u16)| [inside(at), n.into()];
        lists.extend(ALONE, self.sites.alone.iter().flat_map(alone));
        lists.extend(RELATIVE, self.sites.relative.iter().map(|&at| inside(at)));
        for &at in self.before.iter().filter(|at| !sites.contains(at)) {
            let to = get(&code, inside(at))?.wrapping_add(at as u32 + 4);
            set(&mut code, inside(at), to)?;
            lists.extend(BEFORE, [inside(at)]);
        }
        Some(lists.write(pc, groups, &code))
    }
}
