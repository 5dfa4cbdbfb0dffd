"""A server in Python whose workers use the class and C code by turns: mixed.py PORT

A question is a line `number size checksum` and so many bytes; the answer is `number size checksum process` and others.
A question that is not what its checksum says gets `wrong`. Now and then a worker forks a child, which ends at once.
"""

from __future__ import annotations

import os
import random
import select
import selectors
import signal
import socket
import sys
import threading
import zlib

sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "..")))

from tests.soak.programs.talks import FORKS, LINE, Talk, answer_to, value
from tests.soak.programs.turns import put, take, wait


def served() -> Talk:
    while True:
        number, size, checksum = map(int, (yield LINE).split())
        if zlib.crc32((yield size)) != checksum:
            yield b"wrong\n"
            continue
        if number % FORKS == 0 and os.fork() == 0:
            os._exit(0)
        answer = value(*answer_to(number, size))
        yield b"%d %d %d %d\n" % (number, len(answer), zlib.crc32(answer), os.getpid()) + answer


class Stream:
    """What came and was not asked for yet, and what is to be sent."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.talk, self.chooser = sock, served(), random.Random(os.urandom(8))
        self.got, self.out = bytearray(), memoryview(b"")
        self.wanted = next(self.talk)

    def step(self) -> bool:
        """One call, and what follows of it. False at the end of the stream."""
        if self.out:
            self.out = self.out[put(self.sock, self.out, self.chooser) :]
            if not self.out:
                self.wanted = next(self.talk)
        else:
            data = take(self.sock, self.chooser.choice((50, 65_536, 262_144)), self.chooser)
            self.got += data
            if not data:
                return False
        while not self.out:
            end = self.got.find(b"\n") + 1 if self.wanted == LINE else int(self.wanted)
            if (self.wanted == LINE and not end) or len(self.got) < end:
                break
            piece = bytes(self.got[:end])
            del self.got[:end]
            step = self.talk.send(piece)
            if isinstance(step, bytes):
                self.out = memoryview(step)
            else:
                self.wanted = step
        return True


def accepted(listener: socket.socket) -> socket.socket | None:
    """None where the other worker has it."""
    try:
        return listener.accept()[0]
    except BlockingIOError:
        return None


def by_threads(listener: socket.socket) -> None:
    def serve(sock: socket.socket) -> None:
        with sock:
            stream = Stream(sock)
            try:
                while True:
                    if not stream.out:
                        wait(sock, 100.0, stream.chooser)
                    if not stream.step():
                        return
            except (ConnectionResetError, BrokenPipeError):
                pass

    while True:
        select.select([listener], [], [])
        sock = accepted(listener)
        if sock is not None:
            sock.setblocking(True)
            threading.Thread(target=serve, args=(sock,), daemon=True).start()


def by_a_loop(listener: socket.socket) -> None:
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)

    def moves(sock: socket.socket, stream: Stream) -> None:
        try:
            while stream.step():
                pass
        except BlockingIOError:
            selector.modify(sock, selectors.EVENT_WRITE if stream.out else selectors.EVENT_READ, stream)
            return
        except (ConnectionResetError, BrokenPipeError):
            pass
        selector.unregister(sock)
        sock.close()

    while True:
        for key, _ in selector.select():
            if key.data is not None:
                moves(key.fileobj, key.data)  # type: ignore[arg-type]
                continue
            sock = accepted(listener)
            if sock is not None:
                sock.setblocking(False)
                selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE, Stream(sock))


def main(port: str) -> None:
    """Two workers, one of each kind. One that is killed is replaced."""
    listener = socket.create_server(("127.0.0.1", int(port)))
    listener.setblocking(False)  # which both have in common
    workers: dict[int, object] = {}
    while True:
        for work in (by_threads, by_a_loop):
            if work in workers.values():
                continue
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_IGN)
                work(listener)
            workers[child] = work
        workers.pop(os.wait()[0], None)


if __name__ == "__main__":
    main(sys.argv[1])
