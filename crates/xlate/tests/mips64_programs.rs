//! MIPS64 Linux programs through the command `xlate`: small static ones from our own encoder, so
//! that no compiler is needed.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod command;

use littoral_la64::elf::{self, Machine};
use littoral_xlate::mips64::isa;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

const AT: u64 = 0x1_2000_0000;
/// Where the code of an executable of one segment begins.
const HEADERS_LEN: u64 = 120;
const MIPS64: Machine = Machine { number: 8, name: "MIPS64" };
/// Release 2, position-independent code.
const FLAGS: u32 = 0x8000_0004;

/// A program under construction; labels are places.
#[derive(Default)]
struct Asm(Vec<u32>);

impl Asm {
    fn op(&mut self, mnemonic: &str, operands: &[i64]) -> &mut Asm {
        let word = isa::encode(mnemonic, operands);
        self.0.push(word.unwrap_or_else(|| panic!("{mnemonic} {operands:?} does not encode")));
        self
    }

    fn li(&mut self, register: i64, value: i64) -> &mut Asm {
        let value = value as i32;
        self.op("lui", &[register, i64::from(((i64::from(value) + 0x8000) >> 16) as i16)]);
        self.op("addiu", &[register, register, i64::from(value as i16)])
    }

    /// A system call whose arguments are in place.
    fn call(&mut self, number: i64) -> &mut Asm {
        self.op("addiu", &[2, 0, 5000 + number]).op("syscall", &[0])
    }

    fn exit(&mut self, status: i64) -> &mut Asm {
        self.op("addiu", &[4, 0, status]).call(58)
    }

    /// Ends the program with `status` unless the registers are equal.
    fn expect_equal(&mut self, a: i64, b: i64, status: i64) -> &mut Asm {
        self.op("beq", &[a, b, 4]).op("sll", &[0, 0, 0]).exit(status)
    }

    fn expect(&mut self, register: i64, value: i64, status: i64) -> &mut Asm {
        self.li(3, value).expect_equal(register, 3, status)
    }

    /// The address of a place that lies `words` behind this one, by the distance from here.
    fn here(&mut self, register: i64, words: i64) -> &mut Asm {
        // bal to the next instruction but one gives its address.
        self.op("bgezal", &[0, 1]).op("sll", &[0, 0, 0]);
        self.op("daddiu", &[register, 31, 4 * words])
    }

    fn file(&self) -> Vec<u8> {
        elf::executable_for((MIPS64, FLAGS), AT, &self.0, 0x4000)
    }

    fn run(&self) -> Output {
        run(&self.file(), &[])
    }
}

fn xlate() -> Command {
    let mut command = command::xlate();
    command.arg("run");
    command
}

fn write_program(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("write program");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("mode");
}

fn run(bytes: &[u8], options: &[&str]) -> Output {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("program");
    write_program(&path, bytes);
    xlate().args(options).arg(&path).output().expect("xlate runs")
}

fn assert_ends(output: &Output, status: i32) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{output:?}: {text}");
}

#[test]
fn the_exit_status_is_the_guests_and_instructions_are_counted() {
    let mut asm = Asm::default();
    asm.op("addiu", &[4, 0, 10]);
    // A loop of three instructions, ten times.
    asm.op("addiu", &[4, 4, -1]).op("bne", &[4, 0, -2]).op("addiu", &[5, 5, 1]);
    asm.op("or", &[4, 5, 0]).call(58);
    let output = run(&asm.file(), &["--stats"]);
    assert_ends(&output, 10);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(" 34 MIPS64 instructions executed"), "{text}");
    let is_near = command::own_count(&text).is_none_or(|own| (30..=40).contains(&own));
    assert!(is_near, "about one LA64 instruction each: {text}");
}

#[test]
fn a_program_writes_its_own_bytes() {
    let mut asm = Asm::default();
    asm.here(5, -2).op("addiu", &[4, 0, 1]).op("addiu", &[6, 0, 4]).call(1).exit(0);
    let output = asm.run();
    assert_ends(&output, 0);
    assert_eq!(output.stdout, asm.0[0].to_le_bytes());
}

