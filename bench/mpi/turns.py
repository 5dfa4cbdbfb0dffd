"""Cases that all ranks measure together, by turns: what changes on the machine meanwhile meets all of them alike."""

from __future__ import annotations

import math
import random
import time

import numpy
from distance import Distance, placement
from mpi4py import MPI

CHUNK = 10  # calls of one case; then comes the next case
FEWEST = 20
BETWEEN_PROBES = 0.02  # seconds
AGAIN = 0.1  # seconds between looks, while the cores are not where they are wanted
TRIED = 2  # times the seconds that count: so long is a case tried, with what did not count
IN_VAIN = 3  # groups that do not count, for each that does: from there on the machine is taken as it is
SLOWED = 1.2  # times the work's least time: then a core is shared
LONGEST_WARMING = 0.02  # seconds
BLOCK = 1024  # doubles of the work: they stay in the nearest cache
clock = time.perf_counter


def nothing():
    """What most calls need before the barrier."""


class Case:
    """One call at one length: what was measured of it, microseconds.

    share: of its time that counts here. before: what each rank does ahead of the barrier, outside the time.
    """

    def __init__(self, once, share=1.0, before=nothing):
        self.once, self.share, self.before = once, share, before
        self.clear()

    def clear(self):
        """Forget what was measured. spent: seconds of what counts; tried: of all."""
        self.values, self.spent, self.tried = [], 0.0, 0.0


