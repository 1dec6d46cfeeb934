"""Columns of every kind become the same graph, or an error that names what is wrong."""

import threading

import numpy
import pandas
import polars
import pyarrow
import pytest
import scipy.sparse

import littoral
from littoral.errors import ArgumentError, InputError
from littoral.graph import Graph, from_networkx, from_scipy

SOURCE = [0, 1, 2, 2, 4]
TARGET = [1, 2, 0, 3, 4]
LEVELS = [0, 1, 1, 2, -1]


def same(graph):
    assert (graph.vertices, graph.edges) == (5, 4)
    assert graph.levels(0).tolist() == LEVELS


@pytest.mark.parametrize("kind", ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_integer_type_and_byte_order(kind, order):
    columns = [numpy.array(c, dtype=order + kind) for c in (SOURCE, TARGET)]
    same(Graph.from_arrays(*columns))


def test_strided_and_read_only_arrays_are_read_and_not_changed():
    pairs = numpy.array([SOURCE, TARGET]).T
    same(Graph.from_arrays(pairs[:, 0], pairs[:, 1]))
    same(Graph.from_arrays(numpy.array(SOURCE[::-1])[::-1], TARGET))
    fixed = numpy.array(SOURCE)
    fixed.flags.writeable = False
    same(Graph.from_arrays(fixed, TARGET))
    assert fixed.tolist() == SOURCE


def test_columns_that_begin_between_words_are_read():
    def moved(column, kind):
        return numpy.frombuffer(b"\0" + numpy.array(column, kind).tobytes(), kind, offset=1)

    source, target = moved(SOURCE, "i8"), moved(TARGET, "u2")
    assert not source.flags.aligned and not target.flags.aligned
    same(Graph.from_arrays(source, target))
    weight = moved([1.0, 9.0, 2.5], "f4")
    graph = Graph.from_arrays([0, 0, 1], [1, 2, 2], weight, directed=True)
    assert graph.sssp(0).tolist() == [0.0, 1.0, 3.5]


def test_masked_entries_are_errors():
    masked = numpy.ma.masked_equal(SOURCE, 2)
    with pytest.raises(ArgumentError, match=r"source\[2\] is masked"):
        Graph.from_arrays(masked, TARGET)
    with pytest.raises(ArgumentError, match=r"weight\[1\] is masked"):
        Graph.from_arrays([0, 1], [1, 2], numpy.ma.masked_array([1.0, 2.0], [False, True]))
    same(Graph.from_arrays(numpy.ma.masked_equal(SOURCE, 9), TARGET))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ([0, 1, 2, -2, 4], r"source\[3\] is -2"),
        ([0, 1, 2, 2**40, 4], r"source\[3\] is 1099511627776"),
        ([0.5, 1, 2, 2, 4], "float64; ids are integers"),
        ([True, False, True, True, True], "bool"),
        (list("abcde"), "numpy.unique"),
        ([[0, 1], [2, 2]], "2 dimensions"),
        ([0, 1], "2 sources for 5 targets"),
    ],
)
def test_bad_columns_are_named(source, words):
    with pytest.raises(ArgumentError, match=words) as raised:
        Graph.from_arrays(numpy.array(source), numpy.array(TARGET))
    assert isinstance(raised.value, ValueError) and raised.value.kind == "Argument"


def test_arrays_that_another_thread_changes_meanwhile_give_a_graph_or_an_error():
    count = 1 << 20
    good = numpy.arange(count, dtype=numpy.int64) % 5
    bad = numpy.full(count, -7)
    source, target = good.copy(), good[::-1].copy()
    ended = threading.Event()

    def change():
        # A copy of this size is made without the interpreter's lock.
        while not ended.is_set():
            numpy.copyto(source, bad)
            numpy.copyto(source, good)

    other = threading.Thread(target=change)
    other.start()
    try:
        for _ in range(20):
            try:
                graph = Graph.from_arrays(source, target, vertices=5)
                assert graph.vertices == 5 and graph.edges <= 10
                assert graph.levels(0).max() < 5
            except ArgumentError as error:
                assert "is -7" in str(error)
    finally:
        ended.set()
        other.join()


def test_empty_columns_need_a_count_of_vertices():
    none = numpy.array([], dtype=numpy.int64)
    with pytest.raises(InputError, match="no vertices"):
        Graph.from_arrays(none, none)
    empty = Graph.from_arrays([], [], vertices=3)
    assert empty.components().tolist() == [0, 1, 2]
    assert empty.bfs(1).tolist() == [-1, 1, -1]


