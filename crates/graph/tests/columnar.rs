//! Parquet and Arrow IPC tables of edges: what is read, what is refused and where, what is written.

#![cfg(feature = "arrow")]
#![allow(clippy::unwrap_used)] // Reason: helpers of a test.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array,
    LargeStringArray, ListArray, RecordBatch, StringArray, StructArray, UInt8Array, UInt64Array,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field};
use littoral_graph::answer::{Cells, Column, Table};
use littoral_graph::builder::{BuildOptions, Existing, Hooks};
use littoral_graph::columnar;
use littoral_graph::error::{Error, Kind};
use littoral_graph::export::export;
use littoral_graph::format::file::GraphFile;
use littoral_graph::import::{Format, Ids, ImportOptions, import, import_in_memory};
use littoral_graph::names::{Labels, Names, TextNames};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    // Not by name: a name may be there twice.
    let field = |(name, array): &(&str, ArrayRef)| {
        Field::new(*name, array.data_type().clone(), array.null_count() > 0)
    };
    let schema = arrow_schema::Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|c| c.1).collect()).unwrap()
}

/// Writes a table in every form that is read; what a form cannot hold is left out.
fn files(folder: &Path, batch: &RecordBatch) -> Vec<PathBuf> {
    let schema = batch.schema();
    let compressions = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(ZstdLevel::default()),
        Compression::LZ4_RAW,
        Compression::GZIP(Default::default()),
    ];
    let mut paths = Vec::new();
    for (i, compression) in compressions.into_iter().enumerate() {
        let path = folder.join(format!("{i}.parquet"));
        let properties = WriterProperties::builder().set_compression(compression).build();
        let file = File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, schema.clone(), Some(properties)).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
        paths.push(path);
    }
    let compressions = [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)];
    for (i, compression) in compressions.into_iter().enumerate() {
        let options = || IpcWriteOptions::default().try_with_compression(compression).unwrap();
        let (whole, stream) = (folder.join(format!("{i}.arrow")), folder.join(format!("{i}.ipc")));
        let file = File::create(&whole).unwrap();
        let mut writer = FileWriter::try_new_with_options(file, &schema, options()).unwrap();
        writer.write(batch).unwrap();
        writer.finish().unwrap();
        let file = File::create(&stream).unwrap();
        let mut writer = StreamWriter::try_new_with_options(file, &schema, options()).unwrap();
        writer.write(batch).unwrap();
        writer.finish().unwrap();
        paths.extend([whole, stream]);
    }
    paths
}

fn image_with(path: &Path, options: &ImportOptions) -> Result<Vec<u8>, Error> {
    let build = BuildOptions { threads: 1, ..BuildOptions::default() };
    import_in_memory(path, options, &build, &mut Hooks::none()).map(|(image, ..)| image)
}

fn image(path: &Path) -> Vec<u8> {
    image_with(path, &ImportOptions::default()).unwrap()
}

/// The image of a CSV.
fn of_csv(folder: &Path, text: &str) -> Vec<u8> {
    let path = folder.join("wanted.csv");
    std::fs::write(&path, text).unwrap();
    image(&path)
}

fn text(of: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(of.to_vec()))
}

