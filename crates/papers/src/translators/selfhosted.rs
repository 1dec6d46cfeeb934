//! The translator's own LoongArch build: the fifteen jobs of Debian's amd64 programs on our engine,
//! whose instructions are then those of translating and of what was translated, beside LoongArch's
//! build of QEMU.

use std::ffi::OsStr;

use littoral_bench::claims::Figure;
use littoral_bench::repro::Answer;

use super::counts::Guest;
use crate::loongarch::jobs::{self, Inputs, JOBS, Side};
use crate::loongarch::kernels::geometric_mean;
use crate::loongarch::{Tools, tools};

const UNIT: &str = " instructions retired";

/// Instructions of our build over those of QEMU's, where all jobs are right.
pub(super) fn selfhosted(found: &Tools) -> Answer {
    let root = found.guest_root(Guest::X86.debian())?;
    let (xlate, qemu) = (found.guest_xlate()?, found.guest_qemu("x86_64")?);
    let inputs = Inputs::write(&found.scratch)?;
    let (mut ratios, mut notes, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    for job in &JOBS {
        let native = tools::output(&mut job.on(Side::Native, found, &root, &inputs, &[])?)?;
        let run = |host: &[&OsStr], name: &str| {
            tools::output(&mut job.hosted(found, &root, &inputs, (host, name)))
        };
        let ours = run(&[xlate.as_os_str(), "run".as_ref()], "--argv0")?;
        let theirs = run(&[qemu.as_os_str()], "-0")?;
        if let Some(why) = jobs::difference(&ours, &native) {
            wrong.push(format!("{}: {why}", job.name));
        }
        let counts = [&ours, &theirs].map(|out| tools::number_before(out, UNIT));
        if let [Ok(ours), Ok(theirs)] = counts {
            let ratio = ours as f64 / theirs as f64;
            notes.push(format!("{} {ratio:.3} (ours {ours}, QEMU {theirs})", job.name));
            ratios.push(ratio);
        }
    }
    let right = JOBS.len() - wrong.len();
    let note = format!("geometric mean of {} jobs, start-up included; {right} right", ratios.len());
    let mut figure = Figure::new(geometric_mean(&ratios), note);
    figure.notes.extend(notes);
    let figure = figure.provided(ratios.len() == JOBS.len(), "every job was counted on both");
    Ok(figure.provided(wrong.is_empty(), format!("equal results; not {wrong:?}")))
}
