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
