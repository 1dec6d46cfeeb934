//! `littoral heap`: pools of durable transactions, made and looked at.
//!
//! - Only `create` writes. The other verbs open the file for reading, restart a private copy of it
//!   and show that; the file stays as a crash left it.
//! - `info` also works beside a process that has the pool open. It takes no lock then and shows
//!   what can be read of a pool at work: its parts and types, no counts of objects and no roots.
//! - The promise shown is what this file system and processor were found to give.

use std::fmt::Write as _;
use std::path::Path;

use littoral::Machine;
use littoral::base::error::Class;
use littoral::base::units::Bytes;
use littoral::device::profile::DeviceKind;
use littoral::device::profile::machine::{DeviceSpec, MachineSpec, Medium};
use littoral::heap::{self, Look, ObjectView, Options};
use littoral::machine::choice::Word;
use serde_json::{Value, json};

use crate::args::{HeapCommand, HeapCreateArgs, MachineFileArgs, PoolArgs};
use crate::failure::{Failure, Outcome};
use crate::out::{self, Format};

/// Bytes of text gathered before they are written.
const CHUNK_BYTES: usize = 1 << 16;

/// A machine's memory device: the named one, or a machine of one device for a pool's file.
struct Place {
    machine: Machine,
    device: String,
}

impl Place {
    fn find(pool: Option<&Path>, size: Option<Bytes>, on: &MachineFileArgs) -> Found<Place> {
        let Some(path) = pool else {
            let otherwise = Word::Exact(Medium::Ram);
            let (machine, device) = on.choice().resolve(DeviceKind::Memory, None, otherwise)?;
            return Ok(Place { machine, device });
        };
        let mut spec = DeviceSpec::new("pool", DeviceKind::Memory, Medium::File(path.to_owned()));
        if let Some(size) = size {
            let pages = size.0.max(1).div_ceil(4096);
            let bytes = pages.checked_mul(4096);
            let too_large = || Failure::new(Class::Usage, format!("{size} is too large"));
            spec = spec.with_figure("capacity", bytes.ok_or_else(too_large)?)?;
        }
        let machine = Machine::of(MachineSpec::one(spec), "options");
        Ok(Place { machine, device: "pool".to_owned() })
    }

    fn of(args: &PoolArgs) -> Found<Place> {
        Self::find(args.pool.as_deref(), None, &args.on)
    }

    /// The pool's file, else its device's name.
    fn name(&self) -> String {
        match self.machine.memory_path(&self.device) {
            Ok((_, path)) => path.display().to_string(),
            Err(_) => self.device.clone(),
        }
    }
}

type Found<T> = Result<T, Failure>;

/// Runs the command.
pub(crate) fn run(command: &HeapCommand) -> Outcome {
    match command {
        HeapCommand::Create(args) => create(args),
        HeapCommand::Info(args) => {
            let format = args.shown.format;
            out::show(format, &info(&Place::of(args)?, format)?)
        }
        HeapCommand::Check(args) => out::show(args.shown.format, &check(&Place::of(args)?)?),
        HeapCommand::Dump(args) => dump(args.shown.format, &Place::of(args)?),
    }
}

fn create(args: &HeapCreateArgs) -> Outcome {
    let place = Place::find(args.pool.as_deref(), args.size, &args.on)?;
    let pool = heap::create_on(&place.machine, &place.device, &Options::default())?;
    let info = pool.info()?;
    let value = json!({
        "schema": "littoral.heap.create/2",
        "pool": place.name(),
        "pool_bytes": info.pool_bytes,
        "slab_bytes": info.slab_bytes,
        "threads_max": info.threads_max,
        "durable_by": pool.domain().name(),
        "promise": heap::words(info.promise),
    });
    out::show(args.shown.format, &value)
}

/// What a session that may write would get here; looking is possible without one.
fn promise(place: &Place) -> (String, String) {
    match heap::means_on(&place.machine, &place.device) {
        Ok((name, promise)) => (name.to_owned(), heap::words(promise).to_owned()),
        Err(error) => ("nothing here".to_owned(), error.to_string()),
    }
}

fn look(place: &Place) -> littoral::heap::Result<Look> {
    heap::look_on(&place.machine, &place.device)
}

fn type_words(tag: u64) -> String {
    heap::type_name(tag).map_or_else(|| format!("{tag:#018x}"), str::to_owned)
}

/// A name on one line of text: a name may hold any characters, also those that move a cursor.
fn on_a_line(name: String) -> String {
    let is_plain = !name.chars().any(char::is_control);
    if is_plain { name } else { name.escape_debug().to_string() }
}

fn roots(look: &Look, place: &Place, format: Format) -> Result<Vec<Value>, Failure> {
    let shown = |r: heap::RootView| {
        let name = if format == Format::Text { on_a_line(r.name) } else { r.name };
        json!({"root": name, "type": type_words(r.tag), "offset_bytes": r.offset})
    };
    let roots = look.pool.roots().map_err(|e| e.in_context(place.name()))?;
    Ok(roots.into_iter().map(shown).collect())
}

