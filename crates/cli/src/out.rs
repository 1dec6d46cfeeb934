//! Standard output: one value, shown as text or as JSON, with a closed pipe told apart from failure.
//!
//! A command builds a single JSON object; text is made from that same object, so that a table cannot
//! show what `--format json` does not. The unit at the end of a key decides how its number reads.
//!
//! - Scalars become lines `name  value`, arrays of objects become tables, arrays of strings become
//!   lines, the key `sentence` stands alone; the key `schema` is for programs only.

use std::io::{ErrorKind, Write as _};

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
    match format {
        Format::Text => bytes(as_text(value).as_bytes()),
        Format::Json => bytes(format!("{value:#}\n").as_bytes()),
    }
}

/// Writes `bytes` as they are.
pub(crate) fn bytes(bytes: &[u8]) -> Outcome {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Err(Failure::quiet()),
        Err(e) => Err(Failure::new(Class::Environment, format!("cannot write the output: {e}"))),
    }
}

fn as_text(value: &Value) -> String {
    let mut text = String::new();
    if let Value::Object(fields) = value {
        add_object(&mut text, fields);
    }
    text
}

fn add_object(text: &mut String, fields: &Map<String, Value>) {
    let shown = |k: &&String| k.as_str() != "schema" && k.as_str() != "sentence";
    let is_line = |v: &Value| !v.is_array() && !v.is_object();
    let width = fields
        .iter()
        .filter(|(k, v)| shown(k) && is_line(v))
        .map(|(k, _)| label(k).len())
        .max()
        .unwrap_or(0);
    for (key, value) in fields.iter().filter(|(k, _)| shown(k)) {
        match value {
            Value::Array(items) => add_array(text, key, items),
            Value::Object(inner) => {
                text.push_str(&format!("\n{}\n", label(key)));
                add_object(text, inner);
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

fn add_array(text: &mut String, key: &str, items: &[Value]) {
    if items.is_empty() {
        return;
    }
    text.push_str(&format!("\n{}\n", label(key)));
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

const UNITS: [&str; 7] = ["_bytes", "_ns", "_count", "_share", "_per_s", "_ratio", "_id"];

/// A key without its unit, in words.
fn label(key: &str) -> String {
    let bare = UNITS.iter().find_map(|u| key.strip_suffix(u)).unwrap_or(key);
    bare.replace('_', " ")
}

/// A value as people read it; its key's last word is the unit.
fn human(key: &str, value: &Value) -> String {
    let number = value.as_f64();
    match (value, number) {
        (Value::Null, _) => "-".to_owned(),
        (Value::String(s), _) => s.clone(),
        (Value::Bool(b), _) => if *b { "yes" } else { "no" }.to_owned(),
        (_, None) => value.to_string(),
        (_, Some(n)) if key.ends_with("_bytes") => Bytes(n as u64).to_string(),
        (_, Some(n)) if key.ends_with("_ns") => Picos((n * 1e3) as u64).to_string(),
        (_, Some(n)) if key.ends_with("_share") => format!("{:.1} %", n * 100.0),
        (_, Some(n)) if key.ends_with("_per_s") => PerSecond(n).to_string(),
        (_, Some(n)) if key.ends_with("_ratio") => format!("{n:.3}"),
        (_, Some(n)) if key.ends_with("_id") => format!("{n:.0}"),
        (_, Some(n)) if n.fract() == 0.0 => grouped(n),
        (_, Some(n)) => format!("{n:.3}"),
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
            ("verified", json!(true), "yes"),
        ] {
            assert_eq!(human(key, &value), text, "{key}");
        }
        assert_eq!(grouped(-1000.0), "-1,000");
    }

    #[test]
    fn every_value_of_the_object_is_in_the_text() {
        let value = json!({
            "schema": "x/1", "file": "a.lg", "edges_count": 12,
            "trials": [{"time_ns": 1000, "reads_count": 7}, {"time_ns": 2000, "reads_count": 8}],
            "notes": ["first", "second"], "sentence": "So it is.",
        });
        let text = as_text(&value);
        for part in ["a.lg", "12", "1 us", "2 us", "7", "8", "first", "second", "So it is."] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
        assert!(!text.contains("x/1") && text.ends_with("So it is.\n"), "{text}");
    }
}
