//! Computing near storage, judged from outside.
//!
//! - [`duckdb`]: DuckDB's answers and processor times on the same tables and queries.
//! - [`tenants`]: a served device in virtual time, with a tenant that misbehaves beside two that do
//!   not.

pub mod duckdb;
pub mod tenants;
