"""Synchronization of ranks. `Sequential` goes by messages. The others need windows, and raise NotImplementedError."""

from __future__ import annotations

from ..absent import ONE_SIDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, NoReturn, Self

__all__ = ["Condition", "Counter", "Mutex", "Semaphore", "Sequential"]


class Sequential:
    """Sequential execution: each rank waits for the one before it."""

    def __init__(self, comm: Any, tag: int = 0) -> None:
        """Initialize with the communicator, and the tag of the messages that say whose turn it is."""
        self.comm = comm
        self.tag = int(tag)

    def __enter__(self) -> Self:
        """Enter sequential execution."""
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Exit sequential execution."""
        self.end()

    def begin(self) -> None:
        """Begin sequential execution: returns when it is this rank's turn."""
        rank = self.comm.Get_rank()
        if rank > 0:
            self.comm.Recv([bytearray(), 0, "B"], rank - 1, self.tag)

    def end(self) -> None:
        """End sequential execution: it is the next rank's turn."""
        rank = self.comm.Get_rank()
        if rank + 1 < self.comm.Get_size():
            self.comm.Send([b"", 0, "B"], rank + 1, self.tag)


class _InWindows:
    def __init__(self, *_: Any, **__: Any) -> NoReturn:
        """Raises NotImplementedError."""
        raise NotImplementedError(f"mpi4py.util.sync.{type(self).__name__}: {ONE_SIDED}")


class Counter(_InWindows):
    """Global counter. Not there."""


class Mutex(_InWindows):
    """Mutual exclusion. Not there."""


class Condition(_InWindows):
    """Condition variable. Not there."""


class Semaphore(_InWindows):
    """Semaphore object. Not there."""
