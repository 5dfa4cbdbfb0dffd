"""Values that nobody registered: of the standard library, of numpy, and of classes derived from plain ones."""

from __future__ import annotations

import ast
import asyncio
import binascii
import builtins
import concurrent.futures
import configparser
import csv
import datetime
import decimal
import enum
import http
import io
import ipaddress
import json
import lzma
import pathlib
import queue
import re
import signal
import socket
import sqlite3
import ssl
import struct
import subprocess
import sys
import tarfile
import threading
import time
import types
import urllib.error
import urllib.parse
import zipfile
import zlib
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, UserString, defaultdict, deque
from email.message import Message
from typing import Any, NamedTuple

import numpy
import pytest

from fastsock import rmi
from fastsock.rmi.codec import values
from fastsock.rmi.errors import BadFrame, NotPackable, RemoteError, VersionMismatch
from tests.helpers.drawing import each_of
from tests.rmi.codecs import Way, codec


@pytest.fixture
def way():
    return Way(values.ClassTable())


# Classes of a program. None is registered.


class Rows(list):
    """Its constructor has arguments of its own, and nobody calls it for what arrives."""

    made = 0

    def __init__(self, source: str, items: Any = ()) -> None:
        type(self).made += 1
        super().__init__(items)
        self.source = source


class Settings(dict):
    __slots__ = ("path",)


class Names(set):
    pass


class Metres(int):
    def __new__(cls, value: int, unit: str) -> Metres:
        made = super().__new__(cls, value)
        made.unit = unit
        return made


class Ratio(float):
    pass


class Token(str):
    __slots__ = ("line",)


class Blob(bytes):
    pass


class Buffer(bytearray):
    pass


class Pair(tuple):
    pass


class Group(frozenset):
    pass


class Moment(datetime.datetime):
    pass


class Day(datetime.date):
    pass


class Clock(datetime.time):
    pass


class Span(datetime.timedelta):
    pass


class Amount(decimal.Decimal):
    pass


class Recent(deque):
    pass


class Tally(Counter):
    pass


class Lists(defaultdict):
    pass


class Ordered(OrderedDict):
    pass


class Bag(UserDict):
    pass


class Space(types.SimpleNamespace):
    pass


class Reading(NamedTuple):
    at: int
    value: float


class Noted(Reading):
    """Not slotted: an instance has attributes beside its fields."""


class Colour(enum.Enum):
    RED = "r"


class Level(enum.IntEnum):
    LOW = 1


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Outer:
    class Inner(list):
        pass


def with_attributes(value: Any, **attributes: Any) -> Any:
    for name, item in attributes.items():
        setattr(value, name, item)
    return value


OF_LIBRARIES = [
    OrderedDict([("b", 1), ("a", [2])]),
    defaultdict(list, {"a": [1]}),
    defaultdict(None, {1: 2}),
    Counter("abracadabra"),
    deque([1, 2, 3]),
    deque([1, 2], maxlen=5),
    ChainMap({"a": 1}, {"a": 2, "b": 3}),
    UserDict({"a": 1}),
    UserList([1, 2]),
    UserString("text"),
    types.SimpleNamespace(a=1, b=[2]),
    types.MappingProxyType({"a": 1}),
    *(ipaddress.ip_address(text) for text in ("10.0.0.1", "::1", "fe80::1%eth0")),
    *(ipaddress.ip_network(text) for text in ("10.0.0.0/8", "2001:db8::/32")),
    *(ipaddress.ip_interface(text) for text in ("10.0.0.1/8", "2001:db8::1/64")),
    re.compile(r"(a+)\d", re.IGNORECASE | re.DOTALL),
    re.compile(b"x*"),
    pathlib.Path("/tmp/a"),
    pathlib.PurePath("a/b"),
    pathlib.PurePosixPath("a"),
    pathlib.PureWindowsPath("c:\\a"),
    time.gmtime(0),
    pathlib.Path(__file__).stat(),
    http.HTTPStatus.NOT_FOUND,
    signal.SIGTERM,
    socket.AF_INET,
    re.IGNORECASE | re.MULTILINE,
    urllib.parse.urlparse("http://host:80/path?query#part"),
    urllib.parse.urlsplit("http://host/"),
]
DERIVED = [
    Rows("file", [1, [2]]),
    with_attributes(Settings(a=1), path="p"),
    Settings(b=2),
    Names({1, 2}),
    Metres(5, "m"),
    Metres(1 << 80, "m"),
    with_attributes(Token("text"), line=3),
    Token("grüße"),
    *(Ratio(1.5), Blob(b"bytes"), Buffer(b"array"), Pair([1, 2]), Group([1, 2])),
    Moment(2024, 1, 2, 3, 4, 5, 6, datetime.timezone.utc, fold=1),
    *(Day(2024, 1, 2), Clock(1, 2, 3, 4), Span(1, 2, 3), Amount("-1.50")),
    *(Recent([1], maxlen=3), Tally("aab"), Lists(list, a=[1]), Ordered(b=1, a=2), Bag(a=1), Space(a=1)),
    Reading(1, 2.5),
    with_attributes(Noted(1, 2.5), note="n"),
    *(Colour.RED, Level.LOW, Right.READ | Right.WRITE),
    Outer.Inner([1]),
]


