//! The code that the threads of a program share: decoded blocks and, above tier 0, code of the
//! host.
//!
//! - Code of one [`Generation`] is found without a lock and added under one. It is dropped only
//!   all together: a new generation takes its place, and the old one is freed when the last thread
//!   has left it. A thread is in a generation only inside [`Cache::run`](super::Cache::run), which
//!   looks for a new one at the end of each slice.
//! - A block is decoded under the lock of its generation, after the thread has entered it. So code
//!   of memory that changed before the generation began is never in it.
//! - Pages whose instructions are not compared with memory are noted before their words are read,
//!   so [`CodeCache::drop_pages`] finds every block of them.

#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
use super::Cpu;
#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
use super::helper::Helper;
use super::raw::Blocks;
use super::stored::Store;
#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
use super::tier1;
use super::translation::Translation;
use super::{Limits, Tier};
use crate::isa::Group;
use crate::shared::{Current, Held, Pinned, Reader};
use littoral_base::sync;
use std::collections::BTreeSet;
use std::ops::Range;
#[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

const PAGE_BITS: u32 = 12;

/// Which extensions a program has decoded instructions of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// 128-bit vectors.
    pub lsx: bool,
    /// 256-bit vectors.
    pub lasx: bool,
    /// Binary translation assists.
    pub lbt: bool,
}

/// Decoded and translated code of a program, for all its threads; each has a
/// [`Cache`](super::Cache) on it.
#[derive(Debug)]
pub struct CodeCache {
    current: sync::Arc<Current<Generation>>,
    tier: Tier,
    pub(super) limits: Limits,
    /// What is kept between processes.
    store: Option<Arc<Store>>,
    /// Bits of [`Used`].
    used: AtomicU8,
    /// Generations so far.
    generations: AtomicU64,
    /// Regions so far.
    regions: AtomicU64,
    /// Their instructions.
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    regions_instructions: AtomicU64,
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    helper: Arc<Helper>,
}

/// Code that is dropped together.
#[derive(Debug)]
pub(super) struct Generation {
    /// Its number, from 1 on.
    pub(super) number: u64,
    pub(super) blocks: Blocks,
    pub(super) filling: Mutex<Filling>,
    /// Translated code by what it relies on in floating point; `None` where the host cannot run
    /// any.
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    engines: [OnceLock<Option<tier1::Engine>>; tier1::Floats::COUNT],
}

/// What is changed when code is added.
#[derive(Debug, Default)]
pub(super) struct Filling {
    /// Pages with instructions that are not compared with memory.
    texts: BTreeSet<u64>,
    /// The page of the latest of them: the next one is mostly the same.
    latest: Option<u64>,
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    pub(super) tier1: [tier1::Filling; tier1::Floats::COUNT],
}

impl Filling {
    /// The instruction at `pc` will not be compared with memory.
    pub(super) fn note_text(&mut self, pc: u64) {
        let page = pc >> PAGE_BITS;
        if self.latest != Some(page) {
            self.texts.insert(page);
            self.latest = Some(page);
        }
    }
}

impl Generation {
    /// The lock under which code is added.
    pub(super) fn fill(&self) -> MutexGuard<'_, Filling> {
        // A panic leaves no code half added: it is published last.
        self.filling.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Translated code for a thread in this state.
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    pub(super) fn engine(
        &self,
        cpu: &Cpu,
        limits: Limits,
        decode: tier1::Decode,
    ) -> Option<&tier1::Engine> {
        let floats = tier1::floats(cpu);
        let engine = &self.engines[floats as usize];
        if let Some(engine) = engine.get() {
            return engine.as_ref();
        }
        // Under the lock, so that a fork finds it made or not begun.
        let _filling = self.fill();
        engine.get_or_init(|| tier1::Engine::new(cpu, limits, floats, decode)).as_ref()
    }

    /// Translated code of this kind, if there is any.
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    pub(super) fn engine_of(&self, floats: tier1::Floats) -> Option<&tier1::Engine> {
        self.engines[floats as usize].get()?.as_ref()
    }

    /// Blocks of host code.
    pub(super) fn translated(&self) -> usize {
        #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
        {
            let filling = self.fill();
            let engines = self.engines.iter().zip(&filling.tier1);
            let made = engines.filter_map(|(e, filling)| Some((e.get()?.as_ref()?, filling)));
            made.map(|(engine, filling)| engine.len(filling)).sum()
        }
        #[cfg(not(all(feature = "jit", target_arch = "x86_64", target_os = "linux")))]
        0
    }
}

impl Default for CodeCache {
    fn default() -> CodeCache {
        CodeCache::new(Tier::default(), Limits::default())
    }
}

