"""Each call of a primitive timed by itself, after a barrier: the micro-benchmark suite of bench/model.

A length is the bytes of the longest buffer that a rank has. Point to point: half of a round trip between ranks 0 and 1,
but Sendrecv and Isend, where both send at once, take their whole time. Collectives: until the slowest rank is done.
Kinds of data: bytes, doubles (what reductions always add), objects (numpy arrays through lower-case calls).
Non-blocking calls have a second part: as much numpy work between start and wait, and what share of the call it hides.
All lengths are measured by turns, so that what changes meanwhile meets them alike.
"""

from __future__ import annotations

import json
import math
import platform
import random
import time

import mpi4py
import numpy
from collectives import COLLECTIVES, SIZELESS
from distance import Distance, placement
from mpi4py import MPI
from timing import arguments

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
CHUNK = 10  # calls of one length; then comes the next length
FEWEST = 20
BETWEEN_PROBES = 0.02  # seconds
AGAIN = 0.1  # seconds between looks, while the cores are not where they are wanted
SLOWED = 1.2  # times the work's least time: then a core is shared
LONGEST_WARMING = 0.02  # seconds
BLOCK = 1024  # doubles of the work: they stay in the nearest cache
DOUBLES, OBJECTS = "doubles", "objects"
KNOWN = {function.__name__: function for function in COLLECTIVES}
clock = time.perf_counter


def nbytes(given):
    """Of the longest buffer among a call's arguments."""
    parts = [part[0] if isinstance(part, list) and part else part for part in given]
    return max((part.nbytes for part in parts if isinstance(part, numpy.ndarray)), default=0)


def of_doubles(given):
    return tuple(part.view("f8") if isinstance(part, numpy.ndarray) else part for part in given)


def ping_pong(send, receive):
    """There and back; half of it counts, and on rank 0 alone."""
    if RANK == 0:

        def once():
            send()
            receive()

        return once, 0.5
    if RANK == 1:

        def once():
            receive()
            send()

        return once, 0.0
    return (lambda: None), 0.0


