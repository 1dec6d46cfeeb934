//! Takes the figures of system `sdtm` in parts and prints them: `sdtm quick|full
//! [counted|updates|hash|bst|list|ycsb|own|assure|restart|pmdk|flips|redb|all]`.
//!
//! `repro sdtm` does the same behind the command; this builds faster.

use littoral_bench::claims::{Claim, Targets};
use littoral_bench::peers::Peers;
use littoral_bench::sdtm::claims::{self, Effort, Named};
use littoral_bench::sdtm::{disk, own, pmdk};

type Part = fn(&Effort, u64) -> littoral_stm::Result<Vec<Named>>;

fn own_figures(effort: &Effort, _: u64) -> littoral_stm::Result<Vec<Named>> {
    let mut all = own::clocks(effort);
    all.extend(own::write_latencies(effort)?);
    all.extend(own::undo_and_redo(effort)?);
    all.extend(own::extension(effort)?);
    all.extend(own::long_reads(effort)?);
    Ok(all)
}

fn pmdk_figures(effort: &Effort, _: u64) -> littoral_stm::Result<Vec<Named>> {
    let found = pmdk::beside(&Peers::default(), &std::env::temp_dir(), effort);
    found.map_err(|e| littoral_stm::Error::new(littoral_stm::Kind::Device, e.to_string()))
}

fn redb_figures(effort: &Effort, _: u64) -> littoral_stm::Result<Vec<Named>> {
    let peers = Peers::new(Some("crates/bench-peers/target/release".into()));
    let found = disk::beside(&peers, &std::env::current_dir().unwrap_or_default(), effort);
    found.map_err(|e| littoral_stm::Error::new(littoral_stm::Kind::Device, e.to_string()))
}

const PARTS: [(&str, Part); 12] = [
    ("counted", |_, _| claims::counted()),
    ("updates", |e, _| claims::update_ratios(e)),
    ("hash", |e, _| claims::hash_ratios(e)),
    ("bst", |e, _| claims::tree_ratios(e)),
    ("list", |e, _| claims::list_ratios(e)),
    ("ycsb", |e, _| claims::ycsb_ratios(e)),
    ("own", own_figures),
    ("restart", |_, _| Ok(vec![claims::restarted(&std::env::temp_dir())?])),
    ("assure", |e, s| Ok(vec![claims::crash_images(e, s)?, claims::histories(e, s)?])),
    ("pmdk", pmdk_figures),
    ("flips", claims::flips),
    ("redb", redb_figures),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let effort = match args.next().as_deref() {
        Some("full") => Effort::FULL,
        _ => Effort::QUICK,
    };
    let asked = args.next().unwrap_or_else(|| "all".to_owned());
    let targets = Targets::of("sdtm")?;
    let mut out = std::io::stdout().lock();
    for (_, part) in PARTS.iter().filter(|p| asked == "all" || asked == p.0) {
        for (id, figure) in part(&effort, targets.seed)? {
            let known = targets.claims.iter().find(|t| t.id == id);
            let line = match known.map(|t| t.measured(&figure)) {
                Some(Claim { ours, target, status, why, .. }) => {
                    let ours = ours.unwrap_or(f64::NAN);
                    format!("{id}: {ours:.3} (target {target:?}) {status:?}; {why}")
                }
                None => {
                    format!("{id}: {:.3} (no claim); {}", figure.value, figure.notes.join("; "))
                }
            };
            std::io::Write::write_all(&mut out, format!("{line}\n").as_bytes())?;
        }
    }
    Ok(())
}
