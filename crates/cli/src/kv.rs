//! `littoral kv`: ordered key-value stores in directories.
//!
//! - Keys and values are text of at most the store's sizes; the zeros that pad them are not shown.
//! - A command that only reads writes nothing, not even a recovery.
//! - Records go to standard output as `kv load` takes them, or with `--format json` as one object.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::time::Instant;

use littoral::Machine;
use littoral::base::error::Class;
use littoral::device::profile::DeviceKind;
use littoral::device::profile::machine::Medium;
use littoral::kv::{self, Access, Kv, New, Opening, padded};
use littoral::machine::choice::Word;
use serde_json::{Value, json};

use crate::args::{
    KvAtArgs, KvBackupArgs, KvCommand, KvCreateArgs, KvGetArgs, KvKeyArgs, KvLoadArgs, KvOpenArgs,
    KvPutArgs, KvRepairArgs, KvRestoreArgs, KvScanArgs, OnArgs,
};
use crate::failure::{Failure, Outcome};
use crate::out::{self, Format};
use crate::progress;

/// Bytes of records gathered before they are written.
const CHUNK_BYTES: usize = 1 << 16;

/// Runs one command.
pub(crate) fn run(command: &KvCommand) -> Outcome {
    match command {
        KvCommand::Create(args) => create(args),
        KvCommand::Load(args) => load(args),
        KvCommand::Put(args) => put(args),
        KvCommand::Get(args) => get(args),
        KvCommand::Del(args) => delete(args),
        KvCommand::Scan(args) => scan(args),
        KvCommand::Dump(args) => dump(args),
        KvCommand::Stats(args) => show_stats(args),
        KvCommand::Check(args) => check(args),
        KvCommand::Repair(args) => repair(args),
        KvCommand::Backup(args) => backup(args),
        KvCommand::Restore(args) => restore(args),
    }
}

/// The zoned device that a command asks for, if it does.
fn asked(on: &OnArgs) -> Result<Option<(Machine, String)>, Failure> {
    let choice = on.choice();
    if !choice.is_given() {
        return Ok(None);
    }
    Ok(Some(choice.resolve(DeviceKind::Zoned, None, Word::Exact(Medium::Ram))?))
}

/// Opens the store of `dir`, on the device that was asked for where one was.
fn open(dir: &Path, args: &KvOpenArgs, access: Access) -> Result<Kv, Failure> {
    let opening = Opening { access, memory_bytes: args.cache.0, waits: args.wait };
    Ok(match asked(&args.on)? {
        Some((machine, device)) => kv::open_with(dir, &machine, Some(&device), opening)?,
        None => kv::open(dir, opening)?,
    })
}

fn create(args: &KvCreateArgs) -> Outcome {
    let new = New {
        engine: args.engine.0,
        key_bytes: args.key_size,
        value_bytes: args.value_size,
        ..laid_out(&args.on)?
    };
    out::show(args.shown.format, &stats(&kv::create(&args.dir, &new)?))
}

/// A number that no other store has: the standard library seeds its hashers from the system.
fn fresh_id() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

fn cannot(what: &str, path: &Path, e: &std::io::Error) -> Failure {
    Failure::new(Class::Environment, format!("cannot {what} {}: {e}", path.display()))
}

