//! The hosts of a simulated device: their slots, the commands that they send, the completions that
//! they take.
//!
//! Lifecycle of a scan: INIT per task, which says how many pages come; READ_PROC per page, at most
//! a queue depth under way; FINAL per task. With batches each batch is such a scan of its own.
//!
//! Invariants
//! - A page is counted once, and FINAL counts as many merged pages as the host was told of. Checked
//!   by `a_page_is_accounted_once_under_every_policy`.

use std::collections::VecDeque;

use littoral_base::mutant;
use littoral_base::units::Picos;

use super::Sim;
use crate::command::{Account, Answer, Command, Completion, Opcode};
use crate::device::{Disposition, Done, HostMode, PageRef};

/// The request's number of INIT and FINAL.
const CONTROL: u16 = u16::MAX;

/// One host queue.
pub(super) struct Front {
    /// Its first page among those of all streams.
    pub(super) base: u32,
    /// Pages of its order that were asked for.
    pub(super) next: usize,
    window: u32,
    /// Slots in use.
    pub(super) outstanding: u32,
    /// Raw pages of a batch that wait for the rest of it.
    pub(super) batch: Vec<u32>,
    /// Pages to ask for again after the device was lost.
    pub(super) redo: VecDeque<u32>,
    pub(super) account: Account,
    /// Pages that FINAL has counted.
    pub(super) merged: u32,
    /// The page of each slot.
    slots: Vec<u32>,
    free: Vec<u16>,
    /// Tasks that INIT has begun.
    begun: Vec<u16>,
    /// Per task what its last raw page took of a host core, until a command has told it.
    untold: Vec<Picos>,
}

impl Front {
    pub(super) fn new(base: u32, window: u32, pages: usize, tasks: usize) -> Front {
        let window = window.min(u32::from(CONTROL));
        Front {
            base,
            next: 0,
            window,
            outstanding: 0,
            batch: Vec::new(),
            redo: VecDeque::new(),
            account: Account::new(pages),
            merged: 0,
            slots: vec![0; window as usize],
            free: (0..window as u16).rev().collect(),
            begun: Vec::new(),
            untold: vec![Picos::ZERO; tasks],
        }
    }

    /// The connection is new: the slots of `at_host` are in use and no others.
    pub(super) fn reset(&mut self, at_host: &[u16]) {
        self.free = (0..self.window as u16).rev().filter(|slot| !at_host.contains(slot)).collect();
        self.outstanding = at_host.len() as u32;
        self.begun.clear();
        self.merged = 0;
    }
}

