//! Fifteen jobs of Debian's programs: our engine beside the amd64 build of the same version.
//! Programs are LoongArch's, or those of an architecture that is translated. Three more have
//! threads, signals and children.
//!
//! Thirteen are timed for the claims, one measures start-up, one cryptography. Output
//! and exit status must agree to the byte; nothing in a job's output depends on time or place.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use littoral_bench::claims::Figure;

use super::tools::{self, amd64};
use super::{Found, Tools};

/// Stands for the path of the large input in a job's arguments, 24 MB.
const LARGE: &str = "@large";
/// Stands for the path of the small input, 8 MB.
const SMALL: &str = "@small";

/// One job: the program's name in `usr/bin` and its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The last part of its claims' ids.
    pub id: &'static str,
    /// What it is called.
    pub name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
}

const fn job(
    id: &'static str,
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
) -> Job {
    Job { id, name, program, arguments }
}

/// The jobs.
pub const JOBS: [Job; 15] = [
    job(
        "python-loop",
        "python loop and fib",
        "python3",
        &[
            "-S",
            "-c",
            "
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
s = 0
for i in range(600000): s = (s * 31 + i) & 0xffffffff
print(s, fib(20))",
        ],
    ),
    job(
        "python-nbody",
        "python n-body",
        "python3",
        &[
            "-S",
            "-c",
            "
b = [[1.0, 2.0, 0.5, 0.1, 0.0, 0.2, 3.0], [4.0, 0.0, 1.5, 0.0, 0.3, 0.0, 1.0],
     [0.0, 3.0, 2.5, 0.2, 0.1, 0.1, 2.0]]
for _ in range(6000):
    for i, p in enumerate(b):
        for q in b[i + 1:]:
            d = [p[k] - q[k] for k in range(3)]
            m = 0.001 / (sum(x * x for x in d) + 0.01) ** 1.5
            for k in range(3):
                p[3 + k] -= d[k] * q[6] * m
                q[3 + k] += d[k] * p[6] * m
    for p in b:
        for k in range(3): p[k] += 0.001 * p[3 + k]
print([repr(x) for p in b for x in p])",
        ],
    ),
    job(
        "python-dict",
        "python dictionaries, strings, sorting",
        "python3",
        &[
            "-S",
            "-c",
            "
d = {}
for i in range(60000): d[str(i * 7919 % 100003)] = i
k = sorted(d, key=lambda s: (len(s), s[::-1]))
print(len(d), k[:5], k[-5:], sum(d[x] for x in k[::3]), '-'.join(k[:200]).upper().count('1'))",
        ],
    ),
    job(
        "lua",
        "lua fannkuch and floating sum",
        "lua5.4",
        &[
            "-e",
            "
local function fannkuch(n)
  local p, q, s, sign, maxflips, sum = {}, {}, {}, 1, 0, 0
  for i = 1, n do p[i] = i; q[i] = i; s[i] = i end
  while true do
    local q0 = p[1]
    if q0 ~= 1 then
      for i = 2, n do q[i] = p[i] end
      local flips = 1
      while true do
        local qq = q[q0]
        if qq == 1 then
          sum = sum + sign * flips
          if flips > maxflips then maxflips = flips end
          break
        end
        q[q0] = q0
        if q0 >= 4 then
          local i, j = 2, q0 - 1
          repeat q[i], q[j] = q[j], q[i]; i = i + 1; j = j - 1; until i >= j
        end
        q0 = qq; flips = flips + 1
      end
    end
    if sign == 1 then p[1], p[2] = p[2], p[1]; sign = -1
    else
      p[2], p[3] = p[3], p[2]; sign = 1
      for i = 3, n do
        local sx = s[i]
        if sx ~= 1 then s[i] = sx - 1; break end
        if i == n then return sum, maxflips end
        s[i] = i
        local t = p[1]; for j = 1, i do p[j] = p[j + 1] end; p[i + 1] = t
      end
    end
  end
end
print(fannkuch(8))
local x = 0.0
for i = 1, 2000000 do x = x + 1 / i end
print(string.format('%.17g', x))",
        ],
    ),
    job(
        "bash",
        "bash arithmetic",
        "bash",
        &[
            "-c",
            "
x=1; for ((i = 0; i < 60000; i++)); do ((x = (x * 31 + i) % 1000003)); done; echo $x",
        ],
    ),
    job(
        "sqlite3",
        "sqlite3 index and group",
        "sqlite3",
        &[
            ":memory:",
            "
create table t(a integer, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000)
  insert into t select i * 7919 % 100003, 'key' || i % 977, i / 7.0 from n;
create index u on t(b);
select b, count(*), sum(a), avg(c) from t group by b order by 3 desc limit 20;
select count(distinct a) from t where b > 'key5';",
        ],
    ),
    job(
        "gawk",
        "gawk sum over 24 MB",
        "gawk",
        &[
            "
{ n[$2 % 97] += $1; t += NF }
END { for (i = 0; i < 97; i++) print i, n[i]; print t }",
            LARGE,
        ],
    ),
    job(
        "perl",
        "perl loop, hash, regular expressions",
        "perl",
        &[
            "-e",
            "
my (%h, $n, $s);
for my $i (1 .. 150000) {
    my $k = 'k' . ($i * 7919 % 5003);
    $h{$k} += $i;
    $n++ if $k =~ /^k(\\d)\\d*\\1$/
}
$s .= \"$_=$h{$_};\" for (sort keys %h)[0 .. 20];
print \"$n $s\\n\"; (my $t = $s) =~ s/(\\d)(\\d)/$2$1/g; print \"$t\\n\"",
        ],
    ),
    job("sha256sum", "busybox sha256sum of 24 MB", "busybox", &["sha256sum", LARGE]),
    job("zstd", "zstd -9 of 24 MB", "zstd", &["-9", "-c", "-q", "--single-thread", LARGE]),
    job("gzip", "gzip -6 of 24 MB", "gzip", &["-6", "-n", "-c", LARGE]),
    job("bzip2", "bzip2 -9 of 8 MB", "bzip2", &["-9", "-c", SMALL]),
    job("xz", "xz -3 of 8 MB", "xz", &["-3", "-c", "-T1", SMALL]),
    job("seq", "coreutils start-up", "seq", &["1", "3", "1000"]),
    job("openssl", "openssl sha256 of 8 MB", "openssl", &["dgst", "-sha256", SMALL]),
];

