"""Each call of a primitive timed by itself, after a barrier: the micro-benchmark suite of bench/model.

A length is the bytes of the longest buffer that a rank has. Point to point: half of a round trip between ranks 0 and 1,
but Sendrecv and Isend, where both send at once, take their whole time. Collectives: the slowest rank. Kinds of data:
bytes, doubles (what reductions always add), objects (numpy arrays through lower-case calls).
Non-blocking calls have a second part: as much numpy work between start and wait, and what share of the call it hides.
"""

from __future__ import annotations

import json
import platform
import time

import mpi4py
import numpy
from collectives import COLLECTIVES, SIZELESS
from mpi4py import MPI
from timing import arguments

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
CHUNK = 10  # calls; then all ranks agree whether there is time for more
FEWEST = 20
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


class Suite:
    """How often each call is measured, and what the clock itself costs."""

    def __init__(self, options):
        self.times, self.seconds = options.times, options.seconds
        reads = [-clock() + clock() for _ in range(2000)]
        self.clock = WORLD.allreduce(sorted(reads)[len(reads) // 2], MPI.MAX)
        self.room, self.values = numpy.empty(BLOCK), numpy.linspace(0.1, 1.0, BLOCK)
        self.ring = WORLD.Create_cart([SIZE], periods=[True])

    def work(self, times):
        for _ in range(times):
            numpy.sqrt(self.values, out=self.room)

    def measured(self, once, share=1.0):
        """Microseconds of each call: the slowest rank's."""
        barrier = WORLD.Barrier
        end = clock() + LONGEST_WARMING
        for _ in range(FEWEST):
            barrier()
            once()
            if WORLD.bcast(clock() > end, 0):
                break
        found = []
        begun = clock()
        while len(found) < self.times:
            for _ in range(min(CHUNK, self.times - len(found))):
                barrier()
                start = clock()
                once()
                found.append(clock() - start)
            if WORLD.bcast(len(found) >= FEWEST and clock() - begun > self.seconds, 0):
                break
        own = (numpy.array(found) - self.clock) * share * 1e6
        slowest = numpy.empty_like(own)
        WORLD.Allreduce(own, slowest, MPI.MAX)
        return slowest

    def hidden(self, begin, alone):
        """The share of a call's time that as much work between start and wait hides; and the whole then."""
        one = self.measured(lambda: self.work(8)).min() / 8
        times = WORLD.bcast(max(1, round(alone / one)), 0)
        work = self.measured(lambda: self.work(times)).min()

        def both():
            request = begin()
            self.work(times)
            request.Wait()

        return {"hidden": 1 - (self.measured(both).min() - work) / alone}


def tell(suite, name, kind, asked, size, values, more):
    if RANK == 0:
        ordered = numpy.sort(values)
        line = {
            "what": name, "kind": kind, "asked": asked, "size": size, "count": len(values),
            "least": float(ordered[0]), "median": float(numpy.median(ordered)),
            "ninety": float(ordered[int(0.9 * (len(ordered) - 1))]), "clock": suite.clock * 1e6, **more,
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
    for name in options.what.split(","):
        typed = options.kind == DOUBLES
        sizes = [0] if name in SIZELESS else options.sizes
        for asked in sizes:
            size = -(-asked // step) * step if typed else asked
            if begins(name):
                begin, length = starting(suite, name, options.kind, size)
                values = suite.measured(lambda begin=begin: begin().Wait())
                extra = suite.hidden(begin, values.min())
            else:
                once, share, length = blocking(suite, name, options.kind, size)
                values, extra = suite.measured(once, share), {}
            tell(suite, name, options.kind, asked, length, values, extra)
    if buffer is not None:
        MPI.Detach_buffer()


main()
