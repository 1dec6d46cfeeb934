//! A guest thread on a host thread: its state, and what is said and done at its end.
//!
//! Invariant: this module imports neither system calls nor signals; both work on threads. What a
//! thread runs is its `body`, which the creator of the thread gives.

use super::executable::Executable;
use super::process::{Process, Start};
use super::profile::PERIOD;
use super::raw::{self, Pending};
use super::robust;
use super::sync::lock;
use littoral_la64::interp::{Cache, Cpu, Tier};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A guest thread.
pub(super) struct Thread {
    pub(super) cpu: Cpu,
    pub(super) cache: Cache,
    pub(super) code: Executable,
    pub(super) process: Arc<Process>,
    pub(super) pending: Arc<Pending>,
    /// Guest signal mask.
    pub(super) mask: u64,
    /// Alternate signal stack: base, length, flags.
    pub(super) alternate: [u64; 3],
    /// Written with 0 and woken when the thread ends.
    pub(super) clear_tid: u64,
    /// Changes of fixed code that the cache knows of.
    fixed_changes: u64,
    pub(super) ended: bool,
    /// The count at which the thread is sampled next, with `--profile`.
    next_sample: u64,
    /// What the thread runs from its first instruction to its end.
    pub(super) body: Body,
}

/// The loop of a thread, which those that it makes run too.
pub(super) type Body = fn(&mut Thread);

/// The stable counter: 100 MHz of the host's monotonic clock.
fn stable_counter() -> u64 {
    raw::monotonic_ns() / 10
}

impl Thread {
    pub(super) fn new(process: Arc<Process>, start: &Start, body: Body) -> Thread {
        let mut cpu = Cpu::new(process.window, process.features);
        cpu.time = stable_counter;
        cpu.state.pc = start.pc;
        cpu.state.x[3] = start.sp;
        Thread::with_cpu(process, cpu, 0, body)
    }

    /// A thread that starts with a copy of another's registers.
    pub(super) fn with_cpu(process: Arc<Process>, mut cpu: Cpu, mask: u64, body: Body) -> Thread {
        cpu.epoch = process.changes.epoch.clone();
        let code = Executable::new(process.changes.clone(), process.space.clone());
        let fixed_changes = process.changes.fixed();
        let pending = Arc::new(Pending::new());
        lock(&process.threads).push(pending.clone());
        let mut cache = Cache::new(Tier::new(process.options.tier).unwrap_or_default());
        if process.perf_map.is_some() {
            cache.record_places();
        }
        Thread {
            next_sample: cpu.state.instructions + PERIOD,
            cpu,
            cache,
            code,
            process,
            pending,
            mask,
            alternate: [0, 0, 2],
            clear_tid: 0,
            fixed_changes,
            ended: false,
            body,
        }
    }

    /// Instructions until something has to be done between them.
    pub(super) fn budget(&self) -> u64 {
        match &self.process.profile {
            _ if self.process.options.trace => 1,
            Some(_) => self.next_sample.saturating_sub(self.cpu.state.instructions),
            None => u64::MAX,
        }
    }

    /// Takes the sample that is due, and tells perf of new code.
    pub(super) fn observe(&mut self) {
        if let Some(profile) = &self.process.profile
            && self.cpu.state.instructions >= self.next_sample
        {
            profile.note(self.cpu.state.pc);
            self.next_sample += PERIOD;
        }
        if let Some(map) = &self.process.perf_map {
            map.add(&self.process.space, &self.process.paths, &self.cache.take_places());
        }
    }

    /// What a forked child forgets of its parent's run.
    pub(super) fn forget_the_past(&mut self) {
        if let Some(profile) = &self.process.profile {
            profile.forget();
        }
        if let Some(map) = &self.process.perf_map {
            map.begin_again();
            // Its blocks are translated again, so that they are in its own file.
            self.cache.clear();
        }
    }

    /// Publishes the count and says that the thread interprets nothing until `resumed`.
    pub(super) fn halt(&self) {
        self.pending.instructions.store(self.cpu.state.instructions, Ordering::Release);
        if self.process.options.stats {
            *lock(&self.pending.translation) = self.cache.translation();
        }
        self.pending.halted.store(true, Ordering::SeqCst);
    }

