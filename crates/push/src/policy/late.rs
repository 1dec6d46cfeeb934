//! Late binding: fetched pages wait uncommitted until a core or the link is free.
//!
//! The policy observes what a page of each task takes on a core, on the link and on the host, and
//! keeps the fluid split ([`crate::fluid`]) of what is left of the scan. Then
//! - the free link takes the page dearest to compute, of a task that the split does not keep on the
//!   device; such a task's page only when pages that wait keep the flash from being asked;
//! - a free core takes the cheapest page of a task that the split gives to the device;
//! - a core declines a page that would end after the rest is done without it (the end of a scan or
//!   of a host's batch), and one that would keep it from more cheap pages than can wait;
//! - where idle cores would take so many pages that slots become scarce, a core takes no more of a
//!   task than its share: a page holds its slot for longer on a core than on the way to the host.
//!
//! A page that goes to the host takes time of its processors. Where that is more, over all of them,
//! than [`DEAR_LEAST`] of the time which the scan gains, the page is *dear to the host*: its task
//! is kept on the device whole, though the scan ends later, by a third at most. The link then takes
//! one page of it per [`TRIAL_SPAN`] page times, so that what the host takes stays known.
//!
//! A task without a share on the device is tried again, since what was observed of it may no longer
//! be true. Trials of a task take at most one in [`TRIAL_SPAN`] of the cores' time, and one in
//! [`SUSPECT_SPAN`] while the host's time per page of it is another than when a core last ran it.
//! A trial weighs as much as the pages that went by without one.
//!
//! There is no queue length to tune.
//!
//! Invariants
//! - Nothing is taken of a task without a waiting page. Checked by `Late::for_core`,
//!   `Late::for_link`.

use littoral_base::mutant;
use littoral_base::units::Picos;

use super::{Known, TaskView, View};
use crate::fluid::{Fluid, Load, Split};

/// Completions after which the split is computed anew.
const RENEW_EVERY: u32 = 32;

/// Core time between two trials of a task, over the time of one.
const TRIAL_SPAN: f64 = 128.0;

/// The same while the host's time per page has changed.
const SUSPECT_SPAN: f64 = 16.0;

/// Change of the host's time per page that casts doubt on what the cores took.
const SUSPECT_CHANGE: f64 = 1.25;

/// Share below which a task is not given to the device.
const NO_SHARE: f64 = 0.001;

/// Use of the slots, were the cores never idle, above which cores keep to the shares.
const SLOTS_SCARCE: f64 = 0.8;

/// Least part of the fluid share that is taken where a page's run stalls cheaper ones.
const DIVISIBLE_LEAST: f64 = 0.75;

/// Least part of the best rate that the cores must reach alone for a task to be kept on the device
/// because its pages are dear to the host.
const KEPT_LEAST: f64 = 0.75;

/// Least time of the host's processors together for a raw page, over the time that shipping it
/// saves the scan, at which the page is dear to the host. The host counts its own threads alone;
/// what the transfer takes of the operating system and of the server comes on top.
const DEAR_LEAST: f64 = 0.6;

/// What the link time of pages that are dear to the host is multiplied by in the split.
const NEVER_SHIPPED: f64 = 1e6;

#[derive(Clone, Copy, Debug, Default)]
struct Observed {
    /// Core time of a page, the time of runs that fell back included.
    core: Option<f64>,
    /// Host time of a raw page.
    host: Option<f64>,
    /// Share of runs that were merged.
    merged: f64,
    /// Host time of a raw page when a core last ended one.
    host_then: Option<f64>,
    /// When a core last began a page.
    begun: Picos,
    /// Pages that went to the host while the task had no share, since a core last ended one.
    passed: u32,
    /// When the link last began a page.
    shipped: Picos,
    /// The host that asks for its pages.
    asker: u32,
    /// When a core of that host is free, as its latest command told and the raw pages that went
    /// there since let expect.
    host_free_at: Picos,
    /// Raw pages that the link has sent there since that command.
    sent: u32,
}

