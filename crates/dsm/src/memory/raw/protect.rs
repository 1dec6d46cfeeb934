//! What the program's view of a segment permits, page by page.
//!
//! Two ways, one meaning. *userfaultfd in SIGBUS mode*: an absent page or a write to a protected
//! one is a SIGBUS in the thread that did it; pages are put in, protected and taken away without
//! splitting mappings, so any number of pages may alternate. *mprotect*: works everywhere, but each
//! change of protection splits a mapping, and `vm.max_map_count` (65,530 by default) ends it at
//! some 32,000 alternating pages.
//!
//! Invariants
//! - A range of userfaultfd's pages is filled and touched through the frames before it is put in.
//!   Checked by `a_raw_counter_loses_no_increment_under_either_mechanism`,
//!   `more_than_one_gib_of_alternating_pages`.
//! - A protection is raised only after the page's bytes are there, lowered before they change.
//!   Checked by `a_raw_counter_loses_no_increment_under_either_mechanism`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::mm::{Advice, MprotectFlags, UserfaultfdFlags, madvise, mprotect, userfaultfd};

use super::map::Memory;
use crate::core::frames::Permission;

const API: u64 = 0xc018_aa3f;
const REGISTER: u64 = 0xc020_aa00;
const WRITE_PROTECT: u64 = 0xc018_aa06;
const CONTINUE: u64 = 0xc020_aa07;
const API_VERSION: u64 = 0xaa;
/// SIGBUS instead of messages, minor faults of shared memory, write protection of shared memory.
const FEATURES: u64 = 1 << 7 | 1 << 10 | 1 << 12;
/// Absent pages, write protection, pages that exist but are not mapped.
const REGISTER_MODES: u64 = 1 | 2 | 4;
const CONTINUE_PROTECTED: u64 = 2;

/// How a view is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// userfaultfd in SIGBUS mode: any number of alternating pages.
    Userfaultfd,
    /// mprotect and SIGSEGV: works everywhere, at most some 32,000 alternating pages.
    Mprotect,
}

impl Mechanism {
    /// Both, the better one first.
    pub const ALL: [Mechanism; 2] = [Mechanism::Userfaultfd, Mechanism::Mprotect];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::Userfaultfd => "userfaultfd",
            Mechanism::Mprotect => "mprotect",
        }
    }
}

/// The protection of one segment's view.
pub(crate) enum Protection {
    Userfaultfd(OwnedFd),
    Mprotect,
}

impl Protection {
    /// Takes every permission away from the whole view, by `mechanism` or, without one, by the
    /// better one that works.
    ///
    /// # Errors
    /// What the system says when no mechanism, or not the one asked for, works.
    pub(crate) fn new(memory: &Memory, mechanism: Option<Mechanism>) -> io::Result<Protection> {
        match mechanism {
            Some(Mechanism::Userfaultfd) => by_userfaultfd(memory),
            Some(Mechanism::Mprotect) => by_mprotect(memory),
            None => by_userfaultfd(memory).or_else(|_| by_mprotect(memory)),
        }
    }

    /// Which mechanism it is.
    pub(crate) fn mechanism(&self) -> Mechanism {
        match self {
            Protection::Userfaultfd(_) => Mechanism::Userfaultfd,
            Protection::Mprotect => Mechanism::Mprotect,
        }
    }

    /// Changes a page-aligned range of the view.
    ///
    /// # Errors
    /// What the system says; ENOMEM from mprotect means that the process has too many mappings.
    pub(crate) fn change(
        &self,
        memory: &Memory,
        offset: usize,
        len: usize,
        from: Permission,
        to: Permission,
    ) -> io::Result<()> {
        let start = memory.view(offset, len);
        match self {
            Protection::Mprotect => protect(start, len, to),
            Protection::Userfaultfd(fd) => match (from, to) {
                (_, Permission::Nothing) => drop_pages(start, len),
                (Permission::Nothing, to) => {
                    let step = rustix::param::page_size();
                    (offset..offset + len).step_by(step).for_each(|at| memory.touch(at));
                    put_in(fd, start, len, to == Permission::Read)
                }
                (_, Permission::Read) => write_protect(fd, start, len, 1),
                (_, Permission::Write) => write_protect(fd, start, len, 0),
            },
        }
    }
}

