//! What all threads of a guest process share, and loading a program into it.

pub(super) use super::abi::Action;
use super::abi::{self, Abi, Fronts, Registers};
use super::code::Changes;
use super::debug::Debugger;
use super::disk::Disk;
use super::dump::Dump;
use super::limits::Limits as ResourceLimits;
use super::path::Paths;
use super::perf_map::PerfMap;
use super::profile::Profile;
use super::raw::{self, Pending};
use super::space::{
    MAP_ANONYMOUS, MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, PROT_EXEC, Request, STACK, Space,
    page_len, page_up,
};
use super::stack::Auxiliary;
use super::sync::lock;
use super::voice::Voice;
use crate::error::{Error, Kind, Result, of_program};
use crate::options::{LOOK_DEFAULT, Options};
use littoral_base::mutant;
use littoral_la64::elf::{self, Elf};
use littoral_la64::front::{Architecture, Front, Settings, Shower, Translator};
use littoral_la64::interp::{CodeCache, Features, Limits, Maker, Tier, Translation};
use littoral_la64::memory::Window;
use littoral_la64::native::Processor;
use littoral_la64::state::State;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};
use std::sync::{Arc, Mutex};

/// Window sizes in GiB, the first that the host grants. An x86-64 process has more than 84 TiB in
/// one piece below its program. Sanitizers want 80 TiB and a little more; 1 TiB is the smallest
/// user space LoongArch processors have; less is for limits on addresses and instrumenting tools.
const WINDOW_GIB: [u64; 8] = [84 << 10, 80 << 10, 32 << 10, 4 << 10, 1 << 10, 256, 64, 16];

/// Ends of a translated guest's addresses, the first for which the host grants a window: user space
/// of MIPS64 processors is 1 TiB.
const GUEST_END: [u64; 4] = [1 << 40, 1 << 38, 1 << 36, 1 << 33];

/// Bytes by which a file's machine and ABI are known.
const HEAD_LEN: u64 = 256;
/// Bytes in which a program's headers mostly are.
const HEADERS_LEN: u64 = 4096;

/// Instructions of a slice of translated code, if the stack of the first thread has room for what
/// they may push: it has the length that the host gives.
const SLICE: u64 = 1 << 18;
/// Bytes of a guest thread's stack on the host: what a slice may push, and what the engine needs.
pub(super) const HOST_STACK: u64 = 8 * SLICE + (2 << 20);

/// Bytes without access below the first stack, as many as the kernel keeps other mappings away from
/// one: a stack that overflows is a fault.
const STACK_GAP: u64 = 1 << 20;

/// Nanoseconds that a change of code waits for other threads to leave the old one. They leave at
/// the end of a slice, after some 200 us on a free processor.
const LEAVE_NS_MAX: u64 = 1_000_000_000;

/// A guest process.
pub(super) struct Process {
    pub(super) abi: &'static Abi,
    /// What runs a guest that is no LoongArch program.
    pub(super) translator: Option<Arc<dyn Translator>>,
    /// The host's processor executes what it makes.
    pub(super) is_native: bool,
    /// The front that made it.
    pub(super) front: Option<&'static dyn Front>,
    /// Translators that children may need.
    pub(super) fronts: Fronts,
    pub(super) window: Window,
    pub(super) space: Arc<Mutex<Space>>,
    pub(super) changes: Arc<Changes>,
    /// Decoded and translated code.
    pub(super) cache: Arc<CodeCache>,
    /// Where translated code is kept between processes, with `--cache`.
    pub(super) disk: Option<Arc<Disk>>,
    pub(super) actions: Mutex<[Action; 64]>,
    pub(super) options: Options,
    /// The command that runs a program, without options, for the guest's own execve.
    pub(super) command: Vec<OsString>,
    pub(super) paths: Paths,
    /// Path of the program as the guest sees it in /proc.
    pub(super) program: PathBuf,
    pub(super) argv: Vec<Vec<u8>>,
    /// The auxiliary vector, as it lies on the first stack.
    pub(super) auxv: Vec<u8>,
    /// Where the first stack pointer pointed.
    pub(super) stack_start: u64,
    pub(super) features: Features,
    /// Address of the code a signal handler returns to.
    pub(super) trampoline: u64,
    /// What the first thread ended with.
    pub(super) status: AtomicI32,
    /// Instructions of threads that have ended.
    pub(super) instructions: AtomicU64,
    /// Instructions of a translated guest, in threads that have ended.
    pub(super) guest: AtomicU64,
    /// LA64 instructions that counted these.
    pub(super) counting: AtomicU64,
    pub(super) threads: Mutex<Vec<Arc<Pending>>>,
    /// Numbers of unknown system calls that were named on standard error.
    pub(super) unknown: Mutex<BTreeSet<u64>>,
    /// Children that were to tell their end by another signal than SIGCHLD, or by none.
    pub(super) clones: Mutex<BTreeSet<i64>>,
    /// Where lines of our own go.
    pub(super) voice: Voice,
    /// What the translator did in threads that have ended.
    pub(super) translation: Mutex<Translation>,
    /// Where instructions are spent, with `--profile`.
    pub(super) profile: Option<Profile>,
    /// Where perf learns of translated blocks, with `--perf-map`.
    pub(super) perf_map: Option<PerfMap>,
    /// Where translated blocks are written, with `--dump`.
    pub(super) dump: Option<Dump>,
    /// The debugger, with `--gdb`.
    pub(super) debugger: Option<Arc<Debugger>>,
    /// The process is about to end: no thread interprets any more.
    pub(super) ending: AtomicBool,
    /// A descriptor of signals was made here (a guest whose signals have other numbers).
    pub(super) reads_signals: AtomicBool,
}

