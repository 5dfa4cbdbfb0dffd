"""A conjugate gradient whose matrix lies in two worker objects: the same program on remote calls and on managers.

Each worker holds half of the rows of a sparse, symmetric, positive matrix, as three diagonals. Each step calls both at
the same time, with a vector of 64 KiB, and gets half a vector from each.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from . import question, summary
from .interleave import Sample, Turns
from .peers.remote_calls import KEY, Caller, Own, _serve_managers
from .placement import Placement
from .process import Broken, Process, Unusable
from .question import Options
from .target import Result

SIZE = 8192
WHAT = "conjugate gradient on 2 workers"


class Rows:
    """Some rows of the matrix: 4 on the diagonal, -1 beside it."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last

    def times(self, vector: Any) -> Any:
        """These rows times the vector."""
        first, last = self.first, self.last
        found = 4.0 * vector[first:last]
        if first:
            found -= vector[first - 1 : last - 1]
        else:
            found[1:] -= vector[: last - 1]
        if last < SIZE:
            found -= vector[first + 1 : last + 1]
        else:
            found[:-1] -= vector[first + 1 :]
        return found


def solve(times: Callable[[Any], Any], steps: int) -> float:
    """Seconds for so many steps. The residual must fall."""
    import numpy

    right = numpy.ones(SIZE)
    found, rest = numpy.zeros(SIZE), right.copy()
    direction, before = rest.copy(), float(rest @ rest)
    first = before
    start = time.perf_counter()
    for _ in range(steps):
        product = times(direction)
        along = before / float(direction @ product)
        found += along * direction
        rest -= along * product
        now = float(rest @ rest)
        direction = rest + now / before * direction
        before = now
    seconds = time.perf_counter() - start
    assert now < first, "the residual did not fall"
    return seconds


class OwnWorkers:
    """By fastsock.rmi: two futures."""

    name = "fastsock.rmi"
    environment = Own().environment

    def listen(self, first: int, last: int) -> Any:
        from fastsock import rmi

        rmi.expose(Rows)
        self.daemon = rmi.Daemon()
        self.daemon.register(Rows(first, last), "rows", local=False)
        self.daemon.start()
        return self.daemon.address

    def connect(self, addresses: list[Any]) -> None:
        from fastsock import rmi

        self.rmi = rmi
        self.workers = [rmi.connect("rmi://{}:{}/rows".format(*address)) for address in addresses]

    def solve(self, steps: int) -> float:
        import numpy

        future = self.rmi.future

        def times(vector: Any) -> Any:
            begun = [future(worker.times)(vector) for worker in self.workers]
            return numpy.concatenate([each.result() for each in begun])

        return solve(times, steps)


class ManagersWorkers:
    """By multiprocessing.managers: a thread for each worker."""

    name = "managers, TCP"
    environment: Mapping[str, str] = {}

    def _class(self, first: int = 0, last: int = SIZE) -> Any:
        from multiprocessing import managers

        class Manager(managers.BaseManager):
            pass

        Manager.register("rows", lambda: Rows(first, last), exposed=["times"])
        return Manager

    def listen(self, first: int, last: int) -> Any:
        server = self._class(first, last)(address=("127.0.0.1", 0), authkey=KEY).get_server()
        threading.Thread(target=_serve_managers, args=(server,), daemon=True).start()
        return server.address

    def connect(self, addresses: list[Any]) -> None:
        self.workers = []
        for address in addresses:
            manager = self._class()(address=tuple(address), authkey=KEY)
            manager.connect()
            self.workers.append(manager.rows())
        self.threads = [ThreadPoolExecutor(1) for _ in self.workers]

    def solve(self, steps: int) -> float:
        import numpy

        def times(vector: Any) -> Any:
            begun = [
                thread.submit(worker.times, vector) for thread, worker in zip(self.threads, self.workers, strict=True)
            ]
            return numpy.concatenate([each.result() for each in begun])

        return solve(times, steps)


def measure(options: Options, workers: int = 2) -> list[Sample]:
    """Microseconds a step, by each way."""
    turns = Turns(Placement(options.cores), options.skipped)
    steps = options.times(20, 200)
    with ExitStack() as opened:
        runs: list[tuple[str, Callable[[], float]]] = []
        for kind in (OwnWorkers, ManagersWorkers):
            try:
                near = _open(options, kind, opened, workers)
            except (Broken, Unusable) as error:
                options.skipped.add(kind.name, str(error))
                continue
            runs.append((kind.name, lambda near=near: near.call("solve", steps) / steps * 1e6))  # type: ignore[misc]
        for turn in range(options.times(1, 5) + 1):
            turns.take(f"conjugate gradient on {workers} workers", 0, runs, keep=turn > 0)
    return turns.samples


def results(options: Options, *_: Callable[[], Caller]) -> list[Result]:
    """How many times as fast the first is as the second."""
    samples = measure(options)
    own, other = OwnWorkers.name, ManagersWorkers.name
    faster, near = summary.compare_here(samples, WHAT, 0, own, other)
    return [
        question.ratio(
            f"{WHAT}: times as fast as {other}",
            faster,
            options.skipped,
            other,
            at_least=2.5 if near or faster is None else None,
            cores=summary.placements(samples, WHAT, 0),
            note=summary.medians(samples, WHAT, 0),
        )
    ]


def _open(options: Options, kind: type[OwnWorkers | ManagersWorkers], opened: ExitStack, workers: int) -> Process:
    addresses = []
    share = SIZE // workers
    for core, first in zip(options.cores, range(0, SIZE, share), strict=False):
        worker = Process(kind, cores=core, environment=kind.environment)
        opened.callback(worker.close)
        addresses.append(worker.call("listen", first, first + share))
    near = Process(kind, cores=set(options.cores), environment=kind.environment)
    opened.callback(near.close)
    near.call("connect", addresses)
    return near
