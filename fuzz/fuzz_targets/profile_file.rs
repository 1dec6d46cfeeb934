//! Profiles of every kind, raw and as edits of shipped ones: any answer but a panic.
//!
//! An input whose first byte is 255 is a profile's text. Otherwise the byte names a shipped
//! profile, and the rest is a list of {where, byte} written over its text. A profile that is taken
//! gives its model.
//!
//! Canary: before the first input every shipped profile must be taken and give its model.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use littoral_device::profile::{DeviceKind, Profile};
use littoral_fabric::timing::Timing;

static SHIPPED: LazyLock<Vec<String>> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/device/profiles");
    let entries = std::fs::read_dir(folder).expect("the shipped profiles");
    let mut paths: Vec<_> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    let texts = paths.iter().map(|p| std::fs::read_to_string(p).expect("a text"));
    let texts: Vec<String> = texts.collect();
    assert!(texts.len() >= 10 && texts.iter().all(|t| read(t)), "canary: shipped profiles");
    texts
});

fn read(text: &str) -> bool {
    let Ok(profile) = Profile::parse(text, "input") else { return false };
    let _ = (profile.summary(), profile.price_per_gb(), profile.power_w(), profile.hash());
    match profile.kind() {
        DeviceKind::Flash => drop(profile.flash()),
        DeviceKind::Zoned => {
            let zoned = profile.zoned().expect("a profile of its kind");
            zoned.geometry.validate().expect("a profile that is taken has legal zones");
        }
        DeviceKind::Memory => drop(profile.memory()),
        DeviceKind::Push => drop(profile.push()),
        DeviceKind::Fabric => {
            for configuration in profile.configurations() {
                let timing = Timing::of(&profile, configuration);
                timing.expect("a profile that is taken has its constants").loggp();
            }
        }
    }
    true
}

fuzz_target!(|data: &[u8]| {
    let shipped = &*SHIPPED;
    let Some((first, rest)) = data.split_first() else { return };
    if *first == u8::MAX {
        let _ = std::str::from_utf8(rest).map(read);
        return;
    }
    let whole = &shipped[usize::from(*first) % shipped.len()];
    let text = littoral_fuzz::edited(whole.as_bytes(), rest);
    let _ = std::str::from_utf8(&text).map(read);
});
