//! `littoral push`: data sets, scans near storage, policies and devices to choose from.
//!
//! - Data sets are replaced as a whole; a failed load leaves the old one.
//! - Times of modelled devices are virtual and say by which profile; `serve` is paced.

mod grid;
mod scan;
mod table;

use std::path::{Path, PathBuf};

use littoral::Machine;
use littoral::base::error::Class;
use littoral::base::units::Picos;
use littoral::device::profile::machine::{DeviceSpec, MachineSpec, Medium};
use littoral::device::profile::{DeviceKind, Profile};
use littoral::machine::choice::Word;
use littoral::machine::push::PushDevice;
use littoral::push::api::{About, Cores, DataSet, Engine, Host, Settings, records_of};
use littoral::push::command::Quotas;
use littoral::push::data::{lineitem, lineitem_schema};
use littoral::push::device::served;
use littoral::push::error::Kind;
use littoral::push::page::Format as PageFormat;
use littoral::push::policy::Policy;
use littoral::push::serve::Server;
use serde_json::{Value, json};

use crate::args::{
    MachineFileArgs, PagesArgs, PolicyWord, PushCommand, PushGenArgs, PushLoadArgs, PushServeArgs,
};
use crate::failure::{Failure, Outcome};
use crate::{interrupt, out};

/// The shortest lease of a served device: a host must be able to speak within it.
const LEASE_LEAST: Picos = Picos::from_micros(1_000);
/// The least scale factor: there must be a supplier.
const SCALE_LEAST: f64 = 0.0001;
/// The paper's task queue, whose length it does not give.
const QUEUE: u32 = 4;

/// Runs the command.
pub(crate) fn run(command: &PushCommand) -> Outcome {
    match command {
        PushCommand::Gen(args) => generate(args),
        PushCommand::Load(args) => load(args),
        PushCommand::Run(args) => scan::run(args),
        PushCommand::Sweep(args) => grid::sweep(args),
        PushCommand::Whatif(args) => grid::whatif(args),
        PushCommand::Serve(args) => serve(args),
    }
}

/// The machine and the device of it that holds the data set.
fn place(
    set: Option<&str>,
    profile: Option<&str>,
    on: &MachineFileArgs,
) -> Result<(Machine, String), Failure> {
    let Some(set) = set else {
        return Ok(on.choice().resolve(DeviceKind::Push, None, Word::Exact(Medium::Ram))?);
    };
    let medium = medium(set)?;
    let mut spec = DeviceSpec::new("set", DeviceKind::Push, medium);
    if let Some(name) = profile {
        spec.profile = Some(Profile::open(name)?.expect_kind(DeviceKind::Push)?.clone());
    }
    Ok((Machine::of(MachineSpec::one(spec), "options"), "set".to_owned()))
}

/// The medium that a set names: a file, or what machine files spell with a scheme. A word with a
/// colon that is neither a file nor a medium is a mistake, not a file that is not there.
fn medium(set: &str) -> Result<Medium, Failure> {
    let scheme = set.split_once(':').map(|(scheme, _)| scheme);
    let is_word = |s: &&str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_lowercase());
    let legal = DeviceKind::Push.media();
    let is_legal = |s: &str| legal.iter().any(|m| m.strip_suffix(':') == Some(s));
    match scheme.filter(is_word) {
        Some(s) if is_legal(s) || !Path::new(set).exists() => {
            let medium = Medium::parse(set)?;
            if legal.contains(&medium.scheme()) {
                return Ok(medium);
            }
            let what = format!("{set}: a push device takes {}", legal.join(", "));
            Err(Failure::new(Class::Usage, what))
        }
        _ => Ok(Medium::File(set.into())),
    }
}

/// A host with the device, which tells hosts apart by their connections.
fn host(device: PushDevice, depth: usize) -> Host<PushDevice> {
    Host::new(device, std::process::id(), depth)
}

/// What is known of the host's data set, which is in `place`; one without records is refused.
fn about(host: &mut Host<PushDevice>, place: &str) -> Result<About, Failure> {
    let about = host.about()?;
    if about.rows == 0 {
        let what = format!("{place}: no data set here; make one with `littoral push load`");
        return Err(Failure::new(Class::Environment, what));
    }
    Ok(about)
}

fn policy(word: PolicyWord) -> Policy {
    match word {
        PolicyWord::Late => Policy::Late,
        PolicyWord::Host => Policy::Host,
        PolicyWord::Device => Policy::Device,
        PolicyWord::Filter => Policy::HandCoded,
        PolicyWord::Dynamic => Policy::Dynamic { queue: QUEUE },
        PolicyWord::Static(share) => Policy::Static(vec![share]),
    }
}

fn making(args: &PagesArgs) -> Result<(PageFormat, usize), Failure> {
    let too_large = |_| Failure::new(Class::Usage, format!("{} is too large a page", args.page));
    Ok((args.pages.0, usize::try_from(args.page.0).map_err(too_large)?))
}

