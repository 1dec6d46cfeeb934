"""Exceptions: a class per kind of error, under a base per class of error.

The base says what a program can do about it; it is also the exception of the standard library that
fits best. Ctrl-C raises KeyboardInterrupt.

>>> import littoral
>>> try:
...     littoral.Graph.from_arrays([0], [-1])
... except ValueError as error:
...     print(type(error).__name__, error.kind)
ArgumentError Argument
"""

__all__ = [
    "ArgumentError",
    "CorruptError",
    "CorruptFileError",
    "DeviceError",
    "EnvironmentError",
    "Error",
    "ForeignError",
    "InputError",
    "IoError",
    "MemoryLimitError",
    "NegativeError",
    "NoSuchVertexError",
    "RefutedError",
    "UnsupportedError",
    "UsageError",
]


class Error(Exception):
    """Any error of littoral."""

    #: The kind of error, as the libraries call it.
    kind: str = ""


class NegativeError(Error):
    """The question was asked properly and the answer is no."""


class UsageError(Error, ValueError):
    """The request itself is wrong."""


class EnvironmentError(Error, OSError):
    """The environment or an operation of input or output failed."""


class CorruptError(Error):
    """A medium holds data that its checksums or invariants refute."""


class UnsupportedError(Error, NotImplementedError):
    """A format, device or platform that this build does not support."""


class InputError(UsageError):
    """An input does not say what its format promises."""


class ArgumentError(UsageError):
    """An argument is out of range."""


class NoSuchVertexError(UsageError, LookupError):
    """No vertex has the name asked for."""


class IoError(EnvironmentError):
    """The operating system refused or failed an operation."""


class DeviceError(EnvironmentError):
    """A device failed a read."""


class MemoryLimitError(EnvironmentError, MemoryError):
    """The work asked for needs more memory than it may use."""


class CorruptFileError(CorruptError):
    """A file's checksums or invariants refute it."""


class ForeignError(CorruptError):
    """A file is no graph file at all."""


class RefutedError(NegativeError):
    """A verifier refuted a result."""


_BY_CLASS: "dict[str, type[Error]]" = {
    "Negative": NegativeError,
    "Usage": UsageError,
    "Environment": EnvironmentError,
    "Corrupt": CorruptError,
    "Unsupported": UnsupportedError,
}

_BY_KIND: "dict[str, type[Error]]" = {
    "Input": InputError,
    "Argument": ArgumentError,
    "NoSuchVertex": NoSuchVertexError,
    "Io": IoError,
    "Device": DeviceError,
    "Memory": MemoryLimitError,
    "Corrupt": CorruptFileError,
    "Foreign": ForeignError,
    "Refuted": RefutedError,
}


def _of(kind: str, of_class: str, message: str) -> Error:
    """The exception for a kind and a class of error; the extension module calls this."""
    base = _BY_CLASS.get(of_class, Error)
    chosen = _BY_KIND.get(kind, base)
    error = (chosen if issubclass(chosen, base) else base)(message)
    error.kind = kind
    return error
