//! Standard output: one value, shown as text or as JSON, with a closed pipe told apart from
//! failure.
//!
//! A command builds a single JSON object; text is made from that same object, so that a table
//! cannot show what `--format json` does not. The unit at the end of a key decides how its number
//! reads.
//!
//! - Scalars become lines `name  value`, arrays of flat objects become tables, arrays of nested
//!   ones become sections, arrays of strings become lines, the key `sentence` stands alone; the key
//!   `schema` is for programs only.
//! - Keys are plain names; what a table's heading has to say to people is given beside them.

use std::io::{ErrorKind, Write as _};
use std::path::Path;

use comfy_table::{CellAlignment, Table, presets};
use littoral::base::error::Class;
use littoral::base::units::{Bytes, PerSecond, Picos};
use serde_json::{Map, Value};

use crate::failure::{Failure, Outcome};

/// How results are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Shows `value` in the asked form.
pub(crate) fn show(format: Format, value: &Value) -> Outcome {
    show_titled(format, value, &[])
}

/// As [`show`]; in text the key of each pair is headed by its words.
pub(crate) fn show_titled(format: Format, value: &Value, titles: Titles<'_>) -> Outcome {
    match format {
        Format::Text => bytes(as_text(value, titles).as_bytes()),
        Format::Json => bytes(format!("{value:#}\n").as_bytes()),
    }
}

/// Headings by key, where the key's own words say too little.
pub(crate) type Titles<'a> = &'a [(&'a str, &'a str)];

fn title(key: &str, titles: Titles<'_>) -> String {
    let found = titles.iter().find(|(k, _)| *k == key);
    found.map_or_else(|| label(key), |(_, words)| (*words).to_owned())
}

/// Writes `bytes` as they are.
pub(crate) fn bytes(bytes: &[u8]) -> Outcome {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(e) => Err(cannot_write(&e)),
    }
}

/// The failure of writing to standard output; a closed pipe is none.
pub(crate) fn cannot_write(e: &std::io::Error) -> Failure {
    if e.kind() == ErrorKind::BrokenPipe {
        return Failure::quiet();
    }
    Failure::new(Class::Environment, format!("cannot write the output: {e}"))
}

/// Refuses an output that would take the place of the file that it is made from, or be added to it.
pub(crate) fn apart(input: &Path, output: &Path) -> Outcome {
    let is_file = output.metadata().is_ok_and(|m| m.is_file());
    let is_input = || Some(output.canonicalize().ok()? == input.canonicalize().ok()?);
    if is_file && is_input() == Some(true) {
        let what = format!("{} is both input and output", output.display());
        return Err(Failure::new(Class::Usage, what));
    }
    Ok(())
}

fn as_text(value: &Value, titles: Titles<'_>) -> String {
    let mut text = String::new();
    if let Value::Object(fields) = value {
        add_object(&mut text, fields, titles);
    }
    text
}

fn add_object(text: &mut String, fields: &Map<String, Value>, titles: Titles<'_>) {
    let shown = |k: &&String| k.as_str() != "schema" && k.as_str() != "sentence";
    let is_line = |v: &Value| !v.is_array() && !v.is_object() && !v.is_null();
    let width = fields
        .iter()
        .filter(|(k, v)| shown(k) && is_line(v))
        .map(|(k, _)| label(k).len())
        .max()
        .unwrap_or(0);
    for (key, value) in fields.iter().filter(|(k, _)| shown(k)) {
        match value {
            Value::Array(items) => add_array(text, key, items, titles),
            Value::Object(inner) => {
                text.push_str(&format!("\n{}\n", title(key, titles)));
                add_object(text, inner, titles);
            }
            Value::Null => {}
            scalar => {
                let line = format!("{:width$}  {}", label(key), human(key, scalar));
                text.push_str(&format!("{}\n", line.trim_end()));
            }
        }
    }
    if let Some(sentence) = fields.get("sentence").and_then(Value::as_str) {
        text.push_str(&format!("\n{sentence}\n"));
    }
}

fn add_array(text: &mut String, key: &str, items: &[Value], titles: Titles<'_>) {
    let is_nested =
        |v: &Value| v.is_object() || v.as_array().is_some_and(|a| a.iter().any(Value::is_object));
    let sections = || items.iter().filter_map(Value::as_object);
    if items.is_empty() {
        return;
    }
    if sections().any(|o| o.values().any(is_nested)) {
        for section in sections() {
            text.push('\n');
            add_object(text, section, titles);
        }
        return;
    }
    text.push_str(&format!("\n{}\n", title(key, titles)));
    if items.iter().all(Value::is_object) {
        text.push_str(&table(items));
        text.push('\n');
    } else {
        items.iter().for_each(|item| text.push_str(&format!("  {}\n", human(key, item))));
    }
}

