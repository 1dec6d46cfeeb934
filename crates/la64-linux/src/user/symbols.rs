//! Names of guest addresses: the file that is mapped there and the function in its symbol table.
//!
//! - A file is read once, the first time that an address in it is asked for.
//! - An address gets a function's name only inside the length that the symbol table gives; a
//!   stripped file has no names but those it exports.

use super::path::Paths;
use super::space::Space;
use littoral_la64::elf::{self, Segment, symbols::Function};
use std::collections::HashMap;
use std::path::Path;

/// Where an address is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    /// The mapped file, or what stands in its place, in brackets.
    pub(super) file: String,
    /// The function, and how far behind its beginning the address is.
    pub(super) function: Option<(String, u64)>,
}

/// A file's functions.
struct Image {
    segments: Vec<Segment>,
    functions: Vec<Function>,
}

/// The files that were asked for.
#[derive(Default)]
pub(super) struct Symbols {
    images: HashMap<String, Option<Image>>,
}

impl Symbols {
    /// Where `address` is.
    pub(super) fn find(&mut self, space: &Space, paths: &Paths, address: u64) -> Place {
        let Some((start, area)) = space.area(address) else {
            return Place { file: "[unmapped]".into(), function: None };
        };
        if area.name.is_empty() {
            return Place { file: "[anonymous]".into(), function: None };
        }
        let offset = area.offset + (address - start);
        let image = self.images.entry(area.name.clone());
        let image = image.or_insert_with(|| Image::read(&paths.resolve(Path::new(&area.name))));
        let function = image.as_ref().and_then(|image| image.function(offset));
        Place { file: area.name.clone(), function }
    }
}

impl Image {
    /// `None` for what cannot be read or is no program.
    fn read(file: &Path) -> Option<Image> {
        if !file.is_absolute() && !file.exists() {
            return None;
        }
        let bytes = std::fs::read(file).ok()?;
        let segments = elf::parse_for(&bytes, elf::machine(&bytes)?).ok()?.segments;
        let functions = elf::symbols::functions(&bytes).unwrap_or_default();
        Some(Image { segments, functions })
    }

    fn function(&self, offset: u64) -> Option<(String, u64)> {
        let inside = |s: &&Segment| (s.offset..s.offset + s.file_len).contains(&offset);
        let segment = self.segments.iter().find(inside)?;
        let address = segment.address + (offset - segment.offset);
        let after = self.functions.partition_point(|f| f.address <= address);
        let function = self.functions[..after].last()?;
        let behind = address - function.address;
        (behind < function.len).then(|| (function.name.clone(), behind))
    }
}
