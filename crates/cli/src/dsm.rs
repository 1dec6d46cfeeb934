//! `littoral dsm`: jobs of processes that share memory.
//!
//! - `run` ends with its program's status: the first failing rank's, 128 and the signal's number
//!   when a signal ended it.
//! - The ranks' output is theirs; what the launcher has to say goes to standard error.
//! - A report appears whole when its job has succeeded, never before. Checked by the session
//!   `tests/cmd/dsm.md`.
//! - Options of virtual time are refused where no interconnect is modelled.
//! - Virtual times are labelled as modelled, with the profile and its hash.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use littoral::Machine;
use littoral::base::error::Class;
use littoral::base::units::Bytes;
use littoral::device::profile::DeviceKind;
use littoral::dsm::launch::run::End;
use littoral::dsm::launch::{self, Fabric, Plan, hosts, run};
use littoral::dsm::virtual_time::Compute;
use littoral::dsm::virtual_time::conductor::Report;
use littoral::fabric::opened::Carrier;
use littoral::fabric::timing::Timing;
use littoral::machine::fabric::Word;
use littoral_bench::files;
use littoral_papers::jiajia::choice::{On, What, measure};
use littoral_papers::jiajia::model::{Ended, Shares};
use littoral_papers::jiajia::programs::{PROGRAMS, Program};
use littoral_papers::jiajia::tables;
use serde_json::{Value, json};

use crate::args::{DsmBenchArgs, DsmCommand, DsmModelArgs, DsmRunArgs};
use crate::failure::{Failure, Outcome};
use crate::{interrupt, out};

/// The interconnect of virtual time that is not chosen.
const PROFILE: &str = "loongson-2e:manager";

/// Runs the command.
pub(crate) fn run(command: &DsmCommand) -> Outcome {
    match command {
        DsmCommand::Run(args) => start(args),
        DsmCommand::Bench(args) => bench(args),
        DsmCommand::Model(args) => model(args),
    }
}

/// The machine whose fabric carries a job, and the fabric's name.
fn fabric(args: &DsmRunArgs) -> Result<(Machine, String), Failure> {
    if args.on.machine.is_some() {
        let otherwise = littoral::machine::choice::Word::Dram;
        return Ok(args.on.choice().resolve(DeviceKind::Fabric, None, otherwise)?);
    }
    let word = args.fabric.unwrap_or(match (&args.hosts, &args.pool, &args.profile) {
        (Some(_), ..) => Word::Tcp,
        (None, Some(_), _) => Word::Pool,
        (None, None, Some(_)) => Word::Sim,
        (None, None, None) => Word::Shm,
    });
    if args.profile.is_some() && word != Word::Sim {
        let what = format!(
            "--profile describes virtual time's interconnect; it goes with --fabric sim, not {}",
            word.name()
        );
        return Err(Failure::new(Class::Usage, what));
    }
    let profile = args.profile.as_deref().unwrap_or(PROFILE);
    // A job of no ranks is the launcher's to refuse.
    let nodes = args.ranks.unwrap_or(1).max(1);
    Ok((word.machine(nodes, args.pool.clone(), profile)?, "fabric".to_owned()))
}

fn compute(args: &DsmRunArgs) -> Compute {
    args.compute.as_ref().map_or(Compute::Declared, |chosen| chosen.0)
}

/// Refuses options of virtual time for a job that takes real time.
fn check_virtual(args: &DsmRunArgs, fabric: &Fabric) -> Outcome {
    let options = [
        (args.compute.is_some(), "--compute says what computing takes in virtual time"),
        (args.report.is_some(), "--report tells where virtual time went"),
    ];
    let given = options.into_iter().find(|(is_given, _)| *is_given);
    match (given, fabric) {
        (Some((_, what)), fabric) if !matches!(fabric, Fabric::Sim { .. }) => {
            Err(Failure::new(Class::Usage, format!("{what}; it goes with --fabric sim")))
        }
        _ => Ok(()),
    }
}

