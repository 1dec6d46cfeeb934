//! What `littoral doctor` takes.

use clap::Args;

use super::ShownArgs;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// End with code 1 unless the host has all of these, such as io_uring,huge_pages
    #[arg(long, value_name = "ID,...", value_delimiter = ',')]
    pub(crate) require: Vec<String>,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
}
