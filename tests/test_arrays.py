"""Typed arrays over any stream: the standard library's sockets, TLS, and a stream in memory that tears its data."""

from __future__ import annotations

import contextlib
import pickle
import socket
import ssl
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fastsock import array_format, arrays
from fastsock.arrays import (
    ArrayFormatError,
    ArrayMismatchError,
    MidArrayError,
    MidArrayTimeout,
    recv_array,
    recv_array_into,
    send_array,
)

unhurried = settings(deadline=None)  # a busy machine is no failure

MEGABYTE = 1 << 20
Pair = tuple[socket.socket, socket.socket]


# The streams


class Memory:
    """One end of a stream, held in memory: what is sent to it comes out in pieces as a list says."""

    transport = "memory"

    def __init__(self, data: bytes = b"", pieces: tuple[int, ...] = ()) -> None:
        self.data = bytearray(data)
        self.pieces = list(pieces)
        self.is_shut = False

    def sendall(self, data: object, flags: int = 0) -> None:
        self.data += memoryview(data).cast("B") if isinstance(data, (bytes, memoryview)) else bytes(data)  # type: ignore

    def recv(self, count: int) -> bytes:
        piece = self.pieces.pop() if self.pieces else count
        taken = bytes(self.data[: min(count, piece)])
        del self.data[: len(taken)]
        return taken

    def recv_into(self, out: object, count: int = 0, flags: int = 0) -> int:
        view = memoryview(out if isinstance(out, memoryview) else out.reshape(-1).view("u1"))  # type: ignore
        taken = self.recv(count or len(view))
        view[: len(taken)] = taken
        return len(taken)

    def shutdown(self, how: int) -> None:
        self.is_shut = True


def unix_pair() -> Pair:
    return socket.socketpair()


def tcp_pair() -> Pair:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        return near, listener.accept()[0]


def tls_pair() -> Pair:
    """TLS without certificates, which here prove nothing."""
    contexts = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for context in contexts:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("AECDH-AES256-SHA:@SECLEVEL=0")
    contexts[0].check_hostname = False
    contexts[0].verify_mode = ssl.CERT_NONE
    near, far = tcp_pair()
    wrapped: list[ssl.SSLSocket] = []
    greeting = threading.Thread(target=lambda: wrapped.append(contexts[1].wrap_socket(far, server_side=True)))
    greeting.start()
    secured = contexts[0].wrap_socket(near)
    greeting.join()
    return secured, wrapped[0]


@pytest.fixture(params=[unix_pair, tcp_pair, tls_pair], ids=["unix", "tcp", "tls"])
def ends(request: pytest.FixtureRequest) -> Iterator[Pair]:
    near, far = request.param()
    with near, far:
        yield near, far


