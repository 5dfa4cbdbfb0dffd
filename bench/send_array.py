"""How much does a typed array gain over a pickle on TCP? 512 KiB of float64, as in the papers' table 3.2."""

from __future__ import annotations

from functools import partial

from common import exchange, question, summary
from common.exchange import PING_PONG, STREAM
from common.peers.arrays import ConnectionTcp, FastArrays, PickleTcp
from common.question import Options
from common.target import Result

SIZE = 512 << 10
PICKLE, CONNECTION = "pickle over tcp", "mp.connection over tcp"  # pickle.dumps is slow for its large buffers
NEW, INTO = "send_array, recv_array", "send_array, recv_array_into"
OVER_TCP = "send_array over tcp"


def measure(options: Options) -> list[Result]:
    samples = exchange.measure(
        [
            PickleTcp,
            partial(FastArrays, NEW, "shm", into=False),
            partial(FastArrays, INTO, "shm", into=True),
            partial(FastArrays, OVER_TCP, "tcp", into=False),
            ConnectionTcp,
        ],
        [(PING_PONG, SIZE), (STREAM, SIZE)],
        cores=options.cores,
        groups=options.times(1, 4),
        turns=options.times(3, 5),
        seconds=options.pick(0.03, 0.06),
        skipped=options.skipped,
    )

    def line(peer: str, what: str, against: str, at_least: float | None = None) -> Result:
        return question.ratio(
            f"{peer}, 512 KiB float64, {what}, times {against}",
            summary.compare(samples, what, SIZE, peer, against),
            options.skipped,
            peer,
            at_least=at_least,
            cores=summary.placements(samples, what, SIZE),
            note=summary.medians([s for s in samples if s.peer in (peer, against)], what, SIZE),
        )

    return [
        *(line(peer, PING_PONG, against, 10) for peer in (NEW, INTO) for against in (PICKLE, CONNECTION)),
        *(line(peer, STREAM, against) for peer in (NEW, INTO) for against in (PICKLE, CONNECTION)),
        line(OVER_TCP, PING_PONG, PICKLE),
    ]


if __name__ == "__main__":
    question.run(measure, __doc__)
