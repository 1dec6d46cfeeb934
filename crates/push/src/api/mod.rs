//! The host's side of a device that computes, and the device as a host sees it:
//! `docs/design/push-api.md`.
//!
//! - [`DataSet`]: pages of one schema in memory or in a file;
//! - [`Table`]: a table whose schema is found out;
//! - [`Device`]: takes commands and answers them; [`Local`] is one in this process, [`Remote`] one
//!   behind a socket;
//! - [`Host`]: STORE, READ, COMPUTE, GATHER, exactly once over retries and lost devices;
//! - [`Scan`]: filter, keys and sums, or columns, as a page function.
//!
//! Invariants
//! - The answer of a scan does not depend on where its pages are computed. Checked by
//!   `any_road_of_each_page_gives_the_plain_answer`.

mod detect;
mod engine;
mod host;
mod local;
mod remote;
mod scan;
mod set;
mod stored;
mod text;
mod wire;

pub use detect::{Table, WORDS_MAX};
pub(crate) use engine::reply;
pub use engine::{Admitted, Begun, Cores, Engine, Ran, Reply, Settings, Work, split_of};
pub use host::{Host, Outcome, Plan};
pub use local::Local;
pub use remote::Remote;
pub(crate) use remote::{DATA_MAX, put_message};
pub use scan::{Scan, Shown};
pub use set::{About, DataSet, Dictionary, records_of};
pub use stored::{Payload, Stored};
pub use text::{parse_expression, parse_test};
pub use wire::Program;

use crate::command::{Command, Completion};
use crate::error::Result;

/// Logical address of a data set's header.
pub const HEADER_ADDRESS: u64 = u64::MAX;

/// A device as a host sees it: commands go in, completions come out in any order.
pub trait Device {
    /// Sends a command with its data.
    ///
    /// # Errors
    /// `Kind::Io` when the device is lost.
    fn submit(&mut self, command: &Command, payload: &[u8]) -> Result<()>;

    /// Waits for a completion and its data.
    ///
    /// # Errors
    /// `Kind::Io` when the device is lost.
    fn wait(&mut self) -> Result<(Completion, Vec<u8>)>;

    /// Connects to a lost device again; what was under way is not answered.
    ///
    /// # Errors
    /// `Kind::Io` when it does not come back.
    fn reconnect(&mut self) -> Result<()>;
}
