//! Power cuts: nothing acknowledged is lost, nothing deleted returns, recovery may be cut too.

#![allow(clippy::unwrap_used)] // helpers of a test may unwrap as the tests themselves do

use littoral_assure::index::power_cuts::{careless_power_cuts, power_cuts};
use littoral_index::index::Engine;

/// Lives of each kind of medium: the ZB+-tree collects more seldom, so it needs more of them for as
/// many cuts inside collections. `LITTORAL_CUTS` and `LITTORAL_SEED` ask for more.
const CUTS: [(Engine, u64); 2] = [(Engine::Zb, 2_400), (Engine::Cow, 1_200)];

fn survives(engine: Engine) {
    let asked = |name: &str| std::env::var(name).ok().map(|n| n.parse().unwrap());
    let own = CUTS.into_iter().find(|(e, _)| *e == engine).unwrap().1;
    let cuts = asked("LITTORAL_CUTS").unwrap_or(own);
    let report = power_cuts(engine, cuts, asked("LITTORAL_SEED").unwrap_or(1)).unwrap();
    assert_eq!((report.lost, report.broken, report.stuck), (0, 0, 0), "{report:?}");
    assert!(report.cuts == cuts && report.recovery_cuts > 50, "{report:?}");
    assert!(report.acknowledged > 600, "{report:?}");
    assert!(report.refused > 100, "{report:?}");
    assert!(report.in_collections > 50 && report.in_checkpoints > 10, "{report:?}");
}

#[test]
fn zb_survives_power_cuts() {
    survives(Engine::Zb);
}

#[test]
fn cow_survives_power_cuts() {
    survives(Engine::Cow);
}

/// The enumerator can fail: an index that acknowledges before it syncs is caught.
#[test]
fn a_careless_index_is_caught() {
    for engine in [Engine::Zb, Engine::Cow] {
        assert!(careless_power_cuts(engine, 50, 1).unwrap().lost > 5);
    }
}
