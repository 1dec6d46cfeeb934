//! The words of a study: what a person can act on.
//!
//! Sentences name grades, places of the grid and figures of a ladder, never digits that the next
//! run would not repeat.

use littoral_base::mutant;
use littoral_base::units::Bytes;

use super::devices::{BASE, Device, NEAR_LATENCY};
use super::study::{Cell, JobStudy, Memory, Study};
use super::verdict::{Grade, rounded};
use super::{DISAGREES, MEASURED_MIN, Options};

/// The devices of one job in words, the best first.
pub(super) fn ranking(devices: &[Device], cells: &[Cell]) -> String {
    let mut order: Vec<(&Device, &Cell)> = devices.iter().zip(cells).collect();
    order.sort_by(|a, b| a.1.predicted_ratio.total_cmp(&b.1.predicted_ratio));
    let words = |(device, cell): &(&Device, &Cell)| match cell.grade {
        Grade::Slower => {
            let ratio = rounded(cell.predicted_ratio);
            format!("{} takes {ratio} as long", device.name)
        }
        grade => format!("{} is {}", device.name, grade.name()),
    };
    order.iter().map(words).collect::<Vec<_>>().join(", ")
}

/// The closing paragraph.
pub(super) fn answer(study: &Study) -> Vec<String> {
    let mut lines: Vec<String> = study.jobs.iter().map(job_line).collect();
    lines.push(memory_line(&study.memory));
    if study.fits_cache {
        let cache = Bytes(study.cache_bytes.unwrap_or(0));
        lines.push(format!(
            "The whole graph fits this processor's last-level cache ({cache}): \"DRAM\" here is that \
             cache. On a graph that does not fit, or beside other work, flash looks better than this."
        ));
    }
    lines.push(advice(study));
    lines
}

/// Why some of the study should be measured again: verdicts that the spread could flip, prediction
/// and measurement that differ, and better devices that came out slower.
pub(super) fn warnings(study: &Study) -> Vec<String> {
    let mut lines = Vec::new();
    let could_flip = |job: &&JobStudy| job.verdict.as_ref().is_some_and(|v| v.could_flip);
    let flips: Vec<&str> =
        study.jobs.iter().filter(could_flip).map(|job| job.name.as_str()).collect();
    if !flips.is_empty() {
        lines.push(format!(
            "Too close to call for {}: the spread of the best device's time over DRAM reaches \
             across the limit between close to DRAM and slower. Run again on an idle machine, or \
             for longer with --time.",
            flips.join(", ")
        ));
    }
    if study.disagreeing_cells_count > 0 {
        lines.push(format!(
            "{} cells are marked: their paced runs differ from the model by more than {:.0} %. Run \
             again on an idle machine, or for longer with --time, before relying on those cells.",
            study.disagreeing_cells_count,
            DISAGREES * 100.0
        ));
    }
    let scattered = study.jobs.iter().filter(|job| scatters(study, job));
    let scattered: Vec<&str> = scattered.map(|job| job.name.as_str()).collect();
    if !scattered.is_empty() {
        lines.push(format!(
            "Measured times scatter for {}: better devices came out more than {:.0} % slower than \
             worse ones. Other work runs on this machine.",
            scattered.join(", "),
            DISAGREES * 100.0
        ));
    }
    lines
}

/// Whether a device was measured slower than one that is no better in any figure. Devices by name
/// may also differ in what their interface costs the processor. The prediction counts that; where
/// it says slower too, nothing scatters.
fn scatters(study: &Study, job: &JobStudy) -> bool {
    let rows = || study.devices.iter().zip(&job.cells);
    let measured = |cell: &Cell| cell.measured_ratio.unwrap_or(f64::NAN);
    rows().any(|(better, a)| {
        rows().any(|(worse, b)| {
            better.latency_ns <= worse.latency_ns
                && better.reads_per_s >= worse.reads_per_s
                && better.link_bytes_per_s >= worse.link_bytes_per_s
                && better.granule_bytes <= worse.granule_bytes
                && better.read_max_bytes >= worse.read_max_bytes
                && (study.is_grid || a.predicted_ratio <= b.predicted_ratio)
                && measured(a) > measured(b) * (1.0 + DISAGREES)
        })
    })
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

fn job_line(job: &JobStudy) -> String {
    format!("{}: {}.", capital(&job.name), job.sentence)
}

/// Jobs by whether a device serves them as DRAM does.
#[derive(Default)]
struct Sides<'s> {
    good: Vec<&'s str>,
    close: Vec<&'s str>,
    bad: Vec<&'s str>,
}

