"""The array header: what is written, and what a hostile peer may write instead."""

from __future__ import annotations

import json
import math
import struct

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fastsock import array_format
from fastsock.array_format import ArrayFormatError, extra_bytes, pack_header, unpack_header

unhurried = settings(deadline=None)  # a busy machine is no failure

DTYPES = st.one_of(
    hnp.scalar_dtypes(),
    hnp.nested_dtypes(
        st.one_of(hnp.scalar_dtypes(), hnp.unicode_string_dtypes(), hnp.byte_string_dtypes()), max_itemsize=200
    ),
    hnp.array_dtypes(hnp.scalar_dtypes(), allow_subarrays=True),
).filter(lambda dtype: dtype.subdtype is None)
SHAPES = st.one_of(st.lists(st.integers(0, 9), max_size=8), st.lists(st.integers(0, 1 << 24), max_size=2)).map(tuple)


def header(**changes: object) -> bytes:
    """The header of a (2, 3) array of float64, with fields changed."""
    fields = {
        "magic": b"\x93FSA",
        "version": 1,
        "flags": 0,
        "order": b"<",
        "kind": b"f",
        "itemsize": 8,
        "dimensions": 2,
        "long_double": 0,
        "description": 0,
        "size": 48,
        "shape": (2, 3, 0, 0, 0),
    }
    tail = changes.pop("tail", b"")
    fields.update(changes)
    *head, shape = fields.values()
    return struct.pack("<4sBBccIBBHQ5Q", *head, *shape) + tail  # type: ignore[operator]


def described(value: object, itemsize: int, **changes: object) -> bytes:
    """The header of a structured array of no dimensions, with this description."""
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    scalar = {"order": b"|", "kind": b"V", "dimensions": 0, "shape": (0,) * 5, "size": itemsize}
    return header(**{**scalar, "itemsize": itemsize, "description": len(text), "tail": text, **changes})


def structure(*fields: object, size: object = 8) -> dict[str, object]:
    return {"size": size, "fields": list(fields)}


def unpack(data: bytes) -> tuple[np.dtype, tuple[int, ...], bool, int]:
    """As the receiver does it: fixed part first."""
    array_format.check_magic(data)
    assert len(data) == array_format.HEADER_BYTES + extra_bytes(data[: array_format.HEADER_BYTES])
    return unpack_header(data)


def test_the_wire_format_stays_what_it_is() -> None:
    expected = bytes.fromhex(
        "93465341 01 00 3c 66 08000000 02 00 0000 3000000000000000"
        "0200000000000000 0300000000000000 0000000000000000 0000000000000000 0000000000000000"
    )
    assert pack_header(np.dtype("<f8"), (2, 3), False) == expected == header()
    assert unpack(expected) == (np.dtype("<f8"), (2, 3), False, 48)
    many = pack_header(np.dtype(">i2"), (1, 2, 3, 4, 5, 6, 7), True)
    assert many[64:] == struct.pack("<2Q", 6, 7)
    assert many[5:8] == b"\x01>i"
    assert pack_header(np.dtype("<M8[25s]"), (), False)[64:] == b"[25s]"
    nested = np.dtype([("a", "<f8"), ("b", [("c", "<i4", (2,))])])
    assert pack_header(nested, (), False)[64:] == (
        b'{"size":16,"fields":[["a",0,"<f8",[],null],["b",8,{"size":8,"fields":[["c",0,"<i4",[2],null]]},[],null]]}'
    )


@unhurried
@given(DTYPES, SHAPES, st.booleans())
def test_every_dtype_and_shape_comes_back(dtype: np.dtype, shape: tuple[int, ...], fortran: bool) -> None:
    found, its_shape, its_order, size = unpack(pack_header(dtype, shape, fortran))
    assert (found, its_shape, its_order) == (dtype, shape, fortran)
    assert found.str == dtype.str and found.itemsize == dtype.itemsize and found.fields == dtype.fields
    assert size == dtype.itemsize * math.prod(shape)


