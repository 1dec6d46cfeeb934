//! Charts as parts of the page: bars or lines, and the values as a table.
//!
//! Text stands in HTML, never inside an SVG, so that it keeps its size on a narrow screen; colours
//! are the page's variables.

use std::fmt::Write as _;

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment};
use serde::Serialize;

use super::figure;
use crate::chart::{Chart, Shape};
use crate::error::{Error, Kind, Result};

const TEMPLATE: &str = include_str!("chart.html");

/// Size of a line chart's drawing area, in its own units.
const AREA: (f64, f64) = (320.0, 160.0);
/// Size of one bar.
const BAR: (f64, f64) = (100.0, 6.0);
/// Colours of series that the page has.
const COLOURS: usize = 6;
const TAKES_ALL: &str = "invariant: a string takes all";

/// A chart as the template shows it.
#[derive(Serialize)]
struct ChartPart<'a> {
    /// The claim behind it, if there is one.
    id: &'a str,
    chart: &'a Chart,
    is_bars: bool,
    bars: Vec<BarPart<'a>>,
    lines: Option<String>,
    highest: String,
    lowest: String,
    rows: Vec<(&'a str, Vec<String>)>,
}

/// One bar: its place, its drawing and its length.
#[derive(Serialize)]
struct BarPart<'a> {
    place: &'a str,
    svg: String,
    text: String,
}

/// The part of the page that shows `chart`, of the claim with that id if there is one.
pub(super) fn render(chart: &Chart, id: &str) -> Result<String> {
    let mut jinja = Environment::new();
    jinja.set_auto_escape_callback(|_| AutoEscape::Html);
    let text = jinja.render_str(TEMPLATE, Serde(part(chart, id)));
    text.map_err(|e| Error::with_source(Kind::BadResult, "cannot draw a chart", e))
}

fn part<'a>(chart: &'a Chart, id: &'a str) -> ChartPart<'a> {
    let is_bars = chart.shape == Shape::Bars;
    let bars =
        if is_bars { (0..chart.places.len()).map(|at| bar(chart, at)).collect() } else { vec![] };
    let row = |s: &'_ crate::chart::Series| s.values.iter().map(|v| figure(Some(*v))).collect();
    ChartPart {
        id,
        chart,
        is_bars,
        bars,
        lines: (!is_bars).then(|| lines(chart)),
        highest: figure(Some(chart.highest())),
        lowest: figure(Some(chart.lowest())),
        rows: chart.series.iter().map(|s| (s.name.as_str(), row(s))).collect(),
    }
}

/// The bar of a place, the series one behind the other.
fn bar(chart: &Chart, at: usize) -> BarPart<'_> {
    let values = chart.series.iter().map(|s| s.values.get(at).copied().unwrap_or(0.0));
    let scale = BAR.0 / chart.highest().max(f64::MIN_POSITIVE);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
        BAR.0, BAR.1
    );
    let mut from = 0.0;
    for (i, value) in values.clone().enumerate() {
        let width = value.max(0.0) * scale;
        write!(
            svg,
            "<rect x=\"{from:.2}\" y=\"0\" width=\"{width:.2}\" height=\"{}\" fill=\"var(--s{})\"/>",
            BAR.1,
            i % COLOURS + 1
        )
        .expect(TAKES_ALL);
        from += width;
    }
    svg.push_str("</svg>");
    BarPart { place: &chart.places[at], svg, text: figure(Some(values.sum())) }
}

/// One line per series over places at even distances.
fn lines(chart: &Chart) -> String {
    let (low, high) = (chart.lowest(), chart.highest());
    let height = |value: f64| AREA.1 * (high - value) / (high - low).max(f64::MIN_POSITIVE);
    let step = AREA.0 / (chart.places.len().max(2) - 1) as f64;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
        AREA.0, AREA.1
    );
    let zero = height(0.0);
    write!(
        svg,
        "<line x1=\"0\" y1=\"{zero:.1}\" x2=\"{}\" y2=\"{zero:.1}\" stroke=\"var(--soft)\" \
         vector-effect=\"non-scaling-stroke\"/>",
        AREA.0
    )
    .expect(TAKES_ALL);
    for (i, series) in chart.series.iter().enumerate() {
        let points = series.values.iter().enumerate();
        let points = points.map(|(at, v)| format!("{:.1},{:.1}", at as f64 * step, height(*v)));
        write!(
            svg,
            "<polyline fill=\"none\" stroke=\"var(--s{})\" stroke-width=\"2\" \
             vector-effect=\"non-scaling-stroke\" points=\"{}\"/>",
            i % COLOURS + 1,
            points.collect::<Vec<_>>().join(" ")
        )
        .expect(TAKES_ALL);
    }
    svg.push_str("</svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::samples;

    #[test]
    fn a_bar_stacks_its_series_to_the_longest() {
        let bars = &samples()[0];
        let svg = part(bars, "").bars.remove(1).svg;
        assert!(svg.contains("x=\"0.00\" y=\"0\" width=\"80.00\""), "{svg}");
        assert!(svg.contains("x=\"80.00\" y=\"0\" width=\"20.00\""), "{svg}");
    }

    #[test]
    fn a_line_reaches_from_edge_to_edge() {
        let svg = lines(&samples()[1]);
        assert!(svg.contains("points=\"0.0,120.0 320.0,0.0\""), "{svg}");
        assert!(!svg.contains("<text"), "text would shrink with the drawing");
    }
}
