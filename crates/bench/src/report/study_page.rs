//! A what-if study as a part of the page: the answer, a heat map and curves per job, the devices.
//!
//! Text stands in HTML, never inside an SVG, so that it keeps its size on a narrow screen; colours
//! are the page's variables.

use std::fmt::Write as _;

use littoral_base::units::{Bytes, PerSecond, Picos};
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment};
use serde::Serialize;

use crate::error::{Error, Kind, Result};
use crate::report::study::{Cell, DeviceRow, JobStudy, Study};
use crate::whatif::verdict::Grade;

const TEMPLATE: &str = include_str!("study.html");
/// Size of a curve's drawing area, in its own units.
const CURVE: (f64, f64) = (320.0, 160.0);

#[derive(Serialize)]
struct Part<'a> {
    study: &'a Study,
    jobs: Vec<JobPart<'a>>,
    devices: Vec<DevicePart>,
}

#[derive(Serialize)]
struct JobPart<'a> {
    study: &'a JobStudy,
    dram: String,
    quartiles: String,
    heads: Vec<String>,
    rows: Vec<RowPart>,
    curve: Option<String>,
    series: Vec<String>,
    x_low: String,
    x_high: String,
    y_low: String,
    y_high: String,
}

#[derive(Serialize)]
struct RowPart {
    head: String,
    cells: Vec<CellPart>,
}

#[derive(Serialize)]
struct CellPart {
    class: &'static str,
    title: String,
    ratio: String,
    measured: String,
    /// Of the measured ratio; empty where it was not run.
    quartiles: String,
    energy: Option<String>,
    bound: &'static str,
    is_close: bool,
    marked: bool,
}

#[derive(Serialize)]
struct DevicePart {
    name: String,
    latency: String,
    rate: String,
    link: String,
    granule: String,
    longest: String,
    price: String,
    watts: String,
    mean: String,
}

/// The part of the page that shows `study`.
///
/// # Errors
/// `Kind::BadResult` when the template cannot be filled.
pub(super) fn render(study: &Study) -> Result<String> {
    let part = Part {
        study,
        jobs: study.jobs.iter().map(|job| job_part(study, job)).collect(),
        devices: study.devices.iter().map(device_part).collect(),
    };
    let mut jinja = Environment::new();
    jinja.set_auto_escape_callback(|_| AutoEscape::Html);
    let page = jinja.render_str(TEMPLATE, Serde(part));
    page.map_err(|e| Error::with_source(Kind::BadResult, "cannot show the study", e))
}

fn time(ns: f64) -> String {
    Picos((ns * 1e3) as u64).to_string()
}

/// A ratio with as many digits as it deserves.
pub(crate) fn ratio(value: f64) -> String {
    if value >= 9.95 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn device_part(row: &DeviceRow) -> DevicePart {
    DevicePart {
        name: row.name.clone(),
        latency: time(row.latency_ns),
        rate: PerSecond(row.reads_per_s).to_string(),
        link: PerSecond(row.link_bytes_per_s).to_string().replace("/s", "B/s"),
        granule: Bytes(row.granule_bytes).to_string(),
        longest: Bytes(row.read_max_bytes).to_string(),
        price: row.edges_price.map_or("-".to_owned(), |p| format!("{p:.2}")),
        watts: row.power_w.map_or("-".to_owned(), |w| format!("{w:.1}")),
        mean: ratio(row.mean_ratio),
    }
}

/// The different values of a figure over devices, ascending.
pub(crate) fn values(study: &Study, figure: fn(&DeviceRow) -> f64) -> Vec<f64> {
    let mut values: Vec<f64> = study.devices.iter().map(figure).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

fn latency(row: &DeviceRow) -> f64 {
    row.latency_ns
}

fn rate(row: &DeviceRow) -> f64 {
    row.reads_per_s
}

/// The cell of a grid's device.
pub(crate) fn cell_of<'s>(
    study: &'s Study,
    job: &'s JobStudy,
    latency_ns: f64,
    reads_per_s: f64,
) -> Option<&'s Cell> {
    let here = |d: &DeviceRow| d.latency_ns == latency_ns && d.reads_per_s == reads_per_s;
    job.cells.get(study.devices.iter().position(here)?)
}

