//! Who computes on a page: the paper's policies and late binding.
//!
//! - *Host*, *device*: every page on one side.
//! - *Static*: a share of each task's pages, in fortieths, spread evenly; a flagged page always
//!   runs on the device and waits for a core.
//! - *Hand-coded*: every page is filtered on the device, the host computes on what passes.
//! - *Dynamic* (the paper's): a page is committed as it arrives, to the device if the task queue
//!   has a slot free, to the host otherwise.
//! - *Late binding* ([`late`]): fetched pages wait uncommitted until a core or the link is free.
//!
//! Invariants
//! - Over any run of `n` pages of a task, a static share of `s` fortieths flags `floor` or `ceil`
//!   of `n * s / 40`. Checked by `a_static_share_is_spread_evenly`.

pub mod late;

use littoral_base::units::Picos;

use late::Late;

/// Steps of a static share.
pub const STEPS: u32 = 40;

/// A policy and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Every page to the host.
    Host,
    /// Every page on the device.
    Device,
    /// A share of each task's pages in fortieths on the device; the last holds for further tasks.
    Static(Vec<u32>),
    /// Every page filtered on the device.
    HandCoded,
    /// The paper's dynamic mode.
    Dynamic {
        /// Slots of the task queue; a running page holds its slot.
        queue: u32,
    },
    /// Late binding.
    Late,
}

/// Where a page goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// Raw to the host.
    Link,
    /// To a core, for the page function.
    Core,
    /// To a core, for the filter.
    Filter,
    /// Nowhere yet.
    Hold,
}

/// What a policy sees of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskView {
    /// Pages fetched and uncommitted.
    pub held: u32,
    /// Pages asked of the flash and not yet in DRAM.
    pub coming: u32,
    /// Pages that the host has announced and not yet asked for.
    pub unasked: u32,
}

impl TaskView {
    /// Pages that have not arrived. Sums of many tasks' pages exceed 32 bits.
    fn later(&self) -> f64 {
        f64::from(self.coming) + f64::from(self.unasked)
    }

    /// Pages that are left.
    fn left(&self) -> f64 {
        f64::from(self.held) + self.later()
    }
}

/// What a policy sees when a core or the link is free.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The time.
    pub now: Picos,
    /// Per task.
    pub tasks: Vec<TaskView>,
    /// Per core that runs a page function: its task and since when; no task where it has ended.
    pub cores: Vec<Option<(Option<u16>, Picos)>>,
    /// Whether the link moves a page.
    pub is_link_busy: bool,
    /// When the page on the link arrives.
    pub link_free_at: Picos,
    /// Host slots of all queues together.
    pub depth: u32,
}

/// The device as late binding knows it; costs of functions are observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Link time of a raw page.
    pub link: Picos,
    /// Time between two pages out of the flash at its full rate.
    pub bus: Picos,
    /// From a request to its page in DRAM, device idle.
    pub fetch: Picos,
    /// Cores.
    pub cores: u32,
    /// Cores of the host.
    pub host_cores: u32,
}

/// A policy at work.
pub struct State {
    policy: Policy,
    seen: Vec<u64>,
    late: Late,
}

impl State {
    /// A policy that has seen nothing.
    pub fn new(policy: &Policy, tasks: usize, known: Known) -> State {
        State { policy: policy.clone(), seen: vec![0; tasks], late: Late::new(tasks, known) }
    }

    /// The same where each task has a host: what one host tells holds for its tasks alone.
    #[must_use]
    pub fn of_hosts(mut self, hosts: &[u32]) -> State {
        self.late = self.late.of_hosts(hosts);
        self
    }

    /// Where a page goes that has arrived in DRAM, `registered` pages being in the task queue.
    pub fn arrived(&mut self, task: u16, registered: u32) -> Commit {
        match &self.policy {
            Policy::Host => Commit::Link,
            Policy::Device => Commit::Core,
            Policy::HandCoded => Commit::Filter,
            Policy::Static(shares) => {
                let index = self.seen[task as usize];
                self.seen[task as usize] += 1;
                let share = shares.get(task as usize).or(shares.last()).copied().unwrap_or(0);
                if is_flagged(index, share) { Commit::Core } else { Commit::Link }
            }
            Policy::Dynamic { queue }
                if registered < *queue || littoral_base::mutant!("push_queue_as_long_as_depth") =>
            {
                Commit::Core
            }
            Policy::Dynamic { .. } => Commit::Link,
            Policy::Late => Commit::Hold,
        }
    }

    /// Whether pages are held.
    pub fn holds(&self) -> bool {
        self.policy == Policy::Late
    }

    /// The task whose page a free core takes, if any.
    pub fn for_core(&mut self, view: &View) -> Option<u16> {
        self.late.for_core(view)
    }

    /// The task whose page the free link takes, if any.
    pub fn for_link(&mut self, view: &View) -> Option<u16> {
        self.late.for_link(view)
    }

    /// A core has spent `time` on a page of `task`; `fell_back` when the page went back raw.
    pub fn core_done(&mut self, task: u16, time: Picos, fell_back: bool) {
        self.late.core_done(task, time, fell_back);
    }

    /// A host core has spent `time` on a raw page of `task`.
    pub fn host_done(&mut self, task: u16, time: Picos) {
        self.late.host_done(task, time);
    }

    /// The link has spent `time` on a raw page of `task`, which is at the host `now`; no task where
    /// it has ended.
    pub fn link_done(&mut self, task: Option<u16>, time: Picos, now: Picos) {
        self.late.link_done(task, time, now);
    }

    /// A command for `task` has told when a core of its host is free.
    pub fn host_free(&mut self, task: u16, at: Picos) {
        self.late.host_free(task, at);
    }
}

/// Whether the page of that index, counted over its task, is flagged under a share in fortieths.
pub fn is_flagged(index: u64, share: u32) -> bool {
    let upto = |n: u64| n * u64::from(share) / u64::from(STEPS);
    upto(index + 1) > upto(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_many_long_scans_are_counted() {
        let long = TaskView { held: 1, coming: 1, unasked: u32::MAX };
        let ms = Picos::from_micros(1_000);
        let known = Known { link: ms, bus: Picos(1), fetch: Picos(1), cores: 2, host_cores: 1 };
        let mut state = State::new(&Policy::Late, 3, known);
        let view = View { tasks: vec![long; 3], cores: vec![None; 2], depth: 8, ..View::default() };
        // Each is tried once; pages of all of them are left, so that a core takes the next one too.
        for task in 0..3 {
            assert_eq!(state.for_core(&view), Some(task));
            state.core_done(task, ms, false);
        }
        assert!(state.for_core(&view).is_some());
        assert!(state.for_link(&view).is_none_or(|task| task < 3));
    }

    #[test]
    fn a_static_share_is_spread_evenly() {
        for share in 0..=STEPS {
            for n in [1u64, 7, 40, 399] {
                let flagged = (0..n).filter(|&i| is_flagged(i, share)).count() as u64;
                assert_eq!(flagged, n * u64::from(share) / u64::from(STEPS));
            }
        }
    }
}
