//! Tests of profiles: shipped files, errors, hash.

use super::*;

const GOOD: &str = SHIPPED[0].1;

fn refused(text: &str) -> String {
    Profile::parse(text, "p.toml").unwrap_err().to_string()
}

#[test]
fn every_shipped_profile_is_valid_and_named_as_it_is_asked_for() {
    for name in Profile::shipped() {
        let p = Profile::named(name).unwrap();
        assert_eq!(p.name(), name);
        p.flash().unwrap();
        assert!(p.figures().all(|(_, f)| f.basis != Basis::Given && f.source.len() > 10), "{name}");
    }
}

#[test]
fn the_paper_s_drive_has_the_figures_the_docs_quote() {
    let f = Profile::named("xlfdd").unwrap().flash().unwrap();
    assert_eq!(f.latency, Picos::from_micros(4));
    assert_eq!((f.reads_per_core_max, f.granule_bytes, f.read_bytes_max), (44_000_000, 16, 2048));
    assert_eq!((f.link_bytes_per_s, f.interface), (12_800_000_000, Interface::Lightweight));
}

#[test]
fn errors_name_line_field_and_nearest_legal_value() {
    let e = refused(&GOOD.replace("granule_bytes = { value = 16", "granule_bytes = { value = 24"));
    assert!(e.contains("p.toml:11: `read.granule_bytes`: 24 B is not a power of two"), "{e}");
    assert!(e.contains("nearest legal value 32 B"), "{e}");
    let e = refused(&GOOD.replace("\nlatency = {", "\nlatncy = {"));
    assert!(e.contains("p.toml:8: unknown field `read.latncy`; did you mean `latency`?"), "{e}");
    let e = refused(&GOOD.replace("value = \"4us\"", "value = 4"));
    assert!(e.contains("a time needs a unit"), "{e}");
    let e = refused(
        &GOOD.replace("value = 4096, basis = \"assumed\"", "value = -3, basis = \"assumed\""),
    );
    assert!(e.contains("queue.depth.value"), "{e}");
    let e = refused(&GOOD.replace("kind = \"flash\"", "kind = \"flesh\""));
    assert!(e.contains("did you mean `flash`?"), "{e}");
    let e = refused(&GOOD.replace("[link]", "[lunk]"));
    assert!(e.contains("unknown field `lunk`; did you mean `link`?"), "{e}");
    let e = refused("schema = \"littoral.profile/2\"");
    assert!(e.contains("littoral.profile/1"), "{e}");
    let e = refused("schema = \n");
    assert!(e.contains("p.toml:1: not TOML"), "{e}");
    let no_chips: Vec<_> = GOOD.lines().filter(|l| !l.starts_with("chips_per")).collect();
    assert!(refused(&no_chips.join("\n")).contains("`nand.chips_per_channel` is missing"));
    let no_latency: Vec<_> = GOOD.lines().filter(|l| !l.starts_with("latency")).collect();
    assert!(refused(&no_latency.join("\n")).contains("`read.latency` is missing"));
    let e = refused(&GOOD.replace("value = \"176M\"", "value = \"1M\""));
    assert!(e.contains("nearest legal value 44000000"), "{e}");
}

#[test]
fn the_hash_sees_values_and_nothing_else() {
    let p = Profile::named("xlfdd").unwrap();
    let same = GOOD.replace("the group's later work", "somewhere") + "\n# a comment\n";
    assert_eq!(Profile::parse(&same, "x").unwrap().hash(), p.hash());
    let other = GOOD.replace("value = \"4us\"", "value = \"4.001us\"");
    assert_ne!(Profile::parse(&other, "x").unwrap().hash(), p.hash());
    let spelled = GOOD.replace("value = \"4us\"", "value = \"4000ns\"");
    assert_eq!(Profile::parse(&spelled, "x").unwrap().hash(), p.hash());
}

#[test]
fn a_change_is_checked_and_marks_the_name() {
    let p = Profile::named("xlfdd").unwrap();
    let q = p.with("read.latency", "20us").unwrap().with("read.per_core_max", "5M").unwrap();
    assert_eq!(q.flash().unwrap().latency, Picos::from_micros(20));
    assert_eq!(q.name(), "xlfdd+read.latency=20us+read.per_core_max=5M/s");
    assert!(p.with("read.latecy", "20us").unwrap_err().to_string().contains("`read.latency`"));
    assert!(p.with("read.granule_bytes", "3").is_err());
    assert!(
        p.with("read.per_core_max", "500M").unwrap_err().to_string().contains("read.total_max")
    );
    assert!(Profile::named("xlfd").unwrap_err().to_string().contains("`xlfdd`"));
}

#[test]
fn no_prefix_of_a_profile_and_no_flipped_byte_panics() {
    for end in 0..GOOD.len() {
        if let Some(text) = GOOD.get(..end) {
            let _ = Profile::parse(text, "prefix");
        }
    }
    for at in 0..GOOD.len() {
        let mut bytes = GOOD.as_bytes().to_vec();
        bytes[at] ^= 0x15;
        if let Ok(text) = std::str::from_utf8(&bytes) {
            let _ = Profile::parse(text, "flipped");
        }
    }
}