def attributes_of(value: Any) -> Any:
    slots = {name: getattr(value, name, None) for name in getattr(type(value), "__slots__", ())}
    return {**getattr(value, "__dict__", {}), **slots}


def same(sent: Any, got: Any) -> bool:
    if type(sent) is not type(got) or sent != got or repr(sent) != repr(got):
        return False
    if isinstance(sent, enum.Enum):
        return sent is got
    if isinstance(sent, (UserDict, UserList, UserString, ChainMap, types.SimpleNamespace)):
        return True  # what they hold are attributes, and were compared
    if isinstance(sent, (defaultdict, deque)):
        extra = "default_factory" if isinstance(sent, defaultdict) else "maxlen"
        if getattr(sent, extra) != getattr(got, extra):
            return False
    return attributes_of(sent) == attributes_of(got)


@pytest.mark.parametrize("sent", OF_LIBRARIES + DERIVED, ids=lambda value: type(value).__name__)
def test_comes_back_as_itself(way, sent):
    assert same(sent, way.carry(sent))
    one, two = way.carry([sent, [sent]])
    assert same(sent, one) and (one is two[0] or isinstance(sent, pathlib.PurePath))


def test_nothing_of_a_derived_class_runs_for_what_arrives(way):
    sent, before = Rows("file", [1]), Rows.made
    assert way.carry(sent).source == "file" and Rows.made == before


def test_order_and_limits_stay(way):
    ordered = OrderedDict(a=1, b=2)
    ordered.move_to_end("a")
    assert list(way.carry(ordered)) == ["b", "a"]
    got = way.carry(deque([1, 2], maxlen=2))
    got.append(3)
    assert list(got) == [2, 3]
    got = way.carry(defaultdict(list))
    got["new"].append(1)
    assert got == {"new": [1]}


@pytest.mark.parametrize(
    "kind", [Rows, OrderedDict, deque, defaultdict, types.SimpleNamespace, UserDict, UserList, Bag]
)
def test_one_that_holds_itself(way, kind):
    value = kind("file") if kind is Rows else kind()
    if isinstance(value, types.SimpleNamespace):
        value.own = [value]
        got = way.carry(value)
        assert got.own[0] is got
    elif hasattr(value, "append"):
        value.append((value,))
        got = way.carry(value)
        assert got[0][0] is got
    else:
        value["own"] = [value]
        got = way.carry(value)
        assert got["own"][0] is got
    assert type(got) is kind


def test_files_in_memory(way):
    binary, text = io.BytesIO(b"a\nb"), io.StringIO("a\nb\n")
    binary.read(1), text.readline()
    assert way.carry(binary).read() == b"\nb" and way.carry(text).read() == "b\n"


# numpy

RECORDS = numpy.array([(1, 2.5), (3, 4.5)], [("a", "<i4"), ("b", "<f8")])
GAPS = numpy.zeros(3, {"names": ["a", "b"], "formats": ["<i4", "<f8"], "offsets": [4, 16], "itemsize": 32})


