"""What is packed comes back as itself: value, exact type, identity."""

from __future__ import annotations

import array
import builtins
import dataclasses
import datetime
import enum
import functools
import math
import pathlib
import zoneinfo
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID, SafeUUID, uuid1

import attrs
import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from fastsock.rmi.codec import values
from fastsock.rmi.errors import LimitExceeded, NotPackable, VersionMismatch
from fastsock.rmi.wire import frames
from tests.rmi.codecs import HEADER, Way, codec, numbers_of


@dataclasses.dataclass
class Point:
    x: Any
    y: Any


@dataclasses.dataclass(slots=True, eq=False)
class Slotted:
    left: Any = None
    right: Any = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    key: Any


@attrs.define
class Defined:
    a: Any
    b: Any = 2


@attrs.frozen
class Fixed:
    a: Any


class Named(NamedTuple):
    name: Any
    value: Any


class Colour(enum.Enum):
    RED = "r"
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class OwnError(Exception):
    def __init__(self, text: str, *, code: int) -> None:
        super().__init__(text)
        self.code = code


class OwnOSError(OSError):
    pass


class Money:
    def __init__(self, units: int, currency: str) -> None:
        self.units, self.currency = units, currency

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and vars(self) == vars(other)


REGISTERED = (Point, Slotted, Frozen, Defined, Fixed, Named, Colour, Level, Right, OwnError, OwnOSError)


def class_table(**options: Any) -> values.ClassTable:
    table = values.ClassTable()
    for cls in REGISTERED:
        table.add(values.describe(cls, cache=options.get("cache", False) and cls in (Frozen, Fixed)))
    money = values.describe(Money, pack=lambda it: (it.units, it.currency), unpack=lambda state: Money(*state))
    table.add(money)
    return table


@pytest.fixture
def way():
    return Way(class_table())


def same(sent: Any, got: Any) -> bool:
    """Equal, and of the same exact types all through."""
    if type(sent) is not type(got):
        return False
    if isinstance(sent, float):
        return math.copysign(1, sent) == math.copysign(1, got) and (sent == got or (sent != sent and got != got))
    if isinstance(sent, complex):
        return same(sent.real, got.real) and same(sent.imag, got.imag)
    if isinstance(sent, Decimal):
        return sent.as_tuple() == got.as_tuple()
    if isinstance(sent, dict):
        return len(sent) == len(got) and all(
            same(a, b) and same(x, y) for (a, x), (b, y) in zip(sent.items(), got.items(), strict=True)
        )
    if isinstance(sent, slice):
        return same((sent.start, sent.stop, sent.step), (got.start, got.stop, got.step))
    if isinstance(sent, (list, tuple)):
        return len(sent) == len(got) and all(map(same, sent, got))
    if isinstance(sent, (set, frozenset)):
        return sent == got and sorted(map(repr, map(type, sent))) == sorted(map(repr, map(type, got)))
    if isinstance(sent, datetime.datetime):
        return (
            sent.replace(tzinfo=None) == got.replace(tzinfo=None)
            and sent.fold == got.fold
            and same(sent.tzinfo, got.tzinfo)
        )
    if isinstance(sent, datetime.time):
        return repr(sent) == repr(got)
    if isinstance(sent, UUID):
        return sent == got and sent.is_safe is got.is_safe
    if isinstance(sent, numpy.ndarray):
        return sent.dtype == got.dtype and sent.shape == got.shape and sent.tobytes() == got.tobytes()
    if isinstance(sent, numpy.generic):
        return sent.dtype == got.dtype and sent.tobytes() == got.tobytes()
    if isinstance(sent, array.array):
        return sent.typecode == got.typecode and sent.tobytes() == got.tobytes()
    if isinstance(sent, memoryview):
        return (sent.format, sent.shape, sent.readonly) == (got.format, got.shape, got.readonly) and sent == got
    if isinstance(sent, BaseException):
        return same(sent.args, got.args) and same(vars(sent), vars(got)) and same(sent.__cause__, got.__cause__)
    if isinstance(sent, (Point, Slotted)):
        return all(same(getattr(sent, name), getattr(got, name)) for name in sent.__dataclass_fields__)
    return bool(sent == got)