impl Process {
    /// The guest's registers in a state.
    pub(super) fn registers<'a>(&'a self, state: &'a mut State) -> Registers<'a> {
        Registers { state, translator: self.translator.as_deref() }
    }

    /// The guest says that it has written code at these addresses.
    pub(super) fn code_written(&self, addresses: std::ops::Range<u64>) {
        match &self.translator {
            Some(translator) => {
                translator.drop_pages(&self.window, &self.changes.epoch, addresses);
            }
            None => self.changes.epoch.advance(),
        }
    }

    /// Code on watched pages is about to be written: drops it and lets the memory be written.
    pub(super) fn unwatch(&self, pages: &[u64]) {
        let drop_code = |pages: Vec<u64>| {
            for page in pages {
                self.code_written(page..page + page_len());
            }
        };
        // First, so that no thread finds old code when the page may be written; and again for what
        // another thread has translated meanwhile.
        let showing = lock(&self.space).showing(pages);
        drop_code(showing);
        let showing = lock(&self.space).unwatch(pages);
        drop_code(showing);
    }

    /// As `unwatch`, for all pages: the host is about to write to memory that is not known here.
    /// The calling thread, whose signals are noted in `own`, is in no code. Whether there was a
    /// watched page.
    pub(super) fn unwatch_all(&self, own: &Pending) -> bool {
        let pages = lock(&self.space).watched();
        if !pages.is_empty() {
            self.unwatch(&pages);
            // Its own attention would keep it from entering the kernel again.
            self.interrupt_where(|thread| !std::ptr::eq(thread, own));
        }
        !pages.is_empty()
    }

    /// Empties the memory for translated code, which is full.
    pub(super) fn renew_code(&self) {
        if let Some(translator) = &self.translator {
            translator.renew(&self.window, &self.changes.epoch, &|| self.interrupt());
        }
    }

    /// Raises the attention of every thread: it leaves old code at the next exact address.
    pub(super) fn interrupt(&self) {
        self.interrupt_where(|_| true);
    }

    fn interrupt_where(&self, is_meant: impl Fn(&Pending) -> bool) {
        if self.abi.coherent && mutant!("x86_threads_keep_old_code") {
            return;
        }
        for thread in lock(&self.threads).iter().filter(|thread| is_meant(thread)) {
            thread.interrupt(self.is_native);
        }
    }

    /// Drops blocks of code that changed and is not compared with memory: of code that never was
    /// writable (`fixed`), and with a translator of all. The thread that made the change calls this
    /// before it goes on, without the lock on the address space.
    pub(super) fn drop_changed(&self, [fixed, written]: [Vec<std::ops::Range<u64>>; 2]) {
        if let Some(translator) = &self.translator {
            let written = if mutant!("mips64_replaced_code_stays") { Vec::new() } else { written };
            for range in fixed.into_iter().chain(written) {
                translator.drop_pages(&self.window, &self.changes.epoch, range);
            }
            return;
        }
        // Each is looked for: code of several places may have to go.
        let dropped = fixed.into_iter().filter(|range| self.cache.drop_pages(range.clone()));
        if dropped.count() > 0 {
            self.leave_old_code();
        }
    }

