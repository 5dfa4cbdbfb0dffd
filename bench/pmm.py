"""What does communication cost a parallel matrix multiplication, by each way that a block can go to another process?

The ring of examples/pmm.py, 64 x 64 and 256 x 256, as in Javia's figures 7 to 10: the time in communication, its share
of the whole, and the rate. The barriers alone are taken off, and nothing is computed where communication is timed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from common import question, summary
from common.interleave import Sample, Turns
from common.placement import Placement
from common.process import Broken, Process, Unusable
from common.question import Options
from common.target import Result

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "pmm.py"
MOVING, WHOLE = "communication", "whole"  # what the samples hold, in microseconds a product
COPY, COPY_NEW = "copy, posted", "copy, allocated"
PIN, PIN_NEW = "pin, posted", "pin, allocated"
BUFFER = "buffer handed over"
VARIANTS = (COPY, COPY_NEW, PIN, PIN_NEW, BUFFER)
SIZES = (64, 256)
WORKERS = (2, 4, 8)  # a bar only where each has a core
BAR = (2, 256, BUFFER)
LESS = 0.75  # E 5.1.1: a quarter less than by copy


@dataclass
class Parts:
    """Microseconds of a product, by turn."""

    whole: list[float] = field(default_factory=list)
    communication: list[float] = field(default_factory=list)


class Ring:
    """Workers of one size, each with a ring for each variant."""

    def __init__(self, options: Options, workers: int, size: int) -> None:
        self.workers = [
            Process(
                partial(_worker, rank, workers, size),
                cores=options.cores[rank % 2],
                environment={"OPENBLAS_NUM_THREADS": "1"},
            )
            for rank in range(workers)
        ]

    def open(self, skipped: question.Skipped) -> list[str]:
        """Connect the rings. Returns the variants that can be measured."""
        addresses = self.all("address", [()] * len(self.workers))
        usable = []
        for variant in VARIANTS:
            if variant in skipped:
                continue
            rights = addresses[1:] + addresses[:1]
            paths = set(self.all("join", [(variant, tuple(right)) for right in rights]))
            if paths != {"shm"}:
                skipped.add(variant, f"the ring's connections took {', '.join(sorted(paths))}, not shm")
                continue
            if not max(self.all("check", [(variant,)] * len(self.workers))) < 1e-9:
                raise Broken(f"{variant}: the product is not numpy's")
            usable.append(variant)
        return usable

    def all(self, method: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        """Have each worker run a method. Returns what they returned."""
        for worker, words in zip(self.workers, arguments, strict=True):
            worker.start(method, *words)
        return [worker.finish() for worker in self.workers]

    def multiply(self, variant: str, times: int, compute: bool, communicate: bool) -> float:
        """Microseconds a product."""
        words = (variant, times, compute, communicate)
        return float(self.all("multiply", [words] * len(self.workers))[0] / times * 1e6)

    def close(self) -> None:
        """End the workers."""
        for worker in self.workers:
            worker.close()


def _worker(rank: int, workers: int, size: int) -> Any:
    spec = importlib.util.spec_from_file_location("pmm_example", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise Unusable(f"examples/pmm.py cannot run: {error}") from error
    return module.Worker(rank, workers, size)


def measure(options: Options) -> list[Result]:
    results = []
    for workers in WORKERS[: options.times(1, len(WORKERS))]:
        for size in SIZES:
            results += _of_a_size(options, workers, size)
    return results


def _of_a_size(options: Options, workers: int, size: int) -> list[Result]:
    turns = Turns(Placement(options.cores), options.skipped)
    parts = {variant: Parts() for variant in VARIANTS}
    what = f"{workers} workers, {size} x {size}"
    directly: dict[str, float] = {}
    for _ in range(options.times(1, 3)):
        ring = Ring(options, workers, size)
        try:
            usable = ring.open(options.skipped)
            for turn in range(options.times(4, 8) + 1):
                keep = turn > 0
                runs = [(v, _run(options, ring, v, parts[v] if keep else Parts())) for v in usable]
                turns.take(what, size, runs, keep=keep)
            directly = {v: ring.all("share_past_the_ring", [(v,)] * workers)[0] for v in usable}
        except (Broken, Unusable) as error:
            return [Result(what, None, "x", note=str(error))]
        finally:
            ring.close()
    options.samples += _kept(turns.samples, what, parts)
    return [_line(options, turns.samples, what, size, variant, parts[variant], directly.get(variant, 0.0),
                  LESS if (workers, size, variant) == BAR else None) for variant in VARIANTS]  # fmt: skip


def _kept(samples: list[Sample], what: str, parts: dict[str, Parts]) -> list[Sample]:
    """The times in communication, and beside each that of its whole product."""
    moving = [replace(sample, what=f"{what}: {MOVING}") for sample in samples]
    whole = [
        replace(sample, what=f"{what}: {WHOLE}", value=value)
        for variant, of in parts.items()
        for sample, value in zip([s for s in samples if s.peer == variant], of.whole, strict=False)
    ]
    return moving + whole


def _run(options: Options, ring: Ring, variant: str, parts: Parts) -> Callable[[], float]:
    def run() -> float:
        times = max(2, min(500, int(options.pick(0.02, 0.1) * 1e6 / ring.multiply(variant, 1, True, True))))
        parts.whole.append(ring.multiply(variant, times, True, True))
        moving = ring.multiply(variant, times, False, True)
        parts.communication.append(moving - ring.multiply(variant, times, False, False))
        return parts.communication[-1]

    return run


def _line(
    options: Options, samples: list[Sample], what: str, size: int, variant: str, parts: Parts, directly: float,
    at_most: float | None,
) -> Result:  # fmt: skip
    """The time in communication by that of the first variant, with what figures 7 to 10 tell."""
    faster, near = summary.compare_here(samples, what, size, variant, COPY)
    if variant == COPY:
        faster = 1.0 if parts.whole else None
    note = ""
    if parts.whole:
        spent, whole = summary.median(parts.communication), summary.median(parts.whole)
        share = summary.median([c / w for c, w in zip(parts.communication, parts.whole, strict=True)])
        note = f"{spent:.0f} us, {share:.0%} of {whole:.0f} us, {2 * size**3 / whole:.0f} Mflop/s"
        note += f", {directly:.0%} past the ring" if variant in (PIN, PIN_NEW, BUFFER) else ""
    return question.ratio(
        f"pMM, {what}: communication, {variant}, its time by copy",
        1 / faster if faster else None,
        options.skipped,
        variant,
        at_most=at_most if near or faster is None else None,
        cores=summary.placements(samples, what, size),
        note=note,
    )


if __name__ == "__main__":
    question.run(measure, __doc__)
