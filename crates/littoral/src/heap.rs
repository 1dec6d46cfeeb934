//! Durable heaps: the transactional engine on a machine's memory devices.
//!
//! Everything of the engine (`littoral-stm`) is reached through this module. On top of it
//! - [`create`] and [`open`] take an opened memory, [`create_on`] and [`open_on`] a machine and the
//!   name of its device; [`words`] says what the device promises;
//! - [`look_on`] opens a pool for reading without changing a byte of its file.
//!
//! ```
//! use littoral::Machine;
//! use littoral::heap::{self, Options, structures::{HashMap, Map}};
//! # let folder = tempfile::tempdir()?;
//! let machine = Machine::in_folder(folder.path())?;
//! let pool = heap::create_on(&machine, "memory", &Options::default())?;
//! let mut thread = pool.thread()?;
//! thread.atomically(|tx| {
//!     let map = HashMap::create(tx, 100)?;
//!     map.insert(tx, 1, 10)?;
//!     tx.set_root("counts", map.at())
//! })?;
//! # drop(thread);
//! drop(pool);
//! let pool = heap::open_on(&machine, "memory")?;
//! let found = pool.thread()?.read_only(|tx| {
//!     let at = tx.root("counts")?.expect("it was named above");
//!     HashMap::open(tx, at)?.get(tx, 1)
//! })?;
//! assert_eq!(found, Some(10));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! No path is opened here: the machine opens the memory, and the promise is what it was found to
//! be.
//!
//! Invariants
//! - Nothing that exists is overwritten; a pool that could not be made leaves no file, and its file
//!   has its name when the pool is whole. Checked by
//!   `a_pool_that_cannot_be_made_leaves_no_file_and_one_that_exists_stays`.

use littoral_base::error::{Category, Class};
use littoral_device::memory::Promise;
use littoral_device::pmem::{AnyDomain, Draft, FileCopy};

pub use littoral_stm::*;

use crate::machine::Machine;

/// A device's failure as a heap's, of the same class.
fn failed(error: littoral_device::Error) -> Error {
    let kind = match error.kind().class() {
        Class::Corrupt => Kind::Foreign,
        Class::Usage => Kind::Usage,
        Class::Unsupported => Kind::Unsupported,
        Class::Environment | Class::Negative | Class::Interrupted => Kind::Device,
    };
    Error::over(kind, "the pool's file", error)
}

/// What stands before an error about the pool of a device: its file, else its name.
fn at<'m>(machine: &'m Machine, device: &'m str) -> impl Fn(Error) -> Error + 'm {
    move |e| match machine.memory_path(device) {
        Ok((_, path)) => e.in_context(path.display()),
        Err(_) => e.in_context(format!("device `{device}`")),
    }
}

/// Makes a pool on memory that holds nothing.
///
/// # Errors
/// `Kind::Usage` when no pool is that small or an option is out of range, `Kind::Foreign` when the
/// memory holds anything.
pub fn create(memory: AnyDomain, options: &Options) -> Result<Pool<AnyDomain>> {
    if !memory.is_blank() {
        let what = "the memory holds something; a pool is made where there is nothing";
        return Err(Error::new(Kind::Foreign, what));
    }
    Pool::create(memory, options)
}

/// Opens a pool after a clean end or a crash, in time independent of its size.
///
/// # Errors
/// `Kind::Foreign`, `Kind::Unsupported` or `Kind::Corrupt` for what is no pool, one of another
/// version, or a damaged one.
pub fn open(memory: AnyDomain) -> Result<Pool<AnyDomain>> {
    Pool::open(memory, Restart::Lazy)
}

/// Makes a pool on a machine's memory device, whose file must not exist yet.
///
/// # Errors
/// As [`create`]; `Kind::Usage` when the file exists, `Kind::Device` when it cannot be made: no
/// file is left then.
pub fn create_on(machine: &Machine, device: &str, options: &Options) -> Result<Pool<AnyDomain>> {
    let (memory, draft) = machine.draft_memory(device).map_err(failed)?;
    let pool = create(memory, options).map_err(at(machine, device))?;
    draft.map_or(Ok(()), Draft::publish).map_err(failed)?;
    Ok(pool)
}

