//! `littoral push whatif` on a table of the user's own: a grid of links and cores, a curve, a
//! sentence.

#![allow(clippy::unwrap_used)] // Reason: helpers of a test.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What `littoral push` prints.
fn push(folder: &Path, arguments: &[&str]) -> String {
    littoral(folder, &[&["push"], arguments].concat())
}

/// What `littoral` prints.
fn littoral(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_littoral"));
    let output = command.current_dir(folder).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn write_table(folder: &Path) {
    let row = |n: u64| format!("{},{}.{:02},{}\n", n, n * 7 % 90 + 1, n % 100, n % 13);
    let table = (0..20_000).map(row).fold("id,price,qty\n".to_owned(), |text, row| text + &row);
    std::fs::write(folder.join("own.csv"), table).unwrap();
}

#[test]
fn a_table_is_studied_as_it_is_on_a_grid_of_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_table(folder);
    push(folder, &["load", "own.csv", "own.set"]);
    let json = |set: &str, options: &[&str]| -> Value {
        let scan = ["whatif", set, "--sum", "price * qty", "--by", "qty", "--format", "json"];
        serde_json::from_str(&push(folder, &[&scan[..], options].concat())).unwrap()
    };
    assert_eq!(json("own.csv", &[]), json("own.set", &[]));
    let value = json("own.csv", &["--link", "100M..400M", "--cores", "1..3"]);
    let cells = value["cells"].as_array().unwrap();
    let of = |key: &str| cells.iter().map(|c| c[key].as_u64().unwrap()).collect::<Vec<_>>();
    let links = [100_000_000u64, 200_000_000, 400_000_000];
    assert_eq!(of("link_bytes_per_s"), links.iter().flat_map(|l| [*l; 3]).collect::<Vec<_>>());
    assert_eq!(of("cores_count"), [1, 2, 3].repeat(3));
    assert_eq!(value["curve"].as_array().unwrap().len(), 3);
    let one = json("own.csv", &["--link", "100M", "--cores", "2"]);
    assert_eq!(one["cells"][0]["time_over_host_ratio"], one["curve"][0]["time_over_host_ratio"]);
    assert!(one["sentence"].as_str().unwrap().starts_with("On a link of 100 MB/s"), "{one}");
}

/// Such a table has no column that a filter on the device could return.
#[test]
fn a_table_of_texts_alone_is_studied() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // So many different words are stored as text.
    let names = (0..6_000).map(|n| format!("name {n},of {n}\n")).collect::<String>();
    std::fs::write(folder.join("names.csv"), format!("name,of\n{names}")).unwrap();
    push(folder, &["load", "names.csv", "rows.set", "--pages", "text", "--page", "4KiB"]);
    let json = |options: &[&str]| -> Value {
        serde_json::from_str(&push(folder, &[options, &["--format", "json"]].concat())).unwrap()
    };
    for set in ["names.csv", "rows.set"] {
        assert_eq!(json(&["whatif", set])["cells"].as_array().unwrap().len(), 20, "{set}");
        let swept = json(&["sweep", set]);
        let policies = swept["policies"].as_array().unwrap();
        let of = |name: &str| policies.iter().find(|p| p["policy"] == name).unwrap();
        assert_eq!(of("filter")["on_device_share"], 0.0, "{swept}");
    }
    // A scan under the model has its times too, and its answer, whatever the policy.
    for policy in ["late", "filter"] {
        let run = ["run", "rows.set", "--profile", "summarizer-board", "--policy", policy];
        let found = json(&run);
        assert_eq!(found["clock"], "virtual", "{policy}: {found}");
        assert_eq!(found["rows"][0][0], "6000", "{policy}: {found}");
    }
}

#[test]
fn a_report_draws_what_whatif_and_sweep_print() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_table(folder);
    for (verb, name) in [("whatif", "w.json"), ("sweep", "s.json")] {
        let json = push(folder, &[verb, "own.csv", "--sum", "price * qty", "--format", "json"]);
        std::fs::write(folder.join(name), json).unwrap();
    }
    littoral(folder, &["report", "w.json", "s.json", "-o", "out.html"]);
    let page = std::fs::read_to_string(folder.join("out.html")).unwrap();
    assert_eq!(page.matches("class=\"chart\"").count(), 3, "a curve, a grid, policies");
    assert!(page.contains("late binding") && page.contains("of the host"), "{page}");
    littoral(folder, &["report", "w.json", "s.json", "-o", "out.md"]);
    let text = std::fs::read_to_string(folder.join("out.md")).unwrap();
    assert!(text.contains("The shortest time is that of policy"), "{text}");
}

#[test]
fn a_grid_a_curve_and_a_sentence_say_what_link_and_cores_buy() {
    let folder = tempfile::tempdir().unwrap();
    write_table(folder.path());
    push(folder.path(), &["load", "own.csv", "own.set"]);
    let scan =
        ["whatif", "own.set", "--where", "price > 60.00", "--sum", "price * qty", "--by", "qty"];
    let json = push(folder.path(), &[&scan[..], &["--format", "json"]].concat());
    let value: Value = serde_json::from_str(&json).unwrap();
    let cells = value["cells"].as_array().unwrap();
    assert_eq!((cells.len(), value["clock"].as_str()), (20, Some("virtual")));
    let over = |cell: &Value| cell["time_over_host_ratio"].as_f64().unwrap();
    for by_link in cells.chunks(5) {
        assert!(by_link.iter().all(|c| c["link_bytes_per_s"] == by_link[0]["link_bytes_per_s"]));
        // Faster cores never cost, and the device is never slower than the host alone.
        assert!(over(&by_link[0]) <= 1.01, "{by_link:?}");
        assert!(by_link.windows(2).all(|w| over(&w[1]) <= 1.005 * over(&w[0])), "{by_link:?}");
    }
    let curve: Vec<f64> = value["curve"].as_array().unwrap().iter().map(over).collect();
    let own_link: Vec<f64> = cells[5..10].iter().map(over).collect();
    assert_eq!(curve, own_link, "the curve is the profile's own link");
    let sentence = value["sentence"].as_str().unwrap();
    assert!(sentence.contains(&format!("takes {:.2} of the host's time", curve[0])), "{sentence}");
    assert!(sentence.contains(&format!("and {:.2} with cores 16 times", curve[4])), "{sentence}");
    assert!(push(folder.path(), &scan).trim_end().ends_with(sentence));
}
