"""Graphs from other packages' structures, by way of columns."""

from __future__ import annotations

from typing import Any

import numpy

from ._littoral import graph as _graph
from .errors import ArgumentError, _of

Graph = _graph.Graph


def from_scipy(matrix: Any, *, directed: bool = False, weighted: bool = False) -> Any:
    """The graph of a square sparse matrix or array: an edge for each stored entry.

    Parts of one entry are summed up, as scipy does. Without a direction an edge has the lesser
    value of its two entries.

    >>> import numpy, scipy.sparse
    >>> entries = (numpy.ones(2), (numpy.array([0, 1]), numpy.array([1, 2])))
    >>> from_scipy(scipy.sparse.coo_array(entries, shape=(4, 4)))
    <littoral.graph.Graph, undirected: 4 vertices, 2 edges>
    """
    if not hasattr(matrix, "tocoo"):
        what = f"{type(matrix).__name__} is no scipy.sparse matrix; from_arrays takes columns"
        raise _of("Argument", "Usage", what)
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        what = f"the matrix has shape {matrix.shape}; a graph's is square"
        raise _of("Argument", "Usage", what)
    entries = matrix.tocoo(copy=weighted)
    if weighted:
        # The value of an entry that is stored in parts is their sum.
        entries.sum_duplicates()
    weight = entries.data if weighted else None
    return Graph.from_arrays(
        entries.row, entries.col, weight, vertices=matrix.shape[0], directed=directed
    )


def from_networkx(graph: Any, weight: str | None = None) -> tuple[Any, list[Any]]:
    """The graph of a networkx graph, and its nodes by row.

    >>> import networkx
    >>> graph, nodes = from_networkx(networkx.path_graph(["a", "b", "c"]))
    >>> graph, nodes
    (<littoral.graph.Graph, undirected: 3 vertices, 2 edges>, ['a', 'b', 'c'])
    """
    nodes = list(graph)
    row = {node: i for i, node in enumerate(nodes)}
    directed = graph.is_directed()
    # An undirected graph names each edge from both ends, and the build drops duplicates.
    lists = graph._succ if directed else graph._adj
    lengths = numpy.fromiter(map(len, lists.values()), numpy.int64, len(nodes))
    source = numpy.repeat(numpy.arange(len(nodes)), lengths)
    count = int(lengths.sum())
    names = (neighbour for targets in lists.values() for neighbour in targets)
    target = numpy.fromiter(map(row.__getitem__, names), numpy.int64, count)
    weights = None
    if weight is not None:
        if graph.is_multigraph():
            raise ArgumentError("weights of a multigraph: sum or choose between parallel edges")
        data = (edge for targets in lists.values() for edge in targets.values())
        weights = numpy.fromiter((edge.get(weight, 1) for edge in data), numpy.float32, count)
    built = Graph.from_arrays(source, target, weights, vertices=len(nodes), directed=directed)
    return built, nodes
