//! Every JSON result against its committed schema: what is printed is described, and what is
//! described is printed.
//!
//! - `docs/schemas/NAME-VERSION.json` is a JSON Schema; the validator below knows the part of the
//!   language that they use and refuses the rest, so that nothing is passed over.
//! - A key that the schema does not describe fails, as does a schema that no command here prints.
//! - Keys are plain names; a number's key ends in its unit.

#![allow(clippy::unwrap_used)] // Helpers of tests, which the lint does not take for tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use littoral::heap::structures::{HashMap, Map as _};
use serde_json::{Map, Value};

/// Schemas whose commands take minutes; `LITTORAL_SCHEMAS=all` runs them too.
const SLOW: [(&str, &[&str]); 2] = [
    ("littoral.bench.ring/2", &["bench", "ring", "--trials", "1", "--array", "64MiB"]),
    ("littoral.bench.heap/2", &["bench", "heap", "--trials", "1"]),
];

/// Commands that print JSON, in an order in which each finds what it needs.
const COMMANDS: &[&[&str]] = &[
    &["graph", "gen", "kron", "--scale", "8", "k.lg"],
    &["graph", "import", "in.tsv", "in.lg"],
    &["graph", "import", "in.tsv", "external.lg", "--memory", "8MiB"],
    &["graph", "convert", "in.lg", "in.csv"],
    &["graph", "info", "k.lg"],
    &["graph", "info", "in.lg"],
    &["graph", "check", "k.lg"],
    &["graph", "bfs", "k.lg"],
    &["graph", "bfs", "k.lg", "--medium", "flash", "--profile", "xlfdd", "--verify"],
    &["graph", "pr", "k.lg"],
    &["graph", "cc", "k.lg", "--medium", "pread"],
    &["graph", "pr", "in.lg", "--dangling", "drop", "--output", "ranks.csv"],
    &["graph", "pr", "in.lg", "--damping", "0.99", "--iterations", "9999", "--tolerance", "1e-5"],
    &["graph", "sssp", "weights.csv", "--verify"],
    &["graph", "sssp", "k.lg", "--weights", "seeded", "--output", "paths.csv"],
    &["graph", "bc", "k.lg", "--verify"],
    &["graph", "kcore", "k.lg", "--verify"],
    &["graph", "tc", "k.lg", "--verify"],
    &["graph", "bc", "k.lg", "--sources", "all", "--output", "between.csv"],
    &["graph", "neighbors", "in.lg", "a"],
    &["graph", "neighbors", "weights.csv", "7"],
    &["graph", "path", "in.lg", "a", "c", "--output", "path.tsv"],
    &["graph", "path", "weights.csv", "7", "9"],
    &["graph", "degree", "k.lg", "--output", "degrees.jsonl"],
    &["graph", "degree", "in.lg", "b"],
    &["graph", "whatif", "in.tsv", "--time", "20ms", "--concurrency", "2", "--latency", "1us..2us"],
    &[
        "graph",
        "whatif",
        "k.lg",
        "--time",
        "20ms",
        "--profile",
        "xlfdd,priced.toml",
        "--kernels",
        "cc",
    ],
    &["kv", "create", "s"],
    &["kv", "load", "s", "in.tsv"],
    &["kv", "stats", "s"],
    &["kv", "get", "s", "a"],
    &["kv", "scan", "s", "b"],
    &["kv", "dump", "s"],
    &["kv", "check", "s"],
    &["kv", "backup", "s", "s.kvbak"],
    &["kv", "restore", "s.kvbak", "restored"],
    &["kv", "repair", "s", "repaired"],
    &["machine"],
    &["machine", "--profile", "xlfdd"],
    &["machine", "--profile", "cxl-flash"],
    &["machine", "--profile", "zns-paper"],
    &["machine", "--profile", "tcp"],
    &["machine", "--profile", "optane-dcpmm"],
    &["machine", "zones"],
    &["machine", "profiles"],
    &["machine", "profiles", "nvme-tlc"],
    &["machine", "new", "m.toml"],
    &["machine", "check", "m.toml"],
    &["machine", "--machine", "m.toml"],
    &["graph", "info", "k.lg", "--machine", "m.toml", "--device", "flash"],
    &["graph", "check", "k.lg", "--medium", "pread"],
    &["graph", "bfs", "k.lg", "--machine", "m.toml", "--device", "flash"],
    &["graph", "neighbors", "in.lg", "a", "--machine", "m.toml"],
    &["graph", "path", "in.lg", "a", "c", "--medium", "flash"],
    &["graph", "degree", "k.lg", "--medium", "mmap"],
    &["kv", "create", "on-machine", "--machine", "m.toml", "--engine", "cow"],
    &["kv", "stats", "on-machine", "--machine", "m.toml", "--device", "zoned"],
    &["bench", "ring", "--machine", "m.toml", "--trials", "1"],
    &["bench", "heap", "--machine", "m.toml", "--trials", "1"],
    &["heap", "create", "--machine", "m.toml"],
    &["heap", "check", "--machine", "m.toml"],
    &["doctor"],
    &["heap", "create", "a.pool", "--size", "1MiB"],
    &["heap", "info", "full.pool"],
    &["heap", "check", "full.pool"],
    &["heap", "dump", "full.pool"],
    &["dsm", "bench", "lock", "--fabric", "sim", "--quick"],
    &["dsm", "model", "is", "--ranks", "2", "--profile", "rdma"],
    &["bench", "graph", "k.lg", "--kernels", "bfs,pr", "--trials", "1"],
    &["bench", "kv", "--records", "500", "--operations", "200"],
    &["bench", "kv", "--records", "500", "--operations", "200", "--profile", "smr-disk"],
    &["bench", "kv", "--records", "10", "--operations", "1", "--workload", "5"],
    &["push", "gen", "li.set", "--scale", "0.001", "--pages", "text"],
    &["push", "load", "weights.csv", "w.set"],
    &["push", "run", "w.set", "--where", "w > 0.6", "--sum", "w", "--by", "u"],
    &["push", "run", "li.set", "--query", "q1", "--profile", "summarizer-board"],
    &["push", "sweep", "li.set", "--query", "q6"],
    &["push", "whatif", "li.set", "--where", "l_quantity < 24", "--sum", "l_tax"],
    &["repro", "loongarch", "--only", "la64.isa.rows"],
];

