//! A mapped file or anonymous region, seen by the rest of the crate only as a slice of atomic
//! words.
//!
//! Loads and stores are atomic words, so races with another thread are defined behaviour. The
//! region is mapped read-write from `Mapping::map` until drop and begins at a page.
//!
//! Invariants
//! - A mapping is a positive number of whole lines, and so of whole words, long. Checked by
//!   `bad_lengths_missing_files_and_missing_platforms_are_named`.
//! - A file is locked exclusively (flock) for as long as it is mapped: one owner at a time. Checked
//!   by `a_file_has_one_owner_and_is_never_created_over`.
//! - A child that this process forks does not inherit a shared mapping ([`Mapping::map`] asks the
//!   kernel for that), and [`Mapping::owner_before_fork`] tells it so; its drop neither unmaps nor
//!   unlocks what is the parent's. Checked by
//!   `a_forked_child_is_told_and_has_no_mapping_of_the_file`,
//!   `a_child_that_drops_the_mapping_keeps_the_parents_lock_and_its_own_memory`.
//! - A file whose msync failed is read from its device by the next owner: the kernel may have
//!   marked pages clean that it could not write, and would show them. Checked by
//!   `what_an_msync_failed_to_write_is_not_left_in_the_page_cache`.
//! - A file that is mapped for stores has room for all of its bytes: a store to a hole of a file on
//!   a full file system would end the process (SIGBUS). Checked by
//!   `a_file_with_holes_has_its_room_once_it_is_open`.
//! - A file that is created is a draft until its owner publishes it, and is synchronised before.
//!   Checked by `creation_synchronises_the_file_and_its_folder`.
//!
//! Fault model: another process that truncates the file while it is mapped makes a load fault
//! (SIGBUS); the lock keeps well-behaved programs from that.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use littoral_base::mutant;
use rustix::fs::{FlockOperation, flock};
use rustix::mm::{
    Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, mmap_anonymous, msync, munmap,
};

use super::super::draft::{Draft, reserve, reserve_holes};
use super::super::sink::{Event, note};
use crate::error::{Error, Kind, Result};
use crate::owned_file::lock;

/// A mapped region; see the module's page.
#[derive(Debug)]
pub(in crate::pmem) struct Mapping {
    base: NonNull<AtomicU64>,
    len: usize,
    file: Option<File>,
    is_dax: bool,
    /// An msync failed: what the page cache shows need not be on the device.
    is_unsure: AtomicBool,
    /// Of a shared mapping: what tells a forked child from its parent.
    birth: Birth,
}

/// A word that reads [`Birth::SAME`] in the process that made it and zero in a child it forked.
///
/// The page is wiped by the kernel on fork, whichever system call forks, so asking costs a load.
#[derive(Debug)]
struct Birth {
    word: NonNull<AtomicU64>,
    /// The process that made the mapping; none for a private one, which a child may go on using.
    process: Option<u32>,
}

/// What private mappings point at.
static EVER: AtomicU64 = AtomicU64::new(Birth::SAME);

impl Birth {
    const SAME: u64 = 1;
    /// The kernel wipes no page on fork (before Linux 4.14): the process is asked for its number.
    const ASK: u64 = 2;
    const PAGE_BYTES: usize = 4096;

    fn private() -> Birth {
        Birth { word: NonNull::from(&EVER), process: None }
    }

    fn shared() -> rustix::io::Result<Birth> {
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing; the advice
        // is given on that mapping alone.
        let (page, wiped) = unsafe {
            let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            let page = mmap_anonymous(std::ptr::null_mut(), Self::PAGE_BYTES, prot, flags)?;
            (page, madvise(page, Self::PAGE_BYTES, Advice::LinuxWipeOnFork).is_ok())
        };
        let word: NonNull<AtomicU64> =
            NonNull::new(page.cast()).expect("invariant: a mapping is not at address zero");
        // SAFETY: the page was just mapped read-write, is aligned, and zero bytes are a u64.
        let as_word = unsafe { word.as_ref() };
        as_word.store(if wiped { Self::SAME } else { Self::ASK }, Relaxed);
        Ok(Birth { word, process: Some(std::process::id()) })
    }

