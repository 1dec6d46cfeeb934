//! A device that vanishes during a scan and comes back without its memory.
//!
//! The host opens a new connection, initialises the tasks again and asks for every page that it
//! has neither got raw nor been given the result of. After [`super::LOSSES_MAX`] losses it computes
//! on everything that is left.

use std::collections::VecDeque;

use super::{Event, RECONNECT, Sim};
use crate::device::Disposition;
use crate::policy::TaskView;

impl Sim<'_> {
    /// Everything in device memory is lost: pages under way, and results of pages that no FINAL has
    /// fetched. Raw pages that have arrived stay with the host.
    pub(super) fn lose_device(&mut self) {
        self.connection += 1;
        self.is_away = true;
        self.link = None;
        self.link_debt = 0;
        self.link_idle_since = self.now;
        self.link_queue.clear();
        self.core_queue.clear();
        self.registered = 0;
        self.view.is_link_busy = false;
        self.held.iter_mut().for_each(VecDeque::clear);
        self.cores.iter_mut().for_each(|core| core.running = None);
        self.view.cores.fill(None);
        self.outcome.pages.retain(|page| page.disposition != Disposition::Processed);
        self.queue.schedule_in(RECONNECT, Event::Reconnected);
    }

    /// The host asks again for what it has neither got nor been told the result of.
    pub(super) fn reconnected(&mut self) {
        self.conditions.faults.restore_power();
        self.is_away = false;
        self.view.tasks.fill(TaskView::default());
        let mut is_safe = vec![false; self.pages.len()];
        let counted = self.outcome.pages.iter();
        counted.for_each(|d| is_safe[d.id as usize] = true);
        for (id, page) in self.pages.iter_mut().enumerate() {
            page.is_done = is_safe[id];
            is_safe[id] |= page.disposition.is_some();
        }
        for stream in 0..self.fronts.len() {
            let front = &self.fronts[stream];
            let batch: Vec<u32> = front.batch.iter().map(|parcel| parcel.id).collect();
            let asked = front.base..front.base + front.next as u32;
            let lost = |id: &u32| !is_safe[*id as usize] && !batch.contains(id);
            let redo: VecDeque<u32> = asked.clone().filter(lost).collect();
            let computing = |id: &u32| is_safe[*id as usize] && !self.pages[*id as usize].is_done;
            let at_host = asked.filter(computing).count() + batch.len();
            if !self.stream(stream).is_plain {
                for &id in &redo {
                    self.view.tasks[self.pages[id as usize].task as usize].unasked += 1;
                }
            }
            self.fronts[stream].outstanding = at_host as u32;
            self.fronts[stream].redo = redo;
            self.announce(stream);
            self.issue(stream);
        }
    }
}
