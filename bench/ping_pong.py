"""How far is a one-byte round trip from the bare ring, from TCP, and from TCP that never sleeps?"""

from __future__ import annotations

from typing import Any

from common import exchange, question, sizes, summary
from common.exchange import PING_PONG
from common.peers.catalogue import choose
from common.placement import FAR
from common.question import HERE, Options
from common.target import Result

SHM, MIB = "fastsock shm", 1 << 20


def measure(options: Options) -> list[Result]:
    peers = choose("tcp,shm,tcp-polled,ring")
    samples = exchange.measure(
        list(peers.values()),
        [(PING_PONG, size) for size in (1, 64, MIB, 16 * MIB)],
        cores=options.cores,
        groups=options.times(1, 4),
        turns=options.times(3, 5),
        seconds=options.pick(0.02, 0.05),
        skipped=options.skipped,
    )

    def line(size: int, against: str, text: str, places: tuple[str, ...], **bounds: Any) -> Result:
        found = summary.compare(samples, PING_PONG, size, SHM, against, places)
        if found is not None and bounds.get("at_most") is not None:
            found = 1 / found  # told as times slower
        what = f"ping-pong {sizes.name(size)}, {text}"
        note = summary.medians(samples, PING_PONG, size, places)
        return question.ratio(what, found, options.skipped, SHM, cores=places[0], note=note, **bounds)

    return [
        line(1, "bare ring", "times the bare ring's", HERE, at_most=2),
        line(1, "tcp", "times faster than TCP", HERE, at_least=80),
        line(1, "tcp polled", "times faster than polled TCP", HERE, at_least=20),
        line(64, "tcp", "times faster than TCP", HERE),
        line(MIB, "tcp", "times faster than TCP", HERE),
        line(16 * MIB, "tcp", "times faster than TCP", HERE),
        line(1, "tcp", "times faster than TCP", (FAR,), at_least=30),
        line(MIB, "tcp", "times faster than TCP", (FAR,), at_least=4),
        line(16 * MIB, "tcp", "times faster than TCP", (FAR,), at_least=4),
    ]


if __name__ == "__main__":
    question.run(measure, __doc__)
