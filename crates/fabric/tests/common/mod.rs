//! What tests in virtual time share.

use littoral_base::units::Picos;
use littoral_fabric::sim::LogGp;

/// An interconnect whose times are round numbers.
pub(crate) const MODEL: LogGp = LogGp {
    latency: Picos(1_000_000),
    overhead: Picos(100_000),
    gap: Picos(100_000),
    byte: Picos(100),
    service: Picos(100_000),
    board: Picos(100_000),
};
