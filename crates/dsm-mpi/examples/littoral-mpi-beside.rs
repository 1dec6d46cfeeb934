//! `mpirun -n 2 littoral-mpi-beside OPERATION BATCHES BATCH`: a job's `section` or `barrier` beside
//! MPI's own. Prints two lines, `ours P10 MEDIAN` and `mpi P10 MEDIAN`, nanoseconds an operation.

#![allow(clippy::print_stdout, clippy::print_stderr)] // Reason: a program for a terminal.

use std::process::ExitCode;

use littoral_dsm_mpi::beside::{Operation, measure};

fn arguments() -> Option<(Operation, usize, usize)> {
    let all: Vec<String> = std::env::args().skip(1).collect();
    let [operation, batches, batch] = &all[..] else { return None };
    let operation = match operation.as_str() {
        "section" => Operation::Section,
        "barrier" => Operation::Barrier,
        _ => return None,
    };
    let number = |text: &String| text.parse().ok().filter(|n| *n > 0);
    Some((operation, number(batches)?, number(batch)?))
}

fn spread(mut ns: Vec<f64>) -> String {
    ns.sort_by(f64::total_cmp);
    let last = ns.len() - 1;
    format!("{:.1} {:.1}", ns[last / 10], ns[last / 2])
}

fn main() -> ExitCode {
    let Some((operation, batches, batch)) = arguments() else {
        eprintln!("littoral-mpi-beside section|barrier BATCHES BATCH, started by mpirun");
        return ExitCode::from(2);
    };
    match measure(operation, batches, batch) {
        Ok(took) => {
            if let Some(took) = took {
                println!("ours {}\nmpi {}", spread(took.ours), spread(took.theirs));
            }
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("littoral-mpi-beside: {e}");
            ExitCode::from(e.class().exit_code())
        }
    }
}