    /// Drops all blocks.
    pub(super) fn drop_all_code(&self) {
        self.cache.clear();
        self.leave_old_code();
    }

    /// Lets all threads leave code that was dropped, and waits until they have: they see the flag
    /// at the end of their slice, and would run old instructions until then.
    ///
    /// A thread whose fault this one is to serve (`userfaultfd`) leaves later than it is waited
    /// for.
    fn leave_old_code(&self) {
        self.interrupt();
        let latest = raw::monotonic_ns() + LEAVE_NS_MAX;
        while !self.cache.is_left() && raw::monotonic_ns() < latest {
            std::thread::yield_now();
        }
    }
}

/// Where the first thread starts.
pub(super) struct Start {
    pub(super) pc: u64,
    pub(super) sp: u64,
}

/// A loaded image: the load bias and the headers.
struct Image {
    elf: Elf,
    bias: u64,
}

impl Image {
    /// Where the program headers are, 0 if they are not loaded.
    fn headers(&self) -> u64 {
        match self.elf.headers_address {
            0 => 0,
            address => address + self.bias,
        }
    }

    /// Where its code begins.
    fn entry(&self) -> u64 {
        self.elf.entry + self.bias
    }

    /// Where the heap of a program begins: a page behind it.
    fn heap(&self) -> u64 {
        let ends = self.elf.segments.iter().map(|s| s.address + s.memory_len);
        page_up(ends.max().unwrap_or(0) + self.bias) + page_len()
    }

    /// Length and rights of a program's first stack.
    fn stack(&self, options: &Options) -> (u64, u32) {
        let limit = ResourceLimits::of(&options.limits).stack_len();
        let executed = if self.elf.executes_stack { PROT_EXEC } else { 0 };
        (limit.unwrap_or(options.stack_len), 3 | executed)
    }
}

/// How a program is run: its ABI, the space that is reserved for it, what translates it.
struct Plan {
    abi: &'static Abi,
    front: Option<&'static dyn Front>,
    space: Space,
    translator: Option<Arc<dyn Translator>>,
    is_native: bool,
}

/// Memory for a guest whose addresses end at `end`, and what executes its code, where that is the
/// host's processor.
struct Room {
    end: u64,
    window: Window,
    native: Option<Arc<dyn Processor>>,
}

impl Room {
    /// Room on the host's processor for a guest of which nothing is asked that only tier 0 tells,
    /// then any; the largest first.
    fn all(front: &'static dyn Front, options: &Options) -> impl Iterator<Item = Room> + use<> {
        let tells = options.trace || options.profile.is_some() || options.weak.is_some();
        let plain = options.tier == 0 || options.separate || tells;
        let has_lbt = raw::executes().filter(|&has_lbt| !plain && front.runs_on(has_lbt));
        let natively = move |&end: &u64| {
            let (window, processor) = raw::reserve_native(front.window_len(end), has_lbt?)?;
            Some(Room { end, window, native: Some(processor) })
        };
        let plainly = move |&end: &u64| {
            let window = raw::reserve(&[front.window_len(end)])?;
            Some(Room { end, window, native: None })
        };
        GUEST_END.iter().filter_map(natively).chain(GUEST_END.iter().filter_map(plainly))
    }
}

impl Plan {
    fn of(host: &Path, program: &Path, fronts: Fronts, options: &Options) -> Result<Plan> {
        let shown = program.display();
        let io = |e| Error::with_source(Kind::Io, format!("cannot read {shown}"), e);
        let mut head = Vec::new();
        File::open(host).map_err(io)?.take(HEAD_LEN).read_to_end(&mut head).map_err(io)?;
        let refused = |what| Error::new(Kind::Unsupported, format!("{shown}: {what}"));
        match abi::of(&head, fronts).transpose().map_err(refused)? {
            Some((abi, Some(front))) => Plan::translated(abi, front, options),
            // What is no program of a known machine is refused by the reader of ELF files.
            Some((_, None)) | None => Plan::native(),
        }
    }

    fn native() -> Result<Plan> {
        let lens = WINDOW_GIB.map(|gib| gib << 30);
        let window = raw::reserve(&lens).ok_or_else(|| {
            Error::new(Kind::Memory, "cannot reserve even 16 GiB of addresses for the guest")
        })?;
        let space = Space::new(window, window.len(), Vec::new());
        let abi = &abi::loongarch::ABI;
        Ok(Plan { abi, front: None, space, translator: None, is_native: false })
    }

