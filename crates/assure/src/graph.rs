//! Judges of the graph engine: kernels on images with one flipped bit, and forged checksums.
//!
//! - [`flips`] runs a kernel on images that differ from a sound one in a single bit each, and
//!   counts the answers that are wrong without an error.
//! - [`reseal`] makes the checksums of a damaged image good again: for property tests and fuzzers.
//!
//! A checksum keeps damage out, not malice: the writer of a hostile file seals it too. Tests that
//! want to reach the checks behind the checksums forge images with [`reseal`].

use littoral_base::clock::WallClock;
use littoral_base::codec::{crc, seal};
use littoral_base::rng::{Rng, seeded};
use littoral_device::profile::Profile;

use littoral_graph::Result;
use littoral_graph::builder::{BuildOptions, Hooks, build_in_memory};
use littoral_graph::format::BLOCK_BYTES;
use littoral_graph::format::file::GraphFile;
use littoral_graph::format::header::{Header, SectionKind};
use littoral_graph::format::page::PageId;
use littoral_graph::generate::{Model, generate, weigh};
use littoral_graph::kernels::{Answer, Kernel, Options, check, run};
use littoral_graph::medium::{Store, Transfer};

/// What became of the images with one flipped bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flips {
    /// Runs that ended with an error.
    pub refused_count: u64,
    /// Runs without an error whose answer is right: the bit was not read, or did not matter.
    pub harmless_count: u64,
    /// Runs without an error whose answer is wrong.
    pub wrong_count: u64,
}

/// Scale of the graph whose bits are flipped: 1024 vertices.
const FLIPS_SCALE: u32 = 10;

/// How the edges of a damaged image are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// As slices in DRAM.
    Direct,
    /// From modelled flash through a cache of pages, which verifies every page that it keeps.
    Cached,
}

/// Bytes of the cache: a few pages.
const CACHE_BYTES: u64 = 32 << 10;

/// Runs `kernel` on `count` images, in each of which one bit of the file, drawn under `seed`, is
/// flipped.
///
/// An answer is wrong when it differs from the answer on the sound image. A search may find other
/// parents that are right as well, and sums depend on the order of reads, so their answers are
/// wrong when the sound graph refutes them.
///
/// # Errors
/// When the graph cannot be made, or the kernel fails on the sound image.
pub fn flips(kernel: Kernel, reading: Reading, count: u64, seed: u64) -> Result<Flips> {
    let mut edges = generate(Model::Kron, FLIPS_SCALE, seed, 1, &mut Hooks::none())?;
    if kernel.spec().uses_weights {
        weigh(&mut edges);
    }
    let options = BuildOptions { threads: 1, ..BuildOptions::default() };
    let (image, _) = build_in_memory(edges, &options, &mut Hooks::none())?;
    let sound = GraphFile::from_image(image.clone())?;
    let right = answer(&image, kernel, reading)?;
    let mut rng = seeded(seed);
    let mut flips = Flips::default();
    for _ in 0..count {
        let mut damaged = image.clone();
        let (at, bit) = (rng.random_range(0..image.len()), rng.random_range(0..8u32));
        damaged[at] ^= 1 << bit;
        match answer(&damaged, kernel, reading) {
            Err(_) => flips.refused_count += 1,
            Ok(found) if is_right(&sound, kernel, &found, &right) => flips.harmless_count += 1,
            Ok(_) => flips.wrong_count += 1,
        }
    }
    Ok(flips)
}

/// The kernel's answer from vertex 0, the hub.
fn answer(image: &[u8], kernel: Kernel, reading: Reading) -> Result<Answer> {
    let graph = GraphFile::from_image(image.to_vec())?;
    let options = Options { sources: vec![0], ..Options::default() };
    let dram = Store::in_dram(&graph)?;
    let store = match reading {
        Reading::Direct => dram,
        Reading::Cached => {
            let profile = Profile::named("xlfdd").expect("invariant: the profile is shipped");
            dram.behind(&profile, Transfer::Pointer)?.with_cache(CACHE_BYTES)
        }
    };
    Ok(run(&graph, &store, kernel, &options, &WallClock::new())?.1)
}

/// Whether an answer is the sound graph's: parents may differ, and sums by their order.
fn is_right(sound: &GraphFile, kernel: Kernel, found: &Answer, right: &Answer) -> bool {
    let may_differ = matches!(kernel, Kernel::Bfs | Kernel::Bc(_));
    found == right || may_differ && check(sound, kernel, 0, found).is_ok()
}

/// Recomputes header seal, page seals and section CRCs as far as the header allows.
pub fn reseal(image: &mut [u8]) {
    let file_bytes = image.len() as u64;
    let Some(block) = image.get_mut(..BLOCK_BYTES) else { return };
    seal(block, 0);
    let Ok(mut header) = Header::decode(block, file_bytes) else { return };
    let page_bytes = header.page_bytes as usize;
    for s in &mut header.sections {
        let from = s.extent.offset as usize;
        let bytes = &mut image[from..from + s.extent.bytes as usize];
        if matches!(s.kind, SectionKind::Pages | SectionKind::Weights) {
            for (number, page) in (0u32..).zip(bytes.chunks_exact_mut(page_bytes)) {
                let id = PageId { kind: s.kind, direction: s.direction, number };
                seal(page, id.salt());
            }
        }
        s.crc = crc(bytes);
    }
    image[..BLOCK_BYTES].copy_from_slice(&header.encode());
}