#[test]
fn faults_kill_the_guest_with_linux_signals() {
    let one = |mnemonic: &str, operands: &[i64]| {
        let mut asm = Asm::default();
        asm.op(mnemonic, operands);
        asm
    };
    let mut divide = Asm::default();
    divide.op("teq", &[0, 0]);
    divide.0[0] |= 7 << 6;
    let mut high = Asm::default();
    high.op("lui", &[2, 0x7fff]).op("dsll32", &[2, 2, 0]).op("lw", &[2, 0, 2]);
    let mut overflow = Asm::default();
    overflow.op("lui", &[2, 0x7fff]).op("ori", &[2, 2, 0xffff]).op("addi", &[2, 2, 1]);
    let mut unaligned = Asm::default();
    unaligned.op("ori", &[2, 0, 3]).op("ll", &[3, 0, 2]);
    let cases = [
        ("load from nowhere", one("ld", &[2, 8, 0]), libc_signal::SEGV),
        ("jump into nowhere", one("jr", &[0]), libc_signal::SEGV),
        ("no instruction", Asm(vec![0x0000_0005]), libc_signal::ILL),
        ("break", one("break", &[0]), libc_signal::TRAP),
        ("division by zero", divide, libc_signal::FPE),
        ("an address of no user", high, libc_signal::BUS),
        ("an overflow", overflow, libc_signal::FPE),
        ("unaligned atomic", unaligned, libc_signal::BUS),
    ];
    for (name, mut asm, signal) in cases {
        asm.op("sll", &[0, 0, 0]);
        let output = asm.run();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(signal), "{name}: {output:?} {text}");
    }
}

/// The host's numbers.
mod libc_signal {
    pub(crate) const ILL: i32 = 4;
    pub(crate) const TRAP: i32 = 5;
    pub(crate) const BUS: i32 = 7;
    pub(crate) const FPE: i32 = 8;
    pub(crate) const SEGV: i32 = 11;
    pub(crate) const USR1: i32 = 10;
}

#[test]
fn errors_have_the_guests_numbers() {
    let mut asm = Asm::default();
    // close(-1): EBADF; a call that is not there: ENOSYS is 89.
    asm.op("addiu", &[4, 0, -1]).call(3);
    asm.expect(2, 9, 1).expect(7, 1, 2);
    asm.call(900).expect(2, 89, 3).expect(7, 1, 4);
    asm.call(38).expect(7, 0, 5).exit(0);
    assert_ends(&asm.run(), 0);
}

#[test]
fn signals_have_the_guests_numbers() {
    // kill(getpid(), SIGUSR1), which is 16 in the guest and 10 on the host.
    let mut asm = Asm::default();
    asm.call(38).op("or", &[4, 2, 0]).op("addiu", &[5, 0, 16]).call(60).exit(0);
    assert_eq!(asm.run().status.signal(), Some(libc_signal::USR1));
}

#[test]
fn a_handler_sees_its_frame_and_returns_where_the_program_stopped() {
    let mut asm = Asm::default();
    asm.op("daddiu", &[29, 29, -64]);
    // The handler stands behind the branch over it.
    asm.here(16, 3);
    asm.op("beq", &[0, 0, 16]).op("sll", &[0, 0, 0]);
    let handler = asm.0.len();
    // Signal 16 in $4; siginfo's first word too; $25 is the handler; the saved $17 becomes 5.
    asm.op("lw", &[8, 0, 5]).op("dsubu", &[9, 4, 8]).op("dsubu", &[10, 25, 16]);
    asm.op("or", &[9, 9, 10]).op("lw", &[11, 4, 5]);
    // Sent by kill: code 0, which comes before the error.
    asm.op("or", &[9, 9, 11]).op("sltiu", &[9, 9, 1]).op("sll", &[9, 9, 2]);
    asm.op("daddiu", &[9, 9, 1]).op("sd", &[9, 40 + 8 * 17, 6]);
    asm.op("jr", &[31]).op("sll", &[0, 0, 0]);
    while asm.0.len() < handler + 15 {
        asm.op("sll", &[0, 0, 0]);
    }
    // sigaction: flags SA_SIGINFO, handler, no mask.
    asm.op("addiu", &[2, 0, 8]).op("sd", &[2, 0, 29]).op("sd", &[16, 8, 29]);
    asm.op("sd", &[0, 16, 29]).op("sd", &[0, 24, 29]);
    asm.op("addiu", &[4, 0, 16]).op("or", &[5, 29, 0]).op("addiu", &[6, 0, 0]);
    asm.op("addiu", &[7, 0, 16]).call(13).expect(7, 0, 1);
    asm.op("addiu", &[17, 0, 77]).op("addiu", &[18, 0, 78]);
    asm.call(38).op("or", &[4, 2, 0]).op("addiu", &[5, 0, 16]).call(60);
    asm.expect(17, 5, 2).expect(18, 78, 3).expect(2, 0, 4).exit(0);
    assert_ends(&asm.run(), 0);
}

