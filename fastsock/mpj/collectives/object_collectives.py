"""Collective operations on objects, by messages."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import reduce as fold

from fastsock.core.binding._requests import MessageError
from fastsock.system.forkable import new_lock

from ..constants import ERR_ROOT, PROC_NULL, ROOT
from ..messages.pickling import Codec
from ..tags import OBJECTS, TAGS
from . import object_algorithms
from .exchange import Exchange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    Function = TypeVar("Function", bound=Callable[..., Any])


def _translated_errors(function: Function) -> Function:
    """
    Errors of the engine become errors of the communicator.

    Where several threads call on one communicator, one call goes on at a time.
    """
    name = function.__name__

    def call(self: ObjectCalls, *arguments: Any) -> Any:
        communicator = self.communicator
        lock = communicator.locks.get(name) or communicator.locks.setdefault(name, new_lock())
        try:
            with lock:
                return function(self, *arguments)
        except MessageError as error:
            raise communicator.failed(error) from error

    return call  # type: ignore[return-value]


def items(objects: Iterable[Any] | None, count: int) -> list[Any]:
    """Returns so many objects."""
    found = [None] * count if objects is None else list(objects)
    if len(found) != count:
        raise ValueError(f"expecting {count} items, got {len(found)}")
    return found


def exchanged(engine: Any, ranks: Sequence[int], rank: int, tag: int, context: int, own: Iterable[int]) -> list[int]:
    """Returns the integers that these ranks of the world gave, as many each. `rank`: the place of this one."""
    held = array("q", own)  # of this member and of those after it
    size, each, distance = len(ranks), len(held), 1
    while distance < size:
        many = min(distance, size - distance) * each
        received = array("q", bytes(many * held.itemsize))
        engine.sendrecv(held[:many], ranks[rank - distance], received, ranks[(rank + distance) % size], tag, context)
        held += received
        distance *= 2
    first = (size - rank) * each
    return [*held[first:], *held[:first]]


def spread(communicator: Any, data: Any, root: int) -> Any:
    """Returns the root's message."""
    exchange = communicator.members.exchange(blocking=False)
    return object_algorithms.spread(exchange, data, root)


def _copied(codec: Codec, obj: Any) -> Any:
    """Operations may change their operands."""
    return codec.load(codec.message(obj))


