//! An opened fabric: what the nodes of a job share, and the handle that each of them attaches.
//!
//! | medium | nodes are | time |
//! |---|---|---|
//! | shared memory | threads or processes of this host | wall clock |
//! | a pool | threads or processes that map one file or device, kept coherent by nothing | wall clock |
//! | TCP | processes that listen at the addresses; this host's listen from the opening on | wall clock |
//! | a model | threads of this process, one at a time | virtual |
//!
//! Memory without a name and a new pool's file end with the processes that use them.
//!
//! Invariants
//! - A node is attached once: a second attachment is `Kind::Busy`. Checked by
//!   `what_cannot_be_opened_is_refused`.
//! - [`FabricDevice::clock`] and [`FabricDevice::describe`] are the only source of the words about
//!   what is measured and what is modelled. Checked by
//!   `a_job_runs_on_every_carrier_and_its_clock_is_named`.

use std::fs::{File, OpenOptions};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use littoral_base::clock::ClockKind;
use littoral_base::units::NodeId;
use littoral_device::profile::Profile;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::pool::{PoolFabric, PoolLayout};
use crate::pool_file::MappedPool;
use crate::shm::{ShmFabric, ShmLayout};
use crate::tcp::TcpFabric;
use crate::timing::Timing;
use crate::{Error, Fabric, JOIN_MAX, Kind, Result, sim};

/// What carries a fabric's operations.
#[derive(Clone, Debug, PartialEq)]
pub enum Carrier {
    /// Shared memory of this host.
    Shm,
    /// Memory that every node maps and nothing keeps coherent: a file or device, or memory without
    /// a name.
    Pool(Option<PathBuf>),
    /// TCP between these addresses, one for each node.
    Tcp(Vec<SocketAddr>),
    /// An interconnect in virtual time.
    Sim {
        /// What its operations take.
        timing: Timing,
        /// The profile, its configuration and its hash, in words.
        profile: String,
    },
}

#[derive(Debug)]
enum Shared {
    Shm(File, ShmLayout),
    Pool(File, PoolLayout),
    /// This host's nodes' sockets, until they attach.
    Tcp(Vec<SocketAddr>, Mutex<Vec<Option<TcpListener>>>),
    Sim,
}

/// An opened fabric; see the module's page.
#[derive(Debug)]
pub struct FabricDevice {
    nodes: u16,
    window_bytes: usize,
    carrier: Carrier,
    shared: Shared,
}

/// A node's handle, whatever carries it.
pub enum AnyFabric {
    /// Shared memory.
    Shm(ShmFabric),
    /// A pool.
    Pool(PoolFabric<MappedPool>),
    /// TCP.
    Tcp(TcpFabric),
}

impl AnyFabric {
    /// The operations.
    pub fn fabric(&self) -> &dyn Fabric {
        match self {
            AnyFabric::Shm(fabric) => fabric,
            AnyFabric::Pool(fabric) => fabric,
            AnyFabric::Tcp(fabric) => fabric,
        }
    }

    /// Waits until every node of the job has joined; over TCP attaching has waited already.
    ///
    /// # Errors
    /// `Kind::Io` naming the first that has not joined within `timeout`.
    pub fn wait_for_all(&self, timeout: Duration) -> Result<()> {
        match self {
            AnyFabric::Shm(fabric) => fabric.wait_for_all(timeout),
            AnyFabric::Pool(fabric) => fabric.wait_for_all(timeout),
            AnyFabric::Tcp(_) => Ok(()),
        }
    }
}

fn failed(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let what = what.into();
    move |e| Error::with_source(Kind::Io, what, e)
}

impl FabricDevice {
    /// A fabric of `nodes` nodes with windows of `window_bytes`.
    ///
    /// # Errors
    /// `Kind::Io` when the system refuses memory, file or sockets; `Kind::Exists` for a pool's
    /// file; `Kind::IllegalRequest` for no nodes, or addresses that are not one per node.
    pub fn open(carrier: Carrier, nodes: u16, window_bytes: usize) -> Result<FabricDevice> {
        if nodes == 0 {
            return Err(Error::new(Kind::IllegalRequest, "a fabric has at least one node"));
        }
        let shared = match &carrier {
            Carrier::Shm => {
                let (file, layout) = (memory(0)?, ShmLayout::new(nodes, window_bytes));
                layout.create(&file)?;
                Shared::Shm(file, layout)
            }
            Carrier::Pool(path) => {
                let layout = PoolLayout::new(nodes, window_bytes);
                Shared::Pool(pool(path.as_deref(), layout.pool_bytes())?, layout)
            }
            Carrier::Tcp(addresses) => listen(addresses, nodes)?,
            Carrier::Sim { .. } => Shared::Sim,
        };
        Ok(FabricDevice { nodes, window_bytes, carrier, shared })
    }