/// Commands that write JSON to a file, without the file's name and what follows it.
const REPORTING: &[(&[&str], &[&str])] =
    &[(&["dsm", "run", "-n", "2", "--fabric", "sim", "--report"], &["true"])];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(folder: &Path, args: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_littoral"))
        .args(args)
        .args(["--format", "json"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}"))
}

/// The committed schemas by name and version.
fn committed() -> Vec<(String, Value)> {
    let files = fs::read_dir(root().join("docs/schemas")).unwrap();
    let paths =
        files.map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "json"));
    let mut found: Vec<(String, Value)> = paths
        .map(|path| {
            let schema: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            let name = schema["title"].as_str().unwrap().to_owned();
            let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
            assert_eq!(stem, name.replace('/', "-"), "a schema's file is named after it");
            (name, schema)
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// Parts of the language, beside what only describes.
const KNOWN: [&str; 10] = [
    "$schema",
    "title",
    "description",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
];

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("the schemas use no type {other}"),
    }
}

/// Adds to `faults` what in `value` is not as `schema` says; `at` is the place in words.
fn validate(value: &Value, schema: &Value, at: &str, faults: &mut Vec<String>) {
    for word in schema.as_object().unwrap().keys() {
        assert!(KNOWN.contains(&word.as_str()), "{at}: the validator does not know `{word}`");
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|t| is_of_type(value, t)) {
        faults.push(format!("{at}: {value} is not {types:?}"));
    }
    if schema.get("const").is_some_and(|c| c != value) {
        faults.push(format!("{at}: {value} is not {}", schema["const"]));
    }
    if schema["enum"].as_array().is_some_and(|all| !all.contains(value)) {
        faults.push(format!("{at}: {value} is not one of {}", schema["enum"]));
    }
    if let Value::Array(items) = value {
        for (i, item) in items.iter().enumerate() {
            validate(item, &schema["items"], &format!("{at}[{i}]"), faults);
        }
    }
    if let Value::Object(fields) = value {
        validate_object(fields, schema, at, faults);
    }
}

fn validate_object(
    fields: &Map<String, Value>,
    schema: &Value,
    at: &str,
    faults: &mut Vec<String>,
) {
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(key) {
            faults.push(format!("{at}: the key {key} is missing"));
        }
    }
    for (key, value) in fields {
        let described = schema["properties"].get(key);
        let other = schema.get("additionalProperties").filter(|s| s.is_object());
        match described.or(other) {
            Some(inner) => validate(value, inner, &format!("{at}.{key}"), faults),
            None => faults.push(format!("{at}: the key {key} is not described")),
        }
    }
}

