//! What stands behind a device of a machine, as machine files and options spell it.
//!
//! - The place behind a scheme is never empty. Checked by
//!   `mistakes_are_named_with_line_and_remedy`.

use std::path::{Path, PathBuf};

use littoral_base::mutant;

use crate::error::{Error, Kind, Result};
use crate::profile::suggestion;

/// What stands behind a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Medium {
    /// This process's memory; gone when it ends.
    Ram,
    /// A file, through ordinary calls.
    File(PathBuf),
    /// A file or block device, through io_uring where allowed, else a pread pool.
    Uring(PathBuf),
    /// A file mapped into memory for reading.
    Mmap(PathBuf),
    /// A zoned block device.
    Zbd(PathBuf),
    /// DAX-mapped persistent memory.
    Dax(PathBuf),
    /// Memory that several hosts map and nothing keeps coherent: a new file or a DAX device, or
    /// memory without a name when there is no path.
    Pool(Option<PathBuf>),
    /// The nodes' addresses, as `host:port` with commas between.
    Tcp(String),
    /// A local socket, behind which another process offers the device.
    Unix(PathBuf),
}

impl Medium {
    /// Reads a medium as machine files and options spell it.
    ///
    /// # Errors
    /// `Kind::Profile` with the nearest spelling.
    pub fn parse(text: &str) -> Result<Medium> {
        let (scheme, rest) = text.split_once(':').unwrap_or((text, ""));
        let path = || PathBuf::from(rest);
        let medium = match scheme {
            "ram" if rest.is_empty() => return Ok(Medium::Ram),
            "pool" if rest.is_empty() => return Ok(Medium::Pool(None)),
            "file" => Medium::File(path()),
            "uring" => Medium::Uring(path()),
            "mmap" => Medium::Mmap(path()),
            "zbd" => Medium::Zbd(path()),
            "dax" => Medium::Dax(path()),
            "pool" => Medium::Pool(Some(path())),
            "tcp" => Medium::Tcp(rest.to_owned()),
            "unix" => Medium::Unix(path()),
            _ => {
                let hint = suggestion(scheme, Self::SCHEMES.into_iter());
                return Err(Error::new(Kind::Profile, format!("unknown medium `{text}`{hint}")));
            }
        };
        if rest.is_empty() {
            let message = format!("medium `{text}` names no place; write `{scheme}:PATH`");
            return Err(Error::new(Kind::Profile, message));
        }
        Ok(medium)
    }

    /// Every scheme.
    pub const SCHEMES: [&'static str; 10] =
        ["ram", "file:", "uring:", "mmap:", "zbd:", "dax:", "pool", "pool:", "tcp:", "unix:"];

    /// The scheme, with its colon where a place follows.
    pub fn scheme(&self) -> &'static str {
        match self {
            Medium::Ram => "ram",
            Medium::File(_) => "file:",
            Medium::Uring(_) => "uring:",
            Medium::Mmap(_) => "mmap:",
            Medium::Zbd(_) => "zbd:",
            Medium::Dax(_) => "dax:",
            Medium::Pool(None) => "pool",
            Medium::Pool(Some(_)) => "pool:",
            Medium::Tcp(_) => "tcp:",
            Medium::Unix(_) => "unix:",
        }
    }

    /// The same medium, its path relative to `folder`.
    pub(super) fn within(self, folder: &Path) -> Medium {
        if mutant!("device_medium_in_working_folder") {
            return self;
        }
        let place = |path: PathBuf| folder.join(path);
        match self {
            Medium::File(p) => Medium::File(place(p)),
            Medium::Uring(p) => Medium::Uring(place(p)),
            Medium::Mmap(p) => Medium::Mmap(place(p)),
            Medium::Zbd(p) => Medium::Zbd(place(p)),
            Medium::Dax(p) => Medium::Dax(place(p)),
            Medium::Pool(p) => Medium::Pool(p.map(place)),
            Medium::Unix(p) => Medium::Unix(place(p)),
            Medium::Ram | Medium::Tcp(_) => self,
        }
    }

    /// The path, where there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Medium::File(p)
            | Medium::Uring(p)
            | Medium::Mmap(p)
            | Medium::Zbd(p)
            | Medium::Dax(p)
            | Medium::Pool(Some(p))
            | Medium::Unix(p) => Some(p),
            Medium::Ram | Medium::Pool(None) | Medium::Tcp(_) => None,
        }
    }
}

impl std::fmt::Display for Medium {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self, self.path()) {
            (Medium::Tcp(addresses), _) => write!(f, "tcp:{addresses}"),
            (_, Some(path)) => write!(f, "{}{}", self.scheme(), path.display()),
            (_, None) => f.write_str(self.scheme()),
        }
    }
}
