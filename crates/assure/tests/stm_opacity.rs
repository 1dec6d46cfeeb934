//! Opacity of histories on real threads.
#![cfg(not(any(loom, shuttle)))]

use littoral_assure::stm::opacity::run;
use littoral_device::pmem::FlushFence;
use littoral_stm::{Options, Pool};

#[test]
fn histories_of_real_threads_are_opaque() {
    let pool = Pool::create(FlushFence::anonymous(1 << 20).unwrap(), &Options::default()).unwrap();
    let found = run(&pool, 3, 4_000, 1).unwrap();
    assert_eq!(found.violation, None);
    assert_eq!(found.histories_count, 4_000);
    assert!(found.overlapping_count > 100 && found.aborted_count > 0, "{found:?}");
    assert!(found.long_count > 100, "{found:?}");
}
