"""What is said with each server, without a socket: a talk yields bytes that it sends, and how much it wants to hear.

A number asks for so many bytes, LINE for a line. A talk raises Wrong where an answer is not the right one, and Over
where the server says that it ends. After each answer it yields ANSWERED.
"""

from __future__ import annotations

import os
import random
import struct
import zlib
from collections.abc import Generator
from dataclasses import dataclass

from .shared import Shared

LINE, ANSWERED = "line", "answered"
Talk = Generator["bytes | int | str", bytes, None]
BLOCK = random.Random(1).randbytes(1 << 20)
SIZES = (1, 20, 100, 100, 600, 600, 1500, 5000, 16_384, 70_000, 250_000)
FILES = (0, 1, 100, 600, 1500, 4096, 10_000, 65_536, 65_537, 250_000, 1_000_000)
ROWS = 40
FORKS = 300  # at each number that this divides, a worker of Python's server forks


class Wrong(Exception):
    """An answer that is not the right one."""


class Over(Exception):
    """The server said that it ends this connection."""


def value(number: int, size: int) -> bytes:
    """No two numbers have the same one, but for those that are very short."""
    start = number * 7919 % (len(BLOCK) - size)
    return (b"%016x" % number + BLOCK[start : start + size])[:size]


@dataclass
class Caller:
    """A connection's place in the campaign. Numbers go on over all its connections."""

    client: int
    connection: int
    chooser: random.Random
    shared: Shared
    number: int = 0
    process: int = 0  # who answers, where the server tells
    relayed: bool = False  # the answer that is awaited comes by a second connection
    acknowledged: int | None = None  # of the rows that it has put into a table

    @property
    def name(self) -> int:
        return self.client * 16 + self.connection

    def next(self) -> int:
        self.number += 1
        return self.name << 40 | self.number


def same(got: bytes, wanted: bytes, what: str) -> None:
    if got != wanted:
        at = next((i for i, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), min(len(got), len(wanted)))
        raise Wrong(f"{what}: {len(got)} of {len(wanted)} bytes, other ones from {at} on: {got[at : at + 40]!r}")


def redis(caller: Caller) -> Talk:
    def words(*given: bytes) -> bytes:
        return b"*%d\r\n" % len(given) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in given)

    def bulk(wanted: bytes) -> Talk:
        same((yield LINE), b"$%d\r\n" % len(wanted), "head")
        same((yield len(wanted) + 2), wanted + b"\r\n", "value")

    chooser, held = caller.chooser, {}
    while True:
        sent, expected = [], []
        for _ in range(chooser.choice((1, 1, 1, 4, 16))):
            number, size = caller.next(), chooser.choice(SIZES)
            does = chooser.randrange(40)
            if does == 0:
                sent.append(words(b"BGSAVE"))
                expected.append(None)
            elif does < 14:
                sent.append(words(b"ECHO", value(number, size)))
                expected.append((number, size))
            elif does < 28 or not held:
                # a client that was killed may have left a SET behind, which the server reads late
                key = b"%d.%d.%d" % (os.getpid(), caller.name, chooser.randrange(20))
                sent.append(words(b"SET", key, value(number, size)))
                held[key] = number, size
                expected.append(b"+OK\r\n")
            else:
                key = chooser.choice(list(held))
                sent.append(words(b"GET", key))
                expected.append(held[key])
        yield b"".join(sent)
        for each in expected:
            if isinstance(each, tuple):
                yield from bulk(value(*each))
            else:
                line = yield LINE
                if each is not None:
                    same(line, each, "line")
                elif b"ackground" not in line:
                    raise Wrong(f"{line!r}")
            yield ANSWERED


def nginx(caller: Caller) -> Talk:
    chooser = caller.chooser
    while True:
        caller.relayed = chooser.randrange(3) == 0
        asked = []
        for _ in range(chooser.choice((1, 1, 1, 1, 5))):
            number, size, part = caller.next(), chooser.choice(FILES), None
            head = b"GET %s/%d?n=%d HTTP/1.1\r\nHost: a\r\n" % (b"/via" if caller.relayed else b"", size, number)
            if size > 1 and chooser.randrange(4) == 0:
                first = chooser.randrange(size)
                part = first, chooser.randrange(first, size)
                head += b"Range: bytes=%d-%d\r\n" % part
            asked.append((number, size, part, head + b"\r\n"))
        yield b"".join(each[3] for each in asked)
        for number, size, part, _ in asked:
            status = yield LINE
            headers = {}
            while (line := (yield LINE)) != b"\r\n":
                name, _, text = line.decode("latin-1").partition(":")
                headers[name.lower()] = text.strip()
            body = yield int(headers["content-length"])
            if status.split()[1] in (b"502", b"504") and caller.relayed:
                raise Over("the second connection was lost")
            same(status, b"HTTP/1.1 206 Partial Content\r\n" if part else b"HTTP/1.1 200 OK\r\n", "status")
            if headers["x-n"] != str(number):
                raise Wrong(f"the answer to {headers['x-n']}, not to {number}")
            wanted = value(size, size)
            same(body, wanted[part[0] : part[1] + 1] if part else wanted, f"file of {size} bytes")
            caller.process = int(headers["x-pid"])
            yield ANSWERED
            if headers.get("connection") == "close":
                raise Over("nginx closes")


