//! The ZB+-tree of paper 000: its workloads and what `repro zbtree` measures.

pub mod figures;
pub mod workload;
pub mod ycsb;
