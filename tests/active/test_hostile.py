"""Bytes that no endpoint sends: that connection ends with an error that says why, and no other notices."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct

import pytest

from fastsock import active
from fastsock import socket as fast
from fastsock.active import hello
from fastsock.system import proof

from .conftest import KEY
from .far import TAG, connections, look

HEADER = struct.Struct("<BBHIQ")
NUMBER = 1 << 16  # of the first short request
LONG = NUMBER | 32  # of the first in bulk


def address(here):
    return here.bundle.door.address


def proved(near):
    """A connection that proved the key: from here on its bytes are frames."""
    return hello_of(near, near.far.run(address))


def hello_of(near, where):
    sock = fast.create_connection(where, timeout=30)
    end = hello.Connector(KEY.encode(), hello.Wanted(near.name, TAG, 1000))
    proof.drive(sock, end, end.start(), 30)
    return sock


BAD = {
    "of no kind": (HEADER.pack(0, 0, 0, NUMBER, 0), "of no kind"),
    "too many words": (HEADER.pack(1, 17, 0, NUMBER, 0), "more than 16 words"),
    "a long message": (HEADER.pack(1, 0, 0, NUMBER, 8193), "longer than 8192"),
    "a number beyond the credits": (HEADER.pack(1, 0, 0, NUMBER | 40, 0), "beyond the credits"),
    "a number twice": (HEADER.pack(4, 0, 0, LONG, 1 << 62) * 2, ""),  # a get is answered before the next is taken
    "the credit of bulks": (HEADER.pack(1, 0, 0, LONG, 0), "the credit of another kind"),
    "2^60 bytes": (HEADER.pack(2, 0, 1, LONG, 1 << 60), "longer than this end allows"),
    "2^64 - 1 bytes": (HEADER.pack(3, 0, 1, LONG, (1 << 64) - 1) + bytes(8), "longer than this end allows"),
    "an answer": (HEADER.pack(5, 0, 9, NUMBER, 0), "an answer came to the end that answers"),
    "done": (HEADER.pack(8, 0, 0, NUMBER, 0), "an answer came to the end that answers"),
    "returned": (HEADER.pack(9, 0, 1, NUMBER, 0), "an answer came to the end that answers"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_frame_ends_its_connection(near, what):
    sent, said = BAD[what]
    before = near.far.run(memory)
    sock = proved(near)
    sock.sendall(sent)
    if said:
        assert sock.recv(1) == b""
    sock.close()
    assert near.call(1, 3) == (3,)
    assert near.far.run(memory) < before + (32 << 20)
    while near.far.run(connections) != 1:
        near.call(1)
    assert near.far.run(look, "errors") == []


def memory(here):
    """Bytes that it may write to, used or not; what an allocator has set apart for a thread does not count."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")


def test_it_says_what_was_wrong(near):
    near.far.run(watch_ends)
    asked = 0
    for sent, said in BAD.values():
        if not said:
            continue
        sock = proved(near)
        sock.sendall(sent)
        assert sock.recv(1) == b""
        sock.close()
        asked += 1
        while len(near.far.run(look, "ends")) < asked:
            near.call(1)
        assert said in near.far.run(look, "ends")[-1]


def watch_ends(here):
    here.ends = []
    lost = here.endpoint.lost

    def note(connection, requests):
        here.ends.append(str(connection.lost))
        lost(connection, requests)

    here.endpoint.lost = note


@pytest.mark.parametrize("seed", range(10))
def test_chance(near, seed):
    chance = random.Random(seed)
    sock = proved(near)
    for _ in range(50):
        kind, words = chance.randrange(10), chance.randrange(18)
        number = chance.choice((NUMBER, LONG, NUMBER * chance.randrange(5) | chance.randrange(40)))
        length = chance.choice((0, 1, 100, 9000, 1 << 40))
        frame = HEADER.pack(kind, words, chance.randrange(12), number, length)
        try:
            sock.sendall(frame + chance.randbytes(8 * words + chance.randrange(200)))
        except OSError:
            break
    sock.close()
    assert near.call(1, 4) == (4,)


