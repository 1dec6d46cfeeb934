//! What holds for every kernel of the registry, whichever they are.

#![allow(clippy::unwrap_used)] // Reason: helpers of a test.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use littoral_base::clock::WallClock;
use littoral_graph::answer;
use littoral_graph::builder::{BuildOptions, EdgeList, Hooks, build_in_memory};
use littoral_graph::format::file::GraphFile;
use littoral_graph::kernels::{
    Answer, FigureValue, Kernel, Options, Sources, check, run, run_in_turn,
};
use littoral_graph::medium::Store;
use littoral_graph::{Error, Kind};

fn two_triangles() -> GraphFile {
    let edges = vec![[0, 1], [1, 2], [2, 0], [3, 4], [4, 5], [5, 3]];
    let list = EdgeList::new(7, false, edges);
    let (image, _) = build_in_memory(list, &BuildOptions::default(), &mut Hooks::none()).unwrap();
    GraphFile::from_image(image).unwrap()
}

fn answer_of(graph: &GraphFile, kernel: Kernel) -> Answer {
    let store = Store::in_dram(graph).unwrap();
    let options = Options { sources: vec![0], verify: true, ..Options::default() };
    run(graph, &store, kernel, &options, &WallClock::new()).unwrap().1
}

#[test]
fn names_and_jobs_differ_and_every_kernel_explains_itself() {
    let specs: Vec<_> = Kernel::all().iter().map(|k| k.spec()).collect();
    let names: BTreeSet<&str> = specs.iter().map(|s| s.name).collect();
    assert_eq!(names.len(), specs.len(), "two kernels have one name");
    let jobs: Vec<&str> = specs.iter().map(|s| s.jobs.kind).collect();
    assert_eq!(jobs.iter().collect::<BTreeSet<_>>().len(), jobs.len(), "{jobs:?}");
    for spec in specs {
        assert!(!spec.about.is_empty() && !spec.about.ends_with('.'), "{}", spec.name);
        assert!(!spec.examples.is_empty(), "{} has no example", spec.name);
        assert!(spec.state_bytes_per_vertex > 0);
        let at_once = spec.jobs.at_once.is_some();
        assert!(spec.has_source || !at_once, "{} runs at once from no source", spec.name);
    }
}

#[test]
fn options_are_read_back_as_they_were_given() {
    for kernel in Kernel::all() {
        let spec = kernel.spec();
        assert_eq!(Kernel::named(spec.name, &|_| None).unwrap(), kernel, "the library's defaults");
        assert_eq!(kernel.values().len(), spec.options.len(), "{}", spec.name);
        for (at, option) in spec.options.iter().enumerate() {
            let is_listed = option.values.contains(&option.default);
            assert!(is_listed || option.values.is_empty(), "{} {option:?}", spec.name);
            for value in option.values {
                let given = |name: &str| (name == option.name).then(|| (*value).to_owned());
                assert_eq!(Kernel::named(spec.name, &given).unwrap().values()[at], *value);
            }
            let wrong = |_: &str| Some("no such value".to_owned());
            let error = Kernel::named(spec.name, &wrong).unwrap_err();
            assert_eq!(error.kind(), Kind::Argument);
            assert!(option.values.iter().all(|v| error.to_string().contains(v)), "{error}");
        }
    }
    let ranks = |damping: &str| {
        let given = |name: &str| (name == "damping").then(|| damping.to_owned());
        Kernel::named("pr", &given)
    };
    assert_eq!(ranks("0.5").unwrap().values(), ["drop", "0.5", "20", "0.0001"]);
    for damping in ["1", "-0.1", "0.99999999999", "NaN", "much"] {
        let error = ranks(damping).unwrap_err();
        assert_eq!(error.kind(), Kind::Argument);
        assert!(error.to_string().contains("at least 0 and less than 1"), "{error}");
    }
    let with = |option: &str, value: &str| {
        Kernel::named("pr", &|name: &str| (name == option).then(|| value.to_owned()))
    };
    assert_eq!(with("iterations", "300").unwrap().values()[2..], ["300", "0.0001"]);
    assert_eq!(with("tolerance", "1e-7").unwrap().values()[2..], ["20", "0.0000001"]);
    for (option, value) in [
        ("iterations", "-1"),
        ("iterations", "0"),
        ("iterations", "1.5"),
        ("tolerance", "0"),
        ("tolerance", "NaN"),
        ("tolerance", "little"),
    ] {
        let error = with(option, value).unwrap_err();
        assert_eq!(error.kind(), Kind::Argument);
        assert!(error.to_string().contains(&format!("--{option} {value}: it is a ")), "{error}");
    }
    let error: Error = Kernel::named("sssp2", &|_| None).unwrap_err();
    assert!(Kernel::all().iter().all(|k| error.to_string().contains(k.name())), "{error}");
}