texts = st.text(st.characters(codec=None, categories=None), max_size=40)  # surrogates too
fixed_zones = st.timedeltas(datetime.timedelta(hours=-23), datetime.timedelta(hours=23)).map(datetime.timezone)
zones = st.one_of(
    st.none(),
    st.just(datetime.timezone.utc),
    fixed_zones,
    st.builds(datetime.timezone, st.just(datetime.timedelta(hours=1)), st.text(max_size=5)),
    st.sampled_from(["Europe/Berlin", "America/New_York"]).map(zoneinfo.ZoneInfo),
)
hashable_atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-100, 100),
    st.integers(-(1 << 70), 1 << 70),
    st.sampled_from([sign * (1 << bits) for bits in (4, 6, 15, 31, 63, 64, 500) for sign in (1, -1)]).flatmap(
        lambda edge: st.integers(edge - 1, edge + 1)
    ),
    st.floats(),
    st.complex_numbers(),
    texts,
    st.binary(max_size=40),
    st.sampled_from([Ellipsis, NotImplemented, range(0), range(5, -(1 << 80), -3)]),
    st.builds(lambda at, zone, fold: at.replace(tzinfo=zone, fold=fold), st.datetimes(), zones, st.integers(0, 1)),
    st.dates(),
    st.builds(
        lambda at, zone, fold: at.replace(tzinfo=zone, fold=fold),
        st.times(),
        st.none() | fixed_zones,
        st.integers(0, 1),
    ),
    st.timedeltas(),
    st.decimals(),
    st.fractions(),
    st.uuids(),
    texts.filter(lambda text: "\0" not in text).map(pathlib.PurePosixPath),
    st.sampled_from([pathlib.Path("/tmp/a"), pathlib.PureWindowsPath("c:\\a")]),
    st.sampled_from([Colour.RED, Level.HIGH, Right.READ | Right.WRITE]),
)  # fmt: skip
plain_types = st.one_of(
    st_numpy.scalar_dtypes(),
    st_numpy.byte_string_dtypes(),
    st_numpy.unicode_string_dtypes(),
    st_numpy.array_dtypes(max_size=3),
)
arrays = st_numpy.arrays(plain_types, st_numpy.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6))
atoms = st.one_of(
    hashable_atoms,
    st.binary(max_size=40).map(bytearray),
    st.binary(max_size=40).map(memoryview),
    st.lists(st.integers(0, 255)).map(lambda items: array.array("B", items)),
    st.lists(st.floats()).map(lambda items: array.array("d", items)),
    arrays,
    arrays.map(lambda array: array.T),
    arrays.map(lambda array: array[::-1] if array.ndim else array),
    plain_types,
    arrays.filter(lambda array: array.size > 0).map(lambda array: array.reshape(-1)[0]),
)


def _is_itself(value: Any) -> bool:
    """Not so: NaN, and the Decimal that cannot be compared."""
    try:
        return value == value and hash(value) is not None
    except (ArithmeticError, TypeError):
        return False


def containers(inner: Any) -> Any:
    hashable = hashable_atoms.filter(_is_itself)
    return st.one_of(
        st.lists(inner, max_size=20),
        st.lists(inner, max_size=20).map(tuple),
        st.dictionaries(hashable, inner, max_size=20),
        st.sets(hashable, max_size=20),
        st.frozensets(hashable, max_size=20),
        st.builds(Point, inner, inner),
        st.builds(Slotted, inner, inner),
        st.builds(Named, inner, inner),
        st.builds(lambda *parts: slice(*parts), inner, inner, inner),
        st.builds(ValueError, inner),
    )


anything = st.recursive(atoms, containers, max_leaves=25)


@given(sent=anything)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_any_value_comes_back_as_itself(sent):
    got = Way(class_table()).carry(sent)
    assert same(sent, got), (sent, got)


def test_values_without_a_strategy(way):
    for sent in (
        uuid1(),
        UUID(int=1, is_safe=SafeUUID.safe),
        Defined([1], {}),
        Fixed("a"),
        Money(3, "EUR"),
        numpy.str_("a b"),
    ):
        assert same(sent, way.carry(sent))
    many = memoryview(array.array("i", range(12))).cast("B").cast("i", (3, 4))
    assert same(many, way.carry(many))
    assert way.carry(memoryview(bytes(10))[::2]).tobytes() == bytes(5)
    assert same(memoryview(bytearray(3)), way.carry(memoryview(bytearray(3))))


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 100_000])
def test_large_buffers_are_not_copied_into_the_body(way, size):
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    for sent in (data, bytearray(data), memoryview(data), array.array("B", data), numpy.frombuffer(data, "u1")):
        body, segments = way.pack(sent)
        assert len(segments) == (size >= 4096) and len(body) < 4096 + 100
        (got,) = way.unpack(body, segments)
        assert same(sent, got)
    for sent in ("a" * size, "ä" * size, "\udc80" * size):
        assert way.carry(sent) == sent


