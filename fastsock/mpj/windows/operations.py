"""Operations on a window under way, and those of one target together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from fastsock.system.forkable import new_lock

from ..exceptions import Exception as MPIException
from ..messages.operation_records import Transfer, fill_empty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MANY = 64


class Outgoing(Transfer):
    """Data on their way to a target."""

    __slots__ = ()

    def __init__(self, window: Any, request: Any, owner: Any) -> None:
        super().__init__(window, request, receives=False, owner=owner)

    @property
    def over(self) -> bool:
        """Whether nothing is left to do or to tell."""
        return self.ready() and not self.failed


class Incoming(Transfer):
    """Data on their way from a target. Shorter ones say that the target has refused; `complain` tells why."""

    __slots__ = ("complain", "expected", "landing")

    def __init__(
        self, window: Any, request: Any, owner: Any, land: Any, expected: int, complain: Callable[[], BaseException]
    ) -> None:
        super().__init__(window, request, receives=True, owner=owner, land=land)
        self.expected = expected
        self.complain: Callable[[], BaseException] | None = complain
        self.landing = new_lock()

    def look(self, status: Any) -> None:
        fill_empty(status)

    @property
    def over(self) -> bool:
        """Whether nothing is left to do or to tell."""
        return self.complain is None

    def _arrived(self) -> None:
        with self.landing:  # the request and a flush may both wait for it
            complain, self.complain = self.complain, None
            if complain is None:
                return
            length = self.request.envelope.length
            if length != self.expected:
                raise complain()
            if self.land is not None:
                self.land(length)


class Begun:
    """What was begun to one target: `peer` is its rank in the world."""

    def __init__(self, peer: int) -> None:
        self.peer = peer
        self.sending = new_lock()
        """Held while the messages of an operation are sent, which must follow each other."""
        self.sent = 0
        """How many operations were sent whose completion at the target nobody heard of."""
        self.heard = 0
        """How many of these it has confirmed."""
        self.written: Any = None
        """The last write of the device's that nothing has followed yet which says that it is there."""
        self._operations: list[Outgoing | Incoming] = []

    def add(self, operation: Outgoing | Incoming) -> None:
        """Adds an operation. Those that are over go, so that a program may begin any number."""
        if len(self._operations) >= _MANY:
            self._operations = [each for each in self._operations if not each.over]
        self._operations.append(operation)

    def wait(self) -> None:
        """Waits until all operations are complete here. Raises the first error of theirs."""
        failed: MPIException | None = None
        for operation in self._operations.copy():
            operation.wait()
            try:
                operation.finish(None)
            except MPIException as error:
                failed = failed or error
            with suppress(ValueError):
                self._operations.remove(operation)
        if failed is not None:
            raise failed
