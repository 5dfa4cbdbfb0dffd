"""What one call sends comes together: sendmsg(), writelines(), arrays, records of several writers."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading

import numpy
import pytest

from fastsock import buffers, core
from fastsock.array_format import HEADER_BYTES
from fastsock.arrays import send_array
from fastsock.testing import PairMaker
from fastsock.testing.checks.transfer import check_one_send_reaches_a_waiting_receiver_whole
from fastsock.testing.outcomes import receive

from ..helpers.certificates import client_context, issued, server_context
from ..helpers.paths import preferring, why_not

MIB = 1 << 20
SOAK = os.environ.get("FASTSOCK_SOAK") == "1"


@pytest.fixture(autouse=True, scope="module")
def certificate():
    issued()  # before the other process is forked


def _sizes(count, most=65536):
    return [1 + number * 7919 % most for number in range(count)]


def _count_torn(sock, sizes):
    torn = 0
    for size in sizes:
        came = len(sock.recv(1 << 18))
        torn += came != size
        assert len(receive(sock, size - came)) == size - came
        sock.sendall(b"k")
    return torn


@pytest.mark.skipif(why_not("shm") is not None, reason=str(why_not("shm")))
def test_a_chunk_comes_whole():
    """The length of what TCP sends as one segment on one host."""
    sizes = _sizes(600)
    with preferring("shm"), PairMaker("fastsock.socket", transport="shm").pair() as pair:
        counting = pair.far.begin_run(_count_torn, sizes)
        for number, size in enumerate(sizes):
            block = bytes(size)
            parts = [block[:16], block[16 : size // 2], block[max(16, size // 2) :]] if number % 2 else [block]
            assert pair.near.sendmsg(parts) == size
            assert pair.near.recv(1) == b"k"
        assert counting.result() == 0


@pytest.mark.skipif(not SOAK, reason="FASTSOCK_SOAK is not set")
def test_no_message_of_many_is_cut(maker):
    for _ in range(100):
        check_one_send_reaches_a_waiting_receiver_whole(maker)


# ---- headers and what follows them ----

SQUARE = numpy.arange(700 * 700, dtype="f8").reshape(700, 700)
ARRAYS = {"contiguous": SQUARE, "of Fortran": SQUARE.T, "a slice": SQUARE[:, 1::2]}


def _count_lone_headers(sock, header, sizes):
    lone = 0
    for size in sizes:
        came = len(sock.recv(1 << 23))
        lone += came <= header
        receive(sock, size - came)
        sock.sendall(b"k")
    return lone


@pytest.mark.parametrize("what", ARRAYS)
def test_the_header_of_an_array_comes_with_its_items(pair, what):
    array = ARRAYS[what]
    count = 40
    counting = pair.far.begin_run(_count_lone_headers, HEADER_BYTES, [HEADER_BYTES + array.nbytes] * count)
    for _ in range(count):
        send_array(pair.near, array)
        assert pair.near.recv(1) == b"k"
    assert counting.result() == 0


@pytest.mark.skipif(not core.available, reason=core.why_not)
def test_the_header_of_a_copied_buffer_comes_with_its_bytes(pair):
    count = 40
    for size in (1, 5000, 1 << 20):
        with buffers.RegisteredBuffer(size) as buffer:
            sizes = [core.PARCEL_BYTES + size] * count
            counting = pair.far.begin_run(_count_lone_headers, core.PARCEL_BYTES, sizes)
            for _ in range(count):
                assert not buffers.send_buffer(pair.near, buffer)
                assert pair.near.recv(1) == b"k"
            assert counting.result() == 0


def _count_lone_headers_in_tls(sock, sizes):
    with server_context().wrap_socket(sock, server_side=True) as secured:
        return _count_lone_headers(secured, HEADER_BYTES, sizes)


def test_the_header_of_an_array_comes_with_its_items_in_tls(pair):
    sizes = [HEADER_BYTES + SQUARE.nbytes] * 10
    counting = pair.far.begin_run(_count_lone_headers_in_tls, sizes)
    with client_context().wrap_socket(pair.near, server_hostname="localhost") as secured:
        for _ in sizes:
            send_array(secured, SQUARE)
            assert secured.recv(1) == b"k"
    assert counting.result() == 0


# ---- too little room ----


DATA = bytes(range(251)) * 100_000  # more than any path takes of who does not read


def _gathers(total):
    """The data's bytes in gathers of parts of many sizes, some of them empty."""
    data, at = memoryview(DATA), 0
    for number in range(total):
        parts = []
        for part in range(number % 40):
            size = min((part * 997 + number * 31) % (200_000 if part % 13 == 0 else 300), total - at)
            parts.append(data[at : at + size])
            at += size
        yield parts
        if at == total:
            return


