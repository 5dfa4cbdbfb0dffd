"""The ranks of other jobs that this rank shares communicators with."""

from __future__ import annotations

from collections import Counter
from importlib import import_module

from fastsock.system.forkable import new_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class Others:
    """Of one rank. `outside`: who they are, and the connections to them; made when the first one becomes known.

    `known`: the same, or None as long as no rank of another job is known.
    """

    def __init__(self, world: Any) -> None:
        self._device, self._size, self._children = world.device, world.size, world.children
        self._world = world
        self.known: Any = None
        self._lock = new_lock()
        self._open: Counter[str] = Counter()  # communicators with members of a job, by the job's identity

    @property
    def outside(self) -> Any:
        """Raises OSError where this rank cannot listen."""
        if self.known is None:
            # few programs need it: it is no part of what a rank imports
            self.known = import_module("fastsock.xxdev.outside").of(self._device)
        return self.known

    def key(self, rank: int) -> tuple[str, int]:
        """What tells a rank of any job apart, in the same order wherever it is known."""
        if self.known is None:
            return "", rank
        found: tuple[str, int] = self.known.key(rank)
        return found

    def precedes(self, one: int, other: int) -> bool:
        """Whether a rank comes before another in what all ranks of all jobs must see the same way."""
        if one < self._size and other < self._size:
            return one < other
        return self.key(one) < self.key(other)

    def opened(self, ranks: Sequence[int]) -> None:
        """A communicator with these ranks is there. Those of other jobs are connected to: so a death is heard of."""
        outside = self.outside
        self._world.revocations.listen_to_other_jobs()
        with self._lock:
            self._open.update(self._jobs(ranks))
        for rank in ranks:
            if rank >= self._size:
                outside.engine.ask_for(rank)

    def closed(self, ranks: Sequence[int]) -> None:
        """A communicator with these ranks is gone."""
        with self._lock:
            jobs = self._jobs(ranks)
            self._open.subtract(jobs)
            apart = {job for job in jobs if self._open[job] <= 0}
        for child in self._children.copy():
            if child.job in apart:
                child.let_go()

    def is_connected(self, job: str) -> bool:
        """Whether there is a communicator with members of that job."""
        with self._lock:
            return self._open[job] > 0

    def _jobs(self, ranks: Sequence[int]) -> set[str]:
        return {self.outside.process(rank).job for rank in ranks if rank >= self._size}
