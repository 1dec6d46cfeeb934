//! Making graph files: memory and temporary bytes of a build out of core, CPU time beside GNU sort
//! and the GAP suite's converter.
//!
//! The input is the Kronecker graph of scale 20 as a text edge list, edges as the generator draws
//! them. CPU time is user and system time of a process; what is compared takes turns, and medians
//! count.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use littoral_graph::builder::{EdgeList, Hooks};
use littoral_graph::generate::{self, Model, generate};
use serde_json::Value;

use crate::loongarch::Tools;
use crate::loongarch::timing::medians;
use littoral_bench::claims::Figure;
use littoral_bench::repro::{Answer, Options, Step, Unanswered, missing};

const SCALE: u32 = 20;
const REPETITIONS: usize = 5;
/// What the help of the suite's converter says, and no other program's.
const CONVERTER_WORDS: &str = "output serialized graph to file";

type Found<T> = std::result::Result<T, String>;

/// Every step.
pub(super) fn steps() -> Vec<Step> {
    let claims = ["graph.build.peak_mem", "graph.build.temporary"];
    let bounded = Step {
        name: "importing a graph with bounded memory",
        claims: claims.map(str::to_owned).to_vec(),
        measure: Box::new(|options| match bounded(options) {
            Ok(figures) => figures.map(Ok).to_vec(),
            Err(why) => vec![Err(Unanswered::from(why)); 2],
        }),
    };
    vec![
        bounded,
        super::single("importing beside GNU sort", "graph.build.external.vs_sort", versus_sort),
        super::single("importing beside the suite", "graph.build.text.vs_gapbs", versus_converter),
    ]
}

/// The edge list, its counts, and the memory that the claims allow for them.
struct Input {
    list: PathBuf,
    edges: u64,
    memory_bytes: u64,
}

impl Input {
    fn new(options: &Options) -> Found<Input> {
        let drawn = generate(Model::Kron, SCALE, generate::SEED, 2, &mut Hooks::none());
        let drawn = drawn.map_err(|e| e.to_string())?;
        let list = options.scratch.join(format!("kron{SCALE}.el"));
        if !list.exists() {
            write(&drawn, &list).map_err(|e| format!("{}: {e}", list.display()))?;
        }
        let mut appears = vec![false; drawn.vertices as usize];
        drawn.edges.iter().flatten().for_each(|&v| appears[v as usize] = true);
        let vertices = appears.iter().filter(|&&a| a).count() as u64;
        let edges = drawn.edges.len() as u64;
        Ok(Input { list, edges, memory_bytes: 2 * edges + 16 * vertices })
    }

    /// The import of the list, within the bound where one is asked for.
    fn import(&self, options: &Options, memory: bool) -> Command {
        let mut command = Command::new(&options.program);
        command.args(["graph", "import", "--undirected", "--force", "--format", "json"]);
        command.arg(&self.list).arg(options.scratch.join("made.lg"));
        if memory {
            command.args(["--memory", &self.memory_bytes.to_string()]);
        }
        command
    }
}

/// Writes the list at `path` once it is whole: the steps behind one that failed, as on a full disk,
/// would take what there is for the list.
fn write(drawn: &EdgeList, path: &Path) -> std::io::Result<()> {
    let part = path.with_extension("part");
    let mut out = BufWriter::with_capacity(1 << 20, File::create(&part)?);
    for [a, b] in &drawn.edges {
        writeln!(out, "{a} {b}")?;
    }
    out.flush()?;
    std::fs::rename(part, path)
}

fn bounded(options: &Options) -> Found<[Figure; 2]> {
    let input = Input::new(options)?;
    let out = input.import(options, true).output().map_err(|e| e.to_string())?;
    let report: Value = serde_json::from_slice(&out.stdout)
        .map_err(|_| String::from_utf8_lossy(&out.stderr).into_owned())?;
    let count = |key: &str| report[key].as_u64().ok_or_else(|| format!("no {key} is reported"));
    let (peak, temporary) = (count("memory_peak_bytes")?, count("temporary_bytes")?);
    let note = format!(
        "kron{SCALE} as text, {} edges: 2 E + 16 V = {} bytes allowed, {peak} taken (largest resident \
         set less that at the start, by the process's own account); {} runs, {} passes",
        input.edges,
        input.memory_bytes,
        count("runs_count")?,
        count("passes_count")?
    );
    let words = format!("{temporary} bytes for {} edges of 8", input.edges);
    Ok([
        Figure::new(peak as f64 / input.memory_bytes as f64, note),
        Figure::new(temporary as f64 / (8 * input.edges) as f64, words),
    ])
}

fn versus_sort(options: &Options) -> Answer {
    let input = Input::new(options)?;
    let sort = options.peers.find("coreutils", "sort");
    let sort = sort.ok_or_else(|| missing("`sort` is neither in --peers nor in PATH"))?;
    let mut theirs = Command::new(sort);
    theirs.env("LC_ALL", "C").args(["-u", "--parallel=1", "-S"]);
    theirs.arg(format!("{}b", input.memory_bytes)).arg("-T").arg(&options.scratch);
    theirs.arg("-o").arg(options.scratch.join("sorted.el")).arg(&input.list);
    let note = format!(
        "kron{SCALE} as text to a graph file, over `LC_ALL=C sort -u` of its lines, both within {} bytes",
        input.memory_bytes
    );
    beside(options, [input.import(options, true), theirs], note)
}

fn versus_converter(options: &Options) -> Answer {
    let input = Input::new(options)?;
    let converter = options.peers.recognise("gapbs", "converter", CONVERTER_WORDS);
    let converter = converter.map_err(missing)?;
    let mut theirs = Command::new(converter);
    theirs.env("OMP_NUM_THREADS", "1").arg("-s").arg("-f").arg(&input.list);
    theirs.arg("-b").arg(options.scratch.join("made.sg"));
    let note = format!("kron{SCALE} as text to a graph file, over the suite's converter to .sg");
    beside(options, [input.import(options, false), theirs], note)
}

/// CPU time of the first command over that of the second.
fn beside(options: &Options, commands: [Command; 2], note: String) -> Answer {
    let tools = Tools::new(&options.program, &options.peers, Path::new(&options.scratch));
    let seconds = medians(&tools, &commands, 1, REPETITIONS)?;
    let mut figure = Figure::new(seconds[0] / seconds[1], note);
    figure.notes.push(format!(
        "CPU time {:.2} s over {:.2} s, medians of {REPETITIONS} runs in turn",
        seconds[0], seconds[1]
    ));
    Ok(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_not_whole_has_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("drawn.el");
        let drawn = EdgeList::new(3, false, vec![[0, 1], [2, 1]]);
        // Nothing can be written beside the list.
        let part = folder.path().join("drawn.part");
        std::fs::create_dir(&part).unwrap();
        assert!(write(&drawn, &list).is_err() && !list.exists());
        std::fs::remove_dir(&part).unwrap();
        write(&drawn, &list).unwrap();
        assert_eq!(std::fs::read_to_string(&list).unwrap(), "0 1\n2 1\n");
        assert!(!part.exists());
    }
}
