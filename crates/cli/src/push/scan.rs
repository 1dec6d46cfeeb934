//! `push run`: one scan and its answer.

use std::io::Write;
use std::path::Path;

use littoral::base::error::Class;
use littoral::device::profile::machine::Medium;
use littoral::push::api::{About, Plan, Program, Scan, Shown};
use littoral::push::data::{lineitem_schema, promo_parts};
use littoral::push::query::Query;
use serde_json::{Map, Value, json};

use super::{about, host, place, policy};
use crate::args::{AnswerFormat, PolicyWord, PushRunArgs, QueryWord, ScanArgs};
use crate::failure::{Failure, Outcome};
use crate::graph::output::{Target, cause};
use crate::out::{self, Format};

/// Rows of an answer that are shown; files get all of them.
const ROWS_SHOWN: usize = 50;

type Rows = Vec<Vec<Option<String>>>;

/// The program of what is asked, and how its answer is shown.
pub(super) fn program(args: &ScanArgs, about: &About) -> Result<(Program, Shown), Failure> {
    let Some(word) = args.query else {
        let scan = Scan {
            filter: args.filter.clone(),
            keys: args.by.clone(),
            sums: args.sum.clone(),
            columns: args.columns.clone(),
        };
        return Ok(scan.plan(about)?);
    };
    let refused = |what: &str| Err(Failure::new(Class::Usage, what));
    if about.schema != lineitem_schema()? {
        return refused("--query is about lineitem: that of `littoral push gen` or of a .tbl");
    }
    // Sets of a .tbl from before its parts were noted have no scale factor.
    if about.scale == 0.0 && word == QueryWord::Q14 {
        return refused("q14 must know which parts there are: load the .tbl again");
    }
    let (query, keys, names, scales): (_, &[usize], &[&str], &[u8]) = match word {
        QueryWord::Q1 => (
            Query::q1()?,
            &[8, 9],
            &["quantity", "price", "discounted", "charge", "discount"],
            &[0, 2, 4, 6, 2],
        ),
        QueryWord::Q6 => (Query::q6()?, &[], &["revenue"], &[4]),
        QueryWord::Q14 => {
            (Query::q14(promo_parts(about.scale))?, &[], &["all", "promoted"], &[4, 4])
        }
    };
    let (function, params, format) = (query.whole, query.params, about.format);
    let shown = Shown::of_sums(about, keys, names, scales);
    Ok((Program { function, format, params, elf: None }, shown))
}

/// The bytes of a page function.
fn function(path: &Path) -> Result<Vec<u8>, Failure> {
    let what = |e| format!("{}: cannot read the page function: {e}", path.display());
    std::fs::read(path).map_err(|e| Failure::new(Class::Environment, what(e)))
}

/// Refuses what a device of another process decides itself.
fn served(policy: PolicyWord, has_profile: bool) -> Outcome {
    let what = match policy {
        _ if has_profile => {
            "a served device has times of its own: leave the profile out".to_owned()
        }
        PolicyWord::Late | PolicyWord::Host | PolicyWord::Filter => return Ok(()),
        PolicyWord::Device | PolicyWord::Dynamic | PolicyWord::Static(_) => format!(
            "--policy {policy}: a served device decides by that of `push serve`; \
             use host, filter or none"
        ),
    };
    Err(Failure::new(Class::Usage, what))
}