#[test]
fn a_table_and_its_csv_make_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    let wide = batch(vec![
        ("note", text(&["x", "y", "z"])),
        ("target", Arc::new(Int32Array::from(vec![2, 3, 900]))),
        ("weight", Arc::new(Float64Array::from(vec![0.5, -0.0, 0.25]))),
        ("source", Arc::new(UInt64Array::from(vec![7, 2, 7]))),
    ]);
    let named = batch(vec![
        ("from", text(&["ann", "bob", "ann"])),
        ("to", Arc::new(LargeStringArray::from(vec!["bob", "cy", "\u{e4}, \"x\""]))),
    ]);
    let keys = vec![Some("b"), Some("a"), Some("b")];
    let dictionary: DictionaryArray<Int8Type> = keys.into_iter().collect();
    let mixed = batch(vec![
        ("u", Arc::new(dictionary)),
        ("v", Arc::new(UInt8Array::from(vec![1, 2, 3]))),
        ("w", Arc::new(Int64Array::from(vec![16_777_217, 0, 5]))),
    ]);
    for (table, csv) in [
        (wide, "source,target,weight\n7,2,0.5\n2,3,-0\n7,900,0.25\n"),
        (named, "from,to\nann,bob\nbob,cy\nann,\"\u{e4}, \"\"x\"\"\"\n"),
        (mixed, "u,v,w\nb,1,16777217\na,2,0\nb,3,5\n"),
    ] {
        let wanted = of_csv(folder.path(), csv);
        for path in files(folder.path(), &table) {
            assert!(image(&path) == wanted, "{}", path.display());
        }
    }
}

#[test]
fn options_of_imports_hold_for_tables() {
    let folder = tempfile::tempdir().unwrap();
    let table = batch(vec![
        ("a", Arc::new(Int64Array::from(vec![5, -6]))),
        ("b", Arc::new(Int64Array::from(vec![10, 11]))),
        ("c", Arc::new(Int64Array::from(vec![1, 2]))),
    ]);
    let options = |columns: &str, ids| ImportOptions {
        columns: Some(columns.split(',').map(str::to_owned).collect()),
        ids,
        directed: Some(false),
        ..ImportOptions::default()
    };
    for path in files(folder.path(), &table) {
        let image = image_with(&path, &options("c,a", Some(Ids::Text))).unwrap();
        let graph = GraphFile::from_image(image).unwrap();
        assert!(!graph.is_directed() && !graph.is_weighted());
        assert_eq!(graph.names().unwrap().find("-6").unwrap(), 3);
        let refused = image_with(&path, &options("3,1", None)).unwrap_err();
        assert!(refused.to_string().contains("row 2, column 'a': '-6'"), "{refused}");
        let header = ImportOptions { header: Some(true), ..options("2,3", None) };
        assert_eq!(image_with(&path, &header).unwrap_err().kind(), Kind::Argument);
    }
}

#[test]
fn what_is_no_table_of_edges_is_refused_by_column_and_row() {
    let folder = tempfile::tempdir().unwrap();
    let ints = |of: &[i64]| -> ArrayRef { Arc::new(Int64Array::from(of.to_vec())) };
    let some = |of: Vec<Option<i64>>| -> ArrayRef { Arc::new(Int64Array::from(of)) };
    let reals = |of: &[f64]| -> ArrayRef { Arc::new(Float64Array::from(of.to_vec())) };
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<
        arrow_array::types::Int32Type,
        _,
        _,
    >(vec![Some(vec![Some(1)]), Some(vec![Some(2)])]));
    let inner = Arc::new(Field::new("id", DataType::Int64, false));
    let nested: ArrayRef = Arc::new(StructArray::from(vec![(inner, ints(&[1, 2]))]));
    let bools: ArrayRef = Arc::new(BooleanArray::from(vec![true, false]));
    let of = |s: ArrayRef, t: ArrayRef| vec![("source", s), ("target", t)];
    let cases: Vec<(Vec<(&str, ArrayRef)>, &str)> = vec![
        (of(ints(&[1, 2]), some(vec![Some(1), None])), "row 2, column 'target': is empty (null)"),
        (of(ints(&[1, -2]), ints(&[1, 2])), "row 2, column 'source': '-2' cannot be an id"),
        (of(text(&["a", ""]), ints(&[1, 2])), "row 2, column 'source': an empty id"),
        (of(list, ints(&[1, 2])), "column 'source' is of type List"),
        (of(ints(&[1, 2]), nested), "column 'target' is of type Struct"),
        (of(bools, ints(&[1, 2])), "column 'source' is of type Boolean"),
        (of(reals(&[1.0, 2.0]), ints(&[1, 2])), "column 'source' is of type Float64"),
        (
            vec![("source", ints(&[1, 2])), ("other", ints(&[1, 2])), ("third", ints(&[1, 2]))],
            "source and target are not clear; say --columns",
        ),
        (
            vec![("source", ints(&[1])), ("source", ints(&[2])), ("target", ints(&[3]))],
            "the header is: source, source, target",
        ),
        (
            vec![("u", ints(&[1])), ("v", ints(&[2])), ("w", reals(&[-0.5]))],
            "row 1, column 'w': weight '-0.5' is no finite number >= 0",
        ),
        (vec![("u", ints(&[1])), ("v", ints(&[2])), ("w", reals(&[f64::NAN]))], "weight 'NaN'"),
        (
            vec![("u", ints(&[1])), ("v", ints(&[2])), ("w", text(&["1"]))],
            "column 'w' is of type Utf8; weights are numbers",
        ),
        (
            vec![("Source", ints(&[1])), ("Target", ints(&[2])), ("Type", text(&["Undirected"]))],
            "column 'Type' may tell the direction; say --directed or --undirected",
        ),
        (of(ints(&[]), ints(&[])), "the table has no rows"),
    ];
    for (columns, words) in cases {
        for path in files(folder.path(), &batch(columns)) {
            let refused = image_with(&path, &ImportOptions::default()).unwrap_err();
            assert_eq!(refused.kind(), Kind::Input, "{refused}");
            assert!(refused.to_string().contains(words), "{words} in {refused}");
            assert!(refused.to_string().starts_with(&path.display().to_string()), "{refused}");
        }
    }
}