    fn translated(abi: &'static Abi, front: &'static dyn Front, options: &Options) -> Result<Plan> {
        if options.gdb.is_some() {
            let what = "a debugger sees LoongArch programs only; leave --gdb out";
            return Err(Error::new(Kind::Unsupported, what));
        }
        if options.no_lbt && front.architecture() == Architecture::Mips64 {
            let what = "translated MIPS64 programs need the binary translation assists; leave \
                        --no-lbt out";
            return Err(Error::new(Kind::Unsupported, what));
        }
        let dump = options.dump.as_deref().map(Dump::open).transpose()?;
        let dump = dump.map(|file| -> Shower { Arc::new(move |text| file.append(text)) });
        let found = Room::all(front, options).find_map(|room| {
            let lacks_lbt = room.native.as_ref().is_some_and(|processor| !processor.has_lbt());
            let settings = Settings {
                counts: options.stats,
                dump: dump.clone(),
                without_lbt: options.no_lbt || lacks_lbt,
                native: room.native.clone(),
            };
            let translator = front.translator(room.end, settings);
            let mut space = Space::new(room.window, room.end, translator.places());
            space.coherent = abi.coherent;
            space.map_kept()?;
            let is_native = room.native.is_some();
            let executed = if is_native { translator.executed_places() } else { Vec::new() };
            space.let_execute(&executed).map(|()| (space, translator, is_native))
        });
        let (space, translator, is_native) = found.ok_or_else(|| {
            Error::new(Kind::Memory, "cannot reserve even 16 GiB of addresses for the guest")
        })?;
        Ok(Plan { abi, front: Some(front), space, translator: Some(translator), is_native })
    }
}

/// Loads a program and its interpreter, and builds the first stack.
pub(super) fn load(
    (options, command, fronts): (Options, Vec<OsString>, Fronts),
    program: &Path,
    argv: Vec<Vec<u8>>,
    envp: &[Vec<u8>],
) -> Result<(Arc<Process>, Start)> {
    let paths = Paths::new(options.sysroot.clone());
    let host = paths.resolve(program);
    let Plan { abi, front, mut space, translator, is_native } =
        Plan::of(&host, program, fronts, &options)?;
    let window = space.window;
    let main = load_image(abi, &mut space, &paths, (host.as_path(), program))?;
    let shown = paths.real(&host, program);
    let interpreter = load_interpreter(abi, &mut space, &paths, (&main.elf, program))?;
    space.brk = (main.heap(), main.heap());
    let trampoline = map_trampoline(&mut space, abi.signals.trampoline)?;
    let features = features(&options);
    let auxiliary = auxiliary(&main, interpreter.as_ref(), (abi.auxiliary)(features, front));
    let (name, stack) = (program.as_os_str().as_bytes(), main.stack(&options));
    let (sp, auxv) = first_stack(&mut space, stack, &argv, envp, name, &auxiliary)?;
    // What was mapped for the program is counted from now on.
    space.limits = ResourceLimits::of(&options.limits);
    // The translator of another architecture has the file.
    let dump = options.dump.as_deref().filter(|_| front.is_none()).map(Dump::open).transpose()?;
    let perf_map = options.perf_map.then(PerfMap::create).transpose()?;
    let (cache, disk) = code_cache(&options, window, front.is_some());
    let cache = Arc::new(cache);
    let debugger = options.gdb.map(|_| {
        Arc::new(Debugger::new(window, space.changes.clone(), cache.clone(), auxv.clone()))
    });
    let keeps_voice = options.stats || options.profile.is_some();
    let process = Process {
        abi,
        voice: if keeps_voice { Voice::kept() } else { Voice::default() },
        translator,
        is_native,
        front,
        fronts,
        window,
        changes: space.changes.clone(),
        cache,
        disk,
        space: Arc::new(Mutex::new(space)),
        actions: Mutex::new([Action::default(); 64]),
        profile: options.profile.is_some().then(Profile::default),
        dump,
        options,
        command,
        paths,
        program: shown,
        argv,
        auxv,
        stack_start: sp,
        features,
        trampoline,
        status: AtomicI32::new(0),
        instructions: AtomicU64::new(0),
        guest: AtomicU64::new(0),
        counting: AtomicU64::new(0),
        threads: Mutex::new(Vec::new()),
        unknown: Mutex::new(BTreeSet::new()),
        clones: Mutex::default(),
        translation: Mutex::default(),
        perf_map,
        debugger,
        ending: AtomicBool::new(false),
        reads_signals: AtomicBool::new(false),
    };
    Ok((Arc::new(process), Start { pc: interpreter.map_or(auxiliary.entry, |i| i.entry()), sp }))
}

