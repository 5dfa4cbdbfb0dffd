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


def without_gaps(file):
    part = numpy.full(PART // 8, RANK, "f8")
    timed("write 32 MiB each", lambda: file.Write_at_all(RANK * PART, part))
    timed("read 32 MiB each", lambda: file.Read_at_all(RANK * PART, part))


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


def main():
    name = os.path.join(tempfile.gettempdir(), f"bench-files-{os.getppid()}") if RANK == 0 else None
    name = WORLD.bcast(name)
    file = MPI.File.Open(WORLD, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
    without_gaps(file)
    columns(file)
    short = b"x" * SHORT
    print_value("Write_shared", 0, repeat(lambda: file.Write_shared(short), words.seconds))
    file.Close()
    print_value("Open and Close", 0, repeat(lambda: MPI.File.Open(WORLD, name, MPI.MODE_RDONLY).Close(), words.seconds))
    if RANK == 0:
        MPI.File.Delete(name)


main()