#[test]
fn a_column_that_is_asked_for_and_missing_or_there_twice_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let ints = || -> ArrayRef { Arc::new(Int64Array::from(vec![1, 2])) };
    let table = batch(vec![("a", ints()), ("b", ints()), ("b", ints())]);
    for path in files(folder.path(), &table) {
        for (columns, words) in [
            (["a", "d"], "no column is called 'd', and it is no number from 1 to 3"),
            (["a", "b"], "--columns b may mean more than one column; the header is: a, b, b"),
        ] {
            let columns = Some(columns.map(str::to_owned).to_vec());
            let options = ImportOptions { columns, ..ImportOptions::default() };
            let refused = image_with(&path, &options).unwrap_err().to_string();
            assert!(refused.contains(words), "{words} in {refused}");
        }
    }
}

#[test]
fn damaged_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let ids: Vec<i64> = (0..2000).collect();
    let column = || -> ArrayRef { Arc::new(Int64Array::from(ids.clone())) };
    let table = batch(vec![("source", column()), ("target", column())]);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    for path in files(folder.path(), &table) {
        let whole = std::fs::read(&path).unwrap();
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            image_with(&path, &ImportOptions::default())
        };
        for cut in [0, 3, 7, whole.len() / 2, whole.len() - 9] {
            let refused = read(&whole[..cut]).unwrap_err();
            assert_eq!(refused.kind(), Kind::Input, "{} cut at {cut}: {refused}", path.display());
        }
        for at in (0..whole.len()).step_by(whole.len() / 40 + 1) {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x55;
            // Neither form has checksums of all its bytes: a value may change, nothing else.
            if let Ok(image) = read(&flipped) {
                let graph = GraphFile::from_image(image).unwrap();
                littoral_graph::check::check(&graph, &mut Hooks::none()).unwrap();
            }
        }
    }
    std::panic::set_hook(hook);
}

/// Refuses every file with one byte patched near each place of `near`, without memory for it.
fn refused_when_patched(path: &Path, whole: &[u8], near: i64) -> usize {
    let pattern = near.to_le_bytes();
    let places: Vec<usize> = (0..whole.len() - 8).filter(|&i| whole[i..i + 8] == pattern).collect();
    for &at in &places {
        let mut patched = whole.to_vec();
        patched[at + 6] = 1;
        std::fs::write(path, &patched).unwrap();
        let refused = image_with(path, &ImportOptions::default()).unwrap_err();
        assert_eq!(refused.kind(), Kind::Input, "{refused}");
        assert!(refused.to_string().contains("damaged, or no Arrow file"), "{refused}");
    }
    places.len()
}

