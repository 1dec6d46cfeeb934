"""Kernels by row, files, errors by class, progress and Ctrl-C."""

import _thread
import enum
import os
import signal
import threading
import time

import numpy
import pytest

import littoral
from littoral import errors
from littoral.graph import Graph


def ring(n, step=1, **options):
    source = numpy.arange(n)
    return Graph.from_arrays(source, (source + step) % n, **options)


def random_graph(n, m, seed=7):
    rng = numpy.random.default_rng(seed)
    return Graph.from_arrays(rng.integers(0, n, m), rng.integers(0, n, m), vertices=n)


def test_answers_of_small_graphs_by_hand():
    # A square with a diagonal, a tail, and a vertex alone.
    g = Graph.from_arrays([0, 1, 2, 3, 0, 3], [1, 2, 3, 0, 2, 4], vertices=6)
    assert g.triangles().tolist() == [2, 1, 2, 1, 0, 0]
    assert g.core_numbers().tolist() == [2, 2, 2, 2, 1, 0]
    assert g.levels(4).tolist() == [2, 3, 2, 1, 0, -1]
    parents = g.bfs(4)
    assert parents[4] == 4 and parents[3] == 4 and parents[0] == 3 and parents[5] == -1
    assert len(set(g.components()[:5])) == 1 and g.components()[5] == 5
    assert g.betweenness()[3] == 3.0
    ranks, how = g.pagerank()
    assert abs(float(ranks.sum()) - 1) < 1e-5 and how["iterations"] > 0
    star = Graph.from_arrays([0, 0, 0], [1, 2, 3])
    assert star.betweenness().tolist() == [3.0, 0.0, 0.0, 0.0]
    assert star.betweenness(sources="one", source=1).tolist() == [2.0, 0.0, 0.0, 0.0]


def test_neighbors_and_degrees_by_hand(tmp_path):
    g = Graph.from_arrays([0, 1, 2, 3, 0, 3], [1, 2, 3, 0, 2, 4], vertices=6)
    assert g.degrees().tolist() == g.degrees(incoming=True).tolist() == [3, 2, 3, 3, 1, 0]
    assert g.neighbors(3).tolist() == g.neighbors(3, incoming=True).tolist() == [0, 2, 4]
    assert g.neighbors(5).tolist() == []
    d = Graph.from_arrays([0, 0, 2], [1, 2, 1], directed=True)
    d.save(tmp_path / "d.lg")
    for d in (d, Graph.open(tmp_path / "d.lg", medium="pread")):
        assert d.degrees().tolist() == [2, 0, 1]
        assert d.degrees(incoming=True).tolist() == [0, 2, 1]
        assert d.neighbors(0).tolist() == [1, 2] and d.neighbors(1).tolist() == []
        assert d.neighbors(1, incoming=True).tolist() == [0, 2]
    with pytest.raises(errors.NoSuchVertexError):
        d.neighbors(3)


def test_answers_do_not_depend_on_threads():
    g = random_graph(3000, 20_000)
    for kernel in (g.triangles, g.core_numbers, g.components):
        assert (kernel(threads=1) == kernel(threads=3)).all()
    assert (g.levels(5, threads=1) == g.levels(5, threads=2)).all()


def test_a_graph_is_saved_and_opened_on_every_medium(tmp_path):
    g = random_graph(500, 3000)
    path = tmp_path / "g.lg"
    g.save(path)
    with pytest.raises(errors.ArgumentError, match="exists"):
        g.save(path)
    g.save(path, overwrite=True)
    for options in ({}, {"medium": "flash", "profile": "xlfdd"}, {"medium": "mmap"}, {"medium": "pread"}):
        again = Graph.open(path, **options)
        assert (again.levels(3) == g.levels(3)).all()
        assert (again.triangles() == g.triangles()).all()
    assert "model" in Graph.open(path, medium="flash").medium


