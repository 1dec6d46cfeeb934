//! Floor 3 of littoral: JIAJIA's C interface, a shared and a static library with `jia.h`.
//!
//! - [`raw`]: the functions that C calls;
//! - [`rank`]: this process's membership, its allocations, how an error ends it;
//! - [`start`]: `.jiahosts` and `.jiaconf`, for a program that is started by itself;
//! - [`reduce`]: the operations of `jia_reduce`.
//!
//! Invariants
//! - `include/jia.h` declares what this crate exports and nothing else. Checked by
//!   `every_name_of_the_header_has_a_program_that_uses_it`.
//! - A call that breaks a rule ends the whole job in words, as `jia_error` does: C programs have no
//!   other answer to look at. Checked by `bad_input_ends_in_words`.

pub mod rank;
pub mod raw;
pub mod reduce;
pub mod start;