#[test]
fn lengths_that_a_file_does_not_have_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let column = || -> ArrayRef { Arc::new(Int64Array::from_iter_values(0..2003)) };
    let table = batch(vec![("source", column()), ("target", column())]);
    for path in files(folder.path(), &table) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let whole = std::fs::read(&path).unwrap();
        if name.ends_with(".arrow") {
            // The footer's block: the length of the body is its last word.
            let reader = arrow_ipc::reader::FileReader::try_new(File::open(&path).unwrap(), None);
            drop(reader.unwrap());
            let length = u32::from_le_bytes(whole[whole.len() - 10..][..4].try_into().unwrap());
            let footer = &whole[whole.len() - 10 - length as usize..whole.len() - 10];
            let block = arrow_ipc::root_as_footer(footer).unwrap().recordBatches().unwrap().get(0);
            assert!(refused_when_patched(&path, &whole, block.bodyLength()) > 0, "{name}");
        }
        if name.starts_with(['1', '2']) && !name.ends_with(".parquet") {
            // What each compressed buffer says of its length: 2003 words of 8 bytes.
            assert!(refused_when_patched(&path, &whole, 2003 * 8) >= 2, "{name}");
        }
    }
}

#[test]
fn values_of_a_dictionary_that_no_row_uses_are_no_fault() {
    let folder = tempfile::tempdir().unwrap();
    let values: ArrayRef = text(&["", "b", "a"]);
    let keys = arrow_array::Int8Array::from(vec![2, 1]);
    let source: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::new(keys, values.clone()));
    let table = batch(vec![("source", source), ("target", text(&["c", "d"]))]);
    let wanted = of_csv(folder.path(), "source,target\na,c\nb,d\n");
    for path in files(folder.path(), &table) {
        assert!(image(&path) == wanted, "{}", path.display());
    }
    let keys = arrow_array::Int8Array::from(vec![2, 0]);
    let source: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::new(keys, values));
    let table = batch(vec![("source", source), ("target", text(&["c", "d"]))]);
    for path in files(folder.path(), &table) {
        let refused = image_with(&path, &ImportOptions::default()).unwrap_err().to_string();
        assert!(refused.contains("row 2, column 'source': an empty id"), "{refused}");
    }
}

#[test]
fn tables_are_imported_out_of_core_as_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let ids = |by: i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..50_000).map(|i| i * by % 7919)))
    };
    for path in files(folder.path(), &batch(vec![("source", ids(13)), ("target", ids(71))])) {
        let output = folder.path().join("out.lg");
        let build = BuildOptions { memory_bytes: Some(8 << 20), ..BuildOptions::default() };
        let (options, hooks) = (ImportOptions::default(), &mut Hooks::none());
        import(&path, &output, Existing::Replace, &options, &build, hooks).unwrap();
        assert!(std::fs::read(&output).unwrap() == image(&path), "{}", path.display());
    }
}

/// Imports within `memory_bytes` and gives the file made.
fn bounded(path: &Path, output: &Path, memory_bytes: u64) -> Result<Vec<u8>, Error> {
    let build = BuildOptions { memory_bytes: Some(memory_bytes), ..BuildOptions::default() };
    let (options, hooks) = (ImportOptions::default(), &mut Hooks::none());
    import(path, output, Existing::Replace, &options, &build, hooks)?;
    Ok(std::fs::read(output).unwrap())
}

