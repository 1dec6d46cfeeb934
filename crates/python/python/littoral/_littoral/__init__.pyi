from os import PathLike
from typing import final

from . import graph as graph

__all__ = ["Machine", "__version__", "graph"]

__version__: str

@final
class Machine:
    def __new__(cls, path: str | PathLike[str] | None = None) -> Machine: ...
    @property
    def devices(self) -> list[str]: ...
