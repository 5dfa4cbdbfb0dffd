"""What if cores are short? Both ends on one core, eight pairs on two cores, a hog on each core."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common import question, sizes, summary
from common.interleave import Turns
from common.pair import Pair
from common.peers.catalogue import choose
from common.placement import Placement
from common.process import Broken, Process, Unusable
from common.question import Options
from common.target import Result

SHM, TCP = "fastsock shm", "tcp"
SIZES = [64, 4 << 10, 64 << 10, 1 << 20]
SMALL_TIMES, NEVER_SLOWER = 2.0, 1.0


@dataclass(frozen=True)
class Case:
    name: str
    pairs: int
    one_core: bool = False
    pinned: bool = True
    hogs: bool = False


CASES = [
    Case("both ends on one core", 1, one_core=True),
    Case("8 pairs on 2 cores", 8, pinned=False),
    Case("a hog on each core", 1, hogs=True),
]


class Hog:
    """Burns its core for ever."""

    def burn(self) -> None:
        while True:
            pass


class Set:
    """Some pairs of one peer that exchange at the same time."""

    def __init__(self, make: Callable[[], object], case: Case, cores: tuple[int, int]) -> None:
        placed = (cores[0], cores[0]) if case.one_core else cores
        self.pairs: list[Pair] = []
        try:
            for _ in range(case.pairs):
                self.pairs.append(Pair(make(), placed if case.pinned else (set(cores), set(cores))))  # type: ignore
        except BaseException:
            self.close()
            raise

    def exchange(self, size: int, seconds: float) -> float:
        """Microseconds a round trip: the mean over the pairs, weighted by what each reached."""
        for pair in self.pairs:
            pair.other.start("pong_until_stopped", size)
        for pair in self.pairs:
            pair.near.start("ping_for", size, seconds)
        found = [pair.near.finish() for pair in self.pairs]
        for pair in self.pairs:
            pair.other.finish()
        return len(found) / sum(count / elapsed for count, elapsed in found) * 1e6

    def close(self) -> None:
        for pair in self.pairs:
            pair.close()


def measure(options: Options) -> list[Result]:
    results = []
    for case in CASES:
        with _hogs(options.cores if case.hogs else ()):
            results += _case(case, options)
    return results


def _case(case: Case, options: Options) -> list[Result]:
    seconds = options.pick(0.1, 0.25)
    unprobed = Placement((options.cores[0], options.cores[0]))  # a probe wants both cores free
    taken = Turns(unprobed, options.skipped, quiet=not case.hogs)
    for _ in range(options.times(1, 2)):
        sets = _open(case, options)
        for turn in range(options.times(2, 4)):
            for size in SIZES:
                runs = [(name, _run(some, size, seconds)) for name, some in sets.items()]
                taken.take(case.name, size, runs, keep=turn > 0)
        for some in sets.values():
            some.close()
    return [
        question.ratio(
            f"{case.name}, {sizes.name(size)}, times faster than TCP",
            summary.compare(taken.samples, case.name, size, SHM, TCP),
            options.skipped,
            SHM,
            at_least=SMALL_TIMES if size == SIZES[0] else NEVER_SLOWER,
            note=summary.medians(taken.samples, case.name, size),
            noise=0 if size == SIZES[0] else question.NOISE,
        )
        for size in SIZES
    ]


def _open(case: Case, options: Options) -> dict[str, Set]:
    sets = {}
    for name, make in choose("tcp,shm").items():
        if name in options.skipped:
            continue
        try:
            sets[name] = Set(make, case, options.cores)
        except (Broken, Unusable) as error:
            options.skipped.add(name, str(error))
    return sets


def _run(some: Set, size: int, seconds: float) -> Callable[[], float]:
    return lambda: some.exchange(size, seconds)


@contextlib.contextmanager
def _hogs(cores: Sequence[int]):  # type: ignore[no-untyped-def]
    hogs = [Process(Hog, cores=core) for core in cores]
    for hog in hogs:
        hog.start("burn")
    try:
        yield
    finally:
        for hog in hogs:
            hog.close()


if __name__ == "__main__":
    question.run(measure, __doc__)