@contextlib.contextmanager
def beside(work: Callable[..., object], *args: object) -> Iterator[list[BaseException]]:
    """Do something in a thread during the block; gives the list that holds what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work(*args)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield raised
    finally:
        thread.join()


def assert_same(received: np.ndarray, sent: np.ndarray) -> None:
    assert type(received) is np.ndarray
    assert received.dtype == sent.dtype and received.shape == sent.shape
    if sent.dtype.itemsize:
        # Bare bytes: not-a-number, negative zero, padding and invalid text must come as they went.
        bare = f"V{sent.dtype.itemsize}"
        assert np.array(received).view(bare).tobytes() == np.array(sent, order="C").view(bare).tobytes()


def round_trip(array: object, pieces: tuple[int, ...] = ()) -> np.ndarray:
    stream = Memory()
    send_array(stream, array)  # type: ignore[arg-type]
    stream.pieces = list(pieces)
    received = recv_array(stream)  # type: ignore[arg-type]
    assert not stream.data
    return received


# Round trips

DTYPES = st.one_of(
    hnp.scalar_dtypes(),
    hnp.unicode_string_dtypes(),
    hnp.byte_string_dtypes(),
    hnp.array_dtypes(hnp.scalar_dtypes(), allow_subarrays=True),
    hnp.nested_dtypes(hnp.scalar_dtypes(), max_itemsize=100),
).filter(lambda dtype: dtype.subdtype is None)


@st.composite
def any_array(draw: st.DrawFn) -> np.ndarray:
    """An array of any dtype and shape, seen through any slices, steps, transpositions and reversals."""
    dtype = draw(DTYPES)
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=6, min_side=0, max_side=5))
    count = int(np.prod(shape))
    fill = draw(st.binary(min_size=1, max_size=16))
    memory = (fill * (count * dtype.itemsize // len(fill) + 1))[: count * dtype.itemsize]
    array = np.ndarray(shape, dtype, bytearray(memory) or None, order=draw(st.sampled_from("CF")))
    if draw(st.booleans()):
        indices = draw(hnp.basic_indices(shape, allow_newaxis=True, max_dims=8))
        indices = indices if isinstance(indices, tuple) else (indices,)
        array = array[indices if ... in indices else (*indices, ...)]  # with ..., never a bare scalar
    if draw(st.booleans()):
        array = array.transpose(draw(st.permutations(range(array.ndim))))
    return array


@unhurried
@given(any_array(), st.lists(st.integers(1, 100), max_size=20).map(tuple))
def test_every_array_comes_back_however_the_stream_is_torn(array: np.ndarray, pieces: tuple[int, ...]) -> None:
    assert_same(round_trip(array, pieces), array)
    assert_same(round_trip(array, pieces), array)  # now by what was remembered


@unhurried
@given(any_array(), st.data())
def test_every_array_is_received_into_any_strides(array: np.ndarray, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(array.ndim)))
    steps = data.draw(st.lists(st.sampled_from([1, 2, -1, -3]), min_size=array.ndim, max_size=array.ndim))
    whole = np.ndarray([array.shape[axis] * abs(steps[axis]) for axis in order], array.dtype)
    out = whole.transpose(np.argsort(order))[(*(slice(None, None, step) for step in steps), ...)]
    assert out.shape == array.shape
    for _ in range(2):
        stream = Memory()
        send_array(stream, array)  # type: ignore[arg-type]
        stream.pieces = data.draw(st.lists(st.integers(1, 100), max_size=20))
        assert recv_array_into(stream, out) is out  # type: ignore[arg-type]
        assert_same(out, array)
        assert not stream.data
        if array.dtype.itemsize and out.size:
            out.view(f"V{array.dtype.itemsize}")[...] = b""


@pytest.mark.parametrize(
    "array",
    [
        np.float64(2.5),
        [[1, 2], [3, 4]],
        memoryview(b"abc"),
        np.broadcast_to(np.arange(3), (4, 3)),
        np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.zeros((1,) * 32),
        np.array(["2020-01-01", "NaT"], "M8[D]"),
        np.array(7, ">u8"),
        np.zeros(3, np.longdouble),
    ],
    ids=lambda array: f"{type(array).__name__}-{np.asarray(array).dtype}",
)
def test_particular_arrays_come_back(array: object) -> None:
    assert_same(round_trip(array), np.asarray(array).view(np.ndarray).view(np.asarray(array).dtype))


def test_fortran_order_is_kept() -> None:
    assert round_trip(np.asfortranarray(np.ones((3, 4)))).flags.f_contiguous
    assert round_trip(np.ones((3, 4))).flags.c_contiguous
    assert round_trip(np.ones((30, 40)).T[:, ::2]).flags.f_contiguous


BIG = np.arange(6 * MEGABYTE // 8, dtype="f8").reshape(768, 1024)


@pytest.mark.parametrize(
    "array",
    [
        BIG,
        BIG.T,
        BIG[::2],
        BIG[:, 5:1000:3],
        BIG[::-1, ::-1],
        BIG.reshape(2, 3, 128, 1024)[:, 1:, ::2],
        BIG.reshape(3, 4, 1 << 16)[:, ::3],  # contiguous runs above the gathering buffer
        BIG.view("M8[us]"),
        BIG.view([("a", "f8"), ("b", ">i4"), ("c", "S4")])[1:, ::2],
        np.zeros((3, 4), "V100000")[:, ::2],  # single items above it
        np.zeros(MEGABYTE, "?")[1:],
        np.full(200_000, "ö"),
    ],
    ids=lambda array: f"{array.dtype.kind}{array.shape}",
)
def test_large_arrays_over_real_streams(ends: Pair, array: np.ndarray) -> None:
    near, far = ends
    with beside(send_array, near, array) as raised:
        assert_same(recv_array(far), array)
    out = np.empty(array.shape[::-1], array.dtype).T
    with beside(send_array, far, array) as more:
        recv_array_into(near, out)
    assert_same(out, array)
    assert not raised and not more


def test_small_arrays_over_real_streams(ends: Pair) -> None:
    near, far = ends
    for count in (1, 1, 2, 3, 1):
        for dtype in ("f8", "M8[s]", "U4", ">c16", "?", [("a", "f4"), ("b", "M8[D]")]):
            array = np.zeros(count, dtype)
            send_array(near, array)
            assert_same(recv_array(far), array)
            send_array(far, array)
            out = np.empty_like(array)
            recv_array_into(near, out)
            assert_same(out, array)


def test_arrays_and_other_bytes_share_a_stream(ends: Pair) -> None:
    near, far = ends
    near.sendall(b"before")
    send_array(near, np.arange(3))
    near.sendall(b"between")
    send_array(near, np.zeros((0, 5)))
    near.sendall(b"after")
    assert far.recv(6) == b"before"
    assert_same(recv_array(far), np.arange(3))
    assert far.recv(7) == b"between"
    assert recv_array(far).shape == (0, 5)
    assert far.recv(5) == b"after"


def test_between_two_processes() -> None:
    code = (
        "import socket, sys; from fastsock.arrays import recv_array, send_array\n"
        "with socket.create_connection(('127.0.0.1', int(sys.argv[1]))) as sock:\n"
        "    for _ in range(4): send_array(sock, recv_array(sock)[::2])"
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = subprocess.Popen([sys.executable, "-c", code, str(listener.getsockname()[1])])
        try:
            with listener.accept()[0] as sock:
                for array in (np.arange(10.0), BIG, BIG.T, np.zeros(9, "M8[ms]")):
                    send_array(sock, array)
                    assert_same(recv_array(sock), array[::2])
                with pytest.raises(EOFError):
                    recv_array(sock)
        finally:
            assert child.wait() == 0


def test_two_streams_at_once_do_not_mix() -> None:
    def exchange(pair: Pair, value: int) -> None:
        for count in range(200):
            array = np.full((2, 3 + count % 5), value, "i8")
            send_array(pair[0], array)
            assert_same(recv_array(pair[1]), array)

    with contextlib.ExitStack() as stack:
        pairs = [unix_pair() for _ in range(3)]
        for end in sum(pairs, ()):
            stack.enter_context(end)
        failures = [stack.enter_context(beside(exchange, pair, number)) for number, pair in enumerate(pairs)]
    assert not any(failures)


def test_what_was_received_belongs_to_the_receiver_alone() -> None:
    for dtype in ([("a", "f8"), ("b", "i4")], [("a", [("b", "f8")])], [("a", [("b", "f8")], (2,))]):
        array = np.zeros(3, dtype)
        for _ in range(3):
            received = round_trip(array)
            assert received.dtype == array.dtype and received.flags.owndata and received.flags.writeable
            for changed in (received.dtype, received.dtype["a"].base):
                if changed.names:
                    changed.names = tuple(name + "x" for name in changed.names)
            assert round_trip(array).dtype == array.dtype


def test_renaming_fields_after_sending_is_seen() -> None:
    array = np.zeros(3, [("a", "f8"), ("b", "i4")])
    round_trip(array)
    array.dtype.names = ("x", "y")
    assert round_trip(array).dtype.names == ("x", "y")


def test_what_is_remembered_is_bounded() -> None:
    for count in range(1, 2000):
        round_trip(np.zeros(count, "u1"))
    assert max(map(len, (arrays._send_headers, arrays._receive_plans, arrays._packed, arrays._unpacked))) <= 512


@pytest.mark.parametrize("array", [np.zeros((2048, 1024)), np.zeros((2048, 2048))[:, ::2]], ids=["whole", "slice"])
def test_no_copy_of_the_whole_is_made(array: np.ndarray) -> None:
    out = np.empty(array.shape[::-1]).T
    near, far = unix_pair()
    with near, far:
        tracemalloc.start()
        try:
            with beside(send_array, near, array):
                recv_array_into(far, out)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < MEGABYTE < array.nbytes


# What is refused


@pytest.mark.parametrize(
    ("array", "what"),
    [
        (np.array([None]), r"holds Python objects.*pickle it"),
        (np.zeros(2, [("a", "O")]), "holds Python objects"),
        (np.ma.masked_array([1, 2], [True, False]), r"masked array.*filled"),
    ],
)
def test_what_cannot_be_sent(array: np.ndarray, what: str) -> None:
    stream = Memory()
    with pytest.raises(TypeError, match=what):
        send_array(stream, array)  # type: ignore[arg-type]
    assert not stream.data


def read_only() -> np.ndarray:
    array = np.zeros(3)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("out", "what"),
    [
        (read_only(), "read-only"),
        ([0.0, 0.0, 0.0], r"numpy array, not list.*frombuffer"),
        (bytearray(24), r"numpy array, not bytearray.*frombuffer"),
        (np.ma.zeros(3), r"MaskedArray; use out\.data"),
        (np.zeros(3, "O"), "Python objects"),
    ],
)
def test_what_cannot_be_received_into(out: np.ndarray, what: str) -> None:
    stream = Memory()
    send_array(stream, np.ones(3))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=what):
        recv_array_into(stream, out)  # type: ignore[arg-type]
    assert_same(recv_array(stream), np.ones(3))  # type: ignore[arg-type]


@pytest.mark.parametrize("out", [np.zeros(4), np.zeros((3, 1)), np.zeros(3, "i8"), np.zeros(3, ">f8")], ids=repr)
def test_mismatch_leaves_the_payload_in_the_stream(out: np.ndarray) -> None:
    array = np.arange(3.0)
    for _ in range(2):  # unknown, then remembered
        stream = Memory()
        send_array(stream, array)  # type: ignore[arg-type]
        with pytest.raises(ArrayMismatchError, match=r"shape \(3,\) and dtype float64 arrives, but out") as caught:
            recv_array_into(stream, out)  # type: ignore[arg-type]
        error = pickle.loads(pickle.dumps(caught.value))
        assert str(error) == str(caught.value)
        assert (error.shape, error.dtype, error.payload_bytes) == (array.shape, array.dtype, array.nbytes)
        assert stream.data == array.tobytes() and not stream.is_shut


def test_more_than_max_bytes_is_refused_before_memory_is_taken() -> None:
    for _ in range(2):
        stream = Memory()
        send_array(stream, np.zeros(100))  # type: ignore[arg-type]
        with pytest.raises(ArrayFormatError, match=r"800 bytes, more than max_bytes=799"):
            recv_array(stream, max_bytes=799)  # type: ignore[arg-type]
        assert len(stream.data) == 800 and not stream.is_shut
        assert_same(round_trip(np.zeros(100)), np.zeros(100))


def test_the_default_bound() -> None:
    stream = Memory(array_format.pack_header(np.dtype("u1"), ((1 << 32) + 1,), False))
    with pytest.raises(ArrayFormatError, match="more than max_bytes"):
        recv_array(stream)  # type: ignore[arg-type]


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\x93NUMPY", b"\x93FSA\x07" + bytes(59), b"x"])
def test_what_is_no_array_shuts_the_connection_down(ends: Pair, data: bytes) -> None:
    near, far = ends
    near.sendall(data)  # and no more: what is wrong is seen at once
    with pytest.raises(ArrayFormatError):
        recv_array(far)
    with contextlib.suppress(ssl.SSLError, ConnectionError):  # TLS calls an end without goodbye an error
        assert near.recv(1) == b""
    assert far.fileno() != -1


@unhurried
@given(st.binary(max_size=200), st.booleans())
def test_hostile_bytes_give_an_array_or_a_clear_error(data: bytes, magic: bool) -> None:
    stream = Memory(array_format.MAGIC + b"\1" + data if magic else data)
    with contextlib.suppress(ArrayFormatError, MidArrayError, EOFError):
        assert recv_array(stream, max_bytes=10_000).nbytes <= 10_000  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # of an array of long items
@unhurried
@given(any_array(), st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=3), st.integers(0, 1000))
def test_damaged_arrays_give_an_array_or_a_clear_error(
    array: np.ndarray, changes: list[tuple[int, int]], cut: int
) -> None:
    stream = Memory()
    send_array(stream, array)  # type: ignore[arg-type]
    for place, value in changes:
        stream.data[place % len(stream.data)] = value
    del stream.data[cut:]
    with contextlib.suppress(ArrayFormatError, MidArrayError, EOFError):
        assert recv_array(stream, max_bytes=10_000).nbytes <= 10_000  # type: ignore[arg-type]


# Ends and timeouts


def test_end_between_arrays(ends: Pair) -> None:
    near, far = ends
    send_array(near, np.arange(3))
    near.shutdown(socket.SHUT_WR)
    recv_array(far)
    with pytest.raises(EOFError, match="after its last array"):
        recv_array(far)
    with pytest.raises(EOFError):
        recv_array_into(far, np.zeros(3))


@pytest.mark.parametrize("cut", [1, 63, 64, 65, 70, 87])
@pytest.mark.parametrize("dtype", ["f8", "M8[s]", [("a", "f8")]], ids=str)
def test_end_within_an_array(cut: int, dtype: object) -> None:
    array = np.zeros(3, dtype)
    for into in (False, True):
        round_trip(array)
        stream = Memory()
        send_array(stream, array)  # type: ignore[arg-type]
        del stream.data[cut:]
        with pytest.raises(MidArrayError, match=r"closed the connection within .* after \d+ of \d+ bytes"):
            recv_array_into(stream, array) if into else recv_array(stream)  # type: ignore[arg-type]


def test_timeout_between_arrays_may_be_repeated() -> None:
    near, far = unix_pair()
    with near, far:
        far.settimeout(0.01)
        with pytest.raises(TimeoutError) as caught:
            recv_array(far)
        assert not isinstance(caught.value, MidArrayError)
        far.setblocking(False)
        with pytest.raises(BlockingIOError):
            recv_array(far)
        send_array(near, np.arange(3))
        assert_same(recv_array(far), np.arange(3))


@pytest.mark.parametrize("count", [3, 100_000])
@pytest.mark.parametrize("cut", [1, 64, 80])
@pytest.mark.parametrize("into", [False, True])
@pytest.mark.parametrize("timeout", [0.01, 0])
def test_no_more_data_within_an_array(count: int, cut: int, into: bool, timeout: float) -> None:
    stream = Memory()
    send_array(stream, np.zeros(count))  # type: ignore[arg-type]
    near, far = unix_pair()
    with near, far:
        far.settimeout(timeout)
        near.sendall(stream.data[:cut])
        with pytest.raises(MidArrayError, match=r"now mid-array; close the socket") as caught:
            recv_array_into(far, np.zeros(count)) if into else recv_array(far)
    assert isinstance(caught.value, TimeoutError) == bool(timeout)
    assert f"after {cut if cut < 64 else cut - 64} of {64 if cut < 64 else count * 8} bytes" in str(caught.value)


@pytest.mark.parametrize("array", [np.zeros(10 * MEGABYTE, "u1"), np.zeros(9 * MEGABYTE, "u1")[::2]])
@pytest.mark.parametrize("timeout", [0.01, 0])
def test_nobody_takes_the_array(array: np.ndarray, timeout: float) -> None:
    near, far = unix_pair()
    with near, far:
        near.settimeout(timeout)
        with pytest.raises(MidArrayError, match=r"of \d+ bytes.* may now end within it; close the socket") as caught:
            send_array(near, array)
        assert isinstance(caught.value, MidArrayTimeout) == bool(timeout)
        # A small one that was seen before goes another way, with the same answer.
        small = np.zeros(8)
        round_trip(small)
        with pytest.raises(MidArrayError, match=r"of 64 bytes.* may now end within it"):
            send_array(near, small)


def test_errors_of_the_socket_pass_through() -> None:
    near, far = unix_pair()
    far.close()
    with near, pytest.raises(BrokenPipeError):
        send_array(near, np.arange(3))
    for use in (lambda: send_array(near, np.arange(3)), lambda: recv_array(near)):
        with pytest.raises(OSError, match="Bad file descriptor"):
            use()


def test_importing_it_does_not_load_numpy() -> None:
    code = "import sys, fastsock.arrays; print('numpy' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"
