"""How much of a collective's time numpy work hides that the program does between starting it and waiting for it.

Each size: the collective alone, work of about the same time alone, and both: the work in one piece, or in eight with a
test of the request behind each (`tested`). Hidden is the share of the collective's time that both together save.
"""

from __future__ import annotations

import numpy
from mpi4py import MPI
from timing import arguments, print_value, repeat

WORLD = MPI.COMM_WORLD
SIZE = WORLD.Get_size()
PIECES = 8
BLOCK = 4096  # doubles of the work: they stay in the nearest cache


def _iallreduce(size):
    own, result = numpy.ones(max(1, size // 8)), numpy.empty(max(1, size // 8))
    return lambda: WORLD.Iallreduce(own, result, MPI.SUM)


def _ibcast(size):
    data = numpy.ones(size, "u1")
    return lambda: WORLD.Ibcast(data, 0)


def _ialltoall(size):
    each = max(1, size // SIZE)
    own, result = numpy.ones(each * SIZE, "u1"), numpy.empty(each * SIZE, "u1")
    return lambda: WORLD.Ialltoall(own, result)


def _allreduce_init(size):
    own, result = numpy.ones(max(1, size // 8)), numpy.empty(max(1, size // 8))
    request = WORLD.Allreduce_init(own, result, MPI.SUM)

    def begin():
        request.Start()
        return request

    return begin


FORMS = {
    "iallreduce": _iallreduce,
    "ibcast": _ibcast,
    "ialltoall": _ialltoall,
    "allreduce_init": _allreduce_init,
}

_values, _room = numpy.linspace(0.1, 1.0, BLOCK), numpy.empty(BLOCK)


def _work(times):
    for _ in range(times):
        numpy.sqrt(_values, out=_room)


def _in_one_piece(begin, times):
    request = begin()
    _work(times)
    request.Wait()


def _tested(begin, times):
    request = begin()
    over = False
    for piece in range(PIECES):
        _work(times * (piece + 1) // PIECES - times * piece // PIECES)
        over = over or request.Test()
    if not over:
        request.Wait()


def main():
    options = arguments(__doc__)
    for name in options.what.split(",") if options.what else FORMS:
        for size in options.sizes:
            begin = FORMS[name](size)
            alone = repeat(lambda begin=begin: begin().Wait(), options.seconds)
            one = repeat(lambda: _work(64), options.seconds) / 64
            times = WORLD.bcast(max(PIECES, round(alone / one)), 0)
            work = repeat(lambda times=times: _work(times), options.seconds)
            both = repeat(lambda begin=begin, times=times: _in_one_piece(begin, times), options.seconds)
            tested = repeat(lambda begin=begin, times=times: _tested(begin, times), options.seconds)
            print_value(f"{name} alone", size, alone)
            print_value(f"{name} with work", size, both)
            print_value(f"{name} hidden", size, 1 - (both - work) / alone)
            print_value(f"{name} hidden when tested", size, 1 - (tested - work) / alone)


main()
