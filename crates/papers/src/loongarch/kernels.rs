//! Own C kernels, compiled from one source for LoongArch, MIPS64 and x86-64, and counted: table 6's
//! method, the interpreter's cost, and counts that repeat.
//!
//! - LoongArch: the interpreter's own exact count.
//! - MIPS64: QEMU's log of executed translation blocks, each weighed with the instructions it was
//!   translated from (the same number as one block an instruction gives, at a fifth of the lines).
//! - x86-64: valgrind's callgrind.
//!
//! Counts are of whole programs, start-up and the printing of the result included.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use littoral_la64::interp::Tier;

use super::tools;
use super::{Found, Tools};

/// The integer kernels of `programs/integer.c`.
pub const INTEGER: [&str; 10] =
    ["xorshift", "crc", "tree", "indirect", "sieve", "lcs", "matmul", "qsort", "fib", "bytecode"];
/// The kernel of `programs/integer.c` that does a little of everything, as ratings of processors
/// do.
pub const MIXED: &str = "mixed";
/// The floating-point kernels of `programs/float.c`.
pub const FLOAT: [&str; 8] =
    ["sgemv", "mandelbrot", "nbody", "fft", "libm", "matmul", "triad", "linpack"];

/// The kernels of `programs/kinds.c`, which is written for x86-64 alone.
pub const KINDS: [&str; 3] = ["flags", "jumps", "x87"];

/// The kernel of `programs/float.c` that prints a checksum of the exceptions that operations raise.
pub const FLAGS: Kernel = Kernel { program: "float", name: "flags" };

const SOURCES: [(&str, &str); 2] =
    [("integer", include_str!("programs/integer.c")), ("float", include_str!("programs/float.c"))];

/// What x86-64 has besides.
const SOURCE_X86: (&str, &str) = ("kinds", include_str!("programs/kinds.c"));

/// What the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// LA64 with 128-bit vectors, as the compiler has it.
    LoongArch,
    /// LA64 without vectors.
    LoongArchScalar,
    /// MIPS64, N64 ABI, big-endian.
    Mips64,
    /// MIPS64, N64 ABI, little-endian: what `xlate` translates.
    Mips64Little,
    /// x86-64 without extensions.
    X86,
}

impl Target {
    const fn triple(self) -> &'static str {
        match self {
            Target::LoongArch | Target::LoongArchScalar => "loongarch64-linux-musl",
            Target::Mips64 => "mips64-linux-muslabi64",
            Target::Mips64Little => "mips64el-linux-muslabi64",
            Target::X86 => "x86_64-linux-musl",
        }
    }

    /// The processor, where the triple's is not meant.
    const fn processor(self) -> Option<&'static str> {
        match self {
            Target::LoongArchScalar => Some("-mcpu=la64v1_0-lsx"),
            _ => None,
        }
    }

    /// The folder of its programs.
    fn name(self) -> String {
        format!("{}{}", self.triple(), self.processor().unwrap_or_default())
    }
}

/// A kernel: which program, which argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// `integer`, `float` or `kinds`.
    pub program: &'static str,
    /// The kernel's name.
    pub name: &'static str,
}

/// Every kernel of one program.
pub fn of(program: &'static str) -> Vec<Kernel> {
    let names: &[&'static str] = match program {
        "integer" => &INTEGER,
        "kinds" => &KINDS,
        _ => &FLOAT,
    };
    names.iter().map(|&name| Kernel { program, name }).collect()
}

/// Every kernel.
pub fn all() -> Vec<Kernel> {
    [of("integer"), of("float")].concat()
}

/// Compiled kernels in the scratch folder.
#[derive(Clone, Debug)]
pub struct Compiled {
    folder: PathBuf,
}

