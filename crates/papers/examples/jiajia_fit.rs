//! Fits the profile `loongson-2e` on table 1 (without Ocean) and figure 4 of paper 002, and prints
//! the constants with what is left: what the shipped profile and the book's table were made with.
#![allow(clippy::print_stdout)]

use littoral_papers::jiajia::fit::{Fit, boards, distances};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut seen = |fit: &Fit| println!("sum of fourth powers {:.1}", fit.sum());
    let fit = Fit::search(&mut seen)?;
    println!("cluster {:?}", fit.cluster);
    for program in &fit.programs {
        let [data, syn, server] = distances(program, fit.cluster)?;
        let (name, uneven) = (program.name, program.uneven_percent);
        let turns = program.turns().map_or(String::new(), |t| format!(", {t} turns"));
        println!(
            "{name}: uneven {uneven} %{turns}; data {data:+.2}, syn {syn:+.2}, server {server:+.2}"
        );
    }
    let (remote, manager) = boards(fit.cluster)?;
    println!("remote {remote:?}\nmanager {manager:?}");
    Ok(())
}