/// Opens the pool on a machine's memory device.
///
/// # Errors
/// As [`open`]; `Kind::Device` when another owner has it, it is read-only, or not there.
pub fn open_on(machine: &Machine, device: &str) -> Result<Pool<AnyDomain>> {
    if let Ok((_, path)) = machine.memory_path(device) {
        // Opening the device would make its file.
        machine_file(path)?;
    }
    let memory = machine.memory(device).map_err(failed)?;
    open(memory).map_err(at(machine, device))
}

/// Refuses a pool whose file is not there.
fn machine_file(path: &std::path::Path) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(_) => Ok(()),
        Err(e) => {
            let what = format!("{}: no pool is there", path.display());
            Err(Error::with_source(Kind::Device, what, e))
        }
    }
}

/// A pool being looked at.
#[derive(Debug)]
pub struct Look {
    /// The pool as a restart would make it, in a copy of this process; every slab is resolved.
    pub pool: Pool<FileCopy>,
    /// What the last session left unfinished, as the file says.
    pub unfinished: Unfinished,
}

/// Opens a pool of a machine's memory device for reading only: what a restart would write stays in
/// this process.
///
/// # Errors
/// As [`open_on`], but for reading.
pub fn look_on(machine: &Machine, device: &str) -> Result<Look> {
    let copy = machine.memory_copy(device, false).map_err(failed)?;
    let unfinished = Unfinished::read(&copy).map_err(at(machine, device))?;
    let pool = Pool::open(copy, Restart::Scan).map_err(at(machine, device))?;
    Ok(Look { pool, unfinished })
}

/// Whether a pool was refused because a process has it open for writing (or looks at it, where it
/// was to be opened for writing).
pub fn is_in_use(error: &Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let busy = cause.downcast_ref::<littoral_device::Error>();
        if busy.is_some_and(|e| e.kind() == littoral_device::Kind::Busy) {
            return true;
        }
        source = cause.source();
    }
    false
}

/// What a pool is used for, also while a process works on it: no lock is taken, nothing is written.
///
/// # Errors
/// As [`look_on`] for the superblock, but that an owner is no hindrance.
pub fn outline_on(machine: &Machine, device: &str) -> Result<Outline> {
    let copy = machine.memory_copy(device, true).map_err(failed)?;
    Outline::read(&copy).map_err(at(machine, device))
}

/// How a pool on a machine's memory device would be made durable, in a word, and what that
/// promises; takes no lock.
///
/// # Errors
/// `Kind::Device` when the file cannot be opened for writing, `Kind::Foreign` as [`open`].
pub fn means_on(machine: &Machine, device: &str) -> Result<(&'static str, Promise)> {
    let (_, path) = machine.memory_path(device).map_err(failed)?;
    AnyDomain::means(path).map_err(failed)
}

