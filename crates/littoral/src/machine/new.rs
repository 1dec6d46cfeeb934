//! A commented machine file for this host.
//!
//! - What every host has is described: modelled flash, zones and persistent memory in files beside
//!   the machine file, shared memory as a fabric.
//! - What this host has beside that (io_uring, zoned drives, DAX memory) stands in comments: a
//!   drive is used once its lines are made active, never by a default.
//!
//! The text is read back before it is handed out, so that `littoral machine` accepts it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use littoral_device::profile::machine::{MachineSpec, SCHEMA};
use littoral_device::profile::{DeviceKind, Profile};
use littoral_device::{Error, Kind, Result};

use super::host::Host;

/// The text of a machine file at `path`; the files of its devices lie beside it.
///
/// # Errors
/// `Kind::Io` when the folder is not there, `Kind::IllegalRequest` for a folder whose name a
/// machine file cannot hold.
pub fn text(path: &Path, host: &Host) -> Result<String> {
    let (folder, stem) = place(path)?;
    let file = |ending: &str| format!("file:{}", folder.join(format!("{stem}.{ending}")).display());
    let mut text = format!(
        "# The memory devices of this host, written by `littoral machine new`.\n\
         # Every command takes `--machine {stem}.toml`, and `--device NAME` where there are several\n\
         # of the kind. `littoral machine check` opens every device.\n\
         schema = \"{SCHEMA}\"\n"
    );
    add_flash(&mut text, host);
    add_zoned(&mut text, host, &file("zones"));
    add_memory(&mut text, host, &file("memory"));
    add_fabric(&mut text);
    MachineSpec::parse(&text, &path.display().to_string())?;
    Ok(text)
}

/// The absolute folder of a machine file, and its name without the ending.
fn place(path: &Path) -> Result<(PathBuf, String)> {
    let io = |e| Error::with_source(Kind::Io, path.display().to_string(), e);
    let whole = std::path::absolute(path).map_err(io)?;
    let folder = whole.parent().unwrap_or(Path::new("/")).to_path_buf();
    std::fs::metadata(&folder).map_err(io)?;
    let stem = whole.file_stem().and_then(|s| s.to_str()).unwrap_or("machine").to_owned();
    let is_plain = |s: &str| !s.contains(['"', '\\', '\n', '\r']);
    match folder.to_str() {
        Some(name) if is_plain(name) && is_plain(&stem) => Ok((folder, stem)),
        _ => {
            let what = "has quotes, backslashes or line ends in its name; choose another folder";
            let what = format!("{} {what}", folder.display());
            Err(Error::new(Kind::IllegalRequest, what))
        }
    }
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    writeln!(text, "{words}").expect("invariant: a string takes all");
}

fn names(kind: DeviceKind) -> String {
    Profile::shipped_of(kind).collect::<Vec<_>>().join(", ")
}

fn add_flash(text: &mut String, host: &Host) {
    let flash = names(DeviceKind::Flash);
    line(
        text,
        format_args!(
            "\n# Flash, modelled: contents are in memory and obey the profile's latency and rates."
        ),
    );
    line(text, format_args!("# Profiles: {flash}, or a file of your own."));
    line(
        text,
        format_args!(
            "[device.flash]\nkind = \"flash\"\nmedium = \"ram\"\nprofile = \"xlfdd\"\ncapacity = \"1GiB\""
        ),
    );
    let how = match host.io_uring_refusal() {
        None => "io_uring is available".to_owned(),
        Some(why) => format!("a pool of threads stands in for io_uring: {}", one_line(&why)),
    };
    line(text, format_args!("\n# A real drive, or a file on one: reads go to it ({how})."));
    line(
        text,
        format_args!(
            "# [device.drive]\n# kind = \"flash\"\n# medium = \"uring:/path/of/a/graph.lg\""
        ),
    );
}

fn add_zoned(text: &mut String, host: &Host, file: &str) {
    line(
        text,
        format_args!(
            "\n# Zoned storage in a sparse file, made when it is first used: 1 GiB in place, 4 GiB in zones."
        ),
    );
    line(
        text,
        format_args!(
            "[device.zoned]\nkind = \"zoned\"\nmedium = \"{file}\"\nblock_bytes = 4096\nzones = 80\nconventional_zones = 16\nzone_size = \"64MiB\"\nopen_zones_max = 14\nactive_zones_max = 14"
        ),
    );
    let drives = host.zoned_drives();
    if drives.is_empty() {
        line(
            text,
            format_args!(
                "# This host has no zoned drive; a modelled one: medium = \"ram\", profile = {}.",
                names(DeviceKind::Zoned)
            ),
        );
    }
    for drive in drives {
        line(
            text,
            format_args!(
                "\n# Found on this host. Its contents are lost when a store is made there.\n# [device.{drive}]\n# kind = \"zoned\"\n# medium = \"zbd:/dev/{drive}\""
            ),
        );
    }
}

fn add_memory(text: &mut String, host: &Host, file: &str) {
    line(
        text,
        format_args!(
            "\n# Persistent memory in a file, made when it is first used and durable by msync."
        ),
    );
    line(
        text,
        format_args!(
            "[device.memory]\nkind = \"memory\"\nmedium = \"{file}\"\ncapacity = \"256MiB\""
        ),
    );
    let found = host.dax_devices();
    if found.is_empty() {
        line(
            text,
            format_args!(
                "# This host has no DAX memory; a modelled part: medium = \"ram\", profile = \"{}\".",
                names(DeviceKind::Memory)
            ),
        );
    }
    for dax in found {
        line(
            text,
            format_args!(
                "\n# Found on this host: DAX memory, durable by flush and fence.\n# [device.{}]\n# kind = \"memory\"\n# medium = \"dax:/dev/{dax}\"",
                dax.replace('.', "-")
            ),
        );
    }
}

fn add_fabric(text: &mut String) {
    line(
        text,
        format_args!(
            "\n# Shared memory between the ranks of a job on this host. With a profile ({})",
            names(DeviceKind::Fabric)
        ),
    );
    line(text, format_args!("# the job runs in virtual time on that interconnect."));
    line(
        text,
        format_args!(
            "[device.fabric]\nkind = \"fabric\"\nmedium = \"ram\"\nnodes = 2\nwindow = \"64KiB\""
        ),
    );
}

fn one_line(words: &str) -> String {
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_a_machine_and_names_what_the_host_has() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join("host").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("sys/block/nvme7n2/queue/zoned", "host-managed\n");
        put("sys/block/sda/queue/zoned", "none\n");
        put("sys/bus/dax/devices/dax0.0/size", "1\n");
        let host = Host::at(dir.path().join("host"));
        let path = dir.path().join("mine.toml");
        let text = text(&path, &host).unwrap();
        for words in ["zbd:/dev/nvme7n2", "dax:/dev/dax0.0", "[device.dax0-0]", "mine.zones"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("sda"), "{text}");
        let spec = MachineSpec::parse(&text, "mine.toml").unwrap();
        let kinds: Vec<&str> = spec.devices.iter().map(|d| d.kind.name()).collect();
        assert_eq!(
            kinds,
            ["fabric", "flash", "memory", "zoned"],
            "one of each, drives in comments"
        );
        // What is found becomes a machine once its lines are made active.
        let active = text.replace("# [device", "[device").replace("# kind", "kind");
        let active = active.replace("# medium", "medium");
        assert_eq!(MachineSpec::parse(&active, "mine.toml").unwrap().devices.len(), 7);
        let none = super::text(&dir.path().join("gone/mine.toml"), &host).unwrap_err();
        assert_eq!(none.kind(), Kind::Io);
    }
}