/// Jobs with threads, signals and children. They name signals, whose numbers differ between
/// architectures.
pub const SIGNALLED: [Job; 3] = [
    job(
        "python-threads",
        "python threads, locks and a queue",
        "python3",
        &[
            "-S",
            "-c",
            "
import threading, queue
q, lock, total = queue.Queue(), threading.Lock(), [0]
def work(n):
    s = 0
    for i in range(3000): s = (s * 31 + i * n) & 0xffffffff
    with lock: total[0] += s
    q.put(n)
threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
for t in threads: t.start()
for t in threads: t.join()
barrier = threading.Barrier(4)
def meet(n): q.put(('met', barrier.wait() < 4, n))
threads = [threading.Thread(target=meet, args=(n,)) for n in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(total[0], sorted(str(q.get()) for _ in range(16)))",
        ],
    ),
    job(
        "python-signals",
        "python handlers, a timer, children that signals end",
        "python3",
        &[
            "-S",
            "-c",
            "
import os, signal
seen = []
def note(number, frame): seen.append(signal.Signals(number).name)
for s in ('SIGUSR1', 'SIGALRM', 'SIGCHLD'): signal.signal(getattr(signal, s), note)
for _ in range(3): os.kill(os.getpid(), signal.SIGUSR1)
signal.setitimer(signal.ITIMER_REAL, 0.01)
n = 0
while 'SIGALRM' not in seen: n += 1
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.kill(os.getpid(), signal.SIGUSR1)
print(seen, signal.SIGUSR1 in signal.sigpending())
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
for name in ('SIGTERM', 'SIGSEGV', 'SIGKILL'):
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), getattr(signal, name))
        signal.pause()
    status = os.waitpid(child, 0)[1]
    print(name, os.WIFSIGNALED(status), signal.Signals(os.WTERMSIG(status)).name)
print(seen.count('SIGUSR1'), 'SIGCHLD' in seen)",
        ],
    ),
    job(
        "bash-traps",
        "bash traps, pipes and children",
        "bash",
        &[
            "-c",
            "
trap 'echo usr1' USR1; trap 'echo term' TERM; trap 'echo bye' EXIT
kill -USR1 $$; kill -TERM $$
for i in 1 2 3; do echo $i; done | while read x; do echo got $x; done
(exit 3) & wait $!; echo status $?
(kill -KILL $BASHPID) & wait $! 2>/dev/null; kill -l $?
y=$(for ((i = 0; i < 2000; i++)); do echo $((i * i % 97)); done | while read n; do
    ((s += n)); echo $s; done | { while read l; do :; done; echo ${l:-end}; })
echo $y; (trap 'echo inner; exit 0' USR2; kill -USR2 $BASHPID; echo not here)",
        ],
    ),
];

