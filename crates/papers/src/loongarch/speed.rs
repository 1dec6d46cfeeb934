//! Steps of `repro loongarch` that measure speed: CPU time beside QEMU and the host, memory, and
//! the translator's own figures.
//!
//! - Sides take turns, five times, and medians count; `--quick` changes nothing here.
//! - Jobs are measured once, whichever of their claims are asked for.
//! - What is missing is named, and never counts as reached.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::process::Command;
use std::rc::Rc;

use littoral_bench::claims::Figure;
use littoral_bench::repro::{Answer, Options, Step};

use littoral_la64::interp::Tier;

use super::jobs::{Inputs, JOBS, Job, SIDES, Side, program_on};
use super::kernels::{self, Compiled, Kernel, Target, geometric_mean};
use super::step::{single, tools};
use super::timing::{cpu_seconds, median, medians, resident_kib};
use super::{Found, Tools, tools as found, translating};

/// Runs that a median is of.
const REPETITIONS: usize = 5;
/// Jobs that are for start-up and cryptography, not for speed.
const UNTIMED: [&str; 2] = ["seq", "openssl"];
/// Rounds of a timed kernel.
const ROUNDS: u32 = 500;
/// Runs of a native floating-point kernel that are timed together, because one is short.
const NATIVE_TIMES: u32 = 8;
/// Starts of a short program that are timed together.
const STARTS: u32 = 20;

/// Every step of this module.
pub(super) fn steps() -> Vec<Step> {
    let memo = Rc::new(RefCell::new(BTreeMap::new()));
    let mut steps: Vec<Step> = timed_jobs().map(|job| job_step(job, memo.clone())).collect();
    steps.push(Step {
        name: "thirteen programs beside QEMU and the host",
        claims: vec!["la64.programs.vs_qemu".into(), "la64.programs.vs_native".into()],
        measure: Box::new(move |options| all_jobs(&tools(options), &memo)),
    });
    steps.extend([
        single("integer kernels beside the host", "la64.int.vs_native", integer),
        Step {
            name: "floating-point kernels beside QEMU and the host",
            claims: vec!["la64.fp.vs_qemu".into(), "la64.fp.vs_native".into()],
            measure: Box::new(|options| float(&tools(options))),
        },
        single("starts of true", "la64.startup.true", |o| startup(o, &TRUE, false)),
        single("starts of python", "la64.startup.python", |o| startup(o, &PYTHON, false)),
        single("starts of true with a cache", "la64.startup.true.cached", |o| {
            startup(o, &TRUE, true)
        }),
        single("starts of python with a cache", "la64.startup.python.cached", |o| {
            startup(o, &PYTHON, true)
        }),
        Step {
            name: "what translated jobs leave behind",
            claims: vec!["la64.exits".into(), "la64.code_bytes".into()],
            measure: Box::new(|options| figures(&tools(options))),
        },
        single("memory of python", "la64.rss.vs_qemu.python", |o| memory(o, PYTHON_AT_WORK)),
        single("memory of 32 threads", "la64.rss.vs_qemu.threads", |o| memory(o, THREADS_AT_WORK)),
        single("32 threads translate", "la64.threads.translated", threads),
        single("the count of instructions", "la64.count.cost", count_cost),
        single("translating an instruction", "la64.translate.ns", translate),
        single("a guest that translates", "la64.guestjit.vs_qemu", guest_jit),
    ]);
    steps
}

fn timed_jobs() -> impl Iterator<Item = &'static Job> {
    JOBS.iter().filter(|job| !UNTIMED.contains(&job.id))
}

/// Seconds of CPU time on [`SIDES`], by a job's id.
type Memo = Rc<RefCell<BTreeMap<&'static str, Found<[f64; 3]>>>>;

fn job_step(job: &'static Job, memo: Memo) -> Step {
    Step {
        name: job.name,
        claims: vec![format!("la64.programs.vs_qemu.{}", job.id)],
        measure: Box::new(move |options| {
            let timed = timed(job, &tools(options), &memo);
            let peer = tools(options).qemu_peer();
            vec![timed.and_then(|[ours, qemu, native]| {
                let note = format!(
                    "CPU seconds, medians of {REPETITIONS} that take turns: ours {ours:.3}, {} \
                     {qemu:.3}, host {native:.3}",
                    peer?.1
                );
                Ok(Figure::new(qemu / ours, note))
            })]
        }),
    }
}