fn generate(args: &PushGenArgs) -> Outcome {
    if !(SCALE_LEAST..=100.0).contains(&args.scale) {
        let what = format!("a scale factor lies in {SCALE_LEAST} to 100, not at {}", args.scale);
        return Err(Failure::new(Class::Usage, what));
    }
    let (format, page_bytes) = making(&args.making)?;
    let empty = About::new(&lineitem_schema()?, format, page_bytes);
    let empty = About { scale: args.scale, ..empty };
    let records = lineitem(args.scale).map(Ok);
    let (machine, name) = place(args.set.as_deref(), None, &args.on)?;
    let stored = match &machine.spec().device(&name)?.medium {
        // A data set is replaced whatever it holds now, so it is not opened.
        Medium::File(path) => {
            refuse_another_file(path)?;
            remove_draft_at_exit(path);
            let mut set = DataSet::absent(path, &empty);
            set.begin(&empty)?;
            let (pages, rows) = records_of(&empty, records, |n, page| set.put(n, page))?;
            set.commit(&About { pages, rows, ..empty })?;
            set.about().clone()
        }
        _ => host(machine.push(&name)?, 1).store(&empty, records)?,
    };
    out::show(args.shown.format, &described(args.set.as_ref().unwrap_or(&name), &stored))
}

/// Refuses a file that is no data set: only a data set is replaced.
fn refuse_another_file(path: &Path) -> Outcome {
    if path.metadata().is_ok_and(|m| m.len() > 0) && !DataSet::is_at(path) {
        let what = "exists and is no data set; choose another name";
        return Err(Failure::new(Class::Usage, format!("{} {what}", path.display())));
    }
    Ok(())
}

/// Removes what is made of the data set at `path` when Ctrl-C ends the run.
fn remove_draft_at_exit(path: &Path) {
    if let Some(draft) = DataSet::draft_path(path) {
        interrupt::remove_at_exit(draft);
    }
}

fn described(name: &str, about: &About) -> Value {
    let column = |(n, c): (usize, &littoral::push::page::Column)| {
        let words = about.words(n);
        json!({
            "column": c.name,
            "kind": words.map_or_else(|| c.kind.name(), |_| "words".to_owned()),
            "nullable": c.nullable,
            "words_count": words.map(<[String]>::len),
        })
    };
    json!({
        "schema": "littoral.push.set/1",
        "set": name,
        "records_count": about.rows,
        "pages_count": about.pages,
        "page_bytes": about.page_bytes,
        "pages": about.format.name(),
        "columns": about.schema.columns.iter().enumerate().map(column).collect::<Vec<_>>(),
    })
}

fn load(args: &PushLoadArgs) -> Outcome {
    let (format, page_bytes) = making(&args.making)?;
    let (machine, name) = place(args.set.as_deref(), None, &args.on)?;
    if let Medium::File(path) = &machine.spec().device(&name)?.medium {
        refuse_another_file(path)?;
        remove_draft_at_exit(path);
    }
    let mut host = host(machine.push(&name)?, 1);
    let making = (format, page_bytes);
    let name = args.set.clone().unwrap_or(name);
    let stored = table::read(&args.input, making, |about, records| {
        // What the device fails with names the data set beside the table.
        host.store(about, records).map_err(|e| match e.kind() {
            Kind::Io => e.in_context(&name),
            _ => e,
        })
    })?;
    out::show(args.shown.format, &described(&name, &stored))
}

/// The file that is served.
fn served_file(args: &PushServeArgs) -> Result<PathBuf, Failure> {
    if let Some(set) = &args.set {
        return Ok(set.clone());
    }
    let (machine, name) = place(None, None, &args.on)?;
    let device = machine.spec().device(&name)?;
    let Medium::File(path) = &device.medium else {
        let (label, medium) = (device.label(), device.medium.scheme());
        let what = format!("{label}: a data set in a file can be served, not one on `{medium}`");
        return Err(Failure::new(Class::Usage, what));
    };
    Ok(path.clone())
}

fn serve(args: &PushServeArgs) -> Outcome {
    if args.lease < LEASE_LEAST {
        let what = format!("--lease {}: no host is heard within it; use 1ms or more", args.lease);
        return Err(Failure::new(Class::Usage, what));
    }
    let set = DataSet::load(&served_file(args)?)?;
    let about = set.about().clone();
    let link = args.link.0.max(1.0) as u64;
    let machine = served(link, args.cores, args.mhz, about.page_bytes as u32)?;
    let quotas = Quotas { sessions: 64, tasks: 16, pages: 1 << 32, lease: args.lease };
    let budget = machine.budget;
    let (cores, store_bytes) = (Cores::Twin, args.store_max.0);
    let settings = Settings { cores, budget, quotas, store_bytes, ..Settings::default() };
    let engine = Engine::new(set, settings);
    // From here on a signal ends the server in good order: once there is a socket, it is removed.
    let stop = interrupt::flag();
    let mut server =
        Server::listen(&args.socket, engine, machine, policy(args.policy), args.lease)?;
    let words =
        format!("serving {} pages at {}; end with Ctrl-C\n", about.pages, args.socket.display());
    out::bytes(words.as_bytes())?;
    server.run(stop)?;
    Ok(())
}
