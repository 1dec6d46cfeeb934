"""Graphs and their kernels.

>>> import numpy
>>> from littoral.graph import Graph
>>> g = Graph.from_arrays(numpy.array([0, 1, 2, 2]), numpy.array([1, 2, 0, 3]))
>>> g
<littoral.graph.Graph, undirected: 4 vertices, 4 edges>
>>> g.triangles()
array([1, 1, 1, 0])
>>> g.components()
array([2, 2, 2, 2], dtype=int32)
"""

from ._interop import from_networkx, from_scipy
from ._littoral import graph as _graph

Graph = _graph.Graph

__all__ = ["Graph", "from_networkx", "from_scipy"]
