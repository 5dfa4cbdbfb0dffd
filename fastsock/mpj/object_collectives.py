"""Collective operations on objects: trees of messages whose length only their sender knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce as fold

from fastsock.core._core import STANDARD, MessageError
from fastsock.forkable import new_lock

from .communicator import OBJECTS, SEQUENCE
from .constants import ERR_ROOT, PROC_NULL, ROOT
from .pickling import CODEC, Codec

DIRECT = 8
"""Up to so many ranks an allgather is a message from each to each; among more it is gathered, then broadcast."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    Function = TypeVar("Function", bound=Callable[..., Any])


class _Round:
    """The messages of one call: among the members, or to and from the remote group.

    It takes the call's number. So whatever may be refused, as an object that cannot be pickled, comes before it: the
    other ranks count on.
    """

    __slots__ = ("context", "engine", "exchange", "peers", "rank", "size", "tag")

    def __init__(self, communicator: Any, remote: bool = False, exchange: Any = None) -> None:
        self.exchange = exchange or communicator.members.exchange(blocking=False)
        self.engine = communicator.engine
        self.rank = communicator.rank
        self.peers = communicator.peers if remote else communicator.ranks
        self.size = len(self.peers)
        self.tag = self.exchange.tag
        self.context = self.exchange.context
        if remote:
            self.tag = OBJECTS + self.tag % SEQUENCE

    def isend(self, data: Any, to: int) -> Any:
        return self.engine.isend(data, self.peers[to], self.tag, self.context, STANDARD)

    def irecv(self, source: int) -> Any:
        return self.engine.irecv_new(self.peers[source], self.tag, self.context)

    def send(self, data: Any, to: int) -> None:
        self.engine.send(data, self.peers[to], self.tag, self.context, STANDARD)

    def recv(self, source: int) -> Any:
        return self.engine.recv_new(self.peers[source], self.tag, self.context)[0]


def _told(function: Function) -> Function:
    """
    Errors of the engine become errors of the communicator, which is the first argument.

    Of the calls of several threads on one communicator one goes on at a time.
    """
    name = function.__name__

    def call(communicator: Any, *arguments: Any) -> Any:
        lock = communicator.locks.get(name) or communicator.locks.setdefault(name, new_lock())
        try:
            with lock:
                return function(communicator, *arguments)
        except MessageError as error:
            raise communicator.failed(error) from error

    return call  # type: ignore[return-value]


# Among the members. What travels are messages; a codec makes objects of them.


def _spread(messages: _Round, data: Any, root: int) -> Any:
    """Binomial broadcast of one message; returns it."""
    size = messages.size
    place = (messages.rank - root) % size
    mask = 1
    while mask < size:
        if place & mask:
            data = messages.recv((place - mask + root) % size)
            break
        mask <<= 1
    mask >>= 1
    requests = []
    while mask:
        if place + mask < size:
            requests.append(messages.isend(data, (place + mask + root) % size))
        mask >>= 1
    messages.engine.complete(requests)
    return data


def _collect(messages: _Round, data: Any, root: int) -> list[Any] | None:
    """Returns every rank's message, at the root."""
    if messages.rank != root:
        messages.send(data, root)
        return None
    requests = [None if rank == root else messages.irecv(rank) for rank in range(messages.size)]
    messages.engine.complete([request for request in requests if request is not None])
    return [data if request is None else request.payload for request in requests]


def _swap(messages: _Round, items: Sequence[Any], own: int | None) -> list[Any]:
    """Sends item i to rank i and returns what each rank sent here; the item for oneself stays."""
    others = [rank for rank in range(messages.size) if rank != own]
    incoming = {rank: messages.irecv(rank) for rank in others}
    outgoing = [messages.isend(items[rank], rank) for rank in others]
    messages.engine.complete([*incoming.values(), *outgoing])
    return [items[rank] if rank == own else incoming[rank].payload for rank in range(messages.size)]


def _everyone(messages: _Round, data: Any) -> list[Any]:
    """Returns every rank's message, at every rank."""
    if messages.size <= DIRECT:
        return _swap(messages, [data] * messages.size, messages.rank)
    collected = _collect(messages, data, 0)
    packed = None if collected is None else CODEC.message([bytes(message) for message in collected])
    found: list[Any] = CODEC.load(_spread(messages, packed, 0))
    return found


