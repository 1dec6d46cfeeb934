//! The debugger's side: one connection from this machine, and the loop of the protocol.
//!
//! - The program waits until the debugger has connected.
//! - What a debugger sends is parsed by `gdbstub` alone. A connection that breaks, or on which the
//!   protocol is violated, ends the session as leaving does: breakpoints go, the program goes on.

use super::registers::{Bank, LoongArch, Register, from_protocol, to_protocol};
use super::{Action, Debugger, Place, Shared, Stop, stop_all};
use crate::error::{Error, Kind, Result};
use crate::user::raw;
use gdbstub::common::{Signal, Tid};
use gdbstub::conn::ConnectionExt as _;
use gdbstub::stub::run_blocking::{BlockingEventLoop, Event, WaitForStopReasonError};
use gdbstub::stub::{DisconnectReason, GdbStub, MultiThreadStopReason};
use gdbstub::target::ext::auxv::{Auxv, AuxvOps};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadResume, MultiThreadResumeOps, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::single_register_access::{
    SingleRegisterAccess, SingleRegisterAccessOps,
};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, SwBreakpoint, SwBreakpointOps,
};
use gdbstub::target::{Target, TargetError, TargetResult};
use littoral_base::mutant;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a packet: all registers in hexadecimal, and room.
const PACKET_BYTES: usize = 64 << 10;
/// How long a look for a stop lasts before the connection is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// Memory is read in pieces that do not cross a page.
const PAGE: u64 = 4096;

