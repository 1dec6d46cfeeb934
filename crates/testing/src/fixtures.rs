//! Files of each version of a format, committed small, that later builds read.
//!
//! - A crate's fixtures are `tests/fixtures/vN/NAME`, N the version of the format. They are never
//!   written again: a new version of a format gets a new folder, the old ones stay.
//! - `LITTORAL_FIXTURES=DIR` makes the tests that call [`offer`] write what this build writes to
//!   `DIR/NAME`. The files for a new version come from there.
//! - A sparse file is packed: its length (u64), then each block of 512 bytes that is not zero
//!   behind its number (u32), little-endian.
//!
//! Invariants
//! - Packing loses nothing. Checked by `packed_files_come_back`.

use std::path::{Path, PathBuf};

/// Bytes of a block of a packed file.
const BLOCK: usize = 512;

/// The committed files of one version of a crate's formats.
#[derive(Clone, Debug)]
pub struct Fixtures(PathBuf);

impl Fixtures {
    /// The fixtures of a version, such as `v1`, in the crate whose `CARGO_MANIFEST_DIR` this is.
    pub fn of(crate_folder: &str, version: &str) -> Fixtures {
        Fixtures(Path::new(crate_folder).join("tests/fixtures").join(version))
    }

    /// Where a file lies.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The bytes of a file.
    ///
    /// # Panics
    /// When the file cannot be read.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let path = self.path(name);
        std::fs::read(&path).unwrap_or_else(|e| panic!("fixture {}: {e}", path.display()))
    }

    /// The bytes of a file that [`pack`] wrote.
    ///
    /// # Panics
    /// As [`Fixtures::bytes`].
    pub fn unpacked(&self, name: &str) -> Vec<u8> {
        unpack(&self.bytes(name))
    }
}

/// Writes what this build writes for a fixture, if `LITTORAL_FIXTURES` names a folder for it.
///
/// # Panics
/// When the folder cannot be written.
pub fn offer(name: &str, bytes: &[u8]) {
    let Some(folder) = std::env::var_os("LITTORAL_FIXTURES") else { return };
    let path = Path::new(&folder).join(name);
    std::fs::write(&path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// The blocks of a file that are not zero.
pub fn pack(file: &[u8]) -> Vec<u8> {
    let mut out = (file.len() as u64).to_le_bytes().to_vec();
    for (number, block) in file.chunks(BLOCK).enumerate().filter(|(_, b)| b.iter().any(|&x| x != 0))
    {
        out.extend((number as u32).to_le_bytes());
        out.extend(block);
        out.resize(out.len() + BLOCK - block.len(), 0);
    }
    out
}

/// The file that [`pack`] was given.
///
/// # Panics
/// For bytes that it did not return.
pub fn unpack(packed: &[u8]) -> Vec<u8> {
    let (len, blocks) = packed.split_first_chunk().expect("a packed file begins with its length");
    let len = usize::try_from(u64::from_le_bytes(*len)).expect("a fixture fits memory");
    let mut file = vec![0; len.next_multiple_of(BLOCK)];
    for block in blocks.chunks(4 + BLOCK) {
        let (number, block) = block.split_first_chunk().expect("a block stands behind its number");
        file[u32::from_le_bytes(*number) as usize * BLOCK..][..BLOCK].copy_from_slice(block);
    }
    file.truncate(len);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_files_come_back() {
        for len in [0, 1, 511, 512, 513, 5000] {
            let file: Vec<u8> =
                (0..len).map(|i| if i % 1200 < 500 { 0 } else { i as u8 }).collect();
            assert_eq!(unpack(&pack(&file)), file, "{len} bytes");
        }
        assert!(pack(&[0; 1 << 20]).len() == 8, "zeros take nothing");
    }
}
