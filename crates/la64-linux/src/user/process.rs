//! What all threads of a guest process share, and loading a program into it.

use super::code::Changes;
use super::path::Paths;
use super::perf_map::PerfMap;
use super::profile::Profile;
use super::raw::{self, Pending};
use super::space::{MAP_ANONYMOUS, MAP_FIXED, MAP_PRIVATE, PAGE, Request, Space, page_up};
use super::stack::Auxiliary;
use super::sync::lock;
use crate::error::{Error, Kind, Result, of_program};
use crate::options::Options;
use littoral_la64::elf::{self, Elf};
use littoral_la64::interp::{Features, Translation};
use littoral_la64::memory::Window;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Window sizes in GiB, the first that the host grants. An x86-64 process has more than 84 TiB in
/// one piece below its program. Sanitizers want 80 TiB and a little more; 1 TiB is the smallest
/// user space LoongArch processors have; less is for limits on addresses and instrumenting tools.
const WINDOW_GIB: [u64; 8] = [84 << 10, 80 << 10, 32 << 10, 4 << 10, 1 << 10, 256, 64, 16];

/// A guest signal handler.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Action {
    pub(super) handler: u64,
    pub(super) flags: u64,
    pub(super) mask: u64,
}

/// A guest process.
pub(super) struct Process {
    pub(super) window: Window,
    pub(super) space: Arc<Mutex<Space>>,
    pub(super) changes: Arc<Changes>,
    pub(super) actions: Mutex<[Action; 64]>,
    pub(super) options: Options,
    /// The command that runs a program, without options, for the guest's own execve.
    pub(super) command: Vec<OsString>,
    pub(super) paths: Paths,
    /// Path of the program as the guest knows it.
    pub(super) program: PathBuf,
    pub(super) argv: Vec<Vec<u8>>,
    /// The auxiliary vector, as it lies on the first stack.
    pub(super) auxv: Vec<u8>,
    pub(super) features: Features,
    /// Address of the code a signal handler returns to.
    pub(super) trampoline: u64,
    /// What the first thread ended with.
    pub(super) status: AtomicI32,
    /// Instructions of threads that have ended.
    pub(super) instructions: AtomicU64,
    pub(super) threads: Mutex<Vec<Arc<Pending>>>,
    /// Numbers of unknown system calls that were named on standard error.
    pub(super) unknown: Mutex<BTreeSet<u64>>,
    /// What the translator did in threads that have ended.
    pub(super) translation: Mutex<Translation>,
    /// Where instructions are spent, with `--profile`.
    pub(super) profile: Option<Profile>,
    /// Where perf learns of translated blocks, with `--perf-map`.
    pub(super) perf_map: Option<PerfMap>,
    /// The process is about to end: no thread interprets any more.
    pub(super) ending: AtomicBool,
}

