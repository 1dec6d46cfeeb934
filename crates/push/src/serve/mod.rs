//! A device of its own process behind a local socket, in paced time: a link with a rate, cores that
//! are charged the LA64 instructions of each page, one policy for all hosts.
//!
//! One thread serves all connections. Events happen at modelled times and are acted out in their
//! order once the wall clock has passed them. What follows from an event begins at the event's
//! time, so that a late thread does not slow the model down.
//!
//! Invariants
//! - The link moves one parcel at a time and a core computes one page at a time. Checked by
//!   `start_link`, `start_core`.
//! - A host that vanishes, stays silent or does not read costs the others nothing but its session
//!   until its lease ends. Checked by `silent_and_vanished_hosts_are_forgotten`.

mod connection;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use littoral_base::clock::{Clock as _, WallClock};
use littoral_base::units::Picos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::api::{Engine, Ran};
use crate::command::{Command, Completion, Opcode, Status};
use crate::device::Machine;
use crate::error::{Error, Kind, Result};
use crate::policy::{Commit, Known, Policy, State, TaskView, View};
use connection::Connection;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 256;
/// The longest sleep: how soon a request to stop is seen.
const SLEEP_MAX: Picos = Picos::from_micros(50_000);

/// Which connection, never used again.
type Peer = u64;

/// A page that was admitted and waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    peer: Peer,
    command: Command,
}

/// What the link moves.
struct Parcel {
    peer: Peer,
    completion: Completion,
    data: Vec<u8>,
    /// A raw page that is counted when it has arrived.
    raw: Option<(Command, Ran)>,
}

struct Core {
    running: Option<(Waiting, Ran, u16, Picos)>,
    end: Picos,
}

/// A task as the policy sees it.
struct Tracked {
    key: (u32, u16),
    held: VecDeque<Waiting>,
    unasked: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    LinkDone,
    CoreDone(usize),
}

/// A device behind a socket.
pub struct Server {
    engine: Engine,
    machine: Machine,
    policy: Policy,
    lease: Picos,
    path: PathBuf,
    listener: UnixListener,
    clock: WallClock,
    connections: BTreeMap<Peer, Connection>,
    next_peer: Peer,
    state: State,
    tasks: Vec<Tracked>,
    cores: Vec<Core>,
    /// Pages that an early policy has given to the cores.
    committed: VecDeque<(Waiting, Commit)>,
    link: Option<(Parcel, Picos)>,
    small: VecDeque<Parcel>,
    large: VecDeque<Parcel>,
    finals: Vec<(Peer, Command)>,
    events: BinaryHeap<Reverse<(Picos, Event)>>,
    now: Picos,
}

fn io(path: &Path, what: &str) -> impl Fn(std::io::Error) -> Error {
    let what = format!("{}: {what}", path.display());
    move |e| Error::with_source(Kind::Io, what.clone(), e)
}

