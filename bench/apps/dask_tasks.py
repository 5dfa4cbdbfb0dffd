"""dask: a scheduler and two workers on this host; batches of small tasks, and of 1 MiB arrays sent out and back."""

from __future__ import annotations

import os

import dask
import numpy
import program
from distributed import Client, LocalCluster

TASKS, ARRAYS = 50, 16  # in a batch: one alone would only show how long dask waits to batch its messages


def increment(number: int) -> int:
    return number + 1


def main() -> None:
    options = program.arguments()
    if options.cores:
        os.sched_setaffinity(0, set(options.cores))  # scheduler and workers inherit it and share both cores
    dask.config.set({"distributed.worker.memory.target": False, "distributed.worker.memory.spill": False})
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        arrays = [numpy.ones(program.LARGE // 8) for _ in range(ARRAYS)]

        def small() -> None:
            assert sum(client.gather(client.map(increment, range(TASKS), pure=False))) == TASKS * (TASKS + 1) // 2

        def large() -> None:
            sent = client.scatter(arrays, direct=True, hash=False)
            assert len(client.gather(sent, direct=True)) == ARRAYS

        program.report(
            small=TASKS * program.rate(small, options.seconds),
            large=ARRAYS * program.rate(large, options.seconds),
        )


if __name__ == "__main__":
    main()
