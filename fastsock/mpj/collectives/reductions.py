"""Collective reductions as the program calls them, made ready for the algorithms (see `prepared`)."""

from __future__ import annotations

from collections.abc import Sequence

from ..constants import PROC_NULL
from ..datatypes import buffers
from ..datatypes.op import Op, check_op
from ..messages.pickling import CODEC
from . import blocks, views
from .call import Call, check_root, is_root
from .object_collectives import ObjectCalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .protocols import Prepared


def reduce(communicator: Any, sendbuf: Any, recvbuf: Any, op: Op, root: int) -> Call:
    """Brings the reduction of all messages to the root."""
    check_op(op)
    check_root(communicator, root)
    if communicator.inter and root == PROC_NULL:
        return Call(communicator, "reduce", lambda: ((None, None, None, root), None))
    if not is_root(communicator, root):
        message = buffers.simple(sendbuf, True)
        combine = op._combine(message.datatype)
        return Call(communicator, "reduce", lambda: ((views.outgoing(message), None, combine, root), None))
    result = buffers.simple(recvbuf, False)
    combine = op._combine(result.datatype)
    in_place = not communicator.inter and buffers.is_in_place(sendbuf)
    own = None if in_place or communicator.inter else buffers.simple(sendbuf, True)
    if own is not None:
        buffers.check_equal(own, result)

    def prepare() -> Prepared:
        view, land = views.incoming(result, kept=in_place)
        return (None if own is None else views.outgoing(own), view, combine, root), land

    return Call(communicator, "reduce", prepare)


def _symmetric(communicator: Any, name: str, sendbuf: Any, recvbuf: Any, op: Op) -> Call:
    """Reductions in which every rank sends as much as it receives."""
    check_op(op)
    communicator.alive()
    result = buffers.simple(recvbuf, False)
    own = None if not communicator.inter and buffers.is_in_place(sendbuf) else buffers.simple(sendbuf, True)
    if own is not None:
        buffers.check_equal(own, result)
    combine = op._combine(result.datatype)

    # the first rank's result of an exscan is what it had
    kept = own is None or (name == "exscan" and not communicator.inter and communicator.rank == 0)

    def prepare() -> Prepared:
        view, land = views.incoming(result, kept=kept)
        return (None if own is None else views.outgoing(own), view, combine), land

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
    check_op(op)
    size = communicator.size
    if not communicator.inter and buffers.is_in_place(sendbuf):
        result = buffers.simple(recvbuf, False, size)
        counts = [result.count] * size
        return _in_place(communicator, "reduce_scatter_block", result, counts, size, op)
    result = buffers.simple(recvbuf, False)
    own = buffers.simple(sendbuf, True, size)
    buffers.check_equal(own, result)
    return _scattered(communicator, "reduce_scatter_block", own, result, [own.count] * size, size, op)


def reduce_scatter(communicator: Any, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None, op: Op) -> Call:
    """Brings to each its block of the reduction."""
    check_op(op)
    size, rank = communicator.size, communicator.rank
    result = buffers.simple(recvbuf, False)
    in_place = not communicator.inter and buffers.is_in_place(sendbuf)
    own = None if in_place else buffers.simple(sendbuf, True)
    if recvcounts is None and own is not None and not communicator.inter:
        recvcounts = ObjectCalls(communicator).allgather(CODEC, result.count)
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
    if own.datatype != result.datatype:
        raise ValueError("mismatch in send and receive MPI datatypes")
    if own.count != total:
        raise ValueError(f"mismatch in send count {own.count} and sum(counts) {total}")
    if result.count != counts[rank]:
        raise ValueError(f"mismatch in receive count {result.count} and counts[{rank}] {counts[rank]}")
    return _scattered(communicator, "reduce_scatter", own, result, counts, 1, op)


def _scattered(communicator: Any, name: str, own: Any, result: Any, counts: list[int], repeat: int, op: Op) -> Call:
    combine = op._combine(result.datatype)
    lengths, places = _lengths(counts, result.datatype.size)

    def prepare() -> Prepared:
        view, land = views.incoming(result)
        if communicator.inter:
            return (views.outgoing(own, repeat), view, [*places, sum(lengths)], combine), land
        return (blocks.counted(views.outgoing(own, repeat), lengths, places), view, combine), land

    return Call(communicator, name, prepare)


def _in_place(communicator: Any, name: str, result: Any, counts: list[int], repeat: int, op: Op) -> Call:
    """The messages are in the receive buffer; the result is written to its head."""
    combine = op._combine(result.datatype)
    lengths, places = _lengths(counts, result.datatype.size)

    def prepare() -> Prepared:
        view, land = views.incoming(result, repeat, kept=True)
        return (blocks.counted(view, lengths, places), view[: lengths[communicator.rank]], combine), land

    return Call(communicator, name, prepare)


def _lengths(counts: list[int], size: int) -> tuple[list[int], list[int]]:
    lengths = [count * size for count in counts]
    places = [sum(lengths[:rank]) for rank in range(len(lengths))]
    return lengths, places