impl Compiled {
    /// Compiles all kernels for `target`, unless that was done before.
    ///
    /// # Errors
    /// The compiler is missing, or its words.
    pub fn build(tools: &Tools, target: Target) -> Found<Compiled> {
        let folder = tools.scratch.join(target.name());
        let io = |e: std::io::Error| format!("{}: {e}", folder.display());
        std::fs::create_dir_all(&folder).map_err(io)?;
        let own = (target == Target::X86).then_some(SOURCE_X86);
        for (name, text) in SOURCES.into_iter().chain(own) {
            let (source, program) = (folder.join(format!("{name}.c")), folder.join(name));
            if program.exists() {
                continue;
            }
            std::fs::write(&source, text).map_err(io)?;
            let mut command = Command::new(tools.zig()?);
            command.args(["cc", "-target", target.triple(), "-O2", "-ffp-contract=off", "-static"]);
            command.args(target.processor());
            tools::success(command.arg("-o").arg(&program).arg(&source).arg("-lm"))?;
        }
        Ok(Compiled { folder })
    }

    /// The command that runs a kernel behind `starter` and its arguments.
    pub fn command(&self, mut starter: Command, kernel: Kernel, rounds: u32) -> Command {
        starter.arg(self.folder.join(kernel.program));
        starter.args([kernel.name, &rounds.to_string()]);
        starter
    }

    /// The program that a kernel is in.
    pub fn path(&self, kernel: Kernel) -> PathBuf {
        self.folder.join(kernel.program)
    }
}

/// What a LoongArch kernel did on the interpreter.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    /// What it printed.
    pub text: Vec<u8>,
    /// Instructions it retired.
    pub instructions_count: u64,
    /// Seconds the process took.
    pub seconds: f64,
}

/// Runs a LoongArch kernel on the interpreter.
///
/// # Errors
/// The program failed.
pub fn interpreted(tools: &Tools, compiled: &Compiled, kernel: Kernel, rounds: u32) -> Found<Ran> {
    run_on(tools, Tier::Interpreter, compiled, kernel, rounds)
}

/// Runs a LoongArch kernel on a tier.
///
/// # Errors
/// The program failed.
pub fn run_on(
    tools: &Tools,
    tier: Tier,
    compiled: &Compiled,
    kernel: Kernel,
    rounds: u32,
) -> Found<Ran> {
    run_with(tools, &["--tier", &tier.number().to_string()], compiled, kernel, rounds)
}

/// Runs a LoongArch kernel on the translator, whose code a folder keeps from one run to the next.
///
/// # Errors
/// The program failed.
pub fn run_cached(
    tools: &Tools,
    folder: &Path,
    compiled: &Compiled,
    kernel: Kernel,
    rounds: u32,
) -> Found<Ran> {
    let cache = format!("--cache={}", folder.display());
    run_with(tools, &[&cache], compiled, kernel, rounds)
}

fn run_with(
    tools: &Tools,
    options: &[&str],
    compiled: &Compiled,
    kernel: Kernel,
    rounds: u32,
) -> Found<Ran> {
    let mut ours = tools.ours();
    ours.arg("--stats").args(options);
    let started = Instant::now();
    let out = tools::success(&mut compiled.command(ours, kernel, rounds))?;
    let seconds = started.elapsed().as_secs_f64();
    let instructions_count = tools::number_before(&out, " instructions retired")?;
    Ok(Ran { text: out.stdout, instructions_count, seconds })
}

/// What an x86-64 kernel prints.
///
/// # Errors
/// The program failed.
pub fn native_text(compiled: &Compiled, kernel: Kernel, rounds: u32) -> Found<Vec<u8>> {
    let mut command = Command::new(compiled.path(kernel));
    Ok(tools::success(command.args([kernel.name, &rounds.to_string()]))?.stdout)
}

fn callgrind(tools: &Tools) -> Found<Command> {
    let mut command = Command::new(tools.valgrind()?);
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    Ok(command)
}

/// The last number of callgrind's line "Collected : N".
fn collected(command: &mut Command) -> Found<u64> {
    let out = tools::success(command)?;
    let text = String::from_utf8_lossy(&out.stderr);
    let line = text.lines().find_map(|l| l.split_once("Collected :"));
    let number = line.and_then(|(_, n)| n.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| format!("callgrind printed no count: {}", text.trim()).into())
}

