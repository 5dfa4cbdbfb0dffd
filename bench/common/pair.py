"""Two processes that hold the two ends of one peer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .peers.peer import Peer
from .process import Process, Unusable

MEETINGS = 5  # a meeting beside TCP may lapse on a crowded machine; it is not what is measured here


class Pair:
    """``near`` connects and keeps the time, ``other`` listens and answers.

    ``wrap`` makes each end's object from the peer, for benches whose ends do more than exchange.
    Raises Unusable with the reason when the peer cannot be measured here.
    """

    def __init__(
        self,
        peer: Peer,
        cores: tuple[int, int] | None,
        wrap: Callable[[Peer], object] | None = None,
    ) -> None:
        self.peer = peer
        for attempt in range(MEETINGS):
            self._fork(cores, wrap or (lambda peer: peer))
            try:
                self._meet()
                return
            except Unusable:
                self.close()
                if attempt == MEETINGS - 1:
                    raise
            except BaseException:
                self.close()
                raise

    def _fork(self, cores: tuple[int, int] | None, wrap: Callable[[Peer], object]) -> None:
        peer = self.peer
        peer.before_fork()
        first, second = cores or (None, None)
        self.other = Process(lambda: wrap(peer), cores=second, environment=peer.environment)
        self.near = Process(lambda: wrap(peer), cores=first, environment=peer.environment)
        peer.after_fork()

    def _meet(self) -> None:
        address = self.other.call("listen")
        self.other.start("accept")
        self.near.call("connect", address)
        self.other.finish()

    def both(self, near: str, other: str, *arguments: Any, timeout: float = 30.0) -> Any:
        """Run a method at each end; returns the near one's result."""
        self.other.start(other, *arguments)
        self.near.start(near, *arguments)
        result = self.near.finish(timeout)
        self.other.finish(timeout)
        return result

    def close(self) -> None:
        """End both processes."""
        self.near.close()
        self.other.close()
