//! Starting a program that nothing started as a rank: by `.jiahosts` in its folder.
//!
//! `.jiahosts` has a line a rank: `HOST [USER [PASSWORD]]`, with `#` comments. A host that is this
//! machine (its name, or an address that can be bound here) starts the program here, another one by
//! `ssh` with the settings of this process (`JIA_*` and the user's of `LITTORAL_DSM_*`); a password
//! is never used. `.jiaconf` has lines `NAME=VALUE`; every name of the port is taken and
//! none is needed.
//!
//! | variable | what |
//! |---|---|
//! | `JIA_FABRIC` | on one machine: `shm`, `shm-pages`, `pool-pages` or `tcp` |
//! | `JIA_PORT` | several machines: the port of rank 0; rank `n` has the `n`th after it |
//! | `JIA_LABEL` | each line that a rank prints begins with its number |
//! | `JIA_HOSTS` | another file than `.jiahosts` |
//!
//! Invariants
//! - The process that starts the ranks is none of them: it waits for their end and has the job's
//!   exit code. Checked by `a_program_starts_itself_by_its_hosts_file`.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::time::Duration;

use littoral_dsm::launch::hosts::Host;
use littoral_dsm::launch::{BASE, Fabric, Plan, run};

/// Words and an exit code.
pub type Failure = (String, i32);

const PORT: u16 = 7100;
const SILENCE: Duration = Duration::from_secs(5);
/// It asks for no password, and gives a host up that does not answer.
const SSH: [&str; 5] = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"];
/// Names of the port's configuration; what they set has no meaning here.
const NAMES: [&str; 12] = [
    "mode",
    "comm_type",
    "base_address",
    "global_start_addr",
    "jia_heap_size",
    "msg_buffer_size",
    "msg_queue_size",
    "inqueue_size",
    "outqueue_size",
    "thread_num",
    "prefetch",
    "log_level",
];

fn usage(what: String) -> Failure {
    (what, 2)
}

/// A line of `.jiahosts`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    host: String,
    user: Option<String>,
}

fn lines(text: &str) -> Result<Vec<Line>, Failure> {
    let mut found = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
        match words[..] {
            [] => {}
            [host] | [host, _] | [host, _, _] => {
                found.push(Line { host: host.into(), user: words.get(1).map(|u| (*u).to_owned()) });
            }
            _ => {
                let what = format!(".jiahosts, line {}: more than HOST USER PASSWORD", n + 1);
                return Err(usage(what));
            }
        }
    }
    if found.is_empty() {
        return Err(usage(".jiahosts names no host; write a line a rank".into()));
    }
    Ok(found)
}

/// Whether a host is this machine: it has its name, or an address that can be bound here. (Where
/// `net.ipv4.ip_nonlocal_bind` is set every address can.)
fn is_here(host: &str) -> bool {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let addresses = || (host, 0).to_socket_addrs().into_iter().flatten();
    host == name.trim() || addresses().any(|address| UdpSocket::bind(address).is_ok())
}

