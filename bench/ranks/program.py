"""One kernel on the ranks that run this: options, checks, the run, its verification.

The exit status is 0 where the results are right, 1 where they are not, 2 where the user must change something. Only
rank 0 says what, and only rank 0 ends with that status.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import util
from typing import Any, NoReturn

from . import one_thread  # noqa: F401  before numpy
from .kernel import Kernel, Unusable, Verification

VERIFIED, WRONG, MISTAKE = 0, 1, 2
MOST_RUNS = 40
LONG = 2.0  # seconds of a run in which counting its calls cannot be seen
INTERPRETER, COMPILING = 64 << 20, 192 << 20  # bytes of a rank before it has data: with numpy; with Numba, too


@dataclass(frozen=True)
class Outcome:
    """What rank 0 tells: seconds of the slowest rank; counts and bytes of all ranks together.

    seconds: of the median run whose calls were not counted, unless counting cannot be seen in it. runs: how many of
    these. counted: seconds of the median run that counts, and communication is of that one; None: nothing was counted.
    """

    kernel: Kernel
    letter: str
    arithmetic: str
    ranks: int
    seconds: float
    runs: int
    verification: Verification | None  # a skeleton has none; of several runs the one that failed, if any did
    counted: float | None
    communication: Mapping[str, Any] | None


def load(where: str) -> type[Kernel]:
    """The class at "module:class"."""
    module, _, name = where.partition(":")
    found: type[Kernel] = getattr(importlib.import_module(module), name)
    return found


def main(kernels: Mapping[str, str], argv: Sequence[str]) -> NoReturn:
    """Run what argv names, and exit."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    try:
        status = _run(kernels, argv, world)
    except Unusable as mistake:
        if world.Get_rank() == 0:
            print(f"{os.path.basename(sys.argv[0])}: {mistake}", file=sys.stderr, flush=True)
        status = MISTAKE
    except Exception:
        traceback.print_exc()
        world.Abort(3)
        raise
    world.Barrier()
    sys.exit(status if world.Get_rank() == 0 else 0)


def _run(kernels: Mapping[str, str], argv: Sequence[str], world: Any) -> int:
    words = _words(kernels, argv, world.Get_rank())
    if words is None:
        return VERIFIED
    if words.list:
        if world.Get_rank() == 0:
            _list(kernels, words.list)
        return VERIFIED
    if words.kernel not in kernels:
        raise Unusable(f"there is no kernel {words.kernel!r}; there are {', '.join(kernels)}")
    kernel_type = load(kernels[words.kernel])
    letter = words.problem.upper()
    if letter not in kernel_type.problems:
        raise Unusable(f"{kernel_type.name} has no class {letter!r}; it has {', '.join(kernel_type.problems)}")
    _check_ranks(kernel_type, letter, world.Get_size())
    name = _arithmetic(kernel_type, words)
    interpreters = world.Get_size() * (COMPILING if name == "numba" else INTERPRETER)
    _check_memory(kernel_type.memory(letter, world.Get_size()) + interpreters, world)
    _pin(words.cores, world)
    outcome = _measure(kernel_type, letter, name, words, world)
    if world.Get_rank() == 0:
        from . import printing

        printing.print_outcome(outcome)
    right = outcome.verification is None or outcome.verification.passed
    return VERIFIED if right else WRONG


def _measure(kernel_type: type[Kernel], letter: str, name: str, words: Any, world: Any) -> Outcome:
    """Run it, and again where it is short: single runs of milliseconds differ by more than what is compared.

    Runs that count and runs that do not take turns. What is told of several runs is of the median one.
    """
    from mpi4py import MPI

    from . import by_objects, counting

    comm = by_objects.by_objects(world) if words.objects else world
    tally = counting.Tally()
    ways = [comm] if words.no_count else [counting.counted(comm, tally), comm]
    _connect(world)
    begun, failed, again = MPI.Wtime(), None, True
    runs: list[list[tuple[float, Mapping[str, Any]]]] = [[] for _ in ways]
    while again:
        done = sum(map(len, runs))
        way = done % len(ways)
        kernel = kernel_type(ways[way], letter, kernel_type.arithmetics[name]())
        runs[way].append(_run_once(kernel, tally, world))
        verification = None if name == "skeleton" else world.bcast(kernel.verify(), 0)
        if verification is not None and not verification.passed:
            failed = verification
        other = way < len(ways) - 1 and runs[way][-1][0] < LONG  # the same for all MPIs: their times do not differ so
        again = failed is None and done + 1 < MOST_RUNS and (MPI.Wtime() - begun < words.repeat or other)
        again = world.allreduce(again, MPI.MAX)  # all ranks decide alike
    first, last = _median(runs[0]), next(those for those in reversed(runs) if those)
    counted, communication = (None, None) if words.no_count else first
    return Outcome(
        kernel, letter, name, world.Get_size(), _median(last)[0], len(last), failed or verification, counted,
        communication,
    )  # fmt: skip


