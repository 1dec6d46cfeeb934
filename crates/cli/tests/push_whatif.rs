//! `littoral push whatif` on a table of the user's own: a grid of links and cores, a curve, a
//! sentence.

#![allow(clippy::unwrap_used)] // Reason: helpers of a test.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What `littoral push` prints.
fn push(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_littoral"));
    let output = command.current_dir(folder).arg("push").args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_grid_a_curve_and_a_sentence_say_what_link_and_cores_buy() {
    let folder = tempfile::tempdir().unwrap();
    let row = |n: u64| format!("{},{}.{:02},{}\n", n, n * 7 % 90 + 1, n % 100, n % 13);
    let table = (0..20_000).map(row).fold("id,price,qty\n".to_owned(), |text, row| text + &row);
    std::fs::write(folder.path().join("own.csv"), table).unwrap();
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