impl CodeCache {
    /// No code. What is added runs on `tier`, or on the best one below that the host has.
    pub fn new(tier: Tier, limits: Limits) -> CodeCache {
        let bounds = Limits::CODE_LEN_MIN..=Limits::CODE_LEN_MAX;
        assert!(bounds.contains(&limits.code_len), "a length of code between its limits");
        assert!((1..=Limits::SLICE_MAX).contains(&limits.slice), "a slice between its limits");
        assert!(limits.watch > 0, "some instructions between two looks");
        CodeCache {
            current: sync::Arc::new(Current::new(generation(1))),
            tier,
            limits,
            store: None,
            used: AtomicU8::new(0),
            generations: AtomicU64::new(1),
            regions: AtomicU64::new(0),
            #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
            regions_instructions: AtomicU64::new(0),
            #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
            helper: Arc::default(),
        }
    }

    /// What was translated on a thread of the code cache's own.
    pub fn translation(&self) -> Translation {
        #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
        return self.helper.total();
        #[cfg(not(all(feature = "jit", target_arch = "x86_64", target_os = "linux")))]
        Translation::default()
    }

    /// The same code cache, whose blocks are read from a store and kept there.
    pub fn with_store(mut self, store: Arc<Store>) -> CodeCache {
        self.store = Some(store);
        self
    }

    /// What is kept between processes.
    pub fn store(&self) -> Option<&Store> {
        self.store.as_deref()
    }

    /// What blocks run on.
    #[cfg_attr(
        not(all(feature = "jit", target_arch = "x86_64", target_os = "linux")),
        expect(dead_code, reason = "only a host with a translator chooses")
    )]
    pub(super) fn tier(&self) -> Tier {
        self.tier
    }

    /// A generation to come after all others.
    fn next(&self) -> Generation {
        generation(self.generations.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The current generation, which is not replaced meanwhile.
    pub(super) fn held(&self) -> Held<'_, Generation> {
        self.current.hold()
    }

    /// A way in for one thread.
    pub(super) fn reader(&self) -> Reader<Generation> {
        Reader::new(&self.current)
    }

    /// Drops all code. Threads that run some leave it when they look at their attention flag.
    pub fn clear(&self) {
        self.current.replace(|| self.next(), |_| true);
    }

    /// Drops all code if any was made of instructions in these addresses that are not compared
    /// with memory; true if it did. The owner calls it after the change and raises the attention of
    /// all threads.
    pub fn drop_pages(&self, addresses: Range<u64>) -> bool {
        let mut dropped = false;
        let pages = addresses.start >> PAGE_BITS..addresses.end.div_ceil(1 << PAGE_BITS);
        self.current.replace(
            || self.next(),
            |generation| {
                dropped = generation.fill().texts.range(pages).next().is_some();
                dropped
            },
        );
        dropped
    }

    /// Whether no thread runs code that was dropped.
    pub fn is_left(&self) -> bool {
        self.current.is_left()
    }

    /// Drops the generation, which is full, unless another thread did so.
    pub(super) fn renew(&self, generation: &Pinned<'_, Generation>) {
        generation.replace(|| self.next());
    }

    /// Generations of code so far: one more than how often all was dropped.
    pub fn generations(&self) -> u64 {
        self.generations.load(Ordering::Relaxed)
    }

    /// Extensions of which instructions were decoded.
    pub fn used(&self) -> Used {
        let used = self.used.load(Ordering::Relaxed);
        Used { lsx: used & 1 != 0, lasx: used & 2 != 0, lbt: used & 4 != 0 }
    }

    /// An instruction of this group was decoded.
    pub(super) fn note(&self, group: Group) {
        let bit = match group {
            Group::Lsx => 1,
            Group::Lasx => 2,
            Group::Lbt => 4,
            Group::Base | Group::Float | Group::System => return,
        };
        if self.used.load(Ordering::Relaxed) & bit == 0 {
            self.used.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Regions that were translated so far, on any thread.
    pub fn regions(&self) -> u64 {
        self.regions.load(Ordering::Relaxed)
    }

    /// Instructions of these regions.
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    pub(super) fn regions_instructions(&self) -> u64 {
        self.regions_instructions.load(Ordering::Relaxed)
    }

    /// A region of so many instructions was translated: its number.
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    pub(super) fn note_region(&self, instructions: u64) -> u64 {
        self.regions_instructions.fetch_add(instructions, Ordering::Relaxed);
        self.regions.fetch_add(1, Ordering::Relaxed)
    }

    /// The thread that makes regions.
    #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
    pub(super) fn helper(&self) -> &Arc<Helper> {
        &self.helper
    }

    /// Forgets that thread, in a forked child.
    pub(super) fn survive_alone(&self) {
        #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
        self.helper.survive_alone();
    }

    /// Does something, as forking the process, while no thread adds or drops code.
    pub fn still<R>(&self, f: impl FnOnce() -> R) -> R {
        let held = self.held();
        let _filling = held.value().fill();
        #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
        let _queue = self.helper.hold();
        f()
    }
}

fn generation(number: u64) -> Generation {
    Generation {
        number,
        blocks: Blocks::default(),
        filling: Mutex::default(),
        #[cfg(all(feature = "jit", target_arch = "x86_64", target_os = "linux"))]
        engines: Default::default(),
    }
}
