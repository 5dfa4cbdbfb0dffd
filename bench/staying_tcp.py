"""Do connections that stay on TCP pay for fastsock? One end fast and the other plain, data and set-up."""

from __future__ import annotations

from functools import partial
from typing import Any

from common import exchange, question, set_up, sizes, summary
from common.exchange import PING_PONG, STREAM
from common.interleave import Sample
from common.peers.connecting import Connecting
from common.peers.stream_sockets import TcpPeer
from common.question import Options
from common.target import Result

CELLS = [(PING_PONG, 64), (STREAM, 4 << 10), (STREAM, 64 << 10), (STREAM, 1 << 20)]
CASES: dict[str, dict[str, Any]] = {  # name: which class each end uses, and the path that the fast client must report
    "fast client, plain server": {"client": "fast", "server": "plain", "path": "tcp", "forced": False},
    "plain client, fast server": {"client": "plain", "server": "fast"},
    "both fast, TCP forced": {"client": "fast", "server": "fast", "path": "tcp"},
}
DATA_PERCENT, SET_UP_PERCENT = 3, 10


def measure(options: Options) -> list[Result]:
    data = exchange.measure(
        [partial(TcpPeer, "tcp"), *(partial(TcpPeer, name, **case) for name, case in CASES.items())],
        CELLS,
        cores=options.cores,
        groups=options.times(1, 4),
        turns=options.times(5, 8),
        seconds=options.pick(0.03, 0.06),
        skipped=options.skipped,
    )
    made, _ = set_up.measure(
        [partial(Connecting, "tcp"), *(partial(Connecting, name, **case) for name, case in CASES.items())],
        cores=options.cores,
        groups=options.times(1, 3),
        turns=options.times(3, 6),
        count=options.times(100, 300),
        skipped=options.skipped,
    )
    results = []
    for name in CASES:
        for what, size in CELLS:
            results.append(_line(options, data, name, what, size, DATA_PERCENT))
        results.append(_line(options, made, name, set_up.FLOWING, 0, SET_UP_PERCENT))
        results.append(_line(options, made, name, set_up.ONE_BY_ONE, 0, None))
    return results


def _line(options: Options, samples: list[Sample], name: str, what: str, size: int, percent: float | None) -> Result:
    faster = summary.compare(samples, what, size, name, "tcp")
    slower = None if faster is None else (1 / faster - 1) * 100
    note = summary.medians([s for s in samples if s.peer in (name, "tcp")], what, size)
    if slower is None:
        note = options.skipped.get(name, "not measured")
    words = f"{name}, {what} {sizes.name(size) if size else ''}".rstrip()
    cores = summary.placements(samples, what, size)
    return Result(f"{words}, slower than plain", slower, "%", at_most=percent, cores=cores, note=note)


if __name__ == "__main__":
    question.run(measure, __doc__)