#[test]
fn a_fault_in_a_delay_slot_is_reported_at_its_branch() {
    let mut asm = Asm::default();
    asm.op("daddiu", &[29, 29, -64]);
    asm.here(16, 3);
    asm.op("beq", &[0, 0, 6]).op("sll", &[0, 0, 0]);
    // The handler ends with the saved pc less the place of the branch, which is in $17.
    asm.op("ld", &[4, 40 + 576, 6]).op("dsubu", &[4, 4, 17]).call(58);
    asm.op("sll", &[0, 0, 0]);
    asm.op("addiu", &[2, 0, 8]).op("sd", &[2, 0, 29]).op("sd", &[16, 8, 29]);
    asm.op("sd", &[0, 16, 29]).op("sd", &[0, 24, 29]);
    asm.op("addiu", &[4, 0, 11]).op("or", &[5, 29, 0]).op("addiu", &[6, 0, 0]);
    asm.op("addiu", &[7, 0, 16]).call(13).expect(7, 0, 1);
    asm.here(17, 1);
    asm.op("beq", &[0, 0, 2]).op("lw", &[2, 0, 0]).exit(9);
    asm.exit(9);
    assert_ends(&asm.run(), 0);
}

/// What siginfo says: the kernel of MIPS names a place only where it does not just force a signal.
#[test]
fn exceptions_have_the_codes_and_places_of_the_kernel_of_mips() {
    const SI_KERNEL: i32 = 0x80;
    const TRAP_BRKPT: i32 = 1;
    const FPE_INTDIV: i32 = 1;
    /// The status has this bit where siginfo names a place.
    const PLACE: i32 = 64;
    let stop = |code: u32| vec![0x0d | code << 6];
    let trap = |code: u32| vec![0x34 | code << 6];
    // ori $2,$0,2, then jr $2; nop, or ll $3,1($2).
    let (jump, access) = (vec![0x3402_0002, 0x0040_0008, 0], vec![0x3402_0002, 0xc043_0001]);
    let cases = [
        ("break", stop(0), 5, TRAP_BRKPT),
        ("break that says a division", stop(7), 8, FPE_INTDIV + PLACE),
        ("break as assemblers write it", stop(7 << 10), 8, FPE_INTDIV + PLACE),
        ("break of two numbers", stop(7 << 10 | 5), 5, TRAP_BRKPT),
        ("break that says a defect", stop(12), 5, SI_KERNEL),
        ("trap", trap(0), 5, SI_KERNEL),
        ("trap that says a division", trap(7), 8, FPE_INTDIV + PLACE),
        ("no instruction", vec![5], 4, SI_KERNEL),
        ("jump off the alignment", jump, 10, SI_KERNEL),
        ("atomic access off the alignment", access, 10, SI_KERNEL),
    ];
    for (name, words, signal, status) in cases {
        let mut asm = Asm::default();
        asm.op("daddiu", &[29, 29, -64]);
        asm.here(16, 3);
        asm.op("beq", &[0, 0, 8]).op("sll", &[0, 0, 0]);
        // The handler: the code, and whether there is an address.
        asm.op("lw", &[4, 4, 5]).op("ld", &[8, 16, 5]).op("sltu", &[8, 0, 8]);
        asm.op("sll", &[8, 8, 6]).op("addu", &[4, 4, 8]).call(58);
        asm.op("addiu", &[2, 0, 8]).op("sd", &[2, 0, 29]).op("sd", &[16, 8, 29]);
        asm.op("sd", &[0, 16, 29]).op("sd", &[0, 24, 29]);
        asm.op("addiu", &[4, 0, signal]).op("or", &[5, 29, 0]).op("addiu", &[6, 0, 0]);
        asm.op("addiu", &[7, 0, 16]).call(13).expect(7, 0, 2);
        asm.0.extend(words);
        asm.exit(3);
        let output = asm.run();
        assert_eq!(output.status.code(), Some(status), "{name}: {output:?}");
    }
}