/// What one job did.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    /// The job's name.
    pub name: &'static str,
    /// Why it is not identical, if it is not.
    pub different: Option<String>,
    /// Instructions the interpreter retired in the job's last process.
    pub instructions_count: u64,
    /// Seconds it took, wall clock.
    pub seconds: f64,
}

/// Runs jobs with the programs of a sysroot, and with those of its sibling `amd64` natively.
///
/// # Errors
/// What is missing, or a program that could not be started at all.
pub fn run(tools: &Tools, root: &Path, jobs: &[Job]) -> Found<Vec<Ran>> {
    let inputs = Inputs::write(&tools.scratch)?;
    jobs.iter().map(|job| one(tools, root, job, &inputs)).collect()
}

/// How many jobs are identical, with the reasons of the others.
pub fn figure(ran: &[Ran]) -> Figure {
    let same = ran.iter().filter(|r| r.different.is_none()).count();
    let instructions: u64 = ran.iter().map(|r| r.instructions_count).sum();
    let seconds: f64 = ran.iter().map(|r| r.seconds).sum();
    let note = format!("{:.1} G LA64 instructions in {seconds:.0} s", instructions as f64 / 1e9);
    let mut figure = Figure::new(same as f64, note);
    for (name, why) in ran.iter().filter_map(|r| Some((r.name, r.different.as_ref()?))) {
        figure.notes.push(format!("{name}: {why}"));
    }
    figure
}

fn one(tools: &Tools, root: &Path, job: &Job, inputs: &Inputs) -> Found<Ran> {
    let mut ours = job.on(Side::Ours, tools, root, inputs, &["--stats"])?;
    let started = std::time::Instant::now();
    let ours = tools::output(&mut ours)?;
    let seconds = started.elapsed().as_secs_f64();
    let theirs = tools::output(&mut job.on(Side::Native, tools, root, inputs, &[])?)?;
    let instructions_count = tools::number_before(&ours, " instructions retired").unwrap_or(0);
    Ok(Ran { name: job.name, different: difference(&ours, &theirs), instructions_count, seconds })
}

/// What runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `littoral la64 run`.
    Ours,
    /// QEMU's user mode.
    Qemu,
    /// The host, on which the amd64 build runs.
    Native,
}

/// Every side, in the order in which they take turns.
pub const SIDES: [Side; 3] = [Side::Ours, Side::Qemu, Side::Native];

impl Job {
    /// The command of this job on a side, with options of ours.
    ///
    /// # Errors
    /// QEMU is missing.
    pub fn on(
        &self,
        side: Side,
        tools: &Tools,
        root: &Path,
        inputs: &Inputs,
        options: &[&str],
    ) -> Found<Command> {
        let mut command = program_on(side, tools, root, self.program, options)?;
        command.args(self.arguments.iter().map(|a| inputs.named(a)));
        Ok(command)
    }
}

impl Job {
    /// The command of this job on our engine, which runs `host`: a LoongArch program with
    /// arguments, to which those for the sysroot and (by the option `name`) the program's name are
    /// added.
    pub fn hosted(
        &self,
        tools: &Tools,
        root: &Path,
        inputs: &Inputs,
        (host, name): (&[&OsStr], &str),
    ) -> Command {
        let mut command = tools.ours();
        command.arg("--stats").args(host).arg("-L").arg(root).args([name, self.program]);
        command.arg(root.join("usr/bin").join(self.program));
        command.args(self.arguments.iter().map(|a| inputs.named(a)));
        fixed(&mut command, root);
        command
    }
}

/// The command that runs a program of the sysroot's `usr/bin` on a side, with options of ours.
///
/// # Errors
/// QEMU is missing.
pub fn program_on(
    side: Side,
    tools: &Tools,
    root: &Path,
    program: &str,
    options: &[&str],
) -> Found<Command> {
    let guest = root.join("usr/bin").join(program);
    let mut command = match side {
        Side::Ours => {
            let mut ours = tools.ours();
            ours.args(options).arg("-L").arg(root).args(["--argv0", program]).arg(guest);
            ours
        }
        Side::Qemu => {
            let mut qemu = Command::new(tools.qemu_peer()?.0);
            qemu.arg("-L").arg(root).args(["-0", program]).arg(guest);
            qemu
        }
        Side::Native => native(root, program),
    };
    fixed(&mut command, if side == Side::Native { amd64(root) } else { root.into() }.as_path());
    Ok(command)
}