fn load(args: &KvLoadArgs) -> Outcome {
    let input: Box<dyn BufRead> = match args.input.as_os_str() == "-" {
        true => Box::new(std::io::stdin().lock()),
        false => {
            let file = File::open(&args.input).map_err(|e| cannot("read", &args.input, &e))?;
            Box::new(BufReader::new(file))
        }
    };
    // Keys that are added to the records being read would be read in their turn.
    args.ack.as_ref().map_or(Ok(()), |ack| out::apart(&args.input, ack))?;
    let append = |path: &std::path::PathBuf| {
        let opened = OpenOptions::new().append(true).create(true).open(path);
        opened.map_err(|e| cannot("append to", path, &e))
    };
    let mut store = open(&args.dir, &args.opened, Access::Write)?;
    let mut ack = args.ack.as_ref().map(append).transpose()?;
    let ack = ack.as_mut().map(|file| file as &mut dyn Write);
    let mut pace = Pace::new();
    let watch = |loaded, stats: &kv::Stats| pace.note(loaded, stats.used_share());
    let loaded = store.load_watched(input, &args.input.display().to_string(), ack, watch)?;
    let value = json!({
        "schema": "littoral.kv.load/1",
        "loaded_count": loaded,
        "records_count": store.stats().records_count,
    });
    store.close()?;
    out::show(args.shown.format, &value)
}

/// Says on standard error how fast a store fills: a line for each twentieth of the medium, so that
/// nothing is said of a load that leaves most of it free.
struct Pace {
    twentieth: u64,
    since: (Instant, u64),
}

impl Pace {
    fn new() -> Pace {
        Pace { twentieth: 0, since: (Instant::now(), 0) }
    }

    fn note(&mut self, loaded: u64, used_share: f64) {
        let twentieth = (used_share * 20.0) as u64;
        if twentieth <= self.twentieth {
            return;
        }
        let (begun, before) = std::mem::replace(&mut self.since, (Instant::now(), loaded));
        self.twentieth = twentieth;
        let rate = (loaded - before) as f64 / begun.elapsed().as_secs_f64();
        let percent = twentieth * 5;
        progress::note(&format_args!(
            "{percent} % of the medium in use, {loaded} records loaded, {rate:.0} records per second \
             since the line before"
        ));
    }
}

/// A key or value as the command line gives it, padded.
fn field(text: &str, bytes: usize, what: &str) -> Result<Vec<u8>, Failure> {
    if text.contains(['\t', '\n']) || text.ends_with('\r') {
        let message = format!("a {what} with a tab or a line end could not be dumped and loaded");
        return Err(Failure::new(Class::Usage, message));
    }
    Ok(padded(text.as_bytes(), bytes, what)?)
}

fn put(args: &KvPutArgs) -> Outcome {
    let mut store = open(&args.dir, &args.opened, Access::Write)?;
    let shape = *store.index().shape();
    let key = field(&args.key, shape.key_bytes, "key")?;
    let value = field(&args.value, shape.value_bytes, "value")?;
    store.put(&key, &value)?;
    Ok(store.close()?)
}

fn absent(key: &str) -> Failure {
    Failure::new(Class::Negative, format!("no record has the key {key}"))
}

fn get(args: &KvGetArgs) -> Outcome {
    let KvKeyArgs { dir, key, opened } = &args.key;
    let store = open(dir, opened, Access::Read)?;
    let found = store.get(&field(key, store.index().shape().key_bytes, "key")?)?;
    let value = found.ok_or_else(|| absent(key))?;
    match args.shown.format {
        Format::Text => out::bytes(&[shown(&value), b"\n"].concat()),
        Format::Json => {
            let records = [record(key.as_bytes(), shown(&value))];
            let schema = "littoral.kv.records/1";
            let found = json!({ "schema": schema, "records": records, "records_count": 1 });
            out::show(Format::Json, &found)
        }
    }
}

fn delete(args: &KvKeyArgs) -> Outcome {
    let mut store = open(&args.dir, &args.opened, Access::Write)?;
    let bytes = field(&args.key, store.index().shape().key_bytes, "key")?;
    let is_deleted = store.delete(&bytes)?;
    store.close()?;
    if is_deleted { Ok(()) } else { Err(absent(&args.key)) }
}

/// Bytes without the zeros that pad them.
fn shown(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&b| b != 0).map_or(0, |i| i + 1);
    &bytes[..end]
}

