//! Other people's programs and files, and how our own command is started.
//!
//! In the folder given with `--peers` (`crates/la64-linux/scripts/oracles.sh` fills one):
//! `qemu/amd64/usr/bin` with QEMU, `root/loong64` and `root/amd64` with Debian's programs,
//! `bookworm/mips64el` and `bookworm/amd64` with those of Debian 12,
//! `zig/ziglang` with the compiler, `guestjit/loong64` with LoongArch builds of QEMU and box64, and
//! of `xlate` if `scripts/loongarch-host.sh` has put it there.
//! Each may instead be in `PATH`, the sysroot in `LA64_SYSROOT`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::Found;
use littoral_bench::peers::Peers;
use littoral_bench::repro::missing;

/// Where everything is.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The `littoral` program.
    program: PathBuf,
    peers: Peers,
    /// A folder for what is compiled and written.
    pub scratch: PathBuf,
}

/// The oldest QEMU that figures stand beside.
const QEMU_MIN: u32 = 11;

/// The version in the first line of `qemu-loongarch64 --version`.
fn version(text: &str) -> Option<String> {
    let words = text.lines().next()?.split_whitespace();
    words.skip_while(|word| *word != "version").nth(1).map(str::to_owned)
}

/// Where QEMU's programs lie in a folder of peers.
const QEMU: &str = "qemu/amd64/usr/bin";

impl Tools {
    /// Tools of `peers`; `program` is the `littoral` command, `scratch` an existing folder.
    pub fn new(program: &Path, peers: &Peers, scratch: &Path) -> Tools {
        Tools { program: program.into(), peers: peers.clone(), scratch: scratch.into() }
    }

    /// `littoral la64 run`, to which options, program and arguments are added.
    pub fn ours(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["la64", "run"]);
        command
    }

    /// QEMU's user mode for `architecture`.
    ///
    /// # Errors
    /// It is neither in the folder of peers nor in `PATH`.
    pub fn qemu(&self, architecture: &str) -> Found<PathBuf> {
        self.program(QEMU, &format!("qemu-{architecture}"))
    }

    /// QEMU's user mode for LoongArch, to be measured beside, and its name with its version.
    ///
    /// # Errors
    /// As [`Tools::qemu`]; or its version is below [`QEMU_MIN`], in which case it runs no LoongArch
    /// program of today's Debian.
    pub fn qemu_peer(&self) -> Found<(PathBuf, String)> {
        let qemu = self.qemu("loongarch64")?;
        let out = success(Command::new(&qemu).arg("--version"))?;
        let version = version(&String::from_utf8_lossy(&out.stdout));
        let version = version.ok_or_else(|| format!("{}: no version", qemu.display()))?;
        let major = version.split('.').next().and_then(|n| n.parse::<u32>().ok());
        if major.is_none_or(|major| major < QEMU_MIN) {
            let path = qemu.display();
            return Err(missing(format!("QEMU {QEMU_MIN} or later; {path} is QEMU {version}")));
        }
        Ok((qemu, format!("QEMU {version}")))
    }

    /// The C compiler for every target.
    ///
    /// # Errors
    /// As [`Tools::qemu`].
    pub fn zig(&self) -> Found<PathBuf> {
        self.program("zig/ziglang", "zig")
    }

    /// The instruction counter for host programs.
    ///
    /// # Errors
    /// As [`Tools::qemu`].
    pub fn valgrind(&self) -> Found<PathBuf> {
        self.program("valgrind", "valgrind")
    }

    /// The shell whose `time` measures CPU time.
    ///
    /// # Errors
    /// As [`Tools::qemu`].
    pub fn bash(&self) -> Found<PathBuf> {
        self.program("bash", "bash")
    }

    /// LoongArch's build of QEMU's user mode for `architecture`: a guest that translates.
    ///
    /// # Errors
    /// There is none under `--peers`.
    pub fn guest_qemu(&self, architecture: &str) -> Found<PathBuf> {
        Ok(self.guest_program(&format!("qemu-{architecture}"))?.1)
    }

    /// The LoongArch build of our own command `xlate`.
    ///
    /// # Errors
    /// There is none under `--peers`; `scripts/loongarch-host.sh` puts it there.
    pub fn guest_xlate(&self) -> Found<PathBuf> {
        let what = "LoongArch's xlate (guestjit under --peers); see scripts/loongarch-host.sh";
        self.guest_program("xlate").map(|(_, file)| file).map_err(|_| missing(what))
    }

    /// The sysroot and the program of LoongArch's build of box64, which runs x86-64 programs.
    ///
    /// # Errors
    /// As [`Tools::guest_qemu`].
    pub fn guest_box64(&self) -> Found<(PathBuf, PathBuf)> {
        self.guest_program("box64")
    }

    /// The root of LoongArch's own translators, and one of them.
    fn guest_program(&self, name: &str) -> Found<(PathBuf, PathBuf)> {
        let root = self.peers.folder().map(|f| f.join("guestjit/loong64"));
        let found = root.map(|root| (root.clone(), root.join("usr/bin").join(name)));
        found.filter(|(_, file)| file.is_file()).ok_or_else(|| {
            missing(format!(
                "LoongArch's {name} (guestjit under --peers); see \
                 crates/la64-linux/scripts/oracles.sh"
            ))
        })
    }

    fn program(&self, peer: &str, name: &str) -> Found<PathBuf> {
        self.peers.find(peer, name).ok_or_else(|| {
            missing(format!("{name}, not in PATH or --peers; see crates/la64-linux/scripts"))
        })
    }

    /// The sysroot of LoongArch programs; its sibling `amd64` holds the same versions.
    ///
    /// # Errors
    /// There is none.
    pub fn sysroot(&self) -> Found<PathBuf> {
        let given = std::env::var_os("LA64_SYSROOT").map(PathBuf::from);
        let under = self.peers.folder().into_iter();
        let under = under.flat_map(|f| [f.join("root/loong64"), f.join("loong64")]);
        let what = "a loong64 sysroot beside an amd64 one (root/loong64 under --peers, or \
                    LA64_SYSROOT); see crates/la64-linux/scripts/loong64-sysroot.sh";
        let is_root = |p: &PathBuf| p.join("usr/bin").is_dir() && amd64(p).join("usr/bin").is_dir();
        given.into_iter().chain(under).find(is_root).ok_or_else(|| missing(what))
    }
}