/// The same surroundings on every side.
pub(super) fn fixed<'a>(command: &'a mut Command, root: &Path) -> &'a mut Command {
    command
        .env_clear()
        .env("LC_ALL", "C")
        .env("PATH", root.join("usr/bin"))
        .env("PYTHONHASHSEED", "0")
}

/// The amd64 build under its own loader and libraries.
fn native(root: &Path, program: &str) -> Command {
    let amd64 = amd64(root);
    let file = amd64.join("usr/bin").join(program);
    // A static program has no loader.
    if program == "busybox" {
        return Command::new(file);
    }
    // Not the one in `usr/lib64`: that is an absolute link in some packages, so the host's loader.
    let libraries = amd64.join("usr/lib/x86_64-linux-gnu");
    let mut command = Command::new(libraries.join("ld-linux-x86-64.so.2"));
    command.arg("--library-path").arg(libraries);
    command.arg("--argv0").arg(program).arg(file);
    command
}

/// How two outputs of a job differ, or that one failed.
pub(crate) fn difference(ours: &Output, theirs: &Output) -> Option<String> {
    if ours.status.code() != Some(0) || theirs.status.code() != Some(0) {
        let words = |o: &Output| String::from_utf8_lossy(&o.stderr).trim().to_owned();
        let (a, b) = (words(ours), words(theirs));
        return Some(format!("ours {} ({a}), theirs {} ({b})", ours.status, theirs.status));
    }
    if ours.stdout == theirs.stdout {
        return None;
    }
    let at = ours.stdout.iter().zip(&theirs.stdout).position(|(a, b)| a != b);
    let lens = (ours.stdout.len(), theirs.stdout.len());
    Some(format!("outputs of {} and {} bytes differ at {at:?}", lens.0, lens.1))
}

/// The files that jobs read.
#[derive(Debug)]
pub struct Inputs {
    large: PathBuf,
    small: PathBuf,
}

impl Inputs {
    /// Text whose words repeat as in a log.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write(folder: &Path) -> Found<Inputs> {
        let mut text = String::with_capacity(24 << 20);
        let mut seed = 1u64;
        while text.len() < 24_000_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let word = ["read", "write", "open", "sync", "close"][(seed >> 40) as usize % 5];
            text.push_str(&format!("{} {} {word} {:x}\n", seed >> 44, seed >> 50, seed >> 52));
        }
        let inputs = Inputs { large: folder.join("large"), small: folder.join("small") };
        let written = std::fs::write(&inputs.large, &text)
            .and_then(|()| std::fs::write(&inputs.small, &text.as_bytes()[..8_000_000]));
        written.map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(inputs)
    }

    fn named(&self, argument: &str) -> String {
        match argument {
            LARGE => self.large.display().to_string(),
            SMALL => self.small.display().to_string(),
            other => other.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    fn ended(raw: i32, text: &str) -> Output {
        let status = ExitStatus::from_raw(raw);
        Output { status, stdout: text.into(), stderr: Vec::new() }
    }

    #[test]
    fn an_amd64_build_runs_under_its_own_loader() {
        let dir = tempfile::tempdir().unwrap();
        let usr = dir.path().join("amd64/usr");
        let name = "ld-linux-x86-64.so.2";
        for folder in ["lib64", "lib/x86_64-linux-gnu"] {
            std::fs::create_dir_all(usr.join(folder)).unwrap();
        }
        std::fs::write(usr.join("lib/x86_64-linux-gnu").join(name), "").unwrap();
        // As Debian 12's package has it.
        let absolute = Path::new("/lib/x86_64-linux-gnu").join(name);
        std::os::unix::fs::symlink(absolute, usr.join("lib64").join(name)).unwrap();
        let command = native(&dir.path().join("mips64el"), "lua5.4");
        let loader = std::fs::canonicalize(command.get_program()).unwrap();
        assert!(loader.starts_with(usr.canonicalize().unwrap()), "{}", loader.display());
    }

    #[test]
    fn only_equal_bytes_of_two_successes_are_identical() {
        assert_eq!(difference(&ended(0, "a"), &ended(0, "a")), None);
        assert!(difference(&ended(0, "a"), &ended(0, "b")).is_some());
        assert!(difference(&ended(0, "a"), &ended(0, "aa")).is_some());
        assert!(difference(&ended(256, ""), &ended(256, "")).is_some(), "both failed alike");
        assert!(difference(&ended(11, ""), &ended(0, "")).is_some());
    }
}