/// The job's times, measured if they are not known.
fn timed(job: &'static Job, tools: &Tools, memo: &Memo) -> Found<[f64; 3]> {
    if let Some(known) = memo.borrow().get(job.id) {
        return known.clone();
    }
    let measured = || -> Found<[f64; 3]> {
        let root = tools.sysroot()?;
        let inputs = Inputs::write(&tools.scratch)?;
        let on = |side| job.on(side, tools, &root, &inputs, &[]);
        let commands: Vec<Command> = SIDES.into_iter().map(on).collect::<Found<_>>()?;
        let seconds = medians(tools, &commands, 1, REPETITIONS)?;
        Ok([seconds[0], seconds[1], seconds[2]])
    };
    let measured = measured();
    memo.borrow_mut().insert(job.id, measured.clone());
    measured
}

fn all_jobs(tools: &Tools, memo: &Memo) -> Vec<Answer> {
    let rows: Found<Vec<_>> =
        timed_jobs().map(|job| Ok((job.id, timed(job, tools, memo)?))).collect();
    let against = |side: usize, name: &str| -> Answer {
        let ratios = rows.clone()?.into_iter().map(|(id, s)| (id, s[side] / s[0]));
        let peer = format!("CPU time of {name} over ours, medians of {REPETITIONS}");
        Ok(mean(&ratios.collect::<Vec<_>>(), &peer))
    };
    let peer = tools.qemu_peer().map(|peer| peer.1);
    let beside_qemu = peer.and_then(|name| against(1, &name));
    vec![beside_qemu, against(2, "the amd64 build on the host")]
}

/// The geometric mean of named ratios.
fn mean(rows: &[(&str, f64)], what: &str) -> Figure {
    let values: Vec<f64> = rows.iter().map(|r| r.1).collect();
    let listed: Vec<String> = rows.iter().map(|(name, r)| format!("{name} {r:.2}")).collect();
    Figure::new(geometric_mean(&values), format!("{what}; geometric mean of {}", listed.join(", ")))
}

/// CPU seconds of a kernel: ours, QEMU's if it is asked for, native.
fn kernel_seconds(
    tools: &Tools,
    [guest, native]: [&Compiled; 2],
    kernel: Kernel,
    qemu: Option<&std::path::Path>,
    native_times: u32,
) -> Found<Vec<f64>> {
    let mut commands = vec![guest.command(tools.ours(), kernel, ROUNDS)];
    commands.extend(qemu.map(|qemu| guest.command(Command::new(qemu), kernel, ROUNDS)));
    let mut host = Command::new(native.path(kernel));
    host.args([kernel.name, &ROUNDS.to_string()]);
    let mut seconds = vec![Vec::new(); commands.len() + 1];
    for _ in 0..REPETITIONS {
        for (command, seconds) in commands.iter().zip(&mut seconds) {
            seconds.push(cpu_seconds(tools, command, 1)?);
        }
        seconds[commands.len()].push(cpu_seconds(tools, &host, native_times)?);
    }
    Ok(seconds.into_iter().map(median).collect())
}

fn integer(options: &Options) -> Answer {
    let tools = tools(options);
    let guest = Compiled::build(&tools, Target::LoongArch)?;
    let native = Compiled::build(&tools, Target::X86)?;
    let mixed = Kernel { program: "integer", name: kernels::MIXED };
    let mut rows = Vec::new();
    for kernel in kernels::of("integer").into_iter().chain([mixed]) {
        let seconds = kernel_seconds(&tools, [&guest, &native], kernel, None, 1)?;
        rows.push((kernel.name, seconds[1] / seconds[0]));
    }
    let what = format!("CPU time of the host over ours, {ROUNDS} rounds, medians of {REPETITIONS}");
    Ok(mean(&rows, &what))
}

