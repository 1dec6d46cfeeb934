//! Starting a job: the launcher's side and the ranks' side of one set of environment variables.
//!
//! The launcher ([`run`]) starts the ranks, gives them what they share, and watches them; a rank
//! ([`joining`]) finds its place in the environment. Shared files are memory without a name,
//! reached through the launcher's descriptors, so nothing is left behind however a job ends. Ranks
//! end with the launcher on every host: what the launcher starts is killed with it, and a rank that
//! a command of a hosts file started is killed with its parent there, such as the server of `ssh`,
//! which ends when its client is gone.
//!
//! | variable | what |
//! |---|---|
//! | `LITTORAL_DSM_RANK`, `_RANKS` | which of how many |
//! | `LITTORAL_DSM_FABRIC` | `tcp`, `shm`, `pool` or `sim` |
//! | `LITTORAL_DSM_ADDRESSES` | tcp: where each rank listens, commas between |
//! | `LITTORAL_DSM_LISTENER` | tcp: number of the descriptor that listens for this rank |
//! | `LITTORAL_DSM_CONDUCTOR` | sim: number of the descriptor that leads to the conductor |
//! | `LITTORAL_DSM_COMPUTE` | sim: `declared` or `processor` |
//! | `LITTORAL_DSM_MEMORY` | shm, pool: the fabric's file |
//! | `LITTORAL_DSM_LINES` | pool: `new` or `used` lines shared in place behind the fabric's part |
//! | `LITTORAL_DSM_DIRECT` | shm: the file that is the shared memory |
//! | `LITTORAL_DSM_FRAMES` | shm: the file in which ranks keep their copies of pages |
//! | `LITTORAL_DSM_BOARD` | one machine: the file that says who holds what |
//! | `LITTORAL_DSM_SILENCE` | how long ranks of other machines may be silent: `5s`, `900ms` |
//! | `LITTORAL_DSM_BYTES`, `_LOCKS`, `_LOG`, `_PREDICT`, `_CACHE`, `_FAULTS` | as in `runtime::Config` |
//! | `LITTORAL_DSM_CROWDED` | a machine of the job has fewer processors than ranks |
//! | `LITTORAL_DSM_ADDRESS` | where shared memory lies on every rank: `0x400000000000` |
//! | `LITTORAL_DSM_LAUNCHER` | the launcher's process |
//! | `LITTORAL_DSM_TETHER` | `parent`: started by another command, the rank ends with its parent |
//! | `LITTORAL_DSM_TELLS` | `stderr`: a rank that has left the job says so on standard error |
//! | `JIA_*` | settings of programs for JIAJIA; ranks of a hosts file have the launcher's |
//! | `LITTORAL_DSM_KEY` | tcp: the job's number, which greetings between ranks carry |
//!
//! Invariants
//! - Without `LITTORAL_DSM_RANK` a program is a job of one. Checked by
//!   `a_job_of_one_needs_no_other_rank`.
//! - Ranks that have not left in good order never outlive the first failed rank of their job by
//!   more than [`run::GRACE_MAX`]. Checked by `a_rank_killed_at_any_point_ends_the_job`.

mod command;
pub mod hosts;
mod label;
pub mod machine;
mod raw;
pub mod run;
mod settings;

use std::fs::{File, OpenOptions};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use littoral_base::units::{NodeId, Picos};
use littoral_fabric::pool::{PoolFabric, PoolLayout};
use littoral_fabric::pool_file::MappedPool;
use littoral_fabric::shm::{ShmFabric, ShmLayout};
use littoral_fabric::tcp::TcpFabric;
use littoral_fabric::{JOIN_MAX, SILENCE_DEFAULT};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::error::{Error, Kind, Result};
use crate::memory::{Mechanism, PoolLines};
use crate::runtime::carrier::{Carrier, Exclusive, Shared, Solo};
use crate::runtime::{Config, OnLoss, road_bytes};
use crate::virtual_time::Compute;
use crate::virtual_time::seat::Seat;

pub use run::{Fabric, Plan};

/// Bytes of each rank's window, where the runtime needs none.
const WINDOW_BYTES: usize = 64;
/// How long ranks wait for each other at the start.
const START_MAX: Duration = JOIN_MAX;
const POOL_PAGE_BYTES: usize = 4096;
/// Where shared memory lies on every rank unless the job says otherwise: far from what the system
/// chooses by itself on 64-bit machines with 47 bits of address or more.
pub const BASE: usize = 0x4000_0000_0000;
const PREFIX: &str = "LITTORAL_DSM_";

fn variable(name: &str) -> Option<String> {
    std::env::var(format!("{PREFIX}{name}")).ok()
}