def point_to_point(name, kind, size):
    """The call, the share of its time that counts here, and its bytes."""
    other = 1 - RANK
    dtype, items = ("f8", size // 8) if kind == DOUBLES else ("u1", size)
    out, into = numpy.ones(items, dtype), numpy.ones(items, dtype)
    if kind == OBJECTS:
        return *ping_pong(lambda: WORLD.send(out, other, 1), lambda: WORLD.recv(None, other, 1)), out.nbytes
    if name == "sendrecv":
        return (lambda: WORLD.Sendrecv(out, other, 2, into, other, 2)), 1.0, out.nbytes
    method, receive = getattr(WORLD, name.capitalize()), WORLD.Recv
    return *ping_pong(lambda: method(out, other, 1), lambda: receive(into, other, 1)), out.nbytes


class Both:
    """A message out and one in, both under way."""

    def __init__(self, out, into):
        other = 1 - RANK
        self.requests = [WORLD.Irecv(into, other, 3), WORLD.Isend(out, other, 3)]

    def Wait(self):
        MPI.Request.Waitall(self.requests)


class Case:
    """One call at one length: what was measured of it, microseconds."""

    def __init__(self, once, share=1.0):
        self.once, self.share = once, share
        self.values, self.spent = [], 0.0


class Suite:
    """All lengths by turns, some calls of each at a time: what changes on the machine meets all of them alike.

    The cores are probed in between. Only what was measured at one and the same distance counts, and at full speed: on a
    virtual machine a neighbour's work slows a core to half of it, for a moment or for seconds. A call lasts from the
    first rank's start to the last one's end, by the clock that all processes of a host share: a rank that leaves the
    barrier late finds work done that it would have waited for, so its own time tells too little.
    """

    def __init__(self, options):
        self.times, self.seconds, self.distance = options.times, options.seconds, options.distance
        reads = [-clock() + clock() for _ in range(2000)]
        self.clock = WORLD.allreduce(sorted(reads)[len(reads) // 2], MPI.MAX)
        self.room, self.values = numpy.empty(BLOCK), numpy.linspace(0.1, 1.0, BLOCK)
        self.ring = WORLD.Create_cart([SIZE], periods=[True])
        self.probe = Distance(WORLD, [int(core) for core in options.cores.split(",")])
        self.cases, self.line, self.pace, self.full = [], None, 0.0, options.pace or math.inf
        self.wanted, self.patience = self.distance, round(options.patience / AGAIN)
        self.looks, self.hurried = self.patience, False

    def work(self, times):
        for _ in range(times):
            numpy.sqrt(self.values, out=self.room)

    def by_turns(self, cases):
        """Measure each case often enough. False where the cores do not come, or stay, where they are wanted."""
        for case in cases:
            self.warm(case.once)
        self.cases = cases
        while left := self.agreed([number for number, case in enumerate(cases) if self.needs(case)]):
            before = self.settled()
            if before is None:
                return False
            chosen, taken = self.agreed(random.sample(left, len(left))), []
            begun = clock()
            for number in chosen:
                taken.append((cases[number], self.some(cases[number])))
                if number == chosen[-1] or self.agreed(clock() - begun > BETWEEN_PROBES):
                    after = self.probe.probe()
                    if self.counts(before, after):
                        self.keep(taken)
                    before, taken, begun = after, [], clock()
        return True

    def agreed(self, what):
        """What rank 0 says."""
        return WORLD.bcast(what, 0)

    def needs(self, case):
        return len(case.values) < self.times and not (len(case.values) >= FEWEST and case.spent > self.seconds)

    def settled(self):
        """The probe, once the cores are where they are wanted, at full speed if that comes soon. None: in vain."""
        while True:
            before = self.probe.probe()
            if self.distance == "":
                self.distance = self.probe.name(before, before)
            if self.counts(before, before):
                return before
            self.looks -= 1
            if self.looks <= 0 and not self.gives_in():
                return None
            time.sleep(AGAIN)

    def gives_in(self):
        """First the cores' speed counts as it is; then their distance too, where none was asked for."""
        self.looks = self.patience
        if not self.hurried:
            self.hurried = True
        elif self.wanted:
            return False
        else:
            self.distance = placement.MIXED
        return True

    def counts(self, before, after):
        """Whether what was measured between two probes counts. A new highest speed shows what was slow till now."""
        if self.distance not in (placement.MIXED, self.probe.name(before, after)):
            return False
        if before[1] is None:
            return True
        if min(before[1], after[1]) < self.full:
            if min(before[1], after[1]) * SLOWED < self.full:
                for case in self.cases:
                    case.values.clear()
            self.full = min(before[1], after[1])
        worst = max(before[1], after[1])
        if worst > self.full * SLOWED and not self.hurried:
            return False
        self.pace = max(self.pace, worst)
        self.line = after[0]
        return True

    def warm(self, once):
        end = clock() + LONGEST_WARMING
        for _ in range(FEWEST):
            WORLD.Barrier()
            once()
            if WORLD.bcast(clock() > end, 0):
                break

    def some(self, case):
        """This rank's starts and ends of some calls, after one that clears the caches of other lengths."""
        barrier, once, found = WORLD.Barrier, case.once, []
        barrier()
        once()
        begun = clock()
        for _ in range(CHUNK):
            barrier()
            start = clock()
            once()
            found.append((start, clock()))
        case.spent += clock() - begun
        return found

    def keep(self, taken):
        starts, ends = numpy.array([found for _, found in taken]).transpose(2, 0, 1)
        for at, (case, _) in enumerate(taken):
            if case.share == 0:  # another rank's time counts
                starts[at], ends[at] = numpy.inf, -numpy.inf
        first, last = numpy.empty(starts.shape), numpy.empty(ends.shape)
        WORLD.Allreduce(numpy.ascontiguousarray(starts), first, MPI.MIN)
        WORLD.Allreduce(numpy.ascontiguousarray(ends), last, MPI.MAX)
        for (case, _), took in zip(taken, (last - first - self.clock) * 1e6, strict=True):
            case.values.extend(took * case.share)

    def hidden(self, begun):
        """For each call that begins something, and its case: the share of its time that as much work hides."""
        one = Case(lambda: self.work(8))
        if not self.by_turns([one]):
            return None
        each, both, works = min(one.values) / 8, [], []
        self.times, self.seconds = max(FEWEST, self.times // 3), self.seconds / 3  # a share needs no more
        for begin, case in begun:
            times = self.agreed(max(1, round(min(case.values) / each)))
            works.append(Case(lambda times=times: self.work(times)))
            both.append(Case(lambda begin=begin, times=times: self.worked(begin, times)))
        if not self.by_turns([*both, *works]):
            return None
        return [
            1 - (min(whole.values) - min(work.values)) / min(case.values)
            for whole, work, (_, case) in zip(both, works, begun, strict=True)
        ]

    def worked(self, begin, times):
        request = begin()
        self.work(times)
        request.Wait()


def tell(suite, name, kind, asked, size, case, more):
    if RANK == 0:
        ordered = numpy.sort(case.values)
        line = {
            "what": name, "kind": kind, "asked": asked, "size": size, "count": len(ordered),
            "least": float(ordered[0]), "median": float(numpy.median(ordered)),
            "ninety": float(ordered[int(0.9 * (len(ordered) - 1))]), "clock": suite.clock * 1e6,
            "distance": suite.distance, "probe": suite.line, "pace": suite.pace, "full": suite.full,
            "hurried": suite.hurried, **more,
        }  # fmt: skip
        print(json.dumps(line), flush=True)


def blocking(suite, name, kind, size):
    """The call, the share of its time that counts here, and its bytes."""
    if name in ("send", "ssend", "bsend", "rsend", "sendrecv"):
        return point_to_point(name, kind, size)
    if "=" in name:  # "bcast=scatter+allgather": the combination that may take the primitive's place
        return replaced(name.partition("=")[2].split("+"), size)
    function = KNOWN[name]
    comm = suite.ring if "neighbor" in name else WORLD
    given = function(size, comm)
    if kind == DOUBLES:
        given = of_doubles(given)
    if kind == OBJECTS:
        return objects(comm, name, given)
    method = getattr(comm, name.capitalize())
    return (lambda: method(*given)), 1.0, nbytes(given)


def replaced(parts, size):
    """Both calls, one after the other."""
    (first, one), (second, two) = ((getattr(WORLD, part.capitalize()), KNOWN[part](size, WORLD)) for part in parts)

    def once():
        first(*one)
        second(*two)

    return once, 1.0, max(nbytes(one), nbytes(two))


def objects(comm, name, given):
    """The lower-case call on arrays as objects. Where a rank gives several, a list of parts."""
    method = getattr(comm, name)
    own = given[0]
    if name in ("scatter", "alltoall"):
        own = list(numpy.split(own, SIZE))
    rest = [part for part in given[1:] if not isinstance(part, numpy.ndarray)]
    return (lambda: method(own, *rest)), 1.0, nbytes(given)


def starting(suite, name, kind, size):
    """What begins a non-blocking call or a persistent one, and its bytes."""
    if name == "isend":
        dtype, items = ("f8", size // 8) if kind == DOUBLES else ("u1", size)
        out, into = numpy.ones(items, dtype), numpy.ones(items, dtype)
        return (lambda: Both(out, into)), out.nbytes
    stem = name.removesuffix("_init") if name.endswith("_init") else name[1:]
    comm = suite.ring if "neighbor" in name else WORLD
    given = KNOWN[stem](size, comm)
    if kind == DOUBLES:
        given = of_doubles(given)
    method = getattr(comm, name.capitalize())
    if not name.endswith("_init"):
        return (lambda: method(*given)), nbytes(given)
    request = method(*given)

    def begin():
        request.Start()
        return request

    return begin, nbytes(given)


def begins(name):
    return name == "isend" or name.endswith("_init") or (name[0] == "i" and name not in KNOWN and "=" not in name)


def more(parser):
    parser.add_argument("--times", type=int, default=150, help="measurements of each length")
    parser.add_argument("--kind", default="bytes", help="bytes, doubles or objects")
    parser.add_argument("--distance", default="", help="of the cores: near or far (default: as they are at the start)")
    parser.add_argument("--patience", type=float, default=2.0, help="seconds for the cores to be there at full speed")
    parser.add_argument("--pace", type=float, default=0.0, help="microseconds of the probe's work at full speed")


def main():
    options = arguments(__doc__, more)
    suite = Suite(options)
    if RANK == 0:
        versions = {
            "python": platform.python_version(), "numpy": numpy.__version__, "mpi4py": mpi4py.__version__,
            "library": MPI.Get_library_version().split("\n")[0].strip("\0 "),
        }  # fmt: skip
        print(json.dumps({"versions": versions}), flush=True)
    buffer = numpy.empty(max(options.sizes) + MPI.BSEND_OVERHEAD + 64, "u1") if "bsend" in options.what else None
    if buffer is not None:
        MPI.Attach_buffer(buffer)
    step = 8 * SIZE  # doubles that can be dealt to all
    found, begun = [], []
    for name in options.what.split(","):
        typed = options.kind == DOUBLES
        for asked in [0] if name in SIZELESS else options.sizes:
            size = -(-asked // step) * step if typed else asked
            if begins(name):
                begin, length = starting(suite, name, options.kind, size)
                case = Case(lambda begin=begin: begin().Wait())
                begun.append((begin, case))
            else:
                once, share, length = blocking(suite, name, options.kind, size)
                case = Case(once, share)
            found.append((name, asked, length, case))
    shares = []
    if suite.by_turns([case for *_, case in found]) and (shares := suite.hidden(begun) if begun else []) is not None:
        hidden = {id(case): {"hidden": share} for (_, case), share in zip(begun, shares, strict=True)}
        for name, asked, length, case in found:
            tell(suite, name, options.kind, asked, length, case, hidden.get(id(case), {}))
    if buffer is not None:
        MPI.Detach_buffer()


main()
