//! Studies of computing near storage, as `littoral push whatif` and `push sweep` print them: their
//! sentence and their charts.
//!
//! Invariants
//! - A study whose rows do not fill its grid is refused. Checked by
//!   `a_grid_with_a_missing_cell_is_refused`.

use littoral_base::units::PerSecond;
use serde::Deserialize;
use serde_json::Value;

use crate::chart::{Chart, Shape};
use crate::error::{Error, Kind, Result};

/// The schema of `push whatif`.
pub(super) const WHATIF: &str = "littoral.push.whatif/1";
/// The schema of `push sweep`.
pub(super) const SWEEP: &str = "littoral.push.sweep/1";

/// What the values of every chart are.
const UNIT: &str = "time over the host alone";

/// A study as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct PushStudy {
    /// What was studied.
    pub title: String,
    /// What came out.
    pub sentence: String,
    /// The same as series.
    pub charts: Vec<Chart>,
}

#[derive(Deserialize)]
struct Whatif {
    profile: String,
    pages_count: u64,
    cells: Vec<Cell>,
    curve: Vec<Point>,
    sentence: String,
}

#[derive(Deserialize)]
struct Cell {
    link_bytes_per_s: u64,
    cores_count: u32,
    core_mhz_count: u64,
    time_over_host_ratio: f64,
}

#[derive(Deserialize)]
struct Point {
    core_speed_ratio: f64,
    time_over_host_ratio: f64,
}

#[derive(Deserialize)]
struct Sweep {
    profile: String,
    pages_count: u64,
    policies: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    policy: String,
    time_over_host_ratio: f64,
}

fn bad(schema: &str) -> impl Fn(serde_json::Error) -> Error + '_ {
    move |e| Error::with_source(Kind::BadResult, format!("not of the shape {schema}"), e)
}

fn title(pages: u64, profile: &str) -> String {
    format!("A scan of {pages} pages near storage, profile {profile}, virtual time")
}

/// The study that `push whatif` printed.
pub(super) fn whatif(value: Value) -> Result<PushStudy> {
    let found: Whatif = serde_json::from_value(value).map_err(bad(WHATIF))?;
    let places = found.curve.iter().map(|p| format!("{:.4}", p.core_speed_ratio));
    let places = places.map(|p| p.trim_end_matches('0').trim_end_matches('.').to_owned());
    let values = found.curve.iter().map(|p| p.time_over_host_ratio).collect();
    let names = ("core speed over the profile's", UNIT);
    let series = vec![("late binding".to_owned(), values)];
    let curve =
        Chart::new("Faster cores on one link", Shape::Lines, names, places.collect(), series);
    Ok(PushStudy {
        title: title(found.pages_count, &found.profile),
        charts: vec![curve, grid(&found.cells)?],
        sentence: found.sentence,
    })
}

/// A line per link over the cores.
fn grid(cells: &[Cell]) -> Result<Chart> {
    let (mut links, mut cores) = (Vec::new(), Vec::new());
    for cell in cells {
        if !links.contains(&cell.link_bytes_per_s) {
            links.push(cell.link_bytes_per_s);
        }
        let own = (cell.cores_count, cell.core_mhz_count);
        if !cores.contains(&own) {
            cores.push(own);
        }
    }
    let value = |link: u64, own: (u32, u64)| {
        let is_it =
            |c: &&Cell| c.link_bytes_per_s == link && (c.cores_count, c.core_mhz_count) == own;
        let missing = || {
            let what = format!("{} cores of {} MHz on a link of {link} B/s", own.0, own.1);
            Error::new(Kind::BadResult, format!("{WHATIF} has no cell of {what}"))
        };
        cells.iter().find(is_it).map(|c| c.time_over_host_ratio).ok_or_else(missing)
    };
    let line = |&link: &u64| {
        let values = cores.iter().map(|&own| value(link, own)).collect::<Result<Vec<_>>>()?;
        Ok((PerSecond(link as f64).to_string().replace("/s", "B/s"), values))
    };
    let series = links.iter().map(line).collect::<Result<Vec<_>>>()?;
    let places = cores.iter().map(|(count, mhz)| format!("{count} x {mhz} MHz")).collect();
    Ok(Chart::new("Links and cores", Shape::Lines, ("cores", UNIT), places, series))
}

