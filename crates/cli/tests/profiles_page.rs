//! The design page of profiles names every figure that a profile may hold.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use littoral::device::profile::DeviceKind;

#[test]
fn every_figure_of_every_kind_stands_on_the_page() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/design/profiles.md");
    let text = std::fs::read_to_string(page).unwrap();
    for (kind, all) in DeviceKind::ALL {
        for row in all.rows().iter().filter(|r| !r.key.starts_with("nand.")) {
            assert!(text.contains(&format!("`{}`", row.key)), "{kind}: `{}`", row.key);
        }
    }
}