/// The policy's memory.
#[derive(Clone, Debug)]
pub struct Late {
    known: Known,
    observed: Vec<Observed>,
    /// Pages that each task is behind its share of the device.
    credit: Vec<f64>,
    /// Pages of each task that are on the device beyond its share.
    ahead: Vec<f64>,
    /// Part of the fluid share that pays although pages are not divisible.
    divisible: f64,
    link: f64,
    split: Split,
    /// Time per page under the split.
    pace: f64,
    /// Whether slots would be short if the cores were never idle.
    are_slots_scarce: bool,
    since: u32,
}

impl Late {
    /// A policy that has observed nothing.
    pub fn new(tasks: usize, known: Known) -> Late {
        let observed = vec![Observed { merged: 1.0, ..Observed::default() }; tasks];
        let link = known.link.0 as f64;
        let credit = vec![0.0; tasks];
        Late {
            known,
            observed,
            credit,
            ahead: vec![0.0; tasks],
            divisible: 1.0,
            link,
            split: Split::default(),
            pace: 0.0,
            are_slots_scarce: false,
            since: RENEW_EVERY,
        }
    }

    /// See [`super::State::of_hosts`].
    pub fn of_hosts(mut self, hosts: &[u32]) -> Late {
        assert_eq!(hosts.len(), self.observed.len(), "each task has a host");
        self.observed.iter_mut().zip(hosts).for_each(|(o, host)| o.asker = *host);
        self
    }

    /// See [`super::State::core_done`].
    pub fn core_done(&mut self, task: u16, time: Picos, fell_back: bool) {
        let o = &mut self.observed[task as usize];
        let was_unknown = o.core.is_none();
        o.core = Some(blend_many(o.core, time.0 as f64, 1 + std::mem::take(&mut o.passed)));
        o.host_then = o.host;
        o.merged += (f64::from(u8::from(!fell_back)) - o.merged) / 8.0;
        let was_trial = self.split.shares.get(task as usize).is_none_or(|s| *s <= NO_SHARE);
        self.since += if was_unknown || was_trial { RENEW_EVERY } else { 1 };
    }

    /// See [`super::State::host_done`].
    pub fn host_done(&mut self, task: u16, time: Picos) {
        let o = &mut self.observed[task as usize];
        o.host = Some(blend(o.host, time.0 as f64));
        self.since += 1;
    }

    /// See [`super::State::link_done`].
    pub fn link_done(&mut self, task: Option<u16>, time: Picos, now: Picos) {
        self.link = blend(Some(self.link), time.0 as f64);
        let Some(task) = task else { return };
        let o = self.observed[task as usize];
        let sent = o.sent + 1;
        // The pages since the host's latest command take its cores in turn.
        let is_round = sent.is_multiple_of(self.known.host_cores);
        let each = if is_round { o.host.unwrap_or(0.0) as u64 } else { 0 };
        let at = if is_round { o.host_free_at.max(now) } else { o.host_free_at };
        self.tell(task, Picos(at.0.saturating_add(each)), sent);
    }

    /// See [`super::State::host_free`].
    pub fn host_free(&mut self, task: u16, at: Picos) {
        self.tell(task, at, 0);
    }

    /// Notes for all tasks of one's host when a core of it is free, `sent` pages after its command.
    fn tell(&mut self, task: u16, at: Picos, sent: u32) {
        let asker = self.observed[task as usize].asker;
        for o in self.observed.iter_mut().filter(|o| o.asker == asker) {
            (o.host_free_at, o.sent) = (at, sent);
        }
    }

    /// Core time that one merged page of a task takes.
    fn core_of(&self, task: usize) -> Option<f64> {
        let o = &self.observed[task];
        o.core.map(|c| c / o.merged.max(0.01))
    }

