"""Derived datatypes against a plain model: a list of the offsets of their bytes, made by the standard's definitions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fastsock.mpj import MPI

NO_COMM: Any = None  # packing within one process asks nothing of a communicator
MOST_BYTES = 3000
KINDS = ["contiguous", "vector", "hvector", "indexed", "hindexed", "indexed_block", "hindexed_block", "struct"]
KINDS += ["subarray", "resized", "dup"]


@dataclass
class Model:
    """The bytes of an item in order, its bounds, whether they were set, and the alignment of what is in it."""

    bytes: list[int]
    lb: int
    ub: int
    explicit: bool
    alignment: int

    @property
    def extent(self) -> int:
        return self.ub - self.lb


def placed(parts: list[tuple[Model, int]]) -> Model:
    """Items of the parts at displacements, as a structure has them."""
    found = [offset + place for model, place in parts for offset in model.bytes]
    alignment = max((model.alignment for model, _ in parts), default=1)
    marked = [(model, place) for model, place in parts if model.explicit]
    bounds = [(place + model.lb, place + model.ub) for model, place in marked or parts]
    low, high = (min(lb for lb, _ in bounds), max(ub for _, ub in bounds)) if bounds else (0, 0)
    if not marked and high > low:
        high += -(high - low) % alignment
    return Model(found, low, high, bool(marked), alignment)


Made = tuple[MPI.Datatype, Model]


@st.composite
def basic(draw: st.DrawFn) -> Made:
    name = draw(st.sampled_from(["BYTE", "SHORT", "INT", "DOUBLE", "SHORT_INT", "DOUBLE_INT", "C_DOUBLE_COMPLEX"]))
    datatype = getattr(MPI, name)
    pairs = {"SHORT_INT": (2, 4, 4, 4), "DOUBLE_INT": (8, 4, 8, 8)}
    if name in pairs:
        first, second, at, alignment = pairs[name]
        return datatype, Model([*range(first), *range(at, at + second)], 0, datatype.extent, False, alignment)
    alignment = 8 if name == "C_DOUBLE_COMPLEX" else datatype.size
    return datatype, Model(list(range(datatype.size)), 0, datatype.size, False, alignment)


small = st.integers(0, 3)
strides = st.integers(-4, 6)


@st.composite
def derived(draw: st.DrawFn, inner: st.SearchStrategy[Made]) -> Made:
    old, model = draw(inner)
    kind = draw(st.sampled_from(KINDS))
    if kind == "contiguous":
        count = draw(st.integers(0, 4))
        return old.Create_contiguous(count), placed([(model, i * model.extent) for i in range(count)])
    if kind in ("vector", "hvector"):
        count, length, stride = draw(small), draw(small), draw(strides)
        unit = model.extent if kind == "vector" else 1
        parts = [(model, i * stride * unit + j * model.extent) for i in range(count) for j in range(length)]
        return getattr(old, f"Create_{kind}")(count, length, stride), placed(parts)
    if kind in ("indexed", "hindexed"):
        blocks = draw(st.lists(st.tuples(small, strides), max_size=4))
        unit = model.extent if kind == "indexed" else 1
        parts = [(model, place * unit + j * model.extent) for length, place in blocks for j in range(length)]
        lengths, places = [length for length, _ in blocks], [place for _, place in blocks]
        return getattr(old, f"Create_{kind}")(lengths, places), placed(parts)
    if kind in ("indexed_block", "hindexed_block"):
        length, places = draw(small), draw(st.lists(strides, max_size=4))
        unit = model.extent if kind == "indexed_block" else 1
        parts = [(model, place * unit + j * model.extent) for place in places for j in range(length)]
        return getattr(old, f"Create_{kind}")(length, places), placed(parts)
    if kind == "struct":
        other, other_model = draw(inner)
        members = [(old, model), (other, other_model)]
        lengths, places = draw(st.tuples(small, small)), draw(st.tuples(strides, strides))
        parts = [
            (each, place + j * each.extent)
            for (_, each), length, place in zip(members, lengths, places, strict=True)
            for j in range(length)
        ]
        return MPI.Datatype.Create_struct(lengths, places, [datatype for datatype, _ in members]), placed(parts)
    if kind == "subarray":
        return draw_subarray(draw, old, model)
    if kind == "resized":
        lb, extent = draw(strides), draw(st.integers(0, 40))
        return old.Create_resized(lb, extent), Model(model.bytes, lb, lb + extent, True, model.alignment)
    return old.Dup(), model


def draw_subarray(draw: st.DrawFn, old: MPI.Datatype, model: Model) -> Made:
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    subsizes = [draw(st.integers(1, size)) for size in sizes]
    starts = [draw(st.integers(0, size - subsize)) for size, subsize in zip(sizes, subsizes, strict=True)]
    order = draw(st.sampled_from([MPI.ORDER_C, MPI.ORDER_F]))
    numbers = np.arange(int(np.prod(sizes))).reshape(sizes, order="C" if order == MPI.ORDER_C else "F")
    box = tuple(slice(start, start + subsize) for start, subsize in zip(starts, subsizes, strict=True))
    chosen = numbers[box].ravel(order="C" if order == MPI.ORDER_C else "F")
    parts = [(model, int(number) * model.extent) for number in chosen]
    whole = Model(placed(parts).bytes, 0, model.extent * numbers.size, True, model.alignment)
    return old.Create_subarray(sizes, subsizes, starts, order), whole


made = st.recursive(basic(), derived, max_leaves=4)


def usable(model: Model) -> bool:
    return len(model.bytes) <= MOST_BYTES and (not model.bytes or max(map(abs, model.bytes)) < 20000)


@settings(max_examples=400, deadline=None)
@given(made)
def test_sizes_and_bounds(pair: Made) -> None:
    datatype, model = pair
    assume(usable(model))
    assert datatype.Get_size() == len(model.bytes)
    assert datatype.Get_extent() == (model.lb, model.extent)
    true = (min(model.bytes), max(model.bytes) + 1) if model.bytes else (0, 0)
    assert datatype.Get_true_extent() == (true[0], true[1] - true[0])


@settings(max_examples=400, deadline=None)
@given(made, st.integers(0, 3))
def test_packing_gathers_bytes_in_order_and_unpacking_puts_them_back(pair: Made, count: int) -> None:
    datatype, model = pair
    assume(usable(model) and len(set(model.bytes)) == len(model.bytes))
    # where items are: at or after the buffer's begin, not within each other
    begin = min(model.bytes, default=0)
    room = max(model.bytes, default=0) + 1 - begin + 3
    whole = MPI.Datatype.Create_hindexed(datatype, [1], [-begin]).Create_resized(0, room).Commit()
    memory = np.random.default_rng(1).integers(0, 256, room * count, np.uint8)
    expected = [int(memory[item * room + offset - begin]) for item in range(count) for offset in model.bytes]

    packed = np.full(len(expected) + 5, 7, np.uint8)
    assert whole.Pack(memory, packed, 2, NO_COMM) == 2 + len(expected)
    assert packed.tolist() == [7, 7, *expected, 7, 7, 7]

    back = np.zeros_like(memory)
    assert whole.Unpack(packed, 2, back, NO_COMM) == 2 + len(expected)
    touched = np.zeros(room * count, bool)
    for item in range(count):
        touched[[item * room + offset - begin for offset in model.bytes]] = True
    assert (back == np.where(touched, memory, 0)).all()


@settings(max_examples=100, deadline=None)
@given(made)
def test_a_decoded_type_is_made_again(pair: Made) -> None:
    datatype, model = pair
    assume(usable(model))
    base, combiner, parameters = datatype.decode()
    if combiner == "NAMED":
        return
    again = getattr(base, f"Create_{combiner.lower()}")(**parameters)
    assert again.Get_extent() == datatype.Get_extent()
    assert again.ob.runs.tolist() == datatype.ob.runs.tolist()


@pytest.mark.parametrize("order", [MPI.ORDER_C, MPI.ORDER_F])
@pytest.mark.parametrize("sizes", [(7,), (4, 6), (5, 3, 4)])
def test_shares_of_a_distributed_array_are_disjoint_and_make_the_whole(sizes: tuple[int, ...], order: int) -> None:
    kinds = [(MPI.DISTRIBUTE_BLOCK, MPI.DISTRIBUTE_DFLT_DARG), (MPI.DISTRIBUTE_CYCLIC, MPI.DISTRIBUTE_DFLT_DARG)]
    kinds += [(MPI.DISTRIBUTE_CYCLIC, 2)]
    total = int(np.prod(sizes))
    for chosen in product(kinds, repeat=len(sizes)):
        distributions, arguments = [kind for kind, _ in chosen], [argument for _, argument in chosen]
        grid = [2] * len(sizes)
        seen: list[int] = []
        for rank in range(2 ** len(sizes)):
            share = MPI.INT.Create_darray(2 ** len(sizes), rank, sizes, distributions, arguments, grid, order)
            assert share.extent == 4 * total
            packed = np.empty(share.size // 4, np.int32)
            share.Pack(np.arange(total, dtype=np.int32), packed, 0, NO_COMM)
            seen += packed.tolist()
        assert sorted(seen) == list(range(total))


def test_a_part_of_a_message_is_unpacked() -> None:
    every_other = MPI.INT.Create_vector(3, 1, 2).Commit()
    target = np.zeros(5, np.int32)
    from fastsock.mpj.datatypes import buffers

    message = buffers.simple([target, 1, every_other], False)
    room, finish = buffers.landing(message.address, message.count, message.datatype)
    assert finish is not None
    room[:8] = np.array([1, 2], np.int32)
    finish(8)
    assert target.tolist() == [1, 0, 2, 0, 0]


def test_items_that_are_not_in_the_buffer_are_refused() -> None:
    column = MPI.DOUBLE.Create_vector(3, 1, 4).Commit()
    matrix = np.arange(12.0).reshape(3, 4)
    MPI.DOUBLE.Create_contiguous(1).Pack(matrix, np.empty(12), 0, NO_COMM)
    with pytest.raises(ValueError, match="take the bytes"):
        MPI.SUM.Reduce_local([matrix.copy(), 13, MPI.DOUBLE], [matrix, 13, MPI.DOUBLE])
    with pytest.raises(ValueError, match="take the bytes"):
        MPI.SUM.Reduce_local([matrix, 2, column], [matrix, 2, column])


def test_a_slice_stands_for_the_array_that_it_is_of() -> None:
    """As programs send columns: the datatype reaches beyond the slice that says where it begins."""
    column = MPI.DOUBLE.Create_vector(3, 1, 4).Commit()
    matrix = np.arange(12.0).reshape(3, 4)
    target = np.zeros((3, 4))
    MPI.SUM.Reduce_local([matrix[0, 1:2], 1, column], [target[0, 2:3], 1, column])
    assert target[:, 2].tolist() == [1.0, 5.0, 9.0]


def test_huge_counts_cost_nothing() -> None:
    huge = MPI.DOUBLE.Create_contiguous(2**40).Create_contiguous(2)
    assert huge.size == 2**44
    assert MPI.BYTE.Create_vector(2**20, 2**20, 2**20).extent == 2**40


@pytest.mark.parametrize("code", ["b", "h", "i", "l", "q", "B", "H", "I", "L", "Q", "f", "d", "F", "D"])
def test_the_portable_representation_is_big_endian(code: str) -> None:
    datatype = MPI.Datatype.fromcode(code)
    source = np.array([1, 2, 100], code)
    packed = bytearray(datatype.Pack_external_size("external32", 3))
    assert datatype.Pack_external("external32", source, packed, 0) == len(packed)
    item = len(packed) // 3
    kind = f">{np.dtype(code).kind}{item}"
    assert np.frombuffer(packed, kind).tolist() == [1, 2, 100]
    target = np.zeros(3, code)
    datatype.Unpack_external("external32", packed, 0, target)
    assert target.tolist() == source.tolist()


# ---- as messages ----

GUARD = 32  # bytes around the items that nobody may touch
SELF = MPI.COMM_SELF


class Placed:
    """Items of a type somewhere in memory of their own: the argument for a call, and where each byte of data is."""

    def __init__(self, pair: Made, count: int, *, before: bool) -> None:
        """`before`: what the program names begins where the first item is, and data may lie before it."""
        datatype, model = pair
        offsets = [item * model.extent + offset for item in range(count) for offset in model.bytes]
        begin = min(offsets, default=0)
        self.places = [GUARD + offset - begin for offset in offsets]
        self.memory = np.zeros(max(offsets, default=0) - begin + 1 + 2 * GUARD, np.uint8)
        if before:
            self.argument = [self.memory[max(GUARD - begin, 0) :], count, datatype]
            self.usable = 0 <= GUARD - begin < len(self.memory)
        else:
            moved = MPI.Datatype.Create_hindexed(datatype, [1], [GUARD - begin])
            self.argument = [self.memory, count, moved.Create_resized(0, datatype.extent).Commit()]
            self.usable = True

    def fill(self) -> bytes:
        """Random bytes; those that are data, in order."""
        self.memory[:] = np.random.default_rng(3).integers(0, 256, len(self.memory), np.uint8)
        return self.memory[self.places].tobytes()

    def has(self, data: bytes) -> bool:
        """Whether these bytes are the first of the data, and all else is as it was made."""
        expected = np.zeros_like(self.memory)
        expected[self.places[: len(data)]] = np.frombuffer(data, np.uint8)
        return bool((self.memory == expected).all())


def _by_sendrecv(send: Any, receive: Any) -> None:
    SELF.Sendrecv(send, 0, 1, receive, 0, 1)


def _by_send(send: Any, receive: Any) -> None:
    request = SELF.Isend(send, 0, 1)
    SELF.Recv(receive, 0, 1)
    request.Wait()


def _by_receive(send: Any, receive: Any) -> None:
    request = SELF.Irecv(receive, 0, 1)
    SELF.Ssend(send, 0, 1)
    request.Wait()


def _by_all(send: Any, receive: Any) -> None:
    status = MPI.Status()
    MPI.Request.Waitall([SELF.Irecv(receive, 0, 1), SELF.Issend(send, 0, 1)], [status, MPI.Status()])
    assert status.tag == 1


def _by_testing(send: Any, receive: Any) -> None:
    requests = [SELF.Irecv(receive, 0, 1), SELF.Isend(send, 0, 1)]
    while not all(request.Test() for request in requests):
        pass


def _by_any(send: Any, receive: Any) -> None:
    requests = [SELF.Irecv(receive, 0, 1), SELF.Isend(send, 0, 1)]
    while MPI.Request.Waitany(requests) != MPI.UNDEFINED:
        pass


def _by_persistent(send: Any, receive: Any) -> None:
    requests = [SELF.Recv_init(receive, 0, 1), SELF.Send_init(send, 0, 1)]
    MPI.Prequest.Startall(requests)
    MPI.Request.Waitall(requests)


def _by_matched(send: Any, receive: Any) -> None:
    request = SELF.Isend(send, 0, 1)
    SELF.Mprobe(0, 1).Recv(receive)
    request.Wait()


def _by_alltoallw(send: Any, receive: Any) -> None:
    def typed(argument: Any) -> Any:
        memory, count, datatype = argument if isinstance(argument, list) else (argument, len(argument), MPI.BYTE)
        return [memory, [count], [0], [datatype]]

    SELF.Alltoallw(typed(send), typed(receive))


def _by_gather(send: Any, receive: Any) -> None:
    SELF.Gather(send, receive, 0)


WAYS = [_by_sendrecv, _by_send, _by_receive, _by_all, _by_testing, _by_any, _by_persistent, _by_matched]
WAYS += [_by_alltoallw, _by_gather]


@settings(max_examples=300, deadline=None)
@given(made, st.integers(1, 3), st.sampled_from(WAYS), st.booleans())
def test_messages_carry_the_data_and_nothing_else(pair: Made, count: int, way: Any, before: bool) -> None:
    _, model = pair
    assume(usable(model) and model.bytes and abs(model.extent) < 4000)
    placed_items = Placed(pair, count, before=before)
    assume(placed_items.usable)
    data = placed_items.fill()
    arrived = bytearray(len(data))
    way(placed_items.argument, arrived)
    assert arrived == data

    back = Placed(pair, count, before=before)
    assume(len(set(back.places)) == len(back.places))  # to receive into overlapping items is wrong
    way(data, back.argument)
    assert back.has(data)


@settings(max_examples=100, deadline=None)
@given(made, st.integers(1, 3), st.floats(0, 1))
def test_a_short_message_fills_the_first_items(pair: Made, count: int, share: float) -> None:
    _, model = pair
    assume(usable(model) and model.bytes and abs(model.extent) < 4000)
    items = Placed(pair, count, before=False)
    assume(len(set(items.places)) == len(items.places))
    data = bytes(range(1, 200))[: int(len(items.places) * share)]
    status = MPI.Status()
    SELF.Sendrecv(data, 0, 1, items.argument, 0, 1, status)
    assert status.Get_count(MPI.BYTE) == len(data)
    assert items.has(data)


column = MPI.DOUBLE.Create_vector(4, 1, 5).Commit()


def test_a_message_that_is_too_long_touches_the_items_alone() -> None:
    """As of plain memory: they may have what fits."""
    matrix = np.zeros((4, 5))
    for receive in (lambda: SELF.Recv([matrix, 1, column], 0, 1), lambda: SELF.Irecv([matrix, 1, column], 0, 1).Wait()):
        request = SELF.Isend(np.ones(5), 0, 1)
        with pytest.raises(MPI.Exception) as caught:
            receive()
        assert caught.value.Get_error_class() == MPI.ERR_TRUNCATE
        request.Wait()
    assert not matrix[:, 1:].any()


def test_what_is_received_for_a_request_that_was_given_up_lands() -> None:
    matrix = np.zeros((4, 5))
    SELF.Irecv([matrix, 1, column], 0, 1).Free()
    SELF.Send(np.ones(4), 0, 1)
    request = SELF.Irecv([matrix.reshape(-1)[1:], 1, column], 0, 2)
    SELF.Send(np.full(4, 2.0), 0, 2)
    request.Free()
    SELF.Sendrecv(np.zeros(1), 0, 3, np.zeros(1), 0, 3)
    assert matrix[:, 0].tolist() == [1.0] * 4
    assert matrix[:, 1].tolist() == [2.0] * 4


def test_a_receive_that_is_cancelled_touches_nothing() -> None:
    matrix = np.zeros((4, 5))
    request, status = SELF.Irecv([matrix, 1, column], 0, 1), MPI.Status()
    request.Cancel()
    request.Wait(status)
    assert status.Is_cancelled()
    assert not matrix.any()


@pytest.mark.parametrize("count", [2, 2**31, 2**60, 2**63])
@pytest.mark.parametrize("call", ["Send", "Isend", "Ssend", "Recv", "Irecv", "Bcast"])
def test_no_count_of_items_reaches_beyond_the_memory(call: str, count: int) -> None:
    with pytest.raises((ValueError, OverflowError)):
        getattr(SELF, call)([np.zeros((4, 5)), count, column], 0)


def test_no_block_of_alltoallw_reaches_beyond_the_memory() -> None:
    matrix, fine = np.zeros((4, 5)), np.zeros(4)
    whole = [fine, [4], [0], [MPI.DOUBLE]]
    for wrong in ([matrix, [2], [0], [column]], [matrix, [1], [48], [column]], [matrix, [2**60], [0], [column]]):
        for arguments in ((wrong, whole), (whole, wrong)):
            with pytest.raises((ValueError, OverflowError)):
                SELF.Alltoallw(*arguments)


def test_items_that_lie_before_the_address_that_a_program_names() -> None:
    numbers = np.arange(10, dtype="i4")
    backwards = MPI.INT.Create_vector(4, 1, -2).Commit()
    for start in (numbers[7:], MPI.memory.fromaddress(MPI.Get_address(numbers) + 28, 4)):
        into = np.zeros(4, "i4")
        SELF.Sendrecv([start, 1, backwards], 0, 0, into, 0, 0)
        assert into.tolist() == [7, 5, 3, 1]
        SELF.Sendrecv(into[::-1].copy(), 0, 0, [start, 1, backwards], 0, 0)
        SELF.Sendrecv(into, 0, 0, [start, 1, backwards], 0, 0)
    for start in (numbers[5:], MPI.memory(numbers)[:4], MPI.memory.fromaddress(0, 0)):
        with pytest.raises((ValueError, MPI.Exception)):
            SELF.Isend([start, 1, backwards], 0, 0)


@pytest.mark.parametrize("depth", [3, 9, 20])
def test_types_of_types_of_types(depth: int) -> None:
    """More loops than a layout has room for."""
    datatype, places = MPI.BYTE, np.zeros(1, int)
    for level in range(depth):
        count = 2 if level < 9 else 1
        stride = 3 * (2 * places.max() + 2)
        datatype = datatype.Create_hvector(count, 1, int(stride))
        places = (np.arange(count)[:, None] * stride + places).ravel()
    memory = np.random.default_rng(1).integers(0, 256, places.max() + 1, np.uint8)
    into = np.zeros(len(places), np.uint8)
    SELF.Sendrecv([memory, 1, datatype.Commit()], 0, 0, into, 0, 0)
    assert (into == memory[places]).all()


def test_shares_of_distributed_arrays_are_where_the_general_rule_says() -> None:
    """What is asked of a type by its parts, and what is copied, come from different code."""
    kinds = [(MPI.DISTRIBUTE_BLOCK, MPI.DISTRIBUTE_DFLT_DARG), (MPI.DISTRIBUTE_BLOCK, 5), (MPI.DISTRIBUTE_CYCLIC, 1)]
    kinds += [(MPI.DISTRIBUTE_CYCLIC, 3), (MPI.DISTRIBUTE_CYCLIC, 100)]
    for (one, first), (other, second), order in product(kinds, kinds, (MPI.ORDER_C, MPI.ORDER_F)):
        for rank in range(6):
            share = MPI.SHORT.Create_darray(6, rank, [7, 10], [one, other], [first, second], [2, 3], order)
            places = [place for offset, length in share.ob.runs.tolist() for place in range(offset, offset + length)]
            memory = np.arange(140, dtype=np.uint8)
            packed = np.zeros(share.size, np.uint8)
            share.Pack(memory, packed, 0, NO_COMM)
            assert packed.tolist() == places
            true = (min(places), max(places) + 1 - min(places)) if places else (0, 0)
            assert share.Get_true_extent() == true


@pytest.mark.parametrize(
    ("how", "argument", "processes"),
    [(MPI.DISTRIBUTE_NONE, 0, 2), (MPI.DISTRIBUTE_BLOCK, 3, 2), (MPI.DISTRIBUTE_CYCLIC, 0, 2), (99, 1, 2)],
)
def test_what_is_no_distribution(how: int, argument: int, processes: int) -> None:
    with pytest.raises(MPI.Exception) as caught:
        MPI.INT.Create_darray(processes, 0, [7], [how], [argument], [processes])
    assert caught.value.Get_error_class() == MPI.ERR_ARG


def test_sizes_beyond_64_bits_are_refused() -> None:
    half = MPI.BYTE.Create_contiguous(2**62)
    for make in (
        lambda: half.Create_contiguous(2),
        lambda: half.Create_vector(2, 1, 2),
        lambda: half.Create_indexed([1, 1], [0, 2]),
        lambda: MPI.Datatype.Create_struct([1, 1], [-(2**62), 2**62], [MPI.INT, MPI.INT]),
        lambda: MPI.DOUBLE.Create_subarray([2**31, 2**31], [1, 1], [0, 0]),
    ):
        with pytest.raises(OverflowError, match="64 bits"):
            make()