impl Protection {
    /// Puts one page in again that the view should have with `has`: the kernel may drop pages of a
    /// view at any time (reclaim, `MADV_DONTNEED`), and does not put them back by itself where
    /// userfaultfd is registered for minor faults. A page that is there stays as it is.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn restore(
        &self,
        memory: &Memory,
        offset: usize,
        has: Permission,
    ) -> io::Result<()> {
        let Protection::Userfaultfd(fd) = self else { return Ok(()) };
        let page = rustix::param::page_size();
        let start = memory.view(offset, page);
        memory.touch(offset);
        match has {
            Permission::Nothing => Ok(()),
            Permission::Read => put_in(fd, start, page, true),
            Permission::Write => {
                put_in(fd, start, page, false)?;
                write_protect(fd, start, page, 0)
            }
        }
    }
}

fn by_mprotect(memory: &Memory) -> io::Result<Protection> {
    protect(memory.view(0, memory.len()), memory.len(), Permission::Nothing)?;
    Ok(Protection::Mprotect)
}

fn protect(start: *mut u8, len: usize, to: Permission) -> io::Result<()> {
    let flags = match to {
        Permission::Nothing => MprotectFlags::empty(),
        Permission::Read => MprotectFlags::READ,
        Permission::Write => MprotectFlags::READ | MprotectFlags::WRITE,
    };
    // SAFETY: the range lies in a view (`Memory::view` checked it); the protocol itself never goes
    // through the view, and programs that do are resumed by the fault handler.
    unsafe { mprotect(start.cast(), len, flags) }.map_err(io::Error::from)
}

fn drop_pages(start: *mut u8, len: usize) -> io::Result<()> {
    // SAFETY: the range lies in a view of a shared file: its bytes stay in the file, only the
    // view's page-table entries go.
    unsafe { madvise(start.cast(), len, Advice::LinuxDontNeed) }.map_err(io::Error::from)
}

/// A userfaultfd of the whole view, tried on its first page: kernels before 6.4 cannot put a page
/// in protected.
fn by_userfaultfd(memory: &Memory) -> io::Result<Protection> {
    let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::from_bits_retain(1);
    // SAFETY: the call takes no address.
    let fd = unsafe { userfaultfd(flags) }?;
    let mut api = [API_VERSION, FEATURES, 0];
    control(&fd, API, &mut api)?;
    let start = memory.view(0, memory.len());
    let mut register = [start.addr() as u64, memory.len() as u64, REGISTER_MODES, 0];
    control(&fd, REGISTER, &mut register)?;
    let page = rustix::param::page_size();
    memory.touch(0);
    put_in(&fd, start, page, true)?;
    drop_pages(start, page)?;
    Ok(Protection::Userfaultfd(fd))
}

fn put_in(fd: &OwnedFd, start: *mut u8, len: usize, protected: bool) -> io::Result<()> {
    let mode = if protected { CONTINUE_PROTECTED } else { 0 };
    let mut at = 0;
    while at < len {
        let mut arguments = [start.addr() as u64 + at as u64, (len - at) as u64, mode, 0];
        match control(fd, CONTINUE, &mut arguments) {
            Ok(()) => return Ok(()),
            // Part was mapped before the kernel was interrupted, or met a page that is there.
            Err(e) if e.raw_os_error() == Some(libc::EAGAIN) => {
                at += usize::try_from(arguments[3].cast_signed()).unwrap_or(0);
            }
            Err(e) if e.raw_os_error() == Some(libc::EEXIST) => at += rustix::param::page_size(),
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn write_protect(fd: &OwnedFd, start: *mut u8, len: usize, on: u64) -> io::Result<()> {
    loop {
        let mut arguments = [start.addr() as u64, len as u64, on];
        match control(fd, WRITE_PROTECT, &mut arguments) {
            Err(e) if e.raw_os_error() == Some(libc::EAGAIN) => {}
            done => return done,
        }
    }
}

fn control<const N: usize>(fd: &OwnedFd, call: u64, arguments: &mut [u64; N]) -> io::Result<()> {
    // SAFETY: every call of this module passes the number of words that the kernel reads and writes
    // for it (its size is in the call's number), and addresses of our own view only.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), call as _, arguments.as_mut_ptr()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