/// Waits for a debugger on a port of this machine; port 0 is any that is free.
///
/// # Errors
/// The port cannot be had.
pub(in super::super) fn wait(port: u16) -> Result<TcpStream> {
    let failed = |e: std::io::Error| {
        let what = format!("cannot wait for a debugger on port {port}: choose another");
        Error::with_source(Kind::Io, what, e)
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    // With stderr closed the port must be known already.
    let _ = writeln!(std::io::stderr(), "la64: waiting for a debugger: target remote {address}");
    let connection = listener.accept().map_err(failed)?.0;
    // Behind the numbers that the program's own files get.
    Ok(raw::copy_of(connection.as_raw_fd()).map_or(connection, TcpStream::from))
}

/// Serves a connection from now on.
pub(in super::super) fn start(debugger: &Arc<Debugger>, connection: TcpStream) -> Result<()> {
    let served = debugger.clone();
    // Signals of the process are for the guest's threads.
    let before = raw::set_mask(u64::MAX);
    let started = std::thread::Builder::new().name("debugger".into()).spawn(move || {
        serve(&served, connection);
    });
    raw::set_mask(before);
    let failed = |e| Error::with_source(Kind::Io, "cannot start the debugger's thread", e);
    started.map(drop).map_err(failed)
}

fn serve(debugger: &Arc<Debugger>, connection: TcpStream) {
    let mut target = Guest { debugger: debugger.clone(), locked: false };
    target.wait_all();
    let stub = GdbStub::builder(connection).packet_buffer_size(PACKET_BYTES).build();
    let ended = stub
        .map_err(|e| e.to_string())
        .and_then(|stub| stub.run_blocking::<Loop>(&mut target).map_err(|e| e.to_string()));
    match ended {
        Ok(DisconnectReason::Kill) => raw::raise(libc::SIGKILL as u32),
        Ok(
            DisconnectReason::Disconnect
            | DisconnectReason::TargetExited(_)
            | DisconnectReason::TargetTerminated(_),
        ) => {}
        Err(why) => {
            let what = "the debugger's connection failed, the program goes on without it";
            let _ = writeln!(std::io::stderr(), "la64: {what}: {why}");
        }
    }
    debugger.turn_off();
}

/// The guest as `gdbstub` sees it.
struct Guest {
    debugger: Arc<Debugger>,
    /// Threads without an action of their own wait when the others go on.
    locked: bool,
}

impl Guest {
    /// Waits until every thread has stopped, at least one.
    fn wait_all(&self) {
        let runs = |shared: &mut Shared| {
            let mut seats = shared.seats.values();
            let running = seats.any(|s| s.place == Place::Running);
            shared.end.is_none() && (running || shared.seats.is_empty())
        };
        drop(self.debugger.changed.wait_while(self.debugger.hold(), runs));
    }

    /// Why the guest stopped, if it has.
    fn stopped(&self) -> Option<MultiThreadStopReason<u64>> {
        let shared = self.debugger.hold();
        if let Some(end) = shared.end {
            return Some(reason(end));
        }
        let found = shared.reason;
        if found.is_none() {
            let waited = self.debugger.changed.wait_timeout(shared, LOOK);
            drop(waited);
            return None;
        }
        drop(shared);
        self.wait_all();
        found.map(reason)
    }

    /// Something about a thread's seat.
    fn seat<T>(&self, tid: Tid, with: impl FnOnce(&mut super::Seat) -> Option<T>) -> Option<T> {
        let seats = &mut self.debugger.hold().seats;
        let named = tid.get() as u64;
        // Before a debugger has chosen a thread the protocol's number for it is 1.
        let is_chosen = seats.contains_key(&named) || tid != Tid::MIN;
        let tid = if is_chosen { Some(named) } else { seats.keys().next().copied() };
        seats.get_mut(&tid?).and_then(with)
    }

    fn set(&self, tid: Tid, action: Action, signal: Option<Signal>) {
        // A thread that has ended meanwhile needs no action.
        let _ = self.seat(tid, |seat| {
            (seat.action, seat.named) = (action, true);
            seat.signal = signal.map_or(0, |s| from_protocol(s.0));
            Some(())
        });
    }
}

fn reason(stop: Stop) -> MultiThreadStopReason<u64> {
    let tid = |tid: u64| Tid::new(tid as usize).unwrap_or(Tid::MIN);
    match stop {
        Stop::Breakpoint(at) => MultiThreadStopReason::SwBreak(tid(at)),
        Stop::Stepped(at) => {
            MultiThreadStopReason::SignalWithThread { tid: tid(at), signal: Signal::SIGTRAP }
        }
        Stop::Signal(at, number) => {
            let signal = Signal(to_protocol(number));
            MultiThreadStopReason::SignalWithThread { tid: tid(at), signal }
        }
        Stop::Exited(status) => MultiThreadStopReason::Exited(status),
        Stop::Killed(number) => MultiThreadStopReason::Terminated(Signal(to_protocol(number))),
    }
}

/// What no request of a debugger leads to.
type Never = std::convert::Infallible;

impl Target for Guest {
    type Arch = LoongArch;
    type Error = Never;

    fn base_ops(&mut self) -> BaseOps<'_, LoongArch, Never> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_auxv(&mut self) -> Option<AuxvOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Guest {
    fn read_registers(&mut self, bank: &mut Bank, tid: Tid) -> TargetResult<(), Self> {
        let found = self.seat(tid, |seat| Some(Bank::of(&seat.registers)));
        *bank = found.ok_or(TargetError::NonFatal)?;
        Ok(())
    }

    fn write_registers(&mut self, bank: &Bank, tid: Tid) -> TargetResult<(), Self> {
        let stored = self.seat(tid, |seat| {
            (seat.place == Place::Stopped).then(|| bank.store(&mut seat.registers))
        });
        stored.ok_or(TargetError::NonFatal)
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], _: Tid) -> TargetResult<usize, Self> {
        let mut done = 0;
        while done < data.len() {
            let at = start.wrapping_add(done as u64);
            let len = (data.len() - done).min((PAGE - at % PAGE) as usize);
            if self.debugger.window.read(at, &mut data[done..done + len]).is_none() {
                break;
            }
            done += len;
        }
        match done {
            0 if !data.is_empty() => Err(TargetError::Errno(libc::EFAULT as u8)),
            done => Ok(done),
        }
    }

    fn write_addrs(&mut self, start: u64, data: &[u8], _: Tid) -> TargetResult<(), Self> {
        let written = self.debugger.window.write(start, data);
        written.ok_or(TargetError::Errno(libc::EFAULT as u8))?;
        // It may be code.
        self.debugger.code_changed(start..start + data.len() as u64);
        Ok(())
    }

    fn list_active_threads(
        &mut self,
        is_active: &mut dyn FnMut(Tid),
    ) -> std::result::Result<(), Never> {
        let shared = self.debugger.hold();
        shared.seats.keys().filter_map(|&tid| Tid::new(tid as usize)).for_each(is_active);
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }
}

