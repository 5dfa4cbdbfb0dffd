"""A frame and the memory that follows it go together: who waits to receive does not find the frame's head alone."""

from __future__ import annotations

import numpy

from fastsock import rmi, socket
from fastsock.rmi.wire import frames, hello
from fastsock.system import proof
from fastsock.testing.outcomes import receive

from .conftest import KEY, fresh_name
from .fuzz_frames import packed

COUNT = 60


@rmi.expose
class Maker:
    """It gives one array, again and again."""

    def __init__(self, size):
        self.made = numpy.arange(size, dtype="u1")

    def array(self):
        return self.made


def register_maker(here, name, size):
    here.daemon.register(Maker(size), name)


def ask(sock, number, target, *arguments):
    body = packed(arguments)
    sock.sendall(frames.HEADER.pack(len(body), frames.CALL, 0, 0, number, target, 0) + body)


def test_large_parts_come_with_their_frame(served, path):
    size = 1 << 20
    name = fresh_name("maker")
    served.far.run(register_maker, name, size)
    with socket.create_connection(served.address, timeout=30) as sock:
        end = hello.Connector(KEY.encode())
        proof.drive(sock, end, end.start(), 30)
        ask(sock, 1, frames.DAEMON, name)
        length = frames.HEADER.unpack(receive(sock, frames.HEADER_BYTES))[0]
        receive(sock, length)
        assert sock.transport == path  # memory may come a moment behind the hello
        for number in range(2, COUNT):
            ask(sock, number, frames.FIRST_OBJECT)
            came = sock.recv(2 * size)
            length, kind, _, segments, *_ = frames.HEADER.unpack_from(came)
            assert (kind, segments) == (frames.RESULT, 1)
            assert len(came) > frames.HEADER_BYTES + length, number
            receive(sock, frames.HEADER_BYTES + length + size - len(came))


def test_many_large_parts_arrive(served, path):
    """More than one send takes, and more than finds room."""
    store = served.connect(timeout=60.0)
    given = [numpy.full(20_000 + 7 * each, each, "u2") for each in range(200)]
    for mine, found in zip(given, store.same(given), strict=True):
        assert numpy.array_equal(mine, found)