fn info(place: &Place, format: Format) -> Result<Value, Failure> {
    let (durable_by, promise) = promise(place);
    let look = match look(place) {
        Err(refused) if heap::is_in_use(&refused) => {
            return outline(place, &durable_by, &promise);
        }
        look => look?,
    };
    let info = look.pool.info()?;
    let types = info.types.iter().map(|t| {
        json!({
            "type": type_words(t.tag), "words_count": t.words_count,
            "objects_count": t.objects_count, "room_count": t.objects_max,
        })
    });
    Ok(json!({
        "schema": "littoral.heap.info/2",
        "pool": place.name(),
        "format_version": heap::VERSION,
        "pool_bytes": info.pool_bytes,
        "slab_bytes": info.slab_bytes,
        "slabs_count": info.slabs_count,
        "slabs_max": info.slabs_max,
        "threads_max": info.threads_max,
        "roots_max": info.roots_max,
        "in_use": false,
        "unfinished_threads_count": look.unfinished.threads_count,
        "durable_by": durable_by,
        "promise": promise,
        "types": types.collect::<Vec<_>>(),
        "roots": roots(&look, place, format)?,
    }))
}

/// What can be said of a pool that a process is at work on.
fn outline(place: &Place, durable_by: &str, promise: &str) -> Result<Value, Failure> {
    let outline = heap::outline_on(&place.machine, &place.device)?;
    let types = outline.types.iter().map(|&(tag, words_count, objects_max)| {
        json!({"type": type_words(tag), "words_count": words_count, "room_count": objects_max})
    });
    Ok(json!({
        "schema": "littoral.heap.info/2",
        "pool": place.name(),
        "format_version": heap::VERSION,
        "pool_bytes": outline.pool_bytes,
        "slab_bytes": outline.slab_bytes,
        "slabs_count": outline.slabs_count,
        "slabs_max": outline.slabs_max,
        "threads_max": outline.threads_max,
        "roots_max": outline.roots_max,
        "in_use": true,
        "durable_by": durable_by,
        "promise": promise,
        "types": types.collect::<Vec<_>>(),
        "sentence": "A process has the pool open: objects and roots are not counted.",
    }))
}

fn check(place: &Place) -> Result<Value, Failure> {
    let look = look(place)?;
    let roots = roots(&look, place, Format::Json)?;
    let structures = look.pool.check_structures().map_err(|e| e.in_context(place.name()))?;
    let (mut objects, mut words) = (0u64, 0u64);
    look.pool.walk(|o| {
        objects += 1;
        words += o.words.len() as u64;
        true
    })?;
    let left = match look.unfinished.threads_count {
        0 => "Every session ended cleanly.".to_owned(),
        n => format!("{n} thread slots did not end cleanly; opening the pool puts that right."),
    };
    Ok(json!({
        "schema": "littoral.heap.check/1",
        "pool": place.name(),
        "slabs_count": look.pool.info()?.slabs_count,
        "objects_count": objects,
        "payload_bytes": 8 * words,
        "roots_count": roots.len(),
        "structures_count": structures.structures_count,
        "unfinished_threads_count": look.unfinished.threads_count,
        "unfinished_clocks_count": look.unfinished.dead_count,
        "sentence": format!("Superblock, slab table, every version, root and structure are sound. {left}"),
    }))
}

fn object(o: &ObjectView) -> Value {
    json!({
        "offset_bytes": o.offset, "type": type_words(o.tag),
        "thread_id": o.thread, "clock_count": o.clock, "words": o.words,
    })
}

fn object_line(text: &mut String, o: &ObjectView) {
    let written = write!(text, "{:#x} {} by {}:{}", o.offset, type_words(o.tag), o.thread, o.clock);
    let written = written.and_then(|()| o.words.iter().try_for_each(|w| write!(text, " {w:#x}")));
    written.expect("invariant: a string takes all");
    text.push('\n');
}

fn dump(format: Format, place: &Place) -> Outcome {
    let look = look(place)?;
    let roots = roots(&look, place, format)?;
    if format == Format::Json {
        let mut objects = Vec::new();
        look.pool.walk(|o| {
            objects.push(object(o));
            true
        })?;
        let value = json!({
            "schema": "littoral.heap.dump/2",
            "pool": place.name(),
            "roots": roots,
            "objects": objects,
        });
        return out::show(Format::Json, &value);
    }
    let (mut text, mut ended) = (String::new(), Ok(()));
    for root in &roots {
        let word = |key: &str| root[key].as_str().unwrap_or_default().to_owned();
        let offset = root["offset_bytes"].as_u64().unwrap_or_default();
        text.push_str(&format!("root {} {offset:#x} {}\n", word("root"), word("type")));
    }
    look.pool.walk(|o| {
        object_line(&mut text, o);
        if text.len() >= CHUNK_BYTES {
            ended = out::bytes(text.as_bytes());
            text.clear();
        }
        ended.is_ok()
    })?;
    ended.and_then(|()| out::bytes(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_takes_one_line_and_moves_no_cursor() {
        for (name, shown) in [
            ("counts", "counts"),
            ("of \"Ann\" \u{e9}", "of \"Ann\" \u{e9}"),
            ("a\nroot b 0x0", "a\\nroot b 0x0"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
        ] {
            assert_eq!(on_a_line(name.to_owned()), shown);
        }
    }
}
