//! Tables of Parquet and Arrow IPC on the command line: imported, searched, exported, read back by
//! the Arrow project's own readers.

#![cfg(feature = "arrow")]
#![allow(clippy::unwrap_used)] // Helpers of tests, which the lint does not take for tests.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Float64Array, Int32Array, RecordBatch, StringArray};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

fn succeeds(folder: &Path, args: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_littoral"));
    let output = command.args(args).current_dir(folder).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {message}");
}

/// Writes a table to `NAME.parquet` and `NAME.arrow`.
fn write(folder: &Path, name: &str, columns: Vec<(&str, ArrayRef)>) {
    let field = |(name, array): &(&str, ArrayRef)| {
        Field::new(*name, array.data_type().clone(), array.null_count() > 0)
    };
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let arrays = columns.into_iter().map(|c| c.1).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).unwrap();
    let file = File::create(folder.join(format!("{name}.parquet"))).unwrap();
    let mut writer = ArrowWriter::try_new(file, Arc::clone(&schema), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let file = File::create(folder.join(format!("{name}.arrow"))).unwrap();
    let mut writer = FileWriter::try_new(file, &schema).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
}

/// The header, then the rows of a table, as text.
fn rows(path: &Path) -> Vec<Vec<String>> {
    let file = File::open(path).unwrap();
    let batches: Vec<RecordBatch> = match path.extension().unwrap().to_str().unwrap() {
        "csv" => {
            let reader = csv::ReaderBuilder::new().has_headers(false).from_reader(file);
            let record = |r: csv::StringRecord| r.iter().map(str::to_owned).collect();
            return reader.into_records().map(|r| record(r.unwrap())).collect();
        }
        "parquet" => {
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
            reader.map(Result::unwrap).collect()
        }
        _ => FileReader::try_new(file, None).unwrap().map(Result::unwrap).collect(),
    };
    let header = |batch: &RecordBatch| -> Vec<String> {
        batch.schema().fields().iter().map(|f| f.name().clone()).collect()
    };
    let mut all = vec![header(&batches[0])];
    for batch in &batches {
        let row = |i| batch.columns().iter().map(|c| cell(c.as_ref(), i)).collect();
        all.extend((0..batch.num_rows()).map(row));
    }
    all
}

fn cell(column: &dyn Array, row: usize) -> String {
    match column.data_type() {
        DataType::LargeUtf8 => column.as_string::<i64>().value(row).to_owned(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).to_string(),
        DataType::Float32 => column.as_primitive::<Float32Type>().value(row).to_string(),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).to_string(),
        other => panic!("no column of an answer is of type {other}"),
    }
}

/// Calls between people called by text, each with its minutes.
fn calls(folder: &Path) {
    let text = |of: &[&str]| -> ArrayRef { Arc::new(StringArray::from(of.to_vec())) };
    let columns = vec![
        ("minutes", Arc::new(Float64Array::from(vec![0.5, 2.0, 1.25, 4.0])) as ArrayRef),
        ("caller", text(&["ann", "bob", "cy, \"x\"", "ann"])),
        ("callee", text(&["bob", "cy, \"x\"", "d\u{e4}n", "cy, \"x\""])),
    ];
    write(folder, "calls", columns);
}

#[test]
fn a_table_is_imported_and_its_answers_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    calls(folder);
    let mut files = Vec::new();
    for table in ["calls.parquet", "calls.arrow"] {
        let columns = ["--columns", "caller,callee,minutes", "--force"];
        succeeds(folder, &[&["graph", "import", table, "g.lg"][..], &columns].concat());
        files.push(fs::read(folder.join("g.lg")).unwrap());
    }
    assert!(files[0] == files[1], "both forms of a table make the same graph file");
    let once = ["--trials", "1", "--threads", "1", "--force", "--output"];
    let ask = |question: &[&str], answer: &str| {
        succeeds(folder, &[&["graph"], question, &once, &[answer]].concat());
        rows(&folder.join(answer))
    };
    let levels = [["vertex", "level"], ["ann", "0"], ["bob", "1"], ["cy, \"x\"", "1"]];
    for answer in ["levels.parquet", "levels.arrow"] {
        let found = ask(&["bfs", "g.lg", "--source", "ann"], answer);
        let of = |name: &str| found[0].iter().position(|c| c == name).unwrap();
        let (vertex, level) = (of("vertex"), of("level"));
        let found: Vec<[&str; 2]> =
            found.iter().map(|row| [row[vertex].as_str(), row[level].as_str()]).collect();
        assert_eq!(found, [&levels[..], &[["d\u{e4}n", "2"]]].concat(), "{answer}");
    }
    for kernel in ["pr", "sssp", "bc"] {
        let wanted = ask(&[kernel, "g.lg"], "wanted.csv");
        assert!(wanted.len() > 1, "{kernel}: {wanted:?}");
        for answer in ["answer.parquet", "answer.arrow"] {
            assert_eq!(ask(&[kernel, "g.lg"], answer), wanted, "{kernel} as {answer}");
        }
    }
}

#[test]
fn a_graph_is_converted_to_a_table_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let ids = |of: &[i32]| -> ArrayRef { Arc::new(Int32Array::from(of.to_vec())) };
    let edges = vec![("source", ids(&[7, 2, 7, 900])), ("target", ids(&[2, 3, 900, 3]))];
    write(folder, "edges", edges);
    let wanted = [["source", "target"], ["2", "3"], ["7", "2"], ["7", "900"], ["900", "3"]];
    for form in ["parquet", "arrow"] {
        let (from, to) = (format!("edges.{form}"), format!("back.{form}"));
        succeeds(folder, &["graph", "import", &from, "g.lg", "--force"]);
        succeeds(folder, &["graph", "convert", "g.lg", &to]);
        assert_eq!(rows(&folder.join(&to)), wanted, "{to}");
        succeeds(folder, &["graph", "import", &to, "again.lg", "--force"]);
        succeeds(folder, &["graph", "convert", "again.lg", "again.csv", "--force"]);
        assert_eq!(rows(&folder.join("again.csv")), wanted, "{to}");
    }
}
