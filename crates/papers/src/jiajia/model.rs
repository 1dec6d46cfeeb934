//! The real protocol core driven by a program's accesses in virtual time.
//!
//! A program is, for each rank, a sequence of computing, page accesses, locks and barriers. Every
//! access goes to a [`Rank`] of `littoral-dsm`; the messages it wants sent travel over the
//! [`Network`] that jobs of real processes in virtual time use too, with the constants of a
//! [`Timing`]. Nothing of the protocol is restated here: only time is added.
//!
//! Where time goes (the paper's parts): *busy* is computing; *data* is waiting for pages, *segv*
//! entering and leaving the fault handler; *syn* is waiting for locks and barriers and for diffs to
//! be acknowledged; *server* is what serving others takes from a rank that could have computed.
//!
//! Invariants
//! - Equal programs give equal runs. Checked by `a_board_spares_the_manager`.
//! - A page's diff is as long as the step says: the first bytes of it are changed. Checked by
//!   `a_diff_is_as_long_as_its_step_says`.

use littoral_base::units::{NodeId, Picos};
use littoral_dsm::core::message::{LockId, Message, PageId};
use littoral_dsm::core::rank::{Envelope, Outcome, Rank, Shape};
use littoral_dsm::core::wire;
use littoral_dsm::virtual_time::network::{Load, Network, Parts, Traffic, Turn, Wait};
use littoral_fabric::timing::Timing;

/// Bytes of a page of the paper's system.
pub const PAGE_BYTES: usize = 4096;

/// One step of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Computing.
    Compute(Picos),
    /// Reading a page.
    Read(u32),
    /// Writing so many bytes of a page.
    Write(u32, u16),
    /// Entering a section.
    Lock(u32),
    /// Leaving it.
    Unlock(u32),
    /// A barrier.
    Barrier,
}

/// A program as its ranks' steps; each call gives the next stretch of a rank's, until none is left.
pub trait Workload {
    /// Pages, each rank keeping an equal block of them.
    fn pages(&self, ranks: u16) -> u32;
    /// The next steps of `rank` of `ranks`.
    fn stretch(&mut self, rank: u16, ranks: u16) -> Option<Vec<Step>>;
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// When the last rank was done.
    pub total: Picos,
    /// Where each rank's time went.
    pub parts: Vec<Parts>,
    /// What travelled.
    pub traffic: Traffic,
    /// Faults: misses and first writes.
    pub faults: u64,
}

/// Shares of the total in per cent, means over ranks; with what is left they are 100.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// Computing.
    pub busy: f64,
    /// Waiting for pages.
    pub data: f64,
    /// The fault handler.
    pub segv: f64,
    /// Waiting for locks, barriers, acknowledgements.
    pub syn: f64,
    /// Serving others.
    pub server: f64,
}

impl Shares {
    /// The shares of ranks' parts in a job of length `total`.
    pub fn of(parts: &[Parts], total: Picos) -> Shares {
        let whole = (total.0 as f64 * parts.len() as f64 / 100.0).max(f64::MIN_POSITIVE);
        let sum = |f: fn(&Parts) -> u64| parts.iter().map(f).sum::<u64>() as f64 / whole;
        Shares {
            busy: sum(|p| p.busy.0),
            data: sum(|p| p.data.0),
            segv: sum(|p| p.segv.0),
            syn: sum(|p| p.syn.0),
            server: sum(|p| p.server.0),
        }
    }
}

impl Ended {
    /// The shares of table 1: data with segv, syn, server, in per cent.
    pub fn shares(&self) -> [f64; 3] {
        let s = Shares::of(&self.parts, self.total);
        [s.data + s.segv, s.syn, s.server]
    }
}

/// A message and the length of its encoding, which is asked for more than once.
struct Parcel {
    message: Message,
    bytes: u64,
}

impl Load for Parcel {
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn is_boards(&self) -> bool {
        use Message::{Diffs, DiffsApplied, GetPage, Page};
        !matches!(self.message, GetPage { .. } | Page { .. } | Diffs { .. } | DiffsApplied)
    }
}

fn parcels(envelopes: Vec<Envelope>) -> Vec<(NodeId, Parcel)> {
    let parcel = |(to, message): Envelope| {
        let bytes = match &message {
            // What its encoding has, without copying the page.
            Message::Page { bytes, .. } => 9 + bytes.len() as u64,
            other => wire::encode(other).len() as u64,
        };
        (to, Parcel { message, bytes })
    };
    envelopes.into_iter().map(parcel).collect()
}