@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype({"names": ["b", "a"], "formats": ["<i4", ">f8"], "offsets": [12, 1], "itemsize": 40}),
        np.dtype({"names": ["a", "b"], "formats": ["<i4", "<i2"], "offsets": [0, 2]}),  # overlapping
        np.dtype({"names": ["a"], "formats": ["<i4"], "titles": ["a title"]}),
        np.dtype([("a", "i1"), ("b", "f8")], align=True),
        np.dtype([("größe", "f4"), ("\N{SNOWMAN}", "U3")]),
        np.dtype([("a", [("b", [("c", "M8[us]", (2, 1))], (3,))], (2,))]),
        np.dtype([]),
        np.dtype([("a", "S0"), ("b", "V0")]),
        np.dtype("M8"),
        np.dtype("m8[7D]"),
        np.dtype("V5"),
        np.dtype("S0"),
        np.dtype(np.longdouble),
        np.dtype(np.clongdouble),
        np.dtype([("a", np.longdouble, (2,))]),
    ],
    ids=str,
)
def test_unusual_dtypes_come_back(dtype: np.dtype) -> None:
    found = unpack(pack_header(dtype, (2,), False))[0]
    assert found == dtype and found.itemsize == dtype.itemsize and found.fields == dtype.fields


class TestRefusedBySender:
    @pytest.mark.parametrize("dtype", ["O", [("a", "f8"), ("b", "O")]], ids=str)
    def test_objects(self, dtype: object) -> None:
        with pytest.raises(TypeError, match=r"holds Python objects.*pickle it"):
            array_format.check_sendable(np.dtype(dtype))

    @pytest.mark.skipif(not hasattr(getattr(np, "dtypes", None), "StringDType"), reason="numpy 1 has no such strings")
    def test_strings_of_any_length(self) -> None:
        with pytest.raises(TypeError, match=r"convert it|cannot be sent"):
            array_format.check_sendable(np.dtypes.StringDType())

    def test_nested_too_deep(self) -> None:
        dtype = np.dtype("f8")
        for _ in range(17):
            dtype = np.dtype([("a", dtype)])
        with pytest.raises(TypeError, match="nested more than 16 deep"):
            pack_header(dtype, (), False)

    def test_description_too_long(self) -> None:
        with pytest.raises(TypeError, match="at most 65535"):
            pack_header(np.dtype([("x" * 70000, "f8")]), (), False)

    def test_title_that_is_no_text(self) -> None:
        with pytest.raises(TypeError, match="title of field 'a'"):
            pack_header(np.dtype({"names": ["a"], "formats": ["f8"], "titles": [7]}), (), False)


