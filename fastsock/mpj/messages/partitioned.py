"""
Partitioned communication: one message, filled and taken part by part, perhaps by several threads.

Each partition of the sender is a message of its own. The sender introduces itself once: under which tag its first
partition comes (the others follow), how many there are, and how long each one is.
"""

from __future__ import annotations

import struct

from fastsock.core.binding._requests import STANDARD
from fastsock.system.forkable import new_lock

from ..constants import ANY_TAG, ERR_ARG, ERR_TRUNCATE, PROC_NULL
from ..datatypes import buffers
from ..tags import PARTITIONED, PARTITIONED_TAGS
from .operation_records import Nothing, Operation, Persistent, fill_empty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HELLO = struct.Struct("<qqq")


class _Partitioned(Persistent):
    """What both ends share: where the partitions lie."""

    __slots__ = ("communicator", "lock", "message", "partitions", "peer", "tag")

    def __init__(self, communicator: Any, buf: Any, partitions: int, peer: int, tag: int, readonly: bool) -> None:
        super().__init__(self._begin)
        self.communicator = communicator
        self.lock = new_lock()
        self.partitions = partitions
        self.peer = peer
        self.tag = tag
        self.message: Any = None
        if partitions < 1:
            raise communicator.fail(ERR_ARG, f"{partitions} partitions: at least 1 is needed")
        if peer != PROC_NULL:
            self.message = buffers.simple(buf, readonly, partitions)

    def _begin(self) -> Operation:
        raise NotImplementedError

    def _check(self, partition: int) -> None:
        if not 0 <= partition < self.partitions:
            raise self.communicator.fail(ERR_ARG, f"no partition {partition}: there are {self.partitions}, from 0 on")

    def mark(self, partition: int) -> None:
        """Sends a partition."""
        raise self.communicator.fail(ERR_ARG, "only partitions of a send are marked as ready")

    def arrived(self, partition: int) -> bool:
        """Returns whether a partition was received."""
        raise self.communicator.fail(ERR_ARG, "only partitions of a receive arrive")


class _Outgoing(Operation):
    """One round of a partitioned send."""

    __slots__ = ("_engine", "communicator", "owners", "requests")

    def __init__(self, communicator: Any, partitions: int) -> None:
        super().__init__()
        self.communicator = communicator
        self.requests: list[Any] = [None] * partitions
        self.owners: list[Any] = [None] * partitions

    @property
    def engine(self) -> Any:
        return self.communicator.engine

    @property
    def active(self) -> bool:
        return True

    def ready(self) -> bool:
        return all(request is not None and request.done for request in self.requests)

    def waits_for(self) -> list[Any]:
        return [request for request in self.requests if request is not None and not request.done]

    def finish(self, status: Any) -> None:
        fill_empty(status)
        for request in self.requests:
            if request.error is not None:
                raise self.communicator.failed(request.error)


class PartitionedSend(_Partitioned):
    """The sending end: a partition goes when it is marked as ready."""

    __slots__ = ("base", "hello")

    def __init__(self, communicator: Any, buf: Any, partitions: int, dest: int, tag: int) -> None:
        super().__init__(communicator, buf, partitions, dest, tag, True)
        if communicator.sends_to_nobody(dest, tag):
            return
        peer = communicator.target(dest, tag)
        self.base = communicator.world.channels(partitions)
        nbytes = self.message.count * self.message.datatype.size
        hello = _HELLO.pack(self.base, partitions, nbytes)
        context = communicator.context + 1
        self.hello = communicator.engine.isend(hello, peer, PARTITIONED + tag % PARTITIONED_TAGS, context, STANDARD)

    def _begin(self) -> Operation:
        if self.peer == PROC_NULL:
            return Nothing(receives=False)
        return _Outgoing(self.communicator, self.partitions)

    def mark(self, partition: int) -> None:
        self._check(partition)
        current = self.current
        if isinstance(current, Nothing):
            return
        if not isinstance(current, _Outgoing):
            raise self.communicator.fail(ERR_ARG, "the partitioned send was not started: call Start() first")
        with self.lock:
            if current.owners[partition] is not None:
                raise self.communicator.fail(ERR_ARG, f"partition {partition} is marked as ready already")
            message = self.message
            address = message.address + partition * message.count * message.datatype.extent
            data = buffers.outgoing(address, message.count, message.datatype)
            current.owners[partition] = (data,)
        communicator = self.communicator
        peer = communicator.peers[self.peer]
        internal = communicator.world.internal_context
        current.requests[partition] = communicator.engine.isend(data, peer, self.base + partition, internal, STANDARD)


