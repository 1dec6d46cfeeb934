#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]
//! scratch
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let e = if a[1] == "zb" {
        littoral_index::index::Engine::Zb
    } else {
        littoral_index::index::Engine::Cow
    };
    println!(
        "{:?}",
        littoral_index::torture::power_cuts(e, a[2].parse().unwrap(), a[3].parse().unwrap())
    );
}
