//! Enters translated code and answers its exits: what stands between a guest's owner (a Linux
//! process, a test) and `Cache::run`.
//!
//! - Between two runs `State::pc` is a guest address, and the other registers are the guest's.
//! - [`Engine::run`] returns with a [`Trap`] of the guest: at the exact instruction, with its
//!   address.
//! - The engine may be shared by threads: each has its own `Cpu` and `Cache`.
//! - Full code areas are emptied by [`Engine::renew`] while no thread is inside [`Engine::run`], so
//!   no thread has a place in code that is overwritten.
//! - So they are when the first thread needs code of [`Architecture::flushing`]; from then on all
//!   code is of that kind, which is right for every thread.
//!
//! Invariants
//! - A trap's pc is a guest address at which the program can go on. Checked by
//!   `a_fault_names_the_instruction_and_its_address`.

mod native;
mod single;

use crate::code::{COUNTING, Exit, Full, Mark, Region, Source, Store};
use crate::event::Event;
use crate::guest::{Architecture, Unfetched};
use crate::layout::{AREA_BYTES, Layout};
use littoral_base::mutant;
use littoral_la64::front::{Figures, Settings};
use littoral_la64::interp::{Cache, Cpu, Epoch, Fetch, Text, Trap};
use littoral_la64::memory::Window;
use littoral_la64::state::State;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const PAGE_BITS: u32 = 12;

#[derive(Debug)]
struct Inner {
    store: Store,
    figures: Figures,
    /// Guest pages of which instructions were translated.
    pages: BTreeSet<u64>,
    /// Code of instructions that were translated alone, by their addresses.
    singles: HashMap<u64, u64>,
    /// Code is that of [`Architecture::flushing`].
    flushes: bool,
}

/// The translated code of a program.
#[derive(Debug)]
pub struct Engine<A> {
    layout: Layout,
    architecture: A,
    /// See [`Architecture::flushing`].
    flushing: Option<A>,
    /// A thread has needed its code.
    wants_flushing: AtomicBool,
    settings: Settings,
    inner: Mutex<Inner>,
    /// Threads inside [`Engine::run`], by the addresses of their `Cpu`.
    inside: Mutex<Vec<usize>>,
    /// The code areas are being emptied: no thread enters code.
    emptying: AtomicBool,
    /// What executes code in tier 0's place.
    native: Option<native::Native>,
}

/// How an architecture translates what begins at an address.
type Translate<A> = fn(&A, u64, u64, crate::guest::Fetch<'_>) -> Result<Region, Unfetched>;

/// Which guest memory can be executed; the words are read through the window.
pub trait Guest {
    /// Whether the instruction at a guest address may be fetched.
    fn is_executable(&self, pc: u64) -> bool;
}

impl<F: Fn(u64) -> bool> Guest for F {
    fn is_executable(&self, pc: u64) -> bool {
        self(pc)
    }
}

/// The code areas, as `Cache::run` sees them.
struct Areas<'a> {
    layout: &'a Layout,
    /// Bytes at the begin of each area that tier 0 does not execute.
    routine_len: u64,
}

impl Fetch for Areas<'_> {
    fn text(&self, pc: u64) -> Option<Text> {
        let is_code = self.layout.is_code(pc) && pc % AREA_BYTES >= self.routine_len;
        is_code.then(|| Text { end: (pc | (AREA_BYTES - 1)) + 1, written: true })
    }
}

impl<A: Architecture> Engine<A> {
    /// An engine without code.
    pub fn new(layout: Layout, architecture: A) -> Engine<A> {
        let inner = Inner {
            store: Store::new(layout.clone()),
            figures: Figures::default(),
            pages: BTreeSet::new(),
            singles: HashMap::new(),
            flushes: false,
        };
        Engine {
            layout,
            flushing: architecture.flushing(),
            wants_flushing: AtomicBool::new(false),
            architecture,
            settings: Settings::default(),
            inner: Mutex::new(inner),
            inside: Mutex::default(),
            emptying: AtomicBool::new(false),
            native: None,
        }
    }

    /// An engine without code, with other settings.
    pub fn with(self, settings: Settings) -> Engine<A> {
        let native = native::Native::of::<A>(&self.layout, &settings);
        let leaves = native.as_ref().map(|native| (A::LEAVES, native.routine.clone()));
        self.lock().store = Store::native(self.layout.clone(), leaves);
        Engine { settings, native, ..self }
    }

