//! Prints what the model of paper 002's programs says beside the paper.
#![allow(clippy::print_stdout)]

use littoral_papers::jiajia::tables;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for figures in
        [tables::figure4, tables::table1, tables::figure5, tables::predictions, tables::counts]
    {
        for (id, figure) in figures()? {
            println!("{id} {:.3}  {}", figure.value, figure.notes.join("; "));
        }
    }
    Ok(())
}