fn place(line: &Line, port: u16) -> Result<Host, Failure> {
    let all: Vec<SocketAddr> =
        (line.host.as_str(), port).to_socket_addrs().map_or(Vec::new(), Iterator::collect);
    // The other hosts dial it, so an address that leads out of this machine is better.
    let outside = all.iter().find(|address| !address.ip().is_loopback());
    let address = outside
        .or(all.first())
        .copied()
        .ok_or_else(|| (format!(".jiahosts: {} has no address; check the name", line.host), 3))?;
    let target = line.user.as_ref().map_or(line.host.clone(), |u| format!("{u}@{}", line.host));
    let words = if is_here(&line.host) { vec!["env"] } else { [&SSH[..], &[&target]].concat() };
    Ok(Host { address, command: words.into_iter().map(str::to_owned).collect() })
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn fabric(lines: &[Line]) -> Result<(Fabric, Option<Vec<Host>>), Failure> {
    if lines.iter().all(|line| is_here(&line.host)) {
        let fabric = match variable("JIA_FABRIC").as_deref() {
            None | Some("shm") => Fabric::Shm,
            Some("shm-pages") => Fabric::ShmPages,
            Some("pool-pages") => Fabric::PoolPages,
            Some("tcp") => Fabric::Tcp,
            Some(other) => {
                let what = format!("JIA_FABRIC={other}; shm, shm-pages, pool-pages or tcp");
                return Err(usage(what));
            }
        };
        return Ok((fabric, None));
    }
    let first = variable("JIA_PORT").map_or(Ok(PORT), |text| text.parse());
    let first = first.ok().filter(|first| *first > 0);
    let first = first.ok_or_else(|| usage("JIA_PORT is no port; give 1 to 65535".into()))?;
    let ports = first.checked_add(u16::try_from(lines.len() - 1).unwrap_or(u16::MAX));
    let last = ports.ok_or_else(|| {
        let what = format!("JIA_PORT={first}: {} hosts need ports up to 65535", lines.len());
        usage(what)
    })?;
    let hosts = (first..=last).zip(lines).map(|(port, line)| place(line, port));
    let hosts = hosts.collect::<Result<Vec<_>, _>>()?;
    reachable(lines, &hosts)?;
    Ok((Fabric::Tcp, Some(hosts)))
}

/// Refuses a host with an address of this machine alone beside hosts elsewhere, which could not
/// reach it.
fn reachable(lines: &[Line], hosts: &[Host]) -> Result<(), Failure> {
    let inside = |host: &Host| host.address.ip().is_loopback();
    let elsewhere = hosts.iter().zip(lines).find(|(host, _)| !inside(host));
    let here = hosts.iter().zip(lines).find(|(host, _)| inside(host));
    let (Some((_, from)), Some((_, line))) = (elsewhere, here) else { return Ok(()) };
    Err(usage(format!(
        ".jiahosts: {} cannot reach {} by that name; write this machine's name or address in the \
         network",
        from.host, line.host
    )))
}

/// The words of this process's command line.
fn own_words() -> Vec<OsString> {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let line = line.strip_suffix(&[0]).unwrap_or(&line);
    line.split(|b| *b == 0).skip(1).map(|word| OsString::from_vec(word.to_vec())).collect()
}

/// Reads `.jiaconf` and names what is none of the port's settings.
fn check_settings(text: &str) -> Result<(), Failure> {
    for (n, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        let name = line.split(['=', ' ', '\t']).next().unwrap_or("").to_ascii_lowercase();
        if !line.is_empty() && !NAMES.contains(&name.as_str()) {
            let what = format!(".jiaconf, line {}: {name} is no setting; one of {NAMES:?}", n + 1);
            return Err(usage(what));
        }
    }
    Ok(())
}

/// Starts the ranks of `.jiahosts` and waits for their end, if this process is to: the job's exit
/// code.
///
/// # Errors
/// Words and an exit code.
pub fn launch() -> Result<Option<i32>, Failure> {
    if variable("LITTORAL_DSM_RANK").is_some() {
        return Ok(None);
    }
    if let Ok(text) = std::fs::read_to_string(".jiaconf") {
        check_settings(&text)?;
    }
    let path = variable("JIA_HOSTS").map_or(PathBuf::from(".jiahosts"), PathBuf::from);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(_) if variable("JIA_HOSTS").is_none() => return Ok(None),
        Err(e) => return Err((format!("{}: {e}", path.display()), 3)),
    };
    let lines = lines(&text)?;
    let ranks =
        u16::try_from(lines.len()).map_err(|_| usage(".jiahosts: too many lines".into()))?;
    let (fabric, hosts) = fabric(&lines)?;
    let program = std::env::current_exe().map_err(|e| (format!("this program's file: {e}"), 3))?;
    let plan = Plan {
        ranks,
        fabric,
        hosts,
        pool: None,
        program: program.into(),
        arguments: own_words(),
        bytes_max: 1 << 36,
        address: BASE,
        label: variable("JIA_LABEL").is_some(),
        silence: SILENCE,
        variables: Vec::new(),
    };
    let job = run::run(&plan, &|| false);
    let job = job.map_err(|e| (e.to_string(), i32::from(e.class().exit_code())))?;
    Ok(Some(i32::from(job.code)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_hosts_with_users_and_bad_ones_are_named() {
        let found = lines("# two\nlocalhost\nnode2 me secret # x\n").unwrap();
        assert_eq!(found[0], Line { host: "localhost".into(), user: None });
        assert_eq!(found[1], Line { host: "node2".into(), user: Some("me".into()) });
        assert!(lines("a b c d\n").unwrap_err().0.contains("line 1"));
        assert!(lines("\n# none\n").unwrap_err().0.contains("no host"));
    }

    #[test]
    fn remote_hosts_are_reached_by_ssh_and_unknown_ones_named() {
        let line =
            |host: &str, user: Option<&str>| Line { host: host.into(), user: user.map(Into::into) };
        let here = place(&line("127.0.0.1", Some("me")), 7).unwrap();
        assert_eq!((here.address.port(), &here.command[..]), (7, &["env".to_owned()][..]));
        let also_here = place(&line("127.0.0.2", None), 7).unwrap();
        assert_eq!(also_here.command, here.command, "an address that can be bound is this machine");
        let there = place(&line("192.0.2.7", Some("me")), 8).unwrap();
        let (target, options) = there.command.split_last().unwrap();
        assert_eq!((target.as_str(), options), ("me@192.0.2.7", &SSH.map(str::to_owned)[..]));
        assert!(
            place(&line("no-such-host.invalid", None), 9).unwrap_err().0.contains("no address")
        );
    }

    #[test]
    fn settings_of_the_port_are_taken_and_others_named() {
        check_settings("mode = 1\n# x\nBASE_ADDRESS 0x400000000000\n").unwrap();
        assert!(check_settings("mode=1\ncolour=red\n").unwrap_err().0.contains("line 2: colour"));
    }
}
