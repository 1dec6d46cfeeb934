//! `--cache DIR`: the files that hold translated code between processes. What they say is checked
//! by `la64::interp::Store`; here they are found, read and written.
//!
//! - A file is read only if it is a plain file of this user that no other may write, in such a
//!   folder: a user who may write it may run code. Checked by
//!   `a_folder_or_file_that_others_may_write_is_not_used`.
//! - A file is whole or not there: it is written under a name of its own and renamed. Of two
//!   processes that write at once the last one wins; what was there before it began to write is in
//!   its file too. Checked by `two_processes_at_once_leave_a_file_that_is_taken`.
//! - Nothing about a cache stops a program: what cannot be used or written is one line on standard
//!   error, at the end. Checked by `a_cache_that_cannot_be_written_is_one_line`.
//! - A forked child keeps what it has translated itself; what came before the fork its parent
//!   writes. A child of `vfork` writes nothing, since it runs in its parent's memory.

use super::raw;
use super::space::Space;
use littoral_base::mutant;
use littoral_la64::interp::{Identity, Maker, Refused, Store};
use littoral_la64::memory::Window;
use std::fs::{DirBuilder, Metadata, OpenOptions};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{Read as _, Write as _};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The longest file.
const FILE_LEN_MAX: u64 = 32 << 20;
/// All files of a folder together; the oldest ones go first.
const FOLDER_LEN_MAX: u64 = 1 << 30;
/// What names of files end in.
const SUFFIX: &str = ".la64code";
/// Bytes of executable memory whose hash stands for a build-id.
const TEXT_LEN_MAX: u64 = 64 << 20;

/// Memory of a guest file that may be executed and never was writable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileText {
    pub(super) addresses: Range<u64>,
    /// Offset of its beginning in the file.
    pub(super) offset: u64,
    /// Where the file's beginning is mapped, if it is.
    pub(super) head: Option<Range<u64>>,
}

/// The cache of a process.
#[derive(Debug)]
pub(super) struct Disk {
    folder: PathBuf,
    pub(super) store: Arc<Store>,
    window: Window,
    user: u32,
    /// The folder is not to be used.
    is_off: AtomicBool,
    /// What is said at the end: the first thing that went wrong.
    trouble: Mutex<Option<String>>,
}

impl Disk {
    /// A cache in a folder, which is made if it is not there.
    pub(super) fn open(folder: &Path, maker: Maker, window: Window) -> Disk {
        let user = raw::call_now(&window, libc::SYS_geteuid, &mut []) as u32;
        let disk = Disk {
            folder: folder.to_owned(),
            store: Arc::new(Store::new(maker, FILE_LEN_MAX as usize)),
            window,
            user,
            is_off: AtomicBool::new(false),
            trouble: Mutex::default(),
        };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        let shown = folder.display();
        match made.and_then(|()| std::fs::metadata(folder)) {
            Err(e) => disk.give_up(format!("cannot use the cache folder {shown}: {e}")),
            Ok(found) if !disk.is_private(&found) => disk.give_up(format!(
                "the cache folder {shown} is not used: it is not this user's alone; give another \
                 one, or take it (chown) and let no one else write there (chmod go-w)"
            )),
            Ok(_) => {}
        }
        disk
    }

    fn give_up(&self, why: String) {
        self.is_off.store(true, Ordering::Relaxed);
        self.note(why);
    }

    /// Keeps the first thing that went wrong. A child that was forked while another thread did so
    /// must not wait for that.
    fn note(&self, what: String) {
        if let Ok(mut trouble) = self.trouble.try_lock() {
            trouble.get_or_insert(what);
        }
    }

    /// What went wrong, once.
    pub(super) fn take_trouble(&self) -> Option<String> {
        self.trouble.try_lock().ok().and_then(|mut trouble| trouble.take())
    }

    /// Only this user may write it.
    fn is_private(&self, found: &Metadata) -> bool {
        found.uid() == self.user && found.mode() & 0o022 == 0 || mutant!("la64_cache_of_anyone")
    }