class _Incoming(Operation):
    """One round of a partitioned receive."""

    __slots__ = ("land", "owner", "requests", "view")

    def __init__(self, owner: PartitionedReceive) -> None:
        super().__init__()
        self.owner = owner
        message = owner.message
        self.view, self.land = buffers.landing(message.address, message.count * owner.partitions, message.datatype)
        self.requests: list[Any] | None = None

    @property
    def engine(self) -> Any:
        return self.owner.communicator.engine

    @property
    def active(self) -> bool:
        return True

    def introduced(self) -> bool:
        """Posts the receives as soon as the sender has told of its partitions; returns whether it has."""
        owner = self.owner
        with owner.lock:
            if self.requests is None and owner.hello.done and owner.hello.error is None:
                base, partitions, nbytes = _HELLO.unpack(owner.introduction)
                communicator = owner.communicator
                view = memoryview(self.view).cast("B")
                if partitions * nbytes > len(view):
                    raise communicator.fail(
                        ERR_TRUNCATE, f"{partitions} partitions of {nbytes} bytes exceed a buffer of {len(view)}"
                    )
                internal = communicator.world.internal_context
                peer = communicator.peers[owner.peer]
                self.requests = [
                    communicator.engine.irecv(view[i * nbytes : (i + 1) * nbytes], peer, base + i, internal)
                    for i in range(partitions)
                ]
        return self.requests is not None

    def ready(self) -> bool:
        if self.owner.hello.done and self.owner.hello.error is not None:
            return True
        return self.introduced() and all(request.done for request in self.requests or ())

    def waits_for(self) -> list[Any]:
        if not self.introduced():
            return [self.owner.hello]
        return [request for request in self.requests or () if not request.done]

    def arrived(self, partition: int) -> bool:
        """Returns whether all of the sender's partitions are here that this partition of the receiver overlaps."""
        self.engine.progress()
        if not self._overlapped(partition):
            self.engine.give_way()
            return False
        self._unpack()
        return True

    def _overlapped(self, partition: int) -> bool:
        if not self.introduced() or not self.requests:
            return False
        theirs, ours = len(self.requests), self.owner.partitions
        first = partition * theirs // ours
        last = -(-(partition + 1) * theirs // ours)
        if self.land is not None:
            first, last = 0, theirs
        return all(request.done for request in self.requests[first:last])

    def _unpack(self) -> None:
        with self.owner.lock:
            land, self.land = self.land, None
        if land is not None:
            land(len(memoryview(self.view).cast("B")))

    def look(self, status: Any) -> None:
        if status is not None:
            nbytes = sum(request.envelope.length for request in self.requests or () if request.error is None)
            status._set(self.owner.peer, self.owner.tag, nbytes)

    def finish(self, status: Any) -> None:
        communicator = self.owner.communicator
        for request in [self.owner.hello, *(self.requests or ())]:
            if request.error is not None:
                raise communicator.failed(request.error)
        self._unpack()
        self.look(status)


class PartitionedReceive(_Partitioned):
    """The receiving end."""

    __slots__ = ("hello", "introduction")

    def __init__(self, communicator: Any, buf: Any, partitions: int, source: int, tag: int) -> None:
        super().__init__(communicator, buf, partitions, source, tag, False)
        if communicator.receives_from_nobody(source, tag):
            return
        if source < 0 or tag == ANY_TAG:
            raise communicator.fail(ERR_ARG, "a partitioned receive names its source and its tag: no wildcards")
        peer = communicator.origin(source, tag)
        self.introduction = bytearray(_HELLO.size)
        context = communicator.context + 1
        self.hello = communicator.engine.irecv(self.introduction, peer, PARTITIONED + tag % PARTITIONED_TAGS, context)

    def _begin(self) -> Operation:
        if self.peer == PROC_NULL:
            return Nothing(receives=True)
        return _Incoming(self)

    def arrived(self, partition: int) -> bool:
        self._check(partition)
        current = self.current
        return current.arrived(partition) if isinstance(current, _Incoming) else True

    def free(self) -> None:
        super().free()
        if self.peer != PROC_NULL and not self.hello.done:
            self.hello.cancel()
