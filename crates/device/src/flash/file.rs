//! Opening a file or block device for small reads: size, alignment, direct access.
//!
//! Invariants
//! - Direct access (`O_DIRECT`) is used only where the kernel states its alignment
//!   (`statx(STATX_DIOALIGN)`). Checked by
//!   `direct_access_goes_with_a_stated_alignment_and_nothing_is_written`.
//! - A file is opened read-only; nothing here can change it. Checked by
//!   `direct_access_goes_with_a_stated_alignment_and_nothing_is_written`.
//! - A path is resolved once. Direct access and clones are made from the open file, so that a file
//!   renamed over the path is never read. Checked by
//!   `a_device_reads_the_file_it_opened_though_another_takes_its_name`.
//!
//! Callers: the pread pool and io_uring.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use littoral_base::mutant;
use rustix::fs::{AtFlags, OFlags, StatxFlags};

use crate::error::{Error, Kind, Result};

/// Whether reads bypass the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direct {
    /// Where the file allows it.
    #[default]
    Auto,
    /// Always; opening fails where the file does not allow it.
    Yes,
    /// Never: reads go through the page cache.
    No,
}

/// An open file or block device.
#[derive(Debug)]
pub struct Source {
    /// The open file.
    pub file: File,
    /// Its path, for messages.
    pub path: PathBuf,
    /// Readable bytes.
    pub len: u64,
    /// Whether reads bypass the page cache.
    pub direct: bool,
    /// Addresses are multiples of this many bytes: the alignment of direct access, else 1.
    pub align_bytes: u32,
}

impl Source {
    /// Opens `path` for reading.
    ///
    /// # Errors
    /// `Kind::Io` when it cannot be opened; `Kind::IllegalRequest` when it is a directory or empty;
    /// `Kind::Unsupported` when direct access is demanded and not possible.
    pub fn open(path: &Path, direct: Direct) -> Result<Source> {
        let context = |what: &str| format!("{what} {}", path.display());
        let io = |what: &str, e: std::io::Error| Error::with_source(Kind::Io, context(what), e);
        let mut file = File::open(path).map_err(|e| io("opening", e))?;
        let meta = file.metadata().map_err(|e| io("reading the size of", e))?;
        if !(meta.is_file() || meta.file_type().is_block_device()) {
            let message = context("neither a file nor a block device:");
            return Err(Error::new(Kind::IllegalRequest, message));
        }
        let len = file.seek(SeekFrom::End(0)).map_err(|e| io("reading the size of", e))?;
        if len == 0 {
            return Err(Error::new(Kind::IllegalRequest, context("no bytes to read in")));
        }
        let path = path.to_owned();
        let plain = Source { file, path, len, direct: false, align_bytes: 1 };
        match direct {
            Direct::No => Ok(plain),
            Direct::Auto => Ok(plain.make_direct().unwrap_or_else(|plain| plain)),
            Direct::Yes => plain.make_direct().map_err(|plain| {
                let what = "direct access (O_DIRECT) is not possible on";
                let message = format!("{what} {}; open it with Direct::Auto", plain.path.display());
                Error::new(Kind::Unsupported, message)
            }),
        }
    }

    /// The same open file under a descriptor of its own.
    ///
    /// # Errors
    /// `Kind::Io` when the process has no descriptor left.
    pub fn try_clone(&self) -> Result<Source> {
        if mutant!("device_file_opened_anew") {
            let direct = if self.direct { Direct::Yes } else { Direct::No };
            return Source::open(&self.path, direct);
        }
        let file = self.file.try_clone().map_err(|e| {
            let what = format!("another descriptor of {}", self.path.display());
            Error::with_source(Kind::Io, what, e)
        })?;
        let (len, direct, align_bytes) = (self.len, self.direct, self.align_bytes);
        Ok(Source { file, path: self.path.clone(), len, direct, align_bytes })
    }

