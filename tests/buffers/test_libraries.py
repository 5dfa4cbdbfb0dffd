"""Views by libraries that export and keep buffers in their own ways: each is counted until it is gone."""

from __future__ import annotations

import array
import ctypes
import gc
import hashlib
import io
import mmap
import struct
import zlib

import pytest

from fastsock import buffers, core

pytestmark = pytest.mark.skipif(not core.available, reason=core.why_not)


@pytest.fixture
def buffer():
    made = buffers.RegisteredBuffer(800)
    made.view("f8")[:] = range(100)
    yield made
    gc.collect()
    made.release()


def is_held(buffer):
    gc.collect()
    try:
        buffer.close_for(False)
    except buffers.ReferencedError:
        return True
    buffer.settle()
    return False


def test_pandas(buffer):
    pandas = pytest.importorskip("pandas")
    series = pandas.Series(buffer.view("f8"), copy=False)
    assert series.sum() == 4950 and is_held(buffer)
    part = series[10:20]
    del series
    assert part.iloc[0] == 10 and is_held(buffer)
    del part
    assert not is_held(buffer)


def test_pyarrow(buffer):
    pyarrow = pytest.importorskip("pyarrow")
    foreign = pyarrow.py_buffer(buffer)
    column = pyarrow.Array.from_buffers(pyarrow.float64(), 100, [None, foreign])
    assert column[99].as_py() == 99.0 and is_held(buffer)
    del foreign
    part = column.slice(5, 5).to_numpy(zero_copy_only=True)
    del column
    assert part[0] == 5.0 and is_held(buffer)
    del part
    assert not is_held(buffer)


def test_scipy(buffer):
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.coo_matrix(buffer.view("f8").reshape(10, 10))
    assert matrix.sum() == 4950
    signal = pytest.importorskip("scipy.fft").fft(buffer.view("f8"))
    assert signal[0].real == 4950
    del matrix, signal
    assert not is_held(buffer)


def test_pillow(buffer):
    image_of = pytest.importorskip("PIL.Image").frombuffer
    image = image_of("L", (40, 20), buffer, "raw", "L", 0, 1)
    assert image.tobytes() == bytes(buffer) and is_held(buffer)
    part = image.crop((0, 0, 8, 1))  # a copy
    del image
    assert part.tobytes() == bytes(8) and not is_held(buffer)


def test_h5py(buffer):
    h5py = pytest.importorskip("h5py")
    with h5py.File("buffer.h5", "w", driver="core", backing_store=False) as file:
        written = file.create_dataset("written", data=buffer.view("f8"))
        assert not is_held(buffer)  # the file has a copy
        file["twice"] = written[:] * 2
        file["twice"].read_direct(buffer.view("f8"))
    assert buffer.view("f8")[99] == 198.0 and not is_held(buffer)


def test_torch(buffer):
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(buffer.view("f8"))
    assert tensor.sum() == 4950 and is_held(buffer)
    del tensor
    assert not is_held(buffer)


@pytest.mark.parametrize(
    "use",
    [
        lambda b: memoryview(b).cast("d"),
        lambda b: (ctypes.c_double * 100).from_buffer(b),
        lambda b: struct.iter_unpack("d", b),
    ],
)
def test_the_standard_library_holds_it(buffer, use):
    held = use(buffer)
    assert is_held(buffer)
    del held
    assert not is_held(buffer)


def test_the_standard_library_reads_and_writes_it(buffer):
    raw = bytes(buffer)
    assert zlib.crc32(buffer) == zlib.crc32(raw)
    assert hashlib.sha256(buffer).digest() == hashlib.sha256(raw).digest()
    assert array.array("d", raw).tobytes() == raw
    io.BytesIO(b"\1" * 800).readinto(buffer)
    assert bytes(buffer) == b"\1" * 800
    struct.pack_into("d", buffer, 8, 2.5)
    assert buffer.view("f8")[1] == 2.5
    with mmap.mmap(-1, 4096) as mapped:
        mapped[:800] = buffer
    assert not is_held(buffer)