fn job_part<'a>(study: &Study, job: &'a JobStudy) -> JobPart<'a> {
    let quartiles = [job.dram.time_ns_p25, job.dram.time_ns_p75].map(time).join(" to ");
    let (heads, rows) = if study.is_grid { grid(study, job) } else { named(study, job) };
    let curves = study.is_grid.then(|| Curves::of(study, job));
    let (low, high) = curves.as_ref().map_or((1.0, 1.0), |c| c.y);
    let latencies = values(study, latency);
    let end = |v: Option<&f64>| v.map_or(String::new(), |&v| time(v));
    let series = values(study, rate).into_iter().map(|r| PerSecond(r).to_string());
    JobPart {
        study: job,
        dram: time(job.dram.time_ns),
        quartiles,
        heads,
        rows,
        series: if study.is_grid { series.collect() } else { Vec::new() },
        curve: curves.map(|c| c.svg(study, job)),
        x_low: end(latencies.first()),
        x_high: end(latencies.last()),
        y_low: ratio(low),
        y_high: ratio(high),
    }
}

/// Rates down, latencies across.
fn grid(study: &Study, job: &JobStudy) -> (Vec<String>, Vec<RowPart>) {
    let latencies = values(study, latency);
    let rows = values(study, rate).into_iter().rev().map(|reads_per_s| RowPart {
        head: PerSecond(reads_per_s).to_string(),
        cells: latencies
            .iter()
            .filter_map(|&ns| cell_of(study, job, ns, reads_per_s))
            .map(cell_part)
            .collect(),
    });
    (latencies.iter().map(|&ns| time(ns)).collect(), rows.collect())
}

/// One row per device, the best first.
fn named(study: &Study, job: &JobStudy) -> (Vec<String>, Vec<RowPart>) {
    let mut rows: Vec<(&DeviceRow, &Cell)> = study.devices.iter().zip(&job.cells).collect();
    rows.sort_by(|a, b| a.1.predicted_ratio.total_cmp(&b.1.predicted_ratio));
    let row = |(device, cell): &(&DeviceRow, &Cell)| RowPart {
        head: device.name.clone(),
        cells: vec![cell_part(cell)],
    };
    (vec!["time over DRAM".to_owned()], rows.iter().map(row).collect())
}

fn cell_part(cell: &Cell) -> CellPart {
    let class = match (cell.grade, cell.predicted_ratio) {
        (Grade::AsGood, _) => "h0",
        (Grade::TooClose, _) => "close",
        (Grade::Slower, r) if r <= 1.5 => "h1",
        (Grade::Slower, r) if r <= 3.0 => "h2",
        (Grade::Slower, r) if r <= 10.0 => "h3",
        (Grade::Slower, _) => "h4",
    };
    let measured = cell.measured_ratio.map_or("not run".to_owned(), ratio);
    let quartiles = match (cell.measured_ratio_p25, cell.measured_ratio_p75) {
        (Some(a), Some(b)) => format!("{} to {}", ratio(a), ratio(b)),
        _ => String::new(),
    };
    CellPart {
        class,
        title: format!(
            "predicted {}, measured {measured}; {}",
            time(cell.predicted_ns),
            cell.grade.name()
        ),
        ratio: ratio(cell.predicted_ratio),
        measured,
        quartiles,
        energy: cell.energy(),
        is_close: cell.grade == Grade::TooClose,
        bound: cell.bound.name(),
        marked: cell.disagrees,
    }
}

/// Curves of time over DRAM against latency, both logarithmic, one per rate.
struct Curves {
    x: (f64, f64),
    y: (f64, f64),
}

impl Curves {
    fn of(study: &Study, job: &JobStudy) -> Curves {
        let range = |values: Vec<f64>| {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            (low, values.iter().copied().fold(low, f64::max))
        };
        let ratios = job.cells.iter().map(|c| c.predicted_ratio);
        let (low, high) = range(ratios.chain([1.0]).collect());
        Curves { x: range(values(study, latency)), y: (low * 0.95, high * 1.05) }
    }

    fn place(&self, latency_ns: f64, ratio: f64) -> (f64, f64) {
        let share = |v: f64, (low, high): (f64, f64)| {
            if high > low { (v / low).ln() / (high / low).ln() } else { 0.5 }
        };
        (CURVE.0 * share(latency_ns, self.x), CURVE.1 * (1.0 - share(ratio, self.y)))
    }