class TestRefusedByReceiver:
    @pytest.mark.parametrize(
        ("data", "what"),
        [
            (header(magic=b"HTTP"), "are no array: they start with b'HTTP'"),
            (header(version=2), "format version 2, this is version 1"),
            (header(flags=2), "flags are 0x02"),
            (header(order=b"="), "is no dtype"),
            (header(order=b"|"), "is no dtype"),
            (header(kind=b"O", order=b"|"), "is no dtype"),
            (header(kind=b"\xff"), "dtype cannot be read"),
            (header(kind=b"f", itemsize=3, size=18), "impossible"),
            (header(kind=b"U", itemsize=6, size=36), "has 4 bytes, not 6"),
            (header(kind=b"S", order=b"<"), "is no dtype"),
            (header(kind=b"V", order=b"|", itemsize=(1 << 32) - 1, size=((1 << 32) - 1) * 6), "impossible|is no dtype"),
            (header(size=47), "payload has 47 bytes"),
            (header(shape=(2, 3, 1, 0, 0)), "2 dimensions, but sizes for more"),
            (header(dimensions=1, size=16), "1 dimensions, but sizes for more"),
            (header(dimensions=65, tail=bytes(8 * 60)), "65 dimensions"),
            (header(shape=(1 << 63, 2, 0, 0, 0), size=0), "payload has 0 bytes"),
            (header(shape=(0, 1 << 62, 0, 0, 0), size=0), "more than memory can hold"),
            (header(shape=(1 << 61, 1, 0, 0, 0), size=(1 << 64) - 1), "payload has"),
            (header(kind=b"S", order=b"|", itemsize=0, size=0, shape=(1 << 32, 1 << 32, 0, 0, 0)), "more than memory"),
            (header(description=5, tail=b"hello"), "is no dtype"),
            (header(kind=b"M", description=4, tail=b"[xs]"), "impossible"),
            (header(kind=b"M", description=6, tail=b"[s],f8"), "is no dtype"),
            (header(kind=b"M", description=5, tail=b"[s/2]"), "is no dtype"),
            (header(kind=b"m", description=4, tail=b"\xff[s]"), "dtype cannot be read"),
            (header(long_double=63), "there is none in its dtype"),
            (header(itemsize=16, size=96, long_double=10), "has 10 bits of fraction"),
        ],
    )
    def test_bad_header(self, data: bytes, what: str) -> None:
        with pytest.raises(ArrayFormatError, match=what):
            unpack(data)

    @pytest.mark.parametrize(
        ("value", "what"),
        [
            (b"{", "dtype cannot be read"),
            (b"\xff", "dtype cannot be read"),
            (b"[" * 60000, "dtype cannot be read|no object"),
            (b"1" * 5000, "dtype cannot be read|no object"),
            (["<f8"], "no object of a size and a list"),
            ({"size": 8}, "no object of a size and a list"),
            ({**structure(), "more": 1}, "no object of a size and a list"),
            ({"size": 8, "fields": {"a": 1}}, "no object of a size and a list"),
            (structure(size="8"), "'8' where a size belongs"),
            (structure(size=True), "'True' where a size belongs"),
            (structure(size=-8), "'-8' where a size belongs"),
            (structure(size=8.0), "'8.0' where a size belongs"),
            (structure(size=1 << 40), "where a size belongs"),
            (structure(size=4), "has 4 bytes, not 8"),
            (structure("a"), "a field .* is no list"),
            (structure(["a", 0, "<f8"]), "a field .* is no list"),
            (structure([1, 0, "<f8", [], None]), "of the wrong kind"),
            (structure(["a", 0, "<f8", 3, None]), "of the wrong kind"),
            (structure(["a", 0, "<f8", [], 3]), "of the wrong kind"),
            (structure(["a", -1, "<f8", [], None]), "where a size belongs"),
            (structure(["a", 9, "<f8", [], None]), "lies beyond"),
            (structure(["a", 1, "<f8", [], None]), "impossible"),
            (structure(["a", 0, "<f8", [2], None]), "impossible"),
            (structure(["a", 0, "<f8", [1 << 30], None]), "larger than a dtype can be"),
            (structure(["a", 0, "<f8", [0, 1 << 30], None]), "larger than a dtype can be"),
            (structure(["a", 0, "|V0", [1] * 70, None]), "impossible"),
            (structure(["a", 0, "|O", [], None]), "is no dtype"),
            (structure(["a", 0, "O", [], None]), "is no dtype"),
            (structure(["a", 0, "float64", [], None]), "is no dtype"),
            (structure(["a", 0, "f8", [], None]), "is no dtype"),
            (structure(["a", 0, "<f8,<f8", [], None]), "is no dtype"),
            (structure(["a", 0, "(2,)f4", [], None]), "is no dtype"),
            (structure(["a", 0, "", [], None]), "is no dtype"),
            (structure(["a", 0, None, [], None]), "is no dtype"),
            (structure(["a", 0, "|V" + "9" * 40, [], None]), "is no dtype"),
            (structure(["a", 0, "<f4", [], None], ["a", 4, "<f4", [], None]), "impossible"),
            (structure(["a", 0, {"size": 8}, [], None]), "no object of a size and a list"),
        ],
        ids=lambda value: str(value)[:60],
    )
    def test_bad_structure(self, value: object, what: str) -> None:
        with pytest.raises(ArrayFormatError, match=what):
            unpack(described(value, 8))

    def test_structure_nested_too_deep(self) -> None:
        value: object = "<f8"
        for _ in range(17):
            value = structure(["a", 0, value, [], None])
        with pytest.raises(ArrayFormatError, match="nested more than 16 deep"):
            unpack(described(value, 8))

    def test_structure_with_a_byte_order(self) -> None:
        with pytest.raises(ArrayFormatError, match="byte order"):
            unpack(described(structure(), 8, order=b"<"))


