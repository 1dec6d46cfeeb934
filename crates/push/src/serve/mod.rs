//! A device of its own process behind a local socket, in paced time: a link with a rate, cores that
//! are charged the LA64 instructions of each page, one policy for all hosts.
//!
//! One thread serves all connections and acts out the model's events ([`paced`]); other threads
//! compute the page functions, and that one too where a modelled core waits. A connection is a
//! request queue and a response queue: the bytes of entries, each with its data.
//!
//! Invariants
//! - A host that vanishes, stays silent or does not read costs the others nothing but its session
//!   until its lease ends. Checked by `hosts_that_misbehave_keep_nothing_from_others`,
//!   `silent_and_vanished_hosts_are_forgotten`, `a_host_that_does_not_read_is_closed`.
//! - A host is silent only if nothing of it waits to be read, and it waits for no answer. Checked
//!   by `a_host_that_was_not_read_was_not_silent`, `a_host_that_waits_is_not_silent`.
//! - Leases count the time in which the server listens, and little of the time in which it does
//!   not: they run by a clock of their own. Checked by `a_server_that_stands_still_ends_no_lease`.
//! - A server removes no file but the socket of a server that has ended. Checked by
//!   `what_is_no_socket_is_not_replaced`,
//!   `a_server_that_ends_leaves_the_socket_of_another`,
//!   `a_socket_is_looked_at_and_replaced_by_one_server_at_a_time`.

mod connection;
mod finals;
pub mod paced;
mod workers;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use littoral_base::clock::{Clock as _, WallClock};
use littoral_base::mutant;
use littoral_base::names::folder_of;
use littoral_base::units::Picos;
use littoral_device::try_lock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::api::Engine;
use crate::device::Machine;
use crate::error::{Error, Kind, Result};
use crate::policy::Policy;
use connection::Connection;
use paced::Paced;
use workers::Workers;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 256;
/// The longest sleep: how soon a request to stop is seen.
const SLEEP_MAX: Picos = Picos::from_micros(50_000);
/// Time for which the thread computes pages before it serves its connections again.
const TURN: Picos = Picos::from_micros(50);
/// The longest work between two looks at the clock that leases count: where it takes longer, as
/// when the process was stopped or a disk was slow, hosts could not be heard meanwhile.
const WORK_MAX: Picos = Picos::from_micros(10_000);

/// Tries at the lock of a socket's folder, and the time between two of them.
const LOCK_TRIES: u32 = 500;
const LOCK_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Device and number of a file.
type Identity = (u64, u64);

/// Which connection, never used again.
type Peer = u64;

/// What the server need not wait for.
#[derive(Default)]
struct Ready {
    has_newcomer: bool,
    /// Connections that can be read.
    peers: Vec<Peer>,
}

/// A device behind a socket.
pub struct Server {
    device: Paced<Peer>,
    lease: Picos,
    path: PathBuf,
    /// What tells the socket at the path from one that another server makes there.
    socket: Option<Identity>,
    listener: UnixListener,
    /// A byte comes here when a thread has computed what a modelled core waits for.
    bell: UnixStream,
    clock: WallClock,
    /// The latest look at the clock.
    looked: Picos,
    /// The longest sleep since then.
    slept: Picos,
    connections: BTreeMap<Peer, Connection>,
    next_peer: Peer,
}

fn io(path: &Path, what: &str) -> impl Fn(std::io::Error) -> Error {
    let what = format!("{}: {what}", path.display());
    move |e| Error::with_source(Kind::Io, what.clone(), e)
}

