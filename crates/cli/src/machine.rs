//! `littoral machine`: what is real on this host, what a machine's devices are, what profiles say.

use littoral::Machine;
use littoral::base::error::Class;
use littoral::base::units::ZoneId;
use littoral::device::profile::machine::{DeviceSpec, MachineSpec, Medium};
use littoral::device::profile::{DeviceKind, Interface, Profile};
use littoral::device::zoned::{ZoneReport, ZonedDevice as _};
use littoral::machine::DeviceCheck;
use littoral::machine::host::Host;
use littoral_bench::files;
use serde_json::{Value, json};

use crate::args::{
    MachineArgs, MachineCheckArgs, MachineNewArgs, MachineVerb, ProfilesArgs, ZonesArgs,
};
use crate::failure::{Failure, Outcome};
use crate::out::{self, Format};

/// Runs the command.
pub(crate) fn run(args: &MachineArgs) -> Outcome {
    match &args.verb {
        None => {}
        Some(MachineVerb::Zones(args)) => return out::show(args.shown.format, &zones(args)?),
        Some(MachineVerb::Profiles(args)) => {
            return out::show(args.shown.format, &profiles(args)?);
        }
        Some(MachineVerb::Check(args)) => return check(args),
        Some(MachineVerb::New(args)) => return new(args),
    }
    let value = match &args.profile {
        Some(name) => profile(&Profile::open(name)?, args.shown.format),
        None => machine(&Machine::open(args.file.as_deref())?)?,
    };
    out::show(args.shown.format, &value)
}

/// The shipped profiles, or one profile's figures.
fn profiles(args: &ProfilesArgs) -> Result<Value, Failure> {
    match &args.name {
        Some(name) => Ok(profile(&Profile::open(name)?, args.shown.format)),
        None => Ok(json!({"schema": "littoral.machine.profiles/1", "profiles": shipped()?})),
    }
}

fn shipped() -> Result<Vec<Value>, Failure> {
    let row = |name: &'static str| {
        let profile = Profile::open(name)?;
        Ok(json!({
            "profile": name, "kind": profile.kind().name(), "hash": profile.hash(),
            "summary": profile.summary(),
        }))
    };
    Profile::shipped().map(row).collect()
}

/// Opens every device of a machine that is there.
fn check(args: &MachineCheckArgs) -> Outcome {
    let machine = Machine::open(args.file.as_deref())?;
    let found = machine.check();
    let row = |c: &DeviceCheck| {
        json!({
            "device": c.name, "kind": c.kind, "medium": c.medium,
            "opened": c.found.is_ok(),
            "found": c.found.as_ref().map_or_else(ToString::to_string, Clone::clone),
        })
    };
    let faults = found.iter().filter(|c| c.found.is_err()).count();
    let sentence = match faults {
        0 => "Every device opens, or is made when it is first used.".to_owned(),
        1 => "One device cannot be opened.".to_owned(),
        n => format!("{n} devices cannot be opened."),
    };
    let value = json!({
        "schema": "littoral.machine.check/1",
        "machine": machine.origin(),
        "devices": found.iter().map(row).collect::<Vec<_>>(),
        "faults_count": faults,
        "sentence": sentence,
    });
    out::show(args.shown.format, &value)?;
    match found.into_iter().find_map(|c| c.found.err()) {
        None => Ok(()),
        Some(first) => Err(Failure::new(Class::Negative, first.to_string())),
    }
}

/// Writes a machine file for this host.
fn new(args: &MachineNewArgs) -> Outcome {
    let path = &args.path;
    let usage = |what: &str| Failure::new(Class::Usage, format!("{} {what}", path.display()));
    // A link to nothing is there too.
    if path.symlink_metadata().is_ok() && !args.force {
        return Err(usage("exists; choose another name, or overwrite it with --force"));
    }
    let text = littoral::machine::new::text(path, &Host::default())?;
    let devices = MachineSpec::parse(&text, &path.display().to_string())?.devices.len();
    files::write_whole(path, text.as_bytes())?;
    let value = json!({
        "schema": "littoral.machine.new/1",
        "file": path.display().to_string(),
        "devices_count": devices,
        "sentence": "Written. `littoral machine --file` shows it; change it to your parts.",
    });
    out::show(args.shown.format, &value)
}

