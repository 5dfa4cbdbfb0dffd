"""One-sided calls of two ranks: operations and their completion, locks, fences, a busy target, making windows."""

from __future__ import annotations

import numpy
from mpi4py import MPI
from timing import arguments, print_value, repeat

WORLD = MPI.COMM_WORLD
RANK = WORLD.Get_rank()
TARGET = 1
LONG = 1 << 20
RUNS = 7
COMPUTING = 1_000_000  # steps of a loop, some ten milliseconds
words = arguments(__doc__)


def alone(once):
    """Microseconds of a call that the first rank makes, while the other one is in a barrier; the least of some runs."""
    value = 0.0
    if RANK == 0:
        value = min(timed(once) for _ in range(RUNS))
    WORLD.Barrier()
    return value


def timed(once):
    times, took = 1, 0.0
    while took < words.seconds / RUNS:
        times *= 4
        start = MPI.Wtime()
        for _ in range(times):
            once()
        took = MPI.Wtime() - start
    return took / times * 1e6


def passive(window, once):
    """The same in an epoch of locks."""
    if RANK == 0:
        window.Lock_all()
    value = alone(once)
    if RANK == 0:
        window.Unlock_all()
    return value


def while_the_target_computes(window, small):
    """Microseconds of one Get with its Flush, begun when the target has begun to compute: the middle of some runs."""
    values = []
    if RANK == 0:
        window.Lock_all()
    for _ in range(RUNS):
        WORLD.Barrier()
        if RANK == TARGET:
            WORLD.send(None, 0)
            sum(number for number in range(COMPUTING))
        else:
            WORLD.recv(source=TARGET)
            start = MPI.Wtime()
            window.Get(small, TARGET, 0)
            window.Flush(TARGET)
            values.append((MPI.Wtime() - start) * 1e6)
    if RANK == 0:
        window.Unlock_all()
    return sorted(values)[len(values) // 2] if values else 0.0


def on_own_memory(small, long):
    """The same operations on memory of the program."""
    memory = numpy.zeros(LONG // 8)
    window = MPI.Win.Create(memory, 1, comm=WORLD)
    for what, call, data in (
        ("Put, 8 B, Create", window.Put, small),
        ("Get, 8 B, Create", window.Get, small),
        ("Get, 1 MiB, Create", window.Get, long),
    ):
        print_value(what, 0, passive(window, completed(window, call, data, TARGET, 0)))
    window.Free()


def completed(window, call, *told):
    def once():
        call(*told)
        window.Flush(TARGET)

    return once


def make():
    MPI.Win.Allocate_shared(4096, 8, comm=WORLD).Free()


def main():
    window = MPI.Win.Allocate(4 * LONG, 1, comm=WORLD)
    small, long = numpy.zeros(1), numpy.zeros(LONG // 8)
    one, old, found = numpy.ones(1, "i8"), numpy.zeros(1, "i8"), numpy.zeros(1, "i8")

    def locked():
        window.Lock(TARGET)
        window.Put(small, TARGET, 0)
        window.Unlock(TARGET)

    for what, call, *told in (
        ("Put, 8 B", window.Put, small, TARGET, 0),
        ("Get, 8 B", window.Get, small, TARGET, 0),
        ("Put, 1 MiB", window.Put, long, TARGET, 0),
        ("Get, 1 MiB", window.Get, long, TARGET, 0),
        ("Fetch_and_op", window.Fetch_and_op, one, found, TARGET, 0, MPI.SUM),
        ("Compare_and_swap", window.Compare_and_swap, one, old, found, TARGET, 0),
        ("Accumulate, 8 KiB", window.Accumulate, long[:1024], TARGET, 0, MPI.SUM),
    ):
        print_value(what, 0, passive(window, completed(window, call, *told)))
    print_value("Lock, Put, Unlock", 0, alone(locked))
    print_value("Fence", 0, repeat(window.Fence, words.seconds))
    print_value("Get while the target computes", 0, while_the_target_computes(window, small))
    window.Free()
    on_own_memory(small, long)
    print_value("Allocate_shared, Free", 0, repeat(make, words.seconds))


main()