impl Sim<'_> {
    /// INIT: tells the device what comes, the rest of the stream or the batch that begins.
    pub(super) fn begin(&mut self, stream: usize) {
        let s = self.stream(stream);
        if s.is_plain {
            return;
        }
        let front = &self.fronts[stream];
        let to = match self.machine.host_mode {
            HostMode::Overlapped => s.order.len(),
            HostMode::Batched => s.order.len().min(front.next + front.window as usize),
        };
        let rest = front.base + front.next as u32..front.base + to as u32;
        let mut announced = vec![0u32; self.workload.tasks.len()];
        for &id in &front.redo {
            number(&mut self.pages[id as usize], &mut announced);
        }
        for page in &mut self.pages[rest.start as usize..rest.end as usize] {
            number(page, &mut announced);
        }
        for (task, &pages) in announced.iter().enumerate().filter(|(_, pages)| **pages > 0) {
            self.fronts[stream].begun.push(task as u16);
            self.control(stream, Opcode::Init, task as u16, pages);
        }
    }

    fn control(&mut self, stream: usize, opcode: Opcode, task: u16, pages: u32) {
        let (session, page) = (stream as u32, u64::from(pages));
        let command = Command { id: CONTROL, session, task, page, ..Command::plain(opcode, 0) };
        self.queues.request(stream as u16, command.encode(), Vec::new());
    }

    /// FINAL of every task of a stream.
    fn end(&mut self, stream: usize) {
        for task in std::mem::take(&mut self.fronts[stream].begun) {
            self.control(stream, Opcode::Final, task, 0);
        }
    }

    /// GATHER: what the device has merged must be what the host was told of.
    pub(super) fn gather(&mut self) {
        (0..self.fronts.len()).for_each(|stream| self.end(stream));
        self.exchange();
        for front in &self.fronts {
            front.account.check(front.merged).expect("invariant: each page is counted once");
        }
    }

    /// Asks for pages while slots are free.
    pub(super) fn issue(&mut self, stream: usize) {
        let pages = self.stream(stream).order.len();
        while !self.is_away && self.fronts[stream].outstanding < self.fronts[stream].window {
            let front = &mut self.fronts[stream];
            let id = match front.redo.pop_front() {
                Some(id) => id,
                None if front.next == pages => return,
                None => {
                    front.next += 1;
                    front.base + front.next as u32 - 1
                }
            };
            self.ask(stream, id);
        }
    }

    fn ask(&mut self, stream: usize, id: u32) {
        let is_plain = self.stream(stream).is_plain;
        let opcode = if is_plain { Opcode::Read } else { Opcode::ReadProc };
        let backlog = self.host_free_in().0;
        let (front, page) = (&mut self.fronts[stream], &mut self.pages[id as usize]);
        let slot = front.free.pop().expect("invariant: a slot is free");
        front.outstanding += 1;
        front.slots[usize::from(slot)] = id;
        (page.issued, page.slot) = (self.now, slot);
        page.attempt = front.account.attempt((id - front.base) as usize);
        let host_page = std::mem::take(&mut front.untold[usize::from(page.task)]);
        let command = Command {
            id: slot,
            session: stream as u32,
            task: page.task,
            attempt: page.attempt,
            page: page.number.into(),
            bytes: self.machine.nand.page_bytes,
            host_page: host_page.0,
            backlog,
            ..Command::plain(opcode, id.into())
        };
        self.queues.request(stream as u16, command.encode(), Vec::new());
    }

    /// Time until a core of the host is free.
    fn host_free_in(&self) -> Picos {
        let free_at = (0..self.host.width()).map(|core| self.host.free_at(core)).min();
        let free_at = free_at.filter(|_| !mutant!("push_backlog_is_not_told"));
        Picos(free_at.unwrap_or(self.now).0.saturating_sub(self.now.0))
    }

    /// A completion has arrived.
    pub(super) fn hear(&mut self, stream: usize, completion: &Completion) {
        let front = &mut self.fronts[stream];
        if completion.id == CONTROL {
            front.merged += completion.merged;
            return;
        }
        let id = front.slots[usize::from(completion.id)];
        let place = (id - front.base) as usize;
        match front.account.answered(place, completion.attempt, completion.status) {
            Answer::OnDevice => self.complete(id, Disposition::Processed),
            Answer::Compute => self.got(stream, id),
            Answer::Ignore | Answer::Retry => {
                unreachable!("invariant: one attempt at a page is under way, and it is readable")
            }
        }
    }

    /// A page or its records are in their slot.
    fn got(&mut self, stream: usize, id: u32) {
        if self.stream(stream).is_plain {
            return self.complete(id, Disposition::Plain);
        }
        if self.machine.host_mode == HostMode::Overlapped {
            return self.compute(id);
        }
        self.fronts[stream].batch.push(id);
        self.compute_batch(stream);
    }

    /// Once every page of a batch is answered, the host computes on those it got.
    fn compute_batch(&mut self, stream: usize) {
        let front = &mut self.fronts[stream];
        if front.batch.len() < front.outstanding as usize {
            return;
        }
        for id in std::mem::take(&mut front.batch) {
            self.compute(id);
        }
    }

    fn compute(&mut self, id: u32) {
        let cost = self.cost(id);
        let disposition = self.pages[id as usize].disposition;
        let is_filtered = disposition == Some(Disposition::Filtered);
        let time = if is_filtered { cost.host_filtered } else { cost.host_raw };
        self.outcome.host_busy += time;
        let service = self.host.acquire(self.now, time);
        self.queue.schedule(service.end, super::Event::HostDone(id));
    }

    pub(super) fn host_done(&mut self, id: u32) {
        let page = &self.pages[id as usize];
        let disposition = page.disposition.expect("invariant: the host computed on an answer");
        if disposition != Disposition::Filtered {
            let front = &mut self.fronts[usize::from(page.stream)];
            front.untold[usize::from(page.task)] =
                self.workload.tasks[usize::from(page.task)].pages[page.page as usize].host_raw;
        }
        self.complete(id, disposition);
    }

    /// A page is counted and its slot free.
    fn complete(&mut self, id: u32, disposition: Disposition) {
        let page = &mut self.pages[id as usize];
        assert!(!page.is_done, "a page is counted twice");
        page.is_done = true;
        let (stream, slot) = (page.stream, page.slot);
        let at = PageRef { task: page.task, page: page.page };
        let (issued, ended) = (page.issued, self.now);
        self.outcome.pages.push(Done { id, stream, page: at, disposition, issued, ended });
        let stream = usize::from(stream);
        let front = &mut self.fronts[stream];
        front.free.push(slot);
        front.outstanding -= 1;
        let is_plain = self.stream(stream).is_plain;
        if self.machine.host_mode == HostMode::Overlapped || is_plain {
            self.issue(stream);
        } else if self.is_away {
            // The pages of the batch come again with the new connection.
        } else if self.fronts[stream].outstanding == 0 {
            self.end(stream);
            self.begin(stream);
            self.issue(stream);
        } else if disposition == Disposition::Processed {
            self.compute_batch(stream);
        }
    }
}

/// Gives a page its number among those of its task that INIT announces.
fn number(page: &mut super::Page, announced: &mut [u32]) {
    let count = &mut announced[usize::from(page.task)];
    page.number = *count;
    *count += 1;
}
