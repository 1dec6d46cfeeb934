//! What `littoral report` and `littoral completions` take.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Results written by `repro --json` or by `--format json`
    #[arg(required = true, value_name = "RUN.json")]
    pub(crate) runs: Vec<PathBuf>,
    /// Where the page goes; a name that ends in .md gets Markdown tables instead
    #[arg(short, long, value_name = "OUT.html")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell, or `man` for the manual pages
    #[arg(value_parser = ["bash", "elvish", "fish", "man", "powershell", "zsh"])]
    pub(crate) shell: String,
    /// With `man`: write one page a command into this folder instead of the first page to the
    /// output
    #[arg(long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,
}
