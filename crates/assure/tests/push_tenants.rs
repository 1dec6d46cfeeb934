//! Sessions that misbehave on a served device change neither the answers of others nor, by more
//! than 2 %, their times.

use littoral_assure::push::tenants::{HOSTILE, ROWS, Third, beside};

#[test]
fn others_are_served_beside_sessions_that_misbehave() {
    let calm = beside(Third::Reads).unwrap();
    let count: u64 = calm.answer.groups.values().map(|g| g.count).sum();
    assert_eq!(count, ROWS as u64 / 2);
    assert_eq!(beside(Third::Reads).unwrap(), calm, "a run repeats");
    let scans = beside(Third::Scans).unwrap();
    assert_eq!(scans.answer, calm.answer);
    for third in HOSTILE {
        let calm = if third.calm() == Third::Scans { &scans } else { &calm };
        let found = beside(third).unwrap();
        // Its pages go to its host: on a core each would take as long as its budget.
        let is_struck = found.answered > 1000;
        let answered = found.answered;
        assert!(
            !third.fails() || is_struck,
            "only {answered} pages of a function without a result: {third:?}"
        );
        assert_eq!(found.answer, calm.answer, "{third:?}");
        for (own, calm) in found.p99.iter().zip(&calm.p99) {
            assert!(own.0 as f64 <= 1.02 * calm.0 as f64, "{third:?}: {own} beside {calm}");
        }
    }
}
