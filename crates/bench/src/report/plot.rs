//! Plots as SVG text: claims against their targets, and what-if curves.
//!
//! Colours are CSS classes put in afterwards, so that one drawing serves light and dark pages;
//! plotters itself knows fixed colours only.

use plotters::prelude::*;

use crate::claims::{Claim, Status};
use crate::error::{Error, Kind, Result};
use crate::report::study::Study;

const WIDTH: u32 = 860;
const BAR_HEIGHT: u32 = 24;
const LABEL_WIDTH: i32 = 280;
const DECADES: f64 = 1.0;

/// Stand-ins for the page's colours: each is replaced by a CSS variable.
const INK: RGBColor = RGBColor(1, 1, 1);
const FAINT: RGBColor = RGBColor(2, 2, 2);
const GOOD: RGBColor = RGBColor(3, 3, 3);
const BAD: RGBColor = RGBColor(4, 4, 4);
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

/// Bars of how far each claim lies on the good side of its target, on a logarithmic axis; claims
/// without such a ratio are left out. `None` when none has one.
///
/// # Errors
/// `Kind::BadResult` when the drawing fails.
pub(super) fn claims(claims: &[Claim]) -> Result<Option<String>> {
    let bars: Vec<(&Claim, f64)> =
        claims.iter().filter_map(|c| c.headroom().map(|h| (c, h))).collect();
    if bars.is_empty() {
        return Ok(None);
    }
    let height = BAR_HEIGHT * (u32::try_from(bars.len()).map_err(failed)? + 2);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        for (row, (claim, headroom)) in bars.iter().enumerate() {
            draw_bar(&root, row, claim, *headroom)?;
        }
        draw_scale(&root, bars.len())?;
        root.present().map_err(failed)?;
    }
    Ok(Some(themed(&svg)))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Where a ratio stands on the axis, in pixels; ratios off the axis stand at its end.
fn bar_x(headroom: f64) -> i32 {
    let span = f64::from(WIDTH) - f64::from(LABEL_WIDTH) - 70.0;
    let part = (headroom.log10() / DECADES).clamp(-1.0, 1.0) / 2.0 + 0.5;
    LABEL_WIDTH + (span * part) as i32
}

fn draw_bar(root: &Area<'_>, row: usize, claim: &Claim, headroom: f64) -> Result<()> {
    let top = (row as i32 + 1) * BAR_HEIGHT as i32;
    let (a, b) = (bar_x(1.0), bar_x(headroom));
    let colour = if claim.status == Status::Holds { GOOD } else { BAD };
    let bar =
        Rectangle::new([(a.min(b), top + 4), (a.max(b).max(a + 2), top + 18)], colour.filled());
    root.draw(&bar).map_err(failed)?;
    let style = ("sans-serif", 13).into_font().color(&INK);
    root.draw(&Text::new(claim.id.clone(), (4, top + 4), style.clone())).map_err(failed)?;
    let words = format!("{headroom:.2}x");
    root.draw(&Text::new(words, (WIDTH as i32 - 62, top + 4), style)).map_err(failed)
}

fn draw_scale(root: &Area<'_>, rows: usize) -> Result<()> {
    let bottom = (rows as i32 + 1) * BAR_HEIGHT as i32;
    let style = ("sans-serif", 12).into_font().color(&INK);
    for (value, name) in [(0.1, "0.1x"), (0.5, "0.5x"), (1.0, "target"), (2.0, "2x"), (10.0, "10x")]
    {
        let x = bar_x(value);
        let line = PathElement::new(vec![(x, BAR_HEIGHT as i32 - 4), (x, bottom + 2)], FAINT);
        root.draw(&line).map_err(failed)?;
        root.draw(&Text::new(name, (x - 14, 2), style.clone())).map_err(failed)?;
    }
    Ok(())
}

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
