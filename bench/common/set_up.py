"""Turns of connect, accept and close."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from .interleave import Sample, Skipped, Turns
from .pair import Pair
from .peers.connecting import Connecting
from .placement import Placement
from .process import Broken, Unusable

ONE_BY_ONE = "connect, accept, one byte, close"
FLOWING = "connect, accept, close"


def measure(
    peers: Sequence[Callable[[], Connecting]],
    *,
    cores: tuple[int, int],
    groups: int,
    turns: int,
    count: int,
    skipped: Skipped,
) -> tuple[list[Sample], dict[str, str]]:
    """Microseconds a connection, in both ways, each sample over ``count`` connections.

    Also returns, for each fast peer, which paths its connections took: one that lapses to TCP has another price.
    """
    taken = Turns(Placement(cores), skipped)
    paths: dict[str, Counter[str]] = {}
    for _ in range(groups):
        pairs = {}
        for make in peers:
            peer = make()
            try:
                if peer.name not in skipped:
                    pairs[peer.name] = Pair(peer, cores)
            except (Broken, Unusable) as error:
                skipped.add(peer.name, str(error))
        for turn in range(turns + 1):
            for what in (FLOWING, ONE_BY_ONE):
                runs = [(name, _run(pair, what, count)) for name, pair in pairs.items()]
                taken.take(what, 0, runs, keep=turn > 0)
        for name, pair in pairs.items():
            if name not in skipped:
                paths.setdefault(name, Counter()).update(pair.near.call("paths"))
            pair.close()
    return taken.samples, {name: " ".join(f"{p}:{n}" for p, n in found.items()) for name, found in paths.items()}


def _run(pair: Pair, what: str, count: int) -> Callable[[], float]:
    def run() -> float:
        pair.other.start("accept_and_close", count, what == ONE_BY_ONE)
        start = pair.near.call("connect_and_close", count, what == ONE_BY_ONE)
        return (pair.other.finish() - start) / count * 1e6

    return run