    /// The code areas for tier 0.
    fn areas(&self) -> Areas<'_> {
        let routine_len = self.native.as_ref().map_or(0, |native| native.routine.len_bytes());
        Areas { layout: &self.layout, routine_len }
    }

    /// Registers that translated code needs in a thread.
    pub fn prepare(&self, state: &mut State) {
        state.x[usize::from(A::ENTRIES)] = self.layout.entries;
        A::prepare(state);
    }

    /// What was translated.
    pub fn figures(&self) -> Figures {
        let inner = self.lock();
        Figures { code_bytes: inner.store.code_bytes(), ..inner.figures }
    }

    /// Forgets all translations: guest code changed. Threads leave old code at the next branch out
    /// of its region.
    pub fn clear(&self, window: &Window, epoch: &Epoch) {
        self.forget(&mut self.lock(), window, epoch);
    }

    fn forget(&self, inner: &mut Inner, window: &Window, epoch: &Epoch) {
        inner.pages.clear();
        if !mutant!("xlate_single_code_stays") {
            inner.singles.clear();
        }
        let done = inner.store.clear(window);
        assert!(done.is_some(), "the table of entries is in the window");
        epoch.advance();
    }

    /// Forgets all translations if any was made of instructions in these addresses.
    pub fn drop_pages(&self, window: &Window, epoch: &Epoch, addresses: Range<u64>) {
        let pages = addresses.start >> PAGE_BITS..addresses.end.div_ceil(1 << PAGE_BITS);
        let mut inner = self.lock();
        if inner.pages.range(pages).next().is_some() {
            self.forget(&mut inner, window, epoch);
        }
    }

    /// Empties the code areas when no thread is in code any more; `interrupt` raises the attention
    /// of all threads. Where a thread has needed code that flushes, all code is so from now on.
    pub fn renew(&self, window: &Window, epoch: &Epoch, interrupt: &dyn Fn()) {
        if self.emptying.swap(true, Ordering::SeqCst) {
            // Another thread is about it.
            return;
        }
        interrupt();
        while !self.inside().is_empty() {
            std::thread::yield_now();
        }
        let mut inner = self.lock();
        self.forget(&mut inner, window, epoch);
        inner.store.empty();
        inner.flushes = self.wants_flushing.load(Ordering::SeqCst);
        drop(inner);
        self.emptying.store(false, Ordering::SeqCst);
    }

    /// Does something while no thread changes what the engine knows.
    pub fn still(&self, f: &mut dyn FnMut()) {
        let (_inner, _inside) = (self.lock(), self.inside());
        f();
    }

    /// In a forked child: the other threads are gone, and this one is outside code.
    pub fn survive_alone(&self) {
        self.inside().clear();
        self.emptying.store(false, Ordering::SeqCst);
    }

    /// The thread with this `Cpu` is outside code: also if a child of `vfork`, which runs with its
    /// parent's `Cpu`, was killed inside.
    pub fn is_outside(&self, cpu: &Cpu) {
        let key = key(cpu);
        self.inside().retain(|&inside| inside != key);
    }

    /// Waits until code may be entered.
    fn come_in(&self, cpu: &Cpu) {
        loop {
            self.inside().push(key(cpu));
            if !self.emptying.load(Ordering::SeqCst) {
                return;
            }
            self.is_outside(cpu);
            std::thread::yield_now();
        }
    }

    fn inside(&self) -> MutexGuard<'_, Vec<usize>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the guest from `State::pc` until something happens; about `budget` more LA64
    /// instructions.
    pub fn run(
        &self,
        (cpu, cache): (&mut Cpu, &mut Cache),
        guest: &impl Guest,
        attention: &AtomicBool,
        budget: u64,
    ) -> Event {
        self.come_in(cpu);
        self.architecture.open(&mut cpu.state);
        let event = match A::steps(&cpu.state) {
            _ if self.lacks_flushes(&cpu.state) => Event::Full,
            true => self.step((&mut *cpu, cache), guest, attention),
            false => self.run_inside((&mut *cpu, cache), guest, attention, budget),
        };
        self.architecture.close(&mut cpu.state);
        self.is_outside(cpu);
        event
    }

    /// Whether a thread must not enter the code that there is, because it flushes no denormal
    /// numbers. The next [`Engine::renew`] changes that.
    fn lacks_flushes(&self, state: &State) -> bool {
        let is_open = !A::flushes(state) || self.flushing.is_none();
        if is_open || self.lock().flushes || mutant!("xlate_old_code_flushes_nothing") {
            return false;
        }
        self.wants_flushing.store(true, Ordering::SeqCst);
        true
    }

    fn run_inside(
        &self,
        (cpu, cache): (&mut Cpu, &mut Cache),
        guest: &impl Guest,
        attention: &AtomicBool,
        budget: u64,
    ) -> Event {
        // What counts is no progress: the first instruction comes behind it.
        let counts = self.settings.counts && !mutant!("xlate_counting_takes_the_budget");
        let counting = if counts { COUNTING as u64 } else { 0 };
        let end = cpu.state.instructions.saturating_add(budget).saturating_add(counting);
        match self.enter(cpu, guest, cpu.state.pc) {
            Ok(at) => cpu.state.pc = at,
            Err(event) => return event,
        }
        loop {
            let left = end.saturating_sub(cpu.state.instructions);
            let trap = match &self.native {
                Some(native) if left >= native::BUDGET_MIN => {
                    self.run_native(native, (&mut *cpu, &mut *cache), attention)
                }
                _ => Some(cache.run(cpu, &self.areas(), attention, left)),
            };
            if let Some(event) = trap.and_then(|trap| self.answer(cpu, cache, guest, trap)) {
                return event;
            }
        }
    }

    /// The LA64 address of a guest address; translates what is not translated.
    fn enter(&self, cpu: &Cpu, guest: &impl Guest, pc: u64) -> Result<u64, Event> {
        let mut inner = self.lock();
        let window = &cpu.window;
        if !self.layout.is_guest(pc) {
            return Err(Event::Fetch(pc));
        }
        if guest.is_executable(pc)
            && let Some(at) = inner.store.entry(window, pc)
        {
            return Ok(at);
        }
        self.make((cpu, guest), &mut inner, pc, A::translate)
    }

    /// Translates what begins at a guest address; the LA64 address of its code.
    fn make(
        &self,
        (cpu, guest): (&Cpu, &impl Guest),
        inner: &mut Inner,
        pc: u64,
        translate: Translate<A>,
    ) -> Result<u64, Event> {
        let window = &cpu.window;
        let pages = RefCell::new(BTreeSet::new());
        let words_max = A::WORDS_MAX + self.native.as_ref().map_or(0, |_| native::WORDS_MORE);
        let base = inner.store.place(words_max).map_err(|Full| Event::Full)?;
        let fetch = |at: u64, bytes: &mut [u8]| {
            let count = self.fetch(window, guest, at, bytes);
            let last = at.saturating_add(count as u64) >> PAGE_BITS;
            pages.borrow_mut().extend(at >> PAGE_BITS..=last);
            count
        };
        let flushing = self.flushing.as_ref().filter(|_| inner.flushes);
        let region = translate(flushing.unwrap_or(&self.architecture), pc, base, &fetch)
            .map_err(|unfetched| Event::Fetch(unfetched.address))?;
        inner.figures.guest_count += region.guest_count;
        inner.figures.regions_count += 1;
        if let Some(show) = &self.settings.dump {
            show(&shown::<A>(window, base, &region));
        }
        // One by one, because `append` builds the whole set anew.
        inner.pages.extend(pages.into_inner());
        let added = inner.store.add(window, base, region);
        assert!(added.is_some(), "code areas and the table of entries are in the window");
        if self.native.is_some() {
            // The processor must not have fetched what stood there before.
            cpu.epoch.advance();
        }
        Ok(base)
    }

    /// Reads code for [`crate::guest::Fetch`].
    fn fetch(&self, window: &Window, guest: &impl Guest, at: u64, bytes: &mut [u8]) -> usize {
        let end = at.saturating_add(bytes.len() as u64).min(self.layout.guest_end);
        let mut next = at;
        while next < end && guest.is_executable(next) {
            let page_end = (next | ((1 << PAGE_BITS) - 1)) + 1;
            let part = (next - at) as usize..(page_end.min(end) - at) as usize;
            if window.read(next, &mut bytes[part]).is_none() {
                break;
            }
            next = page_end.min(end);
        }
        (next - at.min(next)) as usize
    }

    /// Goes on after a trap of translated code (`None`), or says what the guest's owner must do.
    fn answer(
        &self,
        cpu: &mut Cpu,
        cache: &mut Cache,
        guest: &impl Guest,
        trap: Trap,
    ) -> Option<Event> {
        let pc = cpu.state.pc;
        match trap {
            Trap::Break(_) => self.exit(cpu, guest, pc),
            Trap::Fetch(_) if self.is_leaving(pc) => {
                let trap = self.leave_tier_0(cpu);
                self.answer(cpu, cache, guest, trap)
            }
            Trap::Fetch(_) if !self.layout.is_code(pc) => self.missed(cpu, guest),
            Trap::Load(_) if self.indirect(pc).is_some() => {
                let source = self.indirect(pc)?;
                let target = A::target(&cpu.state, source);
                self.go(cpu, guest, target)
            }
            Trap::CodeChanged => None,
            Trap::Attention | Trap::OutOfBudget => self.stop(cpu, cache, guest, trap),
            Trap::Syscall => Some(self.at(cpu, Event::Syscall)),
            Trap::Load(a) => Some(self.at(cpu, Event::Load(a))),
            Trap::Store(a) => Some(self.at(cpu, Event::Store(a))),
            Trap::Unaligned(a) => Some(self.at(cpu, Event::Unaligned(a))),
            Trap::Float => self.complete(cpu),
            // As behind an entry that the guest has overwritten.
            Trap::Illegal(_) | Trap::Fetch(_) | Trap::Bound(_) => Some(Event::Fetch(pc)),
        }
    }

    /// A floating-point operation trapped: an invalid one, or one whose trap the guest wants.
    fn complete(&self, cpu: &mut Cpu) -> Option<Event> {
        let word = cpu.window.load::<u32>(cpu.state.pc)?;
        if !A::complete(&mut cpu.state, word) {
            return Some(self.at(cpu, Event::Float));
        }
        cpu.state.pc += 4;
        cpu.state.instructions += 1;
        None
    }

    /// An event at the instruction that the LA64 pc belongs to; the state becomes the guest's.
    fn at(&self, cpu: &mut Cpu, event: Event) -> Event {
        if event == Event::Syscall {
            // The LA64 pc is behind the call, where instructions without code may come first.
            let Some((call, _)) = self.mark(cpu.state.pc.wrapping_sub(4)) else {
                return Event::Fetch(cpu.state.pc);
            };
            cpu.state.pc = call.fault_pc.wrapping_add(4);
            return event;
        }
        let Some((mark, _)) = self.mark(cpu.state.pc) else { return Event::Fetch(cpu.state.pc) };
        A::repair(&mut cpu.state, &mark);
        self.leave(cpu, mark.fault_pc);
        event
    }

    /// The state becomes the guest's, before the instruction at a guest address.
    fn leave(&self, cpu: &mut Cpu, pc: u64) {
        if self.settings.counts {
            let counts = &mut cpu.state.v[A::COUNTS].0;
            counts[3] -= self.lock().store.uncounted(cpu.state.pc, pc);
        }
        cpu.state.pc = pc;
    }

    /// The mark of an LA64 address; none where no region is, which only a jump through memory that
    /// the guest wrote in place of an entry reaches.
    fn mark(&self, address: u64) -> Option<(Mark, bool)> {
        self.lock().store.mark(address)
    }

    /// The source of the target, if the instruction at `address` looks up an indirect jump.
    fn indirect(&self, address: u64) -> Option<Source> {
        match self.lock().store.exit(address) {
            Some((_, Exit::Indirect(source))) => Some(source),
            _ => None,
        }
    }

    /// Control arrived outside the code areas by an indirect jump.
    fn missed(&self, cpu: &mut Cpu, guest: &impl Guest) -> Option<Event> {
        // The scratch register holds the address behind the jump, which follows the look-up.
        let site = cpu.state.x[usize::from(A::LINK)].wrapping_sub(8);
        // Nothing is known of a jump through an entry that the guest has overwritten.
        let Some(source) = self.indirect(site) else { return Some(Event::Fetch(cpu.state.pc)) };
        let target = A::target(&cpu.state, source);
        self.go(cpu, guest, target)
    }

    /// Goes on at a guest address.
    fn go(&self, cpu: &mut Cpu, guest: &impl Guest, pc: u64) -> Option<Event> {
        self.lock().figures.exits_count += 1;
        match self.enter(cpu, guest, pc) {
            Ok(at) => {
                cpu.state.pc = at;
                None
            }
            Err(event) => {
                cpu.state.pc = pc;
                Some(event)
            }
        }
    }

    fn exit(&self, cpu: &mut Cpu, guest: &impl Guest, at: u64) -> Option<Event> {
        let exit = self.lock().store.exit(at).map(|(_, exit)| exit);
        let Some(exit) = exit else {
            // Another thread made a branch of it meanwhile.
            cpu.epoch.advance();
            return None;
        };
        let event = match exit {
            Exit::Direct { pc, .. } => return self.link(cpu, guest, at, pc),
            Exit::Changed(pc) => {
                self.clear(&cpu.window, &cpu.epoch);
                return self.go(cpu, guest, pc);
            }
            Exit::Illegal(word) => Event::Illegal(word),
            Exit::Break(code) => Event::Break(code),
            Exit::Trap(code) => Event::Trap(code),
            Exit::Overflow => Event::Overflow,
            Exit::Float => Event::Float,
            Exit::Divide => Event::Divide,
            Exit::Privileged => Event::Privileged,
            Exit::Syscall(next) => {
                cpu.state.pc = next;
                return Some(Event::Syscall);
            }
            Exit::Assist(pc) => return self.assist(cpu, guest, pc),
            Exit::Single(behind) => return Some(self.behind(cpu, behind)),
            Exit::Indirect(_) => unreachable!("a look-up at {at:#x} is no break"),
        };
        Some(self.at(cpu, event))
    }

    /// Executes one guest instruction outside translated code and goes on behind it.
    fn assist(&self, cpu: &mut Cpu, guest: &impl Guest, pc: u64) -> Option<Event> {
        let window = cpu.window;
        let fetch = |at: u64, bytes: &mut [u8]| self.fetch(&window, guest, at, bytes);
        self.architecture.close(&mut cpu.state);
        let steps = A::steps(&cpu.state) && !mutant!("xlate_cleared_flag_stops_nothing");
        let assisted = self.architecture.assist(cpu, pc, &fetch);
        self.architecture.open(&mut cpu.state);
        match assisted {
            Ok(Some(next)) => {
                // The code of the next region counts what follows in this block.
                self.leave(cpu, next);
                match (steps, A::steps(&cpu.state)) {
                    (true, _) => Some(Event::Step),
                    // It has set the flag: the next run executes one instruction.
                    (false, true) => Some(Event::OutOfBudget),
                    (false, false) if self.lacks_flushes(&cpu.state) => Some(Event::Full),
                    (false, false) => self.go(cpu, guest, next),
                }
            }
            Ok(None) => {
                // Another thread has written it, or the program at another address of the same
                // memory. This translation is old, and the next run makes another.
                self.clear(&cpu.window, &cpu.epoch);
                self.leave(cpu, pc);
                Some(Event::OutOfBudget)
            }
            Err(event) => {
                self.leave(cpu, pc);
                Some(event)
            }
        }
    }

    /// Goes on at a fixed guest address and makes the exit lead there by itself.
    fn link(&self, cpu: &mut Cpu, guest: &impl Guest, exit: u64, pc: u64) -> Option<Event> {
        // Another thread may forget all code between the look-up and the link.
        let generation = self.lock().store.generation();
        let event = self.go(cpu, guest, pc);
        if event.is_none() {
            let target = (cpu.state.pc, generation);
            let linked = self.lock().store.link(&cpu.window, exit, target);
            if linked.is_some() {
                cpu.epoch.advance();
            }
        }
        event
    }

    /// Stops where the guest's state is exact: steps there if need be.
    fn stop(
        &self,
        cpu: &mut Cpu,
        cache: &mut Cache,
        guest: &impl Guest,
        trap: Trap,
    ) -> Option<Event> {
        loop {
            let pc = cpu.state.pc;
            if self.layout.is_code(pc) && !self.is_leaving(pc) {
                let Some((mark, is_begin)) = self.mark(pc) else { return Some(Event::Fetch(pc)) };
                if is_begin && mark.is_exact {
                    self.leave(cpu, mark.pc);
                    let is_budget = trap == Trap::OutOfBudget;
                    return Some(if is_budget { Event::OutOfBudget } else { Event::Attention });
                }
            }
            match cache.step(cpu, &self.areas()) {
                Trap::OutOfBudget | Trap::Attention => {}
                other => match self.answer(cpu, cache, guest, other) {
                    Some(event) => return Some(event),
                    None => continue,
                },
            }
        }
    }
}

/// What a thread is known by: its `Cpu` does not move while it runs.
fn key(cpu: &Cpu) -> usize {
    std::ptr::from_ref(cpu).addr()
}

/// A region as text: guest instructions and what became of them.
fn shown<A: Architecture>(window: &Window, base: u64, region: &Region) -> String {
    let mut text = String::new();
    let mut marks = region.marks.iter().peekable();
    for (n, &word) in region.words.iter().enumerate() {
        while let Some(mark) = marks.next_if(|m| m.word as usize <= n) {
            let line = A::text(window, mark.fault_pc).unwrap_or_else(|| "unknown".into());
            text.push_str(&format!("{:x}: {line}\n", mark.fault_pc));
        }
        let own = littoral_la64::isa::disassemble(word).unwrap_or_else(|| "unknown".into());
        text.push_str(&format!("{:>50x}: {own}\n", base + 4 * n as u64));
    }
    text
}