impl SingleRegisterAccess<Tid> for Guest {
    fn read_register(
        &mut self,
        tid: Tid,
        register: Register,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let bytes = self.seat(tid, |seat| Some(register.read(&seat.registers)));
        let bytes = bytes.ok_or(TargetError::NonFatal)?;
        let to = buf.get_mut(..bytes.len()).ok_or(TargetError::NonFatal)?;
        to.copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn write_register(
        &mut self,
        tid: Tid,
        register: Register,
        value: &[u8],
    ) -> TargetResult<(), Self> {
        let written = self.seat(tid, |seat| match seat.place {
            Place::Stopped => register.write(&mut seat.registers, value),
            Place::Running | Place::Calling => None,
        });
        written.ok_or(TargetError::NonFatal)
    }
}

impl MultiThreadResume for Guest {
    fn resume(&mut self) -> std::result::Result<(), Never> {
        let mut shared = self.debugger.hold();
        (shared.stopping, shared.reason, shared.holding) = (false, None, self.locked);
        drop(shared);
        self.debugger.changed.notify_all();
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> std::result::Result<(), Never> {
        self.locked = false;
        for seat in self.debugger.hold().seats.values_mut() {
            (seat.action, seat.named, seat.signal) = (Action::Go, false, 0);
        }
        Ok(())
    }

    fn set_resume_action_continue(
        &mut self,
        tid: Tid,
        signal: Option<Signal>,
    ) -> std::result::Result<(), Never> {
        self.set(tid, Action::Go, signal);
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Guest {
    fn set_resume_action_step(
        &mut self,
        tid: Tid,
        signal: Option<Signal>,
    ) -> std::result::Result<(), Never> {
        self.set(tid, Action::Step, signal);
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Guest {
    fn set_resume_action_scheduler_lock(&mut self) -> std::result::Result<(), Never> {
        self.locked = true;
        for seat in self.debugger.hold().seats.values_mut().filter(|s| !s.named) {
            seat.action = Action::Hold;
        }
        Ok(())
    }
}

impl Breakpoints for Guest {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Guest {
    fn add_sw_breakpoint(&mut self, at: u64, _: usize) -> TargetResult<bool, Self> {
        if !at.is_multiple_of(4) {
            return Ok(false);
        }
        self.debugger.hold().breakpoints.insert(at);
        if !mutant!("la64_breakpoints_leave_blocks") {
            self.debugger.code_changed(at..at + 4);
        }
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, at: u64, _: usize) -> TargetResult<bool, Self> {
        let was_there = self.debugger.hold().breakpoints.remove(&at);
        self.debugger.changes.map_changed();
        Ok(was_there)
    }
}

impl Auxv for Guest {
    fn get_auxv(&self, offset: u64, len: usize, buf: &mut [u8]) -> TargetResult<usize, Self> {
        let auxv = &self.debugger.auxv;
        let rest = usize::try_from(offset).ok().and_then(|at| auxv.get(at..)).unwrap_or(&[]);
        let len = rest.len().min(len).min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

/// Waits for stops and for the debugger's words in turn.
enum Loop {}

impl BlockingEventLoop for Loop {
    type Target = Guest;
    type Connection = TcpStream;
    type StopReason = MultiThreadStopReason<u64>;

    fn wait_for_stop_reason(
        guest: &mut Guest,
        connection: &mut TcpStream,
    ) -> std::result::Result<
        Event<MultiThreadStopReason<u64>>,
        WaitForStopReasonError<Never, std::io::Error>,
    > {
        loop {
            if let Some(reason) = guest.stopped() {
                return Ok(Event::TargetStopped(reason));
            }
            let mut look = || match gdbstub::conn::ConnectionExt::peek(connection)? {
                Some(_) => connection.read().map(Some),
                None => Ok(None),
            };
            if let Some(byte) = look().map_err(WaitForStopReasonError::Connection)? {
                return Ok(Event::IncomingData(byte));
            }
        }
    }

    fn on_interrupt(
        guest: &mut Guest,
    ) -> std::result::Result<Option<MultiThreadStopReason<u64>>, Never> {
        stop_all(&mut guest.debugger.hold());
        guest.wait_all();
        let shared = guest.debugger.hold();
        if let Some(end) = shared.end {
            return Ok(Some(reason(end)));
        }
        let first = shared.seats.keys().next().and_then(|&tid| Tid::new(tid as usize));
        let tid = first.unwrap_or(Tid::MIN);
        let signal = MultiThreadStopReason::SignalWithThread { tid, signal: Signal::SIGINT };
        Ok(Some(shared.reason.map_or(signal, reason)))
    }
}
