"""Connections that end after few calls: what do they cost beside plain TCP's, by the number of their requests?

A connection that gains memory pays for it once, about what its first tens of round trips cost on TCP. One that ends
before must not pay. So the curve begins at plain TCP's time and leaves it on the right side only.
"""

from __future__ import annotations

from functools import partial

from common import question, summary
from common.interleave import Turns
from common.pair import Pair
from common.peers.short_lived import ShortLived
from common.placement import Placement
from common.process import Broken, Unusable
from common.question import NOISE, Options
from common.target import Result

REQUESTS = (1, 2, 6, 10, 20, 40, 200)
TCP, FAST = "tcp", "fastsock"
PEERS = (
    partial(ShortLived, TCP),
    partial(ShortLived, FAST, fast=True),
)
ROUND_TRIPS = 2000  # in a sample, about


def measure(options: Options) -> list[Result]:
    turns = Turns(Placement(options.cores), options.skipped)
    for _ in range(options.times(1, 3)):
        pairs = {}
        for make in PEERS:
            peer = make()
            try:
                if peer.name not in options.skipped:
                    pairs[peer.name] = Pair(peer, options.cores)
            except (Broken, Unusable) as error:
                options.skipped.add(peer.name, str(error))
        for turn in range(options.times(3, 5) + 1):
            for requests in REQUESTS:
                runs = [(name, partial(_us_a_connection, pair, requests)) for name, pair in pairs.items()]
                turns.take(_named(requests), 0, runs, keep=turn > 0)
        for pair in pairs.values():
            pair.close()
    options.samples += turns.samples
    return [_line(turns, requests, options) for requests in REQUESTS]


def _named(requests: int) -> str:
    return f"connect, {requests} requests, close"


def _us_a_connection(pair: Pair, requests: int) -> float:
    connections = max(10, min(400, ROUND_TRIPS // requests))
    pair.other.start("answer", connections, requests)
    seconds: float = pair.near.call("ask", connections, requests)
    pair.other.finish()
    return seconds / connections * 1e6


def _line(turns: Turns, requests: int, options: Options) -> Result:
    what = _named(requests)
    faster = summary.compare(turns.samples, what, 0, FAST, TCP)
    return question.ratio(
        f"{what}, times plain TCP's time",
        1 / faster if faster else None,
        options.skipped,
        FAST,
        at_most=1 + NOISE,
        cores=summary.placements(turns.samples, what, 0),
        note=summary.medians(turns.samples, what, 0),
    )


if __name__ == "__main__":
    question.run(measure, __doc__)
