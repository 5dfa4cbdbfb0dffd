"""What does a connection that may gain shared memory cost to make and to close, beside plain TCP's?"""

from __future__ import annotations

from functools import partial

from common import question, set_up, summary
from common.peers.connecting import Connecting
from common.question import Options
from common.target import Result

FAST = "fastsock"
AT_MOST = 1.03  # times plain TCP's time


def measure(options: Options) -> list[Result]:
    samples, paths = set_up.measure(
        [
            partial(Connecting, "tcp"),
            partial(Connecting, FAST, client="fast", server="fast"),
        ],
        cores=options.cores,
        groups=options.times(1, 3),
        turns=options.times(3, 5),
        count=options.times(100, 400),
        skipped=options.skipped,
    )
    results = []
    for what in (set_up.FLOWING, set_up.ONE_BY_ONE):
        faster = summary.compare(samples, what, 0, FAST, "tcp")
        results.append(
            question.ratio(
                f"{what}, times plain TCP's time",
                1 / faster if faster else None,
                options.skipped,
                FAST,
                at_most=AT_MOST if what == set_up.FLOWING else None,
                cores=summary.placements(samples, what, 0),
                note=f"{summary.medians(samples, what, 0)}; {paths.get(FAST, '')}",
            )
        )
    return results


if __name__ == "__main__":
    question.run(measure, __doc__)