#[test]
fn every_kernel_has_figures_and_a_table_and_refuses_another_ones_answer() {
    let graph = two_triangles();
    for kernel in Kernel::all() {
        let found = answer_of(&graph, kernel);
        assert_eq!(found.kernel_name(), kernel.name());
        let table = answer::of_kernel(&graph, &found, None).unwrap();
        assert!(table.rows() > 0 && table.columns().len() > 1, "{}", kernel.name());
        assert_eq!(
            answer::of_kernel(&graph, &found, Some(1)).unwrap().columns().len(),
            table.columns().len()
        );
        assert!(answer::shown(&graph, &found, 1).unwrap().rows() <= table.rows());
        for other in Kernel::all().into_iter().filter(|o| o.name() != kernel.name()) {
            let error = check(&graph, other, 0, &found).unwrap_err();
            assert_eq!(error.kind(), Kind::Argument, "{error}");
        }
    }
}

#[test]
fn trials_have_sources_exactly_where_a_kernel_begins_at_a_vertex() {
    let graph = two_triangles();
    let store = Store::in_dram(&graph).unwrap();
    let options = Options { verify: true, ..Options::default() };
    for kernel in Kernel::all() {
        let reports = run_in_turn(&graph, &[&store], kernel, &options, &WallClock::new()).unwrap();
        let trial = &reports[0].trials[0];
        assert_eq!(trial.source.is_some(), kernel.spec().has_source, "{}", kernel.name());
        assert_eq!(kernel.begins_at_source(), kernel.spec().has_source, "{}", kernel.name());
        let figures = trial.summary.figures();
        assert!(!figures.is_empty());
        for figure in figures {
            let is_count = matches!(figure.value, FigureValue::Count(_));
            assert_eq!(figure.name.ends_with("_count"), is_count, "{figure:?}");
        }
    }
}

#[test]
fn betweenness_from_many_vertices_has_no_source() {
    let graph = two_triangles();
    let store = Store::in_dram(&graph).unwrap();
    for sources in [Sources::One, Sources::Sampled, Sources::All] {
        let options = Options { verify: true, ..Options::default() };
        let kernel = Kernel::Bc(sources);
        let (alone, _) = run(&graph, &store, kernel, &options, &WallClock::new()).unwrap();
        let turns = run_in_turn(&graph, &[&store], kernel, &options, &WallClock::new()).unwrap();
        for trial in [&alone.trials[0], &turns[0].trials[0]] {
            assert_eq!(trial.source.is_some(), sources == Sources::One, "{}", sources.name());
        }
    }
}

#[test]
fn an_interrupt_ends_every_kernel_without_an_answer() {
    let graph = two_triangles();
    let store = Store::in_dram(&graph).unwrap();
    for (kernel, threads) in Kernel::all().into_iter().flat_map(|k| [(k, 1), (k, 3)]) {
        let interrupt = Some(Arc::new(AtomicBool::new(true)));
        let options = Options { sources: vec![0], threads, interrupt, ..Options::default() };
        let error = run(&graph, &store, kernel, &options, &WallClock::new()).unwrap_err();
        assert_eq!(error.kind(), Kind::Interrupted, "{}: {error}", kernel.name());
    }
}
