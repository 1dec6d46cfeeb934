//! `--gdb`: a client that speaks gdb's remote protocol over a socket, and gdb itself where
//! `LA64_GDB` names one that knows LoongArch.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod guest;

use guest::*;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};

const CLONE: i64 = 220;
const WAIT4: i64 = 260;
const GETPID: i64 = 172;
/// Registers before the program counter in the protocol's order.
const PC: usize = 33;

/// A program that waits for a debugger.
struct Started {
    child: Child,
    stderr: BufReader<ChildStderr>,
    address: String,
    program: std::path::PathBuf,
    _dir: tempfile::TempDir,
}

impl Started {
    fn new(asm: &Asm, options: &[&str]) -> Started {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("program");
        write_program(&path, &asm.file());
        let mut command = la64();
        command.args(["--gdb", "0"]).args(options).arg(&path);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("la64 runs");
        let mut stderr = BufReader::new(child.stderr.take().expect("standard error"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("a line");
        let address = line.trim().rsplit(' ').next().expect("an address").to_owned();
        Started { child, stderr, address, program: path, _dir: dir }
    }

    fn connect(&self) -> Client {
        let socket = TcpStream::connect(&self.address).expect("it listens");
        socket.set_nodelay(true).expect("no delay");
        Client { socket }
    }

    /// Its status, and what it wrote on standard error.
    fn end(mut self) -> (std::process::ExitStatus, String) {
        let status = self.child.wait().expect("it ends");
        let mut text = String::new();
        self.stderr.read_to_string(&mut text).expect("text");
        (status, text)
    }
}

/// The other side of the protocol.
struct Client {
    socket: TcpStream,
}

impl Client {
    fn byte(&mut self) -> u8 {
        let mut byte = [0];
        self.socket.read_exact(&mut byte).expect("a byte");
        byte[0]
    }

    fn send(&mut self, body: &str) {
        let sum = body.bytes().fold(0u8, u8::wrapping_add);
        write!(self.socket, "${body}#{sum:02x}").expect("sent");
    }

    /// The next packet's body, expanded.
    fn receive(&mut self) -> String {
        while self.byte() != b'$' {}
        let mut body = Vec::new();
        loop {
            match self.byte() {
                b'#' => break,
                b'*' => {
                    let count = self.byte() - 29;
                    let last = *body.last().expect("something to repeat");
                    body.extend(std::iter::repeat_n(last, count.into()));
                }
                byte => body.push(byte),
            }
        }
        let _checksum = (self.byte(), self.byte());
        self.socket.write_all(b"+").expect("sent");
        String::from_utf8(body).expect("text")
    }

    fn ask(&mut self, body: &str) -> String {
        self.send(body);
        self.receive()
    }

    fn registers(&mut self) -> Vec<u64> {
        let text = self.ask("g");
        let bytes: Vec<u8> = (0..text.len() / 2)
            .map(|n| u8::from_str_radix(&text[2 * n..2 * n + 2], 16).expect("hexadecimal"))
            .collect();
        bytes.chunks(8).map(|c| c.iter().rev().fold(0, |w, &b| w << 8 | u64::from(b))).collect()
    }

    fn pc(&mut self) -> u64 {
        self.registers()[PC]
    }

    /// Sets a register by writing all.
    fn set_register(&mut self, n: usize, value: u64) {
        let mut text = self.ask("g");
        let bytes: String = value.to_le_bytes().iter().map(|b| format!("{b:02x}")).collect();
        text.replace_range(16 * n..16 * n + 16, &bytes);
        assert_eq!(self.ask(&format!("G{text}")), "OK");
    }

    /// The thread of a stop reply.
    fn thread(stop: &str) -> String {
        let (_, rest) = stop.split_once("thread:").expect("a thread");
        rest.split(';').next().expect("its number").to_owned()
    }
}

#[test]
fn a_program_stops_at_its_entry_steps_and_runs_to_a_breakpoint() {
    for tier in ["0", "1", "2"] {
        let mut asm = Asm::default();
        asm.op("ori", &[T0, 0, 100]);
        asm.label("loop").op("addi.d", &[T0, T0, -1]);
        let inside = place(asm.here());
        asm.op("addi.d", &[T1, T1, 1]).to("bnez", &[T0], "loop").op("or", &[A0, T1, 0]).call(94);
        let started = Started::new(&asm, &["--tier", tier]);
        let mut client = started.connect();
        assert!(client.ask("?").starts_with("T05"));
        assert_eq!(client.pc(), place(0));
        let threads = client.ask("qfThreadInfo");
        let thread = threads.trim_start_matches('m').to_owned();
        let stop = client.ask(&format!("vCont;s:{thread}"));
        assert_eq!((Client::thread(&stop), client.pc()), (thread.clone(), place(1)));
        assert_eq!(client.ask(&format!("Z0,{inside:x},4")), "OK");
        for round in 0..5 {
            assert!(client.ask("vCont;c").starts_with("T05"));
            let registers = client.registers();
            assert_eq!((registers[PC], registers[12], registers[13]), (inside, 99 - round, round));
            // As gdb does: a step without the breakpoint.
            assert_eq!(client.ask(&format!("z0,{inside:x},4")), "OK");
            client.ask(&format!("vCont;s:{thread}"));
            assert_eq!(client.ask(&format!("Z0,{inside:x},4")), "OK");
        }
        assert_eq!(client.ask(&format!("z0,{inside:x},4")), "OK");
        assert_eq!(client.ask("vCont;c"), "W64", "100 rounds are the status");
        assert_eq!(started.end().0.code(), Some(100));
    }
}

#[test]
fn memory_and_registers_are_read_and_written() {
    let mut asm = Asm::default();
    asm.op("ori", &[A0, 0, 1]).address(T0, "word").op("ld.w", &[A0, T0, 0]).call(94);
    asm.data("word", &[5]);
    let started = Started::new(&asm, &[]);
    let mut client = started.connect();
    let words = client.ask(&format!("m{:x},4", place(0)));
    assert_eq!(words, format!("{:08x}", word("ori", &[A0, 0, 1]).swap_bytes()));
    assert!(client.ask("m8,4").starts_with('E'), "nothing is mapped there");
    assert!(client.ask("M8,1:00").starts_with('E'));
    // The instruction that loads the status becomes another one.
    let other = word("ori", &[A0, 0, 42]).swap_bytes();
    assert_eq!(client.ask(&format!("M{:x},4:{other:08x}", place(2))), "OK");
    client.set_register(23, 0x1234_5678_9abc_def0);
    assert_eq!(client.registers()[23], 0x1234_5678_9abc_def0);
    // f1 is register 36, its vectors are 77 and 109.
    assert_eq!(client.ask("P24=0807060504030201"), "OK");
    assert_eq!(client.ask("p4d"), "08070605040302010000000000000000");
    assert!(client.ask("p6d").starts_with("0807060504030201"));
    assert_ne!(client.ask("Pffff=00"), "OK", "no such register");
    let xml = client.ask("qXfer:features:read:target.xml:0,fff");
    assert!(xml.contains("org.gnu.gdb.loongarch.base") && xml.contains("\"pc\""), "{xml}");
    assert!(client.ask("qXfer:auxv:read::0,10").len() > 2);
    assert_eq!(client.ask("c"), "W2a");
    assert_eq!(started.end().0.code(), Some(42));
}

#[test]
fn a_running_program_is_interrupted() {
    for tier in ["0", "1", "2"] {
        let mut asm = Asm::default();
        asm.label("ever").op("addi.d", &[T0, T0, 1]).to("b", &[], "ever");
        let out = place(asm.here());
        asm.exit(9);
        let started = Started::new(&asm, &["--tier", tier]);
        let mut client = started.connect();
        client.send("vCont;c");
        client.socket.write_all(&[3]).expect("sent");
        let stop = client.receive();
        assert!(stop.starts_with("T02"), "{stop}");
        assert!((place(0)..out).contains(&client.pc()));
        client.set_register(PC, out);
        assert_eq!(client.ask("vCont;c"), "W09");
        assert_eq!(started.end().0.code(), Some(9));
    }
}

#[test]
fn a_fault_is_shown_and_may_be_withheld() {
    let mut asm = Asm::default();
    asm.op("ld.d", &[A0, 0, 8]).op("ld.d", &[A0, 0, 8]).exit(3);
    for (resume, wanted) in [("vCont;C0b:", "X0b"), ("vCont;c:", "")] {
        let started = Started::new(&asm, &[]);
        let mut client = started.connect();
        let stop = client.ask("vCont;c");
        assert!(stop.starts_with("T0b"), "{stop}");
        assert_eq!(client.pc(), place(0));
        let thread = Client::thread(&stop);
        if wanted.is_empty() {
            // Behind both loads; without the signal the program goes on there.
            client.set_register(PC, place(2));
            assert_eq!(client.ask(&format!("{resume}{thread}")), "W03");
            assert_eq!(started.end().0.code(), Some(3));
        } else {
            assert_eq!(client.ask(&format!("{resume}{thread}")), wanted);
            use std::os::unix::process::ExitStatusExt as _;
            assert_eq!(started.end().0.signal(), Some(libc::SIGSEGV));
        }
    }
}

#[test]
fn all_threads_stop_and_one_can_step_alone() {
    // CLONE_VM, FS, FILES, SIGHAND, THREAD, SYSVSEM.
    const FLAGS: i64 = 0x5_0f00;
    let mut asm = Asm::default();
    asm.constant(A0, FLAGS).address(A1, "stack end").call(CLONE).to("beqz", &[A0], "child");
    asm.label("parent").address(T2, "flag");
    asm.label("wait").op("ld.d", &[T3, T2, 0]).to("beqz", &[T3], "wait");
    let at = place(asm.here());
    asm.op("ori", &[T1, 0, 1]).op("ori", &[T1, 0, 2]).exit(6);
    asm.label("child").address(T2, "flag").op("ori", &[T3, 0, 1]).op("st.d", &[T3, T2, 0]);
    asm.label("spin").op("addi.d", &[T0, T0, 1]).to("b", &[], "spin");
    asm.data("flag", &[0]).data("stack", &[0; 64]).data("stack end", &[0]);
    let started = Started::new(&asm, &[]);
    let mut client = started.connect();
    assert_eq!(client.ask(&format!("Z0,{at:x},4")), "OK");
    let stop = client.ask("vCont;c");
    let main = Client::thread(&stop);
    let threads = client.ask("qfThreadInfo");
    let list: Vec<&str> = threads.trim_start_matches('m').split(',').collect();
    let other = list.iter().find(|t| **t != main).expect("a second thread").to_string();
    assert_eq!(client.ask(&format!("Hg{other}")), "OK");
    let spun = client.registers()[12];
    assert_eq!(client.ask(&format!("Hg{main}")), "OK");
    assert_eq!(client.ask(&format!("z0,{at:x},4")), "OK");
    client.ask(&format!("vCont;s:{main}"));
    assert_eq!(client.pc(), at + 4);
    assert_eq!(client.ask(&format!("Hg{other}")), "OK");
    assert_eq!(client.registers()[12], spun, "the other thread waited");
    assert_eq!(client.ask("vCont;c"), "W06");
    assert_eq!(started.end().0.code(), Some(6));
}

#[test]
fn a_forked_child_is_not_debugged() {
    const SIGCHLD: i64 = 17;
    let mut asm = Asm::default();
    asm.op("ori", &[A0, 0, SIGCHLD]).op("or", &[A1, 0, 0]).call(CLONE).op("or", &[S0, A0, 0]);
    let both = place(asm.here());
    asm.call(GETPID).to("beqz", &[S0], "child");
    asm.op("or", &[A0, S0, 0]).address(A1, "status").op("or", &[A2, 0, 0]).op("or", &[A3, 0, 0]);
    asm.call(WAIT4).address(T0, "status").op("ld.w", &[A0, T0, 0]).op("srli.d", &[A0, A0, 8]);
    asm.call(94).label("child").exit(21).data("status", &[0]);
    let started = Started::new(&asm, &[]);
    let mut client = started.connect();
    assert_eq!(client.ask(&format!("Z0,{both:x},4")), "OK");
    assert!(client.ask("vCont;c").starts_with("T05"));
    assert_ne!(client.registers()[23], 0, "the parent");
    assert_eq!(client.ask(&format!("z0,{both:x},4")), "OK");
    assert_eq!(client.ask("vCont;c"), "W15", "the child's status");
    assert_eq!(started.end().0.code(), Some(21));
}

#[test]
fn rubbish_and_broken_connections_leave_the_program_alone() {
    let long = vec![b'a'; 200_000];
    let mut noise = Vec::new();
    let mut seed = 1u64;
    for _ in 0..50_000 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        noise.push((seed >> 33) as u8);
    }
    let cases: [&[u8]; 9] = [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"$g#00",
        b"$m0,ffffffffffffffff#00",
        b"$vCont;s:-1#00$vCont;x#00$#00$Gzz#00",
        b"+$vCont;s:0#00",
        b"$D#44",
        &noise,
        &[b"$m", long.as_slice(), b"#00"].concat(),
    ];
    for rubbish in cases {
        let mut asm = Asm::default();
        asm.exit(33);
        let started = Started::new(&asm, &[]);
        let mut client = started.connect();
        // The other side may hang up in the middle.
        let _ = client.socket.write_all(rubbish);
        drop(client);
        let (status, text) = started.end();
        assert_eq!(status.code(), Some(33), "{:?}: {text}", String::from_utf8_lossy(rubbish));
    }
}

#[test]
fn a_port_that_is_taken_is_an_error_that_says_so() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its address").port().to_string();
    let output = run_file(&Asm::default().exit(0).file(), &["--gdb", &port]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains(&port) && text.contains("choose another"), "{text}");
}

