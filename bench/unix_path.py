"""What does the unix path gain, where shared memory cannot be had?"""

from __future__ import annotations

from common import exchange, question, sizes, summary
from common.exchange import PING_PONG, STREAM
from common.peers.catalogue import choose
from common.question import Options
from common.target import Result

PEER, MIB = "fastsock unix", 1 << 20
TARGETS = {(PING_PONG, 1): 1.3, (STREAM, MIB): 1.7, (PING_PONG, MIB): None}


def measure(options: Options) -> list[Result]:
    samples = exchange.measure(
        list(choose("tcp,fast-unix,unix").values()),
        list(TARGETS),
        cores=options.cores,
        groups=options.times(1, 3),
        turns=options.times(3, 5),
        seconds=options.pick(0.03, 0.08),
        skipped=options.skipped,
    )
    return [
        question.ratio(
            f"unix path, {what} {sizes.name(size)}, times faster than TCP",
            summary.compare(samples, what, size, PEER, "tcp"),
            options.skipped,
            PEER,
            at_least=target,
            cores=summary.placements(samples, what, size),
            note=summary.medians(samples, what, size),
        )
        for (what, size), target in TARGETS.items()
    ]


if __name__ == "__main__":
    question.run(measure, __doc__)