struct Place {
    rank: Rank,
    steps: std::vec::IntoIter<Step>,
    /// A write whose page is being fetched.
    pending: Option<(u32, u16)>,
    writes: u64,
}

struct Job<'w> {
    workload: &'w mut dyn Workload,
    network: Network<Parcel>,
    places: Vec<Place>,
}

/// Runs `workload` on `ranks` ranks.
///
/// # Errors
/// What the protocol refused; a workload that keeps its rules is refused nothing.
pub fn run(workload: &mut dyn Workload, ranks: u16, timing: Timing) -> Result<Ended, String> {
    let pages = workload.pages(ranks).next_multiple_of(u32::from(ranks));
    let shape = Shape {
        ranks,
        pages: 0,
        page_bytes: PAGE_BYTES,
        locks: 64,
        log_capacity: 4096,
        predict: false,
    };
    let place = |n| {
        let mut rank = Rank::new(NodeId(n), shape.clone());
        rank.extend(pages, (pages / u32::from(ranks)).max(1), NodeId(0));
        Place { rank, steps: Vec::new().into_iter(), pending: None, writes: 0 }
    };
    let places = (0..ranks).map(place).collect();
    let mut job = Job { workload, network: Network::new(ranks, timing), places };
    job.drive()?;
    Ok(job.close())
}

fn words(e: littoral_dsm::Error) -> String {
    e.to_string()
}

impl Job<'_> {
    fn drive(&mut self) -> Result<(), String> {
        while let Some(turn) = self.network.next_turn() {
            match turn {
                Turn::Go(n) => self.go(n)?,
                Turn::Take(n, from, parcel) => self.take_in(n, from, parcel.message)?,
            }
        }
        match self.network.waiting().next() {
            Some(n) => Err(format!("rank {n} waits for ever")),
            None => Ok(()),
        }
    }

    fn close(self) -> Ended {
        let faults = |p: &Place| p.rank.counts().misses + p.rank.counts().upgrades;
        Ended {
            total: self.network.total(),
            parts: self.network.parts(),
            traffic: self.network.traffic(),
            faults: self.places.iter().map(faults).sum(),
        }
    }

    /// Takes the next steps of a rank until one takes time.
    fn go(&mut self, n: usize) -> Result<(), String> {
        loop {
            let Some(step) = self.next_step(n) else {
                self.network.finish(n);
                return Ok(());
            };
            if self.take(n, step)? {
                return Ok(());
            }
        }
    }

    fn next_step(&mut self, n: usize) -> Option<Step> {
        let ranks = u16::try_from(self.places.len()).expect("invariant: ranks are a u16");
        let rank = u16::try_from(n).expect("invariant: ranks are a u16");
        loop {
            if let Some(step) = self.places[n].steps.next() {
                return Some(step);
            }
            self.places[n].steps = self.workload.stretch(rank, ranks)?.into_iter();
        }
    }

    /// Carries out a step; whether the rank is under way with it.
    fn take(&mut self, n: usize, step: Step) -> Result<bool, String> {
        let rank = &mut self.places[n].rank;
        let outcome = match step {
            Step::Compute(length) => {
                self.network.compute(n, length);
                return Ok(true);
            }
            Step::Read(page) => return self.access(n, page, None),
            Step::Write(page, bytes) => return self.access(n, page, Some(bytes)),
            Step::Lock(lock) => rank.lock(LockId(lock)),
            Step::Unlock(lock) => rank.unlock(LockId(lock)),
            Step::Barrier => rank.barrier(),
        };
        let Outcome { send, done } = outcome.map_err(words)?;
        self.network.begin(n, Wait::Syn, false, parcels(send), done);
        Ok(true)
    }

    fn access(&mut self, n: usize, page: u32, write: Option<u16>) -> Result<bool, String> {
        let place = &mut self.places[n];
        let before = place.rank.counts();
        let outcome = match write {
            None => place.rank.read(PageId(page)),
            Some(_) => place.rank.write(PageId(page)),
        };
        let Outcome { send, done } = outcome.map_err(words)?;
        let after = place.rank.counts();
        if done {
            write.into_iter().for_each(|bytes| place.scribble(page, bytes));
        } else {
            place.pending = write.map(|bytes| (page, bytes));
        }
        let faulted = (before.misses, before.upgrades) != (after.misses, after.upgrades);
        if faulted {
            self.network.begin(n, Wait::Data, true, parcels(send), done);
        }
        Ok(faulted)
    }

    fn take_in(&mut self, n: usize, from: NodeId, message: Message) -> Result<(), String> {
        let place = &mut self.places[n];
        let Outcome { send, done } = place.rank.receive(from, message).map_err(words)?;
        if done && let Some((page, bytes)) = place.pending.take() {
            place.scribble(page, bytes);
        }
        self.network.served(n, parcels(send), done);
        Ok(())
    }
}

