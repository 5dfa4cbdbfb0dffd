"""How many more requests does an asyncio streams echo answer under the launcher? 1 KiB; two cores, and one."""

from __future__ import annotations

from apps import compare
from common import question
from common.question import Options
from common.target import Result

APP = "asyncio_echo"
TARGETS = {"small": (8.0, 2.0), "together": (2.5, 1.8), "behind": (None, None), "large": (2.2, 2.0)}  # two cores, one
WORDS = {
    "small": "1 KiB",
    "together": "1 KiB, 8 connections at once",
    "behind": "the same behind calls of 1 MiB",
    "large": "1 MiB",
}


def measure(options: Options) -> list[Result]:
    first = options.cores[0]
    results = []
    for index, cores in enumerate((options.cores, (first, first))):
        turns, seconds = options.times(2, 5), options.pick(0.25, 0.6)
        found, failed = compare([APP], turns=turns, seconds=seconds, cores=cores)
        by_payload = {comparison.payload: comparison for comparison in found}
        for payload, targets in TARGETS.items():
            comparison = by_payload.get(payload)
            measured = comparison.ratio if comparison else None
            note = "; ".join(failed.values())
            if comparison and measured is not None:
                note = f"{comparison.rates()} requests a second, {comparison.connections()}"
            results.append(
                Result(
                    f"asyncio streams echo, {WORDS[payload]}, on {('two cores', 'one core')[index]}",
                    measured, "x", at_least=targets[index], cores=comparison.cores if comparison else "", note=note,
                    noise=question.NOISE if targets[index] == 1.0 else 0,
                )
            )  # fmt: skip
    return results


if __name__ == "__main__":
    question.run(measure, __doc__)
