"""Each call of a primitive timed by itself, after a barrier: the micro-benchmark suite of bench/model.

A length is the bytes of the longest buffer that a rank has. Point to point: half of a round trip between ranks 0 and 1.
But what sends and receives takes its whole time, and so does what does not block: both ranks send at once.
Collectives: until the slowest rank is done. A ready send's receive is posted before the barrier.
Kinds of data: bytes, doubles (what reductions always add), objects (numpy arrays through lower-case calls).
What does not block has a second part: as much numpy work between start and wait, and what share of the call it hides.
"""

from __future__ import annotations

import json
import platform

import mpi4py
import numpy
from collectives import COLLECTIVES, SIZELESS
from mpi4py import MPI
from timing import arguments
from turns import Case, Turns, nothing

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.Get_rank(), WORLD.Get_size()
DOUBLES, OBJECTS = "doubles", "objects"
KNOWN = {function.__name__: function for function in COLLECTIVES}
AROUND_OBJECTS = 1 << 10  # bytes, at most, of an array's pickle beside its items


def nbytes(given):
    """Of the longest buffer among a call's arguments."""
    parts = [part[0] if isinstance(part, list) and part else part for part in given]
    return max((part.nbytes for part in parts if isinstance(part, numpy.ndarray)), default=0)


def of_doubles(given):
    return tuple(part.view("f8") if isinstance(part, numpy.ndarray) else part for part in given)


