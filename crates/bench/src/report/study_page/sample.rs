//! A study of two jobs on a grid of four devices, for tests of what shows studies.

use littoral_base::units::PerSecond;

use super::time;
use crate::report::study::{Cell, DeviceRow, DramTime, JobStudy, Memory, SCHEMA, Study};
use crate::whatif::model::Bound;
use crate::whatif::verdict::{Grade, Point, judge};

fn device(latency_ns: f64, reads_per_s: f64) -> DeviceRow {
    DeviceRow {
        name: format!("{}, {}", time(latency_ns), PerSecond(reads_per_s)),
        profile_hash: "0123456789abcdef".into(),
        latency_ns,
        reads_per_s,
        link_bytes_per_s: 12.8e9,
        granule_bytes: 16,
        read_max_bytes: 2048,
        edges_price: None,
        power_w: None,
        mean_ratio: 1.5,
    }
}

fn cell(predicted_ratio: f64) -> Cell {
    Cell {
        predicted_ns: predicted_ratio * 1e6,
        predicted_ratio,
        spread_ratio: 0.01,
        measured_ns: (predicted_ratio < 4.0).then_some(1.3e6),
        measured_ratio: (predicted_ratio < 4.0).then_some(1.3),
        measured_ratio_p25: None,
        measured_ratio_p75: None,
        bound: Bound::Latency,
        grade: Grade::of(predicted_ratio, 0.0),
        disagrees: predicted_ratio > 1.75,
        energy_j: None,
    }
}

fn job(devices: &[DeviceRow], kind: &str, ratios: [f64; 4]) -> JobStudy {
    let point = |(d, ratio): (&DeviceRow, f64)| Point {
        latency_ns: d.latency_ns,
        reads_per_s: d.reads_per_s,
        ratio,
        spread: 0.0,
    };
    let points: Vec<Point> = devices.iter().zip(ratios).map(point).collect();
    let verdict = judge(&[points]).remove(0);
    JobStudy {
        kernel: kind.into(),
        kind: kind.into(),
        name: kind.into(),
        at_once_count: 1,
        dram: DramTime {
            form: "read directly, hint T0".into(),
            time_ns: 1e6,
            time_ns_p25: 0.9e6,
            time_ns_p75: 1.1e6,
            repetitions_count: 9,
            measured_ns: 1e9,
            forms: Vec::new(),
        },
        reads_count: 100,
        read_bytes: 6400,
        depth_count: 7,
        processor_ns: 1e5,
        cells: ratios.map(cell).into(),
        sentence: verdict.words(),
        verdict: Some(verdict),
    }
}

/// The study.
pub(crate) fn example() -> Study {
    let devices = vec![device(1e3, 5e6), device(6e3, 5e6), device(1e3, 1e8), device(6e3, 1e8)];
    let jobs = vec![
        job(&devices, "search", [2.0, 7.0, 1.9, 6.5]),
        job(&devices, "pagerank", [1.6, 1.7, 1.0, 1.02]),
    ];
    Study {
        schema: SCHEMA.into(),
        graph: "g.lg".into(),
        vertices_count: 10,
        arcs_count: 20,
        clock: littoral_base::clock::ClockKind::Paced,
        date: "2025-01-01".into(),
        revision: "test".into(),
        environment: crate::host::environment(),
        cache_bytes: Some(32 << 20),
        fits_cache: true,
        memory: Memory {
            state_bytes: 1 << 20,
            edges_bytes: 4 << 20,
            granted_bytes: None,
            cached_bytes: None,
        },
        is_grid: true,
        devices,
        disagreeing_cells_count: 2,
        model_error_ratio: Some(0.2),
        answer: jobs.iter().map(|j| format!("{}: {}.", j.name, j.sentence)).collect(),
        jobs,
        warnings: vec!["run again".into()],
        notes: vec!["one core".into()],
    }
}
