"""Graphs whose edges live on memory that is not DRAM, or in it.

>>> import numpy, littoral
>>> g = littoral.Graph.from_arrays(numpy.array([0, 1, 2, 2]), numpy.array([1, 2, 0, 3]))
>>> g.levels(0)
array([0, 1, 1, 2], dtype=int32)
"""

from . import errors, graph
from ._littoral import Machine, __version__
from .errors import Error
from .graph import Graph

__all__ = ["Error", "Graph", "Machine", "__version__", "errors", "graph"]