@pytest.mark.parametrize(
    "sent",
    [
        RECORDS.view(numpy.recarray),
        GAPS.view(numpy.recarray),
        numpy.rec.array([(1, "a")], dtype=[("n", "i4"), ("t", "U1")]),
        RECORDS.view(numpy.recarray)[0],
        GAPS.view(numpy.recarray)[1],
        GAPS,
        GAPS[0],
        GAPS[["b"]],
        numpy.arange(6.0).reshape(2, 3).view(numpy.recarray),
        numpy.ma.array([1, 2, 3], mask=[0, 1, 0]),
        numpy.ma.array([[1.5, 2], [3, 4]], mask=[[0, 1], [0, 0]], fill_value=7, hard_mask=True),
        numpy.ma.array([1, 2]),
        numpy.ma.array(numpy.arange(10_000.0), mask=numpy.arange(10_000) % 2),
        numpy.ma.array(RECORDS, mask=[(1, 0), (0, 1)]),
        numpy.ma.array(5, mask=True),
        numpy.ma.masked,
        numpy.arange(2.0).reshape(1, 2).view(numpy.matrix),
    ],
    ids=lambda value: f"{type(value).__name__}-{value.dtype}",
)
def test_of_numpy(way, sent):
    got = way.carry(sent)
    assert type(got) is type(sent) and repr(got) == repr(sent) and got.dtype == sent.dtype
    assert got.dtype.type is sent.dtype.type and got.shape == sent.shape
    if isinstance(sent, numpy.ma.MaskedArray) and sent is not numpy.ma.masked:
        assert got.hardmask == sent.hardmask and numpy.array_equal(got.fill_value, sent.fill_value)
        assert (sent.mask is numpy.ma.nomask) == (got.mask is numpy.ma.nomask)
    if sent is numpy.ma.masked:
        assert got is sent
    if sent.dtype.names is not None and isinstance(sent, (numpy.recarray, numpy.record)):
        name = sent.dtype.names[-1]
        assert numpy.array_equal(getattr(got, name), getattr(sent, name))


def test_memory_of_numpys_subclasses_is_not_copied_into_the_body(way, tmp_path):
    mapped = numpy.memmap(tmp_path / "file", "f8", "w+", shape=(2000,))
    for sent in (numpy.ma.array(numpy.arange(2000.0)), numpy.zeros(2000, "f8").view(numpy.recarray), mapped):
        body, segments = way.pack(sent)
        assert len(segments) == 1 and len(body) < 1000
        (got,) = way.unpack(body, segments)
        assert numpy.array_equal(numpy.asarray(got), numpy.asarray(sent))


# Exceptions


class Strange(Exception):
    """Of a program, registered nowhere."""


class Wanting(KeyError):
    def __init__(self, key: str, *, where: str) -> None:
        super().__init__(f"{key} in {where}")
        self.where = where


class NotFound(FileNotFoundError):
    pass


class Undecoded(UnicodeDecodeError):
    def __init__(self, path: str, error: UnicodeDecodeError) -> None:
        super().__init__(*error.args)
        self.path = path


class Unimported(ImportError):
    pass


class OwnGroup(getattr(builtins, "ExceptionGroup", Exception)):  # type: ignore[misc]
    pass


def raised(function: Any, *arguments: Any) -> BaseException:
    try:
        function(*arguments)
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def broken_barrier() -> None:
    threading.Barrier(2).wait(0)


