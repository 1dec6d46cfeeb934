"""The backend answers as networkx does, and leaves to networkx what it cannot answer so."""

import networkx as nx
import numpy
import pytest

from littoral import _networkx
from littoral._networkx import EDGES_WORTH, FUNCTIONS, backend
from littoral._networkx_info import COVERED, get_info

GRAPHS = [
    nx.karate_club_graph(),
    nx.gnm_random_graph(300, 900, seed=5),
    nx.gnm_random_graph(200, 700, seed=6, directed=True),
    nx.relabel_nodes(nx.path_graph(40), str),
]


def plain(graph):
    """The graph without attributes."""
    bare = graph.__class__()
    bare.add_nodes_from(graph)
    bare.add_edges_from(graph.edges())
    return bare


@pytest.mark.parametrize("graph", map(plain, GRAPHS))
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_answers_are_those_of_networkx(name, graph):
    if name.startswith("single_source"):
        arguments = (graph, next(iter(graph)))
    else:
        arguments = (graph,)
    refused = backend.can_run(name, arguments, {})
    if refused is not True:
        assert isinstance(refused, str)
        with pytest.raises((nx.NetworkXNotImplemented, NotImplementedError)):
            getattr(nx, name)(*arguments, backend="littoral")
        return
    function = getattr(nx, name)
    ours, theirs = function(*arguments, backend="littoral"), function(*arguments)
    if name.endswith("connected_components") and not name.startswith("number"):
        assert sorted(map(sorted, ours)) == sorted(map(sorted, theirs))
    elif isinstance(theirs, dict):
        assert ours == pytest.approx(theirs, abs=1e-5)
    else:
        assert ours == theirs


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("pagerank", {"alpha": 1.0}),
        ("pagerank", {"personalization": {0: 1}}),
        ("betweenness_centrality", {"k": 3}),
        ("betweenness_centrality", {"weight": "weight"}),
    ],
)
def test_options_that_no_kernel_has_are_refused_with_the_reason(name, options):
    reason = backend.can_run(name, (plain(GRAPHS[0]),), options)
    assert isinstance(reason, str) and reason


def test_weighted_and_looped_graphs_are_left_to_networkx():
    weighted = nx.Graph()
    weighted.add_edge(0, 1, weight=3)
    assert "weight" in backend.can_run("pagerank", (weighted,), {})
    looped = nx.Graph([(0, 0), (0, 1)])
    assert "self-loops" in backend.can_run("core_number", (looped,), {})
    assert "multigraph" in backend.can_run("triangles", (nx.MultiGraph([(0, 1)]),), {})


def test_what_is_asked_about_all_edges_is_found_once(monkeypatch):
    graph = nx.gnm_random_graph(30, 60, seed=2)
    nx.set_edge_attributes(graph, 1, "weight")
    converted = backend.convert_from_nx(graph)
    asked = ("pagerank", "core_number", "single_source_dijkstra_path_length")

    def can_run(name):
        return backend.can_run(name, (converted, 0) if "source" in name else (converted,), {})

    assert all(can_run(name) is True for name in asked)
    with monkeypatch.context() as patch:
        # Nothing walks the edges any more.
        patch.setattr(_networkx, "_weights", None)
        patch.setattr(_networkx, "_has_loops", None)
        assert all(can_run(name) is True for name in asked)
    nx.set_edge_attributes(graph, 2.5, "length")
    assert "length" in backend.can_run("pagerank", (converted,), {"weight": "length"})


@pytest.mark.parametrize("alpha", [0.3, 0.85, 0.95])
def test_damping_is_alpha(alpha):
    graph = nx.gnm_random_graph(200, 900, seed=8, directed=True)
    ours = nx.pagerank(graph, alpha=alpha, backend="littoral")
    assert ours == pytest.approx(nx.pagerank(graph, alpha=alpha), abs=1e-5)


def test_distances_by_whole_weights_are_those_of_networkx():
    for directed in (False, True):
        graph = nx.gnm_random_graph(120, 400, seed=3, directed=directed)
        for i, (u, v) in enumerate(graph.edges):
            graph[u][v]["weight"] = i % 17
            graph[u][v]["long"] = float(i)
        for weight in ("weight", "long"):
            for cutoff in (None, 9):
                call = nx.single_source_dijkstra_path_length
                options = {"weight": weight, "cutoff": cutoff}
                ours = call(graph, 0, backend="littoral", **options)
                theirs = call(graph, 0, backend="networkx", **options)
                assert ours == theirs and list(ours.values()) == list(theirs.values())
                if weight == "weight":
                    assert all(type(distance) is int for distance in ours.values())
    with pytest.raises(nx.NodeNotFound):
        nx.single_source_dijkstra_path_length(graph, "none", backend="littoral")