def _median(runs: Sequence[tuple[float, Mapping[str, Any]]]) -> tuple[float, Mapping[str, Any]]:
    return sorted(runs, key=lambda run: run[0])[len(runs) // 2]


def _run_once(kernel: Kernel, tally: Any, world: Any) -> tuple[float, Mapping[str, Any]]:
    """Seconds of the slowest rank, and what was counted."""
    from mpi4py import MPI

    kernel.prepare()
    tally.clear()
    gc.collect()
    gc.disable()
    world.Barrier()
    start = MPI.Wtime()
    kernel.run()
    took = MPI.Wtime() - start
    gc.enable()
    communication = tally.summed(world, took)
    return world.allreduce(took, MPI.MAX), communication


def _connect(world: Any) -> None:
    """Each rank has met each other before the clock runs: some MPIs connect when they are first asked to."""
    import numpy as np

    ranks = world.Get_size()
    world.Alltoall(np.zeros(ranks), np.zeros(ranks))
    world.Allreduce(np.zeros(1), np.zeros(1))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Unusable(f"{message}; --help tells what there is")


def _words(kernels: Mapping[str, str], argv: Sequence[str], rank: int) -> argparse.Namespace | None:
    """None after --help, which rank 0 prints."""
    parser = _Parser(description=f"Kernels: {', '.join(kernels)}.", add_help=False)
    parser.add_argument("kernel", metavar="KERNEL", nargs="?")
    parser.add_argument("problem", metavar="CLASS", nargs="?", help="S, W, A, B or C; A, B or C for JGF's sizes")
    parser.add_argument("--cores", default="", help="with commas: rank r runs on the r-th, again from the first")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--plain-numpy", action="store_true", help="no compiled loops")
    what.add_argument("--skeleton", action="store_true", help="the same calls and lengths, nothing computed")
    parser.add_argument("--objects", action="store_true", help="the same by lower-case calls: arrays are pickled")
    parser.add_argument("--repeat", type=float, default=0.0, metavar="SECONDS",
                        help="run it again until so much time is over; the median run is told")  # fmt: skip
    parser.add_argument("--no-count", action="store_true", help="without the wrapper that times and counts calls")
    parser.add_argument(
        "--list",
        nargs="?",
        const="1,2,4",
        default="",
        metavar="N,N",
        help="as JSON the kernels, each with the nearest that it can use to these numbers of ranks",
    )
    parser.add_argument("--help", action="store_true")
    words = parser.parse_args(argv)
    if words.help:
        if rank == 0:
            parser.print_help()
        return None
    if words.problem is None and not words.list:
        parser.error("a kernel and a class are wanted")
    for name in ("cores", "list"):
        text = getattr(words, name)
        try:
            setattr(words, name, [int(number) for number in text.split(",") if number])
        except ValueError:
            parser.error(f"--{name} {text}: numbers are wanted, with commas")
    return words


def _list(kernels: Mapping[str, str], numbers: Sequence[int]) -> None:
    for name, where in kernels.items():
        found = load(where)
        nearest = {letter: {n: _nearest(found.ranks(letter), n) for n in numbers} for letter in found.problems}
        print(json.dumps({"kernel": name, "nearest": nearest, "arithmetics": list(found.arithmetics)}), flush=True)


def _nearest(usable: Callable[[int], bool], ranks: int) -> int | None:
    """The nearest number of ranks that can be used, of two the smaller; itself where it can."""
    return next((n for away in range(ranks + 4096) for n in (ranks - away, ranks + away) if n > 0 and usable(n)), None)


def _check_ranks(kernel_type: type[Kernel], letter: str, ranks: int) -> None:
    nearest = _nearest(kernel_type.ranks(letter), ranks)
    if nearest != ranks:
        raise Unusable(
            f"{kernel_type.name} {letter} cannot use {ranks} ranks; the nearest number that it can is {nearest}"
        )


def _check_memory(needed: int, world: Any) -> None:
    """On each host, what its ranks need beside what it has. Raises Unusable on every rank."""
    from mpi4py import MPI

    host = world.Split_type(MPI.COMM_TYPE_SHARED)
    here = needed * host.Get_size() // world.Get_size()
    host.Free()
    available = available_memory()
    scarcest = world.allreduce((available - here, available, here), MPI.MIN)
    if scarcest[0] < 0:
        gib = 1 << 30
        raise Unusable(
            f"{scarcest[2] / gib:.2f} GiB of memory are needed on a host that has {scarcest[1] / gib:.2f} GiB left:"
            " a smaller class, or more hosts"
        )


def available_memory() -> int:
    """MemAvailable, in bytes."""
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    raise Unusable("/proc/meminfo does not tell MemAvailable")


def _pin(cores: Sequence[int], world: Any) -> None:
    """This rank on its core. Raises Unusable on every rank where one lacks a core: hosts may differ."""
    from mpi4py import MPI

    if not cores:
        return
    rank, allowed = world.Get_rank(), os.sched_getaffinity(0)
    lacks, lacking, its = world.allreduce((not set(cores) <= allowed, rank, sorted(allowed)), MPI.MAX)
    if lacks:
        raise Unusable(f"--cores: rank {lacking} may only use the cores {','.join(map(str, its))}")
    os.sched_setaffinity(0, {cores[rank % len(cores)]})


def _arithmetic(kernel_type: type[Kernel], words: argparse.Namespace) -> str:
    """What computes: the compiled loops where there are any and Numba is installed."""
    name = "numpy"
    if words.skeleton:
        name = "skeleton"
    elif not words.plain_numpy and "numba" in kernel_type.arithmetics and util.find_spec("numba"):
        name = "numba"
    return name