def test_a_count_of_vertices_bounds_ids():
    with pytest.raises(InputError, match="leads out of 4 vertices"):
        Graph.from_arrays(SOURCE, TARGET, vertices=4)
    assert Graph.from_arrays(SOURCE, TARGET, vertices=9).vertices == 9
    with pytest.raises(InputError, match="at most"):
        Graph.from_arrays([2**32 - 1], [0])
    with pytest.raises(ArgumentError, match="numpy.unique"):
        Graph.from_arrays([0], [2_000_000_000])
    assert Graph.from_arrays([0], [1 << 22], vertices=(1 << 22) + 1).vertices == (1 << 22) + 1


def test_weights():
    graph = Graph.from_arrays([0, 0, 1], [1, 2, 2], numpy.array([1, 9, 2.5]), directed=True)
    assert graph.weighted and graph.sssp(0).tolist() == [0.0, 1.0, 3.5]
    with pytest.raises(InputError, match="weight"):
        Graph.from_arrays([0], [1], [-1.0])
    with pytest.raises(ArgumentError, match="2 weights for 1 edges"):
        Graph.from_arrays([0], [1], [1.0, 2.0])


def test_arrow_columns_and_tables():
    columns = {"source": SOURCE, "target": TARGET, "w": [1.0, 2.0, 3.0, 4.0, 5.0]}
    table = pyarrow.table(columns)
    same(Graph.from_arrays(table["source"], table["target"]))
    parts = pyarrow.chunked_array([SOURCE[:2], SOURCE[2:]])
    same(Graph.from_arrays(parts, pyarrow.array(TARGET)))
    for frame in (table, polars.DataFrame(columns), pandas.DataFrame(columns)):
        same(Graph.from_table(frame))
        same(Graph.from_table(frame, "source", "target", "w"))
    same(Graph.from_arrays(polars.Series(SOURCE), pandas.Series(TARGET)))


def test_faults_of_tables_are_named():
    table = pyarrow.table({"a": [1, None], "b": [1, 2], "c": ["x", "y"], "d": [[1], [2]]})
    with pytest.raises(ArgumentError, match=r"a\[1\] is null"):
        Graph.from_table(table, "a", "b")
    with pytest.raises(ArgumentError, match="no column source; it has a, b, c, d"):
        Graph.from_table(table)
    for column in "cd":
        with pytest.raises(ArgumentError, match=f"{column} has Arrow type"):
            Graph.from_table(table, "b", column)
    twice = pyarrow.Table.from_arrays([table["b"], table["b"]], names=["b", "b"])
    with pytest.raises(ArgumentError, match="2 columns called b"):
        Graph.from_table(twice, "b", "b")
    with pytest.raises(ArgumentError, match=r"source\[1\] is null"):
        Graph.from_arrays(table["a"], table["b"])
    with pytest.raises(ArgumentError, match="dict offers no Arrow stream"):
        Graph.from_table({"source": [0], "target": [1]})


def test_an_arrow_stream_is_read_once():
    class Once:
        def __init__(self, table):
            self.capsule = table.__arrow_c_stream__()

        def __arrow_c_stream__(self, requested_schema=None):
            return self.capsule

    once = Once(pyarrow.table({"source": [0], "target": [1]}))
    assert Graph.from_table(once).edges == 1
    with pytest.raises(ArgumentError):
        Graph.from_table(once)
    column = Once(pyarrow.chunked_array([[0, 1]]))
    assert Graph.from_arrays(column, [1, 2]).edges == 2
    with pytest.raises(ArgumentError):
        Graph.from_arrays(column, [1, 2])


def test_sparse_matrices():
    ones = numpy.ones(5)
    for form in ("coo", "csr", "csc", "lil"):
        matrix = scipy.sparse.coo_array((ones, (SOURCE, TARGET)), shape=(5, 5)).asformat(form)
        same(from_scipy(matrix))
        assert from_scipy(matrix, directed=True, weighted=True).directed
    with pytest.raises(ArgumentError, match="square"):
        from_scipy(scipy.sparse.coo_array((2, 3)))
    with pytest.raises(ArgumentError, match="ndarray"):
        from_scipy(ones)


def test_parts_of_an_entry_of_a_sparse_matrix_are_summed_up():
    parts = (numpy.array([1.0, 2.0, 5.0]), (numpy.array([0, 0, 1]), numpy.array([1, 1, 2])))
    matrix = scipy.sparse.coo_array(parts, shape=(3, 3))
    graph = from_scipy(matrix, directed=True, weighted=True)
    assert graph.edges == 2 and graph.sssp(0).tolist() == [0.0, 3.0, 8.0]
    assert matrix.nnz == 3, "the matrix stays as it was"


def test_networkx_graphs_keep_their_nodes():
    import networkx

    given = networkx.Graph()
    given.add_weighted_edges_from([("a", "b", 2.0), ("b", "c", 3.0)])
    graph, nodes = from_networkx(given, "weight")
    assert nodes == ["a", "b", "c"] and graph.sssp(0).tolist() == [0.0, 2.0, 5.0]
    assert littoral.Graph is Graph
