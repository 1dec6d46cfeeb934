//! `littoral completions`: shell completion scripts and manual pages, made from the definition
//! itself.

use std::path::Path;

use clap_mangen::Man;
use littoral::base::error::Class;

use crate::args::{CompletionsArgs, command};
use crate::failure::{Failure, Outcome};
use crate::out;

/// Runs the command.
pub(crate) fn run(args: &CompletionsArgs) -> Outcome {
    match (args.shell.shell(), &args.output) {
        (None, None) => out::bytes(&page(command())?),
        (None, Some(folder)) => write_pages(folder),
        (Some(_), Some(_)) => {
            Err(Failure::new(Class::Usage, "--output goes with `completions man` only"))
        }
        (Some(shell), None) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), "littoral", &mut script);
            out::bytes(&script)
        }
    }
}

fn page(command: clap::Command) -> Result<Vec<u8>, Failure> {
    let mut roff = Vec::new();
    let written = Man::new(command).render(&mut roff);
    written.map_err(|e| Failure::new(Class::Environment, format!("cannot make the page: {e}")))?;
    Ok(roff)
}

fn write_pages(folder: &Path) -> Outcome {
    clap_mangen::generate_to(command(), folder).map_err(|e| {
        let what = format!("cannot write the pages to {}: {e}", folder.display());
        Failure::new(Class::Environment, what)
    })
}
