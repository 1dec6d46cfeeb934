//! The virtual machine: modules loaded, devices made, what was found said on the console.

use std::error::Error;
use std::ffi::CString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use littoral_device::zoned::joined::Joined;
use littoral_device::zoned::linux::LinuxDevice;
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, init_module, reboot};

use super::trace;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Modules to load and what to tell them.
pub(crate) const MODULES: [(&str, &str); 6] = [
    ("configfs", ""),
    ("null_blk", "nr_devices=0"),
    ("sd_mod", ""),
    (
        "scsi_debug",
        "zbc=managed zone_nr_conv=2 zone_size_mb=4 zone_max_open=6 dev_size_mb=64 \
         sector_size=4096 delay=0",
    ),
    ("nvme", ""),
    ("nvme_core", ""),
];

/// Runs everything and restarts, which ends the machine.
pub(crate) fn boot() -> ! {
    let done = prepare().and_then(|()| compare());
    match done {
        Ok(()) => say("GUEST PASSED"),
        Err(e) => say(&format!("GUEST FAILED: {e}")),
    }
    rustix::fs::sync();
    // Without a restart the kernel would panic when this process ends: that ends the machine too.
    let _ = reboot(RebootCommand::Restart);
    std::process::exit(1)
}

/// One line on the console.
pub(crate) fn say(line: &str) {
    // Without a console there is no one to tell.
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn prepare() -> Result<()> {
    for (kind, at) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        mount(kind, at, kind, MountFlags::empty(), None)
            .map_err(|e| format!("mounting {at}: {e}"))?;
    }
    let mut files: Vec<PathBuf> =
        fs::read_dir("/modules")?.map(|e| e.map(|e| e.path())).collect::<std::io::Result<_>>()?;
    files.sort();
    for path in files {
        let file = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let name = file.split_once('-').map_or(file, |(_, name)| name);
        let words = MODULES.iter().find(|(n, _)| *n == name).map_or("", |(_, words)| words);
        init_module(&fs::read(&path)?, &CString::new(words)?)
            .map_err(|e| format!("module {name}: {e}"))?;
    }
    Ok(())
}

fn compare() -> Result<()> {
    trace::compare("null_blk", || Ok(LinuxDevice::open(&null_blk()?)?))?;
    let disk = wait_for("sda", "host-managed")?;
    trace::compare("scsi_debug", || Ok(LinuxDevice::open(&disk)?))?;
    let zones = wait_for("nvme0n2", "host-managed")?;
    let ordinary = wait_for("nvme0n1", "none")?;
    trace::compare("nvme", || Ok(Joined::open(&ordinary, LinuxDevice::open(&zones)?)?))
}

/// Makes a null_blk device: sixteen zones of 4 MiB, one conventional, 3 MiB of each writable.
fn null_blk() -> Result<PathBuf> {
    let made = Path::new("/sys/kernel/config/nullb/nullb0");
    let disk = PathBuf::from("/dev/nullb0");
    if made.exists() {
        return Ok(disk);
    }
    mount("configfs", "/sys/kernel/config", "configfs", MountFlags::empty(), None)?;
    fs::create_dir(made).map_err(|e| format!("null_blk: {e}"))?;
    for (key, value) in [
        ("size", "64"),
        ("blocksize", "4096"),
        ("memory_backed", "1"),
        ("zoned", "1"),
        ("zone_size", "4"),
        ("zone_capacity", "3"),
        ("zone_nr_conv", "1"),
        ("zone_max_open", "6"),
        ("zone_max_active", "8"),
        ("power", "1"),
    ] {
        fs::write(made.join(key), value).map_err(|e| format!("null_blk, {key} = {value}: {e}"))?;
    }
    wait_for("nullb0", "host-managed")?;
    Ok(disk)
}

/// A disk of this name, once the kernel has found it to be of this zone model.
fn wait_for(name: &str, model: &str) -> Result<PathBuf> {
    let begin = Instant::now();
    let node = Path::new("/dev").join(name);
    loop {
        let found = fs::read_to_string(format!("/sys/block/{name}/queue/zoned"));
        if node.exists() && found.as_ref().is_ok_and(|m| m.trim() == model) {
            return Ok(node);
        }
        if begin.elapsed() > Duration::from_secs(60) {
            return Err(format!("{name} did not become a disk with zones: {model}").into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
