"""Feeds the unpacker frames that were changed at random: it may raise BadFrame or LimitExceeded, and nothing else.

    python -m tests.rmi.fuzz_codec [--seconds 60] [--seed N]
    python -m tests.rmi.fuzz_codec --libfuzzer [ARGUMENTS]      with atheris, where it is installed

What a frame makes is packed again where it can be, so that both ends are driven. A failure prints the body.
"""

from __future__ import annotations

import argparse
import array
import datetime
import io
import ipaddress
import json
import pathlib
import queue
import random
import re
import sys
import time
import uuid
from collections import Counter, OrderedDict, UserDict, defaultdict, deque
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import numpy

from fastsock.rmi.errors import NotPackable, RmiError, VersionMismatch
from tests.rmi.codecs import Way, codec, tags
from tests.rmi.test_codec import (
    Colour,
    Defined,
    Frozen,
    Level,
    Money,
    Named,
    OwnError,
    Point,
    Right,
    Slotted,
    class_table,
)  # fmt: skip
from tests.rmi.test_values import Metres, Noted, Rows, Token

ALLOWED = (RmiError, NotPackable)
FAULTS = (TypeError, ValueError, AttributeError, LookupError, OverflowError, RecursionError, re.error)
Frame = tuple[bytes, list[Any]]


@cache
def samples() -> list[Frame]:
    """Frames that hold every codec."""
    table = class_table(cache=True)
    shared: list[Any] = [1]
    ring: tuple[Any, ...] = (shared, [])
    ring[1].append(ring)
    error = OwnError("text", code=2)
    error.__cause__ = ValueError(1, "x")
    error.__notes__ = ["note"]
    frozen = Frozen(("a", 1))
    sent: list[tuple[Any, ...]] = [
        (1, -1, 200, -70000, 1 << 40, -(1 << 90), 1.5, 2j, None, True, False, Ellipsis, NotImplemented),
        ("", "a", "short", "longer" * 20, "ä\udc80", b"bytes", bytearray(b"array"), memoryview(b"view"), b"k" * 300),
        ([1, [2, [3]]], (1, (2, ())), {"a": 1, "b": {"c": []}}, {1, 2}, frozenset({"x"}), range(5), slice(1, None, 2)),
        ([shared, shared], ring, [list(range(40)), tuple(range(40)), dict.fromkeys(range(40))]),
        (
            datetime.datetime(2024, 1, 2, 3, 4, 5, 6, datetime.timezone.utc),
            datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2), "name")),
            datetime.date(2024, 1, 2), datetime.time(1, 2, 3, fold=1), datetime.timedelta(-1, 5), Decimal("-1.50"),
            Fraction(-1, 3), uuid.UUID(int=5), pathlib.PurePosixPath("a/b"),
        ),
        (Point(1, [Named("a", 2)]), Slotted(1), Defined(1), Colour.RED, Level.LOW, Right.READ, Money(1, "EUR")),
        ([frozen, frozen, Frozen(frozen)], error, KeyError("k"), OSError(2, "no", "file")),
        (
            numpy.arange(6.0).reshape(2, 3), numpy.asfortranarray(numpy.eye(3)), numpy.array(5, "i2"),
            numpy.array(["ab", "c"]), numpy.zeros(2, [("a", "<i4"), ("b", "<f8", (2,))]), numpy.zeros(3, "M8[ms]"),
            numpy.float32(1), numpy.datetime64("2020-01-01"), numpy.dtype("f4"), numpy.str_("s"),
            array.array("d", [1, 2]),
        ),
        (bytes(5000), bytearray(5000), numpy.zeros((10, 100)), numpy.zeros(1000, "M8[s]")),
        ("x" * 70_000, array.array("i", range(2000))),
        (
            OrderedDict(a=[1]), defaultdict(list, a=[1]), Counter("ab"), deque([1, 2], 3), SimpleNamespace(a=1),
            ipaddress.ip_address("10.0.0.1"), ipaddress.ip_network("::/8"), re.compile("a+", re.I), UserDict(a=1),
            Rows("file", [1]), Metres(5, "m"), Token("text"), Noted(1, 2.5), HTTPStatus.OK, time.gmtime(0),
            json.JSONDecodeError("text", "document", 3), queue.Empty(), io.BytesIO(b"abc"), io.StringIO("abc"),
            numpy.ma.array([1, 2], mask=[0, 1]), numpy.rec.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
        ),
    ]  # fmt: skip
    return [Way(table).pack(*values) for values in sent]


def feed(body: bytes, segments: Sequence[Any]) -> Any:
    """Unpacks what may be anything. Gives the values, or None where it was refused."""
    unpacker = codec.Unpacker(class_table(cache=True))
    try:
        values = unpacker.unpack_frame(body, segments)
    except ALLOWED as error:
        assert str(error) or isinstance(error, VersionMismatch)
        return None
    except Exception as error:
        # what a registered function says of a state that is none of its own
        assert isinstance(error, FAULTS), repr(error)
        return None
    return values


def mutate(rng: random.Random, body: bytes) -> bytes:
    """A body with a few changes."""
    changed = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        kind = rng.randrange(7)
        at = rng.randrange(len(changed) + 1)
        if kind == 0 and changed:
            changed[at % len(changed)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[at:at] = bytes([rng.choice(TAGS)])
        elif kind == 2 and changed:
            changed[at % len(changed)] = rng.choice(TAGS)
        elif kind == 3:
            del changed[at : at + rng.randint(1, 8)]
        elif kind == 4:
            changed[at : at + 9] = b"\xff" + rng.randbytes(8)
        elif kind == 5:
            other = rng.choice(samples())[0]
            start = rng.randrange(len(other))
            changed[at:at] = other[start : start + rng.randint(1, 60)]
        else:
            changed[at : at + rng.randint(0, 4)] = rng.randbytes(rng.randint(0, 6))
    return bytes(changed)


TAGS = [
    value for name, value in vars(tags).items() if name.isupper() and isinstance(value, int) and 0x40 <= value < 0x80
]
TAGS += [0, 1, 5, 0x3F, 0x80, 0x81, 0xA0, 0xA1, 0xB0, 0xB1, 0xC0, 0xC1, 0xE0, 0xE1, 0xFF, 0xFD, 0xFE]


def once(rng: random.Random) -> None:
    """One changed frame."""
    body, segments = rng.choice(samples())
    body = mutate(rng, body)
    if rng.random() < 0.2:
        segments = segments[: rng.randrange(len(segments) + 1)]
    try:
        values = feed(body, segments)
        if values is not None:
            again(values)
    except BaseException:
        print(f"failed: {body!r}", file=sys.stderr, flush=True)
        raise


def again(values: list[Any]) -> None:
    """Packs what came out: it can be packed unless its parts are of the wrong class for their holder."""
    packer = codec.Packer(class_table(cache=True))
    try:
        packer.pack_frame(16, values)
    except (RmiError, TypeError, AttributeError, ValueError, KeyError, IndexError, RecursionError):
        packer.start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    parser.add_argument("--libfuzzer", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.libfuzzer is not None:
        import atheris  # type: ignore[import-not-found]

        atheris.Setup([sys.argv[0], *options.libfuzzer], lambda data: feed(data, [bytes(5000)]))
        atheris.Fuzz()
    rng = random.Random(options.seed)
    print(f"seed {options.seed}", flush=True)
    end = time.monotonic() + options.seconds
    count = 0
    while time.monotonic() < end:
        once(rng)
        count += 1
    print(f"{count} frames")


if __name__ == "__main__":
    main()
