//! `littoral repro`: every claim of a paper's system, measured here and judged.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use littoral::base::error::Class;
use littoral_bench::claims::{Run, Status};
use littoral_bench::peers::Peers;
use littoral_bench::repro::record::{Place, Saved, part_of};
use littoral_bench::repro::{self, Options};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::args::ReproArgs;
use crate::failure::{Failure, Outcome};
use crate::out::{self, Format};
use crate::{interrupt, progress};

const TITLES: [(&str, &str); 1] = [("reasons", "how each figure came about")];

/// Runs one system.
pub(crate) fn run(args: &ReproArgs) -> Outcome {
    let scratch = scratch(args.scratch.as_deref())?;
    interrupt::remove_at_exit(scratch.path().to_owned());
    // What a measurement keeps in a temporary folder of its own is then on the drive asked for,
    // too, and goes with the rest at Ctrl-C. Nothing was set before, so nothing refuses.
    let _ = tempfile::env::override_temp_dir(scratch.path());
    let options = Options {
        quick: args.quick,
        paper: args.paper,
        peers: Peers::new(args.peers.clone()),
        scratch: scratch.path().to_owned(),
        program: std::env::current_exe()
            .map_err(|e| Failure::new(Class::Environment, format!("cannot find itself: {e}")))?,
        only: args.only.clone(),
        kept: BTreeMap::new(),
    };
    if args.resume && args.json.is_none() {
        return Err(Failure::new(Class::Usage, "--resume goes on with the file that --json names"));
    }
    let place = Place { path: args.json.as_deref(), resume: args.resume };
    let bar = bar();
    let saved = repro::run(args.system, &options, place, |step, done, total| {
        let words = "keeps the claims judged so far; the same command with --resume goes on";
        interrupt::say_at_exit(place.path.map(|path| (part_of(path), words.to_owned())));
        bar.set_length(total as u64);
        bar.set_position(done as u64);
        bar.set_message(step.to_owned());
    })?;
    interrupt::say_at_exit(None);
    bar.finish_and_clear();
    finish(&saved, args)
}

/// A folder of this run in the one of `--scratch`, which is made where it is missing.
fn scratch(within: Option<&Path>) -> Result<TempDir, Failure> {
    let within = within.map_or_else(std::env::temp_dir, Path::to_owned);
    fs::create_dir_all(&within)
        .and_then(|()| tempfile::Builder::new().prefix("littoral-repro-").tempdir_in(&within))
        .map_err(|e| {
            let text = format!("cannot make a folder in {} (--scratch): {e}", within.display());
            Failure::new(Class::Environment, text)
        })
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{pos}/{len} {msg}  {elapsed}")
        .expect("invariant: the template is well formed");
    let bar = progress::bar(1, style);
    bar.enable_steady_tick(std::time::Duration::from_millis(500));
    bar
}

fn finish(saved: &Saved, args: &ReproArgs) -> Outcome {
    let run = &saved.run;
    let value = serde_json::to_value([saved])
        .map_err(|e| Failure::new(Class::Environment, format!("cannot show the result: {e}")))?;
    match args.shown.format {
        Format::Json => out::bytes(format!("{value:#}\n").as_bytes())?,
        Format::Text => out::show_titled(Format::Text, &table(run), &TITLES)?,
    }
    let (short, failed) = (run.count(Status::Short), run.count(Status::Failed));
    if args.strict && short + failed > 0 {
        let text = format!("{short} claims are short, {failed} failed to be measured");
        return Err(Failure::new(Class::Negative, text));
    }
    Ok(())
}

/// The run as a table for people: claims with figures, then the reasons of those that do not hold.
fn table(run: &Run) -> Value {
    let rows: Vec<Value> = run
        .claims
        .iter()
        .map(|c| {
            json!({
                "claim": c.id, "paper": c.paper, "target": c.target, "ours": c.ours,
                "unit": c.unit, "better": c.better, "clock": c.clock, "status": c.status,
            })
        })
        .collect();
    let reasons = run.claims.iter().filter(|c| !c.why.is_empty());
    let reasons: Vec<String> = reasons.map(|c| format!("{}: {}", c.id, c.why)).collect();
    let [holds, short, skipped] =
        [Status::Holds, Status::Short, Status::Skipped].map(|s| run.count(s));
    let others = [(Status::Reported, "only reported"), (Status::Failed, "failed to be measured")];
    let others = others.map(|(status, words)| match run.count(status) {
        0 => String::new(),
        n => format!(", {n} {words}"),
    });
    let others = others.concat();
    json!({
        "system": run.system,
        "revision": run.revision,
        "seed_id": run.seed,
        "cpu": run.environment.cpu,
        "cores_count": run.environment.cores_count,
        "load_average": run.environment.load_average_count,
        "claims": rows,
        "reasons": reasons,
        "sentence": format!("{holds} claims hold, {short} are short, {skipped} were skipped{others}."),
    })
}
