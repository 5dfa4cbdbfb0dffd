"""A peer of the same user that says and passes what no honest one does."""

from __future__ import annotations

import fcntl
import os
import socket as plain
import struct
import time

import pytest

from fastsock import buffers, core
from fastsock.registered import exporter, importer, transfer
from fastsock.testing import PairMaker

from ..helpers.paths import preferring, why_not

pytestmark = [
    pytest.mark.skipif(not core.available, reason=core.why_not),
    pytest.mark.skipif(bool(why_not("shm")), reason=why_not("shm") or ""),
]

F_ADD_SEALS, SHRINK, GROW = 1033, 2, 4
HAND, LINK = getattr(core, "PARCEL_HAND", 0), 77


@pytest.fixture
def ends():
    with preferring("shm"), PairMaker("fastsock.socket", transport="shm").local() as (one, other):
        buffers.expect(other)
        yield one, other


class Liar:
    """Speaks to the importer of this process as an owner does, with the bytes that it is told."""

    def __init__(self, sender):
        self.sock = plain.socket(plain.AF_UNIX, plain.SOCK_SEQPACKET)
        self.sender = sender
        self.word = transfer._carrier_of(sender).other_importer()
        self.sock.connect(exporter.NAME.format(self.word >> exporter.CONNECTION_BITS))

    def memo(self, kind, size=0, number=0, descriptor=None, link=LINK):
        data = core.pack_memo(kind, link, size, number)
        self.say(data, [] if descriptor is None else [descriptor])

    def say(self, data, descriptors=()):
        rights = struct.pack(f"{len(descriptors)}i", *descriptors)
        self.sock.sendmsg([data], [(plain.SOL_SOCKET, plain.SCM_RIGHTS, rights)] if descriptors else [])

    def hello(self):
        self.ledger_memory = core.Memory.make(core.LEDGER_BYTES)
        self.ledger = core.Ledger(self.ledger_memory)
        self.memo(core.MEMO_HELLO, core.LEDGER_BYTES, descriptor=self.ledger_memory.fileno())

    def memory(self, size=8192, number=0):
        self.own = core.Memory.make(size)
        self.memo(core.MEMO_MEMORY, size, number, self.own.fileno())

    def parcel(self, nbytes=100, offset=0, number=0, slot=0, serial=1, link=LINK, kind=None):
        kind = core.PARCEL_HAND if kind is None else kind
        self.sender.sendall(core.pack_parcel(kind, nbytes, offset, self.word, link, number, slot, serial))


@pytest.fixture
def liar(ends):
    made = Liar(ends[0])
    with made.sock:
        yield made


def refused(ends, text):
    with pytest.raises(buffers.BufferFormatError, match=text):
        buffers.recv_buffer(ends[1])


def test_the_liar_is_believed_when_it_does_not_lie(ends, liar):
    liar.hello()
    liar.memory()
    liar.ledger.send(0, 1, liar.word & 0xFFFFFFF)
    liar.parcel()
    with buffers.recv_buffer(ends[1]) as received:
        assert received.nbytes == 100
    assert liar.ledger.state(0, 1) == core.LOAN_RETURNED


@pytest.mark.parametrize("nbytes, offset", [(8193, 0), (1, 8192), (100, 8100), (1 << 31, 0), (1, 1 << 60)])
def test_a_region_out_of_range(ends, liar, nbytes, offset):
    liar.hello()
    liar.memory()
    liar.ledger.send(0, 1, 0)
    liar.parcel(nbytes, offset)
    refused(ends, "region")


@pytest.mark.parametrize("change", [{"number": 1}, {"number": 1 << 31}])
def test_memory_that_nobody_passed(ends, liar, change):
    liar.hello()
    liar.memory()
    liar.parcel(**change)
    refused(ends, "without memory")


def test_a_link_that_there_is_not(ends, liar):
    liar.hello()
    liar.parcel(link=LINK + 1)
    refused(ends, "nobody")


@pytest.mark.parametrize("change", [{"slot": 1}, {"serial": 2}, {"serial": 0}])
def test_a_loan_that_there_is_not(ends, liar, change):
    liar.hello()
    liar.memory()
    liar.ledger.send(0, 1, 0)
    liar.parcel(**change)
    with pytest.raises(buffers.LostBufferError):
        buffers.recv_buffer(ends[1])


def test_a_loan_that_is_taken_twice(ends, liar):
    liar.hello()
    liar.memory()
    liar.ledger.send(0, 1, 0)
    liar.parcel()
    liar.parcel()
    with buffers.recv_buffer(ends[1]), pytest.raises(buffers.LostBufferError):
        buffers.recv_buffer(ends[1])


@pytest.mark.parametrize("change", [{"slot": 1024}, {"slot": 1 << 31}, {"serial": 1 << 62}, {"nbytes": 0}, {"kind": 9},
                                    {"kind": 0}, {"offset": 1 << 63}, {"nbytes": 1 << 63}])  # fmt: skip
def test_numbers_that_there_are_not(ends, liar, change):
    liar.parcel(**change)
    refused(ends, "no ")


def test_two_to_the_sixty(ends, liar):
    ends[0].sendall(core.pack_parcel(core.PARCEL_COPY, 1 << 60))
    refused(ends, "1152921504606846976")


