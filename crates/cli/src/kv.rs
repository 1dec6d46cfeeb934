//! `littoral kv`: ordered key-value stores in directories.
//!
//! - Keys and values are text of at most the store's sizes; the zeros that pad them are not shown.
//! - A command that only reads writes nothing, not even a recovery.
//! - Records go to standard output as `kv load` takes them, whatever `--format` says elsewhere.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use littoral::Machine;
use littoral::base::error::Class;
use littoral::kv::{self, Access, Engine, Kv, New, padded};
use serde_json::{Value, json};

use crate::args::{KvAtArgs, KvCommand, KvCreateArgs, KvLoadArgs, KvPutArgs, KvScanArgs};
use crate::failure::{Failure, Outcome};
use crate::out;

/// Bytes of records gathered before they are written.
const CHUNK_BYTES: usize = 1 << 16;

/// Runs one command.
pub(crate) fn run(command: &KvCommand) -> Outcome {
    match command {
        KvCommand::Create(args) => create(args),
        KvCommand::Load(args) => load(args),
        KvCommand::Put(args) => put(args),
        KvCommand::Get(args) => get(&args.dir, &args.key),
        KvCommand::Del(args) => delete(&args.dir, &args.key),
        KvCommand::Scan(args) => scan(args),
        KvCommand::Dump(args) => dump(args),
        KvCommand::Stats(args) => {
            out::show(args.shown.format, &stats(&kv::open(&args.dir, Access::Read)?))
        }
        KvCommand::Check(args) => check(args),
    }
}

fn create(args: &KvCreateArgs) -> Outcome {
    let machine = args.machine.as_deref().map(|m| Machine::open(Some(m))).transpose()?;
    let new = New {
        engine: Engine::named(&args.engine)?,
        key_bytes: args.key_size,
        value_bytes: args.value_size,
        machine,
        id: fresh_id(),
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
    let open = |path: &std::path::PathBuf| {
        let opened = OpenOptions::new().append(true).create(true).open(path);
        opened.map_err(|e| cannot("append to", path, &e))
    };
    let mut store = kv::open(&args.dir, Access::Write)?;
    let mut ack = args.ack.as_ref().map(open).transpose()?;
    let ack = ack.as_mut().map(|file| file as &mut dyn Write);
    let loaded = store.load(input, &args.input.display().to_string(), ack)?;
    let value = json!({
        "schema": "littoral.kv.load/1",
        "loaded_count": loaded,
        "records_count": store.stats().records_count,
    });
    out::show(args.shown.format, &value)
}

/// A key or value as the command line gives it, padded.
fn field(text: &str, bytes: usize, what: &str) -> Result<Vec<u8>, Failure> {
    if text.contains(['\t', '\n']) {
        let message = format!("a {what} with a tab or a line end could not be dumped and loaded");
        return Err(Failure::new(Class::Usage, message));
    }
    Ok(padded(text.as_bytes(), bytes, what)?)
}

fn put(args: &KvPutArgs) -> Outcome {
    let mut store = kv::open(&args.dir, Access::Write)?;
    let shape = *store.index().shape();
    let key = field(&args.key, shape.key_bytes, "key")?;
    let value = field(&args.value, shape.value_bytes, "value")?;
    store.put(&key, &value)?;
    Ok(())
}

fn absent(key: &str) -> Failure {
    Failure::new(Class::Negative, format!("no record has the key {key}"))
}

fn get(dir: &Path, key: &str) -> Outcome {
    let store = kv::open(dir, Access::Read)?;
    let found = store.get(&field(key, store.index().shape().key_bytes, "key")?)?;
    let value = found.ok_or_else(|| absent(key))?;
    out::bytes(&[shown(&value), b"\n"].concat())
}

fn delete(dir: &Path, key: &str) -> Outcome {
    let mut store = kv::open(dir, Access::Write)?;
    let bytes = field(key, store.index().shape().key_bytes, "key")?;
    if store.delete(&bytes)? { Ok(()) } else { Err(absent(key)) }
}

/// Bytes without the zeros that pad them.
fn shown(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&b| b != 0).map_or(0, |i| i + 1);
    &bytes[..end]
}

fn scan(args: &KvScanArgs) -> Outcome {
    let store = kv::open(&args.dir, Access::Read)?;
    let bytes = store.index().shape().key_bytes;
    let bound = |k: &Option<String>| k.as_deref().map(|k| field(k, bytes, "key")).transpose();
    print(&store, bound(&args.from)?.as_deref(), bound(&args.to)?.as_deref())
}

fn dump(args: &KvAtArgs) -> Outcome {
    print(&kv::open(&args.dir, Access::Read)?, None, None)
}

fn print(store: &Kv, from: Option<&[u8]>, to: Option<&[u8]>) -> Outcome {
    let (mut text, mut failure) = (Vec::new(), None);
    store.scan(from, to, |key, value| {
        text.extend_from_slice(&[shown(key), b"\t", shown(value), b"\n"].concat());
        if text.len() >= CHUNK_BYTES {
            failure = out::bytes(&std::mem::take(&mut text)).err();
        }
        failure.is_none()
    })?;
    match failure {
        Some(failure) => Err(failure),
        None => out::bytes(&text),
    }
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
    let store = kv::open(&args.dir, Access::Read)?;
    let pages = store.check()?;
    let value = json!({
        "schema": "littoral.kv.check/1",
        "records_count": store.stats().records_count,
        "pages_count": pages,
        "sentence": "Every invariant holds.",
    });
    out::show(args.shown.format, &value)
}
