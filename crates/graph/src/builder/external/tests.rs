//! Files made out of core against the same made in memory.

use std::fs;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::pages::Place;
use super::*;
use crate::builder::{EdgeList, build_in_memory};
use crate::format::ENTRY_WORDS;

/// A budget with which a few hundred edges make several runs, merges of merges, scans and buckets.
fn tiny(run_records: u64, fan: usize) -> Budget {
    let run_min = 8 * run_records;
    Budget {
        bytes: 4 << 20,
        reading: (4 << 20) - run_min,
        run_min,
        fan_in: fan,
        fan_out: fan,
        bucket_split: 1 << 30,
    }
}

fn external(
    list: &EdgeList,
    options: &BuildOptions,
    budget: Budget,
    hooks: &mut Hooks<'_>,
) -> Result<(Vec<u8>, BuildReport)> {
    let folder = tempfile::tempdir().unwrap();
    let mut sorter = Sorter::new(options, budget, folder.path());
    let (directed, weighted) = (list.directed, list.weights.is_some());
    sorter.begin(Shape { directed, weighted, edges_count: 0 }, hooks)?;
    for (i, edges) in list.edges.chunks(7).enumerate() {
        let weights = list.weights.as_ref().map(|w| w[7 * i..][..edges.len()].to_vec());
        let (edges, weights) = (&mut edges.to_vec(), &mut weights.clone());
        sorter.take(Offer { edges, weights: weights.as_mut(), held_bytes: 0 }, hooks)?;
    }
    let mut out = tempfile::tempfile_in(folder.path()).unwrap();
    let vertices = Vertices { count: list.vertices, labels: list.labels.clone() };
    let report = sorter.finish(vertices, &mut out, Path::new("(test)"), hooks)?;
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "temporary files have no names");
    let mut bytes = vec![0; out.metadata().unwrap().len() as usize];
    std::os::unix::fs::FileExt::read_exact_at(&out, &mut bytes, 0).unwrap();
    out.flush().unwrap();
    Ok((bytes, report))
}

fn lists() -> impl Strategy<Value = EdgeList> {
    let graph = (1u32..200, any::<bool>(), any::<bool>(), any::<bool>(), 0u8..3);
    graph.prop_flat_map(|(n, directed, weighted, hub, names)| {
        let edge = [0..n, if hub { 0..1 } else { 0..n }];
        let list = proptest::collection::vec((edge, 0u8..50), 0..1500);
        list.prop_map(move |list| EdgeList {
            vertices: n,
            directed,
            weights: weighted.then(|| list.iter().map(|&(_, w)| f32::from(w)).collect()),
            edges: list.into_iter().map(|(e, _)| e).collect(),
            labels: match names {
                0 => Labels::Identity,
                1 => Labels::Numbers((0..u64::from(n)).map(|v| 7 * (u64::from(n) - v)).collect()),
                _ => {
                    let mut names = TextNames::new();
                    (0..n).for_each(|v| names.push(&format!("{:x}", v ^ 0x55)));
                    Labels::Text(names)
                }
            },
        })
    })
}

proptest! {
    #![proptest_config(littoral_testing::cases(60))]

    #[test]
    fn the_file_is_the_one_made_in_memory(
        list in lists(), page in 0u32..3, heads in 0u32..5, by_degree in any::<bool>(),
        run_records in 20u64..400, fan in 2usize..5, threads in 1usize..4,
    ) {
        let options = BuildOptions {
            page_bytes: 512 << page,
            heads,
            order: if by_degree { Order::Degree } else { Order::Input },
            threads,
            ..BuildOptions::default()
        };
        let (wanted, in_memory) =
            build_in_memory(list.clone(), &options, &mut Hooks::none()).unwrap();
        let made = external(&list, &options, tiny(run_records, fan), &mut Hooks::none());
        let (found, report) = made.unwrap();
        let told = report.external.unwrap();
        prop_assert_eq!(BuildReport { external: None, ..report }, in_memory);
        prop_assert!(told.passes_count > 1 || list.edges.is_empty());
        prop_assert!(found == wanted, "{} and {} bytes", found.len(), wanted.len());
    }
}

fn ring(vertices: u32) -> EdgeList {
    EdgeList::new(vertices, false, (0..vertices).map(|v| [v, (v + 1) % vertices]).collect())
}

#[test]
fn temporary_files_hold_at_most_2_2_times_the_edges() {
    let list = ring(20_000);
    let options = BuildOptions { threads: 2, ..BuildOptions::default() };
    let (_, report) = external(&list, &options, tiny(900, 4), &mut Hooks::none()).unwrap();
    let told = report.external.unwrap();
    assert!(told.runs_count > 16, "runs are merged in levels: {told:?}");
    assert!(told.temporary_bytes as f64 <= 2.2 * 8.0 * 20_000.0, "{told:?}");
}

