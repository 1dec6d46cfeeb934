//! The one NAND timing model: channels, chips, page reads, programs and erases in virtual time.
//!
//! A chip (a plane or die that works by itself) holds one command at a time, from its start until
//! its page register is free; a channel moves one page at a time between chips and controller.
//!
//! - read: cell array to register (`read`), then register over the channel;
//! - program: data over the channel into the register, then register to cell array (`program`);
//! - erase: the chip alone (`erase`).
//!
//! Invariants
//! - No chip and no channel overlaps itself; commands of one chip and one rank begin in order of
//!   arrival. Checked by `no_chip_overlaps_itself_and_every_command_finishes_once`,
//!   `chips_of_a_channel_read_together_and_share_the_wire`.
//! - A waiting firmware command begins before every waiting user command of its chip; a running
//!   command is never interrupted. Checked by `firmware_goes_ahead_of_waiting_reads`.
//! - Integer picoseconds, ties by order of submission: bit-equal on replay. Checked by
//!   `no_chip_overlaps_itself_and_every_command_finishes_once`.
//!
//! What is left out: suspend and resume, cache registers (a chip does not read while its register
//! is being emptied), retries of weak pages, controller time. Profiles fold those into
//! `read.latency`.
//!
//! Two faces of one model: [`Nand`] is a party of a simulation and tells when commands have
//! finished; [`Chips`] answers each end at once, for a caller with one chip a channel that submits
//! in order of time. A property test holds them equal.
//!
//! Callers: the flash model in virtual time ([`crate::flash::timed`]), zoned devices in software
//! ([`crate::zoned`]) and computing near storage (crate `push`).

use std::collections::VecDeque;

use littoral_base::sim::{Queue, Resource};
use littoral_base::units::Picos;

/// What a chip is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read a page and move this many bytes of it to the controller.
    Read {
        /// Bytes moved over the channel.
        bytes: u32,
    },
    /// Move a page from the controller and write it.
    Program,
    /// Erase a block.
    Erase,
}

/// A chip, by channel and place on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Chip {
    /// The channel.
    pub channel: u32,
    /// The chip on the channel.
    pub chip: u32,
}

/// A submitted command's number, in order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommandId(pub u64);

/// Whose command it is: the firmware's own commands overtake waiting ones of users on their chip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rank {
    /// On behalf of a host.
    #[default]
    User,
    /// Of the device's firmware, such as garbage collection.
    Firmware,
}

/// A finished command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Which.
    pub id: CommandId,
    /// What the caller passed with it; zero when nothing.
    pub tag: u64,
    /// What it was.
    pub command: Command,
    /// Where it ran.
    pub chip: Chip,
    /// When it was submitted for.
    pub submitted: Picos,
    /// When the chip began it.
    pub begin: Picos,
    /// When the chip was free again and, for a read, the data were at the controller.
    pub end: Picos,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    id: CommandId,
    tag: u64,
    rank: Rank,
    command: Command,
    chip: Chip,
    submitted: Picos,
    begin: Picos,
}

enum Event {
    Arrive(Job),
    CellDone(Job),
    TransferDone(Job),
}

#[derive(Default)]
struct ChipState {
    is_busy: bool,
    waiting: VecDeque<Job>,
    waiting_firmware: VecDeque<Job>,
}

/// The figures of the flash behind a device: the `nand` section of a flash profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Channels between controller and chips.
    pub channels: u32,
    /// Units of a channel that work at the same time (dies times planes).
    pub chips_per_channel: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages erased together.
    pub pages_per_block: u32,
    /// Cell array to page register.
    pub read: Picos,
    /// Page register to cell array.
    pub program: Picos,
    /// Erasing a block.
    pub erase: Picos,
    /// Bytes per second over one channel.
    pub channel_bytes_per_s: u64,
}

/// A package of NAND flash; see the module's page.
pub struct Nand {
    parameters: Parameters,
    events: Queue<Event>,
    channels: Resource,
    chips: Vec<ChipState>,
    cell_busy: Picos,
    submitted: u64,
}

impl Nand {
    /// Idle flash of these parameters.
    pub fn new(parameters: Parameters) -> Nand {
        let chips = parameters.channels as usize * parameters.chips_per_channel as usize;
        Nand {
            parameters,
            events: Queue::new(),
            channels: Resource::new(parameters.channels as usize),
            chips: (0..chips).map(|_| ChipState::default()).collect(),
            cell_busy: Picos::ZERO,
            submitted: 0,
        }
    }