/// What a promise means, in words.
pub fn words(promise: Promise) -> &'static str {
    match promise {
        Promise::PowerLoss => "a transaction that returned survives loss of power",
        Promise::DeviceFlush => {
            "a transaction that returned survives loss of power, as far as the drive keeps what it \
             was told to flush"
        }
        Promise::ProcessDeath => {
            "a transaction that returned survives the death of the process; this file system is in \
             memory and loses everything with power"
        }
        Promise::OtherNodes => "a transaction that returned is seen by the other nodes",
        _ => "nothing: the pool ends with the process",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use littoral_device::memory::Domain as _;
    use littoral_device::profile::DeviceKind;
    use littoral_device::profile::machine::{DeviceSpec, MachineSpec, Medium};

    use super::*;

    fn machine(path: &Path, bytes: u64) -> Machine {
        let device = DeviceSpec::new("m", DeviceKind::Memory, Medium::File(path.to_owned()));
        let device = device.with_figure("capacity", bytes.max(4096)).unwrap();
        Machine::of(MachineSpec::one(device), "test")
    }
    fn create_with(path: &Path, bytes: u64, options: &Options) -> Result<Pool<AnyDomain>> {
        create_on(&machine(path, bytes), "m", options)
    }
    fn create(path: &Path, bytes: u64) -> Result<Pool<AnyDomain>> {
        create_with(path, bytes, &Options::default())
    }
    fn open(path: &Path) -> Result<Pool<AnyDomain>> {
        open_on(&machine(path, 1 << 20), "m")
    }
    fn look(path: &Path) -> Result<Look> {
        look_on(&machine(path, 1 << 20), "m")
    }
    fn outline(path: &Path) -> Result<Outline> {
        outline_on(&machine(path, 1 << 20), "m")
    }
    fn means(path: &Path) -> Result<(&'static str, Promise)> {
        means_on(&machine(path, 1 << 20), "m")
    }

    #[test]
    fn a_pool_that_is_not_there_is_not_made_by_opening_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pool");
        let refused = open(&path).unwrap_err();
        assert_eq!(refused.kind(), Kind::Device);
        assert!(refused.to_string().contains("no pool is there") && !path.exists(), "{refused}");
    }

    #[test]
    fn a_pool_that_cannot_be_made_leaves_no_file_and_one_that_exists_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pool");
        assert_eq!(create(&path, 100).unwrap_err().kind(), Kind::Usage);
        assert!(!path.exists());
        let bad = Options { threads_max: 1000, slab_bytes: None };
        assert_eq!(create_with(&path, 1 << 20, &bad).unwrap_err().kind(), Kind::Usage);
        let files_count = || std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(files_count(), 0, "neither a pool nor a draft");
        drop(create(&path, 1 << 20).unwrap());
        let before = std::fs::read(&path).unwrap();
        let taken = create(&path, 1 << 20).unwrap_err();
        assert!(taken.kind() == Kind::Usage && !is_in_use(&taken), "{taken}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert_eq!(files_count(), 1);
    }

    #[test]
    fn looking_changes_nothing_and_waits_for_no_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pool");
        let pool = create(&path, 1 << 20).unwrap();
        assert_eq!(open(&path).unwrap_err().kind(), Kind::Device, "opened twice");
        let refused = look(&path).unwrap_err();
        assert_eq!(refused.kind(), Kind::Device);
        assert!(is_in_use(&refused) && is_in_use(&open(&path).unwrap_err()));
        assert_eq!(outline(&path).unwrap().slabs_count, pool.info().unwrap().slabs_count);
        assert_eq!(means(&path).unwrap().0, pool.domain().name());
        assert_eq!(means(&path).unwrap().1, pool.domain().promise());
        std::mem::forget(pool.thread().unwrap());
        drop(pool);
        let before = std::fs::read(&path).unwrap();
        assert_eq!(look(&path).unwrap().unfinished.threads_count, 1);
        assert_eq!(look(&path).unwrap().unfinished.threads_count, 1, "still: nothing restarted");
        assert_eq!(std::fs::read(&path).unwrap(), before);
        open(&path).unwrap();
        assert_eq!(look(&path).unwrap().unfinished.threads_count, 0);
    }

    #[test]
    fn pools_cut_short_grown_foreign_or_of_another_version_are_refused_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pool");
        drop(create(&path, 1 << 20).unwrap());
        let good = std::fs::read(&path).unwrap();
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        let cases: [(&str, Vec<u8>, Kind, &str); 8] = [
            ("empty", Vec::new(), Kind::Foreign, "whole number of lines"),
            ("cut inside its superblock", good[..128].to_vec(), Kind::Foreign, "too few"),
            (
                "cut in half",
                good[..1 << 19].to_vec(),
                Kind::Corrupt,
                "1048576 bytes, its file 524288",
            ),
            (
                "cut to an odd length",
                good[..777_777].to_vec(),
                Kind::Foreign,
                "whole number of lines",
            ),
            ("grown", [&good[..], &[0; 4096]].concat(), Kind::Corrupt, "its file 1052672"),
            ("of another program", vec![7; 1 << 20], Kind::Foreign, "another program's file"),
            ("of the version before", with(8, 1), Kind::Unsupported, "pool format 1"),
            ("of a later version", with(8, 9), Kind::Unsupported, "pool format 9"),
        ];
        for (name, bytes, kind, words) in cases {
            std::fs::write(&path, &bytes).unwrap();
            let all = [open(&path).map(drop), look(&path).map(drop), outline(&path).map(drop)];
            for refused in all {
                let refused = refused.unwrap_err();
                assert_eq!(refused.kind(), kind, "{name}: {refused}");
                let text = refused.to_string();
                assert!(text.contains(words) && text.contains("a.pool"), "{name}: {text}");
            }
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "{name}");
        }
    }
}