impl Place {
    /// Changes the first bytes of a writable page, so that its diff is as long as the program's.
    fn scribble(&mut self, page: u32, bytes: u16) {
        self.writes += 1;
        let value = self.writes.to_le_bytes();
        if let Some(page) = self.rank.writable(PageId(page)) {
            let changed = &mut page[..usize::from(bytes).min(PAGE_BYTES)];
            changed.iter_mut().enumerate().for_each(|(i, b)| *b = value[i % 2].wrapping_add(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAN: Timing = Timing {
        send: Picos(50_000_000),
        latency: Picos(50_000_000),
        byte: Picos(80_000),
        acknowledge: Picos(0),
        trap: Picos(300_000_000),
        fault: Picos(20_000_000),
        board: None,
        operation: Picos(1000),
    };

    struct Once(Vec<Option<Vec<Step>>>);

    impl Workload for Once {
        fn pages(&self, ranks: u16) -> u32 {
            u32::from(ranks)
        }
        fn stretch(&mut self, rank: u16, _: u16) -> Option<Vec<Step>> {
            self.0[usize::from(rank)].take()
        }
    }

    #[test]
    fn a_read_miss_takes_fault_request_service_and_page() {
        let steps = vec![Some(vec![Step::Read(1)]), Some(vec![])];
        let ended = run(&mut Once(steps), 2, LAN).unwrap();
        let parts = ended.parts[0];
        assert_eq!((parts.segv, parts.syn, parts.busy), (LAN.fault, Picos(0), Picos(0)));
        let request = 50_000_000 + (64 + 9) * 80_000 + 50_000_000 + 300_000_000;
        let page = 50_000_000 + (64 + 9 + 4096) * 80_000 + 50_000_000 + 300_000_000;
        assert_eq!(parts.data, Picos(request + page));
        assert_eq!((ended.traffic.messages, ended.faults), (2, 1));
    }

    #[test]
    fn a_diff_is_as_long_as_its_step_says() {
        let sent = |bytes| {
            let section =
                vec![Step::Lock(1), Step::Write(1, bytes), Step::Unlock(1), Step::Barrier];
            let steps = vec![Some(section), Some(vec![Step::Barrier])];
            run(&mut Once(steps), 2, LAN).unwrap().traffic.bytes
        };
        // Beside its bytes, each of the 12 lines more has 10 of its own.
        assert_eq!(sent(1000) - sent(200), 800 + 12 * 10);
    }

    #[test]
    fn serving_lengthens_the_computing_of_the_server_only() {
        let long = Picos(10_000_000_000);
        let steps = vec![Some(vec![Step::Read(1)]), Some(vec![Step::Compute(long)])];
        let ended = run(&mut Once(steps), 2, LAN).unwrap();
        assert_eq!(ended.parts[1].server, Picos(300_000_000 + 50_000_000));
        assert_eq!(ended.total, Picos(long.0 + 350_000_000));
    }

    #[test]
    fn a_board_spares_the_manager() {
        let section = vec![Step::Lock(1), Step::Write(0, 8), Step::Unlock(1), Step::Barrier];
        let both = || Once(vec![Some(section.clone()), Some(section.clone())]);
        let software = run(&mut both(), 2, LAN).unwrap();
        let board = Timing { board: Some(Picos(1_000_000)), ..LAN };
        let hardware = run(&mut both(), 2, board).unwrap();
        assert!(hardware.total < software.total);
        assert_eq!(hardware, run(&mut both(), 2, board).unwrap(), "equal runs");
    }
}