impl Server {
    /// A device that listens at `path`; a socket left behind by an ended server is replaced.
    ///
    /// # Errors
    /// [`Kind::Io`] when it cannot listen there, also because another server does.
    pub fn listen(
        path: &Path,
        engine: Engine,
        machine: Machine,
        policy: Policy,
        lease: Picos,
    ) -> Result<Server> {
        if path.exists() {
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                let what = format!("{}: another server listens here", path.display());
                return Err(Error::new(Kind::Io, what));
            }
            std::fs::remove_file(path).map_err(io(path, "cannot replace what is there"))?;
        }
        let listener = UnixListener::bind(path).map_err(io(path, "cannot listen"))?;
        listener.set_nonblocking(true).map_err(io(path, "cannot listen"))?;
        let cores = (0..machine.cores).map(|_| Core { running: None, end: Picos(0) }).collect();
        Ok(Server {
            state: State::new(&policy, 0, known(&machine)),
            engine,
            machine,
            policy,
            lease,
            path: path.to_owned(),
            listener,
            clock: WallClock::new(),
            connections: BTreeMap::new(),
            next_peer: 0,
            tasks: Vec::new(),
            cores,
            committed: VecDeque::new(),
            link: None,
            small: VecDeque::new(),
            large: VecDeque::new(),
            finals: Vec::new(),
            events: BinaryHeap::new(),
            now: Picos(0),
        })
    }

    /// Serves until `stop` is set.
    ///
    /// # Errors
    /// [`Kind::Io`] when the socket fails.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<()> {
        let mut swept = Picos(0);
        while !stop.load(Ordering::Relaxed) {
            self.act();
            self.accept();
            let peers: Vec<Peer> = self.connections.keys().copied().collect();
            for peer in peers {
                self.receive(peer);
            }
            self.act();
            self.flush();
            if self.now.0 >= swept.0 + self.lease.0 / 4 {
                swept = self.now;
                self.sweep();
            }
            self.sleep()?;
        }
        Ok(())
    }

    /// Acts out what is due.
    fn act(&mut self) {
        loop {
            let wall = self.clock.now();
            let due = self.events.peek().is_some_and(|Reverse((at, _))| *at <= wall);
            if !due {
                self.now = self.now.max(wall);
                return;
            }
            if let Some(Reverse((at, event))) = self.events.pop() {
                self.now = at;
                match event {
                    Event::LinkDone => self.link_done(),
                    Event::CoreDone(core) => self.core_done(core),
                }
                self.schedule();
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
            self.connections.insert(self.next_peer, Connection::new(stream, self.now));
        }
    }

    fn receive(&mut self, peer: Peer) {
        let Some(connection) = self.connections.get_mut(&peer) else { return };
        let commands = connection.receive(self.now);
        let is_open = connection.is_open();
        for (command, data) in commands {
            self.take(peer, command, &data);
        }
        self.schedule();
        if !is_open {
            self.drop_peer(peer);
        }
    }

    fn take(&mut self, peer: Peer, command: Command, data: &[u8]) {
        let is_page = matches!(command.opcode, Opcode::ReadProc | Opcode::ReadFilt);
        if !is_page {
            match self.engine.control(self.now, &command, data) {
                Some(answer) => self.answer_control(peer, &command, answer),
                None => self.finals.push((peer, command)),
            }
            return;
        }
        if let Some((completion, data)) = self.engine.admit(self.now, &command) {
            return self.send(peer, completion, data);
        }
        let key = (command.session, command.task);
        let Some(task) = self.tasks.iter().position(|t| t.key == key) else { return };
        self.tasks[task].unasked = self.tasks[task].unasked.saturating_sub(1);
        let waiting = Waiting { peer, command };
        let registered = self.committed.len() + self.busy();
        match self.state.arrived(task as u16, registered as u32) {
            Commit::Hold => self.tasks[task].held.push_back(waiting),
            Commit::Link => self.ship(waiting),
            commit @ (Commit::Core | Commit::Filter) => {
                self.committed.push_back((waiting, commit));
            }
        }
    }

    fn busy(&self) -> usize {
        self.cores.iter().filter(|c| c.running.is_some()).count()
    }

    fn answer_control(&mut self, peer: Peer, command: &Command, answer: (Completion, Vec<u8>)) {
        let is_done = matches!(answer.0.status, Status::Processed | Status::Result);
        let key = (command.session, command.task);
        match command.opcode {
            Opcode::Init if is_done => {
                self.tasks.push(Tracked { key, held: VecDeque::new(), unasked: command.page });
                self.renew();
            }
            Opcode::Final | Opcode::Abort => {
                self.tasks.retain(|t| t.key != key || !t.held.is_empty());
                self.renew();
            }
            Opcode::Init
            | Opcode::Write
            | Opcode::Read
            | Opcode::Catalogue
            | Opcode::ReadProc
            | Opcode::ReadFilt => {}
        }
        self.send(peer, answer.0, answer.1);
    }

    /// Another set of tasks: the policy observes anew.
    fn renew(&mut self) {
        self.state = State::new(&self.policy, self.tasks.len(), known(&self.machine));
    }

    fn send(&mut self, peer: Peer, completion: Completion, data: Vec<u8>) {
        let queue = if data.is_empty() { &mut self.small } else { &mut self.large };
        queue.push_back(Parcel { peer, completion, data, raw: None });
    }

    /// Sends a page as it is; it is counted when it has arrived.
    fn ship(&mut self, waiting: Waiting) {
        let Waiting { peer, command } = waiting;
        let Ok(mut ran) = self.engine.run(&command, Commit::Link) else { return };
        let data = std::mem::take(&mut ran.payload);
        let (id, attempt, bytes) = (command.id, command.attempt, data.len() as u32);
        let completion = Completion { id, attempt, status: Status::Raw, bytes, merged: 0 };
        self.large.push_back(Parcel { peer, completion, data, raw: Some((command, ran)) });
    }

    /// Gives free cores and a free link what the policy has for them.
    fn schedule(&mut self) {
        for core in 0..self.cores.len() {
            while self.cores[core].running.is_none() && self.next_for_core(core) {}
        }
        let is_idle = self.link.is_none() && self.small.is_empty() && self.large.is_empty();
        if is_idle
            && self.state.holds()
            && let Some(task) = self.state.for_link(&self.view())
            && let Some(waiting) = self.tasks[usize::from(task)].held.pop_front()
        {
            self.ship(waiting);
        }
        if self.link.is_none() {
            let next = self.small.pop_front().or_else(|| self.large.pop_front());
            if let Some(parcel) = next {
                self.start_link(parcel);
            }
        }
        // A policy that leaves pages waiting beside an idle device would wait for ever.
        if self.link.is_none() && self.busy() == 0 {
            let held = self.tasks.iter_mut().find_map(|t| t.held.pop_front());
            if let Some(waiting) = held {
                self.ship(waiting);
                self.schedule();
            }
        }
    }

    /// Whether a page was found for a core.
    fn next_for_core(&mut self, core: usize) -> bool {
        if let Some((waiting, commit)) = self.committed.pop_front() {
            self.start_core(core, waiting, commit);
            return true;
        }
        if !self.state.holds() || self.tasks.iter().all(|t| t.held.is_empty()) {
            return false;
        }
        let view = self.view();
        let Some(task) = self.state.for_core(&view) else { return false };
        let waiting = self.tasks[usize::from(task)].held.pop_front();
        waiting.is_some_and(|waiting| {
            self.start_core(core, waiting, Commit::Core);
            true
        })
    }

    fn view(&self) -> View {
        let task = |t: &Tracked| TaskView {
            held: t.held.len() as u32,
            coming: 0,
            unasked: u32::try_from(t.unasked).unwrap_or(u32::MAX),
        };
        let held: usize = self.tasks.iter().map(|t| t.held.len()).sum();
        View {
            now: self.now,
            tasks: self.tasks.iter().map(task).collect(),
            cores: self
                .cores
                .iter()
                .map(|c| c.running.as_ref().map(|(_, _, task, since)| (*task, *since)))
                .collect(),
            at_host: 0,
            is_link_busy: self.link.is_some(),
            link_free_at: self.link.as_ref().map_or(self.now, |l| l.1),
            depth: (held + self.busy() + self.large.len()).max(8) as u32,
        }
    }

    fn start_core(&mut self, core: usize, waiting: Waiting, commit: Commit) {
        assert!(self.cores[core].running.is_none(), "a core computes one page at a time");
        let key = (waiting.command.session, waiting.command.task);
        let task = self.tasks.iter().position(|t| t.key == key).unwrap_or(0) as u16;
        // Only a fault plan cuts power, and a server has none.
        let Ok(ran) = self.engine.run(&waiting.command, commit) else { return };
        let end = Picos(self.now.0 + self.machine.core_time(ran.instructions).0);
        self.cores[core].running = Some((waiting, ran, task, self.now));
        self.cores[core].end = end;
        self.events.push(Reverse((end, Event::CoreDone(core))));
    }

    fn start_link(&mut self, parcel: Parcel) {
        assert!(self.link.is_none(), "the link moves one parcel at a time");
        let bytes = crate::command::COMPLETION_BYTES + parcel.data.len();
        let end = Picos(self.now.0 + self.machine.link_time(bytes as u64).0);
        self.link = Some((parcel, end));
        self.events.push(Reverse((end, Event::LinkDone)));
    }

    fn core_done(&mut self, core: usize) {
        let Some((waiting, ran, task, since)) = self.cores[core].running.take() else { return };
        if usize::from(task) < self.tasks.len() {
            let time = Picos(self.cores[core].end.0 - since.0);
            self.state.core_done(task, time, ran.fell_back());
        }
        let (completion, data) = self.engine.end(&waiting.command, ran);
        self.send(waiting.peer, completion, data);
        self.retry_finals();
    }

    fn link_done(&mut self) {
        let Some((mut parcel, _)) = self.link.take() else { return };
        if let Some((command, ran)) = parcel.raw.take() {
            // The answer to an older attempt carries no page.
            let (completion, _) = self.engine.end(&command, ran);
            if completion.status != Status::Raw {
                (parcel.completion, parcel.data) = (completion, Vec::new());
            }
            self.state.link_done(self.machine.link_time(u64::from(parcel.completion.bytes)));
        }
        if let Some(connection) = self.connections.get_mut(&parcel.peer) {
            connection.send(&parcel.completion, &parcel.data);
        }
        self.retry_finals();
    }

    fn retry_finals(&mut self) {
        for (peer, command) in std::mem::take(&mut self.finals) {
            match self.engine.control(self.now, &command, &[]) {
                Some(answer) => self.answer_control(peer, &command, answer),
                None => self.finals.push((peer, command)),
            }
        }
    }

    fn flush(&mut self) {
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
        self.finals.retain(|f| f.0 != peer);
        let mut gone: Vec<Command> = Vec::new();
        for task in &mut self.tasks {
            gone.extend(task.held.iter().filter(|w| w.peer == peer).map(|w| w.command));
            task.held.retain(|w| w.peer != peer);
        }
        gone.extend(self.committed.iter().filter(|w| w.0.peer == peer).map(|w| w.0.command));
        self.committed.retain(|w| w.0.peer != peer);
        for command in gone {
            self.engine.end(&command, Ran::dropped());
        }
    }

    /// Forgets sessions and connections past their lease.
    fn sweep(&mut self) {
        self.engine.expire(self.now);
        let engine = &self.engine;
        let before = self.tasks.len();
        self.tasks.retain(|t| engine.knows(t.key) || !t.held.is_empty());
        if self.tasks.len() != before {
            self.renew();
        }
        let (now, lease) = (self.now, self.lease);
        let silent = self.connections.iter().filter(|(_, c)| c.is_silent(now, lease));
        for peer in silent.map(|(p, _)| *p).collect::<Vec<_>>() {
            log::info!("a host was silent for its lease; its connection is closed");
            self.drop_peer(peer);
        }
    }

    /// Waits for the next event or message.
    fn sleep(&self) -> Result<()> {
        let next = self.events.peek().map_or(Picos(u64::MAX), |Reverse((at, _))| *at);
        let wait = Picos(next.0.saturating_sub(self.clock.now().0)).min(SLEEP_MAX);
        let nanos = wait.as_nanos();
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::try_from(nanos).unwrap_or(0) };
        let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
        for connection in self.connections.values() {
            let wanted = if connection.has_output() {
                PollFlags::IN | PollFlags::OUT
            } else {
                PollFlags::IN
            };
            fds.push(PollFd::from_borrowed_fd(connection.stream().as_fd(), wanted));
        }
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(io(&self.path, "cannot wait for hosts")(e.into())),
        }
    }

    /// Its state.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Connections at the moment.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The next server replaces a socket that stays.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The device as late binding knows it. Pages are in memory: they take no time to fetch.
fn known(machine: &Machine) -> Known {
    Known {
        link: machine.link_time(u64::from(machine.nand.page_bytes)),
        bus: machine.bus_time(),
        fetch: Picos(0),
        cores: machine.cores,
        host_cores: machine.host_cores,
    }
}
