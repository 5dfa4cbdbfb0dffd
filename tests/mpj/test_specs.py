"""What a program may pass as a message, shown by reductions of one rank's own memory: they take any message."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest

from fastsock.mpj import MPI
from fastsock.mpj.datatypes import buffers


def copied(source: Any, target: Any) -> None:
    """The source's items replace the target's."""
    MPI.NO_OP.Reduce_local(target, target)
    MPI.MAX.Reduce_local(source, target)


def test_arrays_know_their_type() -> None:
    for code in "bhilqBHILQfd":
        source, target = np.array([1, 2, 3], code), np.zeros(3, code)
        copied(source, target)
        assert target.tolist() == [1, 2, 3]
    source_, target_ = array.array("i", [4, 5]), array.array("i", [0, 0])
    copied(source_, target_)
    assert target_.tolist() == [4, 5]


@pytest.mark.parametrize(
    "rest",
    [
        [MPI.INT],
        ["i"],
        ["i4"],
        [6],
        [(6, 0)],
        [6, MPI.INT],
        [None, "i"],
        [(6, None), MPI.INT],
        [6, 0, "i"],
        [None, None, MPI.INT],
    ],
)
@pytest.mark.parametrize("kind", [list, tuple])
def test_all_of_an_array(rest: list[Any], kind: type) -> None:
    source, target = np.arange(6, dtype="i"), np.zeros(6, "i")
    message = buffers.simple(kind([source, *rest]), True)
    assert (message.count, message.datatype.size, message.address) == (6, 4, source.ctypes.data)
    copied(kind([source, *rest]), kind([target, *rest]) if "i4" not in rest else [target, "i4"])
    assert target.tolist() == source.tolist()


@pytest.mark.parametrize("rest", [[(2, 3)], [(2, 3), "i"], [2, 3, MPI.INT], [np.int64(2), np.int8(3), "i"]])
def test_a_part_of_an_array(rest: list[Any]) -> None:
    source, target = np.arange(6, dtype="i"), np.zeros(6, "i")
    copied([source, *rest], [target, *rest])
    assert target.tolist() == [0, 0, 0, 3, 4, 0]


def test_orders_of_arrays_do_not_matter() -> None:
    matrix = np.arange(6.0).reshape(2, 3)
    assert buffers.simple(matrix.T, True).count == 6
    assert buffers.simple(np.asfortranarray(matrix), True).count == 6


@pytest.mark.parametrize(
    ("message", "error", "says"),
    [
        ([np.zeros(3), 1, 2, 3, 4], ValueError, "2 to 4 items"),
        ([np.zeros(3)], ValueError, "2 to 4 items"),
        (object(), TypeError, "buffer or list/tuple"),
        (None, TypeError, "buffer or list/tuple"),
        ([[1, 2], "i"], TypeError, "bytes-like"),
        ([np.zeros(3), "nothing"], KeyError, "cannot map"),
        ([np.zeros(3), -1, "d"], ValueError, "negative count"),
        ([np.zeros(3), 1, -1, "d"], ValueError, "negative displacement"),
        ([np.zeros(3), 1, 4, "d"], ValueError, "out of bounds"),
        ([np.zeros(3), 4, "d"], ValueError, "take the bytes"),
        ([np.zeros(3), 2, 2, "d"], ValueError, "take the bytes"),
        ([None, 1, "d"], ValueError, "buffer is None"),
        ([bytearray(9), "d"], ValueError, "multiple"),
        ([np.zeros(3), MPI.DATATYPE_NULL], ValueError, "datatype is null"),
        (np.zeros(3, ">i4" if np.little_endian else "<i4"), BufferError, "byte order"),
        (np.zeros((4, 4))[:, 0], (ValueError, BufferError), "contiguous"),
        (np.zeros(2, [("a", "i"), ("b", "d")]), KeyError, "cannot map"),
    ],
)
def test_what_is_no_message(message: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        buffers.simple(message, True)


@pytest.mark.parametrize("count", [3, -1, 2**61 + 1, 2**63])  # of 8 bytes each: the third's product would be 8
@pytest.mark.parametrize("call", ["Send", "Isend", "Ssend", "Recv", "Irecv", "Bcast"])
def test_no_count_reaches_beyond_the_memory(call: str, count: int) -> None:
    with pytest.raises((ValueError, OverflowError)):
        getattr(MPI.COMM_SELF, call)([np.zeros(2), count, MPI.DOUBLE], 0)


def test_what_cannot_be_written_is_not_received_into() -> None:
    for memory in (b"abc", memoryview(b"abc"), MPI.buffer(b"abc")):
        assert buffers.simple(memory, True).count == 3
        with pytest.raises((BufferError, TypeError, ValueError)):
            buffers.simple(memory, False)


def test_equal_blocks_share_the_memory() -> None:
    memory = np.zeros(12)
    assert buffers.simple(memory, True, 4).count == 3
    assert buffers.simple([memory, 3, "d"], True, 4).count == 3
    with pytest.raises(ValueError, match="blocks"):
        buffers.simple(memory, True, 5)
    with pytest.raises(ValueError, match="take the bytes"):
        buffers.simple([memory, 4, "d"], True, 4)


def test_blocks_of_different_lengths() -> None:
    memory = np.zeros(10, "i")
    found = buffers.vector(memory, True, 4)
    assert (found.counts, found.displs) == ([3, 3, 2, 2], [0, 3, 6, 8])
    found = buffers.vector([memory, [1, 2, 3]], True, 3)
    assert (found.counts, found.displs) == ([1, 2, 3], [0, 1, 3])
    found = buffers.vector([memory, ([1, 2], [4, 0]), "i"], True, 2)
    assert (found.counts, found.displs) == ([1, 2], [4, 0])
    found = buffers.vector([memory, 2, 3, MPI.INT], True, 3)
    assert (found.counts, found.displs) == ([2, 2, 2], [0, 3, 6])
    with pytest.raises(ValueError, match="expecting 3 items"):
        buffers.vector([memory, [1, 2]], True, 3)
    with pytest.raises(ValueError, match="take the bytes"):
        buffers.vector([memory, ([1, 2], [0, 9])], True, 2)


def test_blocks_of_different_types() -> None:
    memory = bytearray(16)
    found = buffers.vector_w([memory, ([1, 2], [8, 0]), [MPI.DOUBLE, MPI.INT]], False, 2)
    assert (found.counts, found.displs) == ([1, 2], [8, 0])
    with pytest.raises(ValueError, match="take the bytes"):
        buffers.vector_w([memory, ([1, 2], [9, 0]), [MPI.DOUBLE, MPI.INT]], False, 2)
    with pytest.raises(ValueError, match="expecting 2 items"):
        buffers.vector_w([memory, [MPI.INT]], False, 2)


def test_bottom_is_all_memory() -> None:
    numbers = [np.array([1.0, 2.0]), np.array([3.0])]
    places = [MPI.Get_address(each) for each in numbers]
    everywhere = MPI.DOUBLE.Create_hindexed([2, 1], places).Commit()
    message = buffers.simple([MPI.BOTTOM, 1, everywhere], True)
    packed = buffers.outgoing(message.address, message.count, message.datatype)
    assert np.frombuffer(packed).tolist() == [1.0, 2.0, 3.0]


class Tensor:
    """Speaks DLPack and nothing else."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()


def test_tensors_of_array_libraries() -> None:
    source, target = np.arange(4.0), np.zeros(4)
    copied(Tensor(source), Tensor(target))
    assert target.tolist() == source.tolist()


def test_a_tensor_that_answers_nonsense_raises_what_it_raises() -> None:
    class Nonsense(Tensor):
        def __dlpack_device__(self) -> Any:
            return (1,)

    with pytest.raises(ValueError, match="unpack"):
        buffers.simple(Nonsense(np.zeros(1)), True)


def test_memory_that_only_a_device_reaches_is_refused() -> None:
    class OnDevice:
        __cuda_array_interface__ = {"data": (4096, False), "typestr": "<i4", "shape": (5,), "version": 3}  # noqa: RUF012

    with pytest.raises(BufferError, match="not CPU-accessible"):
        buffers.simple(OnDevice(), True)