fn scan(args: &KvScanArgs) -> Outcome {
    let store = open(&args.dir, &args.opened, Access::Read)?;
    let bytes = store.index().shape().key_bytes;
    let bound = |k: &Option<String>| k.as_deref().map(|k| field(k, bytes, "key")).transpose();
    let (from, to) = (bound(&args.from)?, bound(&args.to)?);
    print(&store, args.shown.format, (from.as_deref(), to.as_deref()), |_, _| true)
}

fn dump(args: &KvAtArgs) -> Outcome {
    let store = open(&args.dir, &args.opened, Access::Read)?;
    print(&store, args.shown.format, (None, None), is_line)
}

/// Whether `kv load` reads this record from a line as it is.
fn is_line(key: &[u8], value: &[u8]) -> bool {
    !key.contains(&b'\t') && ![key, value].concat().contains(&b'\n') && !value.ends_with(b"\r")
}

/// The first key of a range, and the one behind its last.
type Range<'r> = (Option<&'r [u8]>, Option<&'r [u8]>);

/// Prints records as lines, up to the first that `is_plain` refuses, or as one JSON object.
fn print(store: &Kv, format: Format, range: Range<'_>, is_plain: Plain) -> Outcome {
    match format {
        Format::Text => stream(store, range, |key, value| {
            if is_plain(key, value) {
                return Ok([key, b"\t", value, b"\n"].concat());
            }
            let what = format!(
                "the record of key {} holds a tab or a line end, which a line cannot; `littoral kv \
                 backup` writes any record, `--format json` shows any",
                key.escape_ascii()
            );
            Err(Failure::new(Class::Usage, what))
        }),
        Format::Json => {
            let mut count = 0u64;
            out::bytes(RECORDS_BEGIN)?;
            stream(store, range, |key, value| {
                count += 1;
                let end = if count == 1 { "" } else { "," };
                Ok(format!("{end}\n    {}", record(key, value)).into_bytes())
            })?;
            out::bytes(format!("\n  ],\n  \"records_count\": {count}\n}}\n").as_bytes())
        }
    }
}

/// Whether a record can stand on a line.
type Plain = fn(&[u8], &[u8]) -> bool;

/// How records as JSON begin: they are printed as they are read, however many there are.
const RECORDS_BEGIN: &[u8] = b"{\n  \"schema\": \"littoral.kv.records/1\",\n  \"records\": [";

/// A record as JSON: text where its bytes are UTF-8, hexadecimal digits where they are not.
fn record(key: &[u8], value: &[u8]) -> Value {
    let field = |(name, bytes): (&str, &[u8])| match std::str::from_utf8(bytes) {
        Ok(text) => (name.to_owned(), Value::from(text)),
        Err(_) => {
            let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            (format!("{name}_hex"), Value::from(digits))
        }
    };
    Value::Object([("key", key), ("value", value)].into_iter().map(field).collect())
}

/// Writes what `line` makes of each record of a range, without the zeros that pad it.
fn stream(
    store: &Kv,
    (from, to): Range<'_>,
    mut line: impl FnMut(&[u8], &[u8]) -> Result<Vec<u8>, Failure>,
) -> Outcome {
    let (mut text, mut failure) = (Vec::new(), None);
    store.scan(from, to, |key, value| {
        match line(shown(key), shown(value)) {
            Ok(line) => text.extend_from_slice(&line),
            Err(refused) => failure = Some(refused),
        }
        if failure.is_none() && text.len() >= CHUNK_BYTES {
            failure = out::bytes(&std::mem::take(&mut text)).err();
        }
        failure.is_none()
    })?;
    match failure {
        Some(failure) => Err(failure),
        None => out::bytes(&text),
    }
}

fn show_stats(args: &KvAtArgs) -> Outcome {
    let store = open(&args.dir, &args.opened, Access::Read)?;
    out::show(args.shown.format, &stats(&store))
}