/// What a program is told of where it and its interpreter are.
fn auxiliary(main: &Image, interpreter: Option<&Image>, machine: abi::Auxiliary) -> Auxiliary {
    Auxiliary {
        headers: main.headers(),
        headers_count: main.elf.headers_count,
        base: interpreter.map_or(0, |i| i.bias),
        entry: main.entry(),
        machine,
    }
}

/// The code cache, and the files of its code if those are asked for: a translator of another
/// architecture keeps none, and code under a debugger ends at its breakpoints.
fn code_cache(
    options: &Options,
    window: Window,
    is_foreign: bool,
) -> (CodeCache, Option<Arc<Disk>>) {
    let Options { code_len, separate, uncounted, look: watch, .. } = *options;
    let has_room = raw::stack_len().is_none_or(|len| len >= HOST_STACK);
    let slice = if has_room { SLICE } else { Limits::default().slice };
    let aside = watch == LOOK_DEFAULT;
    let limits = Limits { code_len, separate, uncounted, slice, watch, aside };
    let cache = CodeCache::new(Tier::new(options.tier).unwrap_or_default(), limits);
    let is_kept = !is_foreign && options.gdb.is_none();
    let folder = options.cache.0.as_deref().filter(|_| is_kept);
    let disk = folder.and_then(|folder| {
        let maker = Maker::this(&window, features(options), limits)?;
        Some(Arc::new(Disk::open(folder, maker, window)))
    });
    match &disk {
        Some(disk) => (cache.with_store(disk.store.clone()), Some(disk.clone())),
        None => (cache, None),
    }
}

/// What the machine has.
fn features(options: &Options) -> Features {
    Features { lbt: !options.no_lbt, ..Features::ALL }
}

/// The image that a program names to load it, if it does.
fn load_interpreter(
    abi: &Abi,
    space: &mut Space,
    paths: &Paths,
    (elf, program): (&Elf, &Path),
) -> Result<Option<Image>> {
    let Some(name) = &elf.interpreter else { return Ok(None) };
    let host = paths.resolve(Path::new(name));
    let image = load_image(abi, space, paths, (host.as_path(), Path::new(name)));
    image
        .map(Some)
        .map_err(|e| e.in_context(format!("{}: its interpreter {name}", program.display())))
}

/// The headers of a program's file. Those of nearly all are in its first page.
fn headers(file: &File, abi: &Abi) -> std::io::Result<littoral_la64::error::Result<Elf>> {
    let len = file.metadata()?.len();
    let mut bytes = Vec::with_capacity(HEADERS_LEN as usize);
    file.take(HEADERS_LEN).read_to_end(&mut bytes)?;
    // What begins otherwise is none, however long it is.
    let may_be = bytes.starts_with(b"\x7fELF");
    match elf::parse_head(&bytes, len, abi.machine) {
        Err(_) if len > HEADERS_LEN && may_be => {
            (&*file).read_to_end(&mut bytes)?;
            Ok(elf::parse_for(&bytes, abi.machine))
        }
        parsed => Ok(parsed),
    }
}

/// Loads the file at a path of the host, which is this one of the guest's.
fn load_image(
    abi: &Abi,
    space: &mut Space,
    paths: &Paths,
    (host, guest): (&Path, &Path),
) -> Result<Image> {
    let shown = guest.display();
    let io = |e: std::io::Error| Error::with_source(Kind::Io, format!("cannot read {shown}"), e);
    let file = File::open(host).map_err(io)?;
    let elf = headers(&file, abi).map_err(io)?.map_err(|e| of_program(&shown, e))?;
    if let Some(at) = shared_page(&elf.segments, page_len()) {
        let what = format!(
            "{shown}: two segments share the page at {at:#x}; pages of this host have \
                            {} bytes: link with -z max-page-size=65536",
            page_len()
        );
        return Err(Error::new(Kind::Unsupported, what));
    }
    let low = elf.segments[0].address & !(page_len() - 1);
    let last = elf.segments[elf.segments.len() - 1];
    let len = page_up(last.address + last.memory_len - low);
    let wanted = if elf.position_independent { space.end() / 8 } else { low };
    let bias = place(space, wanted, len, elf.position_independent)
        .ok_or_else(|| Error::new(Kind::Memory, format!("{shown}: no room at {wanted:#x}")))?
        .wrapping_sub(low);
    let name = paths.real(host, guest).to_string_lossy().into_owned();
    for segment in &elf.segments {
        load_segment(space, &file, segment, bias, &name)
            .ok_or_else(|| Error::new(Kind::Memory, format!("{shown}: cannot map a segment")))?;
    }
    Ok(Image { elf, bias })
}