fn plan(args: &DsmRunArgs) -> Result<Plan, Failure> {
    let (machine, name) = fabric(args)?;
    let job = machine.job(&name, compute(args))?;
    check_virtual(args, &job.fabric)?;
    let ranks = args.ranks.unwrap_or(job.nodes);
    if ranks > job.nodes && args.on.machine.is_some() {
        let label = machine.spec().device(&name)?.label();
        let what = format!("{label} has {} nodes; it carries no job of {ranks} ranks", job.nodes);
        return Err(Failure::new(Class::Usage, what));
    }
    let hosts = args.hosts.as_ref().map(|path| {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Failure::new(Class::Environment, format!("{}: {e}", path.display())))?;
        hosts::parse(&text).map_err(|e| Failure::new(e.class(), format!("{}: {e}", path.display())))
    });
    let bytes_max = usize::try_from(args.bytes.0)
        .map_err(|_| Failure::new(Class::Usage, format!("{} is too much", args.bytes)))?;
    let faults = args.faults.map(|f| ("LITTORAL_DSM_FAULTS".to_owned(), f.0.name().to_owned()));
    let cache = ("LITTORAL_DSM_CACHE".to_owned(), args.cache.0.to_string());
    Ok(Plan {
        ranks,
        fabric: job.fabric,
        hosts: hosts.transpose()?.or(job.hosts),
        pool: args.pool.clone().or(job.pool),
        program: args.program.clone(),
        arguments: args.arguments.clone(),
        bytes_max,
        address: launch::address(&args.address)?,
        label: args.label,
        silence: Duration::from_nanos(args.silence.as_nanos()),
        variables: faults.into_iter().chain([cache]).collect(),
    })
}

/// Finds out before the job starts whether its report can be written, so that no result is lost to
/// a bad path. The file itself appears when the job has succeeded.
fn check_report(path: &Path) -> Outcome {
    if path.symlink_metadata().is_ok() {
        let what = format!("{} exists; name a new file for the report", path.display());
        return Err(Failure::new(Class::Usage, what));
    }
    Ok(files::prove_writable(path)?)
}