def test_arrays_arrive_aligned_and_writable(way):
    for count in (3, 5000):
        got = way.carry(numpy.arange(count, dtype="f8"))
        assert got.flags.writeable and got.flags.aligned
        got[0] = 7
    assert got.ctypes.data % 64 == 0
    fortran = numpy.asfortranarray(numpy.arange(6000.0).reshape(60, 100))
    assert way.carry(fortran).flags.f_contiguous


# Identity


def test_what_is_shared_is_one_again(way):
    for shared in (
        *([1], {1: 2}, {3}, bytearray(b"x"), (1, [2]), frozenset({1}), Point(1, 2), Named(1, [2]), Money(1, "x")),
        *(numpy.zeros(3), numpy.zeros(5000), bytes(5000), "t" * 70_000, array.array("i", [1]), ValueError(1)),
    ):
        one, two, other = way.carry([shared, shared, {"deep": (shared,)}])
        assert one is two is other["deep"][0], type(shared)


def test_sharing_is_within_a_frame_between_its_values(way):
    shared = [1]
    body, segments = way.pack(shared, [shared], (shared, 2))
    first, second, third = way.unpack(body, segments)
    assert second[0] is first is third[0]
    assert way.carry(shared) is not first


def test_cycles(way):
    items: list[Any] = [1]
    items.append(items)
    got = way.carry(items)
    assert got[1] is got and got[0] == 1

    mapping: dict[str, Any] = {}
    mapping["self"] = mapping
    got = way.carry(mapping)
    assert got["self"] is got

    point = Point(1, None)
    point.y = [point]
    got = way.carry(point)
    assert got.y[0] is got

    inner: list[Any] = []
    ring = (1, inner)
    inner.append(ring)
    got = way.carry(ring)
    assert type(got) is tuple and got[1][0] is got
    got = way.carry(inner)
    assert got[0][1] is got

    named_inner: list[Any] = []
    named = Named("n", named_inner)
    named_inner.append(named)
    got = way.carry([named, named])
    assert type(got[0]) is Named and got[0].value[0] is got[0] is got[1]

    holder = Slotted()
    holder.left = frozenset([holder])
    got = way.carry(holder)
    assert next(iter(got.left)) is got

    mutual = [{}, {}]
    mutual[0]["other"], mutual[1]["other"] = mutual[1], mutual[0]
    got = way.carry(tuple(mutual))
    assert got[0]["other"] is got[1] and got[1]["other"] is got[0]


@given(
    edges=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=40),
    kinds=st.lists(st.integers(0, 3), min_size=8, max_size=8),
)
@settings(max_examples=150, deadline=None)
def test_any_graph_comes_back_with_its_shape(edges, kinds):
    """Nodes of all mutable kinds; some are seen only through tuples."""
    makers = [lambda: [], lambda: {}, lambda: Point([], None), lambda: Slotted([], None)]
    nodes = [makers[kind]() for kind in kinds]

    def items_of(node: Any) -> Any:
        return (
            node
            if type(node) is list
            else list(node.values())
            if type(node) is dict
            else node.left
            if type(node) is Slotted
            else node.x
        )

    for source, target in edges:
        held = (nodes[target],) if (source + target) % 3 == 0 else nodes[target]
        if type(nodes[source]) is dict:
            nodes[source][len(nodes[source])] = held
        else:
            items_of(nodes[source]).append(held)

    def shape(node: Any, seen: dict[int, int]) -> Any:
        if type(node) is tuple:
            return ("tuple", *[shape(item, seen) for item in node])
        if id(node) in seen:
            return seen[id(node)]
        seen[id(node)] = len(seen)
        return type(node).__name__, [shape(item, seen) for item in items_of(node)]

    table = class_table()
    got = Way(table).carry(nodes)
    assert shape(nodes, {}) == shape(got, {})


def test_a_cycle_through_a_pack_function_is_refused(way):
    table = values.ClassTable()
    table.add(values.describe(Money, pack=lambda it: [it], unpack=lambda state: Money(1, "x")))
    packer = codec.Packer(table)
    packer.start()
    with pytest.raises(NotPackable, match="Money holds itself"):
        packer.pack(Money(1, "x"))


