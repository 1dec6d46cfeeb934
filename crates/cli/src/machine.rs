//! `littoral machine`: what is real on this host, what a machine's devices are, what profiles say.

use littoral::Machine;
use littoral::device::profile::Profile;
use serde_json::{Value, json};

use crate::args::MachineArgs;
use crate::failure::{Failure, Outcome};
use crate::out;

/// Runs the command.
pub(crate) fn run(args: &MachineArgs) -> Outcome {
    let value = match &args.profile {
        Some(name) => profile(&Profile::open(name)?),
        None => machine(&Machine::open(args.file.as_deref())?)?,
    };
    out::show(args.shown.format, &value)
}

fn machine(machine: &Machine) -> Result<Value, Failure> {
    let found = machine.describe();
    let host = found
        .host
        .iter()
        .map(|f| json!({"what": f.name, "available": f.available, "found": f.words}));
    let devices = found.devices.iter().map(
        |d| json!({"device": d.name, "kind": d.kind, "modelled": d.modelled, "made of": d.words}),
    );
    let mut profiles = Vec::new();
    for name in Profile::shipped() {
        let profile = Profile::named(name)?;
        profiles.push(json!({
            "profile": name, "kind": profile.kind().name(), "hash": profile.hash(),
            "summary": profile.summary(),
        }));
    }
    Ok(json!({
        "schema": "littoral.machine.report/1",
        "machine": found.origin,
        "host": host.collect::<Vec<_>>(),
        "devices": devices.collect::<Vec<_>>(),
        "profiles": profiles,
    }))
}

fn profile(profile: &Profile) -> Value {
    let figures = profile.figures().map(|(row, figure)| {
        json!({
            "figure": row.key,
            "value": row.unit.show(figure.value),
            "basis": figure.basis.name(),
            "source": figure.source,
        })
    });
    json!({
        "schema": "littoral.profile.report/1",
        "profile": profile.name(),
        "summary": profile.summary(),
        "interface": profile.interface().name(),
        "hash": profile.hash(),
        "figures": figures.collect::<Vec<_>>(),
    })
}