    /// The parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The time of the last event.
    pub fn now(&self) -> Picos {
        self.events.now()
    }

    /// Where a page lies when pages are striped over channels first, then over chips.
    pub fn place(&self, page: u64) -> Chip {
        let (channels, chips) = (self.parameters.channels, self.parameters.chips_per_channel);
        let channel = (page % u64::from(channels)) as u32;
        let chip = (page / u64::from(channels) % u64::from(chips)) as u32;
        Chip { channel, chip }
    }

    /// Submits a command at time `at`; a time already past means now.
    ///
    /// # Panics
    /// When the chip does not exist.
    pub fn submit(&mut self, at: Picos, command: Command, chip: Chip) -> CommandId {
        self.submit_tagged(at, command, chip, Rank::User, 0)
    }

    /// Submits a command of `rank` that [`Finished`] returns with `tag`.
    ///
    /// # Panics
    /// When the chip does not exist.
    pub fn submit_tagged(
        &mut self,
        at: Picos,
        command: Command,
        chip: Chip,
        rank: Rank,
        tag: u64,
    ) -> CommandId {
        assert!(self.index(chip) < self.chips.len(), "{chip:?} does not exist");
        let id = CommandId(self.submitted);
        self.submitted += 1;
        let at = at.max(self.events.now());
        let job = Job { id, tag, rank, command, chip, submitted: at, begin: at };
        self.events.schedule(at, Event::Arrive(job));
        id
    }

    /// Runs until the next command finishes.
    pub fn next_finished(&mut self) -> Option<Finished> {
        self.finished_until(Picos::MAX)
    }

    /// Runs until the next command finishes, but not past `limit`: a caller with events of its own
    /// passes the time of its next one, so that neither runs ahead of the other.
    pub fn finished_until(&mut self, limit: Picos) -> Option<Finished> {
        while self.events.peek_time().is_some_and(|t| t <= limit) {
            let (now, event) = self.events.pop().expect("invariant: an event was seen");
            match event {
                Event::Arrive(job) => self.arrive(job, now),
                Event::CellDone(job) => match job.command {
                    Command::Read { bytes } => self.transfer(job, bytes, now),
                    Command::Program | Command::Erase => return Some(self.finish(job, now)),
                },
                Event::TransferDone(job) => match job.command {
                    Command::Read { .. } => return Some(self.finish(job, now)),
                    Command::Program => self.cells(job, self.parameters.program, now),
                    Command::Erase => unreachable!("invariant: an erase moves no data"),
                },
            }
        }
        None
    }

    /// The time of the next event inside, for a caller that has events of its own.
    pub fn peek_time(&self) -> Option<Picos> {
        self.events.peek_time()
    }

    /// Time all chips together have spent in their cell arrays.
    pub fn cell_busy(&self) -> Picos {
        self.cell_busy
    }

    /// Time all channels together have spent moving data.
    pub fn channel_busy(&self) -> Picos {
        self.channels.busy()
    }

    fn index(&self, chip: Chip) -> usize {
        let inside = chip.channel < self.parameters.channels
            && chip.chip < self.parameters.chips_per_channel;
        let index = u64::from(chip.channel) * u64::from(self.parameters.chips_per_channel)
            + u64::from(chip.chip);
        if inside { index as usize } else { usize::MAX }
    }

    fn arrive(&mut self, job: Job, now: Picos) {
        let index = self.index(job.chip);
        let state = &mut self.chips[index];
        if state.is_busy && job.rank == Rank::Firmware {
            state.waiting_firmware.push_back(job);
        } else if state.is_busy {
            state.waiting.push_back(job);
        } else {
            self.begin(job, now);
        }
    }

    fn begin(&mut self, mut job: Job, now: Picos) {
        let index = self.index(job.chip);
        debug_assert!(!self.chips[index].is_busy, "a chip overlaps itself");
        self.chips[index].is_busy = true;
        job.begin = now;
        match job.command {
            Command::Read { .. } => self.cells(job, self.parameters.read, now),
            Command::Erase => self.cells(job, self.parameters.erase, now),
            Command::Program => self.transfer(job, self.parameters.page_bytes, now),
        }
    }

