//! What else goes on in a device: garbage collection, costs that change, other tenants, replay.

use littoral_assure::push::tenants::{HOSTILE, Third, beside};
use littoral_base::units::Picos;
use littoral_bench::claims::Figure;
use littoral_push::cost::{Means, PAX, TEXT, TaskCosts};
use littoral_push::device::sim::{Conditions, Writer, run, run_under};
use littoral_push::device::{Machine, Outcome, PageRef, Stream, Workload};
use littoral_push::oracle::{best_static, cells, set_speed};
use littoral_push::policy::{Policy, STEPS};

use super::data::tasks;
use super::{Figures, board, costs, scan};

/// A tenant that overwrites 20 MB/s of its pages.
const WRITER: Writer =
    Writer { pages: 8 * 64 * 8, period: Picos::from_micros(400), spare_blocks: 4, seed: 11 };

fn ratio(a: Picos, b: Picos) -> f64 {
    a.0 as f64 / b.0 as f64
}

/// The 99th percentile.
fn p99(mut times: Vec<Picos>) -> Picos {
    times.sort_unstable();
    times[(times.len() * 99).div_ceil(100) - 1]
}

/// A scan while a tenant overwrites and the device collects garbage.
///
/// # Errors
/// When the board's profile does not parse.
pub fn collection() -> Figures {
    let (mut machine, depth) = board()?;
    set_speed(&mut machine, &board()?.0, 4);
    let (mut scans, mut writes, mut notes) = (0.0f64, 0.0f64, Vec::new());
    for (name, task) in tasks()? {
        let workload = scan(task, depth);
        let timed = |policy: &Policy| {
            let conditions = Conditions { writer: Some(WRITER), ..Conditions::default() };
            run_under(&machine, &workload, policy, conditions)
        };
        let ours = timed(&Policy::Late);
        let host = timed(&Policy::Host);
        let fixed = (0..=STEPS).map(|share| timed(&Policy::Static(vec![share])).total).min();
        let fixed = fixed.ok_or("no static share was run")?;
        if ours.erases == 0 || ours.writes.len() < 100 {
            return Err(format!("{name}: too few writes for garbage collection").into());
        }
        scans = scans.max(ratio(ours.total, fixed));
        writes = writes.max(ratio(p99(ours.writes.clone()), p99(host.writes.clone())));
        notes.push(format!("{name}: {} blocks erased, {} pages moved", ours.erases, ours.moved));
    }
    let mut first = Figure::new(scans, "cores 4x, 20 MB/s of random overwrites");
    first.notes.append(&mut notes);
    let note = "p99 of writes over that beside a host-only scan; worst of four tasks";
    Ok(vec![
        ("push.gc.scan".to_owned(), first),
        ("push.gc.writes".to_owned(), Figure::new(writes, note)),
    ])
}

/// A task whose pages cost one thing in the first half of a scan and another in the second.
fn turned(first: &Means, second: &Means, pages: usize) -> TaskCosts {
    let mut task = costs(first, pages);
    task.pages.extend(costs(second, pages).pages);
    task
}

/// Scans in which what was learned stops being true half way.
///
/// # Errors
/// When the board's profile does not parse.
pub fn adaptation() -> Figures {
    let (board, depth) = board()?;
    let pairs = [(PAX[0], TEXT[3]), (TEXT[3], PAX[0]), (PAX[2], TEXT[1]), (TEXT[1], PAX[2])];
    let (mut worst, mut notes) = (0.0f64, Vec::new());
    for (first, second) in pairs {
        for speed in [1, 4, 16] {
            let mut machine = board;
            set_speed(&mut machine, &board, speed);
            // A second task stands beside it, so that the split has to change.
            let alone = |m: &Means| {
                Workload::interleaved(vec![costs(m, 2_000), costs(&TEXT[2], 2_000)], depth)
            };
            let phases = best_static(&machine, &alone(&first)).time.0
                + best_static(&machine, &alone(&second)).time.0;
            let both = vec![turned(&first, &second, 2_000), costs(&TEXT[2], 4_000)];
            let ours = run(&machine, &Workload::interleaved(both, depth), &Policy::Late).total;
            let value = ours.0 as f64 / phases as f64;
            notes.push(format!("{} to {} at {speed}x {value:.3}", first.name, second.name));
            worst = worst.max(value);
        }
    }
    let mut figure =
        Figure::new(worst, "ours over the sum of the best static split of each half, beside Q1");
    figure.notes.append(&mut notes);
    Ok(vec![("push.adapt".to_owned(), figure)])
}