def check_outcome(data: bytes) -> None:
    """Whatever arrives gives a sound array's header, or an ArrayFormatError, and nothing else."""
    try:
        array_format.check_magic(data)
        extra = extra_bytes(data[: array_format.HEADER_BYTES])
        dtype, shape, _, size = unpack_header((data + bytes(extra))[: array_format.HEADER_BYTES + extra])
    except ArrayFormatError:
        return
    assert not dtype.hasobject and dtype.subdtype is None
    assert size == dtype.itemsize * math.prod(shape)
    # numpy itself must be able to hold it, memory aside.
    np.lib.stride_tricks.as_strided(np.zeros((), dtype), shape, (0,) * len(shape))


class TestFuzz:
    @unhurried
    @given(st.binary(min_size=60, max_size=400))
    def test_any_bytes_behind_the_magic(self, data: bytes) -> None:
        check_outcome(array_format.MAGIC + data)

    @unhurried
    @given(
        st.sampled_from([0, 1, 2, 3, 32, 33, 64]),
        st.binary(min_size=2, max_size=2),
        st.integers(0, 40),
        st.lists(st.sampled_from([0, 1, 2, 1 << 31, 1 << 62, (1 << 64) - 1]), min_size=64, max_size=64),
        st.binary(max_size=20),
    )
    def test_plausible_fields(
        self, count: int, kind: bytes, itemsize: int, sizes: list[int], description: bytes
    ) -> None:
        shape = sizes[:count]
        size = itemsize * math.prod(shape)
        further = struct.pack(f"<{max(0, count - 5)}Q", *shape[5:])
        data = header(
            order=kind[:1],
            kind=kind[1:],
            itemsize=itemsize,
            dimensions=count,
            size=size & ((1 << 64) - 1),
            shape=(shape + [0] * 5)[:5],
            description=len(description),
            tail=further + description,
        )
        check_outcome(data)

    @unhurried
    @given(DTYPES, SHAPES, st.booleans(), st.lists(st.tuples(st.integers(4, 500), st.integers(0, 255)), max_size=4))
    def test_changed_bytes(
        self, dtype: np.dtype, shape: tuple[int, ...], fortran: bool, changes: list[tuple[int, int]]
    ) -> None:
        data = bytearray(pack_header(dtype, shape, fortran))
        for place, value in changes:
            data[4 + place % (len(data) - 4)] = value
        check_outcome(bytes(data))

    @unhurried
    @given(
        st.recursive(
            st.none() | st.integers(-2, 1 << 33) | st.floats() | st.sampled_from(["<f8", "|O", "|V3", "<U2", "a", ""]),
            lambda inner: (
                st.lists(inner, max_size=6)
                | st.fixed_dictionaries({"size": st.integers(0, 64), "fields": st.lists(inner, max_size=3)})
                | st.tuples(st.text(max_size=2), st.integers(0, 8), inner, st.just([]), st.none())
            ),
            max_leaves=12,
        ),
        st.integers(0, 64),
    )
    @example({"size": 8, "fields": [["", 0, "<f8", [], None], ["f0", 0, "<f8", [], None]]}, 8)
    @example({"size": 8, "fields": [["a", 0, "<f4", [], "b"], ["b", 4, "<f4", [], None]]}, 8)
    @example({"size": 8, "fields": [["a", 0, "<f4", [], "a"]]}, 8)
    @example({"size": 8, "fields": [["\ud800", 0, "<f4", [], None]]}, 8)
    @example({"size": 8, "fields": [["a\0b", 0, "|b1", [0], None]]}, 8)
    def test_any_json(self, value: object, itemsize: int) -> None:
        check_outcome(described(value, itemsize))
