//! Data to scan: TPC-H tables, records of a similarity join, and files of separated values.
//!
//! Invariants
//! - Equal arguments give equal records. Checked by `generated_data_repeat`.

mod import;
mod join;
mod tpch;

pub use import::{Import, Separator};
pub(crate) use import::{date, decimal};
pub use join::{JoinData, dblp_like, join_data, join_schema};
pub use tpch::{lineitem, lineitem_schema, part_line, promo_parts, tbl_line, tbl_scale};