/// The first page on which two segments lie that cannot share it: of more than 4 KiB, for which
/// linkers of some architectures do not make room.
fn shared_page(segments: &[elf::Segment], page_len: u64) -> Option<u64> {
    const SMALLEST: u64 = 4096;
    let down = |at: u64| at & !(page_len - 1);
    let is_shared = |pair: &&[elf::Segment]| {
        let last = pair[0].address + pair[0].memory_len.max(1) - 1;
        down(last) == down(pair[1].address)
    };
    let pair = segments.windows(2).find(is_shared).filter(|_| page_len > SMALLEST)?;
    Some(down(pair[1].address))
}

/// Reserves addresses for an image; its segments then replace them.
fn place(space: &mut Space, wanted: u64, len: u64, movable: bool) -> Option<u64> {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | if movable { 0 } else { 0x10_0000 };
    let request = Request { at: wanted, len, prot: 0, flags, fd: -1, offset: 0, name: "" };
    let at = u64::try_from(space.map(&request)).ok()?;
    space.unmap(at, len);
    Some(at)
}

fn load_segment(
    space: &mut Space,
    file: &File,
    s: &elf::Segment,
    bias: u64,
    name: &str,
) -> Option<()> {
    let start = s.address.wrapping_add(bias);
    let (page, skew) = (start & !(page_len() - 1), start % page_len());
    let flags = MAP_PRIVATE | MAP_FIXED;
    let file_end = start + s.file_len;
    let memory_end = page_up(start + s.memory_len);
    // A file whose offset does not agree with its address is copied instead of mapped.
    let mappable = s.offset % page_len() == skew && s.file_len > 0;
    let mut mapped = page;
    if mappable {
        let fd = i64::from(file.as_raw_fd());
        let (len, offset) = (s.file_len + skew, s.offset - skew);
        let request = Request { at: page, len, prot: s.prot, flags, fd, offset, name };
        u64::try_from(space.map(&request)).ok()?;
        mapped = page_up(file_end);
    }
    if memory_end > mapped {
        let len = memory_end - mapped;
        let flags = flags | MAP_ANONYMOUS;
        let prot = if mappable { s.prot } else { s.prot | 2 };
        let request = Request { at: mapped, len, prot, flags, fd: -1, offset: 0, name: "" };
        u64::try_from(space.map(&request)).ok()?;
    }
    if !mappable {
        use std::os::unix::fs::FileExt;
        let mut bytes = vec![0; s.file_len as usize];
        file.read_exact_at(&mut bytes, s.offset).ok()?;
        space.window.write(start, &bytes)?;
    } else if s.memory_len > s.file_len && s.prot & 2 != 0 {
        let tail = vec![0; (page_up(file_end) - file_end) as usize];
        space.window.write(file_end, &tail)?;
    }
    Some(())
}

/// The page signal handlers return to; 0 if the program has code for that.
fn map_trampoline(space: &mut Space, code: Option<[u32; 2]>) -> Result<u64> {
    let Some(code) = code else { return Ok(0) };
    let flags = MAP_PRIVATE | MAP_ANONYMOUS;
    let request =
        Request { at: 0, len: page_len(), prot: 7, flags, fd: -1, offset: 0, name: "[sigreturn]" };
    let no_room = || Error::new(Kind::Memory, "no room for the signal return page");
    let at = u64::try_from(space.map(&request)).map_err(|_| no_room())?;
    for (n, word) in code.into_iter().enumerate() {
        space.window.store::<u32>(at + 4 * n as u64, word).ok_or_else(no_room)?;
    }
    space.protect(at, page_len(), 5);
    Ok(at)
}

