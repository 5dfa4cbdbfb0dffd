"""The distance and the speed of the cores, probed by the ranks that sit on them between what else they measure."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # behind this folder
from common import build, placement

BATCHES, TRIPS = 3, 60
ROOM = 4096


class Distance:
    """Ranks 0 and 1 throw a cache line to and fro, then work; the others sleep. All ranks call all methods together."""

    def __init__(self, world, cores):
        self.world, self.turns = world, 0
        self.why_not = placement.ONE_CORE if cores[0] == cores[1 % len(cores)] else ""
        if not self.why_not and world.Get_rank() == 0:
            try:
                build.library("probe")
            except build.CannotBuild:
                self.why_not = placement.UNKNOWN
        self.why_not = world.bcast(self.why_not, 0)
        if not self.why_not:
            self.library = ctypes.CDLL(str(build.library("probe")))
            self.library.probe_ask.restype = ctypes.c_double
            self.memory = self._shared()
            self.place = ctypes.byref(ctypes.c_char.from_buffer(self.memory))

    def _shared(self):
        file, name = -1, None
        if self.world.Get_rank() == 0:
            file, name = tempfile.mkstemp(prefix="fastsock-bench-")
            os.truncate(file, ROOM)
        name = self.world.bcast(name, 0)
        if file < 0:
            file = os.open(name, os.O_RDWR)
        memory = mmap.mmap(file, ROOM)
        os.close(file)
        self.world.Barrier()
        if self.world.Get_rank() == 0:
            os.unlink(name)
        return memory

    def probe(self):
        """A cache line there and back, and the same work on both cores at once: microseconds, or None and None."""
        if self.why_not:
            return None, None
        rank, pace, took = self.world.Get_rank(), ctypes.c_double(), None
        self.turns += 1
        if rank == 0:
            took = self.library.probe_ask(self.place, BATCHES, TRIPS, ctypes.byref(pace))
        elif rank == 1:
            self.library.probe_answer(self.place)
        else:
            self.library.probe_wait(self.place, self.turns)
        return self.world.bcast((took, pace.value), 0)

    def name(self, before, after):
        """Where the cores were between two probes."""
        return self.why_not or placement.between(before[0], after[0])
