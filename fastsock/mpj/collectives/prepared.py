"""
Collective operations as the program calls them, made ready for the algorithms.

Each function checks and normalizes the arguments of one primitive and returns a `Call`. Memory is packed each time the
call starts.
"""

from __future__ import annotations

from collections.abc import Callable

from ..constants import ERR_TOPOLOGY, PROC_NULL
from ..datatypes import buffers
from . import blocks, views
from .call import Call, check_root, is_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._collectives import NeighbourCalls
    from .protocols import Land, Prepared


def _idle(communicator: Any, root: int) -> bool:
    """Whether this rank of an intercommunicator is in the root's group without being the root."""
    return bool(communicator.inter and root == PROC_NULL)


def _in_place(communicator: Any, buf: Any) -> bool:
    return not communicator.inter and buffers.is_in_place(buf)


def barrier(communicator: Any) -> Call:
    """Waits for all."""
    communicator.alive()
    return Call(communicator, "barrier", lambda: ((), None))


def bcast(communicator: Any, buf: Any, root: int) -> Call:
    """Brings the root's message to all."""
    check_root(communicator, root)
    if _idle(communicator, root):
        return Call(communicator, "bcast", lambda: ((None, root), None))
    sends = is_root(communicator, root)
    message = buffers.simple(buf, sends)

    def prepare() -> Prepared:
        if sends:
            return (views.outgoing(message), root), None
        view, land = views.incoming(message)
        return (view, root), land

    return Call(communicator, "bcast", prepare)


def gather(communicator: Any, sendbuf: Any, recvbuf: Any, root: int, vector: bool) -> Call:
    """Brings a message of each to the root."""
    check_root(communicator, root)
    name = "gatherv" if vector else "gather"
    if _idle(communicator, root):
        return Call(communicator, name, lambda: ((None, None, root), None))
    if not is_root(communicator, root):
        message = buffers.simple(sendbuf, True)
        return Call(communicator, name, lambda: ((views.outgoing(message), None, root), None))
    whole = _Whole(recvbuf, False, len(communicator.peers), vector)
    in_place = _in_place(communicator, sendbuf)
    own = None if in_place or communicator.inter else buffers.simple(sendbuf, True)

    def prepare() -> Prepared:
        receive, land = whole.incoming(in_place)
        return (None if own is None else views.outgoing(own), receive, root), land

    return Call(communicator, name, prepare)


def scatter(communicator: Any, sendbuf: Any, recvbuf: Any, root: int, vector: bool) -> Call:
    """Brings to each its message of the root's."""
    check_root(communicator, root)
    name = "scatterv" if vector else "scatter"
    if _idle(communicator, root):
        return Call(communicator, name, lambda: ((None, None, root), None))
    if not is_root(communicator, root):
        message = buffers.simple(recvbuf, False)

        def receive() -> Prepared:
            view, land = views.incoming(message)
            return (None, view, root), land

        return Call(communicator, name, receive)
    whole = _Whole(sendbuf, True, len(communicator.peers), vector)
    own = None if _in_place(communicator, recvbuf) or communicator.inter else buffers.simple(recvbuf, False)

    def prepare() -> Prepared:
        view, land = (None, None) if own is None else views.incoming(own)
        return (whole.outgoing(), view, root), land

    return Call(communicator, name, prepare)


def allgather(communicator: Any, sendbuf: Any, recvbuf: Any, vector: bool) -> Call:
    """Brings a message of each to all."""
    whole = _Whole(recvbuf, False, len(communicator.peers), vector)
    in_place = _in_place(communicator, sendbuf)
    own = None if in_place else buffers.simple(sendbuf, True)

    def prepare() -> Prepared:
        receive, land = whole.incoming(in_place)
        return (None if own is None else views.outgoing(own), receive), land

    return Call(communicator, "allgatherv" if vector else "allgather", prepare)


def alltoall(communicator: Any, sendbuf: Any, recvbuf: Any, vector: bool) -> Call:
    """Brings a message of each to each."""
    size = len(communicator.peers)
    name = "alltoallv" if vector else "alltoall"
    incoming = _Whole(recvbuf, False, size, vector)
    if _in_place(communicator, sendbuf):
        return _alltoall(communicator, name, None, incoming)
    return _alltoall(communicator, name, _Whole(sendbuf, True, size, vector), incoming)


def alltoallw(communicator: Any, sendbuf: Any, recvbuf: Any) -> Call:
    """Brings a message of each to each; each has its own datatype."""
    size = len(communicator.peers)
    incoming = _Whole.of_types(recvbuf, False, size)
    outgoing = None if _in_place(communicator, sendbuf) else _Whole.of_types(sendbuf, True, size)
    return _alltoall(communicator, "alltoallw", outgoing, incoming)