    fn make_direct(self) -> std::result::Result<Source, Source> {
        let Some(align_bytes) = direct_alignment(&self.file) else { return Err(self) };
        let is_set = rustix::fs::fcntl_getfl(&self.file)
            .and_then(|flags| rustix::fs::fcntl_setfl(&self.file, flags | OFlags::DIRECT))
            .is_ok();
        if is_set { Ok(Source { direct: true, align_bytes, ..self }) } else { Err(self) }
    }
}

/// The alignment of direct reads, `None` when the file system does not offer them. Buffers are page
/// aligned here, so only the offset's alignment matters.
fn direct_alignment(file: &File) -> Option<u32> {
    let stat =
        rustix::fs::statx(file.as_fd(), "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let stated = stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    let (memory, offset) = (stat.stx_dio_mem_align, stat.stx_dio_offset_align);
    let usable = stated && offset.is_power_of_two() && offset <= 4096 && memory <= 4096;
    usable.then_some(offset)
}

/// Refuses options no device can have.
pub(crate) fn check_options(slots: u32, read_bytes_max: u32, slots_max: u32) -> Result<()> {
    let bad = |m: String| Err(Error::new(Kind::IllegalRequest, m));
    if slots == 0 || slots > slots_max {
        let nearest = slots.clamp(1, slots_max);
        return bad(format!(
            "{slots} slots: wanted 1 to {slots_max}; nearest legal value {nearest}"
        ));
    }
    const LONGEST: u32 = 1 << 24;
    if read_bytes_max == 0 || read_bytes_max > LONGEST {
        let nearest = read_bytes_max.clamp(1, LONGEST);
        return bad(format!(
            "longest read {read_bytes_max} B: wanted 1 to {LONGEST}; nearest legal value {nearest}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_empty_files_and_absent_files_are_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let e = Source::open(dir.path(), Direct::Auto).unwrap_err();
        assert_eq!(e.kind(), Kind::IllegalRequest);
        let empty = dir.path().join("empty");
        std::fs::write(&empty, b"").unwrap();
        let e = Source::open(&empty, Direct::Auto).unwrap_err();
        assert!(e.to_string().contains("empty"), "{e}");
        let e = Source::open(&dir.path().join("absent"), Direct::No).unwrap_err();
        assert_eq!(e.kind(), Kind::Io);
    }

    #[test]
    fn direct_access_goes_with_a_stated_alignment_and_nothing_is_written() {
        use std::io::Write;
        let dir = tempfile::tempdir().unwrap();
        for folder in [dir.path(), Path::new("/dev/shm")].into_iter().filter(|f| f.is_dir()) {
            let file = tempfile::NamedTempFile::new_in(folder).unwrap();
            std::fs::write(file.path(), [7; 8192]).unwrap();
            let plain = Source::open(file.path(), Direct::No).unwrap();
            let auto = Source::open(file.path(), Direct::Auto).unwrap();
            assert_eq!((plain.direct, plain.align_bytes), (false, 1));
            let stated = direct_alignment(&plain.file);
            assert_eq!(
                Some(auto.align_bytes).filter(|_| auto.direct),
                stated.filter(|_| auto.direct)
            );
            assert!(auto.direct || auto.align_bytes == 1, "{auto:?}");
            assert_eq!(Source::open(file.path(), Direct::Yes).is_ok(), auto.direct);
            for source in [&plain, &auto] {
                assert!((&source.file).write(&[0; 4096]).is_err(), "{source:?} can be written");
            }
        }
    }

    #[test]
    fn options_name_the_nearest_legal_value() {
        assert!(check_options(64, 4096, 1024).is_ok());
        let e = check_options(0, 4096, 1024).unwrap_err().to_string();
        assert!(e.contains("nearest legal value 1"), "{e}");
        let e = check_options(4096, 4096, 1024).unwrap_err().to_string();
        assert!(e.contains("nearest legal value 1024"), "{e}");
        assert!(check_options(1, 0, 1024).is_err());
    }
}
