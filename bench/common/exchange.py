"""The common bench: some peers, some sizes, ping-pong and stream, by turns in fresh process pairs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial

from . import counted, sizes
from .interleave import Sample, Skipped, Turns
from .pair import Pair
from .peers.peer import Peer
from .placement import Placement
from .process import Broken, Unusable

PING_PONG, STREAM = "ping-pong", "stream"
ENDS = {PING_PONG: ("ping", "pong"), STREAM: ("send", "receive")}

Cell = tuple[str, int]  # PING_PONG or STREAM, bytes a message


def measure(
    peers: Sequence[Callable[[], Peer]],
    cells: Sequence[Cell],
    *,
    cores: tuple[int, int],
    groups: int,
    turns: int,
    seconds: float,
    skipped: Skipped,
    tell: bool = True,
) -> list[Sample]:
    """Ping-pong in microseconds a round trip, stream in gigabytes a second.

    Each of the ``groups`` spawns every peer's two processes anew and takes ``turns`` samples of about ``seconds``
    for each cell and peer. Peers that fail are entered in ``skipped``.
    """
    placement = Placement(cores)
    if placement.why_not:
        print(f"  no probe of the placement: {placement.why_not}", file=sys.stderr)
    counts: dict[tuple[str, str, int], int] = {}
    taken = Turns(placement, skipped)
    for group in range(groups):
        pairs = _open(peers, cores, skipped)
        try:
            for turn in range(turns + 1):
                if tell:
                    _progress(f"group {group + 1} of {groups}, turn {turn} of {turns}")
                for what, size in cells:
                    runs = [(name, _run(pair, what, size, counts, seconds)) for name, pair in pairs.items()]
                    taken.take(what, size, runs, keep=turn > 0)
        finally:
            for pair in pairs.values():
                pair.close()
    if tell:
        _progress("")
    return taken.samples


def counts(
    peers: Sequence[Callable[[], Peer]],
    cells: Sequence[Cell],
    *,
    cores: tuple[int, int],
    skipped: Skipped,
) -> list[counted.Row]:
    """System calls, copies and bytes of a message there and back, or of one of a stream."""
    pairs = _open(peers, cores, skipped)
    try:
        return [
            row
            for what, size in cells
            for row in counted.rows(
                f"{what}, {sizes.name(size)}",
                pairs.values(),
                partial(_exchange, what=what, size=size),
                50 if size <= 1 << 16 else 5,
            )
        ]
    finally:
        for pair in pairs.values():
            pair.close()


def _exchange(pair: Pair, count: int, *, what: str, size: int) -> object:
    near, other = ENDS[what]
    return pair.both(near, other, size, count, timeout=120)


def _open(peers: Sequence[Callable[[], Peer]], cores: tuple[int, int], skipped: Skipped) -> dict[str, Pair]:
    pairs = {}
    for make in peers:
        peer = make()
        if peer.name in skipped:
            continue
        try:
            pairs[peer.name] = Pair(peer, cores)
        except (Broken, Unusable) as error:
            skipped.add(peer.name, str(error))
    return pairs


def _run(
    pair: Pair, what: str, size: int, counts: dict[tuple[str, str, int], int], seconds: float
) -> Callable[[], float]:
    key = (pair.peer.name, what, size)
    near, other = ENDS[what]

    def run() -> float:
        count = counts.get(key) or _first_count(size)
        elapsed = pair.both(near, other, size, count)
        counts[key] = max(1, min(int(seconds * count / max(elapsed, 1e-9)), 100 * count, 1_000_000))
        return elapsed / count * 1e6 if what == PING_PONG else size * count / elapsed / 1e9

    return run


def _first_count(size: int) -> int:
    return 50 if size <= 4096 else 10 if size <= 1 << 20 else 1


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
