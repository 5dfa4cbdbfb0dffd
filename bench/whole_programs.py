"""Is every unmodified program at least as fast under the launcher, and twice as fast where it moves 1 MiB?"""

from __future__ import annotations

from apps import compare
from common import programs, question
from common.question import Options
from common.target import Result

LEAST = {"small": 1.0, "large": 2.0, "2,500 made at once": 1 / 1.3}  # times plain


def measure(options: Options) -> list[Result]:
    found, failed = compare(
        programs.names(), turns=options.times(1, 3), seconds=options.pick(0.2, 0.7), cores=options.cores
    )
    results = [
        Result(
            f"{c.app}, {'1 MiB' if c.payload == 'large' else c.payload}",
            c.ratio, "x", at_least=LEAST.get(c.payload, 1.0), cores=c.cores,
            note=f"{c.rates()} calls a second, {c.connections()}", noise=0 if c.payload == "large" else question.NOISE,
        )
        for c in found
    ]  # fmt: skip
    return results + [Result(app, None, "x", at_least=1.0, note=reason) for app, reason in failed.items()]


if __name__ == "__main__":
    question.run(measure, __doc__)