def test_a_function_of_a_class_cannot_use_the_codec_that_calls_it(way):
    table = values.ClassTable()
    uses: list[Any] = []
    table.add(values.describe(Money, pack=lambda it: uses[0](), unpack=lambda state: uses[1]()))
    one_way = Way(table)
    uses[:] = [lambda: one_way.packer.start(), None]
    with pytest.raises(RuntimeError, match="a pack function used"):
        one_way.pack(Money(1, "x"))
    one_way.packer.abandon()
    unpacker = one_way.unpacker
    for use in (lambda: unpacker.begin(b"\0\1"), unpacker.unpack, unpacker.end, lambda: unpacker.unpack_frame(b"\0\1")):
        uses[:] = [lambda: 5, use]
        with pytest.raises(RuntimeError, match="unpack function"):
            one_way.carry([Money(1, "x"), 2])
    uses[1] = lambda: 7
    assert one_way.carry([Money(1, "x")]) == [7]


# Exceptions


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def test_exceptions(way):
    group = getattr(builtins, "ExceptionGroup", ValueError)("both", [ValueError(1), KeyError("k")])
    for sent in (
        *(ValueError("a", 1), KeyError(("k",)), StopIteration(5), SystemExit(3), KeyboardInterrupt(), AssertionError()),
        *(group, UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), OSError(2, "no", "file"), OSError(2, "no")),
        *(ConnectionResetError(104, "reset"), ImportError("x", name="m", path="p"), NameError("n")),
    ):
        got = way.carry(raised(sent))
        assert type(got) is type(sent) and str(got) == str(sent) and repr(got) == repr(sent)
    got = way.carry(OSError(2, "no", "file"))
    assert (got.errno, got.filename) == (2, "file")


def test_notes_attributes_and_cause(way):
    error = OwnError("text", code=7)
    error.__notes__ = ["one", "two"]
    error.__cause__ = ValueError("below")
    error.__cause__.__cause__ = KeyError("lowest")
    got = way.carry(error)
    assert type(got) is OwnError and got.code == 7 and got.args == ("text",) and got.__notes__ == ["one", "two"]
    assert repr(got.__cause__) == repr(error.__cause__) and type(got.__cause__.__cause__) is KeyError
    got = way.carry(OwnOSError(2, "no", "file"))
    assert (got.errno, got.filename) == (2, "file")


def test_a_cause_that_cannot_travel_leaves_its_text(way):
    class Private(Exception):
        pass

    error = ValueError("outer")
    error.__cause__ = Private("secret")
    got = way.carry(error)
    assert type(got.__cause__) is Exception and "Private: secret" in str(got.__cause__)


# What cannot travel


class Subclassed(dict):
    """It says itself what is to be pickled, so it does not travel as other subclasses of plain classes."""

    def __reduce__(self) -> Any:
        return Subclassed, (dict(self),)


def test_a_field_that_is_not_set(way):
    with pytest.raises(NotPackable, match=r"Slotted\.left is not set"):
        way.pack([Slotted.__new__(Slotted)])
    assert way.carry(Slotted(1)).left == 1


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (Subclassed(), r"rmi\.register\(Subclassed, pack=\.\.\., unpack=\.\.\.\)"),
        (lambda: 1, r"rmi\.callback\(function\)"),
        (Subclassed().get, r"rmi\.callback\(function\)"),
        (functools.partial(int), r"rmi\.callback\(function\)"),
        (dataclasses.make_dataclass("Fresh", ["x"])(1), r"@rmi\.value above class Fresh"),
        (numpy.array([object()]), "holds Python objects"),
        (enum.Enum("Loose", "A").A, r"@rmi\.value above class Loose"),
        (object, "a class cannot be sent"),
        (int, "a class cannot be sent"),
        (open, r"rmi\.callback\(function\)"),
    ],
    ids=lambda value: getattr(type(value), "__name__", ""),
)
def test_refused_with_the_line_to_write(way, value, line):
    with pytest.raises(NotPackable, match=line):
        way.pack([value])
    assert way.carry(1) == 1  # the packer is good


def test_pickle_only_by_trust_at_both_ends():
    trusted = Way(class_table(), trust_pickle=True)
    assert trusted.carry(Subclassed(a=1)) == {"a": 1}
    body, _ = trusted.pack(Subclassed())
    with pytest.raises(ConnectionError, match="only trust"):
        Way(class_table()).unpack(body)