    fn renew(&mut self, view: &View) {
        if self.since < RENEW_EVERY && !self.split.shares.is_empty() {
            return;
        }
        self.since = 0;
        let load = |t: usize| {
            let v = &view.tasks[t];
            Load {
                pages: v.left(),
                core: self.core_of(t).unwrap_or(self.link),
                link: self.link * if self.is_dear_to_host(t) { NEVER_SHIPPED } else { 1.0 },
                host: self.observed[t].host.unwrap_or(0.0),
            }
        };
        let loads: Vec<Load> = (0..view.tasks.len()).map(load).collect();
        let pages: f64 = loads.iter().map(|l| l.pages).sum();
        let fluid = Fluid {
            internal: self.known.bus.0 as f64,
            fetch: self.known.fetch.0 as f64,
            cores: f64::from(self.known.cores),
            host_cores: f64::from(self.known.host_cores),
            depth: f64::from(view.depth.max(1)),
            slot_weight: 0.0,
        };
        self.split = fluid.lean(&loads);
        self.pace = self.split.time / pages.max(1.0);
        self.are_slots_scarce = are_slots_scarce(&fluid, &loads, &self.split.shares);
    }

    /// The task whose page a free core takes.
    pub fn for_core(&mut self, view: &View) -> Option<u16> {
        let waiting = (0..view.tasks.len()).filter(|&t| view.tasks[t].held > 0);
        let tasks: Vec<usize> = waiting.collect();
        if tasks.is_empty() {
            return None;
        }
        self.renew(view);
        let is_tried = |t: usize| view.cores.iter().flatten().any(|c| c.0 == Some(t as u16));
        let unknown = tasks.iter().copied().find(|&t| self.core_of(t).is_none() && !is_tried(t));
        let trial = || tasks.iter().copied().find(|&t| !is_tried(t) && self.is_due(view, t));
        if let Some(task) = unknown.or_else(trial) {
            self.commit(view, task, 1.0);
            return Some(task as u16);
        }
        let given = |t: &usize| self.split.shares[*t] > NO_SHARE && !self.has_its_share(*t);
        let known = tasks.into_iter().filter_map(|t| Some((self.core_of(t)?, t)));
        let cheapest = known.filter(|(_, t)| given(t)).min_by(|a, b| a.0.total_cmp(&b.0));
        let (core, task) = cheapest?;
        if !self.is_dear_to_host(task) && !self.ends_in_time(view, core) {
            return None;
        }
        if self.blocks(view, task, core)
            && self.credit[task] + self.divisible * self.split.shares[task] < 1.0
        {
            return None;
        }
        debug_assert!(view.tasks[task].held > 0, "a page waits");
        self.commit(view, task, 1.0);
        Some(task as u16)
    }

    /// Whether one page more on the device would exceed a task's share where slots are scarce.
    fn has_its_share(&self, task: usize) -> bool {
        self.are_slots_scarce
            && !mutant!("push_idle_cores_take_slots")
            && self.ahead[task] > self.split.shares[task]
    }

    /// Whether a task without a share is to be tried on a core again.
    fn is_due(&self, view: &View, task: usize) -> bool {
        let o = &self.observed[task];
        let Some(core) = self.core_of(task).filter(|_| self.split.shares[task] <= NO_SHARE) else {
            return false;
        };
        let is_suspect = match (o.host_then, o.host) {
            (Some(then), Some(now)) => then.max(now) > SUSPECT_CHANGE * then.min(now),
            (None, now) => now.is_some(),
            (Some(_), None) => false,
        };
        let span = if is_suspect { SUSPECT_SPAN } else { TRIAL_SPAN };
        let since = view.now.0.saturating_sub(o.begun.0) as f64;
        since * f64::from(self.known.cores) >= span * core
            && self.ends_in_time(view, core)
            && !mutant!("push_never_tried_again")
    }

    /// Whether a page begun now on a core ends before the rest is done without it.
    fn ends_in_time(&self, view: &View, core: f64) -> bool {
        let left: f64 = view.tasks.iter().map(TaskView::left).sum();
        // The link does all, but for what the other cores do meanwhile.
        let link_from = view.link_free_at.0.saturating_sub(view.now.0) as f64;
        let by_link = link_from + left * self.link;
        let others = (view.cores.len() - 1) as f64;
        let rate = 1.0 / self.link + others / core;
        let together = (left / rate).max(self.link);
        // A link with plain reads before it takes no part in the rest of the scan.
        let is_backlogged = link_from > 2.0 * self.link;
        core <= if is_backlogged { by_link } else { by_link.min(together) }
    }