#[test]
fn what_does_not_fit_the_memory_is_refused_before_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.lg");
    let count = 1_500_000;
    let ids = |by: i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..count).map(|i| i * by % 7919)))
    };
    let table = batch(vec![("source", ids(13)), ("target", ids(71))]);
    // Pages of 12 MB, as they are and compressed to less than a tenth.
    let pages = |name: &str, compression, dictionary| {
        let path = folder.path().join(name);
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_dictionary_enabled(dictionary)
            .set_data_page_size_limit(1 << 30)
            .set_data_page_row_count_limit(count as usize)
            .set_write_batch_size(count as usize)
            .build();
        let file = File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, table.schema(), Some(properties)).unwrap();
        writer.write(&table).unwrap();
        writer.close().unwrap();
        path
    };
    let plain = pages("plain.parquet", Compression::UNCOMPRESSED, false);
    let tight = pages("tight.parquet", Compression::ZSTD(ZstdLevel::default()), false);
    let mut paths = vec![(plain, "pages of the columns of edges take"), (tight, "pages of the")];
    let arrow = files(folder.path(), &table).split_off(5);
    paths.extend(arrow.into_iter().map(|path| (path, "a batch of the table takes")));
    for (path, words) in paths {
        let refused = bounded(&path, &output, 8 << 20).unwrap_err();
        assert_eq!(refused.kind(), Kind::Memory, "{}: {refused}", path.display());
        let message = refused.to_string();
        assert!(message.contains(words) && message.contains("--memory 8 MiB"), "{message}");
        assert!(!output.exists());
        let least = message.split("at least ").nth(1).unwrap();
        let mib: u64 = least.strip_suffix(" MiB").unwrap().parse().unwrap();
        assert!((17..120).contains(&mib), "{message}");
        // The names take some of it, too.
        let made = bounded(&path, &output, (mib + 2) << 20).unwrap();
        assert!(made == image(&path), "{}", path.display());
        std::fs::remove_file(&output).unwrap();
    }
    // Indices into a dictionary take little, and pages as writers make them do, too.
    let small = pages("small.parquet", Compression::SNAPPY, true);
    let usual = folder.path().join("1.parquet");
    for path in [small, usual] {
        assert!(bounded(&path, &output, 16 << 20).is_ok(), "{}", path.display());
    }
}

#[test]
fn long_names_of_a_batch_are_counted_and_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.lg");
    // Two names of 20 kB: a dictionary makes a small page of them, and 1024 rows 20 MB.
    let names = ["a".repeat(20_000), "b".repeat(20_000)];
    let ids = |at: usize| -> ArrayRef {
        let of = |i: usize| names[(i / 7 + at) % 2].as_str();
        Arc::new(StringArray::from_iter_values((0..3000).map(of)))
    };
    let path = folder.path().join("long.parquet");
    let table = batch(vec![("source", ids(0)), ("target", ids(1))]);
    let file = File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, table.schema(), None).unwrap();
    writer.write(&table).unwrap();
    writer.close().unwrap();
    let refused = bounded(&path, &output, 8 << 20).unwrap_err();
    assert_eq!(refused.kind(), Kind::Memory, "{refused}");
    assert!(refused.to_string().contains("give it at least"), "{refused}");
}

#[test]
fn graphs_go_out_as_tables_and_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let graph = GraphFile::from_image(of_csv(folder.path(), "from,to\n1,2\n")).unwrap();
    let (path, stop) = (folder.path().join("x.arrow"), AtomicBool::new(true));
    let export_by = |path: &Path, hooks: &mut Hooks<'_>| {
        export(&graph, Format::Arrow, path, Existing::Refuse, hooks)
    };
    let ended = export_by(&path, &mut Hooks::new(|_, _, _| (), &stop)).unwrap_err();
    assert_eq!(ended.kind(), Kind::Interrupted);
    assert!(!path.exists(), "an interrupt leaves nothing");
    let refused = export_by(&folder.path().join("wanted.csv"), &mut Hooks::none()).unwrap_err();
    assert_eq!(refused.kind(), Kind::Argument);
    for csv in ["source,target,weight\n7,2,0.5\n2,3,2\n", "from,to\nann,bob\nbob,cy\n"] {
        let graph = GraphFile::from_image(of_csv(folder.path(), csv)).unwrap();
        for (format, name) in [(Format::Parquet, "x.parquet"), (Format::Arrow, "x.arrow")] {
            let path = folder.path().join(name);
            export(&graph, format, &path, Existing::Replace, &mut Hooks::none()).unwrap();
            let back = GraphFile::from_image(image(&path)).unwrap();
            let out = folder.path().join("back.csv");
            for (graph, wanted) in [(&graph, None), (&back, Some(out.clone()))] {
                let to = folder.path().join("to.csv");
                export(graph, Format::Csv, &to, Existing::Replace, &mut Hooks::none()).unwrap();
                match wanted {
                    None => drop(std::fs::rename(&to, &out)),
                    Some(first) => {
                        let (a, b) = (std::fs::read(first).unwrap(), std::fs::read(to).unwrap());
                        assert_eq!(String::from_utf8(a), String::from_utf8(b), "{name}");
                    }
                }
            }
        }
    }
}