fn start(args: &DsmRunArgs) -> Outcome {
    let interrupted = interrupt::flag();
    let plan = plan(args)?;
    args.report.as_deref().map_or(Ok(()), check_report)?;
    let job = run::run(&plan, &|| interrupted.load(Ordering::Relaxed))?;
    if let Some(report) = job.report.as_ref().filter(|_| job.code == 0) {
        let value = virtual_report(args, report)?;
        // A closed standard error is no reason to fail a job that succeeded.
        let _ = writeln!(std::io::stderr(), "{}", summary(&value, report));
        if let Some(path) = &args.report {
            files::write_whole(path, format!("{value:#}\n").as_bytes())?;
        }
    }
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

fn nanos(ps: u64) -> f64 {
    ps as f64 / 1000.0
}

fn virtual_report(args: &DsmRunArgs, report: &Report) -> Result<Value, Failure> {
    let (machine, name) = fabric(args)?;
    let device = machine.spec().device(&name)?;
    let (Some(profile), Some(configuration)) = (&device.profile, &device.configuration) else {
        return Err(refused(format!("{}: no interconnect is modelled", device.label())));
    };
    let rank = |(n, p): (usize, &littoral::dsm::virtual_time::network::Parts)| {
        json!({
            "rank_id": n,
            "busy_ns": nanos(p.busy.0), "data_ns": nanos(p.data.0), "segv_ns": nanos(p.segv.0),
            "syn_ns": nanos(p.syn.0), "server_ns": nanos(p.server.0),
        })
    };
    Ok(json!({
        "schema": "littoral.dsm.run/1",
        "clock": "virtual",
        "profile": format!("{}:{configuration}", profile.name()),
        "hash": profile.hash(),
        "computing": compute(args).name(),
        "time_ns": nanos(report.total.0),
        "messages_count": report.traffic.messages,
        "message_bytes": report.traffic.bytes,
        "ranks": report.parts.iter().enumerate().map(rank).collect::<Vec<_>>(),
    }))
}

fn summary(value: &Value, report: &Report) -> String {
    let s = Shares::of(&report.parts, report.total);
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    format!(
        "littoral: {} of virtual time, modelled by {} {}, computing {}\n\
         littoral: busy {:.1} %, data {:.1} %, segv {:.1} %, syn {:.1} %, server {:.1} %; {} \
         messages, {}",
        report.total,
        text("profile"),
        text("hash"),
        text("computing"),
        s.busy,
        s.data,
        s.segv,
        s.syn,
        s.server,
        report.traffic.messages,
        Bytes(report.traffic.bytes)
    )
}

fn refused(what: String) -> Failure {
    Failure::new(Class::Environment, what)
}

/// What `dsm bench` measures on.
struct Measured {
    on: On,
    /// The fabric's word, or its name in the machine file.
    name: String,
    ranks: u16,
    /// The profile and its hash, of a modelled fabric.
    modelled_by: Option<String>,
}

/// The fabric that is measured. The threads of this process are its nodes, so it is one of this
/// host: a pool without a name, or TCP whose ports the system chooses.
fn measured(args: &DsmBenchArgs) -> Result<Measured, Failure> {
    let of_words = args.on.machine.is_none();
    let (machine, name) = if of_words {
        let profile = args.profile.as_deref().unwrap_or(PROFILE);
        let word = args.fabric.unwrap_or(Word::Shm);
        (word.machine(args.ranks.unwrap_or(2), None, profile)?, "fabric".to_owned())
    } else {
        args.on.choice().resolve(DeviceKind::Fabric, None, littoral::machine::choice::Word::Dram)?
    };
    let device = machine.spec().device(&name)?;
    let label = device.label();
    let refused = |what: String| Err(Failure::new(Class::Usage, what));
    if device.has_own_pages {
        let what = "dsm bench measures fabrics themselves; pages make no difference to it";
        return refused(format!("{label}: {what}"));
    }
    let nodes = u16::try_from(device.geometry("nodes").unwrap_or(1)).unwrap_or(u16::MAX);
    let ranks = args.ranks.unwrap_or(nodes);
    if ranks > nodes || ranks < 2 {
        return refused(format!("{label} has {nodes} nodes; two or more of them are measured"));
    }
    let (on, modelled_by) = match machine.carrier(&name)? {
        Carrier::Shm => (On::Shm, None),
        Carrier::Pool(None) => (On::Pool, None),
        Carrier::Tcp(addresses) if addresses.iter().all(|a| a.port() == 0) => (On::Tcp, None),
        Carrier::Sim { timing, profile } => (On::Sim(timing), Some(profile)),
        Carrier::Pool(Some(_)) | Carrier::Tcp(_) => {
            let what = "dsm bench measures threads of one process, on `pool` without a path and on \
                        TCP addresses with port 0";
            return refused(format!("{label}: {what}"));
        }
    };
    let name = if of_words { args.fabric.unwrap_or(Word::Shm).name().to_owned() } else { name };
    Ok(Measured { on, name, ranks, modelled_by })
}

fn bench(args: &DsmBenchArgs) -> Outcome {
    if args.profile.is_some() && args.fabric != Some(Word::Sim) {
        let what = "--profile describes virtual time's interconnect; it goes with --fabric sim";
        return Err(Failure::new(Class::Usage, what));
    }
    let Measured { on, name: fabric, ranks, modelled_by } = measured(args)?;
    let asked = |what: What| args.what.is_empty() || args.what.contains(&what);
    let mut rows = Vec::new();
    for (name, what) in What::ALL.into_iter().filter(|(_, what)| asked(*what)) {
        let took = measure(what, on, ranks, args.quick).map_err(refused)?;
        rows.push(json!({
            "operation": name, "time_ns_p10": took.p10_ns, "time_ns_p50": took.median_ns,
            "operations_count": took.operations, "rmws_count": took.rmws,
        }));
    }
    let clock = if modelled_by.is_some() { "virtual" } else { "wall" };
    let mut value = json!({
        "schema": "littoral.dsm.bench/1", "fabric": fabric, "ranks_count": ranks,
        "clock": clock, "operations": rows,
    });
    if let Some(profile) = modelled_by {
        value["modelled_by"] = json!(profile);
    }
    out::show(args.shown.format, &value)
}

fn model(args: &DsmModelArgs) -> Outcome {
    let all = args.programs.is_empty();
    let programs = if all { PROGRAMS.to_vec() } else { args.programs.clone() };
    let (mut rows, mut profiles) = (Vec::new(), Vec::new());
    for name in &args.profile {
        let (profile, configuration, timing) = Timing::resolve(name)?;
        let label = format!("{}:{configuration}", profile.name());
        profiles.push(json!({"profile": label, "hash": profile.hash()}));
        for program in &programs {
            for ranks in &args.ranks {
                let ended = tables::runs(program, *ranks, timing).map_err(refused)?;
                rows.push(model_row(program, &label, *ranks, &ended));
            }
        }
    }
    let value = json!({
        "schema": "littoral.dsm.model/1", "clock": "virtual", "seed_id": tables::SEED,
        "runs": rows, "profiles": profiles,
        "sentence": "Modelled: the protocol itself in virtual time, computing as paper 002 says.",
    });
    out::show(args.shown.format, &value)
}

fn model_row(program: &Program, label: &str, ranks: u16, ended: &Ended) -> Value {
    let s = Shares::of(&ended.parts, ended.total);
    json!({
        "program": program.name, "profile": label, "ranks_count": ranks,
        "time_ns": nanos(ended.total.0),
        "speedup_ratio": program.serial_s() / ended.total.as_secs_f64(),
        "busy_share": s.busy / 100.0, "data_share": s.data / 100.0, "segv_share": s.segv / 100.0,
        "syn_share": s.syn / 100.0, "server_share": s.server / 100.0,
        "messages_count": ended.traffic.messages, "message_bytes": ended.traffic.bytes,
        "faults_count": ended.faults,
    })
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