    fn cells(&mut self, job: Job, length: Picos, now: Picos) {
        self.cell_busy += length;
        self.events.schedule(now + length, Event::CellDone(job));
    }

    fn transfer(&mut self, job: Job, bytes: u32, now: Picos) {
        let length = duration(u64::from(bytes), self.parameters.channel_bytes_per_s);
        let service = self.channels.acquire_unit(job.chip.channel as usize, now, length);
        self.events.schedule(service.end, Event::TransferDone(job));
    }

    fn finish(&mut self, job: Job, now: Picos) -> Finished {
        let index = self.index(job.chip);
        self.chips[index].is_busy = false;
        let state = &mut self.chips[index];
        let next = state.waiting_firmware.pop_front().or_else(|| state.waiting.pop_front());
        if let Some(next) = next {
            self.begin(next, now);
        }
        let Job { id, tag, command, chip, submitted, begin, .. } = job;
        Finished { id, tag, command, chip, submitted, begin, end: now }
    }
}

/// Chips with a channel of their own each, whose commands' ends are known at submission.
///
/// A command holds its chip for a length that the caller gives, transfer included: chips of
/// different wear differ there. Commands of a chip run in order of submission.
#[derive(Clone, Debug)]
pub struct Chips {
    chips: Resource,
}

impl Chips {
    /// `count` idle chips.
    pub fn new(count: usize) -> Chips {
        Chips { chips: Resource::new(count) }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.chips.width()
    }

    /// Submits a command at `at` that holds `chip` for `length`; answers its end. Times of
    /// submission must not decrease.
    ///
    /// # Panics
    /// When the chip does not exist.
    pub fn submit(&mut self, at: Picos, chip: usize, length: Picos) -> Picos {
        self.chips.acquire_unit(chip, at, length).end
    }

    /// When everything submitted so far has ended.
    pub fn idle_at(&self) -> Picos {
        let ends = (0..self.chips.width()).map(|chip| self.chips.free_at(chip));
        ends.max().unwrap_or(Picos::ZERO)
    }
}

