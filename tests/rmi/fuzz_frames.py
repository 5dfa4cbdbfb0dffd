"""Sends a daemon frames that were changed at random, from a peer that knows the key; and hellos from one that does not.

    python -m tests.rmi.fuzz_frames [--seconds 60] [--seed N]

That connection may end, and no other. No thread of the daemon meets an error, and nobody hangs.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import socket
import struct
import sys
import time
from collections.abc import Sequence

from fastsock import rmi
from fastsock.rmi import codec
from fastsock.rmi.codec import values
from fastsock.rmi.wire import frames, hello
from fastsock.system import proof

from . import objects
from .conftest import KEY, fresh_name

HANGS_AFTER = 30.0  # seconds
KINDS = range(14)


def packed(*arguments):
    """The body of a frame."""
    packer = codec.Packer(values.ClassTable())
    packer.start(0)
    for value in arguments:
        packer.pack(value)
    body, _ = packer.finish()
    return bytes(body)


def valid_frames():
    """Frames of every kind, as a client may send them."""
    lookup = (frames.CALL, 0, 1, 0, 0, packed(("store",)))
    rows = [each for number in range(3) for each in (1, number, (1, 2), None)]
    return [
        lookup,
        *((frames.CALL, 0, 2 + number, 1, number, packed((1, 2))) for number in range(40)),
        *((frames.CALL, 0, 50 + number, 1, number, packed(())) for number in range(40)),
        (frames.CALL, frames.KEYWORDS, 99, 1, 0, packed((), {"a": 1, "b": 2})),
        (frames.CALL, frames.DEADLINE | frames.BEHALF, 100, 1, 0, packed(5.0, 7, (1, 2))),
        (frames.CALL, frames.BEHALF | frames.CHAIN, 110, 1, 0, packed(7, (5, "a", 0, "b"), (1, 2))),
        (frames.CALL, frames.CHAIN | frames.FREE, 111, 1, 0, packed((5, "a"), (1, 2))),
        (frames.CALL, frames.DEADLINE | frames.LASTING, 112, 1, 0, packed(5.0, (1, 2))),
        (frames.CALL, frames.DEADLINE | frames.LASTING, 113, 1, 0, packed(float("inf"), (1, 2))),
        (frames.ONEWAY, 0, 101, 1, 0, packed((1, 2))),
        (frames.BATCH, 0, 102, 1, 0, packed(tuple(rows))),
        (frames.RESULT, 0, 103, 0, 0, packed(1)),
        (frames.ERROR, 0, 104, 0, 0, packed(None, "a", "b", "c")),
        (frames.CANCEL, 0, 2, 0, 0, packed()),
        (frames.ITEM, 0, 2, 0, 0, packed(1)),
        (frames.CREDIT, 0, 2, 0, 0, packed(1, 1)),
        (frames.END, 0, 2, 0, 0, packed()),
        (frames.CLOSE, 0, 2, 0, 0, packed()),
        (frames.RELEASE, 0, 0, 0, 0, packed((1, 1))),
    ]


def changed(frame, generator):
    """The bytes of a frame, of which something may be another."""
    kind, flags, number, object_number, method, body = frame
    how = generator.randrange(8)
    if how == 0:
        kind = generator.choice(KINDS)
    elif how == 1:
        flags = generator.randrange(256)
    elif how == 2:
        number = generator.choice([0, 1, 2, 0xFFFFFFFF, generator.randrange(1 << 32)])
    elif how == 3:
        object_number, method = generator.randrange(1 << 16), generator.randrange(1 << 16)
    elif how == 4 and body:
        at = generator.randrange(len(body))
        body = body[:at] + generator.randbytes(generator.randrange(4)) + body[at + generator.randrange(3) :]
    length = len(body)
    segments = 0
    if how == 5:
        length = generator.choice([0, length + 1, 0xFFFFFFFF, generator.randrange(1 << 20)])
    elif how == 6:
        segments = generator.choice([1, 2, 0xFFFF])
        body += struct.pack("<Q", generator.choice([1, 1 << 20, 1 << 40, (1 << 64) - 1, generator.randrange(1 << 64)]))
        length = len(body)
    return frames.HEADER.pack(length, kind, flags, segments, number, object_number, method) + body


def proved(address):
    """A socket whose other end believes this one."""
    sock = socket.create_connection(address, timeout=HANGS_AFTER)
    end = hello.Connector(KEY.encode())
    proof.drive(sock, end, end.start(), HANGS_AFTER)
    return sock


def until_it_ends(sock):
    """Reads all that comes. Raises TimeoutError where the other end hangs."""
    try:
        while sock.recv(1 << 16):
            pass
    except (ConnectionResetError, BrokenPipeError):
        return


def attack(address, generator):
    """One connection of a peer that is believed, and lies."""
    valid = valid_frames()
    data = b"".join(
        changed(frame, generator) for frame in [valid[0], *generator.choices(valid, k=generator.randrange(1, 12))]
    )
    with proved(address) as sock:
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
        except OSError:  # it has closed already
            return
        until_it_ends(sock)


def attack_hello(address, generator):
    """One connection of a stranger."""
    end = hello.Connector(KEY.encode())
    first = bytearray(end.start())
    for _ in range(generator.randrange(1, 4)):
        first[generator.randrange(len(first))] = generator.randrange(256)
    with socket.create_connection(address, timeout=HANGS_AFTER) as sock:
        try:
            sock.sendall(first[: generator.randrange(1, len(first) + 1)])
            sock.sendall(generator.randbytes(generator.randrange(64)))
            sock.shutdown(socket.SHUT_WR)
        except OSError:  # it has closed already
            return
        until_it_ends(sock)


class Errors(logging.Handler):
    """What the threads of a daemon met, that no peer may make them meet."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.found = []

    def emit(self, record):
        if "one-way" not in record.getMessage():  # a method may raise
            self.found.append(self.format(record))


def run(generator, count, seconds=None):
    """Attacks a daemon of this process, while another client uses it. Returns the errors that its threads met."""
    errors = Errors()
    logger = logging.getLogger("fastsock.rmi")
    logger.addHandler(errors)
    until = time.monotonic() + seconds if seconds else None
    try:
        with rmi.Daemon(key=KEY) as daemon:
            store = objects.Store()
            store.gate.set()
            name = fresh_name("attacked")
            daemon.register(store, name)
            daemon.register(store, "store", local=False)
            daemon.start()
            with rmi.connect(f"rmi:{name}", objects.Store, key=KEY, timeout=HANGS_AFTER) as honest:
                done = 0
                while (done < count) if until is None else (time.monotonic() < until):
                    (attack_hello if generator.random() < 0.2 else attack)(daemon.address, generator)
                    assert honest.add(done, 1) == done + 1
                    done += 1
    finally:
        logger.removeHandler(errors)
    return errors.found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rmi.fuzz_frames", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args(arguments)
    os.environ["FASTSOCK_RMI_KEY"] = KEY
    logging.getLogger("fastsock.rmi").propagate = False
    print(f"seed {given.seed}", flush=True)
    found = run(random.Random(given.seed), 0, given.seconds)
    print("\n".join(found) or "nothing was found")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
