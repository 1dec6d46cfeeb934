//! Hosts made of files: what each of them shows, and what is unknown or missing.

use std::fs;

use super::*;

/// A host that is described by `files`, each a path and a text.
fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let host = Host::at(root.path());
    (root, host)
}

fn fact(host: &Host, id: &str) -> Fact {
    let facts = host.facts();
    facts.into_iter().find(|f| f.id == id).unwrap_or_else(|| panic!("no fact {id}"))
}

#[test]
fn ids_are_unique_and_the_summary_is_a_part_of_the_facts() {
    let (_root, host) = host(&[]);
    let facts = host.facts();
    let mut ids: Vec<&str> = facts.iter().map(|f| f.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), facts.len());
    assert_eq!(host.summary().len(), SUMMARY.len());
}

#[test]
fn a_host_that_shows_nothing_is_unknown_not_guessed() {
    let (_root, host) = host(&[]);
    for id in ["kernel", "memory", "load", "caches", "clocksource", "memlock", "governor"] {
        let found = fact(&host, id);
        assert!(found.available.is_none() && found.words.contains("unknown"), "{found:?}");
    }
}

#[test]
fn each_thing_that_is_missing_says_what_to_do() {
    let limits = "Limit                     Soft Limit  Hard Limit  Units\n\
                  Max locked memory         65536       65536       bytes\n\
                  Max open files            256         4096        files\n";
    let (_root, host) = host(&[
        ("proc/cpuinfo", "model name\t: Some CPU\nflags\t\t: fpu clflush hypervisor\n"),
        ("proc/self/limits", limits),
        ("proc/loadavg", "7.50 1.00 1.00 2/100 1\n"),
        ("proc/sys/kernel/perf_event_paranoid", "4\n"),
        ("sys/bus/event_source/devices/cpu/type", "4\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n"),
        ("sys/class/dmi/id/sys_vendor", "Some Vendor\n"),
    ]);
    for (id, words, advice) in [
        ("memlock", "64 KiB", "ulimit -l"),
        ("open_files", "256", "ulimit -n"),
        ("perf", "paranoid is 4", "perf_event_paranoid=2"),
        ("clocksource", "hpet", "echo tsc"),
        ("governor", "powersave", "cpupower"),
        ("huge_pages", "never", "madvise"),
        ("tsc", "not known", "virtual-time"),
    ] {
        let found = fact(&host, id);
        assert_eq!(found.available, Some(false), "{found:?}");
        assert!(found.words.contains(words), "{found:?}");
        assert!(found.advice.as_ref().is_some_and(|a| a.contains(advice)), "{found:?}");
    }
    assert!(fact(&host, "virtualised").words.contains("virtual machine (Some Vendor)"));
    assert!(fact(&host, "load").advice.is_some());
    assert!(fact(&host, "cores").words.contains("Some CPU"));
    let slow = fact(&host, "write_back");
    assert!(slow.words.contains("clflush is used") && slow.advice.is_some(), "{slow:?}");
    assert_eq!(fact(&host, "avx2").available, Some(false));
}

#[test]
fn a_host_that_has_everything_gets_no_advice() {
    let flags = "constant_tsc nonstop_tsc avx2 avx512f avx512bw avx512vl clflush clflushopt clwb";
    let (_root, host) = host(&[
        ("proc/cpuinfo", &format!("flags : {flags}\n")),
        ("proc/self/limits", "Max locked memory  unlimited\nMax open files  1024\n"),
        ("proc/loadavg", "0.10 0.10 0.10 1/100 1\n"),
        ("proc/meminfo", "MemTotal:  2097152 kB\nMemAvailable:  1048576 kB\n"),
        ("proc/sys/kernel/perf_event_paranoid", "2\n"),
        ("sys/bus/event_source/devices/cpu/type", "4\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
        ("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n"),
        ("sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n"),
        ("sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("sys/block/nvme0n2/queue/zoned", "host-managed\n"),
        ("sys/block/sda/queue/zoned", "none\n"),
        ("sys/bus/dax/devices/dax0.0/size", "1\n"),
        ("sys/bus/cxl/devices/mem0/x", "1\n"),
    ]);
    // These three are probes of the host that runs the test.
    let probed = ["io_uring", "userfaultfd", "direct"];
    for found in host.facts().iter().filter(|f| !probed.contains(&f.id)) {
        assert!(found.advice.is_none() && found.available != Some(false), "{found:?}");
    }
    assert_eq!(fact(&host, "memory").words, "2 GiB, 1 GiB available");
    assert_eq!(fact(&host, "caches").words, "L1d 48K");
    assert_eq!(fact(&host, "zoned").words, "nvme0n2");
    assert!(fact(&host, "write_back").words.starts_with("clwb is used"));
}

#[test]
fn a_forbidden_ring_names_the_switch_that_forbids_it() {
    for (value, wanted) in [("2", "for every process"), ("1", "group"), ("0", "seccomp")] {
        let (_root, host) = host(&[("proc/sys/kernel/io_uring_disabled", value)]);
        assert!(host.io_uring_advice().contains(wanted), "{value}");
    }
    let (_root, host) = host(&[("proc/sys/vm/unprivileged_userfaultfd", "0\n")]);
    assert!(host.userfaultfd_advice().contains("unprivileged_userfaultfd=1"));
}

#[test]
fn the_mount_of_a_folder_is_the_deepest_and_latest() {
    let table = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                 22 21 0:5 / /tmp rw shared:1 - tmpfs none rw\n\
                 23 21 0:6 / /data\\040x rw - xfs /dev/sdb rw\n\
                 24 22 0:7 / /tmp rw - overlay over rw\n";
    let mount = |folder: &str| mount_of(table, Path::new(folder)).unwrap();
    assert_eq!(mount("/srv/a"), ("ext4".into(), "/dev/sda1".into()));
    assert_eq!(mount("/tmp/a"), ("overlay".into(), "over".into()));
    assert_eq!(mount("/tmpfile"), ("ext4".into(), "/dev/sda1".into()));
    assert_eq!(mount("/data x/y"), ("xfs".into(), "/dev/sdb".into()));
    let (_root, host) = host(&[("proc/self/mountinfo", table)]);
    let found = host.file_system(Some(Path::new("/tmp/a")));
    assert!(found.advice.is_some_and(|a| a.contains("volume")));
}