fn identity(path: &Path) -> Option<Identity> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// The folder of a socket, locked until it is dropped. A server that has made its socket and does
/// not listen yet looks as one that has ended: servers that begin beside each other would remove
/// each other's sockets.
fn locked_folder(path: &Path) -> Result<Option<File>> {
    if mutant!("push_sockets_without_lock") {
        return Ok(None);
    }
    // What is wrong with the folder is said when the socket is made.
    let Ok(folder) = File::open(folder_of(path)) else { return Ok(None) };
    for _ in 0..LOCK_TRIES {
        match try_lock(&folder, true) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                // A pause that a signal cuts short is a pause.
                let _ = poll(&mut [], Some(&LOCK_PAUSE));
            }
            // A file system without locks has the folder none the less.
            Ok(()) | Err(_) => return Ok(Some(folder)),
        }
    }
    let what = "another process has locked the folder of the socket; choose another folder";
    Err(Error::new(Kind::Io, format!("{}: {what}", path.display())))
}

/// Removes the socket that a server has left behind, if there is one.
fn make_room(path: &Path) -> Result<()> {
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(io(path, "cannot listen")(e)),
    };
    if !found.file_type().is_socket() {
        let what = format!("{}: this is no socket; choose another path", path.display());
        return Err(Error::new(Kind::Usage, what));
    }
    match UnixStream::connect(path) {
        Ok(_) => {
            let what = format!("{}: another server listens here", path.display());
            Err(Error::new(Kind::Io, what))
        }
        Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(io(path, "cannot replace what is there"))
        }
        Err(e) => Err(io(path, "cannot tell whether another server listens here")(e)),
    }
}

/// A socket at `path`, and what tells it from another one there.
fn listener_at(path: &Path) -> Result<(UnixListener, Option<Identity>)> {
    let _alone = locked_folder(path)?;
    make_room(path)?;
    let listener = UnixListener::bind(path).map_err(|e| match e.kind() {
        ErrorKind::InvalidInput => {
            let what = "a socket's path has 107 bytes at most; choose a shorter one";
            Error::new(Kind::Usage, format!("{}: {what}", path.display()))
        }
        _ => io(path, "cannot listen")(e),
    })?;
    let socket = identity(path);
    listener.set_nonblocking(true).map_err(io(path, "cannot listen"))?;
    Ok((listener, socket))
}

impl Server {
    /// A device that listens at `path`; a socket left behind by an ended server is replaced.
    ///
    /// # Errors
    /// [`Kind::Io`] when it cannot listen there, also because another server does,
    /// [`Kind::Usage`] when what is there is no socket, and for a path that sockets do not have.
    pub fn listen(
        path: &Path,
        engine: Engine,
        machine: Machine,
        policy: Policy,
        lease: Picos,
    ) -> Result<Server> {
        let failed = io(path, "cannot start the threads that compute");
        let (bell, ringer) = UnixStream::pair().map_err(&failed)?;
        for end in [&bell, &ringer] {
            end.set_nonblocking(true).map_err(&failed)?;
        }
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = Workers::start(machine.cores as usize, processors, &ringer);
        let engine = engine.numbered_by_contents();
        let device = Paced::new(engine, machine, policy).with_workers(workers.map_err(failed)?);
        // Last, so that no failure leaves a socket behind.
        let (listener, socket) = listener_at(path)?;
        Ok(Server {
            device,
            lease,
            path: path.to_owned(),
            socket,
            listener,
            bell,
            clock: WallClock::new(),
            looked: Picos(0),
            slept: Picos(0),
            connections: BTreeMap::new(),
            next_peer: 0,
        })
    }

