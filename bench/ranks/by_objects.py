"""The same calls through the lower-case ones of objects: what typed arrays save (--objects)."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import counting, replacing
from .kernel import Unusable

DERIVING = ("Split", "Split_type", "Dup", "Create_cart", "Sub")


def by_objects(comm: Any) -> ByObjects:
    """The communicator by objects; MPI.Request, too, knows their requests from now on."""
    replacing.replace("Request", RequestCalls)
    return ByObjects(comm)


class ByObjects:
    """A communicator whose upper-case calls pickle their arrays. What it has no way for is the user's mistake."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        for name in DERIVING:
            if hasattr(comm, name):
                setattr(self, name, self._deriving(getattr(comm, name)))

    def _deriving(self, call: Any) -> Any:
        return lambda *arguments, **named: ByObjects(call(*arguments, **named))

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._comm, name)
        return _refusing(name) if name in counting.COMMUNICATING else call

    def Send(self, buf: Any, dest: int, tag: int = 0) -> None:
        self._comm.send(_sent(buf), dest, tag)

    def Ssend(self, buf: Any, dest: int, tag: int = 0) -> None:
        self._comm.ssend(_sent(buf), dest, tag)

    def Recv(self, buf: Any, source: int = -1, tag: int = -1, status: Any = None) -> None:
        from mpi4py import MPI

        source = MPI.ANY_SOURCE if source == -1 else source
        tag = MPI.ANY_TAG if tag == -1 else tag
        _received(buf, self._comm.recv(None, source, tag, status))

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Any:
        return ObjectRequest(self._comm.isend(_sent(buf), dest, tag), None)

    def Irecv(self, buf: Any, source: int = -1, tag: int = -1) -> Any:
        from mpi4py import MPI

        source = MPI.ANY_SOURCE if source == -1 else source
        tag = MPI.ANY_TAG if tag == -1 else tag
        room = bytearray(_view(buf).nbytes + 4096)  # of the pickle
        return ObjectRequest(self._comm.irecv(room, source, tag), buf)

    def Sendrecv(
        self, sendbuf: Any, dest: int, sendtag: int = 0, recvbuf: Any = None, source: int = -1, recvtag: int = -1,
        status: Any = None,
    ) -> None:  # fmt: skip
        from mpi4py import MPI

        source = MPI.ANY_SOURCE if source == -1 else source
        recvtag = MPI.ANY_TAG if recvtag == -1 else recvtag
        _received(recvbuf, self._comm.sendrecv(_sent(sendbuf), dest, sendtag, None, source, recvtag, status))

    def Barrier(self) -> None:
        self._comm.barrier()

    def Bcast(self, buf: Any, root: int = 0) -> None:
        mine = self._comm.Get_rank() == root
        got = self._comm.bcast(_sent(buf) if mine else None, root)
        if not mine:
            _received(buf, got)

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Any = None, root: int = 0) -> None:
        got = self._comm.reduce(_sent(_mine(sendbuf, recvbuf)), _operation(op), root)
        if self._comm.Get_rank() == root:
            _received(recvbuf, got)

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Any = None) -> None:
        _received(recvbuf, self._comm.allreduce(_sent(_mine(sendbuf, recvbuf)), _operation(op)))

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        got = self._comm.gather(_sent(sendbuf), root)
        if got is not None:
            _received(recvbuf, np.concatenate([each.ravel() for each in got]))

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        got = self._comm.allgather(_sent(sendbuf))
        _received(recvbuf, np.concatenate([each.ravel() for each in got]))

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        got = self._comm.gather(_sent(sendbuf), root)
        if got is not None:
            _placed(recvbuf, got)

    def Allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        _placed(recvbuf, self._comm.allgather(_sent(sendbuf)))

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        parts = np.split(_view(sendbuf), self._comm.Get_size())
        _received(recvbuf, np.concatenate(self._comm.alltoall(parts)))

    def Alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        array, counts, places = _divided(sendbuf)
        parts = [array[place : place + count] for count, place in zip(counts, places, strict=True)]
        _placed(recvbuf, self._comm.alltoall(parts))


class ObjectRequest:
    """A request of an object, whose array is filled when it completes."""

    def __init__(self, request: Any, buffer: Any) -> None:
        self._request, self._buffer = request, buffer

    def Wait(self, status: Any = None) -> bool:
        got = self._request.wait(status)
        if self._buffer is not None:
            _received(self._buffer, got)
        return True


class RequestCalls:
    """Stands for MPI.Request: what waits for many requests waits for each, since an object's fills its array then."""

    def __init__(self, requests: Any) -> None:
        self._requests = requests

    def __getattr__(self, name: str) -> Any:
        communicates = name.endswith(("all", "any", "some"))
        return _refusing(f"Request.{name}") if communicates else getattr(self._requests, name)

    def Waitall(self, requests: list[Any]) -> bool:
        for each in requests:
            each.Wait()
        return True


def _refusing(name: str) -> Any:
    def refuse(*arguments: Any, **named: Any) -> Any:
        raise Unusable(f"--objects: {name} has no way through objects here")

    return refuse


def _operation(op: Any) -> Any:
    from mpi4py import MPI

    return MPI.SUM if op is None else op


def _mine(sendbuf: Any, recvbuf: Any) -> Any:
    from mpi4py import MPI

    return recvbuf if sendbuf is MPI.IN_PLACE else sendbuf


def _view(buffer: Any) -> np.ndarray:
    """The elements that a call names, in one dimension."""
    if isinstance(buffer, (list, tuple)):
        array = np.asarray(buffer[0]).reshape(-1)
        return array[: int(buffer[1])] if len(buffer) > 1 and isinstance(buffer[1], (int, np.integer)) else array
    return np.asarray(buffer).reshape(-1)


def _sent(buffer: Any) -> np.ndarray:
    return _view(buffer)


def _received(buffer: Any, got: np.ndarray) -> None:
    got = np.asarray(got).reshape(-1)
    _view(buffer)[: len(got)] = got


def _divided(buffer: Any) -> tuple[np.ndarray, list[int], list[int]]:
    """[array, counts or (counts, displacements), datatype]."""
    parts = [part for part in buffer[1:] if not hasattr(part, "Get_size")]
    counts, places = parts[0] if isinstance(parts[0], tuple) and len(parts[0]) == 2 else (parts[0], None)
    if len(parts) > 1:
        places = parts[1]
    counts = [int(count) for count in counts]
    if places is None:
        places = np.concatenate([[0], np.cumsum(counts[:-1])])
    return np.asarray(buffer[0]).reshape(-1), counts, [int(place) for place in places]


def _placed(buffer: Any, got: list[np.ndarray]) -> None:
    array, counts, places = _divided(buffer)
    for part, count, place in zip(got, counts, places, strict=True):
        array[place : place + count] = np.asarray(part).reshape(-1)
