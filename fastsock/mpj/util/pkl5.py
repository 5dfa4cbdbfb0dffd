"""Communicators whose objects go through a pickle of their own, and whose large buffers are never copied into it.

The communicators of `MPI` do so too, for buffers of some size, unless the program gave `MPI.pickle` other functions.
Here `pickle.THRESHOLD` says from how many bytes on.
"""

from __future__ import annotations

from .. import MPI as _MPI  # noqa: F401  (which initializes)
from ..communicators import comm as _comm
from ..communicators import intercomm as _intercomm
from ..communicators import intracomm as _intracomm
from ..constants import ANY_SOURCE, ANY_TAG
from ..messages import message as _message
from ..messages import request as _request
from ..messages.pickling import Codec, Pickle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, NoReturn

pickle = Pickle()
"""What the communicators of this module serialize with; another one may be put here."""

_codec = Codec(lambda: pickle, None)


class _BigMPI:
    """Stands for mpi4py's way to cut long messages into blocks. Messages here may have any length."""

    blocksize = (1 << 63) - 1


_bigmpi = _BigMPI()


class Request(_request.Request):
    """A request whose `wait` and `test` return objects of this module's pickle."""

    __slots__ = ()


class Message(_message.Message):
    """A matched message whose object goes through this module's pickle."""

    __slots__ = ()

    _codec: ClassVar[Codec] = _codec


class Comm(_comm.Comm):
    """A communicator whose objects go through this module's pickle."""

    __slots__ = ()

    _codec: ClassVar[Codec] = _codec

    def recv(self, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Any = None) -> Any:
        """Wait for an object and return it; `buf` is not needed."""
        return super().recv(None, source, tag, status)

    def irecv(self, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> NoReturn:
        """Not there, as in mpi4py: raises RuntimeError. Use `mprobe(...).irecv()`."""
        raise RuntimeError("unsupported: use mprobe(...).irecv()")

    def sendrecv(
        self,
        sendobj: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Any = None,
    ) -> Any:
        """Send an object and receive another at the same time; return the one that arrived."""
        return super().sendrecv(sendobj, dest, sendtag, None, source, recvtag, status)

    def isend(self, obj: Any, dest: int, tag: int = 0) -> Any:
        """Start to send an object."""
        return Request.of(super().isend(obj, dest, tag).ob)

    def ibsend(self, obj: Any, dest: int, tag: int = 0) -> Any:
        """Send a copy of an object, in buffered mode."""
        return Request.of(super().ibsend(obj, dest, tag).ob)

    def issend(self, obj: Any, dest: int, tag: int = 0) -> Any:
        """Start to send an object; the request is complete when the receiver has begun to receive it."""
        return Request.of(super().issend(obj, dest, tag).ob)

    def mprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Any = None) -> Any:
        """Wait for a matching message and return it; no other receive can get it."""
        return Message.probe(self, source, tag, status)

    def improbe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Any = None) -> Any:
        """Return a matching message, or None where none is there. No other receive can get it."""
        return Message.iprobe(self, source, tag, status)


class Intracomm(Comm, _intracomm.Intracomm):
    """An intracommunicator whose objects go through this module's pickle."""

    __slots__ = ()


class Intercomm(Comm, _intercomm.Intercomm):
    """An intercommunicator whose objects go through this module's pickle."""

    __slots__ = ()