    /// Serves until `stop` is set.
    ///
    /// # Errors
    /// [`Kind::Io`] when the socket fails.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<()> {
        let mut swept = Picos(0);
        let mut ready = Ready::default();
        while !stop.load(Ordering::Relaxed) {
            if ready.has_newcomer {
                self.accept();
            }
            for peer in ready.peers.drain(..) {
                self.receive(peer);
            }
            let has_more = self.turn();
            self.send();
            let now = self.lease_time();
            if now.0 >= swept.0 + self.lease.0 / 4 {
                swept = now;
                self.sweep();
            }
            self.sleep(has_more, &mut ready)?;
        }
        Ok(())
    }

    /// The wall clock's time. Of what has passed since the last look, leases count the sleep and
    /// [`WORK_MAX`] at most.
    fn look(&mut self) -> Picos {
        let now = self.clock.now();
        let counted = Picos(self.slept.0.saturating_add(WORK_MAX.0));
        self.device.stall(now.saturating_sub(self.looked).saturating_sub(counted));
        (self.looked, self.slept) = (now, Picos(0));
        now
    }

    /// The time by which leases run.
    fn lease_time(&mut self) -> Picos {
        let now = self.look();
        self.device.lease_time(now)
    }

    /// Brings the model to the wall clock's time, and computes pages that its cores wait for, up to
    /// [`TURN`]; whether there are more of them.
    fn turn(&mut self) -> bool {
        let end = Picos(self.look().0 + TURN.0);
        loop {
            self.advance();
            if !self.device.help() {
                return false;
            }
            if self.clock.now() >= end {
                return true;
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.connections.len() >= CONNECTIONS_MAX || stream.set_nonblocking(true).is_err() {
                log::info!("a connection beyond {CONNECTIONS_MAX} is refused");
                continue;
            }
            self.next_peer += 1;
            let now = self.lease_time();
            self.connections.insert(self.next_peer, Connection::new(stream, now));
        }
    }

    fn receive(&mut self, peer: Peer) {
        if !self.device.has_room(peer) {
            return;
        }
        let now = self.lease_time();
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        let requests = connection.receive(now);
        let is_open = connection.is_open();
        for (entry, data) in requests {
            self.device.request(peer, entry, data);
        }
        if !is_open {
            self.advance();
            self.drop_peer(peer);
        }
    }

    /// Brings the model to the wall clock's time.
    fn advance(&mut self) {
        let now = self.look();
        for peer in self.device.advance(now) {
            log::info!("a host sent what is no command; its connection is closed");
            self.drop_peer(peer);
        }
    }

    /// Sends the answers that have arrived at the end of the modelled link.
    fn send(&mut self) {
        let now = self.lease_time();
        while let Some((peer, entry, data)) = self.device.response() {
            if let Some(connection) = self.connections.get_mut(&peer) {
                connection.send(now, &entry, data.bytes());
            }
        }
        let broken = self.connections.iter_mut().filter_map(|(peer, c)| {
            c.flush();
            (!c.is_open()).then_some(*peer)
        });
        for peer in broken.collect::<Vec<_>>() {
            self.drop_peer(peer);
        }
    }

    /// Forgets a connection; its waiting pages are answered to no host.
    fn drop_peer(&mut self, peer: Peer) {
        self.connections.remove(&peer);
        self.device.drop_host(peer);
    }

    /// Forgets sessions and connections past their lease.
    fn sweep(&mut self) {
        let now = self.lease_time();
        // What hosts said while the server was busy is read first: they were not silent.
        for peer in self.connections.keys().copied().collect::<Vec<_>>() {
            self.receive(peer);
        }
        self.device.expire();
        // A host that waits for an answer has nothing to say, or is not read.
        let waits = |peer: Peer| self.device.unanswered(peer) > 0;
        let silent = self.connections.iter();
        let silent = silent.filter(|(p, c)| !waits(**p) && c.is_silent(now, self.lease));
        for peer in silent.map(|(p, _)| *p).collect::<Vec<_>>() {
            log::info!("a host was silent for its lease; its connection is closed");
            self.drop_peer(peer);
        }
    }

    /// Waits for the next event, message or result; not at all if `has_more` pages are to be
    /// computed.
    fn sleep(&mut self, has_more: bool, ready: &mut Ready) -> Result<()> {
        let next = self.device.next().unwrap_or(Picos(u64::MAX));
        let mut wait = Picos(next.0.saturating_sub(self.clock.now().0)).min(SLEEP_MAX);
        if has_more {
            wait = Picos(0);
        }
        self.slept = wait;
        let nanos = wait.as_nanos();
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::try_from(nanos).unwrap_or(0) };
        let mut fds = vec![
            PollFd::new(&self.listener, PollFlags::IN),
            PollFd::new(&self.bell, PollFlags::IN),
        ];
        let mut peers = Vec::new();
        for (peer, connection) in &self.connections {
            let mut wanted = PollFlags::empty();
            wanted.set(PollFlags::IN, self.device.has_room(*peer));
            wanted.set(PollFlags::OUT, connection.has_output());
            if wanted.is_empty() {
                // The end of its connection would wake the server although it is not read.
                continue;
            }
            fds.push(PollFd::from_borrowed_fd(connection.stream().as_fd(), wanted));
            peers.push(*peer);
        }
        let polled = match poll(&mut fds, Some(&timeout)) {
            Ok(polled) => polled,
            Err(rustix::io::Errno::INTR) => 0,
            Err(e) => return Err(io(&self.path, "cannot wait for hosts")(e.into())),
        };
        *ready = Ready::default();
        if polled == 0 {
            return Ok(());
        }
        ready.has_newcomer = !fds[0].revents().is_empty();
        if fds[1].revents().contains(PollFlags::IN) {
            // What the bytes were is of no interest; an empty pipe is no failure.
            let _ = (&self.bell).read(&mut [0; 64]);
        }
        // The end of a connection is read too.
        let is_read = |fd: &PollFd<'_>| fd.revents().intersects(!PollFlags::OUT);
        let read = peers.iter().zip(&fds[2..]).filter(|(_, fd)| is_read(fd));
        ready.peers.extend(read.map(|(peer, _)| *peer));
        Ok(())
    }

    /// Its state.
    pub fn engine(&self) -> &Engine {
        self.device.engine()
    }

    /// Connections at the moment.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.socket.is_some() && identity(&self.path) == self.socket {
            // The next server replaces a socket that stays.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::api::{About, Cores, DataSet, Settings, put_message};
    use crate::command::{Command, Opcode, Quotas};
    use crate::device::served;
    use crate::page::{Column, Format, Schema, Value};

    fn server(path: &Path, lease: Picos) -> Server {
        let about =
            About::new(&Schema::new(vec![Column::int("n", 0, 9)]).unwrap(), Format::Columns, 4096);
        let set = DataSet::of_records(&about, (0..9).map(|n| Ok(vec![Value::Int(n)]))).unwrap();
        let quotas = Quotas { lease, ..Settings::default().quotas };
        let settings = Settings { cores: Cores::Twin, quotas, ..Settings::default() };
        let machine = served(300_000_000, 4, 400, 4096).unwrap();
        let engine = Engine::new(set, settings);
        Server::listen(path, engine, machine, Policy::Late, lease).unwrap()
    }

    #[test]
    fn a_socket_is_looked_at_and_replaced_by_one_server_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        // What a server leaves that was killed.
        drop(UnixListener::bind(&path).unwrap());
        let held = locked_folder(&path).unwrap();
        assert!(held.is_some());
        let other = File::open(folder.path()).unwrap();
        let is_locked = || {
            let locked = try_lock(&other, true);
            locked.is_err_and(|e| e.kind() == ErrorKind::WouldBlock)
        };
        assert!(is_locked(), "another server waits");
        drop(held);
        let (first, socket) = listener_at(&path).unwrap();
        assert!(socket.is_some() && !is_locked(), "the next one may look");
        other.unlock().unwrap();
        let refused = listener_at(&path).unwrap_err();
        assert_eq!(refused.kind(), Kind::Io, "{refused}");
        assert!(refused.to_string().contains("another server listens"), "{refused}");
        assert_eq!(identity(&path), socket, "the socket of one that listens stays");
        drop(first);
        assert!(listener_at(&path).is_ok(), "that of one that has ended is replaced");
    }

    #[test]
    fn a_path_that_is_too_long_for_a_socket_is_a_mistake() {
        let folder = tempfile::tempdir().unwrap();
        let refused = listener_at(&folder.path().join("d".repeat(120))).unwrap_err();
        assert_eq!(refused.kind(), Kind::Usage);
        assert!(refused.to_string().contains("107 bytes"), "{refused}");
        let refused = listener_at(&folder.path().join("absent/device")).unwrap_err();
        assert_eq!(refused.kind(), Kind::Io, "{refused}");
    }

    #[test]
    fn a_host_that_was_not_read_was_not_silent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        let lease = Picos::from_micros(1_000);
        let mut server = server(&path, lease);
        let mut hosts = [UnixStream::connect(&path).unwrap(), UnixStream::connect(&path).unwrap()];
        server.accept();
        // The server is busy for longer than a lease; one host speaks meanwhile.
        let mut message = Vec::new();
        put_message(&mut message, &Command::plain(Opcode::Read, 0).encode(), &[]);
        hosts[1].write_all(&message).unwrap();
        let is_silent =
            |s: &Server| s.connections.values().all(|c| c.is_silent(s.clock.now(), lease));
        while !is_silent(&server) {
            std::thread::yield_now();
        }
        server.sweep();
        let left: Vec<Peer> = server.connections.keys().copied().collect();
        assert_eq!(left, [2], "the host that said nothing is forgotten");
        assert_eq!(server.device.unanswered(2), 1);
    }

    #[test]
    fn a_host_that_waits_is_not_silent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        let lease = Picos::from_micros(1_000);
        let mut server = server(&path, lease);
        let mut hosts = [UnixStream::connect(&path).unwrap(), UnixStream::connect(&path).unwrap()];
        server.accept();
        let mut message = Vec::new();
        put_message(&mut message, &Command::plain(Opcode::Read, 0).encode(), &[]);
        hosts[0].write_all(&message).unwrap();
        server.receive(1);
        // The modelled link moves nothing, since the model's time does not go on.
        while server.connections() > 1 {
            server.sleep(false, &mut Ready::default()).unwrap();
            server.sweep();
        }
        assert!(server.connections.contains_key(&1), "it waits for its page");
        let (now, end) = (server.lease_time(), Picos(server.clock.now().0 + 3 * lease.0));
        while server.clock.now() < end {
            std::thread::yield_now();
        }
        server.sweep();
        assert!(server.lease_time().0 > now.0 + lease.0 && server.connections() == 1);
    }

    #[test]
    fn a_server_that_stands_still_ends_no_lease() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        let lease = Picos::from_micros(200_000);
        let mut server = server(&path, lease);
        let _host = UnixStream::connect(&path).unwrap();
        server.accept();
        // The server does nothing for three leases, as a process that was stopped.
        let end = Picos(server.clock.now().0 + 3 * lease.0);
        while server.clock.now() < end {
            std::thread::yield_now();
        }
        server.sweep();
        assert_eq!(server.connections(), 1, "a host could not be heard");
        // Time in which it listens counts.
        while server.connections() > 0 {
            server.sleep(false, &mut Ready::default()).unwrap();
            server.sweep();
        }
    }

    #[test]
    fn a_host_with_many_requests_is_not_read_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        let mut server = server(&path, Picos(u64::MAX / 2));
        let mut hosts = [UnixStream::connect(&path).unwrap(), UnixStream::connect(&path).unwrap()];
        server.accept();
        let mut messages = Vec::new();
        let read = Command::plain(Opcode::Read, 0).encode();
        (0..100).for_each(|_| put_message(&mut messages, &read, &[]));
        let peers: Vec<Peer> = server.connections.keys().copied().collect();
        // The modelled link moves nothing, since no time passes: what is read stays unanswered.
        for _ in 0..20 {
            hosts[0].write_all(&messages).unwrap();
            server.receive(peers[0]);
        }
        assert!(!server.device.has_room(peers[0]), "2000 requests were sent");
        hosts[1].write_all(&messages).unwrap();
        server.receive(peers[1]);
        assert!(server.device.has_room(peers[1]), "other hosts are read");
        let read = [0, 1].map(|n| server.device.unanswered(peers[n]));
        assert!(read[0] < paced::UNANSWERED_MAX + 100 && read[1] == 100, "{read:?} were read");
    }
}