    #[inline(always)]
    fn other_process(&self) -> Option<u32> {
        // SAFETY: the word is static or on a page that stays mapped for the life of `self`.
        let word = unsafe { self.word.as_ref() }.load(Relaxed);
        if word == Self::SAME { None } else { self.ask(word) }
    }

    #[cold]
    #[inline(never)]
    fn ask(&self, word: u64) -> Option<u32> {
        let is_same = word == Self::ASK && self.process == Some(std::process::id());
        self.process.filter(|_| !is_same)
    }
}

impl Drop for Birth {
    fn drop(&mut self) {
        if self.process.is_some() {
            // SAFETY: the page is this value's own, in a child too; no reference outlives `self`.
            let unmapped = unsafe { munmap(self.word.as_ptr().cast(), Self::PAGE_BYTES) };
            debug_assert!(unmapped.is_ok(), "munmap of our own page");
        }
    }
}

// SAFETY: the region is reached only as atomic words and system calls on a range; nothing in it is
// tied to a thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; shared access is atomic.
unsafe impl Sync for Mapping {}

fn io(what: &str, path: &Path, source: impl Into<std::io::Error>) -> Error {
    let source = source.into();
    let kind = match source.kind() {
        ErrorKind::WouldBlock => Kind::Busy,
        _ => Kind::Io,
    };
    Error::with_source(kind, format!("{}: {what}", path.display()), source)
}

impl Mapping {
    /// Zeroed memory that no file stands behind.
    ///
    /// # Errors
    /// `Kind::IllegalRequest` for no bytes, `Kind::Io` when the system has no such memory.
    pub(in crate::pmem) fn anonymous(len: usize) -> Result<Mapping> {
        check_len(len, Path::new("anonymous memory"))?;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let base = base.map_err(|e| io("map", Path::new("anonymous memory"), e))?;
        let base = NonNull::new(base.cast()).expect("invariant: a mapping is not at address zero");
        let (is_unsure, birth) = (AtomicBool::new(false), Birth::private());
        Ok(Mapping { base, len, file: None, is_dax: false, is_unsure, birth })
    }