def _copied(codec: Codec, obj: Any) -> Any:
    """Operations may change their operands."""
    return codec.load(codec.message(obj))


def _folded(messages: _Round, codec: Codec, result: Any, op: Callable[[Any, Any], Any]) -> Any:
    """Binomial reduction in rank order of what may be changed; returns the result at rank 0."""
    mask = 1
    while mask < messages.size:
        if messages.rank & mask:
            messages.send(codec.pieces(result), messages.rank & ~mask)
            break
        other = messages.rank | mask
        if other < messages.size:
            result = op(result, codec.load(messages.recv(other)))
        mask <<= 1
    return result


def _root(communicator: Any, root: int) -> int:
    checked: int = communicator.root(root, communicator.size)
    return checked


def _remote_root(communicator: Any, root: int) -> None:
    if not (0 <= root < len(communicator.peers) or root in (ROOT, PROC_NULL)):
        raise communicator.fail(ERR_ROOT, f"no root {root} in the remote group; here ROOT, PROC_NULL or a rank of it")


def items(objects: Iterable[Any] | None, count: int) -> list[Any]:
    """Returns so many objects."""
    found = [None] * count if objects is None else list(objects)
    if len(found) != count:
        raise ValueError(f"expecting {count} items, got {len(found)}")
    return found


def spread(communicator: Any, data: Any, root: int) -> Any:
    """Returns the root's message."""
    return _spread(_Round(communicator), data, root)


# The calls


@_told
def bcast(communicator: Any, codec: Codec, obj: Any, root: int) -> Any:
    """Returns the root's object."""
    if communicator.inter:
        return _bcast_inter(communicator, codec, obj, root)
    _root(communicator, root)
    data = codec.message(obj) if communicator.rank == root else None
    messages = _Round(communicator)
    return codec.load(_spread(messages, data, root))


def _bcast_inter(communicator: Any, codec: Codec, obj: Any, root: int) -> Any:
    _remote_root(communicator, root)
    pieces = codec.pieces(obj) if root == ROOT else None
    local = _Round(communicator)
    remote = _Round(communicator, True, local.exchange)
    if root == PROC_NULL:
        return None
    if root == ROOT:
        remote.send(pieces, 0)
        return None
    data = remote.recv(root) if local.rank == 0 else None
    return codec.load(_spread(local, data, 0))


@_told
def gather(communicator: Any, codec: Codec, obj: Any, root: int) -> list[Any] | None:
    """Returns every rank's object, at the root."""
    if communicator.inter:
        return _gather_inter(communicator, codec, obj, root)
    _root(communicator, root)
    data = codec.message(obj)
    collected = _collect(_Round(communicator), data, root)
    return None if collected is None else [codec.load(data) for data in collected]


def _gather_inter(communicator: Any, codec: Codec, obj: Any, root: int) -> list[Any] | None:
    _remote_root(communicator, root)
    pieces = None if root in (ROOT, PROC_NULL) else codec.pieces(obj)
    remote = _Round(communicator, True)
    if root == PROC_NULL:
        return None
    if root != ROOT:
        remote.send(pieces, root)
        return None
    requests = [remote.irecv(rank) for rank in range(remote.size)]
    remote.engine.complete(requests)
    return [codec.load(request.payload) for request in requests]


@_told
def scatter(communicator: Any, codec: Codec, objects: Iterable[Any] | None, root: int) -> Any:
    """Returns this rank's object of those that the root has for each."""
    if communicator.inter:
        return _scatter_inter(communicator, codec, objects, root)
    _root(communicator, root)
    if communicator.rank == root:
        data = [codec.message(item) for item in items(objects, communicator.size)]
    messages = _Round(communicator)
    if communicator.rank != root:
        return codec.load(messages.recv(root))
    requests = [messages.isend(data[rank], rank) for rank in range(messages.size) if rank != root]
    messages.engine.complete(requests)
    return codec.load(data[root])


def _scatter_inter(communicator: Any, codec: Codec, objects: Iterable[Any] | None, root: int) -> Any:
    _remote_root(communicator, root)
    if root == ROOT:
        each = [codec.message(item) for item in items(objects, len(communicator.peers))]
    remote = _Round(communicator, True)
    if root == PROC_NULL:
        return None
    if root != ROOT:
        return codec.load(remote.recv(root))
    remote.engine.complete([remote.isend(data, rank) for rank, data in enumerate(each)])
    return None