    fn path(&self, identity: &Identity) -> PathBuf {
        let Maker { revision, host } = self.store.maker();
        self.folder.join(format!("{}-{revision:016x}{host:016x}{SUFFIX}", identity.digits()))
    }

    /// The number of the guest file that a text is of, and its offset; what an earlier process has
    /// kept of it is read when it is met first.
    pub(super) fn file(&self, text: &FileText) -> Option<usize> {
        if self.is_off.load(Ordering::Relaxed) {
            return None;
        }
        let identity = identity(&self.window, text)?;
        if let Some(number) = self.store.find(&identity) {
            return Some(number);
        }
        let path = self.path(&identity);
        let (number, refused) = self.store.add(identity, self.read(&path));
        if refused == Some(Refused::Damaged) {
            self.note(format!("{} is damaged and was not used", path.display()));
        }
        Some(number)
    }

    /// The bytes of a file that may be believed.
    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let found = file.metadata().ok()?;
        if !found.is_file() || !self.is_private(&found) || found.len() > FILE_LEN_MAX {
            self.note(format!(
                "{} is not used: it is no plain file that this user alone may write",
                path.display()
            ));
            return None;
        }
        let mut bytes = Vec::with_capacity(found.len() as usize);
        raw::populate(bytes.spare_capacity_mut());
        file.take(FILE_LEN_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Writes what was translated. `still` does something while no thread adds code or forks.
    pub(super) fn write(&self, still: impl Fn(&mut dyn FnMut())) {
        if self.is_off.load(Ordering::Relaxed) {
            return;
        }
        let mut grown = Vec::new();
        still(&mut || grown = self.store.grown());
        for (number, identity) in grown {
            let path = self.path(&identity);
            let mut other = self.read(&path);
            let mut bytes = Vec::new();
            still(&mut || bytes = self.store.file(number, other.take()));
            if let Err(e) = self.replace(&path, &bytes) {
                let shown = self.folder.display();
                self.note(format!("cannot write to the cache folder {shown}: {e}"));
                return;
            }
        }
    }

    /// Gives a file new bytes, all at once.
    fn replace(&self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        let fits = bytes.len() as u64 <= raw::file_len_max();
        if !fits && !mutant!("la64_cache_over_the_limit") {
            return Err(std::io::Error::from_raw_os_error(libc::EFBIG));
        }
        self.make_room(bytes.len() as u64)?;
        let own = self.folder.join(draft_name());
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&own)?;
        let written = file.write_all(bytes).and_then(|()| std::fs::rename(&own, path));
        if written.is_err() {
            let _ = std::fs::remove_file(&own);
        }
        written
    }

    /// Removes the oldest files until so many bytes more are within the folder's bound.
    fn make_room(&self, more: u64) -> std::io::Result<()> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.folder)?.flatten() {
            let is_ours = entry.file_name().to_string_lossy().ends_with(SUFFIX);
            if let Ok(found) = entry.metadata()
                && is_ours
            {
                files.push((found.mtime(), found.len(), entry.path()));
            }
        }
        files.sort();
        let mut sum = files.iter().map(|file| file.1).sum::<u64>() + more;
        for (_, len, path) in files {
            if sum <= FOLDER_LEN_MAX {
                break;
            }
            // Another process may have done so.
            let _ = std::fs::remove_file(path);
            sum -= len;
        }
        Ok(())
    }
}

/// A name for a file that is being written, which counts as one of the folder if its process is
/// killed. It is random: processes of two containers may have the same id and the same folder.
fn draft_name() -> String {
    let number = RandomState::new().hash_one((std::process::id(), raw::gettid()));
    format!(".{number:016x}{SUFFIX}")
}