/// The study that `push sweep` printed.
pub(super) fn sweep(value: Value) -> Result<PushStudy> {
    let found: Sweep = serde_json::from_value(value).map_err(bad(SWEEP))?;
    let least = found
        .policies
        .iter()
        .min_by(|a, b| a.time_over_host_ratio.total_cmp(&b.time_over_host_ratio));
    let Some(least) = least else {
        return Err(Error::new(Kind::BadResult, format!("{SWEEP} has no policy")));
    };
    let sentence = format!(
        "The shortest time is that of policy {}: {:.2} of the host's alone.",
        least.policy, least.time_over_host_ratio
    );
    let places = found.policies.iter().map(|row| row.policy.clone()).collect();
    let values = found.policies.iter().map(|row| row.time_over_host_ratio).collect();
    let series = vec![("time".to_owned(), values)];
    let chart = Chart::new("Policies", Shape::Bars, ("policy", UNIT), places, series);
    Ok(PushStudy { title: title(found.pages_count, &found.profile), sentence, charts: vec![chart] })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// What `push whatif` prints of two links and two speeds.
    pub(crate) fn example() -> Value {
        let cell = |link: u64, mhz: u64, over: f64| {
            json!({"link_bytes_per_s": link, "cores_count": 1, "core_mhz_count": mhz,
                "time_over_host_ratio": over})
        };
        let (speed, over) = ("core_speed_ratio", "time_over_host_ratio");
        let point = |s: f64, o: f64| json!({speed: s, over: o});
        json!({"schema": WHATIF, "profile": "<board>", "clock": "virtual", "pages_count": 7,
            "cells": [cell(2_000_000, 200, 1.0), cell(2_000_000, 400, 0.75),
                cell(1_000_000, 200, 0.875), cell(1_000_000, 400, 0.5)],
            "curve": [point(1.0, 0.875), point(1.5, 0.5)], "sentence": "Faster cores help."})
    }

    #[test]
    fn a_grid_becomes_a_line_per_link_and_the_curve_one_of_its_own() {
        let study = whatif(example()).unwrap();
        let [curve, grid] = &study.charts[..] else { panic!("{study:?}") };
        assert_eq!(
            (&curve.places[..], &curve.series[0].values[..]),
            (&["1".to_owned(), "1.5".to_owned()][..], &[0.875, 0.5][..])
        );
        let lines: Vec<_> = grid.series.iter().map(|s| (s.name.as_str(), &s.values[..])).collect();
        assert_eq!(lines, [("2 MB/s", &[1.0, 0.75][..]), ("1 MB/s", &[0.875, 0.5][..])]);
    }

    #[test]
    fn a_grid_with_a_missing_cell_is_refused() {
        let mut value = example();
        value["cells"].as_array_mut().unwrap().pop();
        let error = whatif(value).unwrap_err();
        assert_eq!(error.kind(), Kind::BadResult);
        assert!(error.to_string().contains("400 MHz on a link of 1000000 B/s"), "{error}");
    }

    #[test]
    fn a_sweep_names_the_shortest_policy() {
        let row = |policy: &str, over: f64| json!({"policy": policy, "time_over_host_ratio": over});
        let rows = json!([row("host", 1.0), row("late", 0.5), row("device", 3.0)]);
        let value = json!({"profile": "board", "pages_count": 7, "policies": rows});
        let study = sweep(value).unwrap();
        assert!(study.sentence.contains("policy late: 0.50"), "{}", study.sentence);
        assert_eq!(study.charts[0].series[0].values, [1.0, 0.5, 3.0]);
        let none = json!({"profile": "board", "pages_count": 7, "policies": []});
        assert_eq!(sweep(none).unwrap_err().kind(), Kind::BadResult);
    }
}