@pytest.mark.parametrize("junk", [b"GET / HTTP/1.1\r\n" * 4, bytes(56), b"\xff" * 56])
def test_other_bytes(ends, junk):
    ends[0].sendall(junk)
    refused(ends, "no buffer")


def unsealed(size, seals=0):
    memory = os.memfd_create("liar", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(memory, size)
    fcntl.fcntl(memory, F_ADD_SEALS, seals)
    return memory


@pytest.mark.parametrize("seals", [0, SHRINK, GROW])
def test_memory_that_could_shrink(ends, liar, seals):
    liar.hello()
    memory = unsealed(8192, seals)
    liar.memo(core.MEMO_MEMORY, 8192, 0, memory)
    liar.parcel()
    refused(ends, "sealed")
    os.close(memory)


@pytest.mark.parametrize("size", [1, 8191, 8193, 1 << 40, (1 << 63) - 1, 0])
def test_memory_of_another_size(ends, liar, size):
    liar.hello()
    memory = unsealed(8192, SHRINK | GROW)
    liar.memo(core.MEMO_MEMORY, size, 0, memory)
    liar.parcel()
    refused(ends, "bytes")
    os.close(memory)


def test_a_file_that_is_no_memory(ends, liar, tmp_path):
    liar.hello()
    with open(tmp_path / "file", "wb+") as file:
        file.truncate(8192)
        liar.memo(core.MEMO_MEMORY, 8192, 0, file.fileno())
        liar.parcel()
        refused(ends, "sealed")


def test_a_sea_of_zeroes_allocates_nothing(ends, liar):
    """Memory of a peer has the pages that the peer paid for. To map it makes none."""
    liar.hello()
    memory = unsealed(1 << 36, SHRINK | GROW)
    liar.memo(core.MEMO_MEMORY, 1 << 36, 0, memory)
    liar.ledger.send(0, 1, 0)
    liar.parcel(4096, 1 << 35)
    with buffers.recv_buffer(ends[1]) as received:
        assert received.view("u1")[0] == 0
    assert os.fstat(memory).st_blocks * 512 < 16 << 20
    os.close(memory)


def test_memory_passed_twice(ends, liar):
    liar.hello()
    liar.memory()
    liar.memory()
    liar.parcel(number=1)
    refused(ends, "twice")


@pytest.mark.parametrize("count", [0, 2])
def test_not_one_descriptor(ends, liar, count):
    liar.hello()
    memory = core.Memory.make(8192)
    liar.say(core.pack_memo(core.MEMO_MEMORY, LINK, 8192, 0), [memory.fileno()] * count)
    liar.parcel()
    with pytest.raises((buffers.BufferFormatError, OSError)):
        buffers.recv_buffer(ends[1])


@pytest.mark.parametrize("junk", [b"x", b"x" * 32, b"x" * 4000])
def test_nonsense_in_place_of_a_hello(ends, liar, junk):
    liar.say(junk)
    liar.parcel()
    refused(ends, "nobody")


def test_nonsense_behind_a_hello(ends, liar):
    liar.hello()
    liar.say(b"x" * 32)
    liar.parcel()
    refused(ends, "nobody|nonsense")


def test_no_stranger_disturbs_another_connection(ends, liar):
    liar.say(b"x" * 32)
    silent = [Liar(ends[0]) for _ in range(20)]
    buffer = buffers.RegisteredBuffer(100)
    assert buffers.send_buffer(ends[0], buffer)
    buffers.recv_buffer(ends[1]).release()
    assert buffer.is_home
    for each in silent:
        each.sock.close()


def test_every_word_of_the_ledger_may_be_forged(ends):
    """The borrower writes into the ledger whatever it likes. Its owner waits, or believes that the loan is over."""
    buffer = buffers.RegisteredBuffer(100)
    assert buffers.send_buffer(ends[0], buffer)
    received = buffers.recv_buffer(ends[1])
    owner = received._borrowed.owner
    ledger = owner.ledger
    for word in (0, 1, (1 << 64) - 1, 5, 6, 7):
        for slot in range(core.LEDGER_SLOTS):
            ledger.send(slot, word & ((1 << 61) - 1), 5)
        assert not buffer.is_home
    begin = time.monotonic()
    with pytest.raises(TimeoutError):
        buffer.wait(0.05)
    assert time.monotonic() - begin < 10
    received.release()  # its word is not there any more
    assert not buffer.is_home


def test_an_importer_that_is_forged(ends):
    one, other = ends
    channel = transfer._carrier_of(other)
    buffers.expect(other)
    own = importer.importer()
    before = own._open - {channel.shown_importer()}
    for word in (1, 1 << 40, (1 << 64) - 1):
        channel.show_importer(word, None)
        buffer = buffers.RegisteredBuffer(100)
        buffer.view("u1")[:] = 5
        assert not buffers.send_buffer(one, buffer)
        assert buffers.recv_buffer(other).view("u1")[99] == 5
    channel.show_importer(0, None)
    for word in own._open - before:  # nobody will tell the importer that these are closed
        own._closed(word)


def test_a_parcel_for_another_importer(ends, liar):
    liar.hello()
    liar.memory()
    liar.word ^= 1 << 40
    liar.parcel()
    with pytest.raises(buffers.LostBufferError, match="another process"):
        buffers.recv_buffer(ends[1])
    assert importer.importer() is not None
