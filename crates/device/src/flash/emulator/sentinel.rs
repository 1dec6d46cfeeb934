//! The words that stand for "not arrived yet" in a host's buffer.

/// The sentinel of odd attempts.
pub const SENTINEL_A: u64 = 0xa5a5_5a5a_c3c3_3c3c;
/// The sentinel of even attempts.
pub const SENTINEL_B: u64 = !SENTINEL_A;
/// The sentinel of rules that reserve it: all ones.
pub(super) const RESERVED: u64 = u64::MAX;