/// Streams of two victims (a plain reader and a scan) and of a hostile third.
fn shared(task: &TaskCosts, hostile: bool) -> Workload {
    let pages = task.pages.len();
    let mut third = task.clone();
    third.pages.iter_mut().for_each(|page| page.instructions = u64::MAX);
    let tasks = vec![task.clone(), task.clone(), third];
    let order = |task: u16| (0..pages as u32).map(|page| PageRef { task, page }).collect();
    let stream = |task: u16, is_plain: bool| Stream { order: order(task), depth: 16, is_plain };
    Workload { tasks, streams: vec![stream(0, true), stream(1, false), stream(2, !hostile)] }
}

fn p99_of(outcome: &Outcome, stream: u16) -> Picos {
    let own = outcome.pages.iter().filter(|page| page.stream == stream);
    p99(own.map(|page| page.ended - page.issued).collect())
}

/// The worst ratio of a tenant's p99 on the served device in virtual time.
fn served_tenants() -> Result<(f64, String), String> {
    let words = |e: littoral_push::error::Error| e.to_string();
    let calm = beside(Third::Reads).map_err(words)?;
    let scans = beside(Third::Scans).map_err(words)?;
    let (mut worst, mut note) = (0.0f64, Vec::new());
    for third in HOSTILE {
        let found = beside(third).map_err(words)?;
        let calm = if third.calm() == Third::Scans { &scans } else { &calm };
        if found.answer != calm.answer {
            return Err(format!("another answer beside a tenant that {third:?}"));
        }
        let of = |tenant: usize| ratio(found.p99[tenant], calm.p99[tenant]);
        worst = worst.max(of(0)).max(of(1));
        note.push(format!("{third:?}: scan {:.4}, plain reader {:.4}", of(0), of(1)));
    }
    Ok((worst, note.join("; ")))
}

/// Two tenants beside one that misbehaves, over the same beside one that only reads: on the
/// simulated board a function that never ends, on the served device also sessions that are
/// forgotten and half-open.
///
/// # Errors
/// When the board's profile does not parse, or an answer on the served device differs.
pub fn tenants() -> Figures {
    let (machine, _) = board()?;
    let found = tasks()?.iter().find(|t| t.0 == "q6");
    let (_, task) = found.ok_or("Q6 is not among the tasks")?;
    let timed = |hostile: bool| {
        let workload = shared(task, hostile);
        let conditions = Conditions { strikes: 3, ..Conditions::default() };
        run_under(&machine, &workload, &Policy::Late, conditions)
    };
    let (calm, attacked) = (timed(false), timed(true));
    let of = |stream: u16| ratio(p99_of(&attacked, stream), p99_of(&calm, stream));
    let (served, note) = served_tenants()?;
    let simulated = format!("simulated board: plain reader {:.4}, scan {:.4}", of(0), of(1));
    let mut figure = Figure::new(of(0).max(of(1)).max(served), simulated);
    figure.notes.push(format!("served device in virtual time: {note}"));
    Ok(vec![("push.tenants.p99".to_owned(), figure)])
}

/// Runs that differ from themselves, over cells, policies and conditions.
///
/// # Errors
/// When the board's profile does not parse.
pub fn replay() -> Figures {
    let (board, _) = board()?;
    let (mut differing, mut runs) = (0, 0);
    for cell in cells().into_iter().step_by(19) {
        let machine: Machine = cell.machine(&board);
        let workload = cell.workload(8192, 1_000);
        let policies =
            [Policy::Late, Policy::Dynamic { queue: 4 }, Policy::HandCoded, Policy::Device];
        for policy in policies {
            let faults = "seed=3 task:fail=1/9 task:delay=1/7 @400=cut";
            let faults = faults.parse().map_err(|e| format!("the plan of faults: {e}"))?;
            let under = Conditions { writer: Some(WRITER), faults, strikes: 0 };
            let timed = || run_under(&machine, &workload, &policy, under.clone());
            let (first, second) = (timed(), timed());
            differing += usize::from(first != second);
            runs += 1;
        }
    }
    let note = format!("{runs} runs twice, with writes, faults and a lost device");
    Ok(vec![("push.replay".to_owned(), Figure::new(differing as f64, note))])
}