/// Runs the scan.
pub(super) fn run(args: &PushRunArgs) -> Outcome {
    let set = &args.set;
    let (machine, name) = place(set.set.as_deref(), set.profile.as_deref(), &set.on)?;
    let spec = machine.spec().device(&name)?;
    if matches!(spec.medium, Medium::Unix(_)) {
        served(args.policy, spec.profile.is_some())?;
    }
    let target = Target::open_text(&args.output, spec.medium.path().unwrap_or(Path::new("")))?;
    let device = machine.push_with(&name, policy(args.policy))?;
    let described = device.describe();
    let mut host = host(device, args.depth.into());
    let about = about(&mut host, set.set.as_deref().unwrap_or(&name))?;
    let (program, shown) = program(&args.scan, &about)?;
    let elf = args.function.as_deref().map(function).transpose()?;
    let program = Program { elf, ..program };
    let plan = match args.policy {
        PolicyWord::Host => Plan::Fetch,
        // A model decides itself; READ_FILT is for devices that have none.
        PolicyWord::Filter if machine.push_model(&name)?.is_none() => Plan::Filter,
        PolicyWord::Filter
        | PolicyWord::Late
        | PolicyWord::Device
        | PolicyWord::Dynamic
        | PolicyWord::Static(_) => Plan::Push,
    };
    let is_modelled = machine.push_model(&name)?.is_some();
    let outcome = host.scan(&program, if is_modelled { Plan::Push } else { plan })?;
    let rows = shown.rows(&about, &program, &outcome.answer)?;
    let total = host.device().outcome().map(|o| o.total.as_nanos());
    let facts = json!({
        "schema": "littoral.push.run/1",
        "device": described,
        "policy": args.policy.to_string(),
        "clock": if total.is_some() { "virtual" } else { "count" },
        "time_ns": total,
        "pages_count": about.pages,
        "on_device_count": outcome.on_device,
        "filtered_count": outcome.filtered,
        "raw_count": outcome.raw,
        "link_bytes": outcome.link_bytes,
        "fetched_because": outcome.refused,
        "columns": shown.headings,
        "rows_count": rows.len(),
        "rows": rows,
    });
    if let Some(target) = target {
        let is_standard = target.is_standard();
        target.write_with(|format, out| write(out, format, &shown.headings, &rows))?;
        if is_standard {
            return Ok(());
        }
    }
    match args.shown.format {
        Format::Json => out::show(Format::Json, &facts),
        Format::Text => text(facts, &shown.headings, &rows),
    }
}

/// The same with a row per object, as tables are shown.
fn text(mut facts: Value, headings: &[String], rows: &Rows) -> Outcome {
    let object = |row: &Vec<Option<String>>| {
        let fields = headings.iter().zip(row);
        let fields = fields.map(|(h, v)| (h.clone(), v.clone().map_or(Value::Null, Value::from)));
        Value::Object(fields.collect::<Map<_, _>>())
    };
    let answer: Vec<Value> = rows.iter().take(ROWS_SHOWN).map(object).collect();
    if let Some(fields) = facts.as_object_mut() {
        fields.remove("columns");
        fields.remove("rows");
        fields.insert("answer".to_owned(), Value::Array(answer));
        if rows.len() > ROWS_SHOWN {
            let words = format!("The first {ROWS_SHOWN} rows are shown; --output FILE gets all.");
            fields.insert("sentence".to_owned(), words.into());
        }
    }
    out::show(Format::Text, &facts)
}

fn write(
    out: &mut dyn Write,
    format: AnswerFormat,
    headings: &[String],
    rows: &Rows,
) -> std::io::Result<()> {
    let delimiter = match format {
        AnswerFormat::Csv => b',',
        AnswerFormat::Tsv => b'\t',
        AnswerFormat::Jsonl => {
            for row in rows {
                let fields = headings.iter().cloned().zip(row);
                let fields = fields.map(|(h, v)| (h, Value::from(v.clone())));
                writeln!(out, "{}", Value::Object(fields.collect::<Map<_, _>>()))?;
            }
            return Ok(());
        }
        AnswerFormat::Parquet | AnswerFormat::Arrow => {
            unreachable!("invariant: the target is one of text")
        }
    };
    let mut writer = csv::WriterBuilder::new().delimiter(delimiter).from_writer(out);
    writer.write_record(headings).map_err(cause)?;
    for row in rows {
        let fields = row.iter().map(|v| v.as_deref().unwrap_or_default());
        writer.write_record(fields).map_err(cause)?;
    }
    writer.flush()
}
