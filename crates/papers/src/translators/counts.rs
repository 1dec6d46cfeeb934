//! Instructions of own C kernels: translated builds of a guest, LA64 builds, and the guest's builds
//! under translators that are LoongArch programs themselves, which our engine runs.
//!
//! Every count is the difference of two lengths of one kernel, [`SHORT`] and [`LONG`], so that
//! start-up, the printing of the result and translation cancel.

use std::process::Output;

use littoral_la64::interp::Tier;

use crate::loongarch::kernels::{self, Compiled, Kernel, Target, geometric_mean};
use crate::loongarch::{Found, Tools, tools as found};

/// Rounds of the shorter run.
pub const SHORT: u32 = 2;
/// Rounds of the longer run; as many digits as the shorter, since programs see their arguments.
pub const LONG: u32 = 6;

/// An architecture whose programs are translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guest {
    /// MIPS64, N64 ABI, little-endian.
    Mips64,
    /// x86-64 without extensions.
    X86,
}

impl Guest {
    /// The name in figures and in `--stats`.
    pub const fn name(self) -> &'static str {
        match self {
            Guest::Mips64 => "MIPS64",
            Guest::X86 => "x86-64",
        }
    }

    /// What its kernels are compiled for.
    pub(super) const fn target(self) -> Target {
        match self {
            Guest::Mips64 => Target::Mips64Little,
            Guest::X86 => Target::X86,
        }
    }

    /// As Debian calls it.
    pub const fn debian(self) -> &'static str {
        match self {
            Guest::Mips64 => "mips64el",
            Guest::X86 => "amd64",
        }
    }

    /// As QEMU calls it.
    const fn qemu(self) -> &'static str {
        match self {
            Guest::Mips64 => "mips64el",
            Guest::X86 => "x86_64",
        }
    }
}

/// What runs a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The guest's build, translated.
    Translated(Guest),
    /// The x86-64 build, translated without LBT.
    WithoutLbt,
    /// A LoongArch build.
    Native(Target),
    /// The guest's build on LoongArch's build of QEMU.
    Qemu(Guest),
    /// The x86-64 build on LoongArch's box64.
    Box64,
}

/// What a kernel took between two lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// What the two runs printed.
    pub text: [Vec<u8>; 2],
    /// LA64 instructions.
    pub own_count: u64,
    /// The guest's instructions; none where the program is not one of ours to count.
    pub guest_count: Option<u64>,
}

/// Counts a kernel on one way.
///
/// # Errors
/// What is missing, or how a program failed.
pub fn count(tools: &Tools, way: Way, kernel: Kernel) -> Found<Counted> {
    let [short, long] = [SHORT, LONG].map(|rounds| read(way, &run(tools, way, kernel, rounds)?));
    difference(kernel, short?, long?)
}

/// One run.
#[derive(Debug)]
struct Once {
    text: Vec<u8>,
    own: u64,
    guest: Option<u64>,
}

fn difference(kernel: Kernel, short: Once, long: Once) -> Found<Counted> {
    let less = |long: u64, short: u64| {
        let what = "the longer run does not take more instructions";
        long.checked_sub(short).filter(|&n| n > 0).ok_or(format!("{}: {what}", kernel.name))
    };
    let guest_count = match (long.guest, short.guest) {
        (Some(long), Some(short)) => Some(less(long, short)?),
        _ => None,
    };
    let own_count = less(long.own, short.own)?;
    Ok(Counted { text: [short.text, long.text], own_count, guest_count })
}

fn run(tools: &Tools, way: Way, kernel: Kernel, rounds: u32) -> Found<Output> {
    let target = match way {
        Way::Native(target) => target,
        Way::Translated(guest) | Way::Qemu(guest) => guest.target(),
        Way::Box64 | Way::WithoutLbt => Guest::X86.target(),
    };
    let mut ours = tools.ours();
    ours.args(["--stats", "--tier", &Tier::default().number().to_string()]);
    match way {
        // The same seed for whatever QEMU chooses by chance.
        Way::Qemu(guest) => {
            ours.arg(tools.guest_qemu(guest.qemu())?).args(["-seed", "1"]);
        }
        Way::Box64 => {
            let (root, box64) = tools.guest_box64()?;
            ours.env("BOX64_LOG", "0").env("BOX64_NOBANNER", "1");
            ours.arg("-L").arg(root).arg(box64);
        }
        Way::WithoutLbt => {
            ours.arg("--no-lbt");
        }
        Way::Translated(_) | Way::Native(_) => {}
    }
    let compiled = Compiled::build(tools, target)?;
    found::success(&mut compiled.command(ours, kernel, rounds))
}