    /// Asks the system for large pages, as a DAX mapping has them; a hint, whatever comes of it.
    pub(in crate::pmem) fn prefer_large_pages(self) -> Mapping {
        // SAFETY: the region is this mapping, and the advice changes nothing of its contents.
        let hinted = unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxHugepage) };
        // A kernel without large pages refuses; small ones hold the same.
        let _ = hinted;
        self
    }

    /// Creates the file `path` of `len` zero bytes and maps it.
    ///
    /// # Errors
    /// `Kind::Exists`, or `Kind::Io`; an unfinished file is removed.
    pub(in crate::pmem) fn create(path: &Path, len: usize) -> Result<Mapping> {
        let (mapping, draft) = Self::draft(path, len)?;
        draft.publish()?;
        Ok(mapping)
    }

    /// As [`Mapping::create`], of a file that gets its name when the draft is published.
    ///
    /// # Errors
    /// As [`Mapping::create`].
    pub(in crate::pmem) fn draft(path: &Path, len: usize) -> Result<(Mapping, Draft)> {
        check_len(len, path)?;
        let (draft, file) = Draft::begin(path)?;
        reserve(&file, len as u64).map_err(|e| io("reserve space", path, e))?;
        let is_whole = |m: std::fs::Metadata| m.len() == len as u64;
        debug_assert!(file.metadata().is_ok_and(is_whole), "a file has its length before its name");
        file.sync_all().map_err(|e| io("synchronise the new file", path, e))?;
        Ok((Self::map(path, file, len)?, draft))
    }

    /// Maps the whole of an existing file.
    ///
    /// # Errors
    /// `Kind::Busy` when another owner holds it, `Kind::Io` when it cannot be opened for writing,
    /// `Kind::Foreign` when its length is not whole words.
    pub(in crate::pmem) fn open(path: &Path) -> Result<Mapping> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|e| io("open for reading and writing", path, e))?;
        let len = whole_lines(path, &file)?;
        Self::map(path, file, len)
    }

    /// Maps a copy of an existing file that only this process sees; the file is opened for reading
    /// and stays as it is. Other readers may hold it, an owner not.
    ///
    /// # Errors
    /// As `open`, for reading.
    pub(in crate::pmem) fn open_copy(path: &Path) -> Result<Mapping> {
        let file = open_to_read(path).map_err(|e| io("open for reading", path, e))?;
        lock(&file, false).map_err(|e| io("is in use by another owner", path, e))?;
        Self::copy_of(path, file)
    }

    /// Maps an existing file for reading beside an owner that may be changing it: no lock is taken.
    ///
    /// # Errors
    /// As `open_copy`, but for the lock.
    pub(in crate::pmem) fn open_beside(path: &Path) -> Result<Mapping> {
        let file = open_to_read(path).map_err(|e| io("open for reading", path, e))?;
        Self::copy_of(path, file)
    }

    fn copy_of(path: &Path, file: File) -> Result<Mapping> {
        let len = whole_lines(path, &file)?;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe {
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            mmap(std::ptr::null_mut(), len, prot, flags, &file, 0)
        };
        let base = base.map_err(|e| io("map", path, e))?;
        let base = NonNull::new(base.cast()).expect("invariant: a mapping is not at address zero");
        let (is_unsure, birth) = (AtomicBool::new(false), Birth::private());
        Ok(Mapping { base, len, file: Some(file), is_dax: false, is_unsure, birth })
    }

    /// Whether a shared mapping of the file would be of DAX memory, and the file, opened for
    /// reading and writing without a lock.
    ///
    /// # Errors
    /// `Kind::Io` when it cannot be opened for writing, `Kind::Foreign` as `open`.
    pub(in crate::pmem) fn probe(path: &Path) -> Result<(bool, File)> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|e| io("open for reading and writing", path, e))?;
        let len = whole_lines(path, &file)?;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing; it is
        // unmapped at once and never touched.
        let is_dax = unsafe {
            let start = mmap(std::ptr::null_mut(), len, ProtFlags::READ, sync_flags(), &file, 0);
            start.is_ok_and(|start| munmap(start, len).is_ok())
        };
        Ok((is_dax, file))
    }

    fn map(path: &Path, file: File, len: usize) -> Result<Mapping> {
        lock(&file, true).map_err(|e| io("is in use by another owner", path, e))?;
        reserve_holes(&file, len as u64).map_err(|e| io("reserve space for its holes", path, e))?;
        let birth = Birth::shared().map_err(|e| io("map a page", path, e))?;
        let shared = |flags| {
            // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
            unsafe {
                let prot = ProtFlags::READ | ProtFlags::WRITE;
                mmap(std::ptr::null_mut(), len, prot, flags, &file, 0)
            }
        };
        let (base, is_dax) = match shared(sync_flags()) {
            Ok(base) => (base, true),
            Err(_) => (shared(MapFlags::SHARED).map_err(|e| io("map", path, e))?, false),
        };
        let base = NonNull::new(base.cast()).expect("invariant: a mapping is not at address zero");
        let is_unsure = AtomicBool::new(false);
        let mapping = Mapping { base, len, file: Some(file), is_dax, is_unsure, birth };
        mapping.keep_from_children(path)?;
        Ok(mapping)
    }

    /// A child that could store through this mapping would overwrite the parent's work.
    fn keep_from_children(&self, path: &Path) -> Result<()> {
        // SAFETY: the advice is given on this mapping alone and changes nothing of its contents.
        let kept = unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxDontFork) };
        kept.map_err(|e| io("keep the mapping from forked children", path, e))
    }

    /// The process that made this mapping, if the calling one is a child forked since.
    #[inline(always)]
    pub(in crate::pmem) fn owner_before_fork(&self) -> Option<u32> {
        self.birth.other_process()
    }

    /// The region as words.
    #[inline(always)]
    pub(in crate::pmem) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the region is mapped read-write for the life of `self`, page aligned, `len` bytes
        // long, and is only ever reached as atomic words; every bit pattern is a u64.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len / 8) }
    }

    /// Bytes mapped.
    #[inline(always)]
    pub(in crate::pmem) fn len(&self) -> usize {
        self.len
    }

    /// Whether the mapping is of DAX memory (MAP_SYNC was granted).
    pub(in crate::pmem) fn is_dax(&self) -> bool {
        self.is_dax
    }

    /// The file behind the mapping.
    pub(in crate::pmem) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Writes the pages of a page-aligned range to the file's device and waits for them.
    ///
    /// # Errors
    /// `Kind::Io` when the system reports a failed write-back.
    pub(in crate::pmem) fn sync(&self, offset: usize, len: usize) -> Result<()> {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "range in the mapping");
        if len == 0 {
            return Ok(());
        }
        // SAFETY: the range lies in the mapping (checked above); msync reads it and changes
        // nothing.
        let done = unsafe {
            let start = self.base.as_ptr().cast::<u8>().add(offset);
            msync(start.cast(), len, MsyncFlags::SYNC)
        };
        note(Event::Sync(offset, len));
        if done.is_err() {
            self.is_unsure.store(true, Relaxed);
        }
        let what = || format!("msync of {len} bytes at offset {offset}");
        done.map_err(|e| Error::with_source(Kind::Io, what(), std::io::Error::from(e)))
    }

    /// After a failed msync, drops what the page cache holds of the file, which is mapped no more.
    fn forget_cached(&self) {
        let is_unsure = self.is_unsure.load(Relaxed) && !mutant!("msync_failed_pages_kept");
        let Some(file) = self.file.as_ref().filter(|_| is_unsure) else { return };
        let dropped = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
        note(Event::Forgotten);
        if let Err(e) = dropped {
            log::warn!("the page cache may show what is not on the device: {e}");
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.owner_before_fork().is_some() {
            // Nothing of it is mapped here, and the lock is the parent's.
            return;
        }
        // SAFETY: `base` and `len` are what mmap returned and was given; no reference outlives
        // `self`.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping");
        // Pages are dropped only where they are mapped no more, and before the next owner comes.
        self.forget_cached();
        // A forked child may hold the file open, and with it the lock, for longer. What readers
        // share is left to the last of them.
        if let Some(file) = self.file.as_ref().filter(|_| self.birth.process.is_some()) {
            let unlocked = flock(file, FlockOperation::Unlock);
            debug_assert!(unlocked.is_ok(), "unlocking our own file");
        }
    }
}

