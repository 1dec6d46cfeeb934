//! Takes the figures of system `sdtm` in parts and prints them: `sdtm quick|full
//! [counted|updates|sets|ycsb|own|assure|restart|all]`.

use littoral_bench::claims::{Claim, Targets};
use littoral_bench::sdtm::claims::{self, Effort};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let effort = match args.next().as_deref() {
        Some("full") => Effort::FULL,
        _ => Effort::QUICK,
    };
    let targets = Targets::of("sdtm")?;
    let figures = match args.next().as_deref().unwrap_or("all") {
        "counted" => claims::counted()?,
        "updates" => claims::update_ratios(&effort)?,
        "sets" => claims::set_ratios(&effort)?,
        "ycsb" => claims::ycsb_ratios(&effort)?,
        "own" => claims::papers_own(&effort)?,
        "assure" => claims::assured(&effort, targets.seed)?,
        "restart" => vec![claims::restarted(&std::env::temp_dir())?],
        _ => claims::measure(&effort, targets.seed, &std::env::temp_dir())?,
    };
    let mut out = std::io::stdout().lock();
    for (id, figure) in figures {
        let known = targets.claims.iter().find(|t| t.id == id);
        let line = match known.map(|t| t.measured(&figure)) {
            Some(Claim { ours, target, status, why, .. }) => {
                format!("{id}: {:.3} (target {target}) {status:?}; {why}", ours.unwrap_or(f64::NAN))
            }
            None => format!("{id}: {:.3} (no target); {}", figure.value, figure.notes.join("; ")),
        };
        std::io::Write::write_all(&mut out, format!("{line}\n").as_bytes())?;
    }
    Ok(())
}
