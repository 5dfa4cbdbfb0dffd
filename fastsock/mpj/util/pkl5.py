"""
Communicators whose objects go through a pickle of their own, and whose large buffers are never copied into it.

The communicators of `MPI` do so too, for buffers of some size, unless the program gave `MPI.pickle` other functions.
Here `pickle.THRESHOLD` says from which size on.
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
    """mpi4py cuts long messages into blocks of this size. Here messages have no greatest length."""

    blocksize = (1 << 63) - 1


_bigmpi = _BigMPI()


class Request(_request.Request):
    """Request."""

    __slots__ = ()


class Message(_message.Message):
    """Message."""

    __slots__ = ()

    _codec: ClassVar[Codec] = _codec


class Comm(_comm.Comm):
    """Communicator."""

    __slots__ = ()

    _codec: ClassVar[Codec] = _codec

    def recv(self, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Any = None) -> Any:
        """Blocking receive; the memory comes with the message, `buf` is not needed."""
        return super().recv(None, source, tag, status)

    def irecv(self, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> NoReturn:
        """Not there, as with mpi4py: use `mprobe(...).irecv()`."""
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
        """Send and receive."""
        return super().sendrecv(sendobj, dest, sendtag, None, source, recvtag, status)

    def isend(self, obj: Any, dest: int, tag: int = 0) -> Any:
        """Non-blocking send in standard mode."""
        return Request.of(super().isend(obj, dest, tag).ob)

    def ibsend(self, obj: Any, dest: int, tag: int = 0) -> Any:
        """Non-blocking send in buffered mode."""
        return Request.of(super().ibsend(obj, dest, tag).ob)

    def issend(self, obj: Any, dest: int, tag: int = 0) -> Any:
        """Non-blocking send in synchronous mode."""
        return Request.of(super().issend(obj, dest, tag).ob)

    def mprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Any = None) -> Any:
        """Blocking test for a matched message."""
        return Message.probe(self, source, tag, status)

    def improbe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Any = None) -> Any:
        """Non-blocking test for a matched message."""
        return Message.iprobe(self, source, tag, status)


class Intracomm(Comm, _intracomm.Intracomm):
    """Intracommunicator."""

    __slots__ = ()


class Intercomm(Comm, _intercomm.Intercomm):
    """Intercommunicator."""

    __slots__ = ()
