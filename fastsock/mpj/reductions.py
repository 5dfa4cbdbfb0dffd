"""Collective reductions as the program calls them, made ready for the algorithms (see `calls`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastsock.core._core import OPERATIONS, can_reduce

from . import buffers, kernels
from ._memory import buffer
from .buffers import Message
from .calls import Call, Prepared, check_root, is_root
from .collectives import blocks
from .constants import PROC_NULL
from .memory import Land
from .op import Op


class Combine:
    """An operation on one type, as the algorithms see it; they work on memory that has the type's gaps."""

    __slots__ = ("_combine", "_type", "commutative", "itemsize", "kernel")

    def __init__(self, op: Op, type_: Any) -> None:
        self._combine = op.combine
        self._type = type_
        self.commutative = op.Is_commutative()
        self.itemsize: int = type_.extent
        self.kernel = kernel_of(op, type_)

    def __call__(self, source: memoryview, target: memoryview) -> None:
        """Does target = source op target."""
        self._combine(self._type, source, target)


def kernel_of(op: Op, type_: Any) -> tuple[int, int] | None:
    """Returns what the native kernels know an operation and a type by; None where they do not."""
    name, number = op.ob.name, kernels.native_type(type_)
    if not name or number is None or name not in OPERATIONS or not can_reduce(OPERATIONS[name], number):
        return None
    return OPERATIONS[name], number


def _spread(message: Message) -> memoryview:
    """Returns the memory of a message to send, gaps included."""
    return memoryview(message.span()).cast("B")


def _result(message: Message, *, kept: bool = False) -> tuple[memoryview, Land | None]:
    """Returns where to make a result. A type with gaps gets memory of its own: what is in the gaps must stay."""
    span = memoryview(message.span()).cast("B")
    if message.type.simple:
        return span, None
    scratch = bytearray(span) if kept else bytearray(len(span))

    def land() -> None:
        made = Message(buffer.frombuffer(scratch), 0, message.count, message.datatype)
        message.store(made.data())

    return memoryview(scratch), land


def reduce(communicator: Any, sendbuf: Any, recvbuf: Any, op: Op, root: int) -> Call:
    """Brings the reduction of all messages to the root."""
    check_root(communicator, root)
    if communicator.inter and root == PROC_NULL:
        return Call(communicator, "reduce", lambda: ((None, None, None, root), None))
    if not is_root(communicator, root):
        message = buffers.simple(sendbuf, True)
        combine = Combine(op, message.type)
        return Call(communicator, "reduce", lambda: ((_spread(message), None, combine, root), None))
    result = buffers.simple(recvbuf, False)
    combine = Combine(op, result.type)
    in_place = not communicator.inter and buffers.is_in_place(sendbuf)
    own = None if in_place or communicator.inter else buffers.simple(sendbuf, True)
    if own is not None:
        buffers.check_equal(own, result)

    def prepare() -> Prepared:
        view, land = _result(result, kept=in_place)
        return (None if own is None else _spread(own), view, combine, root), land

    return Call(communicator, "reduce", prepare)


def _symmetric(communicator: Any, name: str, sendbuf: Any, recvbuf: Any, op: Op) -> Call:
    """Reductions in which every rank sends as much as it receives."""
    communicator.context  # noqa: B018  (a null communicator refuses)
    result = buffers.simple(recvbuf, False)
    own = None if not communicator.inter and buffers.is_in_place(sendbuf) else buffers.simple(sendbuf, True)
    if own is not None:
        buffers.check_equal(own, result)
    combine = Combine(op, result.type)

    def prepare() -> Prepared:
        view, land = _result(result, kept=own is None)
        return (None if own is None else _spread(own), view, combine), land

    return Call(communicator, name, prepare)


def allreduce(communicator: Any, sendbuf: Any, recvbuf: Any, op: Op) -> Call:
    """Brings the reduction of all messages to all."""
    return _symmetric(communicator, "allreduce", sendbuf, recvbuf, op)


def scan(communicator: Any, sendbuf: Any, recvbuf: Any, op: Op) -> Call:
    """Brings to each the reduction of the messages of the ranks up to it."""
    return _symmetric(communicator, "scan", sendbuf, recvbuf, op)


def exscan(communicator: Any, sendbuf: Any, recvbuf: Any, op: Op) -> Call:
    """Brings to each the reduction of the messages of the ranks below it."""
    return _symmetric(communicator, "exscan", sendbuf, recvbuf, op)


def reduce_scatter_block(communicator: Any, sendbuf: Any, recvbuf: Any, op: Op) -> Call:
    """Brings to each its block of the reduction; all blocks have one size."""
    size = communicator.size
    if not communicator.inter and buffers.is_in_place(sendbuf):
        result = buffers.simple(recvbuf, False, 0, size)
        counts = [result.count] * size
        return _in_place(communicator, "reduce_scatter_block", result, counts, size, op)
    result = buffers.simple(recvbuf, False)
    own = buffers.simple(sendbuf, True, 0, size)
    buffers.check_equal(own, result)
    return _scattered(communicator, "reduce_scatter_block", own, result, [own.count] * size, size, op)


def reduce_scatter(communicator: Any, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None, op: Op) -> Call:
    """Brings to each its block of the reduction."""
    size, rank = communicator.size, communicator.rank
    result = buffers.simple(recvbuf, False)
    in_place = not communicator.inter and buffers.is_in_place(sendbuf)
    own = None if in_place else buffers.simple(sendbuf, True)
    if recvcounts is None and own is not None and not communicator.inter:
        from .object_collectives import allgather

        recvcounts = allgather(communicator, result.count)
    if recvcounts is None:
        raise TypeError("recvcounts: needed on an intercommunicator and in place")
    counts = [int(count) for count in recvcounts]
    if len(counts) != size:
        raise ValueError(f"expecting {size} items, got {len(counts)}")
    total = sum(counts)
    if own is None:
        if result.count != total:
            raise ValueError(f"mismatch in receive count {result.count} and sum(counts) {total}")
        return _in_place(communicator, "reduce_scatter", result, counts, 1, op)
    if own.type is not result.type:
        raise ValueError("mismatch in send and receive MPI datatypes")
    if own.count != total:
        raise ValueError(f"mismatch in send count {own.count} and sum(counts) {total}")
    if result.count != counts[rank]:
        raise ValueError(f"mismatch in receive count {result.count} and counts[{rank}] {counts[rank]}")
    return _scattered(communicator, "reduce_scatter", own, result, counts, 1, op)


def _scattered(
    communicator: Any, name: str, own: Any, result: Any, counts: list[int], repeat: int, op: Op
) -> Call:
    combine = Combine(op, result.type)
    lengths, places = _lengths(counts, result.type.extent)

    def prepare() -> Prepared:
        view, land = _result(result)
        return (blocks.counted(_spread(own.times(repeat)), lengths, places), view, combine), land

    return Call(communicator, name, prepare)


def _in_place(communicator: Any, name: str, result: Any, counts: list[int], repeat: int, op: Op) -> Call:
    """The messages are in the receive buffer; the result is written to its head."""
    combine = Combine(op, result.type)
    lengths, places = _lengths(counts, result.type.extent)

    def prepare() -> Prepared:
        view, land = _result(result.times(repeat), kept=True)
        return (blocks.counted(view, lengths, places), view[: lengths[communicator.rank]], combine), land

    return Call(communicator, name, prepare)


def _lengths(counts: list[int], size: int) -> tuple[list[int], list[int]]:
    lengths = [count * size for count in counts]
    places = [sum(lengths[:rank]) for rank in range(len(lengths))]
    return lengths, places