#[test]
fn a_pipe_comes_in_registers_and_a_child_is_waited_for() {
    let mut asm = Asm::default();
    asm.op("daddiu", &[29, 29, -64]);
    asm.call(21).op("or", &[16, 2, 0]).op("or", &[17, 3, 0]);
    asm.expect(7, 0, 1);
    asm.call(56).op("bne", &[2, 0, 12]).op("or", &[18, 2, 0]);
    // The child writes a byte and is killed by SIGUSR1: eleven instructions behind the slot.
    asm.op("or", &[4, 17, 0]).op("or", &[5, 29, 0]).op("addiu", &[6, 0, 1]).call(1);
    asm.call(38).op("or", &[4, 2, 0]).op("addiu", &[5, 0, 16]).call(60);
    // The parent reads it and waits; the status has the guest's number.
    asm.op("or", &[4, 16, 0]).op("or", &[5, 29, 0]).op("addiu", &[6, 0, 1]).call(0);
    asm.expect(2, 1, 2);
    asm.op("or", &[4, 18, 0]).op("or", &[5, 29, 0]).op("addiu", &[6, 0, 0]);
    asm.op("addiu", &[7, 0, 0]).call(59).expect_equal(2, 18, 3);
    asm.op("lw", &[8, 0, 29]).expect(8, 16, 4).exit(0);
    assert_ends(&asm.run(), 0);
}

#[test]
fn files_of_other_abis_are_refused_by_name() {
    let good = Asm::default().exit(0).file();
    let with = |change: fn(&mut Vec<u8>)| {
        let mut file = good.clone();
        change(&mut file);
        file
    };
    let cases = [
        (with(|f| f[4] = 1), "o32"),
        (with(|f| (f[4], f[36]) = (1, 0x20)), "n32"),
        (with(|f| f[51] = 0xa0), "release 6"),
        (with(|f| f[49] = 4), "NaN"),
        (with(|f| (f[5], f[18], f[19]) = (2, 0, 8)), "big-endian"),
        (with(|f| f[18] = 3), "i386"),
    ];
    for (file, what) in cases {
        let output = run(&file, &[]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(4 | 5)), "{what}: {output:?}");
        assert!(text.contains(what), "{what}: {text}");
    }
    let output = run(&good, &[]);
    assert_ends(&output, 0);
    // Registers of MIPS64 lie in LBT's.
    let output = run(&good, &["--no-lbt"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(5) && text.contains("--no-lbt"), "{output:?}");
}

#[test]
fn a_program_is_shown_with_its_branches_resolved() {
    let mut asm = Asm::default();
    asm.op("beq", &[0, 0, 1]).op("sll", &[0, 0, 0]).exit(0);
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("program");
    write_program(&path, &asm.file());
    let output = command::xlate().arg("disasm").arg(&path).output();
    let text = String::from_utf8(output.expect("xlate runs").stdout).expect("text");
    assert!(text.contains(&format!("beq $0, $0, {:#x}", AT + HEADERS_LEN + 8)), "{text}");
    let file = dir.path().join("dump");
    run(&asm.file(), &["--dump", file.to_str().expect("text")]);
    let text = std::fs::read_to_string(&file).expect("the dump");
    assert!(text.contains("addiu $2, $0, 5058") && text.contains("lu12i.w"), "{text}");
}

/// A program with room on its stack: offsets below are from the stack pointer.
fn with_stack() -> Asm {
    let mut asm = Asm::default();
    asm.op("daddiu", &[SP, SP, -1024]);
    asm
}

const SP: i64 = 29;
const A0: i64 = 4;
const A1: i64 = 5;
const A2: i64 = 6;
const A3: i64 = 7;
/// The guest's SIGUSR1, which is 10 on the host; the host's 16 kills.
const USR1: i64 = 16;

impl Asm {
    /// A word of memory.
    fn put(&mut self, at: i64, value: i64) -> &mut Asm {
        self.li(3, value).op("sw", &[3, at, SP])
    }

    fn expect_word(&mut self, at: i64, value: i64, status: i64) -> &mut Asm {
        self.op("lw", &[8, at, SP]).expect(8, value, status)
    }

    fn expect_success(&mut self, status: i64) -> &mut Asm {
        self.expect(A3, 0, status)
    }

    fn expect_error(&mut self, error: i64, status: i64) -> &mut Asm {
        self.expect(A3, 1, status).expect(2, error, status)
    }

    fn move_to(&mut self, to: i64, from: i64) -> &mut Asm {
        self.op("or", &[to, from, 0])
    }