fn needed(name: &str) -> Result<String> {
    variable(name).ok_or_else(|| misuse(format!("{PREFIX}{name} is not set; use littoral dsm run")))
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T> {
    text.parse().map_err(|_| misuse(format!("{PREFIX}{name}={text} is no number in range")))
}

fn optional<T: std::str::FromStr>(name: &str, otherwise: T) -> Result<T> {
    variable(name).map_or(Ok(otherwise), |text| number(name, &text))
}

fn misuse(what: String) -> Error {
    Error::new(Kind::Misuse, what)
}

fn shared_file(name: &str, path: &str) -> Result<File> {
    OpenOptions::new().read(true).write(true).open(path).map_err(|e| {
        let what = format!("opening {PREFIX}{name}={path}");
        Error::with_source(Kind::Environment, what, e).at_path(Path::new(path))
    })
}

fn optional_file(name: &str) -> Result<Option<File>> {
    variable(name).map(|path| shared_file(name, &path)).transpose()
}

/// This process's way to the other ranks, and how it joins.
pub(crate) fn joining() -> Result<(Box<dyn Carrier>, Config)> {
    let mut config = Config { on_loss: OnLoss::Exit, ..Config::default() };
    config.bytes_max = optional("BYTES", config.bytes_max)?;
    config.locks = optional("LOCKS", config.locks)?;
    config.log_capacity = optional("LOG", config.log_capacity)?;
    config.predict = optional("PREDICT", config.predict)?;
    config.cache_bytes = optional("CACHE", config.cache_bytes)?;
    config.crowded = variable("CROWDED").is_some();
    config.mechanism = mechanism()?;
    config.base = variable("ADDRESS").map(|text| address(&text)).transpose()?;
    let Some(rank) = variable("RANK") else { return Ok((Box::new(Solo), config)) };
    let me = NodeId(number("RANK", &rank)?);
    let ranks: u16 = number("RANKS", &needed("RANKS")?)?;
    if me.0 >= ranks {
        return Err(misuse(format!("{PREFIX}RANK={me} of {ranks} ranks")));
    }
    let silence = silence()?;
    config.tells_launcher = variable("TELLS").is_some();
    if variable("TETHER").is_some() {
        die_with_parent()?;
    }
    if !die_with_launcher()? {
        config.name_stopped = Some(silence);
    }
    config.board = optional_file("BOARD")?;
    config.direct = optional_file("DIRECT")?;
    config.frames = optional_file("FRAMES")?;
    config.pool = variable("LINES").map(|l| lines(ranks, config.bytes_max, &l)).transpose()?;
    Ok((carrier(me, ranks, silence)?, config))
}

/// An address on the border of a page, in hexadecimal digits after `0x`.
///
/// # Errors
/// `Kind::Misuse` for anything else.
pub fn address(text: &str) -> Result<usize> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let found = usize::from_str_radix(digits, 16).ok();
    let fits = |at: &usize| *at > 0 && at.is_multiple_of(crate::memory::page_bytes());
    found.filter(fits).ok_or_else(|| {
        misuse(format!("{text} is no address of a page; give one such as 0x400000000000"))
    })
}

fn mechanism() -> Result<Option<Mechanism>> {
    let Some(name) = variable("FAULTS").filter(|name| name != "auto") else { return Ok(None) };
    let found = Mechanism::ALL.into_iter().find(|m| m.name() == name);
    let legal = Mechanism::ALL.map(Mechanism::name).join(" or ");
    found.map(Some).ok_or_else(|| misuse(format!("{PREFIX}FAULTS={name}; auto, {legal}")))
}

/// The limit of silence between machines.
fn silence() -> Result<Duration> {
    let Some(text) = variable("SILENCE") else { return Ok(SILENCE_DEFAULT) };
    let time: std::result::Result<Picos, _> = text.parse();
    let time = time.map_err(|e| misuse(format!("{PREFIX}SILENCE: {e}")))?;
    Ok(Duration::from_nanos(time.as_nanos()))
}

/// Asks for the end of this process with its launcher; whether there is one that is its parent.
fn die_with_launcher() -> Result<bool> {
    let Some(launcher) = variable("LAUNCHER") else { return Ok(false) };
    let launcher = Pid::from_raw(number("LAUNCHER", &launcher)?);
    if launcher.is_none() || getppid() != launcher {
        return Ok(false);
    }
    die_with_parent()?;
    if getppid() == launcher {
        return Ok(true);
    }
    Err(Error::new(Kind::PeerLost, "the launcher is gone"))
}

fn die_with_parent() -> Result<()> {
    let failed = |e: rustix::io::Errno| {
        let what = "asking to end with the process that started this one";
        Error::with_source(Kind::Environment, what, std::io::Error::from(e))
    };
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed)
}