    /// Whether a page of `task` would keep this core from more cheaper pages than can wait.
    fn blocks(&mut self, view: &View, task: usize, core: f64) -> bool {
        let is_cheaper = |t: &usize| {
            *t != task
                && self.split.shares[*t] > 0.999
                && self.core_of(*t).is_some_and(|c| c < core)
        };
        let all: f64 = view.tasks.iter().map(TaskView::later).sum();
        let cheaper: Vec<usize> = (0..view.tasks.len()).filter(is_cheaper).collect();
        let coming = |t: &usize| view.tasks[*t].later();
        let cheap: f64 = cheaper.iter().map(coming).sum();
        if cheap == 0.0 {
            return false;
        }
        let others = view.cores.iter().map(|c| self.rest(view, *c));
        let soonest = others.fold((0, core), |(free, least), rest| match rest {
            None => (free + 1, least),
            Some(rest) => (free, least.min(rest)),
        });
        if soonest.0 > 1 {
            return false;
        }
        let arrive = (soonest.1 / self.pace).min(all) * cheap / all;
        let pipeline = self.known.fetch.0 as f64 / self.pace;
        // Each page that must wait for the run costs a little of what the share gains.
        self.divisible = (1.0 - arrive / 16.0).max(DIVISIBLE_LEAST);
        let room = f64::from(view.depth) - pipeline - view.cores.len() as f64 - 2.0;
        arrive > room.max(0.0) + 1.0
    }

    /// The task whose page the free link takes.
    pub fn for_link(&mut self, view: &View) -> Option<u16> {
        let held: u32 = view.tasks.iter().map(|t| t.held).sum();
        let is_waiting = |t: &usize| view.tasks[*t].held > 0 && !self.is_host_behind(view, *t);
        let waiting: Vec<usize> = (0..view.tasks.len()).filter(is_waiting).collect();
        if waiting.is_empty() {
            return None;
        }
        self.renew(view);
        let (dear, wanted): (Vec<usize>, Vec<usize>) =
            waiting.into_iter().partition(|&t| self.is_dear_to_host(t));
        if let Some(&task) = dear.iter().find(|&&t| self.is_link_due(view, t)) {
            self.commit(view, task, 0.0);
            return Some(task as u16);
        }
        let dearness = |t: usize| self.core_of(t).unwrap_or(self.link);
        let wanted = wanted.into_iter().map(|t| (dearness(t), t));
        let (_, task) = wanted.max_by(|a, b| a.0.total_cmp(&b.0))?;
        let is_kept = self.split.shares[task] > 0.999;
        let is_shipped = self.is_starved(view) && self.is_late_on_cores(view);
        if is_kept && !is_shipped && !self.is_last(view, held) {
            return None;
        }
        debug_assert!(view.tasks[task].held > 0, "a page waits");
        self.commit(view, task, 0.0);
        Some(task as u16)
    }

    /// Whether a raw page takes more of the host's processors together than [`DEAR_LEAST`] of what
    /// it takes of the cores together, and these alone reach [`KEPT_LEAST`] of what all reach
    /// together.
    fn is_dear_to_host(&self, task: usize) -> bool {
        let costs = self.observed[task].host.zip(self.core_of(task));
        let Some((host, core)) = costs.filter(|_| !mutant!("push_host_time_is_free")) else {
            return false;
        };
        let own = core / f64::from(self.known.cores);
        let host_cores = f64::from(self.known.host_cores);
        let theirs = host / if mutant!("push_host_of_one_core") { 1.0 } else { host_cores };
        let by_host = (1.0 / self.link).min(host_cores / host);
        let internal = 1.0 / self.known.bus.0 as f64;
        let all = (1.0 / own + by_host).min(internal);
        theirs > DEAR_LEAST * own && (1.0 / own).min(internal) >= KEPT_LEAST * all
    }

    /// Whether the link is to take a page that is dear to the host, to learn what it takes now.
    fn is_link_due(&self, view: &View, task: usize) -> bool {
        let since = view.now.0.saturating_sub(self.observed[task].shipped.0) as f64;
        since > TRIAL_SPAN * self.link
    }