#[test]
fn gdb_itself_debugs_a_program() {
    let Some(gdb) = std::env::var_os("LA64_GDB") else {
        let why = "NOT RUN: no gdb that knows LoongArch (set LA64_GDB to its command)";
        return writeln!(std::io::stderr(), "{why}").expect("stderr");
    };
    let mut asm = Asm::default();
    asm.op("ori", &[A0, 0, 7]).op("ori", &[A1, 0, 8]);
    let at = place(asm.here());
    asm.op("add.d", &[A0, A0, A1]).op("ori", &[A2, 0, 1]).call(94);
    let started = Started::new(&asm, &[]);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{} \"$@\"", gdb.to_string_lossy()), "gdb", "-nx", "-batch"]);
    for line in [
        &format!("file {}", started.program.display()),
        &format!("target remote {}", started.address),
        &format!("break *{at:#x}"),
        "continue",
        "print $a0 * 100 + $a1",
        "stepi",
        "print $r4",
        "print/x $pc",
        "info threads",
        "set var $a0 = 77",
        "continue",
    ] {
        command.args(["-ex", line]);
    }
    let output = command.output().expect("gdb runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    for wanted in ["= 708", "= 15", &format!("= {:#x}", at + 4), "exited with code 0115"] {
        assert!(text.contains(wanted), "{wanted}: {text} {words}");
    }
    assert_eq!(started.end().0.code(), Some(77));
}
