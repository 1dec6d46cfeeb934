"""The networkx backend: functions that the kernels cover, with networkx's own answers.

A call that a kernel does not answer as networkx does is refused by `can_run`, with the reason, and
networkx runs its own code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import networkx as nx
import numpy

from ._interop import from_networkx

#: Below so many edges a conversion takes longer than networkx takes for its answer.
EDGES_WORTH = 2000


#: Distances below this are exact sums of whole weights in single precision.
EXACT_MAX = 2**24


@dataclass(frozen=True)
class Weights:
    """What the kernels need to know about one attribute of all edges."""

    #: Every edge has the weight 1, or none.
    are_one: bool
    #: Every weight is a Python int.
    are_ints: bool
    #: Why the kernels do not take the weights, if they do not.
    refused: str | None


def _weights(graph: Any, name: str) -> Weights:
    """Walks all edges of a networkx graph."""
    values = [edge.get(name, 1) for targets in graph._adj.values() for edge in targets.values()]
    kinds = set(map(type, values))
    if not kinds <= {int, float}:
        return Weights(False, False, f"edges have a {name} that is no number")
    try:
        numbers = numpy.array(values, dtype=numpy.float64)
    except OverflowError:
        return Weights(False, False, f"edges have a {name} that no double holds")
    are_whole = bool((numbers == numpy.floor(numbers)).all()) if kinds else True
    are_small = bool(((numbers >= 0) & (numbers < EXACT_MAX)).all())
    refused = None
    if not (are_whole and are_small):
        refused = f"edges have a {name} that is no whole number from 0 to {EXACT_MAX - 1}"
    return Weights(bool((numbers == 1).all()), float not in kinds, refused)


def _has_loops(graph: Any) -> bool:
    """Walks all nodes of a networkx graph."""
    return any(node in targets for node, targets in graph._adj.items())


class BackendGraph:
    """A networkx graph that has been converted.

    What a call asks about all edges is found once: self-loops with the conversion, an attribute of
    edges when a call names it first.
    """

    __networkx_backend__ = "littoral"

    def __init__(self, graph: Any) -> None:
        self.graph, self.nodes = from_networkx(graph)
        self.original = graph
        self.has_loops = _has_loops(graph)
        self._row: dict[Any, int] | None = None
        self._weights: dict[str, Weights] = {}
        self._weighted: dict[str, Any] = {}

    def weights(self, name: str) -> Weights:
        """What is known about an attribute of edges."""
        if name not in self._weights:
            self._weights[name] = _weights(self.original, name)
        return self._weights[name]

    def weighted(self, name: str) -> Any:
        """The graph with an attribute of edges as weights."""
        if name not in self._weighted:
            self._weighted[name] = from_networkx(self.original, name)[0]
        return self._weighted[name]

    @property
    def row(self) -> dict[Any, int]:
        """The row of each node."""
        if self._row is None:
            self._row = {node: i for i, node in enumerate(self.nodes)}
        return self._row

    def is_directed(self) -> bool:
        """Whether edges have a direction."""
        return self.graph.directed

    def is_multigraph(self) -> bool:
        """Whether the networkx graph is one."""
        return self.original.is_multigraph()

    def number_of_nodes(self) -> int:
        """How many nodes."""
        return len(self.nodes)

    def number_of_edges(self, u: Any = None, v: Any = None) -> int:
        """How many edges, or how many between two nodes, as the networkx graph counts them."""
        return self.original.number_of_edges(u, v)

    def __len__(self) -> int:
        return len(self.nodes)

    def __contains__(self, node: Any) -> bool:
        try:
            return node in self.row
        except TypeError:  # A container of nodes has no hash.
            return False

    def __iter__(self) -> Any:
        return iter(self.nodes)

    def by_node(self, values: numpy.ndarray) -> dict[Any, Any]:
        """A dictionary of an answer."""
        return dict(zip(self.nodes, values.tolist()))


def pagerank(
    G: BackendGraph,
    alpha: float = 0.85,
    personalization: Any = None,
    max_iter: int = 100,
    tol: float = 1.0e-6,
    nstart: Any = None,
    weight: str | None = "weight",
    dangling: Any = None,
) -> dict[Any, float]:
    """networkx.pagerank of unweighted simple graphs."""
    if len(G) == 0:
        return {}
    # networkx's tolerance is per node; with the tolerance itself the kernel takes several times as
    # many iterations.
    enough = tol * len(G)
    ranks, how = G.graph.pagerank(tol=enough, max_iter=max_iter, damping=alpha)
    if how["error"] >= enough:
        raise nx.PowerIterationFailedConvergence(max_iter)
    ranks = ranks.astype(numpy.float64)
    return G.by_node(ranks / ranks.sum())


def triangles(G: BackendGraph, nodes: Any = None) -> Any:
    """networkx.triangles."""
    # A tuple may be a node, and a container of nodes need not be a list: networkx asks this first.
    if nodes is not None and nodes in G:
        return int(G.graph.triangles()[G.row[nodes]])
    counts = G.by_node(G.graph.triangles()) if len(G) else {}
    if nodes is None:
        return counts
    return {node: counts[node] for node in G.original.nbunch_iter(nodes)}


def betweenness_centrality(
    G: BackendGraph,
    k: int | None = None,
    normalized: bool = True,
    weight: str | None = None,
    endpoints: bool = False,
    seed: Any = None,
) -> dict[Any, float]:
    """networkx.betweenness_centrality from all nodes, every edge of length 1."""
    n = len(G)
    if n == 0:
        return {}
    scores = G.graph.betweenness(sources="all")
    if normalized and n > 2:
        scores *= (1.0 if G.is_directed() else 2.0) / ((n - 1) * (n - 2))
    return G.by_node(scores)


def _components(G: BackendGraph) -> list[set[Any]]:
    if len(G) == 0:
        return []
    labels = G.graph.components()
    order = numpy.argsort(labels, kind="stable")
    starts = numpy.flatnonzero(numpy.diff(labels[order])) + 1
    groups = [part.tolist() for part in numpy.split(order, starts)]
    groups.sort(key=lambda rows: rows[0])
    return [{G.nodes[row] for row in rows} for rows in groups]


def connected_components(G: BackendGraph) -> Any:
    """networkx.connected_components."""
    yield from _components(G)


def weakly_connected_components(G: BackendGraph) -> Any:
    """networkx.weakly_connected_components."""
    yield from _components(G)


def _count(G: BackendGraph) -> int:
    return len(numpy.unique(G.graph.components())) if len(G) else 0


def number_connected_components(G: BackendGraph) -> int:
    """networkx.number_connected_components."""
    return _count(G)


def number_weakly_connected_components(G: BackendGraph) -> int:
    """networkx.number_weakly_connected_components."""
    return _count(G)


def _is_connected(G: BackendGraph) -> bool:
    if len(G) == 0:
        raise nx.NetworkXPointlessConcept("Connectivity is undefined for the null graph.")
    return _count(G) == 1


def is_connected(G: BackendGraph) -> bool:
    """networkx.is_connected."""
    return _is_connected(G)


def is_weakly_connected(G: BackendGraph) -> bool:
    """networkx.is_weakly_connected."""
    return _is_connected(G)


def core_number(G: BackendGraph) -> dict[Any, int]:
    """networkx.core_number."""
    return G.by_node(G.graph.core_numbers()) if len(G) else {}


def single_source_shortest_path_length(
    G: BackendGraph, source: Any, cutoff: float | None = None
) -> dict[Any, int]:
    """networkx.single_source_shortest_path_length: nearest first."""
    if source not in G:
        raise nx.NodeNotFound(f"Source {source} is not in G")
    levels = G.graph.levels(G.row[source])
    rows = numpy.flatnonzero(levels >= 0)
    if cutoff is not None:
        # As networkx: a level is entered from one below the cutoff, and the source always belongs.
        rows = rows[(levels[rows] == 0) | (levels[rows] - 1 < cutoff)]
    rows = rows[numpy.argsort(levels[rows], kind="stable")]
    return {G.nodes[row]: level for row, level in zip(rows.tolist(), levels[rows].tolist())}


def single_source_dijkstra_path_length(
    G: BackendGraph, source: Any, cutoff: float | None = None, weight: str = "weight"
) -> dict[Any, float]:
    """networkx.single_source_dijkstra_path_length of whole weights: nearest first."""
    if source not in G:
        raise nx.NodeNotFound(f"Node {source} not found in graph")
    distances = G.weighted(weight).sssp(G.row[source])
    rows = numpy.flatnonzero(numpy.isfinite(distances))
    if distances[rows].max() >= EXACT_MAX:
        raise NotImplementedError(f"a distance of {EXACT_MAX} or more is not exact here")
    if cutoff is not None:
        # As networkx: only what lies beyond the cutoff is left out, and never the source.
        rows = rows[(rows == G.row[source]) | ~(distances[rows] > cutoff)]
    rows = rows[numpy.argsort(distances[rows], kind="stable")]
    found = distances[rows].astype(numpy.int64 if G.weights(weight).are_ints else numpy.float64)
    return {G.nodes[row]: distance for row, distance in zip(rows.tolist(), found.tolist())}


def _simple(G: Any) -> str | None:
    """Why the kernels do not take a graph, if they do not."""
    if G.is_multigraph():
        return "the graph is a multigraph"
    return "the graph has no nodes" if len(G) == 0 else None


def _weights_of(G: Any, weight: str) -> Weights:
    return G.weights(weight) if isinstance(G, BackendGraph) else _weights(G, weight)


def _unweighted(G: Any, weight: str | None) -> str | None:
    if weight is None or _weights_of(G, weight).are_one:
        return None
    return f"edges have the attribute {weight}, and weights are not used"


def _loopless(G: Any) -> str | None:
    has_loops = G.has_loops if isinstance(G, BackendGraph) else _has_loops(G)
    return "the graph has self-loops, which are removed here" if has_loops else None


def _undirected(G: Any) -> str | None:
    return "the graph is directed" if G.is_directed() else None


def _directed(G: Any) -> str | None:
    return None if G.is_directed() else "the graph is undirected"


def _pagerank_refuses(
    G: Any,
    alpha: float = 0.85,
    personalization: Any = None,
    max_iter: int = 100,
    tol: float = 1.0e-6,
    nstart: Any = None,
    weight: str | None = "weight",
    dangling: Any = None,
) -> str | None:
    if not 0 < alpha < 1:
        return "alpha is not between 0 and 1"
    if personalization is not None or nstart is not None or dangling is not None:
        return "personalization, nstart and dangling are not taken"
    if not 1e-7 <= tol < float("inf") or max_iter < 1:
        return "ranks are of single precision: tol is at least 1e-7, and finite"
    return _simple(G) or _loopless(G) or _unweighted(G, weight)


def _triangles_refuses(G: Any, nodes: Any = None) -> str | None:
    return _simple(G) or _undirected(G)


def _betweenness_refuses(
    G: Any,
    k: int | None = None,
    normalized: bool = True,
    weight: str | None = None,
    endpoints: bool = False,
    seed: Any = None,
) -> str | None:
    if k is not None or endpoints or weight is not None:
        return "k, weight and endpoints are not taken"
    return _simple(G)


def _undirected_refuses(G: Any) -> str | None:
    return _simple(G) or _undirected(G)


def _directed_refuses(G: Any) -> str | None:
    return _simple(G) or _directed(G)


def _core_refuses(G: Any) -> str | None:
    return _simple(G) or _loopless(G)


def _lengths_refuses(G: Any, source: Any, cutoff: float | None = None) -> str | None:
    return _simple(G)


def _distances_refuses(
    G: Any, source: Any, cutoff: float | None = None, weight: Any = "weight"
) -> str | None:
    if not isinstance(weight, str):
        return "weight is no name of an attribute"
    return _simple(G) or _weights_of(G, weight).refused


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., str | None]]] = {
    "pagerank": (pagerank, _pagerank_refuses),
    "triangles": (triangles, _triangles_refuses),
    "betweenness_centrality": (betweenness_centrality, _betweenness_refuses),
    "connected_components": (connected_components, _undirected_refuses),
    "number_connected_components": (number_connected_components, _undirected_refuses),
    "is_connected": (is_connected, _undirected_refuses),
    "weakly_connected_components": (weakly_connected_components, _directed_refuses),
    "number_weakly_connected_components": (number_weakly_connected_components, _directed_refuses),
    "is_weakly_connected": (is_weakly_connected, _directed_refuses),
    "core_number": (core_number, _core_refuses),
    "single_source_shortest_path_length": (single_source_shortest_path_length, _lengths_refuses),
    "single_source_dijkstra_path_length": (single_source_dijkstra_path_length, _distances_refuses),
}


class Backend:
    """What networkx asks."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            return FUNCTIONS[name][0]
        except KeyError:
            raise AttributeError(name) from None

    @staticmethod
    def convert_from_nx(graph: Any, **_: Any) -> BackendGraph:
        """Converts a networkx graph; attributes stay with the original."""
        return graph if isinstance(graph, BackendGraph) else BackendGraph(graph)

    @staticmethod
    def convert_to_nx(result: Any, **_: Any) -> Any:
        """Converts a result back; those that are no graphs are networkx's already."""
        return result.original if isinstance(result, BackendGraph) else result

    @staticmethod
    def can_run(name: str, args: Any, kwargs: Any) -> bool | str:
        """Whether the answer is networkx's; otherwise the reason why not."""
        return FUNCTIONS[name][1](*args, **kwargs) or True

    @staticmethod
    def should_run(name: str, args: Any, kwargs: Any) -> bool | str:
        """Whether conversion and kernel are expected to take less time than networkx."""
        graph = args[0] if args else kwargs["G"]
        if isinstance(graph, BackendGraph) or graph.number_of_edges() >= EDGES_WORTH:
            return True
        return f"the graph has fewer than {EDGES_WORTH} edges"


backend = Backend()