def test_an_edge_list_with_names_is_opened(tmp_path):
    path = tmp_path / "friends.csv"
    path.write_text("from,to\nZoe,Ann\nAnn,Bob\n")
    g = Graph.open(path, directed=False)
    assert g.names == ["Ann", "Bob", "Zoe"]
    assert g.levels("Zoe").tolist() == [1, 2, 0]
    with pytest.raises(LookupError, match="Yan"):
        g.bfs("Yan")


def test_vertices_are_named_by_all_that_is_a_number_or_text(tmp_path):
    class Index:
        def __index__(self):
            return 3

        def __str__(self):
            return "tensor(3)"

    class Town(str, enum.Enum):
        OSLO = "Oslo"

    g = ring(9)
    for name in (3, "3", Index(), numpy.int8(3), numpy.uint64(3), numpy.array(3)):
        assert g.levels(name)[3] == 0
    path = tmp_path / "towns.csv"
    path.write_text("from,to\nOslo,Bern\n")
    assert Graph.open(path).levels(Town.OSLO).tolist() == [1, 0]


def test_edge_lists_are_read_as_the_options_say(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("1;x;9\n2;y;1\n3;x;1\n")
    options = {"format": "csv", "delimiter": ";", "header": False, "directed": True}
    g = Graph.open(path, columns=[1, 3], ids="numbers", **options)
    assert g.directed and g.names.tolist() == [1, 2, 3, 9] and g.levels(2).tolist() == [1, 0, -1, 2]
    assert Graph.open(path, columns=["1", "3"], ids="text", **options).names == ["1", "2", "3", "9"]
    g.save(tmp_path / "g.lg")
    with pytest.raises(errors.ArgumentError, match="is a graph file"):
        Graph.open(tmp_path / "g.lg", header=True)
    for wrong in ({"ids": "names"}, {"memory": "much"}, {"cache": -1}):
        with pytest.raises(errors.ArgumentError):
            Graph.open(path, **wrong)


def test_lines_that_may_be_comments_are_what_the_caller_says(tmp_path):
    path = tmp_path / "tags.txt"
    path.write_text("#a b\nb c\n")
    with pytest.raises(errors.InputError, match="may be a comment or an edge"):
        Graph.open(path)
    assert Graph.open(path, comment="none").names == ["#a", "b", "c"]
    assert Graph.open(path, comment="#").names == ["b", "c"]
    with pytest.raises(errors.ArgumentError, match="begins no comment"):
        Graph.open(path, comment="##")


def test_a_list_is_sorted_within_memory_and_read_through_a_cache(tmp_path):
    rng = numpy.random.default_rng(11)
    ends = rng.integers(0, 5000, (2, 300_000))
    path = tmp_path / "edges.el"
    path.write_text("".join(f"{a} {b}\n" for a, b in ends.T.tolist()))
    wanted = Graph.open(path, directed=False)
    for options in ({}, {"cache": "1MiB"}, {"cache": 1 << 20, "medium": "pread"}):
        g = Graph.open(path, directed=False, memory="8MiB", **options)
        assert "DRAM" not in g.medium.split(";")[0]
        assert [p.name for p in tmp_path.iterdir()] == ["edges.el"], "no file is left"
        source = str(g.names[0])
        assert (g.levels(source) == wanted.levels(source)).all()
        assert (g.triangles() == wanted.triangles()).all()
    with pytest.raises(errors.ArgumentError, match="8 MiB"):
        Graph.open(path, memory=1000)
    assert [p.name for p in tmp_path.iterdir()] == ["edges.el"]


def test_files_of_a_killed_process_of_the_same_number_are_passed_over(tmp_path):
    path = tmp_path / "edges.el"
    path.write_text("0 1\n1 2\n")
    for number in range(100):
        (tmp_path / f".littoral-{os.getpid()}-{number}-edges.el.lg").write_text("left")
    before = {p.name for p in tmp_path.iterdir()}
    assert Graph.open(path, memory="8MiB").edges == 2
    assert {p.name for p in tmp_path.iterdir()} == before


def test_errors_have_classes_of_the_standard_library(tmp_path):
    with pytest.raises(OSError) as missing:
        Graph.open(tmp_path / "none.lg")
    assert isinstance(missing.value, errors.IoError) and missing.value.kind == "Io"
    damaged = tmp_path / "damaged.lg"
    ring(9).save(damaged)
    damaged.write_bytes(damaged.read_bytes()[:4200])
    with pytest.raises(errors.CorruptError):
        Graph.open(damaged)
    with pytest.raises(errors.UsageError, match="flsh"):
        Graph.open(damaged, medium="flsh")
    with pytest.raises(errors.NoSuchVertexError):
        ring(9).bfs(9)
    with pytest.raises(errors.ArgumentError):
        ring(9).bfs(2.5)
    with pytest.raises(errors.ArgumentError, match="weights"):
        ring(9).sssp(0)
    for tol in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(errors.ArgumentError, match="^tol "):
            ring(9).pagerank(tol=tol)
    for threads in (0, 10**8):
        with pytest.raises(errors.ArgumentError, match="threads"):
            ring(9).components(threads=threads)
    for choice in ({"sources": "one"}, {"source": 3}, {"sources": "some"}):
        with pytest.raises(errors.ArgumentError):
            ring(9).betweenness(**choice)


def test_errors_name_keywords_and_not_options_of_the_command_line(tmp_path):
    graph, path = ring(4), tmp_path / "a--force.lg"
    graph.save(path)
    with pytest.raises(errors.ArgumentError, match="overwrite=True") as raised:
        graph.save(path)
    assert str(path) in str(raised.value) and " --" not in str(raised.value)
    with pytest.raises(errors.ArgumentError, match="weights seeded gives each edge one"):
        graph.sssp(0)
    with pytest.raises(errors.ArgumentError, match="max_iter=0: it is at least 1"):
        graph.pagerank(max_iter=0)


def test_progress_is_called_and_its_exception_ends_the_work():
    seen = []
    rng = numpy.random.default_rng(3)
    columns = rng.integers(0, 1 << 20, 4_000_000), rng.integers(0, 1 << 20, 4_000_000)
    Graph.from_arrays(*columns, progress=lambda *step: seen.append(step))
    assert seen and all(stage in ("sorting", "writing") for stage, _, _ in seen)

    def refuse(*_):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        Graph.from_arrays(*columns, progress=refuse)


def test_ctrl_c_ends_a_kernel_and_other_threads_run_meanwhile():
    g = random_graph(20_000, 200_000)
    ticks = []

    def interrupt():
        for _ in range(20):
            ticks.append(time.monotonic())
            time.sleep(0.01)
        _thread.interrupt_main()

    other = threading.Thread(target=interrupt)
    # A shell ignores the signal for what it starts in the background, and so does Python then.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            other.start()
            g.betweenness(sources="all")  # 20 000 searches
    finally:
        signal.signal(signal.SIGINT, before)
    other.join()
    assert len(ticks) == 20
    assert g.components().shape == (20_000,), "the graph is usable afterwards"


def test_machines_name_their_devices():
    assert littoral.Machine().devices == ["flash", "memory", "zoned"]
    with pytest.raises(errors.EnvironmentError):
        littoral.Machine("no/such/machine.toml")


def test_every_name_of_the_extension_has_a_stub():
    from mypy.stubtest import parse_options, test_stubs

    modules = ["littoral._littoral"]
    assert test_stubs(parse_options(modules)) == 0


def test_parquet_and_arrow_files_are_opened_and_their_nulls_named(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    def written(target):
        source = arrow.array(["ann", "bob", "ann"]).dictionary_encode()
        table = arrow.table({"note": [1, 2, 3], "source": source, "target": target})
        parquet.write_table(table, tmp_path / "g.parquet")
        feather.write_feather(table, str(tmp_path / "g.feather"))
        return tmp_path / "g.parquet", tmp_path / "g.feather"

    for path in written(["bob", "cy", "dan"]):
        assert Graph.open(path).names == ["ann", "bob", "cy", "dan"]
    for path in written(["bob", None, "dan"]):
        with pytest.raises(errors.InputError, match="row 2, column 'target'"):
            Graph.open(path)