fn stats(store: &Kv) -> Value {
    let s = store.stats();
    let block = u64::from(s.block_bytes);
    let (free, conventional) = s.conventional_blocks;
    let (live, written, sequential) = s.sequential_blocks;
    json!({
        "schema": "littoral.kv.stats/1",
        "engine": s.engine.name(),
        "records_count": s.records_count,
        "layers_count": s.layers_count,
        "key_bytes": s.key_bytes,
        "value_bytes": s.value_bytes,
        "conventional_used_bytes": (conventional - free) * block,
        "conventional_all_bytes": conventional * block,
        "sequential_live_bytes": live * block,
        "sequential_written_bytes": written * block,
        "sequential_all_bytes": sequential * block,
    })
}

fn check(args: &KvAtArgs) -> Outcome {
    let store = open(&args.dir, &args.opened, Access::Read)?;
    let pages = store.check()?;
    let notes = store.index().store_ref().notes();
    let sentence = match notes.len() {
        0 => "Every invariant holds.",
        _ => {
            "Every invariant holds. The damage above was made good from other copies; the next \
             command that writes replaces what is damaged."
        }
    };
    let mut value = json!({
        "schema": "littoral.kv.check/1",
        "records_count": store.stats().records_count,
        "pages_count": pages,
        "sentence": sentence,
    });
    if !notes.is_empty() {
        value["damage"] = json!(notes);
    }
    out::show(args.shown.format, &value)
}

/// How a new store is laid out, on the device that was asked for where one was.
fn laid_out(on: &OnArgs) -> Result<New, Failure> {
    let (machine, device) = asked(on)?.unzip();
    Ok(New { machine, device, id: fresh_id(), ..New::default() })
}

/// A key as text where it is text.
fn key_text(key: Option<&[u8]>, open: &str) -> String {
    key.map_or(open.to_owned(), |k| shown(k).escape_ascii().to_string())
}

fn repair(args: &KvRepairArgs) -> Outcome {
    let saved = kv::repair(&args.src, &args.dst, &laid_out(&args.on)?)?;
    let row = |m: &kv::Missing| {
        json!({
            "from": key_text(m.from.as_deref(), "the first key"),
            "to": key_text(m.to.as_deref(), "the end"),
            "why": m.why,
        })
    };
    let is_whole = saved.missing.is_empty() && saved.records == saved.counted && !saved.is_log_cut;
    let sentence = match is_whole {
        true => "Every record that the store counted was saved.",
        false => "Records are missing: those of the ranges above, or of a log that is damaged.",
    };
    let mut value = json!({
        "schema": "littoral.kv.repair/1",
        "saved_count": saved.records,
        "counted_count": saved.counted,
        "sentence": sentence,
    });
    if !saved.notes.is_empty() {
        value["damage"] = json!(saved.notes);
    }
    if !saved.missing.is_empty() {
        value["missing"] = saved.missing.iter().map(row).collect();
    }
    out::show(args.shown.format, &value)?;
    if is_whole {
        return Ok(());
    }
    let text = format!("{}: part of the store could not be saved", args.src.display());
    Err(Failure::new(Class::Negative, text))
}

fn backup(args: &KvBackupArgs) -> Outcome {
    let records = kv::backup(&open(&args.src, &args.opened, Access::Read)?, &args.file)?;
    let value = json!({
        "schema": "littoral.kv.backup/1",
        "records_count": records,
        "sentence": "Written, read back and found the same.",
    });
    out::show(args.shown.format, &value)
}

fn restore(args: &KvRestoreArgs) -> Outcome {
    let records = kv::restore(&args.file, &args.dst, &laid_out(&args.on)?)?;
    let value = json!({
        "schema": "littoral.kv.restore/1",
        "records_count": records,
        "sentence": "Restored, read back and found the same.",
    });
    out::show(args.shown.format, &value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_digits() {
        assert_eq!(record(b"a\tb", b"\n"), json!({ "key": "a\tb", "value": "\n" }));
        assert_eq!(record(b"\xff\x00\x01", b""), json!({ "key_hex": "ff0001", "value": "" }));
    }
}
