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
        self.queues.clear();
        self.sessions = super::sessions();
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
        for stream in 0..self.fronts.len() {
            let front = &mut self.fronts[stream];
            let (base, next) = (front.base, front.next);
            // Pages whose answer the host has not got, and pages that the device had counted.
            let lost = front.account.lost().into_iter().filter(|place| *place < next);
            let redo: VecDeque<u32> = lost.map(|place| base + place as u32).collect();
            redo.iter().for_each(|&id| self.pages[id as usize].is_done = false);
            let mut is_lost = vec![false; next];
            redo.iter().for_each(|&id| is_lost[(id - base) as usize] = true);
            let asked = &self.pages[base as usize..base as usize + next];
            let at_host =
                asked.iter().zip(&is_lost).filter(|(page, is_lost)| !page.is_done && !**is_lost);
            let at_host: Vec<u16> = at_host.map(|(page, _)| page.slot).collect();
            front.reset(&at_host);
            front.redo = redo;
            self.begin(stream);
            self.issue(stream);
        }
    }
}