    /// The address of a place on the stack.
    fn place(&mut self, register: i64, at: i64) -> &mut Asm {
        self.op("daddiu", &[register, SP, at])
    }

    fn number(&mut self, register: i64, value: i64) -> &mut Asm {
        self.op("addiu", &[register, 0, value])
    }

    /// Puts a set with SIGUSR1 at 0 and blocks it.
    fn block_usr1(&mut self, status: i64) -> &mut Asm {
        self.put(0, 1 << (USR1 - 1)).put(4, 0).put(8, 0).put(12, 0);
        self.number(A0, 1).place(A1, 0).number(A2, 0).number(A3, 16).call(14);
        self.expect_success(status)
    }

    /// Waits for the blocked SIGUSR1; its siginfo comes to 256.
    fn wait_for_usr1(&mut self, status: i64) -> &mut Asm {
        self.place(A0, 0).place(A1, 256).number(A2, 0).number(A3, 16).call(126);
        self.expect_success(status).expect(2, USR1, status).expect_word(256, USR1, status)
    }

    /// A siginfo of a queued signal at 64, with the value 0x1234.
    fn queued(&mut self, code: i64) -> &mut Asm {
        self.put(64, USR1).put(68, code).put(72, 0).put(76, 0).put(80, 7).put(84, 8);
        self.put(88, 0x1234).put(92, 0)
    }

    /// A sigevent at 64 for SIGUSR1, with the value 0x77.
    fn event(&mut self) -> &mut Asm {
        (64..128).step_by(8).for_each(|at| _ = self.op("sd", &[0, at, SP]));
        self.put(64, 0x77).put(72, USR1)
    }
}

#[test]
fn descriptors_travel_in_messages() {
    let mut asm = with_stack();
    // A pair of datagram sockets; one byte at 32; the header at 48; the control buffer at 112.
    asm.number(A0, 1).number(A1, 1).number(A2, 0).place(A3, 0).call(52).expect_success(1);
    asm.op("lw", &[16, 0, SP]).op("lw", &[17, 4, SP]);
    (16..136).step_by(8).for_each(|at| _ = asm.op("sd", &[0, at, SP]));
    asm.place(8, 32).op("sd", &[8, 16, SP]).put(24, 1);
    asm.place(8, 16).op("sd", &[8, 64, SP]).put(72, 1);
    asm.place(8, 112).op("sd", &[8, 80, SP]);
    asm.put(112, 20).put(124, 1).op("sw", &[17, 128, SP]);
    let rounds: [(i64, i64, i64, i64); 2] = [(45, 46, 0, 10), (302, 294, 1, 20)];
    for (send, receive, count, status) in rounds {
        asm.put(120, 0xffff).put(88, 24);
        asm.move_to(A0, 16).place(A1, 48).number(A2, count).number(A3, 0).number(8, 0).call(send);
        asm.expect_success(status).expect(2, 1, status + 1);
        asm.put(120, 0).put(128, 0).put(88, 24);
        asm.move_to(A0, 17).place(A1, 48).number(A2, count).number(A3, 0).number(8, 0);
        asm.call(receive);
        asm.expect_success(status + 2).expect(2, 1, status + 3);
        asm.expect_word(120, 0xffff, status + 4).expect_word(124, 1, status + 5);
        // The descriptor that came is a new one, and it is open.
        asm.op("lw", &[18, 128, SP]).op("slt", &[8, 17, 18]).expect(8, 1, status + 6);
        asm.move_to(A0, 18).number(A1, 1).call(70).expect_success(status + 7);
    }
    asm.exit(0);
    assert_ends(&asm.run(), 0);
}

#[test]
fn queued_signals_keep_what_they_say() {
    let mut asm = with_stack();
    asm.block_usr1(1);
    asm.call(38).move_to(16, 2).call(178).move_to(17, 2);
    asm.move_to(A0, 16).number(A1, 0).call(434).expect_success(2).move_to(18, 2);
    // SI_QUEUE, and the guest's SI_TIMER and SI_MESGQ.
    for (code, status) in [(-1, 10), (-3, 30), (-4, 50)] {
        for (way, status) in (0..3).zip((status..).step_by(6)) {
            asm.queued(code);
            match way {
                0 => asm.move_to(A0, 16).number(A1, USR1).place(A2, 64).call(127),
                1 => {
                    asm.move_to(A0, 16).move_to(A1, 17).number(A2, USR1).place(A3, 64);
                    asm.call(291)
                }
                _ => asm.move_to(A0, 18).number(A1, USR1).place(A2, 64).number(A3, 0).call(424),
            };
            asm.expect_success(status).wait_for_usr1(status + 1);
            asm.expect_word(260, code, status + 2).expect_word(264, 0, status + 3);
            asm.expect_word(272, 7, status + 4).expect_word(280, 0x1234, status + 5);
        }
    }
    // Without a siginfo it is as sent by kill.
    asm.move_to(A0, 18).number(A1, USR1).number(A2, 0).number(A3, 0).call(424);
    asm.expect_success(70).wait_for_usr1(71).expect_word(260, 0, 72);
    asm.exit(0);
    assert_ends(&asm.run(), 0);
}