/// Calls `found` with each key of each object, with its value.
fn each_key(value: &Value, found: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            found(key, value);
            each_key(value, found);
        }),
        Value::Array(items) => items.iter().for_each(|item| each_key(item, found)),
        _ => {}
    }
}

/// How a number's key may end, before a word that says which of several it is.
const UNITS: [&str; 12] = [
    "bytes", "column", "count", "id", "j", "ns", "per_s", "price", "ratio", "share", "version", "w",
];
const QUALIFIERS: [&str; 8] = ["min", "max", "mean", "p10", "p25", "p50", "p75", "p99"];
/// Keys of numbers without a unit: the columns of a graph's answer, which are named as in its file.
const COLUMNS: [&str; 17] = [
    "betweenness",
    "component",
    "core",
    "degree",
    "distance",
    "in",
    "level",
    "out",
    "parent",
    "rank",
    "size",
    "source",
    "step",
    "target",
    "triangles",
    "vertex",
    "weight",
];
/// The others: figures beside a key that names their unit, and numbers that are no measure.
const UNITLESS: [&str; 17] = [
    "change",
    "degree_max",
    "degree_mean",
    "degree_p50",
    "degree_p99",
    "farthest",
    "highest",
    "ours",
    "paper",
    "roots_max",
    "seed",
    "slabs_max",
    "threads_max",
    "tolerance",
    "value",
    "values",
    "words",
];

fn ends_in_unit(key: &str) -> bool {
    let name = key.rsplit_once('_').filter(|(_, q)| QUALIFIERS.contains(q)).map_or(key, |(n, _)| n);
    let is_unit = |unit: &str| name.strip_suffix(unit).is_some_and(|rest| rest.ends_with('_'));
    UNITS.into_iter().any(is_unit) || COLUMNS.contains(&key) || UNITLESS.contains(&key)
}

fn assert_plain_keys(value: &Value, args: &[&str]) {
    each_key(value, &mut |key, value| {
        let first = value.as_array().and_then(|items| items.first()).unwrap_or(value);
        assert!(
            !first.is_number() || ends_in_unit(key),
            "{args:?}: {key} is a number without a unit"
        );
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
        assert!(key.chars().all(is_plain), "{args:?}: `{key}` is a sentence, not a name");
        let text = value.as_str().unwrap_or("x");
        let is_number = text.parse::<f64>().is_ok()
            && !["key", "revision", "source", "value", "vertex", "zone"].contains(&key);
        assert!(!is_number, "{args:?}: {key} is the number {text} as a text");
    });
}

/// A pool with objects and a root.
fn make_pool(path: &Path) {
    let memory = littoral::device::pmem::AnyDomain::create(path, 1 << 20).unwrap();
    let pool = littoral::heap::create(memory, &littoral::heap::Options::default()).unwrap();
    let made = pool.thread().unwrap().atomically(|tx| {
        let map = HashMap::create(tx, 100)?;
        map.insert(tx, 1, 10)?;
        tx.set_root("counts", map.at())
    });
    made.unwrap();
}

/// A shipped profile with its price and power.
fn priced() -> String {
    let shipped = root().join("crates/device/profiles/xlfdd.toml");
    let text = fs::read_to_string(shipped).unwrap().replace("\"xlfdd\"", "\"priced\"");
    let row = |key: &str, value: &str| {
        format!("{key} = {{ value = \"{value}\", basis = \"given\", source = \"a test\" }}\n")
    };
    format!("{text}\n[cost]\n{}{}", row("price_per_gb", "0.12"), row("power", "8.5 W"))
}

/// What a command writes to a file that is named `report.json`.
fn reported(folder: &Path, (before, after): (&[&str], &[&str])) -> Value {
    let path = folder.join("report.json");
    let output = Command::new(env!("CARGO_BIN_EXE_littoral"))
        .args(before)
        .arg(&path)
        .args(after)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{before:?}: {}", String::from_utf8_lossy(&output.stderr));
    let value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    fs::remove_file(path).unwrap();
    value
}

