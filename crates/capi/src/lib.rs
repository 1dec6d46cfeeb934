//! Floor 3 of littoral: the C interface, a shared and a static library with one header.
//!
//! - [`raw::pmem`]: every image that a power cut could leave of a persistent-memory structure.
//! - [`raw::pool`]: pooled memory that shows a missing write-back, fence or invalidation.
//!
//! Functions add types and no behaviour: each calls the crates of the facade.
//!
//! Invariants
//! - `include/littoral.h` is what cbindgen makes of this crate. Checked by
//!   `the_header_is_what_the_sources_say`.

pub mod raw;
