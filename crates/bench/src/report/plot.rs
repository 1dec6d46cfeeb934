//! Plots as SVG text: what-if curves.
//!
//! Colours are CSS classes put in afterwards, so that one drawing serves light and dark pages;
//! plotters itself knows fixed colours only.

use plotters::prelude::*;

use crate::error::{Error, Kind, Result};
use crate::report::study::Study;

const WIDTH: u32 = 860;

/// Stand-ins for the page's colours: each is replaced by a CSS variable.
const INK: RGBColor = RGBColor(1, 1, 1);
const FAINT: RGBColor = RGBColor(2, 2, 2);
const SERIES: [RGBColor; 6] = [
    RGBColor(5, 5, 5),
    RGBColor(6, 6, 6),
    RGBColor(7, 7, 7),
    RGBColor(8, 8, 8),
    RGBColor(9, 9, 9),
    RGBColor(10, 10, 10),
];

fn failed(e: impl std::fmt::Display) -> Error {
    Error::new(Kind::BadResult, format!("cannot draw: {e}"))
}

/// Replaces the stand-ins by CSS variables and drops the fixed size.
fn themed(svg: &str) -> String {
    let series = ["s1", "s2", "s3", "s4", "s5", "s6"];
    let names = ["ink", "faint", "good", "bad"].into_iter().chain(series);
    let mut out = svg.to_owned();
    for (i, name) in names.enumerate() {
        let stand_in = format!("#{0:02X}{0:02X}{0:02X}", i + 1);
        out = out.replace(&stand_in, &format!("var(--{name})"));
    }
    let head = format!("<svg width=\"{WIDTH}\"");
    out.replacen(&head, &format!("<svg style=\"max-width:{WIDTH}px\" width=\"100%\""), 1)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Curves of time over DRAM against latency, one a read rate; `None` when the study has no points.
///
/// # Errors
/// `Kind::BadResult` when the drawing fails.
pub(super) fn study(study: &Study) -> Result<Option<String>> {
    if study.points.is_empty() {
        return Ok(None);
    }
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, 380)).into_drawing_area();
        draw_curves(&root, study)?;
        root.present().map_err(failed)?;
    }
    Ok(Some(themed(&svg)))
}

fn rates_of(study: &Study) -> Vec<f64> {
    let mut rates: Vec<f64> = study.points.iter().map(|p| p.reads_per_s).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    rates
}

fn range(values: impl Iterator<Item = f64> + Clone, floor: f64) -> (f64, f64) {
    let low = values.clone().fold(f64::INFINITY, f64::min).max(floor);
    let high = values.fold(low, f64::max);
    (low * 0.9, high * 1.1)
}

fn draw_curves(root: &Area<'_>, study: &Study) -> Result<()> {
    let (x_low, x_high) = range(study.points.iter().map(|p| p.latency_ns / 1e3), 1e-3);
    let (y_low, y_high) = range(study.points.iter().map(|p| p.time_over_dram_ratio), 1e-3);
    let font = ("sans-serif", 13).into_font().color(&INK);
    let mut chart = ChartBuilder::on(root)
        .margin(8)
        .margin_right(110)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((x_low..x_high).log_scale(), y_low.min(0.9)..y_high)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .light_line_style(FAINT.mix(0.0))
        .bold_line_style(FAINT)
        .axis_style(INK)
        .label_style(font.clone())
        .axis_desc_style(font.clone())
        .x_desc("read latency of the device (us, logarithmic)")
        .y_desc("time over DRAM (1 = as fast)")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .draw()
        .map_err(failed)?;
    for (i, rate) in rates_of(study).into_iter().enumerate() {
        let colour = SERIES[i % SERIES.len()];
        let mut line: Vec<(f64, f64)> = study
            .points
            .iter()
            .filter(|p| p.reads_per_s == rate)
            .map(|p| (p.latency_ns / 1e3, p.time_over_dram_ratio))
            .collect();
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
        chart
            .draw_series(LineSeries::new(line.iter().copied(), colour.stroke_width(2)))
            .map_err(failed)?;
        chart
            .draw_series(line.iter().map(|&p| Circle::new(p, 3, colour.filled())))
            .map_err(failed)?;
        let style = ("sans-serif", 13).into_font().color(&colour);
        let place = (WIDTH as i32 - 104, 16 + 18 * i as i32);
        let words = littoral_base::units::PerSecond(rate).to_string();
        root.draw(&Text::new(words, place, style)).map_err(failed)?;
    }
    Ok(())
}