/// Validates what `args` gave; the schema's name.
fn validated_one(printed: &Value, args: &[&str], schemas: &[(String, Value)]) -> String {
    assert_plain_keys(printed, args);
    let one = printed.as_array().map_or(printed, |runs| &runs[0]);
    let name = one["schema"].as_str().unwrap_or_else(|| panic!("{args:?}: no schema"));
    let schema = schemas.iter().find(|(n, _)| n == name);
    let (_, schema) = schema.unwrap_or_else(|| panic!("{name} is not in docs/schemas"));
    let mut faults = Vec::new();
    validate(one, schema, name, &mut faults);
    assert!(faults.is_empty(), "{args:?}:\n{}", faults.join("\n"));
    name.to_owned()
}

/// Runs each command and validates what it prints or writes; the names of the schemas met.
fn validated(commands: &[&[&str]]) -> BTreeSet<String> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("in.tsv"), "a\tb\nb\tc\nc\ta\n").unwrap();
    fs::write(dir.path().join("weights.csv"), "u,v,w\n7,8,0.5\n8,9,2\n").unwrap();
    fs::write(dir.path().join("priced.toml"), priced()).unwrap();
    make_pool(&dir.path().join("full.pool"));
    let (schemas, mut met) = (committed(), BTreeSet::new());
    for args in commands {
        met.insert(validated_one(&run(dir.path(), args), args, &schemas));
    }
    for &(before, after) in REPORTING {
        met.insert(validated_one(&reported(dir.path(), (before, after)), before, &schemas));
    }
    met
}

#[test]
fn every_result_is_as_its_schema_says() {
    let is_full = std::env::var_os("LITTORAL_SCHEMAS").is_some();
    let slow = SLOW.iter().filter(|_| is_full).map(|(_, args)| *args);
    let commands: Vec<&[&str]> = COMMANDS.iter().copied().chain(slow).collect();
    let met = validated(&commands);
    let is_slow = |name: &str| SLOW.iter().any(|(slow, _)| *slow == name);
    let all = committed().into_iter().map(|(name, _)| name);
    let unmet: Vec<String> = all.filter(|n| !met.contains(n) && !is_slow(n)).collect();
    assert!(unmet.is_empty(), "no command prints {unmet:?}");
}

#[test]
fn every_schema_describes_each_of_its_keys() {
    fn described(schema: &Value, at: &str) {
        for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
            let words = inner["description"].as_str().unwrap_or_default();
            assert!(!words.is_empty(), "{at}.{key} has no description");
            let is_number = number(inner) || inner.get("items").is_some_and(number);
            assert!(!is_number || ends_in_unit(key), "{at}.{key} is a number without a unit");
            described(inner, &format!("{at}.{key}"));
        }
        schema.get("items").iter().for_each(|items| described(items, &format!("{at}[]")));
    }
    fn number(schema: &Value) -> bool {
        let types = schema["type"].as_array().cloned().unwrap_or(vec![schema["type"].clone()]);
        types.iter().any(|t| t == "number" || t == "integer")
    }
    let book = fs::read_to_string(root().join("docs/book/src/reference/schemas.md")).unwrap();
    for (name, schema) in committed() {
        described(&schema, &name);
        assert!(book.contains(&format!("`{name}`")), "{name} is not in the book");
    }
}

/// The validator can fail: each kind of breach is found.
#[test]
fn breaches_are_found() {
    let keys =
        ["time_ns", "time_ns_p25", "per_s", "time", "time_ms", "count_reads", "w", "power_w"];
    let ends = [true, true, false, false, false, false, false, true];
    assert_eq!(keys.map(ends_in_unit), ends);
    let schema: Value = serde_json::from_str(
        r#"{"type": "object", "required": ["a"], "properties": {
            "a": {"type": "integer"}, "b": {"enum": ["x"]}, "c": {"type": "array", "items":
            {"type": ["number", "null"]}}}}"#,
    )
    .unwrap();
    for (text, words) in [
        (r#"{"a": 1, "b": "x", "c": [1.5, null]}"#, ""),
        (r#"{}"#, "the key a is missing"),
        (r#"{"a": 1.5}"#, "is not [\"integer\"]"),
        (r#"{"a": 1, "b": "y"}"#, "is not one of"),
        (r#"{"a": 1, "c": ["z"]}"#, "c[0]"),
        (r#"{"a": 1, "d": 1}"#, "the key d is not described"),
    ] {
        let mut faults = Vec::new();
        validate(&serde_json::from_str(text).unwrap(), &schema, "x", &mut faults);
        let found = faults.join("; ");
        assert_eq!(found.is_empty(), words.is_empty(), "{text}: {found}");
        assert!(found.contains(words), "{text}: {found}");
    }
}
