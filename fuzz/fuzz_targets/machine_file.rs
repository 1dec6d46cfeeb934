//! Machine files, raw and as edits of a whole one: any answer but a panic.
//!
//! An input whose first byte is odd is a file; otherwise it is a list of {where, byte} written over
//! a machine file of one device of each kind, so that the checks behind the syntax are reached. A
//! file that is taken describes each of its devices.
//!
//! Canary: before the first input the whole file must be taken and a misspelt field refused.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_device::profile::machine::MachineSpec;

const WHOLE: &str = r#"schema = "littoral.machine/1"

[device.fast]
kind = "flash"
medium = "ram"
profile = "xlfdd"
capacity = "4GiB"

[device.zones]
kind = "zoned"
medium = "file:smr.img"
block_bytes = 4096
zones = 32
zone_size = "64MiB"
zone_capacity = "48MiB"

[device.modelled]
kind = "zoned"
medium = "ram"
profile = "zns-paper"

[device.heap]
kind = "memory"
medium = "file:heap.pool"
capacity = "64MiB"

[device.others]
kind = "fabric"
medium = "tcp:127.0.0.1:7001"
nodes = 4
window = "1MiB"
"#;

fn read(text: &str) -> bool {
    let Ok(machine) = MachineSpec::parse(text, "input") else { return false };
    for device in &machine.devices {
        let _ = device.figures().count();
        if device.kind.name() == "zoned" {
            let _ = device.zones();
        }
    }
    true
}

static CANARY: LazyLock<()> = LazyLock::new(|| {
    assert!(read(WHOLE), "canary: {:?}", MachineSpec::parse(WHOLE, "input").err());
    assert!(!read(&WHOLE.replace("medium", "midium")), "canary: an unknown field");
});

fuzz_target!(|data: &[u8]| {
    LazyLock::force(&CANARY);
    littoral_fuzz::text(WHOLE, data).map(|text| read(&text));
});
