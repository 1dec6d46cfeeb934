//! `littoral machine`: what is real on this host, what a machine's devices are, what profiles say.

use littoral::Machine;
use littoral::base::error::Class;
use littoral::base::units::ZoneId;
use littoral::device::profile::machine::{DeviceSpec, Medium};
use littoral::device::profile::{DeviceKind, Interface, Profile};
use littoral::device::zoned::{ZoneReport, ZonedDevice as _};
use serde_json::{Value, json};

use crate::args::{MachineArgs, MachineVerb, ZonesArgs};
use crate::failure::{Failure, Outcome};
use crate::out::{self, Format};

/// Runs the command.
pub(crate) fn run(args: &MachineArgs) -> Outcome {
    if let Some(MachineVerb::Zones(args)) = &args.verb {
        return out::show(args.shown.format, &zones(args)?);
    }
    let value = match &args.profile {
        Some(name) => profile(&Profile::open(name)?, args.shown.format),
        None => machine(&Machine::open(args.file.as_deref())?)?,
    };
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
        machine.spec().device(name)?;
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
    let mut profiles = Vec::new();
    for name in Profile::shipped() {
        let profile = Profile::open(name)?;
        profiles.push(json!({
            "profile": name, "kind": profile.kind().name(), "hash": profile.hash(),
            "summary": profile.summary(),
        }));
    }
    Ok(json!({
        "schema": "littoral.machine.report/2",
        "machine": found.origin,
        "host": host.collect::<Vec<_>>(),
        "devices": devices.collect::<Vec<_>>(),
        "profiles": profiles,
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
