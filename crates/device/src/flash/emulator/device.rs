//! The device's half of the emulator: polls the submission ring, delivers lines and answers, and
//! does on purpose everything a device must not do.
//!
//! Invariants
//! - Entries are fetched in order; every step fetches all that are there. Checked by
//!   `a_step_fetches_every_entry_in_order`.
//! - Whatever the verdict, the last write of a request's answer happens within [`answer_steps_max`]
//!   steps after its fetch. Completion rules without identity rest on that. Checked by
//!   `DeviceSide::step`.
//! - What happens is a function of the plan, the content and the order of requests: a stepped run
//!   repeats exactly. Checked by `a_stepped_run_repeats_exactly`.

use littoral_base::fault::{Op, Plan, Verdict};
use littoral_base::rng;
use littoral_base::sim::Queue;
use littoral_base::sync::Arc;
use littoral_base::sync::atomic::Ordering;
use littoral_base::units::Picos;

use super::content::Content;
use super::{Rule, Wire};
use crate::flash::protocol::{CompletionWord, LINE_BYTES, LINE_WORDS, Request};
use crate::read::Status;

const JITTER_STEPS: u64 = 4;
const GAP_STEPS: u64 = 3;
const ECHO_STEPS: u64 = 40;

/// Most steps from a fetch to the last write of its answer.
pub(super) fn answer_steps_max(latency: u64, delay_max: u64, lines: u64) -> u64 {
    latency + JITTER_STEPS + delay_max + lines * GAP_STEPS + ECHO_STEPS + 2
}

/// How a device behaves when nothing goes wrong, and how late it may be when it does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manners {
    pub(super) rule: Rule,
    pub(super) latency: u64,
    pub(super) delay_max: u64,
    pub(super) slots: u32,
}

/// An answer under way.
struct Answer {
    request: Request,
    /// Where the data are read from: the request's address, unless misdirected.
    from: u64,
    /// Whose buffer takes them: the request's slot, unless misdirected.
    into: u32,
    status: Status,
    /// The order of the lines, when it is not front to back; then one a step.
    order: Option<Vec<u32>>,
    delivered: u32,
    flip: Option<u64>,
    alias: Option<u64>,
    /// The step after which nothing of it is written any more.
    latest: u64,
}

/// The device's half.
pub(super) struct DeviceSide {
    wire: Arc<Wire>,
    content: std::sync::Arc<dyn Content>,
    plan: Plan,
    manners: Manners,
    position: u64,
    answers: Queue<Answer>,
    words: Vec<u64>,
    bytes: Vec<u8>,
}

impl DeviceSide {
    pub(super) fn new(
        wire: Arc<Wire>,
        content: std::sync::Arc<dyn Content>,
        plan: Plan,
        manners: Manners,
    ) -> Self {
        let (words, bytes) = (Vec::new(), Vec::new());
        let answers = Queue::new();
        DeviceSide { wire, content, plan, manners, position: 0, answers, words, bytes }
    }

    /// One step: fetch, deliver what is due, publish the step. True when there was anything to do.
    pub(super) fn step(&mut self) -> bool {
        let now = self.wire.steps.load(Ordering::Relaxed);
        let before = self.position;
        while let Some(request) = self.wire.ring.take(self.position) {
            self.position += 1;
            self.accept(request, now);
        }
        while self.answers.peek_time().is_some_and(|t| t.0 <= now) {
            let (_, answer) = self.answers.pop().expect("invariant: an answer was seen");
            debug_assert!(now <= answer.latest, "an answer is written later than promised");
            self.deliver(answer, now);
        }
        self.wire.steps.store(now + 1, Ordering::Release);
        self.position != before || !self.answers.is_empty()
    }

    fn accept(&mut self, request: Request, now: u64) {
        let jitter = rng::mix(self.position) % JITTER_STEPS;
        let mut due = now + self.manners.latency + jitter;
        let latest = now + self.answer_steps_max(&request);
        let mut answer = honest(request, latest);
        match self.plan.judge(Op::Read) {
            Verdict::Pass => {}
            Verdict::Drop | Verdict::Cut => return,
            Verdict::Fail => answer.status = Status::MediaError,
            Verdict::Delay(word) => due += 1 + word % self.manners.delay_max.max(1),
            Verdict::Shuffle(word) => answer.order = Some(shuffled(lines(&request), word)),
            Verdict::Misdirect(word) => self.misdirect(&mut answer, word),
            Verdict::Corrupt(word) => answer.flip = Some(word),
            Verdict::Alias(word) => answer.alias = Some(word),
            Verdict::Duplicate => {
                let after = 1 + rng::mix(due) % ECHO_STEPS;
                self.answers.schedule(Picos(due + after), honest(request, latest));
            }
            Verdict::Torn(_) => unreachable!("invariant: the adapter refuses torn reads"),
        }
        self.answers.schedule(Picos(due), answer);
    }

    fn answer_steps_max(&self, request: &Request) -> u64 {
        let Manners { latency, delay_max, .. } = self.manners;
        answer_steps_max(latency, delay_max, u64::from(lines(request)))
    }

    /// Half the misdirected reads come from another address, half go to another slot.
    fn misdirect(&self, answer: &mut Answer, word: u64) {
        let len = u64::from(answer.request.len);
        if word & 1 == 0 || self.manners.slots == 1 {
            let unit = self.manners.rule.granule_bytes().max(LINE_BYTES as u64);
            let places = (self.content.capacity_bytes() - len) / unit + 1;
            answer.from = (word >> 1) % places * unit;
        } else {
            let step = 1 + (word >> 1) % u64::from(self.manners.slots - 1);
            let slot = u64::from(answer.into) + step;
            answer.into = (slot % u64::from(self.manners.slots)) as u32;
        }
    }

