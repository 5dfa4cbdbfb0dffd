"""Parts of the standard that are not there: files, dynamic processes. Their calls say so."""

from __future__ import annotations

from .handle import Handle, Record, public
from .info import INFO_NULL, Info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, NoReturn

FILES = "MPI files (File) are not there; use Python's files, each rank its own"
DYNAMIC = "dynamic processes are not there; start all ranks together, with python -m fastsock.mpj.run -n N"


class _Absent(Handle):
    __slots__ = ()

    _reason: ClassVar[str]

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") or not name[:1].isupper():
            raise AttributeError(name)
        raise NotImplementedError(self._reason)


def _refuses(reason: str) -> Any:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(reason)

    return staticmethod(refuse)


@public
class File(_Absent):
    """A file of several ranks. Not there: calls raise NotImplementedError."""

    __slots__ = ()

    null: ClassVar[Record] = Record()
    _reason = FILES
    Open = _refuses(FILES)
    Delete = _refuses(FILES)
    Create_errhandler = _refuses(FILES)


def Open_port(info: Info = INFO_NULL) -> str:
    """Dynamic processes are not there: raises NotImplementedError."""
    raise NotImplementedError(DYNAMIC)


def Close_port(port_name: str) -> None:
    """Dynamic processes are not there: raises NotImplementedError."""
    raise NotImplementedError(DYNAMIC)


def Publish_name(service_name: str, port_name: str, info: Info = INFO_NULL) -> None:
    """Dynamic processes are not there: raises NotImplementedError."""
    raise NotImplementedError(DYNAMIC)


def Unpublish_name(service_name: str, port_name: str, info: Info = INFO_NULL) -> None:
    """Dynamic processes are not there: raises NotImplementedError."""
    raise NotImplementedError(DYNAMIC)


def Lookup_name(service_name: str, info: Info = INFO_NULL) -> str:
    """Dynamic processes are not there: raises NotImplementedError."""
    raise NotImplementedError(DYNAMIC)


def Register_datarep(datarep: str, read_fn: Any, write_fn: Any, extent_fn: Any) -> None:
    """MPI files are not there: raises NotImplementedError."""
    raise NotImplementedError(FILES)