EXCEPTIONS = [
    raised(json.loads, "{"),
    queue.Empty(),
    queue.Full(),
    subprocess.CalledProcessError(3, ["a", "b"], b"out", b"err"),
    subprocess.TimeoutExpired("cmd", 1.5, b"out"),
    raised(numpy.linalg.inv, numpy.zeros((2, 2))),
    raised(b"\xff".decode),
    raised(sqlite3.connect(":memory:").execute, "no"),
    socket.gaierror(-2, "Name or service not known"),
    socket.herror(1, "host"),
    urllib.error.URLError("no host"),
    asyncio.CancelledError("m"),
    asyncio.InvalidStateError("m"),
    asyncio.QueueEmpty(),
    asyncio.IncompleteReadError(b"part", 10),
    raised(zlib.decompress, b"no"),
    raised(struct.unpack, "i", b""),
    raised(binascii.unhexlify, "x"),
    raised(lzma.decompress, b"no"),
    concurrent.futures.CancelledError(),
    concurrent.futures.InvalidStateError("m"),
    concurrent.futures.BrokenExecutor("m"),
    concurrent.futures.TimeoutError("m"),
    configparser.NoSectionError("name"),
    raised(next, csv.reader(["\0" if sys.version_info < (3, 11) else '"'], strict=True)),
    raised(decimal.Decimal, "no"),
    raised(decimal.Decimal.__truediv__, decimal.Decimal(1), decimal.Decimal(0)),
    decimal.DivisionByZero("m"),
    re.error("m", "pattern(", 3),
    ssl.SSLError(1, "text"),
    ssl.SSLCertVerificationError(1, "text"),
    tarfile.ReadError("m"),
    zipfile.BadZipFile("m"),
    raised(ipaddress.IPv4Address, "no"),
    raised(ipaddress.IPv4Network, "1.1.1.1/99"),
    raised(broken_barrier),
    raised(ast.literal_eval, "("),
    DeprecationWarning("m"),
    numpy.exceptions.AxisError(3, 2),
    UserWarning("m"),
]


@each_of(sent=EXCEPTIONS)
def test_exceptions_of_libraries(way, sent):
    got = way.carry(sent)
    assert type(got) is type(sent) and str(got) == str(sent) and repr(got) == repr(sent)
    assert repr(got.args) == repr(sent.args)
    assert sorted(map(repr, vars(got).items())) == sorted(map(repr, vars(sent).items()))


def test_an_answer_of_http(way):
    headers = Message()
    headers["Retry-After"] = "5"
    sent = urllib.error.HTTPError("http://host/", 503, "Busy", headers, io.BytesIO(b"body"))
    got = way.carry(sent)
    assert type(got) is urllib.error.HTTPError and str(got) == str(sent) == "HTTP Error 503: Busy"
    assert (got.code, got.url, got.headers["Retry-After"]) == (503, "http://host/", "5")
    sent.close()
    got.close()


def test_registered_exceptions_with_other_arguments(way):
    for cls in (Wanting, NotFound, Undecoded, Unimported):
        way.packer.classes.add(values.describe(cls))
    got = way.carry(Wanting("k", where="here"))
    assert type(got) is Wanting and got.where == "here" and str(got) == str(Wanting("k", where="here"))
    got = way.carry(NotFound(2, "no", "file"))
    assert (got.errno, got.filename, type(got)) == (2, "file", NotFound)
    sent = Undecoded("path", raised(b"a\xff".decode))
    got = way.carry(sent)
    assert type(got) is Undecoded and got.path == "path" and str(got) == str(sent)
    assert (got.encoding, got.object, got.start) == ("utf-8", b"a\xff", 1)
    got = way.carry(Unimported("text", name="module", path="file"))
    assert (str(got), got.name, got.path) == ("text", "module", "file")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups came with Python 3.11")
def test_a_member_of_a_group_that_is_unknown_leaves_its_text(way):
    strange = Strange("why")
    strange.__cause__ = KeyError("below")
    inner = ExceptionGroup("inner", [strange, OSError(2, "no", "file")])  # noqa: F821
    got = way.carry(ExceptionGroup("outer", [ValueError(1), inner, queue.Empty()]))  # noqa: F821
    assert type(got).__name__ == "ExceptionGroup" and got.message == "outer"
    assert [type(member) for member in got.exceptions] == [ValueError, type(got), queue.Empty]
    told, found = got.exceptions[1].exceptions
    assert type(told) is RemoteError and told.kind == f"{__name__}.Strange" and told.text == "why"
    assert type(told.__cause__) is KeyError and found.filename == "file"
    way.packer.classes.add(values.describe(OwnGroup))
    got = way.carry(OwnGroup("own", [strange]))
    assert type(got) is OwnGroup and type(got.exceptions[0]) is RemoteError


def test_an_exception_of_a_program_must_be_registered(way):
    with pytest.raises(NotPackable, match=r"@rmi\.value above class Strange"):
        way.pack(Strange("x"))


# What is not found, and what a stranger may not have