/// The counts that a run printed.
fn read(way: Way, out: &Output) -> Found<Once> {
    let own = found::number_before(out, " instructions retired")?;
    let guest = match way {
        Way::Translated(guest) => Some(guest),
        Way::WithoutLbt => Some(Guest::X86),
        Way::Native(_) | Way::Qemu(_) | Way::Box64 => None,
    };
    let counted = |guest: Guest| {
        found::number_before(out, &format!(" {} instructions executed", guest.name()))
    };
    let guest = guest.map(counted).transpose()?;
    Ok(Once { text: out.stdout.clone(), own, guest })
}

/// A kernel's two counts and their ratio.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The kernel.
    pub kernel: Kernel,
    /// What stands above.
    pub above: u64,
    /// What stands below.
    pub below: u64,
}

impl Row {
    /// Above over below.
    pub fn ratio(&self) -> f64 {
        self.above as f64 / self.below as f64
    }

    /// The row in words; `names` are those of the two counts.
    pub fn text(&self, names: (&str, &str)) -> String {
        let Kernel { program, name } = self.kernel;
        let (above, below) = names;
        let ratio = self.ratio();
        format!("{program} {name} {ratio:.3} ({above} {}, {below} {})", self.above, self.below)
    }
}

/// The geometric mean of rows.
pub fn mean(rows: &[Row]) -> f64 {
    geometric_mean(&rows.iter().map(Row::ratio).collect::<Vec<_>>())
}

/// Kernels of `program`, or the integer and the floating-point ones, each with a row.
///
/// # Errors
/// As [`count`], by the first kernel.
pub fn rows(
    program: Option<&'static str>,
    row: impl FnMut(Kernel) -> Found<Row>,
) -> Found<Vec<Row>> {
    program.map_or_else(kernels::all, kernels::of).into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::ExitStatus;

    const CRC: Kernel = Kernel { program: "integer", name: "crc" };

    fn printed(text: &str, stats: &str) -> Output {
        let (stdout, stderr) = (text.into(), stats.into());
        Output { status: ExitStatus::default(), stdout, stderr }
    }

    #[test]
    fn counts_are_differences_of_two_lengths() {
        let of = |rounds: u64| {
            let (own, guest) = (1000 + 90 * rounds, 700 + 100 * rounds);
            let stats = format!(
                "la64: {own} instructions retired, 3 blocks\n\
                 la64: {guest} MIPS64 instructions executed; 5 translated\n"
            );
            printed(&format!("{rounds}"), &stats)
        };
        let at = |way, rounds| read(way, &of(rounds)).unwrap();
        const MIPS64: Way = Way::Translated(Guest::Mips64);
        let translated = |a, b| difference(CRC, at(MIPS64, a), at(MIPS64, b));
        let counted = translated(2, 6).unwrap();
        assert!(read(Way::Translated(Guest::X86), &of(2)).is_err(), "another guest's count");
        assert_eq!((counted.own_count, counted.guest_count), (360, Some(400)));
        assert_eq!(counted.text, [b"2".to_vec(), b"6".to_vec()]);
        let row = Row { kernel: CRC, above: counted.own_count, below: 400 };
        assert_eq!(row.text(("LA64", "MIPS64")), "integer crc 0.900 (LA64 360, MIPS64 400)");
        for (short, long) in [(6, 2), (2, 2)] {
            let why = translated(short, long).unwrap_err();
            assert!(why.to_string().contains("crc: the longer run"), "{why}");
        }
        assert_eq!(
            at(Way::Qemu(Guest::Mips64), 2).guest,
            None,
            "QEMU's program is not ours to count"
        );
    }

    #[test]
    fn what_does_not_count_has_no_figure() {
        let native = printed("x", "la64: 7 instructions retired, 3 blocks\n");
        assert_eq!(read(Way::Native(Target::LoongArch), &native).unwrap().own, 7);
        let why = read(Way::Translated(Guest::Mips64), &native).unwrap_err();
        assert!(why.to_string().contains("MIPS64 instructions executed"), "{why}");
        assert!(read(Way::Qemu(Guest::Mips64), &printed("x", "killed\n")).is_err());
    }
}