#[test]
fn an_interrupt_at_any_step_ends_the_build() {
    let list = ring(3000);
    let options = BuildOptions { threads: 1, ..BuildOptions::default() };
    let mut steps = 0;
    let never = AtomicBool::new(false);
    let mut hooks = Hooks::new(|_, _, _| steps += 1, &never);
    external(&list, &options, tiny(300, 3), &mut hooks).unwrap();
    drop(hooks);
    for at in 1..=steps {
        let (mut seen, stop) = (0, AtomicBool::new(false));
        let interrupt = |_, _, _| {
            seen += 1;
            stop.store(seen >= at, Ordering::Relaxed);
        };
        let mut hooks = Hooks::new(interrupt, &stop);
        let ended = external(&list, &options, tiny(300, 3), &mut hooks).unwrap_err();
        assert_eq!(ended.kind(), Kind::Interrupted, "step {at}");
    }
}

#[test]
fn what_does_not_fit_the_memory_is_refused_with_what_would() {
    let small = Budget::new(MEMORY_MIN - 1).unwrap_err();
    assert_eq!(small.kind(), Kind::Argument);
    let budget = Budget::new(MEMORY_MIN).unwrap();
    let many = budget.beside(1 << 20, false, Order::Degree).unwrap_err();
    assert_eq!(many.kind(), Kind::Memory);
    assert!(many.to_string().contains("1048576 vertices take more than --memory 8"), "{many}");
    assert!(budget.beside(1 << 18, true, Order::Degree).is_ok());
    // Room beside rank, degrees and addresses, degrees of the other direction, ids of ranks.
    for (directed, order, each) in [
        (false, Order::Degree, 16),
        (true, Order::Degree, 20),
        (false, Order::Input, 20),
        (true, Order::Input, 24),
    ] {
        let room = budget.beside(1 << 18, directed, order).unwrap();
        assert_eq!(room, MEMORY_MIN - (each << 18), "{directed} {order:?}");
    }
    let mut names = TextNames::new();
    (0..100_000u32).for_each(|v| names.push(&format!("a name of forty-odd bytes, number {v:08}")));
    let labels = Labels::Text(names);
    let scratch = Scratch::new(Path::new("."));
    let refused = HeldLabels::new(labels, &budget, 100_000, &scratch).err().unwrap();
    assert!(refused.to_string().contains("names"), "{refused}");
    // Numbers with gaps are sorted in a table that has a place for each up to the largest.
    for (gap, each) in [(1, 20), (4, 24), (5, 20)] {
        for (vertices, fits) in [(MEMORY_MIN / each, true), (MEMORY_MIN / each + 1, false)] {
            let labels = Labels::Numbers((0..vertices).rev().map(|v| v * gap).collect());
            let scratch = Scratch::new(&std::env::temp_dir());
            let held = HeldLabels::new(labels, &budget, vertices as u32, &scratch);
            assert_eq!(held.is_ok(), fits, "{vertices} vertices, a gap of {gap}");
        }
    }
}

#[test]
fn a_bucket_of_the_shortest_lists_takes_less_than_its_share() {
    for page_bytes in [512, 4096, 65536] {
        for (weighted, record) in [(false, size_of::<u64>()), (true, size_of::<[u32; 3]>())] {
            let layout = Layout::new(page_bytes).unwrap().paired(weighted);
            let lists = layout.capacity_words() / (layout.arc_words() + ENTRY_WORDS);
            let bytes = (lists * (record + size_of::<Place>())) as u64;
            let most = BUCKET_OVER_PAGES * layout.page_bytes() as u64;
            assert!(bytes <= most, "{bytes} of {most} for a page of {page_bytes}");
        }
    }
}

#[test]
fn buckets_that_do_not_fit_the_memory_are_refused_with_what_would() {
    let budget = Budget::new(MEMORY_MIN).unwrap();
    let (room, layout) = (MEMORY_MIN / 2, Layout::new(4096).unwrap());
    let pages = |pages, longest| budget.bucket_pages(room, layout, pages, longest);
    let page = BUCKET_OVER_PAGES * 4096;
    assert_eq!(u64::from(pages(1000, 0).unwrap()), room / 2 / page);
    // A bucket that holds a long list holds less beside it.
    assert_eq!(pages(1000, room - 3 * page).unwrap(), 3);
    let refused = pages(1000, room).unwrap_err();
    assert_eq!(refused.kind(), Kind::Memory);
    // 65536 buckets of what fits, and one page more.
    let most = (room / page) as u32 * BUCKETS_MAX;
    assert_eq!(u64::from(pages(most, 0).unwrap()), room / page);
    let refused = pages(most + 1, 0).unwrap_err().to_string();
    let words = format!("lists in {} pages take more than --memory 8", most + 1);
    assert!(refused.contains(&words), "{refused}");
}

#[test]
fn the_plan_is_stated_before_the_first_edge() {
    let folder = tempfile::tempdir().unwrap();
    let options = BuildOptions::default();
    let told = std::cell::RefCell::new(Vec::new());
    let mut hooks = Hooks::none().with_plan(|plan| told.borrow_mut().push(plan.to_string()));
    let mut sorter = Sorter::new(&options, Budget::new(32 << 20).unwrap(), folder.path());
    let shape = Shape { directed: false, weighted: false, edges_count: 8 << 20 };
    sorter.begin(shape, &mut hooks).unwrap();
    let told = told.borrow();
    assert_eq!(told.len(), 1);
    for words in ["at most 32", "8388608 edges", "4 sorted runs", "read 3 times"] {
        assert!(told[0].contains(words), "{} lacks {words}", told[0]);
    }
}