@_told
def allgather(communicator: Any, codec: Codec, obj: Any) -> list[Any]:
    """Returns every rank's object; those of the remote group on an intercommunicator."""
    data = codec.message(obj)
    if communicator.inter:
        remote = _Round(communicator, True)
        found = _swap(remote, [data] * remote.size, None)
    else:
        found = _everyone(_Round(communicator), data)
    return [codec.load(each) for each in found]


@_told
def alltoall(communicator: Any, codec: Codec, objects: Iterable[Any]) -> list[Any]:
    """Returns what each rank had for this one."""
    each = [codec.message(item) for item in items(objects, len(communicator.peers))]
    messages = _Round(communicator, communicator.inter)
    own = None if communicator.inter else communicator.rank
    return [codec.load(data) for data in _swap(messages, each, own)]


@_told
def neighbor_alltoall(
    communicator: Any, codec: Codec, objects: Sequence[Any], sources: Any, destinations: Any
) -> list[Any]:
    """Returns what each source had for this rank; objects go to the destinations in their order."""
    each = [codec.message(item) for item in items(objects, len(destinations))]
    messages = _Round(communicator)
    incoming = [None if rank == PROC_NULL else messages.irecv(rank) for rank in sources]
    outgoing = [messages.isend(data, rank) for data, rank in zip(each, destinations, strict=True) if rank != PROC_NULL]
    messages.engine.complete([*(request for request in incoming if request is not None), *outgoing])
    return [None if request is None else codec.load(request.payload) for request in incoming]


@_told
def reduce(communicator: Any, codec: Codec, obj: Any, op: Callable[[Any, Any], Any], root: int) -> Any:
    """Returns the reduction of all objects, at the root."""
    if communicator.inter:
        return _reduce_inter(communicator, codec, obj, op, root)
    _root(communicator, root)
    own = _copied(codec, obj)
    messages = _Round(communicator)
    result = _folded(messages, codec, own, op)
    if root != 0:
        if messages.rank == 0:
            messages.send(codec.pieces(result), root)
        elif messages.rank == root:
            result = codec.load(messages.recv(0))
    return result if messages.rank == root else None


def _reduce_inter(communicator: Any, codec: Codec, obj: Any, op: Callable[[Any, Any], Any], root: int) -> Any:
    _remote_root(communicator, root)
    own = None if root in (ROOT, PROC_NULL) else _copied(codec, obj)
    local = _Round(communicator)
    remote = _Round(communicator, True, local.exchange)
    if root == PROC_NULL:
        return None
    if root == ROOT:
        return codec.load(remote.recv(0))
    result = _folded(local, codec, own, op)
    if local.rank == 0:
        remote.send(codec.pieces(result), root)
    return None


@_told
def allreduce(communicator: Any, codec: Codec, obj: Any, op: Callable[[Any, Any], Any]) -> Any:
    """Returns the reduction of all objects; of the remote group's on an intercommunicator."""
    own = _copied(codec, obj)
    local = _Round(communicator)
    result = _folded(local, codec, own, op)
    data = codec.pieces(result) if local.rank == 0 else None
    if communicator.inter and local.rank == 0:
        remote = _Round(communicator, True, local.exchange)
        incoming = remote.irecv(0)
        outgoing = remote.isend(data, 0)
        remote.engine.complete([incoming, outgoing])
        data = incoming.payload
        result = codec.load(data)
    spread = _Round(communicator)  # the tree's own messages
    data = _spread(spread, data, 0)
    return result if local.rank == 0 else codec.load(data)


def _before(communicator: Any, codec: Codec, obj: Any) -> list[Any]:
    """Returns the objects of the ranks up to this one: each hands them on."""
    data = codec.message(obj)
    messages = _Round(communicator)
    found = _everyone(messages, data)
    return [codec.load(data) for data in found[: messages.rank + 1]]


@_told
def scan(communicator: Any, codec: Codec, obj: Any, op: Callable[[Any, Any], Any]) -> Any:
    """Returns the reduction of the objects of the ranks up to this one."""
    return fold(op, _before(communicator, codec, obj))


@_told
def exscan(communicator: Any, codec: Codec, obj: Any, op: Callable[[Any, Any], Any]) -> Any:
    """Returns the reduction of the objects of the ranks below this one; None at rank 0."""
    below = _before(communicator, codec, obj)[:-1]
    return fold(op, below) if below else None