class ObjectCalls:
    """The calls of one communicator. Messages travel; a codec makes objects of them."""

    __slots__ = ("communicator",)

    def __init__(self, communicator: Any) -> None:
        self.communicator = communicator

    def _exchange(self) -> Exchange:
        """
        The messages of one call among the members.

        It takes the call's number, and the other ranks count on. So all that may be refused, as an object that cannot
        be pickled, comes before it.
        """
        exchange: Exchange = self.communicator.members.exchange(blocking=False)
        return exchange

    def _remote(self, local: Exchange) -> Exchange:
        """The messages of the same call to and from the remote group."""
        return local.elsewhere(self.communicator.peers, local.context, OBJECTS + local.tag % TAGS)

    def _root(self, root: int) -> int:
        communicator = self.communicator
        if not communicator.inter:
            communicator.root(root, communicator.size)
        elif not (0 <= root < len(communicator.peers) or root in (ROOT, PROC_NULL)):
            raise communicator.fail(
                ERR_ROOT, f"no root {root} in the remote group; here ROOT, PROC_NULL or a rank of it"
            )
        return root

    @_translated_errors
    def bcast(self, codec: Codec, obj: Any, root: int) -> Any:
        """Returns the root's object."""
        self._root(root)
        if not self.communicator.inter:
            own = codec.message(obj) if self.communicator.rank == root else None
            return codec.load(object_algorithms.spread(self._exchange(), own, root))
        pieces: Any = codec.pieces(obj) if root == ROOT else None
        local = self._exchange()
        if root == PROC_NULL:
            return None
        remote = self._remote(local)
        if root == ROOT:
            remote.give(pieces, 0)
            return None
        data = remote.take(root) if local.rank == 0 else None
        return codec.load(object_algorithms.spread(local, data, 0))

    @_translated_errors
    def gather(self, codec: Codec, obj: Any, root: int) -> list[Any] | None:
        """Returns every rank's object, at the root."""
        self._root(root)
        if not self.communicator.inter:
            own = codec.message(obj)
            collected = object_algorithms.collect(self._exchange(), own, root)
            return None if collected is None else [codec.load(data) for data in collected]
        pieces: Any = None if root in (ROOT, PROC_NULL) else codec.pieces(obj)
        remote = self._remote(self._exchange())
        if root == ROOT:
            requests = [remote.receive_new(rank) for rank in range(remote.size)]
            remote.engine.complete(requests)
            return [codec.load(request.payload) for request in requests]
        if root != PROC_NULL:
            remote.give(pieces, root)
        return None

    @_translated_errors
    def scatter(self, codec: Codec, objects: Iterable[Any] | None, root: int) -> Any:
        """Returns this rank's object of those that the root has for each."""
        self._root(root)
        communicator = self.communicator
        if not communicator.inter:
            each = items(objects, communicator.size) if communicator.rank == root else []
            data = [codec.message(item) for item in each]
            local = self._exchange()
            return codec.load(object_algorithms.hand_out(local, data, root))
        if root == ROOT:
            data = [codec.message(item) for item in items(objects, len(communicator.peers))]
        remote = self._remote(self._exchange())
        if root == PROC_NULL:
            return None
        if root != ROOT:
            return codec.load(remote.take(root))
        remote.engine.complete([remote.send(each, rank) for rank, each in enumerate(data)])
        return None

    @_translated_errors
    def allgather(self, codec: Codec, obj: Any) -> list[Any]:
        """Returns every rank's object; those of the remote group on an intercommunicator."""
        data = codec.message(obj)
        local = self._exchange()
        if self.communicator.inter:
            remote = self._remote(local)
            found = object_algorithms.swap(remote, [data] * remote.size, None)
        else:
            found = object_algorithms.everyone(local, data)
        return [codec.load(each) for each in found]

    @_translated_errors
    def integers(self, *own: int) -> list[int]:
        """Returns the integers that the members of an intracommunicator gave, as many each, one after the other."""
        members = self.communicator.members
        return exchanged(
            members.engine, members.ranks, members.rank, next(members.numbers) % TAGS, members.context, own
        )

    @_translated_errors
    def alltoall(self, codec: Codec, objects: Iterable[Any]) -> list[Any]:
        """Returns what each rank had for this one."""
        communicator = self.communicator
        each = [codec.message(item) for item in items(objects, len(communicator.peers))]
        exchange = self._exchange()
        own: int | None = communicator.rank
        if communicator.inter:
            exchange, own = self._remote(exchange), None
        return [codec.load(data) for data in object_algorithms.swap(exchange, each, own)]

    @_translated_errors
    def neighbor_alltoall(
        self, codec: Codec, objects: Sequence[Any], sources: Any, destinations: Any, order: Sequence[int]
    ) -> list[Any]:
        """Returns what each source had for this rank; object i goes to destination i, sent in `order`."""
        each = [codec.message(item) for item in items(objects, len(destinations))]
        local = self._exchange()
        found = object_algorithms.among_neighbours(local, each, sources, destinations, order)
        return [None if data is None else codec.load(data) for data in found]

    @_translated_errors
    def reduce(self, codec: Codec, obj: Any, op: Callable[[Any, Any], Any], root: int) -> Any:
        """Returns the reduction of all objects, at the root."""
        self._root(root)
        if self.communicator.inter:
            return self._reduce_between(codec, obj, op, root)
        own = _copied(codec, obj)
        local = self._exchange()
        result = object_algorithms.climb(local, codec, own, op)
        if root != 0:
            if local.rank == 0:
                local.give(codec.pieces(result), root)
            elif local.rank == root:
                result = codec.load(local.take(0))
        return result if local.rank == root else None

    def _reduce_between(self, codec: Codec, obj: Any, op: Callable[[Any, Any], Any], root: int) -> Any:
        own = None if root in (ROOT, PROC_NULL) else _copied(codec, obj)
        local = self._exchange()
        remote = self._remote(local)
        if root == PROC_NULL:
            return None
        if root == ROOT:
            return codec.load(remote.take(0))
        result = object_algorithms.climb(local, codec, own, op)
        if local.rank == 0:
            remote.give(codec.pieces(result), root)
        return None

    @_translated_errors
    def allreduce(self, codec: Codec, obj: Any, op: Callable[[Any, Any], Any]) -> Any:
        """Returns the reduction of all objects; of the remote group's on an intercommunicator."""
        own = _copied(codec, obj)
        local = self._exchange()
        result = object_algorithms.climb(local, codec, own, op)
        data: Any = codec.pieces(result) if local.rank == 0 else None
        if self.communicator.inter and local.rank == 0:
            remote = self._remote(local)
            request = remote.receive_new(0)
            remote.engine.complete([request, remote.send(data, 0)])
            data = request.payload
            result = codec.load(data)
        spread = self._exchange()  # the tree's own messages
        data = object_algorithms.spread(spread, data, 0)
        return result if local.rank == 0 else codec.load(data)

    def _before(self, codec: Codec, obj: Any) -> list[Any]:
        """Returns the objects of the ranks up to this one."""
        own = codec.message(obj)
        local = self._exchange()
        found = object_algorithms.everyone(local, own)
        return [codec.load(data) for data in found[: local.rank + 1]]

    @_translated_errors
    def scan(self, codec: Codec, obj: Any, op: Callable[[Any, Any], Any]) -> Any:
        """Returns the reduction of the objects of the ranks up to this one."""
        return fold(op, self._before(codec, obj))

    @_translated_errors
    def exscan(self, codec: Codec, obj: Any, op: Callable[[Any, Any], Any]) -> Any:
        """Returns the reduction of the objects of the ranks below this one; None at rank 0."""
        below = self._before(codec, obj)[:-1]
        return fold(op, below) if below else None
