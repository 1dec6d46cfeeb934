//! Tests of profiles: shipped files, errors, hash.

use super::*;

use littoral_base::units::Picos;

const GOOD: &str = SHIPPED[0].2;

fn refused(text: &str) -> String {
    Profile::parse(text, "p.toml").unwrap_err().to_string()
}

fn text_of(name: &str) -> &'static str {
    SHIPPED.iter().find(|(n, ..)| *n == name).unwrap().2
}

#[test]
fn every_shipped_profile_is_valid_and_named_as_it_is_asked_for() {
    for (i, (name, kind, text)) in SHIPPED.iter().enumerate() {
        let p = Profile::named(name).unwrap();
        assert_eq!((p.name(), p.kind()), (*name, *kind));
        assert!(SHIPPED[..i].iter().all(|(n, ..)| n != name), "{name} is shipped twice");
        assert!(!p.summary().is_empty() && p.hash().len() == 16, "{name}");
        let opened = [p.flash().is_ok(), p.zoned().is_ok(), p.memory().is_ok()];
        let wanted = [DeviceKind::Flash, DeviceKind::Zoned, DeviceKind::Memory].map(|k| k == *kind);
        assert_eq!(opened, wanted, "{name}");
        let sourced = |f: &Figure| f.basis != Basis::Given && f.source.len() > 5;
        assert!(p.figures().count() >= 5 && p.figures().all(|(.., f)| sourced(f)), "{name}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        std::fs::write(&path, text).unwrap();
        assert_eq!(Profile::open(path.to_str().unwrap()).unwrap(), p, "{name} from a file");
    }
    assert_eq!(Profile::open("./absent.toml").unwrap_err().kind(), Kind::Io);
}

#[test]
fn the_zoned_profiles_have_the_shapes_that_the_docs_quote() {
    let zoned = |name: &str| Profile::named(name).unwrap().zoned().unwrap();
    assert_eq!(zoned("zns-paper").geometry, crate::zoned::zones::Geometry::paper());
    let (ssd, smr) = (zoned("zns-ssd").geometry, zoned("smr-disk").geometry);
    assert_eq!((ssd.sequential_zones, ssd.capacity_blocks), (904, 275_712));
    assert_eq!((smr.conventional_zones, smr.zones(), smr.append_blocks_max), (524, 52_156, 0));
    let paper = zoned("zns-paper").timing;
    assert_eq!((paper.read, paper.program), (Picos::from_micros(40), Picos::from_micros(200)));
    assert_eq!((paper.wear_step_resets, paper.wear_step_percent), (100, 10));
}

#[test]
fn mistakes_in_profiles_of_every_kind_are_named_with_line_and_remedy() {
    for (name, from, to, wanted) in [
        ("zns-ssd", "\"1077MiB\"", "\"3GiB\"", "is above `geometry.zone_size`"),
        ("zns-ssd", "value = 904", "value = 0", "nearest legal value 1"),
        ("zns-ssd", "\"2GiB\"", "2147483649", "no multiple of `geometry.block_bytes`"),
        ("smr-disk", "value = 524,", "value = 60000,", "nearest legal value 52156"),
        ("zns-paper", "\nchannels", "\nchanels", "did you mean `channels`?"),
        ("zns-paper", "\"40us\"", "40", "a time needs a unit"),
        ("optane-dcpmm", "value = 256", "value = 100", "nearest legal value 128 B"),
        ("optane-dcpmm", "[read]", "speed = 3\n[read]", "unknown field `write.speed`"),
        ("tcp", "send = {", "sent = {", "field `default.send` is missing"),
        ("tcp", "basis = \"public\"", "basis = \"publik\"", "did you mean `public`?"),
        ("tcp", "[default]", "[default]\nboared = 3", "did you mean `board`?"),
        ("tcp", "\"5us\"", "\"5s\"", "nearest legal value 100 ms"),
        ("tcp", "profile/1", "fabric/1", "this build reads `littoral.profile/1`"),
    ] {
        let good = text_of(name);
        assert!(good.contains(from), "{name}: {from}");
        let e = refused(&good.replacen(from, to, 1));
        assert!(e.contains(wanted) && e.contains("p.toml:"), "{name}, {to}: {e}");
    }
    let head = text_of("tcp").split("\n\n").next().unwrap();
    assert!(refused(head).contains("no configuration"));
}

#[test]
fn configurations_are_named_or_the_only_one() {
    let (tcp, only) = Profile::configured("tcp").unwrap();
    assert_eq!((tcp.name(), only.as_str()), ("tcp", "default"));
    let (cluster, _) = Profile::configured("loongson-2e:cluster").unwrap();
    assert_eq!(cluster.configurations(), ["cluster", "manager", "remote"]);
    assert_eq!(cluster.value("manager.board"), Some(2_000_000));
    assert_eq!(cluster.value("cluster.board"), None);
    let faster = cluster.with("cluster.send", "1us").unwrap();
    assert_eq!(faster.value("cluster.send"), Some(1_000_000));
}

#[test]
fn an_unknown_name_brings_the_nearest_of_every_kind() {
    for (typo, near) in [("xlfd", "xlfdd"), ("smr-disc", "smr-disk"), ("rdna", "rdma")] {
        let error = Profile::open(typo).unwrap_err().to_string();
        assert!(error.contains(&format!("did you mean `{near}`?")), "{error}");
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
    for (from, to) in [("name = \"xlfdd\"", "name = \"other\""), ("\"lightweight\"", "\"load\"")] {
        let changed = GOOD.replacen(from, to, 1);
        assert_ne!(changed, GOOD, "{from}");
        assert_ne!(Profile::parse(&changed, "x").unwrap().hash(), p.hash(), "{to}");
    }
    let mut lines: Vec<&str> = GOOD.lines().collect();
    let at = lines.iter().position(|l| l.starts_with("latency = ")).unwrap();
    lines.swap(at, at + 1);
    assert!(lines[at].contains(" = {"), "two figures change places");
    assert_eq!(Profile::parse(&lines.join("\n"), "x").unwrap().hash(), p.hash());
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