/// The zones of a machine's zoned devices, or of one; equal neighbours share a row.
fn zones(args: &ZonesArgs) -> Result<Value, Failure> {
    let machine = Machine::open(args.file.as_deref())?;
    let is_asked = |d: &&DeviceSpec| match &args.device {
        Some(name) => d.name == *name,
        None => d.kind == DeviceKind::Zoned,
    };
    if let Some(name) = &args.device {
        machine.spec().choose(DeviceKind::Zoned, Some(name))?;
    }
    let devices = machine.spec().devices.iter().filter(is_asked);
    let devices = devices.map(|d| device_zones(&machine, d)).collect::<Result<Vec<_>, _>>()?;
    if devices.is_empty() {
        return Err(Failure::new(Class::Usage, "the machine has no device of kind `zoned`"));
    }
    let origin = machine.origin();
    Ok(json!({"schema": "littoral.machine.zones/2", "machine": origin, "devices": devices}))
}

fn device_zones(machine: &Machine, spec: &DeviceSpec) -> Result<Value, Failure> {
    if let Medium::File(path) = &spec.medium
        && !path.exists()
    {
        let text = format!("{} is made when it is first used", path.display());
        return Ok(json!({"device": spec.name, "state": text, "zones": []}));
    }
    let device = machine.zoned(&spec.name)?;
    let limits = device.limits();
    let report = device.report(ZoneId(0), limits.zones)?;
    let block = u64::from(limits.block_bytes);
    Ok(json!({
        "device": spec.name,
        "block_bytes": block,
        "zones_count": limits.zones,
        "open_zones_max_count": limits.open_zones_max,
        "active_zones_max_count": limits.active_zones_max,
        "append_bytes": u64::from(limits.append_blocks_max) * block,
        "zones": runs(&report).iter().map(|run| zone_row(run, block)).collect::<Vec<_>>(),
    }))
}

/// Neighbours that are alike.
fn runs(report: &[ZoneReport]) -> Vec<&[ZoneReport]> {
    let look = |z: &ZoneReport| {
        (z.kind, z.state, z.size_blocks, z.capacity_blocks, z.write_pointer.0 - z.start.0)
    };
    report.chunk_by(|a, b| look(a) == look(b)).collect()
}

fn zone_row(run: &[ZoneReport], block: u64) -> Value {
    let (first, last) = (&run[0], &run[run.len() - 1]);
    let zone = match run.len() {
        1 => first.zone.to_string(),
        _ => format!("{} to {}", first.zone, last.zone),
    };
    json!({
        "zone": zone,
        "kind": format!("{:?}", first.kind),
        "state": format!("{:?}", first.state),
        "size_bytes": first.size_blocks * block,
        "capacity_bytes": first.capacity_blocks * block,
        "written_bytes": (first.write_pointer.0 - first.start.0) * block,
    })
}

fn machine(machine: &Machine) -> Result<Value, Failure> {
    let found = machine.describe();
    let host = found
        .host
        .iter()
        .map(|f| json!({"what": f.name, "available": f.available, "found": f.words}));
    let devices = found.devices.iter().map(
        |d| json!({"device": d.name, "kind": d.kind, "modelled": d.modelled, "made_of": d.words}),
    );
    Ok(json!({
        "schema": "littoral.machine.report/2",
        "machine": found.origin,
        "host": host.collect::<Vec<_>>(),
        "devices": devices.collect::<Vec<_>>(),
        "profiles": shipped()?,
    }))
}

fn profile(profile: &Profile, format: Format) -> Value {
    let rows = profile.figures().map(|(key, row, figure)| match format {
        Format::Text => json!({
            "figure": key, "value": row.unit.show(figure.value), "basis": figure.basis.name(),
            "source": figure.source,
        }),
        Format::Json => json!({
            "figure": key, "value": row.unit.number(figure.value), "unit": row.unit.name(),
            "basis": figure.basis.name(), "source": figure.source,
        }),
    });
    json!({
        "schema": "littoral.profile.report/2",
        "profile": profile.name(),
        "kind": profile.kind().name(),
        "summary": profile.summary(),
        "interface": profile.interface().map(Interface::name),
        "hash": profile.hash(),
        "figures": rows.collect::<Vec<Value>>(),
    })
}
