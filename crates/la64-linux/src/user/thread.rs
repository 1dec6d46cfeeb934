//! A guest thread on a host thread: its state, and what is said and done at its end.
//!
//! This module imports neither system calls nor signals; both work on threads. What a
//! thread runs is its `body`, which the creator of the thread gives.

use super::abi::Trap;
use super::debug::{Next, Stop};
use super::executable::Executable;
use super::limits::Limits;
use super::process::{Action, Process, Start};
use super::profile::PERIOD;
use super::raw::{self, Pending};
use super::robust;
use super::sync::lock;
use crate::tool;
use littoral_base::mutant;
use littoral_la64::front::{Event, Executed};
use littoral_la64::interp::{Cache, Cpu};
use std::cell::RefCell;
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A guest thread.
pub(super) struct Thread {
    pub(super) cpu: Cpu,
    pub(super) cache: Cache,
    pub(super) code: Executable,
    pub(super) process: Arc<Process>,
    pub(super) pending: Arc<Pending>,
    /// Guest signal mask.
    pub(super) mask: u64,
    /// The mask of a wait that a signal has just ended, with which its handler begins.
    pub(super) waited: Option<u64>,
    /// What the processor says of the latest fault.
    pub(super) trap: Trap,
    /// A refused write to a page that was not watched any more: pc, address, and how many pages had
    /// been watched.
    pub(super) refused: Option<[u64; 3]>,
    /// A refused access that the rights of its pages allow: pc, address, and how often rights had
    /// been changed.
    pub(super) allowed: Option<[u64; 3]>,
    /// Alternate signal stack: base, length, flags.
    pub(super) alternate: [u64; 3],
    /// Written with 0 and woken when the thread ends.
    pub(super) clear_tid: u64,
    pub(super) ended: bool,
    /// It runs in a process made by `vfork`, in the memory of the parent, which waits.
    pub(super) lent: bool,
    /// Handlers of a process made by `vfork`, which are its own.
    pub(super) own_actions: Option<Arc<Mutex<[Action; 64]>>>,
    /// Limits of such a process.
    pub(super) own_limits: Option<Limits>,
    /// What a child of `vfork` leaves in this memory when it runs another program.
    pub(super) left: RefCell<Vec<Vec<CString>>>,
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
        if let Some(translator) = &process.translator {
            translator.prepare(&mut cpu.state);
        }
        (process.abi.start)(&mut process.registers(&mut cpu.state), start.sp);
        Thread::with_cpu(process, cpu, 0, body)
    }

    /// A thread that starts with a copy of another's registers.
    pub(super) fn with_cpu(process: Arc<Process>, mut cpu: Cpu, mask: u64, body: Body) -> Thread {
        cpu.epoch = process.changes.epoch.clone();
        cpu.catches_invalid = true;
        let debugger = process.debugger.clone();
        let (changes, space) = (process.changes.clone(), process.space.clone());
        let code = Executable::new(changes, space, process.disk.clone(), debugger);
        let pending = Arc::new(Pending::new());
        let mut cache = Cache::of(&process.cache);
        {
            let mut threads = lock(&process.threads);
            if let Some(seed) = process.options.weak {
                // Threads differ, and those of the same number are alike in each run.
                cache.weaken(seed.wrapping_add(threads.len() as u64));
            }
            threads.push(pending.clone());
        }
        if process.perf_map.is_some() {
            cache.record_places();
        }
        if process.dump.is_some() {
            cache.record_listings();
        }
        Thread {
            next_sample: cpu.state.instructions + PERIOD,
            cpu,
            cache,
            code,
            process,
            pending,
            mask,
            waited: None,
            trap: Trap::default(),
            refused: None,
            allowed: None,
            alternate: [0, 0, 2],
            clear_tid: 0,
            ended: false,
            lent: false,
            own_actions: None,
            own_limits: None,
            left: RefCell::default(),
            body,
        }
    }

    /// The value of a guest register.
    pub(super) fn register(&self, number: u8) -> u64 {
        match &self.process.translator {
            Some(translator) => translator.get(&self.cpu.state, number),
            None => self.cpu.state.x[usize::from(number)],
        }
    }

    /// Sets a guest register.
    pub(super) fn set_register(&mut self, number: u8, value: u64) {
        self.process.registers(&mut self.cpu.state).set(number, value);
    }

    /// Puts the result of a system call, or a negative error, into the registers.
    pub(super) fn answer(&mut self, result: i64) {
        let process = &self.process;
        (process.abi.answer)(&mut process.registers(&mut self.cpu.state), result);
    }

    /// Runs the guest until something happens or `budget` instructions are done.
    pub(super) fn run(&mut self, budget: u64) -> Event {
        let attention = &self.pending.attention;
        match &self.process.translator {
            Some(translator) => {
                self.pending.inside.store(true, Ordering::SeqCst);
                let thread = (&mut self.cpu, &mut self.cache);
                let event = translator.run(thread, &self.code, attention, budget);
                self.pending.inside.store(false, Ordering::SeqCst);
                event
            }
            None => self.cache.run(&mut self.cpu, &self.code, attention, budget).into(),
        }
    }

    /// A system call that was counted begins anew. Where the host's processor executes code, none
    /// is counted.
    pub(super) fn uncount_call(&mut self) {
        let count = &mut self.cpu.state.instructions;
        *count = if self.process.is_native { count.saturating_sub(1) } else { *count - 1 };
    }

    /// Runs one instruction whose page is not watched meanwhile.
    pub(super) fn run_unwatched(&mut self) -> Event {
        self.code.ignore_watches(true);
        let event = self.run(1);
        self.code.ignore_watches(false);
        event
    }

    /// The handlers of the process that the thread is of.
    pub(super) fn actions(&self) -> MutexGuard<'_, [Action; 64]> {
        let own = self.own_actions.as_deref().filter(|_| !mutant!("la64_vfork_shares_handlers"));
        lock(own.unwrap_or(&self.process.actions))
    }

    /// Does something with the limits of the process that the thread is of.
    pub(super) fn with_limits<R>(&mut self, f: impl FnOnce(&mut Limits) -> R) -> R {
        match &mut self.own_limits {
            Some(own) => f(own),
            None => f(&mut lock(&self.process.space).limits),
        }
    }

    /// The limits of the process that the thread is of.
    pub(super) fn limits(&self) -> Limits {
        self.own_limits.unwrap_or_else(|| lock(&self.process.space).limits)
    }

    /// Lets a debugger see the thread, which runs from now on.
    pub(super) fn enter_debugger(&self) {
        if let Some(debugger) = &self.process.debugger {
            debugger.enter(self.tid(), &self.cpu.state, &self.pending);
        }
    }

    /// Stops if a debugger wants it; whether only one instruction runs next.
    pub(super) fn attend_debugger(&mut self) -> bool {
        let Some(debugger) = self.process.debugger.clone().filter(|d| d.is_on()) else {
            return false;
        };
        self.halt();
        let next = debugger.attend(self.tid(), &mut self.cpu.state);
        self.give_way();
        next == Next::Step
    }

    /// Runs one instruction, which may have a breakpoint.
    pub(super) fn step(&mut self) -> Event {
        if self.pending.any() {
            return Event::Attention;
        }
        self.code.ignore_breakpoints(true);
        let trap = self.cache.step(&mut self.cpu, &self.code);
        self.code.ignore_breakpoints(false);
        trap.into()
    }

    pub(super) fn tid(&self) -> u64 {
        self.pending.tid.load(Ordering::Acquire)
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
        if let Some(dump) = &self.process.dump {
            dump.add(&self.cache.take_listings());
        }
    }

    /// What a forked child forgets of its parent's run.
    pub(super) fn forget_the_past(&mut self) {
        self.cache.survive_alone();
        if let Some(translator) = &self.process.translator {
            translator.survive_alone();
        }
        if let Some(profile) = &self.process.profile {
            profile.forget();
        }
        if let Some(disk) = &self.process.disk {
            disk.store.forget_made();
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
        let executed = self.executed();
        self.pending.guest.store(executed.guest_count, Ordering::Release);
        self.pending.counting.store(executed.counting_count, Ordering::Release);
        if self.process.options.stats {
            *lock(&self.pending.translation) = self.cache.translation();
        }
        self.pending.halted.store(true, Ordering::SeqCst);
    }

    /// What a translated guest's thread has executed.
    fn executed(&self) -> Executed {
        let translator = self.process.translator.as_ref();
        translator.map_or_else(Executed::default, |t| t.executed(&self.cpu.state))
    }

    /// Goes on, unless the process is about to end: then this thread does nothing any more.
    pub(super) fn give_way(&self) {
        self.pending.halted.store(false, Ordering::SeqCst);
        if self.process.ending.load(Ordering::SeqCst) && !self.lent {
            self.halt();
            raw::sleep_forever();
        }
    }

    pub(super) fn trace(&self) {
        let pc = self.cpu.state.pc;
        let Some(front) = self.process.front else {
            let word = self.cpu.window.load::<u32>(pc).unwrap_or(0);
            let text = littoral_la64::isa::disassemble(word).unwrap_or_else(|| "unknown".into());
            return self.say(&format!("{pc:#x}: {word:08x} {text}"));
        };
        let (most, _) = front.lengths();
        let at = (0..most as u64).map(|n| pc.wrapping_add(n));
        let bytes: Vec<u8> = at.map_while(|at| self.cpu.window.load(at)).collect();
        let (_, digits, text) = tool::shown(front, pc, &bytes);
        self.say(&format!("{pc:#x}: {digits} {text}"));
    }

    /// A line of ours on stderr: `--strace`, `--trace`, `--stats`, and what killed the guest.
    pub(super) fn say(&self, line: &str) {
        self.process.voice.say(line);
    }

    /// Takes the thread, which has ended, out of its process. The last one ends the process with
    /// the status of the first, as the kernel does.
    pub(super) fn leave(&self) {
        if let Some(debugger) = &self.process.debugger {
            debugger.leave(self.tid());
        }
        let mut threads = lock(&self.process.threads);
        // Under the lock, so that every thread is counted once.
        if self.process.ending.load(Ordering::SeqCst) {
            drop(threads);
            self.halt();
            raw::sleep_forever();
        }
        let count = self.cpu.state.instructions;
        self.process.instructions.fetch_add(count, Ordering::Relaxed);
        let executed = self.executed();
        self.process.guest.fetch_add(executed.guest_count, Ordering::Relaxed);
        self.process.counting.fetch_add(executed.counting_count, Ordering::Relaxed);
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
        self.last_words(Stop::Exited(status as u8));
        raw::exit_group(status)
    }

    /// What is done before the process ends, once: the robust lists of all its threads are walked,
    /// and instructions are reported. For an exact count, and if other threads hold robust locks,
    /// they are stopped first.
    pub(super) fn last_words(&self, end: Stop) {
        if self.lent {
            // The parent's threads and figures go on.
            return;
        }
        self.halt();
        if self.process.ending.swap(true, Ordering::SeqCst) {
            raw::sleep_forever();
        }
        if let Some(debugger) = &self.process.debugger {
            debugger.ended(end);
        }
        let threads = lock(&self.process.threads).clone();
        // What the list of a thread holds is another process's as soon as the list is walked.
        let holds = |thread: &Arc<Pending>| {
            let head = thread.robust_list.load(Ordering::Acquire);
            let is_other = !Arc::ptr_eq(thread, &self.pending);
            is_other && robust::holds(&self.process.window, head)
        };
        if self.process.options.stats || threads.iter().any(holds) {
            self.stop(&threads);
        }
        if self.process.options.stats {
            self.say_counts(&threads);
            self.say(&self.translated(&threads));
        }
        if let (Some(profile), Some(file)) = (&self.process.profile, &self.process.options.profile)
        {
            let lines = profile.report(&self.process.space, &self.process.paths, file.as_ref());
            lines.unwrap_or_else(|why| vec![why]).iter().for_each(|line| self.say(line));
        }
        self.store_code();
        for thread in threads {
            let tid = thread.tid.load(Ordering::Acquire);
            let head = thread.robust_list.load(Ordering::Acquire);
            robust::release(&self.process.window, head, tid as u32);
        }
    }

    /// Waits until no thread interprets any more, which is soon: the process is about to end.
    fn stop(&self, threads: &[Arc<Pending>]) {
        threads.iter().for_each(|t| t.interrupt(self.process.is_native));
        let running = || threads.iter().any(|t| !t.halted.load(Ordering::SeqCst));
        let mut patience = 1000;
        while running() && patience > 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
            patience -= 1;
        }
    }

    /// Writes what was translated to the cache on disk. The process ends, or becomes another
    /// program.
    pub(super) fn store_code(&self) {
        let Some(disk) = self.process.disk.as_ref().filter(|_| !self.lent) else { return };
        disk.write(|f| self.process.cache.still(f));
        if let Some(trouble) = disk.take_trouble() {
            self.say(&trouble);
        }
    }

    /// What all threads have executed.
    fn say_counts(&self, threads: &[Arc<Pending>]) {
        let process = &self.process;
        let sum = |ended: &AtomicU64, of: fn(&Pending) -> &AtomicU64| {
            let alive = threads.iter().map(|t| of(t).load(Ordering::Acquire));
            ended.load(Ordering::Relaxed) + alive.sum::<u64>()
        };
        let retired = sum(&process.instructions, |t| &t.instructions);
        let blocks = self.cache.len();
        let Some(translator) = &process.translator else {
            return self.say(&format!("{retired} instructions retired, {blocks} blocks"));
        };
        let guest = sum(&process.guest, |t| &t.guest);
        let counting = sum(&process.counting, |t| &t.counting);
        if process.is_native {
            self.say("the host's processor executes LA64 code and counts no instructions of it");
        } else {
            let own = retired - counting;
            self.say(&format!("{own} instructions retired, {blocks} blocks"));
        }
        let f = translator.figures();
        let name = process.abi.machine.name;
        self.say(&format!(
            "{guest} {name} instructions executed; {} translated in {} regions: {} bytes of LA64 \
             code, {} exits answered",
            f.guest_count, f.regions_count, f.code_bytes, f.exits_count
        ));
    }

    /// What the translator did in all threads, in words.
    fn translated(&self, threads: &[Arc<Pending>]) -> String {
        let mut sum = *lock(&self.process.translation);
        threads.iter().for_each(|t| sum += *lock(&t.translation));
        sum += self.process.cache.translation();
        let read = match self.process.disk {
            Some(_) => format!(", {} blocks from the cache", sum.read),
            None => String::new(),
        };
        let regions = match self.process.options.tier {
            0 | 1 => String::new(),
            _ => format!(", {} regions", self.process.cache.regions()),
        };
        format!(
            "{} instructions translated in {} blocks: {} bytes of code, {} bytes of maps, \
             {} exits, {} stays on tier 0, {} calls of slow ways, {} calls of tier 0{read}{regions}",
            sum.instructions,
            sum.blocks,
            sum.code_bytes,
            sum.map_bytes,
            sum.exits,
            sum.interpreted,
            sum.slow_calls,
            sum.alone_calls
        )
    }
}
