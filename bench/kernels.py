"""The papers' benchmarks, NPB (bench/npb) and JGF (bench/jgf), beside mpi4py on MPICH and on Open MPI.

python bench/kernels.py --install                    first time: MPICH and Open MPI from their wheels, into bench/.venvs
python bench/kernels.py --quick                      a few short ones, under three minutes
python bench/kernels.py --json FILE --resume         all targets, under an hour; goes on where FILE ends
python bench/kernels.py --what cg,is,lufact --classes S,W,A --ranks 1,2,4 [--skeleton] [--plain-numpy] [--objects]

No verified result, no number. Times are those of the slowest rank. Each turn runs a case on every MPI. Unless cases are
named, those run once whose times no target divides: SP, DT, most on four ranks, plain numpy.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

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

PEERS = (mpi.FASTSOCK, *mpi.OTHERS)
LIMIT = 600.0  # seconds for one run
SPIN = 2_000_000


class Runs:
    """Takes samples case by case, and keeps them."""

    def __init__(self, cores: tuple[int, int], skipped: Skipped, peers: Sequence[mpi.Mpi]) -> None:
        self.cores, self.skipped, self.peers = cores, skipped, peers
        self.native: dict[Case, Path] = {}
        self.placement = Placement(cores)
        self.samples: list[Sample] = []
        self.told: list[dict] = []

    def take(self, case: Case, of: Known, turn: int) -> None:
        """The case on each MPI. Who breaks is told, and has no number for it."""
        have = {(s.what, s.peer) for s in self.samples if s.turn == turn}
        disturbed = machine.wait_until_idle() > BUSY
        before = self.placement.probe()
        # who is first changes from turn to turn
        for peer in [*self.peers[turn % len(self.peers) :], *self.peers[: turn % len(self.peers)]]:
            place = f"{case.name} on {peer.name}"
            if place in self.skipped or (case.name, peer.name) in have:
                continue
            try:
                told = kernel_runs.run(case, of, peer, self.cores, LIMIT)
            except Broken as error:
                self.skipped.add(place, str(error))
                continue
            after = self.placement.probe()
            where = self.placement.name(before, after)
            value = told["seconds"] * 1e6
            # what was interrupted between the two has no sample, so it is measured again
            self.told.append({"what": case.name, "peer": peer.name, "turn": turn, **told})
            self.samples.append(Sample(case.name, peer.name, 0, value, turn, where, before, after, disturbed))
            before = after
        if case in self.native and (case.name, native_npb.NATIVE) not in have:
            try:
                value = native_npb.run(self.native[case], self.cores[0], LIMIT) * 1e6
            except Broken as error:
                self.skipped.add(f"{case.name} on {native_npb.NATIVE}", str(error))
                return
            after = self.placement.probe()
            where = self.placement.name(before, after)
            self.samples.append(Sample(case.name, native_npb.NATIVE, 0, value, turn, where, before, after, disturbed))

    def lines(self, peers: Sequence[str]) -> str:
        """The table: milliseconds, and the share of communication on fastsock.mpj."""
        rows = []
        for what in dict.fromkeys(s.what for s in self.samples):
            row = [what]
            for peer in peers:
                values = [s.value / 1e3 for s in self.samples if (s.what, s.peer) == (what, peer)]
                row.append(table.number(summary.median(values)) if values else "-")
            row.append(table.number(mpi_targets.against_best(self.samples, what, 0)))
            row.append(self._share(what))
            row.append(summary.placements(self.samples, what, 0))
            rows.append(row)
        return table.lines(["ms", *peers, "times the best other", "communicating", "cores"], rows)

    def _share(self, what: str) -> str:
        shares = [
            told["communicating"] / (told["communicating"] + told["computing"])
            for told in self.told
            if told["what"] == what and told["peer"] == mpi.FASTSOCK and "communicating" in told
        ]
        return f"{summary.median(shares):.0%}" if shares else "-"


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
    """The lines of bench/targets.py."""
    skipped = options.skipped
    peers = []
    for name in PEERS:
        try:
            peers.append(mpi.find(name))
        except Unusable as error:
            skipped.add(name, str(error))
    runs = Runs(options.cores, skipped, peers)
    kernels = kernel_runs.known(mpi.find(mpi.FASTSOCK))
    cases = kernel_runs.usable(kernel_targets.quick() if options.quick else kernel_targets.full(), kernels)
    for turn in range(options.times(2, 5)):
        for case in cases:
            if turn < kernel_targets.turns(case, options.times(2, 5)):
                runs.take(case, kernels[case.kernel], turn)
    return kernel_targets.results(runs.samples, two_busy_cores(options.cores))


def main() -> int:
    words = _arguments()
    skipped = Skipped()
    try:
        peers = mpi_command.find(words, skipped)
        if not peers:
            raise Unusable("none of these MPIs can run here")
        _check_files(words)
        kernels = kernel_runs.known(mpi.find(mpi.FASTSOCK))
        cases = _cases(words, kernels)
        runs = Runs(words.pin, skipped, peers)
        if words.native:
            runs.native = native_npb.find(words.native, cases)
        if words.resume:
            _resume(words.json, runs)
    except (Broken, Unusable) as error:
        print(f"kernels.py: {error}", file=sys.stderr)
        return 2
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
    results = kernel_targets.results(runs.samples, two_busy_cores(words.pin))
    mpi_command.report(argparse.Namespace(json=None), runs.samples, results, skipped)
    if words.json:
        _write(words, runs, results, skipped)
    if words.plot and runs.samples:
        kernel_bars.write(words.plot, runs.samples, words.pin)
    return 0 if runs.samples and not skipped else 1


def _write(words: argparse.Namespace, runs: Runs, results: Sequence[Result], skipped: Skipped) -> None:
    record.write(words.json, {"samples": runs.samples, "told": runs.told, "results": results, "skipped": skipped})


def _resume(file: str, runs: Runs) -> None:
    """What an earlier run of the same machine has measured. Raises Unusable."""
    if not Path(file).exists():
        return
    try:
        found = json.loads(Path(file).read_text())
        samples = [Sample(**sample) for sample in found["samples"]]
        told, recorded = found["told"], found["machine"]
    except (ValueError, KeyError, TypeError):
        raise Unusable(f"{file} is no record of this program: name another file, or leave --resume out") from None
    here = machine.description()
    for what in ("processor", "cores", "kernel", "python", "packages"):
        if recorded.get(what) != here[what]:
            raise Unusable(f"{file} is of another {what}: name another file, or leave --resume out")
    taken = {(sample.what, sample.peer, sample.turn) for sample in samples}
    runs.samples = samples
    runs.told = [each for each in told if (each["what"], each["peer"], each["turn"]) in taken]


def _check_files(words: argparse.Namespace) -> None:
    """What is written at the end can be written. Raises Unusable."""
    for file in filter(None, (words.json, words.plot)):
        if file != "-" and not os.access(Path(file).absolute().parent, os.W_OK):
            raise Unusable(f"{file} cannot be written: make its folder first")
    if words.plot and find_spec("matplotlib") is None:
        raise Unusable("--plot needs matplotlib: pip install matplotlib, or fastsock with its extra `bench`")


def _cases(words: argparse.Namespace, kernels: dict[str, Known]) -> list[Case]:
    """What was asked for, or what the targets want. Raises Unusable."""
    names = words.what.split(",") if words.what else list(kernels)
    if unknown := [name for name in names if name not in kernels]:
        raise Unusable(f"there is no kernel {unknown[0]!r}; there are {', '.join(kernels)}")
    if not words.asked:
        wanted = kernel_targets.quick() if words.quick else kernel_targets.full()
        return kernel_runs.usable(wanted, kernels)
    letters = (words.classes or ("S,A" if words.quick else "S,W,A")).upper().replace(",", "")
    for letter in letters:
        if not any(letter in kernels[name].ranks for name in names):
            has = ", ".join(dict.fromkeys(each for name in names for each in kernels[name].ranks))
            raise Unusable(f"there is no class {letter!r} of {', '.join(names)}; there are {has}")
    asked = kernel_runs.product(names, letters, words.ranks or [1, 2, 4], [kernel_runs.WHOLE, *words.ways])
    found = kernel_runs.usable(asked, kernels)
    if not found:
        could = "; ".join(f"{name} {letter}: {of[:6]}" for name in names for letter, of in kernels[name].ranks.items())
        raise Unusable(f"none of these can be run; the first numbers of ranks: {could}")
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", default="", help="kernels, with commas (default: all)")
    parser.add_argument("--classes", default="", help="with commas (default: S,W,A)")
    parser.add_argument("--ranks", type=mpi_command.numbers, help="default: 1,2,4")
    parser.add_argument("--peers", default=",".join(PEERS), type=lambda text: text.split(","))
    parser.add_argument("--turns", type=int, help="runs of each case on each MPI (default: 5)")
    parser.add_argument("--pin", default="0,1", type=machine.two_cores, help="the cores (default: 0,1)")
    parser.add_argument("--skeleton", action="store_true", help="also the same calls with nothing computed")
    parser.add_argument("--plain-numpy", action="store_true", help="also without compiled loops")
    parser.add_argument("--objects", action="store_true", help="also by lower-case calls: arrays are pickled")
    parser.add_argument("--uncounted", action="store_true", help="also without the wrapper that times and counts")
    parser.add_argument("--native", metavar="DIR", help="also a compiled NPB: cg.W, or cg.W.x, in this folder")
    parser.add_argument("--quick", action="store_true", help="two turns of a few short ones")
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


if __name__ == "__main__":
    sys.exit(main())