    fn svg(&self, study: &Study, job: &JobStudy) -> String {
        let mut svg = format!(
            "<svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" role=\"img\" \
             aria-label=\"time over DRAM by latency, one line per rate\">",
            CURVE.0, CURVE.1
        );
        let base = self.place(self.x.0, 1.0).1;
        let words = "invariant: a string takes all";
        write!(
            svg,
            "<line x1=\"0\" y1=\"{base:.1}\" x2=\"{}\" y2=\"{base:.1}\" stroke=\"var(--soft)\" \
             stroke-dasharray=\"4 4\" vector-effect=\"non-scaling-stroke\"/>",
            CURVE.0
        )
        .expect(words);
        for (i, reads_per_s) in values(study, rate).into_iter().enumerate() {
            let points = values(study, latency).into_iter().filter_map(|ns| {
                let cell = cell_of(study, job, ns, reads_per_s)?;
                let (x, y) = self.place(ns, cell.predicted_ratio);
                Some(format!("{x:.1},{y:.1}"))
            });
            write!(
                svg,
                "<polyline fill=\"none\" stroke=\"var(--s{})\" stroke-width=\"2\" \
                 vector-effect=\"non-scaling-stroke\" points=\"{}\"/>",
                i % 6 + 1,
                points.collect::<Vec<_>>().join(" ")
            )
            .expect(words);
        }
        svg.push_str("</svg>");
        svg
    }
}

#[cfg(test)]
pub(crate) mod sample;

#[cfg(test)]
mod tests {
    use super::sample::example;
    use super::*;

    #[test]
    fn every_job_has_a_heat_map_and_curves_whose_text_is_outside_the_drawing() {
        let page = render(&example()).unwrap().replace("&#x2f;", "/");
        assert_eq!((page.matches("<svg").count(), page.matches("class=\"heat\"").count()), (2, 2));
        assert_eq!(page.matches("<text").count(), 0);
        assert_eq!(page.matches("<polyline").count(), 4, "a curve per rate and job");
        for words in ["2025-01-01", "revision test", "100 M/s", "not run", "6.50", "hint T0"] {
            assert!(page.contains(words), "{words} is missing");
        }
        assert_eq!(page.matches(" !").count() - page.matches(" ! differs").count(), 4, "marks");
    }

    #[test]
    fn the_key_has_the_colours_of_the_curves_however_many_they_are() {
        let mut study = example();
        let (row, cell) = (study.devices[0].clone(), study.jobs[0].cells[0]);
        let at = |n: i32| DeviceRow { reads_per_s: f64::from(n) * 1e6, ..row.clone() };
        study.devices = (1..=7).map(at).collect();
        study.jobs.truncate(1);
        study.jobs[0].cells = vec![cell; 7];
        let page = render(&study).unwrap();
        let count = |n: u32| page.matches(&format!("var(--s{n})")).count();
        assert_eq!((count(7), count(2)), (0, 2), "a page has six colours");
        assert_eq!(count(1), 4, "curves and key of the first rate and of the seventh");
    }

    #[test]
    fn a_cell_that_is_too_close_to_call_is_marked_and_has_the_colour_of_its_grade() {
        let mut study = example();
        let cells = |page: &str| page.matches("</b> ~").count();
        assert_eq!(cells(&render(&study).unwrap()), 0);
        let cell = &mut study.jobs[1].cells[3];
        (cell.predicted_ratio, cell.grade) = (1.09, Grade::of(1.09, 0.0));
        (cell.measured_ratio_p25, cell.measured_ratio_p75) = (Some(1.28), Some(1.33));
        let page = render(&study).unwrap();
        assert_eq!((cells(&page), page.matches("<td class=\"close\"").count()), (1, 1));
        assert_eq!(page.matches("<td class=\"h0\"").count(), 1, "not as good as DRAM");
        assert!(page.contains("~ too close to call</span>"), "the key explains the mark");
        assert!(page.contains("1.28 to 1.33"), "quartiles stand in the cell");
    }

    #[test]
    fn devices_by_name_are_a_list_from_best_to_worst() {
        let mut study = example();
        study.is_grid = false;
        let page = render(&study).unwrap().replace("&#x2f;", "/");
        assert_eq!(page.matches("<svg").count(), 0);
        let first = page.find("1 us, 100 M/s").unwrap();
        assert!(first < page.find("6 us, 5 M/s").unwrap());
        assert!(!page.contains(" mJ"), "no energy without a power");
        study.jobs[0].cells[2].energy_j = Some(0.0042);
        assert!(render(&study).unwrap().contains(" latency, 4.20 mJ</small>"));
    }
}