/// Builds the first stack, of this length and with these rights.
fn first_stack(
    space: &mut Space,
    (stack_len, prot): (u64, u32),
    argv: &[Vec<u8>],
    envp: &[Vec<u8>],
    name: &[u8],
    auxiliary: &Auxiliary,
) -> Result<(u64, Vec<u8>)> {
    // The kernel promises memory for what a stack has used alone.
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    let len = STACK_GAP + stack_len;
    let whole = Request { at: 0, len, prot, flags, fd: -1, offset: 0, name: STACK };
    let no_room = || Error::new(Kind::Memory, "arguments and environment do not fit the stack");
    let at = u64::try_from(space.map(&whole)).map_err(|_| no_room())?;
    let (flags, prot) = (flags | MAP_FIXED, if mutant!("la64_stack_without_gap") { 3 } else { 0 });
    let gap = Request { at, len: STACK_GAP, prot, flags, name: "", ..whole };
    let bottom = STACK_GAP + u64::try_from(space.map(&gap)).map_err(|_| no_room())?;
    let top = bottom + stack_len;
    super::stack::build(&space.window, bottom, top, argv, envp, name, auxiliary).ok_or_else(no_room)
}

/// What stands before the names of variables that this command's own loader and C library would
/// obey, when a program's `execve` starts it: they are meant for the next program.
const KEPT: &[u8] = b"LA64_KEPT_";

/// How such variables begin, those with the words before their names among them.
const OBEYED: [&[u8]; 4] = [b"LD_", b"GLIBC_TUNABLES=", b"MALLOC_", KEPT];

/// A variable of a program as this command is given it.
pub(super) fn kept(variable: Vec<u8>) -> Vec<u8> {
    let is_obeyed = OBEYED.iter().any(|&name| variable.starts_with(name));
    match is_obeyed && !mutant!("la64_loader_obeys_the_guests_variables") {
        true => [KEPT, variable.as_slice()].concat(),
        false => variable,
    }
}

/// The name of a variable as the program has it.
fn own_name(name: OsString) -> OsString {
    match name.as_bytes().strip_prefix(KEPT) {
        Some(own) => OsStr::from_bytes(own).to_owned(),
        None => name,
    }
}

/// The first program's environment: the host's, as bytes, with the changes that options ask for.
pub(super) fn environment(options: &Options) -> Vec<Vec<u8>> {
    let name = |setting: &OsString| {
        let name = setting.as_bytes().split(|&b| b == b'=').next().unwrap_or_default();
        OsStr::from_bytes(name).to_owned()
    };
    let own = std::env::vars_os().map(|(name, value)| (own_name(name), value));
    let mut variables: Vec<(OsString, OsString)> = own.collect();
    let given: Vec<OsString> = options.set.iter().map(name).collect();
    variables.retain(|(name, _)| !options.unset.contains(name) && !given.contains(name));
    let pair = |(k, v): (OsString, OsString)| [k.as_bytes(), b"=", v.as_bytes()].concat();
    // Of several settings of one variable the last one counts.
    let last = |n: usize| !given[n + 1..].contains(&given[n]);
    let settings = options.set.iter().enumerate().filter(|(n, _)| last(*n));
    let settings = settings.map(|(_, setting)| setting.as_bytes().to_vec());
    variables.into_iter().map(pair).chain(settings).collect()
}

/// Bytes as a host path.
pub(super) fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_were_kept_come_back() {
        for variable in ["LD_PRELOAD=x", "GLIBC_TUNABLES=", "LA64_KEPT_LD_A=", "PATH=LD_", "LD=1"] {
            let given = kept(variable.as_bytes().to_vec());
            assert!(!given.starts_with(b"LD_") && !given.starts_with(b"GLIBC"), "{variable}");
            let own = own_name(OsStr::from_bytes(&given).to_owned());
            assert_eq!(own, OsStr::new(variable));
        }
    }

    #[test]
    fn segments_share_no_page_of_more_than_4_kib() {
        let at = |address, memory_len| elf::Segment {
            offset: 0,
            address,
            file_len: 0,
            memory_len,
            prot: 1,
        };
        let near = [at(0x40_0000, 0x800), at(0x40_1000, 0x3000), at(0x40_8000, 1)];
        assert_eq!(shared_page(&near, 0x1000), None);
        assert_eq!(shared_page(&near, 0x4000), Some(0x40_0000));
        assert_eq!(shared_page(&near[1..], 0x4000), None);
        assert_eq!(shared_page(&near[1..], 0x1_0000), Some(0x40_0000));
    }
}
