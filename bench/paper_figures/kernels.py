"""A 2.5, 3.15, 3.16, 5.10, 5.11 and 6.1 to 6.9: times and speedups of NPB's and JGF's kernels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from statistics import median

from common import kernel_runs, mpi
from common.kernel_runs import OBJECTS, WHOLE

from .figure import Bars, Curve, Figure, Missing, Panel, with_data
from .reading import peers_of
from .records import Records, reading

SOURCE = "kernels"
NPB = ("cg", "ep", "ft", "is", "mg", "sp")
ORDER = "SWABC"
RANKS = "ranks"


class Times:
    """Median seconds of what was recorded of some kernels, by kernel, class, way, MPI and number of ranks."""

    def __init__(self, records: Records, of: Collection[str], tcp: bool = False) -> None:
        self.samples, self.distance = records.samples(SOURCE, of)
        self.peers = [peer for peer in peers_of(self.samples) if tcp or peer != mpi.FASTSOCK_TCP]
        self._values: dict[tuple[str, str, str, str, int], list[float]] = {}
        with reading(records.path(SOURCE)):
            for sample in self.samples:
                kernel, letter, way = sample.what.partition(",")[0].split(maxsplit=2)
                key = kernel, letter, way, sample.peer, kernel_runs.ranks(sample.what)
                self._values.setdefault(key, []).append(sample.value / 1e6)

    def of(self, kernel: str, letter: str, peer: str, way: str = WHOLE) -> dict[int, float]:
        """Seconds by the number of ranks."""
        return {
            key[4]: median(values)
            for key, values in sorted(self._values.items())
            if key[:4] == (kernel, letter, way, peer)
        }

    def speedups(self, kernel: str, letter: str, peer: str, way: str = WHOLE) -> list[tuple[int, float]]:
        """One rank's time over that of each number of ranks."""
        times = self.of(kernel, letter, peer, way)
        return [(ranks, times[1] / took) for ranks, took in times.items()] if 1 in times else []

    def largest(self, kernel: str, most: str) -> str:
        """The largest class up to one that the kernel was run in on several ranks. Raises Missing."""
        for letter in reversed(ORDER[: ORDER.index(most) + 1]):
            if any(len(self.of(kernel, letter, peer)) > 1 for peer in self.peers):
                return letter
        raise Missing(f"the records hold no run of {kernel} up to class {most} on one rank and on more")

    def classes(self, kernels: Sequence[str], most: str) -> dict[str, str]:
        """The largest class of each kernel that has one. Raises Missing where none has."""
        found, lacking = {}, None
        for kernel in kernels:
            try:
                found[kernel] = self.largest(kernel, most)
            except Missing as error:
                lacking = error
        if lacking is not None and not found:
            raise lacking
        return found

    def letters(self, kernel: str, letters: str) -> str:
        """Of the letters those that were recorded."""
        return "".join(letter for letter in letters if any(self.of(kernel, letter, peer) for peer in self.peers))


def _speedup_bars(records: Records) -> list[Panel]:
    shown = {"lufact": "LUFact", "series": "Series"}
    times = Times(records, shown)
    panels = []
    for kernel, name in shown.items():
        by_line = {
            line: {f"{letter}{ranks}": gain for letter in times.letters(kernel, "ABC")
                   for ranks, gain in times.speedups(kernel, letter, peer, way) if ranks > 1}
            for line, peer, way in _drawn(times)
        }  # fmt: skip
        labels = sorted({label for gains in by_line.values() for label in gains})
        if labels:
            values = {line: [gains.get(label) for label in labels] for line, gains in by_line.items() if gains}
            bars = Bars(labels, values)
            panels.append(Panel(name, "size and number of ranks", "speedup", bars=bars))
    return with_data(panels, "A 2.5")


def _drawn(times: Times) -> list[tuple[str, str, str]]:
    """A line an MPI, and one for its lower-case calls: what serialization costs. Its name, the MPI, the way."""
    return [*((peer, peer, WHOLE) for peer in times.peers),
            *((f"{peer} by objects", peer, OBJECTS) for peer in times.peers)]  # fmt: skip


def _lines(times: Times, kernel: str, letter: str, points: Callable[..., list[tuple[int, float]]]) -> list[Curve]:
    found = [Curve(line, points(kernel, letter, peer, way)) for line, peer, way in _drawn(times)]
    return [each for each in found if each.points]


def _runtime_and_speedup(figure: str, kernel: str, name: str, records: Records) -> list[Panel]:
    times = Times(records, [kernel])
    letter = times.largest(kernel, "C")
    seconds = lambda *key: list(times.of(*key).items())  # noqa: E731
    return with_data([
        Panel(f"{name}, size {letter}", RANKS, "runtime, s", _lines(times, kernel, letter, seconds)),
        Panel(f"{name}, size {letter}", RANKS, "speedup", _lines(times, kernel, letter, times.speedups)),
    ], figure)  # fmt: skip