    /// How an interconnect's profile is modelled.
    ///
    /// # Errors
    /// As [`Timing::of`].
    pub fn simulated(profile: &Profile, configuration: &str) -> Result<Carrier> {
        let timing = Timing::of(profile, configuration)?;
        let profile = format!("{}:{configuration} {}", profile.name(), profile.hash());
        Ok(Carrier::Sim { timing, profile })
    }

    /// Nodes of a job.
    pub fn nodes(&self) -> u16 {
        self.nodes
    }

    /// Bytes of each node's window.
    pub fn window_bytes(&self) -> usize {
        self.window_bytes
    }

    /// What carries operations.
    pub fn carrier(&self) -> &Carrier {
        &self.carrier
    }

    /// Which clock stands behind a time on this fabric.
    pub fn clock(&self) -> ClockKind {
        match self.carrier {
            Carrier::Sim { .. } => ClockKind::Virtual,
            Carrier::Shm | Carrier::Pool(_) | Carrier::Tcp(_) => ClockKind::Wall,
        }
    }

    /// What is real and what is modelled, in one line.
    pub fn describe(&self) -> String {
        match &self.carrier {
            Carrier::Shm => "shared memory of this host; nothing modelled".to_owned(),
            Carrier::Pool(None) => {
                "a pool in memory of this host, treated as incoherent; no latency modelled"
                    .to_owned()
            }
            Carrier::Pool(Some(path)) => {
                format!("a pool in {}, treated as incoherent; no latency modelled", path.display())
            }
            Carrier::Tcp(_) => "TCP; nothing modelled".to_owned(),
            Carrier::Sim { profile, .. } => format!("modelled: interconnect {profile}"),
        }
    }

    /// Attaches node `me`; does not wait for the others, but over TCP.
    ///
    /// # Errors
    /// `Kind::Busy` when the node is attached already or listens on another host; `Kind::Io`;
    /// `Kind::Unsupported` on a model, whose nodes are threads of [`FabricDevice::run`].
    pub fn attach(&self, me: NodeId) -> Result<AnyFabric> {
        match &self.shared {
            Shared::Shm(file, layout) => Ok(AnyFabric::Shm(ShmFabric::attach(file, *layout, me)?)),
            Shared::Pool(file, layout) => {
                let pool = MappedPool::map(file, layout.pool_bytes())?;
                Ok(AnyFabric::Pool(PoolFabric::new(pool, *layout, me)?))
            }
            Shared::Tcp(addresses, listeners) => {
                let mut listeners = listeners.lock().unwrap_or_else(PoisonError::into_inner);
                let listener = listeners.get_mut(me.index()).and_then(Option::take);
                drop(listeners);
                let listener = listener.ok_or_else(|| {
                    let what = format!("node {me} is attached already, or its address is not here");
                    Error::new(Kind::Busy, what).at_rank(me)
                })?;
                let fabric = TcpFabric::connect(me, addresses, &listener, self.window_bytes)?;
                Ok(AnyFabric::Tcp(fabric))
            }
            Shared::Sim => {
                let what = "nodes of a modelled interconnect take turns in one process; start them \
                            with `run`";
                Err(Error::new(Kind::Unsupported, what))
            }
        }
    }

    /// Runs `body` as every node of the job, each on a thread; on a model in virtual time. Answers
    /// come in the order of the nodes.
    ///
    /// # Errors
    /// Those of attaching the nodes.
    ///
    /// # Panics
    /// When a body panics.
    pub fn run<T: Send>(&self, body: impl Fn(&dyn Fabric) -> T + Sync) -> Result<Vec<T>> {
        if let Carrier::Sim { timing, .. } = &self.carrier {
            let report = sim::run(self.nodes, self.window_bytes, timing.loggp(), |f| body(f));
            return Ok(report.results);
        }
        let node = |me: u16| -> Result<T> {
            let node = self.attach(NodeId(me))?;
            node.wait_for_all(JOIN_MAX)?;
            Ok(body(node.fabric()))
        };
        let node = &node;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.nodes).map(|me| scope.spawn(move || node(me))).collect();
            let join = |t: std::thread::ScopedJoinHandle<'_, Result<T>>| {
                t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect()
        })
    }
}

/// Memory without a name.
fn memory(bytes: usize) -> Result<File> {
    let made = memfd_create("littoral-fabric", MemfdFlags::CLOEXEC).map(File::from);
    let file = made.map_err(|e| failed("making shared memory")(e.into()))?;
    file.set_len(bytes as u64).map_err(failed("making shared memory"))?;
    Ok(file)
}

/// The memory of a new pool: all zeros.
fn pool(path: Option<&Path>, bytes: usize) -> Result<File> {
    let Some(path) = path else { return memory(bytes) };
    Ok(new_pool(path, bytes, bytes)?.0)
}