/// MAP_SYNC succeeds only on DAX memory, where a fenced line survives loss of power.
fn sync_flags() -> MapFlags {
    MapFlags::from_bits_retain(libc::MAP_SHARED_VALIDATE as u32 | libc::MAP_SYNC as u32)
}

/// Opens a file for reading. A pipe is opened at once too, whether it has a writer or not, and then
/// refused by its length.
fn open_to_read(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// A file's length, which must be whole lines.
fn whole_lines(path: &Path, file: &File) -> Result<usize> {
    let about = file.metadata().map_err(|e| io("ask its length", path, e))?;
    if about.is_dir() {
        return Err(Error::new(Kind::Foreign, format!("{}: is a folder", path.display())));
    }
    let len = usize::try_from(about.len()).expect("invariant: a file fits the address space");
    if len == 0 || len % 64 != 0 {
        let text =
            format!("{}: {len} bytes is no whole number of lines of 64 bytes", path.display());
        return Err(Error::new(Kind::Foreign, text));
    }
    Ok(len)
}

fn check_len(len: usize, path: &Path) -> Result<()> {
    if len > 0 && len.is_multiple_of(64) {
        return Ok(());
    }
    let text = format!("{}: {len} bytes is no positive multiple of 64", path.display());
    Err(Error::new(Kind::IllegalRequest, text))
}

#[cfg(test)]
mod tests {
    use super::super::super::sink::{Event, taken};
    use super::*;
    use crate::raw::fork::in_child;

    #[test]
    fn a_forked_child_is_told_and_has_no_mapping_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mapping = Mapping::create(&path, 8192).unwrap();
        assert_eq!(mapping.owner_before_fork(), None);
        let told = in_child(|| {
            let owner = mapping.owner_before_fork();
            // Whether a page is mapped at an address can be asked without touching it.
            let mut resident = [0u8; 2];
            let start = mapping.base.as_ptr().cast();
            // SAFETY: mincore writes one byte a page of the range into `resident`.
            let mapped = unsafe { libc::mincore(start, 8192, resident.as_mut_ptr()) } == 0;
            i32::from(
                owner == Some(rustix::process::getppid().unwrap().as_raw_nonzero().get() as u32),
            ) + 2 * i32::from(mapped)
        });
        assert_eq!(told, 1, "told its parent's number, and nothing is mapped");
        let private = Mapping::anonymous(4096).unwrap();
        assert_eq!(in_child(|| i32::from(private.owner_before_fork().is_some())), 0);
    }

    #[test]
    fn a_child_that_drops_the_mapping_keeps_the_parents_lock_and_its_own_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mapping = Mapping::create(&path, 8192).unwrap();
        let at = mapping.base.as_ptr();
        let status = in_child(|| {
            // The child maps memory of its own where the parent's file lies.
            // SAFETY: nothing is mapped there in this child.
            let own = unsafe {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
                libc::mmap(at.cast(), 8192, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
            };
            if own != at.cast() {
                return 9;
            }
            // SAFETY: a copy of the value that nothing else uses in this process.
            drop(unsafe { std::ptr::read(&mapping) });
            // SAFETY: mapped above, and the drop must have left it.
            unsafe { std::ptr::write_volatile(at.cast::<u64>(), 5) };
            0
        });
        assert_eq!(status, 0);
        assert_eq!(Mapping::open(&path).unwrap_err().kind(), Kind::Busy, "still the parent's");
    }

    #[test]
    fn a_child_that_lives_on_does_not_keep_the_file_from_the_next_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mapping = Mapping::create(&path, 8192).unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        // SAFETY: as above; this child waits for the pipe's other end to close.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            drop(writer);
            let mut byte = [0];
            let _ = rustix::io::read(&reader, &mut byte);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) };
        }
        drop(reader);
        drop(mapping);
        Mapping::open(&path).unwrap();
        drop(writer);
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) }, pid);
    }

    #[test]
    fn what_an_msync_failed_to_write_is_not_left_in_the_page_cache() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        drop(Mapping::create(&path, 8192).unwrap());
        // The system refuses to synchronise from the middle of a page.
        let cases: [(usize, &[Event]); 2] = [(0, &[]), (64, &[Event::Forgotten])];
        for (from, wanted) in cases {
            let mapping = Mapping::open(&path).unwrap();
            assert_eq!(mapping.sync(from, 4096).is_err(), !wanted.is_empty(), "from {from}");
            taken();
            drop(mapping);
            assert_eq!(taken(), wanted);
        }
    }

    #[test]
    fn a_file_with_holes_has_its_room_once_it_is_open() {
        use std::io::Write as _;
        use std::os::unix::fs::{FileExt as _, MetadataExt as _};
        const LEN: u64 = 1 << 20;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = File::create_new(&path).unwrap();
        file.set_len(LEN).unwrap();
        file.write_all_at(&7u64.to_le_bytes(), 8192).unwrap();
        let room = || path.metadata().unwrap().blocks() * 512;
        if room() >= LEN || reserve(&tempfile::tempfile_in(dir.path()).unwrap(), 1).is_err() {
            let why = "the folder's file system has no files with holes";
            let _ = writeln!(std::io::stderr(), "NOT RUN: pmem holes: {why}");
            return;
        }
        drop(Mapping::open_copy(&path).unwrap());
        assert!(room() < LEN, "a file that is only looked at stays as it is");
        let mapping = Mapping::open(&path).unwrap();
        assert!(room() >= LEN, "{} of {LEN} bytes", room());
        let words = [0, 8192 / 8, LEN as usize / 8 - 1].map(|i| mapping.words()[i].load(Relaxed));
        assert_eq!(words, [0, 7, 0], "what the file held");
    }

    #[test]
    fn creation_synchronises_the_file_and_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        taken();
        Mapping::create(&dir.path().join("file"), 4096).unwrap();
        assert_eq!(taken(), [Event::Named]);
    }
}