def _speedup(figure: str, kernels: dict[str, str], records: Records) -> list[Panel]:
    times = Times(records, kernels)
    panels = []
    for kernel, letter in times.classes([*kernels], "C").items():
        lines = _lines(times, kernel, letter, times.speedups)
        panels.append(Panel(f"{kernels[kernel]}, size {letter}", RANKS, "speedup", lines))
    return with_data(panels, figure)


def _relative(figure: str, most: str, records: Records) -> list[Panel]:
    times = Times(records, NPB)
    beside = mpi.OPENMPI if mpi.OPENMPI in times.peers else mpi.MPICH
    classes = times.classes(NPB, most)
    panels = []
    numbers = sorted({n for kernel, letter in classes.items() for peer in times.peers
                      for n in times.of(kernel, letter, peer)})  # fmt: skip
    for ranks in [numbers[0], *numbers[1:][-2:]]:
        kernels = {k: letter for k, letter in classes.items() if ranks in times.of(k, letter, beside)}
        values: dict[str, list[float | None]] = {}
        for peer in times.peers:
            took = [times.of(kernel, letter, peer).get(ranks) for kernel, letter in kernels.items()]
            values[peer] = [
                times.of(kernel, letter, beside)[ranks] / each if each else None
                for (kernel, letter), each in zip(kernels.items(), took, strict=True)
            ]
        if kernels:
            title = f"{ranks} rank{'s' if ranks > 1 else ''}"
            bars = Bars([f"{kernel.upper()} {letter}" for kernel, letter in kernels.items()], values)
            panels.append(Panel(title, "NPB kernel", f"runtime of {beside} / runtime", bars=bars))
    return with_data(panels, figure)


def _npb(figure: str, most: str, tcp: bool, records: Records) -> list[Panel]:
    times = Times(records, NPB, tcp)
    return with_data([
        Panel(f"{kernel.upper()}, class {letter}", RANKS, "speedup",
              [Curve(peer, times.speedups(kernel, letter, peer)) for peer in times.peers])
        for kernel, letter in times.classes(NPB, most).items()
    ], figure)  # fmt: skip


_ONE_HOST = "One host: no network between the ranks. More than 2 ranks share the cores."
_CLASS = "Of each kernel the largest recorded class up to the paper's."
_TCP = f"{_ONE_HOST} The line `fastsock tcp` goes over TCP on loopback, the others through memory. {_CLASS}"


def _scalability(name: str, letter: str, where: str, note: str, tcp: bool = False) -> Figure:
    title = f"NPB class {letter}, speedups ({where} in the thesis)"
    return Figure(name, title, [SOURCE], partial(_npb, name, letter, tcp), across=3, note=note, of=NPB)


FIGURES = [
    Figure("A 2.5", "speedups of selected Java Grande kernels", [SOURCE], _speedup_bars, note=_ONE_HOST,
           of=["lufact", "series"]),
    Figure("A 3.15", "LUFact, runtime and speedup", [SOURCE],
           partial(_runtime_and_speedup, "A 3.15", "lufact", "LUFact"), note=_ONE_HOST, of=["lufact"]),
    Figure("A 3.16", "MolDyn, runtime and speedup", [SOURCE],
           partial(_runtime_and_speedup, "A 3.16", "moldyn", "MolDyn"), note=_ONE_HOST, of=["moldyn"]),
    Figure("A 5.10", "speedups of Crypt and LUFact", [SOURCE],
           partial(_speedup, "A 5.10", {"crypt": "Crypt", "lufact": "LUFact"}), note=_ONE_HOST,
           of=["crypt", "lufact"]),
    Figure("A 5.11", "speedups of MolDyn", [SOURCE], partial(_speedup, "A 5.11", {"moldyn": "MolDyn"}), note=_ONE_HOST,
           of=["moldyn"]),
    Figure("A 6.1", "NPB class B, performance relative to MPI", [SOURCE], partial(_relative, "A 6.1", "B"), 1, _CLASS,
           of=NPB),
    Figure("A 6.2", "NPB class C, performance relative to MPI", [SOURCE], partial(_relative, "A 6.2", "C"), 1, _CLASS,
           of=NPB),
    _scalability("A 6.3", "A", "Gigabit Ethernet", _TCP, tcp=True),
    _scalability("A 6.4", "B", "Gigabit Ethernet", _TCP, tcp=True),
    *(_scalability(f"A 6.{number}", letter, where, f"{_ONE_HOST} {_CLASS}") for number, letter, where in (
        (5, "A", "InfiniBand"), (6, "B", "InfiniBand"), (7, "A", "Finis Terrae"), (8, "B", "Finis Terrae"),
        (9, "C", "Finis Terrae"),
    )),
]  # fmt: skip