def two_arrays(kind, size):
    """What goes out and where the other's comes in."""
    dtype, items = ("f8", size // 8) if kind == DOUBLES else ("u1", size)
    return numpy.ones(items, dtype), numpy.ones(items, dtype)


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
    """The call, the share of its time that counts here, what comes before the barrier, and its bytes."""
    other = 1 - RANK
    out, into = two_arrays(kind, size)
    method = getattr(WORLD, name if kind == OBJECTS else name.capitalize())
    if name == "sendrecv_replace":
        return (lambda: method(out, other, 2, other, 2)), 1.0, nothing, out.nbytes
    if name == "sendrecv":
        room = None if kind == OBJECTS else into
        return (lambda: method(out, other, 2, room, other, 2)), 1.0, nothing, out.nbytes
    receive, before = receiving(name, kind, into)
    return *ping_pong(lambda: method(out, other, 1), receive), before, out.nbytes


def receiving(name, kind, into):
    """What receives the message of a ping-pong, and what comes before the barrier."""
    other, posted = 1 - RANK, []
    if kind == OBJECTS:
        return (lambda: WORLD.recv(None, other, 1)), nothing
    if name == "rsend":
        return (lambda: posted.pop().Wait()), (lambda: posted.append(WORLD.Irecv(into, other, 1)))
    return (lambda: WORLD.Recv(into, other, 1)), nothing


class Both:
    """A message out and one in, both under way."""

    def __init__(self, *requests):
        self.requests = list(requests)

    def Wait(self):
        MPI.Request.Waitall(self.requests)


class BothObjects:
    """The same of objects. A receive under way must know their size ahead, so it begins at the wait."""

    def __init__(self, request):
        self.request = request

    def Wait(self):
        WORLD.recv(None, 1 - RANK, 3)
        self.request.wait()


def exchange(name, kind, size):
    """What begins a message out and one in, what comes before the barrier, and its bytes."""
    other, persistent = 1 - RANK, name.endswith("_init")
    out, into = two_arrays(kind, size)
    method = getattr(WORLD, name if kind == OBJECTS else name.capitalize())
    if kind == OBJECTS:
        return (lambda: BothObjects(method(out, other, 3))), nothing, out.nbytes
    if name == "isendrecv":
        return (lambda: method(out, other, 3, into, other, 3)), nothing, out.nbytes
    if name == "isendrecv_replace":
        return (lambda: method(out, other, 3, other, 3)), nothing, out.nbytes
    if persistent:
        receive, send = started(WORLD.Recv_init(into, other, 3), into), started(method(out, other, 3), out)
    else:
        receive, send = (lambda: WORLD.Irecv(into, other, 3)), (lambda: method(out, other, 3))
    if "rsend" in name:
        posted = []
        return (lambda: Both(posted.pop(), send())), (lambda: posted.append(receive())), out.nbytes
    return (lambda: Both(receive(), send())), nothing, out.nbytes


def started(request, *held):
    """What starts a persistent call. held: memory that the call goes on using, and mpi4py lets go of in parts."""

    def start():
        request.Start()
        return request

    start.held = held
    return start


def blocking(ring, name, kind, size):
    """The call, the share of its time that counts here, what comes before the barrier, and its bytes."""
    if "=" in name:  # "bcast=scatter+allgather": the combination that may take the primitive's place
        once, length = replaced(name.partition("=")[2].split("+"), size)
        return once, 1.0, nothing, length
    if "send" in name:
        return point_to_point(name, kind, size)
    comm = ring if "neighbor" in name else WORLD
    given = KNOWN[name](size, comm)
    if kind == DOUBLES:
        given = of_doubles(given)
    once = objects(comm, name, given) if kind == OBJECTS else called(getattr(comm, name.capitalize()), given)
    return once, 1.0, nothing, nbytes(given)


def called(method, given):
    return lambda: method(*given)


def replaced(parts, size):
    """Both calls, one after the other, and their bytes."""
    (first, one), (second, two) = ((getattr(WORLD, part.capitalize()), KNOWN[part](size, WORLD)) for part in parts)

    def once():
        first(*one)
        second(*two)

    return once, max(nbytes(one), nbytes(two))


def objects(comm, name, given):
    """The lower-case call on arrays as objects. Where a rank gives several, a list of parts."""
    own, parts = given[0], 2 if "neighbor" in name else SIZE
    if name in ("scatter", "alltoall", "neighbor_alltoall"):
        own = list(numpy.split(own, parts))
    rest = [part for part in given[1:] if not isinstance(part, numpy.ndarray)]
    return called(getattr(comm, name), [own, *rest])


def begins(name):
    return name.endswith("_init") or name[0] == "i"


def starting(ring, name, kind, size):
    """What begins a non-blocking call or a persistent one, what comes before the barrier, and its bytes."""
    if "send" in name:
        return exchange(name, kind, size)
    again = name.endswith("_init")
    stem = name.removesuffix("_init") if again else name[1:]
    comm = ring if "neighbor" in name else WORLD
    given = KNOWN[stem](size, comm)
    if kind == DOUBLES:
        given = of_doubles(given)
    method = getattr(comm, name.capitalize())
    return started(method(*given), *given) if again else called(method, given), nothing, nbytes(given)


def print_sample(turns, name, kind, asked, size, case, more):
    if RANK == 0:
        ordered = numpy.sort(case.values)
        line = {
            "what": name, "kind": kind, "asked": asked, "size": size, "count": len(ordered),
            "least": float(ordered[0]), "median": float(numpy.median(ordered)),
            "ninety": float(ordered[int(0.9 * (len(ordered) - 1))]), "clock": turns.clock * 1e6,
            "distance": turns.distance, "probe": turns.line, "pace": turns.pace, "full": turns.full,
            "hurried": turns.hurried, **more,
        }  # fmt: skip
        print(json.dumps(line), flush=True)


def more(parser):
    parser.add_argument("--times", type=int, default=150, help="measurements of each length")
    parser.add_argument("--kind", default="bytes", help="bytes, doubles or objects")
    parser.add_argument("--distance", default="", help="of the cores: near or far (default: as they are at the start)")
    parser.add_argument("--patience", type=float, default=2.0, help="seconds for the cores to be there at full speed")
    parser.add_argument("--pace", type=float, default=0.0, help="microseconds of the probe's work at full speed")


def main():
    options = arguments(__doc__, more)
    if RANK == 0:
        versions = {
            "python": platform.python_version(), "numpy": numpy.__version__, "mpi4py": mpi4py.__version__,
            "library": MPI.Get_library_version().split("\n")[0].strip("\0 "),
        }  # fmt: skip
        print(json.dumps({"versions": versions}), flush=True)
    if options.what:
        measure(options)


def measure(options):
    turns = Turns(WORLD, options)
    ring = WORLD.Create_cart([SIZE], periods=[True])
    buffer = None
    if "bsend" in options.what:  # the message before may still be there
        buffer = numpy.empty(2 * (max(options.sizes) + MPI.BSEND_OVERHEAD + AROUND_OBJECTS), "u1")
        MPI.Attach_buffer(buffer)
    step = 8 * SIZE  # doubles that can be dealt to all
    found, begun = [], []
    for name in options.what.split(","):
        call, typed = name.partition(":")[0], options.kind == DOUBLES  # the environment names the algorithm
        for asked in [0] if call in SIZELESS else options.sizes:
            size = -(-asked // step) * step if typed else asked
            if begins(call):
                begin, before, length = starting(ring, call, options.kind, size)
                case = Case(lambda begin=begin: begin().Wait(), before=before)
                begun.append((begin, case))
            else:
                once, share, before, length = blocking(ring, call, options.kind, size)
                case = Case(once, share, before)
            found.append((name, asked, length, case))
    shares = turns.run([case for *_, case in found], begun)
    if shares is not None:
        hidden = {id(case): {"hidden": share} for (_, case), share in zip(begun, shares, strict=True)}
        for name, asked, length, case in found:
            print_sample(turns, name, options.kind, asked, length, case, hidden.get(id(case), {}))
    if buffer is not None:
        MPI.Detach_buffer()


main()