fn carrier(me: NodeId, ranks: u16, silence: Duration) -> Result<Box<dyn Carrier>> {
    let fabric = needed("FABRIC")?;
    let failed = |e: littoral_device::error::Error| {
        Error::over(Kind::Environment, format!("rank {me} joining over {fabric}"), e).at_rank(me)
    };
    Ok(match fabric.as_str() {
        "tcp" => Box::new(Shared(tcp(me, silence)?)),
        "sim" => Box::new(seat(me, ranks)?),
        "shm" => {
            let file = shared_file("MEMORY", &needed("MEMORY")?)?;
            let layout = shm_layout(ranks);
            let fabric = ShmFabric::attach_with_silence(&file, layout, me, silence);
            let fabric = fabric.map_err(failed)?;
            fabric.wait_for_all(START_MAX).map_err(failed)?;
            Box::new(Shared(fabric))
        }
        "pool" => {
            let file = shared_file("MEMORY", &needed("MEMORY")?)?;
            let layout = PoolLayout::new(ranks, WINDOW_BYTES);
            let pool = MappedPool::map(&file, layout.pool_bytes()).map_err(failed)?;
            let fabric = PoolFabric::new(pool, layout, me).map_err(failed)?;
            let fabric = fabric.with_silence(silence).map_err(failed)?;
            fabric.wait_for_all(START_MAX).map_err(failed)?;
            Box::new(Exclusive::new(fabric))
        }
        other => return Err(misuse(format!("{PREFIX}FABRIC={other}; tcp, shm, pool or sim"))),
    })
}

/// The fabric's memory; its windows have the words of locks.
fn shm_layout(ranks: u16) -> ShmLayout {
    ShmLayout::new(ranks, road_bytes(Config::default().locks, ranks))
}

/// Where the shared lines of a pool begin: behind the fabric's part.
fn lines_at(ranks: u16) -> usize {
    PoolLayout::new(ranks, WINDOW_BYTES).pool_bytes().next_multiple_of(POOL_PAGE_BYTES)
}

fn listen(me: NodeId, address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|e| {
        let what = format!("listening on {address}");
        Error::with_source(Kind::Environment, what, e).at_rank(me).at_address(address)
    })
}

fn lines(ranks: u16, bytes_max: usize, state: &str) -> Result<PoolLines> {
    let file = shared_file("MEMORY", &needed("MEMORY")?)?;
    let at = lines_at(ranks);
    let bytes = at + bytes_max.next_multiple_of(POOL_PAGE_BYTES);
    let pool = MappedPool::map(&file, bytes).map_err(|e| {
        Error::with_source(
            Kind::Environment,
            format!("mapping {bytes} bytes of a pool; is --bytes more than it has?"),
            e,
        )
    })?;
    Ok(PoolLines { domain: Arc::new(pool), at, used: state != "new" })
}

fn seat(me: NodeId, ranks: u16) -> Result<Seat> {
    let name = needed("COMPUTE")?;
    let found = Compute::ALL.into_iter().find(|c| c.name() == name);
    let legal = Compute::ALL.map(Compute::name).join(" or ");
    let compute = found.ok_or_else(|| misuse(format!("{PREFIX}COMPUTE={name}; {legal}")))?;
    let stream = raw::inherited(number("CONDUCTOR", &needed("CONDUCTOR")?)?);
    let stream = stream.ok_or_else(|| misuse("the way to the conductor is taken".to_owned()))?;
    Ok(Seat::new(me, ranks, UnixStream::from(stream), compute))
}

fn tcp(me: NodeId, silence: Duration) -> Result<TcpFabric> {
    let text = needed("ADDRESSES")?;
    let parse = |a: &str| {
        a.parse::<SocketAddr>().map_err(|_| misuse(format!("{PREFIX}ADDRESSES: {a} is no address")))
    };
    let addresses = text.split(',').map(parse).collect::<Result<Vec<_>>>()?;
    let mine = addresses.get(me.index()).copied();
    let mine = mine
        .ok_or_else(|| misuse(format!("{PREFIX}ADDRESSES has none for rank {me}")).at_rank(me))?;
    let handed = variable("LISTENER").map(|fd| number("LISTENER", &fd)).transpose()?;
    let listener = match handed.and_then(raw::inherited) {
        Some(listener) => TcpListener::from(listener),
        None => listen(me, mine)?,
    };
    let key = optional("KEY", 0)?;
    let window = WINDOW_BYTES;
    // The rank's server always receives.
    let joined = TcpFabric::connect_without_agent(me, &addresses, &listener, window, silence, key);
    joined.map_err(|e| {
        Error::over(Kind::Environment, format!("rank {me} joining over tcp"), e).at_rank(me)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_taken_is_a_field_of_the_error() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let e = listen(NodeId(1), address).unwrap_err();
        assert_eq!((e.kind(), e.place().rank), (Kind::Environment, Some(NodeId(1))), "{e}");
        assert_eq!(e.place().address, Some(address));
    }
}