#[test]
fn timers_and_queues_send_the_guests_signals() {
    let mut asm = with_stack();
    asm.block_usr1(1).event();
    asm.number(A0, 1).place(A1, 64).place(A2, 128).call(216).expect_success(2);
    (136..168).step_by(8).for_each(|at| _ = asm.op("sd", &[0, at, SP]));
    asm.put(160, 1);
    asm.op("lw", &[A0, 128, SP]).number(A1, 0).place(A2, 136).number(A3, 0).call(217);
    asm.expect_success(3).wait_for_usr1(4);
    // The guest's SI_TIMER.
    asm.expect_word(260, -3, 5).expect_word(280, 0x77, 6);
    let mut name = format!("littoral-mips-{}", std::process::id()).into_bytes();
    name.resize(32, 0);
    for (at, bytes) in (384..).step_by(4).zip(name.chunks(4)) {
        asm.put(at, i32::from_le_bytes(bytes.try_into().expect("four bytes")).into());
    }
    // O_RDWR and O_CREAT; a name without its slash.
    asm.place(A0, 384).number(A1, 0x102).number(A2, 0o600).number(A3, 0).call(230);
    asm.expect_success(7).move_to(16, 2);
    asm.place(A0, 384).call(231).expect_success(8);
    asm.event().move_to(A0, 16).place(A1, 64).call(234).expect_success(9);
    asm.move_to(A0, 16).place(A1, 64).number(A2, 1).number(A3, 0).number(8, 0).call(232);
    // The guest's SI_MESGQ.
    asm.expect_success(10).wait_for_usr1(11);
    asm.expect_word(260, -4, 12).expect_word(280, 0x77, 13).exit(0);
    assert_ends(&asm.run(), 0);
}

#[test]
fn records_of_signals_have_the_guests_numbers() {
    let mut asm = with_stack();
    asm.block_usr1(1).call(38).move_to(16, 2);
    asm.number(A0, -1).place(A1, 0).number(A2, 16).number(A3, 0).call(283);
    asm.expect_success(2).move_to(18, 2);
    for (code, status) in [(-3, 10), (-4, 20)] {
        asm.queued(code).move_to(A0, 16).number(A1, USR1).place(A2, 64).call(127);
        asm.expect_success(status);
        asm.move_to(A0, 18).place(A1, 256).number(A2, 256).call(0);
        asm.expect(2, 128, status + 1).expect_word(256, USR1, status + 2);
        asm.expect_word(260, 0, status + 3).expect_word(264, code, status + 4);
        asm.expect_word(304, 0x1234, status + 5);
    }
    asm.exit(0);
    assert_ends(&asm.run(), 0);
}

#[test]
fn a_child_learns_of_its_parents_death_by_the_guests_signal() {
    let mut child = Asm::default();
    child.block_usr1(1).number(A0, 1).number(A1, USR1).call(153).expect_success(2);
    child.number(A0, 2).place(A1, 64).call(153).expect_word(64, USR1, 3);
    child.move_to(A0, 17).place(A1, 0).number(A2, 1).call(1).wait_for_usr1(4);
    child.number(A0, 1).place(A1, 256).number(A2, 1).call(1).exit(0);
    let mut asm = with_stack();
    asm.call(21).move_to(16, 2).move_to(17, 3);
    asm.call(56).op("bne", &[2, 0, child.0.len() as i64 + 1]).op("sll", &[0, 0, 0]);
    asm.0.append(&mut child.0);
    // The parent ends when the child is ready.
    asm.move_to(A0, 16).place(A1, 0).number(A2, 1).call(0).exit(0);
    let output = asm.run();
    assert_ends(&output, 0);
    assert_eq!(output.stdout, [USR1 as u8]);
}

