//! `littoral graph whatif` as a person and a program meet it: words, keys, pages, refusals.

#![allow(clippy::unwrap_used)] // Reason: helpers of a test.

use std::path::Path;
use std::process::{Command, Output};

/// A ring of 3000 vertices with chords, as an edge list.
fn edges(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("ring.el");
    let n = 3000;
    let lines = (0..n).map(|v| format!("{v} {}\n{v} {}\n", (v + 1) % n, (v * 7 + 3) % n));
    std::fs::write(&path, lines.collect::<String>()).unwrap();
    path
}

fn whatif(graph: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_littoral"));
    command.args(["graph", "whatif"]).arg(graph);
    command.args(["--time", "20ms", "--concurrency", "2"]).args(options);
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn each_kind_of_job_has_a_verdict_and_the_answer_stands_last() {
    let folder = tempfile::tempdir().unwrap();
    let graph = edges(folder.path());
    // A rate far below the base profile's is legal, and nothing the user never wrote is refused.
    let page = folder.path().join("page.html");
    let options = ["--latency", "1us..20us", "--iops", "1M..2M", "--html", page.to_str().unwrap()];
    let words = text(&whatif(&graph, &options));
    let jobs = [
        "one search at a time (search, bfs)",
        "2 searches at once (searches, bfs)",
        "PageRank (pagerank, pr)",
        "connected components (components, cc)",
        "shortest paths by weight (paths, sssp)",
        "betweenness from one vertex (betweenness, bc)",
        "core numbers (cores, kcore)",
        "triangles (triangles, tc)",
    ];
    for job in jobs {
        assert!(words.contains(job), "{job} is missing in:\n{words}");
    }
    assert_eq!(words.matches("\n  -> ").count(), jobs.len(), "a verdict per job:\n{words}");
    assert!(
        words.contains("DRAM") && words.contains("read "),
        "the form in DRAM is named:\n{words}"
    );
    let cells = words.find("cells: predicted time over DRAM").expect("the key to cells");
    assert!(cells < words.find("One search at a time: ").expect("the answer"), "{words}");
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("class=\"heat\"") && page.contains("<polyline"), "heat maps and curves");
}

#[test]
fn programs_get_plain_keys_and_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let graph = edges(folder.path());
    let options = "--latency 2us --iops 10M --dram 1MiB --format json --kernels bfs,tc";
    let options: Vec<&str> = options.split(' ').collect();
    let value: serde_json::Value = serde_json::from_str(&text(&whatif(&graph, &options))).unwrap();
    assert_eq!(value["schema"], "littoral.whatif/2");
    let job = &value["jobs"][0];
    assert_eq!(
        (job["kind"].as_str(), value["jobs"].as_array().map(Vec::len)),
        (Some("search"), Some(3))
    );
    for key in ["reads_count", "read_bytes", "depth_count", "processor_ns"] {
        assert!(job[key].is_number(), "{key}: {job}");
    }
    let kernels = [0, 1, 2].map(|job: usize| value["jobs"][job]["kernel"].as_str());
    assert_eq!(kernels, [Some("bfs"), Some("bfs"), Some("tc")]);
    let cell = &job["cells"][0];
    assert!(cell["predicted_ratio"].is_number() && cell["bound"].is_string(), "{cell}");
    assert!(value["memory"]["cached_bytes"].as_u64() > Some(0), "{}", value["memory"]);
}

#[test]
fn an_edge_list_is_read_with_the_options_of_import() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.csv");
    let lines = (0..300).map(|v| format!("0.5;{};{v}\n", (v + 1) % 300));
    std::fs::write(&path, lines.collect::<String>()).unwrap();
    let grid = ["--latency", "2us", "--iops", "10M", "--format", "json", "--kernels", "cc"];
    let list = ["--delimiter", ";", "--no-header", "--columns", "3,2", "--directed"];
    let output = whatif(&path, &[&grid[..], &list[..]].concat());
    let value: serde_json::Value = serde_json::from_str(&text(&output)).unwrap();
    assert_eq!((&value["vertices_count"], &value["arcs_count"]), (&300.into(), &300.into()));
}

#[test]
fn profiles_are_ranked_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let graph = edges(folder.path());
    let words = text(&whatif(&graph, &["--profile", "nvme-tlc,xlfdd", "--kernels", "bfs"]));
    let devices = words.find("devices, by the geometric mean").expect("the devices");
    let ranked = &words[devices..];
    let place = |name: &str| ranked.find(name).expect(name);
    assert!(place("xlfdd") < place("nvme-tlc"), "4 us before 45 us:\n{words}");
    assert!(ranked.contains("granule 512 B") && ranked.contains("granule 16 B"), "{words}");
}

#[test]
fn cost_and_energy_of_a_profile_stand_in_the_tables() {
    let folder = tempfile::tempdir().unwrap();
    let graph = edges(folder.path());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shipped = root.join("crates/device/profiles/xlfdd.toml");
    let priced = std::fs::read_to_string(shipped).unwrap().replace("\"xlfdd\"", "\"priced\"")
        + "\n[cost]\nprice_per_gb = { value = \"400000\", basis = \"given\", source = \"a test\" }\n\
           power = { value = \"8.5 W\", basis = \"given\", source = \"a test\" }\n";
    let profile = folder.path().join("priced.toml");
    std::fs::write(&profile, priced).unwrap();
    let names = format!("nvme-tlc,{}", profile.display());
    let page = folder.path().join("page.html");
    let options = ["--profile", &names, "--kernels", "cc", "--html", page.to_str().unwrap()];
    let words = text(&whatif(&graph, &options));
    let energy =
        |line: &str| line.ends_with(" uJ") || line.ends_with(" mJ") || line.ends_with(" J");
    let rows: Vec<&str> = words.lines().filter(|l| l.starts_with("  priced")).collect();
    let [cell, device] = rows[..] else { panic!("a cell and a device:\n{words}") };
    assert!(energy(cell), "the energy of the job: {cell}");
    // 400 000 per 10^9 bytes, and some kilobytes of edges.
    assert!(device.contains("edges cost ") && device.ends_with(", 8.5 W"), "{device}");
    assert!(!device.contains("edges cost 0.00"), "{device}");
    let mut others = words.lines().filter(|l| l.starts_with("  nvme-tlc"));
    assert!(others.all(|l| !energy(l) && !l.contains("cost")), "{words}");
    let page = std::fs::read_to_string(&page).unwrap();
    let cells = page.matches(" uJ</small>").count() + page.matches(" mJ</small>").count();
    assert_eq!(cells, 1, "the energy stands in the cell, not on hover");
    assert!(page.contains("<td class=\"n\">8.5</td>"), "{page}");
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let graph = edges(folder.path());
    for (options, words) in [
        (&["--concurrency", "0"][..], "searches at once"),
        (&["--latency", "0ns..20us"], "latency of the grid is zero"),
        (&["--iops", "0..100M"], "rate of the grid is zero"),
        (&["--kernels", "bfs,dfs"], "[possible values: bfs, pr, cc, sssp, bc, kcore, tc]"),
        (&["--profile", "xlfd"], "did you mean `xlfdd`"),
        (&["--profile", "xlfdd", "--iops", "1M"], "--iops"),
        (&["--html", "/no-such-folder/page.html"], "cannot write"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_littoral"));
        let output = command.args(["graph", "whatif"]).arg(&graph).args(options).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(words), "{options:?}: {said}");
        assert!(output.stdout.is_empty());
    }
}
