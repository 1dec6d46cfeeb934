//! A hosts file: where each rank runs and how to start something there.
//!
//! One line a rank: `ADDRESS:PORT [COMMAND ...]`, empty lines and `#` comments between. The rank
//! listens on the address; the program is started by the command with `env NAME=VALUE ... PROGRAM
//! ARGUMENTS` after it, such as `ssh node3` or `ip netns exec blue`; without a command, here. With
//! fewer lines than ranks the job is refused.

use std::net::SocketAddr;

use crate::error::{Error, Kind, Result};

/// A rank's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Where the rank listens, as the others reach it.
    pub address: SocketAddr,
    /// What starts a program there; nothing for this machine.
    pub command: Vec<String>,
}

/// The hosts in the text of a hosts file.
///
/// # Errors
/// `Kind::Misuse` with the line that is no host.
pub fn parse(text: &str) -> Result<Vec<Host>> {
    let mut hosts = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(address) = words.next() else { continue };
        let address = address.parse().map_err(|_| {
            let what = format!("hosts, line {}: {address} is not ADDRESS:PORT", n + 1);
            Error::new(Kind::Misuse, what).at_line(n as u64 + 1)
        })?;
        hosts.push(Host { address, command: words.map(str::to_owned).collect() });
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_hosts_and_a_bad_one_is_named() {
        let hosts = parse("# two\n10.0.0.1:7000 ip netns exec a\n\n[::1]:7001 # here\n").unwrap();
        assert_eq!(hosts.len(), 2);
        assert_eq!(hosts[0].command, ["ip", "netns", "exec", "a"]);
        assert_eq!(hosts[1], Host { address: "[::1]:7001".parse().unwrap(), command: vec![] });
        let e = parse("10.0.0.1:7000\nnode3\n").unwrap_err();
        assert!(e.to_string().contains("line 2: node3"), "{e}");
    }
}