def test_depth(way):
    value: list[Any] = []
    for _ in range(99):
        value = [value]
    assert way.carry(value) == value
    with pytest.raises(LimitExceeded, match="100 deep"):
        way.pack([value])
    assert way.carry([]) == []


def test_a_container_that_changes_while_it_is_packed(way):
    items: list[Any] = [1]
    table = values.ClassTable()
    table.add(values.describe(Money, pack=lambda it: items.append(1), unpack=lambda state: None))
    items[:] = [Money(1, "x"), 2]
    packer = codec.Packer(table)
    packer.start()
    with pytest.raises(RuntimeError, match="changed"):
        packer.pack(items)


# Classes, once a connection


def test_a_class_is_described_once(way):
    first, _ = way.pack(Point(1, 2))
    second, _ = way.pack(Point(1, 2))
    assert b"Point" in first and b"Point" not in second and len(second) == 4
    assert way.unpack(first) == way.unpack(second) == [Point(1, 2)]


def test_an_abandoned_frame_announces_nothing(way):
    way.packer.start()
    way.packer.pack(Point(1, 2))
    with pytest.raises(NotPackable):
        way.packer.pack(object())
    way.packer.abandon()
    assert b"Point" in way.pack(Point(1, 2))[0]
    way.packer.start()
    way.packer.pack(Named(1, 2))
    way.packer.start()  # not finished: as abandoned
    way.packer.finish()
    assert b"Named" in way.pack(Named(1, 2))[0]


@pytest.mark.parametrize("without", ["class-number", "array-memory", "early-detection", "cache"])
def test_each_optimization_can_be_left_out(without):
    table = class_table(cache=True)
    way = Way(table, without={without})
    frozen = Frozen(1)
    sent = [Point(1, Frozen("a")), frozen, frozen, numpy.zeros(5000), {"a": (1, 2.5, None)}]
    for _ in range(2):
        body, segments = way.pack(sent)
        (got,) = way.unpack(body, segments)
        assert same(sent, got) and got[1] is got[2]
    assert (b"Point" in body) == (without == "class-number")
    assert bool(segments) == (without != "array-memory")


def test_other_fields_are_a_mismatch_before_anything_is_built(way):
    made = []

    @dataclasses.dataclass
    class Point:  # of an older program
        x: int
        z: int

    def build(state: Any) -> Any:
        made.append(state)
        return Money(*state)

    theirs = class_table()
    ours = class_table()
    ours.by_name["Point"] = ours.by_class[Point] = values.describe(Point, name="Point")
    ours.add(values.describe(Money, pack=lambda it: None, unpack=build, name="Money"))
    mixed = Way(theirs, receiving=ours)
    body, segments = mixed.pack(REGISTERED[0](1, 2), Money(1, "EUR"), Named("a", 1))
    with pytest.raises(VersionMismatch, match=r"'Point'.*only the peer's has y.*only this end's has z"):
        mixed.unpack(body, segments)
    assert made == []
    assert mixed.carry(Named("a", 1)) == Named("a", 1)  # described in the frame that failed
    assert mixed.carry(Money(2, "x")) == Money(2, "x")
    with pytest.raises(VersionMismatch):
        mixed.carry([REGISTERED[0](1, 2)])


def test_an_unknown_class_is_a_mismatch_and_imports_nothing(way):
    mixed = Way(class_table(), receiving=values.ClassTable())
    with pytest.raises(VersionMismatch, match="'Point', and no class is registered"):
        mixed.carry(Point(1, 2))
    assert mixed.carry((1, 2)) == (1, 2)


def test_migrate(way):
    @dataclasses.dataclass
    class Old:
        name: str
        first: int

    @dataclasses.dataclass
    class New:
        name: str
        numbers: list[int]

    class OldColour(enum.Enum):
        RED = 1

    class NewColour(enum.Enum):
        CRIMSON = 1

    seen = []

    def migrate(state: Any, version: int) -> Any:
        seen.append(version)
        return {"name": state["name"], "numbers": [state["first"]]}

    theirs, ours = values.ClassTable(), values.ClassTable()
    theirs.add(values.describe(Old, name="It", version=3))
    ours.add(values.describe(New, name="It", version=4, migrate=migrate))
    theirs.add(values.describe(OldColour, name="Colour"))
    ours.add(values.describe(NewColour, name="Colour", migrate=lambda state, version: {"RED": "CRIMSON"}[state]))
    mixed = Way(theirs, receiving=ours)
    sent = Old("n", 5)
    one, two, colour = mixed.carry([sent, sent, OldColour.RED])
    assert one == New("n", [5]) and one is two and seen == [3] and colour is NewColour.CRIMSON