/// How long `count` things take at `per_s` a second, rounded up to a picosecond.
pub fn duration(count: u64, per_s: u64) -> Picos {
    let picos = (u128::from(count) * 1_000_000_000_000).div_ceil(u128::from(per_s));
    Picos(u64::try_from(picos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    fn parameters(channels: u32, chips_per_channel: u32) -> Parameters {
        Parameters {
            channels,
            chips_per_channel,
            page_bytes: 4096,
            pages_per_block: 64,
            read: Picos::from_micros(4),
            program: Picos::from_micros(75),
            erase: Picos::from_micros(3000),
            channel_bytes_per_s: 1_000_000_000,
        }
    }

    fn run(nand: &mut Nand) -> Vec<Finished> {
        std::iter::from_fn(|| nand.next_finished()).collect()
    }

    #[test]
    fn one_command_of_each_kind_takes_what_the_data_sheet_says() {
        let chip = Chip { channel: 0, chip: 0 };
        let times = [
            (Command::Read { bytes: 1000 }, Picos::from_micros(5)),
            (Command::Program, Picos(75_000_000 + 4_096_000)),
            (Command::Erase, Picos::from_micros(3000)),
        ];
        for (command, wanted) in times {
            let mut nand = Nand::new(parameters(1, 1));
            nand.submit(Picos::ZERO, command, chip);
            assert_eq!(run(&mut nand)[0].end, wanted, "{command:?}");
        }
    }

    #[test]
    fn chips_of_a_channel_read_together_and_share_the_wire() {
        let mut nand = Nand::new(parameters(1, 2));
        for chip in 0..2 {
            nand.submit(Picos::ZERO, Command::Read { bytes: 1000 }, Chip { channel: 0, chip });
        }
        let ends: Vec<_> = run(&mut nand).iter().map(|f| f.end).collect();
        assert_eq!(ends, [Picos::from_micros(5), Picos::from_micros(6)]);
    }

    #[test]
    fn firmware_goes_ahead_of_waiting_reads() {
        let mut nand = Nand::new(parameters(1, 1));
        let chip = Chip { channel: 0, chip: 0 };
        let read = Command::Read { bytes: 64 };
        for tag in 1..=3 {
            nand.submit_tagged(Picos::ZERO, read, chip, Rank::User, tag);
        }
        for tag in 11..=12 {
            nand.submit_tagged(Picos(1), Command::Erase, chip, Rank::Firmware, tag);
        }
        let tags: Vec<_> = run(&mut nand).iter().map(|f| f.tag).collect();
        assert_eq!(tags, [1, 11, 12, 2, 3]);
    }

    type Script = Vec<(u64, u8, u32, u32)>;

    fn play(channels: u32, chips: u32, script: &Script) -> Vec<Finished> {
        let mut nand = Nand::new(parameters(channels, chips));
        for &(at, kind, channel, chip) in script {
            let command = match kind % 3 {
                0 => Command::Read { bytes: 64 * (1 + u32::from(kind)) },
                1 => Command::Program,
                _ => Command::Erase,
            };
            let chip = Chip { channel: channel % channels, chip: chip % chips };
            nand.submit(Picos(at), command, chip);
        }
        run(&mut nand)
    }

    proptest! {
        #![proptest_config(littoral_testing::standard())]
        #[test]
        fn both_faces_answer_alike_where_a_chip_has_its_channel(
            channels in 1u32..5, mut script in proptest::collection::vec(
                (0u64..50_000_000, 0u8..30, 0u32..4, Just(0u32)), 1..80),
        ) {
            script.sort_by_key(|command| command.0);
            let mut chips = Chips::new(channels as usize);
            let mut all = play(channels, 1, &script);
            all.sort_by_key(|f| f.id.0);
            let p = parameters(channels, 1);
            for finished in all {
                let moved = |bytes| duration(u64::from(bytes), p.channel_bytes_per_s);
                let length = match finished.command {
                    Command::Read { bytes } => p.read + moved(bytes),
                    Command::Program => p.program + moved(p.page_bytes),
                    Command::Erase => p.erase,
                };
                let chip = finished.chip.channel as usize;
                prop_assert_eq!(chips.submit(finished.submitted, chip, length), finished.end);
            }
            prop_assert_eq!(chips.count(), channels as usize);
        }

        #[test]
        fn no_chip_overlaps_itself_and_every_command_finishes_once(
            channels in 1u32..4, chips in 1u32..4,
            script in proptest::collection::vec((0u64..50_000_000, 0u8..30, 0u32..4, 0u32..4), 1..80),
        ) {
            let done = play(channels, chips, &script);
            prop_assert_eq!(done.len(), script.len());
            let mut by_chip: BTreeMap<Chip, Vec<Finished>> = BTreeMap::new();
            for f in &done {
                prop_assert!(f.submitted <= f.begin && f.begin < f.end);
                by_chip.entry(f.chip).or_default().push(*f);
            }
            for mut commands in by_chip.into_values() {
                commands.sort_by_key(|f| f.begin);
                for pair in commands.windows(2) {
                    prop_assert!(pair[0].end <= pair[1].begin, "{:?}", pair);
                    prop_assert!(pair[0].submitted <= pair[1].submitted, "out of order: {:?}", pair);
                }
            }
            prop_assert_eq!(&done, &play(channels, chips, &script), "replay differs");
        }

        #[test]
        fn little_s_law_holds_in_a_closed_loop(channels in 1u32..4, chips in 1u32..6, outstanding in 1u64..40) {
            let mut nand = Nand::new(parameters(channels, chips));
            let reads = 2_000;
            for page in 0..outstanding {
                let chip = nand.place(littoral_base::rng::mix(page));
                nand.submit(Picos::ZERO, Command::Read { bytes: 256 }, chip);
            }
            let (mut residence, mut next, mut last) = (0u128, outstanding, Picos::ZERO);
            for _ in 0..reads {
                let f = nand.next_finished().unwrap();
                residence += u128::from(f.end.0 - f.submitted.0);
                last = f.end;
                let chip = nand.place(littoral_base::rng::mix(next));
                nand.submit(f.end, Command::Read { bytes: 256 }, chip);
                next += 1;
            }
            // L = lambda * W: requests in the system over time is the sum of residence over the
            // span. Those still under way at the end are left out, hence the tolerance.
            let in_system = residence as f64 / last.0 as f64;
            let slack = 0.05 * outstanding as f64 + 0.05;
            prop_assert!((in_system - outstanding as f64).abs() <= slack, "{} of {}", in_system, outstanding);
            let bound = u64::from(channels * chips).min(outstanding) * last.0 / 4_000_000 + 40;
            prop_assert!(reads <= bound, "faster than the chips can read");
        }
    }
}