    /// Delivers an answer, or the next line of it; the completion word comes after the last line.
    fn deliver(&mut self, mut answer: Answer, now: u64) {
        if answer.status == Status::Ok {
            self.read(&answer);
            let count = lines(&answer.request);
            let batch = if answer.order.is_some() { 1 } else { count };
            for _ in 0..batch {
                self.deliver_line(&answer);
                answer.delivered += 1;
            }
            if answer.delivered < count {
                let gap = 1 + rng::mix(now ^ u64::from(answer.delivered)) % GAP_STEPS;
                self.answers.schedule(Picos(now + gap), answer);
                return;
            }
        }
        self.complete(&answer);
    }

    fn read(&mut self, answer: &Answer) {
        self.words.resize(answer.request.len as usize / 8, 0);
        self.content.fill(answer.from, &mut self.words);
    }

    fn deliver_line(&self, answer: &Answer) {
        let line = match &answer.order {
            Some(order) => order[answer.delivered as usize],
            None => answer.delivered,
        };
        let at = line as usize * LINE_WORDS;
        let mut words: [u64; LINE_WORDS] =
            self.words[at..at + LINE_WORDS].try_into().expect("invariant: a whole line");
        let flip = answer.flip.filter(|f| !self.strikes_the_answer(*f));
        if let Some(flip) = flip.filter(|f| self.is_struck(*f, line, answer)) {
            words[(flip >> 30) as usize % LINE_WORDS] ^= 1 << (flip >> 24 & 63);
        }
        let aliased = answer.alias.is_some_and(|a| self.is_struck(a, line, answer));
        if aliased {
            self.wire.lines.deliver_headless(answer.into, line as usize, &words);
        } else {
            self.wire.lines.deliver(answer.into, line as usize, &words);
        }
    }

    /// Whether the fault drawn from `word` strikes this line: exactly one line of the request.
    fn is_struck(&self, word: u64, line: u32, answer: &Answer) -> bool {
        (word >> 8) % u64::from(lines(&answer.request)) == u64::from(line)
    }

    /// Whether a flipped bit is one of the completion word; else it is one of the data.
    fn strikes_the_answer(&self, flip: u64) -> bool {
        self.manners.rule == Rule::Word && flip.is_multiple_of(9)
    }

    /// The answer itself. With a completion word, always; with other rules only a failure has one.
    fn complete(&mut self, answer: &Answer) {
        let failed = answer.status != Status::Ok;
        if self.manners.rule != Rule::Word && !failed {
            return;
        }
        self.bytes.clear();
        if !failed {
            self.bytes.extend(self.words.iter().flat_map(|w| w.to_le_bytes()));
        }
        // A misdirected read is honest about what it read: its checksum covers that address.
        let understood = Request { addr: answer.from, ..answer.request };
        let mut word = CompletionWord::new(&understood, answer.status as u8, &self.bytes);
        if let Some(flip) = answer.flip.filter(|f| self.strikes_the_answer(*f)) {
            word.0 ^= 1 << (flip >> 32 & 63);
        }
        self.wire.answers.answer(answer.into, word);
    }
}

/// The answer of a device that does what it is asked.
fn honest(request: Request, latest: u64) -> Answer {
    Answer {
        request,
        from: request.addr,
        into: request.slot,
        status: Status::Ok,
        order: None,
        delivered: 0,
        flip: None,
        alias: None,
        latest,
    }
}

fn lines(request: &Request) -> u32 {
    request.len / LINE_BYTES as u32
}

fn shuffled(count: u32, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count).collect();
    for i in (1..order.len()).rev() {
        let j = rng::mix(seed ^ i as u64) % (i as u64 + 1);
        order.swap(i, j as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_fetches_every_entry_in_order() {
        let content = crate::flash::emulator::Pattern {
            seed: 1,
            capacity_bytes: 1 << 12,
            format: crate::flash::emulator::Format::Arbitrary,
        };
        let wire = Arc::new(Wire::new(4, 8, 1));
        let manners = Manners { rule: Rule::Word, latency: 0, delay_max: 0, slots: 4 };
        let mut side =
            DeviceSide::new(Arc::clone(&wire), std::sync::Arc::new(content), Plan::none(), manners);
        let request = |slot: u32| Request { addr: 64, len: 64, slot, tag: slot + 1 };
        (0..4).for_each(|slot| wire.ring.put(u64::from(slot), request(slot)));
        side.step();
        assert_eq!(side.position, 4);
        let mut fetched = Vec::new();
        while let Some((_, answer)) = side.answers.pop() {
            fetched.push(answer.request.slot);
        }
        fetched.extend((0..4).filter(|slot| wire.answers.latest(*slot).tag() == slot + 1));
        fetched.sort_unstable();
        assert_eq!(fetched, [0, 1, 2, 3], "each request is answered or about to be");
        wire.ring.put(5, request(1));
        side.step();
        assert_eq!(side.position, 4, "an entry is fetched only after the one before it");
    }

    #[test]
    fn a_shuffle_is_a_permutation_and_differs_by_seed() {
        let mut a = shuffled(32, 1);
        assert_ne!(a, shuffled(32, 2));
        assert_ne!(a, (0..32).collect::<Vec<_>>());
        a.sort_unstable();
        assert_eq!(a, (0..32).collect::<Vec<_>>());
    }
}