    /// Notes where a page goes: how far its task is behind its share of the device, in pages.
    fn commit(&mut self, view: &View, task: usize, device: f64) {
        let o = &mut self.observed[task];
        if device > 0.0 {
            o.begun = view.now;
        } else {
            o.shipped = view.now;
            o.passed += u32::from(self.split.shares[task] <= NO_SHARE);
        }
        let ahead = &mut self.ahead[task];
        *ahead = (*ahead + device - self.split.shares[task]).clamp(-2.0, 2.0);
        let credit = &mut self.credit[task];
        *credit = (*credit + self.divisible * self.split.shares[task] - device).clamp(-1.0, 2.0);
    }

    /// Whether waiting pages keep the flash from being asked for as many as the pace needs.
    fn is_starved(&self, view: &View) -> bool {
        let coming: f64 = view.tasks.iter().map(|t| f64::from(t.coming)).sum();
        view.tasks.iter().any(|t| t.unasked > 0) && coming * self.pace < self.known.fetch.0 as f64
    }

    /// Whether the link ends a page before the cores are through with what waits.
    fn is_late_on_cores(&self, view: &View) -> bool {
        let cost = |t: usize| self.core_of(t).unwrap_or(self.link);
        let waiting = view.tasks.iter().enumerate().map(|(t, v)| f64::from(v.held) * cost(t));
        let running = view.cores.iter().filter_map(|c| self.rest(view, *c));
        let work: f64 = waiting.chain(running).sum();
        work / f64::from(self.known.cores) > self.link
    }

    /// What is left of a core's page function; none on a free core.
    fn rest(&self, view: &View, core: Option<(Option<u16>, Picos)>) -> Option<f64> {
        let (task, since) = core?;
        let cost = task.and_then(|t| self.core_of(t as usize)).unwrap_or(self.link);
        Some((cost - view.now.0.saturating_sub(since.0) as f64).max(0.0))
    }

    /// Whether nothing comes any more and the link ends a page before the cores get to it.
    fn is_last(&self, view: &View, held: u32) -> bool {
        if view.tasks.iter().any(|t| t.later() > 0.0) {
            return false;
        }
        let core = (0..view.tasks.len()).filter(|&t| view.tasks[t].held > 0);
        let work: f64 = core
            .map(|t| f64::from(view.tasks[t].held) * self.core_of(t).unwrap_or(self.link))
            .sum();
        let _ = held;
        work / f64::from(self.known.cores) > self.link
    }

    /// Whether a task's host would begin on a page only after the link could have sent it later.
    ///
    /// All cores of the host may have begun at once, and nothing tells the link when the first of
    /// them is nearly free. So one page may wait there for as long as a page takes.
    fn is_host_behind(&self, view: &View, task: usize) -> bool {
        let o = &self.observed[task];
        let free_in = o.host_free_at.0.saturating_sub(view.now.0) as f64;
        free_in > 2.0 * self.link + o.host.unwrap_or(0.0)
    }
}

/// Whether slots would be short if cores that the split leaves idle took pages too.
fn are_slots_scarce(fluid: &Fluid, loads: &[Load], shares: &[f64]) -> bool {
    let time = fluid.time(loads, shares);
    let (mut slots, mut idle, mut longer) = (0.0, time * fluid.cores, 0.0f64);
    for (l, &x) in loads.iter().zip(shares) {
        slots += l.pages * (fluid.fetch + x * l.core + (1.0 - x) * (l.link + l.host));
        idle -= l.pages * x * l.core;
        if x > NO_SHARE && x < 1.0 {
            longer = longer.max(1.0 - (l.link + l.host) / l.core);
        }
    }
    slots += idle.max(0.0) * longer;
    slots / fluid.depth > SLOTS_SCARCE * time
}

fn blend(old: Option<f64>, new: f64) -> f64 {
    blend_many(old, new, 1)
}

/// As `pages` observations of `new`.
fn blend_many(old: Option<f64>, new: f64, pages: u32) -> f64 {
    let kept = 0.875f64.powi(pages.min(64) as i32);
    old.map_or(new, |old| new + (old - new) * kept)
}
