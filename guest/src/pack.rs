//! The initial file system: a `newc` archive, which the kernel unpacks into memory.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};

use super::machine::MODULES;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CONSOLE: u32 = 0o020_600;

/// Every module under `dir`, by name.
fn find(dir: &Path, found: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if path.is_dir() {
            find(&path, found)?;
        } else if let Some(name) = name.strip_suffix(".ko") {
            found.insert(name.replace('-', "_"), path);
        }
    }
    Ok(())
}

/// The modules that a module says it needs.
fn needs(image: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = image.windows(KEY.len()).position(|w| w == KEY) else { return Vec::new() };
    let list = &image[at + KEY.len()..];
    let end = list.iter().position(|&b| b == 0).unwrap_or(list.len());
    let list = String::from_utf8_lossy(&list[..end]).into_owned();
    list.split(',').filter(|n| !n.is_empty()).map(|n| n.replace('-', "_")).collect()
}

/// Modules in the order in which they can be loaded.
fn ordered(all: &BTreeMap<String, PathBuf>) -> Result<Vec<(String, Vec<u8>)>> {
    let mut ordered: Vec<(String, Vec<u8>)> = Vec::new();
    let mut waiting: Vec<String> = MODULES.iter().rev().map(|(n, _)| (*n).to_owned()).collect();
    while let Some(name) = waiting.pop() {
        if ordered.iter().any(|(n, _)| *n == name) {
            continue;
        }
        // What is not there is built into the kernel, or a device is missing and the guest says so.
        let Some(path) = all.get(&name) else { continue };
        let image = std::fs::read(path)?;
        let first: Vec<String> = needs(&image)
            .into_iter()
            .filter(|n| all.contains_key(n) && !ordered.iter().any(|(o, _)| o == n))
            .collect();
        if first.is_empty() {
            ordered.push((name, image));
        } else {
            waiting.push(name);
            waiting.extend(first);
        }
    }
    Ok(ordered)
}

fn entry(archive: &mut Vec<u8>, name: &str, mode: u32, data: &[u8]) {
    let (major, minor) = if mode == CONSOLE { (5, 1) } else { (0, 0) };
    let number = archive.len() as u32 + 1;
    let fields =
        [number, mode, 0, 0, 1, 0, data.len() as u32, 0, 0, major, minor, name.len() as u32 + 1, 0];
    archive.extend_from_slice(b"070701");
    for field in fields {
        archive.extend_from_slice(format!("{field:08x}").as_bytes());
    }
    archive.extend_from_slice(name.as_bytes());
    archive.push(0);
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend_from_slice(data);
    archive.resize(archive.len().next_multiple_of(4), 0);
}

/// Writes the archive.
pub(crate) fn pack(out: &Path, modules: &Path) -> Result<()> {
    let mut all = BTreeMap::new();
    find(modules, &mut all)?;
    let mut archive = Vec::new();
    for dir in ["dev", "proc", "sys", "modules"] {
        entry(&mut archive, dir, DIRECTORY, &[]);
    }
    entry(&mut archive, "dev/console", CONSOLE, &[]);
    let program = std::fs::read(std::env::current_exe()?)?;
    entry(&mut archive, "init", PROGRAM, &program);
    for (i, (name, image)) in ordered(&all)?.iter().enumerate() {
        entry(&mut archive, &format!("modules/{i:02}-{name}"), PROGRAM, image);
    }
    entry(&mut archive, "TRAILER!!!", 0, &[]);
    std::fs::write(out, archive)?;
    Ok(())
}