class Turns:
    """All cases by turns, some calls of each at a time.

    The cores are probed in between. Only what was measured at one and the same distance counts, and at full speed: on a
    virtual machine a neighbour's work slows a core to half of it, for a moment or for seconds. A call lasts from the
    first rank's start to the last one's end, by the clock that all processes of a host share: a rank that leaves the
    barrier late finds work done that it would have waited for, so its own time tells too little.
    """

    def __init__(self, world, options):
        self.world = world
        self.times, self.seconds, self.distance = options.times, options.seconds, options.distance
        reads = [-clock() + clock() for _ in range(2000)]
        self.clock = world.allreduce(sorted(reads)[len(reads) // 2], MPI.MAX)
        self.room, self.doubles = numpy.empty(BLOCK), numpy.linspace(0.1, 1.0, BLOCK)
        self.probe = Distance(world, [int(core) for core in options.cores.split(",")])
        self.cases, self.line, self.pace, self.full = [], None, 0.0, options.pace or math.inf
        self.wanted, self.patience = self.distance, round(options.patience / AGAIN)
        self.looks, self.hurried = self.patience, False
        self.counted = self.rejected = 0  # groups of calls between two probes

    def run(self, cases, begun):
        """Measure all cases, and what share of a call that begins something as much work hides.

        begun: what begins it, and its case. Returns the shares; None where the cores do not come where they are wanted.
        """
        while True:
            self.cases = []
            if not self.by_turns(cases):
                return None
            shares = self.hidden(begun) if begun else []
            if shares is None or all(case.values for case in cases):
                return shares

    def work(self, times):
        for _ in range(times):
            numpy.sqrt(self.doubles, out=self.room)

    def by_turns(self, cases):
        """Measure each case often enough. False where the cores do not come, or stay, where they are wanted."""
        for case in cases:
            self.warm(case)
        self.cases += cases
        while left := self.agreed([number for number, case in enumerate(cases) if self.needs(case)]):
            before = self.settled()
            if before is None:
                return False
            chosen, taken = self.agreed(random.sample(left, len(left))), []
            begun = clock()
            for number in chosen:
                taken.append((cases[number], *self.some(cases[number])))
                if number == chosen[-1] or self.agreed(clock() - begun > BETWEEN_PROBES):
                    after = self.probed()
                    if self.counts(before, after):
                        self.keep(taken)
                        self.counted += 1
                    elif not self.bears():
                        return False
                    before, taken, begun = after, [], clock()
        return True

    def agreed(self, what):
        """What rank 0 says."""
        return self.world.bcast(what, 0)

    def needs(self, case):
        if len(case.values) < FEWEST:
            return self.times > len(case.values)
        return len(case.values) < self.times and case.spent <= self.seconds and case.tried <= TRIED * self.seconds

    def probed(self):
        """The probe. What was sent may need its sender within a call: ranks that probe are in none."""
        self.world.Barrier()
        return self.probe.probe()

    def settled(self):
        """The probe, once the cores are where they are wanted, at full speed if that comes soon. None: in vain."""
        while True:
            before = self.probed()
            if self.distance == "":
                self.distance = self.probe.name(before, before)
            if self.counts(before, before):
                return before
            self.looks -= 1
            if self.looks <= 0 and not self.gives_in():
                return None
            time.sleep(AGAIN)

    def bears(self):
        """Whether to go on after a group in vain: they may be many, but most of them must not be."""
        self.rejected += 1
        most = self.patience * round(AGAIN / BETWEEN_PROBES) + IN_VAIN * self.counted
        return self.rejected <= most or self.gives_in()

    def gives_in(self):
        """First the cores' speed counts as it is; then their distance too, where none was asked for."""
        self.looks, self.counted, self.rejected = self.patience, 0, 0
        if not self.hurried:
            self.hurried = True
        elif self.wanted:
            return False
        elif self.distance != placement.MIXED:
            self.distance = placement.MIXED
            self.start_over()
        return True

    def start_over(self):
        """What was measured under one condition never meets what is measured under another."""
        for case in self.cases:
            case.clear()

    def counts(self, before, after):
        """Whether what was measured between two probes counts. A new highest speed shows what was slow till now."""
        if self.distance not in (placement.MIXED, self.probe.name(before, after)):
            return False
        if before[1] is None:
            return True
        if min(before[1], after[1]) < self.full:
            if min(before[1], after[1]) * SLOWED < self.full:
                self.start_over()
                self.pace = 0.0
            self.full = min(before[1], after[1])
        worst = max(before[1], after[1])
        if worst > self.full * SLOWED and not self.hurried:
            return False
        self.pace = max(self.pace, worst)
        self.line = after[0]
        return True

    def warm(self, case):
        end = clock() + LONGEST_WARMING
        for _ in range(FEWEST):
            case.before()
            self.world.Barrier()
            case.once()
            if self.world.bcast(clock() > end, 0):
                break

    def some(self, case):
        """This rank's starts and ends of some calls, after one that clears the caches of other lengths; the seconds."""
        before, barrier, once, found = case.before, self.world.Barrier, case.once, []
        before()
        barrier()
        once()
        begun = clock()
        for _ in range(CHUNK):
            before()
            barrier()
            start = clock()
            once()
            found.append((start, clock()))
        took = clock() - begun
        case.tried += took
        return found, took

    def keep(self, taken):
        starts, ends = numpy.array([found for _, found, _ in taken]).transpose(2, 0, 1)
        for at, (case, _, took) in enumerate(taken):
            case.spent += took
            if case.share == 0:  # another rank's time counts
                starts[at], ends[at] = numpy.inf, -numpy.inf
        first, last = numpy.empty(starts.shape), numpy.empty(ends.shape)
        self.world.Allreduce(numpy.ascontiguousarray(starts), first, MPI.MIN)
        self.world.Allreduce(numpy.ascontiguousarray(ends), last, MPI.MAX)
        for (case, *_), took in zip(taken, (last - first - self.clock) * 1e6, strict=True):
            case.values.extend(took * case.share)

    def hidden(self, begun):
        """For each call that begins something, and its case: the share of its time that as much work hides.

        None where the cores do not stay where they are wanted; nothing where a case has to start over.
        """
        usual = self.times, self.seconds
        self.times, self.seconds = max(FEWEST, self.times // 3), self.seconds / 3  # a share needs no more
        try:
            return self.beside_work(begun)
        finally:
            self.times, self.seconds = usual

    def beside_work(self, begun):
        one, both, works = Case(lambda: self.work(8)), [], []
        if not self.by_turns([one]):
            return None
        if not all(case.values for _, case in begun):
            return []
        each = min(one.values) / 8
        for begin, case in begun:
            times = self.agreed(max(1, round(min(case.values) / each)))
            works.append(Case(lambda times=times: self.work(times)))
            both.append(Case(lambda begin=begin, times=times: self.worked(begin, times), before=case.before))
        if not self.by_turns([*both, *works]):
            return None
        if not all(case.values for _, case in begun):
            return []
        return [
            1 - (min(whole.values) - min(work.values)) / min(case.values)
            for whole, work, (_, case) in zip(both, works, begun, strict=True)
        ]

    def worked(self, begin, times):
        request = begin()
        self.work(times)
        request.Wait()