def test_the_module_must_be_imported_already_at_the_receiver(way, tmp_path, monkeypatch):
    (tmp_path / "a_module_of_the_sender.py").write_text("class Own(list): pass\nraise_if_imported = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    import a_module_of_the_sender as module

    body, segments = way.pack([module.Own([1])])
    assert way.unpack(body, segments) == [[[1]]]
    monkeypatch.delitem(sys.modules, module.__name__)
    fresh = codec.Unpacker(values.ClassTable())
    with pytest.raises(VersionMismatch, match="a_module_of_the_sender is not imported here: import it"):
        fresh.unpack_frame(body, segments)
    assert module.__name__ not in sys.modules
    monkeypatch.setitem(sys.modules, module.__name__, types.ModuleType(module.__name__))
    fresh = codec.Unpacker(values.ClassTable())
    with pytest.raises(VersionMismatch, match="has no such class here"):
        fresh.unpack_frame(body, segments)


def test_a_class_of_the_other_program(way):
    with pytest.raises(VersionMismatch, match="define the class in a module that both ends import"):
        forged(way, "__main__", "Row", values.FILLED, ("list",), PAIR_OF_LIST)


def test_threads_meet_a_library_at_once(way):
    table = values.ClassTable()
    barrier = threading.Barrier(8)

    def carry(found: list[Any]) -> None:
        barrier.wait(30)
        one_way = Way(table)
        found.append(one_way.carry([ipaddress.ip_address("::1"), re.compile("a")]))

    found: list[Any] = []
    threads = [threading.Thread(target=carry, args=(found,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[ipaddress.ip_address("::1"), re.compile("a")]] * 8


class Doomed(list):
    def __del__(self) -> None:
        """Of a program that ends something then."""


class Reduced(dict):
    def __reduce__(self) -> Any:
        return dict, ()


class Twice(list):
    pass


@pytest.mark.parametrize(
    ("kind", "why"), [(Reduced, r"__reduce__\(\) of its own"), (Doomed, r"__del__\(\) of its own")]
)
def test_a_class_that_says_what_is_to_be_done_must_be_registered(way, kind, why):
    value = kind.__new__(kind)
    with pytest.raises(NotPackable, match=why):
        way.pack(value)


def test_a_local_class_is_found_by_nobody(way):
    class Local(list):
        pass

    with pytest.raises(NotPackable, match="define it at the top of a module"):
        way.pack(Local())


def test_both_ends_register_or_neither(way):
    body, segments = way.pack(Twice([1]))
    table = values.ClassTable()
    table.add(values.describe(Twice, pack=list, unpack=Twice))
    with pytest.raises(VersionMismatch, match="is registered here, and the peer has not"):
        codec.Unpacker(table).unpack_frame(body, segments)


def body_of(module: str, path: str, kind: int, fields: tuple[str, ...], state: bytes) -> bytes:
    """A body whose value is said to be of that class."""
    name = f"{module}:{path}"
    text = "\0".join((name, *fields)).encode()
    described = bytes([kind]) + struct.pack("<IQ", 0, values.digest_of(name, kind, 0, fields))
    described += bytes([len(text)]) + text
    return b"\1\xc0" + state + described + struct.pack("<I", len(described))


def forged(way: Way, module: str, path: str, kind: int, fields: tuple[str, ...], state: bytes) -> Any:
    """What such a body is made into."""
    body = body_of(module, path, kind, fields, state)
    return codec.Unpacker(values.ClassTable()).unpack_frame(body)


PAIR_OF_LIST = b"\xa2\xb0\x40"  # (([], None))


NAMED_BY_STRANGERS = [
    ("antigravity", "x"),
    ("this", "s"),
    ("os", "system"),
    ("os", "_Environ"),
    ("subprocess", "Popen"),
    ("builtins", "object"),
    ("builtins", "type"),
    ("builtins", "memoryview"),
    ("collections", "abc.Mapping"),
    ("no_such_module_at_all", "X"),
    ("", ""),
    ("..", "X"),
    (__name__, "Strange"),
    (__name__, "Doomed"),
    (__name__, "Reduced"),
    (__name__, "sys.modules"),
    (__name__, "Outer.__class__"),
    (__name__, "collections.OrderedDict"),
    ("numpy", "float64"),
    ("numpy", "ndarray"),
    ("numpy.ma", "MaskedArray"),
]


@each_of(named=NAMED_BY_STRANGERS, kind=[values.FILLED, values.STATE, values.RAISED, values.MEMBERS, values.FIELDS])
def test_a_stranger_names_a_class(way, named, kind):
    before = set(sys.modules)
    with pytest.raises((VersionMismatch, BadFrame)):
        forged(way, *named, kind, ("list",), PAIR_OF_LIST + b"\x40\x40")
    assert {"antigravity", "this"}.isdisjoint(set(sys.modules) - before)


def test_nothing_is_kept_of_the_names_that_a_stranger_sends(way):
    table = values.ClassTable()
    before = set(sys.modules)
    for number in range(100):
        body = body_of(f"package_{number}.module", "Class", values.FILLED, ("list",), PAIR_OF_LIST)
        with pytest.raises(VersionMismatch, match="is not imported here"):
            codec.Unpacker(table).unpack_frame(body)
    assert not (table.libraries or table.by_name or table.by_class) and set(sys.modules) == before


@pytest.mark.parametrize(
    ("named", "kind", "fields", "state"),
    [
        ("Rows", values.FILLED, ("list",), b"\x40"),
        ("Rows", values.FILLED, ("list",), b"\xa2\xe0\x40"),  # a dict, of a list
        ("Rows", values.FILLED, ("list",), b"\xa2\xb0\xb0"),  # attributes in a list
        ("Rows", values.FILLED, ("list",), b"\xa2\xb0\xe1\x01\x01"),  # the attribute 1
        ("Outer.Inner", values.FILLED, ("list",), b"\xa3\xb0\x40\x40"),
        ("Token", values.STATE, ("str",), b"\xa2\x05\x40"),
        ("Metres", values.STATE, ("int",), b"\xa2\x42\x40"),  # True
        ("Pair", values.STATE, ("tuple",), b"\xa2\xb0\x40"),
    ],
)
def test_a_stranger_fills_a_derived_class(way, named, kind, fields, state):
    with pytest.raises(BadFrame):
        forged(way, __name__, named, kind, fields, state)


def test_no_attribute_where_there_is_no_room_for_it(way):
    with pytest.raises(BadFrame, match="has no attribute 'other'"):
        forged(way, __name__, "Token", values.STATE, ("str",), b"\xa2\x80\xe1\x85other\x01")
    assert forged(way, __name__, "Token", values.STATE, ("str",), b"\xa2\x80\xe1\x84line\x01")[0].line == 1


def test_a_member_of_an_int_enum_is_not_made_of_any_number(way):
    with pytest.raises((VersionMismatch, BadFrame)):
        forged(way, __name__, "Level", values.STATE, ("int",), b"\xa2\x05\x40")


# Through a connection


def import_this(here: Any) -> str:
    return __name__  # what is run there is imported there


def raise_it(error: BaseException) -> None:
    raise error


def test_between_two_processes(served):
    served.far.run(import_this)
    store = served.connect(timeout=30.0)
    for sent in (*OF_LIBRARIES, *DERIVED):
        assert same(sent, store.same(sent)) or isinstance(sent, pathlib.PurePath)
    for sent in EXCEPTIONS:
        if isinstance(sent, Exception):
            with pytest.raises(type(sent)) as caught:
                store.call(rmi.callback(raise_it), sent)
            assert type(caught.value) is type(sent) and str(caught.value) == str(sent)
    with pytest.raises(RemoteError, match="Strange: why"):
        store.call(rmi.callback(lambda _: raise_it(Strange("why"))), 1)
    with pytest.raises(RemoteError, match="CancelledError"):  # the caller's own task is not cancelled
        store.call(rmi.callback(lambda _: raise_it(asyncio.CancelledError())), 1)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups came with Python 3.11")
def test_a_group_is_raised(served):
    store = served.connect(timeout=30.0)
    group = ExceptionGroup("both", [ValueError(1), Strange("why")])  # noqa: F821
    with pytest.raises(type(group)) as caught:
        store.call(rmi.callback(lambda _: raise_it(group)), 1)
    assert [str(member) for member in caught.value.exceptions] == ["1", f"{__name__}.Strange: why"]
