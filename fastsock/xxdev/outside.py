"""Ranks of other jobs: how this rank knows them, and its connections to them.

A rank of another job has a number here behind those of the own job, in the order in which they became known. Two
groups of ranks that meet form a bond: the list of all of them, and a secret that they share. It is by a bond that a
rank of one job proves to a rank of another who it is. The connections are those of iodev, whatever device the own job
uses.
"""

from __future__ import annotations

import threading

from ..system.originals import originals
from ..system.proof import hmac_sha256
from . import hello
from .errors import Code, failed
from .iodev import Streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_ROLE_DIGITS = 12  # a role has 16 bytes at most


class Process:
    """A rank of some job, so that ranks of others can tell it from all others, and reach it."""

    __slots__ = ("address", "host", "host_name", "job", "pid", "rank")

    def __init__(self, job: str, rank: int, host: str, host_name: str, pid: int, address: Sequence[Any]) -> None:
        """`job`: its identity; `host`: the identity of its host; `address`: the IP and the port where it listens."""
        self.job, self.rank = str(job), int(rank)
        self.host, self.host_name, self.pid = str(host), str(host_name), int(pid)
        self.address = str(address[0]), int(address[1])

    @property
    def key(self) -> tuple[str, int]:
        """What tells it apart; all that know it put these in one order."""
        return self.job, self.rank

    def card(self) -> list[Any]:
        """What `Process(*card)` is made of, of numbers and texts."""
        return [self.job, self.rank, self.host, self.host_name, self.pid, list(self.address)]


def identity(job: Any) -> str:
    """What tells a job from all others, which may have the same name."""
    return hmac_sha256(job.secret, b"fastsock.xxdev.outside/1\0" + job.name.encode())[:16].hex()


class Bond:
    """Ranks of several jobs that share a secret. Each has a number in it: its place in the list."""

    def __init__(self, secret: bytes, keys: Sequence[tuple[str, int]]) -> None:
        self.secret = secret
        self.places = {key: place for place, key in enumerate(keys)}
        self.keys = list(keys)
        digest = hmac_sha256(secret, b"fastsock.xxdev.outside/1 role")
        self.role = f"bond{digest.hex()[:_ROLE_DIGITS]}"


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
