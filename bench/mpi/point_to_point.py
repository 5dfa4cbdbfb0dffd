"""Latency, bandwidth, bidirectional bandwidth, message rate and objects between pairs of ranks: r and r + half."""

from __future__ import annotations

import numpy
from mpi4py import MPI
from timing import arguments, print_value, repeat

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
WINDOW = 64  # messages under way
HALF = SIZE // 2
FIRST = RANK < HALF
OTHER = RANK + HALF if FIRST else RANK - HALF
SMALL = {"step": 17, "loss": 0.25, "name": "worker", "shape": [3, 4]}


def latency(size):
    out, into = numpy.ones(size, "u1"), numpy.ones(size, "u1")
    send, receive = WORLD.Send, WORLD.Recv
    if FIRST:

        def once():
            send(out, OTHER, 1)
            receive(into, OTHER, 1)

    else:

        def once():
            receive(into, OTHER, 1)
            send(out, OTHER, 1)

    return once


def window(size):
    return max(4, min(WINDOW, (64 << 20) // size))


def bandwidth(size):
    messages = window(size)
    data = [numpy.ones(size, "u1") for _ in range(messages)]
    answer = numpy.zeros(1, "u1")
    wait, isend, irecv = MPI.Request.Waitall, WORLD.Isend, WORLD.Irecv
    if FIRST:

        def once():
            wait([isend(part, OTHER, 2) for part in data])
            WORLD.Recv(answer, OTHER, 3)

    else:

        def once():
            wait([irecv(part, OTHER, 2) for part in data])
            WORLD.Send(answer, OTHER, 3)

    return once


def both_ways(size):
    messages = window(size)
    out = [numpy.ones(size, "u1") for _ in range(messages)]
    into = [numpy.ones(size, "u1") for _ in range(messages)]
    wait, isend, irecv = MPI.Request.Waitall, WORLD.Isend, WORLD.Irecv

    def once():
        wait([irecv(part, OTHER, 4) for part in into] + [isend(part, OTHER, 4) for part in out])

    return once


def objects(payload):
    send, receive = WORLD.send, WORLD.recv
    if FIRST:

        def once():
            send(payload, OTHER, 5)
            receive(None, OTHER, 5)

    else:

        def once():
            receive(None, OTHER, 5)
            send(payload, OTHER, 5)

    return once


def main():
    options = arguments(__doc__)
    wanted = options.what.split(",") if options.what else ["latency", "bandwidth", "both ways", "rate", "dict", "array"]
    seconds = options.seconds
    for size in options.sizes:
        if "latency" in wanted:
            print_value("latency", size, repeat(latency(size), seconds))  # us, there and back
        if "bandwidth" in wanted:
            took = repeat(bandwidth(size), seconds)
            print_value("bandwidth", size, HALF * window(size) * size / took / 1e3)  # GB/s, all pairs
        if "both ways" in wanted:
            took = repeat(both_ways(size), seconds)
            print_value("both ways", size, 2 * HALF * window(size) * size / took / 1e3)
    if "rate" in wanted:
        print_value("rate", 8, HALF * window(8) / repeat(bandwidth(8), seconds))  # million messages a second
    if "dict" in wanted:
        print_value("dict", 0, repeat(objects(SMALL), seconds))  # us, there and back
    if "array" in wanted:
        print_value("array", 1 << 20, repeat(objects(numpy.ones(1 << 17)), seconds))


main()