def _alltoall(communicator: Any, name: str, outgoing: _Whole | None, incoming: _Whole) -> Call:
    def prepare() -> Prepared:
        receive, land = incoming.incoming(outgoing is None)
        return (None if outgoing is None else outgoing.outgoing(), receive), land

    return Call(communicator, name, prepare)


class _Whole:
    """A buffer with a block for each rank: all of one size, of sizes that are given, or of types that are given."""

    __slots__ = ("blocks", "message", "size")

    def __init__(self, buf: Any, readonly: bool, size: int, vector: bool) -> None:
        self.size = size
        self.message: Any = None
        self.blocks: Any = None
        if vector:
            self.blocks = buffers.vector(buf, readonly, size)
        else:
            self.message = buffers.simple(buf, readonly, size)

    @classmethod
    def of_types(cls, buf: Any, readonly: bool, size: int) -> _Whole:
        """Reads a buffer with a datatype for each rank."""
        self = object.__new__(cls)
        self.size = size
        self.message = None
        self.blocks = buffers.vector_w(buf, readonly, size)
        return self

    def outgoing(self) -> Any:
        """The blocks to send."""
        if self.message is None:
            return views.outgoing_blocks(self.blocks)
        return _equal(views.outgoing(self.message, self.size), self.size)

    def incoming(self, kept: bool = False) -> tuple[Any, Land | None]:
        """Where to receive the blocks. With `kept` the present contents are there too."""
        if self.message is None:
            return views.incoming_blocks(self.blocks, kept=kept)
        view, land = views.incoming(self.message, self.size, kept=kept)
        return _equal(view, self.size), land


def _equal(view: memoryview, size: int) -> Any:
    return blocks.equal(view, size) if size else blocks.separate([])


# Among neighbours


def neighbours(communicator: Any) -> tuple[list[int], list[int]]:
    """Returns the ranks that messages come from and those that they go to, in order; PROC_NULL where there is none."""
    topology = communicator.topology
    if topology is None:
        raise communicator.fail(ERR_TOPOLOGY, f"{communicator.title} has no topology")
    sources, destinations = topology.neighbours(communicator.rank)
    return sources, destinations


def neighbour_calls(communicator: Any) -> NeighbourCalls:
    """Returns the short way for plain arrays."""
    found: NeighbourCalls | None = communicator.neighbour_calls
    if found is None:
        from ._collectives import NeighbourCalls
        from .neighbourhood import order

        sources, destinations = neighbours(communicator)
        cartesian = communicator.topology.cartesian
        found = NeighbourCalls(communicator, sources, destinations, order(destinations, cartesian))
        communicator.neighbour_calls = found
    return found


def neighbour_allgather(communicator: Any, sendbuf: Any, recvbuf: Any, vector: bool) -> Call:
    """Brings a message of each source here."""
    sources, _ = neighbours(communicator)
    own = buffers.simple(sendbuf, True)
    whole = _Whole(recvbuf, False, len(sources), vector)

    def prepare() -> Prepared:
        receive, land = whole.incoming()
        return (views.outgoing(own), receive), land

    return _neighbour_call(communicator, "neighbour_allgatherv" if vector else "neighbour_allgather", prepare)


def neighbour_alltoall(communicator: Any, sendbuf: Any, recvbuf: Any, vector: bool) -> Call:
    """Brings a message of each source here, and one from here to each destination."""
    sources, destinations = neighbours(communicator)
    outgoing = _Whole(sendbuf, True, len(destinations), vector)
    incoming = _Whole(recvbuf, False, len(sources), vector)
    name = "neighbour_alltoallv" if vector else "neighbour_alltoall"
    return _neighbour_alltoall(communicator, name, outgoing, incoming)


def neighbour_alltoallw(communicator: Any, sendbuf: Any, recvbuf: Any) -> Call:
    """Brings messages as `neighbour_alltoall` does; each has its own datatype."""
    sources, destinations = neighbours(communicator)
    outgoing = _Whole.of_types(sendbuf, True, len(destinations))
    incoming = _Whole.of_types(recvbuf, False, len(sources))
    return _neighbour_alltoall(communicator, "neighbour_alltoallw", outgoing, incoming)


def _neighbour_alltoall(communicator: Any, name: str, outgoing: _Whole, incoming: _Whole) -> Call:
    def prepare() -> Prepared:
        receive, land = incoming.incoming()
        return (outgoing.outgoing(), receive), land

    return _neighbour_call(communicator, name, prepare)


def _neighbour_call(communicator: Any, name: str, prepare: Callable[[], Prepared]) -> Call:
    sources, destinations = neighbours(communicator)
    cartesian = communicator.topology.cartesian

    def arguments() -> Prepared:
        given, land = prepare()
        return (*given, sources, destinations, cartesian), land

    return Call(communicator, name, arguments)