#[test]
fn answers_are_read_back_with_their_types() {
    let n = 70_000;
    let rows: Vec<u32> = (0..n).rev().collect();
    let table = Table::new(vec![
        Column { name: "vertex", cells: Cells::Vertices(rows.clone()) },
        Column { name: "level", cells: Cells::Counts(rows.iter().map(|&v| v.into()).collect()) },
        Column { name: "rank", cells: Cells::Singles(vec![0.1; n as usize]) },
        Column { name: "score", cells: Cells::Doubles(vec![0.1; n as usize]) },
    ]);
    let mut text = TextNames::new();
    (0..n).for_each(|v| text.push(&format!("v{v}")));
    for (names, vertex) in [
        (Names::new(Labels::Identity, n), DataType::UInt64),
        (Names::new(Labels::Text(text), n), DataType::LargeUtf8),
    ] {
        for format in [Format::Parquet, Format::Arrow] {
            let mut out = Vec::new();
            columnar::write(format, &table, &names, &mut out).unwrap();
            let batches = read_back(format, out);
            assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), n as usize);
            let schema = batches[0].schema();
            let types: Vec<&DataType> = schema.fields().iter().map(|f| f.data_type()).collect();
            let wanted = [&vertex, &DataType::UInt64, &DataType::Float32, &DataType::Float64];
            assert_eq!(types, wanted);
            let first = batches[0].slice(0, 1);
            let wanted: ArrayRef = match vertex {
                DataType::LargeUtf8 => Arc::new(LargeStringArray::from(vec!["v69999"])),
                _ => Arc::new(UInt64Array::from(vec![69_999])),
            };
            assert_eq!(first.column(0), &wanted);
        }
    }
}

fn read_back(format: Format, bytes: Vec<u8>) -> Vec<RecordBatch> {
    if format == Format::Arrow {
        let reader = arrow_ipc::reader::FileReader::try_new(std::io::Cursor::new(bytes), None);
        return reader.unwrap().map(Result::unwrap).collect();
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let builder = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(
        File::open(file.path()).unwrap(),
    );
    builder.unwrap().build().unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_codec_that_is_not_built_in_is_unsupported_and_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let ids = || Arc::new(Int64Array::from_iter_values(0..100)) as ArrayRef;
    let written = files(folder.path(), &batch(vec![("source", ids()), ("target", ids())]));
    let mut bytes = std::fs::read(&written[1]).unwrap();
    // In the metadata a column's path goes before its codec: field type i32, then SNAPPY as 2.
    let marked = bytes.windows(8).rposition(|w| w == b"target\x15\x02").unwrap();
    for codec in [3 << 1, 4 << 1] {
        // LZO, BROTLI.
        bytes[marked + 7] = codec;
        let path = folder.path().join("other.parquet");
        std::fs::write(&path, &bytes).unwrap();
        let e = image_with(&path, &ImportOptions::default()).unwrap_err();
        assert!(e.kind() == Kind::Unsupported && e.to_string().contains("compressed"), "{e}");
    }
}
