"""Bytes that both processes can compute, so that arriving bytes can be checked without sending them twice."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from typing import Any

_PERIOD = 1 << 20


class Pattern:
    """An endless stream of bytes that a seed determines.

    The period is odd. So a block whose size is a power of two shows if it is repeated, dropped or moved.
    """

    def __init__(self, seed: int) -> None:
        self._base = random.Random(seed).randbytes(_PERIOD + 7)
        self._twice = memoryview(self._base + self._base)

    def at(self, start: int, count: int) -> bytes:
        """The bytes start .. start + count."""
        period = len(self._base)
        offset = start % period
        if count <= period:
            return bytes(self._twice[offset : offset + count])
        return b"".join(self.at(start + done, min(period, count - done)) for done in range(0, count, period))

    def verify(self, start: int, data: Any) -> None:
        """Raises AssertionError if data is not the pattern's bytes at start. The error names the first wrong byte."""
        wanted = self.at(start, len(data))
        if bytes(data) == wanted:
            return
        for offset, (got, expected) in enumerate(zip(data, wanted, strict=False)):
            if got != expected:
                raise AssertionError(f"byte {start + offset} is {got:#04x} instead of {expected:#04x}")


def digest(seed: int, count: int) -> str:
    """SHA-1 of the first bytes of a pattern."""
    return hashlib.sha1(Pattern(seed).at(0, count)).hexdigest()


def sizes(seed: int, total: int, choices: tuple[int, ...]) -> Iterator[int]:
    """Random sizes that add up to total."""
    chooser = random.Random(seed)
    while total:
        size = min(total, chooser.choice(choices))
        total -= size
        yield size


MIXED = (1, 2, 7, 64, 100, 1000, 4095, 4096, 33_000, 65_536, 70_001, 300_000, 1 << 20)


def send_pattern(sock: Any, seed: int, total: int, choices: tuple[int, ...] = MIXED) -> None:
    """Send the first `total` bytes of a pattern in random sizes."""
    pattern, start = Pattern(seed), 0
    for size in sizes(seed + 1, total, choices):
        sock.sendall(pattern.at(start, size))
        start += size


def receive_pattern(sock: Any, seed: int, total: int, choices: tuple[int, ...] = MIXED) -> None:
    """Receive and verify the first `total` bytes of a pattern by recv_into of random sizes."""
    pattern, chooser, buffer, start = Pattern(seed), random.Random(seed + 2), bytearray(max(choices)), 0
    while start < total:
        with memoryview(buffer) as view:
            count = sock.recv_into(view[: min(chooser.choice(choices), total - start)])
        if not count:
            raise AssertionError(f"the stream ended after {start} of {total} bytes")
        pattern.verify(start, buffer[:count])
        start += count
