"""Frames, tables and tensors travel by their arrays; libraries that register their classes; ends that have none."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import random
import subprocess
import sys
import warnings
import zoneinfo
from typing import Any

import numpy
import pytest

from fastsock import rmi
from fastsock.rmi.codec import unregistered, values
from fastsock.rmi.errors import NotPackable, VersionMismatch
from tests.rmi.codecs import Way, codec
from tests.rmi.fuzz_codec import FAULTS, mutate


@pytest.fixture
def way(no_pickle):
    return Way(values.ClassTable())


@pytest.fixture
def no_pickle(monkeypatch):
    """Nobody pickles on the way."""

    def refuse(*arguments: Any, **keywords: Any) -> Any:
        raise AssertionError("a pickle")

    for name in ("loads", "load", "dumps", "dump"):
        monkeypatch.setattr(f"pickle.{name}", refuse)


def is_same_memory(sent: Any, buffer: Any) -> bool:
    return numpy.shares_memory(numpy.asarray(sent), numpy.frombuffer(buffer, "u1"))


# pandas


@pytest.fixture
def pandas():
    return pytest.importorskip("pandas")


def indexes(pandas: Any) -> list[Any]:
    days = pandas.date_range("2024-01-01", periods=4, freq="D")
    return [
        pandas.Index([1, 2, 3], name="numbers"),
        pandas.Index(["a", "b", None], name=("deep", 1)),
        pandas.Index([1.5, float("nan")]),
        pandas.Index([1, "a", None], dtype=object),
        pandas.RangeIndex(1, 10, 2, name="range"),
        days,
        days.tz_localize("Europe/Berlin"),
        pandas.DatetimeIndex(["2024-01-01", None], dtype="M8[s]"),
        pandas.to_timedelta([1, 2], unit="h"),
        pandas.period_range("2024-01", periods=3, freq="M"),
        pandas.CategoricalIndex(["a", "b", "a"], ordered=True),
        pandas.interval_range(0, 4),
        pandas.MultiIndex.from_product([["a", "b"], [1, 2]], names=["letter", None]),
        pandas.Index([True, False]),
        pandas.Index([1, None], dtype="Int64"),
    ]


def series(pandas: Any) -> list[Any]:
    found = [
        pandas.Series([1.5, 2.5], name="x", index=["a", "b"]),
        pandas.Series(["a", None, "grüße"]),
        pandas.Series(["a", None], dtype="string"),
        pandas.Series(["a", None], dtype=pandas.StringDtype("python")),
        pandas.Series([1, None], dtype="Int32"),
        pandas.Series([1.5, None], dtype="Float64"),
        pandas.Series([True, None, False], dtype="boolean"),
        pandas.Series(["a", "b", "a", None], dtype="category"),
        pandas.Series([datetime.datetime(2024, 3, 31, 1, 30), None]),
        pandas.Series(pandas.date_range("2024-10-27", periods=5, freq="h", tz="Europe/Berlin")),
        pandas.Series(pandas.date_range("2024-10-27", periods=5, freq="h", tz="UTC")),
        pandas.Series(pandas.to_timedelta([1, None], unit="s")),
        pandas.Series(pandas.period_range("2024-01", periods=3, freq="Q")),
        pandas.Series(pandas.interval_range(0, 4, closed="left")),
        pandas.Series([{"a": 1}, [2], None, datetime.date(2024, 1, 2)], dtype=object),
        pandas.Series([1 + 2j]),
        pandas.Series([], dtype="f4"),
    ]
    if "pyarrow" in sys.modules:
        found.append(pandas.Series([1, None, 3], dtype="int16[pyarrow]"))
        found.append(pandas.Series([[1], None], dtype=pandas.ArrowDtype(sys.modules["pyarrow"].list_(pandas_int()))))
    found[0].attrs["unit"] = "m"
    return found


def pandas_int() -> Any:
    return sys.modules["pyarrow"].int64()


def test_indexes(way, pandas):
    for sent in indexes(pandas):
        got = way.carry(sent)
        pandas.testing.assert_index_equal(got, sent, exact=True)
        assert type(got) is type(sent) and got.names == sent.names and got.dtype == sent.dtype
        assert getattr(got, "freq", None) == getattr(sent, "freq", None)


def test_series(way, pandas):
    pytest.importorskip("pyarrow")
    for sent in series(pandas):
        got = way.carry(sent)
        pandas.testing.assert_series_equal(got, sent, check_freq=False)
        assert type(got) is type(sent) and got.attrs == sent.attrs
        items = way.carry(sent.array)
        assert type(items) is type(sent.array) and pandas.Series(items).equals(pandas.Series(sent.array))


def frames(pandas: Any) -> list[Any]:
    mixed = pandas.DataFrame(
        {
            "i": numpy.arange(3),
            "f": [1.5, None, 2],
            "s": ["a", None, "c"],
            "b": [True, False, True],
            "t": pandas.date_range("2024", periods=3, tz="UTC"),
            ("deep", 1): pandas.Categorical(["a", "b", "a"]),
        },
        index=pandas.Index(["x", "y", "z"], name="key"),
    )
    mixed.attrs["source"] = ["file"]
    twice = pandas.DataFrame([[1, "a", 2.5]], columns=["a", "a", "b"])
    return [
        mixed,
        twice,
        pandas.DataFrame(numpy.arange(6.0).reshape(2, 3), columns=list("abc")),
        pandas.DataFrame(numpy.arange(6).reshape(2, 3))[::-1],
        pandas.DataFrame(index=[1, 2]),
        pandas.DataFrame(columns=["a", "b"]),
        pandas.DataFrame(),
        pandas.DataFrame({"a": [1]}),
        mixed.pivot_table(index="key", columns="b", values="f"),
    ]


def test_frames(way, pandas):
    for sent in frames(pandas):
        got = way.carry(sent)
        pandas.testing.assert_frame_equal(got, sent)
        assert type(got) is pandas.DataFrame and got.attrs == sent.attrs
        got["new"] = 1
        if len(got):
            got.iloc[0, -1] = 2
    only = pandas.DataFrame({"a": [1]}).set_flags(allows_duplicate_labels=False)
    assert not way.carry(only).flags.allows_duplicate_labels
    one, two = way.carry([frames(pandas)[0]] * 2)
    assert one is two


def test_frames_are_not_copied(way, pandas):
    """A frame of one type goes from its own memory, and so does each column of another. What arrives is memory too."""
    array = numpy.arange(20_000.0).reshape(5000, 4)
    whole = pandas.DataFrame(array, copy=False)
    columns = [numpy.arange(5000.0), numpy.arange(5000)]
    mixed = pandas.DataFrame({"a": columns[0], "b": columns[1]}, copy=False)
    for frame, memory in ((whole, [array]), (mixed, columns), (mixed["a"], columns[:1])):
        way.packer.start(16)
        way.packer.pack(frame)
        head, buffers = way.packer.finish()
        assert len(head) < 3000 and len(buffers) == len(memory)
        assert all(map(is_same_memory, memory, buffers))
        body = bytes(head[16:])
        segments = way.received(body, buffers)
        (got,) = way.unpack(body, segments)
        received = got.to_numpy() if got.ndim == 1 or len(memory) == 1 else got["a"].to_numpy()
        assert numpy.shares_memory(received, numpy.frombuffer(segments[0], "u1"))


def test_scalars_of_pandas(way, pandas):
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    for sent in (
        *(pandas.Timestamp("2024-01-02 03:04:05.123456789"), pandas.Timestamp(0, unit="s", tz=zone)),
        *(pandas.Timestamp("2024-10-27 01:30", tz="UTC").tz_convert(zone), pandas.Timedelta(5, unit="ns")),
        *(pandas.Period("2024-01", "M"), pandas.Interval(1, 2), pandas.NaT, pandas.NA, pandas.Timedelta("1D")),
    ):
        got = way.carry([sent])[0]
        assert type(got) is type(sent) and repr(got) == repr(sent)
        assert got is sent or got == sent


def test_what_pandas_has_that_cannot_travel(way, pandas):
    sparse = pandas.DataFrame({"a": pandas.arrays.SparseArray([0, 0, 1])})
    with pytest.raises(NotPackable, match=r"frame\.sparse\.to_dense\(\)"):
        way.pack(sparse)
    assert way.carry(sparse.sparse.to_dense())["a"].tolist() == [0, 0, 1]


# Arrow


@pytest.fixture
def pyarrow():
    return pytest.importorskip("pyarrow")


def arrays(pyarrow: Any) -> list[Any]:
    words = pyarrow.array(["a", None, "grüße", "x" * 100])
    return [
        pyarrow.array([1, None, 3]),
        pyarrow.array([1.5, 2.5], "f4"),
        pyarrow.array([True, None, False] * 10),
        words,
        words.slice(1, 2),
        words.cast(pyarrow.large_string()),
        words.cast(pyarrow.string_view()),
        pyarrow.array([b"a", None]),
        pyarrow.array([b"ab", None], pyarrow.binary(2)),
        pyarrow.array([[1, 2], None, []]),
        pyarrow.array([{"a": 1, "b": "x"}, None]),
        pyarrow.array([[("k", 1)], []], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
        words.dictionary_encode(),
        pyarrow.array([None, None]),
        pyarrow.array([datetime.datetime(2024, 1, 2), None]),
        pyarrow.array([datetime.date(2024, 1, 2)]),
        pyarrow.array([datetime.timedelta(1)]),
        pyarrow.array([], "i4"),
        pyarrow.array(numpy.arange(10_000)).slice(5000, 3),
        pyarrow.array([1, 2], pyarrow.decimal128(10, 2)),
        pyarrow.UnionArray.from_dense(pyarrow.array([0, 1], "i1"), pyarrow.array([0, 0], "i4"), [words, words]),
        pyarrow.RunEndEncodedArray.from_arrays([3, 5], [1, 2]),
    ]


def test_arrays_of_arrow(way, pyarrow):
    for sent in arrays(pyarrow):
        got = way.carry(sent)
        assert type(got) is type(sent) and got.type == sent.type and got.equals(sent)
        if pyarrow.types.is_union(sent.type) or pyarrow.types.is_run_end_encoded(sent.type):
            with pytest.raises(NotPackable, match=r"scalar\.as_py\(\)"):
                way.pack(sent[0])
            continue
        scalar = way.carry(sent[0]) if len(sent) else None
        assert scalar is None or (type(scalar) is type(sent[0]) and scalar.as_py() == sent[0].as_py())


def test_tables_of_arrow(way, pyarrow):
    names = [str(number) for number in range(5)]
    batch = pyarrow.RecordBatch.from_arrays(
        [array.slice(0, 2) for array in arrays(pyarrow)[:2]] + [array[:2] for array in arrays(pyarrow)[2:5]], names
    )
    batch = batch.replace_schema_metadata({"k": "v"})
    table = pyarrow.Table.from_batches([batch, batch])
    for sent in (
        *(
            batch,
            table,
            table.slice(1, 2),
            table["1"],
            table.schema,
            table.schema.field(3),
            pyarrow.list_(pyarrow.int8()),
        ),
        *(pyarrow.table({}), pyarrow.chunked_array([], "f8"), pyarrow.table({"a": pyarrow.chunked_array([], "f8")})),
    ):
        got = way.carry(sent)
        assert type(got) is type(sent) and got.equals(sent)
    assert way.carry(table).schema.metadata == {b"k": b"v"}
    assert way.carry(pyarrow.py_buffer(b"abc")).equals(pyarrow.py_buffer(b"abc"))


def test_flat_arrays_of_arrow_are_not_copied(way, pyarrow):
    memory = numpy.arange(10_000.0)
    words = pyarrow.array([str(number) for number in range(10_000)])
    table = pyarrow.table({"a": pyarrow.array(memory), "b": words})
    way.packer.start(16)
    way.packer.pack(table)
    head, buffers = way.packer.finish()
    assert is_same_memory(memory, buffers[0]) and is_same_memory(words.buffers()[2], buffers[2])
    body = bytes(head[16:])
    segments = way.received(body, buffers)
    (got,) = way.unpack(body, segments)
    assert got.equals(table)
    (chunk,) = got["a"].chunks
    assert numpy.shares_memory(chunk.to_numpy(), numpy.frombuffer(segments[0], "u1"))


def forged(value: Any, change: Any) -> Any:
    """What an end says that packs a value otherwise."""
    table = values.ClassTable()
    packer = codec.Packer(table)
    packer.pack_frame(0, [value])  # the library has registered its classes
    known = table.by_class[type(value)]
    honest = known.pack
    known.pack = lambda value: change(honest(value))
    packer = codec.Packer(table)
    frame, buffers = packer.pack_frame(0, [value])
    way = Way(values.ClassTable())
    body = bytes(frame)
    return way.unpack(body, way.received(body, buffers))


def test_offsets_that_lie(way, pyarrow):
    words = pyarrow.array(["ab", "cd"])

    def beyond(state: Any) -> Any:
        kind, (length, (validity, _, data)) = state
        return kind, (length, [validity, numpy.array([0, 2, 1 << 30], "i4").view("u1"), data])

    def longer(state: Any) -> Any:
        kind, (_, parts) = state
        return kind, (1 << 40, parts)

    def fewer(state: Any) -> Any:
        kind, (length, parts) = state
        return kind, (length, parts[:1])

    def of_a_dictionary(state: Any) -> Any:
        schema = pyarrow.schema([pyarrow.field("", pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))])
        return schema.serialize().to_pybytes(), (2, [None, numpy.zeros(8, "u1")])  # Arrow itself aborts

    for change in (
        beyond,
        longer,
        fewer,
        of_a_dictionary,
        lambda state: (b"no schema", state[1]),
        lambda state: (state[0], 5),
    ):
        with pytest.raises(rmi.RmiError):
            forged(words, change)
    nested = pyarrow.array([["ab"], ["c"]])

    def damaged(at: int) -> Any:
        def change(state: Any) -> Any:
            kind, (length, parts) = state
            joined = numpy.concatenate(parts)
            joined[at] ^= 0xFF
            return kind, (length, [joined])

        return change

    _, (_, parts) = _pack_of(nested)
    for at in range(sum(map(len, parts))):
        try:
            (got,) = forged(nested, damaged(at))
        except rmi.RmiError:
            continue
        got.to_pylist()


def _pack_of(value: Any) -> Any:
    table = values.ClassTable()
    codec.Packer(table).pack_frame(0, [value])
    return table.by_class[type(value)].pack(value)


# torch


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def test_tensors(way, torch):
    for sent in (
        *(torch.arange(6.0).reshape(2, 3), torch.arange(6).reshape(2, 3).T, torch.tensor(5), torch.zeros(0, 3)),
        *(
            torch.tensor([True]),
            torch.tensor([1 + 2j]),
            torch.tensor([1 + 2j]).conj(),
            torch.zeros(3, dtype=torch.bfloat16),
        ),
        *(
            torch.arange(4).to(torch.float8_e4m3fn),
            torch.zeros(2, requires_grad=True),
            torch.nn.Parameter(torch.ones(2)),
        ),
        *(torch.arange(10)[::2], torch.zeros(2, 3, dtype=torch.float16), torch.ones(3, dtype=torch.uint8)),
    ):
        got = way.carry(sent)
        assert type(got) is type(sent) and got.dtype == sent.dtype and got.shape == sent.shape
        assert got.requires_grad == sent.requires_grad
        assert torch.equal(got.to(torch.complex64), sent.to(torch.complex64))
    for sent in (torch.Size([1, 2]), torch.float32, torch.bfloat16, torch.device("cpu"), torch.device("cuda", 1)):
        got = way.carry(sent)
        assert got == sent and type(got) is type(sent)
    state = torch.nn.Linear(2, 3).state_dict()
    got = way.carry(state)
    assert type(got) is type(state) and list(got) == list(state) and got._metadata == state._metadata


def test_tensors_are_not_copied(way, torch):
    for sent in (torch.arange(10_000.0), torch.zeros(10_000, dtype=torch.bfloat16)):
        way.packer.start(16)
        way.packer.pack(sent)
        head, buffers = way.packer.finish()
        assert numpy.frombuffer(buffers[0], "u1").ctypes.data == sent.data_ptr()
        body = bytes(head[16:])
        segments = way.received(body, buffers)
        (got,) = way.unpack(body, segments)
        assert got.data_ptr() == numpy.frombuffer(segments[0], "u1").ctypes.data
        got += 1


def test_what_torch_has_that_cannot_travel(way, torch):
    computed = torch.ones(2, requires_grad=True) * 2
    with pytest.raises(NotPackable, match=r"tensor\.detach\(\)"):
        way.pack(computed)
    assert torch.equal(way.carry(computed.detach()), computed)
    sparse = torch.eye(3).to_sparse()
    with pytest.raises(NotPackable, match=r"tensor\.to_dense\(\)"):
        way.pack(sparse)
    assert torch.equal(way.carry(sparse.to_dense()), torch.eye(3))
    with pytest.raises(NotPackable, match=r"tensor\.cpu\(\)"):
        way.pack(torch.zeros(2, device="meta"))


# Any library


class Money:
    def __init__(self, units: int) -> None:
        self.units = units


Money.__module__ = "bank.money"
Money.__qualname__ = "Money"


def register_money(register: Any) -> None:
    register(Money, name="bank:Money", pack=lambda value: value.units, unpack=Money)


def register_without_the_bank(register: Any) -> None:
    import bank  # noqa: F401


@pytest.fixture
def installed(monkeypatch):
    """installed(function): a distribution has an entry point `bank` that names it."""

    def install(function: str | None) -> None:
        point = importlib.metadata.EntryPoint("bank", f"{__name__}:{function}", unregistered.GROUP)
        found = [] if function is None else [point]
        monkeypatch.setattr(
            importlib.metadata, "entry_points", lambda group: found if group == unregistered.GROUP else []
        )
        unregistered.entry_points.cache_clear()

    yield install
    monkeypatch.undo()
    unregistered.entry_points.cache_clear()


def test_a_library_registers_its_classes_when_they_are_met(way, installed):
    installed(None)
    with pytest.raises(NotPackable, match="Money is not registered"):
        way.pack(Money(5))
    installed("register_money")
    fresh = Way(values.ClassTable(), receiving=values.ClassTable())
    body, _ = fresh.pack([Money(5)])
    assert fresh.unpack(body)[0][0].units == 5
    installed(None)
    with pytest.raises(VersionMismatch, match=r"bank is not imported here.*entry point of fastsock\.rmi\.values"):
        codec.Unpacker(values.ClassTable()).unpack_frame(body)
    installed("register_without_the_bank")
    with pytest.raises(VersionMismatch, match=r"No module named 'bank'.*pip install bank"):
        codec.Unpacker(values.ClassTable()).unpack_frame(body)
    with pytest.raises(NotPackable, match=r"No module named 'bank'"):
        Way(values.ClassTable()).pack(Money(5))
    installed("no_such_function")
    with pytest.raises(VersionMismatch, match="no_such_function, failed: AttributeError"):
        codec.Unpacker(values.ClassTable()).unpack_frame(body)


def test_what_a_program_registers_itself_comes_first(way, installed):
    installed("register_money")
    way.packer.classes.add(values.describe(Money, pack=lambda value: str(value.units), unpack=lambda text: int(text)))
    assert way.carry(Money(5)) == 5


@pytest.mark.parametrize("library", ["pandas", "pyarrow", "torch"])
def test_a_receiver_without_the_library(way, monkeypatch, library):
    module = pytest.importorskip(library)
    value = {"pandas": "Index", "pyarrow": "array", "torch": "tensor"}[library]
    body, segments = way.pack(getattr(module, value)([1, 2]))
    monkeypatch.setitem(sys.modules, library, None)  # an import of it fails
    monkeypatch.delitem(sys.modules, f"fastsock.rmi.codec.libraries.of_{library}")
    with pytest.raises(
        VersionMismatch, match=rf"the peer sent a {library}\..*install what is missing.*pip install {library}"
    ):
        codec.Unpacker(values.ClassTable()).unpack_frame(body, segments)


def test_nothing_is_imported_before_it_is_met():
    text = (
        "import sys; from fastsock.rmi import codec; from fastsock.rmi.codec import values\n"
        "codec.Packer(values.classes).pack_frame(0, [1, 'a', {'b': [2.5]}])\n"
        "print([name for name in ('pandas', 'pyarrow', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


# Bytes that no packer wrote


@pytest.mark.parametrize("library", ["pandas", "pyarrow", "torch"])
def test_changed_frames_end_in_an_error(way, request, library):
    module = request.getfixturevalue(library)
    sent: list[Any] = {
        "pandas": lambda: [*indexes(module), *frames(module)],
        "pyarrow": lambda: arrays(module),
        "torch": lambda: [module.arange(6.0), module.zeros(3, dtype=module.bfloat16), module.Size([1, 2])],
    }[library]()
    table = way.packer.classes
    bodies = [Way(table).pack(value) for value in sent]  # each describes its classes
    rng = random.Random(7)
    for _ in range(2000):
        body, segments = rng.choice(bodies)
        with contextlib.suppress(rmi.RmiError, *FAULTS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for value in codec.Unpacker(table).unpack_frame(mutate(rng, body), segments):
                repr(value)


# Through a connection


def test_between_two_processes(served, pandas):
    store = served.connect(timeout=60.0)
    frame = pandas.DataFrame({"a": numpy.arange(3000.0), "b": numpy.arange(3000)})
    pandas.testing.assert_frame_equal(store.same(frame), frame)
    assert store.size(frame) == 3000
