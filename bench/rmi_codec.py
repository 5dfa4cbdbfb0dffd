"""What do a remote call's arguments cost to pack and to unpack, beside pickle 5 and msgspec's MessagePack?

Ten sets of arguments, as programs send them. All three pack and unpack in one process, by turns, and the least time of
each is compared: what disturbs a turn only adds. pickle sends large buffers out of band. msgspec knows some types by
itself; the others go as extension types. The note names the types of a set that it loses: other types come back.
"""

from __future__ import annotations

import gc
import pickle
import time
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import numpy
from common import question
from common.call_values import SIMULATION_BYTES, Grid, Reading, Simulation, simulation
from common.question import Options
from common.target import Result

from fastsock.rmi import codec
from fastsock.rmi.codec import values

HEADER = 16
OWN, PICKLE, MSGSPEC = "fastsock.rmi", "pickle 5", "msgspec"


class Pair(NamedTuple):
    left: int
    right: str


REGISTERED = (Reading, Grid, Simulation, Pair)


def deep(levels: int) -> list[Any]:
    values: list[Any] = [1]
    for level in range(levels):
        values = [level, values]
    return values


def document() -> dict[str, Any]:
    """As JSON of a web service."""
    return {
        "id": 8412,
        "title": "A report of some length",
        "tags": ["alpha", "beta", "gamma"],
        "active": True,
        "parent": None,
        "ratio": 0.125,
        "items": [{"name": f"item {i}", "price": 9.5 + i, "count": i, "in stock": i % 2 == 0} for i in range(10)],
        "owner": {"name": "Ada", "mail": "ada@example.org", "address": {"street": "Königsallee 1", "code": "40212"}},
    }


def times_and_amounts() -> tuple[Any, ...]:
    start = datetime(2024, 3, 10, 12, 30, 15, 250, timezone.utc)
    rows = [(start + timedelta(days=i), Decimal(f"{i}.95"), date(2024, 1, 1 + i)) for i in range(10)]
    return rows, UUID(int=0x1234567890ABCDEF1234567890ABCDEF)


SETS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "small integers": lambda: (1, 2),
    "strings": lambda: ("select", "user:8412", "Grüße", "a line of text that is somewhat longer than the others are"),
    "nested dict": lambda: (document(),),
    "3 KB object": lambda: (simulation(),),
    "100 small objects": lambda: ([Reading(i, i * 1.5, f"sensor {i}") for i in range(100)],),
    "1 MiB array": lambda: (numpy.arange(1 << 17, dtype="f8"),),
    "tuples and sets": lambda: ({(1, 2), (3, 4)}, frozenset({"a", "b"}), [Pair(i, "p") for i in range(10)], ((), (1,))),
    "times, decimals": times_and_amounts,
    "deep list": lambda: (deep(90),),
    "bytes": lambda: (b"k" * 40, b"v" * 1000, bytearray(b"b" * 100)),
}

# What it must be at least, times faster than pickle, packing and unpacking together.
TARGETS = {"100 small objects": 1.5}


class Own:
    """The codec, as a connection uses it: packer and unpacker are kept."""

    def __init__(self) -> None:
        classes = values.ClassTable()
        for registered in REGISTERED:
            classes.add(values.describe(registered))
        self.packer = codec.Packer(classes)
        self.unpacker = codec.Unpacker(classes)

    def pack(self, arguments: tuple[Any, ...]) -> Any:
        return self.packer.pack_frame(HEADER, arguments)

    def arrived(self, packed: Any) -> Any:
        """The frame, in memory of the receiver's own."""
        body, buffers = packed
        text = bytes(body[HEADER:])
        segments = []
        for (kind, size), buffer in zip(codec.segment_words(text, len(buffers)), buffers, strict=True):
            segment, memory = codec.new_segment(kind, size)
            memoryview(memory).cast("B")[:] = memoryview(buffer).cast("B")
            segments.append(segment)
        return text, segments

    def unpack(self, arrived: Any) -> list[Any]:
        return self.unpacker.unpack_frame(*arrived)

    def nbytes(self, packed: Any) -> int:
        return len(packed[0]) - HEADER + sum(memoryview(buffer).nbytes for buffer in packed[1])


class Pickle:
    """Protocol 5; buffers out of band."""

    def pack(self, arguments: tuple[Any, ...]) -> Any:
        buffers: list[pickle.PickleBuffer] = []
        return pickle.dumps(arguments, 5, buffer_callback=buffers.append), buffers

    def arrived(self, packed: Any) -> Any:
        return packed[0], [bytearray(buffer.raw()) for buffer in packed[1]]

    def unpack(self, arrived: Any) -> Any:
        return pickle.loads(arrived[0], buffers=arrived[1])

    def nbytes(self, packed: Any) -> int:
        return len(packed[0]) + sum(buffer.raw().nbytes for buffer in packed[1])