/// Rows of objects as an aligned table; columns are the keys of the first row.
fn table(rows: &[Value]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let keys: Vec<&String> = rows[0].as_object().into_iter().flat_map(|o| o.keys()).collect();
    table.set_header(keys.iter().map(|k| label(k)));
    for row in rows {
        table.add_row(keys.iter().map(|k| human(k, &row[k.as_str()])));
    }
    for (i, key) in keys.iter().enumerate() {
        if let Some(column) = table.column_mut(i).filter(|_| rows[0][key.as_str()].is_number()) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = table.lines().map(|l| l.trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

const UNITS: [&str; 7] = ["bytes", "ns", "count", "share", "per_s", "ratio", "id"];
const QUALIFIERS: [&str; 6] = ["min", "max", "mean", "p10", "p50", "p99"];

/// A key's name, unit and qualifier: `time_ns_min` is `time`, `ns`, `min`.
fn parts(key: &str) -> (&str, &str, &str) {
    let split = key.rsplit_once('_').filter(|(_, q)| QUALIFIERS.contains(q));
    let (rest, qualifier) = split.unwrap_or((key, ""));
    let unit = UNITS.iter().find_map(|u| Some((rest.strip_suffix(u)?.strip_suffix('_')?, *u)));
    let (name, unit) = unit.unwrap_or((rest, ""));
    (name, unit, qualifier)
}

/// A key without its unit, in words.
fn label(key: &str) -> String {
    let (name, _, qualifier) = parts(key);
    format!("{name} {qualifier}").trim_end().replace('_', " ")
}

/// A value as people read it; the unit in its key says how.
fn human(key: &str, value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Number(n) if key == "offset_bytes" => format!("{:#x}", n.as_u64().unwrap_or(0)),
        Value::String(s) => s.clone(),
        Value::Bool(b) => if *b { "yes" } else { "no" }.to_owned(),
        // A seed of 64 bits that is shown rounded makes another graph.
        Value::Number(n) if parts(key).1 == "id" => n.to_string(),
        Value::Number(n) => human_number(parts(key).1, n.as_f64().unwrap_or(f64::NAN)),
        other => other.to_string(),
    }
}

fn human_number(unit: &str, n: f64) -> String {
    match unit {
        "bytes" => Bytes(n as u64).to_string(),
        "ns" => Picos((n * 1e3) as u64).to_string(),
        "share" => format!("{:.1} %", n * 100.0),
        "per_s" => PerSecond(n).to_string(),
        "ratio" => format!("{n:.3}"),
        _ if n.fract() == 0.0 => grouped(n),
        _ if n.abs() < 1e-3 => format!("{n:.2e}"),
        _ => format!("{n:.3}"),
    }
}

/// Digits in groups of three.
fn grouped(n: f64) -> String {
    let digits = format!("{:.0}", n.abs());
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    if n < 0.0 { format!("-{out}") } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn units_decide_how_numbers_read() {
        for (key, value, text) in [
            ("file_bytes", json!(1_048_576), "1 MiB"),
            ("time_ns", json!(4500), "4.5 us"),
            ("edges_count", json!(1_234_567), "1,234,567"),
            ("padding_share", json!(0.0123), "1.2 %"),
            ("rate_per_s", json!(44e6), "44 M/s"),
            ("time_over_dram_ratio", json!(1.08), "1.080"),
            ("seed_id", json!(27_491_095), "27491095"),
            ("seed_id", json!(u64::MAX), "18446744073709551615"),
            ("verified", json!(true), "yes"),
            ("time_ns_min", json!(4500), "4.5 us"),
        ] {
            assert_eq!(human(key, &value), text, "{key}");
        }
        assert_eq!(
            (label("time_ns_min"), label("links_per_s")),
            ("time min".into(), "links".into())
        );
        assert_eq!(grouped(-1000.0), "-1,000");
    }

    #[test]
    fn nested_rows_become_sections_and_offsets_stay_exact() {
        let value = json!({"devices": [
            {"device": "a", "zones": [{"zone": "0", "offset_bytes": 4097}]},
            {"device": "b", "zones": []},
        ]});
        let text = as_text(&value, &[]);
        assert_eq!(text, "\ndevice  a\n\nzones\n zone  offset\n 0     0x1001\n\ndevice  b\n");
    }

    #[test]
    fn every_value_of_the_object_is_in_the_text() {
        let value = json!({
            "schema": "x/1", "file": "a.lg", "edges_count": 12,
            "trials": [{"time_ns": 1000, "reads_count": 7}, {"time_ns": 2000, "reads_count": 8}],
            "notes": ["first", "second"], "sentence": "So it is.",
        });
        let text = as_text(&value, &[("trials", "each trial by itself")]);
        for part in [
            "a.lg",
            "12",
            "1 us",
            "2 us",
            "7",
            "8",
            "first",
            "second",
            "each trial by itself",
            "So it is.",
        ] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
        assert!(!text.contains("x/1") && text.ends_with("So it is.\n"), "{text}");
    }
}