@pytest.mark.parametrize("cutoff", [0, 0.5, 1, 1.5, 3, -1, float("nan")])
@pytest.mark.parametrize(
    "name", ["single_source_shortest_path_length", "single_source_dijkstra_path_length"]
)
def test_cutoffs_of_any_kind_are_networkx_s(name, cutoff):
    call, graph = getattr(nx, name), nx.path_graph(6)
    ours = call(graph, 2, cutoff=cutoff, backend="littoral")
    assert ours == call(graph, 2, cutoff=cutoff, backend="networkx")


@pytest.mark.parametrize("weight", [0.5, -1, 2**24, "1", None, float("nan")])
def test_weights_that_are_no_whole_numbers_are_left_to_networkx(weight):
    graph = nx.Graph()
    graph.add_edge(0, 1, weight=weight)
    reason = backend.can_run("single_source_dijkstra_path_length", (graph, 0), {})
    assert isinstance(reason, str) and "weight" in reason
    options = {"weight": lambda *_: 1}
    assert backend.can_run("single_source_dijkstra_path_length", (graph, 0), options) is not True


def test_distances_that_single_precision_rounds_are_no_answer():
    graph = nx.path_graph(4)
    nx.set_edge_attributes(graph, 2**23, "weight")
    with pytest.raises(NotImplementedError, match="not exact"):
        backend.single_source_dijkstra_path_length(backend.convert_from_nx(graph), 0)


def test_triangles_takes_nodes_as_networkx_does():
    grid = nx.triangular_lattice_graph(4, 4)
    for nodes in ((1, 1), grid.nodes, [(1, 1), (2, 1), (9, 9)], ((1, 1), (2, 1)), None):
        ours = nx.triangles(grid, nodes, backend="littoral")
        assert ours == nx.triangles(grid, nodes, backend="networkx"), nodes
    numbered = nx.convert_node_labels_to_integers(grid)
    for nodes in (numpy.array([1, 2, 3]), numbered.nodes, {1, 2}, iter([1, 2]), 5):
        again = nodes if not hasattr(nodes, "__next__") else iter([1, 2])
        ours = nx.triangles(numbered, nodes, backend="littoral")
        assert ours == nx.triangles(numbered, again, backend="networkx"), nodes
    for backend_name in ("littoral", "networkx"):
        with pytest.raises(nx.NetworkXError):
            nx.triangles(numbered, 10_000, backend=backend_name)


def test_small_graphs_are_not_worth_a_conversion():
    assert backend.should_run("triangles", (nx.path_graph(4),), {}) is not True
    assert backend.should_run("triangles", (nx.path_graph(EDGES_WORTH + 2),), {}) is True


def test_what_is_covered_is_what_is_announced():
    assert set(COVERED) == set(FUNCTIONS) == set(get_info()["functions"])


def test_the_tolerance_of_pagerank_is_per_node_as_networkx_has_it():
    graph = nx.gnp_random_graph(300, 0.03, seed=3, directed=True)
    converted = backend.convert_from_nx(graph)
    inner, asked = converted.graph, []

    class Spy:
        def pagerank(self, **options):
            asked.append(options["tol"])
            return inner.pagerank(**options)

    converted.graph = Spy()
    exact = nx.pagerank(graph, tol=1e-12, max_iter=1000, backend="networkx")
    for tol in (1e-4, 1e-6):
        ours = nx.pagerank(converted, tol=tol, backend="littoral")
        assert asked.pop() == tol * 300
        # Changes shrink by 0.85 at least, so what is left is at most this sum.
        left = 300 * tol * 0.85 / (1 - 0.85)
        assert sum(abs(ours[v] - exact[v]) for v in graph) < left + 1e-5


def test_iterations_that_do_not_suffice_are_networkx_s_error():
    with pytest.raises(nx.PowerIterationFailedConvergence):
        nx.pagerank(plain(GRAPHS[1]), max_iter=1, backend="littoral")