/// Host instructions of a native kernel.
///
/// # Errors
/// valgrind is missing or failed.
pub fn x86_count(tools: &Tools, compiled: &Compiled, kernel: Kernel, rounds: u32) -> Found<u64> {
    collected(&mut compiled.command(callgrind(tools)?, kernel, rounds))
}

/// Host instructions of our whole process while it runs a kernel on a tier.
///
/// # Errors
/// As [`x86_count`].
pub fn host_count(
    tools: &Tools,
    tier: Tier,
    compiled: &Compiled,
    kernel: Kernel,
    rounds: u32,
) -> Found<u64> {
    let ours = tools.ours();
    let mut command = callgrind(tools)?;
    command.arg(ours.get_program()).args(ours.get_args());
    command.args(["--tier", &tier.number().to_string()]);
    collected(&mut compiled.command(command, kernel, rounds))
}

/// Instructions of a MIPS64 kernel under QEMU.
///
/// # Errors
/// QEMU is missing or failed, or its log is not what is known.
pub fn mips64_count(tools: &Tools, compiled: &Compiled, kernel: Kernel, rounds: u32) -> Found<u64> {
    let mut qemu = Command::new(tools.qemu("mips64")?);
    qemu.args(["-d", "exec,nochain,in_asm"]);
    let mut command = compiled.command(qemu, kernel, rounds);
    let failed = |e: std::io::Error| format!("qemu-mips64: {e}");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(failed)?;
    let log = child.stderr.take().ok_or("qemu-mips64: no log")?;
    let count = executed(BufReader::new(log));
    let status = child.wait().map_err(failed)?;
    if !status.success() {
        return Err(format!("qemu-mips64: {status}").into());
    }
    count
}

/// Sums QEMU's log: a block's instructions are listed when it is translated, just before it runs
/// for the first time; each run is one line with the block's place.
fn executed(mut log: impl BufRead) -> Found<u64> {
    let mut lengths = std::collections::HashMap::new();
    let (mut listed, mut total) = (0u64, 0u64);
    let mut line = String::new();
    loop {
        line.clear();
        match log.read_line(&mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(e) => return Err(format!("qemu's log: {e}").into()),
        }
        if line.starts_with("IN:") {
            listed = 0;
        } else if line.starts_with("0x") {
            listed += 1;
        } else if line.starts_with("Trace") {
            let place = line.split_whitespace().nth(2).unwrap_or_default();
            if listed > 0 {
                lengths.insert(place.to_owned(), std::mem::take(&mut listed));
            }
            let known = lengths.get(place).ok_or_else(|| format!("qemu's log: {}", line.trim()))?;
            total += known;
        }
    }
    if total == 0 { Err("qemu's log names no executed block".into()) } else { Ok(total) }
}

/// The geometric mean.
pub fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|v| v.ln()).sum::<f64>() / values.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_summed_by_block() {
        let log = "----\nIN: start\n0x10:  addiu\n0x14:  nop\n\nTrace 0: 0xa [x]\n\
                   IN: next\n0x18: jr\n\nTrace 0: 0xb [y]\nTrace 0: 0xa [x]\n";
        assert_eq!(executed(log.as_bytes()), Ok(5));
        assert!(executed("Trace 0: 0xc [z]\n".as_bytes()).is_err(), "a block that is not listed");
        assert!(executed("".as_bytes()).is_err());
        // A block translated again at the same place has its new length.
        let again = "IN:\n0x1: a\nTrace 0: 0xa\nIN:\n0x1: a\n0x2: b\nTrace 0: 0xa\n";
        assert_eq!(executed(again.as_bytes()), Ok(3));
    }

    #[test]
    fn the_mean_is_geometric() {
        assert!((geometric_mean(&[1.0, 4.0]) - 2.0).abs() < 1e-12);
    }
}