impl Sides<'_> {
    fn of(study: &Study) -> Sides<'_> {
        let mut sides = Sides::default();
        for job in &study.jobs {
            let least = match &job.verdict {
                Some(verdict) => Some(verdict.grade),
                None => job.cells.iter().map(|c| c.grade).min(),
            };
            let side = match least {
                Some(Grade::Slower) => &mut sides.bad,
                Some(Grade::TooClose) if !mutant!("whatif_too_close_is_good") => &mut sides.close,
                _ => &mut sides.good,
            };
            side.push(&job.name);
        }
        sides
    }
}

/// What to do, from which kinds of job have a device.
fn advice(study: &Study) -> String {
    let sides = Sides::of(study);
    let close = format!(
        "Too close to call for {}: run again on an idle machine, or for longer with --time.",
        sides.close.join(", ")
    );
    match (decided(study, &sides), sides.close.is_empty()) {
        (Some(advice), true) => advice,
        (Some(advice), false) => format!("{advice} {close}"),
        (None, _) => close,
    }
}

/// The advice for the jobs that are not too close to call; nothing where there are none.
fn decided(study: &Study, Sides { good, close, bad }: &Sides<'_>) -> Option<String> {
    let searches_wait = study.jobs.iter().any(|j| j.kind == "search" && bad.contains(&&*j.name));
    let batch = study.jobs.iter().find(|j| j.kind == "searches" && good.contains(&&*j.name));
    Some(match (&good[..], &bad[..], searches_wait, batch) {
        ([], [], _, _) => return None,
        (_, [], _, _) if close.is_empty() => {
            "Every job has a device here that serves it: choose by \
            the line of the job that asks the most."
                .to_owned()
        }
        (_, [], _, _) => format!("Put the edges on flash for {}.", good.join(", ")),
        ([_, ..], _, true, Some(batch)) => format!(
            "A single search waits for reads that depend on one another; no rate helps. Where many \
             searches can run at once, run {} or more per core; where one answer must come quickly, \
             keep its edges in DRAM.",
            batch.at_once_count
        ),
        ([_, ..], _, _, _) => format!(
            "Put the edges on flash for {}; keep them in DRAM for {}.",
            good.join(", "),
            bad.join(", ")
        ),
        ([], _, _, _) if close.is_empty() => {
            "None of these devices serves any of the jobs as DRAM \
            does: keep the edges in DRAM, or accept the factors above."
                .to_owned()
        }
        ([], _, _, _) => {
            format!("Keep the edges in DRAM for {}, or accept the factors above.", bad.join(", "))
        }
    })
}

fn memory_line(memory: &Memory) -> String {
    let (state, edges) = (Bytes(memory.state_bytes), Bytes(memory.edges_bytes));
    match (memory.granted_bytes, memory.cached_bytes) {
        (Some(granted), _) if granted < memory.state_bytes => {
            let granted = Bytes(granted);
            format!("{granted} of DRAM do not hold the {state} of vertex state these jobs need.")
        }
        (Some(granted), Some(cached)) if cached >= memory.edges_bytes => {
            let granted = Bytes(granted);
            format!("{granted} of DRAM hold all {edges} of edges too: flash is not needed.")
        }
        (Some(granted), Some(cached)) => format!(
            "Of {} of DRAM, {state} hold vertex state and {} or more the hottest of {edges} of edges.",
            Bytes(granted),
            Bytes(cached)
        ),
        _ => format!(
            "With the edges on flash, the jobs need {state} of DRAM in place of {}.",
            Bytes(memory.state_bytes + memory.edges_bytes)
        ),
    }
}

/// What was modelled and measured.
pub(super) fn notes(options: &Options, jobs: &[JobStudy]) -> Vec<String> {
    let mut notes = vec![
        format!(
            "predicted: from the job's reads, bytes and chains of dependent reads, the processor \
             time measured with a device of {NEAR_LATENCY} latency, and the device's figures"
        ),
        "measured: paced, our code on one core in real time against a modelled device's deadlines; \
         medians of interleaved rounds, processor time of the thread"
            .to_owned(),
        "no claim holds predictions for shortest paths, betweenness, core numbers and triangles \
         against measurements: trust their measured cells first"
            .to_owned(),
        "DRAM: the form that a trial on this processor found best, for each job".to_owned(),
        "data are handed out by pointer; `graph bfs --medium flash --copy` shows the other bound"
            .to_owned(),
    ];
    if options.parts.is_empty() {
        notes.push(format!("granule, longest read and link as profile {BASE}"));
    }
    notes.extend(short_note(jobs));
    notes
}