#[test]
fn flags_in_structures_are_the_guests() {
    const NON_BLOCKING: i64 = 0x80;
    const INVALID: i64 = 22;
    let mut asm = with_stack();
    // openat2: "." with O_NONBLOCK and O_DIRECTORY, then with a bit that has no meaning.
    asm.put(0, i64::from(b'.')).op("sd", &[0, 72, SP]).op("sd", &[0, 80, SP]).put(68, 0);
    asm.put(64, NON_BLOCKING | 0x1_0000);
    let open = |asm: &mut Asm| {
        asm.number(A0, -100).place(A1, 0).place(A2, 64).number(A3, 24).call(437);
    };
    open(&mut asm);
    asm.expect_success(1).move_to(A0, 2).number(A1, 3).call(70);
    asm.op("andi", &[8, 2, NON_BLOCKING]).expect(8, NON_BLOCKING, 2);
    asm.put(64, 0x40);
    open(&mut asm);
    asm.expect_error(INVALID, 3);
    // pidfd_open.
    asm.call(38).move_to(A0, 2).number(A1, NON_BLOCKING).call(434).expect_success(4);
    asm.move_to(A0, 2).number(A1, 3).call(70);
    asm.op("andi", &[8, 2, NON_BLOCKING]).expect(8, NON_BLOCKING, 5);
    asm.exit(0);
    assert_ends(&asm.run(), 0);
}

#[test]
fn requests_of_sockets_have_the_guests_numbers() {
    let mut asm = with_stack();
    // SIOCSPGRP, SIOCGPGRP, FIOSETOWN, FIOGETOWN on a stream socket, SIOCATMARK.
    asm.number(A0, 2).number(A1, 2).number(A2, 0).call(40).expect_success(1).move_to(16, 2);
    asm.call(38).move_to(17, 2);
    for (set, get, status) in [(0x8004_7308, 0x4004_7309, 10), (0x8004_667c, 0x4004_667b, 20)] {
        asm.op("sw", &[17, 0, SP]).move_to(A0, 16).li(A1, set).place(A2, 0).call(15);
        asm.expect_success(status).put(0, 0);
        asm.move_to(A0, 16).li(A1, get).place(A2, 0).call(15).expect_success(status + 1);
        asm.op("lw", &[8, 0, SP]).expect_equal(8, 17, status + 2).put(0, 0);
        asm.op("sw", &[0, 0, SP]).move_to(A0, 16).li(A1, set).place(A2, 0).call(15);
    }
    asm.put(0, 7).move_to(A0, 16).li(A1, 0x4004_7307).place(A2, 0).call(15).expect_success(30);
    asm.expect_word(0, 0, 31).exit(0);
    assert_ends(&asm.run(), 0);
}

#[test]
fn numbers_that_only_the_host_has_are_refused() {
    const INVALID: i64 = 22;
    let mut asm = with_stack();
    // rt_sigprocmask: the guest's SIG_BLOCK is 1.
    asm.put(0, 0).put(4, 0).put(8, 0).put(12, 0);
    asm.number(A0, 0).place(A1, 0).number(A2, 0).number(A3, 16).call(14).expect_error(INVALID, 1);
    // fcntl: the host's F_GETLK; setsockopt: the host's SO_REUSEADDR.
    (0..32).step_by(8).for_each(|at| _ = asm.op("sd", &[0, at, SP]));
    asm.number(A0, 1).number(A1, 5).place(A2, 0).call(70).expect_error(INVALID, 2);
    asm.number(A0, 2).number(A1, 2).number(A2, 0).call(40).expect_success(3).move_to(16, 2);
    asm.move_to(A0, 16).li(A1, 0xffff).number(A2, 2).place(A3, 0).number(8, 4).call(53);
    asm.expect_error(99, 4);
    // The host's SOL_SOCKET and SO_REUSEADDR.
    asm.move_to(A0, 16).number(A1, 1).number(A2, 2).place(A3, 0).number(8, 4).call(53);
    asm.expect(A3, 1, 5).exit(0);
    assert_ends(&asm.run(), 0);
}

