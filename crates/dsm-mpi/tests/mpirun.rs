//! The example `rows` as `mpirun` starts it: both ways of carrying a job, each level of threads.
//!
//! `scripts/dsm-mpi.sh` also runs it with more ranks and kills one.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::{Command, Output};

fn rows() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples/rows")
}

fn run(carrier: &str, threads: &str) -> Output {
    let mut run = Command::new("mpirun");
    run.args(["-n", "2"]).arg(rows()).args(["150000", "3"]);
    run.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    run.env("OMPI_MCA_rmaps_base_oversubscribe", "1");
    run.env("LITTORAL_MPI_CARRIER", carrier).env("LITTORAL_MPI_THREADS", threads);
    run.output().unwrap()
}

#[test]
fn ranks_that_mpirun_starts_agree_with_one_process() {
    for (carrier, threads) in
        [("auto", "multiple"), ("messages", "multiple"), ("messages", "funneled")]
    {
        let out = run(carrier, threads);
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "{carrier}, {threads}: {out:?}");
        assert!(said.contains("rows on 2 ranks: rank 0 agrees"), "{carrier}, {threads}: {said}");
    }
}

#[test]
fn an_unknown_setting_is_named() {
    let out = run("pigeons", "multiple");
    assert!(!out.status.success());
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("LITTORAL_MPI_CARRIER=pigeons; auto or messages"), "{said}");
}
