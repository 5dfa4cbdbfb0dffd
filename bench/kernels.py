"""The papers' benchmarks, NPB (bench/npb) and JGF (bench/jgf), beside mpi4py on MPICH and on Open MPI.

python bench/kernels.py --install                    first time: MPICH and Open MPI from their wheels, into bench/.venvs
python bench/kernels.py --quick                      a few short ones, under three minutes
python bench/kernels.py --json FILE --resume         all targets, under an hour; goes on where FILE ends
python bench/kernels.py --what cg,is,lufact --classes S,W,A --ranks 1,2,4 [--skeleton] [--plain-numpy] [--objects]

No verified result, no number. Times are those of the slowest rank. Each turn runs a case on every MPI. Unless cases are
named, those run once whose times no target divides: SP, DT, most on four ranks, plain numpy; and class S and size A run
once more on each other device of fastsock.mpj.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from common import (
    kernel_bars,
    kernel_runs,
    kernel_targets,
    machine,
    mpi,
    mpi_command,
    mpi_targets,
    native_npb,
    record,
    summary,
    table,
)
from common.interleave import BUSY, Sample, Skipped
from common.kernel_runs import Case, Known
from common.placement import Placement
from common.process import Broken, Process, Unusable
from common.question import Options
from common.target import Result
from common.words import Parser, writable

PEERS = (mpi.FASTSOCK, *mpi.OTHERS)
LIMIT = 600.0  # seconds for one run, where nothing else is said
RANKS = (1, 2, 4)
ALIKE = ("python", "numpy", "numba")  # of what computes: else not the MPIs would be compared
SPIN = 2_000_000


class Runs:
    """Takes samples case by case, and keeps them. devices: they run some cases once, to be verified there."""

    def __init__(
        self, cores: tuple[int, int], skipped: Skipped, peers: Sequence[mpi.Mpi], devices: Sequence[mpi.Mpi] = (),
        limit: float = LIMIT, repeat: float = kernel_runs.REPEATED,
    ) -> None:  # fmt: skip
        self.cores, self.skipped, self.peers, self.devices, self.limit = cores, skipped, peers, devices, limit
        self.repeat = repeat
        self.native: dict[Case, Path] = {}
        self.placement = Placement(cores)
        self.samples: list[Sample] = []
        self.told: list[dict] = []
        self.failed: set[tuple[str, str]] = set()  # case and MPI: not run again

    def take(self, case: Case, of: Known, turn: int) -> None:
        """The case on each MPI. Who breaks is told, and has no number for it. Raises Unusable as `_check` does."""
        have = {(s.what, s.peer) for s in self.samples if s.turn == turn}
        disturbed = machine.wait_until_idle() > BUSY
        before = self.placement.probe()
        # who is first changes from turn to turn
        devices = self.devices if turn == 0 and kernel_targets.by_device(case) else []
        first = turn % max(1, len(self.peers))
        for peer in [*self.peers[first:], *self.peers[:first], *devices]:
            if (case.name, peer.name) in have | self.failed:
                continue
            try:
                told = kernel_runs.run(case, of, peer, self.cores, self.limit, self.repeat)
            except Broken as error:
                self.failed.add((case.name, peer.name))
                self.skipped.add(f"{case.name} on {peer.name}", str(error))
                continue
            self._check(case, peer.name, told)
            after = self.placement.probe()
            where = self.placement.name(before, after)
            value = told["seconds"] * 1e6
            # what was interrupted between the two has no sample, so it is measured again
            self.told.append({"what": case.name, "peer": peer.name, "turn": turn, "repeat": self.repeat, **told})
            self.samples.append(Sample(case.name, peer.name, 0, value, turn, where, before, after, disturbed))
            before = after
        if case in self.native and (case.name, native_npb.NATIVE) not in have:
            try:
                value = native_npb.run(self.native[case], self.cores[0], self.limit) * 1e6
            except Broken as error:
                self.skipped.add(f"{case.name} on {native_npb.NATIVE}", str(error))
                return
            after = self.placement.probe()
            where = self.placement.name(before, after)
            self.samples.append(Sample(case.name, native_npb.NATIVE, 0, value, turn, where, before, after, disturbed))

    def _check(self, case: Case, peer: str, told: dict) -> None:
        """Raises Unusable where MPIs would be compared that compute by different means, or two versions of one MPI."""
        for other in self.told:
            if other["peer"] == peer and other["versions"] != told["versions"]:
                differs = _differences(other["versions"], told["versions"], list(told["versions"]))
                raise Unusable(f"{peer} has changed since the record began ({differs}): name another file")
            differs = _differences(other["versions"], told["versions"], ALIKE)
            if other["what"] == case.name and other["arithmetic"] != told["arithmetic"]:
                differs = differs or f"arithmetic {other['arithmetic']}, {told['arithmetic']}"
            if differs:
                raise Unusable(f"{other['peer']} and {peer} do not compute alike ({differs}): run --install again")

    def lines(self, peers: Sequence[str]) -> str:
        """The table: milliseconds; on fastsock.mpj the share of communication, and what counting it adds."""
        rows = []
        told = [sample for sample in self.samples if sample.peer in peers]
        for what in dict.fromkeys(s.what for s in told):
            row = [what]
            for peer in peers:
                values = [s.value / 1e3 for s in told if (s.what, s.peer) == (what, peer)]
                row.append(table.number(summary.median(values)) if values else "-")
            row.append(table.number(mpi_targets.against_best(told, what, 0)))
            row.append(self._percent(what, "communicating", lambda t: t["communicating"] + t["computing"]))
            row.append(self._percent(what, "counted", lambda t: t["seconds"], 1.0))
            row.append(summary.placements(told, what, 0))
            rows.append(row)
        return table.lines(["ms", *peers, "times the best other", "communicating", "counting adds", "cores"], rows)

    def _percent(self, what: str, part: str, whole: Callable[[dict], float], less: float = 0.0) -> str:
        """The median over the turns on fastsock.mpj."""
        mine = [told for told in self.told if (told["what"], told["peer"]) == (what, mpi.FASTSOCK) and part in told]
        return f"{summary.median([told[part] / whole(told) - less for told in mine]):.0%}" if mine else "-"


def _differences(one: dict, other: dict, names: Sequence[str]) -> str:
    return "; ".join(f"{name} {one.get(name)}, {other[name]}" for name in names if one.get(name) != other[name])


class Spinner:
    """Counts as fast as its core lets it."""

    def spin(self) -> float:
        """Seconds for a fixed amount of it."""
        start = time.perf_counter()
        for _ in range(SPIN):
            pass
        return time.perf_counter() - start


def two_busy_cores(cores: tuple[int, int]) -> float:
    """How many times more two busy cores do than one: 2 where neither disturbs the other."""
    spinners = [Process(Spinner, cores=core) for core in cores]
    try:
        gains = []
        for _ in range(5):
            spinners[0].start("spin")
            alone = spinners[0].finish()
            for spinner in spinners:
                spinner.start("spin")
            gains.append(2 * alone / max(spinner.finish() for spinner in spinners))
        return summary.median(gains)
    finally:
        for spinner in spinners:
            spinner.close()


def measure(options: Options) -> list[Result]:
    """The lines of bench/targets.py. Raises Broken and Unusable."""
    skipped = options.skipped
    runs = Runs(options.cores, skipped, mpi_command.those(PEERS, skipped), mpi_command.those(mpi.DEVICES, skipped))
    wanted = kernel_targets.quick() if options.quick else kernel_targets.full()
    kernels = kernel_runs.known(mpi.find(mpi.FASTSOCK), {case.ranks for case in wanted})
    cases = kernel_runs.usable(wanted, kernels)
    for turn in range(options.times(2, 5)):
        for case in cases:
            if turn < kernel_targets.turns(case, options.times(2, 5)):
                runs.take(case, kernels[case.kernel], turn)
    return kernel_targets.results(runs.samples, runs.failed, skipped, two_busy_cores(options.cores))


def main() -> int:
    words = _arguments()
    skipped = Skipped()
    try:
        _check_files(words)
        peers = mpi_command.find(words, skipped)
        if not peers:
            raise Unusable("none of these MPIs can run here")
        devices = [] if words.asked or words.peers != list(PEERS) else mpi_command.those(mpi.DEVICES, skipped)
        runs = Runs(words.pin, skipped, peers, devices, words.limit, words.repeat)
        if words.resume:
            _resume(words.json, runs)
        wanted = kernel_targets.quick() if words.quick else kernel_targets.full()
        numbers = words.ranks or RANKS if words.asked else {case.ranks for case in wanted}
        kernels = kernel_runs.known(mpi.find(mpi.FASTSOCK), numbers)
        cases = _asked(words, kernels) if words.asked else kernel_runs.usable(wanted, kernels)
        if words.native:
            runs.native = native_npb.find(words.native, cases)
        return _run(words, runs, cases, kernels, skipped)
    except (Broken, Unusable) as error:
        print(f"kernels.py: {error}", file=sys.stderr)
        return 2


def _run(
    words: argparse.Namespace, runs: Runs, cases: Sequence[Case], kernels: dict[str, Known], skipped: Skipped
) -> int:
    """Measure, print and write: the exit status. Raises Unusable as Runs.take does."""
    try:
        for turn in range(words.turns):
            for case in cases:
                if not words.asked and turn >= kernel_targets.turns(case, words.turns):
                    continue
                runs.take(case, kernels[case.kernel], turn)
                if words.json and words.json != "-":
                    _write(words, runs, [], skipped)
    except KeyboardInterrupt:
        if words.json and words.json != "-":
            _write(words, runs, [], skipped)
            print(f"kernels.py: interrupted; --json {words.json} --resume goes on", file=sys.stderr)
        return 128 + signal.SIGINT
    peers_told = [*words.peers, native_npb.NATIVE] if words.native else words.peers
    print(runs.lines(peers_told) + "\n")
    results = kernel_targets.results(runs.samples, runs.failed, skipped, two_busy_cores(words.pin))
    mpi_command.report(argparse.Namespace(json=None), runs.samples, results, skipped)
    if words.json:
        _write(words, runs, results, skipped)
    if words.plot and runs.samples:
        kernel_bars.write(words.plot, [s for s in runs.samples if s.peer in peers_told], words.pin)
    return 0 if runs.samples and not skipped else 1


def _write(words: argparse.Namespace, runs: Runs, results: Sequence[Result], skipped: Skipped) -> None:
    kept = {"samples": runs.samples, "told": runs.told, "results": results, "skipped": skipped}
    record.write(words.json, {"pin": list(runs.cores), **kept})


def _resume(file: str, runs: Runs) -> None:
    """What an earlier run of the same machine and cores has measured. Raises Unusable.

    What was repeated for another time is measured again. The versions of each MPI are compared when it runs again.
    """
    if not Path(file).exists():
        return
    advice = "name another file, or leave --resume out"
    try:
        found = json.loads(Path(file).read_text())
        samples = [Sample(**sample) for sample in found["samples"]]
        by_run = {(each["what"], each["peer"], each["turn"]): each for each in found["told"]}
        if not all(each["arithmetic"] and dict(each["versions"]) for each in by_run.values()):
            raise ValueError(file)
        other = [run for run, each in by_run.items() if each["repeat"] != runs.repeat or _was_counted(each)]
        recorded, pinned = dict(found["machine"]), found["pin"]
    except (OSError, ValueError, KeyError, TypeError):
        raise Unusable(f"{file} is no record of this program: {advice}") from None
    here = machine.description()
    for what in ("processor", "cores", "kernel", "python", "packages"):
        if recorded.get(what) != here[what]:
            raise Unusable(f"{file} is of another {what}: {advice}")
    if pinned != list(runs.cores):
        raise Unusable(f"{file} is of other cores, --pin {','.join(map(str, pinned))}: {advice}")
    if other:
        print(f"kernels.py: {len(other)} runs in {file} were timed in another way, and are made again", file=sys.stderr)
    taken = {(sample.what, sample.peer, sample.turn) for sample in samples}.difference(other)
    runs.samples = [sample for sample in samples if (sample.what, sample.peer, sample.turn) in taken]
    runs.told = [each for run, each in by_run.items() if run in taken]


def _was_counted(told: dict) -> bool:
    """Whether its time is that of a run whose calls were counted, as older records have it."""
    return kernel_runs.way(told["what"]) != kernel_runs.SKELETON and "counted" not in told


def _check_files(words: argparse.Namespace) -> None:
    """What is written at the end can be written. Raises Unusable."""
    writable(words.json, words.plot)
    if words.plot and find_spec("matplotlib") is None:
        raise Unusable("--plot needs matplotlib: pip install matplotlib, or fastsock with its extra `bench`")


def _asked(words: argparse.Namespace, kernels: dict[str, Known]) -> list[Case]:
    """The cases that were asked for; those that cannot be run are told. Raises Unusable where none can."""
    names = words.what.split(",") if words.what else list(kernels)
    if unknown := [name for name in names if name not in kernels]:
        raise Unusable(f"there is no kernel {unknown[0]!r}; there are {', '.join(kernels)}")
    letters = (words.classes or ("S,A" if words.quick else "S,W,A")).upper().replace(",", "")
    for letter in letters:
        if not any(letter in kernels[name].nearest for name in names):
            has = ", ".join(dict.fromkeys(each for name in names for each in kernels[name].nearest))
            raise Unusable(f"there is no class {letter!r} of {', '.join(names)}; there are {has}")
    asked = kernel_runs.product(names, letters, words.ranks or RANKS, [kernel_runs.WHOLE, *words.ways])
    dropped = []
    found: dict[Case, None] = {}
    for case in asked:
        of = kernels[case.kernel]
        if not words.ranks and case.letter in of.nearest:  # by default each has numbers that it can use
            case = replace(case, ranks=of.nearest[case.letter][case.ranks])
        elif not words.classes and case.letter not in of.nearest:
            continue
        reason = of.why_not(case)
        if reason:
            dropped.append(reason)
        else:
            found[case] = None
    if not found:
        raise Unusable(f"none of these can be run: {'; '.join(dict.fromkeys(dropped))}")
    for reason in dict.fromkeys(dropped):
        print(f"  left out: {reason}", file=sys.stderr, flush=True)
    return list(found)


def _arguments() -> argparse.Namespace:
    parser = Parser(description=__doc__)
    named = "(default: what the targets want; all where --classes, --ranks or a way below is named)"
    parser.add_argument("--what", default="", help=f"kernels, with commas {named}")
    parser.add_argument("--classes", default="", help="with commas (default: S,W,A; with --quick S,A)")
    parser.add_argument(
        "--ranks", type=mpi_command.numbers,
        help="with commas (default: those nearest to 1,2,4 that a kernel can use)",
    )  # fmt: skip
    parser.add_argument("--peers", default=",".join(PEERS), type=lambda text: text.split(","),
                        help="MPIs, with commas (default: %(default)s)")  # fmt: skip
    parser.add_argument("--turns", type=_positive(int),
                        help="runs of each compared case on each MPI (default: 5; with --quick 2)")  # fmt: skip
    parser.add_argument(
        "--limit",
        type=_positive(float),
        default=LIMIT,
        metavar="SECONDS",
        help="a run that takes longer is ended and told (default: %(default)g)",
    )
    parser.add_argument("--repeat", type=_positive(float), default=kernel_runs.REPEATED, metavar="SECONDS",
                        help="a short kernel is run again so long (default: %(default)g)")  # fmt: skip
    parser.add_argument("--pin", default="0,1", type=machine.two_cores, help="the cores (default: 0,1)")
    parser.add_argument("--skeleton", action="store_true", help="also the same calls with nothing computed")
    parser.add_argument("--plain-numpy", action="store_true", help="also without compiled loops")
    parser.add_argument("--objects", action="store_true", help="also by lower-case calls: arrays are pickled")
    parser.add_argument("--native", metavar="DIR", help="also a compiled NPB on one rank: cg.W or cg.W.x in here")
    parser.add_argument("--quick", action="store_true", help="two turns, of a few short cases unless some are named")
    parser.add_argument("--install", action="store_true", help="first install MPICH and Open MPI into bench/.venvs")
    parser.add_argument("--json", metavar="FILE", help="write samples and results, after every case")
    parser.add_argument("--resume", action="store_true", help="go on where the file of --json ends")
    parser.add_argument("--plot", metavar="FILE.png", help="draw the times as bars")
    words = parser.parse_args()
    if words.resume and not words.json:
        parser.error("--resume wants --json FILE")
    words.turns = words.turns or (2 if words.quick else 5)
    words.ways = [way for way in kernel_runs.OPTIONS if getattr(words, way.replace(" ", "_"), False)]
    words.asked = bool(words.what or words.classes or words.ranks or words.ways)
    return words


def _positive(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            found = kind(text)
        except ValueError:
            found = 0
        if not found > 0:
            raise ValueError(f"{text}: a number above 0 is wanted")
        return found

    return read


if __name__ == "__main__":
    sys.exit(main())