/// With the bit 0x100 in the command, as C libraries call.
#[test]
fn system_v_objects_are_described_and_removed() {
    const IPC_64: i64 = 0x100;
    const IPC_STAT: i64 = IPC_64 | 2;
    let mut asm = with_stack();
    // A segment of 4096 bytes, whose length stands at 48.
    asm.number(A0, 0).number(A1, 4096).number(A2, 0o600).call(28).expect_success(1).move_to(16, 2);
    asm.move_to(A0, 16).number(A1, IPC_STAT).place(A2, 0).call(30).move_to(17, 7);
    asm.move_to(A0, 16).number(A1, IPC_64).number(A2, 0).call(30).expect_success(2);
    asm.expect(17, 0, 3).expect_word(48, 4096, 4);
    // Two semaphores, which are counted at 64.
    asm.number(A0, 0).number(A1, 2).number(A2, 0o600).call(62).expect_success(5).move_to(16, 2);
    asm.move_to(A0, 16).number(A1, 0).number(A2, IPC_STAT).place(A3, 0).call(64).move_to(17, 7);
    asm.move_to(A0, 16).number(A1, 1).number(A2, IPC_64 | 16).number(A3, 9).call(64);
    asm.move_to(A0, 16).number(A1, 1).number(A2, IPC_64 | 12).call(64).move_to(18, 2);
    asm.move_to(A0, 16).number(A1, 0).number(A2, IPC_64).number(A3, 0).call(64).expect_success(6);
    asm.expect(17, 0, 7).expect_word(64, 2, 8).expect(18, 9, 9);
    // A queue, whose owner's rights stand at 20.
    asm.number(A0, 0).number(A1, 0o600).call(66).expect_success(10).move_to(16, 2);
    asm.move_to(A0, 16).number(A1, IPC_STAT).place(A2, 0).call(69).move_to(17, 7);
    asm.move_to(A0, 16).number(A1, IPC_64).number(A2, 0).call(69).expect_success(11);
    asm.expect(17, 0, 12).expect_word(20, 0o600, 13).exit(0);
    assert_ends(&asm.run(), 0);
}

/// Pages that may be written and executed, in place of what is at `PLACE`.
const PLACE: i64 = 0x3000_0000;
const PAGE: i64 = 4096;

impl Asm {
    fn map_place(&mut self, protection: i64, status: i64) -> &mut Asm {
        const PRIVATE_FIXED_ANONYMOUS: i64 = 0x812;
        self.li(A0, PLACE).li(A1, PAGE).number(A2, protection).number(A3, PRIVATE_FIXED_ANONYMOUS);
        self.number(8, -1).number(9, 0).call(9).expect_success(status)
    }

    fn protect_place(&mut self, protection: i64, status: i64) -> &mut Asm {
        self.li(A0, PLACE).li(A1, PAGE).number(A2, protection).call(10).expect_success(status)
    }

    /// Writes a function that returns `value` to `PLACE`.
    fn write_function(&mut self, value: i64) -> &mut Asm {
        let mut function = Asm::default();
        function.op("jr", &[31]).number(2, value);
        self.li(16, PLACE);
        for (n, word) in function.0.into_iter().enumerate() {
            self.li(3, i64::from(word as i32)).op("sw", &[3, 4 * n as i64, 16]);
        }
        self
    }

    /// Calls the function twice and ends with `status` unless it returns `value`.
    fn expect_function(&mut self, value: i64, status: i64) -> &mut Asm {
        for _ in 0..2 {
            self.li(25, PLACE).op("jalr", &[31, 25]).op("sll", &[0, 0, 0]);
            self.expect(2, value, status);
        }
        self
    }
}

#[test]
fn code_that_was_replaced_is_translated_again() {
    const READ_WRITE: i64 = 3;
    const READ_EXECUTE: i64 = 5;
    const ALL: i64 = 7;
    let mut asm = with_stack();
    asm.map_place(ALL, 1).write_function(21).expect_function(21, 2);
    // Mapped over.
    asm.map_place(ALL, 3).write_function(22).expect_function(22, 4);
    // Its right taken and given again.
    asm.protect_place(READ_WRITE, 5).write_function(23).protect_place(READ_EXECUTE, 6);
    asm.expect_function(23, 7);
    asm.protect_place(READ_WRITE, 8).write_function(24).protect_place(READ_EXECUTE, 9);
    asm.expect_function(24, 10);
    // Unmapped.
    asm.li(A0, PLACE).li(A1, PAGE).call(11).expect_success(11).expect_function(24, 12).exit(13);
    let output = asm.run();
    assert_eq!(output.status.signal(), Some(libc_signal::SEGV), "{output:?}");
}
