"""Ranks of other jobs: how this rank knows them, and its connections to them.

A rank of another job has a number here behind those of the own job, in the order in which they became known. Two
groups of ranks that meet form a bond: the list of all of them, and a secret that they share. It is by a bond that a
rank of one job proves to a rank of another who it is. The connections are those of iodev, whatever device the own job
uses.
"""

from __future__ import annotations

import threading

from ..system.forkable import new_lock
from ..system.originals import originals
from . import hello, settings
from .bonds import Bond, Process, identity
from .errors import Code, failed
from .iodev import Streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


class Outside(Streams):
    """The ranks of other jobs that this one knows, and the connections to them. Listens from its making on."""

    def __init__(self, job: Any, engine: Any, settings: Any) -> None:
        """Raises OSError where this rank cannot listen."""
        super().__init__(job, engine, settings)
        self.job_identity = identity(job)
        self.own_key = (self.job_identity, int(job.rank))
        self._numbers: dict[tuple[str, int], int] = {}
        self._processes: dict[int, Process] = {}
        self._bonds: dict[str, Bond] = {}
        self._agreed: dict[int, Bond] = {}  # by which a rank is reached
        self._table = threading.Lock()
        self.start()

    def publish(self, listener: Any) -> None:
        host, port = listener.getsockname()[:2]
        name = self.job.hostnames[self.job.rank]
        self.own = Process(self.job_identity, self.job.rank, self.job.host, name, originals.getpid(), (host, port))

    # ---- who they are ----

    def process(self, number: int) -> Process:
        """Who has that number here. Raises KeyError for ranks of the own job."""
        return self._processes[number]

    def key(self, number: int) -> tuple[str, int]:
        """What tells a rank apart, in the same order wherever it is known."""
        return (self.job_identity, number) if number < self.job.size else self._processes[number].key

    def numbers(self, processes: Sequence[Process]) -> list[int]:
        """Their numbers here; those that were not known get one. Raises OSError where there are too many."""
        with self._table:
            fresh = [
                process
                for process in processes
                if process.job != self.job_identity and process.key not in self._numbers
            ]
            first = self.engine.add_peers([process.rank for process in fresh]) if fresh else 0
            for number, process in enumerate(fresh, first):
                self._processes[number] = process
                self._numbers[process.key] = number
            return [
                process.rank if process.job == self.job_identity else self._numbers[process.key]
                for process in processes
            ]

    def known(self, keys: Sequence[tuple[str, int]]) -> list[int]:
        """The numbers of those of other jobs that this rank knows."""
        with self._table:
            return [self._numbers[key] for key in keys if key in self._numbers]

    def join(self, bond: Bond) -> None:
        """From now on its members may connect to this rank."""
        with self._table:
            self._bonds[bond.role] = bond

    def trust(self, bond: Bond) -> None:
        """All its members have joined: from now on this rank connects to them by it."""
        with self._table:
            for key in bond.keys:
                number = self._numbers.get(key)
                if number is not None:
                    self._agreed[number] = bond

    def secret_with(self, number: int) -> bytes:
        """What this rank shares with one of another job that it can reach."""
        return self._agreed[number].secret

    # ---- as Connections ask ----

    def parties(self) -> Mapping[str, hello.Party]:
        with self._table:
            return {
                role: hello.Party(bond.secret, role, bond.places[self.own_key], len(bond.keys))
                for role, bond in self._bonds.items()
            }

    def peer_of(self, caller: hello.Caller) -> int:
        with self._table:
            number = self._numbers.get(self._bonds[caller.role].keys[caller.rank])
        if number is None:
            raise hello.HelloError("it is a rank of the same job, or nobody has told of it")
        return number

    def prove(self, peer: int, sock: Any, timeout: float) -> None:
        bond, process = self._agreed[peer], self._processes[peer]
        hello.connect(
            sock,
            secret=bond.secret,
            job=bond.role,
            rank=bond.places[self.own_key],
            peer=bond.places[process.key],
            role=bond.role,
            timeout=timeout,
        )

    def goes_first(self, peer: int) -> bool:
        return self._processes[peer].key < self.own_key

    def name(self, peer: int) -> str:
        process = self._processes[peer]
        return f"rank {process.rank} of another job (host {process.host_name}, pid {process.pid})"

    def reach(self, peer: int) -> Any:
        if peer not in self._agreed:
            raise failed(Code.UNREACHABLE, f"{self.name(peer)} is known, but nothing says that it may be reached", peer)
        return self.reach_at(peer, self._processes[peer].address)


_making = new_lock()


def of(device: Any) -> Outside:
    """The ranks of other jobs that a running device's rank knows; the first call lets them connect. Raises OSError."""
    with _making:
        if device.outside is None:
            engine, size = device.engine, device.job.size
            device.outside = found = Outside(device.job, engine, settings.current())
            inside = engine.on_missing

            def want(peer: int) -> None:
                if peer >= size:
                    found.want(peer)
                elif inside is not None:
                    inside(peer)

            engine.on_missing = want
        known: Outside = device.outside
        return known