    /// Goes on, unless the process is about to end: then this thread does nothing any more.
    pub(super) fn give_way(&self) {
        self.pending.halted.store(false, Ordering::SeqCst);
        if self.process.ending.load(Ordering::SeqCst) {
            self.halt();
            raw::sleep_forever();
        }
    }

    /// Forgets decoded blocks if code changed that is never compared.
    pub(super) fn refresh(&mut self) {
        let now = self.process.changes.fixed();
        if now != self.fixed_changes {
            self.fixed_changes = now;
            self.cache.clear();
        }
    }

    pub(super) fn trace(&self) {
        let pc = self.cpu.state.pc;
        let word = self.cpu.window.load::<u32>(pc).unwrap_or(0);
        let text = littoral_la64::isa::disassemble(word).unwrap_or_else(|| "unknown".into());
        self.say(&format!("{pc:#x}: {word:08x} {text}"));
    }

    /// A line of ours on stderr: `--strace`, `--trace`, `--stats`, and what killed the guest.
    pub(super) fn say(&self, line: &str) {
        // A closed stderr must not stop the guest.
        let _ = writeln!(std::io::stderr().lock(), "la64: {line}");
    }

    /// Takes the thread, which has ended, out of its process. The last one ends the process with
    /// the status of the first, as the kernel does.
    pub(super) fn leave(&self) {
        let mut threads = lock(&self.process.threads);
        // Under the lock, so that every thread is counted once.
        if self.process.ending.load(Ordering::SeqCst) {
            drop(threads);
            self.halt();
            raw::sleep_forever();
        }
        let count = self.cpu.state.instructions;
        self.process.instructions.fetch_add(count, Ordering::Relaxed);
        *lock(&self.process.translation) += self.cache.translation();
        threads.retain(|t| !Arc::ptr_eq(t, &self.pending));
        let is_last = threads.is_empty();
        drop(threads);
        if is_last {
            self.exit_group(self.process.status.load(Ordering::Acquire));
        }
    }

    /// Ends the whole process.
    pub(super) fn exit_group(&self, status: i32) -> ! {
        self.last_words();
        raw::exit_group(status)
    }

    /// What is done before the process ends, once: the robust lists of all its threads are walked,
    /// and instructions are reported. For an exact count the other threads are stopped first.
    pub(super) fn last_words(&self) {
        self.halt();
        if self.process.ending.swap(true, Ordering::SeqCst) {
            raw::sleep_forever();
        }
        let threads = lock(&self.process.threads).clone();
        if self.process.options.stats {
            threads.iter().for_each(|t| t.attention.store(true, Ordering::Release));
            let running = || threads.iter().any(|t| !t.halted.load(Ordering::SeqCst));
            let mut patience = 1000;
            while running() && patience > 0 {
                std::thread::sleep(std::time::Duration::from_millis(1));
                patience -= 1;
            }
            let ended = self.process.instructions.load(Ordering::Relaxed);
            let alive: u64 = threads.iter().map(|t| t.instructions.load(Ordering::Acquire)).sum();
            let blocks = self.cache.len();
            self.say(&format!("{} instructions retired, {blocks} blocks", ended + alive));
            self.say(&self.translated(&threads));
        }
        if let (Some(profile), Some(file)) = (&self.process.profile, &self.process.options.profile)
        {
            let lines = profile.report(&self.process.space, &self.process.paths, file.as_ref());
            lines.unwrap_or_else(|why| vec![why]).iter().for_each(|line| self.say(line));
        }
        for thread in threads {
            let tid = thread.tid.load(Ordering::Acquire);
            let head = thread.robust_list.load(Ordering::Acquire);
            robust::release(&self.process.window, head, tid as u32);
        }
    }

    /// What the translator did in all threads, in words.
    fn translated(&self, threads: &[Arc<Pending>]) -> String {
        let mut sum = *lock(&self.process.translation);
        threads.iter().for_each(|t| sum += *lock(&t.translation));
        format!(
            "{} instructions translated in {} blocks: {} bytes of code, {} bytes of maps, {} exits",
            sum.instructions, sum.blocks, sum.code_bytes, sum.map_bytes, sum.exits
        )
    }
}
