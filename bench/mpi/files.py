"""Files of two ranks: parts without gaps, the columns of a matrix, the shared pointer, opening and closing."""

from __future__ import annotations

import os
import tempfile

import numpy
from mpi4py import MPI
from timing import arguments, print_value, repeat

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
PART = 32 << 20  # bytes of a rank without gaps
ROWS = 1024  # of a square matrix, whose columns the ranks share
SHORT = 100
words = arguments(__doc__)


def timed(what, once):
    """Microseconds until all ranks have done it."""

    def together():
        once()
        WORLD.Barrier()

    print_value(what, 0, repeat(together, words.seconds))


def without_gaps(file, name):
    """Also by the system's own calls: no MPI can be faster than these."""
    part, place = numpy.full(PART // 8, RANK, "f8"), RANK * PART
    descriptor = os.open(name, os.O_RDWR)
    timed("write 32 MiB each", lambda: file.Write_at_all(place, part))
    timed("bare write of 32 MiB each", lambda: os.pwrite(descriptor, part, place))
    timed("read 32 MiB each", lambda: file.Read_at_all(place, part))
    timed("bare read of 32 MiB each", lambda: os.preadv(descriptor, [part], place))
    os.close(descriptor)


def columns(file):
    width = ROWS // SIZE
    share = MPI.DOUBLE.Create_subarray([ROWS, ROWS], [ROWS, width], [0, RANK * width]).Commit()
    file.Set_view(0, MPI.DOUBLE, share)
    own, found = numpy.full((ROWS, width), RANK + 1.0), numpy.zeros((ROWS, width))
    timed("write columns together", lambda: file.Write_at_all(0, own))
    timed("read columns together", lambda: file.Read_at_all(0, found))
    if not (found == own).all():
        raise SystemExit("what was read is not what was written")
    timed("write columns alone", lambda: file.Write_at(0, own))
    timed("read columns alone", lambda: file.Read_at(0, found))
    share.Free()
    file.Set_view(0, MPI.BYTE)


def shared(name):
    """To a file of its own, which grows as a log does.

    Within a file that was written in large pieces the kernel's part of a short write is longer than all the rest.
    """
    short = b"x" * SHORT
    file = MPI.File.Open(WORLD, f"{name}.log", MPI.MODE_CREATE | MPI.MODE_RDWR | MPI.MODE_DELETE_ON_CLOSE)
    print_value("Write_shared", 0, repeat(lambda: file.Write_shared(short), words.seconds))
    file.Close()


def main():
    name = os.path.join(tempfile.gettempdir(), f"bench-files-{os.getppid()}") if RANK == 0 else None
    name = WORLD.bcast(name)
    file = MPI.File.Open(WORLD, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
    without_gaps(file, name)
    columns(file)
    file.Close()
    shared(name)
    print_value("Open and Close", 0, repeat(lambda: MPI.File.Open(WORLD, name, MPI.MODE_RDONLY).Close(), words.seconds))
    if RANK == 0:
        MPI.File.Delete(name)


main()