/// CPU time of the integer kernels over that of code that counts nothing.
fn count_cost(options: &Options) -> Answer {
    let tools = tools(options);
    let guest = Compiled::build(&tools, Target::LoongArch)?;
    let mut rows = Vec::new();
    for kernel in kernels::of("integer") {
        // Code that counts nothing makes no regions.
        let [mut counted, mut bare] = [tools.ours(), tools.ours()];
        counted.args(["--tier", "1"]);
        bare.args(["--tier", "1", "--no-count"]);
        let counted = guest.command(counted, kernel, ROUNDS);
        let commands = [counted, guest.command(bare, kernel, ROUNDS)];
        let seconds = medians(&tools, &commands, 1, REPETITIONS)?;
        rows.push((kernel.name, seconds[0] / seconds[1]));
    }
    let what = format!(
        "CPU time over that of code without the count, {ROUNDS} rounds, medians of {REPETITIONS}"
    );
    Ok(mean(&rows, &what))
}

/// Whether translated code raises the exceptions that the host's code raises.
fn flags_are_exact(tools: &Tools) -> Found<bool> {
    const ROUNDS: u32 = 3;
    let guest = Compiled::build(tools, Target::LoongArch)?;
    let native = Compiled::build(tools, Target::X86)?;
    let ours = kernels::run_on(tools, Tier::default(), &guest, kernels::FLAGS, ROUNDS)?.text;
    Ok(ours == kernels::native_text(&native, kernels::FLAGS, ROUNDS)?)
}