class Msgspec:
    """MessagePack; what msgspec does not know goes as an extension type. It packs dataclasses as dicts by itself."""

    def __init__(self) -> None:
        import msgspec

        self.ext = msgspec.msgpack.Ext
        self.encoder = msgspec.msgpack.Encoder(enc_hook=self.extend)
        self.decoder = msgspec.msgpack.Decoder(ext_hook=self.shrink)

    def extend(self, value: Any) -> Any:
        if type(value) is numpy.ndarray:
            head = self.encoder.encode([value.dtype.str, *value.shape])
            return self.ext(1, bytes([len(head)]) + head + value.tobytes())
        if type(value) is complex:
            return self.ext(2, self.encoder.encode([value.real, value.imag]))
        raise TypeError(type(value))

    def shrink(self, code: int, data: memoryview) -> Any:
        if code == 1:
            size = data[0] + 1
            dtype, *shape = self.decoder.decode(data[1:size])
            return numpy.frombuffer(bytearray(data[size:]), dtype).reshape(shape)
        return complex(*self.decoder.decode(data))

    def pack(self, arguments: tuple[Any, ...]) -> bytes:
        return self.encoder.encode(arguments)  # type: ignore[no-any-return]

    def arrived(self, packed: bytes) -> bytes:
        return packed

    def unpack(self, arrived: bytes) -> Any:
        return self.decoder.decode(arrived)

    def nbytes(self, packed: bytes) -> int:
        return len(packed)


def types_of(value: Any, into: dict[str, int] | None = None) -> dict[str, int]:
    """How many values of each exact type a value holds."""
    into = {} if into is None else into
    name = type(value).__name__
    into[name] = into.get(name, 0) + 1
    if isinstance(value, dict):
        for key, item in value.items():
            types_of(key, into)
            types_of(item, into)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            types_of(item, into)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            types_of(getattr(value, name), into)
    return into


def best(call: Callable[[], Any], count: int) -> float:
    """Microseconds of one of `count` calls."""
    clock = time.perf_counter
    start = clock()
    for _ in range(count):
        call()
    return (clock() - start) / count * 1e6


def measure_set(peers: dict[str, Any], arguments: tuple[Any, ...], turns: int) -> dict[str, tuple[float, float]]:
    """The least microseconds to pack and to unpack, by peer."""
    calls: dict[tuple[str, int], Callable[[], Any]] = {}
    for name, peer in peers.items():
        peer.unpack(peer.arrived(peer.pack(arguments)))  # classes are described
        arrived = peer.arrived(peer.pack(arguments))
        calls[name, 0] = lambda peer=peer: peer.pack(arguments)
        calls[name, 1] = lambda peer=peer, arrived=arrived: peer.unpack(arrived)
    counts = {key: max(1, min(2000, int(300 / max(best(call, 3), 0.1)))) for key, call in calls.items()}
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(turns):
        for key, call in calls.items():
            least[key] = min(least[key], best(call, counts[key]))
    return {name: (least[name, 0], least[name, 1]) for name in peers}


def lost(peer: Any, arguments: tuple[Any, ...]) -> str:
    """The types of a set that came back as others."""
    sent = types_of(tuple(arguments))
    got = types_of(tuple(peer.unpack(peer.arrived(peer.pack(arguments)))))
    return " ".join(sorted(name for name, count in sent.items() if got.get(name, 0) != count))


def measure(options: Options) -> list[Result]:
    peers: dict[str, Any] = {OWN: Own(), PICKLE: Pickle()}
    try:
        peers[MSGSPEC] = Msgspec()
    except ImportError as error:
        options.skipped.add(MSGSPEC, str(error))
    results = []
    gc.collect()
    gc.disable()
    for name, made in SETS.items():
        arguments = made()
        able = {}
        faults = {}
        for peer_name, peer in peers.items():
            try:
                faults[peer_name] = lost(peer, arguments)
                able[peer_name] = peer
            except (TypeError, RecursionError, ValueError) as error:
                faults[peer_name] = f"cannot: {str(error)[:60]}"
        least = measure_set(able, arguments, options.times(60, 400))
        sizes = {peer_name: peer.nbytes(peer.pack(arguments)) for peer_name, peer in able.items()}
        note = "; ".join(
            f"{peer_name} {least[peer_name][0]:.2f} + {least[peer_name][1]:.2f} us, {sizes[peer_name]} B"
            if peer_name in able
            else f"{peer_name} {faults[peer_name]}"
            for peer_name in peers
        )
        for peer_name in list(peers)[1:]:
            if peer_name not in able:
                continue
            ratios = [theirs / own for theirs, own in zip(least[peer_name], least[OWN], strict=True)]
            both = sum(least[peer_name]) / sum(least[OWN])
            said = f"packs {ratios[0]:.2f}, unpacks {ratios[1]:.2f}"
            if faults[peer_name]:
                said += f"; {peer_name} loses: {faults[peer_name]}"
            at_least = TARGETS.get(name) if peer_name == PICKLE else None
            results.append(
                Result(
                    f"{name}, times {peer_name}",
                    both,
                    "x",
                    at_least,
                    note=f"{said}; {note}" if peer_name == PICKLE else said,
                )
            )
        if faults[OWN]:
            raise AssertionError(f"{name}: {faults[OWN]} did not come back as themselves")
        if name == "3 KB object":
            share = sizes[OWN] / SIMULATION_BYTES
            results.append(Result("3 KB object, bytes sent, times its data", share, "x", at_most=1.1))
    gc.enable()
    return results


if __name__ == "__main__":
    question.run(measure, __doc__)