/// Whose code a text is.
fn identity(window: &Window, text: &FileText) -> Option<Identity> {
    if let Some(id) = text.head.as_ref().and_then(|head| build_id(window, head)) {
        return Some(Identity::of_build_id(&id));
    }
    let Range { start, end } = text.addresses;
    let len = end.checked_sub(start).filter(|&len| len <= TEXT_LEN_MAX)?;
    let mut bytes = vec![0; len as usize];
    window.read(start, &mut bytes)?;
    Some(Identity::of_text(text.offset, &bytes))
}

/// The build-id of a file whose beginning is mapped.
fn build_id(window: &Window, head: &Range<u64>) -> Option<Vec<u8>> {
    const NOTE: u32 = 4;
    const HEADERS_MAX: u64 = 64;
    const NOTES_LEN_MAX: u64 = 4096;
    let inside = |offset: u64, len: u64| {
        let at = head.start.checked_add(offset)?;
        (at.checked_add(len)? <= head.end).then_some(at)
    };
    let word = |at| window.load::<u32>(at);
    let long = |at| window.load::<u64>(at);
    let first = inside(0, 64)?;
    (word(first)? == u32::from_le_bytes(*b"\x7fELF")).then_some(())?;
    let (table, count) = (long(first + 32)?, u64::from(window.load::<u16>(first + 56)?));
    for n in 0..count.min(HEADERS_MAX) {
        let header = inside(table.checked_add(56 * n)?, 56)?;
        let len = long(header + 32)?.min(NOTES_LEN_MAX);
        let Some(at) = inside(long(header + 8)?, len).filter(|_| word(header) == Some(NOTE)) else {
            continue;
        };
        let mut notes = vec![0; len as usize];
        window.read(at, &mut notes)?;
        if let Some(id) = build_id_of(&notes) {
            return Some(id.to_vec());
        }
    }
    None
}

/// The build-id among notes.
fn build_id_of(mut notes: &[u8]) -> Option<&[u8]> {
    const BUILD_ID: u32 = 3;
    loop {
        let (head, rest) = notes.split_at_checked(12)?;
        let number = |at: usize| head[at..at + 4].try_into().map(u32::from_le_bytes).ok();
        let (name_len, len, kind) = (number(0)? as usize, number(4)? as usize, number(8)?);
        let (name, rest) = rest.split_at_checked(name_len.checked_next_multiple_of(4)?)?;
        if kind == BUILD_ID && name == b"GNU\0" && len > 0 {
            return rest.get(..len);
        }
        notes = rest.get(len.checked_next_multiple_of(4)?..)?;
    }
}

impl Space {
    /// The text of a file that an address is in: private, never writable.
    pub(super) fn file_text(&self, at: u64) -> Option<FileText> {
        let (start, area) = self.area(at).filter(|(_, area)| area.is_file_text())?;
        let is_head = |(_, other): &(u64, &super::space::Area)| {
            other.offset == 0 && other.name == area.name && !other.shared
        };
        let head = self.areas().filter(|(from, _)| *from <= start).filter(is_head).last();
        let head = head.map(|(from, area)| from..area.end);
        Some(FileText { addresses: start..area.end, offset: area.offset, head })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], kind: u32, id: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [name.len() as u32, id.len() as u32, kind] {
            bytes.extend(number.to_le_bytes());
        }
        for part in [name, id] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn a_build_id_is_found_among_notes_and_nothing_in_damaged_ones() {
        let notes = [note(b"Linux\0", 1, &[9; 5]), note(b"GNU\0", 1, &[1; 16])].concat();
        assert_eq!(build_id_of(&notes), None);
        let notes = [notes, note(b"GNU\0", 3, &[7; 20])].concat();
        assert_eq!(build_id_of(&notes), Some(&[7; 20][..]));
        for len in 0..notes.len() {
            assert_eq!(build_id_of(&notes[..len]), None, "{len}");
        }
        for huge in [4, 0] {
            let mut damaged = note(b"GNU\0", 1, &[1; 16]);
            damaged[huge..huge + 4].fill(0xff);
            assert_eq!(build_id_of(&damaged), None);
        }
    }
}
