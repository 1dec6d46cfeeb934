//! Damaged pools: one flipped bit of metadata.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used)]

use littoral_assure::stm::flip;

/// The full run is `repro sdtm`.
#[test]
fn a_flipped_bit_of_metadata_is_refused_or_harmless() {
    let found = flip::run(4_000, 1).unwrap();
    assert_eq!((found.silent_count, found.panics_count), (0, 0), "{found:?}");
    assert!(found.refused_count > 1_000 && found.harmless_count > 100, "{found:?}");
}
