//! Charts: the series behind a claim, as a results file holds them and a report draws them.
//!
//! Invariants
//! - Every series of a chart has one value per place of its axis. Checked by
//!   `a_series_with_a_value_too_few_is_refused`.

use serde::{Deserialize, Serialize};

/// How a chart is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// One bar per place; the series stand one behind the other.
    Bars,
    /// One line per series; the places are spaced evenly.
    Lines,
}

/// Values of one quantity over the places of an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What is plotted.
    pub name: String,
    /// One value per place.
    pub values: Vec<f64>,
}

/// The series behind a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// What it shows, with the setting that holds for all of it.
    pub title: String,
    /// How it is drawn.
    pub shape: Shape,
    /// What the places are, with their unit.
    pub axis: String,
    /// What the values are, with their unit.
    pub unit: String,
    /// The places.
    pub places: Vec<String>,
    /// The series.
    pub series: Vec<Series>,
}

impl Chart {
    /// A chart of `series` over `places`.
    ///
    /// # Panics
    /// When a series has another number of values than there are places, or one is not finite.
    pub fn new(
        title: impl Into<String>,
        shape: Shape,
        (axis, unit): (&str, &str),
        places: Vec<String>,
        series: Vec<(String, Vec<f64>)>,
    ) -> Chart {
        let series: Vec<Series> =
            series.into_iter().map(|(name, values)| Series { name, values }).collect();
        for s in &series {
            assert_eq!(s.values.len(), places.len(), "series {} has a value per place", s.name);
            assert!(s.values.iter().all(|v| v.is_finite()), "series {} has numbers", s.name);
        }
        Chart { title: title.into(), shape, axis: axis.into(), unit: unit.into(), places, series }
    }

    /// The largest value that is drawn, and zero at least.
    pub fn highest(&self) -> f64 {
        let at =
            |place: usize| self.series.iter().filter_map(move |s| s.values.get(place).copied());
        let drawn = |place: usize| match self.shape {
            Shape::Bars => at(place).sum::<f64>(),
            Shape::Lines => at(place).fold(0.0, f64::max),
        };
        (0..self.places.len()).map(drawn).fold(0.0, f64::max)
    }

    /// The least value that is drawn, and zero at most.
    pub fn lowest(&self) -> f64 {
        let all = self.series.iter().flat_map(|s| s.values.iter().copied());
        all.fold(0.0, f64::min)
    }
}

/// A chart of each shape, for tests of what shows charts.
#[cfg(test)]
pub(crate) fn samples() -> Vec<Chart> {
    let places = || vec!["host".to_owned(), "<device>".to_owned()];
    let series = || vec![("a".to_owned(), vec![1.0, 4.0]), ("b".to_owned(), vec![0.5, 1.0])];
    let names = ("policy", "time over the host's");
    vec![
        Chart::new("bars", Shape::Bars, names, places(), series()),
        Chart::new("lines", Shape::Lines, names, places(), series()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_add_up_and_lines_do_not() {
        let [bars, lines] = &samples()[..] else { panic!("two samples") };
        assert_eq!((bars.highest(), lines.highest()), (5.0, 4.0));
        assert_eq!((bars.lowest(), lines.lowest()), (0.0, 0.0));
    }

    #[test]
    #[should_panic(expected = "a value per place")]
    fn a_series_with_a_value_too_few_is_refused() {
        let series = vec![("a".to_owned(), vec![1.0])];
        let places = vec!["x".to_owned(), "y".to_owned()];
        let _ = Chart::new("t", Shape::Lines, ("x", "y"), places, series);
    }
}