def test_truncated_anywhere(near):
    whole = HEADER.pack(1, 3, 1, NUMBER, 50) + bytes(24 + 50)
    for length in range(0, len(whole), 7):
        sock = proved(near)
        sock.sendall(whole[:length])
        sock.close()
    assert near.call(1, 4) == (4,)
    while near.far.run(connections) != 1:
        near.call(1)


def test_a_stranger_learns_nothing_of_names(near):
    where = near.far.run(address)
    told = []
    for name in (near.name, "another"):
        with socket.create_connection(where, timeout=30) as sock:
            end = hello.Connector(b"another key than theirs", hello.Wanted(name, TAG, 1000))
            with pytest.raises(proof.HelloError) as caught:
                proof.drive(sock, end, end.start(), 30)
            told.append(str(caught.value))
    assert told[0] == told[1]
    assert near.call(1, 4) == (4,)


def test_a_stranger_that_is_silent_or_talks_nonsense(near):
    where = near.far.run(address)
    silent = [socket.create_connection(where, timeout=30) for _ in range(8)]
    for nonsense in (b"GET / HTTP/1.0\r\n\r\n" * 20, bytes(500)):
        with socket.create_connection(where, timeout=30) as sock:
            sock.sendall(nonsense)
            with contextlib.suppress(ConnectionResetError):
                assert sock.recv(1000) == b""
    near.map(1)
    assert near.call(1, 4) == (4,)
    for sock in silent:
        sock.close()


def test_a_recorded_hello_is_worth_nothing(near):
    where = near.far.run(address)
    key = KEY.encode()
    end = hello.Connector(key, hello.Wanted(near.name, TAG, 1000))
    recorded = [end.start()]
    with fast.create_connection(where, timeout=30) as sock:
        sock.sendall(recorded[0])
        recorded.append(end.feed(receive(sock, end.needed)))
        sock.sendall(recorded[1])
        end.feed(receive(sock, end.needed))
    with fast.create_connection(where, timeout=30) as sock:
        sock.sendall(recorded[0])
        receive(sock, 40)
        sock.sendall(recorded[1])
        assert receive(sock, 128).startswith(b"FSACTREF")


def receive(sock, length):
    data = b""
    while len(data) < length:
        part = sock.recv(length - len(data))
        assert part
        data += part
    return data


@pytest.mark.parametrize(
    ("sent", "said"),
    (
        (HEADER.pack(5, 0, 9, NUMBER + (1 << 16), 0), "names no request"),
        (HEADER.pack(6, 0, 9, NUMBER, 10), "answered in bulk"),
        (HEADER.pack(1, 0, 9, NUMBER, 0), "a request came to the end that asks"),
        (HEADER.pack(9, 0, 77, NUMBER, 0), "for no reason"),
    ),
)
def test_an_answering_end_that_lies(near, sent, said):
    """This end asks; the other end's bytes are the test's."""
    near.far.run(lie, near.name + "-liar", sent)
    near.endpoint.map(1, near.name + "-liar", TAG)
    entry = near.endpoint.entries[1]
    near.endpoint.request(1, 1, 6)
    while entry.lost is None:
        near.bundle.poll(30)
    near.until()
    assert said in str(entry.lost) and isinstance(entry.lost, active.BadFrame)
    assert near.returned[0].reason == active.Reason.LOST and near.returned[0].words == (6,)
    assert near.call(1, 4) == (4,)


def lie(here, name, sent):
    class Liar:
        def terms(self, wanted):
            return hello.Terms(32, 4, 1000)

        def accepted(self, sock, peer, most):
            here.liar_sock = sock
            sock.sendall(sent)

    here.bundle.door.register(name, Liar())
