"""What does a connection over shared memory cost to make and to close, beside plain TCP's?"""

from __future__ import annotations

from functools import partial

from common import question, set_up, summary
from common.peers.connecting import Connecting
from common.question import Options
from common.target import Result

PEERS = {"shm": 2.0, "unix": 2.0}  # path: at most so many times plain TCP's time


def measure(options: Options) -> list[Result]:
    samples, paths = set_up.measure(
        [
            partial(Connecting, "tcp"),
            *(partial(Connecting, f"fastsock {path}", client="fast", server="fast", path=path) for path in PEERS),
        ],
        cores=options.cores,
        groups=options.times(1, 3),
        turns=options.times(3, 5),
        count=options.times(100, 400),
        skipped=options.skipped,
    )
    results = []
    for path, target in PEERS.items():
        for what in (set_up.FLOWING, set_up.ONE_BY_ONE):
            faster = summary.compare(samples, what, 0, f"fastsock {path}", "tcp")
            results.append(
                question.ratio(
                    f"{what} over {path}, times plain TCP's time",
                    1 / faster if faster else None,
                    options.skipped,
                    f"fastsock {path}",
                    at_most=target if what == set_up.FLOWING else None,
                    cores=summary.placements(samples, what, 0),
                    note=f"{summary.medians(samples, what, 0)}; {paths.get(f'fastsock {path}', '')}",
                )
            )
    return results


if __name__ == "__main__":
    question.run(measure, __doc__)