/// A pool of `bytes` in a new file, whose name is taken away again at once, or in a device, whose
/// first `cleared` bytes become zeros; and whether what lies behind those may hold something.
///
/// # Errors
/// `Kind::Exists` for a file, `Kind::Io` when the system refuses.
pub fn new_pool(path: &Path, cleared: usize, bytes: usize) -> Result<(File, bool)> {
    debug_assert!(cleared <= bytes, "what is cleared belongs to the pool");
    let at = || failed(path.display().to_string());
    if path.metadata().is_ok_and(|m| m.file_type().is_char_device()) {
        let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(at())?;
        io::Write::write_all(&mut file, &vec![0; cleared]).map_err(at())?;
        return Ok((file, cleared < bytes));
    }
    let made = OpenOptions::new().read(true).write(true).create_new(true).open(path);
    let file = made.map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => {
            let what = format!("{}: exists already; a pool's file is new", path.display());
            Error::with_source(Kind::Exists, what, e).at_path(path)
        }
        _ => at()(e),
    })?;
    std::fs::remove_file(path).map_err(at())?;
    file.set_len(bytes as u64).map_err(at())?;
    Ok((file, false))
}

/// Sockets that listen at those of the addresses that are this host's.
fn listen(addresses: &[SocketAddr], nodes: u16) -> Result<Shared> {
    if addresses.len() != usize::from(nodes) {
        let what = format!("{} addresses for {nodes} nodes; give one per node", addresses.len());
        return Err(Error::new(Kind::IllegalRequest, what));
    }
    let (mut bound, mut listeners) = (Vec::new(), Vec::new());
    for address in addresses {
        let (address, listener) = match TcpListener::bind(address) {
            Ok(listener) => {
                let own = listener.local_addr().map_err(failed("asking for a socket's address"))?;
                (own, Some(listener))
            }
            Err(e) if e.kind() == io::ErrorKind::AddrNotAvailable => (*address, None),
            Err(e) => {
                return Err(failed(format!("listening on {address}"))(e).at_address(*address));
            }
        };
        bound.push(address);
        listeners.push(listener);
    }
    Ok(Shared::Tcp(bound, Mutex::new(listeners)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every node adds its number to a counter of node 0 and tells it; node 0 answers the sum.
    fn sum(fabric: &dyn Fabric) -> u64 {
        let me = fabric.me();
        fabric.post(NodeId(0), &[1]).unwrap();
        if me.0 > 0 {
            return 0;
        }
        let mut sum = 0;
        for _ in 0..fabric.nodes() {
            let (from, _) = fabric.receive(Duration::from_secs(60)).unwrap().unwrap();
            sum += u64::from(from.0) + 1;
        }
        sum
    }

    #[test]
    fn a_job_runs_on_every_carrier_and_its_clock_is_named() {
        let tcp = vec!["127.0.0.1:0".parse().unwrap(); 3];
        let rdma = Profile::named("rdma").unwrap();
        let only = rdma.configurations()[0].to_owned();
        for (carrier, clock) in [
            (Carrier::Shm, ClockKind::Wall),
            (Carrier::Pool(None), ClockKind::Wall),
            (Carrier::Tcp(tcp), ClockKind::Wall),
            (FabricDevice::simulated(&rdma, &only).unwrap(), ClockKind::Virtual),
        ] {
            let device = FabricDevice::open(carrier, 3, 4096).unwrap();
            assert_eq!(device.clock(), clock);
            assert_eq!(device.describe().starts_with("modelled"), clock == ClockKind::Virtual);
            assert_eq!(device.run(sum).unwrap(), [6, 0, 0], "{}", device.describe());
        }
    }

    #[test]
    fn what_cannot_be_opened_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        std::fs::write(&path, b"x").unwrap();
        let open = |carrier, nodes| FabricDevice::open(carrier, nodes, 64).map(drop);
        let taken = open(Carrier::Pool(Some(path)), 2).unwrap_err();
        assert_eq!(taken.kind(), Kind::Exists, "{taken}");
        assert!(taken.to_string().contains("a pool's file is new"), "{taken}");
        assert_eq!(open(Carrier::Shm, 0).unwrap_err().kind(), Kind::IllegalRequest);
        let one = vec!["127.0.0.1:0".parse().unwrap()];
        assert_eq!(open(Carrier::Tcp(one), 2).unwrap_err().kind(), Kind::IllegalRequest);
        let device = FabricDevice::open(Carrier::Shm, 2, 64).unwrap();
        let _first = device.attach(NodeId(0)).unwrap();
        assert_eq!(device.attach(NodeId(0)).map(drop).unwrap_err().kind(), Kind::Busy);
    }
}