/// Which jobs were measured in DRAM for less than [`MEASURED_MIN`], if any.
fn short_note(jobs: &[JobStudy]) -> Option<String> {
    let is_short = |job: &&JobStudy| job.dram.measured_ns < MEASURED_MIN.as_nanos() as f64;
    let words = |job: &JobStudy| format!("{} ({:.0} ms)", job.name, job.dram.measured_ns / 1e6);
    let short: Vec<String> = jobs.iter().filter(is_short).map(words).collect();
    (!short.is_empty()).then(|| {
        format!(
            "measured in DRAM for less than {} s: {}; a longer --time or fewer --kernels give each \
             job more",
            MEASURED_MIN.as_secs(),
            short.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::study_example as example;

    #[test]
    fn the_answer_has_a_line_for_each_job_and_says_what_to_do() {
        let mut study = example();
        let lines = answer(&study);
        assert!(
            lines[0].starts_with("Search: 1.1 to 2 times as long as in DRAM at best;"),
            "{lines:?}"
        );
        assert!(lines[1].starts_with("Pagerank: as good as DRAM or close to it, less than 1.45"));
        let words = lines.join(" ");
        assert!(words.contains("1 MiB of DRAM in place of 5 MiB"), "{words}");
        assert!(words.contains("last-level cache (32 MiB)"), "{words}");
        assert!(
            words.contains("Put the edges on flash for pagerank; keep them in DRAM for search.")
        );
        study.memory.granted_bytes = Some(1000);
        assert!(answer(&study).join(" ").contains("do not hold the 1 MiB of vertex state"));
        (study.memory.granted_bytes, study.memory.cached_bytes) = (Some(9 << 20), Some(4 << 20));
        assert!(answer(&study).join(" ").contains("flash is not needed"));
    }

    #[test]
    fn a_job_that_is_too_close_to_call_is_neither_good_nor_bad() {
        let mut study = example();
        study.is_grid = false;
        for job in &mut study.jobs {
            job.verdict = None;
        }
        // Pagerank's best devices are within the margin of the limit; search is slower on all.
        for cell in &mut study.jobs[1].cells[2..] {
            cell.grade = Grade::of(1.11, 0.0);
        }
        let retry = "Too close to call for pagerank: run again on an idle machine, or for longer \
                     with --time.";
        let keep = "Keep the edges in DRAM for search, or accept the factors above.";
        assert_eq!(advice(&study), format!("{keep} {retry}"));
        study.jobs[0].cells[0].grade = Grade::AsGood;
        assert_eq!(advice(&study), format!("Put the edges on flash for search. {retry}"));
        study.jobs.remove(0);
        assert_eq!(advice(&study), retry);
    }

    #[test]
    fn a_verdict_of_a_grid_that_the_spread_could_flip_is_a_warning_outside_the_answer() {
        let mut study = example();
        let before = answer(&study);
        study.jobs[1].verdict.as_mut().unwrap().could_flip = true;
        let lines = warnings(&study);
        assert!(lines[0].starts_with("Too close to call for pagerank: the spread"), "{lines:?}");
        assert_eq!(answer(&study), before, "the answer is the same in every run");
    }

    #[test]
    fn jobs_measured_for_less_than_a_second_in_dram_are_noted() {
        let mut jobs = example().jobs;
        assert_eq!(short_note(&jobs), None, "a second each");
        jobs[1].dram.measured_ns = 3.4e8;
        let note = short_note(&jobs).unwrap();
        assert!(
            note.starts_with("measured in DRAM for less than 1 s: pagerank (340 ms);"),
            "{note}"
        );
    }

    #[test]
    fn marked_cells_and_scatter_are_said_outside_the_answer() {
        let mut study = example();
        study.jobs[1].cells[3].measured_ratio = Some(1.0);
        study.jobs[1].cells[2].measured_ratio = Some(1.2);
        let lines = warnings(&study);
        assert!(lines[0].starts_with("2 cells are marked"), "{lines:?}");
        assert!(lines[1].starts_with("Measured times scatter for pagerank:"), "{lines:?}");
        let warned = |study: &Study| warnings(study).join(" ").contains("scatter for pagerank");
        study.is_grid = false;
        assert!(warned(&study), "devices by name scatter as well");
        study.devices[2].granule_bytes = 4096;
        assert!(!warned(&study), "worse in one figure");
        study.devices[2].granule_bytes = 16;
        study.jobs[1].cells[2].predicted_ratio = 1.3;
        assert!(!warned(&study), "slower by its interface, as predicted");
        study.disagreeing_cells_count = 0;
        study.jobs.truncate(1);
        study.jobs[0].cells.iter_mut().for_each(|c| c.measured_ratio = None);
        assert!(warnings(&study).is_empty(), "what was not run cannot scatter");
    }
}
