"""Time, calls and bytes of communication, by primitive: one wrapper around the calls of the whole run.

Waiting for a slower rank counts as communication. Bytes are those of the buffer that a call names: what it sends, or
what it has room for where it only receives. A non-blocking call has its bytes where it begins; the time of its Wait is
told as Wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

from . import replacing

# the argument whose buffer is counted; None: a call without one
POINT = {"Send": 0, "Ssend": 0, "Bsend": 0, "Rsend": 0, "Recv": 0, "Sendrecv": 0, "Sendrecv_replace": 0}
COLLECTIVE = {"Barrier": None, "Bcast": 0, "Reduce": 0, "Allreduce": 0, "Gather": 0, "Gatherv": 0, "Scatter": 0}
COLLECTIVE |= {"Scatterv": 0, "Allgather": 0, "Allgatherv": 0, "Alltoall": 0, "Alltoallv": 0, "Alltoallw": 0}
COLLECTIVE |= {"Reduce_scatter": 0, "Reduce_scatter_block": 0, "Scan": 0, "Exscan": 0, "Probe": None}
BEGINNING = {"Isend": 0, "Issend": 0, "Ibsend": 0, "Irsend": 0, "Irecv": 0, "Iprobe": None}
BEGINNING |= {f"I{name.lower()}": at for name, at in COLLECTIVE.items() if name != "Probe"}
PREPARING = {f"{name}_init": at for name, at in (POINT | COLLECTIVE).items() if name not in ("Sendrecv", "Probe")}
COMMUNICATING = {**POINT, **COLLECTIVE, **BEGINNING, **PREPARING}
DERIVING = ("Split", "Split_type", "Dup", "Clone", "Create", "Create_group", "Create_cart", "Sub", "Create_graph",
            "Create_dist_graph", "Create_dist_graph_adjacent")  # fmt: skip


class Tally:
    """Seconds, calls and bytes of this rank, by primitive."""

    def __init__(self) -> None:
        self.by_name: dict[str, list[float]] = {}

    def clear(self) -> None:
        self.by_name.clear()

    def add(self, name: str, seconds: float, length: int) -> None:
        row = self.by_name.get(name)
        if row is None:
            row = self.by_name[name] = [0.0, 0, 0]
        row[0] += seconds
        row[1] += 1
        row[2] += length

    def summed(self, world: Any, whole: float) -> dict[str, Any]:
        """Means over the ranks for times, sums for calls and bytes. All ranks call it."""
        rows = world.gather((self.by_name, whole), 0)
        if world.Get_rank() != 0:
            return {}
        primitives: dict[str, dict[str, float]] = {}
        for mine, _ in rows:
            for name, (seconds, calls, length) in mine.items():
                row = primitives.setdefault(name, {"seconds": 0.0, "calls": 0, "bytes": 0})
                row["seconds"] += seconds / len(rows)
                row["calls"] += calls
                row["bytes"] += length
        communicating = sum(row["seconds"] for row in primitives.values())
        computing = sum(took for _, took in rows) / len(rows) - communicating
        return {"computing": computing, "communicating": communicating, "primitives": primitives}


def counted(comm: Any, tally: Tally) -> Counted:
    """The communicator, with all that it and those derived from it do counted in ``tally``."""
    for name in ("Request", "Prequest"):
        replacing.replace(name, RequestCalls)
    return Counted(comm, tally)


class Counted:
    """A communicator whose calls are timed and counted. What does not communicate is its own."""

    def __init__(self, comm: Any, tally: Tally) -> None:
        self._comm, self._tally = comm, tally
        for names, wrap in ((POINT, _timed), (COLLECTIVE, _timed), (BEGINNING, _begun), (PREPARING, _prepared)):
            for name, at in names.items():
                call = getattr(comm, name, None)
                if call is not None:
                    setattr(self, name, wrap(call, name, at, tally))
        for name in DERIVING:
            call = getattr(comm, name, None)
            if call is not None:
                setattr(self, name, _derived(call, tally))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._comm, name)


class Pending:
    """A request whose waits are counted."""

    def __init__(self, request: Any, tally: Tally, name: str = "", length: int = 0) -> None:
        self._request, self._tally, self._name, self._length = request, tally, name, length

    def Wait(self, status: Any = None) -> Any:
        return _wait(self._tally, "Wait", self._request.Wait, status)

    def Test(self, status: Any = None) -> Any:
        return _wait(self._tally, "Test", self._request.Test, status)

    def Start(self) -> None:
        start = perf_counter()
        self._request.Start()
        self._tally.add(self._name, perf_counter() - start, self._length)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)


class RequestCalls:
    """Stands for MPI.Request: its calls on many requests are counted too, by the tally of the first.

    Ranks that are threads share it.
    """

    def __init__(self, requests: Any) -> None:
        self._requests = requests

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._requests, name)
        if not name.endswith(("all", "any", "some")):
            return call

        def timed(requests: list[Any], *rest: Any) -> Any:
            if name == "Startall":
                for each in requests:
                    each.Start()
                return None
            bare = [each._request if isinstance(each, Pending) else each for each in requests]
            tally = next((each._tally for each in requests if isinstance(each, Pending)), None)
            return _wait(tally, name, call, bare, *rest) if tally is not None else call(bare, *rest)

        return timed


def _wait(tally: Tally, name: str, call: Callable[..., Any], *arguments: Any) -> Any:
    start = perf_counter()
    try:
        return call(*arguments)
    finally:
        tally.add(name, perf_counter() - start, 0)


def _timed(call: Callable[..., Any], name: str, at: int | None, tally: Tally) -> Callable[..., Any]:
    add = tally.add

    def timed(*arguments: Any, **named: Any) -> Any:
        start = perf_counter()
        result = call(*arguments, **named)
        add(name, perf_counter() - start, _length(arguments, named, at))
        return result

    return timed


def _begun(call: Callable[..., Any], name: str, at: int | None, tally: Tally) -> Callable[..., Any]:
    add = tally.add

    def begun(*arguments: Any, **named: Any) -> Any:
        start = perf_counter()
        request = call(*arguments, **named)
        add(name, perf_counter() - start, _length(arguments, named, at))
        return request if name == "Iprobe" else Pending(request, tally)

    return begun


def _prepared(call: Callable[..., Any], name: str, at: int | None, tally: Tally) -> Callable[..., Any]:
    def prepared(*arguments: Any, **named: Any) -> Any:
        return Pending(call(*arguments, **named), tally, name, _length(arguments, named, at))

    return prepared


def _derived(call: Callable[..., Any], tally: Tally) -> Callable[..., Any]:
    def derived(*arguments: Any, **named: Any) -> Any:
        comm = call(*arguments, **named)
        return Counted(comm, tally) if hasattr(comm, "Get_rank") and comm else comm

    return derived


def _length(arguments: tuple[Any, ...], named: Mapping[str, Any], at: int | None) -> int:
    """The bytes of the first argument, or of the second where the first is MPI.IN_PLACE or None."""
    if at is None:
        return 0
    buffers = [*arguments, *(named[key] for key in ("buf", "sendbuf", "recvbuf") if key in named)]
    for buffer in buffers[:2]:
        if isinstance(buffer, (list, tuple)):
            return _of_parts(buffer)
        length = getattr(buffer, "nbytes", None)
        if length is not None:
            return int(length)
        if isinstance(buffer, (bytes, bytearray)):
            return len(buffer)
    return 0


def _of_parts(parts: Any) -> int:
    """[buffer, count or counts or (counts, displacements), datatype], any of the last two left out."""
    whole = parts[0]
    itemsize = getattr(whole, "itemsize", 1)
    count = None
    for part in parts[1:]:
        if hasattr(part, "Get_size"):
            itemsize = part.Get_size()
        elif isinstance(part, str):
            continue
        elif isinstance(part, tuple) and len(part) == 2 and not isinstance(part[0], int):
            count = int(sum(part[0]))
        elif hasattr(part, "__len__"):
            # a second sequence is displacements
            count = int(sum(part)) if count is None else count
        elif part is not None and count is None:
            count = int(part)
    return int(whole.nbytes) if count is None else count * itemsize