fn float(tools: &Tools) -> Vec<Answer> {
    let measured = || -> Found<Vec<(&'static str, f64, f64)>> {
        let guest = Compiled::build(tools, Target::LoongArch)?;
        let native = Compiled::build(tools, Target::X86)?;
        let (qemu, _) = tools.qemu_peer()?;
        let mut rows = Vec::new();
        for kernel in kernels::of("float") {
            let both = [&guest, &native];
            let seconds = kernel_seconds(tools, both, kernel, Some(&qemu), NATIVE_TIMES)?;
            rows.push((kernel.name, seconds[1] / seconds[0], seconds[2] / seconds[0]));
        }
        Ok(rows)
    };
    let rows = measured();
    let against = |pick: fn(&(&'static str, f64, f64)) -> f64, name: &str| -> Answer {
        let rows: Vec<_> = rows.as_ref()?.iter().map(|row| (row.0, pick(row))).collect();
        let what = format!("CPU time of {name} over ours, medians of {REPETITIONS}");
        Ok(mean(&rows, &what))
    };
    let peer = tools.qemu_peer().map(|peer| peer.1);
    let native = against(|r| r.2, "the host").and_then(|figure| {
        let words = "a kernel that tests the exceptions of each operation prints the host's";
        Ok(figure.provided(flags_are_exact(tools)?, words))
    });
    vec![peer.and_then(|name| against(|r| r.1, &name)), native]
}

/// A program of the sysroot and its arguments.
type Start = (&'static str, &'static [&'static str]);

const TRUE: Start = ("true", &[]);
const PYTHON: Start = ("python3", &["-S", "-c", "pass"]);

/// CPU time of starting a program of the sysroot, over QEMU's. With a cache on disk a start before
/// has translated all.
fn startup(options: &Options, (program, arguments): &Start, cached: bool) -> Answer {
    let tools = tools(options);
    let root = tools.sysroot()?;
    let folder = tools.scratch.join(format!("cache-{program}"));
    let kept = folder.display().to_string();
    let cache = ["--cache", if cached { &kept } else { "off" }];
    let on = |side| -> Found<Command> {
        let mut command = program_on(side, &tools, &root, program, &cache)?;
        command.args(*arguments);
        Ok(command)
    };
    let commands: Vec<Command> = SIDES.into_iter().map(on).collect::<Found<_>>()?;
    if cached {
        // Files of an earlier run would be of the same engine, and so do no harm.
        cpu_seconds(&tools, &commands[0], 1)?;
    }
    let seconds = medians(&tools, &commands, STARTS, REPETITIONS)?;
    let [ours, qemu, native] = [0, 1, 2].map(|n| 1e3 * seconds[n]);
    let note = format!(
        "CPU milliseconds of a start, medians of {REPETITIONS} times {STARTS}: ours {ours:.2}, {} \
         {qemu:.2}, host {native:.2}; {}",
        tools.qemu_peer()?.1,
        if cached { "a cache on disk that has all" } else { "no cache on disk" }
    );
    Ok(Figure::new(ours / qemu, note))
}

/// What `--stats` says of a job.
struct Figures {
    id: &'static str,
    /// Per million instructions: stays outside of generated code, in the dispatch loop and on tier
    /// 0; calls of slow ways; calls for instructions without a translation.
    left: [f64; 3],
    /// Translated instructions, bytes of code, bytes of maps.
    made: [u64; 3],
}

/// The figures of all jobs.
fn job_figures(tools: &Tools) -> Found<Vec<Figures>> {
    let root = tools.sysroot()?;
    let inputs = Inputs::write(&tools.scratch)?;
    let figures = |job: &'static Job| {
        let mut ours = job.on(Side::Ours, tools, &root, &inputs, &["--stats"])?;
        let out = found::success(&mut ours)?;
        let number = |unit| found::number_before(&out, unit);
        let retired = number(" instructions retired")? as f64;
        let exits = number(" exits,")? + number(" stays on tier 0")?;
        let calls = [number(" calls of slow ways")?, number(" calls of tier 0")?];
        Ok(Figures {
            id: job.id,
            left: [exits, calls[0], calls[1]].map(|count| count as f64 * 1e6 / retired),
            made: [
                number(" instructions translated")?,
                number(" bytes of code")?,
                number(" bytes of maps")?,
            ],
        })
    };
    timed_jobs().map(figures).collect()
}

/// Exits of the worst job, and bytes of code of all jobs.
fn figures(tools: &Tools) -> Vec<Answer> {
    let measured = job_figures(tools);
    let exits = || -> Answer {
        let rows = measured.as_ref()?;
        let most = rows.iter().map(|r| r.left[0]).fold(0.0, f64::max);
        let listed = |which: usize| {
            let rows = rows.iter().map(|r| format!("{} {:.0}", r.id, r.left[which]));
            rows.collect::<Vec<_>>().join(", ")
        };
        let note = format!(
            "returns to the dispatch loop and stays on tier 0 per million retired instructions, \
             system calls included; the worst of {}",
            listed(0)
        );
        let mut figure = Figure::new(most, note);
        figure.notes.push(format!("calls of slow ways per million: {}", listed(1)));
        let untranslated = "calls for instructions without a translation per million";
        figure.notes.push(format!("{untranslated}: {}", listed(2)));
        Ok(figure)
    };
    let bytes = || -> Answer {
        let rows = measured.as_ref()?;
        let [translated, code, maps] =
            [0, 1, 2].map(|n| rows.iter().map(|r| r.made[n]).sum::<u64>());
        let per = |bytes: u64| bytes as f64 / translated.max(1) as f64;
        let note = format!(
            "{:.1} of code and {:.1} of maps per translated instruction, {translated} in {} jobs",
            per(code),
            per(maps),
            rows.len()
        );
        Ok(Figure::new(per(code + maps), note))
    };
    vec![exits(), bytes()]
}

/// Works, writes a byte, and waits for the end of its input.
const PYTHON_AT_WORK: &str = "
import json, re, sys
d = [{'k%d' % (i * 7919 % 5003): [i, str(i)]} for i in range(20000)]
t = json.dumps(d)
n = len(re.findall('[0-9]+', t)) + len(json.loads(t))
sys.stdout.write('x'); sys.stdout.flush(); sys.stdin.read()";
/// The same with 32 threads that all have run.
const THREADS_AT_WORK: &str = "
import sys, threading
b = threading.Barrier(33)
def f():
    s = 0
    for i in range(20000): s = (s * 31 + i) & 0xffffffff
    b.wait(); b.wait()
t = [threading.Thread(target=f) for _ in range(32)]
for x in t: x.start()
b.wait()
sys.stdout.write('x'); sys.stdout.flush(); sys.stdin.read()
b.wait()
for x in t: x.join()";

/// Largest resident set of a python program, over QEMU's.
fn memory(options: &Options, program: &str) -> Answer {
    let tools = tools(options);
    let root = tools.sysroot()?;
    let on = |side| -> Found<f64> {
        let mut sizes = Vec::new();
        for _ in 0..REPETITIONS {
            let mut command = program_on(side, &tools, &root, "python3", &[])?;
            sizes.push(resident_kib(command.args(["-S", "-c", program]))? as f64 / 1024.0);
        }
        Ok(median(sizes))
    };
    let (ours, qemu, native) = (on(Side::Ours)?, on(Side::Qemu)?, on(Side::Native)?);
    let note = format!(
        "largest resident set, medians of {REPETITIONS}: ours {ours:.1} MiB, {} {qemu:.1} MiB, \
         host {native:.1} MiB",
        tools.qemu_peer()?.1
    );
    Ok(Figure::new(ours / qemu, note))
}

/// What 32 threads translate over what one does that runs the same work.
fn threads(options: &Options) -> Answer {
    const ONE: &str = "1";
    const MANY: &str = "32";
    const PROGRAM: &str = "
import sys, threading
def f():
    s = 0
    for i in range(20000): s = (s * 31 + i) & 0xffffffff
n = int(sys.argv[1])
def g():
    for _ in range(32 // n): f()
t = [threading.Thread(target=g) for _ in range(n)]
for x in t: x.start()
for x in t: x.join()";
    let tools = tools(options);
    let root = tools.sysroot()?;
    let translated = |threads: &str| -> Found<f64> {
        let mut ours = program_on(Side::Ours, &tools, &root, "python3", &["--stats"])?;
        let out = found::success(ours.args(["-S", "-c", PROGRAM, threads]))?;
        Ok(found::number_before(&out, " instructions translated")? as f64)
    };
    let (one, many) = (translated(ONE)?, translated(MANY)?);
    let note =
        format!("{many} instructions by 32 threads of python, {one} by one with all the work");
    Ok(Figure::new(many / one, note))
}

fn translate(options: &Options) -> Answer {
    let tools = tools(options);
    let mut ns = Vec::new();
    let mut last = None;
    for _ in 0..REPETITIONS {
        let passes = translating::passes(&tools)?;
        ns.push(passes.ns[0].saturating_sub(passes.ns[1]) as f64 / passes.translated as f64);
        last = Some(passes);
    }
    let note = format!(
        "CPU time of a first pass over straight blocks less that of a second, per instruction, \
         median of {REPETITIONS}; the last: {last:?}"
    );
    Ok(Figure::new(median(ns), note))
}

/// LoongArch's own QEMU as the guest, running x86-64 kernels.
fn guest_jit(options: &Options) -> Answer {
    const ROUNDS: u32 = 40;
    let tools = tools(options);
    let guest = tools.guest_qemu("x86_64")?;
    let (qemu, name) = tools.qemu_peer()?;
    let kernels = Compiled::build(&tools, Target::X86)?;
    let mut rows = Vec::new();
    for kernel in ["crc", "sieve", "bytecode"] {
        let kernel = Kernel { program: "integer", name: kernel };
        let behind = |mut starter: Command| {
            starter.arg(&guest);
            kernels.command(starter, kernel, ROUNDS)
        };
        let commands = [behind(tools.ours()), behind(Command::new(&qemu))];
        let seconds = medians(&tools, &commands, 1, REPETITIONS)?;
        rows.push((kernel.name, seconds[1] / seconds[0]));
    }
    let what = format!("CPU time under {name} over ours, medians of {REPETITIONS}");
    Ok(mean(&rows, &what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirteen_jobs_are_timed_and_each_has_a_claim() {
        let jobs: Vec<_> = timed_jobs().map(|job| job.id).collect();
        assert_eq!(jobs.len(), 13);
        let targets = super::super::SYSTEM.targets().unwrap();
        for id in jobs {
            let target = targets.get(&format!("la64.programs.vs_qemu.{id}"));
            assert_eq!(target.target, Some(1.5), "{id}");
        }
        assert_eq!(JOBS.len() - UNTIMED.len(), 13);
    }

    #[test]
    fn what_is_missing_is_an_error_for_every_claim_of_a_step() {
        let dir = tempfile::tempdir().unwrap();
        let nowhere = dir.path().join("missing");
        let tools = Tools::new(&nowhere, &littoral_bench::peers::Peers::default(), &nowhere);
        let memo = Memo::default();
        let answers = all_jobs(&tools, &memo);
        assert!(answers.iter().all(Result::is_err), "{answers:?}");
        assert_eq!(answers.len(), 2);
        assert!(figures(&tools).iter().all(Result::is_err));
    }
}
