"""What do active messages cost beside the bytes that carry them? Requests and replies; bulks.

The socket's round trip is one byte there and back. A request runs a handler at the other end, and its reply one here.
"""

from __future__ import annotations

import importlib.util
from functools import partial

from common import counted, exchange, question, summary
from common.exchange import PING_PONG, STREAM
from common.peers.active import Active
from common.peers.catalogue import fast
from common.placement import NEAR
from common.question import Options
from common.target import Result

NONE, SIXTEEN = "request and reply, no word", "request and reply, 16 words"
SOCKET, UCXX = "fastsock shm", "ucxx's active messages"
SEGMENT, POOL, ARRAY = "bulk into the segment", "bulk into a pool", "bulk into a fresh array"
BULKS = {SEGMENT: "segment", POOL: "pool", ARRAY: "array"}
SIZES = {64 << 10: "64 KiB", 1 << 20: "1 MiB"}


def measure(options: Options) -> list[Result]:
    if importlib.util.find_spec("ucxx") is None:
        options.skipped.add(UCXX, "the package ucxx is not installed")
    else:
        options.skipped.add(UCXX, "it is installed, and no peer for it is written yet")
    socket = partial(fast, "shm")
    short = exchange.measure(
        [socket, partial(Active, NONE), partial(Active, SIXTEEN, words=16)],
        [(PING_PONG, 1)],
        cores=options.cores,
        groups=options.times(2, 5),
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

    def times(peer: str, against: str, at_most: float) -> Result:
        faster = summary.compare(short, PING_PONG, 1, peer, against)
        return question.ratio(
            f"{peer}, its time by that of {'1 B over the socket' if against == SOCKET else against}",
            None if faster is None else 1 / faster,
            options.skipped,
            peer,
            at_most=at_most,
            cores=NEAR,
            note=summary.medians([s for s in short if s.peer in (peer, against)], PING_PONG, 1),
        )

    def bandwidth(peer: str, size: int, at_least: float | None) -> Result:
        return question.ratio(
            f"{peer}, {SIZES[size]}, its bandwidth by the stream's",
            summary.compare(bulk, STREAM, size, peer, SOCKET),
            options.skipped,
            peer,
            at_least=at_least,
            cores=NEAR,
            note=summary.medians([s for s in bulk if s.peer in (peer, SOCKET)], STREAM, size),
        )

    return [
        times(NONE, SOCKET, 2.5),
        times(SIXTEEN, NONE, 1.25),
        question.ratio(f"{NONE}, times {UCXX}", None, options.skipped, UCXX, at_least=3.0),
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
    question.run(measure, __doc__, counts)