def test_an_error_of_an_unpack_function_leaves_the_connection_good(way):
    def refuse(state: Any) -> Any:
        raise ZeroDivisionError("no")

    table = class_table(cache=True)
    table.add(values.describe(Money, pack=lambda it: it.units, unpack=refuse))
    one_way = Way(table)
    frozen, holder = Frozen("kept"), Frozen(Money(1, "x"))
    with pytest.raises(ZeroDivisionError):
        one_way.carry([Money(1, "x"), frozen, Point(1, 2), [Money(2, "x")]])
    assert one_way.carry([frozen, Point(1, 2)]) == [frozen, Point(1, 2)]
    with pytest.raises(ZeroDivisionError):
        one_way.carry(holder)
    with pytest.raises(ZeroDivisionError):
        one_way.carry(holder)  # by its number, which stands for no value
    assert one_way.carry(1) == 1


# Cached values


def test_a_cached_value_goes_as_its_number(way):
    cached = Way(class_table(cache=True))
    frozen = Frozen("a long text that is not sent twice")
    first, _ = cached.pack(frozen)
    second, _ = cached.pack([frozen, Frozen("b")])
    assert b"long" in first and b"long" not in second
    (one,) = cached.unpack(first)
    ((two, _),) = cached.unpack(second)
    assert one is two and one == frozen


def test_an_abandoned_frame_caches_nothing(way):
    cached = Way(class_table(cache=True))
    frozen = Frozen("text")
    cached.packer.start()
    cached.packer.pack(frozen)
    cached.packer.abandon()
    assert b"text" in cached.pack(frozen)[0]


def test_more_cached_values_than_places(way):
    cached = Way(class_table(cache=True))
    all_of_them = [Frozen(number) for number in range(5000)]
    assert cached.carry(all_of_them) == all_of_them
    assert cached.carry(all_of_them[::-1]) == all_of_them[::-1]
    assert cached.carry(all_of_them) == all_of_them


# References


class Exposed:
    pass


class Table:
    def __init__(self) -> None:
        self.objects: list[Any] = []

    def number_of(self, value: Any) -> Any:
        if not isinstance(value, Exposed):
            return None
        self.objects.append(value)
        return 0, len(self.objects) - 1, "Exposed"

    def object_of(self, owner: int, number: int, interface: str) -> Any:
        assert (owner, interface) == (0, "Exposed")
        return self.objects[number]


def test_references(way):
    both = Way(class_table(), references=Table())
    exposed = Exposed()
    assert both.carry([1, exposed])[1] is exposed


# The buffers


def test_header_room_and_many_values(way):
    way.packer.start(HEADER)
    for number in range(1000):
        way.packer.pack(number)
    frame, buffers = way.packer.finish()
    assert not buffers
    frame[:HEADER] = b"h" * HEADER
    assert way.unpack(bytes(frame[HEADER:])) == list(range(1000))
    assert way.unpack(bytearray(frame[HEADER:])) == way.unpack(frame[HEADER:]) == list(range(1000))


def test_a_large_scratch_is_given_back(way):
    way.carry(["x" * 60_000] + [f"{number} {'x' * 50_000}" for number in range(60)])
    held = way.packer.finish()[0]
    way.packer.start()
    frame, _ = way.packer.finish()
    assert len(held) and frame.obj is not held.obj and len(frame.obj) < 100_000


def test_frame_in_one_call(way):
    frame, buffers = way.packer.pack_frame(HEADER, (1, "two", [3]))
    assert way.unpacker.unpack_frame(bytes(frame[HEADER:]), buffers) == [1, "two", [3]]
    with pytest.raises(NotPackable):
        way.packer.pack_frame(HEADER, (Point(1, 2), object()))
    assert b"Point" in way.pack(Point(1, 2))[0]


@pytest.mark.parametrize(("header", "module"), [("codec/_format.pxd", values), ("wire/_frames.pxd", frames)])
def test_compiled_numbers_are_those_of_python(header, module):
    compiled = numbers_of(header)
    told = {name: value for name, value in vars(module).items() if name in compiled}
    assert {name: compiled[name] for name in told} == told and len(told) >= 7