def postgres(caller: Caller) -> Talk:
    def message() -> Generator[bytes | int | str, bytes, tuple[bytes, bytes]]:
        kind, length = struct.unpack("!cI", (yield 5))
        return kind, (yield length - 4)

    def answer() -> Generator[bytes | int | str, bytes, bytes | None]:
        """The first column of the last row. It has read all up to the next question."""
        row = None
        while True:
            kind, text = yield from message()
            if kind == b"Z":
                return row
            if kind == b"E":
                fields = {field[:1]: field[1:] for field in text.split(b"\0") if field}
                if fields[b"C"][:3] in (b"57P", b"530"):  # it ends, or begins; too many connections
                    raise Over(fields[b"M"].decode())
                raise Wrong(repr(fields))
            if kind == b"D":
                (length,) = struct.unpack_from("!i", text, 2)
                row = text[6 : 6 + length] if length >= 0 else b""

    def query(text: bytes) -> bytes:
        return b"Q" + struct.pack("!I", len(text) + 5) + text + b"\0"

    words = b"user\0faults\0database\0postgres\0\0"
    yield struct.pack("!II", len(words) + 8, 196_608) + words
    yield from answer()
    yield query(b"SELECT coalesce(max(n), 0) FROM acknowledged WHERE who = %d" % caller.name)
    last = int((yield from answer()) or b"0")
    if caller.acknowledged is not None and last not in (caller.acknowledged, caller.acknowledged + 1):
        raise Wrong(f"{caller.acknowledged} was acknowledged, and the table has {last}")
    caller.acknowledged = last
    chooser = caller.chooser
    while True:
        sent, expected = [], []
        for _ in range(chooser.choice((1, 1, 1, 4))):
            number, size = caller.next(), chooser.choice(SIZES)
            does = chooser.randrange(10)
            if does < 4:
                text = value(number, size).hex().encode()
                sent.append(query(b"SELECT '%s', %d" % (text, number)))
                expected.append(text)
            elif does < 8:
                row = chooser.randrange(ROWS)
                sent.append(query(b"SELECT body FROM bodies WHERE id = %d" % row))
                expected.append(body(row))
        yield b"".join(sent)
        for each in expected:
            same((yield from answer()) or b"", each, "column")
            yield ANSWERED
        if chooser.randrange(4) == 0:
            yield query(b"INSERT INTO acknowledged VALUES (%d, %d)" % (caller.name, caller.acknowledged + 1))
            yield from answer()
            caller.acknowledged += 1
            yield ANSWERED


def body(row: int) -> bytes:
    return value(row, SIZES[row % len(SIZES)]).hex().encode()


def answer_to(number: int, size: int) -> tuple[int, int]:
    return number + 1, SIZES[(number + size) % len(SIZES)]


def mixed(caller: Caller) -> Talk:
    """With Python's server (mixed.py): both ends check what the other one sent."""
    chooser = caller.chooser
    while True:
        asked, sent = [], []
        for _ in range(chooser.choice((1, 1, 1, 4, 16))):
            number, size = caller.next(), chooser.choice(SIZES)
            data = value(number, size)
            sent.append(b"%d %d %d\n" % (number, len(data), zlib.crc32(data)) + data)
            asked.append((number, len(data)))
        yield b"".join(sent)
        for number, size in asked:
            wanted, words = value(*answer_to(number, size)), (yield LINE).split()
            same(b" ".join(words[:3]), b"%d %d %d" % (number, len(wanted), zlib.crc32(wanted)), "head")
            caller.process = int(words[3])
            same((yield len(wanted)), wanted, "answer")
            yield ANSWERED


TALKS = {"redis": redis, "nginx": nginx, "postgres": postgres, "mixed": mixed}
