//! Power cuts over overlapping transactions, torn lines, and crashes inside recovery.
#![cfg(not(any(loom, shuttle)))]

use littoral_assure::stm::crash::{Effort, run};

#[test]
fn every_image_recovers_to_a_serial_state_without_leaks() {
    let effort =
        Effort { seed: 1, images_max: 30_000, images_per_point_max: 48, nested_one_in: 97 };
    let found = run(&effort).unwrap();
    assert_eq!(found.violation, None);
    assert!(found.images_count >= 30_000 && found.nested_count > 1_000, "{found:?}");
    assert!(found.overlapping_count * 2 > found.workloads_count, "{found:?}");
}
