//! `littoral dsm`: jobs of processes that share memory.
//!
//! - `run` ends with its program's status: the first failing rank's, 128 and the signal's number
//!   when a signal ended it.
//! - The ranks' output is theirs; what the launcher has to say goes to standard error.

use std::os::unix::process::ExitStatusExt as _;
use std::sync::atomic::Ordering;

use littoral::base::error::Class;
use littoral::dsm::launch::run::End;
use littoral::dsm::launch::{Fabric, Plan, hosts, run};

use crate::args::{DsmCommand, DsmRunArgs};
use crate::failure::{Failure, Outcome};
use crate::interrupt;

/// Runs the command.
pub(crate) fn run(command: &DsmCommand) -> Outcome {
    match command {
        DsmCommand::Run(args) => start(args),
    }
}

fn plan(args: &DsmRunArgs) -> Result<Plan, Failure> {
    let fabric = match args.fabric.as_deref() {
        Some("shm") => Fabric::Shm,
        Some("shm-pages") => Fabric::ShmPages,
        Some("pool") => Fabric::Pool,
        Some("pool-pages") => Fabric::PoolPages,
        Some("tcp") => Fabric::Tcp,
        _ if args.hosts.is_some() => Fabric::Tcp,
        _ if args.pool.is_some() => Fabric::Pool,
        _ => Fabric::Shm,
    };
    let hosts = args.hosts.as_ref().map(|path| {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Failure::new(Class::Environment, format!("{}: {e}", path.display())))?;
        hosts::parse(&text).map_err(|e| Failure::new(e.class(), format!("{}: {e}", path.display())))
    });
    let bytes_max = usize::try_from(args.bytes.0)
        .map_err(|_| Failure::new(Class::Usage, format!("{} is too much", args.bytes)))?;
    let faults = args.faults.clone().map(|f| ("LITTORAL_DSM_FAULTS".to_owned(), f));
    Ok(Plan {
        ranks: args.ranks,
        fabric,
        hosts: hosts.transpose()?,
        pool: args.pool.clone(),
        program: args.program.clone(),
        arguments: args.arguments.clone(),
        bytes_max,
        variables: faults.into_iter().collect(),
    })
}

fn start(args: &DsmRunArgs) -> Outcome {
    let interrupted = interrupt::flag();
    let job = run::run(&plan(args)?, &|| interrupted.load(Ordering::Relaxed))?;
    if interrupted.load(Ordering::Relaxed) {
        return Err(Failure::new(Class::Interrupted, "interrupted; every rank was ended"));
    }
    let failed: Vec<String> = job.ends.iter().filter_map(what_happened).collect();
    if job.code == 0 {
        Ok(())
    } else {
        Err(Failure::of_guest(job.code, failed.join("\nlittoral: ")))
    }
}

fn what_happened(end: &End) -> Option<String> {
    let End { rank, process, status, killed_by_launcher } = *end;
    let who = format!("rank {rank} (process {process})");
    match (killed_by_launcher, status.signal(), status.code()) {
        (true, ..) => Some(format!("{who} did not end by itself and was killed")),
        (false, Some(signal), _) => Some(format!("{who} was killed by signal {signal}")),
        (false, None, Some(0)) => None,
        (false, None, code) => Some(format!("{who} ended with code {}", code.unwrap_or(-1))),
    }
}
