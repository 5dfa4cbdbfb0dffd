"""What do active messages cost beside the bytes that carry them? Requests and replies; bulks.

The socket's round trip is one byte there and back. A request runs a handler at the other end, and its reply one here.
ucxx is a peer where it is installed: with --install it is put into bench/.venvs first.
"""

from __future__ import annotations

import sys
from functools import partial

from common import counted, exchange, question, summary, venvs
from common.exchange import PING_PONG, STREAM
from common.interleave import Sample
from common.peers.active import Active
from common.peers.catalogue import fast
from common.peers.ucxx import PACKAGE, VENV, Ucxx
from common.question import Options
from common.target import Result

NONE, SIXTEEN = "request and reply, no word", "request and reply, 16 words"
SOCKET, UCXX = "fastsock shm", "ucxx's active messages"
SEGMENT, POOL, ARRAY = "bulk into the segment", "bulk into a pool", "bulk into a fresh array"
BULKS = {SEGMENT: "segment", POOL: "pool", ARRAY: "array"}
ENTRIES = {count: f"{count} {'entry' if count == 1 else 'entries'}, asked by turns" for count in (1, 8, 64)}
SIZES = {64 << 10: "64 KiB", 1 << 20: "1 MiB"}


def measure(options: Options) -> list[Result]:
    socket = partial(fast, "shm")
    short = exchange.measure(
        [socket, partial(Active, NONE), partial(Active, SIXTEEN, words=16), partial(Ucxx, UCXX)],
        [(PING_PONG, 1)],
        cores=options.cores,
        groups=options.times(2, 5),
        turns=options.times(3, 6),
        seconds=options.pick(0.03, 0.1),
        skipped=options.skipped,
    )
    many = exchange.measure(
        [partial(Active, name, entries=count) for count, name in ENTRIES.items()],
        [(PING_PONG, 1)],
        cores=options.cores,
        groups=options.times(1, 3),
        turns=options.times(3, 6),
        seconds=options.pick(0.03, 0.1),
        skipped=options.skipped,
    )
    bulk = exchange.measure(
        [
            socket,
            *(
                partial(Active, name, into=into)
                for name, into in ((SEGMENT, "segment"), (POOL, "pool"), (ARRAY, "array"))
            ),
        ],
        [(STREAM, size) for size in SIZES],
        cores=options.cores,
        groups=options.times(2, 5),
        turns=options.times(3, 6),
        seconds=options.pick(0.03, 0.1),
        skipped=options.skipped,
    )

    def times(samples: list[Sample], peer: str, against: str, at_most: float | None) -> Result:
        faster, near = summary.compare_here(samples, PING_PONG, 1, peer, against)
        return question.ratio(
            f"{peer}, its time by that of {'1 B over the socket' if against == SOCKET else against}",
            None if faster is None else 1 / faster,
            options.skipped,
            peer,
            at_most=at_most if near or faster is None else None,
            cores=summary.placements(samples, PING_PONG, 1),
            note=summary.medians([s for s in samples if s.peer in (peer, against)], PING_PONG, 1),
        )

    def beside_ucxx() -> Result:
        faster, near = summary.compare_here(short, PING_PONG, 1, NONE, UCXX)
        return question.ratio(
            f"{NONE}, times as fast as {UCXX}",
            faster,
            options.skipped,
            UCXX,
            at_least=3.0 if near or faster is None else None,
            cores=summary.placements(short, PING_PONG, 1),
            note=summary.medians([s for s in short if s.peer in (NONE, UCXX)], PING_PONG, 1),
        )

    def bandwidth(peer: str, size: int, at_least: float | None) -> Result:
        faster, near = summary.compare_here(bulk, STREAM, size, peer, SOCKET)
        return question.ratio(
            f"{peer}, {SIZES[size]}, its bandwidth by the stream's",
            faster,
            options.skipped,
            peer,
            at_least=at_least if near or faster is None else None,
            cores=summary.placements(bulk, STREAM, size),
            note=summary.medians([s for s in bulk if s.peer in (peer, SOCKET)], STREAM, size),
        )

    return [
        times(short, NONE, SOCKET, 2.5),
        times(short, SIXTEEN, NONE, 1.25),
        beside_ucxx(),
        *(times(many, ENTRIES[count], ENTRIES[1], None) for count in (8, 64)),
        *(bandwidth(SEGMENT, size, 0.95) for size in SIZES),
        *(bandwidth(peer, size, None) for peer in (POOL, ARRAY) for size in SIZES),
    ]


def counts(options: Options) -> str:
    short = [partial(fast, "shm"), partial(Active, NONE), partial(Active, SIXTEEN, words=16)]
    bulk = [partial(fast, "shm"), *(partial(Active, name, into=into) for name, into in BULKS.items())]
    how = {"cores": options.cores, "skipped": options.skipped}
    found = exchange.counts(short, [(PING_PONG, 1)], **how)  # type: ignore[arg-type]
    found += exchange.counts(bulk, [(STREAM, size) for size in SIZES], **how)  # type: ignore[arg-type]
    return counted.report(found, options.skipped)


if __name__ == "__main__":
    if "--install" in sys.argv:
        venvs.make(VENV, [PACKAGE])
        sys.argv.remove("--install")
    question.run(measure, __doc__, counts)
