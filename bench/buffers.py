"""Four ways that an array can go to another process, as in Javia-I, beside a registered buffer that is handed over.

Sent by copy (through the ring) or by pin (read out of the sender's memory, where that is faster); received posted
(recv_array_into) or allocated (recv_array). There and back, in memory that both ends have touched before.
"Read once": each receiver sums all elements, of the buffer as of the array beside it.
"""

from __future__ import annotations

from functools import partial

from common import counted, exchange, question, sizes, summary
from common.exchange import PING_PONG
from common.peers.arrays import FastArrays, HandedBuffers
from common.question import Options
from common.target import Result

KIB, MIB = 1 << 10, 1 << 20
ARRAYS = "send_array, recv_array_into"  # as the settings are
ARRAYS_READ = f"{ARRAYS}, read once"
COPY, COPY_NEW, PIN, PIN_NEW = "copy, posted", "copy, allocated", "pin, posted", "pin, allocated"
HANDED, HANDED_READ = "buffer handed over", "buffer handed over, read once"
DIRECT_FROM = 4 * KIB  # bytes: from here on pin may read from the sender
TABLE = (8, 4 * KIB, 64 * KIB, MIB, 64 * MIB)
LARGEST, ONE_MIB = 64 * MIB, MIB
FLAT = (64 * KIB, MIB, 16 * MIB, 64 * MIB)  # handing over takes the same

VARIANTS = [
    partial(FastArrays, ARRAYS, "shm", into=True),
    partial(FastArrays, ARRAYS_READ, "shm", into=True, read=True),
    partial(FastArrays, COPY, "shm", into=True, direct_from=0),
    partial(FastArrays, COPY_NEW, "shm", into=False, direct_from=0),
    partial(FastArrays, PIN, "shm", into=True, direct_from=DIRECT_FROM),
    partial(FastArrays, PIN_NEW, "shm", into=False, direct_from=DIRECT_FROM),
    partial(HandedBuffers, HANDED),
    partial(HandedBuffers, HANDED_READ, read=True),
]


def measure(options: Options) -> list[Result]:
    how = {
        "cores": options.cores,
        "groups": options.times(1, 4),
        "turns": options.times(3, 6),
        "seconds": options.pick(0.02, 0.1),
        "skipped": options.skipped,
    }
    table = TABLE[options.times(1, 0) :]
    samples = exchange.measure(VARIANTS, [(PING_PONG, size) for size in table], **how)  # type: ignore[arg-type]
    names = {size: f"{HANDED}, {sizes.name(size)}" for size in FLAT}
    flat = exchange.measure(
        [partial(HandedBuffers, name, nbytes=size) for size, name in names.items()],
        [(PING_PONG, 0)],
        **how,  # type: ignore[arg-type]
    )

    def line(peer: str, size: int, against: str, at_least: float | None = None) -> Result:
        faster, near = summary.compare_here(samples, PING_PONG, size, peer, against)
        return question.ratio(
            f"{peer}, {sizes.name(size)}, times {against}",
            faster,
            options.skipped,
            peer,
            at_least=at_least if near or faster is None else None,
            cores=summary.placements(samples, PING_PONG, size),
            note=summary.medians([s for s in samples if s.peer in (peer, against)], PING_PONG, size),
        )

    def same(size: int) -> Result:
        faster, near = summary.compare_here(flat, PING_PONG, 0, names[size], names[FLAT[0]])
        return question.ratio(
            f"{names[size]}, its time by that of {sizes.name(FLAT[0])}",
            None if faster is None else 1 / faster,
            options.skipped,
            names[size],
            at_most=1.1 if near or faster is None else None,
            cores=summary.placements(flat, PING_PONG, 0),
            note=summary.medians([s for s in flat if s.peer in (names[size], names[FLAT[0]])], PING_PONG, 0),
        )

    return [
        line(HANDED, LARGEST, ARRAYS, 200),
        *(line(HANDED_READ, size, ARRAYS_READ, 1.5) for size in (ONE_MIB, LARGEST)),
        *(line(HANDED_READ, size, ARRAYS) for size in (ONE_MIB, LARGEST)),
        *(same(size) for size in FLAT[1:]),
        *(line(peer, size, COPY) for size in table for peer in (COPY_NEW, PIN, PIN_NEW, HANDED)),
    ]


def counts(options: Options) -> str:
    cells = [(PING_PONG, size) for size in (64 * KIB, MIB)]
    found = exchange.counts(VARIANTS, cells, cores=options.cores, skipped=options.skipped)
    return counted.report(found, options.skipped)


if __name__ == "__main__":
    question.run(measure, __doc__, counts)
