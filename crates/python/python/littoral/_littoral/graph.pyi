from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, final

import numpy
from numpy.typing import NDArray

__all__ = ["Graph"]

_Progress = Callable[[str, int, int], object]

@final
class Graph:
    @staticmethod
    def from_arrays(
        source: Any,
        target: Any,
        weight: Any = None,
        *,
        vertices: int | None = None,
        directed: bool = False,
        progress: _Progress | None = None,
    ) -> Graph: ...
    @staticmethod
    def from_table(
        table: Any,
        source: str = "source",
        target: str = "target",
        weight: str | None = None,
        *,
        vertices: int | None = None,
        directed: bool = False,
        progress: _Progress | None = None,
    ) -> Graph: ...
    @staticmethod
    def open(
        path: str | PathLike[str],
        *,
        directed: bool | None = None,
        columns: Sequence[str | int] | None = None,
        header: bool | None = None,
        delimiter: str | None = None,
        comment: str | None = None,
        ids: str | None = None,
        format: str | None = None,
        memory: int | str | None = None,
        cache: int | str | None = None,
        medium: str | None = None,
        profile: str | None = None,
        machine: str | PathLike[str] | None = None,
        device: str | None = None,
        progress: _Progress | None = None,
    ) -> Graph: ...
    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> None: ...
    @property
    def vertices(self) -> int: ...
    @property
    def edges(self) -> int: ...
    @property
    def directed(self) -> bool: ...
    @property
    def weighted(self) -> bool: ...
    @property
    def medium(self) -> str: ...
    @property
    def names(self) -> NDArray[numpy.uint64] | list[str]: ...
    def degrees(self, *, incoming: bool = False) -> NDArray[numpy.int32]: ...
    def neighbors(self, vertex: int | str, *, incoming: bool = False) -> NDArray[numpy.int32]: ...
    def bfs(self, source: int | str, *, threads: int | None = None) -> NDArray[numpy.int32]: ...
    def levels(self, source: int | str, *, threads: int | None = None) -> NDArray[numpy.int32]: ...
    def pagerank(
        self,
        *,
        tol: float = 1e-6,
        max_iter: int = 100,
        dangling: str = "spread",
        damping: float = 0.85,
        threads: int | None = None,
    ) -> tuple[NDArray[numpy.float32], dict[str, float]]: ...
    def components(self, *, threads: int | None = None) -> NDArray[numpy.int32]: ...
    def sssp(
        self, source: int | str, *, weights: str = "stored", threads: int | None = None
    ) -> NDArray[numpy.float32]: ...
    def betweenness(
        self,
        *,
        sources: str = "all",
        source: int | str | None = None,
        threads: int | None = None,
    ) -> NDArray[numpy.float64]: ...
    def core_numbers(self, *, threads: int | None = None) -> NDArray[numpy.int32]: ...
    def triangles(self, *, threads: int | None = None) -> NDArray[numpy.int64]: ...
    def __len__(self) -> int: ...
