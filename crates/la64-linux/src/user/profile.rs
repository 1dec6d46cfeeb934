//! `--profile`: where a program spends its instructions.
//!
//! - A thread is sampled each time it has retired [`PERIOD`] instructions, so a profile depends on
//!   the program alone, not on the machine: two runs of a program with one thread are equal.
//! - Time in system calls retires nothing and is not seen.
//! - Its lock comes before that of the address space.
//! - The report is of the process's last program; a forked child begins with nothing.

use super::path::Paths;
use super::space::Space;
use super::symbols::Symbols;
use super::sync::lock;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

/// Instructions between two samples of a thread: a prime, so that loops do not keep step with it.
pub(super) const PERIOD: u64 = 99_991;
/// Functions in the table on standard error.
const SHOWN: usize = 25;
/// Name and version of the JSON.
const SCHEMA: &str = "littoral.la64-profile/1";

/// Samples by address.
#[derive(Default)]
pub(super) struct Profile {
    samples: Mutex<HashMap<u64, u64>>,
}

/// The samples of one function, or of a file's code without names.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    samples: u64,
    file: String,
    function: Option<String>,
}

impl Profile {
    /// Notes that a thread is at `pc`.
    pub(super) fn note(&self, pc: u64) {
        *self.hold().entry(pc).or_default() += 1;
    }

    /// Forgets everything.
    pub(super) fn forget(&self) {
        self.hold().clear();
    }

    /// The samples, kept from other threads.
    pub(super) fn hold(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        lock(&self.samples)
    }

    /// By function, the hottest first.
    fn rows(&self, space: &Mutex<Space>, paths: &Paths) -> Vec<Row> {
        let (mut symbols, mut by_place) = (Symbols::default(), HashMap::new());
        let samples = self.hold();
        let space = lock(space);
        for (&pc, &samples) in samples.iter() {
            let place = symbols.find(&space, paths, pc);
            let key = (place.file, place.function.map(|f| f.0));
            *by_place.entry(key).or_default() += samples;
        }
        let row = |((file, function), samples)| Row { samples, file, function };
        let mut rows: Vec<Row> = by_place.into_iter().map(row).collect();
        rows.sort_by(|a, b| {
            (b.samples, &a.file, &a.function).cmp(&(a.samples, &b.file, &b.function))
        });
        rows
    }

    /// Writes the report: to `file` as JSON, or as lines for standard error.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn report(
        &self,
        space: &Mutex<Space>,
        paths: &Paths,
        file: Option<&PathBuf>,
    ) -> Result<Vec<String>, String> {
        let rows = self.rows(space, paths);
        let Some(file) = file else { return Ok(table(&rows)) };
        let name = file.to_string_lossy().replace("%p", &std::process::id().to_string());
        let text = json(&rows);
        std::fs::write(&name, text).map_err(|e| format!("{name}: {e}; the profile is lost"))?;
        Ok(Vec::new())
    }
}

fn total(rows: &[Row]) -> u64 {
    rows.iter().map(|r| r.samples).sum()
}

/// Percent of all samples.
fn share(row: &Row, total: u64) -> f64 {
    100.0 * row.samples as f64 / total.max(1) as f64
}

fn table(rows: &[Row]) -> Vec<String> {
    let all = total(rows);
    let head = format!("profile: {all} samples, one per {PERIOD} instructions of a thread");
    let line = |row: &Row| {
        let function = row.function.as_deref().unwrap_or("(no symbol)");
        format!("{:6.2} %  {function}  {}", share(row, all), row.file)
    };
    let mut lines: Vec<String> = rows.iter().take(SHOWN).map(line).collect();
    lines.insert(0, head);
    if let Some(rest) = rows.get(SHOWN..).filter(|rest| !rest.is_empty()) {
        let rest: f64 = rest.iter().map(|row| share(row, all)).sum();
        lines.push(format!("{rest:6.2} %  {} others", rows.len() - SHOWN));
    }
    lines
}

fn json(rows: &[Row]) -> String {
    let all = total(rows);
    let functions: Vec<serde_json::Value> = (rows.iter())
        .map(|row| {
            serde_json::json!({
                "function": row.function,
                "file": row.file,
                "samples_count": row.samples,
                "share_percent": share(row, all),
            })
        })
        .collect();
    let whole = serde_json::json!({
        "schema": SCHEMA,
        "period_instructions": PERIOD,
        "samples_count": all,
        "functions": functions,
    });
    format!("{whole:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(samples: u64, function: Option<&str>) -> Row {
        Row { samples, file: "/bin/x".into(), function: function.map(str::to_owned) }
    }

    #[test]
    fn the_table_is_cut_and_says_what_it_leaves_out() {
        let many: Vec<Row> = (0..SHOWN + 5).map(|n| row(1, Some(&format!("f{n}")))).collect();
        let lines = table(&many);
        assert_eq!(lines.len(), SHOWN + 2);
        assert!(lines[0].contains("30 samples"), "{}", lines[0]);
        assert!(lines[SHOWN + 1].contains("16.67 %  5 others"), "{}", lines[SHOWN + 1]);
        assert_eq!(table(&[]).len(), 1, "no samples, no division by zero");
    }

    #[test]
    fn json_has_a_schema_and_units() {
        let read: serde_json::Value =
            serde_json::from_str(&json(&[row(3, Some("hot")), row(1, None)])).unwrap();
        assert_eq!(read["schema"], SCHEMA);
        assert_eq!(read["samples_count"], 4);
        assert_eq!(read["functions"][0]["share_percent"], 75.0);
        assert!(read["functions"][1]["function"].is_null());
    }
}