impl Tools {
    /// The sysroot of an architecture whose programs are translated, `amd64` or `mips64el`; its
    /// sibling `amd64`, which may be itself, holds the same versions.
    ///
    /// # Errors
    /// There is none.
    pub fn guest_root(&self, architecture: &str) -> Found<PathBuf> {
        if architecture == "amd64" {
            return Ok(amd64(&self.sysroot()?));
        }
        let root = self.peers.folder().map(|f| f.join("bookworm").join(architecture));
        let is_root = |p: &PathBuf| p.join("usr/bin").is_dir() && amd64(p).join("usr/bin").is_dir();
        root.filter(is_root).ok_or_else(|| {
            missing(format!(
                "a sysroot for {architecture} beside an amd64 one (bookworm/{architecture} under \
                 --peers); see crates/la64-linux/scripts/oracles.sh"
            ))
        })
    }
}

/// The native sibling of a sysroot.
pub fn amd64(sysroot: &Path) -> PathBuf {
    sysroot.with_file_name("amd64")
}

/// Runs a command to its end.
///
/// # Errors
/// It cannot be started.
pub fn output(command: &mut Command) -> Found<Output> {
    command.output().map_err(|e| format!("{:?}: {e}", command.get_program()).into())
}

/// Runs a command that must succeed.
///
/// # Errors
/// It cannot be started, or its words on standard error.
pub fn success(command: &mut Command) -> Found<Output> {
    let out = output(command)?;
    if out.status.success() {
        return Ok(out);
    }
    let words = String::from_utf8_lossy(&out.stderr);
    let last = words.lines().rev().take(3).collect::<Vec<_>>().join(" / ");
    Err(format!("{:?}: {}: {last}", command.get_program(), out.status).into())
}

/// The number that stands before `unit` on a line of a command's standard error.
pub fn number_before(out: &Output, unit: &str) -> Found<u64> {
    let text = String::from_utf8_lossy(&out.stderr);
    let line = text.lines().rev().find_map(|l| l.split_once(unit).map(|(head, _)| head));
    let digits = line.and_then(|l| l.split_whitespace().next_back()).map(|d| d.replace(',', ""));
    let none = || format!("no '{unit}' on standard error: {}", text.trim());
    digits.and_then(|d| d.parse().ok()).ok_or_else(|| none().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn an_old_qemu_is_no_peer() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(QEMU);
        std::fs::create_dir_all(&folder).unwrap();
        let qemu = folder.join("qemu-loongarch64");
        let tools = Tools::new(Path::new("/"), &Peers::new(Some(dir.path().into())), dir.path());
        let peer = |line: &str| {
            // A new file each time, since a program that runs cannot be written.
            let next = folder.join("next");
            std::fs::write(&next, format!("#!/bin/sh\necho '{line}'\n")).unwrap();
            std::fs::set_permissions(&next, std::fs::Permissions::from_mode(0o755)).unwrap();
            std::fs::rename(&next, &qemu).unwrap();
            tools.qemu_peer().map(|(_, name)| name)
        };
        assert_eq!(
            peer("qemu-loongarch64 version 11.1.3 (Debian 1:11.1.3)"),
            Ok("QEMU 11.1.3".into())
        );
        assert_eq!(peer("qemu-loongarch64 version 11.0.50"), Ok("QEMU 11.0.50".into()));
        for old in ["qemu-loongarch64 version 7.2.9", "qemu-loongarch64 version 10.2.0"] {
            assert!(peer(old).unwrap_err().to_string().contains("QEMU 11 or later"), "{old}");
        }
        assert!(peer("something else").unwrap_err().to_string().contains("no version"));
    }
}