impl Process {
    /// Tells all threads that fixed code changed.
    pub(super) fn code_changed(&self) {
        for thread in lock(&self.threads).iter() {
            thread.attention.store(true, Ordering::Release);
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

/// Loads a program and its interpreter, and builds the first stack.
pub(super) fn load(
    (options, command): (Options, Vec<OsString>),
    program: &Path,
    argv: Vec<Vec<u8>>,
    envp: &[Vec<u8>],
) -> Result<(Arc<Process>, Start)> {
    let paths = Paths::new(options.sysroot.clone());
    let window = WINDOW_GIB.iter().find_map(|gib| raw::reserve(gib << 30)).ok_or_else(|| {
        Error::new(Kind::Memory, "cannot reserve even 16 GiB of addresses for the guest")
    })?;
    let mut space = Space::new(window);
    let main = load_image(&mut space, &paths.resolve(program), program)?;
    let interpreter = match &main.elf.interpreter {
        Some(name) => {
            let host = paths.resolve(Path::new(name));
            Some(load_image(&mut space, &host, Path::new(name)).map_err(|e| {
                e.in_context(format!("{}: its interpreter {name}", program.display()))
            })?)
        }
        None => None,
    };
    let end = main.elf.segments.iter().map(|s| s.address + s.memory_len).max().unwrap_or(0);
    let heap = page_up(end + main.bias) + PAGE;
    space.brk = (heap, heap);
    let trampoline = map_trampoline(&mut space)?;
    let features = Features::ALL;
    let entry = main.elf.entry + main.bias;
    let auxiliary = Auxiliary {
        headers: if main.elf.headers_address == 0 {
            0
        } else {
            main.elf.headers_address + main.bias
        },
        headers_count: main.elf.headers_count,
        base: interpreter.as_ref().map_or(0, |i| i.bias),
        entry,
        features,
    };
    let name = program.as_os_str().as_bytes();
    let stack_len = options.stack_len;
    let (sp, auxv) = first_stack(&mut space, stack_len, &argv, envp, name, &auxiliary)?;
    let pc = interpreter.map_or(entry, |i| i.elf.entry + i.bias);
    let profile = options.profile.is_some().then(Profile::default);
    let perf_map = options.perf_map.then(PerfMap::create).transpose()?;
    let process = Process {
        window,
        changes: space.changes.clone(),
        space: Arc::new(Mutex::new(space)),
        actions: Mutex::new([Action::default(); 64]),
        options,
        command,
        paths,
        program: std::path::absolute(program).unwrap_or_else(|_| program.into()),
        argv,
        auxv,
        features,
        trampoline,
        status: AtomicI32::new(0),
        instructions: AtomicU64::new(0),
        threads: Mutex::new(Vec::new()),
        unknown: Mutex::new(BTreeSet::new()),
        translation: Mutex::default(),
        profile,
        perf_map,
        ending: AtomicBool::new(false),
    };
    Ok((Arc::new(process), Start { pc, sp }))
}

fn load_image(space: &mut Space, host: &Path, guest: &Path) -> Result<Image> {
    let shown = guest.display();
    let io = |e: std::io::Error| Error::with_source(Kind::Io, format!("cannot read {shown}"), e);
    let file = File::open(host).map_err(io)?;
    let bytes = std::fs::read(host).map_err(io)?;
    let elf = elf::parse(&bytes).map_err(|e| of_program(&shown, e))?;
    let low = elf.segments[0].address & !(PAGE - 1);
    let last = elf.segments[elf.segments.len() - 1];
    let len = page_up(last.address + last.memory_len - low);
    let wanted = if elf.position_independent { space.window.len() / 8 } else { low };
    let bias = place(space, wanted, len, elf.position_independent)
        .ok_or_else(|| Error::new(Kind::Memory, format!("{shown}: no room at {wanted:#x}")))?
        .wrapping_sub(low);
    for segment in &elf.segments {
        load_segment(space, &file, segment, bias, &shown.to_string())
            .ok_or_else(|| Error::new(Kind::Memory, format!("{shown}: cannot map a segment")))?;
    }
    Ok(Image { elf, bias })
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
    let (page, skew) = (start & !(PAGE - 1), start % PAGE);
    let flags = MAP_PRIVATE | MAP_FIXED;
    let file_end = start + s.file_len;
    let memory_end = page_up(start + s.memory_len);
    // A file whose offset does not agree with its address is copied instead of mapped.
    let mappable = s.offset % PAGE == skew && s.file_len > 0;
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

/// The page signal handlers return to: `ori $a7, $zero, 139` (rt_sigreturn), `syscall 0`.
fn map_trampoline(space: &mut Space) -> Result<u64> {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS;
    let request =
        Request { at: 0, len: PAGE, prot: 7, flags, fd: -1, offset: 0, name: "[sigreturn]" };
    let no_room = || Error::new(Kind::Memory, "no room for the signal return page");
    let at = u64::try_from(space.map(&request)).map_err(|_| no_room())?;
    space.window.store::<u32>(at, 0x0382_2c0b).ok_or_else(no_room)?;
    space.window.store::<u32>(at + 4, 0x002b_0000).ok_or_else(no_room)?;
    space.protect(at, PAGE, 5);
    Ok(at)
}

fn first_stack(
    space: &mut Space,
    stack_len: u64,
    argv: &[Vec<u8>],
    envp: &[Vec<u8>],
    name: &[u8],
    auxiliary: &Auxiliary,
) -> Result<(u64, Vec<u8>)> {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS;
    let request =
        Request { at: 0, len: stack_len, prot: 3, flags, fd: -1, offset: 0, name: "[stack]" };
    let no_room = || Error::new(Kind::Memory, "arguments and environment do not fit the stack");
    let bottom = u64::try_from(space.map(&request)).map_err(|_| no_room())?;
    let top = bottom + stack_len;
    super::stack::build(&space.window, bottom, top, argv, envp, name, auxiliary).ok_or_else(no_room)
}

/// The first program's environment: the host's, as bytes, with the changes that options ask for.
pub(super) fn environment(options: &Options) -> Vec<Vec<u8>> {
    let name = |setting: &OsString| {
        let name = setting.as_bytes().split(|&b| b == b'=').next().unwrap_or_default();
        OsStr::from_bytes(name).to_owned()
    };
    let mut variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
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