def _verify(sock, total):
    at = 0
    while at < total:
        block = sock.recv(50_000)
        assert block and block == DATA[at : at + len(block)], at
        at += len(block)


def _left(parts, sent):
    while parts and sent >= len(parts[0]):
        sent -= len(parts.pop(0))
    if sent:
        parts[0] = parts[0][sent:]


def test_who_does_not_block_sends_the_first_bytes(pair):
    total = len(DATA)
    pair.near.setblocking(False)
    verifying = None
    for parts in _gathers(total):
        while sum(map(len, parts)):
            try:
                _left(parts, pair.near.sendmsg(parts))
            except BlockingIOError:
                if verifying is None:
                    verifying = pair.far.begin_run(_verify, total)
                select.select([], [pair.near], [])
    assert verifying is not None  # it was refused
    verifying.result()


def test_one_with_a_timeout_waits_once(pair):
    pair.near.settimeout(30)
    parts = [memoryview(DATA)[at : at + MIB] for at in range(0, len(DATA), MIB)]
    sent = pair.near.sendmsg(parts)
    assert 0 < sent < len(DATA)
    pair.near.settimeout(0.001)
    with pytest.raises(TimeoutError):
        while True:
            _left(parts, sent)
            sent = pair.near.sendmsg(parts)
    pair.near.settimeout(None)
    verifying = pair.far.begin_run(_verify, len(DATA))
    while parts:
        _left(parts, pair.near.sendmsg(parts))
    verifying.result()


def test_signals_come_in_between(pair):
    heard = []
    before = signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        verifying = pair.far.begin_run(_verify, len(DATA))
        for parts in _gathers(len(DATA)):
            while parts:
                _left(parts, pair.near.sendmsg(parts))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    verifying.result()
    assert heard


# ---- several writers ----

RECORD, RECORDS, WRITERS = 304, 600, 3


def _write_records(sock, name):
    record = bytes([name]) * RECORD
    for _ in range(RECORDS):
        assert sock.sendmsg([record[:4], b"", record[4:]]) == RECORD


def _write_from_threads(sock):
    threads = [threading.Thread(target=_write_records, args=(sock, name)) for name in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _write_from_processes(sock):
    children = []
    for name in range(WRITERS):
        child = os.fork()
        if child == 0:
            try:
                _write_records(sock, name)
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * WRITERS


@pytest.mark.parametrize("write", [_write_from_threads, _write_from_processes])
def test_records_of_several_writers_do_not_mix(pair, write):
    """Nor on TCP, while there is room."""
    writing = pair.far.begin_run(write)
    data = receive(pair.near, WRITERS * RECORDS * RECORD)
    writing.result()
    records = [data[at : at + RECORD] for at in range(0, len(data), RECORD)]
    assert sorted(records) == sorted(bytes([name]) * RECORD for name in range(WRITERS) for _ in range(RECORDS))


# ---- asyncio ----


class _Whole(asyncio.Protocol):
    """Counts what comes, and answers each time."""

    def __init__(self, done):
        self.came, self.done = [], done

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.came.append(len(data))
        self.transport.write(b"k")

    def connection_lost(self, error):
        self.done.set_result(self.came)


def _receive_by_protocol(sock, tls):
    async def serve():
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        context = server_context() if tls else None
        await loop.connect_accepted_socket(lambda: _Whole(done), sock, ssl=context)
        return await done

    return asyncio.run(asyncio.wait_for(serve(), 40))


async def _write_lines(sock, tls, count):
    secured = {"ssl": client_context(), "server_hostname": "localhost"} if tls else {}
    reader, writer = await asyncio.open_connection(sock=sock, **secured)
    for number in range(count):
        size = number * 7 % 2000
        writer.writelines([number.to_bytes(4, "big"), b"", bytes(size), *[b"x"] * (number % 50)])
        assert await reader.read(100) == b"k"
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_lines_of_asyncio_come_together(installed_pair, tls):
    count = 300
    receiving = installed_pair.far.begin_run(_receive_by_protocol, tls)
    asyncio.run(asyncio.wait_for(_write_lines(installed_pair.near, tls, count), 40))
    assert receiving.result() == [4 + number * 7 % 2000 + number % 50 for number in range(count)]
