//! What `littoral report` and `littoral completions` take.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use clap_complete::Shell;

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Results written by `repro --json` or by `--format json`
    #[arg(required = true, value_name = "RUN.json")]
    pub(crate) runs: Vec<PathBuf>,
    /// Where the page goes; a name that ends in .md gets Markdown tables instead
    #[arg(short, long, value_name = "OUT.html")]
    pub(crate) output: PathBuf,
}

/// What is made of the definition: a shell's script, or the manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    Bash,
    Elvish,
    Fish,
    Man,
    #[value(name = "powershell")]
    PowerShell,
    Zsh,
}

impl Form {
    /// The shell whose script it is; `None` for the manual.
    pub(crate) fn shell(self) -> Option<Shell> {
        match self {
            Form::Bash => Some(Shell::Bash),
            Form::Elvish => Some(Shell::Elvish),
            Form::Fish => Some(Shell::Fish),
            Form::PowerShell => Some(Shell::PowerShell),
            Form::Zsh => Some(Shell::Zsh),
            Form::Man => None,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell, or `man` for the manual pages
    #[arg(value_enum)]
    pub(crate) shell: Form,
    /// With `man`: write one page a command into this folder instead of the first page to the
    /// output
    #[arg(long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,
}
