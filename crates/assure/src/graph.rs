//! Makes the checksums of a damaged image good again: for property tests and fuzzers only.
//!
//! A checksum keeps damage out, not malice: whoever writes a hostile file seals it too. Tests that
//! want to reach the checks behind the checksums forge images with [`reseal`].

use littoral_base::codec::{crc, seal};

use littoral_graph::format::BLOCK_BYTES;
use littoral_graph::format::header::{Header, SectionKind};
use littoral_graph::format::page::PageId;

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
